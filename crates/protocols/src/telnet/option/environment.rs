//! NEW-ENVIRON (RFC 1572): variables of the user's environment.
//!
//! A server sends SEND, for all variables or by name. The user answers with IS, and reports later
//! changes with INFO. The name of a variable follows VAR (for a well-known name of the RFC) or
//! USERVAR. The value follows VALUE; an unset variable has no value. A byte of a name or value that
//! equals one of these codes is preceded by ESC.
//!
//! This option has caused many vulnerabilities. Clients have disclosed their whole environment to
//! any server. Servers have copied received variables into the environment or the arguments of a
//! privileged program. A user of this implementation therefore sends only variables of an explicit
//! list, and repeats other names without a value. The server requests the names of a list, by name,
//! and discards variables with other names. Some servers and users have only 256 bytes for a
//! subnegotiation, so requests are split accordingly.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{EnvironmentVariable, Event, Settings};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use net::meter::Counter;

const IS: u8 = 0;
const SEND: u8 = 1;
const INFO: u8 = 2;

const VAR: u8 = 0;
const VALUE: u8 = 1;
const ESC: u8 = 2;
const USERVAR: u8 = 3;

/// Maximum length of one SEND in bytes (our choice): some peers accept only 256 including the
/// framing.
const SEND_MAX_BYTES: usize = 240;

/// Maximum length of one IS in bytes (our choice).
const IS_MAX_BYTES: usize = 1024;

/// Maximum number of variables parsed from one subnegotiation (our choice).
const VARIABLES_MAX: usize = 64;

/// Maximum length of a name in bytes (our choice).
const NAME_MAX_BYTES: usize = 64;

/// Maximum length of a value in bytes (our choice).
const VALUE_MAX_BYTES: usize = 256;

/// The names sent as VAR; all others are USERVAR.
const WELL_KNOWN: [&str; 6] = ["USER", "JOB", "ACCT", "PRINTER", "SYSTEMTYPE", "DISPLAY"];

impl OptionCode {
    /// NEW-ENVIRON (RFC 1572), refused unless the settings allow it.
    pub const NEW_ENVIRON: Self = Self(39);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 4096,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::NEW_ENVIRON, Role::User)
};

/// State of NEW-ENVIRON.
#[derive(Debug)]
pub(in crate::telnet) enum Environment {
    User(OfferedVariables),
    Server(RequestedNames),
}

impl Handler for Environment {
    fn from_settings(settings: Settings<'_>) -> Self {
        match settings {
            Settings::User(settings) => Self::User(OfferedVariables::new(&settings.environment)),
            Settings::Server(settings) => Self::Server(RequestedNames::new(&settings.environment)),
        }
    }

    fn on_enabled(&mut self, _side: Side, context: &mut Context<'_, '_>) {
        if let Self::Server(names) = self {
            names.requests().iter().for_each(|content| _ = context.send(content));
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        match (self, Message::parse(content)) {
            (Self::User(variables), Some(Message::Send(wanted)))
                if context.row.answers_requests() =>
            {
                context.send(&variables.answer(&wanted));
                Ok(None)
            }
            (Self::Server(names), Some(Message::Is(variables) | Message::Info(variables)))
                if context.row.is_enabled(Side::Remote) =>
            {
                let (accepted, refused_count) = names.filter_requested(variables);
                context.cx.meter.add(Counter::TelnetVariablesRefused, refused_count as u64);
                Ok((!accepted.is_empty()).then_some(Event::Environment(accepted)))
            }
            _ => Err(Invalid),
        }
    }
}

/// A subnegotiation of NEW-ENVIRON.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Send(Vec<Wanted>),
    Is(Vec<Variable>),
    Info(Vec<Variable>),
}

/// A variable or group of variables that the server requests.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    AllWellKnown,
    AllOthers,
    Named { is_well_known: bool, name: Vec<u8> },
}

/// A received variable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        let (&kind, list) = content.split_first()?;
        match kind {
            SEND => {
                let wanted = |(marker, name): (u8, Vec<u8>)| match (marker, name.is_empty()) {
                    (VAR, true) => Some(Wanted::AllWellKnown),
                    (USERVAR, true) => Some(Wanted::AllOthers),
                    (VAR | USERVAR, false) => {
                        Some(Wanted::Named { is_well_known: marker == VAR, name })
                    }
                    _ => None,
                };
                split_at_markers(list)?
                    .into_iter()
                    .map(wanted)
                    .collect::<Option<_>>()
                    .map(Self::Send)
            }
            IS => variables(list).map(Self::Is),
            INFO => variables(list).map(Self::Info),
            _ => None,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, variables) = match self {
            Self::Send(wanted) => {
                f.write_str("SEND")?;
                return wanted.iter().try_for_each(|wanted| match wanted {
                    Wanted::AllWellKnown => f.write_str(" VAR"),
                    Wanted::AllOthers => f.write_str(" USERVAR"),
                    Wanted::Named { name, .. } => write!(f, " {}", name.escape_ascii()),
                });
            }
            Self::Is(variables) => ("IS", variables),
            Self::Info(variables) => ("INFO", variables),
        };
        f.write_str(verb)?;
        variables.iter().try_for_each(|variable| match &variable.value {
            Some(value) => {
                write!(f, " {}=\"{}\"", variable.name.escape_ascii(), value.escape_ascii())
            }
            None => write!(f, " {}", variable.name.escape_ascii()),
        })
    }
}

