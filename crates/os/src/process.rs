//! Child processes that end together with this process.
//!
//! A program is signalled and awaited by its process ID, which cannot be reused before this process
//! has waited for it. Processes that the program starts are not tracked.

use crate::clock::Monotonic;
use crate::readiness::{PollFd, PollFlags, wait};
use net::time::Duration;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal};
use rustix::process::{getrlimit, kill_process, pidfd_open, set_dumpable_behavior, setrlimit};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus};
use std::sync::OnceLock;
use std::{io, ptr};

/// A running program. Dropping it sends SIGTERM, and SIGKILL if the program does not exit in time.
#[derive(Debug)]
pub struct Program {
    child: process::Child,
    status: Option<ExitStatus>,
}

impl Program {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()?, status: None })
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child process, with the pipes that `command` requested.
    pub fn child(&mut self) -> &mut process::Child {
        &mut self.child
    }

    /// Sends `signal`, unless the program has exited.
    ///
    /// # Errors
    ///
    /// Returns EPERM if the program runs as another user.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.exit_status()?.is_some() {
            return Ok(());
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends SIGTERM, unless the program has exited.
    ///
    /// # Errors
    ///
    /// Returns EPERM if the program runs as another user.
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Returns the program's exit status, or `None` while the program runs.
    ///
    /// # Errors
    ///
    /// Returns the error of `waitpid(2)`.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Returns a descriptor that becomes readable when the program exits.
    ///
    /// # Errors
    ///
    /// Returns the error of `pidfd_open(2)`.
    pub fn exit_descriptor(&self) -> io::Result<OwnedFd> {
        Ok(pidfd_open(Pid::from_child(&self.child), PidfdFlags::NONBLOCK)?)
    }

    /// Waits until the program has exited, for at most `limit`; returns `None` after that time.
    ///
    /// # Errors
    ///
    /// Returns the error of `pidfd_open(2)`, `ppoll(2)` or `waitpid(2)`.
    pub fn wait_for_end(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.exit_status()? {
            return Ok(Some(status));
        }
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let clock = Monotonic::start();
        let until = clock.now() + limit;
        wait(&mut [PollFd::new(&process, PollFlags::IN)], &clock, Some(until))?;
        self.exit_status()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.signal(Signal::TERM).is_ok()
            && matches!(self.wait_for_end(TERMINATION_TIMEOUT), Ok(Some(_)))
        {
            return;
        }
        // An error means that there is no process left to kill or to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Limit on open descriptors before [`allow_descriptors`] changed it.
static ORIGINAL_DESCRIPTORS: OnceLock<Rlimit> = OnceLock::new();

/// Number of the standard streams.
const STANDARD_STREAMS: u32 = 3;

/// Makes `command` start with only the standard descriptors, and with the limit on open descriptors
/// that this process started with.
pub fn isolate(command: &mut Command) {
    // SAFETY: between fork and exec only system calls are made, and nothing allocates.
    unsafe {
        command.pre_exec(|| {
            // Before Linux 5.11 the call fails, and descriptors without CLOEXEC are inherited.
            let [first, last] = [STANDARD_STREAMS, u32::MAX];
            libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC);
            if let Some(limit) = ORIGINAL_DESCRIPTORS.get() {
                setrlimit(Resource::Nofile, *limit)?;
            }
            Ok(())
        });
    }
}

/// Raises the limit on open descriptors to `count`, or as far as permitted.
///
/// # Errors
///
/// Returns EPERM if `count` exceeds the hard limit and the process may not raise the hard limit.
pub fn allow_descriptors(count: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    ORIGINAL_DESCRIPTORS.get_or_init(|| limit);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(count));
    let new_limit = Rlimit { current: Some(count), maximum };
    let Err(error) = setrlimit(Resource::Nofile, new_limit) else { return Ok(()) };
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Err(error.into())
}

