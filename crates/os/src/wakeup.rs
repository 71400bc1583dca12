//! The end of another thread's wait, by an eventfd(2).

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An event that one thread signals and another thread waits for. Its descriptor is readable from
/// [`Wakeup::signal`] until [`Wakeup::reset`].
#[derive(Debug)]
pub struct Wakeup {
    event: OwnedFd,
}

impl Wakeup {
    /// Creates an event that is not signaled.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event })
    }

    /// Signals the event.
    pub fn signal(&self) {
        // The write fails only if the counter is full, and then the eventfd is readable already.
        _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Resets the event.
    pub fn reset(&self) {
        let read = rustix::io::read(&self.event, &mut [0; 8]);
        debug_assert!(matches!(read, Ok(_) | Err(Errno::AGAIN)), "{read:?}");
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
