//! Tests of the output and the events of each end, byte by byte, and property tests with random
//! bytes and requests.

use super::command::{SB, SE};
use super::*;
use alloc::format;
use alloc::vec::Vec;
use net::cx::OwnedCx;
use proptest::prelude::*;
use std::vec;

/// One end with its own test context.
pub(super) struct End {
    pub(super) telnet: Telnet,
    pub(super) context: OwnedCx,
}

/// An event that owns its data; data of adjacent runs is joined.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OwnedEvent {
    Data(Vec<u8>),
    Other(Event<'static>),
}

impl End {
    pub(super) fn user() -> Self {
        Self { telnet: Telnet::user(&UserSettings::default()), context: OwnedCx::default() }
    }

    pub(super) fn server() -> Self {
        Self { telnet: Telnet::server(&ServerSettings::default()), context: OwnedCx::default() }
    }

    pub(super) fn user_with(settings: &UserSettings) -> Self {
        Self { telnet: Telnet::user(settings), ..Self::user() }
    }

    pub(super) fn server_with(settings: &ServerSettings) -> Self {
        Self { telnet: Telnet::server(settings), ..Self::server() }
    }

    /// Returns an end that has agreed to BINARY in both directions.
    pub(super) fn in_binary() -> Self {
        let mut end = Self::user();
        end.receive(&[IAC, 251, 0, IAC, 253, 0]);
        end.output();
        end
    }

    /// Receives `input`, and returns the events. The data of adjacent runs is joined.
    pub(super) fn receive(&mut self, input: &[u8]) -> Vec<OwnedEvent> {
        let mut events = Vec::new();
        self.receive_more(input, &mut events);
        events
    }

    pub(super) fn receive_more(&mut self, input: &[u8], events: &mut Vec<OwnedEvent>) {
        // An event of input that is never freed borrows nothing from the caller.
        let mut input: &'static [u8] = input.to_vec().leak();
        while let Some(event) = self.telnet.receive(&mut input, &mut self.context.cx()) {
            match (event, events.last_mut()) {
                (Event::Data(run), Some(OwnedEvent::Data(data))) => data.extend_from_slice(run),
                (Event::Data(run), _) => events.push(OwnedEvent::Data(run.to_vec())),
                (other, _) => events.push(OwnedEvent::Other(other)),
            }
        }
        assert!(input.is_empty());
    }

    /// Returns all queued output and marks it as sent.
    pub(super) fn output(&mut self) -> Vec<u8> {
        let output = self.telnet.output().to_vec();
        self.telnet.sent(output.len());
        output
    }

    pub(super) fn send(&mut self, data: &[u8]) -> usize {
        self.telnet.send(data, &mut self.context.cx())
    }

    pub(super) fn ask(
        &mut self,
        side: Side,
        option: OptionCode,
        enable: bool,
    ) -> Result<(), AskError> {
        self.telnet.ask(side, option, enable, &mut self.context.cx())
    }

    pub(super) fn command(&mut self, command: Command) -> bool {
        self.telnet.command(command, &mut self.context.cx())
    }
}

pub(super) fn data(bytes: &[u8]) -> OwnedEvent {
    OwnedEvent::Data(bytes.to_vec())
}

pub(super) fn command(command: Command) -> OwnedEvent {
    OwnedEvent::Other(Event::Command(command))
}

pub(super) fn enabled_event(side: Side, option: OptionCode) -> OwnedEvent {
    OwnedEvent::Other(Event::Option { side, option, enabled: true })
}

pub(super) fn disabled_event(side: Side, option: OptionCode) -> OwnedEvent {
    OwnedEvent::Other(Event::Option { side, option, enabled: false })
}

fn decode_runs(input: &[u8]) -> Vec<Vec<u8>> {
    let mut end = End::user();
    let mut rest = input;
    let mut decode_runs = Vec::new();
    while let Some(event) = end.telnet.receive(&mut rest, &mut end.context.cx()) {
        let Event::Data(run) = event else { panic!("{event:?} is no data") };
        decode_runs.push(run.to_vec());
    }
    decode_runs
}

