//! STATUS (RFC 859): which options the other believes to be on.
//!
//! Who performs it answers SEND by IS and a list: WILL for what it does, DO for what the other
//! does, and SB to SE for parameters, in which SE is doubled where it is data. The list is what
//! one end believes, so that a person can find where the two disagree.

use crate::application::telnet::Side;
use crate::application::telnet::command::{OptionCode, SB, SE, Verb};
use crate::application::telnet::option::OptionRow;
use alloc::vec::Vec;
use core::fmt;

const IS: u8 = 0;
const SEND: u8 = 1;

/// What a subnegotiation of STATUS says.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::application::telnet) enum Message {
    /// The speaker wants our view of the options.
    Send,
    /// The speaker's view of the options, each with its side seen from the hearer.
    Is(Vec<(Side, OptionCode)>),
}

impl Message {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [SEND] => Some(Self::Send),
            [IS, list @ ..] => parse_list(list).map(Self::Is),
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Is(list) = self else { return f.write_str("SEND") };
        f.write_str("IS")?;
        list.iter().try_for_each(|(side, option)| match side {
            Side::Him => write!(f, " WILL {option}"),
            Side::Us => write!(f, " DO {option}"),
        })
    }
}

/// Returns the content that asks for a list.
pub(in crate::application::telnet) fn send() -> [u8; 1] {
    [SEND]
}

/// Returns the content that tells of `rows`: WILL for what we do, DO for what the other does.
pub(in crate::application::telnet) fn is(rows: &[OptionRow]) -> Vec<u8> {
    let mut content = Vec::from([IS]);
    for row in rows {
        if row.us.is_enabled() {
            content.extend_from_slice(&[Verb::Will.code(), row.option.0]);
        }
        if row.him.is_enabled() {
            content.extend_from_slice(&[Verb::Do.code(), row.option.0]);
        }
    }
    content
}

fn parse_list(mut list: &[u8]) -> Option<Vec<(Side, OptionCode)>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_list_is_read_with_its_sides_turned_and_its_parameters_skipped() {
        let list = [IS, 251, 1, SB, 31, SE, SE, 80, SE, 253, 24, 252, 3, 251, 3];
        let enabled = [
            (Side::Him, OptionCode::ECHO),
            (Side::Us, OptionCode::TERMINAL_TYPE),
            (Side::Him, OptionCode::SUPPRESS_GO_AHEAD),
        ];
        assert_eq!(Message::parse(&list), Some(Message::Is(enabled.into())));
    }

    #[test]
    fn a_status_list_that_is_cut_short_makes_no_sense() {
        assert_eq!(Message::parse(&[IS, 251]), None);
        assert_eq!(Message::parse(&[IS, SB, 31, SE, SE]), None);
        assert_eq!(Message::parse(&[IS, 7, 7]), None);
    }
}
