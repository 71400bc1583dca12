//! TLS between a session and its carrier: from the first byte, from the moment at which the session
//! requests TLS (START_TLS), or never.
//!
//! The TLS library does no I/O: data from the carrier passes through the library to the session,
//! and the session's output passes through the library to the carrier. The same code therefore
//! serves the kernel's sockets and the user-space TCP. TLS has no urgent data. In TLS only the data
//! mark of a Synch is sent.
//!
//! The server is authenticated by its certificate (`trust`).

use super::trust::{Trust, fingerprint};
use super::{AckPolicy, CarrierStatus, Outcome, StreamSession};
use super::{TlsFailure, TlsParameters, TrustedBy};
use anyhow::Result;
use net::Cx;
use net::application::Stream;
use net::meter::Account;
use net::time::{Duration, Instant};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use tokio_rustls::rustls::{ClientConnection, Error as TlsError, ProtocolVersion};

/// Maximum encrypted output waiting to be sent, in bytes; our choice: a few records.
const CIPHERTEXT_MAX_BYTES: usize = 64 * 1024;

/// Time limit for the peer to close the connection after close_notify.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A session, in TLS or in plaintext.
pub struct MaybeTls<S> {
    /// The session.
    pub session: S,
    trust: Option<Trust>,
    timeout: Duration,
    state: State,
    /// Encrypted output for the carrier, once TLS has begun.
    ciphertext: Vec<u8>,
    /// Reason why TLS failed, which ends the session.
    pub refusal: Option<TlsFailure>,
    /// Whether the peer closed the connection without close_notify.
    pub is_truncated: bool,
    /// Duration of the handshake, once it is complete.
    pub handshake: Option<Duration>,
    began_at: Option<Instant>,
    is_from_start: bool,
}

enum State {
    Plaintext,
    Handshake {
        connection: Box<ClientConnection>,
        presented_fingerprint: Arc<OnceLock<String>>,
        until: Instant,
    },
    Open(Box<ClientConnection>),
    /// We have sent close_notify; until the deadline the peer may still send data or close.
    Closing {
        connection: Box<ClientConnection>,
        until: Option<Instant>,
    },
    Failed,
}

impl<S: StreamSession> MaybeTls<S> {
    /// Creates a session that starts in TLS.
    pub fn from_start(session: S, trust: Trust, timeout: Duration) -> Self {
        Self { is_from_start: true, ..Self::on_request(session, Some(trust), timeout) }
    }

    /// Creates a session that switches to TLS on its own request, if `trust` is present.
    pub fn on_request(session: S, trust: Option<Trust>, timeout: Duration) -> Self {
        Self {
            session,
            trust,
            timeout,
            state: State::Plaintext,
            ciphertext: Vec::new(),
            refusal: None,
            is_truncated: false,
            handshake: None,
            began_at: None,
            is_from_start: false,
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.began_at = Some(cx.now);
        // Plaintext output that the session produced before TLS began is sent first.
        self.ciphertext.extend_from_slice(self.session.output());
        self.session.sent(self.ciphertext.len());
        let presented_fingerprint = Arc::new(OnceLock::new());
        let connection = match &self.trust {
            Some(trust) => charge_to_encryption(cx, || trust.connect(&presented_fingerprint)),
            None => Err(TlsFailure::HandshakeFailed("no trust anchors".to_owned())),
        };
        match connection {
            Ok(connection) => {
                let connection = Box::new(connection);
                let until = cx.now + self.timeout;
                self.state = State::Handshake { connection, presented_fingerprint, until };
                self.encrypt(cx);
            }
            Err(refusal) => self.fail(refusal),
        }
    }

    fn fail(&mut self, refusal: TlsFailure) {
        self.refusal.get_or_insert(refusal);
        self.state = State::Failed;
    }

    fn connection(&mut self) -> Option<&mut ClientConnection> {
        match &mut self.state {
            State::Plaintext | State::Failed => None,
            State::Handshake { connection, .. }
            | State::Open(connection)
            | State::Closing { connection, .. } => Some(connection),
        }
    }

    /// Decrypts data from the carrier and passes it to the session.
    fn decrypt(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut rest = data;
        while !rest.is_empty() {
            let Some(connection) = self.connection() else { return };
            let (accepted, processed) = charge_to_encryption(cx, || {
                // Reading from a slice cannot fail.
                (connection.read_tls(&mut rest).unwrap_or(0), connection.process_new_packets())
            });
            if let Err(error) = processed {
                self.put_ciphertext();
                let refusal = self.refusal_for(&error);
                return self.fail(refusal);
            }
            self.finish_handshake(cx);
            self.deliver_plaintext(cx);
            if accepted == 0 {
                break;
            }
        }
    }

    fn refusal_for(&self, error: &TlsError) -> TlsFailure {
        match (&self.trust, &self.state) {
            (Some(trust), State::Handshake { presented_fingerprint, .. }) => {
                trust.refusal_for(error, presented_fingerprint.get())
            }
            (None, State::Handshake { .. }) => TlsFailure::HandshakeFailed(error.to_string()),
            _ => TlsFailure::Failed(error.to_string()),
        }
    }

    /// Opens the session if the handshake is complete.
    fn finish_handshake(&mut self, cx: &mut Cx<'_>) {
        let is_done = matches!(&self.state, State::Handshake { connection, .. }
            if !connection.is_handshaking());
        if !is_done {
            return;
        }
        let State::Handshake { connection, .. } = std::mem::replace(&mut self.state, State::Failed)
        else {
            return;
        };
        self.handshake = self.began_at.map(|began_at| cx.now - began_at);
        let secured = self.describe(&connection);
        self.state = State::Open(connection);
        self.session.tls_established(secured, cx);
        if self.is_from_start {
            self.session.opened(cx);
        }
    }

    fn describe(&self, connection: &ClientConnection) -> TlsParameters {
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let fingerprint = certificate.map(fingerprint).unwrap_or_default();
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            _ => "TLS 1.2",
        };
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let suite = suite.and_then(|suite| suite.as_str()).unwrap_or("unknown");
        let trust = self.trust.as_ref();
        let trusted_by =
            trust.map_or(TrustedBy::Authority, |trust| trust.trust_basis(&fingerprint));
        TlsParameters { protocol: format!("{version}, {suite}"), fingerprint, trusted_by }
    }

