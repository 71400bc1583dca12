//! Tests of selective acknowledgments by the segments sent: RFC 2018, RFC 2883, RFC 6675, RFC 8985,
//! RFC 6937; rows 23, 40 and 41 of docs/ledger/attacks.txt.

use super::script::Sent;
use super::*;
use crate::meter::Quantity;

/// A profile with SACK, and with timestamps if the peer supports them.
const SACK: Profile = Profile { congestion: Congestion::NewReno, pacing: false, ..Profile::BULK };

/// Returns an open connection to a peer that reports blocks. Segments have at most 1000 bytes.
fn established(profile: Profile) -> Script {
    let permitted = Options { mss: Some(1000), sack_permitted: true, ..Options::default() };
    let mut script = Script::asked_for_options(profile, permitted);
    script.wait_millis(100);
    script.peer(Flags::ACK, 1, 1, b"");
    assert!(script.status().has_sack);
    script
}

/// Returns a script with twenty segments outstanding.
fn with_twenty_outstanding(profile: Profile) -> Script {
    let mut script = established(profile);
    assert_eq!(script.send(&pattern(60_000)).len(), 10);
    script.wait_millis(100);
    for segment in 1..=10 {
        script.peer(Flags::ACK, 1, 1 + segment * 1000, b"");
    }
    assert_eq!(script.status().congestion_window, 20_000);
    script.wait_millis(100);
    script
}

/// Delivers an acknowledgment of `ack` with `blocks`. All numbers are relative to the initial
/// sequence number.
fn report(script: &mut Script, ack: u32, blocks: &[(u32, u32)]) -> Vec<Sent> {
    for (start, end) in blocks {
        script.options.sack.push((script.iss + *start, script.iss + *end));
    }
    let sent = script.peer(Flags::ACK, 1, ack, b"");
    script.options = Options::default();
    sent
}

/// Returns the blocks of an answer, relative to the peer's initial sequence number.
fn blocks(script: &Script, sent: &Sent) -> Vec<(u32, u32)> {
    let relative = |block: &Block| (block.0.since(script.irs), block.1.since(script.irs));
    sent.header.options.sack.as_slice().iter().map(relative).collect()
}

#[test]
fn each_answer_reports_the_block_of_the_last_segment_first() {
    let mut script = established(SACK);
    let mut answer = |seq: u32| {
        let sent = script.peer(Flags::ACK, seq, 1, &[1; 100]);
        blocks(&script, &sent[0])
    };
    assert_eq!(answer(301), [(301, 401)]);
    assert_eq!(answer(101), [(101, 201), (301, 401)]);
    assert_eq!(answer(501), [(501, 601), (101, 201), (301, 401)]);
    assert_eq!(answer(201), [(101, 401), (501, 601)]);
    assert_eq!(answer(1), [(501, 601)]);
    assert_eq!(answer(401), []);
}

#[test]
fn duplicate_data_is_reported_before_its_block() {
    let mut script = established(SACK);
    script.peer(Flags::ACK, 1, 1, &[1; 200]);
    let sent = script.peer(Flags::ACK, 101, 1, &[1; 100]);
    assert_eq!(blocks(&script, &sent[0]), [(101, 201)], "below the acknowledgment");
    script.peer(Flags::ACK, 501, 1, &[1; 100]);
    script.peer(Flags::ACK, 301, 1, &[1; 100]);
    let sent = script.peer(Flags::ACK, 551, 1, &[1; 100]);
    assert_eq!(blocks(&script, &sent[0]), [(551, 601), (501, 651), (301, 401)]);
    let sent = script.peer(Flags::ACK, 151, 1, &[1; 100]);
    assert_eq!(blocks(&script, &sent[0]), [(151, 201), (501, 651), (301, 401)], "in part");
}

