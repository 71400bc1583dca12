//! The user's terminal: raw mode that is undone whenever the program ends, and the window size.
//!
//! Raw mode passes every key to the program, even ^C, and makes the terminal unusable if it remains
//! after the program has ended. Therefore it is undone wherever a program can end: when the guard
//! is dropped; in a panic, before its message is printed; and in a handler of SIGTERM, SIGHUP,
//! SIGINT and SIGQUIT, which then restores the signal's previous action and raises it again, unless
//! a handler that was installed later called it.
//! SIGTERM and SIGHUP can be deferred for a short time ([`defer_termination`]), so that a program can
//! cancel an exchange with its peer before it ends.
//! SIGTSTP undoes raw mode while the program is stopped, and SIGCONT restores it. Only SIGKILL and
//! a power failure are not covered.
//!
//! A handler may interrupt any code, so it only loads atomics and makes system calls. The terminal
//! belongs to its foreground process group: a process in the background does not change it.

mod display;

pub use display::set_display_reset;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::{OptionalActions, Termios, Winsize};
use rustix::termios::{isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{error, fmt, io, panic, ptr};

/// Returns whether the standard input is a terminal, and thus a keyboard.
#[must_use]
pub fn is_stdin_terminal() -> bool {
    isatty(rustix::stdio::stdin())
}

/// Returns whether the standard output is a terminal, and thus a screen.
#[must_use]
pub fn is_stdout_terminal() -> bool {
    isatty(rustix::stdio::stdout())
}

/// Size of a terminal's window in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Number of lines.
    pub rows: u16,
    /// Number of characters per line.
    pub columns: u16,
}

impl WindowSize {
    /// Returns the size of the window of `terminal`, or `None` if it is unknown.
    #[must_use]
    pub fn of(terminal: impl AsFd) -> Option<Self> {
        let size = tcgetwinsize(terminal).ok()?;
        let is_known = size.ws_row > 0 && size.ws_col > 0;
        is_known.then_some(Self { rows: size.ws_row, columns: size.ws_col })
    }
}

