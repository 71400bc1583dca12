//! Tests of the negotiation of options between a user and a server, and of the records of the
//! inspector.

use super::command::{SB, SE};
use super::tests::{
    End, OwnedEvent, command, data, disabled_event, enabled_event, settle, wire_bytes,
};
use super::*;
use alloc::boxed::Box;
use alloc::vec::Vec;
use proptest::prelude::*;
use std::string::ToString;
use std::{format, vec};

/// Returns a user and a server that allow `options` in addition to their defaults, after the
/// initial negotiation.
fn settled_ends(options: &[OptionCode]) -> (End, End, Vec<OwnedEvent>, Vec<OwnedEvent>) {
    let add_options = |set: OptionSet| options.iter().fold(set, |set, option| set.with(*option));
    let user = UserSettings {
        allowed_options: add_options(UserSettings::OPTIONS),
        display: "host:0.0".into(),
        environment: vec![EnvironmentVariable::new("LANG", "C")],
        ..UserSettings::default()
    };
    let server = ServerSettings {
        allowed_options: add_options(ServerSettings::OPTIONS),
        environment: vec!["LANG".into(), "USER".into()],
        ..ServerSettings::default()
    };
    ends_after_start(&user, &server)
}

fn ends_after_start(
    user: &UserSettings,
    server: &ServerSettings,
) -> (End, End, Vec<OwnedEvent>, Vec<OwnedEvent>) {
    let mut user = End::user_with(user);
    let mut server = End::server_with(server);
    user.telnet.start(&mut user.context.cx());
    server.telnet.start(&mut server.context.cx());
    let (user_events, server_events) = settle(&mut user, &mut server);
    (user, server, user_events, server_events)
}

fn other_event(event: Event<'static>) -> OwnedEvent {
    OwnedEvent::Other(event)
}

/// Returns whether a user and a server request each of `options` at the start.
fn are_requested_at_the_start(options: [OptionCode; 2]) -> [[bool; 2]; 2] {
    let set = OptionSet::of(&options);
    let user = UserSettings { allowed_options: set, ..UserSettings::default() };
    let server = ServerSettings { allowed_options: set, ..ServerSettings::default() };
    [End::user_with(&user), End::server_with(&server)].map(|mut end| {
        end.telnet.start(&mut end.context.cx());
        let output = end.output();
        options.map(|option| output.chunks(3).any(|verb| verb[2] == option.0))
    })
}

#[test]
fn only_a_user_requests_com_port_option_and_only_a_server_requests_linemode() {
    let options = [OptionCode::COM_PORT, OptionCode::LINEMODE];
    assert_eq!(are_requested_at_the_start(options), [[true, false], [false, true]]);
}

#[test]
fn a_user_offers_its_own_options_and_does_not_request_compression() {
    let options = [OptionCode::NEW_ENVIRON, OptionCode::COMPRESS2];
    assert_eq!(are_requested_at_the_start(options), [[true, false], [true, true]]);
}

#[test]
fn a_valid_message_about_an_option_that_is_not_enabled_is_counted_and_ignored() {
    let messages: [(OptionCode, &[u8]); 17] = [
        (OptionCode::STATUS, b"\x01"),
        (OptionCode::STATUS, b"\0\xfb\x01"),
        (OptionCode::TERMINAL_TYPE, b"\x01"),
        (OptionCode::TERMINAL_TYPE, b"\0xterm"),
        (OptionCode::NAWS, b"\0\x50\0\x18"),
        (OptionCode::TERMINAL_SPEED, b"\x01"),
        (OptionCode::TERMINAL_SPEED, b"\x009600,9600"),
        (OptionCode::TOGGLE_FLOW_CONTROL, b"\0"),
        (OptionCode::LINEMODE, b"\x01\x01"),
        (OptionCode::X_DISPLAY_LOCATION, b"\x01"),
        (OptionCode::X_DISPLAY_LOCATION, b"\0host:0"),
        (OptionCode::NEW_ENVIRON, b"\x01"),
        (OptionCode::NEW_ENVIRON, b"\0\x03LANG\x01C"),
        (OptionCode::CHARSET, b"\x01;UTF-8"),
        (OptionCode::COM_PORT, b"\x08"),
        (OptionCode::COM_PORT, b"\x6c"),
        (OptionCode::ECHO_ACKNOWLEDGMENT, &[0; 8]),
    ];
    for (option, content) in messages {
        let allowed_options = OptionSet::of(&[option]);
        let display = ":0".into();
        let environment = vec!["LANG".into()];
        let user = UserSettings { allowed_options, display, ..UserSettings::default() };
        let server = ServerSettings { allowed_options, environment, ..ServerSettings::default() };
        for mut end in [End::user_with(&user), End::server_with(&server)] {
            assert_eq!(end.receive(&output::subnegotiation(option, content)), [], "{option}");
            assert_eq!(end.output(), b"", "{option}");
            assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsWrong), 1, "{option}");
        }
    }
}

