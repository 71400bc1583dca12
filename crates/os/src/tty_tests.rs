//! Tests of raw mode. Each test runs one of the ignored tests as a separate program on a
//! pseudo-terminal.

use super::*;
use crate::pty::tests::{SIZE, read_until};
use crate::pty::{Pty, PtyProgram};
use crate::testing::{this_program, wait_until_readable};
use net::time::Duration;
use rustix::termios::LocalModes;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const END: Duration = Duration::from_secs(10);

fn start(name: &str) -> PtyProgram {
    Pty::open(SIZE).unwrap().start(this_program(name)).unwrap()
}

/// Returns whether the terminal still has its initial line mode and echo.
fn is_cooked(pty: &PtyProgram) -> bool {
    let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    tcgetattr(pty).unwrap().local_modes.contains(cooked)
}

fn is_raw(pty: &PtyProgram) -> bool {
    let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    !tcgetattr(pty).unwrap().local_modes.intersects(cooked)
}

/// Reads one key; blocks until it is typed.
fn read_key() -> u8 {
    let mut key = [0];
    assert_eq!(rustix::io::read(rustix::stdio::stdin(), &mut key).unwrap(), 1);
    key[0]
}

#[test]
#[ignore = "run on a pty by other tests"]
fn sets_raw_mode_until_a_key_is_typed() {
    // nohup and some shells start the tests with signals ignored.
    for signal in TERMINATING_SIGNALS {
        // SAFETY: the default action runs no code of this program.
        assert_ne!(unsafe { libc::signal(signal, libc::SIG_DFL) }, libc::SIG_ERR);
    }
    let guard = RawMode::enter().unwrap();
    eprint!("raw:");
    let key = read_key();
    drop(guard);
    eprintln!("key {key}");
    assert_eq!(read_key(), b'x');
}

#[test]
fn every_key_is_read_immediately_and_the_terminal_is_restored_on_drop() {
    let pty = start("tty::tests::sets_raw_mode_until_a_key_is_typed");
    read_until(&pty, "raw:");
    assert!(is_raw(&pty));
    pty.write(b"\x03").unwrap();
    read_until(&pty, "key 3\r\n");
    assert!(is_cooked(&pty));
    pty.write(b"x\n").unwrap();
}

/// Number of calls of [`later_handler`].
static LATER_CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Handler that calls the previous one, as those of tokio do.
extern "C" fn later_handler(signal: i32) {
    LATER_CALLS.fetch_add(1, Ordering::SeqCst);
    on_terminating_signal(signal);
}

#[test]
#[ignore = "run on a pty by other tests"]
fn handles_sigint_after_raw_mode_has_ended() {
    drop(RawMode::enter().unwrap());
    set_handler(libc::SIGINT, later_handler as *const () as libc::sighandler_t).unwrap();
    raise(libc::SIGINT);
    raise(libc::SIGINT);
    eprintln!("calls {}", LATER_CALLS.load(Ordering::SeqCst));
}

#[test]
fn a_handler_that_is_installed_later_decides_whether_a_signal_ends_the_program() {
    let pty = start("tty::tests::handles_sigint_after_raw_mode_has_ended");
    read_until(&pty, "calls 2\r\n");
}

fn ends_cooked_by(signal: Signal) {
    let mut pty = start("tty::tests::sets_raw_mode_until_a_key_is_typed");
    read_until(&pty, "raw:");
    assert!(is_raw(&pty));
    // The master end keeps the modes readable after the program has ended.
    pty.program().signal(signal).unwrap();
    let status = pty.program().wait_for_end(END).unwrap().unwrap();
    assert_eq!(status.signal(), Some(signal.as_raw()));
    assert!(is_cooked(&pty));
}

#[test]
fn the_terminal_is_restored_when_the_program_gets_sigterm() {
    ends_cooked_by(Signal::TERM);
}

#[test]
fn the_terminal_is_restored_when_the_program_gets_sighup() {
    ends_cooked_by(Signal::HUP);
}

