//! CHARSET (RFC 2066): the character set of the data.
//!
//! The side that performs the option sends REQUEST with the names that it supports, the most
//! preferred first. The other side answers ACCEPTED with one of these names, or REJECTED. The first
//! byte after REQUEST is the separator between the names. If both sides send a REQUEST at the same
//! time, the server rejects the user's REQUEST and the user answers the server's. A REQUEST may
//! offer a translation table; this implementation never accepts one. The agreed character set
//! applies to both directions, and BINARY should be enabled.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{CharsetOutcome, Event, Settings};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

const REQUEST: u8 = 1;
const ACCEPTED: u8 = 2;
const REJECTED: u8 = 3;
const TTABLE_IS: u8 = 4;
const TTABLE_REJECTED: u8 = 5;

/// Text in a REQUEST that precedes the version of the offered translation tables.
const TTABLE: &[u8] = b"[TTABLE]";

/// Maximum length of a name in bytes: the limit of the registry (RFC 2978).
const NAME_MAX_BYTES: usize = 40;

/// Maximum number of names in one request (our choice).
const NAMES_MAX: usize = 32;

impl OptionCode {
    /// CHARSET (RFC 2066).
    pub const CHARSET: Self = Self(42);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 1536,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::CHARSET, Role::Either)
};

/// A subnegotiation of CHARSET.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Request(Vec<Vec<u8>>),
    Accepted(Vec<u8>),
    Rejected,
    TableIs,
    /// An answer about translation tables, which this implementation never offers.
    AboutTable,
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [REQUEST, list @ ..] => names(list).map(Self::Request),
            [ACCEPTED, name @ ..] => Some(Self::Accepted(name.to_vec())),
            [REJECTED] => Some(Self::Rejected),
            [TTABLE_IS, ..] => Some(Self::TableIs),
            [TTABLE_REJECTED..=7] => Some(Self::AboutTable),
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(names) => {
                f.write_str("REQUEST")?;
                names.iter().try_for_each(|name| write!(f, " {}", name.escape_ascii()))
            }
            Self::Accepted(name) => write!(f, "ACCEPTED {}", name.escape_ascii()),
            Self::Rejected => f.write_str("REJECTED"),
            Self::TableIs => f.write_str("TTABLE-IS"),
            Self::AboutTable => f.write_str("an answer about TTABLE"),
        }
    }
}

/// Parses a list of names; its first byte is the separator.
fn names(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    // RFC 2066: the version is one byte. Its value is ignored, since no table is accepted.
    let list = list.strip_prefix(TTABLE).map_or(list, |rest| rest.get(1..).unwrap_or_default());
    let (separator, names) = list.split_first()?;
    let is_name = |name: &&[u8]| {
        (1..=NAME_MAX_BYTES).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic)
    };
    let names = names.split(|byte| byte == separator).filter(is_name);
    Some(names.take(NAMES_MAX).map(<[u8]>::to_vec).collect())
}

/// Supported character sets and the outstanding request.
#[derive(Debug)]
pub(in crate::telnet) struct Charsets {
    /// Supported names, the most preferred first.
    supported: Vec<String>,
    is_server: bool,
    is_request_outstanding: bool,
}

