//! CHARSET (RFC 2066): which characters the bytes of the data are.
//!
//! Who performs the option sends REQUEST with the names that it can do, the most wanted first;
//! the other answers ACCEPTED with one of them or REJECTED. The first byte behind REQUEST is what
//! stands between the names. Where the two ask at the same time, the server rejects what the user
//! asked, and the user answers what the server asked. A translation table may be offered with the
//! names; none is ever taken. What is agreed to holds in both directions, and BINARY should be on.

use crate::application::telnet::Event;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

const REQUEST: u8 = 1;
const ACCEPTED: u8 = 2;
const REJECTED: u8 = 3;
const TTABLE_IS: u8 = 4;
const TTABLE_REJECTED: u8 = 5;

/// Stands before the version of the tables that a REQUEST offers.
const TTABLE: &[u8] = b"[TTABLE]";

/// The longest name, in bytes: the registry's limit (RFC 2978).
const NAME_MAX_BYTES: usize = 40;

/// The most names of one request; ours.
const NAMES_MAX: usize = 32;

/// What became of the choice of a character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharsetOutcome {
    /// Both have agreed to it. Its name is as in the settings.
    Accepted(String),
    /// The other took none of those that we asked for.
    RejectedByHim,
    /// We took none of those that the other asked for.
    RejectedByUs,
}

/// What a subnegotiation of CHARSET says.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::application::telnet) enum Message {
    Request(Vec<Vec<u8>>),
    Accepted(Vec<u8>),
    Rejected,
    TableIs,
    /// An answer about tables, which we never offer.
    AboutTable,
}

impl Message {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
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

/// Reads a separator, and names with it between them.
fn names(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    // RFC 2066: the version is one byte. Its sender may offer what he likes: we take no table.
    let list = list.strip_prefix(TTABLE).map_or(list, |rest| rest.get(1..).unwrap_or_default());
    let (separator, names) = list.split_first()?;
    let is_name = |name: &&[u8]| {
        (1..=NAME_MAX_BYTES).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic)
    };
    let names = names.split(|byte| byte == separator).filter(is_name);
    Some(names.take(NAMES_MAX).map(<[u8]>::to_vec).collect())
}

/// What can be agreed to, and what is asked.
#[derive(Debug)]
pub(in crate::application::telnet) struct Charsets {
    /// The most wanted first.
    ours: Vec<String>,
    is_server: bool,
    is_awaited: bool,
}