#[test]
fn a_server_receives_the_speed_the_display_and_the_allowed_variables() {
    let options = [OptionCode::NEW_ENVIRON, OptionCode::X_DISPLAY_LOCATION];
    let (mut user, mut server, _, server_events) = settled_ends(&options);
    let variables = vec![
        EnvironmentVariable::new("LANG", "C"),
        EnvironmentVariable { name: "USER".into(), value: None },
    ];
    assert!(server_events.contains(&other_event(Event::Environment(variables))));
    assert!(server_events.contains(&other_event(Event::XDisplayLocation("host:0.0".into()))));
    server.ask(Side::Remote, OptionCode::TERMINAL_SPEED, true).unwrap();
    let (_, server_events) = settle(&mut user, &mut server);
    let speed = Event::TerminalSpeed { transmit: 38_400, receive: 38_400 };
    assert!(server_events.contains(&other_event(speed)));
}

#[test]
fn a_request_for_an_offered_option_is_answered_without_a_do() {
    let mut user = End::user();
    user.ask(Side::Local, OptionCode::TERMINAL_TYPE, true).unwrap();
    user.output();
    user.receive(&[IAC, SB, 24, 1, IAC, SE]);
    assert_eq!(user.output(), b"\xff\xfa\x18\x00UNKNOWN\xff\xf0");
}

#[test]
fn a_server_that_requests_more_names_receives_all_and_the_mtts_bits() {
    let mtts = Mtts { program: "PLUMB".into(), bits: 13 };
    let user =
        UserSettings { terminal_type: "xterm".into(), mtts: Some(mtts), ..UserSettings::default() };
    let server = ServerSettings { terminal_types_max: 9, ..ServerSettings::default() };
    let (_, _, _, server_events) = ends_after_start(&user, &server);
    let terminal_types: Vec<_> = server_events
        .into_iter()
        .filter(|event| matches!(event, OwnedEvent::Other(Event::TerminalType(_) | Event::Mtts(_))))
        .collect();
    let names = ["PLUMB", "xterm"].map(|name| other_event(Event::TerminalType(name.into())));
    assert_eq!(terminal_types, [&names[..], &[other_event(Event::Mtts(13))]].concat());
}

#[test]
fn a_user_without_a_display_does_not_offer_its_location() {
    let allowed_options = UserSettings::OPTIONS.with(OptionCode::X_DISPLAY_LOCATION);
    let mut user = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
    user.receive(&[IAC, 253, 35]);
    assert_eq!(user.output(), [IAC, 252, 35]);
}

#[test]
fn the_server_announces_the_effect_of_xoff() {
    let (mut user, mut server, ..) = settled_ends(&[]);
    let early_result = server.telnet.flow_control(FlowControl::Off, &mut server.context.cx());
    assert_eq!(early_result, Err(AskError::NotEnabled));
    server.ask(Side::Remote, OptionCode::TOGGLE_FLOW_CONTROL, true).unwrap();
    settle(&mut user, &mut server);
    server.telnet.flow_control(FlowControl::Off, &mut server.context.cx()).unwrap();
    let (user_events, _) = settle(&mut user, &mut server);
    assert_eq!(user_events, [other_event(Event::FlowControl(FlowControl::Off))]);
}

#[test]
fn a_record_ends_with_eor_if_end_of_record_is_enabled() {
    let (mut user, mut server, ..) = settled_ends(&[]);
    assert!(!server.telnet.end_of_record(&mut server.context.cx()));
    server.ask(Side::Local, OptionCode::END_OF_RECORD, true).unwrap();
    settle(&mut user, &mut server);
    assert!(server.telnet.end_of_record(&mut server.context.cx()));
    assert_eq!(settle(&mut user, &mut server).0, [command(Command::EndOfRecord)]);
}

