//! Output of the log: standard error, a file that is opened again on SIGHUP and SIGUSR1, or both. A
//! reload can change the output. If the file cannot be written, standard error gets one warning, and
//! the sink tries the file again for each later line.
//!
//! A separate thread writes the lines ([`LineWriter`]), so that no server blocks on the reader of the
//! log.

use super::line_writer::{LineWriter, StandardError};
use super::log_file;
use os::service_manager;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Output of all logs of this process.
static OUTPUT: OnceLock<LogOutput> = OnceLock::new();
/// Destination of the lines that are written next.
static DESTINATION: Mutex<Destination> =
    Mutex::new(Destination { path: None, opened: None, is_changed: false, has_copy: false });

/// Output of the log.
pub(super) struct LogOutput {
    /// Writer; `None` if its thread could not be started.
    pub(super) writer: Option<LineWriter>,
    /// Writer of the copy on standard error, so that a file is written even if standard error
    /// blocks.
    copy_writer: OnceLock<Option<LineWriter>>,
}

impl LogOutput {
    /// Returns the output.
    pub(super) fn get() -> &'static Self {
        OUTPUT.get_or_init(|| Self {
            writer: LineWriter::start(LogSink::new(&DESTINATION)).ok(),
            copy_writer: OnceLock::new(),
        })
    }

    /// Returns the writer of the copy on standard error, if the log has a copy.
    pub(super) fn copy_writer(&self) -> Option<&LineWriter> {
        let has_copy = lock(&DESTINATION).has_copy;
        has_copy.then(|| self.stderr_writer())?
    }

    /// Returns the writer of standard error beside a log file.
    fn stderr_writer(&self) -> Option<&LineWriter> {
        let start = || LineWriter::start(StandardError).ok();
        self.copy_writer.get_or_init(start).as_ref()
    }

    /// Waits until all lines are written, at most for `limit` per output. Returns whether all lines
    /// were written.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let copy_writer = self.copy_writer.get().and_then(Option::as_ref);
        // Not evaluated lazily: both outputs are flushed.
        let results = [self.writer.as_ref(), copy_writer]
            .map(|writer| writer.is_none_or(|writer| writer.flush(limit)));
        results == [true; 2]
    }
}

/// Returns whether the output is the journal, which has times and levels of its own.
pub(super) fn is_journal() -> bool {
    lock(&DESTINATION).path.is_none() && is_stderr_journal()
}

/// Returns whether standard error is the journal.
pub(super) fn is_stderr_journal() -> bool {
    static IS_STDERR_JOURNAL: OnceLock<bool> = OnceLock::new();
    *IS_STDERR_JOURNAL.get_or_init(service_manager::is_stderr_journal)
}

/// File of the log, opened and not used yet; standard error if there is no path.
#[derive(Debug)]
pub(super) struct LogFile {
    path: Option<PathBuf>,
    file: Option<File>,
    /// Whether standard error also gets all lines.
    has_copy: bool,
}

impl LogFile {
    /// Opens the file at `path`. With `has_copy`, standard error also gets all lines.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened.
    pub(super) fn open(path: Option<PathBuf>, has_copy: bool) -> io::Result<Self> {
        let file = path.as_deref().map(log_file::open).transpose()?;
        let has_copy = has_copy && path.is_some();
        Ok(Self { path, file, has_copy })
    }

    /// Writes all further lines to this file.
    pub(super) fn use_for_log(self) {
        let is_moved = !self.has_copy && lock(&DESTINATION).path.is_none();
        if let Some(path) = self.path.as_deref().filter(|_| is_moved) {
            let level = if is_journal() { "<6>" } else { "" };
            // Ignored: nothing may read standard error.
            _ = writeln!(io::stderr(), "{level}the log continues in {}", path.display());
        }
        let mut destination = lock(&DESTINATION);
        let Self { path, file, has_copy } = self;
        *destination = Destination { path, opened: file, is_changed: true, has_copy };
    }
}

/// Writes a warning about the log file to standard error.
fn warn(warning: &str) {
    let level = if is_stderr_journal() { "<4>" } else { "" };
    let Some(writer) = LogOutput::get().stderr_writer() else { return };
    writer.put(format!("{level}{warning}\n").as_bytes(), |count| {
        let level = if is_stderr_journal() { "<4>" } else { "" };
        format!("{level}{count} log lines lost\n").into_bytes()
    });
}

/// Opens the file of the log again before the next line, because it may have been renamed.
pub(super) fn reopen_file() {
    lock(&DESTINATION).is_changed = true;
}

