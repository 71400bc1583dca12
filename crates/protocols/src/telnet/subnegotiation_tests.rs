//! Tests of all options with subnegotiations: the states in which each message is valid, the
//! messages that follow an agreement, and the calls that need an agreement.

use super::command::{SB, SE};
use super::tests::{End, OwnedEvent, data};
use super::*;
use alloc::vec::Vec;
use std::vec;

/// Agreement about an option on the side that performs it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Agreement {
    None,
    /// The local end has requested the option, and the peer has not answered.
    Requested,
    Enabled,
    /// The local end has requested to disable the option, and the peer has not answered.
    BeingDisabled,
}

const ALL_AGREEMENTS: [Agreement; 4] =
    [Agreement::None, Agreement::Requested, Agreement::Enabled, Agreement::BeingDisabled];

/// Agreements under which a request to the side that performs an option is answered.
const OFFERED: &[Agreement] = &[Agreement::Requested, Agreement::Enabled];

/// Agreements under which the peer may send as the side that performs an option.
const PERFORMED: &[Agreement] = &[Agreement::Enabled, Agreement::BeingDisabled];

/// Agreements under which the peer may send to the side that performs an option.
const IN_FORCE: &[Agreement] = &[Agreement::Enabled];

/// The message is not valid at this role.
const NEVER: &[Agreement] = &[];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Receiver {
    User,
    Server,
}

impl Receiver {
    /// Returns an end that allows all options and has something to send for each.
    fn end(self) -> End {
        let allowed_options = OptionSet::of(&option::known().collect::<Vec<_>>());
        match self {
            Self::User => End::user_with(&UserSettings {
                allowed_options,
                display: "host:0".into(),
                environment: vec![EnvironmentVariable::new("LANG", "C")],
                ..UserSettings::default()
            }),
            Self::Server => End::server_with(&ServerSettings {
                allowed_options,
                environment: vec!["LANG".into()],
                ..ServerSettings::default()
            }),
        }
    }

    /// Returns such an end with this agreement about `option` of `performer`, and no output.
    fn end_with(self, agreement: Agreement, performer: Side, option: OptionCode) -> End {
        let mut end = self.end();
        if agreement == Agreement::Requested {
            end.ask(performer, option, true).unwrap();
        } else if agreement != Agreement::None {
            end.receive(&[IAC, enabling_verb(performer), option.0]);
        }
        if agreement == Agreement::BeingDisabled {
            end.ask(performer, option, false).unwrap();
        }
        end.output();
        end
    }
}

/// Returns the code of the verb by which the peer enables an option of `performer`.
fn enabling_verb(performer: Side) -> u8 {
    match performer {
        Side::Local => Verb::Do.code(),
        Side::Remote => Verb::Will.code(),
    }
}

/// Returns IAC SB, `option`, `content`, IAC SE.
fn subnegotiation(option: OptionCode, content: &[u8]) -> Vec<u8> {
    [&[IAC, SB, option.0], content, &[IAC, SE]].concat()
}

/// A message and the agreements about the option under which the receiver accepts it.
type Message = (Receiver, Side, OptionCode, &'static [u8], &'static [Agreement]);

