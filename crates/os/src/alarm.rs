//! An alarm for a thread that waits in a blocking read: a timer whose signal ends the read.
//!
//! A wait for a descriptor with a deadline is one system call, the read after it another. A read
//! that blocks is both in one, but has no deadline; so a timer of the kernel (timer_create(2))
//! sends the thread a signal, whose handler does nothing and is not to restart the call
//! (signal(7)), and the read returns.
//!
//! To set a timer is a system call too. So the alarm is lazy: while it is set for a time before
//! the deadline it is left alone, and rings too early. A transport's deadlines are moved away with
//! nearly every segment, and what is left is one false ring per retransmission time, not one
//! timer set per segment.
//!
//! The signal may come between the caller's last look at the clock and its read. So the alarm
//! rings on, once a millisecond, until it is set again or turned off.

use crate::clock::Monotonic;
use protocols::Instant;
use std::io;
use std::thread::{self, ThreadId};

/// The alarm of one thread.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: libc::timer_t,
    thread: ThreadId,
    set_for: Option<Instant>,
}

// SAFETY: the timer is a number that any thread of the process may use; that its signal goes to
// the thread that made it is what `belongs_to_this_thread` is for.
unsafe impl Send for Alarm {}

impl Alarm {
    /// Makes an alarm for the calling thread, turned off.
    ///
    /// # Errors
    ///
    /// AlreadyExists, if the program handles the signal itself; else what `timer_create` says.
    pub(crate) fn for_this_thread() -> io::Result<Self> {
        let signal = libc::SIGRTMIN() + SIGNAL_OFFSET;
        handle(signal)?;
        unblock(signal)?;
        // SAFETY: all zeros are an event that notifies nobody.
        let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = core::ptr::null_mut();
        // SAFETY: the event is read and the timer written, and both are ours.
        let answer =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        match answer {
            0 => Ok(Self { timer, thread: thread::current().id(), set_for: None }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns whether the signal goes to the calling thread.
    pub(crate) fn belongs_to_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Has the alarm ring at `at` or before, or not later than it was set for without one.
    ///
    /// # Errors
    ///
    /// What `timer_settime` says.
    pub(crate) fn ring_by(
        &mut self,
        at: Option<Instant>,
        now: Instant,
        clock: &Monotonic,
    ) -> io::Result<()> {
        let has_rung = self.set_for.is_some_and(|set_for| set_for <= now);
        let is_late = match (self.set_for, at) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(set_for), Some(at)) => at < set_for,
        };
        if !has_rung && !is_late {
            return Ok(());
        }
        let at_nanos = at.map_or(0, |at| clock.nanos_at(at));
        let again_nanos = if at.is_some() { RING_ON_NANOS } else { 0 };
        let setting =
            libc::itimerspec { it_interval: timespec(again_nanos), it_value: timespec(at_nanos) };
        // SAFETY: the timer is ours, the setting is read, and no old one is asked for.
        let answer = unsafe {
            let flags = libc::TIMER_ABSTIME;
            libc::timer_settime(self.timer, flags, &raw const setting, core::ptr::null_mut())
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        self.set_for = at;
        Ok(())
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and not used afterwards.
        unsafe { libc::timer_delete(self.timer) };
    }
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// Handles the signal by doing nothing, unless the program does something with it.
fn handle(signal: libc::c_int) -> io::Result<()> {
    let ours = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: all zeros are the default action; the kernel writes the present one over it.
    let mut present: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: nothing is set, and the answer is written to what is ours.
    if unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut present) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if present.sa_sigaction == ours {
        return Ok(());
    }
    if present.sa_sigaction != libc::SIG_DFL {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // SAFETY: as above. No flags: a call that is broken off is not made again.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = ours;
    // SAFETY: the handler touches nothing at all.
    match unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the signal through to the calling thread.
fn unblock(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeros are a set, and it is made empty before it is used.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours.
    let answer = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(answer)) }
}

fn timespec(nanos: u64) -> libc::timespec {
    // SAFETY: all zeros are the time 0.
    let mut time: libc::timespec = unsafe { core::mem::zeroed() };
    time.tv_sec = libc::time_t::try_from(nanos / 1_000_000_000).unwrap_or(libc::time_t::MAX);
    time.tv_nsec = libc::c_long::try_from(nanos % 1_000_000_000).unwrap_or(0);
    time
}

const RING_ON_NANOS: u64 = 1_000_000;
/// Above those that C libraries keep for themselves.
const SIGNAL_OFFSET: libc::c_int = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::time::Duration;
    use rustix::io::Errno;
    use std::os::unix::net::UnixStream;

    fn read_for_ever() -> Errno {
        let (near, _far) = UnixStream::pair().unwrap();
        rustix::io::read(&near, &mut [0; 1]).unwrap_err()
    }

    #[test]
    fn a_read_that_blocks_ends_when_the_alarm_rings() {
        let (clock, mut alarm) = (Monotonic::start(), Alarm::for_this_thread().unwrap());
        let at = clock.now() + Duration::from_millis(2);
        alarm.ring_by(Some(at), clock.now(), &clock).unwrap();
        assert_eq!(read_for_ever(), Errno::INTR);
        assert!(clock.now() >= at);
    }

    #[test]
    fn an_alarm_that_rang_before_the_read_rings_again() {
        let (clock, mut alarm) = (Monotonic::start(), Alarm::for_this_thread().unwrap());
        alarm.ring_by(Some(clock.now()), Instant::ZERO, &clock).unwrap();
        let rang_by = clock.now() + Duration::from_millis(1);
        while clock.now() < rang_by {}
        assert_eq!(read_for_ever(), Errno::INTR);
    }

    #[test]
    fn an_alarm_for_an_earlier_time_is_left_alone() {
        let (clock, mut alarm) = (Monotonic::start(), Alarm::for_this_thread().unwrap());
        let (now, hour) = (clock.now(), Duration::from_secs(3600));
        alarm.ring_by(Some(now + hour), now, &clock).unwrap();
        alarm.ring_by(Some(now + 2 * hour), now, &clock).unwrap();
        assert_eq!(alarm.set_for, Some(now + hour));
        alarm.ring_by(None, now, &clock).unwrap();
        assert_eq!(alarm.set_for, Some(now + hour));
    }

    #[test]
    fn an_alarm_that_has_rung_is_turned_off_without_a_deadline() {
        let (clock, mut alarm) = (Monotonic::start(), Alarm::for_this_thread().unwrap());
        let at = clock.now() + Duration::from_millis(1);
        alarm.ring_by(Some(at), clock.now(), &clock).unwrap();
        assert_eq!(read_for_ever(), Errno::INTR);
        alarm.ring_by(None, clock.now(), &clock).unwrap();
        assert_eq!(alarm.set_for, None);
    }
}
