//! Boundaries of the rules for echoes.

use super::{MS, described, session, spaced};
use crate::layer::{Layer, LayerTime};
use crate::verdict::cause::{Cause, CauseKind, Operation};
use crate::verdict::echo::{causes, first_flight_ns, has_processor_wait};
use crate::verdict::half_duplex::turnaround_cause;
use crate::verdict::late_echoes::{has_late_echoes, late_echoes};
use crate::verdict::{Answers, Echoes, FlowCounts, Observation};

fn echoes(samples_ns: Vec<u64>) -> Option<Echoes> {
    Some(Echoes { samples_ns, ..Echoes::default() })
}

fn of(operation: Operation, causes: &[Cause]) -> Vec<Cause> {
    causes.iter().filter(|cause| cause.operation == operation).cloned().collect()
}

#[test]
fn the_parts_of_an_idle_echo_are_charged_separately() {
    let layer = |layer, ms: u64| LayerTime { layer, ns: ms * MS };
    let mut observed = session(200 * MS, 90 * MS);
    let echo = observed.echo.as_mut().unwrap();
    echo.layers = vec![
        layer(Layer::Terminal, 3),
        layer(Layer::Telnet, 2),
        layer(Layer::Line, 40),
        layer(Layer::RemoteHostAndNetwork, 155),
    ];
    insta::assert_snapshot!(described(&causes(&observed)), @"
    own processor of an echo: 0 ns, 0 ns of 200000000 ns
      Waiting for a processor on this host costs 0 ns of the 200 ms of an echo (0 %): plumb
      was runnable but not scheduled for up to 0 ns in one echo. Stop other processes on this
      host, or give plumb a higher priority (nice) or a processor of its own.
    own processor of an echo: 5000000 ns, 5000000 ns of 200000000 ns
      The local software (plumb) costs 5.00 ms of the 200 ms of an echo (3 %): this is the sum
      of its layers in the median echo. Compare the layers, and stop other processes on this
      host.
    line rate of an echo: 40000000 ns, 40000000 ns of 200000000 ns
      The rate of the slowest link costs 40.0 ms of the 200 ms of an echo (20 %): the packets
      of a key and its echo take that long to transmit. Use a faster link, or Van Jacobson
      compression (RFC 1144).
    distance of an echo: 50000000 ns, 50000000 ns of 200000000 ns
      The round-trip time of the path costs 50.0 ms of the 200 ms of an echo (25 %): it equals
      the propagation delay of 9,000 km of optical fiber; use a shorter path, or predict
      echoes (plumb login --predict always).
    remote host of an echo: 105000000 ns, 105000000 ns of 200000000 ns
      The remote host's slow response costs 105 ms of the 200 ms of an echo (53 %): it echoes
      a key that much later than one round trip of its TCP (90.0 ms). Check the load there,
      and proxies between its network interface and the program.
    ");
}

#[test]
fn the_packets_of_an_echo_take_their_time_on_a_serial_line_or_an_observed_link() {
    let line_ns = |observed: &Observation| {
        let causes = causes(observed);
        causes.iter().find(|cause| cause.kind == CauseKind::LineRate).unwrap().cost_ns
    };
    let mut observed = session(200 * MS, 90 * MS);
    assert_eq!(line_ns(&observed), 0);
    // Two packets of 41 bytes of ten bits each.
    observed.path.line_bps = Some(10_000);
    assert_eq!(line_ns(&observed), 82 * MS);
    observed.path.line_bits_per_byte = Some(8);
    observed.path.header_bytes = Some(9);
    assert_eq!(line_ns(&observed), 16 * MS);
    observed.path.line_bps = None;
    observed.transfers = vec![spaced(90 * MS, 1_000, &[10 * MS; 9])];
    assert_eq!(line_ns(&observed), 200_000);
    insta::assert_snapshot!(described(&of(Operation::Echo, &causes(&observed))), @"
    own processor of an echo: 0 ns, 0 ns of 200000000 ns
      Waiting for a processor on this host costs 0 ns of the 200 ms of an echo (0 %): plumb
      was runnable but not scheduled for up to 0 ns in one echo. Stop other processes on this
      host, or give plumb a higher priority (nice) or a processor of its own.
    own processor of an echo: 0 ns, 0 ns of 200000000 ns
      The local software (plumb) costs 0 ns of the 200 ms of an echo (0 %): this is the sum of
      its layers in the median echo. Compare the layers, and stop other processes on this
      host.
    line rate of an echo: 200000 ns, 200000 ns of 200000000 ns
      The rate of the slowest link costs 200 µs of the 200 ms of an echo (< 1 %): the packets
      of a key and its echo take that long to transmit. Use a faster link, or Van Jacobson
      compression (RFC 1144).
    distance of an echo: 89800000 ns, 89800000 ns of 200000000 ns
      The round-trip time of the path costs 89.8 ms of the 200 ms of an echo (45 %): it equals
      the propagation delay of 9,000 km of optical fiber; use a shorter path, or predict
      echoes (plumb login --predict always).
    remote host of an echo: 110000000 ns, 110000000 ns of 200000000 ns
      The remote host's slow response costs 110 ms of the 200 ms of an echo (55 %): it echoes
      a key that much later than one round trip of its TCP (90.0 ms). Check the load there,
      and proxies between its network interface and the program.
    ");
}

#[test]
fn the_mean_wait_for_a_processor_is_noticed_from_25_ms_on() {
    let with = |waits: &[u64], samples: &[u64]| {
        has_processor_wait(&Echoes {
            samples_ns: samples.to_vec(),
            own_wait_ns: waits.to_vec(),
            ..Echoes::default()
        })
    };
    assert!(with(&[20 * MS, 30 * MS], &[100 * MS; 2]));
    assert!(!with(&[20 * MS, 30 * MS - 2], &[100 * MS; 2]));
    assert!(with(&[25 * MS; 2], &[250 * MS; 2]) && !with(&[25 * MS; 2], &[250 * MS, 250 * MS + 2]));
    let mut observed = session(100 * MS, 10 * MS);
    observed.echo.as_mut().unwrap().own_wait_ns = vec![40 * MS, 60 * MS];
    observed.echo_train = echoes(vec![200 * MS; 20]);
    let processor = causes(&observed);
    assert!(processor.iter().all(|cause| cause.operation == Operation::Echo), "{processor:?}");
    insta::assert_snapshot!(described(&processor[..1]), @"
    own processor of an echo: 50000000 ns, 50000000 ns of 100000000 ns
      Waiting for a processor on this host costs 50.0 ms of the 100 ms of an echo (50 %):
      plumb was runnable but not scheduled for up to 60.0 ms in one echo. Stop other processes
      on this host, or give plumb a higher priority (nice) or a processor of its own.
    ");
}

/// Returns the cause of late echoes during output over a path of 10 ms.
fn under_load(echo_ns: u64, change: impl Fn(&mut Observation)) -> Option<Cause> {
    let mut observed = session(10 * MS, 10 * MS);
    observed.echo_under_load = echoes(vec![echo_ns; 6]);
    change(&mut observed);
    of(Operation::EchoUnderLoad, &causes(&observed)).into_iter().next()
}

#[test]
fn a_queue_lengthens_the_round_trip_by_an_eighth_of_the_wait() {
    let rtt = |ns: u64| under_load(90 * MS, |one| one.path.rtt_under_load_ns = Some(ns)).is_some();
    assert_eq!([20 * MS - 1, 20 * MS].map(rtt), [false, true]);
    let queued = |ns: u64| {
        let cause = under_load(110 * MS, |one| one.path.rtt_under_load_ns = Some(10 * MS + ns));
        cause.unwrap()
    };
    // The delay of the remote host is mentioned from a fifth on.
    let both = [queued(80 * MS), queued(80 * MS + 1), queued(200 * MS)];
    insta::assert_snapshot!(described(&both), @"
    queue of an echo beside other data: 80000000 ns, 80000000 ns of 110000000 ns
      The queue in front of the slowest link costs 80.0 ms of the 110 ms of an echo during
      output (73 %): an echo takes 10.0 ms without other output; the remote host delays it by
      another 20.0 ms, because it sends earlier output first. Use fair queueing or a shorter
      queue in the router before that link (fq_codel), or a smaller receive window on this
      host.
    queue of an echo beside other data: 80000001 ns, 80000001 ns of 110000000 ns
      The queue in front of the slowest link costs 80.0 ms of the 110 ms of an echo during
      output (73 %): an echo takes 10.0 ms without other output. Use fair queueing or a
      shorter queue in the router before that link (fq_codel), or a smaller receive window on
      this host.
    queue of an echo beside other data: 100000000 ns, 100000000 ns of 110000000 ns
      The queue in front of the slowest link costs 100 ms of the 110 ms of an echo during
      output (91 %): an echo takes 10.0 ms without other output. Use fair queueing or a
      shorter queue in the router before that link (fq_codel), or a smaller receive window on
      this host.
    ");
}

#[test]
fn the_first_flight_of_a_sender_is_no_queue() {
    let link = |observed: &mut Observation| {
        observed.transfers = vec![spaced(10 * MS, 1_000, &[MS; 9])];
    };
    // Ten segments take 10 ms at 8 Mbit/s.
    assert_eq!(under_load(20 * MS, link), None);
    let cause = under_load(20 * MS + 1, link).unwrap();
    assert_eq!((cause.kind, cause.cost_ns, cause.gain_ns), (CauseKind::Queue, 10 * MS + 1, 1));
    let mut observed = session(10 * MS, 10 * MS);
    assert_eq!(first_flight_ns(&observed), None);
    link(&mut observed);
    assert_eq!(first_flight_ns(&observed), Some(10 * MS));
    observed.path.mss_bytes = None;
    assert_eq!(first_flight_ns(&observed), Some(14_600_000));
    // No queue forms before a link that is mostly idle.
    let idle = |observed: &mut Observation| {
        observed.screenful = Some(spaced(10 * MS, 1_000, &[MS; 9]));
        observed.transfers = vec![spaced(10 * MS, 1_000, &[20 * MS; 9])];
    };
    assert_eq!(under_load(300 * MS, idle), None);
}

#[test]
fn an_echo_during_output_waits_for_a_processor_that_took_a_quarter_of_the_output() {
    let with = |waited: u64, elapsed: u64| {
        let cause = under_load(210 * MS, |observed| {
            let mut output = spaced(10 * MS, 1_000, &[MS; 9]);
            output.own_wait_ns = Some(waited);
            output.elapsed_ns = elapsed;
            observed.sustained = Some(output);
        });
        cause.unwrap()
    };
    let kinds = [250 * MS, 250 * MS - 1].map(|waited| with(waited, 1_000 * MS).kind);
    assert_eq!(kinds, [CauseKind::LocalProcessor, CauseKind::Queue]);
    let all = [with(250 * MS, 1_000 * MS), with(1_500 * MS, 1_000 * MS)];
    insta::assert_snapshot!(described(&all), @"
    own processor of an echo beside other data: 50000000 ns, 50000000 ns of 210000000 ns
      Waiting for a processor on this host costs 50.0 ms of the 210 ms of an echo during
      output (24 %): plumb was runnable but not scheduled for 250 ms of the 1.00 s of an
      output. Stop other processes on this host.
    own processor of an echo beside other data: 200000000 ns, 200000000 ns of 210000000 ns
      Waiting for a processor on this host costs 200 ms of the 210 ms of an echo during output
      (95 %): plumb was runnable but not scheduled for 1.50 s of the 1.00 s of an output. Stop
      other processes on this host.
    ");
    // Without a sustained output, the first transfer counts.
    let cause = under_load(210 * MS, |observed| {
        let mut output = spaced(10 * MS, 1_000, &[MS; 9]);
        output.own_wait_ns = Some(output.elapsed_ns);
        observed.transfers = vec![output];
    });
    assert_eq!(cause.unwrap().kind, CauseKind::LocalProcessor);
}

/// Returns the cause of late echoes in a train of keys over a path of 10 ms.
fn train(samples_ns: Vec<u64>, idle_ns: u64) -> Option<Cause> {
    let mut observed = session(idle_ns, 10 * MS);
    observed.echo_train = echoes(samples_ns);
    of(Operation::EchoTrain, &causes(&observed)).into_iter().next()
}

#[test]
fn keys_that_wait_for_at_most_an_acknowledgment_show_nagle() {
    // A round trip and a fifth, and 40 ms.
    let kind = |ns: u64| train(vec![10 * MS + ns; 20], 10 * MS).map(|cause| cause.kind);
    let kinds = [52 * MS, 52 * MS + 1].map(kind);
    assert_eq!(kinds, [Some(CauseKind::Nagle), Some(CauseKind::HalfDuplex)]);
    let both = [train(vec![60 * MS; 20], 10 * MS), train(vec![300 * MS; 20], 10 * MS)];
    insta::assert_snapshot!(described(&both.map(Option::unwrap)), @"
    Nagle of an echo of steady typing: 50000000 ns, 50000000 ns of 60000000 ns
      Nagle's algorithm on the remote host costs 50.0 ms of the 60.0 ms of an echo during
      steady typing (83 %): during fast typing it holds back each echo until the previous one
      is acknowledged, while a single key is echoed in 10.0 ms. Set TCP_NODELAY there.
    half duplex of an echo of steady typing: 290000000 ns, 290000000 ns of 300000000 ns
      A half-duplex path costs 290 ms of the 300 ms of an echo during steady typing (97 %):
      during fast typing keys and echoes wait for each other, while a single key is echoed in
      10.0 ms. Check for a half-duplex link or modem, or edit lines locally.
    ");
    // A slow host also makes keys wait.
    let is_named = |idle: u64| train(vec![300 * MS; 20], idle).is_some();
    assert_eq!([20 * MS, 20 * MS + 1].map(is_named), [true, false]);
    assert_eq!(train(vec![9 * MS; 20], 10 * MS), None);
}

/// Returns whether a train with these echoes, ms, arrived after one pause. An idle echo takes
/// 10 ms.
fn is_one_pause(ms: &[u64], more_ns: u64, at: usize) -> bool {
    let mut samples: Vec<u64> = ms.iter().map(|ms| ms * MS).collect();
    samples[at] += more_ns;
    train(samples, 10 * MS).is_none()
}

#[test]
fn six_late_echoes_that_arrive_together_after_quick_ones_are_one_pause() {
    let pause = [10, 10, 10, 400, 340, 280, 220, 160, 100];
    assert!(is_one_pause(&pause, 0, 0));
    // Five of them may have been written at once.
    assert!(!is_one_pause(&[10, 10, 10, 400, 340, 280, 220, 160], 0, 0));
    // Three echoes are quick: at most 3 ms longer than an idle echo.
    assert!(!is_one_pause(&pause[1..], 0, 0));
    assert!(is_one_pause(&[13, 10, 10, 400, 340, 280, 220, 160, 100], 0, 0));
    assert!(!is_one_pause(&[13, 10, 10, 400, 340, 280, 220, 160, 100], 1, 0));
    // An echo is late if it takes 60 ms longer than an idle echo.
    assert!(!is_one_pause(&[10, 10, 10, 400, 340, 280, 220, 160, 100, 70], 0, 0));
    assert!(is_one_pause(&[10, 10, 10, 400, 340, 280, 220, 160, 100, 70], 1, 9));
    // One late echo may arrive at another time.
    assert!(is_one_pause(&[10, 10, 10, 400, 340, 280, 220, 160, 100, 300], 0, 0));
    assert!(!is_one_pause(&[10, 10, 10, 400, 340, 280, 220, 160, 100, 300, 300], 0, 0));
}

#[test]
fn echoes_that_arrive_together_are_60_ms_apart_with_a_tolerance_of_15_ms() {
    for (step, more_ns) in [(75, 1), (45, 0)] {
        let late = |at: u64| 500 - at * step;
        let pause = [10, 10, 10, late(0), late(1), late(2), late(3), late(4), late(5)];
        assert!(is_one_pause(&pause, 0, 0), "{step}");
        let worse =
            [10, 10, 10, late(0) + 1 - more_ns, late(1), late(2), late(3), late(4), late(5)];
        assert_eq!(is_one_pause(&worse, more_ns, 3), step == 45, "{step}");
    }
    let shorter = [10, 10, 10, 499, 455, 410, 365, 320, 275];
    assert!(!is_one_pause(&shorter, 0, 0));
}

#[test]
fn a_quick_echo_of_a_distant_host_is_longer_by_an_eighth() {
    let with = |quick: u64| {
        let late = (0..6).map(|at| (700 - at * 60) * MS).collect();
        let mut observed = session(80 * MS, 80 * MS);
        observed.echo_train = echoes([vec![quick; 3], late].concat());
        of(Operation::EchoTrain, &causes(&observed)).is_empty()
    };
    assert_eq!([90 * MS, 90 * MS + 1].map(with), [true, false]);
}

/// Returns the cause of `late` echoes of `late_ns` among `count`, which usually take 10 ms.
fn late(count: usize, late: usize, late_ns: u64, counts: FlowCounts) -> Option<Cause> {
    let mut observed = session(10 * MS, 10 * MS);
    let echo = observed.echo.as_mut().unwrap();
    echo.samples_ns = [vec![late_ns; late], vec![10 * MS; count - late]].concat();
    echo.counts = counts;
    let samples = echo.samples_ns.clone();
    late_echoes(&observed, &samples, 10 * MS)
}

fn retransmitted(count: u64) -> FlowCounts {
    FlowCounts { retransmissions: Some(count), ..FlowCounts::default() }
}

#[test]
fn one_late_echo_in_200_is_reported() {
    let is_named = |count, late_count, counts| late(count, late_count, 300 * MS, counts).is_some();
    let unknown = FlowCounts::default();
    assert_eq!([400, 401].map(|count| is_named(count, 2, unknown)), [true, false]);
    // One late echo may be coincidence unless a segment was retransmitted.
    assert!(!is_named(100, 1, unknown) && !is_named(100, 1, retransmitted(0)));
    assert!(is_named(100, 1, retransmitted(1)));
}

#[test]
fn late_echoes_are_timeouts_from_600_ms_on() {
    let kind = |ns: u64| late(40, 3, ns, FlowCounts::default()).unwrap().kind;
    let kinds = [610 * MS - 1, 610 * MS].map(kind);
    assert_eq!(kinds, [CauseKind::Loss, CauseKind::RetransmissionTimeouts]);
    let lossy = late(40, 3, 610 * MS, FlowCounts::default()).unwrap();
    let pausing = late(40, 3, 610 * MS, retransmitted(0)).unwrap();
    insta::assert_snapshot!(described(&[lossy, pausing]), @"
    retransmission timeouts of an echo: 45000000 ns, 45000000 ns of 55000000 ns
      Occasional packet loss costs 45.0 ms of the 55.0 ms of an echo (82 %): 3 of 40 echoes
      took up to 610 ms, until a timeout retransmitted a segment. Find the link that drops
      packets; with tail loss probes (RFC 8985) on both hosts a repair takes two round trips.
    pauses of an echo: 45000000 ns, 45000000 ns of 55000000 ns
      Occasional pausing of the remote program costs 45.0 ms of the 55.0 ms of an echo (82 %):
      3 of 40 echoes took up to 610 ms, although the remote TCP acknowledged the keys and none
      was retransmitted. Check the load and swapping there, and what the program waits for.
    ");
}

#[test]
fn three_late_echoes_without_retransmissions_are_pauses_in_a_lossy_session() {
    let kind = |late_count: usize| {
        let mut observed = session(10 * MS, 10 * MS);
        let mut lossy = spaced(10 * MS, 1_000, &[MS; 9]);
        lossy.counts.out_of_order_in = Some(1);
        observed.transfers = vec![lossy];
        let echo = observed.echo.as_mut().unwrap();
        echo.samples_ns = [vec![300 * MS; late_count], vec![10 * MS; 40]].concat();
        echo.counts = retransmitted(0);
        let samples = echo.samples_ns.clone();
        let is_late = has_late_echoes(&observed);
        (late_echoes(&observed, &samples, 10 * MS).unwrap().kind, is_late)
    };
    assert_eq!(kind(2), (CauseKind::Loss, true));
    assert_eq!(kind(3), (CauseKind::Pauses, false));
}

/// Returns the gain of a half-duplex path without its turnarounds.
fn turnaround(echoes_ns: &[u64], answer_ns: u64, answers: usize, trip_ns: u64) -> Option<u64> {
    let mut observed = session(echoes_ns[0], trip_ns);
    let quick_ack_ns = vec![answer_ns; answers];
    observed.answers = Some(Answers { quick_ack_ns, delayed_ack_ns: Vec::new() });
    turnaround_cause(&observed, echoes_ns).map(|cause| cause.gain_ns)
}

#[test]
fn a_turnaround_takes_ten_milliseconds_and_a_fifth_of_an_answer() {
    let named = |echo: u64, answer: u64| turnaround(&[echo; 8], answer, 4, answer).is_some();
    assert_eq!([50 * MS - 1, 50 * MS].map(|echo| named(echo, 40 * MS)), [false, true]);
    assert_eq!([72 * MS - 1, 72 * MS].map(|echo| named(echo, 60 * MS)), [false, true]);
    assert_eq!(turnaround(&[90 * MS; 8], 60 * MS, 3, 60 * MS), None);
    // The quartiles differ by at most a quarter.
    let spread = |high: u64| {
        let echoes = [[60 * MS; 4], [high; 4]].concat();
        turnaround(&echoes, 40 * MS, 4, 40 * MS).is_some()
    };
    assert_eq!([75 * MS, 75 * MS + 1].map(spread), [true, false]);
    // The median of an even number of echoes is the smaller one.
    let echoes = [[60 * MS; 4], [75 * MS; 4]].concat();
    assert_eq!(turnaround(&echoes, 40 * MS, 4, 40 * MS), Some(40 * MS));
}

#[test]
fn an_echo_of_more_than_two_round_trips_waited_for_four_turnarounds() {
    let gain = |echo: u64| turnaround(&[echo; 8], 60 * MS, 4, 50 * MS);
    // Without turnarounds, an echo takes twice the shortest round trip less two turnarounds.
    assert_eq!(gain(100 * MS), Some(100 * MS));
    assert_eq!(gain(110 * MS), Some(65 * MS));
    let mut observed = session(90 * MS, 50 * MS);
    observed.answers = Some(Answers { quick_ack_ns: vec![60 * MS; 4], delayed_ack_ns: Vec::new() });
    insta::assert_snapshot!(described(&of(Operation::Echo, &causes(&observed))), @"
    own processor of an echo: 0 ns, 0 ns of 90000000 ns
      Waiting for a processor on this host costs 0 ns of the 90.0 ms of an echo (0 %): plumb
      was runnable but not scheduled for up to 0 ns in one echo. Stop other processes on this
      host, or give plumb a higher priority (nice) or a processor of its own.
    own processor of an echo: 0 ns, 0 ns of 90000000 ns
      The local software (plumb) costs 0 ns of the 90.0 ms of an echo (0 %): this is the sum
      of its layers in the median echo. Compare the layers, and stop other processes on this
      host.
    line rate of an echo: 0 ns, 0 ns of 90000000 ns
      The rate of the slowest link costs 0 ns of the 90.0 ms of an echo (0 %): the packets of
      a key and its echo take that long to transmit. Use a faster link, or Van Jacobson
      compression (RFC 1144).
    distance of an echo: 50000000 ns, 50000000 ns of 90000000 ns
      The round-trip time of the path costs 50.0 ms of the 90.0 ms of an echo (56 %): it
      equals the propagation delay of 5,000 km of optical fiber; use a shorter path, or
      predict echoes (plumb login --predict always).
    remote host of an echo: 40000000 ns, 40000000 ns of 90000000 ns
      The remote host's slow response costs 40.0 ms of the 90.0 ms of an echo (44 %): it
      echoes a key that much later than one round trip of its TCP (50.0 ms). Check the load
      there, and proxies between its network interface and the program.
    half duplex of an echo: 80000000 ns, 80000000 ns of 90000000 ns
      A half-duplex path costs 80.0 ms of the 90.0 ms of an echo (89 %): the echo of a key
      that follows another takes 90.0 ms, but a complete short answer only 60.0 ms, so each
      change of direction adds a delay. Check for a half-duplex link, radio link or modem, or
      edit lines locally.
    ");
}

#[test]
fn few_echoes_during_output_count_by_their_upper_quartile_and_many_by_their_second_half() {
    let settled = |samples_ns: Vec<u64>| echoes(samples_ns).unwrap().settled_ns();
    assert_eq!(settled((1..=7).rev().collect()), Some(6));
    assert_eq!(settled((1..=8).rev().collect()), Some(2));
    assert_eq!(settled(Vec::new()), None);
}

#[test]
fn echoes_that_wait_on_a_path_with_reordering_are_described_so() {
    let mut observed = session(10 * MS, 10 * MS);
    observed.echo_train = echoes(vec![60 * MS; 20]);
    let mut disordered = spaced(10 * MS, 1_000, &[MS; 9]);
    disordered.counts.duplicates_in = Some(2);
    observed.transfers = vec![disordered];
    let causes = of(Operation::EchoTrain, &causes(&observed));
    let [cause] = causes.as_slice() else { panic!("{causes:?}") };
    assert_eq!((cause.kind, cause.cost_ns), (CauseKind::Reordering, 50 * MS));
    assert_eq!(cause.subject, "Reordering on the path");
    assert!(cause.advice.starts_with("echoes wait for packets that others have overtaken"));
}