    fn deliver_plaintext(&mut self, cx: &mut Cx<'_>) {
        let mut plaintext = [0; 16 * 1024];
        loop {
            let (State::Open(connection) | State::Closing { connection, .. }) = &mut self.state
            else {
                return;
            };
            match charge_to_encryption(cx, || connection.reader().read(&mut plaintext)) {
                Ok(0) => {
                    self.session.peer_closed(cx);
                    return self.close(Some(cx.now + CLOSE_TIMEOUT));
                }
                Ok(count) => {
                    self.session.receive(plaintext.get(..count).unwrap_or_default(), cx);
                }
                // No more plaintext is available.
                Err(_) => return,
            }
        }
    }

    /// Sends close_notify.
    fn close(&mut self, until: Option<Instant>) {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Open(connection) => {
                self.state = State::Closing { connection, until };
                self.put_plaintext();
                if let Some(connection) = self.connection() {
                    connection.send_close_notify();
                }
                self.put_ciphertext();
            }
            State::Closing { connection, until: before } => {
                self.state = State::Closing { connection, until: before.or(until) };
            }
            other => self.state = other,
        }
    }

    /// Encrypts output of the session, unless the limit of waiting ciphertext is reached.
    fn put_plaintext(&mut self) {
        let (State::Open(connection) | State::Closing { connection, .. }) = &mut self.state else {
            return;
        };
        if self.ciphertext.len() >= CIPHERTEXT_MAX_BYTES {
            return;
        }
        let output = self.session.output();
        if !output.is_empty() {
            // The writer accepts as much as its own buffer holds; `put_ciphertext` empties that
            // buffer.
            let count = connection.writer().write(output).unwrap_or(0);
            self.session.sent(count);
        }
    }

    fn put_ciphertext(&mut self) {
        let (State::Handshake { connection, .. }
        | State::Open(connection)
        | State::Closing { connection, .. }) = &mut self.state
        else {
            return;
        };
        while connection.wants_write() {
            // Writing to a vector cannot fail.
            if connection.write_tls(&mut self.ciphertext).is_err() {
                return;
            }
        }
    }

    /// Encrypts the session's output. Called after each event that may have produced output.
    fn encrypt(&mut self, cx: &mut Cx<'_>) {
        if let State::Plaintext = self.state {
            if self.session.starts_tls() {
                self.begin(cx);
            }
            return;
        }
        charge_to_encryption(cx, || {
            self.put_plaintext();
            self.put_ciphertext();
        });
        if self.session.is_closing() && self.session.output().is_empty() {
            self.close(None);
        }
    }

    fn expires_at(&self) -> Option<Instant> {
        match self.state {
            State::Handshake { until, .. } => Some(until),
            State::Closing { until, .. } => until,
            State::Plaintext | State::Open(_) | State::Failed => None,
        }
    }

    fn is_plaintext(&self) -> bool {
        matches!(self.state, State::Plaintext) && !self.is_from_start
    }
}

