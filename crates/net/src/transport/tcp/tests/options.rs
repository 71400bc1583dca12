//! Tests of options: MSS, window scale, timestamps and PAWS (RFC 9293 §3.7.1, RFC 7323).

use super::*;

const ALL: Options = Options {
    mss: Some(1000),
    window_scale: Some(2),
    sack_permitted: true,
    timestamps: Some((1000, 0)),
    ..Options::NONE
};

// req RFC9293:MUST-14, RFC9293:MUST-67, RFC9293:SHLD-5, RFC9293:SHLD-6, RFC9293:MAY-3
#[test]
fn a_syn_offers_all_options_and_a_plain_one_only_the_segment_size() {
    let offered = |profile| {
        let mut script = Script::new();
        let remote = SocketAddr::new(CLIENT, 9);
        script.tcp.open(SERVER, remote, profile, &mut script.context.cx()).unwrap();
        script.output()[0].header.options
    };
    let options = offered(Profile::BULK);
    assert_eq!((options.mss, options.window_scale), (Some(1460), Some(8)));
    assert!(options.timestamps.is_some());
    assert_eq!(offered(PLAIN), Options { mss: Some(1460), ..Options::default() });
}

// req RFC9293:MUST-15
#[test]
fn without_the_option_segments_have_536_bytes() {
    let mut script = Script::asked_for_options(PLAIN, Options::default());
    script.peer(Flags::ACK, 1, 1, b"");
    let sent = script.send(&pattern(2000));
    assert_eq!(sent[0].len, 536);
}

// req RFC9293:MUST-15
#[test]
fn without_the_option_in_the_answer_to_our_syn_segments_have_536_bytes() {
    let mut script = Script::syn_sent(PLAIN);
    script.peer(SYN_ACK, 0, 1, b"");
    let sent = script.send(&pattern(2000));
    assert_eq!(sent[0].len, 536);
}

// req RFC1122:3.3.2-MUST-3
// req RFC9293:MUST-14, RFC9293:MUST-16, RFC9293:SHLD-28
#[test]
fn segments_are_no_larger_than_the_peer_the_link_and_the_profile_allow() {
    for (peer, profile, expected) in [
        (1000, PLAIN, 1000),
        (9000, PLAIN, 1460),
        (1460, Profile { mss_max: Some(500), ..PLAIN }, 500),
    ] {
        let options = Options { mss: Some(peer), ..Options::default() };
        let mut script = Script::asked_for_options(profile, options);
        script.peer(Flags::ACK, 1, 1, b"");
        assert_eq!(script.send(&pattern(20_000))[0].len, expected);
    }
}

// req RFC9293:MUST-16
#[test]
fn timestamps_take_their_room_from_the_segment() {
    let mut script = Script::asked_for_options(Profile::BULK, ALL);
    script.options.timestamps = Some((1000, 0));
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.send(&pattern(2000))[0].len, 988);
}

#[test]
fn timestamps_and_scale_are_used_only_if_both_sides_offer_them() {
    for (profile, offered, stamps) in [
        (Profile::BULK, ALL, true),
        (Profile::BULK, Options { mss: Some(1000), ..Options::default() }, false),
        (PLAIN, ALL, false),
    ] {
        let mut script = Script::listening(profile);
        script.options = offered;
        let answer = script.peer(Flags::SYN, 0, 0, b"")[0].header.options;
        assert_eq!(answer.timestamps.is_some(), stamps);
        assert_eq!(answer.window_scale.is_some(), stamps);
    }
}

#[test]
fn the_windows_of_both_sides_are_scaled_after_the_handshake_only() {
    let mut script = Script::listening(Profile::BULK);
    script.options = ALL;
    script.window = 1000;
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    script.iss = answer[0].header.seq;
    assert_eq!(answer[0].header.window, 0xFFFF);
    script.options = Options { timestamps: Some((1000, 0)), ..Options::default() };
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.status().send_window, 4000);
    let answer = script.peer(Flags::ACK.with(Flags::FIN), 1, 1, b"x");
    assert_eq!(answer[0].header.window, 1024, "2^18 bytes by a shift of 8");
}