#[test]
fn a_segment_that_repeats_old_and_early_data_reports_the_first_duplicate_range() {
    let mut script = established(SACK);
    script.peer(Flags::ACK, 1, 1, &[1; 99]);
    for seq in [200, 400, 600] {
        script.peer(Flags::ACK, seq, 1, &[1; 100]);
    }
    let sent = script.peer(Flags::ACK, 1, 1, &[1; 799]);
    assert_eq!((sent[0].ack, blocks(&script, &sent[0])), (800, Vec::from([(1, 100)])));
}

#[test]
fn a_segment_that_repeats_early_data_only_reports_its_first_part_of_it() {
    let mut script = established(SACK);
    script.peer(Flags::ACK, 1, 1, &[1; 99]);
    for seq in [200, 400] {
        script.peer(Flags::ACK, seq, 1, &[1; 100]);
    }
    let sent = script.peer(Flags::ACK, 150, 1, &[1; 300]);
    assert_eq!(blocks(&script, &sent[0]), [(200, 300), (150, 500)]);
}

#[test]
fn a_duplicate_of_early_data_with_an_outdated_timestamp_is_reported() {
    let timestamps = Some((1000, 0));
    let offered =
        Options { mss: Some(1000), sack_permitted: true, timestamps, ..Options::default() };
    let mut script = Script::asked_for_options(SACK, offered);
    script.options.timestamps = timestamps;
    script.peer(Flags::ACK, 1, 1, b"");
    script.peer(Flags::ACK, 101, 1, &[1; 100]);
    script.options.timestamps = Some((999, 0));
    // The number exceeds the limit of challenge acknowledgments per second.
    for _ in 0..20 {
        let sent = script.peer(Flags::ACK, 151, 1, &[1; 100]);
        assert_eq!((sent.len(), sent[0].ack), (1, 1));
        assert_eq!(blocks(&script, &sent[0]), [(151, 201), (101, 201)]);
    }
    assert_eq!(script.counted(Counter::TcpPawsDropped), 20);
    let sent = script.peer(Flags::ACK, 301, 1, &[1; 100]);
    assert_eq!(blocks(&script, &sent[0]), [(101, 201)], "new data is no duplicate");
}

#[test]
fn blocks_on_data_leave_the_segment_as_long_as_the_peer_takes() {
    let mut script = established(SACK);
    script.deliver(Flags::ACK, 301, 1, &[1; 100]);
    script.deliver(Flags::ACK, 101, 1, &[1; 100]);
    let sent = script.send(&pattern(2000));
    assert_eq!((sent[0].len, sent[0].header.options.len()), (980, 20));
    assert_eq!(sent[0].header.options.sack.as_slice().len(), 2);
}

/// Returns an open connection over a path that carries segments of at most `mss` bytes. Four
/// separate blocks have arrived early from the peer.
fn connection_with_small_mss(mss: u16) -> Script {
    let mut script = established(SACK);
    let id = script.id.unwrap();
    assert_eq!(script.tcp.packet_too_big(id, mss + 40, &mut script.context.cx()), Ok(true));
    for seq in [101, 301, 501, 701] {
        script.deliver(Flags::ACK, seq, 1, &[1; 10]);
    }
    script
}

#[test]
fn blocks_that_leave_no_room_for_data_are_not_reported() {
    let sent = connection_with_small_mss(26).send(&pattern(100));
    assert_eq!((sent[0].len, sent[0].header.options.sack.as_slice().len()), (6, 2));
}

#[test]
fn a_retransmission_is_one_segment_regardless_of_the_blocks() {
    let mut script = connection_with_small_mss(58);
    script.send(&pattern(58));
    script.deliver(Flags::ACK, 901, 1, &[1; 10]);
    let retransmitted = script.wait_millis(3_000);
    assert!(!retransmitted.is_empty());
    assert!(
        retransmitted.iter().all(|sent| sent.len + sent.header.options.len() <= 58),
        "{retransmitted:?}"
    );
}