/// Splits a list at its markers (VAR, VALUE, USERVAR), removes the escapes, and returns each piece
/// with its marker.
fn split_at_markers(list: &[u8]) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut pieces: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut bytes = list.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != ESC && matches!(byte, VAR | VALUE | USERVAR) {
            // A variable consists of at most two pieces: its name and its value.
            if pieces.len() == 2 * VARIABLES_MAX {
                return None;
            }
            pieces.push((byte, Vec::new()));
            continue;
        }
        let byte = if byte == ESC { bytes.next()? } else { byte };
        pieces.last_mut()?.1.push(byte);
    }
    Some(pieces)
}

fn variables(list: &[u8]) -> Option<Vec<Variable>> {
    let mut variables: Vec<Variable> = Vec::new();
    for (marker, bytes) in split_at_markers(list)? {
        if marker != VALUE {
            variables.push(Variable { name: bytes, value: None });
            continue;
        }
        let variable = variables.last_mut()?;
        if variable.value.replace(bytes).is_some() {
            return None;
        }
    }
    Some(variables)
}

/// The variables that a user may send.
#[derive(Debug)]
pub(in crate::telnet) struct OfferedVariables(Vec<EnvironmentVariable>);

impl OfferedVariables {
    /// Creates the list from the allowed variables. Variables that cannot be sent unchanged are
    /// omitted.
    fn new(allowed: &[EnvironmentVariable]) -> Self {
        let can_be_sent = |variable: &&EnvironmentVariable| {
            is_name(variable.name.as_bytes())
                && variable.value.as_ref().is_some_and(|value| is_value(value))
        };
        Self(allowed.iter().filter(can_be_sent).take(VARIABLES_MAX).cloned().collect())
    }

    /// Returns the content of the answer to a SEND.
    fn answer(&self, wanted: &[Wanted]) -> Vec<u8> {
        let mut content = Vec::from([IS]);
        let mut sent_names: Vec<&[u8]> = Vec::new();
        let everything = [Wanted::AllWellKnown, Wanted::AllOthers];
        // RFC 1572: SEND without a list requests everything.
        let wanted = if wanted.is_empty() { &everything } else { wanted };
        for wanted in wanted {
            match wanted {
                Wanted::AllWellKnown => self.put_group(true, &mut content, &mut sent_names),
                Wanted::AllOthers => self.put_group(false, &mut content, &mut sent_names),
                Wanted::Named { is_well_known, name } => {
                    let variable = self.0.iter().find(|variable| variable.name.as_bytes() == name);
                    let value = variable.and_then(|variable| variable.value.as_deref());
                    put_variable(&mut content, &mut sent_names, *is_well_known, name, value);
                }
            }
        }
        content
    }

    fn put_group<'a>(
        &'a self,
        is_well_known: bool,
        content: &mut Vec<u8>,
        sent_names: &mut Vec<&'a [u8]>,
    ) {
        let is_in_group = |variable: &&EnvironmentVariable| {
            WELL_KNOWN.contains(&variable.name.as_str()) == is_well_known
        };
        for variable in self.0.iter().filter(is_in_group) {
            let name = variable.name.as_bytes();
            put_variable(content, sent_names, is_well_known, name, variable.value.as_deref());
        }
    }
}

/// Appends a variable to `content`, unless `content` already contains it or has no space for it.
fn put_variable<'a>(
    content: &mut Vec<u8>,
    sent_names: &mut Vec<&'a [u8]>,
    is_well_known: bool,
    name: &'a [u8],
    value: Option<&str>,
) {
    if sent_names.contains(&name) || name.len() > NAME_MAX_BYTES {
        return;
    }
    let len_before = content.len();
    content.push(if is_well_known { VAR } else { USERVAR });
    put_escaped(content, name);
    if let Some(value) = value {
        content.push(VALUE);
        put_escaped(content, value.as_bytes());
    }
    if content.len() > IS_MAX_BYTES {
        content.truncate(len_before);
    } else {
        sent_names.push(name);
    }
}