#[test]
fn a_peer_with_a_scale_of_zero_still_gets_our_window_scaled() {
    let mut script = Script::listening(Profile::BULK);
    script.options = Options { window_scale: Some(0), ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(answer[0].header.options.window_scale, Some(8));
}

fn stamped() -> Script {
    let mut script = Script::asked_for_options(Profile::BULK, ALL);
    script.options.timestamps = Some((1000, 0));
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.state(), Some(State::Established));
    script
}

fn echo(script: &mut Script) -> u32 {
    let sent = script.send(b"?");
    let echo = sent[0].header.options.timestamps.unwrap().1;
    let ack = sent[0].seq + 1;
    script.peer(Flags::ACK, sent[0].ack, ack, b"");
    echo
}

#[test]
fn paws_drops_a_segment_with_an_older_timestamp_and_answers_it() {
    let mut script = stamped();
    script.options.timestamps = Some((999, 0));
    let answer = script.peer(Flags::ACK, 1, 1, b"old");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"]);
    assert_eq!(script.counted(Counter::TcpPawsDropped), 1);
}

#[test]
fn outdated_duplicate_data_is_reported_by_d_sack() {
    let mut script = stamped();
    script.peer(Flags::ACK, 1, 1, b"late");
    script.options.timestamps = Some((999, 0));
    let answer = script.peer(Flags::ACK, 1, 1, b"late and more");
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 5 len 0>"]);
    let blocks = answer[0].header.options.sack.as_slice();
    assert_eq!(blocks, [(script.irs + 1, script.irs + 5)]);
    assert_eq!(script.counted(Counter::TcpPawsDropped), 1);
    assert_eq!(script.counted(Counter::TcpChallengeAcks), 0);
}

#[test]
fn outdated_data_that_was_not_received_before_is_no_duplicate() {
    let mut script = stamped();
    script.options.timestamps = Some((999, 0));
    let answer = script.peer(Flags::ACK, 1, 1, b"new");
    assert!(answer[0].header.options.sack.is_empty());
    assert_eq!(script.counted(Counter::TcpChallengeAcks), 1);
}

#[test]
fn paws_holds_across_the_wrap_of_the_clock() {
    let mut script = Script::asked_for_options(
        Profile::BULK,
        Options { timestamps: Some((u32::MAX - 1, 0)), ..ALL },
    );
    script.options.timestamps = Some((2, 0));
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.state(), Some(State::Established));
    script.options.timestamps = Some((u32::MAX - 1, 0));
    script.peer(Flags::ACK, 1, 1, b"old");
    assert_eq!(script.counted(Counter::TcpPawsDropped), 1);
}

#[test]
fn a_reset_is_not_subject_to_paws_and_sets_no_timestamp() {
    let mut script = stamped();
    script.options.timestamps = Some((5, 0));
    script.peer(Flags::RST, 2, 0, b"");
    script.options.timestamps = Some((1001, 0));
    assert_eq!(echo(&mut script), 1000);
    script.options.timestamps = Some((5, 0));
    script.peer(Flags::RST, 1, 0, b"");
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
}

#[test]
fn after_24_days_of_silence_an_old_timestamp_is_ignored() {
    let mut script = stamped();
    script.wait(Duration::from_secs(25 * 86_400));
    script.options.timestamps = Some((1000_u32.wrapping_sub(1 << 30), 0));
    script.peer(Flags::ACK, 1, 1, b"new");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"new");
}

#[test]
fn a_segment_without_the_timestamp_that_was_agreed_upon_is_dropped() {
    let mut script = stamped();
    script.options.timestamps = None;
    assert_eq!(script.peer(Flags::ACK, 1, 1, b"x"), []);
    assert!(script.tcp.received(script.id.unwrap()).unwrap().is_empty());
}

#[test]
fn the_timestamp_of_the_segment_before_the_hole_is_echoed() {
    let mut script = stamped();
    script.options.timestamps = Some((2000, 0));
    let answer = script.peer(Flags::ACK, 4, 1, b"def");
    assert_eq!(answer[0].header.options.timestamps.unwrap().1, 1000);
    script.options.timestamps = Some((3000, 0));
    let answer = script.peer(Flags::ACK, 1, 1, b"abc");
    assert_eq!(answer[0].header.options.timestamps.unwrap().1, 3000);
}