#[test]
fn a_peer_that_permits_none_gets_none_and_its_blocks_are_ignored() {
    let mut script = Script::established(SACK);
    let sent = script.peer(Flags::ACK, 301, 1, &[1; 100]);
    assert!(sent[0].header.options.sack.is_empty());
    script.send(&pattern(5000));
    report(&mut script, 1, &[(1001, 5001)]);
    assert_eq!(script.status().recovery.sacked, 0);
}

#[test]
fn the_third_segment_above_the_hole_repeats_just_the_hole() {
    let mut script = with_twenty_outstanding(SACK);
    assert_eq!(extents(&report(&mut script, 10_001, &[(11_001, 12_001)])), [(30_001, 1000)]);
    assert_eq!(extents(&report(&mut script, 10_001, &[(11_001, 13_001)])), [(31_001, 1000)]);
    assert_eq!(extents(&report(&mut script, 10_001, &[(11_001, 14_001)])), [(10_001, 1000)]);
    assert_eq!(script.status().recovery.phase, Phase::Recovery);
    report(&mut script, 32_001, &[]);
    assert_eq!(script.status().recovery.phase, Phase::Open);
    assert_eq!(script.status().congestion_window, 10_000);
}

#[test]
fn a_recovery_sends_at_most_the_delivered_data_plus_one_segment() {
    // The first four segments and the eleventh to sixteenth are lost.
    let mut script = with_twenty_outstanding(SACK);
    let number = |segment: usize| u32::try_from(segment).unwrap() * 1000 + 1;
    let mut sent = 0;
    for end in 15..=20_usize {
        sent += report(&mut script, 10_001, &[(14_001, number(end))]).len();
        assert!(sent < end - 12, "{sent} of {end}");
    }
    for end in 27..=30_usize {
        let all = [(26_001, number(end)), (14_001, 20_001)];
        sent += report(&mut script, 10_001, &all).len();
        assert!(sent < end - 18, "{sent} of {end}");
    }
    for una in [11, 12, 13] {
        let all = [(26_001, 30_001), (14_001, 20_001)];
        let count = report(&mut script, una * 1000 + 1, &all).len();
        assert!((1..=2).contains(&count), "slow start below the threshold: {count}");
    }
    assert_eq!(script.status().statistics.timeouts, 0);
}

#[test]
fn any_number_of_losses_in_one_window_needs_no_timeout() {
    for lost in [1, 2, 5, 12, 20_u64] {
        let mut pair = Pair::new(lost);
        let ids = pair.connect(SACK);
        let mut number = 0;
        pair.fate = Box::new(move |_, side, _| {
            number += u64::from(side == Side::Client);
            side == Side::Server || !(40..40 + lost).contains(&number)
        });
        let data = pattern(300_000);
        assert!(pair.transfer(Side::Client, ids, &data) == data);
        let statistics = pair.client.status(ids.0).unwrap().statistics;
        assert_eq!((statistics.timeouts, statistics.fast_retransmits), (0, 1), "{lost}");
        assert_eq!(statistics.retransmissions, lost);
    }
}

#[test]
fn a_lost_retransmission_is_repeated_without_a_timeout() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(SACK);
    let mut seen = Wire::new();
    pair.fate = Box::new(move |_, side, header| {
        let times: &mut u32 = seen.entry(header.seq.0).or_default();
        *times += u32::from(side == Side::Client);
        side == Side::Server || seen.len() != 40 || seen[&header.seq.0] > 2
    });
    let data = pattern(300_000);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    let statistics = pair.client.status(ids.0).unwrap().statistics;
    assert_eq!(statistics.timeouts, 0);
}

