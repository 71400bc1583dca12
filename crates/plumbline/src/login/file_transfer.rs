//! Files transferred over the session by XMODEM, YMODEM and ZMODEM.
//!
//! While a transfer runs, received data is passed to it, ^C cancels it, and the display shows only
//! its progress. Data after its end is displayed. A ZMODEM sender on the remote host starts a
//! download; a ZMODEM receiver opens the prompt, where the user enters the files to send.

use super::session::{Login, Stage};
use super::session_settings::PromptStyle;
use super::transfer_state::OUTPUT_MAX_BYTES;
use net::Cx;
use net::time::Duration;
use os::tty::CaughtSignals;
use protocols::zmodem::Request;
use transfer::modem::{Interruption, ModemCommand, ModemProtocol, ModemTransfer};
use transfer::termination;

/// ^C cancels a transfer.
const CANCEL: u8 = 0x03;

/// Requests of XMODEM and YMODEM receivers: C and NAK.
const REQUESTS: [u8; 2] = [b'C', 0x15];

/// Sequence that ends a remote program that waits for files.
const REFUSAL: &[u8] = b"\x18\x18\x18\x18\x18\x18\x18\x18\x08\x08\x08\x08\x08\x08\x08\x08";

/// Time for the cancellation of a transfer after a termination signal or the end of the terminal. Our
/// choice: longer than the round-trip time of most paths; service managers wait much longer.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Cause of a failure if the server has not agreed to BINARY.
const WITHOUT_BINARY: &str = "The Telnet server did not agree to BINARY and may change files: use \
                              another port of the host, tcp://HOST:PORT or a serial line.";

impl Login {
    /// Processes data of the remote host: passes it to the transfer that runs, or displays it.
    pub(super) fn process_session_data(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut rest = data;
        while !rest.is_empty() {
            if let Some(transfer) = &mut self.transfers.transfer {
                let received = rest;
                transfer.receive(&mut rest, cx);
                let len = received.len() - rest.len();
                self.input.show_transfer_to_script(received.get(..len).unwrap_or_default());
                self.run_transfer(cx);
                continue;
            }
            let skipped = self.transfers.request_line_end_len(rest);
            rest = rest.get(skipped..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
            let Some(detection) = self.transfers.find_request(rest) else {
                self.transfers.last_byte = rest.last().copied();
                let shown = self.transfers.cancel_filter.filter(rest, cx.now);
                return self.show_remote(&shown, cx);
            };
            self.show_remote(rest.get(..detection.start).unwrap_or_default(), cx);
            rest = rest.get(detection.end..).unwrap_or_default();
            match detection.request {
                Request::Send => {
                    let downloads = &self.settings.downloads;
                    let transfer = ModemTransfer::start_requested_download(downloads, cx);
                    self.begin_transfer(transfer, "Receiving by ZMODEM; ^C cancels.", cx);
                }
                Request::Receive => self.request_files(cx),
            }
        }
    }

    /// Processes a NUL after a CR, which may be data of the transfer that runs.
    pub(super) fn process_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        if let Some(transfer) = &mut self.transfers.transfer {
            transfer.receive_nul_after_cr(cx);
            self.run_transfer(cx);
        }
    }

    /// Asks the user for the files that a receiver on the remote host waits for. The receiver
    /// repeats its request.
    fn request_files(&mut self, cx: &mut Cx<'_>) {
        if let Some(command) = self.transfers.script_command.take() {
            self.transfers.is_awaited = true;
            return self.start_for_script(command, cx);
        }
        let may_ask = self.settings.is_interactive
            && self.settings.keys == PromptStyle::Prompt
            && !self.input.has_script();
        if std::mem::replace(&mut self.transfers.is_awaited, true) || !may_ask {
            return;
        }
        if !self.input.is_at_prompt() {
            self.hold_for_prompt();
        }
        self.notify("The remote host waits for files: send FILE... An empty line refuses.");
    }