#[test]
fn the_terminal_is_restored_when_the_program_gets_sigint() {
    ends_cooked_by(Signal::INT);
}

#[test]
fn the_terminal_is_restored_when_the_program_gets_sigquit() {
    ends_cooked_by(Signal::QUIT);
}

#[test]
#[ignore = "run on a pty by other tests"]
fn defers_its_termination_until_a_key_is_typed() {
    for signal in TERMINATING_SIGNALS {
        // SAFETY: the default action runs no code of this program.
        assert_ne!(unsafe { libc::signal(signal, libc::SIG_DFL) }, libc::SIG_ERR);
    }
    let changes = WindowChanges::watch().unwrap();
    let _guard = RawMode::enter().unwrap();
    defer_termination(true).unwrap();
    eprint!("raw:");
    wait_until_readable(&changes);
    eprint!("deferred {}:", deferred_termination().unwrap());
    assert_eq!(read_key(), b'x');
    end_by_deferred_termination();
    eprint!("not ended");
}

/// Starts the program above, and sends it `signal`, which it defers.
fn defers(signal: Signal) -> PtyProgram {
    let mut pty = start("tty::tests::defers_its_termination_until_a_key_is_typed");
    read_until(&pty, "raw:");
    pty.program().signal(signal).unwrap();
    read_until(&pty, &format!("deferred {}:", signal.as_raw()));
    pty
}

#[test]
fn a_deferred_signal_ends_the_program_when_it_is_ready() {
    for signal in [Signal::TERM, Signal::HUP] {
        let mut pty = defers(signal);
        pty.write(b"x").unwrap();
        let status = pty.program().wait_for_end(END).unwrap().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()));
        assert!(is_cooked(&pty));
    }
}

#[test]
fn a_second_signal_is_not_deferred() {
    let mut pty = defers(Signal::HUP);
    pty.program().signal(Signal::TERM).unwrap();
    let status = pty.program().wait_for_end(END).unwrap().unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert!(is_cooked(&pty));
}

#[test]
fn only_sigkill_leaves_the_terminal_raw() {
    let mut pty = start("tty::tests::sets_raw_mode_until_a_key_is_typed");
    read_until(&pty, "raw:");
    pty.program().signal(Signal::KILL).unwrap();
    pty.program().wait_for_end(END).unwrap().unwrap();
    assert!(is_raw(&pty));
}

#[test]
#[ignore = "run on a pty by another test"]
fn panics_while_raw() {
    let guard = RawMode::enter().unwrap();
    // Unwinding cannot reach the guard: the hook alone must restore the terminal.
    std::mem::forget(guard);
    panic!("broken pipe dream");
}

#[test]
fn the_terminal_is_restored_before_a_panic_is_printed() {
    let pty = start("tty::tests::panics_while_raw");
    read_until(&pty, "broken pipe dream\r\n");
    assert!(is_cooked(&pty));
}

#[test]
#[ignore = "run under nohup by another test"]
fn keeps_ignoring_the_hangup_signal() {
    let _guard = RawMode::enter().unwrap();
    raise(libc::SIGHUP);
    eprint!("still here");
}

#[test]
fn a_program_that_was_started_with_a_signal_ignored_keeps_ignoring_it() {
    let child = this_program("tty::tests::keeps_ignoring_the_hangup_signal");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    command.arg(child.get_program()).args(child.get_args());
    let pty = Pty::open(SIZE).unwrap().start(command).unwrap();
    read_until(&pty, "still here");
}

#[test]
#[ignore = "run by a shell with job control by other tests"]
fn suspends_and_continues() {
    let guard = RawMode::enter().unwrap();
    eprint!("raw:");
    let key = read_key();
    guard.suspend().unwrap();
    eprint!("back {key}:");
    assert_eq!(read_key(), b'x');
}

