//! Reader for the lines of a recording.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// Maximum length of a line in bytes; our own choice.
const LINE_MAX_BYTES: u64 = 16 << 20;

/// Reader that returns the lines of a recording.
pub struct Lines {
    reader: BufReader<Box<dyn Read>>,
    number: usize,
}

impl Lines {
    /// Opens the recording at `path`; `-` is the standard input.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let source: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let file = File::open(path);
            let name = path.display();
            let file = file.map_err(|error| {
                let sentence = match error.kind() {
                    ErrorKind::NotFound => format!("no such file: {name}"),
                    ErrorKind::PermissionDenied => format!("cannot open {name}: permission denied"),
                    _ => format!("cannot open {name}: {error}"),
                };
                io::Error::new(error.kind(), sentence)
            })?;
            Box::new(file)
        };
        Ok(Self { reader: BufReader::new(source), number: 0 })
    }

    /// Returns the number of the last line that was read, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Reads the next line; `None` at the end. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the line cannot be read or is too long.
    pub fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let count = (&mut self.reader).take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
        self.number += 1;
        if u64::try_from(count) == Ok(LINE_MAX_BYTES) {
            let sentence = format!("line {} is longer than {LINE_MAX_BYTES} bytes", self.number);
            return Err(io::Error::new(ErrorKind::InvalidData, sentence));
        }
        Ok((count > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
    }
}
