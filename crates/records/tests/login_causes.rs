//! Tests of the verdict rules for logins that need more than one measurement of a session: windows,
//! token buckets, losses while keys are typed one at a time and during output, and late
//! connections.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use records::verdict::{
    Answers, Arrival, Cause, CauseKind, Echoes, Flow, FlowCounts, Observation, Operation, Path,
    Steps, causes,
};

const MS: u64 = 1_000_000;

/// A session over a path of `trip_ms`, whose 40 echoes take only the round trip.
fn session(trip_ms: u64) -> Observation {
    Observation {
        echo: Some(Echoes { samples_ns: vec![trip_ms * MS; 40], ..Echoes::default() }),
        path: Path { min_rtt_ns: Some(trip_ms * MS), mss_bytes: Some(1_448), ..Path::default() },
        ..Observation::default()
    }
}

fn flow(arrivals: &[(u64, u64)], counts: FlowCounts) -> Flow {
    let arrivals: Vec<Arrival> =
        arrivals.iter().map(|&(at_ns, bytes)| Arrival { at_ns, bytes }).collect();
    Flow {
        bytes: arrivals.iter().map(|arrival| arrival.bytes).sum(),
        elapsed_ns: arrivals.last().map_or(0, |last| last.at_ns),
        arrivals,
        counts,
        ..Flow::default()
    }
}

fn window_of(bytes: u64) -> FlowCounts {
    FlowCounts { window_bytes: Some(bytes), ..FlowCounts::default() }
}

/// Twenty windows of `bytes` over a path of 50 ms, and a screenful that arrives at once.
fn in_windows(bytes: u64, counts: FlowCounts) -> Vec<Cause> {
    let mut observed = session(50);
    observed.screenful = Some(flow(&[(50 * MS, 1_968)], FlowCounts::default()));
    let arrivals: Vec<(u64, u64)> = (1..=20).map(|at| (at * 50 * MS, bytes)).collect();
    observed.transfers = vec![flow(&arrivals, counts)];
    causes(&observed)
}

#[test]
fn an_output_in_windows_of_this_host_is_not_a_rate_limiter() {
    let diagnosis = in_windows(2_896, window_of(4_096));
    let first = diagnosis.first().unwrap();
    assert_eq!((first.kind, first.gain_ns), (CauseKind::SmallWindow, 950 * MS), "{diagnosis:?}");
    assert!(first.subject.starts_with("This host's small receive window"), "{first:?}");
    let others = [CauseKind::RateLimiter, CauseKind::LineRate, CauseKind::Queue];
    assert!(diagnosis.iter().all(|cause| !others.contains(&cause.kind)), "{diagnosis:?}");
}

#[test]
fn windows_smaller_than_this_host_offers_show_a_small_send_buffer_of_the_remote_host() {
    let diagnosis = in_windows(4_344, window_of(65_535));
    let first = diagnosis.first().unwrap();
    assert_eq!(first.kind, CauseKind::SmallSendBuffer, "{diagnosis:?}");
    assert!(first.subject.starts_with("The remote host's small send buffer"), "{first:?}");
}

#[test]
fn a_longer_output_is_tested_for_windows_only() {
    let mut observed = session(50);
    observed.path.mss_bytes = Some(536);
    let windows: Vec<(u64, u64)> = (1..=20).map(|at| (at * 50 * MS, 4_344)).collect();
    observed.sustained = Some(flow(&windows, window_of(65_535)));
    let diagnosis = causes(&observed);
    assert_eq!(
        diagnosis.first().map(|cause| cause.kind),
        Some(CauseKind::SmallSendBuffer),
        "{diagnosis:?}"
    );
    // The sustained output fills a link and causes losses at its queue. Neither is a cause.
    let link: Vec<(u64, u64)> = (1..=200).map(|at| (50 * MS + at * 10 * MS, 536)).collect();
    let counts = FlowCounts { out_of_order_in: Some(20), ..window_of(65_535) };
    observed.sustained = Some(flow(&link, counts));
    assert!(causes(&observed).iter().all(|cause| cause.operation != Operation::Transfer));
}

