//! The known options: a table of all of them, and a file for each.
//!
//! The table defines which role can perform an option, and the maximum length of its
//! subnegotiations. The messages and the state of an option are in its own file. Options without
//! subnegotiations (BINARY, ECHO, SUPPRESS-GO-AHEAD, END-OF-RECORD) have a row and no file;
//! TIMING-MARK, which marks a position in the stream and has no state, has neither.

pub(super) mod charset;
pub(super) mod com_port;
pub(super) mod compression;
pub(super) mod display;
pub(super) mod echo_acknowledgment;
pub(super) mod environment;
pub(super) mod flow_control;
pub(super) mod linemode;
pub(super) mod naws;
mod option_row;
pub(super) mod start_tls;
pub(super) mod status;
pub(super) mod terminal_speed;
pub(super) mod terminal_type;

pub use option_row::OptionRow;

use super::command::{OptionCode, OptionSet, Side};
use super::q_method::OptionState;
use super::settings_and_events::FlowControl;
use core::fmt;

/// Roles that can perform an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Performer {
    Either,
    User,
    Server,
}

/// One row of the table of options.
#[derive(Clone, Copy, Debug)]
struct Entry {
    option: OptionCode,
    performer: Performer,
    /// Maximum length in bytes of the content of a subnegotiation; a longer one is discarded.
    content_max_bytes: usize,
}

const fn table_entry(option: OptionCode, performer: Performer, content_max_bytes: usize) -> Entry {
    Entry { option, performer, content_max_bytes }
}

/// Number of options in the table: all known options except TIMING-MARK, which has no state.
pub(super) const KNOWN_COUNT: usize = 18;

/// The options with a state, in the order of their codes.
///
/// The limits are our choice. For short messages the limit is the length of the longest valid
/// message, for lists the length of the longest list that is known to occur.
const TABLE: [Entry; KNOWN_COUNT] = [
    table_entry(OptionCode::BINARY, Performer::Either, 0),
    // RFC 857: if both ends echoed, a character would circulate indefinitely.
    table_entry(OptionCode::ECHO, Performer::Server, 0),
    table_entry(OptionCode::SUPPRESS_GO_AHEAD, Performer::Either, 0),
    table_entry(OptionCode::STATUS, Performer::Either, 512),
    table_entry(OptionCode::TERMINAL_TYPE, Performer::User, 512),
    table_entry(OptionCode::END_OF_RECORD, Performer::Either, 0),
    table_entry(OptionCode::NAWS, Performer::User, 4),
    table_entry(OptionCode::TERMINAL_SPEED, Performer::User, 64),
    table_entry(OptionCode::TOGGLE_FLOW_CONTROL, Performer::User, 1),
    // The maximum is one triplet for every possible function code.
    table_entry(OptionCode::LINEMODE, Performer::User, 1 + 3 * 256),
    table_entry(OptionCode::X_DISPLAY_LOCATION, Performer::User, 512),
    table_entry(OptionCode::NEW_ENVIRON, Performer::User, 4096),
    table_entry(OptionCode::CHARSET, Performer::Either, 1536),
    table_entry(OptionCode::COM_PORT, Performer::User, 256),
    table_entry(OptionCode::START_TLS, Performer::User, 1),
    table_entry(OptionCode::COMPRESS2, Performer::Server, 0),
    table_entry(OptionCode::COMPRESS3, Performer::Server, 0),
    table_entry(OptionCode::ECHO_ACKNOWLEDGMENT, Performer::Server, 8),
];

/// Returns the options with a state.
pub(super) fn known() -> impl Iterator<Item = OptionCode> {
    TABLE.iter().map(|table_entry| table_entry.option)
}

fn find(option: OptionCode) -> Option<&'static Entry> {
    TABLE.iter().find(|table_entry| table_entry.option == option)
}

/// Returns whether a user (or a server) can perform `option`. Requests for other options are always
/// refused.
pub(super) fn can_perform(is_user: bool, option: OptionCode) -> bool {
    find(option).is_some_and(|table_entry| match table_entry.performer {
        Performer::Either => true,
        Performer::User => is_user,
        Performer::Server => !is_user,
    })
}

/// Returns the side that performs `option` as seen from a user (or a server), if only one role can.
pub(super) fn only_side(is_user: bool, option: OptionCode) -> Option<Side> {
    let user = if is_user { Side::Local } else { Side::Remote };
    let server = if is_user { Side::Remote } else { Side::Local };
    match find(option)?.performer {
        Performer::Either => None,
        Performer::User => Some(user),
        Performer::Server => Some(server),
    }
}

/// Returns the maximum length in bytes of the content of a subnegotiation of `option`.
pub(super) fn content_max_bytes(option: OptionCode) -> usize {
    find(option).map_or(0, |table_entry| table_entry.content_max_bytes)
}

/// The states of all known options, and the set of allowed options.
#[derive(Debug)]
pub(super) struct Options {
    rows: [OptionRow; KNOWN_COUNT],
    allowed: OptionSet,
    is_user: bool,
}

