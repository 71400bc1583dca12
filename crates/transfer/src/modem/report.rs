//! Progress and messages of a transfer.

use super::progress::{Progress, short_bytes};
use net::Cx;
use protocols::modem::ModemFailure;
use records::format::{count, duration};

/// Progress and messages of a transfer.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) progress: Progress,
    /// Messages that were not taken.
    pub(super) notices: Vec<String>,
    /// Whether the transfer has ended and the remote program may still send data.
    pub(super) has_cancelled_peer: bool,
}

impl Report {
    pub(super) fn notice(&mut self, sentence: String) {
        self.notices.push(sentence);
    }

    /// Ends the progress of the file that is complete. Returns its size, time and rate.
    pub(super) fn summary(&mut self, len: u64, cx: &Cx<'_>) -> String {
        self.progress.end();
        let (time, bytes) = self.progress.total(cx.now);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos.max(1));
        let rate = short_bytes(u64::try_from(rate).unwrap_or(u64::MAX));
        format!("{} bytes in {}, {rate}/s", count(len), duration(nanos))
    }
}

/// Returns the sentence about a failure.
pub(super) fn failure_text(failure: ModemFailure) -> String {
    let why = match failure {
        ModemFailure::Cancelled => return "Transfer cancelled by the remote program.".to_owned(),
        ModemFailure::RemoteFile => "the remote program cannot read or write the file",
        ModemFailure::NoAnswer => "the remote program does not answer; is it running?",
        ModemFailure::Silence => "the remote program no longer answers",
        ModemFailure::TooManyErrors => "too many transmission errors",
        ModemFailure::CommandRefused => "the remote program requested the execution of a command",
        ModemFailure::FileTooLarge => "the file is larger than 4 GiB",
    };
    format!("Transfer failed: {why}.")
}