/// Passes bytes between both ends until nothing is queued, and returns the events of each. Fails if
/// there are more rounds than any valid exchange needs.
pub(super) fn settle(user: &mut End, server: &mut End) -> (Vec<OwnedEvent>, Vec<OwnedEvent>) {
    let mut user_events = Vec::new();
    let mut server_events = Vec::new();
    let is_quiet = (0..100).any(|_| {
        let to_server = user.output();
        let to_user = server.output();
        server.receive_more(&to_server, &mut server_events);
        user.receive_more(&to_user, &mut user_events);
        to_server.is_empty() && to_user.is_empty()
    });
    assert!(is_quiet, "user and server never stop sending messages");
    (user_events, server_events)
}

/// Generates bytes among which the codes of Telnet are frequent.
pub(super) fn wire_bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let telnet_code = prop::sample::select(vec![
        0, 1, 3, 5, 6, 10, 13, 24, 31, 39, 65, 240, 241, 242, 245, 247, 250, 251, 252, 253, 254,
    ]);
    let byte = prop_oneof![4 => Just(IAC), 8 => telnet_code, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..len_max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_decode_the_same_at_any_split(
        bytes in wire_bytes(400),
        cuts in prop::collection::vec(1..9_usize, 1..20),
        is_user: bool
    ) {
        let new_end = || if is_user { End::user() } else { End::server() };
        let mut unsplit_end = new_end();
        let mut split_end = new_end();
        let expected = unsplit_end.receive(&bytes);
        let mut events = Vec::new();
        let mut rest = &bytes[..];
        let mut sizes = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            split_end.receive_more(piece, &mut events);
            rest = more;
        }
        prop_assert_eq!(events, expected);
        prop_assert_eq!(split_end.telnet.output(), unsplit_end.telnet.output());
        prop_assert_eq!(split_end.context.meter.units(Work::TelnetByte), unsplit_end.context.meter.units(Work::TelnetByte));
    }

    // req RFC1123:3.2.7-MUST-1
    #[test]
    fn any_bytes_are_received_unchanged_in_binary(bytes in wire_bytes(400)) {
        let mut sender = End::in_binary();
        let mut receiver = End::in_binary();
        prop_assert_eq!(sender.send(&bytes), bytes.len());
        let expected = if bytes.is_empty() { vec![] } else { vec![data(&bytes)] };
        prop_assert_eq!(receiver.receive(&sender.output()), expected);
    }

    #[test]
    fn any_bytes_are_received_unchanged_in_nvt_at_any_split(bytes in wire_bytes(400), at: prop::sample::Index) {
        let mut sender = End::server();
        let mut receiver = End::user();
        let (first, second) = bytes.split_at(at.index(bytes.len() + 1));
        sender.send(first);
        sender.send(second);
        let expected = if bytes.is_empty() { vec![] } else { vec![data(&bytes)] };
        prop_assert_eq!(receiver.receive(&sender.output()), expected);
    }

    // req RFC1123:3.2.1-MUST-1, RFC1123:3.2.1-MUST-2
    #[test]
    fn two_ends_with_any_requests_in_any_order_reach_the_same_state(
        steps in prop::collection::vec(
            (any::<bool>(), any::<bool>(), 0..option::KNOWN_COUNT, any::<bool>(), 0..9_usize, 0..9_usize),
            0..60
        )
    ) {
        let mut user = End::user();
        let mut server = End::server();
        let request_count = steps.len() as u64;
        let known_options = option::known().collect::<Vec<_>>();
        for (is_user, is_ours, option, enable, up, down) in steps {
            let side = if is_ours { Side::Local } else { Side::Remote };
            let end = if is_user { &mut user } else { &mut server };
            _ = end.ask(side, known_options[option], enable);
            let to_server: Vec<u8> = user.telnet.output().iter().copied().take(up).collect();
            user.telnet.sent(to_server.len());
            server.receive(&to_server);
            let to_user: Vec<u8> = server.telnet.output().iter().copied().take(down).collect();
            server.telnet.sent(to_user.len());
            user.receive(&to_user);
        }
        settle(&mut user, &mut server);
        prop_assert!(user.telnet.negotiation_is_quiet() && server.telnet.negotiation_is_quiet());
        for (user_row, server_row) in user.telnet.options().zip(server.telnet.options()) {
            prop_assert_eq!((user_row.us, user_row.him), (server_row.him, server_row.us));
        }
        // The counter includes requests, answers, and the subnegotiations that follow a change of
        // the terminal type or window option.
        let output = user.context.counted(Counter::TelnetNegotiationsOut)
            + server.context.counted(Counter::TelnetNegotiationsOut);
        prop_assert!(output <= 4 * request_count);
    }
}

