//! Output of the log: standard error, a file that is opened again on SIGHUP and SIGUSR1, or both. A
//! reload can change the output.
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
        let start = || LineWriter::start(StandardError).ok();
        lock(&DESTINATION).has_copy.then(|| self.copy_writer.get_or_init(start).as_ref())?
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
}

impl LogSink {
    const fn new(destination: &'static Mutex<Destination>) -> Self {
        Self { destination, file: None }
    }

    fn adopt_destination(&mut self) {
        let mut destination = lock(self.destination);
        if !std::mem::take(&mut destination.is_changed) {
            return;
        }
        let opened = destination.opened.take();
        match (opened, &destination.path) {
            (Some(file), _) => self.file = Some(file),
            (None, None) => self.file = None,
            (None, Some(path)) => {
                // If the file cannot be opened again, the lines go to the old one.
                if let Ok(file) = log_file::open(path) {
                    self.file = Some(file);
                }
            }
        }
    }
}

impl Write for LogSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.adopt_destination();
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => StandardError.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
}