/// Calls the TLS library and charges the time to the encryption account.
///
/// `Stream::sent` also encrypts output, but has no meter. The time of that encryption is charged to
/// the caller's account.
fn charge_to_encryption<T>(cx: &mut Cx<'_>, call: impl FnOnce() -> T) -> T {
    let previous_account = cx.meter.enter(Account::Encryption);
    let result = call();
    cx.meter.enter(previous_account);
    result
}

impl<S: StreamSession> Stream for MaybeTls<S> {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        if self.is_from_start {
            self.begin(cx);
        } else {
            self.session.opened(cx);
        }
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if let State::Plaintext = self.state {
            self.session.receive(data, cx);
        } else {
            self.decrypt(data, cx);
        }
        self.encrypt(cx);
    }

    fn wants_data(&self) -> bool {
        self.session.wants_data()
    }

    fn urgent(&mut self, is_ahead: bool) {
        if self.is_plaintext() {
            self.session.urgent(is_ahead);
        }
    }

    fn output(&self) -> &[u8] {
        if self.is_plaintext() { self.session.output() } else { &self.ciphertext }
    }

    fn urgent_mark(&self) -> Option<usize> {
        if self.is_plaintext() { self.session.urgent_mark() } else { None }
    }

    fn sent(&mut self, count: usize) {
        if self.is_plaintext() {
            return self.session.sent(count);
        }
        drop(self.ciphertext.drain(..count.min(self.ciphertext.len())));
        self.put_plaintext();
        self.put_ciphertext();
    }

    fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Plaintext if self.is_from_start => self.fail(TlsFailure::Closed),
            State::Handshake { .. } => self.fail(TlsFailure::Closed),
            State::Plaintext => self.session.peer_closed(cx),
            State::Open(_) => {
                self.is_truncated = true;
                self.session.peer_closed(cx);
            }
            State::Closing { .. } | State::Failed => {}
        }
        self.encrypt(cx);
    }

    fn is_closing(&self) -> bool {
        match self.state {
            State::Plaintext => self.session.is_closing(),
            State::Handshake { .. } | State::Open(_) => false,
            State::Closing { .. } | State::Failed => true,
        }
    }

    fn wants_to_run(&self) -> bool {
        self.session.wants_to_run()
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.expires_at().is_some_and(|until| cx.now >= until) {
            match self.state {
                State::Handshake { .. } => {
                    self.fail(TlsFailure::HandshakeTimeout(self.timeout.as_secs()));
                }
                _ => self.state = State::Failed,
            }
        }
        self.session.run(cx);
        self.encrypt(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.expires_at().into_iter().chain(self.session.deadline()).min()
    }
}

impl<S: StreamSession> StreamSession for MaybeTls<S> {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.session.inputs()
    }

    fn wants_input(&self, index: usize) -> bool {
        self.session.wants_input(index)
    }

    fn has_more_input(&self, index: usize) -> bool {
        self.session.has_more_input(index)
    }

    fn set_remote_address(&mut self, address: SocketAddr) {
        self.session.set_remote_address(address);
    }

    fn take_input(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<()> {
        self.session.take_input(index, cx)?;
        self.encrypt(cx);
        Ok(())
    }

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        self.session.flush(cx)
    }

    fn display(&self) -> Option<BorrowedFd<'_>> {
        self.session.display()
    }

    fn connection_ended(&mut self, outcome: Option<Outcome>, cx: &mut Cx<'_>) {
        // A refusal ends the session like a local error.
        self.session.connection_ended(outcome.filter(|_| self.refusal.is_none()), cx);
    }

    fn is_display_full(&self) -> bool {
        self.session.is_display_full()
    }

    fn take_break_request(&mut self) -> bool {
        self.session.take_break_request()
    }

    fn ack_policy(&self) -> AckPolicy {
        self.session.ack_policy()
    }

    fn wants_receive_delays(&self) -> bool {
        self.session.wants_receive_delays()
    }

    fn take_receive_delay(&mut self, delay: Duration) {
        // A TLS record may arrive in several reads, so the delay of one read is not the delay of
        // the decrypted data.
        if let State::Plaintext = self.state {
            self.session.take_receive_delay(delay);
        }
    }

    fn output_written(&mut self, cx: &mut Cx<'_>) {
        self.session.output_written(cx);
    }

    fn take_status(&mut self, status: &CarrierStatus) {
        self.session.take_status(status);
    }

    fn wants_status(&self) -> bool {
        self.session.wants_status()
    }

    fn is_over(&self) -> bool {
        let is_failed = matches!(self.state, State::Failed) && self.ciphertext.is_empty();
        is_failed || self.session.is_over()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