const MESSAGES_TO_USER: &[(Side, OptionCode, &[u8], &[Agreement])] = &[
    (Side::Local, OptionCode::STATUS, b"\x01", IN_FORCE),
    (Side::Remote, OptionCode::STATUS, b"\x00", PERFORMED),
    (Side::Local, OptionCode::TERMINAL_TYPE, b"\x01", OFFERED),
    (Side::Local, OptionCode::TERMINAL_TYPE, b"\x00vt100", NEVER),
    (Side::Local, OptionCode::TERMINAL_TYPE, b"\x00MTTS 1", NEVER),
    (Side::Local, OptionCode::NAWS, b"\x00\x50\x00\x18", NEVER),
    (Side::Local, OptionCode::TERMINAL_SPEED, b"\x01", OFFERED),
    (Side::Local, OptionCode::TERMINAL_SPEED, b"\x009600,9600", NEVER),
    (Side::Local, OptionCode::TOGGLE_FLOW_CONTROL, b"\x00", IN_FORCE),
    (Side::Local, OptionCode::LINEMODE, b"\x01\x01", IN_FORCE),
    (Side::Local, OptionCode::LINEMODE, b"\xfd\x02", IN_FORCE),
    (Side::Local, OptionCode::LINEMODE, b"\xfb\x02", NEVER),
    (Side::Local, OptionCode::X_DISPLAY_LOCATION, b"\x01", OFFERED),
    (Side::Local, OptionCode::X_DISPLAY_LOCATION, b"\x00host:0", NEVER),
    (Side::Local, OptionCode::NEW_ENVIRON, b"\x01", OFFERED),
    (Side::Local, OptionCode::NEW_ENVIRON, b"\x00\x03LANG\x01C", NEVER),
    (Side::Local, OptionCode::NEW_ENVIRON, b"\x02\x03LANG\x01C", NEVER),
    (Side::Local, OptionCode::CHARSET, b"\x01;UTF-8", IN_FORCE),
    (Side::Remote, OptionCode::CHARSET, b"\x01;UTF-8", PERFORMED),
    (Side::Local, OptionCode::COM_PORT, b"\x6a\x00", IN_FORCE),
    (Side::Local, OptionCode::COM_PORT, b"\x06\x00", NEVER),
    (Side::Remote, OptionCode::COMPRESS2, b"", PERFORMED),
    (Side::Remote, OptionCode::COMPRESS3, b"", NEVER),
    (Side::Remote, OptionCode::ECHO_ACKNOWLEDGMENT, &[0; 8], PERFORMED),
];

const MESSAGES_TO_SERVER: &[(Side, OptionCode, &[u8], &[Agreement])] = &[
    (Side::Local, OptionCode::STATUS, b"\x01", IN_FORCE),
    (Side::Remote, OptionCode::STATUS, b"\x00", PERFORMED),
    (Side::Remote, OptionCode::TERMINAL_TYPE, b"\x01", NEVER),
    (Side::Remote, OptionCode::TERMINAL_TYPE, b"\x00vt100", PERFORMED),
    (Side::Remote, OptionCode::TERMINAL_TYPE, b"\x00MTTS 1", PERFORMED),
    (Side::Remote, OptionCode::NAWS, b"\x00\x50\x00\x18", PERFORMED),
    (Side::Remote, OptionCode::TERMINAL_SPEED, b"\x01", NEVER),
    (Side::Remote, OptionCode::TERMINAL_SPEED, b"\x009600,9600", PERFORMED),
    (Side::Remote, OptionCode::TOGGLE_FLOW_CONTROL, b"\x00", NEVER),
    (Side::Remote, OptionCode::LINEMODE, b"\x01\x05", PERFORMED),
    (Side::Remote, OptionCode::LINEMODE, b"\xfb\x02", PERFORMED),
    (Side::Remote, OptionCode::LINEMODE, b"\xfd\x02", NEVER),
    (Side::Remote, OptionCode::X_DISPLAY_LOCATION, b"\x01", NEVER),
    (Side::Remote, OptionCode::X_DISPLAY_LOCATION, b"\x00host:0", PERFORMED),
    (Side::Remote, OptionCode::NEW_ENVIRON, b"\x01", NEVER),
    (Side::Remote, OptionCode::NEW_ENVIRON, b"\x00\x03LANG\x01C", PERFORMED),
    (Side::Remote, OptionCode::NEW_ENVIRON, b"\x02\x03LANG\x01C", PERFORMED),
    (Side::Local, OptionCode::CHARSET, b"\x01;UTF-8", IN_FORCE),
    (Side::Remote, OptionCode::CHARSET, b"\x01;UTF-8", PERFORMED),
    (Side::Remote, OptionCode::COM_PORT, b"\x02\x08", PERFORMED),
    (Side::Remote, OptionCode::COM_PORT, b"\x66\x08", NEVER),
    (Side::Local, OptionCode::COMPRESS2, b"", NEVER),
    (Side::Local, OptionCode::COMPRESS3, b"", PERFORMED),
    (Side::Local, OptionCode::ECHO_ACKNOWLEDGMENT, &[0; 8], NEVER),
];

