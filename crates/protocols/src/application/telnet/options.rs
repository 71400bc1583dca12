//! The table of options: which are supported where, how each stands, what it says about itself.

use super::Side;
use super::command::{OptionCode, SB, SE, Verb};
use super::q_method::OptionState;
use alloc::string::String;
use alloc::vec::Vec;

/// The options that have a state, for at least one side of one role.
pub(super) const KNOWN: [OptionCode; 6] = [
    OptionCode::BINARY,
    OptionCode::ECHO,
    OptionCode::SUPPRESS_GO_AHEAD,
    OptionCode::STATUS,
    OptionCode::TERMINAL_TYPE,
    OptionCode::NAWS,
];

/// The first byte of a subnegotiation that tells (RFC 859, RFC 1091).
const IS: u8 = 0;
/// The first byte of a subnegotiation that asks (RFC 859, RFC 1091).
const SEND: u8 = 1;

/// The longest name of a terminal, in bytes: the registry's limit (RFC 1700).
const TERMINAL_TYPE_LIMIT: usize = 40;

/// How one option stands on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionRow {
    /// The option.
    pub option: OptionCode,
    /// How it stands where we perform it.
    pub us: OptionState,
    /// How it stands where the other performs it.
    pub him: OptionState,
}

/// The states of all known options.
#[derive(Debug)]
pub(super) struct Options {
    rows: [OptionRow; KNOWN.len()],
}

impl Default for Options {
    fn default() -> Self {
        let (us, him) = (OptionState::No, OptionState::No);
        Self { rows: KNOWN.map(|option| OptionRow { option, us, him }) }
    }
}

impl Options {
    pub(super) fn rows(&self) -> &[OptionRow] {
        &self.rows
    }

    /// Returns the state of `option`; one that is not known is not enabled.
    pub(super) fn state(&self, side: Side, option: OptionCode) -> OptionState {
        let row = self.rows.iter().find(|row| row.option == option);
        row.map_or(OptionState::No, |row| match side {
            Side::Us => row.us,
            Side::Him => row.him,
        })
    }

    pub(super) fn state_mut(&mut self, side: Side, option: OptionCode) -> Option<&mut OptionState> {
        let row = self.rows.iter_mut().find(|row| row.option == option)?;
        Some(match side {
            Side::Us => &mut row.us,
            Side::Him => &mut row.him,
        })
    }

    pub(super) fn is_settled(&self) -> bool {
        self.rows.iter().all(|row| row.us.is_settled() && row.him.is_settled())
    }

    /// Returns the content of STATUS IS: WILL for what we do, DO for what the other does.
    pub(super) fn status(&self) -> Vec<u8> {
        let mut content = Vec::from([IS]);
        for row in &self.rows {
            if row.us.is_enabled() {
                content.extend_from_slice(&[Verb::Will.code(), row.option.0]);
            }
            if row.him.is_enabled() {
                content.extend_from_slice(&[Verb::Do.code(), row.option.0]);
            }
        }
        content
    }
}

/// Returns whether a user (or a server) can perform `option`.
///
/// Only this is ever agreed to. What would give away the user's environment is not in it.
pub(super) fn can_perform(is_user: bool, option: OptionCode) -> bool {
    match option {
        OptionCode::BINARY | OptionCode::SUPPRESS_GO_AHEAD | OptionCode::STATUS => true,
        OptionCode::TERMINAL_TYPE | OptionCode::NAWS => is_user,
        // RFC 857: both may not echo at a time, or a character goes around for ever.
        OptionCode::ECHO => !is_user,
        _ => false,
    }
}

/// What a subnegotiation says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The other wants the name of our terminal.
    SendTerminalType,
    TerminalType(String),
    WindowSize {
        columns: u16,
        rows: u16,
    },
    /// The other wants our view of the options.
    SendStatus,
    /// The other's view of the options, each with its side seen from ours.
    Status(Vec<(Side, OptionCode)>),
}

impl Said {
    /// Returns on which side the option must be enabled for this to be said.
    pub(super) fn side(&self) -> Side {
        match self {
            Self::SendTerminalType | Self::SendStatus => Side::Us,
            Self::TerminalType(_) | Self::WindowSize { .. } | Self::Status(_) => Side::Him,
        }
    }

