//! The inspector: a readable record of every command, negotiation and subnegotiation.
//!
//! The inspector is off by default. When it is on, it stores the last [`RECORDS_MAX`] records until
//! the caller reads them. Bytes from the wire are escaped, so that a record can be displayed on any
//! terminal.

use super::command::{Command, OptionCode, Side, Verb};
use super::option::OptionRow;
use super::q_method::OptionState;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::fmt;
use net::Cx;
use net::meter::Counter;

/// Maximum number of records that are stored until the caller reads them (our choice).
const RECORDS_MAX: usize = 1024;

/// Maximum length in characters of the displayed content of a subnegotiation (our choice).
const DESCRIPTION_MAX: usize = 400;

/// Direction of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Sent by the local end.
    Sent,
    /// Sent by the peer.
    Received,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sent => "sent",
            Self::Received => "received",
        })
    }
}

/// One recorded message. It is displayed as one line, such as `sent WILL NAWS (us: NO -> WANTYES
/// EMPTY, asked by us)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectionRecord {
    /// Direction of the message.
    pub direction: Direction,
    /// Content of the message.
    pub content: RecordContent,
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordContent {
    /// A command.
    Command(Command),
    /// An undefined command, by its code.
    UnknownCommand(u8),
    /// One of the four negotiation commands.
    Negotiation {
        /// The negotiation command.
        verb: Verb,
        /// The option.
        option: OptionCode,
        /// Side that would perform the option.
        side: Side,
        /// Side that made the request. This message is either the request or its answer.
        requested_by: Side,
        /// State of the option before this message.
        before: OptionState,
        /// State of the option after this message.
        after: OptionState,
    },
    /// A skipped subnegotiation: longer than any valid one, or about an option that is not allowed.
    Skipped(OptionCode),
    /// A subnegotiation with its content.
    Subnegotiation {
        /// The option.
        option: OptionCode,
        /// State of the option on the local side.
        us: OptionState,
        /// State of the option on the peer's side.
        him: OptionState,
        /// Content in readable form, with bytes from the wire escaped.
        description: String,
    },
}

impl fmt::Display for InspectionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.direction)?;
        match &self.content {
            RecordContent::Command(command) => command.fmt(f),
            RecordContent::UnknownCommand(code) => write!(f, "undefined command {code}"),
            RecordContent::Negotiation { verb, option, side, requested_by, before, after } => {
                write!(f, "{verb} {option} ({side}: {before}")?;
                if before != after {
                    write!(f, " -> {after}")?;
                }
                write!(f, ", asked by {requested_by})")
            }
            RecordContent::Skipped(option) => write!(f, "SB {option}, skipped unread"),
            RecordContent::Subnegotiation { option, us, him, description } => {
                write!(f, "SB {option} {description} (us: {us}, him: {him})")
            }
        }
    }
}

/// The records that the caller has not read yet.
#[derive(Debug, Default)]
pub(super) struct Inspector {
    is_on: bool,
    records: VecDeque<InspectionRecord>,
}

impl Inspector {
    pub(super) fn set_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    pub(super) fn take(&mut self) -> Option<InspectionRecord> {
        self.records.pop_front()
    }

    /// Adds a record if the inspector is on, and drops the oldest record if there is no space.
    pub(super) fn record(
        &mut self,
        direction: Direction,
        content: impl FnOnce() -> RecordContent,
        cx: &mut Cx<'_>,
    ) {
        if !self.is_on {
            return;
        }
        if self.records.len() >= RECORDS_MAX {
            self.records.pop_front();
            cx.meter.count(Counter::TelnetRecordsDropped);
        }
        self.records.push_back(InspectionRecord { direction, content: content() });
    }
}

/// Returns the record of a subnegotiation. The content of an invalid one, which has no description,
/// is escaped.
pub(super) fn subnegotiation(
    row: OptionRow,
    content: &[u8],
    description: Option<String>,
) -> RecordContent {
    let OptionRow { option, us, him } = row;
    let description = description.unwrap_or_else(|| {
        format!("\"{}\"", content.get(..DESCRIPTION_MAX).unwrap_or(content).escape_ascii())
    });
    let end = description.char_indices().nth(DESCRIPTION_MAX).map(|(at, _)| at);
    let description = match end.and_then(|end| description.get(..end)) {
        Some(start) => format!("{start}..."),
        None => description,
    };
    RecordContent::Subnegotiation { option, us, him, description }
}
