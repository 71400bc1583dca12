//! Boundaries of the waits for the peer.

use super::{MS, described, flow, kind_and_cost, path_with_mss, session, spaced, view};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::flow_view::View;
use crate::verdict::round_trip_waits::{
    delayed_ack, full_window, in_windows, largest_around, long_ns, nagle, nagle_of_a_trip,
    nagle_of_answers, nagle_with_delayed_ack, small_window, zero_window,
};
use crate::verdict::{Answers, Direction, Flow, FlowCounts, Observation, Path};

#[test]
fn a_wait_of_three_round_trips_or_of_a_timer_is_long() {
    let path = Path::default();
    let flow = Flow::default();
    let long_ms = |trip_ms: u64| long_ns(&view(&flow, &path, trip_ms * MS)) / MS;
    assert_eq!([0, 63, 64].map(long_ms), [190, 190, 192]);
}

/// Returns whether one stall of `gap` is a wait for an acknowledgment that this host delays.
fn is_nagle(gap: u64, own_ack_delay_ns: Option<u64>, trip_ns: u64) -> bool {
    let path = Path { own_ack_delay_ns, ..path_with_mss(1_000) };
    let flow = spaced(trip_ns, 100, &[gap]);
    let cause = nagle(&mut view(&flow, &path, trip_ns));
    assert!(cause.iter().all(|cause| cause.cost_ns == gap && cause.gain_ns == gap));
    cause.is_some()
}

#[test]
fn a_stall_as_long_as_the_known_delay_of_acknowledgments_is_nagle() {
    let trip = 10 * MS;
    let cases = [
        (35 * MS - 1, false),
        (35 * MS, true),
        (60 * MS + trip, true),
        (60 * MS + trip + 1, false),
    ];
    for (gap, expected) in cases {
        assert_eq!(is_nagle(gap, Some(40 * MS), trip), expected, "{gap}");
    }
    assert!(!is_nagle(40 * MS, Some(0), trip));
    // A stall of two round trips may be due to the network.
    assert!(!is_nagle(40 * MS + 1, Some(40 * MS), 20 * MS));
    assert!(is_nagle(40 * MS + 2, Some(40 * MS), 20 * MS));
}

#[test]
fn a_stall_as_long_as_a_usual_delay_of_acknowledgments_is_nagle() {
    for (min, max) in [(36, 60), (90, 130), (180, 260)] {
        let [min, max] = [min * MS, max * MS];
        let results = [min - 1, min, max, max + 1].map(|gap| is_nagle(gap, None, 0));
        assert_eq!(results, [false, true, true, false], "{min}");
        let trip = 10 * MS;
        let results = [max + trip, max + trip + 1].map(|gap| is_nagle(gap, None, trip));
        assert_eq!(results, [true, false], "{max}");
    }
}

#[test]
fn stalls_of_an_upload_and_of_disordered_data_are_not_nagle() {
    let path = Path { own_ack_delay_ns: Some(40 * MS), ..path_with_mss(1_000) };
    let mut observed = spaced(MS, 100, &[40 * MS, 40 * MS]);
    let mut disordered = view(&observed, &path, MS);
    disordered.has_reordering = true;
    assert_eq!(nagle(&mut disordered), None);
    observed.counts.out_of_order_in = Some(0);
    assert!(nagle(&mut view(&observed, &path, MS)).is_some());
    observed.counts.out_of_order_in = Some(1);
    assert_eq!(nagle(&mut view(&observed, &path, MS)), None);
    observed.counts.out_of_order_in = None;
    observed.direction = Direction::Outgoing;
    assert_eq!(nagle(&mut view(&observed, &path, MS)), None);
}