#[test]
fn the_loss_of_the_last_segment_is_repaired_by_a_probe_in_about_two_round_trips() {
    let mut pair = Pair::new(1);
    pair.delay = Duration::from_millis(100);
    let ids = pair.connect(SACK);
    let measure_rtt = pattern(14_600);
    pair.transfer(Side::Client, ids, &measure_rtt);
    pair.drive();
    let mut number = 0;
    pair.fate = Box::new(move |_, side, _| {
        number += u64::from(side == Side::Client);
        side == Side::Server || !(4..=5).contains(&number)
    });
    let start = pair.context.now;
    let data = pattern(5 * 1448);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    let statistics = pair.client.status(ids.0).unwrap().statistics;
    assert_eq!((statistics.timeouts, statistics.tail_probes), (0, 1));
    assert_eq!(pair.context.counted(Counter::TcpTailProbes), 1);
    let duration = pair.context.now - start;
    assert!(duration <= Duration::from_millis(5 * 200), "{duration:?}");
}

#[test]
fn a_timeout_that_was_too_early_is_undone_by_the_echo_of_the_timestamp() {
    let mut pair = Pair::new(1);
    pair.delay = Duration::from_millis(20);
    let ids = pair.connect(SACK);
    pair.transfer(Side::Client, ids, &pattern(100_000));
    pair.drive();
    let before = pair.client.status(ids.0).unwrap().congestion_window;
    // The delay of the path suddenly increases.
    pair.delay = Duration::from_millis(400);
    let data = pattern(50_000);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    pair.drive();
    let status = pair.client.status(ids.0).unwrap();
    assert!(status.statistics.timeouts + status.statistics.tail_probes > 0);
    assert!(status.statistics.timeouts == 0 || status.statistics.undone > 0);
    assert!(status.congestion_window >= before.min(14_480));
}

// attack row 40
#[test]
fn attack_40_reneged_data_is_retransmitted() {
    let mut script = with_twenty_outstanding(SACK);
    report(&mut script, 10_001, &[(11_001, 30_001)]);
    let mut una = 11_001;
    let mut sent = report(&mut script, una, &[]);
    assert_eq!(script.counted(Counter::TcpReneged), 1);
    for _ in 0..60 {
        sent.extend(script.wait_millis(100));
        for next in &sent {
            if next.seq == una {
                una += u32::try_from(next.len).unwrap();
            }
        }
        sent = report(&mut script, una, &[]);
    }
    assert_eq!(una, 60_001);
}

// attack row 23
#[test]
fn attack_23_no_tiny_segments_or_blocks_cause_a_panic() {
    for mss in [8, 48, 64, 88] {
        let permitted = Options { mss: Some(mss), sack_permitted: true, ..Options::default() };
        let mut script = Script::asked_for_options(SACK, permitted);
        script.peer(Flags::ACK, 1, 1, b"");
        let mut rng = Rng::from_seed(u64::from(mss));
        let data = pattern(1 << 18);
        let queued_len = script.tcp.send(script.id.unwrap(), &data).unwrap();
        assert_eq!(queued_len, data.len());
        script.output();
        let mut una = 1;
        for _ in 0..2000 {
            let outstanding = u32::try_from(script.status().recovery.outstanding).unwrap();
            let mut random_seq = || {
                let offset = u32::try_from(rng.below(u64::from(outstanding) + 200)).unwrap();
                (una + offset).saturating_sub(100)
            };
            let all = [
                (random_seq(), random_seq()),
                (random_seq(), random_seq()),
                (random_seq(), random_seq()),
            ];
            let ack = if random_seq() % 4 == 0 { (una + 64).min(una + outstanding) } else { una };
            una = una.max(ack);
            report(&mut script, ack, &all);
            let status = script.status();
            assert!(status.recovery.sacked + status.recovery.lost <= 2 * (1 << 18));
            assert!(status.congestion_window >= status.send_mss);
        }
    }
}