fn messages() -> impl Iterator<Item = Message> {
    [(Receiver::User, MESSAGES_TO_USER), (Receiver::Server, MESSAGES_TO_SERVER)]
        .into_iter()
        .flat_map(|(receiver, messages)| {
            messages.iter().map(move |&(performer, option, content, valid)| {
                (receiver, performer, option, content, valid)
            })
        })
}

#[test]
fn the_table_of_messages_has_every_option_at_both_ends() {
    // START_TLS has tests of its own, since nothing can follow its agreement.
    let options = option::known().filter(|option| option::content_max_bytes(*option) > 0);
    for option in options.filter(|option| *option != OptionCode::START_TLS) {
        for end in [Receiver::User, Receiver::Server] {
            let is_of_option = |message: Message| (message.0, message.2) == (end, option);
            assert!(messages().any(is_of_option), "{option} at {end:?}");
        }
    }
}

#[test]
fn a_subnegotiation_is_valid_only_under_an_agreement_about_its_option() {
    for (receiver, performer, option, content, valid) in messages() {
        for agreement in ALL_AGREEMENTS {
            let mut end = receiver.end_with(agreement, performer, option);
            let events = end.receive(&subnegotiation(option, content));
            let is_valid = end.context.counted(Counter::TelnetSubnegotiationsWrong) == 0;
            let description =
                std::format!("{option} {content:?} to {receiver:?} under {agreement:?}");
            assert_eq!(is_valid, valid.contains(&agreement), "{description}");
            if !is_valid {
                assert_eq!((events, end.output()), (vec![], vec![]), "{description}");
            }
        }
    }
}

#[test]
fn an_agreement_is_followed_by_the_messages_of_the_role() {
    let user_rows: &[(Side, OptionCode, &[u8])] = &[
        (Side::Local, OptionCode::STATUS, b""),
        (Side::Local, OptionCode::TERMINAL_TYPE, b""),
        (Side::Local, OptionCode::NAWS, b"\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0"),
        (Side::Local, OptionCode::TERMINAL_SPEED, b""),
        (Side::Local, OptionCode::TOGGLE_FLOW_CONTROL, b""),
        (Side::Local, OptionCode::X_DISPLAY_LOCATION, b""),
        (Side::Local, OptionCode::NEW_ENVIRON, b""),
        (Side::Local, OptionCode::CHARSET, b""),
        (Side::Local, OptionCode::COM_PORT, b""),
        (Side::Local, OptionCode::START_TLS, b"\xff\xfa\x2e\x01\xff\xf0"),
        (Side::Remote, OptionCode::COMPRESS2, b""),
        (Side::Remote, OptionCode::COMPRESS3, b"\xff\xfa\x57\xff\xf0"),
        (Side::Remote, OptionCode::ECHO_ACKNOWLEDGMENT, b""),
    ];
    let server_rows: &[(Side, OptionCode, &[u8])] = &[
        (Side::Remote, OptionCode::STATUS, b""),
        (Side::Remote, OptionCode::TERMINAL_TYPE, b"\xff\xfa\x18\x01\xff\xf0"),
        (Side::Remote, OptionCode::NAWS, b""),
        (Side::Remote, OptionCode::TERMINAL_SPEED, b"\xff\xfa\x20\x01\xff\xf0"),
        (Side::Remote, OptionCode::TOGGLE_FLOW_CONTROL, b""),
        (Side::Remote, OptionCode::LINEMODE, b""),
        (Side::Remote, OptionCode::X_DISPLAY_LOCATION, b"\xff\xfa\x23\x01\xff\xf0"),
        (Side::Remote, OptionCode::NEW_ENVIRON, b"\xff\xfa\x27\x01\x03LANG\xff\xf0"),
        (Side::Remote, OptionCode::CHARSET, b""),
        (Side::Remote, OptionCode::COM_PORT, b""),
        (Side::Remote, OptionCode::START_TLS, b"\xff\xfa\x2e\x01\xff\xf0"),
        (Side::Local, OptionCode::COMPRESS2, b"\xff\xfa\x56\xff\xf0"),
        (Side::Local, OptionCode::COMPRESS3, b""),
        (Side::Local, OptionCode::ECHO_ACKNOWLEDGMENT, b""),
    ];
    for (receiver, rows) in [(Receiver::User, user_rows), (Receiver::Server, server_rows)] {
        for (performer, option, expected) in rows {
            let mut end = receiver.end();
            end.receive(&[IAC, enabling_verb(*performer), option.0]);
            let answer = Verb::outgoing(*performer, true).code();
            let expected = [&[IAC, answer, option.0], *expected].concat();
            assert_eq!(end.output(), expected, "{option} at {receiver:?}");
        }
    }
}

