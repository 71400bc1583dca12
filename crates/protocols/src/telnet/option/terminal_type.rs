//! TERMINAL-TYPE (RFC 1091), including MTTS.
//!
//! A server sends SEND, and the user answers IS with a name. If the server sends SEND again, the
//! user sends the next name that it supports. The user repeats the last name, which indicates the
//! end of the list, and then starts again. The name that was sent last is in effect. A name has at
//! most 40 characters and should be registered; UNKNOWN stands for a missing name.
//!
//! MUDs ask three times: for the program, for the terminal, and for `MTTS` with a number whose bits
//! give the capabilities of the program. The fourth answer repeats the third.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Mtts, Settings};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

const IS: u8 = 0;
const SEND: u8 = 1;

/// Maximum length of a terminal name in bytes: the limit of the registry (RFC 1700).
const NAME_MAX_BYTES: usize = 40;

/// Maximum number of names sent or requested (our choice).
const NAMES_MAX: usize = 16;

impl OptionCode {
    /// TERMINAL-TYPE (RFC 1091).
    pub const TERMINAL_TYPE: Self = Self(24);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 512,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::TERMINAL_TYPE, Role::User)
};

/// State of TERMINAL-TYPE.
#[derive(Debug)]
pub(in crate::telnet) enum TerminalType {
    User(Names),
    Server(TerminalTypeQuery),
}

impl Handler for TerminalType {
    fn from_settings(settings: Settings<'_>) -> Self {
        match settings {
            Settings::User(settings) => Self::User(Names::new(
                &settings.terminal_type,
                &settings.other_terminal_types,
                settings.uppercases_terminal_type,
                settings.mtts.as_ref(),
            )),
            Settings::Server(settings) => {
                Self::Server(TerminalTypeQuery::new(settings.terminal_types_max))
            }
        }
    }

    fn on_enabled(&mut self, _side: Side, context: &mut Context<'_, '_>) {
        match self {
            Self::User(names) => names.restart(),
            Self::Server(query) => _ = context.send(&query.first_request()),
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        match (self, Message::parse(content)) {
            (Self::User(names), Some(Message::Send)) if context.row.answers_requests() => {
                context.send(&names.answer());
                Ok(None)
            }
            (Self::Server(query), Some(Message::Is(name)))
                if context.row.is_enabled(Side::Remote) =>
            {
                let (asks_again, event) = query.on_name(name);
                if asks_again {
                    context.send(&[SEND]);
                }
                Ok(event)
            }
            (Self::Server(query), Some(Message::Mtts(bits)))
                if context.row.is_enabled(Side::Remote) =>
            {
                Ok(Some(query.on_mtts(bits)))
            }
            _ => Err(Invalid),
        }
    }
}

/// A subnegotiation of TERMINAL-TYPE.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Send,
    Is(String),
    Mtts(u32),
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [SEND] => Some(Self::Send),
            [IS, b'M', b'T', b'T', b'S', b' ', bits @ ..] => {
                let bits = core::str::from_utf8(bits).ok()?;
                bits.parse().ok().map(Self::Mtts)
            }
            [IS, name @ ..] => {
                let is_name = name.len() <= NAME_MAX_BYTES
                    && !name.is_empty()
                    && name.iter().all(u8::is_ascii_graphic);
                is_name.then(|| Self::Is(name.iter().copied().map(char::from).collect()))
            }
            [] | [_, ..] => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send => f.write_str("SEND"),
            Self::Is(name) => write!(f, "IS {name}"),
            Self::Mtts(bits) => write!(f, "IS MTTS {bits}"),
        }
    }
}

/// The names that a user sends, one for each SEND.
#[derive(Debug)]
pub(in crate::telnet) struct Names {
    names: Vec<String>,
    sent_count: usize,
}

impl Names {
    fn new(
        first_name: &str,
        other_names: &[String],
        in_upper_case: bool,
        mtts: Option<&Mtts>,
    ) -> Self {
        let clean = |text: &str| name(text, in_upper_case);
        let mut names = Vec::new();
        names.extend(mtts.map(|mtts| clean(&mtts.program)));
        names.push(clean(first_name));
        if let Some(mtts) = mtts {
            names.push(String::from("MTTS ") + &mtts.bits.to_string());
        } else {
            names.extend(other_names.iter().take(NAMES_MAX - 1).map(|other| clean(other)));
        }
        Self { names, sent_count: 0 }
    }

    /// Restarts the list.
    fn restart(&mut self) {
        self.sent_count = 0;
    }

    /// Returns the content of an IS subnegotiation with the next name.
    fn answer(&mut self) -> Vec<u8> {
        let name = self.names.get(self.sent_count).or(self.names.last());
        let mut content = Vec::from([IS]);
        content.extend_from_slice(name.map_or(b"UNKNOWN".as_slice(), |name| name.as_bytes()));
        // The last name is repeated once, and then the list restarts.
        self.sent_count = if self.sent_count < self.names.len() { self.sent_count + 1 } else { 0 };
        content
    }
}