#[test]
fn a_stall_that_nagle_explains_has_no_other_cause() {
    let path = Path { own_ack_delay_ns: Some(40 * MS), ..path_with_mss(1_000) };
    let observed = spaced(MS, 100, &[40 * MS, 5 * MS]);
    let mut one = view(&observed, &path, MS);
    let cause = nagle(&mut one).unwrap();
    assert_eq!((cause.cost_ns, one.explained_ns), (40 * MS, 40 * MS));
    assert_eq!(one.stalls.iter().map(|stall| stall.index).collect::<Vec<_>>(), [2]);
    insta::assert_snapshot!(described(&[cause]), @"
    Nagle of a screenful: 40000000 ns, 40000000 ns of 46000000 ns
      Nagle's algorithm on the remote host costs 40.0 ms of the 46.0 ms of a screenful (87 %):
      it waits once for an acknowledgment that this host delays. Set TCP_NODELAY there, or
      disable delayed acknowledgments here.
    ");
}

/// Returns a session whose screenful takes `quick_ns`, and `delayed_ns` with delayed
/// acknowledgments.
fn screenfuls(quick_ns: u64, delayed_ns: u64) -> Observation {
    Observation {
        screenful: Some(flow(&[(quick_ns, 500)])),
        screenful_delayed_ack: Some(flow(&[(delayed_ns, 500)])),
        ..session(MS, MS)
    }
}

#[test]
fn a_screenful_that_is_later_by_an_acknowledgment_delay_shows_nagle() {
    let trip = 10 * MS;
    let is_nagle = |later: u64| {
        let cause = nagle_with_delayed_ack(&screenfuls(MS, MS + later), Some(trip));
        assert!(cause.iter().all(|cause| cause.cost_ns == later));
        cause.is_some()
    };
    let laters = [35 * MS - 1, 35 * MS, 70 * MS, 70 * MS + 1];
    assert_eq!(laters.map(is_nagle), [false, true, true, false]);
    assert_eq!(nagle_with_delayed_ack(&screenfuls(MS, 41 * MS), None), None);
    assert_eq!(nagle_with_delayed_ack(&screenfuls(MS, MS - 1), Some(trip)), None);
}

#[test]
fn four_answers_of_each_kind_outweigh_one_screenful() {
    let mut observed = screenfuls(MS, 41 * MS);
    let is_nagle = |observed: &Observation| nagle_with_delayed_ack(observed, Some(MS)).is_some();
    observed.answers = Some(Answers { quick_ack_ns: vec![MS; 4], delayed_ack_ns: vec![MS; 4] });
    assert!(!is_nagle(&observed));
    observed.answers = Some(Answers { quick_ack_ns: vec![MS; 4], delayed_ack_ns: vec![MS; 3] });
    assert!(is_nagle(&observed));
    observed.answers =
        Some(Answers { quick_ack_ns: vec![MS; 4], delayed_ack_ns: vec![43 * MS; 4] });
    assert!(is_nagle(&observed));
}

fn answers(quick_ack_ns: &[u64], delayed_ack_ns: &[u64]) -> Option<Cause> {
    let observed = Observation {
        answers: Some(Answers {
            quick_ack_ns: quick_ack_ns.to_vec(),
            delayed_ack_ns: delayed_ack_ns.to_vec(),
        }),
        ..Observation::default()
    };
    nagle_of_answers(&observed, Some(10 * MS))
}

#[test]
fn answers_later_by_an_acknowledgment_delay_and_two_round_trips_show_nagle() {
    let gain =
        |quick: u64, delayed: u64| answers(&[quick; 4], &[delayed; 4]).map(|cause| cause.gain_ns);
    // Two round trips less an eighth, and the delay less an eighth: 17.5 + 35 ms.
    let min = 52_500_000;
    assert_eq!(gain(10 * MS, min), Some(min));
    assert_eq!(gain(10 * MS, min - 1), None);
    assert_eq!(gain(20 * MS, 80 * MS), Some(70 * MS));
    assert_eq!(gain(20 * MS, 80 * MS + 1), None);
    // An answer that takes more than two round trips and an eighth waits for no round trip.
    assert_eq!(gain(22_500_000, 60 * MS), Some(47_500_000));
    assert_eq!(gain(22_500_001, 60 * MS), Some(37_499_999));
    // The earliest delayed answer is an eighth of the delay later than the latest other one.
    assert_eq!(gain(60 * MS, 65 * MS), Some(5 * MS));
    assert_eq!(gain(60 * MS, 65 * MS - 1), None);
}

#[test]
fn one_answer_of_each_kind_may_have_another_delay() {
    let [quick, delayed] = [10 * MS, 60 * MS];
    assert!(answers(&[quick; 4], &[30 * MS, delayed, delayed, delayed]).is_some());
    assert_eq!(answers(&[quick; 4], &[30 * MS, 30 * MS, delayed, delayed, delayed]), None);
    assert!(answers(&[90 * MS, quick, quick, quick], &[delayed; 4]).is_some());
    assert_eq!(answers(&[90 * MS, 90 * MS, quick, quick], &[delayed; 4]), None);
    assert_eq!(answers(&[quick; 3], &[delayed; 4]), None);
    assert_eq!(answers(&[quick; 4], &[delayed; 3]), None);
    let cause = answers(&[quick; 4], &[delayed; 4]).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    Nagle of a short answer: 60000000 ns, 60000000 ns of 60000000 ns
      Nagle's algorithm on the remote host costs 60.0 ms of the 60.0 ms of a short answer (100
      %): it holds back the output after an echo until this host acknowledges the echo, and
      most clients delay this acknowledgment. Set TCP_NODELAY in the server program there.
    ");
}