impl From<WindowSize> for Winsize {
    fn from(size: WindowSize) -> Self {
        Self { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// Guard for raw mode of the standard input's terminal. Dropping it ends raw mode.
#[derive(Debug)]
pub struct RawMode {
    modes: &'static Modes,
}

/// Terminal modes before raw mode, and in raw mode.
#[derive(Debug)]
struct Modes {
    original: Termios,
    raw: Termios,
}

/// The terminal of the standard input. It is never closed, so that a signal handler may use it at
/// any time.
static TERMINAL: OnceLock<OwnedFd> = OnceLock::new();
/// Modes of the existing guard. They are never freed, so that a signal handler may use them at any
/// time.
static MODES: AtomicPtr<Modes> = AtomicPtr::new(ptr::null_mut());
/// True while the guard wants raw mode.
static IS_RAW: AtomicBool = AtomicBool::new(false);

impl RawMode {
    /// Puts the standard input's terminal into raw mode.
    ///
    /// Each call leaks slightly more than a hundred bytes: within a session use
    /// [`Self::set_cooked`] and [`Self::set_raw`].
    ///
    /// # Errors
    ///
    /// Returns [`RawModeError`].
    pub fn enter() -> Result<Self, RawModeError> {
        if !is_stdin_terminal() {
            return Err(RawModeError::NoTerminal);
        }
        let terminal = terminal()?;
        let original = tcgetattr(terminal).map_err(io::Error::from)?;
        let mut raw = original.clone();
        raw.make_raw();
        let modes: &'static Modes = Box::leak(Box::new(Modes { original, raw }));
        let place = ptr::from_ref(modes).cast_mut();
        let none = ptr::null_mut();
        if MODES.compare_exchange(none, place, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Err(RawModeError::AlreadyRaw);
        }
        let guard = Self { modes };
        install()?;
        guard.set_raw()?;
        Ok(guard)
    }

    /// Restores the terminal's previous modes, for a command line.
    ///
    /// # Errors
    ///
    /// Returns EIO if the terminal has hung up.
    pub fn set_cooked(&self) -> io::Result<()> {
        IS_RAW.store(false, Ordering::SeqCst);
        Ok(tcsetattr(terminal()?, OptionalActions::Now, &self.modes.original)?)
    }

    /// Puts the terminal into raw mode again.
    ///
    /// # Errors
    ///
    /// Returns EIO if the terminal has hung up.
    pub fn set_raw(&self) -> io::Result<()> {
        IS_RAW.store(true, Ordering::SeqCst);
        Ok(tcsetattr(terminal()?, OptionalActions::Now, &self.modes.raw)?)
    }

    /// Stops the program like ^Z, with the terminal's previous modes restored. Returns when the
    /// user has continued the program.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::Unsupported`] if the shell that started the program has no job
    /// control.
    pub fn suspend(&self) -> io::Result<()> {
        // The signal goes to the whole process group, so that the other programs of the pipeline
        // stop too. This process ignores it and then signals itself, because another thread might
        // receive the group's signal some time after this call.
        let handler = disposition(libc::SIGTSTP)?;
        if handler.sa_sigaction == libc::SIG_IGN {
            return Err(io::ErrorKind::Unsupported.into());
        }
        set_handler(libc::SIGTSTP, libc::SIG_IGN)?;
        let others = kill_current_process_group(Signal::TSTP);
        restore_action(libc::SIGTSTP, &handler);
        others?;
        raise(libc::SIGTSTP);
        Ok(())
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // An error means that the terminal has hung up; it then has no modes to restore.
        let _ = self.set_cooked();
        MODES.store(ptr::null_mut(), Ordering::SeqCst);
    }
}

/// Reason for which the terminal was not put into raw mode.
#[derive(Debug)]
pub enum RawModeError {
    /// The standard input is not a terminal.
    NoTerminal,
    /// Another guard of this program has already set raw mode.
    AlreadyRaw,
    /// Any other error.
    Other(io::Error),
}

impl From<io::Error> for RawModeError {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

impl fmt::Display for RawModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTerminal => {
                f.write_str("the standard input is not a terminal: run the program in a terminal")
            }
            Self::AlreadyRaw => f.write_str("the terminal is already in raw mode"),
            Self::Other(error) => write!(f, "cannot set the terminal's modes: {error}"),
        }
    }
}

impl error::Error for RawModeError {}

fn terminal() -> io::Result<BorrowedFd<'static>> {
    if let Some(terminal) = TERMINAL.get() {
        return Ok(terminal.as_fd());
    }
    let duplicate = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    Ok(TERMINAL.get_or_init(|| duplicate).as_fd())
}

/// Sets the terminal to its previous modes (`false`) or to raw mode (`true`), if there is a guard
/// and the program is in the foreground. Safe to call in a signal handler.
fn set_from_anywhere(raw: bool) {
    let Some(terminal) = TERMINAL.get() else { return };
    let place = MODES.load(Ordering::SeqCst);
    // SAFETY: the pointer is null or points to a `Modes` that is never changed and never freed.
    let Some(modes) = (unsafe { place.as_ref() }) else { return };
    if is_in_foreground() {
        let modes = if raw { &modes.raw } else { &modes.original };
        // An error cannot be reported here.
        let _ = tcsetattr(terminal, OptionalActions::Now, modes);
    }
}

/// Returns whether the program is in the foreground of its terminal. Safe to call in a signal
/// handler.
fn is_in_foreground() -> bool {
    let foreground = TERMINAL.get().and_then(|terminal| tcgetpgrp(terminal).ok());
    foreground.is_some_and(|foreground| foreground == getpgrp())
}

/// Previous actions of the signals in [`TERMINATING_SIGNALS`].
static PREVIOUS_ACTIONS: OnceLock<Vec<(i32, libc::sigaction)>> = OnceLock::new();

