//! Continuing in the background, so that the exit of the foreground process reports that a program
//! is ready.
//!
//! [`Background::start`] forks. The child continues, and the parent waits: it exits with code 0 when
//! the child calls [`Background::notify`], and otherwise with the exit code of the child. Until then
//! the child writes its errors to the standard error of the parent.

use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setsid, waitpid};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// The child of a process that waits until the child is ready.
#[derive(Debug)]
pub struct Background {
    ready: OwnedFd,
    /// Opened before the root of the file system may change.
    null: OwnedFd,
}

impl Background {
    /// Continues in a child. Call this function before the first thread is started, because only
    /// the calling thread continues.
    ///
    /// # Errors
    ///
    /// Returns the errors of `pipe2(2)` and `fork(2)`, EMFILE, and EBUSY if there are threads.
    pub fn start() -> io::Result<Self> {
        if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let (is_ready, ready) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the process has a single thread, so that the child may do everything that the
        // parent could have done.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(Self { ready, null }),
            child => {
                drop(ready);
                let code = exit_code(&is_ready, Pid::from_raw(child));
                // SAFETY: `_exit` ends the parent without the destructors, which the child runs.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Leaves the session and the standard streams of the parent, and lets the parent exit.
    ///
    /// # Errors
    ///
    /// Returns the error of `dup2(2)`.
    pub fn notify(self) -> io::Result<()> {
        // Fails only for the leader of a process group, which a new child is not.
        let _ = setsid();
        rustix::stdio::dup2_stdin(&self.null)?;
        rustix::stdio::dup2_stdout(&self.null)?;
        rustix::stdio::dup2_stderr(&self.null)?;
        // A parent that was killed needs no report.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.ready, b"1"));
        Ok(())
    }
}

/// Returns the exit code of the parent.
fn exit_code(is_ready: &OwnedFd, child: Option<Pid>) -> libc::c_int {
    let mut byte = [0];
    if rustix::io::retry_on_intr(|| rustix::io::read(is_ready, &mut byte)) == Ok(1) {
        return 0;
    }
    let ended = rustix::io::retry_on_intr(|| waitpid(child, WaitOptions::empty()));
    let code = ended.ok().flatten().and_then(|(_, status)| status.exit_status());
    // A child that was killed, or that exits without a report, is not ready.
    code.filter(|code| *code != 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::this_program;
    use std::io::{Read, Write};
    use std::process::Stdio;

    /// Runs an ignored test of this module in a program without other threads.
    fn run(code: &str) -> (Option<i32>, String) {
        let mut command = this_program("background::tests::child_continues");
        command.env("PLUMB_BACKGROUND", code);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (child.wait().unwrap().code(), errors)
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_continues() {
        let code = std::env::var("PLUMB_BACKGROUND").unwrap();
        let (is_ready, ready) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        // SAFETY: the child makes system calls and writes to standard error only.
        match unsafe { libc::fork() } {
            0 => {
                drop(is_ready);
                if code == "0" {
                    Background { ready, null }.notify().unwrap();
                    // The pipe of the test is closed, so that this text is not read.
                    io::stderr().write_all(b"in the background").unwrap();
                } else {
                    io::stderr().write_all(b"not ready").unwrap();
                }
                // SAFETY: ends the child.
                unsafe { libc::_exit(code.parse().unwrap()) }
            }
            child => {
                drop(ready);
                // SAFETY: ends the parent as `start` does.
                unsafe { libc::_exit(exit_code(&is_ready, Pid::from_raw(child))) }
            }
        }
    }

    #[test]
    fn the_parent_exits_when_the_child_is_ready_and_no_stream_is_left_open() {
        let (code, errors) = run("0");
        assert_eq!((code, errors.contains("in the background")), (Some(0), false));
    }

    #[test]
    fn the_parent_exits_with_the_code_of_a_child_that_fails() {
        let (code, errors) = run("7");
        assert_eq!((code, errors.contains("not ready")), (Some(7), true));
    }

    #[test]
    fn a_process_with_threads_does_not_continue_in_the_background() {
        let error = std::thread::spawn(Background::start).join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