#[test]
fn a_character_set_is_agreed_from_either_side() {
    for asks in [0, 1] {
        let (user, server, ..) = settled_ends(&[]);
        let mut ends = [user, server];
        let early_result = ends[asks].telnet.ask_charset(&mut ends[asks].context.cx());
        assert_eq!(early_result, Err(AskError::NotEnabled));
        ends[asks].ask(Side::Local, OptionCode::CHARSET, true).unwrap();
        let [user, server] = &mut ends;
        settle(user, server);
        ends[asks].telnet.ask_charset(&mut ends[asks].context.cx()).unwrap();
        let [user, server] = &mut ends;
        let accepted = [other_event(Event::Charset(CharsetOutcome::Accepted("UTF-8".into())))];
        assert_eq!(settle(user, server), (accepted.to_vec(), accepted.to_vec()));
    }
}

#[test]
fn linemode_agrees_on_the_mode_and_the_special_characters() {
    let (mut user, mut server, _, server_events) = settled_ends(&[OptionCode::LINEMODE]);
    assert!(server_events.contains(&enabled_event(Side::Remote, OptionCode::LINEMODE)));
    let mode = LinemodeMode::EDIT.with(LinemodeMode::TRAP_SIGNALS);
    server.telnet.ask_linemode(mode, &mut server.context.cx()).unwrap();
    server.telnet.ask_forward_mask(&[0; 32], &mut server.context.cx()).unwrap();
    let backspace = SpecialCharacter::variable(8);
    server
        .telnet
        .set_special_character(SlcFunction::EC, backspace, &mut server.context.cx())
        .unwrap();
    let (user_events, server_events) = settle(&mut user, &mut server);
    let events = [LinemodeEvent::Mode(mode), LinemodeEvent::ForwardMask, LinemodeEvent::Characters]
        .map(|event| other_event(Event::Linemode(event)));
    assert_eq!(user_events, events);
    assert_eq!(server_events, events[..2]);
    let linemode = user.telnet.linemode().unwrap();
    assert_eq!(linemode.mode(), mode);
    assert_eq!(linemode.characters().get(SlcFunction::EC).character(), Some(8));
}

#[test]
fn linemode_is_refused_unless_the_user_allows_it() {
    let mut user = End::user();
    assert_eq!(user.receive(&[IAC, 253, 34]), []);
    assert_eq!(user.output(), [IAC, 252, 34]);
    assert!(user.telnet.linemode().is_none());
}

#[test]
fn a_serial_port_is_commanded_and_answers() {
    let (mut user, mut server, ..) = settled_ends(&[OptionCode::COM_PORT]);
    let requested = ComPortCommand::BaudRate(115_200);
    user.telnet.com_port(&requested, &mut user.context.cx()).unwrap();
    let (_, server_events) = settle(&mut user, &mut server);
    assert_eq!(
        server_events,
        [other_event(Event::ComPort(Box::new(ComPortEvent::Command(requested.clone()))))]
    );
    let current = ComPortCommand::BaudRate(255);
    server.telnet.com_port(&current, &mut server.context.cx()).unwrap();
    let modem_state = ComPortCommand::ModemState(0xb0);
    server.telnet.com_port(&modem_state, &mut server.context.cx()).unwrap();
    let (user_events, _) = settle(&mut user, &mut server);
    let events = [ComPortEvent::Refused { requested, current }, ComPortEvent::Notice(modem_state)];
    assert_eq!(user_events, events.map(|event| other_event(Event::ComPort(Box::new(event)))));
}

#[test]
fn a_serial_port_suspends_and_resumes_the_sender() {
    let (mut user, mut server, ..) = settled_ends(&[OptionCode::COM_PORT]);
    server.telnet.com_port(&ComPortCommand::Suspend, &mut server.context.cx()).unwrap();
    settle(&mut user, &mut server);
    assert!(user.telnet.is_suspended() && !server.telnet.is_suspended());
    server.telnet.com_port(&ComPortCommand::Resume, &mut server.context.cx()).unwrap();
    settle(&mut user, &mut server);
    assert!(!user.telnet.is_suspended());
}

