//! The inspector: a record of every command, negotiation and subnegotiation, for people to read.
//!
//! It is off until asked for, and then keeps the last [`RECORDS_MAX`] that nobody has taken. What
//! came from the wire is escaped, so that a record can be shown on any terminal.

use super::command::{Command, OptionCode, Side, Verb};
use super::option::{Message, OptionRow};
use super::q_method::OptionState;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::fmt;

/// The most records that wait to be taken; ours.
const RECORDS_MAX: usize = 1024;

/// The most characters of a subnegotiation that are shown; ours.
const WORDS_MAX: usize = 400;

/// Which way something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// We sent it.
    Sent,
    /// The other sent it.
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

/// One thing that was said. Shown, it is one line, such as
/// `sent WILL NAWS (us: NO -> WANTYES EMPTY, asked by us)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Which way it went.
    pub direction: Direction,
    /// What was said.
    pub what: Said,
}

/// What was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A command.
    Command(Command),
    /// A command that means nothing, by its code.
    UnknownCommand(u8),
    /// One of the four words of negotiation.
    Negotiation {
        /// The word.
        verb: Verb,
        /// The option.
        option: OptionCode,
        /// Whose option it is about.
        side: Side,
        /// Who began: that of the two whose request this is or answers.
        asked_by: Side,
        /// How the option stood before.
        before: OptionState,
        /// How it stands now.
        after: OptionState,
    },
    /// A subnegotiation that was skipped: it is longer than any that makes sense, or about an
    /// option that is not allowed.
    Skipped(OptionCode),
    /// A subnegotiation.
    Subnegotiation {
        /// The option.
        option: OptionCode,
        /// How the option stands where we perform it.
        us: OptionState,
        /// How it stands where the other performs it.
        him: OptionState,
        /// What it says, in words, with what came from the wire escaped.
        words: String,
    },
}

impl fmt::Display for Negotiated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.direction)?;
        match &self.what {
            Said::Command(command) => command.fmt(f),
            Said::UnknownCommand(code) => write!(f, "command {code}, which means nothing"),
            Said::Negotiation { verb, option, side, asked_by, before, after } => {
                write!(f, "{verb} {option} ({side}: {before}")?;
                if before != after {
                    write!(f, " -> {after}")?;
                }
                write!(f, ", asked by {asked_by})")
            }
            Said::Skipped(option) => write!(f, "SB {option}, skipped unread"),
            Said::Subnegotiation { option, us, him, words } => {
                write!(f, "SB {option} {words} (us: {us}, him: {him})")
            }
        }
    }
}

/// The records that nobody has taken.
#[derive(Debug, Default)]
pub(super) struct Inspector {
    is_on: bool,
    records: VecDeque<Negotiated>,
}

impl Inspector {
    pub(super) fn set(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) fn take(&mut self) -> Option<Negotiated> {
        self.records.pop_front()
    }

    /// Keeps a record. Returns whether an older one had to go for it.
    pub(super) fn record(&mut self, direction: Direction, what: Said) -> bool {
        let is_full = self.records.len() >= RECORDS_MAX;
        if is_full {
            self.records.pop_front();
        }
        self.records.push_back(Negotiated { direction, what });
        is_full
    }
}

/// Puts a subnegotiation into words.
pub(super) fn subnegotiation(row: OptionRow, content: &[u8]) -> Said {
    let OptionRow { option, us, him } = row;
    let words = match Message::parse(option, content) {
        Some(message) => format!("{message}"),
        None => format!("\"{}\"", content.get(..WORDS_MAX).unwrap_or(content).escape_ascii()),
    };
    let end = words.char_indices().nth(WORDS_MAX).map(|(at, _)| at);
    let words = match end.and_then(|end| words.get(..end)) {
        Some(start) => format!("{start}..."),
        None => words,
    };
    Said::Subnegotiation { option, us, him, words }
}