/// A call that sends a message about an option.
type Call = fn(&mut Telnet, &mut Cx<'_>) -> Result<(), AskError>;

#[test]
fn a_message_is_sent_only_while_its_option_is_in_force() {
    let ask_status: Call = |telnet, cx| telnet.ask_status(cx);
    let ask_charset: Call = |telnet, cx| telnet.ask_charset(cx);
    let flow_control: Call = |telnet, cx| telnet.flow_control(FlowControl::On, cx);
    let ask_linemode: Call = |telnet, cx| telnet.ask_linemode(LinemodeMode::EDIT, cx);
    let ask_forward_mask: Call = |telnet, cx| telnet.ask_forward_mask(&[0; 32], cx);
    let set_character: Call = |telnet, cx| {
        telnet.set_special_character(SlcFunction::EC, SpecialCharacter::variable(8), cx)
    };
    let com_port: Call = |telnet, cx| telnet.com_port(&ComPortCommand::Purge(1), cx);
    let calls = [
        (Receiver::User, Side::Remote, OptionCode::STATUS, ask_status),
        (Receiver::Server, Side::Remote, OptionCode::STATUS, ask_status),
        (Receiver::User, Side::Local, OptionCode::CHARSET, ask_charset),
        (Receiver::Server, Side::Local, OptionCode::CHARSET, ask_charset),
        (Receiver::Server, Side::Remote, OptionCode::TOGGLE_FLOW_CONTROL, flow_control),
        (Receiver::Server, Side::Remote, OptionCode::LINEMODE, ask_linemode),
        (Receiver::Server, Side::Remote, OptionCode::LINEMODE, ask_forward_mask),
        (Receiver::User, Side::Local, OptionCode::LINEMODE, set_character),
        (Receiver::Server, Side::Remote, OptionCode::LINEMODE, set_character),
        (Receiver::User, Side::Local, OptionCode::COM_PORT, com_port),
        (Receiver::Server, Side::Remote, OptionCode::COM_PORT, com_port),
    ];
    for (sender, performer, option, call) in calls {
        for agreement in ALL_AGREEMENTS {
            let mut end = sender.end_with(agreement, performer, option);
            let is_in_force = agreement == Agreement::Enabled;
            let expected = if is_in_force { Ok(()) } else { Err(AskError::NotEnabled) };
            // A call that fails leaves no request behind, so it fails any number of times.
            for _ in 0..if is_in_force { 1 } else { 100 } {
                let result = call(&mut end.telnet, &mut end.context.cx());
                assert_eq!(result, expected, "{option} of {sender:?} under {agreement:?}");
            }
            assert_eq!(!end.output().is_empty(), is_in_force);
        }
    }
}

#[test]
fn a_charset_request_that_does_not_fit_can_be_repeated() {
    let settings = UserSettings { output_limit_bytes: 0, ..UserSettings::default() };
    let mut user = End::user_with(&settings);
    user.receive(&[IAC, Verb::Do.code(), OptionCode::CHARSET.0]);
    while user.command(Command::NoOperation) {}
    let result = user.telnet.ask_charset(&mut user.context.cx());
    assert_eq!(result, Err(AskError::OutputFull));
    user.output();
    assert_eq!(user.telnet.ask_charset(&mut user.context.cx()), Ok(()));
    let result = user.telnet.ask_charset(&mut user.context.cx());
    assert_eq!(result, Err(AskError::AlreadyRequested));
}

#[test]
fn the_end_of_charset_discards_its_outstanding_request() {
    let mut user = Receiver::User.end_with(Agreement::Enabled, Side::Local, OptionCode::CHARSET);
    user.telnet.ask_charset(&mut user.context.cx()).unwrap();
    user.receive(&[IAC, Verb::Dont.code(), OptionCode::CHARSET.0]);
    user.receive(&[IAC, Verb::Do.code(), OptionCode::CHARSET.0]);
    assert_eq!(user.receive(&subnegotiation(OptionCode::CHARSET, b"\x02UTF-8")), []);
    assert_eq!(user.telnet.ask_charset(&mut user.context.cx()), Ok(()));
}

#[test]
fn more_bytes_than_were_sent_cannot_be_acknowledged() {
    let option = OptionCode::ECHO_ACKNOWLEDGMENT;
    let mut user = Receiver::User.end_with(Agreement::Enabled, Side::Remote, option);
    user.send(b"ls");
    assert_eq!(user.receive(&subnegotiation(option, &[0, 0, 0, 0, 0, 0, 0, 3])), []);
    let events = user.receive(&subnegotiation(option, &[0, 0, 0, 0, 0, 0, 0, 2]));
    assert_eq!(events, [OwnedEvent::Other(Event::EchoAcknowledged(2))]);
    assert_eq!(user.context.counted(Counter::TelnetSubnegotiationsWrong), 1);
}

#[test]
fn no_content_is_stored_of_an_unknown_option_that_the_settings_allow() {
    let unknown_option = OptionCode(200);
    let allowed_options = OptionSet::of(&[unknown_option]);
    let mut user = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
    assert_eq!(user.receive(&subnegotiation(unknown_option, b"a")), []);
    assert_eq!(user.telnet.decoder.subnegotiation(), Some((unknown_option, &[][..])));
    assert_eq!(user.context.counted(Counter::TelnetSubnegotiationsTooLong), 1);
}

#[test]
fn tls_starts_only_after_the_exact_follows_message() {
    for (receiver, performer) in [(Receiver::User, Side::Local), (Receiver::Server, Side::Remote)] {
        let option = OptionCode::START_TLS;
        let mut end = receiver.end_with(Agreement::Enabled, performer, option);
        assert_eq!(end.receive(&subnegotiation(option, b"\x02")), []);
        assert_eq!(end.receive(&subnegotiation(option, b"")), []);
        assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsWrong), 2);
        let events = end.receive(&subnegotiation(option, b"\x01"));
        assert_eq!(events, [OwnedEvent::Other(Event::StartTls)]);
    }
}

