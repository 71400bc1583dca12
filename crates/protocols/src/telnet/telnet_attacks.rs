//! Known attacks on Telnet implementations, run against this implementation. Each test names its
//! row of the attack table.

use super::command::{SB, SE};
use super::output::COMMAND_RESERVE;
use super::tests::{End, OwnedEvent, command, data};
use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use net::rng::Rng;
use proptest::prelude::*;
use std::vec;

/// Returns IAC SB, `option`, `content`, IAC SE, without doubling any byte.
fn raw_subnegotiation(option: OptionCode, content: &[u8]) -> Vec<u8> {
    [&[IAC, SB, option.0], content, &[IAC, SE]].concat()
}

// attack row 48
#[test]
fn row_48_a_key_id_of_64_kib_for_encrypt_is_refused_and_skipped() {
    let mut end = End::user();
    end.receive(&[IAC, 253, 38]);
    assert_eq!(end.output(), [IAC, 252, 38]);
    end.receive(&raw_subnegotiation(OptionCode::ENCRYPT, &[7; 65_536]));
    assert_eq!(end.telnet.decoder.subnegotiation(), Some((OptionCode::ENCRYPT, &[][..])));
    assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsTooLong), 1);
    assert_eq!((end.output(), end.receive(b"alive")), (vec![], vec![data(b"alive")]));
}

/// Input with every kind of command, and with IAC and CR at each position where they may occur.
const EVERY_KIND_OF_COMMAND: &[u8] =
    b"a\r\0b\r\nc\xff\xff\xff\xf6\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0\r\
    \xff\xfa\x27\xff\xff\x01\xff\xf0\xff\xf2d\r\0\xff\xfb\x01e\xff\xf2f";

fn receive_with_notice_at(notice: usize, cut: usize) -> (Vec<OwnedEvent>, Vec<u8>) {
    let mut end = End::user();
    let mut events = Vec::new();
    let (before, after) = EVERY_KIND_OF_COMMAND.split_at(notice);
    let (first, second) = before.split_at(cut.min(notice));
    let (third, fourth) = after.split_at(cut.saturating_sub(notice));
    end.receive_more(first, &mut events);
    end.receive_more(second, &mut events);
    end.telnet.urgent();
    end.receive_more(third, &mut events);
    end.receive_more(fourth, &mut events);
    (events, end.output())
}

// attack row 49
#[test]
fn row_49_no_command_is_lost_at_any_position_of_the_urgent_notice_and_of_a_split() {
    for notice in 0..EVERY_KIND_OF_COMMAND.len() {
        let expected = receive_with_notice_at(notice, notice);
        assert!(expected.0.contains(&command(Command::DataMark)));
        for cut in 0..EVERY_KIND_OF_COMMAND.len() {
            assert_eq!(receive_with_notice_at(notice, cut), expected, "at {notice}, cut {cut}");
        }
    }
}

/// Returns random wire bytes, most of which form Telnet commands.
fn random_bytes(rng: &mut Rng) -> Vec<u8> {
    const TELNET_CODES: [u8; 20] =
        [0, 1, 3, 6, 10, 13, 24, 31, 39, 65, 240, 241, 242, 245, 247, 250, 251, 252, 253, 254];
    let len = rng.below(48);
    let byte = |rng: &mut Rng| match rng.below(13) {
        0..4 => IAC,
        4..12 => TELNET_CODES[usize::try_from(rng.below(20)).unwrap()],
        _ => u8::try_from(rng.below(256)).unwrap(),
    };
    (0..len).map(|_| byte(rng)).collect()
}

/// Passes `bytes` to a user's end in pieces that end at the offsets `cuts`. The urgent notice
/// precedes the byte at offset `notice`. Returns all events except data, and the output.
fn commands_received(
    bytes: &[u8],
    notice: Option<usize>,
    cuts: [usize; 2],
) -> (Vec<OwnedEvent>, Vec<u8>) {
    let mut end = End::user();
    let mut events = Vec::new();
    let mut start = 0;
    for stop in 0..=bytes.len() {
        let is_notice = notice == Some(stop);
        if is_notice || cuts.contains(&stop) || stop == bytes.len() {
            end.receive_more(&bytes[start..stop], &mut events);
            start = stop;
        }
        if is_notice {
            end.telnet.urgent();
        }
    }
    // RFC 854: EC and EL are discarded together with the data they edit.
    let edit_commands = [Command::EraseCharacter, Command::EraseLine].map(command);
    events.retain(|event| !matches!(event, OwnedEvent::Data(_)) && !edit_commands.contains(event));
    (events, end.output())
}