/// Returns a user's end and a server's end that have sent FOLLOWS. Each is returned with the
/// FOLLOWS message that its peer would send.
fn ends_after_follows() -> [(End, [u8; 6]); 2] {
    let allowed_options = OptionSet::of(&[OptionCode::START_TLS, OptionCode::ECHO]);
    let mut user = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
    user.receive(&[IAC, 253, 46]);
    assert_eq!(user.output(), [IAC, 251, 46, IAC, SB, 46, 1, IAC, SE]);
    let mut server =
        End::server_with(&ServerSettings { allowed_options, ..ServerSettings::default() });
    server.receive(&[IAC, 251, 46]);
    assert_eq!(server.output(), [IAC, 253, 46, IAC, SB, 46, 1, IAC, SE]);
    [user, server].map(|end| (end, [IAC, SB, 46, 1, IAC, SE]))
}

#[test]
fn user_and_server_start_tls_and_send_nothing_more() {
    let (mut user, mut server, user_events, server_events) = settled_ends(&[OptionCode::START_TLS]);
    for (end, events) in [(&mut user, user_events), (&mut server, server_events)] {
        assert_eq!(events.last(), Some(&other_event(Event::StartTls)));
        assert_eq!((end.send(b"clear"), end.output()), (0, vec![]));
        assert!(!end.command(Command::AreYouThere));
    }
}

#[test]
fn data_after_the_start_of_tls_is_not_read() {
    for (mut end, follows) in ends_after_follows() {
        let stream = [&follows[..], b"\x16\x03\x01\xff\xfb\x01"].concat();
        let mut input = &stream[..];
        let event = end.telnet.receive(&mut input, &mut end.context.cx());
        assert_eq!(event, Some(Event::StartTls));
        assert_eq!(end.telnet.receive(&mut input, &mut end.context.cx()), None);
        assert_eq!(input, b"\x16\x03\x01\xff\xfb\x01");
    }
}

#[test]
fn plaintext_between_the_two_follows_messages_is_ignored() {
    for (mut end, follows) in ends_after_follows() {
        let injected = b"rm -rf *\r\n\xff\xfb\x01\xff\xf4\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0";
        assert_eq!(end.receive(injected), []);
        assert_eq!(end.output(), []);
        assert_eq!(end.context.counted(Counter::TelnetItemsBeforeTls), 5);
        assert_eq!(end.receive(&follows), [other_event(Event::StartTls)]);
    }
}

#[test]
fn tls_does_not_start_without_agreement() {
    let allowed_options = OptionSet::of(&[OptionCode::START_TLS]);
    let mut user = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
    assert_eq!(user.receive(&[IAC, SB, 46, 1, IAC, SE, b'a']), [data(b"a")]);
}

/// Passes `input` to a user's end, as the caller of an engine does: compressed input is inflated
/// first.
fn receive_inflated(
    user: &mut End,
    decompressor: &mut Decompressor,
    mut input: &[u8],
    events: &mut Vec<OwnedEvent>,
) {
    let mut buffer = [0; 32];
    while !input.is_empty() {
        if decompressor.is_on() {
            let cx = &mut user.context.cx();
            let mut written = decompressor.inflate(&mut input, &mut buffer, cx).unwrap();
            user.receive_more(&buffer[..written], events);
            while written == buffer.len() {
                let cx = &mut user.context.cx();
                written = decompressor.inflate(&mut input, &mut buffer, cx).unwrap();
                user.receive_more(&buffer[..written], events);
            }
            continue;
        }
        while let Some(event) = user.telnet.receive(&mut input, &mut user.context.cx()) {
            if event == Event::CompressionStarted {
                decompressor.start();
                break;
            }
            if let Event::Data(run) = event {
                events.push(data(run));
            }
        }
    }
}

/// Returns the wire bytes of a server, compressed where required.
fn sent_by(server: &mut End, compressor: &mut Option<Compressor>) -> Vec<u8> {
    let mut sent_bytes = Vec::new();
    while !server.telnet.output().is_empty() || server.telnet.compression_boundary().is_some() {
        let boundary = server.telnet.compression_boundary();
        let plain_part =
            server.telnet.output()[..boundary.unwrap_or(server.telnet.output().len())].to_vec();
        if server.telnet.output_is_compressed() {
            compressor.get_or_insert_default().compress(&plain_part, &mut sent_bytes);
            if boundary.is_some() {
                compressor.take().unwrap().finish(&mut sent_bytes);
            }
        } else {
            sent_bytes.extend_from_slice(&plain_part);
        }
        server.telnet.sent(plain_part.len());
    }
    sent_bytes
}

