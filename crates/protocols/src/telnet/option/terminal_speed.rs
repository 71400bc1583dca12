//! TERMINAL-SPEED (RFC 1079): the transmit and receive speeds of the user's terminal in bits per
//! second.
//!
//! A server sends SEND, and the user answers IS with two decimal numbers separated by a comma.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

const IS: u8 = 0;
const SEND: u8 = 1;

/// Maximum number of digits of a speed (our choice): enough for 32 bits.
const DIGITS_MAX: usize = 10;

/// A subnegotiation of TERMINAL-SPEED.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::telnet) enum Message {
    Send,
    Is { transmit: u32, receive: u32 },
}

impl Message {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
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

/// Returns the content of a SEND subnegotiation.
pub(in crate::telnet) fn build_send() -> [u8; 1] {
    [SEND]
}

/// Returns the content of an IS subnegotiation that reports the speeds.
pub(in crate::telnet) fn build_is((transmit, receive): (u32, u32)) -> Vec<u8> {
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