#[test]
fn a_constant_window_of_more_than_twenty_segments_is_a_buffer() {
    let kind = |windows, bytes| {
        let mut observed = session(50);
        let arrivals: Vec<(u64, u64)> = (1..=windows).map(|at| (at * 50 * MS, bytes)).collect();
        observed.transfers = vec![flow(&arrivals, window_of(65_535))];
        causes(&observed).first().map(|cause| cause.kind)
    };
    assert_eq!(kind(6, 20 * 1_448), Some(CauseKind::SmallSendBuffer));
    assert_ne!(kind(6, 20 * 1_448 + 1), Some(CauseKind::SmallSendBuffer));
    assert_eq!(kind(7, 20 * 1_448 + 1), Some(CauseKind::SmallSendBuffer));
}

#[test]
fn a_window_that_its_sender_paces_is_followed_by_a_silence_of_a_round_trip() {
    let mut observed = session(50);
    let paced = |at: u64| (0..8).map(move |part| ((at * 80 + part * 4) * MS, 1_448));
    let arrivals: Vec<(u64, u64)> =
        (1..=12).flat_map(paced).map(|(ns, n)| (ns - 30 * MS, n)).collect();
    observed.transfers = vec![flow(&arrivals, window_of(65_535))];
    let diagnosis = causes(&observed);
    assert_eq!(
        diagnosis.first().map(|cause| cause.kind),
        Some(CauseKind::SmallSendBuffer),
        "{diagnosis:?}"
    );
}

#[test]
fn packets_that_only_a_full_link_loses_are_dropped_by_its_queue() {
    let mut observed = session(3);
    // 1,448 bytes take 42 ms on the link, and each ninth segment is followed by a silence of 350
    // ms.
    let arrivals: Vec<(u64, u64)> =
        (1..=30).map(|at| ((at * 42 + at / 9 * 350) * MS, 1_448)).collect();
    let lost = |count| FlowCounts { out_of_order_in: Some(count), ..window_of(65_535) };
    observed.transfers = vec![flow(&arrivals, lost(9))];
    let kinds = |observed: &Observation| {
        causes(observed).iter().map(|cause| cause.kind).collect::<Vec<CauseKind>>()
    };
    let is_loss =
        |kind: &CauseKind| matches!(kind, CauseKind::Loss | CauseKind::RetransmissionTimeouts);
    assert!(kinds(&observed).iter().any(is_loss), "no queue is known");
    // Five segments take 210 ms.
    observed.path.rtt_under_load_ns = Some(220 * MS);
    assert_eq!(kinds(&observed), [CauseKind::LineRate]);
    let line = causes(&observed).remove(0);
    assert!(
        line.cost_ns > 2_000 * MS && line.advice.contains("that its full queue dropped"),
        "{line:?}"
    );
    // An output of less than a second does not show by itself that it waits for the link.
    let short: Vec<(u64, u64)> = arrivals.iter().copied().take(12).collect();
    let long = std::mem::replace(&mut observed.transfers, vec![flow(&short, lost(9))]);
    assert_eq!(kinds(&observed), [CauseKind::LineRate]);
    observed.transfers = long;
    // Between single keys the queue is empty.
    observed.echo.as_mut().unwrap().counts = lost(1);
    assert!(
        kinds(&observed)
            .iter()
            .any(|kind| matches!(kind, CauseKind::Loss | CauseKind::RetransmissionTimeouts))
    );
}

#[test]
fn a_receive_window_of_128_kib_is_not_small() {
    let is_small = |bytes| {
        let diagnosis = in_windows(bytes, window_of(bytes));
        diagnosis.iter().any(|cause| cause.kind == CauseKind::SmallWindow)
    };
    assert!(is_small(131_071));
    assert!(!is_small(131_072));
}