fn put_escaped(content: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if matches!(byte, VAR | VALUE | ESC | USERVAR) {
            content.push(ESC);
        }
        content.push(byte);
    }
}

/// The names that a server requests and accepts.
#[derive(Debug)]
pub(in crate::telnet) struct RequestedNames(Vec<String>);

impl RequestedNames {
    /// Creates the list from the names in the settings; invalid names are omitted.
    fn new(names: &[String]) -> Self {
        let names = names.iter().filter(|name| is_name(name.as_bytes()));
        Self(names.take(VARIABLES_MAX).cloned().collect())
    }

    /// Returns the contents of the SENDs for all names, each within [`SEND_MAX_BYTES`].
    fn requests(&self) -> Vec<Vec<u8>> {
        let mut requests = Vec::new();
        let mut content = Vec::from([SEND]);
        for name in &self.0 {
            let is_well_known = WELL_KNOWN.contains(&name.as_str());
            if content.len() + 1 + name.len() > SEND_MAX_BYTES {
                requests.push(core::mem::replace(&mut content, Vec::from([SEND])));
            }
            content.push(if is_well_known { VAR } else { USERVAR });
            content.extend_from_slice(name.as_bytes());
        }
        // SEND without a name would request everything.
        if content.len() > 1 {
            requests.push(content);
        }
        requests
    }

    /// Returns the requested and valid entries of `variables`, and the number of discarded entries.
    fn filter_requested(&self, variables: Vec<Variable>) -> (Vec<EnvironmentVariable>, usize) {
        let count = variables.len();
        let accepted_variables: Vec<_> =
            variables.into_iter().filter_map(|it| self.accept(it)).collect();
        let refused_count = count - accepted_variables.len();
        (accepted_variables, refused_count)
    }