// req RFC1123:3.2.6-MUST-1, RFC1123:3.2.5-MUST-1
#[test]
fn every_byte_value_is_received_unchanged_in_nvt() {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut sender = End::server();
    let mut receiver = End::user();
    assert_eq!(sender.send(&bytes), 256);
    assert_eq!(receiver.receive(&sender.output()), [data(&bytes)]);
}

#[test]
fn every_byte_value_is_received_unchanged_in_binary() {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut sender = End::in_binary();
    let mut receiver = End::in_binary();
    assert_eq!(sender.send(&bytes), 256);
    assert_eq!(receiver.receive(&sender.output()), [data(&bytes)]);
}

#[test]
fn a_run_of_data_ends_with_the_line() {
    assert_eq!(decode_runs(b"one\r\ntwo\r\nthree"), [&b"one\r\n"[..], b"two\r\n", b"three"]);
}

#[test]
fn a_run_of_data_continues_after_a_line_end_if_set() {
    let mut telnet = Telnet::user(&UserSettings::default());
    telnet.run_over_lines();
    let mut context = OwnedCx::default();
    let mut input = &b"one\r\ntwo\r\0three\xff\xf1four"[..];
    assert_eq!(telnet.receive(&mut input, &mut context.cx()), Some(Event::Data(b"one\r\ntwo\r")));
    assert_eq!(telnet.receive(&mut input, &mut context.cx()), Some(Event::Data(b"three")));
}

#[test]
fn a_nul_after_cr_in_the_content_of_a_file_is_reported() {
    let End { mut telnet, mut context } = End::user();
    telnet.set_file_content(true);
    let mut events = Vec::new();
    for piece in [&b"a\r"[..], b"\0b\r\n\r\0", b"\0c"] {
        let mut input = piece;
        while let Some(event) = telnet.receive(&mut input, &mut context.cx()) {
            events.push(format!("{event:?}"));
        }
    }
    let data = |bytes: &[u8]| format!("{:?}", Event::Data(bytes));
    let nul = format!("{:?}", Event::NulAfterCr);
    let expected = [data(b"a\r"), nul.clone(), data(b"b\r\n"), data(b"\r"), nul, data(b"\0c")];
    assert_eq!(events, expected);
    telnet.set_file_content(false);
    let mut input: &[u8] = b"\r\0d";
    assert_eq!(telnet.receive(&mut input, &mut context.cx()), Some(Event::Data(b"\r")));
    assert_eq!(telnet.receive(&mut input, &mut context.cx()), Some(Event::Data(b"d")));
}

#[test]
fn cr_nul_is_decoded_as_cr_and_a_bare_cr_is_unchanged() {
    assert_eq!(decode_runs(b"a\r\0b\rc\r\r\nd\0"), [&b"a\r"[..], b"b\rc\r\r\n", b"d\0"]);
}

#[test]
fn a_doubled_iac_is_one_byte_of_data_at_the_start_of_a_run() {
    assert_eq!(
        decode_runs(b"ab\xff\xffcd\xff\xff\xff\xff"),
        [&b"ab"[..], b"\xffcd", b"\xff", b"\xff"]
    );
}

#[test]
fn runs_are_borrowed_from_the_input() {
    let mut end = End::user();
    let text = *b"not copied";
    let mut input = &text[..];
    let event = end.telnet.receive(&mut input, &mut end.context.cx());
    let Some(Event::Data(run)) = event else { panic!("{event:?} is no data") };
    assert_eq!(run.as_ptr(), text.as_ptr());
}

