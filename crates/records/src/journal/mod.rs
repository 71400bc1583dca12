//! The journal: one line of JSON for each transfer, in files that are only ever added to.
//!
//! The folder has segments `00000001.jsonl` and so on. Every process that moves files adds to the
//! newest one; each batch of lines is one write to a file opened to append, so that lines of
//! several processes do not mix. A segment that has grown to its limit is followed by the next,
//! under a lock of the folder that nobody waits for: who does not get it goes on as before. The
//! oldest segments go when there are too many, unless somebody still has them open.
//!
//! A crash can tear the last line. Who opens a segment that does not end with a newline begins
//! with one, and a reader passes over lines that are no record. A record can be there twice, but
//! always under its one name. What the disk does not take is
//! kept up to a limit and tried again; beyond it records are counted and let go. That is an
//! [`Event`], told once, and never ends a transfer. The caller decides when to [`Journal::flush`]
//! and when to [`Journal::sync`], since there is no clock here.

mod reader;
mod unwritten;

pub use reader::{LinesRead, Segment, read_lines, segments};

use crate::transfer::Transfer;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use unwritten::Unwritten;

/// The file that is locked while a segment is added.
const LOCK: &str = "lock";
/// A batch is written at the latest when it has grown to so many bytes.
const BATCH_BYTES: usize = 32 << 10;
/// The length of the segment is looked at after so many bytes: to look costs as much as to make a
/// third of a line.
const LOOK_BYTES: u64 = 64 << 10;

/// How large the journal may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment of so many bytes is followed by the next.
    pub segment_bytes: u64,
    /// So many segments are kept.
    pub segments_max: usize,
}

impl Default for Settings {
    /// Two GiB in all: more than a million transfers.
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, segments_max: 64 }
    }
}

/// What is to be told, once each time that it begins.
#[derive(Debug)]
pub enum Event {
    /// The journal cannot be written; records are kept for a while, then counted and let go.
    Failing(io::Error),
    /// It can be written again.
    Resumed {
        /// Records that were let go in the meantime.
        lost: u64,
    },
}

/// What the journal has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that were given to it.
    pub appended: u64,
    /// Of them, those that were let go.
    pub lost: u64,
    /// Segments that it began.
    pub segments_begun: u64,
    /// Segments that it removed.
    pub segments_removed: u64,
}

/// A journal that is added to.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    settings: Settings,
    segment: File,
    number: u64,
    /// Bytes written since the length of the segment was looked at.
    unseen_bytes: u64,
    unwritten: Unwritten,
    is_synced: bool,
    /// Records lost when it began to fail, while it fails.
    failing: Option<u64>,
    event: Option<Event>,
    counts: Counts,
}

impl Journal {
    /// Opens the journal in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// If the folder or a file in it can be neither made nor written.
    pub fn open(folder: &Path, settings: Settings) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let lock = lock_file(folder)?;
        // Nobody holds it for longer than it takes to make a file.
        lock.lock()?;
        let newest = segments(folder)?.last().map_or(1, |segment| segment.number);
        let segment = open_segment(folder, newest)?;
        let is_torn = is_torn(&segment)?;
        Ok(Self {
            folder: folder.to_owned(),
            settings,
            segment,
            number: newest,
            unseen_bytes: u64::MAX,
            unwritten: Unwritten::new(is_torn),
            is_synced: true,
            failing: None,
            event: None,
            counts: Counts::default(),
        })
    }

    /// Adds the record of a transfer to the batch, which is written when it is large.
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
        // Before the write, so that no line goes to a segment that others have left behind.
        if let Err(error) = self.rotate() {
            return self.fail(error);
        }
        self.unseen_bytes = self.unseen_bytes.saturating_add(bytes);
        match self.unwritten.write_to(&mut self.segment) {
            Ok(()) => {
                if let Some(before) = self.failing.take() {
                    self.event = Some(Event::Resumed { lost: self.counts.lost - before });
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// Writes the batch and has the disk keep it: the records survive the end of the machine.
    pub fn sync(&mut self) {
        self.flush();
        if self.is_synced {
            return;
        }
        match self.segment.sync_data() {
            Ok(()) => self.is_synced = self.unwritten.len() == 0,
            Err(error) => self.fail(error),
        }
    }

    /// Returns what is to be told, if anything is.
    pub fn event(&mut self) -> Option<Event> {
        self.event.take()
    }

    /// Returns what the journal has done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn fail(&mut self, error: io::Error) {
        if self.failing.is_none() {
            self.failing = Some(self.counts.lost);
            self.event = Some(Event::Failing(error));
        }
    }

    /// Goes on in the next segment if this one is full.
    fn rotate(&mut self) -> io::Result<()> {
        // Others write there too, but each of them looks as often.
        if self.unseen_bytes < LOOK_BYTES.min(self.settings.segment_bytes / 16) {
            return Ok(());
        }
        self.unseen_bytes = 0;
        if self.segment.metadata()?.len() < self.settings.segment_bytes {
            return Ok(());
        }
        let lock = lock_file(&self.folder)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let segments = segments(&self.folder)?;
        let newest = segments.last().map_or(0, |segment| segment.number);
        // Another process may have begun it already.
        let number = if newest > self.number { newest } else { self.number + 1 };
        self.counts.segments_begun += u64::from(number > newest);
        let next = open_segment(&self.folder, number)?;
        self.segment.sync_data()?;
        self.unwritten.set_torn(is_torn(&next)?);
        (self.segment, self.number) = (next, number);
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

fn lock_file(folder: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(LOCK))
}

/// Opens a segment to append, and holds a share of its lock for as long as it is open.
fn open_segment(folder: &Path, number: u64) -> io::Result<File> {
    let path = folder.join(format!("{number:08}.jsonl"));
    let file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    file.lock_shared()?;
    Ok(file)
}

/// Returns whether the last line of `segment` has no end.
fn is_torn(segment: &File) -> io::Result<bool> {
    let Some(last) = segment.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    match segment.read_exact_at(&mut byte, last) {
        Ok(()) => Ok(byte != *b"\n"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the segment at `path` and returns true, unless a process may still add to it.
fn remove_unless_open(path: &Path) -> io::Result<bool> {
    match File::open(path)?.try_lock() {
        Ok(()) => std::fs::remove_file(path).map(|()| true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
