//! What the server says of itself: one line an event, on stderr, for people or as JSON.
//!
//! Nothing that a client sent stands in a line but names, and those are escaped (attack 75). Lines are
//! written by a thread of their own ([`LineWriter`]), so that no server waits for the log's reader.

use super::line_writer::{LineWriter, StandardError};
use serde::Serialize;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);

/// Every log of this process goes to its standard error.
static STANDARD_ERROR: LazyLock<Option<LineWriter>> =
    LazyLock::new(|| LineWriter::start(StandardError).ok());

/// An event.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event<'a> {
    /// The server listens.
    Listening { at: String, how: &'static str },
    /// The fingerprint of the certificate.
    Certificate { sha256: &'a str },
    /// Somebody has come.
    Connected { from: SocketAddr },
    /// Somebody was not let in.
    Refused { from: SocketAddr, why: String },
    /// Somebody could not prove who he is.
    LoginFailed { from: SocketAddr, name: &'a str },
    /// Somebody has proved who he is.
    LoggedIn { from: SocketAddr, name: &'a str },
    /// A session has ended.
    Ended { from: SocketAddr, why: String, seconds: u64, bytes_in: u64, bytes_out: u64 },
    /// The line of a console is there.
    LineUp { device: &'a str },
    /// It is not.
    LineDown { device: &'a str, why: String },
    /// What a line says is not kept any longer.
    NoRecord { why: String },
    /// Records of transfers are not kept, or cannot be written.
    NoTransferRecord { why: String },
    /// What the servers have done is told.
    Metrics { at: SocketAddr },
    /// The meters are not shown.
    NoMeters { why: String },
    /// START_TLS is not offered.
    NoStartTls { why: String },
    /// Somebody writes at a console now.
    Writes { from: SocketAddr, device: String },
    /// The users' file and the prefixes of the login server were read again.
    ReloadedLogins,
    /// They could not be, and the old ones are in force.
    NotReloaded { why: String },
    /// Lines were dropped, because the log was not read.
    LinesDropped { count: u64 },
    /// The server ends.
    Closing { sessions: usize },
}

impl std::fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listening { at, how } => write!(f, "listening at {at}, {how}"),
            Self::Certificate { sha256 } => write!(f, "certificate SHA-256 {sha256}"),
            Self::Connected { from } => write!(f, "{from} has connected"),
            Self::Refused { from, why } => write!(f, "{from} is refused: {why}"),
            Self::LoginFailed { from, name } => {
                write!(f, "{from} cannot prove to be '{}'", name.escape_default())
            }
            Self::LoggedIn { from, name } => {
                write!(f, "{from} is logged in as '{}'", name.escape_default())
            }
            Self::Ended { from, why, seconds, bytes_in, bytes_out } => write!(
                f,
                "{from} has left after {seconds} s: {why}; {bytes_in} bytes in, {bytes_out} out"
            ),
            Self::LineUp { device } => write!(f, "the line {device} is there"),
            Self::LineDown { device, why } => write!(f, "the line {device} is not there: {why}"),
            Self::NoRecord { why } => write!(f, "what the line says is not kept: {why}"),
            Self::Metrics { at } => write!(f, "metrics are at http://{at}/metrics"),
            Self::NoTransferRecord { why } => f.write_str(why),
            Self::NoMeters { why } => write!(f, "the meters are not shown: {why}"),
            Self::NoStartTls { why } => write!(f, "START_TLS is not offered: {why}"),
            Self::Writes { from, device } => write!(f, "{from} writes at {device}"),
            Self::ReloadedLogins => f.write_str("the users and prefixes of logins were read again"),
            Self::NotReloaded { why } => write!(f, "the configuration stays as it was: {why}"),
            Self::LinesDropped { count } => {
                write!(f, "{count} lines were dropped here, because the log was not read")
            }
            Self::Closing { sessions: 0 } => f.write_str("closing"),
            Self::Closing { sessions } => write!(f, "closing, with {sessions} sessions"),
        }
    }
}

/// Where events go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
}

impl Log {
    /// Says an event.
    pub(super) fn say(self, event: &(impl std::fmt::Display + Serialize)) {
        if self.is_quiet {
            return;
        }
        let line = line(self.is_json, event).into_bytes();
        match &*STANDARD_ERROR {
            Some(writer) if self.is_json => {
                writer.put(&line, |count| line_of_dropped(true, count));
            }
            Some(writer) => writer.put(&line, |count| line_of_dropped(false, count)),
            // The thread could not be started.
            None => _ = StandardError.write_all(&line),
        }
    }
}

fn line_of_dropped(is_json: bool, count: u64) -> Vec<u8> {
    line(is_json, &Event::LinesDropped { count }).into_bytes()
}

/// Waits until all lines are written, for `FLUSH_TIMEOUT` at most. Returns whether they are.
pub(super) fn flush() -> bool {
    STANDARD_ERROR.as_ref().is_none_or(|writer| writer.flush(FLUSH_TIMEOUT))
}

/// Returns the line of an event. No text in it can be a command to a terminal, or another line.
pub(super) fn line(is_json: bool, event: &(impl std::fmt::Display + Serialize)) -> String {
    match is_json {
        true => {
            let text = serde_json::to_string(event).unwrap_or_default();
            format!("{}\n", records::escape::json(&text))
        }
        // An error of several lines, such as one of TOML, becomes one.
        false => {
            format!("plumb: {}\n", records::escape::line(&event.to_string().replace('\n', " ")))
        }
    }
}

/// Checks the lines of events whose texts all are hostile: those of `events`, which has `variants`
/// variants with the numbers that `number` gives.
#[cfg(test)]
pub(super) fn assert_lines_are_harmless<E: std::fmt::Display + Serialize>(
    events: &[E],
    variants: usize,
    number: impl Fn(&E) -> usize,
) {
    let numbers: std::collections::BTreeSet<_> = events.iter().map(number).collect();
    assert!(numbers.iter().copied().eq(0..variants), "an event is missing: {numbers:?}");
    for event in events {
        for is_json in [false, true] {
            let line = line(is_json, event);
            let (text, end) = line.split_at(line.len() - 1);
            assert_eq!(end, "\n");
            let is_hostile = |c: char| c.is_control() || c == '\u{202e}';
            assert_eq!(text.find(is_hostile), None, "{line:?}");
            if is_json {
                serde_json::from_str::<serde_json::Value>(text).unwrap();
            }
        }
    }
}

/// A text that is several commands to a terminal, and another line.
#[cfg(test)]
pub(super) const HOSTILE: &str =
    "a\x1b]52;c;ZXZpbA==\x07\x1b[2J\r\nplumb: forged\u{9b}31m\u{202e}\x7f\0\"\\";

#[cfg(test)]
mod tests {
    use super::*;

    // attack row 75
    #[test]
    fn no_text_in_any_event_of_the_login_server_is_a_command_or_another_line() {
        let from = "192.0.2.1:9".parse().unwrap();
        let (text, name) = (|| HOSTILE.to_owned(), HOSTILE);
        let events = [
            Event::Listening { at: text(), how: "how" },
            Event::Certificate { sha256: name },
            Event::Connected { from },
            Event::Refused { from, why: text() },
            Event::LoginFailed { from, name },
            Event::LoggedIn { from, name },
            Event::Ended { from, why: text(), seconds: 1, bytes_in: 2, bytes_out: 3 },
            Event::LineUp { device: name },
            Event::LineDown { device: name, why: text() },
            Event::NoRecord { why: text() },
            Event::NoTransferRecord { why: text() },
            Event::Metrics { at: from },
            Event::NoMeters { why: text() },
            Event::NoStartTls { why: text() },
            Event::Writes { from, device: text() },
            Event::ReloadedLogins,
            Event::NotReloaded { why: text() },
            Event::LinesDropped { count: 1 },
            Event::Closing { sessions: 1 },
        ];
        assert_lines_are_harmless(&events, 19, |event| match event {
            Event::Listening { .. } => 0,
            Event::Certificate { .. } => 1,
            Event::Connected { .. } => 2,
            Event::Refused { .. } => 3,
            Event::LoginFailed { .. } => 4,
            Event::LoggedIn { .. } => 5,
            Event::Ended { .. } => 6,
            Event::LineUp { .. } => 7,
            Event::LineDown { .. } => 8,
            Event::NoRecord { .. } => 9,
            Event::NoTransferRecord { .. } => 10,
            Event::Metrics { .. } => 11,
            Event::NoMeters { .. } => 12,
            Event::NoStartTls { .. } => 13,
            Event::Writes { .. } => 14,
            Event::Closing { .. } => 15,
            Event::ReloadedLogins => 16,
            Event::NotReloaded { .. } => 17,
            Event::LinesDropped { .. } => 18,
        });
    }

    // attack row 75
    #[test]
    fn a_name_with_control_characters_is_escaped_both_ways() {
        let from = "192.0.2.1:9".parse().unwrap();
        let event = Event::LoginFailed { from, name: "a\x1b[2J\nb\u{9b}c" };
        let (line, json) = (event.to_string(), serde_json::to_string(&event).unwrap());
        for text in [line, json] {
            assert!(!text.contains(['\x1b', '\n']), "{text}");
        }
        assert!(!event.to_string().contains('\u{9b}'));
    }
}