fn check_no_command_is_lost(cases: u32) {
    let mut rng = Rng::from_seed(49);
    let mut commands = 0;
    for case in 0..cases {
        let bytes = random_bytes(&mut rng);
        let mut random_position =
            || usize::try_from(rng.below(bytes.len() as u64 + 1)).expect("it is short");
        let notice = random_position();
        let cuts = [random_position(), random_position()];
        let expected = commands_received(&bytes, None, [0, 0]);
        let commands_seen = commands_received(&bytes, Some(notice), cuts);
        assert_eq!(
            commands_seen, expected,
            "case {case}: {bytes:?}, notice {notice}, cuts {cuts:?}"
        );
        commands += expected.0.len();
    }
    assert!(commands > usize::try_from(cases).unwrap() / 2, "{commands} commands only");
}

// attack row 49
#[test]
fn row_49_random_commands_are_all_received_for_any_notice_and_splits() {
    check_no_command_is_lost(20_000);
}

// attack row 49
#[test]
#[ignore = "the long check"]
fn row_49_a_million_random_streams_lose_no_command() {
    check_no_command_is_lost(1_000_000);
}

// attack row 50
#[test]
fn row_50_iac_and_any_byte_as_the_first_input_cause_no_panic() {
    for second in 0..=255 {
        for mut end in [End::user(), End::server()] {
            end.receive(&[IAC, second]);
            end.receive(&[IAC, SE]);
        }
    }
}

/// Returns a user's end and a server's end that have each agreed to LINEMODE.
fn ends_in_linemode() -> [End; 2] {
    let allowed_options = OptionSet::of(&[OptionCode::LINEMODE]);
    let mut user = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
    let mut server =
        End::server_with(&ServerSettings { allowed_options, ..ServerSettings::default() });
    user.receive(&[IAC, 253, 34]);
    server.receive(&[IAC, 251, 34]);
    user.output();
    server.output();
    [user, server]
}

// attack row 53
#[test]
fn row_53_ten_thousand_slc_triplets_are_too_long_and_get_no_answer() {
    for mut end in ends_in_linemode() {
        end.receive(&raw_subnegotiation(OptionCode::LINEMODE, &[3, 2, 3].repeat(10_000)));
        assert_eq!((end.output(), end.receive(b"alive")), (vec![], vec![data(b"alive")]));
        assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsTooLong), 1);
    }
}