/// Returns a server's output that starts and ends compression, and the text that the user should
/// receive.
fn compressed_session() -> (Vec<u8>, &'static [u8]) {
    let allowed_options = OptionSet::of(&[OptionCode::COMPRESS2]);
    let mut server =
        End::server_with(&ServerSettings { allowed_options, ..ServerSettings::default() });
    let mut compressor = None;
    server.send(b"before\n");
    server.receive(&[IAC, 253, 86]);
    server.send(b"within\n");
    let mut stream = sent_by(&mut server, &mut compressor);
    server.send(&b"more of it \xff\xff, much more. ".repeat(9));
    stream.extend(sent_by(&mut server, &mut compressor));
    server.receive(&[IAC, 254, 86]);
    server.send(b"after\n");
    stream.extend(sent_by(&mut server, &mut compressor));
    assert!(compressor.is_none());
    (stream, b"before\nwithin\n")
}

fn compressing_user() -> End {
    let allowed_options = OptionSet::of(&[OptionCode::COMPRESS2]);
    End::user_with(&UserSettings { allowed_options, ..UserSettings::default() })
}

#[test]
fn compression_starts_and_ends_at_the_right_byte_at_any_split() {
    let (stream, start) = compressed_session();
    let expected = [start, &b"more of it \xff\xff, much more. ".repeat(9), b"after\n"].concat();
    for cut in 1..stream.len() {
        let mut user = compressing_user();
        let mut decompressor = Decompressor::default();
        let mut events = Vec::new();
        let (first, second) = stream.split_at(cut);
        receive_inflated(&mut user, &mut decompressor, first, &mut events);
        receive_inflated(&mut user, &mut decompressor, second, &mut events);
        let received_data: Vec<u8> = events
            .into_iter()
            .flat_map(|event| match event {
                OwnedEvent::Data(run) => run,
                OwnedEvent::Other(_) => vec![],
            })
            .collect();
        assert_eq!(received_data, expected, "cut at {cut}");
        assert!(!decompressor.is_on());
    }
}

#[test]
fn compression_does_not_start_without_agreement() {
    let mut user = compressing_user();
    assert_eq!(user.receive(&[IAC, SB, 86, IAC, SE, b'a']), [data(b"a")]);
    user.receive(&[IAC, 251, 86]);
    let events = user.receive(&[IAC, SB, 86, IAC, SE, IAC, SB, 86, IAC, SE]);
    assert_eq!(events, [other_event(Event::CompressionStarted)]);
    assert_eq!(End::user().receive(&[IAC, 251, 86]), []);
}

#[test]
fn with_mccp3_the_user_compresses() {
    let allowed_options = OptionSet::of(&[OptionCode::COMPRESS3]);
    let mut user = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
    let mut server =
        End::server_with(&ServerSettings { allowed_options, ..ServerSettings::default() });
    server.ask(Side::Local, OptionCode::COMPRESS3, true).unwrap();
    user.receive(&server.output());
    user.send(b"look\r");
    let plain_len = user.telnet.compression_boundary().unwrap();
    assert_eq!(user.telnet.output()[..plain_len], [IAC, 253, 87, IAC, SB, 87, IAC, SE]);
    let events = server.receive(&user.telnet.output()[..plain_len]);
    let expected =
        [enabled_event(Side::Local, OptionCode::COMPRESS3), other_event(Event::CompressionStarted)];
    assert_eq!(events, expected);
    user.telnet.sent(plain_len);
    assert!(user.telnet.output_is_compressed() && user.telnet.output() == b"look\r\n");
}

