//! Tests of the causes derived from observations, for example: unknown values yield no cause, and a
//! gain is at most its total.

use proptest::prelude::*;
use records::verdict::{
    Answers, Arrival, CauseKind, Direction, Echoes, Flow, FlowCounts, Observation, Operation, Path,
    Steps, causes, conclusion,
};

const MS: u64 = 1_000_000;

/// Returns a session of forty echoes of `echo_ns` over a path with a round-trip time of `trip_ns`.
fn echoing(echo_ns: u64, trip_ns: Option<u64>) -> Observation {
    Observation {
        echo: Some(Echoes { samples_ns: vec![echo_ns; 40], ..Echoes::default() }),
        path: Path { min_rtt_ns: trip_ns, mss_bytes: Some(1_448), ..Path::default() },
        ..Observation::default()
    }
}

fn flow(arrivals: &[(u64, u64)]) -> Flow {
    let arrivals: Vec<Arrival> =
        arrivals.iter().map(|&(at_ns, bytes)| Arrival { at_ns, bytes }).collect();
    Flow {
        direction: Direction::Incoming,
        bytes: arrivals.iter().map(|arrival| arrival.bytes).sum(),
        elapsed_ns: arrivals.last().map_or(0, |last| last.at_ns),
        arrivals,
        ..Flow::default()
    }
}

#[test]
fn an_empty_observation_has_no_cause() {
    let causes = causes(&Observation::default());
    assert_eq!(conclusion(&causes), "Nothing stands out.");
}

#[test]
fn without_a_round_trip_time_neither_the_remote_host_nor_the_network_is_a_cause() {
    assert_eq!(causes(&echoing(400 * MS, None)), []);
}

#[test]
fn the_part_of_the_remote_host_in_an_echo_is_the_remainder() {
    let diagnosis = causes(&echoing(120 * MS, Some(20 * MS)));
    let [cause] = diagnosis.as_slice() else { panic!("{diagnosis:?}") };
    assert_eq!(
        (cause.kind, cause.operation, cause.gain_ns),
        (CauseKind::RemoteHost, Operation::Echo, 100 * MS)
    );
}

#[test]
fn the_sentence_has_cost_total_and_remedy() {
    let mut observed = echoing(MS / 5, Some(MS / 10));
    observed.screenful = Some(flow(&[(300_000, 1_448), (500_000, 520)]));
    observed.screenful_delayed_ack = Some(flow(&[(41_300_000, 1_448), (41_500_000, 520)]));
    assert_eq!(
        conclusion(&causes(&observed)),
        "Nagle's algorithm on the remote host costs 41.0 ms of the 41.5 ms of a screenful (99 %): \
         it waits for an acknowledgment, which plumb delayed here as most programs do. Set \
         TCP_NODELAY there."
    );
}

#[test]
fn a_host_that_acknowledges_at_once_has_no_wait_for_its_acknowledgments() {
    let mut observed = echoing(MS / 5, Some(MS / 10));
    observed.path.own_ack_delay_ns = Some(0);
    observed.screenful = Some(flow(&[(300_000, 2), (41_300_000, 1_448), (43_500_000, 520)]));
    assert!(causes(&observed).iter().all(|cause| cause.kind != CauseKind::Nagle));
}

#[test]
fn a_quick_lookup_and_a_quick_login_are_no_causes() {
    let mut observed = echoing(10 * MS, Some(9 * MS));
    observed.steps = Steps {
        resolve_ns: Some(3 * MS),
        connect_ns: Some(9 * MS),
        prompt_ns: Some(20 * MS),
        login_ns: Some(100 * MS),
        ..Steps::default()
    };
    assert_eq!(causes(&observed), []);
}

/// Returns a session of ten short answers. Those with delayed acknowledgments arrive `later_ns`
/// later.
fn answering(quick_ack_ns: u64, later_ns: u64) -> Observation {
    let times = |ns: u64| (0..5).map(|at| ns + at * MS / 2).collect::<Vec<u64>>();
    let delayed_ack_ns = times(quick_ack_ns + later_ns);
    let quick_ack_ns = times(quick_ack_ns);
    let answers = Some(Answers { quick_ack_ns, delayed_ack_ns });
    Observation { answers, ..echoing(MS / 5, Some(MS / 10)) }
}

