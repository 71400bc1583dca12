//! X-DISPLAY-LOCATION (RFC 1096): the location of the user's X display.
//!
//! A server sends SEND, and the user answers IS with `host:display.screen`. This discloses the
//! user's machine and has been used to attack clients and servers, so the option is refused unless
//! allowed.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

const IS: u8 = 0;
const SEND: u8 = 1;

/// Maximum length of a location in bytes (our choice): enough for a host name of 255 bytes and the
/// display and screen numbers.
const LOCATION_MAX_BYTES: usize = 264;

impl OptionCode {
    /// X-DISPLAY-LOCATION (RFC 1096), refused unless the settings allow it.
    pub const X_DISPLAY_LOCATION: Self = Self(35);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 512,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::X_DISPLAY_LOCATION, Role::User)
};

/// State of X-DISPLAY-LOCATION.
#[derive(Debug)]
pub(in crate::telnet) struct XDisplayLocation {
    /// Location of the user's X display; `None` at a server.
    location: Option<String>,
}

impl Handler for XDisplayLocation {
    fn from_settings(settings: Settings<'_>) -> Self {
        match settings {
            Settings::User(settings) => Self { location: Some(settings.display.clone()) },
            Settings::Server(_) => Self { location: None },
        }
    }

    fn is_configured(&self) -> bool {
        self.location.as_deref() != Some("")
    }

    fn on_enabled(&mut self, side: Side, context: &mut Context<'_, '_>) {
        if side == Side::Remote {
            context.send(&[SEND]);
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        match (Message::parse(content), &self.location) {
            (Some(Message::Send), Some(location)) if context.row.answers_requests() => {
                context.send(&build_is(location));
                Ok(None)
            }
            (Some(Message::Is(location)), None) if context.row.is_enabled(Side::Remote) => {
                Ok(Some(Event::XDisplayLocation(location)))
            }
            _ => Err(Invalid),
        }
    }
}

/// A subnegotiation of X-DISPLAY-LOCATION.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Send,
    Is(String),
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [SEND] => Some(Self::Send),
            [IS, location @ ..] => {
                let is_location = location.len() <= LOCATION_MAX_BYTES
                    && !location.is_empty()
                    && location.iter().all(u8::is_ascii_graphic);
                is_location.then(|| Self::Is(location.iter().copied().map(char::from).collect()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send => f.write_str("SEND"),
            Self::Is(location) => write!(f, "IS {location}"),
        }
    }
}

/// Returns the content of an IS subnegotiation with the graphic ASCII characters of `location`, up
/// to the maximum length.
fn build_is(location: &str) -> Vec<u8> {
    let graphic = location.bytes().filter(u8::is_ascii_graphic).take(LOCATION_MAX_BYTES);
    core::iter::once(IS).chain(graphic).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_location_of_the_user_gets_a_command_onto_the_wire(location in any::<String>()) {
            let content = build_is(&location);
            prop_assert!(content.len() <= 1 + LOCATION_MAX_BYTES);
            prop_assert!(content[1..].iter().all(u8::is_ascii_graphic));
        }
    }

    #[test]
    fn a_location_is_graphic_and_neither_empty_nor_too_long() {
        let longest = [&[IS][..], &[b'h'; LOCATION_MAX_BYTES]].concat();
        let expected = Message::Is("h".repeat(LOCATION_MAX_BYTES));
        assert_eq!(Message::parse(&longest), Some(expected));
        for content in [&[&longest[..], b"h"].concat()[..], &[IS], b"\0host 0", b"\0host:0\x1b"] {
            assert_eq!(Message::parse(content), None, "{content:?}");
        }
    }
}
