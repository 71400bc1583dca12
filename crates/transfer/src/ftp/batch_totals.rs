//! Totals of a batch of transfers, and the sentence that reports them.

use super::error::FtpError;
use super::file_options::FileOutcome;
use crate::escaped;
use crate::recorder::{Record, summary, time_breakdown};
use records::format::{count, duration, size};

/// Totals of a batch.
#[derive(Debug, Default)]
pub struct BatchTotals {
    /// Path of the file, if the batch has a single file.
    single_path: Option<Vec<u8>>,
    files: u64,
    bytes: u64,
    already_complete: u64,
    kept: u64,
    failed: u64,
    /// Number of failed transfers whose destination exists.
    existing: u64,
    first_error: Option<FtpError>,
    /// Summary of a single file.
    summary: Option<String>,
    /// Breakdown of the transfer time of a single file.
    time_breakdown: Option<String>,
}

impl BatchTotals {
    /// Creates the totals of a batch; `single_path` is the path of a file that is the whole batch.
    pub fn new(single_path: Option<Vec<u8>>) -> Self {
        Self { single_path, ..Self::default() }
    }

    /// Adds the result of one transfer. Returns the message about a failed transfer, if that message
    /// is to be printed now: the error of a single file is the error of the batch, and of several
    /// existing files only the first is named.
    ///
    /// # Errors
    ///
    /// Returns an error that ends the batch.
    pub fn add(
        &mut self,
        record: &Record,
        result: Result<FileOutcome, FtpError>,
    ) -> Result<Option<String>, FtpError> {
        self.bytes += record.file_bytes();
        let is_single = self.single_path.is_some();
        match result {
            Ok(FileOutcome::Transferred) => {
                self.files += 1;
                self.summary = is_single.then(|| summary(&record.transfer));
                self.time_breakdown = is_single.then(|| time_breakdown(&record.transfer));
            }
            Ok(FileOutcome::AlreadyComplete) => self.already_complete += 1,
            Ok(FileOutcome::Kept) => self.kept += 1,
            Err(error) if error.ends_all() => return Err(error),
            Err(error) => {
                self.existing += u64::from(matches!(error, FtpError::Exists(_)));
                let is_repeated = self.existing > 1 && matches!(error, FtpError::Exists(_));
                let message = (!is_single && !is_repeated).then(|| error.sentence());
                self.add_failure(error);
                return Ok(message);
            }
        }
        Ok(None)
    }

    /// Adds a file that was not transferred because of `error`, whose message was printed.
    pub fn add_failure(&mut self, error: FtpError) {
        self.failed += 1;
        self.first_error.get_or_insert(error);
    }

    /// Returns the error of the batch, if a transfer has failed.
    pub fn take_error(&mut self) -> Option<FtpError> {
        let error = self.first_error.take()?;
        if self.single_path.is_some() {
            return Some(error);
        }
        let total = self.failed + self.files + self.already_complete + self.kept;
        let existing = match self.existing {
            0 | 1 => String::new(),
            existing => format!("; {} exist: use -f to replace them", count(existing)),
        };
        let sentence = format!("{} of {} files failed{existing}", count(self.failed), count(total));
        Some(FtpError::Several { sentence, class: error.failure() })
    }

    /// Returns the sentence about a batch without failures that took `nanos` nanoseconds, and the
    /// breakdown of the time of a single file. `earlier` describes earlier actions.
    pub fn report(&self, verb: &str, earlier: &str, nanos: u64) -> (String, Option<&str>) {
        let figures = || {
            let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(nanos.max(1));
            format!(
                "{} bytes in {}, {}/s",
                count(self.bytes),
                duration(nanos),
                size(u64::try_from(rate).unwrap_or(u64::MAX)),
            )
        };
        let figures = self.summary.clone().unwrap_or_else(figures);
        let sentence = match &self.single_path {
            Some(path) if self.already_complete > 0 => {
                format!("'{}' is already complete{earlier}", escaped(path))
            }
            Some(path) if self.kept > 0 => format!("'{}' exists and was kept", escaped(path)),
            Some(path) => format!("{verb} '{}'{earlier}: {figures}", escaped(path)),
            None => {
                let files = if self.files == 1 { "file" } else { "files" };
                let mut skipped = Vec::new();
                if self.already_complete > 0 {
                    skipped.push(format!("{} already complete", count(self.already_complete)));
                }
                if self.kept > 0 {
                    skipped.push(format!("{} existing and kept", count(self.kept)));
                }
                let skipped = match skipped.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", skipped.join(", ")),
                };
                let figures = if self.files > 0 { format!(": {figures}") } else { String::new() };
                format!("{verb} {} {files}{skipped}{earlier}{figures}", count(self.files))
            }
        };
        (sentence, self.time_breakdown.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureClass;
    use crate::recorder::TransferRecorder;
    use records::transfer::{Role, Stack};

    fn totals(results: Vec<Result<FileOutcome, FtpError>>) -> (BatchTotals, Vec<String>) {
        let mut totals = BatchTotals::new(None);
        let mut messages = Vec::new();
        for result in results {
            let recorder = TransferRecorder::open(None, |_| {});
            let mut record = recorder.begin(Role::User, Stack::Kernel, None);
            record.transfer.size.file_bytes = Some(10);
            messages.extend(totals.add(&record, result).unwrap());
        }
        (totals, messages)
    }

    #[test]
    fn only_the_first_of_several_existing_files_is_named() {
        let exists = |name: &str| Err(FtpError::Exists(format!("{name} exists")));
        let refused = Err(FtpError::NotFound("c".to_owned()));
        let (mut totals, messages) = totals(vec![exists("a"), exists("b"), refused]);
        assert_eq!(messages, ["a exists", "c"]);
        let error = totals.take_error().unwrap();
        assert_eq!(error.sentence(), "3 of 3 files failed; 2 exist: use -f to replace them");
        assert_eq!(error.failure(), FailureClass::Request);
    }

    #[test]
    fn skipped_files_are_counted_and_figures_describe_transferred_files_only() {
        let skipped = vec![Ok(FileOutcome::AlreadyComplete), Ok(FileOutcome::Kept)];
        let (totals_without_files, _) = totals(skipped);
        let (sentence, _) = totals_without_files.report("uploaded", "", 1_000_000_000);
        assert_eq!(sentence, "uploaded 0 files (1 already complete, 1 existing and kept)");
        let (totals_of_two, _) =
            totals(vec![Ok(FileOutcome::Transferred), Ok(FileOutcome::Transferred)]);
        let (sentence, _) = totals_of_two.report("mirrored", ", and deleted 1", 1_000_000_000);
        assert_eq!(sentence, "mirrored 2 files, and deleted 1: 20 bytes in 1.00 s, 20 B/s");
    }
}