#[test]
fn a_run_is_charged_once_and_the_previous_cpu_account_is_restored() {
    let mut end = End::user();
    end.context.meter.enter(Account::Terminal);
    end.receive(b"one\r\ntwo");
    end.send(b"four");
    assert_eq!(end.context.meter.units(Work::TelnetByte), 12);
    assert_eq!(end.context.meter.enter(Account::Outside), Account::Terminal);
}

// req RFC1123:3.3.1-MUST-3
#[test]
fn a_line_end_is_sent_as_configured() {
    let sent = [EndOfLine::CrLf, EndOfLine::CrNul, EndOfLine::Lf].map(|end_of_line| {
        let mut end = End::user_with(&UserSettings { end_of_line, ..UserSettings::default() });
        end.send(b"a\rb\r\nc\nd\xff");
        end.output()
    });
    let expected =
        [&b"a\r\nb\r\nc\nd\xff\xff"[..], b"a\r\0b\r\nc\nd\xff\xff", b"a\nb\r\nc\nd\xff\xff"];
    assert_eq!(sent, expected);
}

// req RFC1123:3.2.7-MUST-1, RFC1123:3.2.7-MUST-3
#[test]
fn in_binary_only_iac_is_changed() {
    let mut end = End::in_binary();
    end.send(b"a\rb\r\nc\xff");
    assert_eq!(end.output(), b"a\rb\r\nc\xff\xff");
    assert_eq!(end.receive(b"a\r\0b\r\n"), [data(b"a\r\0b\r\n")]);
}

#[test]
fn binary_ends_in_each_direction_when_its_sender_sends_wont() {
    let mut end = End::in_binary();
    end.ask(Side::Local, OptionCode::BINARY, false).unwrap();
    end.ask(Side::Remote, OptionCode::BINARY, false).unwrap();
    end.send(b"\r");
    assert_eq!(end.output(), b"\xff\xfc\x00\xff\xfe\x00\r\n");
    let events = end.receive(b"\r\0\xff\xfc\x00\r\0");
    assert_eq!(
        events,
        [data(b"\r\0"), disabled_event(Side::Remote, OptionCode::BINARY), data(b"\r")]
    );
}

#[test]
fn output_over_the_limit_is_refused_and_counted() {
    let mut end =
        End::user_with(&UserSettings { output_limit_bytes: 5, ..UserSettings::default() });
    assert_eq!(end.send(b"ab\xff\xffc"), 3);
    assert_eq!(end.output(), b"ab\xff\xff");
    assert_eq!(end.context.counted(Counter::TelnetOutputRefused), 2);
    assert_eq!(end.send(b"\xffc"), 2);
}

#[test]
fn a_user_offers_terminal_type_and_window_size_and_suppress_go_ahead() {
    let mut end = End::user();
    end.telnet.start(&mut end.context.cx());
    assert_eq!(end.output(), [IAC, 251, 24, IAC, 251, 31, IAC, 253, 3, IAC, 251, 3]);
    assert!(!end.telnet.negotiation_is_quiet());
}

#[test]
fn a_user_configured_to_wait_sends_nothing_first() {
    let settings = UserSettings { starts_negotiation: false, ..UserSettings::default() };
    let mut end = End::user_with(&settings);
    end.telnet.start(&mut end.context.cx());
    assert_eq!(end.output(), []);
}

#[test]
fn user_and_server_agree_on_remote_echo_terminal_type_and_window_size() {
    let mut user = End::user();
    let mut server = End::server();
    user.telnet.start(&mut user.context.cx());
    server.telnet.start(&mut server.context.cx());
    assert!(user.telnet.echoes_locally());
    let (_, server_events) = settle(&mut user, &mut server);
    assert!(!user.telnet.echoes_locally() && user.telnet.negotiation_is_quiet());
    let window = Event::WindowSize { columns: 80, rows: 24 };
    assert!(server_events.contains(&OwnedEvent::Other(window)));
    assert!(server_events.contains(&OwnedEvent::Other(Event::TerminalType("UNKNOWN".into()))));
}

