//! TLS between a session and whatever carries it: from the first byte, or from the moment at which
//! the session says so (START_TLS), or never.
//!
//! The library does no I/O: what comes from the carrier goes through it to the session, and what
//! the session has to say goes through it to the carrier. So this works over the kernel's sockets
//! and over our own TCP alike. TLS has no urgent data; of a Synch the data mark alone goes through.
//!
//! Who the server is, is decided by its certificate (`trust`).

use super::trust::Trust;
use super::trust::fingerprint;
use super::{Acknowledging, CarrierStatus, Session};
use anyhow::Result;
use protocols::Cx;
use protocols::application::Stream;
use protocols::meter::Account;
use protocols::time::{Duration, Instant};
use std::fmt;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use tokio_rustls::rustls::{ClientConnection, Error as TlsError, ProtocolVersion};

/// What of the session's output lies encrypted and unsent at most; ours: a few records.
const CIPHERTEXT_MAX_BYTES: usize = 64 * 1024;

/// How long the other end may take to close what it said is at its end.
const FAREWELL: Duration = Duration::from_secs(5);

/// How a connection is secured.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    /// The version of TLS and its ciphers.
    pub(crate) protocol: String,
    /// The SHA-256 of the server's certificate.
    pub(crate) fingerprint: String,
    /// By what it is trusted.
    pub(crate) trusted_by: TrustedBy,
}

/// By what a certificate is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustedBy {
    /// It is the one that was known.
    Pin,
    /// It is the first that was seen, and is known from now on.
    FirstUse,
    /// It is the first that was seen, and could not be kept, for this reason.
    FirstUseNotKept(String),
    /// An authority of the user's vouches for it.
    Authority,
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The certificate is another than the known one.
    Changed {
        /// The server, as the file of pins has it.
        server: String,
        /// The known one.
        pinned: String,
        /// The one that was shown.
        shown: String,
        /// Where the known one stands.
        path: String,
    },
    /// No authority of the user's vouches for it.
    NotVouchedFor(String),
    /// The file of pins cannot be read.
    Pins {
        /// Where it is.
        path: String,
        /// What the system says.
        error: String,
    },
    /// The other end does not speak TLS, or breaks its rules.
    Broken(String),
    /// The TLS session failed after it was established.
    Failed(String),
    /// The other end was silent for that many seconds.
    Silent(u64),
    /// The other end closed before TLS had begun.
    Closed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed { server, pinned, shown, path } => write!(
                f,
                "the certificate of {server} has changed, and nothing was sent: somebody may stand \
                 between; it was {pinned} and is now {shown}; if its keeper says that this is \
                 right, take the line of {server} out of {path}"
            ),
            Self::NotVouchedFor(why) => write!(
                f,
                "no authority in the file of --ca vouches for this server ({why}): check the name, \
                 or leave --ca out to pin its certificate"
            ),
            Self::Pins { path, error } => {
                write!(f, "the known certificates in {path} cannot be read: {error}")
            }
            Self::Broken(why) => write!(
                f,
                "there is no TLS with this server ({why}): check that this port is one for TLS"
            ),
            Self::Failed(why) => write!(
                f,
                "the TLS session failed ({why}): what came was changed on the way, or the server \
                 broke the rules of TLS; log in again"
            ),
            Self::Silent(seconds) => write!(
                f,
                "the server did not answer in TLS within {seconds} s: check that this port is one \
                 for TLS"
            ),
            Self::Closed => {
                f.write_str("the server closed before TLS had begun: check that it has TLS")
            }
        }
    }
}

/// A session, in TLS or in clear.
pub(crate) struct Tls<S> {
    /// The session.
    pub(crate) session: S,
    trust: Option<Trust>,
    timeout: Duration,
    state: State,
    /// What waits for the carrier, once TLS has begun.
    ciphertext: Vec<u8>,
    /// Why TLS failed, which ends the session.
    pub(crate) refusal: Option<Refusal>,
    /// Whether the other end closed without saying so in TLS.
    pub(crate) is_cut: bool,
    /// How long the handshake took, once it is over.
    pub(crate) handshake: Option<Duration>,
    began_at: Option<Instant>,
    is_from_start: bool,
}

