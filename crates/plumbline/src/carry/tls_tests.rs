//! Tests of TLS between a session and its carrier, with a server in the same process.

use super::super::pins::Pins;
use super::*;
use crate::carry::Bench;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::PathBuf;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

/// A session that sends `hello` and records its input.
#[derive(Default)]
struct Talker {
    output: Vec<u8>,
    heard: Vec<u8>,
    is_open: bool,
    has_ended: bool,
    is_closing: bool,
    asks_for_tls: bool,
    secured: Option<Secured>,
}

impl Stream for Talker {
    fn opened(&mut self, _cx: &mut Cx<'_>) {
        self.is_open = true;
        self.output.extend_from_slice(b"hello");
    }

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.heard.extend_from_slice(data);
        self.asks_for_tls |= data == b"TLS";
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self, count: usize) {
        self.output.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.has_ended = true;
    }

    fn is_closing(&self) -> bool {
        self.is_closing
    }
}

impl Session for Talker {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn starts_tls(&mut self) -> bool {
        std::mem::take(&mut self.asks_for_tls)
    }

    fn secured(&mut self, how: Secured, _cx: &mut Cx<'_>) {
        self.secured = Some(how);
    }

    fn take_status(&mut self, _status: &CarrierStatus) {}

    fn wants_status(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// Certificate and key of a server.
struct Identity(CertifiedKey<rcgen::KeyPair>);

impl Identity {
    fn new() -> Self {
        Self(generate_simple_self_signed(["host".to_owned()]).unwrap())
    }

    fn server(&self) -> ServerConnection {
        let key = PrivateKeyDer::try_from(self.0.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let configuration = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.0.cert.der().clone()], key)
            .unwrap();
        ServerConnection::new(Arc::new(configuration)).unwrap()
    }
}

/// A session connected to a server through memory.
struct Bay {
    tls: Tls<Talker>,
    server: ServerConnection,
    heard: Vec<u8>,
    bench: Bench,
    /// Maximum length in bytes of a transferred piece.
    piece: usize,
}

impl Bay {
    fn new(trust: Trust, identity: &Identity, piece: usize) -> Self {
        let tls = Tls::from_start(Talker::default(), trust, Duration::from_secs(30));
        let (heard, bench) = (Vec::new(), Bench::new(true).unwrap());
        Self { tls, server: identity.server(), heard, bench, piece }
    }

