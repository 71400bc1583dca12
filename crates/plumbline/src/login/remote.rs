//! Remote end of a session. Processes received data, Telnet options, compression, TLS and the
//! control of a remote serial line. Without Telnet, data passes unchanged.

use super::emulated_terminal::{EmulatedTerminal, HEATH19_SIZE};
use super::paging::WrappedText;
use super::predicted::Predict;
use super::prompt::KeyTarget;
use super::script::ScriptAction;
use super::session::{Login, Stage};
use super::session_settings::{LoginProtocol, LoginSettings, Mode, TlsUse};
use carrier::{TlsParameters, TrustedBy};
use net::Cx;
use net::time::Duration;
use os::serial::{DataBits, FlowControl, LineSettings, Parity, StopBits};
use protocols::telnet::{
    ComPortCommand, ComPortEvent, Command, Control, EndOfLine, Event, LinemodeEvent, OptionCode,
    Side, Telnet, UserSettings,
};

/// Maximum number of bytes queued for a carrier without Telnet. Our choice: a few screenfuls.
const RAW_MAX_BYTES: usize = 16 * 1024;

/// Maximum number of notices queued for an emulated terminal until the next write. Our choice.
/// Further notices appear in the recording only.
const NOTICES_MAX: usize = 256;

/// Maximum number of bytes decompressed in one step.
const INFLATE_MAX_BYTES: usize = 16 * 1024;

/// Maximum time for which typed keys are queued until a console server answers the request for
/// BINARY. Our choice: longer than a round trip to any host on Earth.
const BINARY_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Duration of a BREAK at a console server: a few characters at 110 bits per second.
const BREAK_DURATION: Duration = Duration::from_millis(300);

/// Returns the window size, in columns and rows, that is reported to the remote host.
pub(super) fn remote_window(settings: &LoginSettings, window: (u16, u16)) -> (u16, u16) {
    match (settings.emulation.is_heath19(), settings.has_status_line) {
        (true, _) => HEATH19_SIZE,
        (false, true) => (window.0, window.1.saturating_sub(1).max(1)),
        (false, false) => window,
    }
}

/// Creates the Telnet engine of a session.
pub(super) fn telnet(settings: &LoginSettings, window: (u16, u16), is_secured: bool) -> Telnet {
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
    let mut telnet = Telnet::user(&UserSettings {
        terminal_type: settings.terminal_type.clone(),
        window,
        // The session has already converted line ends; the engine only encodes a CR as CR NUL.
        end_of_line: EndOfLine::CrNul,
        starts_negotiation: settings.starts_negotiation,
        charsets: settings.encoding.charsets(),
        allowed_options,
        ..UserSettings::default()
    });
    telnet.set_inspection(settings.inspects);
    telnet.run_over_lines();
    telnet
}

impl Login {
    /// Returns whether the session uses Telnet.
    pub(super) fn is_telnet(&self) -> bool {
        matches!(self.settings.protocol, LoginProtocol::Telnet | LoginProtocol::ComPort(_))
    }

    pub(super) fn start_telnet(&mut self, cx: &mut Cx<'_>) {
        if !self.is_telnet() {
            return;
        }
        self.telnet.set_inspection(self.settings.inspects || self.logs.records_negotiation());
        self.telnet.start(cx);
        let is_console = matches!(self.settings.protocol, LoginProtocol::ComPort(_));
        if self.settings.is_binary || is_console {
            self.ask_binary(true, cx);
        }
        // Several console servers forward the NUL of a CR NUL to the serial line, so keys are
        // queued until the server answers the request for BINARY.
        self.binary_deadline = is_console.then(|| cx.now + BINARY_ANSWER_TIMEOUT);
    }

    /// Restarts Telnet inside TLS.
    pub(super) fn restart_telnet(&mut self, cx: &mut Cx<'_>) {
        self.show_negotiation(cx);
        self.telnet = telnet(&self.settings, self.remote_window(), true);
        self.inflater = Default::default();
        self.start_telnet(cx);
    }

