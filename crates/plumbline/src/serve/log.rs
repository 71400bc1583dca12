//! Log of the server: one line per event on stderr, as text or JSON.
//!
//! Lines contain no data sent by a client except names, which are escaped (attack 75). A separate
//! thread writes the lines ([`LineWriter`]), so that no server blocks on the reader of the log.

use super::line_writer::{LineWriter, StandardError};
use serde::Serialize;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

/// Maximum wait for the last lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);

/// Writer of all logs of this process, to standard error.
static STANDARD_ERROR: LazyLock<Option<LineWriter>> =
    LazyLock::new(|| LineWriter::start(StandardError).ok());

/// Event of the login server or of `plumb serve` as a whole.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event<'a> {
    /// A listener is open.
    Listening { at: String, how: &'static str },
    /// SHA-256 fingerprint of the certificate.
    Certificate { sha256: &'a str },
    /// A client connected.
    Connected { from: SocketAddr },
    /// A connection was refused.
    Refused { from: SocketAddr, why: String },
    /// A login attempt failed.
    LoginFailed { from: SocketAddr, name: &'a str },
    /// A user logged in.
    LoggedIn { from: SocketAddr, name: &'a str },
    /// A session ended.
    Ended { from: SocketAddr, why: String, seconds: u64, bytes_in: u64, bytes_out: u64 },
    /// The serial line of a console is open.
    LineUp { device: &'a str },
    /// The serial line of a console is not available.
    LineDown { device: &'a str, why: String },
    /// The output of a serial line is no longer recorded.
    NoRecord { why: String },
    /// Transfer records are disabled or cannot be written.
    NoTransferRecord { why: String },
    /// The metrics endpoint is open.
    Metrics { at: SocketAddr },
    /// The meters are not available to `plumb meters`.
    NoMeters { why: String },
    /// START_TLS is not offered.
    NoStartTls { why: String },
    /// A client obtained write access to a console.
    Writes { from: SocketAddr, device: String },
    /// The user file and the address prefixes of the login server were reloaded.
    ReloadedLogins,
    /// Reloading failed; the previous configuration remains in force.
    NotReloaded { why: String },
    /// Lines were dropped because the log was not read.
    LinesDropped { count: u64 },
    /// The server shuts down.
    Closing { sessions: usize },
}

impl std::fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listening { at, how } => write!(f, "listening on {at}, {how}"),
            Self::Certificate { sha256 } => write!(f, "certificate SHA-256 {sha256}"),
            Self::Connected { from } => write!(f, "{from} connected"),
            Self::Refused { from, why } => write!(f, "{from} refused: {why}"),
            Self::LoginFailed { from, name } => {
                write!(f, "{from}: login failed for '{}'", name.escape_default())
            }
            Self::LoggedIn { from, name } => {
                write!(f, "{from} logged in as '{}'", name.escape_default())
            }
            Self::Ended { from, why, seconds, bytes_in, bytes_out } => write!(
                f,
                "{from} disconnected after {seconds} s: {why}; \
                 {bytes_in} bytes in, {bytes_out} out"
            ),
            Self::LineUp { device } => write!(f, "serial line {device} is open"),
            Self::LineDown { device, why } => {
                write!(f, "serial line {device} is unavailable: {why}")
            }
            Self::NoRecord { why } => write!(f, "cannot write the console log: {why}"),
            Self::Metrics { at } => write!(f, "serving metrics at http://{at}/metrics"),
            Self::NoTransferRecord { why } => f.write_str(why),
            Self::NoMeters { why } => write!(f, "meters are not available: {why}"),
            Self::NoStartTls { why } => write!(f, "START_TLS is not offered: {why}"),
            Self::Writes { from, device } => write!(f, "{from} has write access to {device}"),
            Self::ReloadedLogins => f.write_str("login users and prefixes reloaded"),
            Self::NotReloaded { why } => {
                write!(f, "configuration not reloaded, the old one stays in force: {why}")
            }
            Self::LinesDropped { count } => {
                write!(f, "{count} log lines dropped: the log was not read fast enough")
            }
            Self::Closing { sessions: 0 } => f.write_str("shutting down"),
            Self::Closing { sessions } => write!(f, "shutting down, open sessions: {sessions}"),
        }
    }
}

/// Format and verbosity of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
}

impl Log {
    /// Writes an event to the log.
    pub(super) fn write(self, event: &(impl std::fmt::Display + Serialize)) {
        if self.is_quiet {
            return;
        }
        let line = line(self.is_json, event).into_bytes();
        match &*STANDARD_ERROR {
            Some(writer) if self.is_json => {
                writer.put(&line, |count| line_of_dropped(true, count));
            }
            Some(writer) => writer.put(&line, |count| line_of_dropped(false, count)),
            // The writer thread could not be started.
            None => _ = StandardError.write_all(&line),
        }
    }
}

fn line_of_dropped(is_json: bool, count: u64) -> Vec<u8> {
    line(is_json, &Event::LinesDropped { count }).into_bytes()
}

/// Waits until all lines are written, at most `FLUSH_TIMEOUT`. Returns whether all lines were
/// written.
pub(super) fn flush() -> bool {
    STANDARD_ERROR.as_ref().is_none_or(|writer| writer.flush(FLUSH_TIMEOUT))
}

/// Returns the line of an event. No text of the event can contain terminal commands or start
/// another line.
pub(super) fn line(is_json: bool, event: &(impl std::fmt::Display + Serialize)) -> String {
    match is_json {
        true => {
            let text = serde_json::to_string(event).unwrap_or_default();
            format!("{}\n", records::escape::json(&text))
        }
        // An error with several lines, such as one of TOML, becomes a single line.
        false => {
            format!("plumb: {}\n", records::escape::line(&event.to_string().replace('\n', " ")))
        }
    }
}

/// Checks the lines of `events`, whose texts are all hostile. `number` returns the index of the
/// variant of an event, and `events` must contain all `variants` variants.
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

/// Text with several terminal commands and a forged line.
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
        let text = || HOSTILE.to_owned();
        let name = HOSTILE;
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
        let line = event.to_string();
        let json = serde_json::to_string(&event).unwrap();
        for text in [line, json] {
            assert!(!text.contains(['\x1b', '\n']), "{text}");
        }
        assert!(!event.to_string().contains('\u{9b}'));
    }
}