    /// Transfers data in both directions until none is left.
    fn settle(&mut self) {
        loop {
            let mut has_moved = false;
            while !self.tls.output().is_empty() {
                let piece = self.tls.output().len().min(self.piece);
                let bytes = self.tls.output()[..piece].to_vec();
                self.tls.sent(piece);
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    // The server answers invalid data with an alert.
                    if self.server.read_tls(&mut rest).unwrap() == 0
                        || self.server.process_new_packets().is_err()
                    {
                        break;
                    }
                    self.hear();
                }
                has_moved = true;
            }
            let mut wire = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut wire).unwrap();
            }
            for piece in wire.chunks(self.piece) {
                self.tls.receive(piece, &mut self.bench.cx());
                has_moved = true;
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Reads the available plaintext at the server.
    fn hear(&mut self) {
        let mut plain = [0; 4096];
        while let Ok(count @ 1..) = self.server.reader().read(&mut plain) {
            self.heard.extend_from_slice(&plain[..count]);
        }
    }

    fn open(&mut self) {
        self.tls.opened(&mut self.bench.cx());
        self.settle();
    }
}

/// Directory of pins that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("plumb-tls-{name}-{}", std::process::id())))
    }

    fn trust(&self) -> Trust {
        Trust::new("host", 992, None).unwrap().with_pins(Pins::at(self.0.join("known_hosts")))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_session_in_tls_opens_when_both_have_agreed_and_talks_both_ways() {
    let (folder, identity) = (Folder::new("both"), Identity::new());
    let mut bay = Bay::new(folder.trust(), &identity, 4096);
    bay.open();
    assert!(bay.tls.session.is_open);
    assert_eq!(bay.heard, b"hello");
    bay.server.writer().write_all(b"welcome").unwrap();
    bay.settle();
    assert_eq!(bay.tls.session.heard, b"welcome");
}

#[test]
fn records_may_be_cut_anywhere() {
    let (folder, identity) = (Folder::new("cut"), Identity::new());
    let mut bay = Bay::new(folder.trust(), &identity, 1);
    bay.open();
    bay.server.writer().write_all(&[7; 20_000]).unwrap();
    bay.settle();
    assert_eq!(bay.tls.session.heard, [7; 20_000]);
}

#[test]
fn the_first_certificate_is_kept_and_found_again() {
    let (folder, identity) = (Folder::new("kept"), Identity::new());
    for trusted_by in [TrustedBy::FirstUse, TrustedBy::Pin] {
        let mut bay = Bay::new(folder.trust(), &identity, 4096);
        bay.open();
        let secured = bay.tls.session.secured.unwrap();
        assert_eq!(secured.trusted_by, trusted_by);
        assert_eq!(secured.fingerprint, fingerprint(identity.0.cert.der()));
        assert!(secured.protocol.starts_with("TLS 1.3, "));
    }
}

#[test]
fn another_certificate_is_refused_before_anything_is_said() {
    let folder = Folder::new("other");
    Bay::new(folder.trust(), &Identity::new(), 4096).open();
    let mut bay = Bay::new(folder.trust(), &Identity::new(), 4096);
    bay.open();
    assert!(matches!(bay.tls.refusal, Some(Refusal::Changed { .. })));
    assert!(bay.heard.is_empty() && !bay.tls.session.is_open && bay.tls.is_over());
}

#[test]
fn what_is_no_tls_is_refused() {
    let folder = Folder::new("no-tls");
    let mut bay = Bay::new(folder.trust(), &Identity::new(), 4096);
    bay.tls.opened(&mut bay.bench.cx());
    bay.tls.receive(b"\xff\xfd\x18login: ", &mut bay.bench.cx());
    assert!(matches!(bay.tls.refusal, Some(Refusal::Broken(_))));
    assert!(bay.tls.session.heard.is_empty());
}

#[test]
fn a_record_that_was_changed_on_the_way_is_no_lack_of_tls() {
    let folder = Folder::new("changed");
    let mut bay = Bay::new(folder.trust(), &Identity::new(), 4096);
    bay.open();
    let record = [&[23, 3, 3, 0, 32][..], &[7; 32]].concat();
    bay.tls.receive(&record, &mut bay.bench.cx());
    let refusal = bay.tls.refusal.take().unwrap();
    assert!(matches!(refusal, Refusal::Failed(_)), "{refusal}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let folder = Folder::new("silent");
    let mut bay = Bay::new(folder.trust(), &Identity::new(), 4096);
    bay.tls.opened(&mut bay.bench.cx());
    let until = bay.tls.deadline().unwrap();
    let mut cx = bay.bench.cx();
    cx.now = until;
    bay.tls.run(&mut cx);
    assert_eq!(bay.tls.refusal, Some(Refusal::Silent(30)));
}

#[test]
fn an_end_that_is_said_in_tls_is_told_from_one_that_is_not() {
    let (folder, identity) = (Folder::new("end"), Identity::new());
    let mut bay = Bay::new(folder.trust(), &identity, 4096);
    bay.open();
    bay.server.send_close_notify();
    bay.settle();
    bay.tls.peer_closed(&mut bay.bench.cx());
    assert!(bay.tls.session.has_ended && !bay.tls.is_cut && bay.tls.is_closing());
    let mut bay = Bay::new(folder.trust(), &identity, 4096);
    bay.open();
    bay.tls.peer_closed(&mut bay.bench.cx());
    assert!(bay.tls.session.has_ended && bay.tls.is_cut);
}

#[test]
fn the_end_of_our_side_is_said_behind_all_that_waits() {
    let (folder, identity) = (Folder::new("close"), Identity::new());
    let mut bay = Bay::new(folder.trust(), &identity, 4096);
    bay.open();
    bay.tls.session.output.extend_from_slice(&[b'x'; 100_000]);
    bay.tls.session.is_closing = true;
    bay.tls.run(&mut bay.bench.cx());
    bay.settle();
    bay.tls.run(&mut bay.bench.cx());
    bay.settle();
    assert_eq!(bay.heard.len(), 5 + 100_000);
    assert!(bay.tls.is_closing());
    assert_eq!(bay.server.reader().read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_session_in_clear_goes_over_to_tls_when_it_asks_for_that() {
    let (folder, identity) = (Folder::new("start-tls"), Identity::new());
    let mut bay = Bay::new(folder.trust(), &identity, 4096);
    bay.tls = Tls::when_asked(Talker::default(), Some(folder.trust()), Duration::from_secs(30));
    bay.tls.opened(&mut bay.bench.cx());
    assert_eq!(bay.tls.output(), b"hello");
    bay.tls.sent(5);
    bay.tls.receive(b"TLS", &mut bay.bench.cx());
    bay.settle();
    assert!(bay.tls.session.secured.is_some());
    bay.tls.session.output.extend_from_slice(b"secret");
    bay.tls.run(&mut bay.bench.cx());
    bay.settle();
    assert_eq!(bay.heard, b"secret");
}

#[test]
fn an_authority_vouches_for_its_own_alone() {
    let (folder, identity) = (Folder::new("authority"), Identity::new());
    std::fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("ca.pem");
    std::fs::write(&file, identity.0.cert.pem()).unwrap();
    let trust = || Trust::new("host", 992, Some(&file)).unwrap();
    let mut bay = Bay::new(trust(), &identity, 4096);
    bay.open();
    assert_eq!(bay.tls.session.secured.unwrap().trusted_by, TrustedBy::Authority);
    let mut bay = Bay::new(trust(), &Identity::new(), 4096);
    bay.open();
    assert!(matches!(bay.tls.refusal, Some(Refusal::NotVouchedFor(_))));
}
