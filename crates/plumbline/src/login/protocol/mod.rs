//! Protocol with the remote host: the Telnet engine with its compression, the data that waits for
//! it, START_TLS, and the control of a serial line. Without Telnet, data passes unchanged.

mod com_port;
pub(super) mod linemode_state;
mod start_tls;

use super::session_settings::{LoginProtocol, LoginSettings, Mode, Predict, TlsUse};
use net::Cx;
use net::time::{Duration, Instant};
use protocols::telnet::{
    Command, Decompressor, EndOfLine, EnvironmentVariable, Event, InspectionRecord, OptionCode,
    OptionRow, Side, Telnet, UserSettings,
};
use start_tls::StartTls;

/// Maximum number of typed bytes queued for a remote host that accepts none. Our choice: a long
/// paste.
pub(super) const UNSENT_MAX_BYTES: usize = 64 * 1024;

/// Maximum number of bytes queued for a carrier without Telnet. Our choice: a few screenfuls.
const RAW_MAX_BYTES: usize = 16 * 1024;

/// Maximum time for which typed keys are queued until a console server answers the request for
/// BINARY. Our choice: longer than a round trip to any host on Earth.
const BINARY_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Protocol part of a login.
pub(super) struct SessionProtocol {
    kind: LoginProtocol,
    /// Whether the keyboard is read although data is queued, so that the queue needs a limit.
    has_queue_limit: bool,
    telnet: Telnet,
    inflater: Decompressor,
    /// Output queued for the carrier if the session does not use Telnet.
    raw_output: Vec<u8>,
    /// Input that did not fit into Telnet's output queue.
    unsent_input: Vec<u8>,
    has_room: bool,
    /// Negotiation and parameters of TLS.
    pub(super) start_tls: StartTls,
    /// Whether the serial line must send a BREAK.
    wants_break: bool,
    /// End of the BREAK at a console server.
    break_deadline: Option<Instant>,
    /// Deadline for the answer to the request for BINARY; typed data is queued until then.
    binary_deadline: Option<Instant>,
    /// Time until which received output is dropped, unless the answer to the timing mark arrives
    /// earlier.
    output_drop_deadline: Option<Instant>,
}

impl SessionProtocol {
    /// Creates the protocol of a session; `window` is the size that is reported to the remote host.
    pub(super) fn new(settings: &LoginSettings, window: (u16, u16)) -> Self {
        let is_required = settings.tls == TlsUse::Always && settings.protocol.is_telnet();
        Self {
            kind: settings.protocol,
            has_queue_limit: settings.is_interactive,
            telnet: telnet(settings, window, false),
            inflater: Decompressor::default(),
            raw_output: Vec::new(),
            unsent_input: Vec::new(),
            has_room: false,
            start_tls: StartTls::new(is_required),
            wants_break: false,
            break_deadline: None,
            binary_deadline: None,
            output_drop_deadline: None,
        }
    }

    /// Starts the negotiation. If `is_recorded`, the engine reports each command for the recording.
    pub(super) fn start(&mut self, settings: &LoginSettings, is_recorded: bool, cx: &mut Cx<'_>) {
        if !self.is_telnet() {
            return;
        }
        self.telnet.set_inspection(settings.inspects || is_recorded);
        self.telnet.start(cx);
        let is_console = matches!(self.kind, LoginProtocol::ComPort(_));
        if settings.is_binary || is_console {
            self.ask_binary(true, cx);
        }
        // Several console servers forward the NUL of a CR NUL to the serial line, so keys are
        // queued until the server answers the request for BINARY.
        self.binary_deadline = is_console.then(|| cx.now + BINARY_ANSWER_TIMEOUT);
    }

    /// Discards all negotiated state, before Telnet starts again inside TLS.
    pub(super) fn reset(&mut self, settings: &LoginSettings, window: (u16, u16)) {
        self.telnet = telnet(settings, window, true);
        self.inflater = Decompressor::default();
    }