// req RFC1123:3.2.1-MUST-2
#[test]
fn a_request_for_an_enabled_option_is_not_answered() {
    let mut end = End::user();
    assert_eq!(end.receive(&[IAC, 251, 1]), [enabled_event(Side::Remote, OptionCode::ECHO)]);
    assert_eq!(end.output(), [IAC, 253, 1]);
    assert_eq!(end.receive(&[IAC, 251, 1]), []);
    assert_eq!(end.output(), []);
    assert_eq!(end.receive(&[IAC, 252, 1]), [disabled_event(Side::Remote, OptionCode::ECHO)]);
    assert_eq!(end.output(), [IAC, 254, 1]);
}

#[test]
fn a_refused_request_causes_an_event_and_no_output() {
    let mut end = End::user();
    end.ask(Side::Remote, OptionCode::ECHO, true).unwrap();
    assert_eq!(end.output(), [IAC, 253, 1]);
    let refusal = Event::Refused { side: Side::Remote, option: OptionCode::ECHO };
    assert_eq!(end.receive(&[IAC, 252, 1]), [OwnedEvent::Other(refusal)]);
    assert_eq!(end.output(), []);
}

// req RFC1123:3.2.1-MUST-3
#[test]
fn an_unsupported_option_is_neither_requested_nor_accepted() {
    let mut end = End::user();
    assert_eq!(end.ask(Side::Local, OptionCode::ECHO, true), Err(AskError::NotSupported));
    assert_eq!(end.ask(Side::Local, OptionCode::NEW_ENVIRON, true), Err(AskError::NotSupported));
    assert_eq!(end.receive(&[IAC, 253, 1, IAC, 251, 31, IAC, 251, 200]), []);
    assert_eq!(end.output(), [IAC, 252, 1, IAC, 254, 31, IAC, 254, 200]);
    assert_eq!(end.context.counted(Counter::TelnetOptionsRefused), 3);
}

#[test]
fn a_full_queue_leaves_the_state_unchanged() {
    let mut end =
        End::user_with(&UserSettings { output_limit_bytes: 0, ..UserSettings::default() });
    while end.command(Command::NoOperation) {}
    let ask_result = end.ask(Side::Remote, OptionCode::ECHO, true);
    assert_eq!(ask_result, Err(AskError::OutputFull));
    assert_eq!(end.receive(&[IAC, 251, 1]), []);
    assert!(end.telnet.negotiation_is_quiet() && end.telnet.echoes_locally());
}

#[test]
fn the_terminal_type_is_sent_as_often_as_it_is_requested() {
    let settings = UserSettings { terminal_type: "xterm-256color".into(), ..Default::default() };
    let mut end = End::user_with(&settings);
    end.receive(&[IAC, 253, 24]);
    end.output();
    end.receive(&[IAC, SB, 24, 1, IAC, SE, IAC, SB, 24, 1, IAC, SE]);
    let expected = b"\xff\xfa\x18\x00xterm-256color\xff\xf0".repeat(2);
    assert_eq!(end.output(), expected);
}

// req RFC1123:3.2.8-MUST-1
#[test]
fn the_terminal_type_is_sent_in_upper_case_if_configured() {
    let settings = UserSettings {
        terminal_type: "vt100".into(),
        uppercases_terminal_type: true,
        ..Default::default()
    };
    let mut end = End::user_with(&settings);
    end.receive(&[IAC, 253, 24, IAC, SB, 24, 1, IAC, SE]);
    assert_eq!(end.output(), b"\xff\xfb\x18\xff\xfa\x18\x00VT100\xff\xf0");
}

#[test]
fn a_window_of_255_columns_is_sent_with_the_255_doubled() {
    let mut end = End::user_with(&UserSettings { window: (255, 24), ..UserSettings::default() });
    end.receive(&[IAC, 253, 31]);
    assert_eq!(end.output(), [IAC, 251, 31, IAC, SB, 31, 0, 255, 255, 0, 24, IAC, SE]);
}

