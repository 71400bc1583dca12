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
    #[cfg(target_os = "linux")]
    fn exact_deadlines_are_granted_to_any_thread() {
        set_exact_deadlines().unwrap();
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }
}