    /// Reads the content of a subnegotiation of `option`; `None` if it makes no sense.
    pub(super) fn parse(option: OptionCode, content: &[u8]) -> Option<Self> {
        match (option, content) {
            (OptionCode::TERMINAL_TYPE, [SEND]) => Some(Self::SendTerminalType),
            (OptionCode::TERMINAL_TYPE, [IS, name @ ..]) => {
                let is_name = name.len() <= TERMINAL_TYPE_LIMIT
                    && !name.is_empty()
                    && name.iter().all(u8::is_ascii_graphic);
                is_name.then(|| Self::TerminalType(name.iter().copied().map(char::from).collect()))
            }
            (OptionCode::NAWS, &[columns_high, columns_low, rows_high, rows_low]) => {
                let columns = u16::from_be_bytes([columns_high, columns_low]);
                let rows = u16::from_be_bytes([rows_high, rows_low]);
                Some(Self::WindowSize { columns, rows })
            }
            (OptionCode::STATUS, [SEND]) => Some(Self::SendStatus),
            (OptionCode::STATUS, [IS, list @ ..]) => parse_status(list).map(Self::Status),
            _ => None,
        }
    }
}

/// Reads the list of STATUS IS (RFC 859): verbs with an option, and SB to SE, which is skipped.
fn parse_status(mut list: &[u8]) -> Option<Vec<(Side, OptionCode)>> {
    let mut enabled = Vec::new();
    while let Some((&word, rest)) = list.split_first() {
        if word == SB {
            list = skip_parameters(rest)?;
            continue;
        }
        let (&option, rest) = rest.split_first()?;
        // His WILL is his to perform, as it is in negotiation.
        let (side, is_enabled) = Verb::from_code(word)?.about();
        if is_enabled {
            enabled.push((side, OptionCode(option)));
        }
        list = rest;
    }
    Some(enabled)
}

/// Returns what follows the SE; within the parameters SE is doubled where it is data (RFC 859).
fn skip_parameters(mut list: &[u8]) -> Option<&[u8]> {
    loop {
        let at = list.iter().position(|&byte| byte == SE)?;
        list = list.get(at + 1..)?;
        match list {
            [SE, rest @ ..] => list = rest,
            _ => return Some(list),
        }
    }
}

/// Returns the content of TERMINAL-TYPE SEND.
pub(super) fn terminal_type_send() -> [u8; 1] {
    [SEND]
}

/// Returns the content of TERMINAL-TYPE IS.
pub(super) fn terminal_type_is(name: &str) -> Vec<u8> {
    let mut content = Vec::from([IS]);
    content.extend_from_slice(name.as_bytes());
    content
}

/// Returns the content of STATUS SEND.
pub(super) fn status_send() -> [u8; 1] {
    [SEND]
}

/// Returns the content of NAWS.
pub(super) fn window_size((columns, rows): (u16, u16)) -> [u8; 4] {
    let ([c0, c1], [r0, r1]) = (columns.to_be_bytes(), rows.to_be_bytes());
    [c0, c1, r0, r1]
}

/// Returns what may go out as the name of a terminal: graphic ASCII, at most 40 characters.
///
/// RFC 1091: the name of a terminal that has none is UNKNOWN.
pub(super) fn terminal_name(name: &str, in_upper_case: bool) -> String {
    let graphic = name.chars().filter(char::is_ascii_graphic).take(TERMINAL_TYPE_LIMIT);
    let name: String =
        graphic.map(|c| if in_upper_case { c.to_ascii_uppercase() } else { c }).collect();
    if name.is_empty() { String::from("UNKNOWN") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_subnegotiation_is_read_or_refused(
            option in prop::sample::select(KNOWN.to_vec()),
            content in prop::collection::vec(any::<u8>(), 0..520)
        ) {
            if let Some(Said::TerminalType(name)) = Said::parse(option, &content) {
                prop_assert!(name.len() <= 40 && name.chars().all(|c| c.is_ascii_graphic()));
            }
        }

        #[test]
        fn a_window_size_is_read_as_it_was_written(columns: u16, rows: u16) {
            let read = Said::parse(OptionCode::NAWS, &window_size((columns, rows)));
            prop_assert_eq!(read, Some(Said::WindowSize { columns, rows }));
        }
    }

    #[test]
    fn a_status_list_is_read_with_its_sides_turned_and_its_parameters_skipped() {
        let list = [IS, 251, 1, SB, 31, SE, SE, 80, SE, 253, 24, 252, 3, 251, 3];
        let enabled = [
            (Side::Him, OptionCode::ECHO),
            (Side::Us, OptionCode::TERMINAL_TYPE),
            (Side::Him, OptionCode::SUPPRESS_GO_AHEAD),
        ];
        assert_eq!(Said::parse(OptionCode::STATUS, &list), Some(Said::Status(enabled.into())));
    }

    #[test]
    fn a_status_list_that_is_cut_short_makes_no_sense() {
        assert_eq!(Said::parse(OptionCode::STATUS, &[IS, 251]), None);
        assert_eq!(Said::parse(OptionCode::STATUS, &[IS, SB, 31, SE, SE]), None);
        assert_eq!(Said::parse(OptionCode::STATUS, &[IS, 7, 7]), None);
    }
}