// attack row 30
#[test]
fn attack_30_only_a_segment_that_is_accepted_sets_the_timestamp() {
    let mut script = stamped();
    script.options.timestamps = Some((900_000, 0));
    script.peer(Flags::ACK, 500_000_000, 1, b"out of window");
    script.peer(Flags::ACK, 2, 1, b"behind a hole");
    script.peer(Flags::ACK, 1, 7_000, b"acknowledges what was not sent");
    script.options.timestamps = Some((1001, 0));
    assert_eq!(echo(&mut script), 1000);
}

// attack row 25
#[test]
fn attack_25_a_tiny_segment_size_has_a_floor() {
    for mss in [0, 1, 8, 63] {
        let options = Options { mss: Some(mss), ..Options::default() };
        let mut script = Script::asked_for_options(PLAIN, options);
        script.peer(Flags::ACK, 1, 1, b"");
        assert_eq!(script.send(&pattern(1000))[0].len, 64);
    }
}

// req RFC9293:MUST-5
#[test]
fn options_in_data_segments_that_belong_to_a_syn_change_nothing() {
    let mut script = Script::established(PLAIN);
    script.options = ALL;
    script.window = 500;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!((script.status().send_window, script.status().send_mss), (500, 1000));
}

#[test]
fn a_window_can_be_scaled_without_timestamps() {
    let profile = Profile { timestamps: false, ..Profile::BULK };
    let timestamps = Some((100, 0));
    let mut script = Script::listening(profile);
    script.options = Options { window_scale: Some(7), timestamps, ..Options::default() };
    let answer = script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(answer[0].header.options.timestamps, None);
    assert!(answer[0].header.options.window_scale.is_some());
}

// attack row 30
#[test]
fn attack_30_a_duplicate_with_an_implausible_acknowledgment_sets_no_timestamp() {
    let too_old = 0_u32.wrapping_sub(300_000);
    for (flags, ack) in [(Flags::ACK, 7_000), (Flags::ACK, too_old), (Flags::PSH, 0)] {
        let mut script = stamped();
        script.peer(Flags::ACK, 1, 1, b"abc");
        script.wait_millis(50);
        script.options.timestamps = Some((900_000, 0));
        script.peer(flags, 1, ack, b"abc");
        script.options.timestamps = Some((1001, 0));
        assert_eq!(echo(&mut script), 1000, "{flags:?} {ack}");
    }
}

#[test]
fn the_timestamp_of_a_plausible_duplicate_is_echoed() {
    let mut script = stamped();
    script.peer(Flags::ACK, 1, 1, b"abc");
    script.wait_millis(50);
    script.options.timestamps = Some((2000, 0));
    let answer = script.peer(Flags::ACK, 1, 1, b"abc");
    assert_eq!(answer[0].header.options.timestamps.unwrap().1, 2000);
}

#[test]
fn a_profile_without_extensions_ignores_offered_timestamps() {
    let offered = Options { timestamps: Some((5000, 0)), ..Options::NONE };
    let mut script = Script::asked_for_options(Profile { timestamps: true, ..PLAIN }, offered);
    script.peer(Flags::ACK, 1, 1, b"");
    let sent = script.send(b"data");
    assert_eq!(sent[0].header.options.timestamps, None);
}

#[test]
fn a_syn_echoes_no_timestamp() {
    let sent = Script::syn_sent(Profile::BULK).wait_millis(1000);
    assert_eq!(sent[0].header.options.timestamps.map(|(_, echo)| echo), Some(0));
}

#[test]
fn the_answer_scales_the_window_if_the_peer_offers_it_and_either_scale_is_not_zero() {
    let answered = |window: usize, offered: Option<u8>| {
        let receive_window = ReceiveWindow::Bytes(window);
        let mut script = Script::listening(Profile { receive_window, ..Profile::BULK });
        script.options = Options { window_scale: offered, ..Options::default() };
        script.peer(Flags::SYN, 0, 0, b"")[0].header.options.window_scale
    };
    assert_eq!(answered(100_000, None), None);
    assert_eq!(answered(100_000, Some(0)), Some(1));
    assert_eq!(answered(60_000, Some(1)), Some(0));
}