    /// Returns whether the session uses Telnet.
    pub(super) fn is_telnet(&self) -> bool {
        self.kind.is_telnet()
    }

    /// Returns whether a Telnet option is enabled on one side.
    pub(super) fn is_enabled(&self, side: Side, option: OptionCode) -> bool {
        self.telnet.is_enabled(side, option)
    }

    /// Returns whether ECHO is negotiated so that the local side echoes.
    pub(super) fn echoes_locally(&self) -> bool {
        self.telnet.echoes_locally()
    }

    /// Returns the state of each option.
    pub(super) fn options(&self) -> impl Iterator<Item = OptionRow> {
        self.telnet.options()
    }

    /// Selects whether the engine reports each command.
    pub(super) fn set_inspection(&mut self, is_on: bool) {
        self.telnet.set_inspection(is_on);
    }

    /// Returns and removes the oldest report of a command.
    pub(super) fn take_record(&mut self) -> Option<InspectionRecord> {
        self.telnet.take_record()
    }

    /// Reports a new window size, in columns and rows, to the remote host.
    pub(super) fn resize(&mut self, (columns, rows): (u16, u16), cx: &mut Cx<'_>) {
        self.telnet.resize(columns, rows, cx);
    }

    /// Requests or ends BINARY in both directions (RFC 856).
    pub(super) fn ask_binary(&mut self, enable: bool, cx: &mut Cx<'_>) {
        for side in [Side::Local, Side::Remote] {
            // Ignored: the request fails only if the option already has that state or was already
            // requested.
            _ = self.telnet.ask(side, OptionCode::BINARY, enable, cx);
        }
    }

    /// Prepares for the content of files: requests BINARY in both directions, unless it is enabled;
    /// typed data is queued until the answer arrives. Returns whether BINARY was requested.
    pub(super) fn begin_binary(&mut self, cx: &mut Cx<'_>) -> bool {
        self.telnet.set_file_content(true);
        let is_enabled = |side| self.telnet.is_enabled(side, OptionCode::BINARY);
        if !self.is_telnet() || (is_enabled(Side::Local) && is_enabled(Side::Remote)) {
            return false;
        }
        if !is_enabled(Side::Local) {
            self.binary_deadline = Some(cx.now + BINARY_ANSWER_TIMEOUT);
        }
        self.ask_binary(true, cx);
        true
    }

    /// Returns to text after the content of files.
    pub(super) fn end_file_content(&mut self) {
        self.telnet.set_file_content(false);
    }

    /// Returns whether Telnet without BINARY carries the output, and adds a NUL to a CR.
    pub(super) fn sends_nul_after_cr(&self) -> bool {
        self.is_telnet() && !self.telnet.is_enabled(Side::Local, OptionCode::BINARY)
    }

    /// Returns whether the content of files passes Telnet without BINARY in a direction.
    pub(super) fn lacks_binary(&self) -> bool {
        let is_enabled = |side| self.telnet.is_enabled(side, OptionCode::BINARY);
        self.is_telnet() && !(is_enabled(Side::Local) && is_enabled(Side::Remote))
    }

    /// Releases the data that has waited for the remote host's answer about BINARY.
    pub(super) fn end_binary_wait(&mut self) {
        self.has_room |= self.binary_deadline.take().is_some();
    }

    /// Requests that the remote host acknowledge echoes, or that it stop doing so.
    pub(super) fn ask_acknowledgments(&mut self, wants: bool, cx: &mut Cx<'_>) {
        // Ignored: without this option, the prediction uses timing marks.
        _ = self.telnet.ask(Side::Remote, OptionCode::ECHO_ACKNOWLEDGMENT, wants, cx);
    }

    /// Returns whether the remote host acknowledges echoes.
    pub(super) fn has_acknowledgments(&self) -> bool {
        self.telnet.is_enabled(Side::Remote, OptionCode::ECHO_ACKNOWLEDGMENT)
    }

    /// Returns the position in the sent stream.
    pub(super) fn sent_position(&self) -> u64 {
        self.telnet.sent_position()
    }

