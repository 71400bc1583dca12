//! Log of the server: one line per event on standard error or in a file, as text or JSON.
//!
//! Lines contain no data sent by a client except names, which are escaped (attack 75).

use super::line_writer::StandardError;
use super::log_line::{Level, LineContext, LogEvent};
use super::log_output::{self, LogOutput};
use serde::Serialize;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum wait for the last lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);

/// Event of the login server or of `plumb serve` as a whole.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum ServeEvent<'a> {
    /// A listener is open.
    Listening { at: String, how: &'static str },
    /// SHA-256 fingerprint of the certificate.
    Certificate { sha256: &'a str },
    /// A client connected.
    Connected { from: SocketAddr },
    /// A connection could not be accepted.
    AcceptFailed { at: String, why: String },
    /// A connection was refused.
    Refused { from: SocketAddr, why: String },
    /// A login attempt failed.
    LoginFailed { from: SocketAddr, name: &'a str },
    /// The password was right, but the user may not log in to this machine.
    LoginRefused { from: SocketAddr, name: &'a str, why: String },
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
    Metrics { at: String },
    /// The meters are not available to `plumb meters`.
    NoMeters { why: String },
    /// START_TLS is not offered.
    NoStartTls { why: String },
    /// A program is served without a login to clients of any address.
    NoLogin { at: String, program: &'a str },
    /// A client obtained write access to a console.
    Writes { from: SocketAddr, device: String },
    /// Clients may write to a root, but the server cannot.
    UnwritableRoot { why: String },
    /// A listener was closed by a reload.
    Closed { at: String },
    /// The configuration was reloaded.
    Reloaded,
    /// The log files were opened again.
    LogReopened,
    /// Reloading failed; the previous configuration remains in force.
    NotReloaded { why: String },
    /// Keys have changed that a reload does not apply.
    RestartNeeded { keys: Vec<String> },
    /// Lines were lost because the log was not read or could not be written.
    LinesDropped { count: u64 },
    /// A socket of the service manager is not in the configuration.
    UnusedSocket { at: SocketAddr },
    /// The service manager cannot be notified.
    NotNotified { why: String },
    /// The server shuts down.
    Closing { sessions: usize },
}

impl std::fmt::Display for ServeEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listening { at, how } => write!(f, "listening on {at}, {how}"),
            Self::Certificate { sha256 } => write!(f, "certificate SHA-256 {sha256}"),
            Self::Connected { from } => write!(f, "{from} connected"),
            Self::AcceptFailed { at, why } => {
                write!(f, "cannot accept a connection on {at}: {why}")
            }
            Self::Refused { from, why } => write!(f, "{from} refused: {why}"),
            Self::LoginFailed { from, name } => {
                write!(f, "{from}: login failed for '{}'", name.escape_default())
            }
            Self::LoginRefused { from, name, why } => {
                write!(f, "{from}: login refused for '{}': {why}", name.escape_default())
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
            Self::NoLogin { at, program } => write!(
                f,
                "NO LOGIN: any client that reaches {at} runs '{}'{}; restrict the clients with \
                 --allow",
                program.escape_default(),
                if os::user::is_root() { " as root" } else { "" }
            ),
            Self::Writes { from, device } => write!(f, "{from} has write access to {device}"),
            Self::UnwritableRoot { why } => f.write_str(why),
            Self::Closed { at } => write!(f, "no longer listening on {at}"),
            Self::Reloaded => f.write_str("configuration reloaded"),
            Self::LogReopened => f.write_str("log files reopened"),
            Self::NotReloaded { why } => {
                write!(f, "configuration not reloaded, the old one stays in force: {why}")
            }
            Self::RestartNeeded { keys } => {
                write!(f, "a change of {} needs a restart", keys.join(", "))
            }
            Self::LinesDropped { count } => {
                write!(f, "{count} log lines lost: the log was full or not read fast enough")
            }
            Self::UnusedSocket { at } => {
                write!(f, "inherited socket {at} closed: it is not an address of the configuration")
            }
            Self::NotNotified { why } => write!(f, "cannot notify the service manager: {why}"),
            Self::Closing { sessions: 0 } => f.write_str("shutting down"),
            Self::Closing { sessions } => write!(f, "shutting down, open sessions: {sessions}"),
        }
    }
}

impl LogEvent for ServeEvent<'_> {
    fn level(&self) -> Level {
        match self {
            Self::AcceptFailed { .. } | Self::NoRecord { .. } | Self::NotReloaded { .. } => {
                Level::Error
            }
            Self::Refused { .. }
            | Self::LoginFailed { .. }
            | Self::LoginRefused { .. }
            | Self::LineDown { .. }
            | Self::NoTransferRecord { .. }
            | Self::NoMeters { .. }
            | Self::NoStartTls { .. }
            | Self::UnwritableRoot { .. }
            | Self::NoLogin { .. }
            | Self::LinesDropped { .. }
            | Self::RestartNeeded { .. }
            | Self::UnusedSocket { .. }
            | Self::NotNotified { .. } => Level::Warning,
            Self::Listening { .. }
            | Self::Certificate { .. }
            | Self::LineUp { .. }
            | Self::Metrics { .. }
            | Self::Closed { .. }
            | Self::Reloaded
            | Self::LogReopened
            | Self::Closing { .. } => Level::Notice,
            Self::Connected { .. }
            | Self::LoggedIn { .. }
            | Self::Ended { .. }
            | Self::Writes { .. } => Level::Info,
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
    pub(super) fn write(self, event: &impl LogEvent) {
        if self.is_quiet && event.level() > Level::Error {
            return;
        }
        let output = LogOutput::get();
        let context = LineContext::now(self.is_json, log_output::is_journal());
        let line = context.line(event).into_bytes();
        match &output.writer {
            // A function without captured values, because the queue keeps it.
            Some(writer) if self.is_json => {
                writer.put(&line, |count| line_of_dropped(true, log_output::is_journal(), count));
            }
            Some(writer) => {
                writer.put(&line, |count| line_of_dropped(false, log_output::is_journal(), count));
            }
            // The writer thread could not be started.
            None => _ = StandardError.write_all(&line),
        }
        let Some(writer) = output.copy_writer() else { return };
        let is_journal = log_output::is_stderr_journal();
        let line = LineContext { is_journal, ..context }.line(event).into_bytes();
        match self.is_json {
            true => writer
                .put(&line, |count| line_of_dropped(true, log_output::is_stderr_journal(), count)),
            false => writer
                .put(&line, |count| line_of_dropped(false, log_output::is_stderr_journal(), count)),
        }
    }
}

fn line_of_dropped(is_json: bool, is_journal: bool, count: u64) -> Vec<u8> {
    let context = LineContext::now(is_json, is_journal);
    context.line(&ServeEvent::LinesDropped { count }).into_bytes()
}

/// Waits until all lines are written, at most `FLUSH_TIMEOUT`. Returns whether all lines were
/// written.
pub fn flush() -> bool {
    LogOutput::get().flush(FLUSH_TIMEOUT)
}

/// Asserts that the log lines of `events` contain no terminal commands and no forged lines. All
/// strings in the events are [`HOSTILE`]. `number` returns the index of an event's variant. Each of
/// the `variants` variants must occur in `events`.
#[cfg(test)]
pub(super) fn assert_lines_are_harmless<E: LogEvent>(
    events: &[E],
    variants: usize,
    number: impl Fn(&E) -> usize,
) {
    let numbers: std::collections::BTreeSet<_> = events.iter().map(number).collect();
    assert!(numbers.iter().copied().eq(0..variants), "`events` has only the variants {numbers:?}");
    for event in events {
        for is_json in [false, true] {
            let line = LineContext::now(is_json, false).line(event);
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
    fn log_lines_contain_no_terminal_command_or_forged_line() {
        let from = "192.0.2.1:9".parse().unwrap();
        let text = || HOSTILE.to_owned();
        let name = HOSTILE;
        let events = [
            ServeEvent::Listening { at: text(), how: "how" },
            ServeEvent::Certificate { sha256: name },
            ServeEvent::Connected { from },
            ServeEvent::Refused { from, why: text() },
            ServeEvent::LoginFailed { from, name },
            ServeEvent::LoggedIn { from, name },
            ServeEvent::Ended { from, why: text(), seconds: 1, bytes_in: 2, bytes_out: 3 },
            ServeEvent::LineUp { device: name },
            ServeEvent::LineDown { device: name, why: text() },
            ServeEvent::NoRecord { why: text() },
            ServeEvent::NoTransferRecord { why: text() },
            ServeEvent::Metrics { at: text() },
            ServeEvent::NoMeters { why: text() },
            ServeEvent::NoStartTls { why: text() },
            ServeEvent::Writes { from, device: text() },
            ServeEvent::Reloaded,
            ServeEvent::Closed { at: text() },
            ServeEvent::UnwritableRoot { why: text() },
            ServeEvent::NotReloaded { why: text() },
            ServeEvent::LinesDropped { count: 1 },
            ServeEvent::Closing { sessions: 1 },
            ServeEvent::AcceptFailed { at: text(), why: text() },
            ServeEvent::UnusedSocket { at: from },
            ServeEvent::NotNotified { why: text() },
            ServeEvent::NoLogin { at: text(), program: name },
            ServeEvent::RestartNeeded { keys: vec![text()] },
            ServeEvent::LogReopened,
            ServeEvent::LoginRefused { from, name, why: text() },
        ];
        assert_lines_are_harmless(&events, 28, |event| match event {
            ServeEvent::Listening { .. } => 0,
            ServeEvent::Certificate { .. } => 1,
            ServeEvent::Connected { .. } => 2,
            ServeEvent::Refused { .. } => 3,
            ServeEvent::LoginFailed { .. } => 4,
            ServeEvent::LoggedIn { .. } => 5,
            ServeEvent::Ended { .. } => 6,
            ServeEvent::LineUp { .. } => 7,
            ServeEvent::LineDown { .. } => 8,
            ServeEvent::NoRecord { .. } => 9,
            ServeEvent::NoTransferRecord { .. } => 10,
            ServeEvent::Metrics { .. } => 11,
            ServeEvent::NoMeters { .. } => 12,
            ServeEvent::NoStartTls { .. } => 13,
            ServeEvent::Writes { .. } => 14,
            ServeEvent::Closing { .. } => 15,
            ServeEvent::Reloaded => 16,
            ServeEvent::Closed { .. } => 24,
            ServeEvent::UnwritableRoot { .. } => 25,
            ServeEvent::LogReopened => 26,
            ServeEvent::LoginRefused { .. } => 27,
            ServeEvent::NotReloaded { .. } => 17,
            ServeEvent::LinesDropped { .. } => 18,
            ServeEvent::AcceptFailed { .. } => 19,
            ServeEvent::UnusedSocket { .. } => 20,
            ServeEvent::NotNotified { .. } => 21,
            ServeEvent::NoLogin { .. } => 22,
            ServeEvent::RestartNeeded { .. } => 23,
        });
    }

    // attack row 75
    #[test]
    fn a_name_with_control_characters_is_escaped_in_text_and_json() {
        let from = "192.0.2.1:9".parse().unwrap();
        let event = ServeEvent::LoginFailed { from, name: "a\x1b[2J\nb\u{9b}c" };
        let line = event.to_string();
        let json = serde_json::to_string(&event).unwrap();
        for text in [line, json] {
            assert!(!text.contains(['\x1b', '\n']), "{text}");
        }
        assert!(!event.to_string().contains('\u{9b}'));
    }
}
