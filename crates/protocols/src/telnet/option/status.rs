//! STATUS (RFC 859): the options that the other end considers enabled.
//!
//! The side that performs the option answers SEND with IS and a list: WILL for options that it
//! performs, DO for options that the other end performs, and parameters between SB and SE. An SE
//! byte within parameters is doubled. The list is the view of one end, which helps the user find
//! disagreements.

use crate::telnet::command::{OptionCode, SB, SE, Side, Verb};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::option::option_row::OptionRow;
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

const IS: u8 = 0;
const SEND: u8 = 1;

/// Content of a SEND subnegotiation.
pub(in crate::telnet) const SEND_CONTENT: [u8; 1] = [SEND];

impl OptionCode {
    /// STATUS (RFC 859): reports on request which options the sender considers enabled.
    pub const STATUS: Self = Self(5);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 512,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::STATUS, Role::Either)
};

/// STATUS, which has no state.
#[derive(Debug)]
pub(in crate::telnet) struct Status;

impl Handler for Status {
    fn from_settings(_settings: Settings<'_>) -> Self {
        Self
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        match Message::parse(content) {
            Some(Message::Send) if context.row.is_in_force(Side::Local) => {
                context.send(&build_is(context.rows));
                Ok(None)
            }
            Some(Message::Is(list)) if context.row.is_enabled(Side::Remote) => {
                Ok(Some(Event::Status(list)))
            }
            _ => Err(Invalid),
        }
    }
}

/// A subnegotiation of STATUS.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    /// SEND: requests the options that the receiver considers enabled.
    Send,
    /// IS: the options that the sender considers enabled, each with its side as seen from the
    /// receiver.
    Is(Vec<(Side, OptionCode)>),
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
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
            Side::Remote => write!(f, " WILL {option}"),
            Side::Local => write!(f, " DO {option}"),
        })
    }
}

/// Returns the content of an IS subnegotiation for `rows`: WILL for local options, DO for options
/// of the peer.
fn build_is(rows: &[OptionRow]) -> Vec<u8> {
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
        // As in negotiation, WILL from the peer refers to an option that the peer performs.
        let (side, is_enabled) = Verb::from_code(word)?.side_and_enable();
        if is_enabled {
            enabled.push((side, OptionCode(option)));
        }
        list = rest;
    }
    Some(enabled)
}

/// Skips the parameters of an option up to SE and returns the input after it. Within the parameters
/// SE is doubled as data (RFC 859).
fn skip_parameters(mut list: &[u8]) -> Option<&[u8]> {
    loop {
        let se_index = list.iter().position(|&byte| byte == SE)?;
        list = list.get(se_index + 1..)?;
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
    fn a_status_list_is_parsed_with_sides_swapped_and_parameters_skipped() {
        let list = [IS, 251, 1, SB, 31, SE, SE, 80, SE, 253, 24, 252, 3, 251, 3];
        let enabled = [
            (Side::Remote, OptionCode::ECHO),
            (Side::Local, OptionCode::TERMINAL_TYPE),
            (Side::Remote, OptionCode::SUPPRESS_GO_AHEAD),
        ];
        assert_eq!(Message::parse(&list), Some(Message::Is(enabled.into())));
    }

    #[test]
    fn a_truncated_status_list_is_invalid() {
        assert_eq!(Message::parse(&[IS, 251]), None);
        assert_eq!(Message::parse(&[IS, SB, 31, SE, SE]), None);
        assert_eq!(Message::parse(&[IS, 7, 7]), None);
    }
}