/// Ignores the signals that usually end a process: SIGHUP, SIGINT and SIGTERM. This is for a
/// process that shuts down only when another process requests it.
pub fn ignore_termination_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the signals may be ignored, and no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Makes a write beyond the limit of the file size (`RLIMIT_FSIZE`) return EFBIG instead of ending this
/// process.
pub fn ignore_file_size_signal() {
    // SAFETY: the signal may be ignored, and no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns whether this process ignores SIGHUP, as a program that nohup(1) has started does.
#[must_use]
pub fn ignores_hang_up() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, the call only writes the present one.
    let status = unsafe { libc::sigaction(libc::SIGHUP, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call has succeeded, so it has written the action.
    status == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Resets SIGINT and SIGQUIT to their default action, also for programs started later.
///
/// A shell without job control starts background programs with both ignored.
pub fn reset_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the signals may be caught, and no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes all descriptors that the starting program has passed but the standard streams and `kept`.
/// A program in the background would otherwise keep the pipes of its caller open.
///
/// Call this function before the process opens descriptors of its own. Before Linux 5.9, the
/// descriptors stay open.
pub fn close_inherited(kept: Option<i32>) {
    let kept = kept.and_then(|kept| u32::try_from(kept).ok());
    let kept = (0..STANDARD_STREAMS).chain(kept).collect();
    // SAFETY: no descriptor above the standard streams has an owner in this process yet.
    unsafe { close_ranges_between(kept) };
}

/// Protects this process from the programs of a user namespace that it is about to enter: they may
/// then neither trace it, nor read its memory and its descriptors in /proc (`PR_SET_DUMPABLE`). A
/// change of the user namespace alone does not have this effect.
///
/// # Errors
///
/// Returns the error of `prctl(2)`.
pub(crate) fn forbid_tracing() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Closes all descriptors of this process but those of `kept`. Before Linux 5.9, they stay open.
///
/// # Safety
///
/// The process must not use any of the closed descriptors afterwards, and must not run destructors
/// that close them.
pub(crate) unsafe fn close_all_but(kept: &[BorrowedFd<'_>]) {
    let numbers = kept.iter().filter_map(|descriptor| u32::try_from(descriptor.as_raw_fd()).ok());
    // SAFETY: kept by the caller.
    unsafe { close_ranges_between(numbers.collect()) };
}

/// Closes all descriptors of this process whose numbers are not in `kept`. Before Linux 5.9, they stay
/// open.
///
/// # Safety
///
/// As for [`close_all_but`].
unsafe fn close_ranges_between(mut kept: Vec<u32>) {
    kept.sort_unstable();
    let mut first = 0;
    for number in kept {
        if let Some(last) = number.checked_sub(1).filter(|last| first <= *last) {
            // SAFETY: kept by the caller.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = number.saturating_add(1);
    }
    // SAFETY: kept by the caller.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// Protects a child that is about to enter the namespaces of a guest: closes all descriptors but those
/// of `kept`, and forbids the programs of the guest to trace the child.
///
/// # Errors
///
/// Returns the error of `prctl(2)`.
///
/// # Safety
///
/// As for [`close_all_but`].
pub(crate) unsafe fn protect_from_guest(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    // SAFETY: kept by the caller.
    unsafe { close_all_but(kept) };
    forbid_tracing()
}

/// Makes SIGTERM and SIGQUIT end this process with exit code 0, without running destructors.
pub fn exit_at_termination() {
    extern "C" fn exit(_signal: libc::c_int) {
        // SAFETY: `_exit` may be called in a handler of signals.
        unsafe { libc::_exit(0) }
    }
    for signal in [libc::SIGTERM, libc::SIGQUIT] {
        // SAFETY: the handler only ends the process.
        unsafe { libc::signal(signal, exit as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// Ignores SIGINT, which a terminal also sends to the program that this process runs.
pub fn ignore_interrupts() {
    // SAFETY: the signal may be ignored, and no handler is installed.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Returns the limit on open descriptors of this process; `None` if it is unlimited.
#[must_use]
pub fn descriptors_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Time in which a program may exit after SIGTERM before it is killed.
const TERMINATION_TIMEOUT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    #[test]
    fn a_program_that_ignored_an_interrupt_is_ended_by_it_after_a_reset() {
        let mut command = Command::new("sh");
        command.args(["-c", "kill -INT $$; exit 7"]);
        // SAFETY: between fork and exec only system calls are made, and nothing allocates.
        unsafe {
            command.pre_exec(|| {
                ignore_termination_signals();
                reset_interrupts();
                Ok(())
            });
        }
        assert_eq!(command.status().unwrap().signal(), Some(libc::SIGINT));
    }

    #[test]
    fn a_dropped_program_has_exited_and_left_no_zombie() {
        let program = Program::start(Command::new("sleep").arg("600")).unwrap();
        let id = Pid::from_child(&program.child);
        assert_eq!(test_kill_process(id), Ok(()));
        drop(program);
        assert_eq!(test_kill_process(id), Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn descriptors_that_are_allowed_already_stay_allowed() {
        let previous_limit = getrlimit(Resource::Nofile);
        allow_descriptors(16).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), previous_limit);
    }

    #[test]
    fn inherited_descriptors_are_closed_but_the_kept_one() {
        let program = crate::testing::this_program("process::tests::child_closes_descriptors");
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 7</dev/null 8</dev/null 9</dev/null"]);
        command.arg(program.get_program()).args(program.get_args());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "run as a child process by another test"]
    fn child_closes_descriptors() {
        close_inherited(Some(8));
        let is_open = |number| std::fs::metadata(format!("/proc/self/fd/{number}")).is_ok();
        assert_eq!([7, 8, 9].map(is_open), [false, true, false]);
    }

    // attack row 123
    #[test]
    fn an_isolated_program_inherits_no_descriptors_and_has_the_original_limit() {
        let descriptor = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 40).unwrap();
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::empty()).unwrap();
        let original = ORIGINAL_DESCRIPTORS.get_or_init(|| getrlimit(Resource::Nofile));
        let mut command = Command::new("sh");
        command.args(["-c", "test -e /proc/self/fd/40 && echo inherited; ulimit -n"]);
        isolate(&mut command);
        let stdout = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let limit = original.current.map_or("unlimited".to_owned(), |limit| limit.to_string());
        assert_eq!(stdout.trim(), limit);
    }

    #[test]
    fn a_program_that_ignores_the_request_is_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo ready; exec sleep 600"]);
        let mut program = Program::start(command.stdout(Stdio::piped())).unwrap();
        program.child().stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
        let id = Pid::from_child(&program.child);
        drop(program);
        assert_eq!(test_kill_process(id), Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn the_end_of_a_program_is_awaited_and_reported() {
        let mut program = Program::start(&mut Command::new("false")).unwrap();
        let status = program.wait_for_end(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(status.code(), Some(1));
        program.signal(Signal::TERM).unwrap();
    }

    #[test]
    fn waiting_for_a_running_program_times_out() {
        let mut program = Program::start(Command::new("sleep").arg("600")).unwrap();
        assert_eq!(program.wait_for_end(Duration::from_millis(1)).unwrap(), None);
        program.signal(Signal::KILL).unwrap();
        let status = program.wait_for_end(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    }
}
