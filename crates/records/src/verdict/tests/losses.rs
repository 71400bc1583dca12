//! Boundaries of the rules for lost, late and too long packets.

use super::{MS, described, flow, kind_and_cost, path_with_mss, session, spaced, view};
use crate::verdict::cause::{CauseKind, Operation};
use crate::verdict::losses::{
    black_hole, black_hole_segment_bytes, confirmed_losses, expected_cost_ns, has_losses, is_lossy,
    is_lossy_while_typing, is_reordered, is_request_retransmitted, late_threshold_ns, lateness_ns,
    loss, reordering,
};
use crate::verdict::{Answers, Direction, Flow, FlowCounts, Observation, Path};

fn outgoing(counts: FlowCounts) -> Flow {
    Flow { direction: Direction::Outgoing, counts, ..Flow::default() }
}

#[test]
fn a_loss_is_a_confirmed_retransmission_or_data_out_of_order() {
    let counts = |retransmissions, duplicate_reports, out_of_order_in| FlowCounts {
        retransmissions,
        duplicate_reports,
        out_of_order_in,
        ..FlowCounts::default()
    };
    assert!(is_lossy(&outgoing(counts(Some(2), Some(1), None))));
    assert!(!is_lossy(&outgoing(counts(Some(1), Some(1), Some(5)))));
    let incoming = |counts| Flow { counts, ..Flow::default() };
    assert!(is_lossy(&incoming(counts(None, None, Some(1)))));
    assert!(!is_lossy(&incoming(counts(Some(3), None, Some(0)))));
    assert_eq!(confirmed_losses(&counts(Some(5), Some(2), None)), Some(3));
    assert_eq!(confirmed_losses(&counts(Some(5), None, None)), Some(5));
    assert_eq!(confirmed_losses(&counts(None, Some(2), None)), None);
}

#[test]
fn losses_while_typing_are_those_of_the_echoes() {
    let is_lossy = |counts: FlowCounts| {
        let mut observed = session(MS, MS);
        observed.echo.as_mut().unwrap().counts = counts;
        is_lossy_while_typing(&observed)
    };
    assert!(!is_lossy(FlowCounts::default()));
    let spurious = FlowCounts {
        retransmissions: Some(1),
        duplicate_reports: Some(1),
        ..FlowCounts::default()
    };
    assert!(!is_lossy(spurious));
    assert!(is_lossy(FlowCounts { retransmissions: Some(1), ..FlowCounts::default() }));
    assert!(is_lossy(FlowCounts { out_of_order_in: Some(1), ..spurious }));
    assert!(!is_lossy_while_typing(&Observation::default()));
}

#[test]
fn losses_of_a_session_are_unknown_without_counts() {
    let mut observed = session(MS, MS);
    assert_eq!(has_losses(&observed), None);
    let retransmitted = |count| FlowCounts { retransmissions: count, ..FlowCounts::default() };
    observed.echo.as_mut().unwrap().counts = retransmitted(Some(0));
    assert_eq!(has_losses(&observed), Some(false));
    observed.transfers = vec![Flow { counts: retransmitted(Some(1)), ..Flow::default() }];
    assert_eq!(has_losses(&observed), Some(true));
    let disordered = FlowCounts { out_of_order_in: Some(1), ..retransmitted(Some(0)) };
    observed.transfers = vec![Flow { counts: disordered, ..Flow::default() }];
    assert_eq!(has_losses(&observed), Some(true));
}

#[test]
fn an_exchange_is_late_above_twice_the_usual_time_and_100_ms() {
    assert_eq!(late_threshold_ns(30 * MS), 160 * MS);
    let times = [30 * MS, 30 * MS, 30 * MS, 160 * MS, 160 * MS + 1];
    assert_eq!(lateness_ns(&times), [0, 0, 0, 0, 130 * MS + 1]);
    assert_eq!(lateness_ns(&[]), [0; 0]);
}

