//! Termination signals as a descriptor (signalfd(2)), for an event loop of a single thread.

use crate::process::ignores_hang_up;
use crate::unless_blocked;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// A descriptor that is readable after SIGHUP, SIGINT, SIGQUIT or SIGTERM. While it exists, these signals do
/// not end the process. A SIGHUP that the process ignores, as after nohup(1), stays ignored.
#[derive(Debug)]
pub struct TerminationDescriptor(OwnedFd);

impl TerminationDescriptor {
    /// Blocks the signals in the calling thread, which must be the only one. Programs that it
    /// starts later inherit this.
    ///
    /// # Errors
    ///
    /// Returns the error of `signalfd(2)`.
    pub fn new() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // A blocked signal would be queued although it is ignored.
        let hang_up = (!ignores_hang_up()).then_some(libc::SIGHUP);
        // SAFETY: sigemptyset initializes the set, and the other functions only read it or add a
        // valid signal.
        let descriptor = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let signals = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
            for signal in signals.into_iter().chain(hang_up) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Returns the number of the next signal that was received, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns the error of `read(2)`.
    pub fn signal(&self) -> io::Result<Option<i32>> {
        // struct signalfd_siginfo begins with the number of the signal.
        let mut information = [0; size_of::<libc::signalfd_siginfo>()];
        let length = unless_blocked(|| rustix::io::read(&self.0, &mut information))?;
        let number = information.first_chunk().map(|number| u32::from_ne_bytes(*number));
        Ok(length.and(number).and_then(|number| i32::try_from(number).ok()))
    }
}

impl AsFd for TerminationDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::this_program;

    #[test]
    fn a_termination_signal_is_read_instead_of_ending_the_process() {
        let output = this_program("signal_descriptor::tests::child_reads_its_signal").output();
        assert!(output.as_ref().unwrap().status.success(), "{output:?}");
    }

    #[test]
    fn an_ignored_hang_up_stays_ignored() {
        let output = this_program("signal_descriptor::tests::child_ignores_the_hang_up").output();
        assert!(output.as_ref().unwrap().status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_ignores_the_hang_up() {
        // SAFETY: the signal may be ignored, and no handler is installed.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let descriptor = TerminationDescriptor::new().unwrap();
        for signal in [libc::SIGHUP, libc::SIGTERM] {
            // SAFETY: the signals are ignored or blocked in this thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        }
        assert_eq!(descriptor.signal().unwrap(), Some(libc::SIGTERM));
        assert_eq!(descriptor.signal().unwrap(), None);
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_reads_its_signal() {
        let descriptor = TerminationDescriptor::new().unwrap();
        assert_eq!(descriptor.signal().unwrap(), None);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the signal is blocked in this thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
            assert_eq!(descriptor.signal().unwrap(), Some(signal));
        }
    }
}
