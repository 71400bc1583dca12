//! Reading the journal: its segments in order, and their whole lines from a place on.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const READ_BYTES: usize = 256 << 10;

/// A file of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number; a greater one was begun later.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
}

/// How far a segment was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesRead {
    /// Where the next line begins, bytes.
    pub end: u64,
    /// Lines that were longer than a line may be, and not given.
    pub too_long: u64,
}

/// Returns the segments of the journal in `folder`, the oldest first; none if it is not there.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn segments(folder: &Path) -> io::Result<Vec<Segment>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_lines = path.extension().is_some_and(|extension| extension == "jsonl");
        let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_lines);
        if let Some(number) = stem.and_then(|stem| stem.parse().ok()) {
            found.push(Segment { number, path });
        }
    }
    found.sort_by_key(|segment| segment.number);
    Ok(found)
}

/// Gives every whole line of `segment` that begins at `from` or later, with where it ends.
///
/// The last line is not given before its end is there, and an empty line never: who opens a segment
/// while another writes there may see half a line and put an end to it that it had already.
///
/// # Errors
///
/// If the segment cannot be read, or what `line` returns.
pub fn read_lines<E: From<io::Error>>(
    segment: &mut File,
    from: u64,
    mut line: impl FnMut(&[u8], u64) -> Result<(), E>,
) -> Result<LinesRead, E> {
    let mut read = LinesRead { end: from, too_long: 0 };
    segment.seek(SeekFrom::Start(from)).map_err(E::from)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut filled, mut is_within_long) = (0, false);
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        match segment.read(room) {
            Ok(0) => return Ok(read),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        let mut rest = buffer.get(..filled).unwrap_or_default();
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (text, after) = rest.split_at_checked(at + 1).unwrap_or_default();
            read.end += u64::try_from(text.len()).unwrap_or(0);
            rest = after;
            if is_within_long {
                is_within_long = false;
            } else if text != b"\n" {
                line(text, read.end)?;
            }
        }
        let left = rest.len();
        buffer.copy_within(filled - left..filled, 0);
        filled = left;
        if filled == buffer.len() {
            // No line is so long; its beginning is let go.
            read.too_long += u64::from(!is_within_long);
            is_within_long = true;
            read.end += u64::try_from(filled).unwrap_or(0);
            filled = 0;
        }
    }
}