#[test]
fn the_expected_cost_of_a_loss_grows_with_the_packets_of_a_flight() {
    let cost = |echoes: usize, bytes: u64, mss_bytes: Option<u64>| {
        let mut observed = session(10 * MS, 10 * MS);
        let echo = observed.echo.as_mut().unwrap();
        echo.samples_ns = vec![10 * MS; echoes];
        echo.samples_ns[0] = 1_010 * MS;
        observed.path.mss_bytes = mss_bytes;
        expected_cost_ns(&observed, &Flow { bytes, ..Flow::default() })
    };
    // A twentieth of the exchanges of two packets is late by a second.
    let bytes = [1_000, 1_001, 10_000, 10_001].map(|bytes| cost(20, bytes, Some(1_000)));
    assert_eq!(bytes, [Some(50 * MS), Some(75 * MS), Some(275 * MS), None]);
    assert_eq!(cost(20, 5_360, None), Some(275 * MS));
    assert_eq!(cost(20, 5_361, None), None);
    assert_eq!(cost(20, 0, Some(0)), Some(25 * MS));
    assert_eq!(cost(19, 1_000, Some(1_000)), None);
}

#[test]
fn every_kind_of_short_exchange_counts_for_the_expected_cost() {
    let mut observed = session(10 * MS, 10 * MS);
    let echo = observed.echo.as_mut().unwrap();
    echo.samples_ns = vec![10 * MS; 5];
    echo.erasures_ns = vec![10 * MS; 5];
    observed.answers =
        Some(Answers { quick_ack_ns: vec![10 * MS; 5], delayed_ack_ns: vec![10 * MS; 5] });
    let flow = Flow { bytes: 1_000, ..Flow::default() };
    assert_eq!(expected_cost_ns(&observed, &flow), Some(0));
    observed.echo.as_mut().unwrap().erasures_ns[4] = 210 * MS;
    observed.answers.as_mut().unwrap().delayed_ack_ns[4] = 210 * MS;
    assert_eq!(expected_cost_ns(&observed, &flow), Some(20 * MS));
    // The wait for the local processor is no loss.
    let echo = observed.echo.as_mut().unwrap();
    echo.samples_ns[4] = 210 * MS;
    echo.own_wait_ns = vec![0, 0, 0, 0, 200 * MS];
    assert_eq!(expected_cost_ns(&observed, &flow), Some(20 * MS));
}

/// Returns the length of the segments that pass a black hole on a path of 10 ms with segments of
/// 1,000 bytes.
fn passing_bytes(pieces: &[(u64, u64)]) -> Option<u64> {
    let flow = flow(pieces);
    let path = path_with_mss(1_000);
    black_hole_segment_bytes(&view(&flow, &path, 10 * MS))
}

#[test]
fn after_a_timeout_shorter_segments_show_a_black_hole() {
    let with = |before: u64, gap: u64, after: u64| {
        let late = 10 * MS + gap;
        passing_bytes(&[(10 * MS, before), (late, after), (late, after), (late, after)])
    };
    let gap = 190 * MS;
    assert_eq!([gap - 1, gap].map(|gap| with(400, gap, 500)), [None, Some(500)]);
    // No long packet arrives before the wait, and no full one after it.
    assert_eq!([499, 500].map(|before| with(before, gap, 600)), [Some(600), None]);
    assert_eq!([969, 970].map(|after| with(400, gap, after)), [Some(969), None]);
    assert_eq!([334, 333].map(|after| with(300, gap, after)), [Some(334), None]);
}

#[test]
fn most_arrivals_behind_a_black_hole_have_one_length() {
    let late = 200 * MS;
    let three_of_five = [(10 * MS, 400), (late, 600), (late, 600), (late, 600), (late, 100)];
    assert_eq!(passing_bytes(&three_of_five), Some(600));
    let two_of_four = [(10 * MS, 400), (late, 600), (late, 600), (late, 100)];
    assert_eq!(passing_bytes(&two_of_four), None);
}

#[test]
fn the_first_packet_may_already_be_too_long() {
    let first_at = |ns: u64, bytes: u64| passing_bytes(&[(ns, 600), (ns + 1, bytes)]);
    assert_eq!([200 * MS - 1, 200 * MS].map(|ns| first_at(ns, 401)), [None, Some(600)]);
    // Two arrivals are a segment and its remainder only if a segment cannot carry them.
    assert_eq!(first_at(200 * MS, 400), None);
}