#[test]
fn answers_delayed_as_long_as_the_acknowledgment_waited_for_it() {
    let diagnosis = causes(&answering(3 * MS, 41 * MS));
    let [cause] = diagnosis.as_slice() else { panic!("{diagnosis:?}") };
    assert_eq!(
        (cause.kind, cause.operation, cause.gain_ns),
        (CauseKind::Nagle, Operation::Answer, 41 * MS)
    );
}

#[test]
fn one_answer_delayed_by_another_cause_changes_nothing() {
    let mut observed = answering(3 * MS, 41 * MS);
    observed.answers.as_mut().unwrap().quick_ack_ns[4] = 90 * MS;
    assert_eq!(causes(&observed)[0].kind, CauseKind::Nagle);
}

#[test]
fn the_computing_time_of_a_host_is_not_part_of_the_gain() {
    let diagnosis = causes(&answering(12 * MS, 32 * MS));
    assert_eq!((diagnosis[0].kind, diagnosis[0].gain_ns), (CauseKind::Nagle, 32 * MS));
}

#[test]
fn an_answer_acknowledged_at_once_still_waits_one_round_trip() {
    let mut observed = answering(24 * MS, 42 * MS);
    observed.path.min_rtt_ns = Some(12 * MS);
    let diagnosis = causes(&observed);
    let nagle = diagnosis.iter().find(|cause| cause.kind == CauseKind::Nagle).unwrap();
    assert_eq!((nagle.operation, nagle.gain_ns), (Operation::Answer, 54 * MS));
}

#[test]
fn a_queue_is_charged_with_the_growth_of_the_round_trip_only() {
    let mut observed = echoing(2 * MS, Some(2 * MS));
    observed.echo_under_load = Some(Echoes { samples_ns: vec![902 * MS; 6], ..Echoes::default() });
    observed.path.rtt_under_load_ns = Some(402 * MS);
    let diagnosis = causes(&observed);
    assert_eq!((diagnosis[0].kind, diagnosis[0].cost_ns / MS), (CauseKind::Queue, 400));
    assert!(
        diagnosis[0].advice.contains("the remote host delays it by another 500 ms"),
        "{diagnosis:?}"
    );
}

#[test]
fn an_echo_during_output_that_waits_for_the_local_processor_shows_no_queue() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    observed.echo_under_load = Some(Echoes { samples_ns: vec![320 * MS; 6], ..Echoes::default() });
    let output = |own_wait_ms: u64| Flow {
        own_wait_ns: Some(own_wait_ms * MS),
        ..flow(&[(20 * MS, 1_448), (1_000 * MS, 1_448), (2_000 * MS, 1_448)])
    };
    observed.sustained = Some(output(1_000));
    let diagnosis = causes(&observed);
    let with_other_output =
        diagnosis.iter().find(|cause| cause.operation == Operation::EchoUnderLoad).unwrap();
    assert_eq!(
        (with_other_output.kind, with_other_output.gain_ns),
        (CauseKind::LocalProcessor, 150 * MS),
        "{diagnosis:?}"
    );
    observed.sustained = Some(output(400));
    let diagnosis = causes(&observed);
    assert!(diagnosis.iter().any(|cause| cause.kind == CauseKind::Queue), "{diagnosis:?}");
}

#[test]
fn a_wait_for_the_local_processor_is_no_step_of_the_remote_host() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    observed.steps = Steps {
        connect_ns: Some(20 * MS),
        greeting_ns: Some(300 * MS),
        negotiation_ns: Some(340 * MS),
        login_ns: Some(420 * MS),
        ..Steps::default()
    };
    let kinds = |observed: &Observation| {
        causes(observed).iter().map(|cause| cause.kind).collect::<Vec<CauseKind>>()
    };
    assert_eq!(kinds(&observed), [CauseKind::SlowLogin, CauseKind::SlowGreeting]);
    observed.steps.own_wait_ns = Some(400 * MS);
    assert_eq!(kinds(&observed), [CauseKind::LocalProcessor]);
    // The sum of the waits of concurrent threads counts only up to the total time.
    observed.steps.own_wait_ns = Some(40_000 * MS);
    let diagnosis = causes(&observed);
    assert!(diagnosis.iter().all(|cause| cause.cost_ns <= cause.total_ns), "{diagnosis:?}");
}

#[test]
fn answers_earlier_than_an_acknowledgment_can_arrive_prove_no_nagle() {
    let mut observed = answering(148 * MS, 37 * MS);
    observed.path.min_rtt_ns = Some(120 * MS);
    assert!(causes(&observed).iter().all(|cause| cause.operation != Operation::Answer));
}

