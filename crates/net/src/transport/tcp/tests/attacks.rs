//! Tests for those rows of docs/ledger/attacks.txt that have no test file of their own: RFC 5961,
//! sequence numbers, and malformed segments.

use super::*;
use crate::probes;
use proptest::prelude::*;

// attack row 28
#[test]
fn attack_28_a_syn_in_the_window_is_answered_by_a_challenge() {
    for seq in [1, 5, 40_000] {
        let mut script = Script::established(PLAIN);
        let answer = script.peer(Flags::SYN, seq, 0, b"");
        assert_eq!(texts(&answer), ["<ACK seq 1 ack 1 len 0>"]);
        assert_eq!(script.state(), Some(State::Established));
        assert_eq!(script.counted(Counter::TcpChallengeAcks), 1);
    }
}

// req RFC9293:MAY-12
// attack row 28
#[test]
fn attack_28_data_with_an_impossible_acknowledgment_is_dropped() {
    for ack in [2, 0x8000_0000, 1_u32.wrapping_sub(100_000)] {
        let mut script = Script::established(PLAIN);
        script.peer(Flags::ACK, 1, ack, b"forged");
        assert!(script.tcp.received(script.id.unwrap()).unwrap().is_empty(), "{ack}");
    }
}

// attack row 28
#[test]
fn attack_28_data_without_an_acknowledgment_is_dropped() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.peer(Flags::PSH, 1, 0, b"forged"), []);
    assert!(script.tcp.received(script.id.unwrap()).unwrap().is_empty());
}

// attack row 29
#[test]
fn attack_29_challenges_are_limited_per_connection() {
    let mut script = Script::established(PLAIN);
    let answers: usize = (0..100).map(|_| script.peer(Flags::RST, 5, 0, b"").len()).sum();
    assert_eq!(answers, 10);
    assert_eq!(script.counted(Counter::TcpChallengeAcksSuppressed), 90);
    script.wait_millis(1000);
    assert_eq!(script.peer(Flags::RST, 5, 0, b"").len(), 1);
}

/// Delivers a segment from port `port` of the peer, and returns the segments sent in response.
fn peer_at(script: &mut Script, port: u16, flags: Flags, seq: Seq, ack: Seq) -> Vec<Sent> {
    let source_port = port;
    let destination_port = PORT;
    let header =
        Header { source_port, destination_port, seq, ack, flags, window: 9, ..Header::default() };
    let ends = (SocketAddr::new(CLIENT, port), SocketAddr::new(SERVER, PORT));
    let segment = make(header, ends, b"");
    deliver_bytes(&mut script.tcp, (CLIENT, SERVER), segment.data(), &mut script.context.cx());
    script.output()
}

// attack row 29
#[test]
fn attack_29_challenges_of_other_connections_do_not_count_towards_the_limit() {
    let mut script = Script::established(PLAIN);
    let peer_isn = Seq(7_000_000);
    for port in 5000..5100 {
        let answer = peer_at(&mut script, port, Flags::SYN, peer_isn, Seq(0));
        let next = answer[0].header.seq + 1;
        assert_eq!(peer_at(&mut script, port, Flags::ACK, peer_isn + 1, next), []);
        let forged = (0..100).map(|_| peer_at(&mut script, port, Flags::RST, peer_isn + 5, Seq(0)));
        assert_eq!(forged.map(|answer| answer.len()).sum::<usize>(), 10, "port {port}");
    }
    let answers: usize = (0..100).map(|_| script.peer(Flags::RST, 5, 0, b"").len()).sum();
    assert_eq!(answers, 10);
    assert_eq!(script.counted(Counter::TcpChallengeAcks), 101 * 10);
}

#[test]
fn two_ends_that_disagree_do_not_answer_each_other_without_limit() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(PLAIN);
    // Sets the state that a connection would have after accepting forged data.
    let forge = |tcp: &mut Tcp, id| {
        let connection = tcp.table.get_mut(id).unwrap();
        connection.rcv.skip(1000);
    };
    forge(&mut pair.client, client);
    forge(&mut pair.server, server);
    let before = pair.trace.len();
    pair.client.send(client, b"x").unwrap();
    pair.run(Duration::from_secs(10));
    let segments = pair.trace.len() - before;
    assert!(segments <= 2 * 11 * 11, "{segments}");
}

// req RFC9293:MUST-9, RFC9293:SHLD-1
// attack row 31
#[test]
fn attack_31_initial_numbers_of_neighbouring_ports_are_not_neighbours() {
    let mut context = OwnedCx::with_seed(9);
    let secret = Secret::draw(&mut context.rng);
    let isn = |port: u16| {
        let local = SocketAddr::new(CLIENT, port);
        secret.isn(local, SocketAddr::new(SERVER, PORT), Instant::ZERO).0
    };
    let mut gaps: Vec<u32> = (0..u16::MAX).map(|p| isn(p + 1).wrapping_sub(isn(p))).collect();
    gaps.sort_unstable();
    gaps.dedup();
    assert!(gaps.len() > 65_500, "{} different gaps", gaps.len());
    let ones: u32 = (0..u16::MAX).map(|port| isn(port).count_ones()).sum();
    let mean = f64::from(ones) / 65_535.0;
    assert!((15.9..16.1).contains(&mean), "{mean}");
}

