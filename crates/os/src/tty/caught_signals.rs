//! Termination signals that a program catches for a time, so that it can end its work in order.

use super::{display, disposition, is_in_foreground, raise, restore_action, set_from_anywhere};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{io, ptr};

/// Signals that are caught, with their names.
const SIGNALS: [(i32, &str); 3] =
    [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")];

/// Read and write ends of the pipe into which the handler writes.
static PIPE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();
/// Number of the first signal that was caught; 0 if none was caught.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Actions before the signals were caught; empty while they are not caught.
static PREVIOUS: Mutex<Vec<(i32, libc::sigaction)>> = Mutex::new(Vec::new());

/// A caught signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaughtSignal {
    /// Number of the signal.
    pub number: i32,
    /// Name of the signal.
    pub name: &'static str,
}

/// A descriptor that becomes readable when SIGINT, SIGTERM or SIGHUP arrives while they are caught.
/// The first signal does not end the process, and the second one does.
#[derive(Debug)]
pub struct CaughtSignals {
    pipe: &'static (OwnedFd, OwnedFd),
}

impl CaughtSignals {
    /// Creates the descriptor. Signals keep their actions until [`Self::catch`].
    ///
    /// # Errors
    ///
    /// Returns EMFILE if no descriptors are left.
    pub fn new() -> io::Result<Self> {
        if PIPE.get().is_none() {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            for end in [&read, &write] {
                let flags = rustix::fs::fcntl_getfl(end)?;
                rustix::fs::fcntl_setfl(end, flags | OFlags::NONBLOCK)?;
            }
            PIPE.get_or_init(|| (read, write));
        }
        Ok(Self { pipe: PIPE.get().ok_or(Errno::BADF)? })
    }

    /// Catches the signals until [`Self::release`]. Ignored signals stay ignored, as under nohup.
    ///
    /// # Errors
    ///
    /// Returns the error of `sigaction(2)`.
    pub fn catch(&self) -> io::Result<()> {
        let mut previous = PREVIOUS.lock().unwrap_or_else(PoisonError::into_inner);
        if !previous.is_empty() {
            return Ok(());
        }
        for (signal, _) in SIGNALS {
            let action = disposition(signal)?;
            if action.sa_sigaction != libc::SIG_IGN {
                previous.push((signal, action));
                super::set_handler(signal, on_signal as *const () as libc::sighandler_t)?;
            }
        }
        Ok(())
    }

    /// Restores the actions of the signals. A signal that was caught can still be taken.
    pub fn release(&self) {
        let mut previous = PREVIOUS.lock().unwrap_or_else(PoisonError::into_inner);
        for (signal, action) in previous.drain(..) {
            restore_action(signal, &action);
        }
    }

    /// Returns, once, the signal that was caught.
    #[must_use]
    pub fn take(&self) -> Option<CaughtSignal> {
        let mut bytes = [0; 64];
        while matches!(rustix::io::read(&self.pipe.0, &mut bytes), Ok(length) if length > 0) {}
        let number = FIRST.swap(0, Ordering::AcqRel);
        let (number, name) = SIGNALS.into_iter().find(|(signal, _)| *signal == number)?;
        Some(CaughtSignal { number, name })
    }
}

impl AsFd for CaughtSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}

extern "C" fn on_signal(signal: i32) {
    if FIRST.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        if let Some((_, write)) = PIPE.get() {
            // A full pipe is readable already.
            let _ = rustix::io::write(write, &[0]);
        }
        return;
    }
    // The program has not processed the first signal.
    if is_in_foreground() {
        display::reset();
    }
    set_from_anywhere(false);
    let mut default = super::no_action();
    default.sa_sigaction = libc::SIG_DFL;
    // SAFETY: the action is the kernel's own, and the old action is not requested.
    let _ = unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
    // The signal is blocked until this handler returns.
    raise(signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::{PollFlags, poll_now};
    use crate::testing::this_program;

    #[test]
    fn a_signal_is_read_while_it_is_caught_and_a_second_one_ends_the_process() {
        let name = "tty::caught_signals::tests::child_catches_its_signals";
        let output = this_program(name).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("caught SIGTERM"), "{text}");
        let ended_by = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(ended_by, Some(libc::SIGHUP), "{text}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn child_catches_its_signals() {
        for (signal, _) in SIGNALS {
            // A signal that the test program ignores would stay ignored.
            // SAFETY: the default action runs no code of this program.
            assert_ne!(unsafe { libc::signal(signal, libc::SIG_DFL) }, libc::SIG_ERR);
        }
        let signals = CaughtSignals::new().unwrap();
        signals.catch().unwrap();
        raise(libc::SIGTERM);
        assert!(poll_now(&signals, PollFlags::IN).unwrap().contains(PollFlags::IN));
        println!("caught {}", signals.take().unwrap().name);
        assert_eq!(signals.take(), None);
        signals.release();
        signals.catch().unwrap();
        raise(libc::SIGINT);
        raise(libc::SIGHUP);
        unreachable!("the second signal ends the process");
    }
}