#[test]
fn a_valid_subnegotiation_between_the_two_follows_messages_is_ignored() {
    let cases = [
        (Receiver::User, Side::Local, OptionCode::TOGGLE_FLOW_CONTROL, &[0][..]),
        (Receiver::Server, Side::Remote, OptionCode::NAWS, &[0, 80, 0, 24]),
    ];
    for (receiver, performer, option, content) in cases {
        let mut end = receiver.end_with(Agreement::Enabled, performer, option);
        assert_eq!(end.receive(&subnegotiation(option, content)).len(), 1);
        end.receive(&[IAC, enabling_verb(performer), OptionCode::START_TLS.0]);
        assert_eq!(end.receive(&subnegotiation(option, content)), []);
        assert_eq!(end.context.counted(Counter::TelnetItemsBeforeTls), 1);
        assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsWrong), 0);
    }
}

#[test]
fn compression_is_announced_once_for_each_agreement() {
    let cases = [
        (Receiver::User, Side::Remote, OptionCode::COMPRESS2),
        (Receiver::Server, Side::Local, OptionCode::COMPRESS3),
    ];
    for (receiver, performer, option) in cases {
        let mut end = receiver.end();
        let enable = [IAC, enabling_verb(performer), option.0];
        let disable = [IAC, enabling_verb(performer) + 1, option.0];
        let start = subnegotiation(option, b"");
        let announced = OwnedEvent::Other(Event::CompressionStarted);
        for _ in 0..2 {
            end.receive(&enable);
            assert_eq!(end.receive(&start), core::slice::from_ref(&announced));
            assert_eq!(end.receive(&[&start[..], b"a"].concat()), [data(b"a")]);
            end.receive(&disable);
        }
    }
}

