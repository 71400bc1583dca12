//! Tests of TLS between a session and its carrier, with a server in the same process.

use super::super::pins::Pins;
use super::*;
use crate::EngineContext;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::path::PathBuf;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

/// A session that sends `hello` and records its input.
#[derive(Default)]
struct RecordingSession {
    output: Vec<u8>,
    received: Vec<u8>,
    is_open: bool,
    has_ended: bool,
    is_closing: bool,
    requests_tls: bool,
    tls_parameters: Option<TlsParameters>,
}

impl Stream for RecordingSession {
    fn opened(&mut self, _cx: &mut Cx<'_>) {
        self.is_open = true;
        self.output.extend_from_slice(b"hello");
    }

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received.extend_from_slice(data);
        self.requests_tls |= data == b"TLS";
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

impl StreamSession for RecordingSession {
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
        std::mem::take(&mut self.requests_tls)
    }

    fn tls_established(&mut self, parameters: TlsParameters, _cx: &mut Cx<'_>) {
        self.tls_parameters = Some(parameters);
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
struct Fixture {
    tls: MaybeTls<RecordingSession>,
    server: ServerConnection,
    received: Vec<u8>,
    context: EngineContext,
    /// Maximum length in bytes of a transferred piece.
    piece: usize,
}

impl Fixture {
    fn new(trust: Trust, identity: &Identity, piece: usize) -> Self {
        let tls = MaybeTls::from_start(RecordingSession::default(), trust, Duration::from_secs(30));
        let received = Vec::new();
        let context = EngineContext::new(true).unwrap();
        Self { tls, server: identity.server(), received, context, piece }
    }

    /// Transfers data in both directions until no data is left.
    fn transfer_all(&mut self) {
        loop {
            let mut has_transferred = false;
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
                    self.read_plaintext();
                }
                has_transferred = true;
            }
            let mut wire = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut wire).unwrap();
            }
            for piece in wire.chunks(self.piece) {
                self.tls.receive(piece, &mut self.context.cx());
                has_transferred = true;
            }
            if !has_transferred {
                return;
            }
        }
    }

    /// Reads the available plaintext at the server.
    fn read_plaintext(&mut self) {
        let mut plaintext = [0; 4096];
        while let Ok(count @ 1..) = self.server.reader().read(&mut plaintext) {
            self.received.extend_from_slice(&plaintext[..count]);
        }
    }

    fn open(&mut self) {
        self.tls.opened(&mut self.context.cx());
        self.transfer_all();
    }
}

