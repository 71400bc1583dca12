//! One transfer, in either direction.

use super::discarding::{BACKSPACE, CAN, CancelledBy, DiscardStep, Discarding, EMPTY_LINE, NAK};
use super::download::Download;
use super::download_policy::DownloadPolicy;
use super::file_name::safe_name;
use super::file_record::FileRecord;
use super::interruption::Interruption;
use super::modem_command::{ModemCommand, ModemProtocol};
use super::report::Report;
use super::session_text::{SessionText, TextStep};
use super::upload::Upload;
use net::Cx;
use net::time::Instant;
use protocols::modem::CANCEL_SEQUENCE;

/// Maximum number of bytes of one output.
const OUTPUT_MAX_LEN: usize = 8 * 1024;

/// Advice after the end of a remote program that has left its terminal in raw mode.
const RAW_TERMINAL: &str = "If Enter has no effect, press ^J, type stty sane and press ^J.";

/// One transfer.
#[derive(Debug)]
pub struct ModemTransfer {
    direction: Direction,
    report: Report,
    output: Vec<u8>,
    discarding: Option<Discarding>,
    /// Text that arrives during a download.
    session_text: SessionText,
    /// Text of the session that arrived with discarded data.
    rest: Vec<u8>,
}

#[derive(Debug)]
enum Direction {
    Download(Box<Download>),
    Upload(Box<Upload>),
}

impl ModemTransfer {
    /// Starts a transfer.
    ///
    /// # Errors
    ///
    /// Returns a sentence about a file that cannot be read, or about an invalid name.
    pub fn start(
        command: ModemCommand,
        policy: &DownloadPolicy,
        cx: &mut Cx<'_>,
    ) -> Result<Self, String> {
        let has_blocks = command.protocol() != ModemProtocol::Zmodem;
        let (direction, report) = match command {
            ModemCommand::Send(protocol, paths) => (
                Direction::Upload(Box::new(Upload::new(protocol, &paths, cx)?)),
                Report::new(protocol, true),
            ),
            ModemCommand::Receive(_, Some(name)) if safe_name(name.as_bytes()) != name => {
                return Err(format!("'{}' is not a simple file name.", name.escape_debug()));
            }
            ModemCommand::Receive(protocol, name) => (
                Direction::Download(Box::new(Download::new(protocol, name, policy.clone(), cx))),
                Report::new(protocol, false),
            ),
        };
        Ok(Self::new(direction, report, has_blocks, cx))
    }

    /// Starts the download that a ZMODEM sender has requested.
    #[must_use]
    pub fn start_requested_download(policy: &DownloadPolicy, cx: &mut Cx<'_>) -> Self {
        let download = Download::new(ModemProtocol::Zmodem, None, policy.clone(), cx).requested();
        let report = Report::new(ModemProtocol::Zmodem, false);
        Self::new(Direction::Download(Box::new(download)), report, false, cx)
    }

    /// Cancels a receiver on the remote host that waits for files. [`Self::take_failure`] returns
    /// `failure` after the end.
    #[must_use]
    pub fn refuse(protocol: ModemProtocol, failure: Option<String>, cx: &mut Cx<'_>) -> Self {
        let mut report = Report::new(protocol, true);
        let upload = Upload::cancelled(protocol, &mut report, cx);
        report.failure = failure;
        let has_blocks = upload.has_block_receiver();
        Self::new(Direction::Upload(Box::new(upload)), report, has_blocks, cx)
    }

    fn new(direction: Direction, report: Report, has_blocks: bool, cx: &mut Cx<'_>) -> Self {
        let mut transfer = Self {
            direction,
            report,
            output: Vec::new(),
            discarding: None,
            session_text: SessionText::new(has_blocks),
            rest: Vec::new(),
        };
        transfer.report.progress.wait(cx.now);
        transfer.serve(cx);
        transfer
    }