#[test]
fn a_first_byte_that_was_late_once_is_not_charged_to_the_remote_host() {
    let mut observed = echoing(MS / 5, Some(MS / 10));
    observed.screenful = Some(flow(&[(84 * MS, 1_448), (84 * MS + 500_000, 520)]));
    assert_eq!(causes(&observed)[0].kind, CauseKind::RemoteHost);
    observed.screenful_delayed_ack = Some(flow(&[(3 * MS, 1_448), (3 * MS + 500_000, 520)]));
    assert_eq!(causes(&observed), []);
}

#[test]
fn echoes_that_are_late_while_acknowledgments_are_not_show_no_queue() {
    let mut observed = echoing(2 * MS, Some(2 * MS));
    observed.echo_under_load = Some(Echoes { samples_ns: vec![264 * MS; 6], ..Echoes::default() });
    observed.path.rtt_under_load_ns = Some(140 * MS);
    assert_eq!(causes(&observed)[0].kind, CauseKind::Queue);
    observed.path.rtt_under_load_ns = Some(20 * MS);
    assert_eq!(causes(&observed)[0].kind, CauseKind::Unknown);
    observed.path.rtt_under_load_ns = Some(10 * MS);
    let diagnosis = causes(&observed);
    assert_eq!(
        (diagnosis[0].kind, diagnosis[0].operation, diagnosis.len()),
        (CauseKind::RemoteHost, Operation::EchoUnderLoad, 1)
    );
    observed.path.rtt_under_load_ns = None;
    observed.echo_under_load = Some(Echoes { samples_ns: vec![200 * MS; 6], ..Echoes::default() });
    assert_eq!(causes(&observed)[0].kind, CauseKind::Queue);
}

#[test]
fn late_echoes_without_retransmissions_are_pauses_of_a_program() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    let late = |observed: &mut Observation, again| {
        let echo = observed.echo.as_mut().unwrap();
        echo.samples_ns = [vec![20 * MS; 34], vec![700 * MS; 6]].concat();
        echo.counts.retransmissions = again;
        observed.screenful = None;
        causes(observed).iter().map(|cause| cause.kind).collect::<Vec<_>>()
    };
    assert_eq!(late(&mut observed, Some(0)), [CauseKind::Pauses]);
    assert_eq!(late(&mut observed, Some(6)), [CauseKind::RetransmissionTimeouts]);
    assert_eq!(late(&mut observed, None), [CauseKind::RetransmissionTimeouts]);
    assert_eq!(late(&mut observed, Some(2)), [CauseKind::RetransmissionTimeouts]);
}

#[test]
fn one_pause_in_a_train_of_keys_is_no_half_duplex_path() {
    let mut observed = echoing(4 * MS, Some(4 * MS));
    observed.echo.as_mut().unwrap().counts.retransmissions = Some(0);
    let train = |samples_ns: Vec<u64>| Some(Echoes { samples_ns, ..Echoes::default() });
    let pause = (0..13).map(|at| (813 - at * 60) * MS);
    observed.echo_train = train([vec![4 * MS; 5], pause.collect(), vec![4 * MS; 2]].concat());
    assert_eq!(causes(&observed), []);
    observed.echo_train = train((0..20).map(|at| (250 + at % 3 * 60) * MS).collect());
    assert_eq!(causes(&observed)[0].kind, CauseKind::HalfDuplex);
}

#[test]
fn on_a_slow_line_the_first_flight_of_a_sender_is_no_queue() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    let arrivals: Vec<(u64, u64)> = (0..40).map(|at| ((200 + at * 170) * MS, 1_448)).collect();
    observed.transfers = vec![flow(&arrivals)];
    let mut kinds = |echo_ns| {
        observed.echo_under_load =
            Some(Echoes { samples_ns: vec![echo_ns; 6], ..Echoes::default() });
        causes(&observed).iter().map(|cause| cause.kind).collect::<Vec<_>>()
    };
    assert!(!kinds(1_000 * MS).contains(&CauseKind::Queue));
    assert!(kinds(4_000 * MS).contains(&CauseKind::Queue));
}