/// Directory of pins that is removed at the end of the test.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("plumb-tls-{name}-{}", std::process::id())))
    }

    fn trust(&self) -> Trust {
        Trust::new("host", 992, None)
            .unwrap()
            .with_pins(Pins::from_path(self.0.join("known_hosts")))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_tls_session_opens_after_the_handshake_and_transfers_data_in_both_directions() {
    let directory = TempDirectory::new("both");
    let identity = Identity::new();
    let mut fixture = Fixture::new(directory.trust(), &identity, 4096);
    fixture.open();
    assert!(fixture.tls.session.is_open);
    assert_eq!(fixture.received, b"hello");
    fixture.server.writer().write_all(b"welcome").unwrap();
    fixture.transfer_all();
    assert_eq!(fixture.tls.session.received, b"welcome");
}

#[test]
fn records_may_be_split_anywhere() {
    let directory = TempDirectory::new("cut");
    let identity = Identity::new();
    let mut fixture = Fixture::new(directory.trust(), &identity, 1);
    fixture.open();
    fixture.server.writer().write_all(&[7; 20_000]).unwrap();
    fixture.transfer_all();
    assert_eq!(fixture.tls.session.received, [7; 20_000]);
}

#[test]
fn the_first_certificate_is_pinned_and_recognized_later() {
    let directory = TempDirectory::new("kept");
    let identity = Identity::new();
    for trusted_by in [TrustedBy::FirstUse, TrustedBy::Pin] {
        let mut fixture = Fixture::new(directory.trust(), &identity, 4096);
        fixture.open();
        let tls_parameters = fixture.tls.session.tls_parameters.unwrap();
        assert_eq!(tls_parameters.trusted_by, trusted_by);
        assert_eq!(tls_parameters.fingerprint, fingerprint(identity.0.cert.der()));
        assert!(tls_parameters.protocol.starts_with("TLS 1.3, "));
    }
}

#[test]
fn a_changed_certificate_is_rejected_before_any_data_is_sent() {
    let directory = TempDirectory::new("other");
    Fixture::new(directory.trust(), &Identity::new(), 4096).open();
    let mut fixture = Fixture::new(directory.trust(), &Identity::new(), 4096);
    fixture.open();
    assert!(matches!(fixture.tls.refusal, Some(TlsFailure::CertificateChanged { .. })));
    assert!(fixture.received.is_empty() && !fixture.tls.session.is_open && fixture.tls.is_over());
}

#[test]
fn input_that_is_not_tls_is_rejected() {
    let directory = TempDirectory::new("no-tls");
    let mut fixture = Fixture::new(directory.trust(), &Identity::new(), 4096);
    fixture.tls.opened(&mut fixture.context.cx());
    fixture.tls.receive(b"\xff\xfd\x18login: ", &mut fixture.context.cx());
    assert!(matches!(fixture.tls.refusal, Some(TlsFailure::HandshakeFailed(_))));
    assert!(fixture.tls.session.received.is_empty());
}

#[test]
fn a_modified_record_is_reported_as_a_failed_session() {
    let directory = TempDirectory::new("changed");
    let mut fixture = Fixture::new(directory.trust(), &Identity::new(), 4096);
    fixture.open();
    let record = [&[23, 3, 3, 0, 32][..], &[7; 32]].concat();
    fixture.tls.receive(&record, &mut fixture.context.cx());
    let refusal = fixture.tls.refusal.take().unwrap();
    assert!(matches!(refusal, TlsFailure::Failed(_)), "{refusal}");
}

#[test]
fn a_silent_server_times_out() {
    let directory = TempDirectory::new("silent");
    let mut fixture = Fixture::new(directory.trust(), &Identity::new(), 4096);
    fixture.tls.opened(&mut fixture.context.cx());
    let until = fixture.tls.deadline().unwrap();
    let mut cx = fixture.context.cx();
    cx.now = until;
    fixture.tls.run(&mut cx);
    assert_eq!(fixture.tls.refusal, Some(TlsFailure::HandshakeTimeout(30)));
}

#[test]
fn an_end_without_close_notify_is_reported_as_truncated() {
    let directory = TempDirectory::new("end");
    let identity = Identity::new();
    let mut fixture = Fixture::new(directory.trust(), &identity, 4096);
    fixture.open();
    fixture.server.send_close_notify();
    fixture.transfer_all();
    fixture.tls.peer_closed(&mut fixture.context.cx());
    assert!(fixture.tls.session.has_ended && !fixture.tls.is_truncated && fixture.tls.is_closing());
    let mut fixture = Fixture::new(directory.trust(), &identity, 4096);
    fixture.open();
    fixture.tls.peer_closed(&mut fixture.context.cx());
    assert!(fixture.tls.session.has_ended && fixture.tls.is_truncated);
}

#[test]
fn close_notify_follows_all_queued_data() {
    let directory = TempDirectory::new("close");
    let identity = Identity::new();
    let mut fixture = Fixture::new(directory.trust(), &identity, 4096);
    fixture.open();
    fixture.tls.session.output.extend_from_slice(&[b'x'; 100_000]);
    fixture.tls.session.is_closing = true;
    fixture.tls.run(&mut fixture.context.cx());
    fixture.transfer_all();
    fixture.tls.run(&mut fixture.context.cx());
    fixture.transfer_all();
    assert_eq!(fixture.received.len(), 5 + 100_000);
    assert!(fixture.tls.is_closing());
    assert_eq!(fixture.server.reader().read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_plaintext_session_switches_to_tls_on_request() {
    let directory = TempDirectory::new("start-tls");
    let identity = Identity::new();
    let mut fixture = Fixture::new(directory.trust(), &identity, 4096);
    fixture.tls = MaybeTls::on_request(
        RecordingSession::default(),
        Some(directory.trust()),
        Duration::from_secs(30),
    );
    fixture.tls.opened(&mut fixture.context.cx());
    assert_eq!(fixture.tls.output(), b"hello");
    fixture.tls.sent(5);
    fixture.tls.receive(b"TLS", &mut fixture.context.cx());
    fixture.transfer_all();
    assert!(fixture.tls.session.tls_parameters.is_some());
    fixture.tls.session.output.extend_from_slice(b"secret");
    fixture.tls.run(&mut fixture.context.cx());
    fixture.transfer_all();
    assert_eq!(fixture.received, b"secret");
}

#[test]
fn an_authority_verifies_only_its_own_certificates() {
    let directory = TempDirectory::new("authority");
    let identity = Identity::new();
    std::fs::create_dir_all(&directory.0).unwrap();
    let file = directory.0.join("ca.pem");
    std::fs::write(&file, identity.0.cert.pem()).unwrap();
    let trust = || Trust::new("host", 992, Some(&file)).unwrap();
    let mut fixture = Fixture::new(trust(), &identity, 4096);
    fixture.open();
    assert_eq!(fixture.tls.session.tls_parameters.unwrap().trusted_by, TrustedBy::Authority);
    let mut fixture = Fixture::new(trust(), &Identity::new(), 4096);
    fixture.open();
    assert!(matches!(fixture.tls.refusal, Some(TlsFailure::VerificationFailed(_))));
}