/// Returns the cost of Nagle's algorithm in a flow whose last piece arrives `gap` after the
/// others, over a path of 100 ms with segments of 1,000 bytes.
fn trip_wait(pieces: &[u64], gap: u64, change: impl Fn(&mut Flow)) -> Option<u64> {
    let trip = 100 * MS;
    let last = pieces.len() - 1;
    let at_ns = |index: usize| if index == last { trip + gap } else { trip };
    let pieces: Vec<(u64, u64)> =
        pieces.iter().enumerate().map(|(index, bytes)| (at_ns(index), *bytes)).collect();
    let mut flow = flow(&pieces);
    change(&mut flow);
    let path = path_with_mss(1_000);
    kind_and_cost(nagle_of_a_trip(&mut view(&flow, &path, trip))).map(|(_, ns)| ns)
}

#[test]
fn a_short_last_segment_that_is_one_round_trip_late_shows_nagle() {
    let usual = |gap: u64| trip_wait(&[1_000, 500], gap, |_| ());
    let gaps = [80 * MS - 1, 80 * MS, 133_333_333, 133_333_334];
    assert_eq!(gaps.map(usual), [None, Some(80 * MS), Some(133_333_333), None]);
    let trip = 100 * MS;
    // The flow fits into the first flight of ten segments.
    assert_eq!(trip_wait(&[9_500, 500], trip, |_| ()), Some(trip));
    assert_eq!(trip_wait(&[9_501, 500], trip, |_| ()), None);
    // The late segment is short, and at most one short segment precedes it.
    assert_eq!(trip_wait(&[1_000, 999], trip, |_| ()), Some(trip));
    assert_eq!(trip_wait(&[1_000, 1_000], trip, |_| ()), None);
    assert_eq!(trip_wait(&[1_000, 400, 300], trip, |_| ()), Some(trip));
    assert_eq!(trip_wait(&[400, 400, 300], trip, |_| ()), None);
}

#[test]
fn a_full_window_or_several_short_packets_explain_a_wait_of_a_round_trip() {
    let trip = 100 * MS;
    let windows = [1_500, 1_499].map(|window| {
        trip_wait(&[1_000, 500], trip, |flow| flow.counts.window_bytes = Some(window))
    });
    assert_eq!(windows, [Some(trip), None]);
    let packets = [3, 4]
        .map(|packets| trip_wait(&[1_000, 500], trip, |flow| flow.data_packets = Some(packets)));
    assert_eq!(packets, [Some(trip), None]);
    let upload = |flow: &mut Flow| flow.direction = Direction::Outgoing;
    assert_eq!(trip_wait(&[1_000, 500], trip, upload), None);
}

