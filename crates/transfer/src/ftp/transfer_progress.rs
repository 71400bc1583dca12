//! Progress of all transfers of a command: bytes, and the files in transfer.

use crate::escaped;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of moved and of expected bytes of all sessions, and the files in transfer. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct TransferProgress {
    moved_bytes: Arc<AtomicU64>,
    expected_bytes: Arc<AtomicU64>,
    files: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl TransferProgress {
    /// Returns the number of bytes moved so far.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Returns the names of the files in transfer, without their directories, as one text of at most
    /// `width` characters; empty if none is in transfer.
    #[must_use]
    pub fn files_text(&self, width: usize) -> String {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<String> = files.iter().map(|path| file_name(path)).collect();
        shortened(&names, width)
    }

    /// Adds a file that is in transfer until the result is dropped.
    pub(super) fn begin_file(&self, path: &[u8]) -> RunningFile {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_vec());
        RunningFile { progress: self.clone(), path: path.to_vec() }
    }

    /// Returns the sum of the known file sizes, or `None` if no size is known.
    pub fn expected_bytes(&self) -> Option<u64> {
        Some(self.expected_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Sets the sum of the known file sizes.
    pub fn expect(&self, bytes: u64) {
        self.expected_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets both numbers to zero.
    pub fn restart(&self) {
        self.moved_bytes.store(0, Ordering::Relaxed);
        self.expect(0);
    }

    /// Adds the size of a file.
    pub(super) fn expect_more(&self, bytes: u64) {
        self.expected_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds moved bytes.
    pub(super) fn add(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the bytes of a failed attempt, because the next attempt may send the same bytes
    /// again.
    pub(super) fn subtract(&self, bytes: u64) {
        let subtract = |total: u64| Some(total.saturating_sub(bytes));
        _ = self.moved_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }
}

/// A file in transfer. Its drop removes the name.
#[derive(Debug)]
pub(super) struct RunningFile {
    progress: TransferProgress,
    path: Vec<u8>,
}

impl Drop for RunningFile {
    fn drop(&mut self) {
        let mut files = self.progress.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = files.iter().position(|path| *path == self.path) {
            files.remove(at);
        }
    }
}

/// Returns the last component of a path, escaped.
fn file_name(path: &[u8]) -> String {
    escaped(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

/// Returns the first names that fit into `width` characters, and the number of the others.
fn shortened(names: &[String], width: usize) -> String {
    let rest = |shown: usize| match names.len() - shown {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    for shown in (1..=names.len()).rev() {
        let shown_names = names.get(..shown).unwrap_or_default().join(", ");
        let text = shown_names + &rest(shown);
        if text.chars().count() <= width {
            return text;
        }
    }
    let Some(first) = names.first() else { return String::new() };
    let others = if names.len() > 1 { rest(1) } else { String::new() };
    let kept = width.saturating_sub(others.chars().count() + 3);
    format!("{}...{others}", first.chars().take(kept).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_while_it_is_in_transfer() {
        let progress = TransferProgress::default();
        let first = progress.begin_file(b"/pub/a.bin");
        let second = progress.begin_file(b"b.bin");
        assert_eq!(progress.files_text(80), "a.bin, b.bin");
        drop(first);
        assert_eq!(progress.files_text(80), "b.bin");
        drop(second);
        assert_eq!(progress.files_text(80), "");
    }

    #[test]
    fn names_that_do_not_fit_are_counted() {
        let names = ["image-1.iso", "image-2.iso", "image-3.iso"].map(str::to_owned);
        assert_eq!(shortened(&names, 40), "image-1.iso, image-2.iso, image-3.iso");
        assert_eq!(shortened(&names, 36), "image-1.iso, image-2.iso and 1 more");
        assert_eq!(shortened(&names, 30), "image-1.iso and 2 more");
        assert_eq!(shortened(&names, 20), "image-... and 2 more");
        assert_eq!(shortened(&names[..1], 8), "image...");
    }
}