/// Starts a shell that runs the program as a job, and reads a line after the program has stopped.
fn start_in_shell(name: &str) -> PtyProgram {
    let child = this_program(name);
    let mut command = Command::new("sh");
    let script = "set -m; \"$@\"; echo stopped; read line; fg; echo over";
    command.args(["-c", script, "sh"]).arg(child.get_program()).args(child.get_args());
    Pty::open(SIZE).unwrap().start(command).unwrap()
}

#[test]
fn a_suspended_program_leaves_the_terminal_cooked_and_continues_raw() {
    let pty = start_in_shell("tty::tests::suspends_and_continues");
    read_until(&pty, "raw:");
    pty.write(b"z").unwrap();
    read_until(&pty, "stopped");
    assert!(is_cooked(&pty));
    pty.write(b"\n").unwrap();
    read_until(&pty, "back 122:");
    assert!(is_raw(&pty));
    pty.write(b"x").unwrap();
    read_until(&pty, "over");
    assert!(is_cooked(&pty));
}

#[test]
#[ignore = "run by a shell with job control by another test"]
fn is_stopped_by_a_signal() {
    let _guard = RawMode::enter().unwrap();
    raise(libc::SIGTSTP);
    eprint!("back:");
    assert_eq!(read_key(), b'x');
}

#[test]
fn a_stop_signal_from_elsewhere_leaves_the_terminal_cooked_too() {
    let pty = start_in_shell("tty::tests::is_stopped_by_a_signal");
    read_until(&pty, "stopped");
    assert!(is_cooked(&pty));
    pty.write(b"\n").unwrap();
    read_until(&pty, "back:");
    assert!(is_raw(&pty));
    pty.write(b"x").unwrap();
    read_until(&pty, "over");
}

#[test]
#[ignore = "run on a pty by another test"]
fn sets_cooked_mode_for_a_command_line() {
    let guard = RawMode::enter().unwrap();
    guard.set_cooked().unwrap();
    eprint!("cooked:");
    assert_eq!(read_key(), b'x');
    assert_eq!(read_key(), b'\n');
    guard.set_raw().unwrap();
    eprint!("raw:");
    assert_eq!(read_key(), b'x');
}

#[test]
fn a_guard_restores_cooked_mode_and_makes_the_terminal_raw_again_on_drop() {
    let pty = start("tty::tests::sets_cooked_mode_for_a_command_line");
    read_until(&pty, "cooked:");
    assert!(is_cooked(&pty));
    pty.write(b"x\n").unwrap();
    read_until(&pty, "raw:");
    assert!(is_raw(&pty));
    pty.write(b"x").unwrap();
}

#[test]
#[ignore = "run on a pty by another test"]
fn reports_window_changes() {
    let changes = WindowChanges::watch().unwrap();
    assert!(!changes.take());
    eprint!("{:?};", WindowSize::of(rustix::stdio::stdin()).unwrap());
    wait_until_readable(&changes);
    assert!(changes.take());
    assert!(!changes.take());
    eprint!("{:?};", WindowSize::of(rustix::stdio::stdin()).unwrap());
}

#[test]
fn a_change_of_the_window_makes_a_descriptor_readable() {
    let pty = start("tty::tests::reports_window_changes");
    read_until(&pty, "rows: 24, columns: 80");
    pty.resize(WindowSize { rows: 25, columns: 132 }).unwrap();
    read_until(&pty, "rows: 25, columns: 132");
}

#[test]
#[ignore = "run on a pty by another test"]
fn enters_raw_mode_twice() {
    let _first = RawMode::enter().unwrap();
    let error = RawMode::enter().unwrap_err();
    assert!(matches!(error, RawModeError::AlreadyRaw));
    eprint!("refused");
}

#[test]
fn a_second_guard_is_refused() {
    let pty = start("tty::tests::enters_raw_mode_twice");
    read_until(&pty, "refused");
}

#[test]
fn a_terminal_of_unknown_size_has_none() {
    let pty = Pty::open(WindowSize { rows: 0, columns: 0 }).unwrap();
    assert_eq!(WindowSize::of(pty.terminal()), None);
}