#[test]
fn compression_may_start_before_the_request_to_end_it_arrives() {
    let mut user = Receiver::User.end();
    user.ask(Side::Remote, OptionCode::COMPRESS2, true).unwrap();
    user.ask(Side::Remote, OptionCode::COMPRESS2, false).unwrap();
    user.receive(&[IAC, Verb::Will.code(), OptionCode::COMPRESS2.0]);
    let events = user.receive(&subnegotiation(OptionCode::COMPRESS2, b""));
    assert_eq!(events, [OwnedEvent::Other(Event::CompressionStarted)]);
}

#[test]
fn an_option_is_requested_at_the_start_only_by_its_initiator() {
    let linemode = |verb: Verb| [IAC, verb.code(), OptionCode::LINEMODE.0];
    let com_port = |verb: Verb| [IAC, verb.code(), OptionCode::COM_PORT.0];
    let cases = [
        (Receiver::User, linemode(Verb::Will), com_port(Verb::Will)),
        (Receiver::Server, com_port(Verb::Do), linemode(Verb::Do)),
    ];
    for (receiver, absent, present) in cases {
        let mut end = receiver.end();
        end.telnet.start(&mut end.context.cx());
        let output = end.output();
        let has = |request: [u8; 3]| output.windows(3).any(|window| window == request);
        assert_eq!((has(absent), has(present)), (false, true), "{receiver:?}");
    }
}

#[test]
fn a_user_in_linemode_sends_its_table_of_characters() {
    let mut user = Receiver::User.end();
    user.receive(&[IAC, Verb::Do.code(), OptionCode::LINEMODE.0]);
    let expected = [IAC, Verb::Will.code(), 34, IAC, SB, 34, 3, 1];
    assert_eq!(user.output()[..expected.len()], expected);
}

#[test]
fn messages_without_an_answer_are_not_counted_as_unanswered() {
    let cases = [
        (Receiver::Server, Side::Remote, ComPortCommand::ModemState(1)),
        (Receiver::User, Side::Local, ComPortCommand::Suspend),
    ];
    for (sender, performer, command) in cases {
        let mut end = sender.end_with(Agreement::Enabled, performer, OptionCode::COM_PORT);
        for _ in 0..100 {
            assert_eq!(end.telnet.com_port(&command, &mut end.context.cx()), Ok(()));
        }
    }
}

#[test]
fn an_end_of_compression_over_the_limit_is_counted() {
    let mut server =
        Receiver::Server.end_with(Agreement::Enabled, Side::Local, OptionCode::COMPRESS2);
    for _ in 0..4 {
        server.receive(&[IAC, Verb::Dont.code(), 86, IAC, Verb::Do.code(), 86]);
    }
    assert_eq!(server.context.counted(Counter::TelnetOutputRefused), 0);
    server.receive(&[IAC, Verb::Dont.code(), 86]);
    assert_eq!(server.context.counted(Counter::TelnetOutputRefused), 1);
}