    /// Processes received bytes, and removes them from `input`. Bytes after the end of the transfer
    /// remain.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        self.serve(cx);
        while !input.is_empty() && !self.is_over() {
            if let Some(discarding) = &mut self.discarding {
                if discarding.receive(input, cx.now) {
                    self.end_discarding();
                }
            } else {
                match &mut self.direction {
                    Direction::Download(download) => {
                        let before = *input;
                        download.engine.receive(input, cx);
                        let len = before.len() - input.len();
                        // Text before the first block may ask for the start of the transfer.
                        let has_data = self.report.progress.has_data();
                        if download.engine.can_resume() || has_data {
                            let received = before.get(..len).unwrap_or_default();
                            self.session_text.put(received, has_data, cx.now);
                        }
                    }
                    Direction::Upload(upload) => upload.engine.receive(input, cx),
                }
            }
            self.serve(cx);
        }
        if self.is_over() {
            // The rest of a cancellation.
            while let Some((&(CAN | BACKSPACE), rest)) = input.split_first() {
                *input = rest;
            }
        }
    }

    /// Processes a NUL after a CR that arrived by Telnet without BINARY, and may not be data.
    pub fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        if self.discarding.is_none()
            && !self.is_over()
            && let Direction::Download(download) = &mut self.direction
        {
            download.engine.receive_nul_after_cr(cx);
            self.serve(cx);
        }
    }

    /// Processes the events of the engine, and collects its output.
    fn serve(&mut self, cx: &mut Cx<'_>) {
        if self.discarding.is_some() || self.is_over() {
            return;
        }
        let is_over = match &mut self.direction {
            Direction::Download(download) => {
                download.serve(&mut self.report, cx);
                download.engine.transmit(&mut self.output);
                download.is_over()
            }
            Direction::Upload(upload) => {
                upload.serve(&mut self.report, cx);
                upload.engine.transmit(&mut self.output, cx);
                upload.is_over()
            }
        };
        if let Some(canceller) = self.report.cancelled_by.filter(|_| is_over) {
            self.begin_discarding(canceller, cx.now);
        }
    }

    /// Discards data in flight after the cancel sequence.
    fn begin_discarding(&mut self, canceller: CancelledBy, now: Instant) {
        if canceller == CancelledBy::End {
            self.output.extend_from_slice(EMPTY_LINE);
        }
        self.report.cancelled_by = Some(canceller);
        self.discarding = Some(Discarding::new(canceller, now));
    }

    fn end_discarding(&mut self) {
        let canceller = self.report.cancelled_by.take();
        if canceller == Some(CancelledBy::Remote) {
            // Not earlier: lrzsz leaves the raw mode of its terminal only after its cancel sequence.
            // In raw mode, NAK erases nothing, and is a character of the next command.
            match &self.direction {
                Direction::Download(download) => download.erase_unexpected_reply(&mut self.output),
                // The shell has read the data in flight.
                Direction::Upload(_) => self.output.push(NAK),
            }
        }
        let Some(discarding) = self.discarding.take() else { return };
        if discarding.may_be_raw() {
            self.report.notice(RAW_TERMINAL.to_owned());
        }
        if let Direction::Upload(upload) = &mut self.direction {
            self.rest = upload.take_text();
        }
        self.rest.append(&mut discarding.into_text());
    }

    /// Returns and removes text of the session that was received with the end of the transfer, or
    /// followed the data of a cancelled transfer.
    pub fn take_rest(&mut self) -> Vec<u8> {
        if let Direction::Download(download) = &mut self.direction {
            self.rest.append(&mut download.engine.take_text());
        }
        std::mem::take(&mut self.rest)
    }

    /// Returns whether a cancellation may discard output that was taken and is not sent. A receiver
    /// of blocks notices a cancellation only after a whole block.
    #[must_use]
    pub const fn may_drop_output(&self) -> bool {
        match &self.direction {
            Direction::Upload(upload) => !upload.has_block_receiver(),
            Direction::Download(_) => true,
        }
    }

    /// Cancels the transfer at both ends, as the user requests.
    pub fn cancel(&mut self, cx: &mut Cx<'_>) {
        self.cancel_because(Interruption::User, cx);
    }

    /// Cancels the transfer at both ends. If it is being cancelled already, the wait for the end of
    /// its data ends.
    pub fn cancel_because(&mut self, why: Interruption, cx: &mut Cx<'_>) {
        if self.discarding.is_some() || self.is_over() {
            return self.end_discarding();
        }
        self.output.clear();
        match &mut self.direction {
            Direction::Download(download) => {
                download.cancel(why.sentence(false), why.outcome(), &mut self.report, cx);
            }
            Direction::Upload(upload) => {
                upload.cancel(why.sentence(true), why.outcome(), &mut self.report, cx);
            }
        }
        self.serve(cx);
    }

    /// Ends the transfer, because nothing can be sent or received any more.
    pub fn abort(&mut self, why: Interruption, cx: &mut Cx<'_>) {
        if self.discarding.is_none() && !self.is_over() {
            self.cancel_because(why, cx);
        }
        self.end_discarding();
        self.output.clear();
    }

    /// Returns whether the transfer was cancelled, and the end of its data is awaited.
    #[must_use]
    pub const fn is_cancelling(&self) -> bool {
        self.discarding.is_some()
    }

    /// Selects whether Telnet without BINARY carries the output of an upload.
    pub fn set_nvt(&mut self, is_nvt: bool) {
        if let Direction::Upload(upload) = &mut self.direction {
            upload.engine.set_nvt(is_nvt);
        }
    }

    /// Returns whether [`Self::take_output`] returns output.
    #[must_use]
    pub fn has_output(&self) -> bool {
        let needs_data = match &self.direction {
            Direction::Upload(upload) => {
                !upload.is_over() && upload.engine.data_request().is_some()
            }
            Direction::Download(_) => false,
        };
        !self.output.is_empty() || needs_data
    }

    /// Returns and removes the next output.
    pub fn take_output(&mut self, cx: &mut Cx<'_>) -> Vec<u8> {
        if let Direction::Upload(upload) = &mut self.direction
            && !upload.is_over()
        {
            upload.fill(&mut self.output, OUTPUT_MAX_LEN, &mut self.report, cx);
            self.serve(cx);
        }
        std::mem::take(&mut self.output)
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if let Some(discarding) = &self.discarding {
            return Some(discarding.deadline());
        }
        let engine = match &self.direction {
            Direction::Download(download) => download.engine.deadline(),
            Direction::Upload(upload) => upload.engine.deadline(),
        };
        let stall = self.report.progress.deadline().filter(|_| !self.is_over());
        engine.into_iter().chain(stall).chain(self.session_text.deadline()).min()
    }

    /// Processes the time that has passed.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if let Some(discarding) = &mut self.discarding {
            match discarding.timeout(cx.now) {
                DiscardStep::Wait => {}
                DiscardStep::Repeat => self.output.extend_from_slice(&CANCEL_SEQUENCE),
                DiscardStep::Send(sequence) => self.output.extend_from_slice(sequence),
                DiscardStep::End => self.end_discarding(),
            }
            return;
        }
        self.report.progress.timeout(cx.now);
        if self.process_session_text(cx) {
            return;
        }
        match &mut self.direction {
            Direction::Download(download) => {
                download.engine.omit_line_end(self.session_text.may_be_shell());
                download.engine.timeout(cx);
            }
            Direction::Upload(upload) => upload.engine.timeout(cx),
        }
        self.serve(cx);
    }

    /// Processes the time since the last text of the session; returns whether the remote program has
    /// ended.
    fn process_session_text(&mut self, cx: &mut Cx<'_>) -> bool {
        let Direction::Download(download) = &mut self.direction else { return false };
        let step = self.session_text.timeout(cx.now);
        match step {
            TextStep::Wait => return false,
            TextStep::Probe => {
                download.engine.omit_line_end(self.session_text.may_be_shell());
                download.engine.request_again(cx);
                download.engine.transmit(&mut self.output);
                self.session_text.expect_echo(&self.output);
                return false;
            }
            TextStep::Silence | TextStep::End => {}
        }
        download.on_remote_end(&mut self.report, cx);
        if step == TextStep::Silence {
            // A program that is only delayed must not continue after the end of the transfer.
            self.output.extend_from_slice(&CANCEL_SEQUENCE);
            self.rest = self.session_text.take();
            self.begin_discarding(CancelledBy::End, cx.now);
            return true;
        }
        if self.session_text.has_raw_line_end() {
            self.report.notice(RAW_TERMINAL.to_owned());
        }
        if self.session_text.may_follow_reply() {
            // The shell has read the last reply, or the end of a header: NAK erases its command line.
            self.output.push(NAK);
        }
        self.rest = self.session_text.take();
        true
    }

    /// Returns the progress in less than 40 columns, if an update is due.
    pub fn progress(&mut self, now: Instant) -> Option<String> {
        match &self.discarding {
            Some(_) => Some("Cancelling".to_owned()),
            None if self.is_over() => None,
            None => self.report.progress.update(now),
        }
    }

    /// Returns and removes the messages about files and the end. After a cancellation, there are
    /// none until the session can continue.
    pub fn take_notices(&mut self) -> Vec<String> {
        match &self.discarding {
            Some(_) => Vec::new(),
            None => std::mem::take(&mut self.report.notices),
        }
    }

    /// Returns and removes the reason why the transfer has failed, after its end.
    pub fn take_failure(&mut self) -> Option<String> {
        if self.is_over() { self.report.failure.take() } else { None }
    }

    /// Returns whether data was lost or changed between the two programs.
    #[must_use]
    pub const fn is_line_failure(&self) -> bool {
        self.report.is_line_failure
    }

    /// Returns and removes the records of files that have ended.
    pub fn take_records(&mut self) -> Vec<FileRecord> {
        std::mem::take(&mut self.report.records)
    }

    /// Returns the policy with the limits that remain; `None` for an upload.
    #[must_use]
    pub const fn policy(&self) -> Option<&DownloadPolicy> {
        match &self.direction {
            Direction::Download(download) => Some(download.policy()),
            Direction::Upload(_) => None,
        }
    }

    /// Returns whether the transfer has ended, and no data of it is in flight.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        let is_over = match &self.direction {
            Direction::Download(download) => download.is_over(),
            Direction::Upload(upload) => upload.is_over(),
        };
        is_over && self.report.cancelled_by.is_none()
    }
}
