//! Progress and messages of a transfer.

use super::discarding::CancelledBy;
use super::file_record::FileRecord;
use super::modem_command::ModemProtocol;
use super::progress::{Progress, short_bytes};
use net::Cx;
use net::time::{Duration, Instant};
use protocols::modem::{FileInfo, ModemFailure};
use records::format::{count, duration};
use records::transfer::Outcome;

/// Minimum time of a transfer whose rate is reported. Our choice.
const RATE_MIN_TIME: Duration = Duration::from_millis(10);

/// Progress and messages of a transfer.
#[derive(Debug)]
pub(super) struct Report {
    protocol: ModemProtocol,
    is_upload: bool,
    pub(super) progress: Progress,
    /// Messages that were not taken.
    pub(super) notices: Vec<String>,
    /// End of the connection that has cancelled the transfer, while the remote program may still
    /// send data.
    pub(super) cancelled_by: Option<CancelledBy>,
    /// Reason why the transfer, or a file of it, has failed.
    pub(super) failure: Option<String>,
    /// Whether data was lost or changed between the two programs.
    pub(super) is_line_failure: bool,
    /// Records of files that were not taken.
    pub(super) records: Vec<FileRecord>,
    /// Whether a file of the transfer was recorded.
    pub(super) has_record: bool,
}

impl Report {
    pub(super) fn new(protocol: ModemProtocol, is_upload: bool) -> Self {
        Self {
            protocol,
            is_upload,
            progress: Progress::default(),
            notices: Vec::new(),
            cancelled_by: None,
            failure: None,
            is_line_failure: false,
            records: Vec::new(),
            has_record: false,
        }
    }

    /// Adds the record of a file that was stored or read at `path`.
    pub(super) fn record(
        &mut self,
        info: &FileInfo,
        path: Vec<u8>,
        (outcome, error): (Outcome, Option<&str>),
        now: Instant,
    ) {
        let (duration, bytes) = self.progress.total(now);
        self.records.push(FileRecord {
            protocol: self.protocol,
            is_upload: self.is_upload,
            name: info.name.clone(),
            path,
            size: info.size,
            start: self.progress.start(),
            bytes,
            duration,
            outcome,
            error: error.map(str::to_owned),
        });
        self.has_record = true;
        self.progress.forget();
    }

    /// Adds the message about a failure.
    pub(super) fn fail(&mut self, sentence: String) {
        self.failure.get_or_insert_with(|| sentence.clone());
        self.notice(sentence);
    }

    pub(super) fn notice(&mut self, sentence: String) {
        self.notices.push(sentence);
    }

    /// Ends the progress of the file that is complete. Returns its size, time and rate. The time and
    /// the rate apply to the bytes that were transferred, without those of an earlier transfer.
    pub(super) fn summary(&mut self, len: u64, cx: &Cx<'_>) -> String {
        self.progress.end();
        let (time, bytes) = self.progress.total(cx.now);
        let transferred = transferred_text(bytes, time);
        match self.progress.start() {
            0 => transferred,
            before if bytes == 0 => {
                format!("{} bytes, all {} transferred before", count(len), count(before))
            }
            before => format!(
                "{} bytes, {} transferred before and {transferred}",
                count(len),
                count(before)
            ),
        }
    }
}

/// Returns the number of bytes with the time of their transfer and their rate. The rate of a shorter
/// time would be that of a buffer.
fn transferred_text(bytes: u64, time: Duration) -> String {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let text = format!("{} bytes in {}", count(bytes), duration(nanos));
    if bytes == 0 || time < RATE_MIN_TIME {
        return text;
    }
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos.max(1));
    format!("{text}, {}/s", short_bytes(u64::try_from(rate).unwrap_or(u64::MAX)))
}

/// Returns the sentence about a failure.
pub(super) fn failure_text(failure: ModemFailure, is_upload: bool) -> String {
    let why = match failure {
        ModemFailure::Cancelled => return "Transfer cancelled by the remote program.".to_owned(),
        ModemFailure::RemoteFile => "the remote program cannot read or write the file",
        ModemFailure::NoAnswer if !is_upload => {
            "no sender answered; start one on the remote host, such as sz FILE"
        }
        ModemFailure::NoAnswer => "the remote program does not answer; is it running?",
        ModemFailure::Silence => "the remote program no longer answers",
        ModemFailure::Ended => "the remote program has ended",
        ModemFailure::TooManyErrors => "too many transmission errors",
        ModemFailure::CommandRefused => "the remote program requested the execution of a command",
        ModemFailure::FileTooLarge => "the file is larger than 4 GiB",
    };
    format!("Transfer failed: {why}.")
}

/// Returns the outcome for the record of a transfer that failed.
pub(super) const fn failure_outcome(failure: ModemFailure) -> Outcome {
    match failure {
        ModemFailure::Cancelled | ModemFailure::RemoteFile | ModemFailure::Ended => {
            Outcome::AbortedByPeer
        }
        ModemFailure::NoAnswer | ModemFailure::Silence => Outcome::Timeout,
        ModemFailure::TooManyErrors | ModemFailure::CommandRefused | ModemFailure::FileTooLarge => {
            Outcome::Protocol
        }
    }
}

/// Returns whether data that is lost or changed between the two programs may have this effect. A
/// remote program that falls silent after it has confirmed data has most probably ended.
pub(super) fn is_line_failure(failure: ModemFailure, progress: &Progress) -> bool {
    match failure {
        ModemFailure::TooManyErrors | ModemFailure::NoAnswer => true,
        ModemFailure::Silence => !progress.has_moved(),
        _ => false,
    }
}

/// Returns the end that has cancelled a transfer that failed.
pub(super) fn failure_canceller(failure: ModemFailure, is_block_receiver: bool) -> CancelledBy {
    match failure {
        ModemFailure::Cancelled => CancelledBy::Remote,
        ModemFailure::Ended => CancelledBy::End,
        _ => CancelledBy::Local { is_block_receiver },
    }
}