// req RFC9293:MUST-9
// attack row 31
#[test]
fn attack_31_another_run_has_other_numbers() {
    let isn = |seed| {
        let mut context = OwnedCx::with_seed(seed);
        let ends = (SocketAddr::new(CLIENT, 1), SocketAddr::new(SERVER, PORT));
        Secret::draw(&mut context.rng).isn(ends.0, ends.1, Instant::ZERO)
    };
    assert_ne!(isn(1), isn(2));
}

/// Number of initial sequence numbers to examine. The long check examines a million.
const NUMBERS: u32 = 100_000;

/// Opens connections one after the other, and counts how often their initial sequence number can be
/// predicted from the two before it.
fn count_predicted(numbers: u32) -> usize {
    let secret = Secret::draw(&mut OwnedCx::with_seed(4).rng);
    let isn = |number: u32| {
        let host = IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + number / 50_000));
        let port = u16::try_from(1024 + number % 50_000).unwrap();
        let now = Instant::from_nanos(u64::from(number) * 1_000_000);
        secret.isn(SocketAddr::new(SERVER, PORT), SocketAddr::new(host, port), now).0
    };
    let is_predicted = |number: &u32| {
        let first = isn(*number);
        let second = isn(number + 1);
        let third = isn(number + 2);
        let step = second.wrapping_sub(first);
        let guesses = [
            second,
            second.wrapping_add(250),
            second.wrapping_add(64_000),
            second.wrapping_add(step),
            second.wrapping_mul(1_664_525).wrapping_add(1_013_904_223),
            second.wrapping_mul(1_103_515_245).wrapping_add(12_345),
        ];
        guesses.contains(&third)
    };
    (0..numbers).filter(is_predicted).count()
}

// attack row 31
#[test]
fn attack_31_no_initial_number_follows_from_the_two_before() {
    assert_eq!(count_predicted(NUMBERS), 0);
}

// attack row 31
#[test]
#[ignore = "the long check"]
fn attack_31_initial_numbers_do_not_follow_from_the_two_before_more_often_than_random() {
    assert!(count_predicted(1_000_000) <= 2);
}

// req RFC9293:MUST-8
// attack row 31
#[test]
fn attack_31_the_same_ends_begin_later_each_time() {
    let secret = Secret::draw(&mut OwnedCx::default().rng);
    let ends = (SocketAddr::new(CLIENT, 1), SocketAddr::new(SERVER, PORT));
    let at = |millis: u64| secret.isn(ends.0, ends.1, Instant::from_nanos(millis * 1_000_000));
    assert_eq!(at(1000).since(at(0)), 250_000);
    assert!(at(10_000).is_after(at(0)));
}

/// Maximum number of range comparisons for a segment out of order. A few searches among the 2048
/// ranges of a 16 MiB window need fewer. A linear scan needs more.
const RANGE_PROBES_MAX: u64 = 200;

// attack row 26
#[test]
fn attack_26_a_hundred_thousand_segments_out_of_order_cost_a_search_each() {
    let window = Profile { receive_window: ReceiveWindow::Bytes(16 << 20), ..Profile::BULK };
    let options = Options { mss: Some(1000), window_scale: Some(7), ..Options::default() };
    let mut script = Script::asked_for_options(window, options);
    script.peer(Flags::ACK, 1, 1, b"");
    let mut probes_max = 0;
    for step in 0..100_000_u32 {
        // The offsets are scattered, so that each segment has another position in the list.
        let offset = 3 + step.wrapping_mul(48_611) % 4_000_000 * 2;
        let (probes, ()) =
            probes::count_probes_during(|| script.deliver(Flags::ACK, offset, 1, b"x"));
        probes_max = probes_max.max(probes);
        script.discard_output();
    }
    assert!(script.counted(Counter::TcpOutOfOrderDropped) > 97_000);
    assert!(probes_max <= RANGE_PROBES_MAX, "{probes_max}");
    // A segment in order is accepted. It scans the list once, because it shifts all ranges.
    let (probes, answer) = probes::count_probes_during(|| script.peer(Flags::ACK, 1, 1, b"a"));
    assert_eq!(answer[0].ack, 2);
    assert!(probes <= 3 * 2048, "{probes}");
}