// attack row 41
#[test]
fn attack_41_pulses_of_loss_once_a_second_do_not_stop_the_transfer() {
    const PERIOD: Duration = Duration::from_secs(1);
    const PULSE: Duration = Duration::from_millis(150);
    let mut pair = Pair::new(1);
    pair.delay = Duration::from_millis(25);
    let ids = pair.connect(Profile { pacing: true, ..SACK });
    let data = pattern(500_000);
    let mut sent = 0;
    let mut received = 0;
    let end = pair.context.now + Duration::from_secs(60);
    while received < data.len() {
        let phase = Duration::from_nanos(pair.context.now.as_nanos() % 1_000_000_000);
        let is_pulse = phase < PULSE;
        pair.faults.lost = if is_pulse { 1_000_000 } else { 0 };
        let change = pair.context.now + (if is_pulse { PULSE } else { PERIOD } - phase);
        sent += pair.client.send(ids.0, &data[sent..]).unwrap();
        let count = pair.server.received(ids.1).unwrap().len();
        received += count;
        pair.server.consume(ids.1, count).unwrap();
        if count == 0 && !pair.step(change) {
            assert!(change < end, "{received}");
            pair.context.now = change;
        }
    }
    let status = pair.client.status(ids.0).unwrap();
    assert!(status.statistics.timeouts > 0, "the pulses hit");
}

#[test]
fn a_lost_answer_does_not_lengthen_the_timeout() {
    let mut script = established(SACK);
    script.send(&pattern(1000));
    script.wait_millis(100);
    script.peer(Flags::ACK, 1, 1001, b"");
    script.send(&pattern(2000));
    while script.counted(Counter::TcpTimeouts) < 3 {
        script.wait_millis(1);
    }
    assert!(script.status().rto > Duration::from_secs(1), "it has backed off");
    script.wait_millis(100);
    // The peer received both segments long ago, so this acknowledgment answers the last
    // transmission.
    report(&mut script, 3001, &[(1001, 2001)]);
    let status = script.status();
    assert!(status.srtt.unwrap() <= Duration::from_millis(110), "{:?}", status.srtt);
    assert!(status.rto <= Duration::from_millis(320), "{:?}", status.rto);
}

#[test]
fn the_tail_is_not_probed_at_a_zero_window() {
    let mut script = established(SACK);
    script.send(&pattern(1000));
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.wait_millis(500), []);
    assert_eq!(script.status().statistics.tail_probes, 0);
}

// RFC 6298 (5.1): the timer is not restarted while it runs.
#[test]
fn retransmissions_behind_the_first_hole_do_not_postpone_the_timeout() {
    const MS: Duration = Duration::from_millis(1);
    let mut script = with_twenty_outstanding(SACK);
    let first = report(&mut script, 10_001, &[(11_001, 14_001)]);
    assert_eq!(extents(&first), [(10_001, 1000)]);
    let rto = script.status().rto;
    script.wait(MS * 50);
    let second = report(&mut script, 10_001, &[(15_001, 18_001), (11_001, 14_001)]);
    assert!(extents(&second).contains(&(14_001, 1000)), "{second:?}");
    script.wait(rto - MS * 51);
    assert_eq!(script.status().statistics.timeouts, 0);
    script.wait(MS * 2);
    assert_eq!(script.status().statistics.timeouts, 1);
}

#[test]
fn a_reordered_segment_is_no_other_event() {
    let mut script = with_twenty_outstanding(SACK);
    report(&mut script, 10_001, &[(11_001, 12_001)]);
    report(&mut script, 12_001, &[]);
    assert_eq!(script.counted(Counter::TcpReordered), 1);
    let Statistics { fast_retransmits, undone, duplicate_reports, .. } = script.status().statistics;
    assert_eq!([fast_retransmits, undone, duplicate_reports], [0; 3]);
}

#[test]
fn a_report_of_a_duplicate_without_a_timeout_measures_no_round_trip() {
    let mut script = with_twenty_outstanding(SACK);
    let measured = script.context.recorded(Quantity::RoundTrip);
    report(&mut script, 11_001, &[(9_001, 10_001)]);
    assert_eq!(script.counted(Counter::TcpDuplicateReports), 1);
    assert_eq!(script.context.recorded(Quantity::RoundTrip), measured);
}
