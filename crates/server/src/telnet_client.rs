//! Telnet connection of a session, independent of its byte stream and of its back end: the engine,
//! and the queues in both directions.

use super::go_ahead::GoAhead;
use super::login_server::LoginServer;
use super::start_tls_policy::StartTls;
use protocols::telnet::{Command, OptionCode, OptionSet, ServerSettings, Side, Telnet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// Number of bytes queued for the client at which the session stops reading the output of its back
/// end.
const OUTPUT_MAX_LEN: usize = 32 * 1024;
/// Minimum number of queued output bytes for which an interrupt sends a Synch to the client.
const SYNCH_MIN_LEN: usize = 4096;
/// Number of typed bytes queued for the back end at which the session stops reading the client's
/// input.
pub(super) const TYPED_MAX_LEN: usize = 4096;

/// Maximum time for sending the last output of a session, however slowly the client accepts it.
pub(super) const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Sent to a client that continues in cleartext although TLS is required.
const NO_TLS: &[u8] =
    b"This server requires TLS: use telnets, or a client that supports START_TLS.\r\n";

/// Bytes carried by a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionTraffic {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// Telnet connection of a session.
pub(super) struct TelnetClient {
    pub(super) peer: SocketAddr,
    pub(super) server: Rc<LoginServer>,
    pub(super) telnet: Telnet,
    /// Output that did not fit into the Telnet engine's buffer.
    pub(super) unsent_output: Vec<u8>,
    /// Input that the back end has not accepted yet.
    pub(super) typed_input: Vec<u8>,
    pub(super) go_ahead: GoAhead,
    pub(super) started_at: Instant,
    /// Set when the client has closed its half of the connection: the time of the close, or of the
    /// back end's last output after the close.
    pub(super) half_closed_at: Option<Instant>,
    /// Time at which the client has last accepted output of a session that sends its last output.
    pub(super) accepted_at: Option<Instant>,
    pub(super) start_tls: StartTls,
    /// Set if TLS begins after the current output: the bytes that were read after the end of the
    /// cleartext session.
    pub(super) tls_input: Option<Vec<u8>>,
    pub(super) traffic: SessionTraffic,
}

impl TelnetClient {
    /// Creates the connection. START_TLS is allowed in addition to `options` if `start_tls` permits
    /// it.
    pub(super) fn new(
        peer: SocketAddr,
        server: Rc<LoginServer>,
        start_tls: StartTls,
        options: OptionSet,
        variables: &[&str],
    ) -> Self {
        let options =
            if variables.is_empty() { options } else { options.with(OptionCode::NEW_ENVIRON) };
        let settings = ServerSettings {
            allowed_options: match start_tls {
                StartTls::Off => options,
                StartTls::Offered | StartTls::Required => options.with(OptionCode::START_TLS),
            },
            environment: variables.iter().map(|name| (*name).to_owned()).collect(),
            newline_to_cr: true,
            output_limit_bytes: 2 * OUTPUT_MAX_LEN,
            ..ServerSettings::default()
        };
        Self {
            peer,
            server,
            telnet: Telnet::server(&settings),
            unsent_output: Vec::new(),
            typed_input: Vec::new(),
            go_ahead: GoAhead::default(),
            started_at: Instant::now(),
            half_closed_at: None,
            accepted_at: None,
            start_tls,
            tls_input: None,
            traffic: SessionTraffic::default(),
        }
    }

    /// Returns whether the client has agreed to TLS and TLS has not started.
    pub(super) fn awaits_tls(&self) -> bool {
        self.telnet.is_enabled(Side::Remote, OptionCode::START_TLS)
    }

    /// Returns whether the session must not continue in cleartext.
    pub(super) fn needs_tls(&self) -> bool {
        self.awaits_tls() || self.start_tls == StartTls::Required
    }

    /// Queues the reason for the end of a session that must not continue in cleartext.
    pub(super) fn refuse_cleartext(&mut self) {
        self.queue_output(NO_TLS);
    }

    /// Returns whether the session reads from the client.
    pub(super) fn wants_input(&self) -> bool {
        self.typed_input.len() < TYPED_MAX_LEN
            && self.half_closed_at.is_none()
            && self.tls_input.is_none()
    }

    /// Returns whether output for the client is queued.
    pub(super) fn has_output(&self) -> bool {
        !self.telnet.output().is_empty() || !self.unsent_output.is_empty()
    }

    /// Returns whether the output buffer has space for output of the back end. Output that was
    /// already taken from the back end is sent before more is taken.
    pub(super) fn has_output_space(&self) -> bool {
        self.unsent_output.is_empty() && self.telnet.output().len() < OUTPUT_MAX_LEN
    }

    /// Queues bytes for the client.
    pub(super) fn queue_output(&mut self, bytes: &[u8]) {
        self.go_ahead.on_output();
        let queued_bytes = match self.unsent_output.is_empty() {
            true => self.telnet.send(bytes, &mut self.server.engine().cx()),
            false => 0,
        };
        // Further output is dropped if the client sends requests without reading the answers.
        if self.unsent_output.len() < 4 * OUTPUT_MAX_LEN {
            self.unsent_output.extend_from_slice(bytes.get(queued_bytes..).unwrap_or_default());
        }
    }

    /// Moves output to the Telnet engine's buffer as far as it has space.
    pub(super) fn refill_output(&mut self) {
        if self.unsent_output.is_empty() {
            return;
        }
        let unsent_output = std::mem::take(&mut self.unsent_output);
        self.queue_output(&unsent_output);
        if self.awaits_tls() {
            // No more output is sent before TLS, so output that does not fit into the buffer is
            // dropped.
            self.unsent_output.clear();
        }
    }

    /// Discards queued output after an interrupt. A Synch (RFC 1123 §3.2.4) is sent only if much
    /// output is queued: with little output the client needs no Synch, and some clients lose a byte
    /// after one.
    pub(super) fn flush_output(&mut self) {
        self.unsent_output.clear();
        if self.telnet.output().len() >= SYNCH_MIN_LEN {
            self.telnet.command(Command::DataMark, &mut self.server.engine().cx());
        }
    }

    /// Processes the notice of urgent data. The Synch also discards the input that the back end has
    /// not accepted, so that the session reads on to the data mark (RFC 854).
    pub(super) fn on_urgent(&mut self) {
        self.telnet.urgent();
        if self.telnet.is_discarding() {
            self.typed_input.clear();
        }
    }

    /// Records that the client has closed its half of the connection.
    pub(super) fn on_half_close(&mut self) {
        self.half_closed_at = Some(Instant::now());
    }

    /// Records that the client has accepted output.
    pub(super) fn on_accepted(&mut self) {
        self.accepted_at = Some(Instant::now());
    }

    /// Returns the time at which a session that sends its last output since `ended_at` is closed:
    /// when the client has accepted nothing for `timeout`, at most [`LAST_OUTPUT_TIMEOUT`] after
    /// `ended_at`.
    pub(super) fn last_output_deadline(&self, ended_at: Instant, timeout: Duration) -> Instant {
        let accepted_at = self.accepted_at.map_or(ended_at, |at| at.max(ended_at));
        (accepted_at + timeout).min(ended_at + LAST_OUTPUT_TIMEOUT)
    }

    /// Begins TLS after the current output. `rest` are the bytes after the end of the cleartext
    /// session.
    pub(super) fn on_tls_input(&mut self, rest: &[u8]) {
        if let Some(tls_input) = &mut self.tls_input {
            // An attacker may have injected the cleartext input.
            self.typed_input.clear();
            self.unsent_output.clear();
            tls_input.extend_from_slice(rest);
        }
    }

    /// Returns the time at which typed data is acknowledged if it has not been echoed by then, or
    /// at which a go-ahead is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        earliest(self.acknowledgment_due(), self.go_ahead.due())
    }

    /// Returns the time of the acknowledgment. Returns `None` while the output buffer has no space
    /// for the echo.
    fn acknowledgment_due(&self) -> Option<Instant> {
        let due = self.telnet.deadline()?;
        let remaining = due.since(self.server.engine().cx().now);
        self.has_output_space().then(|| Instant::now() + remaining)
    }

    /// Acknowledges typed data if its acknowledgment is due. The back end is polled before the
    /// timer, so an echo that is already available has been read.
    pub(super) fn acknowledge(&mut self) {
        let server = Rc::clone(&self.server);
        let mut engine = server.engine();
        let mut cx = engine.cx();
        if self.telnet.deadline().is_some_and(|due| due <= cx.now) {
            self.telnet.timeout(&mut cx);
        }
    }

    /// Sends a go-ahead if one is due and the client is expected to type.
    pub(super) fn send_go_ahead(&mut self, awaits_input: bool) {
        if self.go_ahead.take_due(Instant::now()) && awaits_input {
            self.telnet.go_ahead(&mut self.server.engine().cx());
        }
    }
}

/// Returns the earlier of two deadlines.
pub(super) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