#[test]
fn an_upload_shows_a_black_hole_by_its_segment_size() {
    let after = |after: u64| {
        let counts = FlowCounts { mss_bytes: Some([1_000, after]), ..FlowCounts::default() };
        let flow = outgoing(counts);
        let path = path_with_mss(1_000);
        black_hole_segment_bytes(&view(&flow, &path, 10 * MS))
    };
    assert_eq!([999, 1_000].map(after), [Some(999), None]);
}

#[test]
fn the_silences_of_a_black_hole_and_its_first_wait_are_charged() {
    let path = path_with_mss(1_000);
    let flow = spaced(60 * MS, 500, &[190 * MS, 189 * MS, 300 * MS]);
    let mut one = view(&flow, &path, 10 * MS);
    one.black_hole_segment_bytes = Some(500);
    let cause = black_hole(&mut one).unwrap();
    insta::assert_snapshot!(described(&[cause]), @r#"
    path MTU black hole of a screenful: 540000000 ns, 540000000 ns of 739000000 ns
      A path MTU black hole costs 540 ms of the 739 ms of a screenful (73 %): packets with
      1,000 bytes of data are dropped without an ICMP error, and those with 500 arrive. Allow
      ICMP "packet too big", or set the MTU to the size that the path carries.
    "#);
    assert_eq!(one.stalls.iter().map(|stall| stall.index).collect::<Vec<_>>(), [2]);
    assert_eq!(black_hole(&mut view(&flow, &path, 10 * MS)), None);
}

#[test]
fn two_reorderings_that_are_no_losses_show_reordering_of_an_upload() {
    let path = path_with_mss(1_000);
    let is_disordered = |reorderings, duplicate_reports, retransmissions| {
        let counts =
            FlowCounts { reorderings, duplicate_reports, retransmissions, ..FlowCounts::default() };
        is_reordered(&view(&outgoing(counts), &path, 100 * MS))
    };
    assert!(is_disordered(Some(2), None, None) && is_disordered(None, Some(2), None));
    assert!(!is_disordered(Some(1), Some(1), None) && !is_disordered(None, None, Some(0)));
    assert!(is_disordered(Some(2), None, Some(2)) && !is_disordered(Some(2), None, Some(3)));
    assert!(!is_disordered(Some(1), None, Some(1)));
}

#[test]
fn duplicates_show_reordering_of_a_download_if_they_explain_half_of_its_stalls() {
    let path = path_with_mss(1_000);
    let is_disordered = |duplicates: u64, gaps: &[u64]| {
        let mut flow = spaced(100 * MS, 1_000, gaps);
        flow.counts.duplicates_in = Some(duplicates);
        is_reordered(&view(&flow, &path, 100 * MS))
    };
    assert!(is_disordered(2, &[100 * MS; 4]) && !is_disordered(2, &[100 * MS; 5]));
    assert!(!is_disordered(1, &[]));
    // A stall counts from four fifths of a round trip.
    assert!(!is_disordered(2, &[80 * MS; 5]) && is_disordered(2, &[80 * MS - 1; 5]));
}

#[test]
fn the_stalls_of_disordered_data_are_charged_to_reordering() {
    let path = path_with_mss(1_000);
    let cost = |direction, counts: FlowCounts, has_reordering: bool| {
        let flow = Flow { direction, counts, ..spaced(10 * MS, 1_000, &[30 * MS, 40 * MS]) };
        let mut one = view(&flow, &path, 10 * MS);
        one.has_reordering = has_reordering;
        let cause = reordering(&mut one);
        assert_eq!(one.stalls.is_empty(), cause.is_some());
        described(cause.as_slice())
    };
    let counts = FlowCounts {
        reorderings: Some(3),
        duplicate_reports: Some(4),
        out_of_order_in: Some(5),
        ..FlowCounts::default()
    };
    assert_eq!(cost(Direction::Outgoing, counts, false), "");
    assert_eq!(cost(Direction::Incoming, FlowCounts::default(), true), "");
    let none = FlowCounts { out_of_order_in: Some(0), ..counts };
    assert_eq!(cost(Direction::Incoming, none, true), "");
    let sentences =
        [Direction::Outgoing, Direction::Incoming].map(|direction| cost(direction, counts, true));
    insta::assert_snapshot!(sentences.join("\n"), @"
    reordering of a screenful: 70000000 ns, 70000000 ns of 80000000 ns
      Reordering on the path costs 70.0 ms of the 80.0 ms of a screenful (88 %): 4 packets
      were out of order. Check for parallel links that carry the packets of one flow in turn.
    reordering of a screenful: 70000000 ns, 70000000 ns of 80000000 ns
      Reordering on the path costs 70.0 ms of the 80.0 ms of a screenful (88 %): 5 packets
      were out of order. Check for parallel links that carry the packets of one flow in turn.
    ");
}

#[test]
fn a_request_was_retransmitted_if_a_lossy_session_counts_one_segment() {
    let path = path_with_mss(1_000);
    let is_retransmitted = |retransmissions, out_of_order_in, has_losses| {
        let counts = FlowCounts { retransmissions, out_of_order_in, ..FlowCounts::default() };
        let flow = Flow { counts, ..Flow::default() };
        let mut one = view(&flow, &path, MS);
        one.has_losses = has_losses;
        is_request_retransmitted(&one)
    };
    assert!(is_retransmitted(Some(1), None, true) && is_retransmitted(Some(0), Some(1), true));
    assert!(!is_retransmitted(Some(0), Some(0), true) && !is_retransmitted(None, None, true));
    assert!(!is_retransmitted(Some(1), Some(1), false));
}

/// Returns the loss of a flow that stalls for `gaps` over a path of `trip_ns`.
fn lost(gaps: &[u64], trip_ns: u64, counts: FlowCounts) -> Option<(CauseKind, u64)> {
    let flow = Flow { counts, ..spaced(trip_ns, 1_000, gaps) };
    let path = path_with_mss(1_000);
    let mut one = view(&flow, &path, trip_ns);
    one.has_losses = true;
    kind_and_cost(loss(&mut one))
}

#[test]
fn a_stall_of_a_timer_or_of_six_round_trips_is_a_retransmission_timeout() {
    let kinds = |gaps: &[u64], trip: u64| {
        let (kind, cost) = lost(gaps, trip, FlowCounts::default()).unwrap();
        assert_eq!(cost, gaps.iter().sum::<u64>());
        kind
    };
    let [timeout, repaired] = [CauseKind::RetransmissionTimeouts, CauseKind::Loss];
    assert_eq!([600 * MS, 600 * MS - 1].map(|gap| kinds(&[gap], MS)), [timeout, repaired]);
    assert_eq!([660 * MS, 660 * MS - 1].map(|gap| kinds(&[gap], 110 * MS)), [timeout, repaired]);
    // The longer sum determines the kind of repair.
    assert_eq!(kinds(&[600 * MS, 300 * MS, 300 * MS], MS), repaired);
    assert_eq!(kinds(&[600 * MS, 300 * MS, 300 * MS - 1], MS), timeout);
}

#[test]
fn the_wait_for_a_lost_request_is_charged_to_its_repair() {
    let cost = |first_ms: u64, retransmissions: u64| {
        let counts = FlowCounts { retransmissions: Some(retransmissions), ..FlowCounts::default() };
        let flow = Flow { counts, ..spaced(first_ms * MS, 1_000, &[50 * MS]) };
        let path = path_with_mss(1_000);
        let mut one = view(&flow, &path, 10 * MS);
        one.has_losses = true;
        kind_and_cost(loss(&mut one))
    };
    assert_eq!(cost(609, 1), Some((CauseKind::Loss, 649 * MS)));
    assert_eq!(cost(610, 1), Some((CauseKind::RetransmissionTimeouts, 650 * MS)));
    assert_eq!(cost(610, 0), Some((CauseKind::Loss, 50 * MS)));
}

#[test]
fn neither_a_session_without_losses_nor_a_black_hole_nor_late_data_is_a_loss() {
    let path = path_with_mss(1_000);
    let flow = spaced(MS, 1_000, &[300 * MS]);
    let mut one = view(&flow, &path, MS);
    assert_eq!(loss(&mut one), None);
    one.has_losses = true;
    one.black_hole_segment_bytes = Some(500);
    assert_eq!(loss(&mut one), None);
    one.black_hole_segment_bytes = None;
    one.has_reordering = true;
    assert_eq!(loss(&mut one), None);
    one.has_reordering = false;
    assert!(loss(&mut one).is_some());
    let counts = FlowCounts { out_of_order_in: Some(1), ..FlowCounts::default() };
    let flow = Flow { counts, ..flow.clone() };
    let mut one = view(&flow, &path, MS);
    one.has_losses = true;
    one.has_reordering = true;
    assert!(loss(&mut one).is_some());
}

#[test]
fn a_loss_of_a_screenful_costs_at_most_the_average_of_the_session() {
    let path = path_with_mss(1_000);
    let flow = spaced(MS, 1_000, &[300 * MS]);
    let cost = |operation, expected_loss_ns| {
        let mut one = view(&flow, &path, MS);
        one.has_losses = true;
        one.operation = operation;
        one.expected_loss_ns = expected_loss_ns;
        loss(&mut one).map(|cause| cause.cost_ns)
    };
    assert_eq!(cost(Operation::Screenful, Some(70 * MS)), Some(70 * MS));
    assert_eq!(cost(Operation::Screenful, Some(400 * MS)), Some(300 * MS));
    assert_eq!(cost(Operation::Screenful, None), Some(300 * MS));
    assert_eq!(cost(Operation::Transfer, Some(70 * MS)), Some(300 * MS));
}

#[test]
fn a_loss_is_described_by_its_counts_and_its_timeouts() {
    let path: Path = path_with_mss(1_000);
    let sentence = |gaps: &[u64], retransmissions, segments_out| {
        let counts = FlowCounts { retransmissions, segments_out, ..FlowCounts::default() };
        let flow = Flow { counts, ..spaced(MS, 1_000, gaps) };
        let mut one = view(&flow, &path, MS);
        one.has_losses = true;
        described(loss(&mut one).as_slice())
    };
    let sentences = [
        sentence(&[700 * MS], None, None),
        sentence(&[700 * MS, 900 * MS], None, None),
        sentence(&[300 * MS], None, Some(90)),
        sentence(&[300 * MS], Some(0), Some(90)),
        sentence(&[300 * MS], Some(2), Some(90)),
        sentence(&[300 * MS], Some(2), None),
    ];
    insta::assert_snapshot!(sentences.join("\n"), @"
    retransmission timeouts of a screenful: 700000000 ns, 700000000 ns of 701000000 ns
      Waiting for retransmission timeouts costs 700 ms of the 701 ms of a screenful (> 99 %):
      1 timeout of 700 ms passed before a retransmission. Find the link that drops packets;
      with SACK and tail loss probes (RFC 8985) on both hosts a repair takes two round trips.
    retransmission timeouts of a screenful: 1600000000 ns, 1600000000 ns of 1601000000 ns
      Waiting for retransmission timeouts costs 1.60 s of the 1.60 s of a screenful (> 99 %):
      2 timeouts of up to 900 ms passed before a retransmission. Find the link that drops
      packets; with SACK and tail loss probes (RFC 8985) on both hosts a repair takes two
      round trips.
    loss of a screenful: 300000000 ns, 300000000 ns of 301000000 ns
      Packet loss costs 300 ms of the 301 ms of a screenful (> 99 %): segments of the remote
      host were lost. Check the links of the path for errors, and for buffers that are too
      small.
    loss of a screenful: 300000000 ns, 300000000 ns of 301000000 ns
      Packet loss costs 300 ms of the 301 ms of a screenful (> 99 %): segments of the remote
      host were lost. Check the links of the path for errors, and for buffers that are too
      small.
    loss of a screenful: 300000000 ns, 300000000 ns of 301000000 ns
      Packet loss costs 300 ms of the 301 ms of a screenful (> 99 %): 2 of 90 sent segments
      were lost. Check the links of the path for errors, and for buffers that are too small.
    loss of a screenful: 300000000 ns, 300000000 ns of 301000000 ns
      Packet loss costs 300 ms of the 301 ms of a screenful (> 99 %): 2 sent segments were
      lost. Check the links of the path for errors, and for buffers that are too small.
    ");
}
