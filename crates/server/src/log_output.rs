//! Output of the log: standard error, or a file that is opened again on SIGHUP. A reload can change the
//! output.
//!
//! A separate thread writes the lines ([`LineWriter`]), so that no server blocks on the reader of the
//! log.

use super::line_writer::{LineWriter, StandardError};
use os::service_manager;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Output of all logs of this process.
static OUTPUT: OnceLock<LogOutput> = OnceLock::new();
/// Destination of the lines that are written next.
static DESTINATION: Mutex<Destination> =
    Mutex::new(Destination { path: None, opened: None, is_changed: false });

/// Output of the log.
pub(super) struct LogOutput {
    /// Writer; `None` if its thread could not be started.
    pub(super) writer: Option<LineWriter>,
}

impl LogOutput {
    /// Returns the output.
    pub(super) fn get() -> &'static Self {
        OUTPUT.get_or_init(|| Self { writer: LineWriter::start(LogSink::new(&DESTINATION)).ok() })
    }
}

/// Returns whether the output is the journal, which has times and levels of its own.
pub(super) fn is_journal() -> bool {
    static IS_STDERR_JOURNAL: OnceLock<bool> = OnceLock::new();
    lock(&DESTINATION).path.is_none()
        && *IS_STDERR_JOURNAL.get_or_init(service_manager::is_stderr_journal)
}

/// File of the log, opened and not used yet; standard error if there is no path.
#[derive(Debug)]
pub(super) struct LogFile {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl LogFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened.
    pub(super) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let file = path.as_deref().map(open).transpose()?;
        Ok(Self { path, file })
    }

    /// Writes all further lines to this file.
    pub(super) fn use_for_log(self) {
        if let Some(path) = self.path.as_deref().filter(|_| lock(&DESTINATION).path.is_none()) {
            let level = if is_journal() { "<6>" } else { "" };
            // Ignored: nothing may read standard error.
            _ = writeln!(io::stderr(), "{level}the log continues in {}", path.display());
        }
        let mut destination = lock(&DESTINATION);
        *destination = Destination { path: self.path, opened: self.file, is_changed: true };
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
                if let Ok(file) = open(path) {
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

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_renamed_file_is_replaced_when_a_reopen_is_due_and_lines_are_appended() {
        static TESTED: Mutex<Destination> =
            Mutex::new(Destination { path: None, opened: None, is_changed: true });
        let directory = std::env::temp_dir().join(format!("plumb-log-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("log");
        let renamed = directory.join("log.1");
        fs::write(&path, "0\n").unwrap();
        let opened = LogFile::open(Some(path.clone())).unwrap();
        *lock(&TESTED) = Destination { path: opened.path, opened: opened.file, is_changed: true };
        let mut log = LogSink::new(&TESTED);
        log.write_all(b"1\n").unwrap();
        fs::rename(&path, &renamed).unwrap();
        log.write_all(b"2\n").unwrap();
        lock(&TESTED).is_changed = true;
        log.write_all(b"3\n").unwrap();
        let texts = [renamed, path].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(texts, ["0\n1\n2\n", "3\n"]);
        assert!(LogFile::open(Some(directory.clone())).is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
