//! Login over a serial line; the other end is a pseudo-terminal of the test.

use crate::login_desk::{Person, within_the_limit};
use crate::{plumb, refused};
use os::pty::Pty;
use os::tty::WindowSize;
use std::io::Write;
use std::process::{Command, Stdio};

/// The test's end of a serial line.
pub(crate) struct Line(pub(crate) Pty);

impl Line {
    pub(crate) fn new() -> Self {
        Self(Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap())
    }

    pub(crate) fn destination(&self) -> String {
        format!("serial:{}?baud=9600", self.0.path().display())
    }

    /// Waits until all of `text` has arrived.
    pub(crate) fn hears(&self, text: &[u8]) {
        let mut heard = Vec::new();
        within_the_limit(|| {
            let mut bytes = [0; 256];
            // While plumb does not have the line open, reads behave as after a hangup.
            let count = self.0.read(&mut bytes).ok().flatten().unwrap_or(0);
            heard.extend_from_slice(&bytes[..count]);
            heard.windows(text.len()).any(|piece| piece == text).then_some(())
        });
    }

    pub(crate) fn says(&self, text: &[u8]) {
        assert_eq!(self.0.write(text).unwrap(), Some(text.len()));
    }
}

#[test]
fn a_person_works_at_a_line_and_a_return_is_a_cr() {
    let line = Line::new();
    let mut person = Person::over(&[&line.destination()]);
    person.sees("Connected to serial line /dev/pts/");
    person.sees("9600 bit/s, 8 bits, parity none, 1 stop bit, flow control none");
    person.types("ls\r");
    line.hears(b"ls\r");
    line.says(b"boot> \xe2\x82\xac");
    person.sees("boot> \u{20ac}");
    person.types("\x1dsend brk\r");
    person.types("\x1dsend ayt\r");
    person.sees("This command needs Telnet");
    person.types("status\r");
    person.sees("CPU time of plumb");
    person.types("close\r");
    assert_eq!(person.leaves().code(), Some(0));
    person.sees("Connection closed here after");
    person.has_a_sane_terminal();
}

#[test]
fn a_line_has_the_characters_that_are_said() {
    let line = Line::new();
    let mut person = Person::over(&["--encoding", "cp437", &line.destination()]);
    person.sees("Escape character");
    person.types("\u{e4}");
    line.hears(b"\x84");
    line.says(b"\xc9\xbb");
    person.sees("\u{2554}\u{2557}");
    person.types("\x1dclose\r");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
fn a_line_that_goes_is_told() {
    let line = Line::new();
    let mut person = Person::over(&[&line.destination()]);
    person.sees("Escape character");
    person.types("x");
    line.hears(b"x");
    drop(line);
    assert_eq!(person.leaves().code(), Some(4));
    person.sees("the device hung up");
    person.has_a_sane_terminal();
}

#[test]
fn what_a_pipe_says_to_a_line_is_answered_before_plumb_leaves() {
    let line = Line::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["login", &line.destination()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut login = command.spawn().unwrap();
    login.stdin.take().unwrap().write_all(b"who\n").unwrap();
    line.hears(b"who\r");
    line.says(b"mike\r\n");
    let output = login.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"mike\r\n".to_vec()));
}

#[test]
fn a_line_that_cannot_be_is_refused_in_one_sentence() {
    refused(&plumb(&["login", "serial:/dev/ttyNONE"]), 4, &["there is no serial device"]);
    refused(&plumb(&["login", "serial:/dev/null"]), 4, &["no serial device"]);
    refused(&plumb(&["login", "serial:/dev/x?bits=9"]), 2, &["bits=5 to 8"]);
    refused(&plumb(&["login", "--via", "tun:a", "serial:/dev/x"]), 2, &["--via does not apply"]);
    refused(&plumb(&["login", "serial:/dev/x", "23"]), 2, &["a serial line has no port"]);
}