    /// Sends a timing mark (RFC 860) if the remote host echoes; returns whether it is sent. The
    /// request fails if the output queue is full, because the mark would overtake the keys that did
    /// not fit into the queue.
    pub(super) fn ask_timing_mark(&mut self, cx: &mut Cx<'_>) -> bool {
        self.telnet.is_enabled(Side::Remote, OptionCode::ECHO)
            && self.telnet.ask(Side::Remote, OptionCode::TIMING_MARK, true, cx).is_ok()
    }

    /// Returns the next event of received data without compression.
    pub(super) fn receive<'a>(
        &mut self,
        input: &mut &'a [u8],
        cx: &mut Cx<'_>,
    ) -> Option<Event<'a>> {
        self.telnet.receive(input, cx)
    }

    /// Starts the decompression of all further received data.
    pub(super) fn start_inflating(&mut self) {
        self.inflater.start();
    }

    /// Returns whether received data is compressed.
    pub(super) fn is_inflating(&self) -> bool {
        self.inflater.is_on()
    }

    /// Decompresses the next piece of `input` into `plaintext`; returns its length, or `None` if
    /// the data is invalid. A length of 0 means that no piece is left.
    pub(super) fn inflate(
        &mut self,
        input: &mut &[u8],
        plaintext: &mut [u8],
        cx: &mut Cx<'_>,
    ) -> Option<usize> {
        self.inflater.inflate(input, plaintext, cx).ok()
    }

    /// Processes urgent data: the start of a Synch if `is_ahead`, otherwise its end.
    pub(super) fn urgent(&mut self, is_ahead: bool) {
        match is_ahead {
            true => self.telnet.urgent(),
            false => self.telnet.urgent_ended(),
        }
    }

    /// Passes data to Telnet and queues the part that does not fit into Telnet's output queue. If
    /// that part does not fit into the queue either, it is dropped and the result is `false`.
    pub(super) fn send(&mut self, data: &[u8], cx: &mut Cx<'_>) -> bool {
        let may_send = self.unsent_input.is_empty() && self.binary_deadline.is_none();
        let accepted_bytes = if may_send { self.queue_output(data, cx) } else { 0 };
        let rest = data.get(accepted_bytes..).unwrap_or_default();
        if self.has_queue_limit && self.unsent_input.len() + rest.len() > UNSENT_MAX_BYTES {
            return false;
        }
        self.unsent_input.extend_from_slice(rest);
        true
    }

    /// Passes queued data to Telnet.
    pub(super) fn send_queued(&mut self, cx: &mut Cx<'_>) {
        if self.binary_deadline.is_some_and(|until| cx.now >= until) {
            self.binary_deadline = None;
        }
        self.has_room = false;
        if self.binary_deadline.is_some() || self.unsent_input.is_empty() {
            return;
        }
        let unsent_input = std::mem::take(&mut self.unsent_input);
        let accepted_bytes = self.queue_output(&unsent_input, cx);
        self.unsent_input.extend_from_slice(unsent_input.get(accepted_bytes..).unwrap_or_default());
    }

    /// Returns whether no data is queued for Telnet, and less than `max_bytes` for the carrier.
    pub(super) fn has_room(&self, max_bytes: usize) -> bool {
        let queued_len =
            if self.is_telnet() { self.telnet.queued_len() } else { self.raw_output.len() };
        self.unsent_input.is_empty() && queued_len < max_bytes
    }

    /// Discards the data that is queued for Telnet.
    pub(super) fn drop_unsent(&mut self) {
        self.unsent_input.clear();
    }

    /// Returns the number of bytes that [`Self::send_queued`] has to pass to Telnet.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_input.len()
    }

    /// Returns whether [`Self::send_queued`] can pass data to Telnet.
    pub(super) fn can_send_queued(&self) -> bool {
        self.has_room && self.binary_deadline.is_none() && !self.unsent_input.is_empty()
    }

    /// Discards the queued data, because the remote host has closed the connection.
    pub(super) fn peer_closed(&mut self) {
        self.unsent_input.clear();
        self.binary_deadline = None;
    }

    /// Queues data for Telnet or for the carrier; returns the number of accepted bytes.
    fn queue_output(&mut self, data: &[u8], cx: &mut Cx<'_>) -> usize {
        if self.is_telnet() {
            return self.telnet.send(data, cx);
        }
        let count = data.len().min(RAW_MAX_BYTES.saturating_sub(self.raw_output.len()));
        self.raw_output.extend_from_slice(data.get(..count).unwrap_or_default());
        count
    }

    /// Sends a command; returns `false` if the connection cannot accept the command.
    pub(super) fn queue_command(&mut self, command: Command, cx: &mut Cx<'_>) -> bool {
        match (command, self.kind) {
            (Command::Break, LoginProtocol::Serial) => {
                self.wants_break = true;
                true
            }
            (Command::Break, LoginProtocol::ComPort(_)) if self.begin_break(cx) => true,
            (_, LoginProtocol::Tcp | LoginProtocol::Serial) => false,
            // RFC 1123 §3.2.4: a Synch delivers these commands even if the peer does not read the
            // data before them.
            (
                Command::InterruptProcess | Command::AbortOutput | Command::Abort | Command::Break,
                _,
            ) => self.telnet.urgent_command(command, cx),
            (command, _) => self.telnet.command(command, cx),
        }
    }

    /// Returns the output for the carrier.
    pub(super) fn output(&self) -> &[u8] {
        if self.is_telnet() { self.telnet.output() } else { &self.raw_output }
    }

    /// Returns the end of urgent data in the output.
    pub(super) fn urgent_mark(&self) -> Option<usize> {
        self.telnet.urgent_mark()
    }

    /// Removes output that the carrier has accepted.
    pub(super) fn sent(&mut self, count: usize) {
        if self.is_telnet() {
            self.telnet.sent(count);
        } else {
            drop(self.raw_output.drain(..count.min(self.raw_output.len())));
        }
        self.has_room = true;
    }

    /// Returns the earliest of the deadlines.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let tls_deadline = self.start_tls.deadline();
        tls_deadline.into_iter().chain(self.break_deadline).chain(self.binary_deadline).min()
    }
}