/// Destination of the lines.
#[derive(Debug)]
struct Destination {
    /// Path of the file; `None` for standard error.
    path: Option<PathBuf>,
    /// The open file, until the writer takes it.
    opened: Option<File>,
    /// Whether the writer has to change its output.
    is_changed: bool,
    /// Whether standard error also gets all lines.
    has_copy: bool,
}

fn lock(destination: &Mutex<Destination>) -> MutexGuard<'_, Destination> {
    destination.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes lines to the current destination.
struct LogSink {
    destination: &'static Mutex<Destination>,
    /// The open file; `None` for standard error.
    file: Option<File>,
    /// Whether the last write to the file has failed.
    has_failed: bool,
    /// Whether the file ends in the middle of a line.
    is_in_line: bool,
}

impl LogSink {
    const fn new(destination: &'static Mutex<Destination>) -> Self {
        Self { destination, file: None, has_failed: false, is_in_line: false }
    }

    fn use_file(&mut self, file: Option<File>) {
        self.file = file;
        self.is_in_line = false;
    }

    fn adopt_destination(&mut self) {
        let mut destination = lock(self.destination);
        if !std::mem::take(&mut destination.is_changed) {
            return;
        }
        let opened = destination.opened.take();
        let path = destination.path.clone();
        drop(destination);
        match (opened, path) {
            (None, Some(path)) => match log_file::open(&path) {
                Ok(file) => self.use_file(Some(file)),
                Err(error) => warn(&format!(
                    "cannot open the log file {} again, the log continues in the old file: {error}",
                    path.display()
                )),
            },
            (opened, _) => self.use_file(opened),
        }
    }

    /// Writes to the file. First ends the line of which an earlier write could write a part only.
    fn write_to_file(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(mut file) = self.file.as_ref() else { return Ok(0) };
        if self.has_failed && self.is_in_line {
            file.write_all(b"\n")?;
            self.is_in_line = false;
        }
        let written_bytes = file.write(bytes)?;
        let last = bytes.get(..written_bytes).and_then(<[u8]>::last);
        self.is_in_line = last.is_some_and(|last| *last != b'\n');
        Ok(written_bytes)
    }
}

impl Write for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.adopt_destination();
        if self.file.is_none() {
            return StandardError.write(bytes);
        }
        let written = self.write_to_file(bytes);
        let is_failure =
            written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        let had_failed = std::mem::replace(&mut self.has_failed, is_failure);
        if let Some(error) = written.as_ref().err().filter(|_| is_failure && !had_failed) {
            let path = lock(self.destination).path.clone().unwrap_or_default();
            warn(&format!(
                "cannot write the log file {}, its lines are lost until it can be written: {error}",
                path.display()
            ));
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_renamed_file_is_replaced_when_a_reopen_is_due_and_lines_are_appended() {
        static TESTED: Mutex<Destination> =
            Mutex::new(Destination { path: None, opened: None, is_changed: true, has_copy: false });
        let directory = std::env::temp_dir().join(format!("plumb-log-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("log");
        let renamed = directory.join("log.1");
        fs::write(&path, "0\n").unwrap();
        let LogFile { path: opened_path, file, .. } =
            LogFile::open(Some(path.clone()), false).unwrap();
        *lock(&TESTED) =
            Destination { path: opened_path, opened: file, is_changed: true, has_copy: false };
        let mut log = LogSink::new(&TESTED);
        log.write_all(b"1\n").unwrap();
        fs::rename(&path, &renamed).unwrap();
        log.write_all(b"2\n").unwrap();
        lock(&TESTED).is_changed = true;
        log.write_all(b"3\n").unwrap();
        let texts = [renamed, path].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(texts, ["0\n1\n2\n", "3\n"]);
        assert!(LogFile::open(Some(directory.clone()), false).is_err());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_line_after_a_failed_write_starts_on_a_line_of_its_own() {
        static TESTED: Mutex<Destination> = Mutex::new(Destination {
            path: None,
            opened: None,
            is_changed: false,
            has_copy: false,
        });
        let directory = std::env::temp_dir().join(format!("plumb-log-full-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("log");
        let mut log = LogSink::new(&TESTED);
        log.use_file(Some(log_file::open(&path).unwrap()));
        log.write_all(b"the first part of a li").unwrap();
        let file = log.file.replace(log_file::open(Path::new("/dev/full")).unwrap());
        for _ in 0..2 {
            let error = log.write_all(b"ne\n").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        log.file = file;
        log.write_all(b"1\n").unwrap();
        log.write_all(b"2\n").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "the first part of a li\n1\n2\n");
        fs::remove_dir_all(directory).unwrap();
    }
}