#[test]
fn a_wait_for_the_local_processor_is_never_charged_to_the_remote_host() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    let echo = observed.echo.as_mut().unwrap();
    echo.samples_ns = (0..40).map(|at| (20 + at * 8) * MS).collect();
    assert_ne!(causes(&observed)[0].kind, CauseKind::LocalProcessor);
    let echo = observed.echo.as_mut().unwrap();
    echo.own_wait_ns = (0..40).map(|at| at * 8 * MS).collect();
    let diagnosis = causes(&observed);
    assert_eq!(
        (diagnosis[0].kind, diagnosis[0].gain_ns, diagnosis.len()),
        (CauseKind::LocalProcessor, 156 * MS, 1)
    );
}

#[test]
fn a_silence_after_the_connection_is_the_greeting() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    observed.steps = Steps {
        connect_ns: Some(20 * MS),
        greeting_ns: Some(2_020 * MS),
        negotiation_ns: Some(2_060 * MS),
        prompt_ns: Some(25 * MS),
        ..Steps::default()
    };
    let diagnosis = causes(&observed);
    assert_eq!((diagnosis[0].kind, diagnosis[0].gain_ns), (CauseKind::SlowGreeting, 2_000 * MS));
    observed.steps.negotiation_ns = Some(60 * MS);
    observed.steps.greeting_ns = Some(20 * MS);
    assert_eq!(causes(&observed), []);
}

#[test]
fn a_host_that_takes_equally_long_in_both_cases_has_no_nagle() {
    assert_eq!(causes(&answering(43 * MS, MS)), []);
    assert_eq!(causes(&answering(70 * MS, 33 * MS)), []);
}

#[test]
fn occasionally_late_answers_prove_no_nagle() {
    let mut observed = answering(3 * MS, 41 * MS);
    observed.answers.as_mut().unwrap().quick_ack_ns = [3, 44, 3, 44, 3].map(|ms| ms * MS).to_vec();
    assert_eq!(causes(&observed), []);
}

/// Returns a long output at 1 Mbit/s, of which `pieces` segments of 1,448 bytes arrive at a time.
fn long_output(pieces: u64) -> Flow {
    let each_ns = 1_448 * 8_000;
    let arrivals: Vec<(u64, u64)> = (1..=120).map(|at| (at * each_ns, 1_448)).collect();
    let arrival_ns = |ns: u64| ns.div_ceil(each_ns * pieces) * each_ns * pieces;
    let arrivals = arrivals.into_iter().enumerate();
    let arrivals: Vec<(u64, u64)> =
        arrivals.map(|(n, (ns, bytes))| (arrival_ns(ns) + n as u64, bytes)).collect();
    flow(&arrivals)
}

#[test]
fn a_fast_screenful_and_a_slow_long_output_show_a_rate_limiter() {
    let mut observed = echoing(3 * MS, Some(2 * MS));
    observed.screenful = Some(flow(&[(3 * MS, 1_448), (3 * MS + 1_000, 520)]));
    observed.transfers = vec![long_output(1)];
    assert_eq!(causes(&observed)[0].kind, CauseKind::RateLimiter);
}

#[test]
fn a_program_that_writes_occasionally_is_not_a_rate_limiter() {
    let mut observed = echoing(3 * MS, Some(2 * MS));
    observed.screenful = Some(flow(&[(3 * MS, 1_448), (3 * MS + 1_000, 520)]));
    observed.transfers = vec![long_output(4)];
    assert!(causes(&observed).iter().all(|cause| cause.kind != CauseKind::RateLimiter));
}

#[test]
fn a_line_that_also_slows_a_screenful_is_not_a_rate_limiter() {
    let mut observed = echoing(3 * MS, Some(2 * MS));
    observed.screenful = Some(flow(&[(13 * MS, 1_448), (18 * MS, 520)]));
    observed.transfers = vec![long_output(1)];
    assert!(causes(&observed).iter().all(|cause| cause.kind != CauseKind::RateLimiter));
}

#[test]
fn full_segments_over_a_short_round_trip_show_a_link() {
    let mut observed = echoing(MS / 5, Some(MS / 10));
    observed.transfers = vec![Flow { data_packets: Some(120), ..long_output(1) }];
    assert_eq!(causes(&observed)[0].kind, CauseKind::LineRate);
    observed.transfers[0].data_packets = Some(400);
    assert_eq!(causes(&observed)[0].kind, CauseKind::RemoteHost);
}