const TERMINATING_SIGNALS: [i32; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];

/// Installs the handlers and the panic hook, once.
fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut is_installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *is_installed {
        return Ok(());
    }
    *is_installed = true;
    let mut before = Vec::new();
    for signal in TERMINATING_SIGNALS {
        before.push((signal, disposition(signal)?));
    }
    for (signal, handled) in PREVIOUS_ACTIONS.get_or_init(|| before) {
        // A program that was started with a signal ignored, as by nohup, keeps ignoring it.
        if handled.sa_sigaction != libc::SIG_IGN {
            set_handler(*signal, on_terminating_signal as *const () as libc::sighandler_t)?;
        }
    }
    if disposition(libc::SIGTSTP)?.sa_sigaction != libc::SIG_IGN {
        set_handler(libc::SIGTSTP, on_stop as *const () as libc::sighandler_t)?;
        set_handler(libc::SIGCONT, on_continue as *const () as libc::sighandler_t)?;
    }
    let next = panic::take_hook();
    panic::set_hook(Box::new(move |news| {
        if is_in_foreground() {
            display::reset();
        }
        set_from_anywhere(false);
        next(news);
    }));
    Ok(())
}

/// Whether SIGTERM and SIGHUP are deferred.
static DEFERS_TERMINATION: AtomicBool = AtomicBool::new(false);
/// Number of the signal that was deferred; 0 if there is none.
static DEFERRED_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Starts or ends the deferral of SIGTERM and SIGHUP. The first signal in this time is reported through
/// [`WindowChanges`] and returned by [`deferred_termination`]; a second one ends the program.
///
/// # Errors
///
/// Returns the error of `sigaction(2)`.
pub fn defer_termination(defers: bool) -> io::Result<()> {
    if defers {
        install()?;
    }
    DEFERS_TERMINATION.store(defers, Ordering::SeqCst);
    Ok(())
}