#[test]
fn two_waits_of_a_round_trip_or_a_loss_do_not_show_nagle_of_a_trip() {
    let path = path_with_mss(1_000);
    let twice = spaced(100 * MS, 500, &[100 * MS, 100 * MS]);
    assert_eq!(nagle_of_a_trip(&mut view(&twice, &path, 100 * MS)), None);
    let once = flow(&[(100 * MS, 1_000), (200 * MS, 500)]);
    let mut lossy = view(&once, &path, 100 * MS);
    lossy.has_losses = true;
    assert_eq!(nagle_of_a_trip(&mut lossy), None);
    let cause = nagle_of_a_trip(&mut view(&once, &path, 100 * MS)).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    Nagle of a screenful: 100000000 ns, 100000000 ns of 200000000 ns
      Nagle's algorithm on the remote host costs 100 ms of the 200 ms of a screenful (50 %):
      it holds back a short segment for one round trip, until the previous segment is
      acknowledged. Set TCP_NODELAY there.
    ");
}

fn delayed_acks(gaps: &[u64], trip_ns: u64) -> Option<Cause> {
    let mut upload = spaced(trip_ns, 1_000, gaps);
    upload.direction = Direction::Outgoing;
    let path = path_with_mss(1_000);
    delayed_ack(&mut view(&upload, &path, trip_ns))
}

#[test]
fn three_equal_waits_as_long_as_an_acknowledgment_delay_are_delayed_acknowledgments() {
    let trip = 10 * MS;
    let cost = |gaps: &[u64]| delayed_acks(gaps, trip).map(|cause| cause.cost_ns);
    assert_eq!(cost(&[40 * MS; 3]), Some(90 * MS));
    assert_eq!(cost(&[40 * MS; 2]), None);
    // A wait differs from the median by at most a sixth.
    assert_eq!(cost(&[42 * MS, 48 * MS, 56 * MS]), Some(116 * MS));
    assert_eq!(cost(&[42 * MS, 48 * MS, 56 * MS + 1]), None);
    // A wait is longer than two round trips.
    assert_eq!(delayed_acks(&[40 * MS; 3], 20 * MS), None);
    assert!(delayed_acks(&[40 * MS + 1; 3], 20 * MS).is_some());
    let cause = delayed_acks(&[40 * MS, 200 * MS, 40 * MS, 41 * MS], trip).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    delayed ACK of a screenful: 281000000 ns, 281000000 ns of 331000000 ns
      The remote host's delayed acknowledgment costs 281 ms of the 331 ms of a screenful (85
      %): 4 times it delayed an acknowledgment by about 30.0 ms while this host could send no
      more data. Use larger buffers on this host, or set TCP_QUICKACK there.
    ");
}

#[test]
fn a_download_has_no_delayed_acknowledgments() {
    let path = path_with_mss(1_000);
    let download = spaced(10 * MS, 1_000, &[40 * MS; 3]);
    let mut one = view(&download, &path, 10 * MS);
    assert_eq!(delayed_ack(&mut one), None);
    let upload = Flow { direction: Direction::Outgoing, ..download };
    let mut one = view(&upload, &path, 10 * MS);
    assert!(delayed_ack(&mut one).is_some());
    assert_eq!(one.stalls, []);
}

#[test]
fn the_time_of_a_closed_local_window_beyond_a_round_trip_is_charged_to_this_host() {
    let path = path_with_mss(1_000);
    let mut download = spaced(10 * MS, 1_000, &[100 * MS]);
    download.counts.own_window_closed_ns = Some(90 * MS);
    let mut one = view(&download, &path, 10 * MS);
    let cause = zero_window(&mut one).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    zero window of a screenful: 80000000 ns, 80000000 ns of 110000000 ns
      This host's full receive window costs 80.0 ms of the 110 ms of a screenful (73 %): plumb
      did not read as fast as the data arrived. Check what delays it: a slow disk or display,
      or other processes.
    ");
    assert_eq!(one.stalls, []);
    download.counts.own_window_closed_ns = None;
    download.counts.limited_by_window_ns = Some(100 * MS);
    assert_eq!(zero_window(&mut view(&download, &path, 10 * MS)), None);
}

fn closed_window(gaps: &[u64], counts: FlowCounts) -> Option<Cause> {
    let mut upload = spaced(10 * MS, 1_000, gaps);
    upload.direction = Direction::Outgoing;
    upload.counts = counts;
    let path = path_with_mss(1_000);
    zero_window(&mut view(&upload, &path, 10 * MS))
}

