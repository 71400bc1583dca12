//! Format of a log line.
//!
//! A line of text has the time, the program, the session and the event. The journal adds the time and
//! the program itself; its lines begin with the level, as `sd-daemon(3)` describes. A line of JSON has
//! the same parts as keys.

use super::session_id::SessionId;
use records::calendar::Moment;
use serde::Serialize;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Importance of an event, with the numbers of syslog (RFC 5424 §6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// A part of the service fails.
    Error = 3,
    /// A limit, a refusal, or a setting that is probably not intended.
    Warning = 4,
    /// The state of the service changes.
    Notice = 5,
    /// An event of a session.
    Info = 6,
}

/// Event of a log.
pub(super) trait LogEvent: fmt::Display + Serialize {
    /// Returns the importance of the event.
    fn level(&self) -> Level;
}

/// Line with its context.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineContext {
    pub(super) is_json: bool,
    /// Whether the journal reads the line.
    pub(super) is_journal: bool,
    pub(super) unix_ns: u64,
    pub(super) session: Option<SessionId>,
}

impl LineContext {
    /// Returns the context of a line that is written now by this task.
    pub(super) fn now(is_json: bool, is_journal: bool) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        Self { is_json, is_journal, unix_ns, session: SessionId::current() }
    }

    /// Returns the line of an event. No text of the event can contain terminal commands or start
    /// another line.
    pub(super) fn line(&self, event: &impl LogEvent) -> String {
        let level = event.level();
        let prefix = match self.is_journal {
            true => format!("<{}>", level as u8),
            false => String::new(),
        };
        if self.is_json {
            let session = self.session.map(SessionId::number);
            let fields = JsonLine { time: self.time(), level, session, event };
            let text = serde_json::to_string(&fields).unwrap_or_default();
            return format!("{prefix}{}\n", records::escape::json(&text));
        }
        let prefix = match self.is_journal {
            true => prefix,
            false => format!("{} plumb: ", self.time()),
        };
        let level = match level {
            Level::Error => "error: ",
            Level::Warning => "warning: ",
            Level::Notice | Level::Info => "",
        };
        let session = self.session.map(|session| format!("[{}] ", session.number()));
        // An error with several lines, such as one of TOML, becomes a single line.
        let text = event.to_string().replace('\n', " ");
        let session = session.unwrap_or_default();
        format!("{prefix}{session}{level}{}\n", records::escape::line(&text))
    }

    /// Returns the time in the format of RFC 3339, with milliseconds.
    fn time(&self) -> String {
        let seconds = Moment::of(self.unix_ns).rfc_3339();
        let milliseconds = self.unix_ns / 1_000_000 % 1000;
        format!("{}.{milliseconds:03}Z", seconds.trim_end_matches('Z'))
    }
}

/// Keys of a JSON line.
#[derive(Serialize)]
struct JsonLine<'a, E> {
    time: String,
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(flatten)]
    event: &'a E,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    #[serde(tag = "event", rename_all = "kebab-case")]
    enum TestEvent {
        LoggedIn { name: &'static str },
    }

    impl fmt::Display for TestEvent {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self::LoggedIn { name } = self;
            write!(f, "{name}\nlogged in")
        }
    }

    impl LogEvent for TestEvent {
        fn level(&self) -> Level {
            Level::Warning
        }
    }

    fn line(is_json: bool, is_journal: bool) -> String {
        let id = SessionId::next();
        let session = Some(id);
        let context =
            LineContext { is_json, is_journal, unix_ns: 1_795_543_773_123_000_000, session };
        let line = context.line(&TestEvent::LoggedIn { name: "ann" });
        line.replace(&format!("[{}]", id.number()), "[N]")
            .replace(&format!("\"session\":{}", id.number()), "\"session\":N")
    }

    #[test]
    fn a_line_of_text_has_the_time_the_session_and_the_level() {
        let expected = "2026-11-24T18:09:33.123Z plumb: [N] warning: ann logged in\n";
        assert_eq!(line(false, false), expected);
    }

    #[test]
    fn a_line_of_the_journal_begins_with_the_level_and_has_no_time() {
        assert_eq!(line(false, true), "<4>[N] warning: ann logged in\n");
    }

    #[test]
    fn a_line_of_json_has_the_time_the_level_and_the_session_as_keys() {
        let expected = "{\"time\":\"2026-11-24T18:09:33.123Z\",\"level\":\"warning\",\"session\":N,\
                        \"event\":\"logged-in\",\"name\":\"ann\"}\n";
        assert_eq!(line(true, false), expected);
        assert_eq!(line(true, true), format!("<4>{expected}"));
    }
}
