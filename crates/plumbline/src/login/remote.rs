//! Received data of a session: compression, Telnet events, TLS, and the text for the display, the
//! recording and the script. Without Telnet, data passes unchanged.

use super::session::Login;
use carrier::{TlsParameters, TrustedBy};
use net::Cx;
use protocols::telnet::{ComPortCommand, ComPortEvent, Event, LinemodeEvent, OptionCode, Side};
use records::escape::without_error_numbers;

/// Maximum number of bytes decompressed in one step.
const INFLATE_MAX_BYTES: usize = 16 * 1024;

impl Login {
    /// Starts the negotiation of Telnet.
    pub(super) fn start_telnet(&mut self, cx: &mut Cx<'_>) {
        self.protocol.start(&self.settings, self.logs.records_negotiation(), cx);
    }

    /// Restarts Telnet inside TLS.
    pub(super) fn restart_telnet(&mut self, cx: &mut Cx<'_>) {
        self.show_negotiation(cx);
        let window = self.display.remote_window(&self.settings);
        self.protocol.reset(&self.settings, window);
        self.start_telnet(cx);
    }

    /// Processes data from the carrier.
    pub(super) fn process_received(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if !self.protocol.is_telnet() {
            return self.process_session_data(data, cx);
        }
        let is_first = self.status.traffic().bytes_in == data.len() as u64;
        if let Some(identification) = carrier::ssh_identification(data).filter(|_| is_first) {
            return self.refuse(format!("this is an SSH server ({identification}): use ssh"));
        }
        let mut rest = data;
        while !rest.is_empty() {
            if !self.protocol.is_inflating() {
                if !self.process_telnet(&mut rest, cx) {
                    return;
                }
                continue;
            }
            let mut piece = vec![0; INFLATE_MAX_BYTES];
            loop {
                match self.protocol.inflate(&mut rest, &mut piece, cx) {
                    Some(0) => break,
                    Some(count) => {
                        let mut plaintext = piece.get(..count).unwrap_or_default();
                        while !plaintext.is_empty() && self.process_telnet(&mut plaintext, cx) {}
                    }
                    None => {
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
        while let Some(event) = self.protocol.receive(input, cx) {
            match event {
                Event::Data(_) if self.protocol.drops_output(cx) => {}
                Event::Data(run) => self.process_session_data(run, cx),
                Event::NulAfterCr => self.process_nul_after_cr(cx),
                Event::Option {
                    side: Side::Local,
                    option: OptionCode::COM_PORT,
                    enabled: true,
                } => {
                    self.protocol.set_up_line(cx);
                }
                Event::Option { side, option, .. } => {
                    if (side, option) == (Side::Local, OptionCode::BINARY) {
                        self.protocol.end_binary_wait();
                    }
                    self.apply_linemode(cx);
                }
                Event::Linemode(LinemodeEvent::Mode(_)) => self.apply_linemode(cx),
                Event::TimingMark { .. } => {
                    self.protocol.end_output_drop();
                    self.display.prediction.timing_mark_answered(cx);
                }
                Event::EchoAcknowledged(position) => self.echo_acknowledged(position, cx),
                Event::Refused { side: Side::Local, option } => self.on_refused(option),
                Event::ComPort(event) => self.on_com_port(*event),
                Event::CompressionStarted => {
                    self.protocol.start_inflating();
                    return true;
                }
                Event::StartTls => {
                    // The server sends nothing between START_TLS and the start of TLS; any further
                    // data is discarded.
                    self.protocol.start_tls.negotiated();
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    /// Adapts to changed options: if lines are no longer edited locally, a partial line is sent.
    pub(super) fn follow_options(&mut self, cx: &mut Cx<'_>) {
        if !self.input.line.is_empty() && !self.is_line_mode() {
            self.send_line_now(cx);
        }
    }

    fn on_refused(&mut self, option: OptionCode) {
        match option {
            OptionCode::BINARY => self.protocol.end_binary_wait(),
            OptionCode::START_TLS if self.protocol.start_tls.is_awaited() => self.refuse(
                "the server does not support START_TLS: use telnets://, or omit --tls to log in \
                 unencrypted"
                    .to_owned(),
            ),
            OptionCode::START_TLS if self.protocol.start_tls.has_used_before() => self.notify(
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

    /// Processes the remote host's acknowledgment that the echo of all bytes before `position` was
    /// sent.
    fn echo_acknowledged(&mut self, position: u64, cx: &mut Cx<'_>) {
        if let Some(last_key) = self.display.prediction.take_last_key_before(position) {
            // The acknowledgment covers all text received before it, so that text, including the
            // text of an emulated terminal, passes through the predictor first.
            self.render();
            self.display.predict_pending_output(cx);
            self.display.prediction.echo_acknowledged(last_key, cx);
        }
    }

    /// Displays received data. If held output exceeded its limit and was displayed, the prompt is
    /// displayed again.
    pub(super) fn show_remote(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let text = self.display.decode(data);
        self.logs.record_output(&text, cx.now);
        self.input.show_to_script(&text);
        self.display.output_received(cx.now);
        if self.display.is_emulated() {
            return self.show_emulated(&text, cx);
        }
        if self.display.screen.put_remote(&text, cx.now) {
            self.show_prompt();
        }
    }

    /// Displays the local echo.
    pub(super) fn show_echo(&mut self, echo: &[u8], cx: &mut Cx<'_>) {
        self.logs.record_output(echo, cx.now);
        if self.display.is_emulated() {
            return self.show_emulated(echo, cx);
        }
        self.display.screen.put(echo);
    }

    /// Passes text to the emulated terminal and sends the terminal's responses to the remote host.
    fn show_emulated(&mut self, text: &[u8], cx: &mut Cx<'_>) {
        self.display.show_emulated(text, cx);
        self.send_emulator_output(cx);
    }

    /// Sends the output of the emulated terminal: its responses, and the keys of a Heath-19.
    pub(super) fn send_emulator_output(&mut self, cx: &mut Cx<'_>) {
        let output = self.display.take_emulator_output();
        if output.is_empty() {
            return;
        }
        if self.display.is_heath19() && self.echoes_locally() {
            self.logs.record_output(&output, cx.now);
            self.display.show_emulated(&output, cx);
        }
        self.send_keys(&output, cx);
    }

    /// Displays and records the Telnet negotiation, and reports once that a recording or log has
    /// stopped.
    pub(super) fn show_negotiation(&mut self, cx: &mut Cx<'_>) {
        while let Some(record) = self.protocol.take_record() {
            let record = record.to_string();
            self.logs.record_note(&record, cx.now);
            if self.settings.inspects {
                self.notify(&record);
            }
        }
        if let Some(failure) = self.logs.take_failure() {
            self.notify(&failure);
        }
        self.display.show_notices(cx);
    }

    /// Displays a notice: on a line of its own, or on stderr if the terminal is not in raw mode.
    pub(super) fn notify(&mut self, sentence: &str) {
        let sentence = &without_error_numbers(sentence);
        if !self.input.keyboard.is_raw() {
            return super::say(sentence);
        }
        if self.display.is_emulated() && !self.input.is_at_prompt() {
            return self.display.queue_notice(sentence);
        }
        self.display.put_notice(sentence);
        self.show_prompt();
    }

    /// Reports a certificate that was accepted at first use.
    pub(super) fn notify_certificate(&mut self, parameters: &TlsParameters) {
        let fingerprint = &parameters.fingerprint;
        let peer = self.status.peer();
        match &parameters.trusted_by {
            TrustedBy::Pin | TrustedBy::Authority | TrustedBy::NotVerified => {}
            TrustedBy::FirstUse => self.notify(&format!(
                "New certificate of {peer}, SHA-256 {fingerprint}, saved to known_hosts."
            )),
            TrustedBy::FirstUseNotPinned(why) => self.notify(&format!(
                "New certificate of {peer}, SHA-256 {fingerprint}, not saved: {why}."
            )),
        }
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
