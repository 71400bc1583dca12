//! One transfer, in either direction.

use super::download::Download;
use super::download_policy::DownloadPolicy;
use super::modem_command::{ModemCommand, ModemProtocol};
use super::report::Report;
use super::upload::Upload;
use net::Cx;
use net::time::{Duration, Instant};

/// Silence after which the data that was in flight at a cancellation has passed.
const SILENCE: Duration = Duration::from_secs(1);
/// Maximum time for which data is discarded after a cancellation. Our choice.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of one output.
const OUTPUT_MAX_LEN: usize = 8 * 1024;
/// Maximum number of bytes of text after the discarded data. Our choice: a few lines.
const REST_MAX_BYTES: usize = 1024;
/// Number of CAN characters with which a remote program confirms the cancellation.
const CONFIRMATION_LEN: u8 = 5;

const CAN: u8 = 0x18;
const BACKSPACE: u8 = 0x08;

/// One transfer.
#[derive(Debug)]
pub struct ModemTransfer {
    direction: Direction,
    report: Report,
    output: Vec<u8>,
    discarding: Option<Discarding>,
    /// Text of the session that arrived with discarded data.
    rest: Vec<u8>,
}

#[derive(Debug)]
enum Direction {
    Download(Box<Download>),
    Upload(Box<Upload>),
}

/// The discarding of data after a cancellation.
#[derive(Debug)]
struct Discarding {
    began: Instant,
    /// Time of the last data.
    last: Instant,
    cans: u8,
}

impl ModemTransfer {
    /// Starts a transfer.
    ///
    /// # Errors
    ///
    /// Returns a sentence about a file that cannot be read.
    pub fn start(
        command: ModemCommand,
        policy: &DownloadPolicy,
        cx: &mut Cx<'_>,
    ) -> Result<Self, String> {
        let direction = match command {
            ModemCommand::Send(protocol, paths) => {
                Direction::Upload(Box::new(Upload::new(protocol, &paths, cx)?))
            }
            ModemCommand::Receive(protocol, name) => {
                Direction::Download(Box::new(Download::new(protocol, name, policy.clone(), cx)))
            }
        };
        Ok(Self::new(direction, cx))
    }

    /// Starts the download that a ZMODEM sender has requested.
    #[must_use]
    pub fn start_requested_download(policy: &DownloadPolicy, cx: &mut Cx<'_>) -> Self {
        let download = Download::new(ModemProtocol::Zmodem, None, policy.clone(), cx);
        Self::new(Direction::Download(Box::new(download)), cx)
    }

    fn new(direction: Direction, cx: &mut Cx<'_>) -> Self {
        let report = Report::default();
        let mut transfer =
            Self { direction, report, output: Vec::new(), discarding: None, rest: Vec::new() };
        transfer.serve(cx);
        transfer
    }

    /// Processes received bytes, and removes them from `input`. Bytes after the end of the transfer
    /// remain.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        self.serve(cx);
        while !input.is_empty() && !self.is_over() {
            if self.discarding.is_some() {
                self.discard(input, cx.now);
            } else {
                match &mut self.direction {
                    Direction::Download(download) => download.engine.receive(input, cx),
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
        if is_over && self.report.has_cancelled_peer {
            self.discarding = Some(Discarding { began: cx.now, last: cx.now, cans: 0 });
        }
    }

    /// Discards data up to the confirmation of the remote program.
    fn discard(&mut self, input: &mut &[u8], now: Instant) {
        let Some(discarding) = &mut self.discarding else { return };
        discarding.last = now;
        while let Some((&byte, rest)) = input.split_first() {
            if discarding.cans >= CONFIRMATION_LEN && !matches!(byte, CAN | BACKSPACE) {
                self.rest.clear();
                self.end_discarding();
                return;
            }
            // Text at the end of the data is probably the prompt of the remote shell. Every
            // subpacket ends with a control character.
            match byte {
                b' '..=b'~' | b'\r' | b'\n' | b'\t' if self.rest.len() < REST_MAX_BYTES => {
                    self.rest.push(byte);
                }
                _ => self.rest.clear(),
            }
            discarding.cans = match byte {
                CAN => discarding.cans.saturating_add(1),
                BACKSPACE if discarding.cans >= CONFIRMATION_LEN => discarding.cans,
                _ => 0,
            };
            *input = rest;
        }
    }

    fn end_discarding(&mut self) {
        self.report.has_cancelled_peer = false;
        self.discarding = None;
    }

    /// Returns and removes text of the session that followed the data of a cancelled transfer.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    /// Cancels the transfer at both ends.
    pub fn cancel(&mut self, cx: &mut Cx<'_>) {
        if self.discarding.is_some() || self.is_over() {
            return self.end_discarding();
        }
        self.output.clear();
        match &mut self.direction {
            Direction::Download(download) => {
                download.cancel("Download cancelled.".to_owned(), &mut self.report);
            }
            Direction::Upload(upload) => {
                upload.cancel("Upload cancelled.".to_owned(), &mut self.report);
            }
        }
        self.serve(cx);
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
            return Some((discarding.last + SILENCE).min(discarding.began + DISCARD_TIMEOUT));
        }
        match &self.direction {
            Direction::Download(download) => download.engine.deadline(),
            Direction::Upload(upload) => upload.engine.deadline(),
        }
    }

    /// Processes the time that has passed.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.discarding.is_some() {
            if self.deadline().is_some_and(|deadline| cx.now >= deadline) {
                self.end_discarding();
            }
            return;
        }
        match &mut self.direction {
            Direction::Download(download) => download.engine.timeout(cx),
            Direction::Upload(upload) => upload.engine.timeout(cx),
        }
        self.serve(cx);
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
        is_over && !self.report.has_cancelled_peer
    }
}