// attack row 26
#[test]
fn attack_26_many_small_segments_out_of_order_have_a_limit() {
    let mut script = Script::established(Profile::BULK);
    for step in 0..100_000_u32 {
        script.deliver(Flags::ACK, 3 + (step * 2) % 60_000, 1, b"x");
    }
    assert!(script.counted(Counter::TcpOutOfOrderDropped) > 90_000);
    assert!(script.output().len() <= 65);
    script.peer(Flags::ACK, 1, 1, b"ab");
    assert!(script.status().receive_queue >= 3);
}

// attack row 44
#[test]
fn attack_44_data_on_a_syn_waits_for_the_handshake_and_takes_no_memory() {
    let mut script = Script::listening(PLAIN);
    let answer = script.peer(Flags::SYN, 0, 0, &pattern(1400));
    assert_eq!(answer[0].ack, 1, "it is not taken, and so will come again");
    script.iss = answer[0].header.seq;
    script.peer(Flags::ACK, 1, 1, b"");
    assert!(script.tcp.received(script.id.unwrap()).unwrap().is_empty());
}

// attack row 44
#[test]
fn attack_44_data_on_the_answer_to_our_syn_is_read_once_open() {
    let mut script = Script::syn_sent(PLAIN);
    let answer = script.peer(SYN_ACK, 0, 1, b"banner");
    assert_eq!(answer[0].ack, 7);
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"banner");
}

// attack row 43
#[test]
fn attack_43_a_peer_that_opens_its_window_by_single_bytes_gets_no_flood() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(50_000));
    let mut segments = 0;
    let mut acked = 10_001;
    script.window = 1;
    script.peer(Flags::ACK, 1, acked, b"");
    for _ in 0..100 {
        let sent = script.wait_millis(100);
        segments += sent.len();
        acked += u32::try_from(sent.iter().map(|s| s.len).sum::<usize>()).unwrap();
        script.peer(Flags::ACK, 1, acked, b"");
    }
    assert!(segments <= 51, "one in 200 ms: {segments}");
}

// attack row 38
#[test]
fn attack_38_no_data_offset_or_length_causes_a_panic() {
    let mut tcp = Tcp::new(LOWER, &mut OwnedCx::default().cx());
    let mut context = OwnedCx::default();
    tcp.listen(PORT, PLAIN).unwrap();
    for offset in 0..16_u8 {
        for len in 0..80 {
            let mut segment = [0_u8; 80];
            segment[12] = offset << 4;
            deliver_bytes(&mut tcp, (CLIENT, SERVER), &segment[..len], &mut context.cx());
        }
    }
    let bad_segments =
        context.counted(Counter::TcpHeaderErrors) + context.counted(Counter::TcpChecksumErrors);
    assert_eq!(bad_segments, 16 * 80);
}

// req RFC9293:MUST-7
// attack row 37
#[test]
fn attack_37_a_segment_with_malformed_options_is_still_accepted() {
    let malformed: [&[u8]; 6] = [
        &[2, 0, 0, 0],
        &[2, 1, 0, 0],
        &[8, 40, 0, 0],
        &[3, 4, 9, 9],
        &[255, 255, 255, 255],
        &[1, 1, 1, 254],
    ];
    for options in malformed {
        let mut script = Script::established(PLAIN);
        script.deliver_raw(options, b"data");
        assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"data", "{options:?}");
        assert!(script.counted(Counter::TcpOptionErrors) > 0, "{options:?}");
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Delivers arbitrary segments in any state. There must be no panic, no more than a few
    /// answers, and no lost packet.
    #[test]
    fn no_sequence_of_segments_panics_or_is_amplified(
        segments in prop::collection::vec(
            (0..64_u8, -70_000..70_000, -70_000..70_000, 0..1500_usize, any::<(u16, u16)>()),
            1..40,
        ),
        is_active: bool,
        closes_after in 0..40_usize,
    ) {
        let mut script =
            if is_active { Script::syn_sent(PLAIN) } else { Script::established(PLAIN) };
        for (at, (bits, seq, ack, len, (window, urgent))) in segments.into_iter().enumerate() {
            if let Some(id) = script.id.filter(|_| at == closes_after) {
                let _ = script.tcp.send_urgent(id, &pattern(3000));
                let _ = script.tcp.close(id);
            }
            script.window = window;
            script.urgent = urgent;
            // Most segments have sequence numbers near the expected ones.
            let near = |offset: i32| {
                if offset % 3 == 0 { 1 } else { 1_u32.wrapping_add_signed(offset / 7) }
            };
            let flags = [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::URG];
            let flags = flags.into_iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
            let flags = flags.fold(Flags::default(), |all, (_, flag)| all.with(flag));
            let answers = script.peer(flags, near(seq), near(ack), &pattern(len));
            prop_assert!(answers.len() <= 12, "{}", answers.len());
            script.wait_millis(u64::from(window) % 500);
        }
        script.release_all();
        script.wait(Duration::from_secs(1000));
        prop_assert_eq!(script.tcp.connections(), 0);
    }
}
