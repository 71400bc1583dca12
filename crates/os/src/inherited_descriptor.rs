//! Descriptors that the starting program passes by number: a pipe on which this process reports
//! that it is ready, and a pipe whose end asks it to exit (`--ready-fd` and `--exit-fd` of
//! slirp4netns).
//!
//! A number is untrusted: it may name a descriptor that this process has opened itself, and that
//! has another owner. All descriptors of this process have `FD_CLOEXEC`, which an inherited
//! descriptor cannot have, so that [`take`] rejects them. It sets the flag, so that a number can be
//! taken only once and programs that this process starts do not inherit the descriptor.

use rustix::io::{Errno, FdFlags};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{error, fmt, io};

/// Takes the ownership of the inherited descriptor `number`, which is not a standard stream.
///
/// # Errors
///
/// Returns [`InheritError`].
pub fn take(number: i32) -> Result<OwnedFd, InheritError> {
    if number <= LAST_STANDARD_STREAM {
        return Err(InheritError::NotInherited(number));
    }
    // SAFETY: the descriptor is used for two system calls, which fail if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = rustix::io::fcntl_getfd(borrowed).map_err(|error| match error {
        Errno::BADF => InheritError::NotOpen(number),
        error => InheritError::Other(number, error.into()),
    })?;
    if flags.contains(FdFlags::CLOEXEC) {
        return Err(InheritError::NotInherited(number));
    }
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)
        .map_err(|error| InheritError::Other(number, error.into()))?;
    // SAFETY: the descriptor is open. Without FD_CLOEXEC it was inherited and is not yet owned.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A pipe on which this process reports once that it is ready.
#[derive(Debug)]
pub struct ReadyDescriptor(OwnedFd);

impl ReadyDescriptor {
    /// Takes the inherited descriptor `number`, like [`take`].
    ///
    /// # Errors
    ///
    /// Returns [`InheritError`].
    pub fn take(number: i32) -> Result<Self, InheritError> {
        take(number).map(Self)
    }

    /// Writes `1` and closes the descriptor.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`: EPIPE if the reader has ended.
    pub fn notify(self) -> io::Result<()> {
        rustix::io::retry_on_intr(|| rustix::io::write(&self.0, b"1"))?;
        Ok(())
    }
}

/// A pipe or socket whose end asks this process to exit. It is readable, or reports `POLLHUP` or
/// `POLLERR`, when the process should exit; the content is not read.
#[derive(Debug)]
pub struct ExitDescriptor(OwnedFd);

impl ExitDescriptor {
    /// Takes the inherited descriptor `number`, like [`take`].
    ///
    /// # Errors
    ///
    /// Returns [`InheritError`].
    pub fn take(number: i32) -> Result<Self, InheritError> {
        take(number).map(Self)
    }
}

impl AsFd for ExitDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reason for which an inherited descriptor is rejected.
#[derive(Debug)]
pub enum InheritError {
    /// No descriptor has this number.
    NotOpen(RawFd),
    /// The number names a standard stream or a descriptor that this process has opened.
    NotInherited(RawFd),
    /// Any other error.
    Other(RawFd, io::Error),
}

impl fmt::Display for InheritError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen(number) => write!(f, "the file descriptor {number} is not open"),
            Self::NotInherited(number) => write!(
                f,
                "the file descriptor {number} was not passed by the starting program: pass one \
                 above 2"
            ),
            Self::Other(number, error) => {
                write!(f, "cannot use the file descriptor {number}: {error}")
            }
        }
    }
}

impl error::Error for InheritError {}

/// Standard error.
const LAST_STANDARD_STREAM: RawFd = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::{PollFlags, poll_now};
    use crate::testing::this_program;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::process::{Child, ChildStdin, Stdio};

    /// Starts the ignored test `name` of this program with a standard input and output at the
    /// descriptors 7 and 8.
    fn start(name: &str) -> Child {
        let mut command = std::process::Command::new("sh");
        let program = this_program(&format!("inherited_descriptor::tests::{name}"));
        command.args(["-c", "exec \"$0\" \"$@\" 7<&0 8>&1 >&2 </dev/null"]);
        command.arg(program.get_program()).args(program.get_args());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn close(stdin: Option<ChildStdin>) {
        drop(stdin.unwrap());
    }

    #[test]
    fn the_reader_of_the_ready_descriptor_gets_one_byte_and_the_end() {
        let mut child = start("child_notifies_and_waits");
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        assert_eq!(output, b"1");
        // The child is still running: it waits for the end of its exit descriptor.
        assert!(child.try_wait().unwrap().is_none());
        close(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    #[ignore = "run as a child process by other tests"]
    fn child_notifies_and_waits() {
        let exit = ExitDescriptor::take(7).unwrap();
        let ready = ReadyDescriptor::take(8).unwrap();
        assert!(matches!(take(7), Err(InheritError::NotInherited(7))));
        assert_eq!(poll_now(&exit, PollFlags::IN).unwrap(), PollFlags::empty());
        ready.notify().unwrap();
        crate::testing::wait_until_readable(&exit);
        assert!(poll_now(&exit, PollFlags::empty()).unwrap().contains(PollFlags::HUP));
    }

    #[test]
    fn a_descriptor_of_this_process_is_not_taken() {
        let own = std::fs::File::open("/dev/null").unwrap();
        for number in [-1, 0, 1, 2, own.as_raw_fd()] {
            assert!(matches!(take(number), Err(InheritError::NotInherited(_))));
        }
        own.metadata().unwrap();
    }

    #[test]
    fn a_number_without_a_descriptor_is_reported() {
        let error = take(1_000_000).unwrap_err();
        assert!(matches!(error, InheritError::NotOpen(1_000_000)), "{error}");
    }
}