impl Options {
    pub(super) fn new(is_user: bool, allowed: OptionSet) -> Self {
        let us = OptionState::No;
        let him = OptionState::No;
        let rows = TABLE.map(|Entry { option, .. }| OptionRow { option, us, him });
        Self { rows, allowed, is_user }
    }

    pub(super) fn rows(&self) -> &[OptionRow] {
        &self.rows
    }

    pub(super) fn allowed(&self) -> OptionSet {
        self.allowed
    }

    /// Returns whether `side` may perform `option` according to the role and the settings.
    pub(super) fn allows(&self, side: Side, option: OptionCode) -> bool {
        let is_user = self.is_user == (side == Side::Local);
        self.allowed.contains(option) && can_perform(is_user, option)
    }

    /// Returns the state of `option`; an unknown option is disabled.
    pub(super) fn state(&self, side: Side, option: OptionCode) -> OptionState {
        let row = self.rows.iter().find(|row| row.option == option);
        row.map_or(OptionState::No, |row| match side {
            Side::Local => row.us,
            Side::Remote => row.him,
        })
    }

    pub(super) fn set_state(&mut self, side: Side, option: OptionCode, state: OptionState) {
        let row = self.rows.iter_mut().find(|row| row.option == option);
        match (row, side) {
            (Some(row), Side::Local) => row.us = state,
            (Some(row), Side::Remote) => row.him = state,
            (None, _) => {}
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.rows.iter().all(|row| row.us.is_settled() && row.him.is_settled())
    }
}

/// The parsed content of a subnegotiation, from either end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Status(status::Message),
    TerminalType(terminal_type::Message),
    Naws(naws::Message),
    TerminalSpeed(terminal_speed::Message),
    FlowControl(FlowControl),
    Linemode(linemode::Message),
    Display(display::Message),
    Environment(environment::Message),
    Charset(charset::Message),
    ComPort(com_port::Message),
    StartTls,
    Compress,
    EchoAcknowledgment(u64),
}

impl Message {
    /// Parses the content of a subnegotiation of `option`; returns `None` if it is invalid.
    pub(super) fn parse(option: OptionCode, content: &[u8]) -> Option<Self> {
        match option {
            OptionCode::STATUS => status::Message::parse(content).map(Self::Status),
            OptionCode::TERMINAL_TYPE => {
                terminal_type::Message::parse(content).map(Self::TerminalType)
            }
            OptionCode::NAWS => naws::Message::parse(content).map(Self::Naws),
            OptionCode::TERMINAL_SPEED => {
                terminal_speed::Message::parse(content).map(Self::TerminalSpeed)
            }
            OptionCode::TOGGLE_FLOW_CONTROL => FlowControl::parse(content).map(Self::FlowControl),
            OptionCode::LINEMODE => linemode::Message::parse(content).map(Self::Linemode),
            OptionCode::X_DISPLAY_LOCATION => display::Message::parse(content).map(Self::Display),
            OptionCode::NEW_ENVIRON => environment::Message::parse(content).map(Self::Environment),
            OptionCode::CHARSET => charset::Message::parse(content).map(Self::Charset),
            OptionCode::COM_PORT => com_port::Message::parse(content).map(Self::ComPort),
            OptionCode::START_TLS => start_tls::parse(content).map(|()| Self::StartTls),
            OptionCode::COMPRESS2 | OptionCode::COMPRESS3 => {
                content.is_empty().then_some(Self::Compress)
            }
            OptionCode::ECHO_ACKNOWLEDGMENT => {
                echo_acknowledgment::parse(content).map(Self::EchoAcknowledgment)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(message) => message.fmt(f),
            Self::TerminalType(message) => message.fmt(f),
            Self::Naws(message) => message.fmt(f),
            Self::TerminalSpeed(message) => message.fmt(f),
            Self::FlowControl(flow) => flow.fmt(f),
            Self::Linemode(message) => message.fmt(f),
            Self::Display(message) => message.fmt(f),
            Self::Environment(message) => message.fmt(f),
            Self::Charset(message) => message.fmt(f),
            Self::ComPort(message) => message.fmt(f),
            Self::StartTls => f.write_str("FOLLOWS"),
            Self::Compress => f.write_str("start of compression"),
            Self::EchoAcknowledgment(count) => write!(f, "{count} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    proptest! {
        #[test]
        fn any_subnegotiation_is_parsed_or_refused_and_displayed_without_control_characters(
            option in prop::sample::select(known().collect::<alloc::vec::Vec<_>>()),
            content in prop::collection::vec(any::<u8>(), 0..520)
        ) {
            if let Some(message) = Message::parse(option, &content) {
                let words = format!("{message}");
                prop_assert!(!words.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_codes() {
        assert!(known().is_sorted());
    }

    #[test]
    fn the_side_of_a_role_is_local_for_that_role_and_remote_for_the_other() {
        let sides = |option| [true, false].map(|is_user| only_side(is_user, option));
        assert_eq!(sides(OptionCode::NAWS), [Some(Side::Local), Some(Side::Remote)]);
        assert_eq!(sides(OptionCode::ECHO), [Some(Side::Remote), Some(Side::Local)]);
        assert_eq!(sides(OptionCode::BINARY), [None, None]);
    }
}