enum State {
    Clear,
    Handshake {
        connection: Box<ClientConnection>,
        seen: Arc<OnceLock<String>>,
        until: Instant,
    },
    Open(Box<ClientConnection>),
    /// We have said that nothing follows; the other may, until then, if it has said so too.
    Closing {
        connection: Box<ClientConnection>,
        until: Option<Instant>,
    },
    Failed,
}

impl<S: Session> Tls<S> {
    /// Makes a session that begins in TLS.
    pub(crate) fn from_start(session: S, trust: Trust, timeout: Duration) -> Self {
        Self { is_from_start: true, ..Self::when_asked(session, Some(trust), timeout) }
    }

    /// Makes a session that goes over to TLS when it asks for that, if there is somebody to trust.
    pub(crate) fn when_asked(session: S, trust: Option<Trust>, timeout: Duration) -> Self {
        Self {
            session,
            trust,
            timeout,
            state: State::Clear,
            ciphertext: Vec::new(),
            refusal: None,
            is_cut: false,
            handshake: None,
            began_at: None,
            is_from_start: false,
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.began_at = Some(cx.now);
        // What the session has said in clear goes first.
        self.ciphertext.extend_from_slice(self.session.output());
        self.session.sent(self.ciphertext.len());
        let seen = Arc::new(OnceLock::new());
        let connection = match &self.trust {
            Some(trust) => charged(cx, || trust.connect(&seen)),
            None => Err(Refusal::Broken("nobody to trust".to_owned())),
        };
        match connection {
            Ok(connection) => {
                let (connection, until) = (Box::new(connection), cx.now + self.timeout);
                self.state = State::Handshake { connection, seen, until };
                self.encrypt(cx);
            }
            Err(refusal) => self.fail(refusal),
        }
    }

    fn fail(&mut self, refusal: Refusal) {
        self.refusal.get_or_insert(refusal);
        self.state = State::Failed;
    }

    fn connection(&mut self) -> Option<&mut ClientConnection> {
        match &mut self.state {
            State::Clear | State::Failed => None,
            State::Handshake { connection, .. }
            | State::Open(connection)
            | State::Closing { connection, .. } => Some(connection),
        }
    }

    /// Takes what has come from the carrier.
    fn decrypt(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut rest = data;
        while !rest.is_empty() {
            let Some(connection) = self.connection() else { return };
            let (taken, processed) = charged(cx, || {
                // To read from a slice cannot fail.
                (connection.read_tls(&mut rest).unwrap_or(0), connection.process_new_packets())
            });
            if let Err(error) = processed {
                self.put_ciphertext();
                let refusal = self.why_refused(&error);
                return self.fail(refusal);
            }
            self.finish_handshake(cx);
            self.give_plaintext(cx);
            if taken == 0 {
                break;
            }
        }
    }

    fn why_refused(&self, error: &TlsError) -> Refusal {
        match (&self.trust, &self.state) {
            (Some(trust), State::Handshake { seen, .. }) => trust.why_refused(error, seen.get()),
            (None, State::Handshake { .. }) => Refusal::Broken(error.to_string()),
            _ => Refusal::Failed(error.to_string()),
        }
    }

    /// Opens the session, if both ends have now agreed.
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
        self.session.secured(secured, cx);
        if self.is_from_start {
            self.session.opened(cx);
        }
    }