#[test]
fn a_new_window_size_is_sent_once_and_only_while_enabled() {
    let mut end = End::user();
    end.telnet.resize(100, 30, &mut end.context.cx());
    assert_eq!(end.output(), []);
    end.receive(&[IAC, 253, 31]);
    assert_eq!(end.output(), [IAC, 251, 31, IAC, SB, 31, 0, 100, 0, 30, IAC, SE]);
    end.telnet.resize(100, 30, &mut end.context.cx());
    assert_eq!(end.output(), []);
    end.telnet.resize(65_535, 1, &mut end.context.cx());
    assert_eq!(end.output(), [IAC, SB, 31, 255, 255, 255, 255, 0, 1, IAC, SE]);
}

#[test]
fn status_reports_both_sides_of_every_option() {
    let mut end = End::user();
    end.receive(&[IAC, 253, 5, IAC, 251, 1, IAC, 251, 3, IAC, 253, 3]);
    end.output();
    end.receive(&[IAC, SB, 5, 1, IAC, SE]);
    let expected = [IAC, SB, 5, 0, 253, 1, 251, 3, 253, 3, 251, 5, IAC, SE];
    assert_eq!(end.output(), expected);
}

#[test]
fn the_status_of_the_peer_is_reported_from_the_local_point_of_view() {
    let mut user = End::user();
    let mut server = End::server();
    let early_result = user.telnet.ask_status(&mut user.context.cx());
    assert_eq!(early_result, Err(AskError::NotEnabled));
    server.ask(Side::Local, OptionCode::STATUS, true).unwrap();
    server.ask(Side::Local, OptionCode::ECHO, true).unwrap();
    server.ask(Side::Remote, OptionCode::BINARY, true).unwrap();
    settle(&mut user, &mut server);
    user.telnet.ask_status(&mut user.context.cx()).unwrap();
    let (user_events, _) = settle(&mut user, &mut server);
    let enabled = [
        (Side::Local, OptionCode::BINARY),
        (Side::Remote, OptionCode::ECHO),
        (Side::Remote, OptionCode::STATUS),
    ];
    assert_eq!(user_events, [OwnedEvent::Other(Event::Status(enabled.to_vec()))]);
}

#[test]
fn the_answer_to_a_timing_mark_follows_all_earlier_output() {
    let mut end = End::user();
    end.send(b"echoed");
    end.receive(&[IAC, 253, 6]);
    assert_eq!(end.output(), b"echoed\xff\xfb\x06");
}

#[test]
fn each_requested_timing_mark_has_one_answer_and_others_are_ignored() {
    let mut end = End::user();
    end.ask(Side::Remote, OptionCode::TIMING_MARK, true).unwrap();
    end.ask(Side::Remote, OptionCode::TIMING_MARK, true).unwrap();
    assert_eq!(end.output(), [IAC, 253, 6, IAC, 253, 6]);
    let events = end.receive(&[IAC, 251, 6, IAC, 252, 6, IAC, 251, 6]);
    let marks = [true, false].map(|agreed| OwnedEvent::Other(Event::TimingMark { agreed }));
    assert_eq!(events, marks);
    assert_eq!(end.output(), []);
}

// req RFC1123:3.2.3-MUST-1
#[test]
fn every_command_is_sent_and_received() {
    let mut sender = End::user();
    let mut receiver = End::user();
    assert!(Command::ALL.iter().all(|command| sender.command(*command)));
    let events = receiver.receive(&sender.output());
    assert_eq!(events, Command::ALL.iter().copied().map(command).collect::<Vec<_>>());
    let count = u64::try_from(Command::ALL.len()).unwrap();
    assert_eq!(receiver.context.counted(Counter::TelnetCommandsIn), count);
}

// req RFC1123:3.2.3-MUST-2
#[test]
fn an_unknown_command_is_counted_and_ignored() {
    let mut end = End::user();
    assert_eq!(end.receive(b"a\xff\x01b\xff\xf0c"), [data(b"abc")]);
    assert_eq!(end.context.counted(Counter::TelnetCommandsUnknown), 2);
}

