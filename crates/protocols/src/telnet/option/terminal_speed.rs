//! TERMINAL-SPEED (RFC 1079): the transmit and receive speeds of the user's terminal in bits per
//! second.
//!
//! A server sends SEND, and the user answers IS with two decimal numbers separated by a comma.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

const IS: u8 = 0;
const SEND: u8 = 1;

/// Maximum number of digits of a speed (our choice): enough for 32 bits.
const DIGITS_MAX: usize = 10;

impl OptionCode {
    /// TERMINAL-SPEED (RFC 1079).
    pub const TERMINAL_SPEED: Self = Self(32);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 64,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::TERMINAL_SPEED, Role::User)
};

/// State of TERMINAL-SPEED.
#[derive(Debug)]
pub(in crate::telnet) struct TerminalSpeed {
    /// Transmit and receive speed of the user's terminal; `None` at a server.
    speed: Option<(u32, u32)>,
}

impl Handler for TerminalSpeed {
    fn from_settings(settings: Settings<'_>) -> Self {
        match settings {
            Settings::User(settings) => Self { speed: Some(settings.terminal_speed) },
            Settings::Server(_) => Self { speed: None },
        }
    }

    fn on_enabled(&mut self, side: Side, context: &mut Context<'_, '_>) {
        if side == Side::Remote {
            context.send(&[SEND]);
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        match (Message::parse(content), self.speed) {
            (Some(Message::Send), Some(speed)) if context.row.answers_requests() => {
                context.send(&build_is(speed));
                Ok(None)
            }
            (Some(Message::Is { transmit, receive }), None)
                if context.row.is_enabled(Side::Remote) =>
            {
                Ok(Some(Event::TerminalSpeed { transmit, receive }))
            }
            _ => Err(Invalid),
        }
    }
}

/// A subnegotiation of TERMINAL-SPEED.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Send,
    Is { transmit: u32, receive: u32 },
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [SEND] => Some(Self::Send),
            [IS, speeds @ ..] => {
                let (transmit, receive) = core::str::from_utf8(speeds).ok()?.split_once(',')?;
                Some(Self::Is { transmit: number(transmit)?, receive: number(receive)? })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send => f.write_str("SEND"),
            Self::Is { transmit, receive } => write!(f, "IS {transmit},{receive}"),
        }
    }
}

/// Returns the content of an IS subnegotiation that reports the speeds.
fn build_is((transmit, receive): (u32, u32)) -> Vec<u8> {
    let mut content = Vec::from([IS]);
    content.extend_from_slice(format!("{transmit},{receive}").as_bytes());
    content
}

fn number(text: &str) -> Option<u32> {
    // `parse` would accept a sign, which RFC 1079 does not allow.
    let is_number = text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_emitted_speed_is_parsed_back_equal(transmit: u32, receive: u32) {
            let read = Message::parse(&build_is((transmit, receive)));
            prop_assert_eq!(read, Some(Message::Is { transmit, receive }));
        }
    }

    #[test]
    fn anything_but_a_pair_of_numbers_is_malformed() {
        for speeds in
            [&b"\0"[..], b"\x0038400", b"\0,", b"\0+1,1", b"\x001,2,3", b"\x004294967296,1"]
        {
            assert_eq!(Message::parse(speeds), None);
        }
    }
}