#[test]
fn one_wait_after_a_first_flight_of_short_segments_is_slow_start() {
    let kinds = |arrivals: &[(u64, u64)]| {
        let mut observed = session(205);
        observed.transfers = vec![flow(arrivals, window_of(65_535))];
        causes(&observed).iter().map(|cause| cause.kind).collect::<Vec<CauseKind>>()
    };
    // Ten segments of 689 bytes, and the rest after a round trip.
    let first: Vec<(u64, u64)> = (0..10).map(|at| (205 * MS + at, 689)).collect();
    let rest: Vec<(u64, u64)> = (0..10).map(|at| (410 * MS + at, 689)).collect();
    let send_buffer = CauseKind::SmallSendBuffer;
    assert!(!kinds(&[first, rest].concat()).contains(&send_buffer));
    let repeated: Vec<(u64, u64)> =
        (1..=8).flat_map(|trip| (0..10).map(move |at| (trip * 205 * MS + at, 689))).collect();
    assert!(kinds(&repeated).contains(&send_buffer));
}

#[test]
fn without_a_known_window_the_receive_window_and_the_send_buffer_are_both_named() {
    let diagnosis = in_windows(4_344, FlowCounts::default());
    let sentence = diagnosis.first().unwrap().sentence();
    assert!(sentence.starts_with("Either this host's small receive window or"), "{sentence}");
    assert!(sentence.contains("To tell them apart"), "{sentence}");
}

#[test]
fn a_window_smaller_than_a_segment_is_detected_by_the_window_of_this_host() {
    assert_eq!(in_windows(1_536, window_of(1_536)).first().unwrap().kind, CauseKind::SmallWindow);
    let first = in_windows(1_448, window_of(65_535)).first().unwrap().kind;
    assert_ne!(first, CauseKind::SmallSendBuffer, "one segment in each round trip may be a link's");
}

#[test]
fn packets_that_take_a_round_trip_on_a_link_show_no_window() {
    // The first window is late as well.
    let mut observed = session(50);
    let arrivals: Vec<(u64, u64)> = (2..=21).map(|at| (at * 50 * MS, 2_896)).collect();
    observed.transfers = vec![flow(&arrivals, window_of(65_535))];
    let diagnosis = causes(&observed);
    assert_eq!(diagnosis.first().unwrap().kind, CauseKind::LineRate, "{diagnosis:?}");
}

/// An output of 20 segments at once, followed by one every 12 ms with `steps` silences of 40 ms.
fn behind_a_knee(steps: u64) -> Flow {
    let fast = (0..20).map(|at| (40 * MS + at * MS / 2, 1_448));
    let slow = (1..=40).map(|at| (50 * MS + at * 12 * MS + at * steps / 40 * 40 * MS, 1_448));
    let counts = FlowCounts { out_of_order_in: Some(9), ..FlowCounts::default() };
    flow(&fast.chain(slow).collect::<Vec<_>>(), counts)
}

#[test]
fn with_losses_while_typing_the_steps_of_an_output_show_no_token_bucket() {
    let mut observed = session(40);
    observed.transfers = vec![behind_a_knee(8)];
    assert_eq!(causes(&observed).first().unwrap().kind, CauseKind::RateLimiter);
    observed.echo.as_mut().unwrap().counts.out_of_order_in = Some(2);
    let diagnosis = causes(&observed);
    assert!(diagnosis.iter().all(|cause| cause.kind != CauseKind::RateLimiter), "{diagnosis:?}");
}

#[test]
fn with_an_empty_token_bucket_the_link_is_not_a_cause() {
    let mut observed = session(40);
    observed.transfers = vec![behind_a_knee(0)];
    let kinds: Vec<CauseKind> = causes(&observed).iter().map(|cause| cause.kind).collect();
    assert!(
        kinds.contains(&CauseKind::RateLimiter) && !kinds.contains(&CauseKind::LineRate),
        "{kinds:?}"
    );
}

/// Returns a session of 80 exchanges in which a packet of the only screenful was lost. Packets of
/// `exchanges` exchanges were lost too.
fn with_a_lost_screen(exchanges: usize) -> Observation {
    let mut observed = session(4);
    let late = std::iter::repeat_n(230 * MS, exchanges);
    let echo = observed.echo.as_mut().unwrap();
    echo.samples_ns = late.chain(std::iter::repeat_n(4 * MS, 40 - exchanges)).collect();
    echo.erasures_ns = vec![4 * MS; 40];
    echo.counts.retransmissions = Some(2);
    let counts =
        FlowCounts { retransmissions: Some(1), out_of_order_in: Some(1), ..FlowCounts::default() };
    observed.screenful = Some(flow(&[(4 * MS, 1_448), (230 * MS, 520)], counts));
    observed
}

