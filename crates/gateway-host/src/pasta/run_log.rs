//! The log of pasta and passt: standard error and a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The log of a run.
#[derive(Debug, Default)]
pub(super) struct RunLog {
    file: Option<File>,
    size: u64,
}

/// Size of a log file in bytes above which no line is added.
const SIZE_MAX: u64 = 1 << 20;

impl RunLog {
    /// Opens the file, if one is given, in place of an earlier one.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| {
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
        };
        Ok(Self { file: path.map(open).transpose()?, size: 0 })
    }

    /// Adds a line to the file.
    pub(super) fn write(&mut self, line: &str) {
        if let Some(file) = &mut self.file
            && self.size < SIZE_MAX
        {
            self.size += line.len() as u64 + 1;
            // A full disk must not end the network of the guest.
            _ = writeln!(file, "{line}");
        }
    }
}
