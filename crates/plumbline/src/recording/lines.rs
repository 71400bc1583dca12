//! The lines of a recording, one after the other.

use anyhow::{Result, bail};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// The longest line of a recording, in bytes; ours.
const LINE_MAX_BYTES: u64 = 16 << 20;

/// The lines of a recording.
pub(crate) struct Lines {
    reader: BufReader<Box<dyn Read>>,
    number: usize,
}

impl Lines {
    /// Opens the recording at `path`, of which `-` is the standard input.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, in a sentence.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let source: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let file = File::open(path);
            let name = path.display();
            let file = file.map_err(|error| match error.kind() {
                ErrorKind::NotFound => anyhow::anyhow!("there is no file {name}"),
                ErrorKind::PermissionDenied => anyhow::anyhow!("no permission to read {name}"),
                _ => anyhow::anyhow!("{name} cannot be read: {error}"),
            })?;
            Box::new(file)
        };
        Ok(Self { reader: BufReader::new(source), number: 0 })
    }

    /// Returns the number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Reads the next line; what is no UTF-8 in it is replaced.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is too long to be one.
    pub(crate) fn next_line(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        let count = (&mut self.reader).take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
        self.number += 1;
        if u64::try_from(count) == Ok(LINE_MAX_BYTES) {
            bail!("line {} is longer than {LINE_MAX_BYTES} bytes", self.number);
        }
        Ok((count > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
    }
}
