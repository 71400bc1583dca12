//! Output of the log: standard error, or a file that is opened again on SIGHUP.
//!
//! A separate thread writes the lines ([`LineWriter`]), so that no server blocks on the reader of the
//! log.

use super::line_writer::{LineWriter, StandardError};
use os::service_manager;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Output of all logs of this process.
static OUTPUT: OnceLock<LogOutput> = OnceLock::new();
/// Whether the file of the log is to be opened again before the next line.
static IS_REOPEN_DUE: AtomicBool = AtomicBool::new(false);

/// Output of the log.
pub(super) struct LogOutput {
    /// Writer; `None` if its thread could not be started.
    pub(super) writer: Option<LineWriter>,
    /// Whether the output is the journal, which has times and levels of its own.
    pub(super) is_journal: bool,
}

impl LogOutput {
    /// Returns the output: standard error unless [`open_file`] was called.
    pub(super) fn get() -> &'static Self {
        OUTPUT.get_or_init(|| Self {
            writer: LineWriter::start(StandardError).ok(),
            is_journal: service_manager::is_stderr_journal(),
        })
    }
}

/// Writes the log to a file instead of standard error. Must be called before the first line.
///
/// # Errors
///
/// Returns an error if the file cannot be opened, or if no thread can be started.
pub(super) fn open_file(path: &Path) -> io::Result<()> {
    let file = LogFile { file: open(path)?, path: path.to_owned(), is_due: &IS_REOPEN_DUE };
    let writer = Some(LineWriter::start(file)?);
    // A second call has no effect: a process has one log.
    OUTPUT.get_or_init(|| LogOutput { writer, is_journal: false });
    Ok(())
}

/// Opens the file of the log again before the next line, because it may have been renamed.
pub(super) fn reopen_file() {
    IS_REOPEN_DUE.store(true, Ordering::Relaxed);
}

/// File of the log.
struct LogFile {
    path: PathBuf,
    file: File,
    /// Whether the file is to be opened again.
    is_due: &'static AtomicBool,
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // If the new file cannot be opened, the lines go to the old one.
        if self.is_due.swap(false, Ordering::Relaxed)
            && let Ok(file) = open(&self.path)
        {
            self.file = file;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
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
        static IS_DUE: AtomicBool = AtomicBool::new(false);
        let directory = std::env::temp_dir().join(format!("plumb-log-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("log");
        let renamed = directory.join("log.1");
        fs::write(&path, "0\n").unwrap();
        let mut log = LogFile { file: open(&path).unwrap(), path: path.clone(), is_due: &IS_DUE };
        log.write_all(b"1\n").unwrap();
        fs::rename(&path, &renamed).unwrap();
        log.write_all(b"2\n").unwrap();
        IS_DUE.store(true, Ordering::Relaxed);
        log.write_all(b"3\n").unwrap();
        let texts = [renamed, path].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(texts, ["0\n1\n2\n", "3\n"]);
        fs::remove_dir_all(directory).unwrap();
    }
}