#[test]
fn losses_on_a_full_link_are_charged_to_the_link() {
    let mut observed = echoing(5 * MS, Some(4 * MS));
    let each_ns = 1_448 * 8_000;
    // One of eleven segments is lost, and arrives later together with the two behind it.
    let arrivals: Vec<(u64, u64)> = (0..12)
        .flat_map(|lump: u64| {
            let steady = (1..=8).map(move |at| ((lump * 11 + at) * each_ns, 1_448));
            steady.chain([((lump * 11 + 11) * each_ns, 3 * 1_448)])
        })
        .collect();
    let counts = FlowCounts { out_of_order_in: Some(60), ..FlowCounts::default() };
    observed.transfers = vec![Flow { counts, ..flow(&arrivals) }];
    let diagnosis = causes(&observed);
    assert_eq!(diagnosis[0].kind, CauseKind::LineRate, "{diagnosis:?}");
    // The same loss, with the segments in between ten times as fast.
    for lump in observed.transfers[0].arrivals.chunks_mut(9) {
        let from_ns = lump[0].at_ns;
        for (at, arrival) in (0..8).zip(lump) {
            arrival.at_ns = from_ns + at * each_ns / 10;
        }
    }
    assert_eq!(causes(&observed)[0].kind, CauseKind::Loss);
}

#[test]
fn a_window_that_tcp_reports_as_full_is_charged_to_the_receiver() {
    let counts = FlowCounts { limited_by_window_ns: Some(900 * MS), ..FlowCounts::default() };
    let mut observed = echoing(20 * MS, Some(20 * MS));
    let direction = Direction::Outgoing;
    let elapsed_ns = 1_000 * MS;
    observed.transfers =
        vec![Flow { direction, bytes: 90_000, elapsed_ns, counts, ..Flow::default() }];
    let diagnosis = causes(&observed);
    assert_eq!((diagnosis[0].kind, diagnosis[0].gain_ns), (CauseKind::SmallWindow, 900 * MS));
    assert!(diagnosis[0].advice.starts_with("16,000 bits"), "{}", diagnosis[0].advice);
}

#[test]
fn a_tls_handshake_longer_than_its_round_trips_is_charged_to_the_remote_host() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    observed.steps = Steps { tls_ns: Some(840 * MS), ..Steps::default() };
    let diagnosis = causes(&observed);
    let [cause] = diagnosis.as_slice() else { panic!("{diagnosis:?}") };
    assert_eq!(
        (cause.kind, cause.operation, cause.gain_ns),
        (CauseKind::RemoteHost, Operation::Login, 800 * MS)
    );
}

#[test]
fn several_short_segments_before_a_silence_of_a_round_trip_prove_no_nagle() {
    let kinds = |arrivals: &[(u64, u64)]| {
        let mut observed = echoing(268 * MS, Some(268 * MS));
        observed.transfers = vec![flow(arrivals)];
        causes(&observed).iter().map(|cause| cause.kind).collect::<Vec<_>>()
    };
    let short_segment = [(268 * MS, 1_448), (268 * MS, 200), (536 * MS, 900)];
    assert!(kinds(&short_segment).contains(&CauseKind::Nagle), "{:?}", kinds(&short_segment));
    // They fill a congestion window that is counted in segments.
    let short_segments = [(268 * MS, 400), (269 * MS, 300), (270 * MS, 948), (536 * MS, 900)];
    assert!(!kinds(&short_segments).contains(&CauseKind::Nagle), "{:?}", kinds(&short_segments));
}

#[test]
fn keys_that_wait_on_a_path_with_reordering_are_charged_to_reordering() {
    let mut observed = echoing(20 * MS, Some(20 * MS));
    observed.echo_train = Some(Echoes { samples_ns: vec![60 * MS; 40], ..Echoes::default() });
    assert_eq!(causes(&observed)[0].kind, CauseKind::Nagle);
    let counts =
        FlowCounts { reorderings: Some(4), retransmissions: Some(3), ..FlowCounts::default() };
    let direction = Direction::Outgoing;
    observed.transfers = vec![Flow { direction, bytes: 90_000, counts, ..Flow::default() }];
    assert_eq!(causes(&observed)[0].kind, CauseKind::Reordering);
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let arrivals = proptest::collection::vec((0..1_u64 << 40, 0..1_u64 << 24), 0..60);
    let count = || proptest::option::of(0..1_u64 << 20);
    let counts = (count(), count(), count(), count(), count());
    (arrivals, any::<bool>(), counts).prop_map(|(mut arrivals, is_incoming, counts)| {
        arrivals.sort_unstable();
        let (again, disordered, twice, window, mss) = counts;
        Flow {
            direction: if is_incoming { Direction::Incoming } else { Direction::Outgoing },
            counts: FlowCounts {
                retransmissions: again,
                out_of_order_in: disordered,
                duplicate_reports: twice,
                limited_by_window_ns: window,
                mss_bytes: mss.map(|mss| [mss, mss / 2]),
                ..FlowCounts::default()
            },
            ..flow(&arrivals)
        }
    })
}

