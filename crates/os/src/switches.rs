//! How often the calling thread gave its processor away.

use libc::{RUSAGE_THREAD, getrusage, rusage};

/// Counts of one thread since it was started, or between two moments of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Times that it waited for something.
    pub voluntary: u64,
    /// Times that another was let in its place.
    pub involuntary: u64,
}

impl Switches {
    /// Returns those of the calling thread; `None` where the kernel does not count them.
    #[must_use]
    pub fn of_thread() -> Option<Self> {
        let mut usage = std::mem::MaybeUninit::<rusage>::zeroed();
        // SAFETY: there is room for what the call writes, and all zeros are such a thing too.
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

    /// Returns what has come to those of the same thread since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
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
    fn a_thread_that_waits_for_another_has_given_its_processor_away() {
        let ((ask, asked), (answer, answered)) = (channel(), channel());
        let other = std::thread::spawn(move || {
            while asked.recv().is_ok() {
                answer.send(()).unwrap();
            }
        });
        let before = Switches::of_thread().unwrap();
        // With two processors some of the answers may be there before they are waited for.
        while Switches::of_thread().unwrap().since(before).voluntary == 0 {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }
        drop(ask);
        other.join().unwrap();
    }

    #[test]
    fn of_two_moments_the_later_one_has_no_less() {
        let before = Switches::of_thread().unwrap();
        let after = Switches::of_thread().unwrap();
        assert_eq!(before.since(after), Switches::default());
        assert!(after.voluntary >= before.voluntary && after.involuntary >= before.involuntary);
    }
}