#[test]
fn a_peer_window_that_is_full_during_long_stalls_is_closed() {
    let cost = |gap: u64, limited_ns: u64, retransmissions: Option<u64>| {
        let counts = FlowCounts {
            limited_by_window_ns: Some(limited_ns),
            retransmissions,
            ..FlowCounts::default()
        };
        closed_window(&[gap], counts).map(|cause| cause.cost_ns)
    };
    let gap = 190 * MS;
    assert_eq!(cost(gap, 2 * gap, Some(0)), Some(gap));
    // Long stalls take at least half of the time.
    assert_eq!(cost(gap, 2 * gap + 2, Some(0)), None);
    assert_eq!(cost(gap - 1, gap, Some(0)), None);
    assert_eq!(cost(gap, 0, Some(0)), None);
    // A retransmission explains the stall as well.
    assert_eq!(cost(gap, gap, Some(1)), None);
    assert_eq!(cost(gap, gap, None), None);
}

#[test]
fn window_probes_show_a_closed_window_despite_retransmissions() {
    let cost = |limited_ns: u64, window_probes: u64| {
        let counts = FlowCounts {
            limited_by_window_ns: Some(limited_ns),
            window_probes: Some(window_probes),
            ..FlowCounts::default()
        };
        // Stalls count from half of the minimum of a long stall.
        closed_window(&[200 * MS, 95 * MS, 95 * MS - 1], counts).map(|cause| cause.cost_ns)
    };
    let limits = [100, 250, 1_000].map(|limited_ms| cost(limited_ms * MS, 1));
    assert_eq!(limits, [Some(200 * MS), Some(250 * MS), Some(295 * MS)]);
    assert_eq!(cost(100 * MS, 0), None);
    let counts = FlowCounts {
        limited_by_window_ns: Some(250 * MS),
        window_probes: Some(1),
        ..FlowCounts::default()
    };
    let cause = closed_window(&[250 * MS], counts).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    zero window of a screenful: 250000000 ns, 250000000 ns of 260000000 ns
      The remote host's closed receive window costs 250 ms of the 260 ms of a screenful (96
      %): its program stops reading for that time. Check what the program does with the data,
      for example on a full disk.
    ");
}

#[test]
fn a_window_has_two_segments_or_half_of_the_local_window() {
    let windows = |bytes: u64, own: Option<u64>, mss_bytes: Option<u64>| {
        let mut flow = spaced(100 * MS, bytes, &[100 * MS; 9]);
        flow.counts.window_bytes = own;
        in_windows(&flow, Some(100 * MS), mss_bytes)
    };
    assert_eq!(windows(2_000, None, Some(1_000)), Some(2_000));
    assert_eq!(windows(1_999, None, Some(1_000)), None);
    assert_eq!(windows(1_999, Some(3_998), Some(1_000)), Some(1_999));
    assert_eq!(windows(1_999, Some(3_999), Some(1_000)), None);
    assert_eq!([1_072, 1_071].map(|bytes| windows(bytes, None, None)), [Some(1_072), None]);
    let mut upload = spaced(100 * MS, 2_000, &[100 * MS; 9]);
    upload.direction = Direction::Outgoing;
    assert_eq!(in_windows(&upload, Some(100 * MS), Some(1_000)), None);
}

