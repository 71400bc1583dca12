//! What has broken other Telnets, done to this one. Each test names its row of the attack table.

use super::command::{SB, SE};
use super::negotiation::REFUSALS_MAX;
use super::output::COMMAND_RESERVE;
use super::tests::{End, Seen, command, data, wire_bytes};
use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;
use std::vec;

/// Returns IAC SB, `option`, `content`, IAC SE, with nothing doubled.
fn raw(option: OptionCode, content: &[u8]) -> Vec<u8> {
    [&[IAC, SB, option.0], content, &[IAC, SE]].concat()
}

#[test]
fn row_48_a_key_id_of_64_kib_for_encrypt_is_refused_and_skipped() {
    let mut end = End::user();
    end.hear(&[IAC, 253, 38]);
    assert_eq!(end.said(), [IAC, 252, 38]);
    end.hear(&raw(OptionCode::ENCRYPT, &[7; 65_536]));
    assert_eq!(end.telnet.decoder.subnegotiation(), Some((OptionCode::ENCRYPT, &[][..])));
    assert_eq!(end.lab.counted(Counter::TelnetSubnegotiationsTooLong), 1);
    assert_eq!((end.said(), end.hear(b"alive")), (vec![], vec![data(b"alive")]));
}

/// Every kind of item, some with IAC and CR at each place where they can stand.
const EVERY_KIND: &[u8] = b"a\r\0b\r\nc\xff\xff\xff\xf6\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0\r\
    \xff\xfa\x27\xff\xff\x01\xff\xf0\xff\xf2d\r\0\xff\xfb\x01e\xff\xf2f";

fn hear_with_notice_at(notice: usize, cut: usize) -> (Vec<Seen>, Vec<u8>) {
    let (mut end, mut seen) = (End::user(), Vec::new());
    let (before, after) = EVERY_KIND.split_at(notice);
    let (first, second) = before.split_at(cut.min(notice));
    let (third, fourth) = after.split_at(cut.saturating_sub(notice));
    end.hear_more(first, &mut seen);
    end.hear_more(second, &mut seen);
    end.telnet.urgent();
    end.hear_more(third, &mut seen);
    end.hear_more(fourth, &mut seen);
    (seen, end.said())
}