#[test]
fn mccp3_data_is_received_unchanged_at_any_split() {
    let allowed_options = OptionSet::of(&[OptionCode::COMPRESS3]);
    let mut wire = vec![IAC, 253, 87, IAC, SB, 87, IAC, SE];
    let mut compressor = Compressor::default();
    compressor.compress(b"look \xff\xff north\r\n", &mut wire);
    compressor.finish(&mut wire);
    wire.extend_from_slice(b"say plain\r\n");
    for cut in 0..=wire.len() {
        let mut server =
            End::server_with(&ServerSettings { allowed_options, ..ServerSettings::default() });
        server.ask(Side::Local, OptionCode::COMPRESS3, true).unwrap();
        let mut inflater = Decompressor::default();
        let mut received = Vec::new();
        for mut piece in [&wire[..cut], &wire[cut..]] {
            while !piece.is_empty() {
                let mut plain = [0; 7];
                let unread_piece = piece;
                let mut input = if inflater.is_on() {
                    let context = &mut server.context;
                    let count =
                        inflater.inflate(&mut piece, &mut plain, &mut context.cx()).unwrap();
                    &plain[..count]
                } else {
                    core::mem::take(&mut piece)
                };
                while let Some(event) = server.telnet.receive(&mut input, &mut server.context.cx())
                {
                    match event {
                        Event::Data(run) => received.extend_from_slice(run),
                        Event::CompressionStarted => {
                            inflater.start();
                            piece = &unread_piece[unread_piece.len() - input.len()..];
                            input = &[];
                        }
                        _ => {}
                    }
                }
            }
        }
        assert_eq!(received, b"look \xff north\r\nsay plain\r\n", "cut at {cut}");
    }
}

#[test]
fn a_server_acknowledges_keys_after_the_echo_delay() {
    let (mut user, mut server, ..) = settled_ends(&[OptionCode::ECHO_ACKNOWLEDGMENT]);
    user.send(b"ls\r\xff");
    assert_eq!(user.telnet.sent_position(), 5);
    settle(&mut user, &mut server);
    server.send(b"ls\r\n");
    let due = server.telnet.deadline().unwrap();
    server.context.now = due;
    server.telnet.timeout(&mut server.context.cx());
    let (user_events, _) = settle(&mut user, &mut server);
    assert_eq!(user_events, [data(b"ls\r\n"), other_event(Event::EchoAcknowledged(5))]);
    assert_eq!(server.telnet.deadline(), None);
}

proptest! {
    #[test]
    fn both_ends_count_the_same_bytes(
        pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0, 10, 13, 65, 255]), 0..9), 0..9),
        newline_to_cr: bool
    ) {
        let user = UserSettings::default();
        let allowed_options = ServerSettings::OPTIONS.with(OptionCode::ECHO_ACKNOWLEDGMENT);
        let settings = ServerSettings { newline_to_cr, allowed_options, ..ServerSettings::default() };
        let (mut user, mut server, ..) = ends_after_start(&user, &settings);
        for piece in &pieces {
            user.send(piece);
            settle(&mut user, &mut server);
        }
        server.context.advance_millis(50);
        server.telnet.timeout(&mut server.context.cx());
        let (user_events, _) = settle(&mut user, &mut server);
        let position = user.telnet.sent_position();
        let expected = if position == 0 { vec![] } else { vec![other_event(Event::EchoAcknowledged(position))] };
        prop_assert_eq!(user_events, expected);
    }
}

#[test]
fn authentication_and_encryption_are_refused_with_an_event() {
    let mut user = End::user();
    let events = user.receive(&[IAC, 253, 37, IAC, 251, 38, IAC, 253, 200]);
    let expected = [(Side::Local, OptionCode::AUTHENTICATION), (Side::Remote, OptionCode::ENCRYPT)]
        .map(|(side, option)| other_event(Event::Declined { side, option }));
    assert_eq!(events, expected);
    assert_eq!(user.output(), [IAC, 252, 37, IAC, 254, 38, IAC, 252, 200]);
}

#[test]
fn a_new_session_has_agreed_to_nothing() {
    let (user, ..) = settled_ends(&[OptionCode::LINEMODE]);
    assert!(user.telnet.is_enabled(Side::Local, OptionCode::LINEMODE));
    let new_session = Telnet::user(&UserSettings::default());
    assert!(
        new_session.options().all(|row| row.us == OptionState::No && row.him == OptionState::No)
    );
}