    /// Queues data for Telnet or for the carrier; returns the number of accepted bytes.
    pub(super) fn queue_output(&mut self, data: &[u8], cx: &mut Cx<'_>) -> usize {
        if self.is_telnet() {
            return self.telnet.send(data, cx);
        }
        let count = data.len().min(RAW_MAX_BYTES.saturating_sub(self.raw_output.len()));
        self.raw_output.extend_from_slice(data.get(..count).unwrap_or_default());
        count
    }

    /// Processes data from the carrier.
    pub(super) fn process_received(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if !self.is_telnet() {
            return self.show_remote(data, cx);
        }
        let mut rest = data;
        while !rest.is_empty() {
            if !self.inflater.is_on() {
                if !self.process_telnet(&mut rest, cx) {
                    return;
                }
                continue;
            }
            let mut piece = vec![0; INFLATE_MAX_BYTES];
            loop {
                match self.inflater.inflate(&mut rest, &mut piece, cx) {
                    Ok(0) => break,
                    Ok(count) => {
                        let mut plaintext = piece.get(..count).unwrap_or_default();
                        while !plaintext.is_empty() && self.process_telnet(&mut plaintext, cx) {}
                    }
                    Err(_) => {
                        return self.refuse(
                            "invalid compressed data from the server: log in with --no-compress"
                                .to_owned(),
                        );
                    }
                }
            }
        }
    }

