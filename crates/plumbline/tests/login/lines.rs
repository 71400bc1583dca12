//! Tests of logins over a serial line, whose other end is a pseudo-terminal of the test.

use crate::login_harness::{TerminalUser, poll_until_timeout};
use crate::{assert_error, plumb};
use os::pty::Pty;
use os::tty::WindowSize;
use std::io::Write;
use std::process::{Command, Stdio};

/// The test's end of a serial line.
pub(crate) struct SerialLine(pub(crate) Pty);

impl SerialLine {
    pub(crate) fn new() -> Self {
        Self(Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap())
    }

    pub(crate) fn destination(&self) -> String {
        format!("serial:{}?baud=9600", self.0.path().display())
    }

    /// Waits until all of `text` has arrived.
    pub(crate) fn wait_for(&self, text: &[u8]) {
        let mut received = Vec::new();
        poll_until_timeout(|| {
            let mut bytes = [0; 256];
            // While plumb does not have the line open, reads behave as after a hangup.
            let count = self.0.read(&mut bytes).ok().flatten().unwrap_or(0);
            received.extend_from_slice(&bytes[..count]);
            received.windows(text.len()).any(|piece| piece == text).then_some(())
        });
    }

    pub(crate) fn send(&self, text: &[u8]) {
        assert_eq!(self.0.write(text).unwrap(), Some(text.len()));
    }
}

#[test]
fn return_sends_cr_on_a_serial_line() {
    let line = SerialLine::new();
    let mut user = TerminalUser::with_arguments(&[&line.destination()]);
    user.wait_for_text("Connected to serial line /dev/pts/");
    // The settings of the line are wrapped at words.
    user.wait_for_text("9600 bit/s, 8 bits, parity none, 1 stop");
    user.wait_for_text("flow control none");
    user.type_keys("ls\r");
    line.wait_for(b"ls\r");
    line.send(b"boot> \xe2\x82\xac");
    user.wait_for_text("boot> \u{20ac}");
    user.type_keys("\x1dsend brk\r");
    user.type_keys("\x1dsend ayt\r");
    user.wait_for_text("This command needs Telnet");
    user.type_keys("status\r");
    user.wait_for_text("CPU time of plumb");
    user.type_keys("close\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    user.wait_for_text("Connection closed here after");
    user.assert_sane_terminal();
}

#[test]
fn a_serial_line_uses_the_given_framing() {
    let line = SerialLine::new();
    let mut user = TerminalUser::with_arguments(&["--encoding", "cp437", &line.destination()]);
    user.wait_for_text("Escape character");
    user.type_keys("\u{e4}");
    line.wait_for(b"\x84");
    line.send(b"\xc9\xbb");
    user.wait_for_text("\u{2554}\u{2557}");
    user.type_keys("\x1dclose\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}

#[test]
fn a_lost_serial_line_is_reported() {
    let line = SerialLine::new();
    let mut user = TerminalUser::with_arguments(&[&line.destination()]);
    user.wait_for_text("Escape character");
    user.type_keys("x");
    line.wait_for(b"x");
    drop(line);
    assert_eq!(user.wait_for_exit().code(), Some(4));
    user.wait_for_text("the device hung up");
    user.assert_sane_terminal();
}

#[test]
fn input_from_a_pipe_is_answered_before_plumb_exits() {
    let line = SerialLine::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["login", &line.destination()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut login = command.spawn().unwrap();
    login.stdin.take().unwrap().write_all(b"who\n").unwrap();
    line.wait_for(b"who\r");
    line.send(b"mike\r\n");
    let output = login.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"mike\r\n".to_vec()));
}

#[test]
fn an_invalid_serial_line_is_rejected_with_one_error_line() {
    assert_error(&plumb(&["login", "serial:/dev/ttyNONE"]), 4, &["there is no serial device"]);
    assert_error(&plumb(&["login", "serial:/dev/null"]), 4, &["is not a serial device"]);
    assert_error(&plumb(&["login", "serial:/dev/x?bits=9"]), 2, &["bits=5 to 8"]);
    assert_error(
        &plumb(&["login", "--via", "tun:a", "serial:/dev/x"]),
        2,
        &["--via does not apply"],
    );
    assert_error(&plumb(&["login", "serial:/dev/x", "23"]), 2, &["a serial line has no port"]);
}