/// The answer to send, and the event for the caller.
type Reply = (Option<Vec<u8>>, Option<Event<'static>>);

impl Handler for Charsets {
    fn from_settings(settings: Settings<'_>) -> Self {
        match settings {
            Settings::User(settings) => Self::new(&settings.charsets, false),
            Settings::Server(settings) => Self::new(&settings.charsets, true),
        }
    }

    fn on_disabled(&mut self, _side: Side, _context: &mut Context<'_, '_>) {
        self.discard_request();
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let message = Message::parse(content).filter(|_| context.row.is_in_use());
        let (answer, event) = message.and_then(|it| self.on_message(&it)).ok_or(Invalid)?;
        if let Some(answer) = answer {
            context.send(&answer);
        }
        Ok(event)
    }
}

impl Charsets {
    fn new(supported: &[String], is_server: bool) -> Self {
        let is_name = |name: &&String| {
            (1..=NAME_MAX_BYTES).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';')
        };
        let supported = supported.iter().filter(is_name).take(NAMES_MAX).cloned().collect();
        Self { supported, is_server, is_request_outstanding: false }
    }

    /// Returns the content of a REQUEST for the supported names, or `None` if a REQUEST is
    /// outstanding.
    pub(in crate::telnet) fn request(&mut self) -> Option<Vec<u8>> {
        if self.is_request_outstanding || self.supported.is_empty() {
            return None;
        }
        self.is_request_outstanding = true;
        let mut content = Vec::from([REQUEST]);
        for name in &self.supported {
            content.push(b';');
            content.extend_from_slice(name.as_bytes());
        }
        Some(content)
    }

    /// Discards the outstanding request, if any.
    pub(in crate::telnet) fn discard_request(&mut self) {
        self.is_request_outstanding = false;
    }

    fn on_message(&mut self, message: &Message) -> Option<Reply> {
        match message {
            Message::Request(_) if self.is_request_outstanding && self.is_server => {
                Some((Some(Vec::from([REJECTED])), None))
            }
            Message::Request(theirs) => Some(self.answer_request(theirs)),
            Message::Accepted(name) => {
                // Only a requested name can be accepted.
                let name = self.find(name).filter(|_| self.is_request_outstanding)?;
                self.is_request_outstanding = false;
                Some((None, Some(Event::Charset(CharsetOutcome::Accepted(name)))))
            }
            Message::Rejected if self.is_request_outstanding => {
                self.is_request_outstanding = false;
                Some((None, Some(Event::Charset(CharsetOutcome::RejectedByPeer))))
            }
            Message::TableIs => Some((Some(Vec::from([TTABLE_REJECTED])), None)),
            Message::Rejected | Message::AboutTable => None,
        }
    }

    /// Accepts the first requested name that is supported.
    fn answer_request(&self, theirs: &[Vec<u8>]) -> Reply {
        let common_name =
            theirs.iter().find_map(|remote| self.find(remote).map(|supported| (remote, supported)));
        let Some((remote, supported)) = common_name else {
            let event = Event::Charset(CharsetOutcome::RejectedLocally);
            return (Some(Vec::from([REJECTED])), Some(event));
        };
        let mut content = Vec::from([ACCEPTED]);
        content.extend_from_slice(remote);
        (Some(content), Some(Event::Charset(CharsetOutcome::Accepted(supported))))
    }

    fn find(&self, name: &[u8]) -> Option<String> {
        self.supported
            .iter()
            .find(|supported| supported.as_bytes().eq_ignore_ascii_case(name))
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn charsets(is_server: bool) -> Charsets {
        Charsets::new(&["UTF-8".into(), "CP437".into()], is_server)
    }

    fn receive(charsets: &mut Charsets, content: &[u8]) -> Option<Reply> {
        charsets.on_message(&Message::parse(content)?)
    }

    fn accepted_event(name: &str) -> Event<'static> {
        Event::Charset(CharsetOutcome::Accepted(name.into()))
    }

    proptest! {
        #[test]
        fn an_emitted_request_is_parsed_back_equal(names in prop::collection::vec("[!-:<-~]{1,40}", 1..9)) {
            let content = Charsets::new(&names, false).request().unwrap();
            let names = names.into_iter().map(String::into_bytes).collect();
            prop_assert_eq!(Message::parse(&content), Some(Message::Request(names)));
        }

        #[test]
        fn any_bytes_get_one_short_answer(content in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some((Some(answer), _)) = receive(&mut charsets(false), &content) {
                prop_assert!(answer.len() <= 1 + NAME_MAX_BYTES);
            }
        }
    }

    #[test]
    fn the_first_common_charset_is_accepted_as_the_peer_spells_it() {
        let reply = receive(&mut charsets(false), b"\x01 KOI8-R cp437 UTF-8").unwrap();
        assert_eq!(reply, (Some(b"\x02cp437".to_vec()), Some(accepted_event("CP437"))));
    }

    #[test]
    fn translation_tables_are_refused_and_the_names_after_them_are_parsed() {
        let reply = receive(&mut charsets(false), b"\x01[TTABLE]\x01;KOI8-R;utf-8").unwrap();
        assert_eq!(reply, (Some(b"\x02utf-8".to_vec()), Some(accepted_event("UTF-8"))));
        let reply = receive(&mut charsets(false), b"\x04\x01;a;\x08\0\0\x02b").unwrap();
        assert_eq!(reply, (Some([TTABLE_REJECTED].to_vec()), None));
    }

    #[test]
    fn crossing_requests_are_resolved_in_favor_of_the_server() {
        let mut user = charsets(false);
        let mut server = charsets(true);
        let user_request = user.request().unwrap();
        let server_request = server.request().unwrap();
        let to_user = receive(&mut server, &user_request).unwrap();
        assert_eq!(to_user, (Some([REJECTED].to_vec()), None));
        let to_server = receive(&mut user, &server_request).unwrap();
        assert_eq!(to_server.1, Some(accepted_event("UTF-8")));
        assert_eq!(
            receive(&mut server, &to_server.0.unwrap()),
            Some((None, Some(accepted_event("UTF-8"))))
        );
        let rejection = Event::Charset(CharsetOutcome::RejectedByPeer);
        assert_eq!(receive(&mut user, &to_user.0.unwrap()), Some((None, Some(rejection))));
    }

    #[test]
    fn an_unrequested_name_cannot_be_accepted() {
        let mut user = charsets(false);
        assert_eq!(receive(&mut user, b"\x02UTF-8"), None);
        user.request();
        assert_eq!(receive(&mut user, b"\x02KOI8-R"), None);
        assert_eq!(user.request(), None);
    }
    #[test]
    fn only_graphic_names_of_at_most_the_maximum_length_are_requested_and_parsed() {
        let longest = "A".repeat(NAME_MAX_BYTES);
        let invalid_names = ["", "A B", "A\n", "\u{e9}", &(longest.clone() + "A")];
        let names = [&invalid_names[..], &[&longest]].concat();
        let content = [b"\x01;", names.join(";").as_bytes()].concat();
        let expected = Message::Request(Vec::from([longest.clone().into_bytes()]));
        assert_eq!(Message::parse(&content), Some(expected));
        let supported: Vec<_> =
            [&names[..], &["A;B"]].concat().into_iter().map(String::from).collect();
        let content = Charsets::new(&supported, false).request();
        assert_eq!(content, Some([b"\x01;", longest.as_bytes()].concat()));
    }

    #[test]
    fn at_most_the_maximum_number_of_names_is_requested_and_parsed() {
        let names: Vec<_> = (0..=NAMES_MAX).map(|n| n.to_string()).collect();
        let parsed = |content: &[u8]| match Message::parse(content) {
            Some(Message::Request(names)) => names.len(),
            other => panic!("{other:?} is no request"),
        };
        assert_eq!(parsed(&Charsets::new(&names, false).request().unwrap()), NAMES_MAX);
        assert_eq!(parsed(&[b"\x01;", names.join(";").as_bytes()].concat()), NAMES_MAX);
    }

    #[test]
    fn messages_are_displayed_with_their_names() {
        let shown = |content: &[u8]| Message::parse(content).map(|message| message.to_string());
        let text = [&b"\x01;UTF-8;CP437"[..], b"\x02UTF-8\x1b", b"\x03", b"\x04\x01", b"\x05"]
            .map(|content| shown(content).unwrap());
        let expected = [
            "REQUEST UTF-8 CP437",
            "ACCEPTED UTF-8\\x1b",
            "REJECTED",
            "TTABLE-IS",
            "an answer about TTABLE",
        ];
        assert_eq!(text, expected);
        assert_eq!(
            [&[7][..], &[8], &[]].map(|content| shown(content).is_some()),
            [true, false, false]
        );
    }
}