    fn accept(&self, variable: Variable) -> Option<EnvironmentVariable> {
        let name = self.0.iter().find(|name| name.as_bytes() == variable.name)?;
        let value = match variable.value {
            Some(value) => Some(String::from_utf8(value).ok().filter(|value| is_value(value))?),
            None => None,
        };
        Some(EnvironmentVariable { name: name.clone(), value })
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_valid_byte = |&byte: &u8| byte.is_ascii_graphic() && byte != b'=';
    !name.is_empty() && name.len() <= NAME_MAX_BYTES && name.iter().all(is_valid_byte)
}

fn is_value(value: &str) -> bool {
    value.len() <= VALUE_MAX_BYTES && !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    fn request_for(name: &str) -> Wanted {
        let is_well_known = WELL_KNOWN.contains(&name);
        Wanted::Named { is_well_known, name: name.as_bytes().to_vec() }
    }

    proptest! {
        #[test]
        fn emitted_values_are_parsed_back_equal(
            names in prop::collection::btree_set("[!-<>-~]{1,20}", 0..8),
            value in "[^\\p{Cc}]{0,20}"
        ) {
            let offered: Vec<_> =
                names.iter().map(|name| EnvironmentVariable::new(name, &value)).collect();
            let wanted: Vec<_> = names.iter().map(|name| request_for(name)).collect();
            let requested_names = RequestedNames::new(&names.iter().cloned().collect::<Vec<_>>());
            prop_assume!(!wanted.is_empty());
            let content = OfferedVariables::new(&offered).answer(&wanted);
            let Some(Message::Is(variables)) = Message::parse(&content) else { panic!("no IS") };
            prop_assert_eq!(requested_names.filter_requested(variables), (offered, 0));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(content in prop::collection::vec(0..8_u8, 0..200)) {
            if let Some(message) = Message::parse(&content) {
                let words = format!("{message}");
                prop_assert!(words.is_ascii());
            }
        }
    }

    #[test]
    fn a_name_that_is_not_allowed_is_sent_without_a_value() {
        let offered = OfferedVariables::new(&[EnvironmentVariable::new("LANG", "C")]);
        let content =
            offered.answer(&[request_for("USER"), request_for("LANG"), request_for("LANG")]);
        assert_eq!(content, b"\0\0USER\x03LANG\x01C");
    }

    #[test]
    fn a_request_for_everything_returns_only_allowed_variables() {
        let offered = OfferedVariables::new(&[
            EnvironmentVariable::new("LANG", "C"),
            EnvironmentVariable::new("USER", "a\nb"),
            EnvironmentVariable::new("DISPLAY", ":0"),
        ]);
        assert_eq!(offered.answer(&[]), b"\0\0DISPLAY\x01:0\x03LANG\x01C");
        assert_eq!(offered.answer(&[Wanted::AllOthers]), b"\0\x03LANG\x01C");
    }

    #[test]
    fn each_marker_in_a_name_without_a_value_is_escaped() {
        let content = OfferedVariables::new(&[]).answer(&[request_for("\0a\x01b\x02c\x03")]);
        assert_eq!(content, b"\0\x03\x02\0a\x02\x01b\x02\x02c\x02\x03");
    }

    #[test]
    fn a_value_without_a_variable_and_a_second_value_are_invalid() {
        assert_eq!(Message::parse(&[IS, VALUE, b'x']), None);
        assert_eq!(Message::parse(&[IS, VAR, b'A', VALUE, b'x', VALUE, b'y']), None);
        assert_eq!(Message::parse(&[SEND, VALUE, b'x']), None);
        assert_eq!(Message::parse(&[SEND, b'x']), None);
        assert_eq!(Message::parse(&[IS, VAR, b'A', ESC]), None);
        assert_eq!(Message::parse(&[3, VAR]), None);
    }

    #[test]
    fn messages_are_displayed_with_their_names() {
        let shown = |content: &[u8]| Message::parse(content).unwrap().to_string();
        assert_eq!(shown(b"\x01\0USER\x03LANG\0\x03"), "SEND USER LANG VAR USERVAR");
        assert_eq!(shown(b"\0\0USER\x03LANG\x01C\n"), r#"IS USER LANG="C\n""#);
        assert_eq!(shown(b"\x02\x03LANG\x01"), r#"INFO LANG="""#);
    }

    #[test]
    fn a_variable_is_accepted_only_with_a_valid_value() {
        let names = RequestedNames::new(&["LANG".into()]);
        let longest = alloc::vec![b'v'; VALUE_MAX_BYTES];
        let accepted_count = |value: Option<&[u8]>| {
            let value = value.map(<[u8]>::to_vec);
            let (accepted, refused_count) =
                names.filter_requested(alloc::vec![Variable { name: b"LANG".to_vec(), value }]);
            assert_eq!(accepted.len() + refused_count, 1);
            accepted.len()
        };
        assert_eq!(accepted_count(None), 1);
        assert_eq!(accepted_count(Some(&longest)), 1);
        assert_eq!(accepted_count(Some(&[&longest[..], b"v"].concat())), 0);
        assert_eq!(accepted_count(Some(b"a\x1b")), 0);
        assert_eq!(accepted_count(Some(b"\xff")), 0);
    }

    #[test]
    fn an_answer_has_a_limit_for_any_request() {
        let wanted: Vec<_> = (0..500).map(|n| request_for(&format!("{n:050}"))).collect();
        assert!(OfferedVariables::new(&[]).answer(&wanted).len() <= IS_MAX_BYTES);
    }

    #[test]
    fn requests_are_split_to_fit_small_peers() {
        let names: Vec<_> = (0..60).map(|n| format!("{n:020}")).collect();
        let requests = RequestedNames::new(&names).requests();
        assert!(requests.len() > 1 && requests.iter().all(|it| it.len() <= SEND_MAX_BYTES));
        assert_eq!(RequestedNames::new(&[]).requests(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_name_is_graphic_without_an_equals_sign_and_has_a_maximum_length() {
        let longest = [b'A'; NAME_MAX_BYTES + 1];
        assert!(is_name(&longest[1..]) && is_name(b"LC_ALL"));
        for name in [&longest[..], b"", b"A B", b"A=B", b"A\x1b"] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_variable_with_the_longest_name_is_sent_and_a_longer_one_is_not() {
        let name = [b'A'; NAME_MAX_BYTES + 1];
        let content_of = |name| {
            let mut content = Vec::new();
            put_variable(&mut content, &mut Vec::new(), false, name, Some("x"));
            content
        };
        let expected = [&[USERVAR][..], &name[1..], &[VALUE], b"x"].concat();
        assert_eq!(content_of(&name[1..]), expected);
        assert_eq!(content_of(&name), b"");
    }

    #[test]
    fn well_known_names_are_requested_as_such() {
        let names = RequestedNames::new(&["USER".into(), "LANG".into(), "bad name".into()]);
        let expected = [&[SEND, VAR][..], b"USER", &[USERVAR], b"LANG"].concat();
        assert_eq!(names.requests(), [expected]);
    }

    #[test]
    fn a_list_of_more_variables_than_the_maximum_is_refused() {
        let variable = [USERVAR, b'A', VALUE, b'x'];
        let longest = [&[IS][..], &variable.repeat(VARIABLES_MAX)].concat();
        let Some(Message::Is(variables)) = Message::parse(&longest) else { panic!("no IS") };
        assert_eq!(variables.len(), VARIABLES_MAX);
        assert_eq!(Message::parse(&[&longest[..], &[USERVAR]].concat()), None);
    }
}
