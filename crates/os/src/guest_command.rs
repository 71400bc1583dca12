//! A program in new namespaces: its own network, user, mounts, processes, IPC and host name.
//!
//! ```text
//!  gateway                                 child
//!     │── clone ──────────────────────────► map the user, mount /proc
//!     │◄───────────────────────── prepared ─┤
//!     │   open an interface in its network  │ wait
//!     │── run ────────────────────────────► exec
//!     │◄────────── end of the pipe, or errno ┤
//! ```
//!
//! The program is the first process of its namespace, so that all its descendants end with it. The
//! kernel kills it when the thread that called [`GuestCommand::prepare`] ends.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::{error, fmt, fs, io, ptr};

/// A program that waits in its namespaces, or that runs.
#[derive(Debug)]
pub struct GuestCommand {
    process: Pid,
    /// Readable after the end of the process.
    end: OwnedFd,
    /// Permission to run; the child ends if it is closed without one.
    run: Option<OwnedFd>,
    /// Errors of the child; it ends when the program runs.
    errors: OwnedFd,
    program: OsString,
}

impl GuestCommand {
    /// Creates the namespaces and a process in them that waits. `words` are the program and its
    /// arguments. `has_new_user` creates a user namespace, in which the calling user is root.
    ///
    /// Call this function before the first thread is started.
    ///
    /// # Errors
    ///
    /// Returns [`GuestCommandError`].
    pub fn prepare(words: &[OsString], has_new_user: bool) -> Result<Self, GuestCommandError> {
        let program = words.first().cloned().unwrap_or_default();
        let nul = |_| GuestCommandError::Run(program.clone(), io::ErrorKind::InvalidInput.into());
        let words = words.iter().map(|word| CString::new(word.as_bytes()));
        let words = words.collect::<Result<Vec<_>, _>>().map_err(nul)?;
        let failed = |error: io::Error| GuestCommandError::Namespaces(error);
        let (may_run, run) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let (errors, report) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let user = has_new_user.then(|| UserMaps {
            uid: format!("0 {} 1", rustix::process::geteuid().as_raw()),
            gid: format!("0 {} 1", rustix::process::getegid().as_raw()),
        });
        let mut arguments: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        arguments.push(ptr::null());
        let user_flag = if has_new_user { libc::CLONE_NEWUSER } else { 0 };
        // SAFETY: without a stack the call is a fork. The child allocates no memory, and executes a
        // program or exits.
        let child = unsafe {
            libc::syscall(libc::SYS_clone, NAMESPACES | user_flag | libc::SIGCHLD, 0, 0, 0, 0)
        };
        match child {
            -1 => return Err(failed(io::Error::last_os_error())),
            0 => {
                drop((run, errors));
                let error = become_guest(&arguments, user.as_ref(), [&may_run, &report]);
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                let _ = rustix::io::write(&report, &number.to_ne_bytes());
                // SAFETY: `_exit` ends the child without the destructors, which the parent runs.
                unsafe { libc::_exit(EXIT_NOT_RUN) }
            }
            _ => {}
        }
        drop((may_run, report));
        let process = i32::try_from(child).ok().and_then(Pid::from_raw);
        let process = process.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let end =
            pidfd_open(process, PidfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        match receive(&errors).map_err(failed)? {
            Some(PREPARED) => Ok(Self { process, end, run: Some(run), errors, program }),
            Some(number) => Err(failed(io::Error::from_raw_os_error(number))),
            None => Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns the process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        u32::try_from(self.process.as_raw_nonzero().get()).unwrap_or(0)
    }

    /// Runs the program.
    ///
    /// # Errors
    ///
    /// Returns [`GuestCommandError::Run`].
    pub fn run(&mut self) -> Result<(), GuestCommandError> {
        let failed = |error: io::Error| GuestCommandError::Run(self.program.clone(), error);
        let Some(run) = self.run.take() else { return Ok(()) };
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&run, b"1"));
        written.map_err(|error| failed(error.into()))?;
        match receive(&self.errors).map_err(failed)? {
            Some(number) => Err(failed(io::Error::from_raw_os_error(number))),
            None => Ok(()),
        }
    }

    /// Returns the exit code of the program, or 128 and the number of the signal that has ended it.
    /// Returns `None` while it runs.
    ///
    /// # Errors
    ///
    /// Returns the error of `waitpid(2)`.
    pub fn exit_code(&self) -> io::Result<Option<u8>> {
        let waited =
            rustix::io::retry_on_intr(|| waitpid(Some(self.process), WaitOptions::NOHANG))?;
        let Some((_, status)) = waited else { return Ok(None) };
        let code = status.exit_status();
        let code = code.or_else(|| status.terminating_signal().map(|signal| 128 + signal));
        Ok(code.map(|code| u8::try_from(code).unwrap_or(u8::MAX)))
    }
}