/// What to answer and what to tell the caller.
type Reply = (Option<Vec<u8>>, Option<Event<'static>>);

impl Charsets {
    pub(in crate::application::telnet) fn new(ours: &[String], is_server: bool) -> Self {
        let is_name = |name: &&String| {
            (1..=NAME_MAX_BYTES).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';')
        };
        let ours = ours.iter().filter(is_name).take(NAMES_MAX).cloned().collect();
        Self { ours, is_server, is_awaited: false }
    }

    /// Returns the content that asks for any of ours, unless one is asked for already.
    pub(in crate::application::telnet) fn request(&mut self) -> Option<Vec<u8>> {
        if self.is_awaited || self.ours.is_empty() {
            return None;
        }
        self.is_awaited = true;
        let mut content = Vec::from([REQUEST]);
        for name in &self.ours {
            content.push(b';');
            content.extend_from_slice(name.as_bytes());
        }
        Some(content)
    }

    /// Forgets what was asked: the option has ended.
    pub(in crate::application::telnet) fn forget(&mut self) {
        self.is_awaited = false;
    }

    pub(in crate::application::telnet) fn receive(&mut self, message: &Message) -> Option<Reply> {
        match message {
            Message::Request(_) if self.is_awaited && self.is_server => {
                Some((Some(Vec::from([REJECTED])), None))
            }
            Message::Request(theirs) => Some(self.choose(theirs)),
            Message::Accepted(name) => {
                // Only what we asked for can be accepted.
                let name = self.find(name).filter(|_| self.is_awaited)?;
                self.is_awaited = false;
                Some((None, Some(Event::Charset(CharsetOutcome::Accepted(name)))))
            }
            Message::Rejected if self.is_awaited => {
                self.is_awaited = false;
                Some((None, Some(Event::Charset(CharsetOutcome::RejectedByHim))))
            }
            Message::TableIs => Some((Some(Vec::from([TTABLE_REJECTED])), None)),
            Message::Rejected | Message::AboutTable => None,
        }
    }

    /// Answers a request by the first of theirs that is one of ours.
    fn choose(&self, theirs: &[Vec<u8>]) -> Reply {
        let both = theirs.iter().find_map(|his| self.find(his).map(|ours| (his, ours)));
        let Some((his, ours)) = both else {
            let event = Event::Charset(CharsetOutcome::RejectedByUs);
            return (Some(Vec::from([REJECTED])), Some(event));
        };
        let mut content = Vec::from([ACCEPTED]);
        content.extend_from_slice(his);
        (Some(content), Some(Event::Charset(CharsetOutcome::Accepted(ours))))
    }

    fn find(&self, name: &[u8]) -> Option<String> {
        self.ours.iter().find(|ours| ours.as_bytes().eq_ignore_ascii_case(name)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn charsets(is_server: bool) -> Charsets {
        Charsets::new(&["UTF-8".into(), "CP437".into()], is_server)
    }

    fn hear(charsets: &mut Charsets, content: &[u8]) -> Option<Reply> {
        charsets.receive(&Message::parse(content)?)
    }

    fn accepted(name: &str) -> Event<'static> {
        Event::Charset(CharsetOutcome::Accepted(name.into()))
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_it_was_written(names in prop::collection::vec("[!-:<-~]{1,40}", 1..9)) {
            let content = Charsets::new(&names, false).request().unwrap();
            let names = names.into_iter().map(String::into_bytes).collect();
            prop_assert_eq!(Message::parse(&content), Some(Message::Request(names)));
        }

        #[test]
        fn any_bytes_get_one_short_answer(content in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some((Some(answer), _)) = hear(&mut charsets(false), &content) {
                prop_assert!(answer.len() <= 1 + NAME_MAX_BYTES);
            }
        }
    }

    #[test]
    fn the_first_of_his_names_that_is_ours_is_accepted_as_he_spells_it() {
        let reply = hear(&mut charsets(false), b"\x01 KOI8-R cp437 UTF-8").unwrap();
        assert_eq!(reply, (Some(b"\x02cp437".to_vec()), Some(accepted("CP437"))));
    }

    #[test]
    fn tables_are_refused_and_the_names_behind_them_are_read() {
        let reply = hear(&mut charsets(false), b"\x01[TTABLE]\x01;KOI8-R;utf-8").unwrap();
        assert_eq!(reply, (Some(b"\x02utf-8".to_vec()), Some(accepted("UTF-8"))));
        let reply = hear(&mut charsets(false), b"\x04\x01;a;\x08\0\0\x02b").unwrap();
        assert_eq!(reply, (Some([TTABLE_REJECTED].to_vec()), None));
    }

    #[test]
    fn requests_that_cross_are_settled_as_the_server_asked() {
        let (mut user, mut server) = (charsets(false), charsets(true));
        let (asked_by_user, asked) = (user.request().unwrap(), server.request().unwrap());
        let to_user = hear(&mut server, &asked_by_user).unwrap();
        assert_eq!(to_user, (Some([REJECTED].to_vec()), None));
        let to_server = hear(&mut user, &asked).unwrap();
        assert_eq!(to_server.1, Some(accepted("UTF-8")));
        assert_eq!(hear(&mut server, &to_server.0.unwrap()), Some((None, Some(accepted("UTF-8")))));
        let rejected = Event::Charset(CharsetOutcome::RejectedByHim);
        assert_eq!(hear(&mut user, &to_user.0.unwrap()), Some((None, Some(rejected))));
    }

    #[test]
    fn what_was_not_asked_for_cannot_be_accepted() {
        let mut user = charsets(false);
        assert_eq!(hear(&mut user, b"\x02UTF-8"), None);
        user.request();
        assert_eq!(hear(&mut user, b"\x02KOI8-R"), None);
        assert_eq!(user.request(), None);
    }
}
