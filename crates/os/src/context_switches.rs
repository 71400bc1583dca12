//! Voluntary and involuntary context switches of the calling thread.

use libc::{RUSAGE_THREAD, getrusage, rusage};

/// Context switches of one thread since its start, or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSwitches {
    /// Context switches because the thread waited for something.
    pub voluntary: u64,
    /// Context switches because another thread was scheduled instead.
    pub involuntary: u64,
}

impl ContextSwitches {
    /// Returns the counts of the calling thread; `None` if the kernel does not count them.
    #[must_use]
    pub fn of_thread() -> Option<Self> {
        let mut usage = std::mem::MaybeUninit::<rusage>::zeroed();
        // SAFETY: the call writes into memory of the right size, and an all-zero struct is valid
        // too.
        let usage = unsafe {
            if getrusage(RUSAGE_THREAD, usage.as_mut_ptr()) != 0 {
                return None;
            }
            usage.assume_init()
        };
        Some(Self {
            voluntary: u64::try_from(usage.ru_nvcsw).ok()?,
            involuntary: u64::try_from(usage.ru_nivcsw).ok()?,
        })
    }

    /// Returns the switches of the same thread after the reading `earlier`.
    #[must_use]
    pub const fn switches_since(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn waiting_for_another_thread_counts_as_a_voluntary_switch() {
        let (ask, asked) = channel();
        let (reply, answered) = channel();
        let other = std::thread::spawn(move || {
            while asked.recv().is_ok() {
                reply.send(()).unwrap();
            }
        });
        let before = ContextSwitches::of_thread().unwrap();
        // With two processors some of the replies may be ready before this thread waits for them.
        while ContextSwitches::of_thread().unwrap().switches_since(before).voluntary == 0 {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }
        drop(ask);
        other.join().unwrap();
    }

    #[test]
    fn counts_do_not_decrease_over_time() {
        let before = ContextSwitches::of_thread().unwrap();
        let after = ContextSwitches::of_thread().unwrap();
        assert_eq!(before.switches_since(after), ContextSwitches::default());
        assert!(after.voluntary >= before.voluntary && after.involuntary >= before.involuntary);
    }
}
