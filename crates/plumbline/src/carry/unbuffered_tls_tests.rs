//! Tests of both ends of a TLS connection, connected through memory.

use super::*;
use proptest::prelude::*;
use rcgen::generate_simple_self_signed;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, SupportedProtocolVersion};

/// A connected client and server.
struct Pair {
    client: RecordLayer,
    server: RecordLayer,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        let identity = generate_simple_self_signed(["host".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(identity.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("host").unwrap();
        let client = RecordLayer::client(Arc::new(client), name).unwrap();
        Self { client, server: RecordLayer::server(Arc::new(server)).unwrap() }
    }

    /// Performs the handshake, with pieces of at most `piece` bytes on the wire.
    fn agreed(version: &'static SupportedProtocolVersion, piece: usize) -> Self {
        let mut pair = Self::new(version);
        for _ in 0..10 {
            assert!(hear(&mut pair.client).is_empty());
            carry(&mut pair.client, &mut pair.server, piece);
            assert!(hear(&mut pair.server).is_empty());
            carry(&mut pair.server, &mut pair.client, piece);
        }
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        pair
    }
}

/// Takes turns until more input is needed and returns the decrypted data.
fn hear(layer: &mut RecordLayer) -> Vec<u8> {
    let mut heard = Vec::new();
    while layer.turn(Saying::Nothing, &mut |data| heard.extend_from_slice(data)).unwrap()
        == Turn::Again
    {}
    heard
}

/// Encrypts `saying` at one end, ignoring any data that it receives meanwhile.
fn say(layer: &mut RecordLayer, saying: Saying<'_>) {
    while layer.turn(saying, &mut |_| {}).unwrap() != Turn::Open {}
}

/// Transfers the output of one end to the other, in pieces, and returns the data that it decrypts.
fn carry(from: &mut RecordLayer, to: &mut RecordLayer, piece: usize) -> Vec<u8> {
    let mut heard = Vec::new();
    while !from.output().is_empty() {
        let room = to.room(piece);
        let count = room.len().min(piece).min(from.output().len());
        room[..count].copy_from_slice(&from.output()[..count]);
        to.filled(count);
        from.sent(count);
        heard.extend(hear(to));
    }
    heard
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

#[test]
fn a_file_passes_from_client_to_server() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    let file = pattern(1_000_000);
    say(&mut client, Saying::Data(&file));
    assert!(carry(&mut client, &mut server, usize::MAX) == file);
}

#[test]
fn a_file_passes_from_server_to_client() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    let file = pattern(1_000_000);
    say(&mut server, Saying::Data(&file));
    assert!(carry(&mut server, &mut client, usize::MAX) == file);
}

#[test]
fn a_file_passes_in_the_version_before() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS12, usize::MAX);
    let file = pattern(100_000);
    say(&mut client, Saying::Data(&file));
    assert!(carry(&mut client, &mut server, usize::MAX) == file);
}

#[test]
fn an_end_is_one_that_was_said() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    say(&mut client, Saying::Data(b"data"));
    carry(&mut client, &mut server, usize::MAX);
    assert!(!server.has_ended());
    say(&mut client, Saying::End);
    assert!(carry(&mut client, &mut server, usize::MAX).is_empty());
    assert!(server.has_ended());
}

#[test]
fn who_has_heard_the_end_may_still_say_its_own() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    say(&mut client, Saying::End);
    carry(&mut client, &mut server, usize::MAX);
    say(&mut server, Saying::Data(b"last"));
    say(&mut server, Saying::End);
    assert_eq!(carry(&mut server, &mut client, usize::MAX), b"last");
    assert!(client.has_ended());
    let closed = client.turn(Saying::Data(b"more"), &mut |_| {}).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::NotConnected);
}

#[test]
fn what_was_changed_on_the_way_is_refused_with_an_alert() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    say(&mut client, Saying::Data(b"data"));
    let mut record = client.output().to_vec();
    *record.last_mut().unwrap() ^= 1;
    server.room(0)[..record.len()].copy_from_slice(&record);
    server.filled(record.len());
    assert!(server.output().is_empty());
    server.turn(Saying::Nothing, &mut |_| panic!("data")).unwrap_err();
    assert!(!server.output().is_empty());
}

#[test]
fn what_is_no_record_is_refused() {
    let Pair { mut server, .. } = Pair::new(&TLS13);
    server.room(0)[..13].copy_from_slice(b"STOR a file\r\n");
    server.filled(13);
    server.turn(Saying::Nothing, &mut |_| {}).unwrap_err();
}

#[test]
fn the_room_has_a_limit() {
    let Pair { mut server, .. } = Pair::new(&TLS13);
    let first = server.room(usize::MAX).len();
    server.filled(first);
    let second = server.room(usize::MAX).len();
    server.filled(second);
    assert_eq!((first, first + second), (RECORD_MAX_BYTES, INCOMING_MAX_BYTES));
    assert!(server.room(usize::MAX).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn however_the_wire_is_cut_the_data_is_the_same(
        piece in 1_usize..40_000,
        len in 0_usize..200_000,
    ) {
        let Pair { mut client, mut server } = Pair::agreed(&TLS13, piece);
        let file = pattern(len);
        say(&mut client, Saying::Data(&file));
        prop_assert!(carry(&mut client, &mut server, piece) == file);
    }

    #[test]
    fn no_bytes_of_the_wire_end_anything_but_their_connection(
        wire in prop::collection::vec(any::<u8>(), 0..300),
        is_late in any::<bool>(),
    ) {
        let mut server = match is_late {
            true => Pair::agreed(&TLS13, usize::MAX).server,
            false => Pair::new(&TLS13).server,
        };
        server.room(0)[..wire.len()].copy_from_slice(&wire);
        server.filled(wire.len());
        while matches!(server.turn(Saying::Nothing, &mut |_| {}), Ok(Turn::Again)) {}
        prop_assert!(!server.has_ended());
    }
}