    /// Processes uncompressed Telnet data until all of it is consumed, or until compressed data or
    /// TLS follows. Returns `false` if TLS follows, so that the rest must be discarded.
    fn process_telnet(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) -> bool {
        while let Some(event) = self.telnet.receive(input, cx) {
            match event {
                Event::Data(_) if self.drops_output(cx) => {}
                Event::Data(run) => self.show_remote(run, cx),
                Event::Option {
                    side: Side::Local,
                    option: OptionCode::COM_PORT,
                    enabled: true,
                } => {
                    self.set_up_line(cx);
                }
                Event::Option { side, option, .. } => {
                    if (side, option) == (Side::Local, OptionCode::BINARY) {
                        self.end_binary_wait();
                    }
                    self.apply_linemode(cx);
                }
                Event::Linemode(LinemodeEvent::Mode(_)) => self.apply_linemode(cx),
                Event::TimingMark { .. } => {
                    self.output_drop_deadline = None;
                    self.on_timing_mark(cx);
                }
                Event::EchoAcknowledged(position) => self.echo_acknowledged(position, cx),
                Event::Refused { side: Side::Local, option } => self.on_refused(option),
                Event::ComPort(event) => self.on_com_port(*event),
                Event::CompressionStarted => {
                    self.inflater.start();
                    return true;
                }
                Event::StartTls => {
                    // The server sends nothing between START_TLS and the start of TLS; any further
                    // data is discarded.
                    self.starts_tls = true;
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    /// Adapts to changed options: if lines are no longer edited locally, a partial line is sent.
    pub(super) fn follow_options(&mut self, cx: &mut Cx<'_>) {
        if !self.line.is_empty() && !self.is_line_mode() {
            self.send_line_now(cx);
        }
    }

    fn on_refused(&mut self, option: OptionCode) {
        match option {
            OptionCode::BINARY => self.end_binary_wait(),
            OptionCode::START_TLS if self.awaits_tls() => self.refuse(
                "the server does not support START_TLS: use telnets://, or omit --tls to log in \
                 unencrypted"
                    .to_owned(),
            ),
            OptionCode::START_TLS if self.has_used_tls_before => self.notify(
                "This server supported TLS in an earlier session and refuses it now: the session \
                 is unencrypted. --tls always refuses such sessions.",
            ),
            OptionCode::COM_PORT => self.refuse(
                "the server does not support RFC 2217, so the line cannot be configured: use \
                 telnet:// to keep its present settings"
                    .to_owned(),
            ),
            _ => {}
        }
    }

    /// Sends the serial line parameters to a console server (RFC 2217).
    fn set_up_line(&mut self, cx: &mut Cx<'_>) {
        let LoginProtocol::ComPort(line) = self.settings.protocol else { return };
        for command in commands(line) {
            // Ignored: these few commands fit into the output queue, and COM-PORT is enabled.
            _ = self.telnet.com_port(&command, cx);
        }
    }

    fn on_com_port(&mut self, event: ComPortEvent) {
        if let ComPortEvent::Refused { requested, current } = &event {
            self.notify(&format!(
                "The server did not set {requested:?}: the line has {current:?}."
            ));
        }
        // Some servers report messages in the signature only.
        if let ComPortEvent::Answer(ComPortCommand::Signature(text))
        | ComPortEvent::Notice(ComPortCommand::Signature(text)) = event
        {
            self.notify(&format!("Message from the server: {text}"));
        }
    }

    /// Starts a BREAK on the line of a console server; returns whether the command could be sent.
    pub(super) fn begin_break(&mut self, cx: &mut Cx<'_>) -> bool {
        let begin = ComPortCommand::Control(Control::BREAK_ON);
        let is_sent = self.telnet.com_port(&begin, cx).is_ok();
        if is_sent {
            self.break_deadline = Some(cx.now + BREAK_DURATION);
        }
        is_sent
    }

    pub(super) fn end_break(&mut self, cx: &mut Cx<'_>) {
        let end = ComPortCommand::Control(Control::BREAK_OFF);
        let is_sent = self.telnet.com_port(&end, cx).is_ok();
        self.break_deadline = (!is_sent
            && self.telnet.is_enabled(Side::Local, OptionCode::COM_PORT))
        .then(|| cx.now + BREAK_DURATION);
    }

    /// Sends a command; returns `false` if the connection cannot accept the command.
    pub(super) fn queue_command(&mut self, command: Command, cx: &mut Cx<'_>) -> bool {
        match (command, self.settings.protocol) {
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

    /// Displays received data. If held output exceeded its limit and was displayed, the prompt is
    /// displayed again.
    fn show_remote(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut decoded = Vec::new();
        let mut text = data;
        // A Heath-19 has its own character set.
        let is_heath19 = self.emulator.as_ref().is_some_and(EmulatedTerminal::is_heath19);
        if !is_heath19 && !self.decoder.is_plain() {
            self.decoder.decode(data, &mut decoded);
            text = &decoded;
        }
        let mut lines = Vec::new();
        if self.settings.protocol == LoginProtocol::Tcp && self.settings.is_interactive {
            self.insert_carriage_returns(text, &mut lines);
            text = &lines;
        }
        self.logs.record_output(text, cx.now);
        if let Some(script) = &mut self.script {
            script.receive(text);
        }
        if let Some(line) = &mut self.status_line {
            line.output_received(cx.now);
        }
        if self.emulator.is_some() {
            return self.show_emulated(text, cx);
        }
        if self.screen.put_remote(text, cx.now) {
            self.show_prompt();
        }
    }

    /// Inserts a CR before each LF that does not follow a CR: in raw mode, LF alone leaves the
    /// cursor in the same column.
    fn insert_carriage_returns(&mut self, text: &[u8], lines: &mut Vec<u8>) {
        for &byte in text {
            if byte == b'\n' && !self.last_was_cr {
                lines.push(b'\r');
            }
            lines.push(byte);
            self.last_was_cr = byte == b'\r';
        }
    }

    /// Runs the script, if there is one, as far as it can proceed now.
    pub(super) fn run_script(&mut self, cx: &mut Cx<'_>) {
        while self.stage == Stage::Open
            && !self.awaits_tls()
            && let Some(script) = &mut self.script
            && let Some(action) = script.next_action(cx.now)
        {
            self.perform(action, cx);
        }
    }

    /// Notifies the script that the remote host has closed the connection.
    pub(super) fn end_script(&mut self, cx: &mut Cx<'_>) {
        if let Some(script) = &mut self.script {
            script.end();
        }
        while let Some(script) = &mut self.script
            && let Some(action) = script.next_action(cx.now)
        {
            self.perform(action, cx);
        }
    }

    fn perform(&mut self, action: ScriptAction, cx: &mut Cx<'_>) {
        match action {
            ScriptAction::Send(keys) => self.send_keys(&keys, cx),
            ScriptAction::Break => _ = self.queue_command(Command::Break, cx),
            ScriptAction::Say(sentence) => super::say(&sentence),
            ScriptAction::Interact => {
                self.script = None;
                self.enter_raw_mode();
            }
            ScriptAction::Exit(code, why) => {
                self.script = None;
                self.script_end = Some((code, why));
                if self.stage == Stage::Open {
                    self.stage = Stage::LocalClosed;
                }
            }
        }
    }

    /// Displays the local echo.
    pub(super) fn show_echo(&mut self, echo: &[u8], cx: &mut Cx<'_>) {
        self.logs.record_output(echo, cx.now);
        if self.emulator.is_some() {
            return self.show_emulated(echo, cx);
        }
        self.screen.put(echo);
    }

    /// Displays and records the Telnet negotiation, and reports once that a recording or log has
    /// stopped.
    pub(super) fn show_negotiation(&mut self, cx: &mut Cx<'_>) {
        while let Some(record) = self.telnet.take_record() {
            let record = record.to_string();
            self.logs.record_note(&record, cx.now);
            if self.settings.inspects {
                self.notify(&record);
            }
        }
        if let Some(failure) = self.logs.take_failure() {
            self.notify(&failure);
        }
        for sentence in std::mem::take(&mut self.notices) {
            let mut page = WrappedText::new(self.window.0);
            page.push_sentence(&sentence);
            if let Some(emulator) = &mut self.emulator {
                emulator.show_notice(page.finish().trim_end(), cx);
                self.needs_redraw = true;
            }
        }
    }

    /// Displays a notice: on a line of its own, or on stderr if the terminal is not in raw mode.
    pub(super) fn notify(&mut self, sentence: &str) {
        if !self.terminal.is_raw() {
            return super::say(sentence);
        }
        if self.emulator.is_some() && !matches!(self.key_target, KeyTarget::Prompt(_)) {
            if self.notices.len() < NOTICES_MAX {
                self.notices.push(sentence.to_owned());
            }
            return;
        }
        let mut page = WrappedText::new(self.window.0);
        page.push_sentence(sentence);
        if self.screen.is_in_line() {
            self.screen.put(b"\r\n");
        }
        self.screen.put(format!("\x1b[2m{}\x1b[22m\r\n", page.finish().trim_end()).as_bytes());
        self.show_prompt();
    }

    /// Reports a certificate that was accepted at first use.
    pub(super) fn notify_certificate(&mut self, parameters: &TlsParameters) {
        let fingerprint = &parameters.fingerprint;
        match &parameters.trusted_by {
            TrustedBy::Pin | TrustedBy::Authority => {}
            TrustedBy::FirstUse => self.notify(&format!(
                "New certificate of {}, SHA-256 {fingerprint}, saved to known_hosts.",
                self.peer
            )),
            TrustedBy::FirstUseNotPinned(why) => self.notify(&format!(
                "New certificate of {}, SHA-256 {fingerprint}, not saved: {why}.",
                self.peer
            )),
        }
    }
}

/// Returns the commands that set the parameters of a serial line.
fn commands(line: LineSettings) -> [ComPortCommand; 5] {
    [
        ComPortCommand::BaudRate(line.bits_per_second),
        ComPortCommand::DataSize(match line.data_bits {
            DataBits::Five => 5,
            DataBits::Six => 6,
            DataBits::Seven => 7,
            DataBits::Eight => 8,
        }),
        ComPortCommand::Parity(match line.parity {
            Parity::None => 1,
            Parity::Odd => 2,
            Parity::Even => 3,
            Parity::Mark => 4,
            Parity::Space => 5,
        }),
        ComPortCommand::StopSize(match line.stop_bits {
            StopBits::One => 1,
            StopBits::Two => 2,
        }),
        ComPortCommand::Control(match line.flow_control {
            FlowControl::None => Control::NO_FLOW,
            FlowControl::Software => Control::XON_XOFF,
            FlowControl::Hardware => Control::HARDWARE,
        }),
    ]
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
