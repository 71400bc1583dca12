//! Progress of all transfers of a command, for its display.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of moved and of expected bytes of all sessions. Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct TransferProgress {
    moved_bytes: Arc<AtomicU64>,
    expected_bytes: Arc<AtomicU64>,
}

impl TransferProgress {
    /// Returns the number of bytes moved so far.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_never_makes_the_progress_negative() {
        let progress = TransferProgress::default();
        progress.expect_more(7);
        progress.clone().add(5);
        progress.subtract(3);
        assert_eq!((progress.moved_bytes(), progress.expected_bytes()), (2, Some(7)));
        progress.subtract(9);
        assert_eq!(progress.moved_bytes(), 0);
        progress.restart();
        assert_eq!(progress.expected_bytes(), None);
    }
}