#[test]
fn a_subnegotiation_without_its_end_stops_at_the_next_command() {
    let mut end = End::user();
    let events = end.receive(b"\xff\xfa\x18\x01\xff\xf6a\xff\xfa\xff\xf0b");
    assert_eq!(events, [command(Command::AreYouThere), data(b"ab")]);
    assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsWrong), 2);
}

#[test]
fn a_terminal_type_without_agreement_is_not_sent() {
    let mut end = End::user();
    end.receive(&[IAC, SB, 24, 1, IAC, SE]);
    assert_eq!(end.output(), []);
    assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsWrong), 1);
}

// req RFC1123:3.2.4-MUST-1
#[test]
fn a_synch_discards_data_but_not_commands_until_the_data_mark() {
    let mut end = End::user();
    end.telnet.urgent();
    let events = end.receive(b"old\xff\xf7\xff\xf6older\xff\xfb\x01\xff\xf2new");
    let expected = [
        command(Command::AreYouThere),
        enabled_event(Side::Remote, OptionCode::ECHO),
        command(Command::DataMark),
        data(b"new"),
    ];
    assert_eq!(events, expected);
    assert_eq!(end.context.counted(Counter::TelnetBytesDiscarded), 8);
}

#[test]
fn a_data_mark_without_urgent_notice_discards_nothing() {
    let mut end = End::user();
    assert_eq!(end.receive(b"a\xff\xf2b"), [data(b"a"), command(Command::DataMark), data(b"b")]);
    assert!(!end.telnet.is_discarding());
}

#[test]
fn an_urgent_notice_after_its_data_mark_discards_nothing() {
    let mut end = End::user();
    end.receive(b"a\xff\xf2b");
    end.telnet.urgent();
    assert_eq!(end.receive(b"c"), [data(b"c")]);
    end.telnet.urgent();
    assert_eq!(end.receive(b"old\xff\xf2new"), [command(Command::DataMark), data(b"new")]);
}

#[test]
fn a_data_mark_is_remembered_for_at_most_one_window_of_data() {
    let mut end = End::user();
    end.receive(b"\xff\xf2");
    end.receive(&[b'x'; 65_536]);
    end.telnet.urgent();
    assert!(end.telnet.is_discarding());
}

#[test]
fn the_end_of_urgent_data_clears_a_remembered_data_mark() {
    let mut end = End::user();
    end.receive(b"\xff\xf2");
    end.telnet.urgent_ended();
    end.telnet.urgent();
    assert!(end.telnet.is_discarding());
}

#[test]
fn urgent_data_announced_again_after_the_data_mark_is_another_synch() {
    let mut end = End::user();
    end.telnet.urgent();
    end.telnet.urgent();
    assert_eq!(end.receive(b"a\xff\xf2"), [command(Command::DataMark)]);
    end.telnet.urgent();
    assert_eq!(end.receive(b"b\xff\xf2c"), [command(Command::DataMark), data(b"c")]);
}

#[test]
fn a_data_mark_shortly_after_the_urgent_data_ends_the_synch() {
    let mut end = End::user();
    end.telnet.urgent();
    end.receive(b"old\xff");
    end.telnet.urgent_ended();
    assert_eq!(end.receive(b"\xf2new"), [command(Command::DataMark), data(b"new")]);
}

#[test]
fn the_user_resumes_reading_after_urgent_data_without_a_data_mark() {
    let mut end = End::user();
    end.telnet.urgent();
    end.receive(b"urgent");
    end.telnet.urgent_ended();
    assert_eq!(end.receive(&[b'x'; 300]), [data(&[b'x'; 300 - synch::TAIL_LIMIT])]);
    assert_eq!(end.context.counted(Counter::TelnetBytesDiscarded), 6 + 256);
}

#[test]
fn an_interrupt_with_synch_is_sent_as_urgent_data_up_to_the_data_mark() {
    let mut end = End::user();
    end.send(b"ls");
    end.command(Command::InterruptProcess);
    end.command(Command::DataMark);
    end.send(b"more");
    assert_eq!(end.telnet.output(), b"ls\xff\xf4\xff\xf2more");
    assert_eq!(end.telnet.urgent_mark(), Some(6));
    end.telnet.sent(6);
    assert_eq!(end.telnet.urgent_mark(), None);
}