#[test]
fn row_49_an_urgent_notice_at_any_byte_and_a_cut_at_any_other_lose_no_command() {
    for notice in 0..EVERY_KIND.len() {
        let expected = hear_with_notice_at(notice, notice);
        assert!(expected.0.contains(&command(Command::DataMark)));
        for cut in 0..EVERY_KIND.len() {
            assert_eq!(hear_with_notice_at(notice, cut), expected, "at {notice}, cut {cut}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn row_49_any_bytes_with_urgent_notices_anywhere_are_survived(
        pieces in prop::collection::vec((wire_bytes(64), 0..4_u8), 0..16)
    ) {
        let (mut end, mut seen) = (End::user(), Vec::new());
        for (piece, notice) in pieces {
            match notice {
                0 => end.telnet.urgent(),
                1 => end.telnet.urgent_ended(),
                _ => {}
            }
            end.hear_more(&piece, &mut seen);
        }
    }
}

#[test]
fn row_50_iac_and_any_byte_as_the_first_input_is_survived() {
    for second in 0..=255 {
        for mut end in [End::user(), End::server()] {
            end.hear(&[IAC, second]);
            end.hear(&[IAC, SE]);
        }
    }
}

#[test]
fn row_53_ten_thousand_slc_triplets_of_linemode_are_skipped_without_a_word() {
    let mut end = End::user();
    end.hear(&raw(OptionCode::LINEMODE, &[3, 2, 3].repeat(10_000)));
    assert_eq!((end.said(), end.hear(b"alive")), (vec![], vec![data(b"alive")]));
}

#[test]
fn row_54_a_run_of_doubled_iacs_in_new_environ_is_skipped() {
    let mut end = End::user();
    end.hear(&raw(OptionCode::NEW_ENVIRON, &[IAC; 60_000]));
    assert_eq!(end.telnet.decoder.subnegotiation(), Some((OptionCode::NEW_ENVIRON, &[][..])));
    assert_eq!((end.said(), end.hear(b"alive")), (vec![], vec![data(b"alive")]));
}

#[test]
fn row_55_nothing_of_the_environment_leaves() {
    let mut end = End::user();
    end.hear(&[IAC, 253, 39, IAC, 253, 36, IAC, 253, 35, IAC, 253, 32, IAC, 253, 37]);
    end.hear(&raw(OptionCode::NEW_ENVIRON, &[1]));
    end.hear(&raw(OptionCode::X_DISPLAY_LOCATION, &[1]));
    end.hear(&raw(OptionCode::AUTHENTICATION, &[1, 2, 0]));
    let refusals = [IAC, 252, 39, IAC, 252, 36, IAC, 252, 35, IAC, 252, 32, IAC, 252, 37];
    assert_eq!(end.said(), refusals);
}

#[test]
fn row_56_a_terminal_name_of_64_kib_is_cut_here_and_refused_from_there() {
    let terminal_type = "x".repeat(65_536);
    let mut user = End::with(&UserSettings { terminal_type, ..UserSettings::default() });
    user.hear(&[IAC, 253, 24]);
    user.said();
    user.hear(&raw(OptionCode::TERMINAL_TYPE, &[1]));
    assert_eq!(user.said(), raw(OptionCode::TERMINAL_TYPE, &[&[0][..], &[b'x'; 40]].concat()));
    let mut server = End::server();
    server.hear(&[IAC, 251, 24]);
    assert_eq!(server.hear(&raw(OptionCode::TERMINAL_TYPE, &[0; 65_536])), []);
    assert_eq!(server.lab.counted(Counter::TelnetSubnegotiationsTooLong), 1);
}

#[test]
fn row_58_a_million_are_you_theres_and_timing_marks_fill_no_more_than_the_queue() {
    let settings = ServerSettings { output_limit_bytes: 1000, ..ServerSettings::default() };
    let mut end = End { telnet: Telnet::server(&settings), ..End::server() };
    let flood = [IAC, 246, IAC, 253, 6].repeat(1000);
    for _ in 0..1000 {
        let mut input = &flood[..];
        while end.telnet.receive(&mut input, &mut end.lab.cx()).is_some() {
            end.send(b"[yes]\r\n");
        }
    }
    assert!(end.telnet.output().len() <= 1000 + COMMAND_RESERVE);
    assert!(end.lab.counted(Counter::TelnetOutputRefused) > 9_000_000);
}

#[test]
fn row_59_a_subnegotiation_without_end_is_capped_and_the_session_lives() {
    let mut end = End::user();
    end.hear(&[IAC, 253, 24]);
    end.said();
    end.hear(&[IAC, SB, 24]);
    for _ in 0..1000 {
        end.hear(&[1; 1000]);
    }
    let kept = end.telnet.decoder.subnegotiation().unwrap().1.len();
    assert_eq!(kept, option::content_max_bytes(OptionCode::TERMINAL_TYPE));
    assert_eq!(end.hear(&[IAC, SE, b'a']), [data(b"a")]);
    assert_eq!(end.lab.counted(Counter::TelnetSubnegotiationsTooLong), 1);
    assert_eq!(end.said(), []);
}

#[test]
fn row_60_one_who_asks_again_whenever_he_is_refused_is_met_by_silence() {
    let mut end = End::user();
    let rounds = (0..5000).take_while(|_| {
        end.hear(&[IAC, 251, 200]);
        end.said() == [IAC, 254, 200]
    });
    assert_eq!(rounds.count(), usize::from(REFUSALS_MAX));
    assert_eq!(end.hear(b"alive"), [data(b"alive")]);
}

#[test]
fn row_60_will_and_wont_in_turn_get_one_answer_each() {
    let mut end = End::user();
    end.hear(&[IAC, 251, 1, IAC, 251, 1, IAC, 252, 1, IAC, 252, 1]);
    assert_eq!(end.said(), [IAC, 253, 1, IAC, 254, 1]);
}

#[test]
fn row_61_every_reply_to_a_terminal_type_request_is_exactly_its_serialization() {
    for length in 1..=40 {
        let terminal_type = "T".repeat(length);
        let settings = UserSettings { terminal_type: terminal_type.clone(), ..Default::default() };
        let mut end = End::with(&settings);
        end.hear(&[IAC, 253, 24]);
        end.said();
        end.hear(&raw(OptionCode::TERMINAL_TYPE, &[1]));
        let content = [&[0], terminal_type.as_bytes()].concat();
        assert_eq!(end.said(), raw(OptionCode::TERMINAL_TYPE, &content));
    }
}

proptest! {
    #[test]
    fn row_62_no_terminal_name_of_the_user_gets_a_command_onto_the_wire(name in any::<String>()) {
        let mut end = End::with(&UserSettings { terminal_type: name, ..Default::default() });
        end.hear(&[IAC, 253, 24]);
        end.said();
        end.hear(&raw(OptionCode::TERMINAL_TYPE, &[1]));
        let said = end.said();
        let name = &said[4..said.len() - 2];
        prop_assert!((1..=40).contains(&name.len()));
        prop_assert!(name.iter().all(u8::is_ascii_graphic));
    }
}

#[test]
fn row_62_a_terminal_name_with_commands_in_it_loses_them() {
    let terminal_type = "vt\u{ff}\u{f0}\r\n\0 100\u{1b}[c".into();
    let mut end = End::with(&UserSettings { terminal_type, ..UserSettings::default() });
    end.hear(&[IAC, 253, 24]);
    end.said();
    end.hear(&raw(OptionCode::TERMINAL_TYPE, &[1]));
    assert_eq!(end.said(), raw(OptionCode::TERMINAL_TYPE, b"\0vt100[c"));
}