#[test]
fn the_inspector_records_each_request_with_its_origin_and_result() {
    let mut user = End::user();
    user.telnet.set_inspection(true);
    user.ask(Side::Local, OptionCode::NAWS, true).unwrap();
    user.receive(&[IAC, 253, 31, IAC, 251, 1, IAC, 253, 38, IAC, 246, IAC, 7, IAC, 253, 6]);
    user.receive(b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0\xff\xfa\x18\x09\x1b[2J\xff\xf0\xff\xfa\x26\x07\xff\xf0");
    let records = core::iter::from_fn(|| user.telnet.take_record());
    let lines: Vec<_> = records.map(|record| record.to_string()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    sent WILL NAWS (us: NO -> WANTYES EMPTY, asked by us)
    received DO NAWS (us: WANTYES EMPTY -> YES, asked by us)
    sent SB NAWS 80 columns, 24 rows (us: YES, him: NO)
    received WILL ECHO (him: NO -> YES, asked by him)
    sent DO ECHO (him: YES, asked by him)
    received DO ENCRYPT (us: NO, asked by him)
    sent WONT ENCRYPT (us: NO, asked by him)
    received AYT
    received undefined command 7
    received DO TIMING-MARK (us: NO, asked by him)
    sent WILL TIMING-MARK (us: NO, asked by him)
    received DO TERMINAL-TYPE (us: NO -> YES, asked by him)
    sent WILL TERMINAL-TYPE (us: YES, asked by him)
    received SB TERMINAL-TYPE SEND (us: YES, him: NO)
    sent SB TERMINAL-TYPE IS UNKNOWN (us: YES, him: NO)
    received SB TERMINAL-TYPE "\t\x1b[2J" (us: YES, him: NO)
    received SB ENCRYPT, skipped unread
    "#);
}

proptest! {
    #[test]
    fn any_input_is_displayed_without_control_characters(bytes in wire_bytes(400)) {
        let mut user = End::user_with(&UserSettings {
            allowed_options: OptionSet::of(&option::known().collect::<Vec<_>>()),
            ..UserSettings::default()
        });
        user.telnet.set_inspection(true);
        user.receive(&bytes);
        while let Some(record) = user.telnet.take_record() {
            prop_assert!(!record.to_string().chars().any(char::is_control));
        }
    }
}

#[test]
fn an_unread_inspector_keeps_the_newest_records() {
    let mut user = End::user();
    user.telnet.set_inspection(true);
    for _ in 0..1025 {
        user.receive(&[IAC, 241]);
    }
    user.receive(&[IAC, 246]);
    assert_eq!(user.context.counted(Counter::TelnetRecordsDropped), 2);
    let records: Vec<_> = core::iter::from_fn(|| user.telnet.take_record()).collect();
    assert_eq!(records.len(), 1024);
    assert_eq!(format!("{}", records[1023]), "received AYT");
}

#[test]
fn no_message_is_sent_for_a_disabled_option() {
    let (mut user, mut server, ..) = settled_ends(&[OptionCode::COM_PORT]);
    user.ask(Side::Local, OptionCode::COM_PORT, false).unwrap();
    let (_, server_events) = settle(&mut user, &mut server);
    assert_eq!(server_events, [disabled_event(Side::Remote, OptionCode::COM_PORT)]);
    let result = server.telnet.com_port(&ComPortCommand::Suspend, &mut server.context.cx());
    assert_eq!(result, Err(AskError::NotEnabled));
}

#[test]
fn the_inspector_records_sent_commands_and_timing_marks() {
    let mut user = End::user();
    user.telnet.set_inspection(true);
    user.command(Command::AreYouThere);
    user.telnet.urgent_command(Command::InterruptProcess, &mut user.context.cx());
    user.ask(Side::Remote, OptionCode::TIMING_MARK, true).unwrap();
    user.receive(&[IAC, 252, 6]);
    let records = core::iter::from_fn(|| user.telnet.take_record());
    let lines: Vec<_> = records.map(|record| record.to_string()).collect();
    let expected = [
        "sent AYT",
        "sent IP",
        "sent DM",
        "sent DO TIMING-MARK (him: NO, asked by us)",
        "received WONT TIMING-MARK (him: NO, asked by us)",
    ];
    assert_eq!(lines, expected);
}

/// Fills the output queue of an end without space for data until `free_bytes` are left.
fn fill_queue(end: &mut End, free_bytes: usize) {
    while output::COMMAND_RESERVE - end.telnet.output().len() > free_bytes {
        assert!(end.command(Command::NoOperation));
    }
}

#[test]
fn both_roles_request_start_tls_first() {
    let mut user = End::user_with(&UserSettings {
        allowed_options: UserSettings::OPTIONS.with(OptionCode::START_TLS),
        ..UserSettings::default()
    });
    let mut server = End::server_with(&ServerSettings {
        allowed_options: ServerSettings::OPTIONS.with(OptionCode::START_TLS),
        ..ServerSettings::default()
    });
    for (end, verb) in [(&mut user, 251), (&mut server, 253)] {
        end.telnet.start(&mut end.context.cx());
        assert_eq!(end.output()[..3], [IAC, verb, 46]);
    }
}

#[test]
fn data_after_the_local_follows_is_counted_as_refused() {
    for (mut end, _) in ends_after_follows() {
        assert_eq!(end.send(b"clear"), 0);
        assert_eq!(end.context.counted(Counter::TelnetOutputRefused), 5);
    }
}

#[test]
fn tls_does_not_start_if_the_local_follows_did_not_fit() {
    let mut user = End::user_with(&UserSettings {
        allowed_options: OptionSet::of(&[OptionCode::START_TLS]),
        output_limit_bytes: 0,
        ..UserSettings::default()
    });
    fill_queue(&mut user, 4);
    let events = user.receive(&[IAC, 253, 46]);
    assert_eq!(events, [enabled_event(Side::Local, OptionCode::START_TLS)]);
    assert_eq!(user.receive(&[IAC, SB, 46, 1, IAC, SE, b'a']), [data(b"a")]);
    assert_eq!(user.context.counted(Counter::TelnetSubnegotiationsWrong), 1);
}

#[test]
fn the_list_of_terminal_names_restarts_when_the_option_is_enabled_again() {
    let mut user = End::user_with(&UserSettings {
        terminal_type: "xterm".into(),
        other_terminal_types: vec!["vt100".into()],
        ..UserSettings::default()
    });
    for _ in 0..2 {
        user.receive(&[IAC, 253, 24]);
        user.output();
        user.receive(&[IAC, SB, 24, 1, IAC, SE]);
        assert_eq!(user.output(), b"\xff\xfa\x18\x00xterm\xff\xf0");
        user.receive(&[IAC, 254, 24]);
        user.output();
    }
}

#[test]
fn compression_that_did_not_start_does_not_end() {
    let mut server = End::server_with(&ServerSettings {
        allowed_options: OptionSet::of(&[OptionCode::COMPRESS2]),
        output_limit_bytes: 0,
        ..ServerSettings::default()
    });
    fill_queue(&mut server, 4);
    let events = server.receive(&[IAC, 253, 86]);
    assert_eq!(events, [enabled_event(Side::Local, OptionCode::COMPRESS2)]);
    server.output();
    server.receive(&[IAC, 254, 86]);
    assert_eq!(server.telnet.output(), [IAC, 252, 86]);
    assert_eq!(server.telnet.compression_boundary(), None);
}

#[test]
fn the_end_of_compression_is_marked_and_not_counted_as_refused() {
    let allowed_options = OptionSet::of(&[OptionCode::COMPRESS2]);
    let mut server =
        End::server_with(&ServerSettings { allowed_options, ..ServerSettings::default() });
    server.receive(&[IAC, 253, 86]);
    server.output();
    server.receive(&[IAC, 254, 86]);
    assert_eq!(server.telnet.compression_boundary(), Some(3));
    assert_eq!(server.context.counted(Counter::TelnetOutputRefused), 0);
}

#[test]
fn no_special_character_changes_while_linemode_is_being_disabled() {
    let (mut user, ..) = settled_ends(&[OptionCode::LINEMODE]);
    user.ask(Side::Local, OptionCode::LINEMODE, false).unwrap();
    let backspace = SpecialCharacter::variable(8);
    let result =
        user.telnet.set_special_character(SlcFunction::EC, backspace, &mut user.context.cx());
    assert_eq!(result, Err(AskError::NotEnabled));
    let characters = user.telnet.linemode().unwrap().characters();
    assert_eq!(characters.get(SlcFunction::EC).character(), Some(0x7f));
}
