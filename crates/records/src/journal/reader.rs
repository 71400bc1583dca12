//! Reading the journal: its segments in order, and their complete lines from an offset on.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const READ_BYTES: usize = 256 << 10;

/// A file of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Segment number; later segments have greater numbers.
    pub number: u64,
    /// Path of the file.
    pub path: PathBuf,
}

/// Progress of reading a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesRead {
    /// Offset at which the next line begins, bytes.
    pub end: u64,
    /// Lines longer than the maximum, which are skipped.
    pub too_long: u64,
}

/// Returns the segments of the journal in `directory`, oldest first; an empty list if the directory
/// does not exist.
///
/// # Errors
///
/// Returns an error if the directory cannot be read.
pub fn segments(directory: &Path) -> io::Result<Vec<Segment>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_segment_file = path.extension().is_some_and(|extension| extension == "jsonl");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_segment_file);
        if let Some(number) = stem.and_then(|stem| stem.parse().ok()) {
            segments.push(Segment { number, path });
        }
    }
    segments.sort_by_key(|segment| segment.number);
    Ok(segments)
}

/// Calls `line` with each complete line of `segment` that begins at offset `from` or later, and
/// with the offset of the line's end.
///
/// An unterminated last line, lines that are too long, and empty lines are not passed on. An empty
/// line arises when a process opens a segment while another process writes to the segment: the
/// first process may see half a line and add a newline after the other process has completed the
/// line.
///
/// # Errors
///
/// Returns an error if the segment cannot be read, and the error of `line`.
pub(crate) fn read_lines<E: From<io::Error>>(
    segment: &mut File,
    from: u64,
    mut line: impl FnMut(&[u8], u64) -> Result<(), E>,
) -> Result<LinesRead, E> {
    let mut read = LinesRead { end: from, too_long: 0 };
    segment.seek(SeekFrom::Start(from)).map_err(E::from)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut filled_len = 0;
    let mut is_within_long_line = false;
    loop {
        let free_space = buffer.get_mut(filled_len..).unwrap_or_default();
        match segment.read(free_space) {
            Ok(0) => return Ok(read),
            Ok(count) => filled_len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        let mut rest = buffer.get(..filled_len).unwrap_or_default();
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (text, after) = rest.split_at_checked(at + 1).unwrap_or_default();
            read.end += u64::try_from(text.len()).unwrap_or(0);
            rest = after;
            if is_within_long_line {
                is_within_long_line = false;
            } else if text != b"\n" {
                line(text, read.end)?;
            }
        }
        let unread_bytes = rest.len();
        buffer.copy_within(filled_len - unread_bytes..filled_len, 0);
        filled_len = unread_bytes;
        if filled_len == buffer.len() {
            // No record is as long as this line; the beginning of the line is dropped.
            read.too_long += u64::from(!is_within_long_line);
            is_within_long_line = true;
            read.end += u64::try_from(filled_len).unwrap_or(0);
            filled_len = 0;
        }
    }
}