    fn describe(&self, connection: &ClientConnection) -> Secured {
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let fingerprint = certificate.map(fingerprint).unwrap_or_default();
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            _ => "TLS 1.2",
        };
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let suite = suite.and_then(|suite| suite.as_str()).unwrap_or("unknown");
        let trust = self.trust.as_ref();
        let trusted_by = trust.map_or(TrustedBy::Authority, |trust| trust.accepted(&fingerprint));
        Secured { protocol: format!("{version}, {suite}"), fingerprint, trusted_by }
    }

    fn give_plaintext(&mut self, cx: &mut Cx<'_>) {
        let mut plain = [0; 16 * 1024];
        loop {
            let (State::Open(connection) | State::Closing { connection, .. }) = &mut self.state
            else {
                return;
            };
            match charged(cx, || connection.reader().read(&mut plain)) {
                Ok(0) => {
                    self.session.peer_closed(cx);
                    return self.close(Some(cx.now + FAREWELL));
                }
                Ok(count) => {
                    self.session.receive(plain.get(..count).unwrap_or_default(), cx);
                }
                // There is no more now.
                Err(_) => return,
            }
        }
    }

    /// Says that nothing follows.
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

    /// Takes what the session has to say, as far as there is room for it.
    fn put_plaintext(&mut self) {
        let (State::Open(connection) | State::Closing { connection, .. }) = &mut self.state else {
            return;
        };
        if self.ciphertext.len() >= CIPHERTEXT_MAX_BYTES {
            return;
        }
        let output = self.session.output();
        if !output.is_empty() {
            // It takes what fits into its own buffer, which is emptied at once.
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
            // To write to a vector cannot fail.
            if connection.write_tls(&mut self.ciphertext).is_err() {
                return;
            }
        }
    }

    /// Encrypts what the session has to say, after whatever may have made it say something.
    fn encrypt(&mut self, cx: &mut Cx<'_>) {
        if let State::Clear = self.state {
            if self.session.starts_tls() {
                self.begin(cx);
            }
            return;
        }
        charged(cx, || {
            self.put_plaintext();
            self.put_ciphertext();
        });
        if self.session.is_closing() && self.session.output().is_empty() {
            self.close(None);
        }
    }

    fn until(&self) -> Option<Instant> {
        match self.state {
            State::Handshake { until, .. } => Some(until),
            State::Closing { until, .. } => until,
            State::Clear | State::Open(_) | State::Failed => None,
        }
    }

    fn is_clear(&self) -> bool {
        matches!(self.state, State::Clear) && !self.is_from_start
    }
}

/// Makes a call of the library, which is charged to an account of its own.
///
/// What is encrypted because there is room again (`sent`) has no meter at hand, and is charged to
/// whoever has sent.
fn charged<T>(cx: &mut Cx<'_>, call: impl FnOnce() -> T) -> T {
    let left = cx.meter.enter(Account::Encryption);
    let result = call();
    cx.meter.enter(left);
    result
}

impl<S: Session> Stream for Tls<S> {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        if self.is_from_start {
            self.begin(cx);
        } else {
            self.session.opened(cx);
        }
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if let State::Clear = self.state {
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
        if self.is_clear() {
            self.session.urgent(is_ahead);
        }
    }

    fn output(&self) -> &[u8] {
        if self.is_clear() { self.session.output() } else { &self.ciphertext }
    }

    fn urgent_mark(&self) -> Option<usize> {
        if self.is_clear() { self.session.urgent_mark() } else { None }
    }

    fn sent(&mut self, count: usize) {
        if self.is_clear() {
            return self.session.sent(count);
        }
        drop(self.ciphertext.drain(..count.min(self.ciphertext.len())));
        self.put_plaintext();
        self.put_ciphertext();
    }

    fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Clear if self.is_from_start => self.fail(Refusal::Closed),
            State::Handshake { .. } => self.fail(Refusal::Closed),
            State::Clear => self.session.peer_closed(cx),
            State::Open(_) => {
                self.is_cut = true;
                self.session.peer_closed(cx);
            }
            State::Closing { .. } | State::Failed => {}
        }
        self.encrypt(cx);
    }

    fn is_closing(&self) -> bool {
        match self.state {
            State::Clear => self.session.is_closing(),
            State::Handshake { .. } | State::Open(_) => false,
            State::Closing { .. } | State::Failed => true,
        }
    }

    fn wants_to_run(&self) -> bool {
        self.session.wants_to_run()
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if self.until().is_some_and(|until| cx.now >= until) {
            match self.state {
                State::Handshake { .. } => self.fail(Refusal::Silent(self.timeout.as_secs())),
                _ => self.state = State::Failed,
            }
        }
        self.session.run(cx);
        self.encrypt(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.until().into_iter().chain(self.session.deadline()).min()
    }
}

impl<S: Session> Session for Tls<S> {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.session.inputs()
    }

    fn wants_input(&self, index: usize) -> bool {
        self.session.wants_input(index)
    }

    fn has_more_input(&self, index: usize) -> bool {
        self.session.has_more_input(index)
    }

    fn reached(&mut self, address: SocketAddr) {
        self.session.reached(address);
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

    fn is_display_full(&self) -> bool {
        self.session.is_display_full()
    }

    fn takes_break(&mut self) -> bool {
        self.session.takes_break()
    }

    fn acknowledging(&self) -> Acknowledging {
        self.session.acknowledging()
    }

    fn has_gone_out(&mut self, cx: &mut Cx<'_>) {
        self.session.has_gone_out(cx);
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