/// State of a server's requests for terminal names.
#[derive(Debug)]
pub(in crate::telnet) struct TerminalTypeQuery {
    last_name: Option<String>,
    request_count: usize,
    requests_max: usize,
}

impl TerminalTypeQuery {
    fn new(names_max: usize) -> Self {
        Self { last_name: None, request_count: 0, requests_max: names_max.clamp(1, NAMES_MAX) }
    }

    /// Returns the content of the first SEND subnegotiation.
    fn first_request(&mut self) -> [u8; 1] {
        self.last_name = None;
        self.request_count = 1;
        [SEND]
    }

    /// Processes a terminal name. Returns whether to send another SEND, and the event to report.
    fn on_name(&mut self, name: String) -> (bool, Option<Event<'static>>) {
        if self.requests_max > 1 && self.last_name.as_ref() == Some(&name) {
            // The user repeats the last name to end its list.
            self.request_count = self.requests_max;
            return (false, None);
        }
        self.last_name = Some(name.clone());
        (self.may_ask_again(), Some(Event::TerminalType(name)))
    }

    /// Processes the MTTS capability bits, which are a user's last answer.
    fn on_mtts(&mut self, bits: u32) -> Event<'static> {
        self.request_count = self.requests_max;
        Event::Mtts(bits)
    }

    fn may_ask_again(&mut self) -> bool {
        let is_allowed = self.request_count < self.requests_max;
        self.request_count += usize::from(is_allowed);
        is_allowed
    }
}

/// Returns the first 40 graphic ASCII characters of `name`.
fn name(name: &str, in_upper_case: bool) -> String {
    let graphic = name.chars().filter(char::is_ascii_graphic).take(NAME_MAX_BYTES);
    let name: String =
        graphic.map(|c| if in_upper_case { c.to_ascii_uppercase() } else { c }).collect();
    if name.is_empty() { String::from("UNKNOWN") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_names(names: &mut Names, count: usize) -> Vec<String> {
        let text = |content: Vec<u8>| String::from_utf8(content[1..].to_vec()).unwrap();
        (0..count).map(|_| text(names.answer())).collect()
    }

    #[test]
    fn the_last_name_is_sent_twice_and_then_the_list_restarts() {
        let mut names = Names::new("xterm", &["vt100".into()], false, None);
        assert_eq!(sent_names(&mut names, 4), ["xterm", "vt100", "vt100", "xterm"]);
    }

    #[test]
    fn the_third_answer_to_a_mud_contains_the_capability_bits() {
        let mtts = Mtts { program: "PLUMB".into(), bits: 2061 };
        let mut names = Names::new("xterm", &["vt100".into()], false, Some(&mtts));
        assert_eq!(sent_names(&mut names, 4), ["PLUMB", "xterm", "MTTS 2061", "MTTS 2061"]);
        assert_eq!(Message::parse(b"\0MTTS 2061"), Some(Message::Mtts(2061)));
        assert_eq!(Message::parse(b"\0MTTS 99999999999"), None);
    }

    #[test]
    fn a_server_asks_until_a_name_is_repeated_or_the_limit_is_reached() {
        let mut query = TerminalTypeQuery::new(3);
        query.first_request();
        assert!(query.on_name("a".into()).0);
        assert!(query.on_name("b".into()).0);
        assert_eq!(query.on_name("b".into()), (false, None));
        query.first_request();
        let request_count = ["a", "b", "c", "d"].map(|name| query.on_name(name.into()).0);
        assert_eq!(request_count, [true, true, false, false]);
    }

    #[test]
    fn a_user_has_at_most_the_maximum_number_of_names() {
        let others: Vec<String> = (0..2 * NAMES_MAX).map(|n| n.to_string()).collect();
        let mut names = Names::new("xterm", &others, false, None);
        let last_name = &others[NAMES_MAX - 2];
        let sent_names = sent_names(&mut names, NAMES_MAX + 2);
        assert_eq!(&sent_names[NAMES_MAX - 1..], [last_name, last_name, "xterm"]);
    }

    #[test]
    fn a_name_before_the_first_request_is_not_counted_as_a_request() {
        let mut query = TerminalTypeQuery::new(2);
        let asks_again = ["a", "b", "c"].map(|name| query.on_name(name.into()).0);
        assert_eq!(asks_again, [true, true, false]);
    }
    #[test]
    fn a_received_name_is_graphic_and_neither_empty_nor_too_long() {
        let longest = [&[IS][..], &[b'x'; NAME_MAX_BYTES]].concat();
        assert_eq!(Message::parse(&longest), Some(Message::Is("x".repeat(NAME_MAX_BYTES))));
        for content in [&[&longest[..], b"x"].concat()[..], &[IS], b"\0vt 100", b"\0vt\x1b"] {
            assert_eq!(Message::parse(content), None, "{content:?}");
        }
    }

    #[test]
    fn a_server_that_requests_one_name_reports_it_each_time() {
        let mut query = TerminalTypeQuery::new(1);
        query.first_request();
        for _ in 0..2 {
            let event = Event::TerminalType("vt100".into());
            assert_eq!(query.on_name("vt100".into()), (false, Some(event)));
        }
    }
}