#[test]
fn a_random_loss_of_a_screenful_has_the_average_cost_of_the_session() {
    let diagnosis = causes(&with_a_lost_screen(16));
    let cost_ms = |operation| {
        diagnosis.iter().find(|cause| cause.operation == operation).map(|cause| cause.gain_ns / MS)
    };
    // 16 of 80 exchanges of two packets were 226 ms late. A screenful has three packets.
    let costs_ms = (cost_ms(Operation::Echo), cost_ms(Operation::Screenful));
    assert_eq!(costs_ms, (Some(45), None), "{diagnosis:?}");
    let mut observed = with_a_lost_screen(16);
    observed.echo = None;
    let diagnosis = causes(&observed);
    assert!(diagnosis.iter().any(|cause| cause.operation == Operation::Screenful), "{diagnosis:?}");
}

#[test]
fn a_small_loss_is_reported_if_there_is_no_other_cause() {
    let mut observed = with_a_lost_screen(1);
    observed.screenful = None;
    let diagnosis = causes(&observed);
    assert_eq!(diagnosis.first().map(|cause| cause.kind), Some(CauseKind::Loss), "{diagnosis:?}");
    observed.echo.as_mut().unwrap().samples_ns = vec![4 * MS; 40];
    assert_eq!(causes(&observed), []);
}

#[test]
fn pauses_are_averaged_over_typed_keys_and_erasures() {
    let mut observed = session(20);
    let echo = observed.echo.as_mut().unwrap();
    echo.counts.retransmissions = Some(0);
    echo.samples_ns = [vec![20 * MS; 32], vec![700 * MS; 8]].concat();
    echo.erasures_ns = vec![20 * MS; 40];
    let diagnosis = causes(&observed);
    assert_eq!(
        (diagnosis[0].kind, diagnosis[0].gain_ns),
        (CauseKind::Pauses, 68 * MS),
        "{diagnosis:?}"
    );
}

fn connecting(connect_ms: u64) -> Observation {
    let mut observed = session(40);
    observed.steps = Steps { connect_ns: Some(connect_ms * MS), ..Steps::default() };
    observed
}

#[test]
fn a_lost_syn_is_detected_by_its_retransmission_timeouts() {
    for late_ms in [1_000, 1_030, 3_020, 7_000] {
        let diagnosis = causes(&connecting(40 + late_ms));
        let first = diagnosis.first().unwrap();
        assert_eq!((first.kind, first.gain_ns), (CauseKind::Loss, late_ms * MS), "{late_ms} ms");
    }
    let diagnosis = causes(&connecting(5_000));
    assert!(diagnosis[0].subject.starts_with("Either a lost connection request"), "{diagnosis:?}");
}

#[test]
fn a_connection_that_waits_behind_other_traffic_is_charged_to_the_link() {
    // A link of 24,000 bit/s with 7.2 s of other data queued in front of it.
    let mut observed = connecting(7_240);
    observed.screenful = Some(flow(&[(520 * MS, 1_448), (705 * MS, 520)], FlowCounts::default()));
    let diagnosis = causes(&observed);
    assert_eq!(diagnosis.first().unwrap().kind, CauseKind::LineRate, "{diagnosis:?}");
    assert!(diagnosis.iter().all(|cause| cause.kind != CauseKind::Loss), "{diagnosis:?}");
}

#[test]
fn a_half_duplex_path_is_reported_without_its_consequences() {
    let mut observed = session(70);
    observed.echo.as_mut().unwrap().samples_ns = vec![120 * MS; 40];
    let answers_ns = vec![72 * MS; 5];
    observed.answers =
        Some(Answers { quick_ack_ns: answers_ns.clone(), delayed_ack_ns: answers_ns });
    observed.transfers = vec![behind_a_knee(0)];
    let kinds: Vec<CauseKind> = causes(&observed).iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, [CauseKind::HalfDuplex]);
}