/// Returns the cost of a small window in a flow of `bytes` per piece over a path of 100 ms.
fn window_cost(
    bytes: u64,
    gaps: &[u64],
    change_flow: impl Fn(&mut Flow),
    change_view: impl Fn(&mut View<'_>),
) -> Option<(CauseKind, u64)> {
    let mut flow = spaced(100 * MS, bytes, gaps);
    change_flow(&mut flow);
    let path = path_with_mss(1_000);
    let mut view = view(&flow, &path, 100 * MS);
    change_view(&mut view);
    kind_and_cost(small_window(&mut view))
}

#[test]
fn stalls_between_a_quarter_and_two_round_trips_wait_for_a_window() {
    let own_window = |flow: &mut Flow| flow.counts.window_bytes = Some(2_000);
    let cost = |gap: u64| window_cost(1_000, &[gap], own_window, |_| ());
    let small = |ns: u64| Some((CauseKind::SmallWindow, ns));
    let gaps = [25 * MS - 1, 25 * MS, 200 * MS, 200 * MS + 1];
    assert_eq!(gaps.map(cost), [None, small(25 * MS), small(200 * MS), None]);
}

#[test]
fn slow_start_explains_the_first_waits_of_a_growing_flow() {
    // 25,000 bytes take two waits.
    let cost = |count: usize| {
        let pieces = u64::try_from(count).unwrap() + 1;
        window_cost(24_000 / pieces, &[100 * MS; 4][..count], |_| (), |_| ())
    };
    assert_eq!(cost(2), None);
    assert_eq!(cost(3), Some((CauseKind::SmallWindow, 100 * MS)));
    // A constant window is not due to slow start.
    let constant = |view: &mut View<'_>| view.window_bytes = Some(10_000);
    let cost = window_cost(8_000, &[100 * MS; 2], |_| (), constant);
    assert_eq!(cost, Some((CauseKind::SmallWindow, 200 * MS)));
}

#[test]
fn a_single_wait_after_the_first_flight_is_slow_start() {
    let cost = |window: u64| {
        let constant = move |view: &mut View<'_>| view.window_bytes = Some(window);
        window_cost(10_000, &[100 * MS], |_| (), constant)
    };
    assert_eq!(cost(10_000), None);
    assert_eq!(cost(10_001), Some((CauseKind::SmallWindow, 100 * MS)));
    // Twenty segments may be a congestion window that still grows.
    assert_eq!(cost(20_000), Some((CauseKind::SmallWindow, 100 * MS)));
    assert_eq!(cost(20_001), None);
}

#[test]
fn with_losses_only_the_local_window_is_charged() {
    let lossy = |view: &mut View<'_>| view.has_losses = true;
    let gaps = [100 * MS; 6];
    assert_eq!(window_cost(4_000, &gaps, |_| (), lossy), None);
    let own_window = |flow: &mut Flow| flow.counts.window_bytes = Some(8_000);
    let expected = Some((CauseKind::SmallWindow, 600 * MS));
    assert_eq!(window_cost(4_000, &gaps, own_window, lossy), expected);
    let upload = |flow: &mut Flow| flow.direction = Direction::Outgoing;
    assert!(window_cost(4_000, &gaps, upload, lossy).is_some());
}

#[test]
fn an_upload_waits_for_a_window_if_tcp_reports_half_of_the_time() {
    let kind = |window_ms: Option<u64>, buffer_ms: Option<u64>| {
        let upload = |flow: &mut Flow| {
            flow.direction = Direction::Outgoing;
            flow.counts.limited_by_window_ns = window_ms.map(|ms| ms * MS);
            flow.counts.limited_by_buffer_ns = buffer_ms.map(|ms| ms * MS);
        };
        let constant = |view: &mut View<'_>| view.window_bytes = Some(4_000);
        window_cost(4_000, &[100 * MS; 6], upload, constant).map(|(kind, _)| kind)
    };
    let window = Some(CauseKind::SmallWindow);
    assert_eq!(kind(None, None), window);
    assert_eq!([300, 299].map(|ms| kind(Some(ms), Some(0))), [window, None]);
    assert_eq!(kind(Some(300), Some(300)), window);
    assert_eq!(kind(Some(300), Some(301)), Some(CauseKind::SmallSendBuffer));
}

#[test]
fn the_owner_of_a_window_is_named_with_its_remedy() {
    let path = path_with_mss(1_000);
    let sentence = |own: Option<u64>, is_constant: bool, direction, buffer_ns: u64| {
        let mut flow = spaced(100 * MS, 4_000, &[100 * MS; 6]);
        flow.counts.window_bytes = own;
        flow.direction = direction;
        flow.counts.limited_by_buffer_ns = Some(buffer_ns);
        let mut view = view(&flow, &path, 100 * MS);
        view.window_bytes = is_constant.then_some(4_000);
        described(small_window(&mut view).as_slice())
    };
    let sentences = [
        sentence(Some(8_000), true, Direction::Incoming, 0),
        sentence(Some(8_001), true, Direction::Incoming, 0),
        sentence(Some(60_000), false, Direction::Incoming, 0),
        sentence(None, false, Direction::Incoming, 0),
        sentence(None, true, Direction::Outgoing, 600 * MS),
    ];
    insta::assert_snapshot!(sentences.join("\n"), @"
    small window of a screenful: 600000000 ns, 600000000 ns of 700000000 ns
      This host's small receive window costs 600 ms of the 700 ms of a screenful (86 %): 4,000
      bytes are sent in each round trip of 100 ms, 6 times. Increase the receive buffer of
      this host (net.ipv4.tcp_rmem, SO_RCVBUF).
    small send buffer of a screenful: 600000000 ns, 600000000 ns of 700000000 ns
      The remote host's small send buffer costs 600 ms of the 700 ms of a screenful (86 %):
      4,000 bytes are sent in each round trip of 100 ms, 6 times, and the receive window of
      this host permits more. Increase the send buffer of the remote host (net.ipv4.tcp_wmem,
      SO_SNDBUF).
    small send buffer of a screenful: 400000000 ns, 400000000 ns of 700000000 ns
      Either the remote host's small send buffer or its congestion window costs 400 ms of the
      700 ms of a screenful (57 %): 4,000 bytes are sent in each round trip of 100 ms, 6
      times, and the receive window of this host permits more. To tell them apart, measure a
      longer output, in which a congestion window grows and a send buffer does not.
    small window of a screenful: 400000000 ns, 400000000 ns of 700000000 ns
      Either this host's small receive window or the remote host's small send buffer costs 400
      ms of the 700 ms of a screenful (57 %): 4,000 bytes are sent in each round trip of 100
      ms, 6 times. To tell them apart, repeat with a larger receive buffer on this host
      (net.ipv4.tcp_rmem), which changes nothing if the send buffer is the limit.
    small send buffer of a screenful: 600000000 ns, 600000000 ns of 700000000 ns
      This host's small send buffer costs 600 ms of the 700 ms of a screenful (86 %): 4,000
      bytes are sent in each round trip of 100 ms, 6 times. Increase the send buffer of this
      host (net.ipv4.tcp_wmem, SO_SNDBUF).
    ");
}

#[test]
fn a_window_that_tcp_reports_as_full_is_a_cause_without_acknowledgments() {
    let counts = FlowCounts { limited_by_window_ns: Some(500 * MS), ..FlowCounts::default() };
    let mut upload = Flow {
        direction: Direction::Outgoing,
        bytes: 50_000,
        elapsed_ns: 1_000 * MS,
        counts,
        ..Flow::default()
    };
    let path = path_with_mss(1_000);
    let cause = full_window(&view(&upload, &path, 100 * MS)).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    small window of a screenful: 500000000 ns, 500000000 ns of 1000000000 ns
      The remote host's small receive window costs 500 ms of the 1.00 s of a screenful (50 %):
      80,000 bits are sent in each round trip of 100 ms. Increase the receive buffer of the
      remote host, or make its program read faster.
    ");
    upload.arrivals = spaced(100 * MS, 50_000, &[]).arrivals;
    assert_eq!(full_window(&view(&upload, &path, 100 * MS)), None);
    upload.arrivals.clear();
    upload.direction = Direction::Incoming;
    assert_eq!(full_window(&view(&upload, &path, 100 * MS)), None);
}

#[test]
fn the_largest_arrivals_before_and_after_an_index_are_found() {
    let flow = flow(&[(1, 5), (2, 9), (3, 7), (4, 8)]);
    let path = Path::default();
    let view = view(&flow, &path, 0);
    let around = [0, 1, 2, 4, 5].map(|index| largest_around(&view, index));
    assert_eq!(around, [Some((0, 9)), Some((5, 9)), Some((9, 8)), Some((9, 0)), None]);
}