/// Creates the Telnet engine of a session.
fn telnet(settings: &LoginSettings, window: (u16, u16), is_secured: bool) -> Telnet {
    let mut allowed_options = UserSettings::OPTIONS;
    if !settings.refuses_compression {
        allowed_options = allowed_options.with(OptionCode::COMPRESS2);
    }
    if settings.tls != TlsUse::Never && !is_secured {
        allowed_options = allowed_options.with(OptionCode::START_TLS);
    }
    // Acknowledgments of echoes are requested only if echoes are predicted.
    if !settings.is_interactive || settings.predict == Predict::Never {
        allowed_options = allowed_options.without(OptionCode::ECHO_ACKNOWLEDGMENT);
    }
    if settings.is_interactive && settings.mode == Mode::Automatic {
        allowed_options = allowed_options.with(OptionCode::LINEMODE);
    }
    if let LoginProtocol::ComPort(_) = settings.protocol {
        allowed_options = allowed_options.with(OptionCode::COM_PORT);
    }
    if settings.user.is_some() {
        allowed_options = allowed_options.with(OptionCode::NEW_ENVIRON);
    }
    let user = settings.user.iter().map(|user| EnvironmentVariable::new("USER", user));
    let mut telnet = Telnet::user(&UserSettings {
        terminal_type: settings.terminal_type.clone(),
        window,
        // The session has already converted line ends; the engine only encodes a CR as CR NUL.
        end_of_line: EndOfLine::CrNul,
        starts_negotiation: settings.starts_negotiation,
        charsets: settings.encoding.charsets(),
        allowed_options,
        environment: user.collect(),
        ..UserSettings::default()
    });
    telnet.set_inspection(settings.inspects);
    telnet.run_over_lines();
    telnet
}
