//! Tests of both ends of a TLS connection, connected through memory.

use super::*;
use proptest::prelude::*;
use test_support::TlsFixture;
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::version::{TLS12, TLS13};

/// A connected client and server.
struct Pair {
    client: RecordLayer,
    server: RecordLayer,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        let TlsFixture { server, client } = TlsFixture::new(version);
        let client = RecordLayer::client(client, TlsFixture::server_name()).unwrap();
        Self { client, server: RecordLayer::server(server).unwrap() }
    }

    /// Performs the handshake, with pieces of at most `piece` bytes on the wire.
    fn agreed(version: &'static SupportedProtocolVersion, piece: usize) -> Self {
        let mut pair = Self::new(version);
        for _ in 0..10 {
            assert!(decrypt(&mut pair.client).is_empty());
            transfer(&mut pair.client, &mut pair.server, piece);
            assert!(decrypt(&mut pair.server).is_empty());
            transfer(&mut pair.server, &mut pair.client, piece);
        }
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        pair
    }
}

/// Processes input until more is needed and returns the decrypted data.
fn decrypt(layer: &mut RecordLayer) -> Vec<u8> {
    let mut received = Vec::new();
    while layer.process(TlsWrite::Nothing, &mut |data| received.extend_from_slice(data)).unwrap()
        == Progress::Again
    {}
    received
}

/// Encrypts `write` at one end and ignores data that this end receives in the meantime.
fn encrypt(layer: &mut RecordLayer, write: TlsWrite<'_>) {
    while layer.process(write, &mut |_| {}).unwrap() != Progress::Done {}
}

/// Transfers the output of `from` to `to`, in pieces of at most `piece` bytes, and returns the data
/// that `to` decrypts.
fn transfer(from: &mut RecordLayer, to: &mut RecordLayer, piece: usize) -> Vec<u8> {
    let mut received = Vec::new();
    while !from.output().is_empty() {
        let room = to.room(piece);
        let count = room.len().min(piece).min(from.output().len());
        room[..count].copy_from_slice(&from.output()[..count]);
        to.mark_received(count);
        from.mark_sent(count);
        received.extend(decrypt(to));
    }
    received
}

fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

#[test]
fn a_file_passes_from_client_to_server() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    let file = pattern(1_000_000);
    encrypt(&mut client, TlsWrite::Data(&file));
    assert!(transfer(&mut client, &mut server, usize::MAX) == file);
}

#[test]
fn a_file_passes_from_server_to_client() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    let file = pattern(1_000_000);
    encrypt(&mut server, TlsWrite::Data(&file));
    assert!(transfer(&mut server, &mut client, usize::MAX) == file);
}

#[test]
fn a_file_passes_over_tls_1_2() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS12, usize::MAX);
    let file = pattern(100_000);
    encrypt(&mut client, TlsWrite::Data(&file));
    assert!(transfer(&mut client, &mut server, usize::MAX) == file);
}

#[test]
fn only_close_notify_ends_the_stream() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    encrypt(&mut client, TlsWrite::Data(b"data"));
    transfer(&mut client, &mut server, usize::MAX);
    assert!(!server.has_ended());
    encrypt(&mut client, TlsWrite::CloseNotify);
    assert!(transfer(&mut client, &mut server, usize::MAX).is_empty());
    assert!(server.has_ended());
}

#[test]
fn an_end_that_received_close_notify_can_still_send_data_and_close_notify() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    encrypt(&mut client, TlsWrite::CloseNotify);
    transfer(&mut client, &mut server, usize::MAX);
    encrypt(&mut server, TlsWrite::Data(b"last"));
    encrypt(&mut server, TlsWrite::CloseNotify);
    assert_eq!(transfer(&mut server, &mut client, usize::MAX), b"last");
    assert!(client.has_ended());
    let error = client.process(TlsWrite::Data(b"more"), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
}

#[test]
fn a_modified_record_is_rejected_with_an_alert() {
    let Pair { mut client, mut server } = Pair::agreed(&TLS13, usize::MAX);
    encrypt(&mut client, TlsWrite::Data(b"data"));
    let mut record = client.output().to_vec();
    *record.last_mut().unwrap() ^= 1;
    server.room(0)[..record.len()].copy_from_slice(&record);
    server.mark_received(record.len());
    assert!(server.output().is_empty());
    server.process(TlsWrite::Nothing, &mut |_| panic!("data")).unwrap_err();
    assert!(!server.output().is_empty());
}

#[test]
fn input_that_is_not_a_tls_record_is_rejected() {
    let Pair { mut server, .. } = Pair::new(&TLS13);
    server.room(0)[..13].copy_from_slice(b"STOR a file\r\n");
    server.mark_received(13);
    server.process(TlsWrite::Nothing, &mut |_| {}).unwrap_err();
}

#[test]
fn the_input_buffer_has_a_limit() {
    let Pair { mut server, .. } = Pair::new(&TLS13);
    let first_room = server.room(usize::MAX).len();
    server.mark_received(first_room);
    let second_room = server.room(usize::MAX).len();
    server.mark_received(second_room);
    assert_eq!((first_room, first_room + second_room), (RECORD_MAX_BYTES, INCOMING_MAX_BYTES));
    assert!(server.room(usize::MAX).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_of_the_records_delivers_the_same_data(
        piece in 1_usize..40_000,
        len in 0_usize..200_000,
    ) {
        let Pair { mut client, mut server } = Pair::agreed(&TLS13, piece);
        let file = pattern(len);
        encrypt(&mut client, TlsWrite::Data(&file));
        prop_assert!(transfer(&mut client, &mut server, piece) == file);
    }

    #[test]
    fn arbitrary_input_never_counts_as_close_notify(
        wire in prop::collection::vec(any::<u8>(), 0..300),
        is_late in any::<bool>(),
    ) {
        let mut server = match is_late {
            true => Pair::agreed(&TLS13, usize::MAX).server,
            false => Pair::new(&TLS13).server,
        };
        server.room(0)[..wire.len()].copy_from_slice(&wire);
        server.mark_received(wire.len());
        while matches!(server.process(TlsWrite::Nothing, &mut |_| {}), Ok(Progress::Again)) {}
        prop_assert!(!server.has_ended());
    }
}