/// Returns the number of the signal that was deferred, if there is one.
#[must_use]
pub fn deferred_termination() -> Option<i32> {
    Some(DEFERRED_SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Ends the program by the signal that was deferred, if there is one.
pub fn end_by_deferred_termination() {
    if let Some(signal) = deferred_termination() {
        raise(signal);
    }
}

/// Returns whether `signal` is deferred. Safe to call in a signal handler.
fn defers(signal: i32) -> bool {
    matches!(signal, libc::SIGTERM | libc::SIGHUP)
        && DEFERS_TERMINATION.load(Ordering::SeqCst)
        && DEFERRED_SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

extern "C" fn on_terminating_signal(signal: i32) {
    if defers(signal) {
        return notify();
    }
    if is_in_foreground() {
        display::reset();
    }
    set_from_anywhere(false);
    if !is_own_action(signal) {
        // A later handler calls this one, and decides whether the program ends.
        return;
    }
    let previous = PREVIOUS_ACTIONS.get().and_then(|all| all.iter().find(|(of, _)| *of == signal));
    if let Some((_, handled)) = previous {
        restore_action(signal, handled);
        // The signal is blocked until this handler returns.
        raise(signal);
    }
}

/// Returns whether the action of `signal` is [`on_terminating_signal`]. A handler that was installed
/// later may call the previous one, as those of tokio do. Safe to call in a signal handler.
fn is_own_action(signal: i32) -> bool {
    let own = on_terminating_signal as *const () as libc::sighandler_t;
    disposition(signal).is_ok_and(|action| action.sa_sigaction == own)
}

extern "C" fn on_stop(signal: i32) {
    set_from_anywhere(false);
    if set_handler(signal, libc::SIG_DFL).is_ok() {
        // The signal is not blocked in this handler (SA_NODEFER), so the program stops here.
        raise(signal);
        let _ = set_handler(signal, on_stop as *const () as libc::sighandler_t);
    }
    // In an orphaned process group, which cannot be continued, the kernel discards the signal.
    if IS_RAW.load(Ordering::SeqCst) {
        set_from_anywhere(true);
    }
}

extern "C" fn on_continue(_: i32) {
    if IS_RAW.load(Ordering::SeqCst) {
        set_from_anywhere(true);
    }
    // The window size may have changed while the program was stopped.
    notify();
}

fn disposition(signal: i32) -> io::Result<libc::sigaction> {
    let mut current = no_action();
    // SAFETY: with a null new action only the old one is written, into a struct of the right type.
    let status = unsafe { libc::sigaction(signal, ptr::null(), &raw mut current) };
    if status == 0 { Ok(current) } else { Err(io::Error::last_os_error()) }
}

fn set_handler(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    let mut action = no_action();
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    if signal == libc::SIGTSTP {
        action.sa_flags |= libc::SA_NODEFER;
    }
    // SAFETY: the action is a handler of this file, which only loads atomics and makes system
    // calls, or one of the kernel's own.
    let status = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn restore_action(signal: i32, handled: &libc::sigaction) {
    // SAFETY: the action was returned by `sigaction` for this signal.
    let _ = unsafe { libc::sigaction(signal, handled, ptr::null_mut()) };
}

fn raise(signal: i32) {
    // SAFETY: any thread may signal itself; the call fails only for an invalid signal number.
    let _ = unsafe { libc::raise(signal) };
}

fn no_action() -> libc::sigaction {
    // SAFETY: the struct consists of integers, a signal set and a nullable function, so all zeros
    // are a valid value.
    unsafe { std::mem::zeroed() }
}

/// Reports changes of the window size through a descriptor that becomes readable.
#[derive(Debug)]
pub struct WindowChanges {
    pipe: &'static (OwnedFd, OwnedFd),
}

/// Read and write ends of the pipe into which the handler writes.
static NOTIFICATION_PIPE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

/// True if the handler has run since the last [`WindowChanges::take`].
static HAS_CHANGED: AtomicBool = AtomicBool::new(false);

impl WindowChanges {
    /// Starts to watch. All watchers share one notification, so a program should have only one.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub fn watch() -> io::Result<Self> {
        if NOTIFICATION_PIPE.get().is_none() {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            for end in [&read, &write] {
                let flags = rustix::fs::fcntl_getfl(end)?;
                rustix::fs::fcntl_setfl(end, flags | OFlags::NONBLOCK)?;
            }
            NOTIFICATION_PIPE.get_or_init(|| (read, write));
        }
        let pipe = NOTIFICATION_PIPE.get().ok_or(Errno::BADF)?;
        set_handler(libc::SIGWINCH, on_change as *const () as libc::sighandler_t)?;
        Ok(Self { pipe })
    }

    /// Returns whether a notification is pending, without a system call.
    ///
    /// If a key and a signal arrive at the same time, the wait reports only the key. Therefore a
    /// program must call this before it reads keys.
    #[must_use]
    pub fn is_due(&self) -> bool {
        HAS_CHANGED.load(Ordering::Acquire)
    }

    /// Takes the notification, and returns whether there was one.
    pub fn take(&self) -> bool {
        let mut is_changed = HAS_CHANGED.swap(false, Ordering::AcqRel);
        let mut bytes = [0; 64];
        while matches!(rustix::io::read(&self.pipe.0, &mut bytes), Ok(length) if length > 0) {
            is_changed = true;
        }
        is_changed
    }
}

impl AsFd for WindowChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}

extern "C" fn on_change(_: i32) {
    notify();
}

fn notify() {
    HAS_CHANGED.store(true, Ordering::Release);
    if let Some((_, write)) = NOTIFICATION_PIPE.get() {
        // A full pipe is readable already.
        let _ = rustix::io::write(write, &[0]);
    }
}

#[cfg(test)]
#[path = "tty_tests.rs"]
mod tests;
