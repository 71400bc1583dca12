//! GMCP: messages between a MUD and its user, each a name and an optional value in JSON.
//!
//! A name is one or more words separated by dots; a space ends it, and the rest is the value. The
//! value is passed on as text and not interpreted.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Maximum length of a name in bytes (our choice).
const NAME_MAX_BYTES: usize = 128;

/// A GMCP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gmcp {
    /// Name: 1 to 128 graphic ASCII characters.
    pub name: String,
    /// Value in JSON, possibly empty. It is not validated.
    pub value: String,
}

impl Gmcp {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(content).ok()?;
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        is_name(name).then(|| Self { name: String::from(name), value: String::from(value) })
    }

    /// Returns the content of the subnegotiation, or `None` if the name is invalid.
    pub(in crate::telnet) fn content(&self) -> Option<Vec<u8>> {
        if !is_name(&self.name) {
            return None;
        }
        let mut content = Vec::from(self.name.as_bytes());
        if !self.value.is_empty() {
            content.push(b' ');
            content.extend_from_slice(self.value.as_bytes());
        }
        Some(content)
    }
}

impl fmt::Display for Gmcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.value.escape_debug())
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_emitted_message_is_parsed_back_equal(name in "[!-~]{1,128}", value in any::<String>()) {
            let message = Gmcp { name, value };
            prop_assert_eq!(Gmcp::parse(&message.content().unwrap()), Some(message));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(content in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = Gmcp::parse(&content);
        }
    }

    #[test]
    fn a_message_without_a_name_is_invalid() {
        assert_eq!(Gmcp::parse(b""), None);
        assert_eq!(Gmcp::parse(b" {}"), None);
        assert_eq!(Gmcp::parse(b"Core.Hello\n{}"), None);
    }

    #[test]
    fn a_message_without_a_value_is_its_name() {
        let message = Gmcp { name: "Core.Ping".into(), value: String::new() };
        assert_eq!(message.content().unwrap(), b"Core.Ping");
    }
}