impl AsFd for GuestCommand {
    /// Returns a descriptor that is readable after the end of the program.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// Runs in the child. Returns the error that prevented the program from running.
fn become_guest(
    arguments: &[*const libc::c_char],
    user: Option<&UserMaps>,
    [may_run, report]: [&OwnedFd; 2],
) -> io::Error {
    let prepared = prepare_namespaces(user);
    let error = prepared.err().or_else(|| {
        let written = rustix::io::write(report, &PREPARED.to_ne_bytes());
        written.err().map(Into::into)
    });
    if let Some(error) = error {
        return error;
    }
    let mut byte = [0];
    if rustix::io::retry_on_intr(|| rustix::io::read(may_run, &mut byte)) != Ok(1) {
        // The gateway could not start, and has reported why.
        // SAFETY: ends the child.
        unsafe { libc::_exit(EXIT_NOT_RUN) }
    }
    // SAFETY: the signals get their default actions, as the program was started with them.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
    }
    let Some(program) = arguments.first().filter(|program| !program.is_null()) else {
        return Errno::NOENT.into();
    };
    // SAFETY: the program and the arguments are strings, and the list ends with a null pointer.
    unsafe { libc::execvp(*program, arguments.as_ptr()) };
    io::Error::last_os_error()
}

/// Maps of a user namespace, in the format of /proc.
struct UserMaps {
    uid: String,
    gid: String,
}

fn prepare_namespaces(user: Option<&UserMaps>) -> io::Result<()> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    if let Some(UserMaps { uid, gid }) = user {
        // After a change of the user, the files in /proc belong to root.
        let behavior = rustix::process::DumpableBehavior::Dumpable;
        rustix::process::set_dumpable_behavior(behavior)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", uid)?;
        fs::write("/proc/self/gid_map", gid)?;
    }
    // After a change of credentials, which would clear it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Unprivileged echo requests work for the only group. A kernel without IPv4 lacks the file.
    let _ = fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0");
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    // Where /proc may not be mounted, the old one stays. It shows the processes of the host.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount("proc", "/proc", "proc", flags, None);
    Ok(())
}

/// Reads a number from the child. Returns `None` at the end of the pipe.
fn receive(pipe: &OwnedFd) -> io::Result<Option<i32>> {
    let mut number = [0; 4];
    match rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut number))? {
        0 => Ok(None),
        4 => Ok(Some(i32::from_ne_bytes(number))),
        _ => Err(Errno::PROTO.into()),
    }
}

/// Returns the words of a command without words: the shell of the user.
#[must_use]
pub fn shell() -> Vec<OsString> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    vec![shell.unwrap_or_else(|| PathBuf::from("/bin/sh").into_os_string())]
}

/// Reasons why a program cannot run in new namespaces.
#[derive(Debug)]
pub enum GuestCommandError {
    /// The namespaces cannot be created.
    Namespaces(io::Error),
    /// The program cannot be executed.
    Run(OsString, io::Error),
}

impl fmt::Display for GuestCommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespaces(error) => write!(
                f,
                "cannot create namespaces: {error}; permit user namespaces, or run as root"
            ),
            Self::Run(program, error) => {
                write!(f, "cannot run {}: {error}", OsStr::display(program))
            }
        }
    }
}

impl error::Error for GuestCommandError {}

const NAMESPACES: libc::c_int = libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;
/// Report of the child that its namespaces are prepared; no errno has this number.
const PREPARED: i32 = 0;
/// Exit code of a child that executes no program, as in a shell.
const EXIT_NOT_RUN: libc::c_int = 127;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn run(command: &[&str]) -> u8 {
        let mut command = GuestCommand::prepare(&words(command), true).unwrap();
        command.run().unwrap();
        crate::testing::wait_until_readable(&command);
        command.exit_code().unwrap().unwrap()
    }

    #[test]
    fn the_program_is_root_and_the_first_process_in_a_network_of_its_own() {
        let script = r#"test "$(id -u) $$ $(ls /sys/class/net | wc -l)" && ip -o link | wc -l | grep -qx 1 \
            && test $$ = 1 && test "$(id -u)" = 0 && exit 7"#;
        assert_eq!(run(&["sh", "-c", script]), 7);
    }

    #[test]
    fn a_signal_is_reported_as_by_a_shell() {
        // The first process of a namespace ignores signals of its own.
        assert_eq!(run(&["sh", "-c", "sh -c 'kill -9 $$'; exit $?"]), 137);
    }

    #[test]
    fn a_program_that_does_not_exist_is_reported() {
        let mut command = GuestCommand::prepare(&words(&["/nonexistent"]), true).unwrap();
        let error = command.run().unwrap_err();
        assert!(error.to_string().starts_with("cannot run /nonexistent: No such"), "{error}");
    }

    #[test]
    fn a_command_that_is_not_run_ends() {
        let command = GuestCommand::prepare(&words(&["true"]), true).unwrap();
        let GuestCommand { process, end, run, .. } = command;
        drop(run);
        crate::testing::wait_until_readable(&end);
        waitpid(Some(process), WaitOptions::empty()).unwrap();
    }
}
