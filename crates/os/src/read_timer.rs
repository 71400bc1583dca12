//! A POSIX timer whose signal interrupts a thread's blocking read at a deadline.
//!
//! Waiting for a descriptor with a deadline and then reading takes two system calls. A blocking
//! read does both in one call but has no deadline. Therefore a kernel timer (timer_create(2)) sends
//! the thread a signal. The handler does nothing and is installed without `SA_RESTART` (signal(7)),
//! so the read returns `EINTR`.
//!
//! Setting a timer is a system call too, so it is avoided where possible: a timer that is set for a
//! time before the deadline is left unchanged and fires early. A transport's deadlines move later
//! with nearly every segment. The cost is one early signal per retransmission timeout instead of
//! one system call per segment.
//!
//! The signal may arrive between the caller's last clock reading and its read. Therefore the timer
//! repeats every millisecond until it is set again or turned off.

use crate::clock::Monotonic;
use net::Instant;
use std::io;
use std::thread::{self, ThreadId};

/// Timer whose signal interrupts a blocking read of one thread.
#[derive(Debug)]
pub(crate) struct ReadTimer {
    timer: libc::timer_t,
    thread: ThreadId,
    set_for: Option<Instant>,
}

// SAFETY: the timer is a number that any thread of the process may use. Its signal always goes to
// the thread that created it; `belongs_to_this_thread` checks for that thread.
unsafe impl Send for ReadTimer {}

impl ReadTimer {
    /// Creates a read timer for the calling thread, turned off.
    ///
    /// # Errors
    ///
    /// Returns `AlreadyExists` if the program handles the signal itself, otherwise the error of
    /// `sigaction(2)`, `pthread_sigmask(3)` or `timer_create(2)`.
    pub(crate) fn for_this_thread() -> io::Result<Self> {
        let signal = libc::SIGRTMIN() + SIGNAL_OFFSET;
        handle(signal)?;
        unblock(signal)?;
        // SAFETY: an all-zero `sigevent` is valid; the notification fields are set below.
        let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = core::ptr::null_mut();
        // SAFETY: the call reads `event` and writes `timer`; both are local variables.
        let status =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        match status {
            0 => Ok(Self { timer, thread: thread::current().id(), set_for: None }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns whether the signal goes to the calling thread.
    pub(crate) fn belongs_to_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Makes the timer fire at `at` or earlier. With `None`, a timer that has expired is turned
    /// off; a timer that has not expired stays set.
    ///
    /// # Errors
    ///
    /// Returns the error of `timer_settime(2)`.
    pub(crate) fn expire_by(
        &mut self,
        at: Option<Instant>,
        now: Instant,
        clock: &Monotonic,
    ) -> io::Result<()> {
        let is_firing = self.set_for.is_some_and(|set_for| set_for <= now);
        let is_late = match (self.set_for, at) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(set_for), Some(at)) => at < set_for,
        };
        if !is_firing && !is_late {
            return Ok(());
        }
        let at_nanos = at.map_or(0, |at| clock.nanos_at(at));
        let repeat_nanos = if at.is_some() { REPEAT_INTERVAL_NANOS } else { 0 };
        let setting =
            libc::itimerspec { it_interval: timespec(repeat_nanos), it_value: timespec(at_nanos) };
        // SAFETY: the timer belongs to `self`, the setting is read, and the old setting is not
        // requested.
        let status = unsafe {
            let flags = libc::TIMER_ABSTIME;
            libc::timer_settime(self.timer, flags, &raw const setting, core::ptr::null_mut())
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        self.set_for = at;
        Ok(())
    }
}

impl Drop for ReadTimer {
    fn drop(&mut self) {
        // SAFETY: the timer belongs to `self` and is not used afterwards.
        unsafe { libc::timer_delete(self.timer) };
    }
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// Installs a handler that does nothing, unless the program has its own handler for the signal.
fn handle(signal: libc::c_int) -> io::Result<()> {
    let own_handler = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: an all-zero `sigaction` is the default action; the kernel overwrites it with the
    // current one.
    let mut current_action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: no action is set, and the current one is written to a local variable.
    if unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut current_action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if current_action.sa_sigaction == own_handler {
        return Ok(());
    }
    if current_action.sa_sigaction != libc::SIG_DFL {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // SAFETY: an all-zero `sigaction` is the default action. It has no flags, so an interrupted
    // call is not restarted.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = own_handler;
    // SAFETY: the handler accesses no memory.
    match unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unblocks the signal for the calling thread.
fn unblock(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero `sigset_t` is valid, and `sigemptyset` initializes it before use.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is a local variable.
    let status = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut())
    };
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

fn timespec(nanos: u64) -> libc::timespec {
    // SAFETY: an all-zero `timespec` is the time 0.
    let mut time: libc::timespec = unsafe { core::mem::zeroed() };
    time.tv_sec = libc::time_t::try_from(nanos / 1_000_000_000).unwrap_or(libc::time_t::MAX);
    time.tv_nsec = libc::c_long::try_from(nanos % 1_000_000_000).unwrap_or(0);
    time
}

const REPEAT_INTERVAL_NANOS: u64 = 1_000_000;
/// Offset from `SIGRTMIN`; the C libraries reserve the first real-time signals for themselves.
const SIGNAL_OFFSET: libc::c_int = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use net::time::Duration;
    use rustix::io::Errno;
    use std::os::unix::net::UnixStream;

    fn read_indefinitely() -> Errno {
        let (reader, _writer) = UnixStream::pair().unwrap();
        rustix::io::read(&reader, &mut [0; 1]).unwrap_err()
    }

    #[test]
    fn a_blocking_read_ends_when_the_timer_expires() {
        let clock = Monotonic::start();
        let mut read_timer = ReadTimer::for_this_thread().unwrap();
        let at = clock.now() + Duration::from_millis(2);
        read_timer.expire_by(Some(at), clock.now(), &clock).unwrap();
        assert_eq!(read_indefinitely(), Errno::INTR);
        assert!(clock.now() >= at);
    }

    #[test]
    fn a_timer_that_expired_before_the_read_expires_again() {
        let clock = Monotonic::start();
        let mut read_timer = ReadTimer::for_this_thread().unwrap();
        read_timer.expire_by(Some(clock.now()), Instant::ZERO, &clock).unwrap();
        let expired_by = clock.now() + Duration::from_millis(1);
        while clock.now() < expired_by {}
        assert_eq!(read_indefinitely(), Errno::INTR);
    }

    #[test]
    fn a_timer_for_an_earlier_time_is_unchanged() {
        let clock = Monotonic::start();
        let mut read_timer = ReadTimer::for_this_thread().unwrap();
        let now = clock.now();
        let hour = Duration::from_secs(3600);
        read_timer.expire_by(Some(now + hour), now, &clock).unwrap();
        read_timer.expire_by(Some(now + 2 * hour), now, &clock).unwrap();
        assert_eq!(read_timer.set_for, Some(now + hour));
        read_timer.expire_by(None, now, &clock).unwrap();
        assert_eq!(read_timer.set_for, Some(now + hour));
    }

    #[test]
    fn an_expired_timer_is_disarmed_without_a_deadline() {
        let clock = Monotonic::start();
        let mut read_timer = ReadTimer::for_this_thread().unwrap();
        let at = clock.now() + Duration::from_millis(1);
        read_timer.expire_by(Some(at), clock.now(), &clock).unwrap();
        assert_eq!(read_indefinitely(), Errno::INTR);
        read_timer.expire_by(None, clock.now(), &clock).unwrap();
        assert_eq!(read_timer.set_for, None);
    }
}
