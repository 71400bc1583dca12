//! Waiting: one thread, some descriptors, one deadline.
//!
//! The readiness driver asks its engines for the earliest deadline, waits here for a packet, a
//! key or that moment, and calls whoever has something to do.

use crate::clock::Monotonic;
use protocols::Instant;
use protocols::time::Duration;
pub use rustix::event::{PollFd, PollFlags};
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This many descriptors have something to say; `PollFd::revents` says which.
    Ready(usize),
    /// The deadline has come.
    Deadline,
}

/// Waits until a descriptor is ready or `clock` reaches `until`; without a deadline, for ever.
///
/// Where both are true the descriptors win. A deadline in the past asks without waiting. A
/// signal does not end the wait: whoever handles one makes a descriptor readable.
///
/// # Errors
///
/// What `ppoll` says: too many descriptors, or no memory.
pub fn wait(
    descriptors: &mut [PollFd<'_>],
    clock: &Monotonic,
    until: Option<Instant>,
) -> io::Result<Wake> {
    loop {
        let limit = until.map(|until| timespec(until - clock.now()));
        match poll(descriptors, limit.as_ref()) {
            Ok(0) => return Ok(Wake::Deadline),
            Ok(ready) => return Ok(Wake::Ready(ready)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What owns its descriptor.
///
/// # Safety
///
/// The descriptor stays open and the same until the owner is dropped.
pub unsafe trait OwnsDescriptor: AsRawFd {}

// SAFETY: it owns its descriptor and does nothing else.
unsafe impl OwnsDescriptor for OwnedFd {}
// SAFETY: a socket is closed when it is dropped, and has no way to be another before.
unsafe impl OwnsDescriptor for TcpStream {}
#[cfg(target_os = "linux")]
// SAFETY: our end of the terminal is an `OwnedFd` that is never replaced.
unsafe impl OwnsDescriptor for crate::pty::PtyProgram {}
#[cfg(target_os = "linux")]
// SAFETY: the socket is an `OwnedFd` that is never replaced.
unsafe impl OwnsDescriptor for crate::datagram::DatagramSocket {}

// SAFETY: a serial line is an `OwnedFd` that is never replaced.
unsafe impl OwnsDescriptor for crate::serial::Serial {}

/// Has a tokio runtime wait for what `owner` owns.
///
/// # Errors
///
/// Where there are no descriptors left, and for what cannot be waited for.
pub fn register<T: OwnsDescriptor>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the descriptor is owned, so it stays open and the same until the drop.
    let registered = unsafe { AsyncFd::register_with_interest(owner, interest) };
    registered.map_err(io::Error::from)
}

/// A descriptor of somebody else's whose input a tokio runtime waits for.
#[derive(Debug)]
pub struct Watched {
    /// A duplicate, so that it stays open as long as it is registered.
    descriptor: AsyncFd<OwnedFd>,
}

impl Watched {
    /// Starts to watch `descriptor`, inside a tokio runtime; `None` for what is always ready and
    /// cannot be watched: a regular file, /dev/null.
    ///
    /// # Errors
    ///
    /// Where there are no descriptors left.
    pub fn new(descriptor: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let descriptor = descriptor.try_clone_to_owned()?;
        // SAFETY: the descriptor is owned, so it stays open and the same until the drop.
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        match watched.map_err(io::Error::from) {
            Ok(descriptor) => Ok(Some(Self { descriptor })),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns `Ready` once for each time that something has come since the last one.
    ///
    /// What one read leaves is not told again: read until nothing is left.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.descriptor.poll_read_ready(context).map_ok(|mut ready| ready.clear_ready())
    }
}

/// Has the calling thread's waits end at their deadline, but for the time it takes to wake up.
///
/// Linux otherwise lets them run 50 microseconds over, to wake several threads at once.
///
/// # Errors
///
/// What `prctl` says.
#[cfg(target_os = "linux")]
pub fn set_exact_deadlines() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?)
}

fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_without_news_lasts_until_its_deadline() {
        let clock = Monotonic::start();
        let until = clock.now() + Duration::from_millis(3);
        assert_eq!(wait(&mut [], &clock, Some(until)).unwrap(), Wake::Deadline);
        assert!(clock.now() >= until);
    }

    #[test]
    fn a_descriptor_that_is_ready_wins_over_a_deadline_in_the_past() {
        let (near, far) = UnixStream::pair().unwrap();
        rustix::io::write(&far, b"x").unwrap();
        let mut descriptors = [PollFd::new(&near, PollFlags::IN), PollFd::new(&far, PollFlags::IN)];
        let wake = wait(&mut descriptors, &Monotonic::start(), Some(Instant::ZERO)).unwrap();
        assert_eq!(wake, Wake::Ready(1));
        assert_eq!(descriptors[0].revents(), PollFlags::IN);
        assert_eq!(descriptors[1].revents(), PollFlags::empty());
    }

    #[test]
    fn what_is_watched_is_told_once_and_a_regular_file_cannot_be_watched() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let watched = Watched::new(near.as_fd()).unwrap().unwrap();
            rustix::io::write(&far, b"x").unwrap();
            std::future::poll_fn(|context| watched.poll_ready(context)).await.unwrap();
            let again = std::future::poll_fn(|context| Poll::Ready(watched.poll_ready(context)));
            assert!(again.await.is_pending());
            let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
            assert!(Watched::new(file.as_fd()).unwrap().is_none());
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn exact_deadlines_are_granted_to_any_thread() {
        set_exact_deadlines().unwrap();
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }
}
