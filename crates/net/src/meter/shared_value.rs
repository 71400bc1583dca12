//! One value of a meter: a number that one thread changes and any thread may read.

use core::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread changes and any thread may read.
#[derive(Debug, Default)]
pub(super) struct SharedValue(pub(super) AtomicU64);

impl SharedValue {
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }
}

impl Clone for SharedValue {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.get()))
    }
}