    /// Ends the receiver on the remote host that waits for files, if there is one.
    pub(super) fn refuse_files(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.transfers.is_awaited) {
            self.send(REFUSAL, cx);
        }
    }

    /// Starts a transfer for a script. A transfer by ZMODEM starts when the remote program requests
    /// it.
    pub(super) fn start_script_transfer(&mut self, command: ModemCommand, cx: &mut Cx<'_>) {
        let must_wait = match &command {
            ModemCommand::Send(ModemProtocol::Zmodem, _) => !self.transfers.is_awaited,
            ModemCommand::Receive(ModemProtocol::Zmodem, _) => {
                if self.transfers.is_active() {
                    self.input.notify_script_of_transfer();
                } else if let Some(result) = self.transfers.unclaimed.take() {
                    self.input.end_script_transfer(result);
                }
                return;
            }
            _ => false,
        };
        match must_wait {
            true => self.transfers.script_command = Some(command),
            false => self.start_for_script(command, cx),
        }
    }

    /// Starts a transfer for a script. If it cannot start, a receiver on the remote host that waits
    /// for it is ended before the script continues.
    fn start_for_script(&mut self, command: ModemCommand, cx: &mut Cx<'_>) {
        let is_upload = matches!(command, ModemCommand::Send(..));
        let protocol = command.protocol();
        if let Err(failure) = self.start_transfer(command, cx) {
            let has_request = self.transfers.last_byte.is_some_and(|byte| REQUESTS.contains(&byte));
            if self.transfers.is_awaited || (is_upload && has_request) {
                let failure = Some(failure);
                self.begin_refusal(ModemTransfer::refuse(protocol, failure, cx), cx);
            } else {
                self.input.end_script_transfer(Some(failure));
            }
        }
    }

    /// Starts a transfer that only ends the receiver on the remote host.
    fn begin_refusal(&mut self, transfer: ModemTransfer, cx: &mut Cx<'_>) {
        self.transfers.last_byte = None;
        self.input.notify_script_of_transfer();
        self.transfers.begin(transfer);
        self.run_transfer(cx);
    }

    /// Ends the session. A transfer that runs and a receiver that waits for files are cancelled
    /// before: on a serial line, the remote program would not notice the end of the session.
    pub(super) fn close_session(&mut self, cx: &mut Cx<'_>) {
        if self.transfers.is_awaited && self.stage == Stage::Open {
            let transfer = ModemTransfer::refuse(ModemProtocol::Zmodem, None, cx);
            self.begin_refusal(transfer, cx);
        } else if self.transfers.transfer.as_ref().is_some_and(|running| !running.is_cancelling()) {
            self.cancel_transfer(cx);
        }
        let is_active = self.transfers.is_active();
        self.stage = if is_active { Stage::Cancelling } else { Stage::LocalClosed };
    }

    /// Cancels the transfer that runs, and ends the session. The remote program has a short time to
    /// confirm.
    fn end_because(&mut self, why: Interruption, cx: &mut Cx<'_>) {
        if self.transfers.ends_at.is_none() {
            self.transfers.ends_at = Some(cx.now + END_TIMEOUT);
            self.cancel_transfer_because(why, cx);
            self.close_session(cx);
        }
    }

    /// Ends the session, because its terminal has been closed. A transfer that runs is cancelled before.
    pub(super) fn on_display_closed(&mut self, cx: &mut Cx<'_>) {
        if self.transfers.is_active() {
            self.end_because(Interruption::TerminalClosed, cx);
        } else {
            self.stage = Stage::DisplayClosed;
        }
    }

    /// Ends a session whose time for the end of a transfer has passed.
    pub(super) fn end_cancellation_if_due(&mut self, cx: &Cx<'_>) {
        if self.transfers.ends_at.is_some_and(|at| at <= cx.now) {
            self.transfers.ends_at = None;
            self.stage = Stage::LocalClosed;
        }
    }

    /// Starts a transfer that the user has requested.
    ///
    /// # Errors
    ///
    /// Returns a sentence about a file that cannot be read.
    pub(super) fn start_transfer(
        &mut self,
        command: ModemCommand,
        cx: &mut Cx<'_>,
    ) -> Result<(), String> {
        let request = self.transfers.last_byte.filter(|byte| REQUESTS.contains(byte));
        let sentence = match &command {
            ModemCommand::Send(ModemProtocol::Zmodem, _)
                if request.is_some() && !self.transfers.is_awaited =>
            {
                "Sending by ZMODEM; ^C cancels. The remote program seems to wait for XMODEM or \
                 YMODEM: use send --protocol xmodem or ymodem."
            }
            ModemCommand::Send(..) => "Sending; ^C cancels.",
            ModemCommand::Receive(..) => "Receiving; ^C cancels.",
        };
        let is_block_receiver =
            matches!(command, ModemCommand::Send(protocol, _) if protocol != ModemProtocol::Zmodem);
        let mut transfer = ModemTransfer::start(command, &self.settings.downloads, cx)?;
        self.transfers.last_byte = None;
        if let Some(request) = request.filter(|_| is_block_receiver) {
            transfer.receive(&mut [request].as_slice(), cx);
        }
        self.begin_transfer(transfer, sentence, cx);
        Ok(())
    }

    fn begin_transfer(&mut self, transfer: ModemTransfer, sentence: &str, cx: &mut Cx<'_>) {
        self.input.notify_script_of_transfer();
        self.display.prediction.interrupt();
        self.return_to_session();
        self.show_transfer_notice(sentence);
        self.transfers.has_enabled_binary = self.protocol.begin_binary(cx);
        self.transfers.begin(transfer);
        self.run_transfer(cx);
    }

    /// Processes keys during a transfer.
    pub(super) fn process_transfer_keys(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if keys.contains(&CANCEL) {
            self.cancel_transfer(cx);
        }
    }

    /// Ends the session after a termination signal. The transfer that runs is cancelled before.
    pub(super) fn process_signal(&mut self, cx: &mut Cx<'_>) {
        let signal = self.transfers.signals.as_ref().and_then(CaughtSignals::take);
        if let Some(signal) = signal {
            termination::record(signal.number);
            self.end_because(Interruption::Signal(signal.name), cx);
        }
    }

    /// Cancels the transfer that runs, if there is one.
    pub(super) fn cancel_transfer(&mut self, cx: &mut Cx<'_>) {
        self.cancel_transfer_because(Interruption::User, cx);
    }

    fn cancel_transfer_because(&mut self, why: Interruption, cx: &mut Cx<'_>) {
        if let Some(transfer) = &mut self.transfers.transfer {
            if transfer.may_drop_output() {
                self.protocol.drop_unsent();
            }
            transfer.cancel_because(why, cx);
            self.run_transfer(cx);
        }
    }

    /// Ends the transfer that runs, if there is one, without its remote program.
    pub(super) fn abort_transfer(&mut self, why: Interruption, cx: &mut Cx<'_>) {
        if let Some(transfer) = &mut self.transfers.transfer {
            transfer.abort(why, cx);
            self.run_transfer(cx);
        }
    }

    /// Runs the transfer: expired timers, output, progress and its end.
    pub(super) fn run_transfer(&mut self, cx: &mut Cx<'_>) {
        let Some(transfer) = &mut self.transfers.transfer else { return };
        if transfer.deadline().is_some_and(|deadline| deadline <= cx.now) {
            transfer.timeout(cx);
        }
        transfer.set_nvt(self.protocol.sends_nul_after_cr());
        // The last output is short, and is queued even if the carrier accepts none now.
        while transfer.has_output()
            && (transfer.is_over() || self.protocol.has_room(OUTPUT_MAX_BYTES))
        {
            let output = transfer.take_output(cx);
            // Never rejected, because the queue is almost empty.
            _ = self.protocol.send(&output, cx);
        }
        let progress = transfer.progress(cx.now);
        let mut notices = transfer.take_notices();
        notices.extend(self.transfers.recorder.keep(transfer.take_records()));
        let is_over = transfer.is_over();
        let rest = if is_over { transfer.take_rest() } else { Vec::new() };
        let failure = transfer.take_failure();
        let is_line_failure = transfer.is_line_failure();
        if let Some(downloads) = transfer.policy() {
            self.settings.downloads = downloads.clone();
        }
        if let Some(progress) = progress.filter(|_| self.input.keyboard.is_raw()) {
            self.display.put_own(&format!("\r{progress}\x1b[K"), cx);
        }
        for notice in notices {
            self.logs.note_transfer(&notice, cx.now);
            self.show_transfer_notice(&notice);
        }
        if is_over {
            if is_line_failure && self.protocol.lacks_binary() {
                self.show_transfer_notice(WITHOUT_BINARY);
            }
            self.protocol.end_file_content();
            self.transfers.end();
            let is_claimed = self.input.end_script_transfer(failure.clone());
            self.transfers.unclaimed = (!is_claimed).then_some(failure);
            self.transfers.cancel_filter.begin(cx.now);
            if std::mem::take(&mut self.transfers.has_enabled_binary) && self.stage == Stage::Open {
                self.protocol.ask_binary(false, cx);
            }
            self.show_remote(&rest, cx);
            if self.stage == Stage::Cancelling {
                self.stage = Stage::LocalClosed;
            }
        }
    }

    /// Displays a message in place of the progress.
    fn show_transfer_notice(&mut self, sentence: &str) {
        if self.input.keyboard.is_raw() && !self.display.is_emulated() {
            self.display.screen.clear_line();
        }
        self.notify(sentence);
    }
}

#[cfg(test)]
#[path = "file_transfer_tests.rs"]
mod tests;
