//! The journal: one line of JSON per transfer, in append-only files.
//!
//! The directory contains segments `00000001.jsonl` and so on. Every process that transfers files
//! appends to the newest one. Each batch of lines is one write to a file opened with `O_APPEND`, so
//! that lines of several processes do not interleave. When a segment reaches its size limit, the
//! next one is started under a directory lock. No process waits for that lock while it writes: a
//! process that does not get the lock continues with its segment. When there are too many segments,
//! the oldest ones are removed, except those that a process still has open.
//!
//! A crash can tear the last line. A process that opens a segment without a final newline writes
//! one first, and a reader skips lines that are not records. A record can appear twice, but always
//! with the same identifier. Lines that cannot be written are kept up to a limit and retried;
//! beyond the limit records are counted and dropped. A failure to write is an [`Event`], reported
//! once, and never ends a transfer. The caller decides when to [`Journal::flush`] and when to
//! [`Journal::sync`], because this module reads no clock.

mod reader;
mod write_buffer;

pub(crate) use reader::read_lines;
pub use reader::{LinesRead, Segment, segments};

use crate::transfer::Transfer;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use write_buffer::WriteBuffer;

/// Lock file, held while a segment is added.
const LOCK_FILE_NAME: &str = "lock";
/// A batch of this size is written immediately.
const BATCH_BYTES: usize = 32 << 10;
/// The segment's length is checked after this many bytes: a check costs as much as formatting a
/// third of a line.
const LENGTH_CHECK_BYTES: u64 = 64 << 10;

/// Size limits of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size at which a segment is followed by the next, bytes.
    pub segment_bytes: u64,
    /// Maximum number of segments kept.
    pub segments_max: usize,
}

impl Default for Settings {
    /// 2 GiB in all: more than a million transfers.
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, segments_max: 64 }
    }
}

/// A change of the journal's condition, reported once each time.
#[derive(Debug)]
pub enum Event {
    /// The journal cannot be written; records are kept up to a limit, then counted and dropped.
    Failing(io::Error),
    /// The journal can be written again.
    Resumed {
        /// Records dropped since [`Event::Failing`].
        lost: u64,
    },
}

/// Counters of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records passed to [`Journal::append`].
    pub appended: u64,
    /// Appended records that were dropped.
    pub lost: u64,
    /// Segments started.
    pub segments_begun: u64,
    /// Segments removed.
    pub segments_removed: u64,
}

/// The journal, open for appending.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    settings: Settings,
    segment: File,
    number: u64,
    /// Bytes written since the last check of the segment's length.
    unchecked_bytes: u64,
    unwritten: WriteBuffer,
    is_synced: bool,
    /// Number of records lost before the journal began to fail; `None` if the last write succeeded.
    lost_before_failure: Option<u64>,
    event: Option<Event>,
    counts: Counts,
}

impl Journal {
    /// Opens the journal in `directory`, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory or a file in it can be neither created nor written.
    pub fn open(directory: &Path, settings: Settings) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let lock = lock_file(directory)?;
        // The lock is only held while a file is created, so this wait is short.
        lock.lock()?;
        let newest = segments(directory)?.last().map_or(1, |segment| segment.number);
        let segment = open_segment(directory, newest)?;
        let is_torn = is_torn(&segment)?;
        Ok(Self {
            directory: directory.to_owned(),
            settings,
            segment,
            number: newest,
            unchecked_bytes: u64::MAX,
            unwritten: WriteBuffer::new(is_torn),
            is_synced: true,
            lost_before_failure: None,
            event: None,
            counts: Counts::default(),
        })
    }

    /// Adds the record of a transfer to the batch, and writes the batch once it is large.
    pub fn append(&mut self, transfer: &Transfer) {
        self.counts.appended += 1;
        if !self.unwritten.push(transfer) {
            self.counts.lost += 1;
        }
        if self.unwritten.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Writes the batch: the records survive the end of this process.
    pub fn flush(&mut self) {
        if self.unwritten.len() == 0 {
            return;
        }
        self.is_synced = false;
        let bytes = u64::try_from(self.unwritten.len()).unwrap_or(u64::MAX);
        // Rotate before the write, so that no line goes to a segment that other processes have
        // left.
        if let Err(error) = self.rotate() {
            return self.report_failure(error);
        }
        self.unchecked_bytes = self.unchecked_bytes.saturating_add(bytes);
        match self.unwritten.write_to(&mut self.segment) {
            Ok(()) => {
                if let Some(before) = self.lost_before_failure.take() {
                    self.event = Some(Event::Resumed { lost: self.counts.lost - before });
                }
            }
            Err(error) => self.report_failure(error),
        }
    }

    /// Writes the batch and syncs it to disk: the records survive a crash of the machine.
    pub fn sync(&mut self) {
        self.flush();
        if self.is_synced {
            return;
        }
        match self.segment.sync_data() {
            Ok(()) => self.is_synced = self.unwritten.len() == 0,
            Err(error) => self.report_failure(error),
        }
    }

    /// Returns the next event to report, if any.
    pub fn event(&mut self) -> Option<Event> {
        self.event.take()
    }

    /// Returns the counters of the journal.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn report_failure(&mut self, error: io::Error) {
        if self.lost_before_failure.is_none() {
            self.lost_before_failure = Some(self.counts.lost);
            self.event = Some(Event::Failing(error));
        }
    }

    /// Switches to the next segment if this one is full.
    fn rotate(&mut self) -> io::Result<()> {
        // Other processes append to the segment too, but each of them checks as often.
        if self.unchecked_bytes < LENGTH_CHECK_BYTES.min(self.settings.segment_bytes / 16) {
            return Ok(());
        }
        self.unchecked_bytes = 0;
        if self.segment.metadata()?.len() < self.settings.segment_bytes {
            return Ok(());
        }
        let lock = lock_file(&self.directory)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let segments = segments(&self.directory)?;
        let newest = segments.last().map_or(0, |segment| segment.number);
        // Another process may have created the next segment already.
        let number = if newest > self.number { newest } else { self.number + 1 };
        self.counts.segments_begun += u64::from(number > newest);
        let next = open_segment(&self.directory, number)?;
        self.segment.sync_data()?;
        self.unwritten.set_torn(is_torn(&next)?);
        self.segment = next;
        self.number = number;
        let surplus = (segments.len() + usize::from(number > newest))
            .saturating_sub(self.settings.segments_max.max(1));
        for segment in segments.iter().take(surplus).filter(|old| old.number < number) {
            self.counts.segments_removed += u64::from(remove_unless_open(&segment.path)?);
        }
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.flush();
    }
}

fn lock_file(directory: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join(LOCK_FILE_NAME))
}

/// Opens a segment for appending and holds a shared lock on it until it is closed.
fn open_segment(directory: &Path, number: u64) -> io::Result<File> {
    let path = directory.join(format!("{number:08}.jsonl"));
    let file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    file.lock_shared()?;
    Ok(file)
}

/// Returns whether the last line of `segment` lacks its newline.
fn is_torn(segment: &File) -> io::Result<bool> {
    let Some(last) = segment.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    match segment.read_exact_at(&mut byte, last) {
        Ok(()) => Ok(byte != *b"\n"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the segment at `path` and returns true. If a process still has the segment open, keeps
/// the segment and returns false.
fn remove_unless_open(path: &Path) -> io::Result<bool> {
    match File::open(path)?.try_lock() {
        Ok(()) => std::fs::remove_file(path).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