proptest! {
    #[test]
    fn for_any_observation_a_gain_is_at_most_its_total(
        samples in proptest::collection::vec(0..1_u64 << 40, 0..40),
        train in proptest::collection::vec(0..1_u64 << 40, 0..40),
        trip_ns in proptest::option::of(0..1_u64 << 36),
        mss_bytes in proptest::option::of(0..9_000_u64),
        screenful in proptest::option::of(any_flow()),
        transfers in proptest::collection::vec(any_flow(), 0..3),
    ) {
        let echoes = |samples_ns| Some(Echoes { samples_ns, ..Echoes::default() });
        let observed = Observation {
            echo: echoes(samples),
            echo_train: echoes(train),
            screenful,
            transfers,
            path: Path { min_rtt_ns: trip_ns, mss_bytes, ..Path::default() },
            ..Observation::default()
        };
        for cause in causes(&observed) {
            prop_assert!(cause.gain_ns <= cause.total_ns, "{}", cause.sentence());
        }
    }
}

/// Returns a session with ten windows of 16,000 bytes over a path with a round-trip time of 100 ms.
/// Two silences of 250 ms separate some of the windows.
fn in_small_windows(counts: FlowCounts) -> Observation {
    let window = |at: u64| {
        let silence_ns = [3, 7].iter().filter(|lost| **lost <= at).count() as u64 * 250 * MS;
        (0..10).map(move |segment| ((at + 1) * 100 * MS + segment * 5 * MS + silence_ns, 1_600))
    };
    let arrivals: Vec<(u64, u64)> = (0..10).flat_map(window).collect();
    let mut observed = echoing(100 * MS, Some(100 * MS));
    observed.path.mss_bytes = Some(1_600);
    observed.transfers = vec![Flow { counts, ..flow(&arrivals) }];
    observed
}

#[test]
fn without_losses_the_window_is_still_small() {
    let counts = FlowCounts { out_of_order_in: Some(3), ..FlowCounts::default() };
    let diagnosis = causes(&in_small_windows(FlowCounts { window_bytes: Some(16_000), ..counts }));
    let loss = diagnosis.iter().find(|cause| cause.kind == CauseKind::Loss);
    let loss = loss.unwrap_or_else(|| panic!("{diagnosis:?}"));
    // Nine silences, of which eight are waits for the window that remain.
    assert!(loss.cost_ns >= 900 * MS, "{loss:?}");
    assert_eq!(loss.gain_ns / MS, 495, "{loss:?}");
    let sentence = loss.sentence();
    let expected = "but removing it saves only 495 ms, because other waits remain";
    assert!(sentence.contains(expected), "{sentence}");
    // If no window is known, the loss hides no other cause.
    let diagnosis = causes(&in_small_windows(counts));
    let loss = diagnosis.iter().find(|cause| cause.kind == CauseKind::Loss).unwrap();
    assert!(loss.cost_ns - loss.gain_ns < 10 * MS, "{loss:?}");
    assert!(!loss.sentence().contains("removing it"));
}

#[test]
fn without_the_line_slow_start_still_takes_its_round_trips() {
    // 200,000 bytes at 800 kbit/s, over a network of 100 ms.
    let arrivals: Vec<(u64, u64)> = (1..=200).map(|at| (200 * MS + at * 10 * MS, 1_000)).collect();
    let mut observed = echoing(100 * MS, Some(100 * MS));
    observed.path.mss_bytes = Some(1_000);
    observed.transfers = vec![flow(&arrivals)];
    let diagnosis = causes(&observed);
    let line = diagnosis.iter().find(|cause| cause.operation == Operation::Transfer).unwrap();
    assert_eq!((line.kind, line.cost_ns / MS), (CauseKind::LineRate, 2_000));
    // The first byte after 200 ms; then 10, 20, 40 and 80 thousand bytes and the rest: four waits.
    assert_eq!((line.total_ns - line.gain_ns) / MS, 200 + 400);
}
