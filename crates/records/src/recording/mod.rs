//! Recordings of sessions, in asciicast version 2. The first line is a header. Each further line is
//! an event in JSON: the seconds since the start, its kind, and its text.
//!
//! The kind `o` is received output, `i` typed input, `r` a new window size, and `m` a marker, used
//! for negotiations. Events of unknown kinds are ignored.

mod lines;
mod recorder;

pub use lines::Lines;
pub use recorder::SessionRecorder;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Header, in the first line of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format: 2.
    pub version: u32,
    /// Columns of the window.
    pub width: u16,
    /// Rows of the window.
    pub height: u16,
    /// Start of the session, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<u64>,
    /// Title of the recording: the command and the remote host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Environment, with the terminal type as TERM.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Received data.
    Output,
    /// Typed data.
    Input,
    /// A new window size.
    Resize,
    /// A marker; plumb writes markers for Telnet commands and negotiations.
    Marker,
    /// An unknown kind.
    Other,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Output => "o",
            Self::Input => "i",
            Self::Resize => "r",
            Self::Marker => "m",
            Self::Other => "x",
        }
    }
}

/// An event of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// Seconds since the start.
    pub at_s: f64,
    /// Kind of the event.
    pub kind: Kind,
    /// Text of the event.
    pub text: String,
}

/// Reason why a line of a recording is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The first line is not a header.
    NoHeader,
    /// The recording has another version.
    Version(u32),
    /// A line is not an event.
    NoEvent,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeader => f.write_str("it does not start with an asciicast header"),
            Self::Version(version) => {
                write!(
                    f,
                    "it is an asciicast of version {version}, and plumb supports only version 2"
                )
            }
            Self::NoEvent => f.write_str("not an asciicast event"),
        }
    }
}

/// Parses the first line.
///
/// # Errors
///
/// Returns an error if `line` is not a header of version 2.
pub fn read_header(line: &str) -> Result<Header, ReadError> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|_| ReadError::NoHeader)?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    match version.and_then(|version| u32::try_from(version).ok()) {
        Some(2) => serde_json::from_value(value).map_err(|_| ReadError::NoHeader),
        Some(version) => Err(ReadError::Version(version)),
        None => Err(ReadError::NoHeader),
    }
}

/// Parses a further line.
///
/// # Errors
///
/// Returns an error if `line` is not an event.
pub fn read_event(line: &str) -> Result<RecordedEvent, ReadError> {
    let (at_s, kind, text): (f64, String, String) =
        serde_json::from_str(line).map_err(|_| ReadError::NoEvent)?;
    if !at_s.is_finite() || at_s < 0.0 {
        return Err(ReadError::NoEvent);
    }
    let kind = match kind.as_str() {
        "o" => Kind::Output,
        "i" => Kind::Input,
        "r" => Kind::Resize,
        "m" => Kind::Marker,
        _ => Kind::Other,
    };
    Ok(RecordedEvent { at_s, kind, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_of_another_version_is_rejected_with_its_number() {
        let read = read_header(r#"{"version": 3, "term": {"cols": 80, "rows": 24}}"#);
        assert_eq!(read, Err(ReadError::Version(3)));
    }

    #[test]
    fn an_event_of_an_unknown_kind_is_accepted() {
        assert_eq!(read_event(r#"[1.5, "z", "?"]"#).unwrap().kind, Kind::Other);
    }

    #[test]
    fn an_event_with_a_negative_time_is_rejected() {
        assert_eq!(read_event(r#"[-1, "o", ""]"#), Err(ReadError::NoEvent));
    }

    proptest! {
        #[test]
        fn a_written_header_is_read_back(
            width: u16, height: u16, timestamp: Option<u64>, title: Option<String>,
            env in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..3),
        ) {
            let header = Header { version: 2, width, height, timestamp, title, env };
            let line = serde_json::to_string(&header).unwrap();
            prop_assert_eq!(read_header(&line), Ok(header));
        }

        #[test]
        fn a_written_event_is_read_back(
            ticks in 0..1_000_000_u32, kind in 0..5_usize, text: String
        ) {
            // The decimal fraction of such a time is exact.
            let at_s = f64::from(ticks) / 1024.0;
            let kinds = [Kind::Output, Kind::Input, Kind::Resize, Kind::Marker, Kind::Other];
            let event = RecordedEvent { at_s, kind: kinds[kind], text };
            let line = serde_json::to_string(&(at_s, event.kind.name(), &event.text)).unwrap();
            prop_assert_eq!(read_event(&line), Ok(event));
        }
    }
}