// attack row 53
#[test]
fn row_53_a_list_of_every_code_is_answered_at_most_once_per_code() {
    for mut end in ends_in_linemode() {
        let triplets = (0..=254).flat_map(|code| [code, 2, 9]);
        let content: Vec<u8> = core::iter::once(3).chain(triplets).collect();
        end.receive(&raw_subnegotiation(OptionCode::LINEMODE, &content));
        let output = end.output();
        assert_eq!(output[..4], [IAC, SB, 34, 3]);
        // On the wire, a value of 255 is doubled.
        let mut content = vec![];
        for byte in &output[4..output.len() - 2] {
            if (content.last(), content.len() % 3) != (Some(&IAC), 0) || *byte != IAC {
                content.push(*byte);
            }
        }
        let mut codes: Vec<_> = content.chunks(3).map(|it| it[0]).collect();
        codes.sort();
        assert!(codes.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

// attack row 53
#[test]
fn row_53_a_list_of_one_code_is_answered_once() {
    for mut end in ends_in_linemode() {
        let content = [&[3][..], &[200, 2, 3].repeat(200)].concat();
        end.receive(&raw_subnegotiation(OptionCode::LINEMODE, &content));
        assert_eq!(end.output(), raw_subnegotiation(OptionCode::LINEMODE, &[3, 200, 0, 0]));
    }
}

fn environment(names: &[&str]) -> Vec<EnvironmentVariable> {
    names.iter().map(|name| EnvironmentVariable::new(name, "secret")).collect()
}

/// Returns a user's end that may send the environment variables `names`.
fn end_with_variables(names: &[&str]) -> End {
    let mut end = End::user_with(&UserSettings {
        environment: environment(names),
        allowed_options: OptionSet::of(&[OptionCode::NEW_ENVIRON]),
        ..UserSettings::default()
    });
    end.receive(&[IAC, 253, 39]);
    end.output();
    end
}

// attack row 54
#[test]
fn row_54_a_run_of_doubled_iacs_is_skipped_if_new_environ_is_refused() {
    let mut end = End::user();
    end.receive(&raw_subnegotiation(OptionCode::NEW_ENVIRON, &[IAC; 60_000]));
    assert_eq!(end.telnet.decoder.subnegotiation(), Some((OptionCode::NEW_ENVIRON, &[][..])));
    assert_eq!((end.output(), end.receive(b"alive")), (vec![], vec![data(b"alive")]));
}

// attack row 54
#[test]
fn row_54_names_of_escapes_and_doubled_iacs_get_a_bounded_answer() {
    let mut end = end_with_variables(&["LANG"]);
    for content in
        [[1, 0].repeat(30), [&[1, 0][..], &[IAC; 4000]].concat(), [1, 3, 2, 2].repeat(500)]
    {
        end.receive(&raw_subnegotiation(OptionCode::NEW_ENVIRON, &content));
        assert!(end.output().len() <= 2 * 1024 + 5);
    }
    assert_eq!(end.receive(b"alive"), [data(b"alive")]);
}

// attack row 55
#[test]
fn row_55_no_environment_variable_is_sent_by_default() {
    let mut end = End::user();
    end.receive(&[IAC, 253, 39, IAC, 253, 36, IAC, 253, 35, IAC, 253, 23, IAC, 253, 37]);
    end.receive(&raw_subnegotiation(OptionCode::NEW_ENVIRON, &[1]));
    end.receive(&raw_subnegotiation(OptionCode::X_DISPLAY_LOCATION, &[1]));
    end.receive(&raw_subnegotiation(OptionCode::AUTHENTICATION, &[1, 2, 0]));
    let refusals = [IAC, 252, 39, IAC, 252, 36, IAC, 252, 35, IAC, 252, 23, IAC, 252, 37];
    assert_eq!(end.output(), refusals);
}

// attack row 55
#[test]
fn row_55_variables_not_on_the_users_list_are_never_sent() {
    let mut end = end_with_variables(&["LANG"]);
    end.receive(&raw_subnegotiation(
        OptionCode::NEW_ENVIRON,
        b"\x01\x00USER\x03LANG\x03SSH_AUTH_SOCK",
    ));
    let expected =
        raw_subnegotiation(OptionCode::NEW_ENVIRON, b"\0\0USER\x03LANG\x01secret\x03SSH_AUTH_SOCK");
    assert_eq!(end.output(), expected);
}

/// 200 names that a server must not accept, because loaders, shells, libraries or logins trust
/// them.
fn forbidden_names() -> Vec<String> {
    let known_names = [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "LD_DEBUG",
        "LD_BIND_NOW",
        "LD_ORIGIN_PATH",
        "LD_PROFILE",
        "LD_SHOW_AUXV",
        "LD_USE_LOAD_BIAS",
        "LIBPATH",
        "SHLIB_PATH",
        "_RLD_LIST",
        "DYLD_INSERT_LIBRARIES",
        "DYLD_LIBRARY_PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "BASHOPTS",
        "PS4",
        "SHELLOPTS",
        "PATH",
        "CDPATH",
        "HOME",
        "SHELL",
        "MAIL",
        "TERMCAP",
        "TERMINFO",
        "TERMPATH",
        "CREDENTIALS_DIRECTORY",
        "RESOLV_HOST_CONF",
        "RES_OPTIONS",
        "LOCALDOMAIN",
        "HOSTALIASES",
        "NLSPATH",
        "LOCPATH",
        "GCONV_PATH",
        "MALLOC_CHECK_",
        "TMPDIR",
        "TZDIR",
        "TZ",
        "GETCONF_DIR",
        "KRB5_CONFIG",
        "KRB5CCNAME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PERL5LIB",
        "PERL5OPT",
        "NODE_OPTIONS",
        "RUBYLIB",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "DISPLAY",
        "XAUTHORITY",
        "SSH_AUTH_SOCK",
        "-f",
        "USER=",
        "LOGNAME",
        "",
        "USER\u{7f}",
        "user",
    ];
    let other_names = (0..200 - known_names.len()).map(|n| alloc::format!("LD_OTHER_{n}"));
    known_names.iter().map(|name| String::from(*name)).chain(other_names).collect()
}

// attack row 57
#[test]
fn row_57_none_of_200_unrequested_names_reaches_the_caller() {
    let settings = ServerSettings {
        environment: vec!["USER".into(), "LANG".into()],
        allowed_options: OptionSet::of(&[OptionCode::NEW_ENVIRON]),
        ..ServerSettings::default()
    };
    let mut end = End::server_with(&settings);
    end.receive(&[IAC, 251, 39]);
    for name in forbidden_names() {
        for kind in [0, 3] {
            let content = [&[0, kind], name.as_bytes(), &[1], b"x"].concat();
            assert_eq!(
                end.receive(&raw_subnegotiation(OptionCode::NEW_ENVIRON, &content)),
                [],
                "{name}"
            );
        }
    }
    let events =
        end.receive(&raw_subnegotiation(OptionCode::NEW_ENVIRON, b"\0\x03LANG\x01C\0USER\x01a\nb"));
    let expected = Event::Environment(vec![EnvironmentVariable::new("LANG", "C")]);
    assert_eq!(events, [OwnedEvent::Other(expected)]);
}

// attack row 56
#[test]
fn row_56_a_terminal_name_of_64_kib_is_truncated_when_sent_and_refused_when_received() {
    let terminal_type = "x".repeat(65_536);
    let mut user = End::user_with(&UserSettings { terminal_type, ..UserSettings::default() });
    user.receive(&[IAC, 253, 24]);
    user.output();
    user.receive(&raw_subnegotiation(OptionCode::TERMINAL_TYPE, &[1]));
    assert_eq!(
        user.output(),
        raw_subnegotiation(OptionCode::TERMINAL_TYPE, &[&[0][..], &[b'x'; 40]].concat())
    );
    let mut server = End::server();
    server.receive(&[IAC, 251, 24]);
    assert_eq!(server.receive(&raw_subnegotiation(OptionCode::TERMINAL_TYPE, &[0; 65_536])), []);
    assert_eq!(server.context.counted(Counter::TelnetSubnegotiationsTooLong), 1);
}

// attack row 58
#[test]
fn row_58_a_million_are_you_theres_and_timing_marks_fill_no_more_than_the_queue() {
    let settings = ServerSettings { output_limit_bytes: 1000, ..ServerSettings::default() };
    let mut end = End { telnet: Telnet::server(&settings), ..End::server() };
    let flood = [IAC, 246, IAC, 253, 6].repeat(1000);
    for _ in 0..1000 {
        let mut input = &flood[..];
        while end.telnet.receive(&mut input, &mut end.context.cx()).is_some() {
            end.send(b"[yes]\r\n");
        }
    }
    assert!(end.telnet.output().len() <= 1000 + COMMAND_RESERVE);
    assert!(end.context.counted(Counter::TelnetOutputRefused) > 9_000_000);
}

// attack row 59
#[test]
fn row_59_an_endless_subnegotiation_is_limited_and_the_session_continues() {
    let mut end = End::user();
    end.receive(&[IAC, 253, 24]);
    end.output();
    end.receive(&[IAC, SB, 24]);
    for _ in 0..1000 {
        end.receive(&[1; 1000]);
    }
    let stored_len = end.telnet.decoder.subnegotiation().unwrap().1.len();
    assert_eq!(stored_len, option::content_max_bytes(OptionCode::TERMINAL_TYPE));
    assert_eq!(end.receive(&[IAC, SE, b'a']), [data(b"a")]);
    assert_eq!(end.context.counted(Counter::TelnetSubnegotiationsTooLong), 1);
    assert_eq!(end.output(), []);
}

// attack row 59
#[test]
fn row_59_no_option_stores_more_of_a_subnegotiation_than_its_limit() {
    for option in (0..=254).map(OptionCode) {
        let allowed_options = OptionSet::of(&option::known().collect::<Vec<_>>());
        let mut end = End::user_with(&UserSettings { allowed_options, ..UserSettings::default() });
        end.receive(&[IAC, SB, option.0]);
        end.receive(&[7; 100_000]);
        let stored_len = end.telnet.decoder.subnegotiation().unwrap().1.len();
        assert!(stored_len <= option::content_max_bytes(option));
        assert_eq!(end.receive(&[IAC, SE, b'a']), [data(b"a")]);
    }
}

// attack row 60
#[test]
fn row_60_a_peer_that_repeats_refused_requests_is_not_answered() {
    let mut end = End::user();
    let refused_requests = (0..5000).take_while(|_| {
        end.receive(&[IAC, 251, 200]);
        end.output() == [IAC, 254, 200]
    });
    assert_eq!(refused_requests.count(), usize::from(REFUSALS_MAX));
    assert_eq!(end.receive(b"alive"), [data(b"alive")]);
}

// attack row 60
#[test]
fn row_60_a_peer_that_toggles_an_option_indefinitely_is_not_answered() {
    let mut end = End::user();
    let answered_commands = [251, 252].repeat(50_000).into_iter().filter(|verb| {
        end.receive(&[IAC, *verb, 1]);
        !end.output().is_empty()
    });
    assert_eq!(answered_commands.count(), ANSWERS_MAX as usize);
    assert_eq!(end.receive(b"alive"), [data(b"alive")]);
}

// attack row 60
#[test]
fn row_60_repeated_will_and_repeated_wont_get_one_answer_each() {
    let mut end = End::user();
    end.receive(&[IAC, 251, 1, IAC, 251, 1, IAC, 252, 1, IAC, 252, 1]);
    assert_eq!(end.output(), [IAC, 253, 1, IAC, 254, 1]);
}

// attack row 61
#[test]
fn row_61_a_terminal_type_reply_of_any_length_has_no_extra_bytes() {
    for length in 1..=40 {
        let terminal_type = "T".repeat(length);
        let settings = UserSettings { terminal_type: terminal_type.clone(), ..Default::default() };
        let mut end = End::user_with(&settings);
        end.receive(&[IAC, 253, 24]);
        end.output();
        end.receive(&raw_subnegotiation(OptionCode::TERMINAL_TYPE, &[1]));
        let content = [&[0], terminal_type.as_bytes()].concat();
        assert_eq!(end.output(), raw_subnegotiation(OptionCode::TERMINAL_TYPE, &content));
    }
}

// attack row 61
#[test]
fn row_61_an_environment_reply_of_any_length_has_no_extra_bytes() {
    for length in 0..=256 {
        let value = "v".repeat(length);
        let mut end = End::user_with(&UserSettings {
            environment: vec![EnvironmentVariable::new("LANG", &value)],
            allowed_options: OptionSet::of(&[OptionCode::NEW_ENVIRON]),
            ..UserSettings::default()
        });
        end.receive(&[IAC, 253, 39]);
        end.output();
        end.receive(&raw_subnegotiation(OptionCode::NEW_ENVIRON, b"\x01\x03LANG"));
        let content = [b"\0\x03LANG\x01", value.as_bytes()].concat();
        assert_eq!(end.output(), raw_subnegotiation(OptionCode::NEW_ENVIRON, &content));
    }
}

proptest! {
    // attack row 62
    #[test]
    fn row_62_no_setting_of_the_user_gets_a_command_onto_the_wire(text in any::<String>()) {
        let mut end = End::user_with(&UserSettings {
            terminal_type: text.clone(),
            other_terminal_types: vec![text.clone()],
            display: text.clone(),
            environment: vec![EnvironmentVariable::new("LANG", &text)],
            charsets: vec![text],
            allowed_options: OptionSet::of(&option::known().collect::<Vec<_>>()),
            ..UserSettings::default()
        });
        for option in [24, 35, 39, 42] {
            end.receive(&[IAC, 253, option]);
            _ = end.output();
            _ = end.telnet.ask_charset(&mut end.context.cx());
            end.receive(&[IAC, SB, option, 1, IAC, SE]);
            let output = end.output();
            // The output is one subnegotiation, and its content has no byte sequence that would end
            // it early.
            if let [IAC, SB, content @ .., IAC, SE] = &output[..] {
                let commands = content.split(|byte| *byte == IAC).skip(1).step_by(2);
                prop_assert!(commands.clone().all(<[u8]>::is_empty), "{:?}", output);
            } else {
                prop_assert!(output.is_empty());
            }
        }
    }

    // attack row 62
    #[test]
    fn row_62_no_terminal_name_of_the_user_gets_a_command_onto_the_wire(name in any::<String>()) {
        let mut end = End::user_with(&UserSettings { terminal_type: name, ..Default::default() });
        end.receive(&[IAC, 253, 24]);
        end.output();
        end.receive(&raw_subnegotiation(OptionCode::TERMINAL_TYPE, &[1]));
        let output = end.output();
        let name = &output[4..output.len() - 2];
        prop_assert!((1..=40).contains(&name.len()));
        prop_assert!(name.iter().all(u8::is_ascii_graphic));
    }
}

// attack row 62
#[test]
fn row_62_commands_are_removed_from_a_terminal_name() {
    let terminal_type = "vt\u{ff}\u{f0}\r\n\0 100\u{1b}[c".into();
    let mut end = End::user_with(&UserSettings { terminal_type, ..UserSettings::default() });
    end.receive(&[IAC, 253, 24]);
    end.output();
    end.receive(&raw_subnegotiation(OptionCode::TERMINAL_TYPE, &[1]));
    assert_eq!(end.output(), raw_subnegotiation(OptionCode::TERMINAL_TYPE, b"\0vt100[c"));
}