#[test]
fn an_urgent_command_is_followed_by_its_data_mark_or_not_queued() {
    let mut end = End::user();
    let send = |end: &mut End| end.telnet.urgent_command(Command::Break, &mut end.context.cx());
    assert!(send(&mut end));
    assert_eq!(end.telnet.output(), b"\xff\xf3\xff\xf2");
    assert_eq!(end.telnet.urgent_mark(), Some(4));
    while send(&mut end) {}
    assert_eq!(end.telnet.urgent_mark(), Some(end.telnet.output().len()));
    assert!(end.telnet.output().ends_with(b"\xff\xf2"));
}

// req RFC1123:3.2.4-MUST-2
#[test]
fn a_server_answers_abort_output_by_synch() {
    let mut end = End::server();
    assert_eq!(end.receive(b"\xff\xf5"), [command(Command::AbortOutput)]);
    assert_eq!(end.telnet.urgent_mark(), Some(2));
    assert_eq!(end.output(), b"\xff\xf2");
}

#[test]
fn a_user_does_not_answer_abort_output() {
    let mut end = End::user();
    assert_eq!(end.receive(b"\xff\xf5"), [command(Command::AbortOutput)]);
    assert_eq!((end.telnet.urgent_mark(), end.output()), (None, vec![]));
}

#[test]
fn the_state_of_an_option_is_displayed_as_in_rfc_1143() {
    let displayed = [OptionCode::BINARY, OptionCode::ECHO, OptionCode::NAWS];
    let mut end = End::user();
    end.ask(Side::Local, OptionCode::NAWS, true).unwrap();
    end.receive(&[IAC, 251, 1]);
    let table: Vec<_> = end
        .telnet
        .options()
        .filter(|row| displayed.contains(&row.option))
        .map(|row| std::format!("{:<20}{:<14}{}", row.option, row.us, row.him))
        .collect();
    insta::assert_snapshot!(table.join("\n"), @"
    BINARY              NO            NO
    ECHO                NO            YES
    NAWS                WANTYES EMPTY NO
    ");
}

#[test]
fn only_a_data_mark_makes_the_queued_output_urgent() {
    let mut end = End::user();
    assert!(end.command(Command::InterruptProcess));
    assert_eq!(end.telnet.urgent_mark(), None);
    assert!(end.command(Command::DataMark));
    assert_eq!(end.telnet.urgent_mark(), Some(4));
}

#[test]
fn an_urgent_command_that_does_not_fit_is_not_recorded() {
    let mut end =
        End::user_with(&UserSettings { output_limit_bytes: 0, ..UserSettings::default() });
    while end.command(Command::NoOperation) {}
    end.telnet.set_inspection(true);
    assert!(!end.telnet.urgent_command(Command::InterruptProcess, &mut end.context.cx()));
    assert_eq!(end.telnet.take_record(), None);
    assert_eq!(end.telnet.urgent_mark(), None);
}

#[test]
fn every_received_request_and_answer_is_counted() {
    let mut end = End::user();
    end.receive(&[IAC, 251, 1, IAC, 253, 200, IAC, 253, 6]);
    assert_eq!(end.context.counted(Counter::TelnetNegotiationsIn), 3);
}

#[test]
fn the_data_after_the_urgent_data_is_discarded_up_to_the_limit_in_any_number_of_runs() {
    let mut end = End::user();
    end.telnet.urgent();
    end.telnet.urgent_ended();
    assert_eq!(end.receive(&[b'x'; synch::TAIL_LIMIT - 1]), []);
    assert_eq!(end.receive(b"yz"), [data(b"z")]);
}

#[test]
fn discarding_ends_with_the_last_byte_of_the_limit() {
    let mut end = End::user();
    end.telnet.urgent();
    end.telnet.urgent_ended();
    assert_eq!(end.receive(&[b'x'; synch::TAIL_LIMIT]), []);
    assert!(!end.telnet.is_discarding());
}
