//! Boundaries of the rules for missing output and for waits without a cause.

use super::{MS, described, session, spaced};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::unexplained::{unfinished, waits};
use crate::verdict::{Echoes, FlowCounts, Observation, Unfinished};

fn missing(change: impl Fn(&mut Unfinished)) -> Observation {
    let mut unfinished = Unfinished {
        is_echo: false,
        expected_bytes: 2_000,
        received_bytes: 0,
        largest_complete_bytes: 300,
        waited_ns: 8_000 * MS,
        is_acknowledged: Some(true),
    };
    change(&mut unfinished);
    Observation { unfinished: Some(unfinished), ..session(20 * MS, 20 * MS) }
}

fn is_black_hole(change: impl Fn(&mut Unfinished)) -> bool {
    unfinished(&missing(change)).unwrap().kind == CauseKind::PathMtuBlackHole
}

#[test]
fn long_output_is_dropped_by_its_size_if_shorter_output_arrived() {
    let expected = |bytes| is_black_hole(|one| one.expected_bytes = bytes);
    assert_eq!([399, 400].map(expected), [false, true]);
    let complete = |bytes| is_black_hole(|one| one.largest_complete_bytes = bytes);
    assert_eq!([0, 1, 999, 1_000].map(complete), [false, true, true, false]);
    let equal = |bytes| {
        is_black_hole(|one| {
            one.expected_bytes = 600;
            one.largest_complete_bytes = bytes;
        })
    };
    assert_eq!([599, 600].map(equal), [true, false]);
    let received = |bytes| is_black_hole(|one| one.received_bytes = bytes);
    assert_eq!([399, 400].map(received), [true, false]);
    let half = |bytes| {
        is_black_hole(|one| {
            one.expected_bytes = 600;
            one.received_bytes = bytes;
        })
    };
    assert_eq!([299, 300].map(half), [true, false]);
    let mut without_mss = missing(|one| one.largest_complete_bytes = 1_459);
    without_mss.path.mss_bytes = None;
    assert_eq!(unfinished(&without_mss).unwrap().kind, CauseKind::PathMtuBlackHole);
    let mut without_mss = missing(|one| one.largest_complete_bytes = 1_460);
    without_mss.path.mss_bytes = None;
    assert_eq!(unfinished(&without_mss).unwrap().kind, CauseKind::Unknown);
}

/// Returns `observed` with data out of order in its echoes.
fn lossy(mut observed: Observation) -> Observation {
    observed.echo.as_mut().unwrap().counts.out_of_order_in = Some(1);
    observed
}

/// Returns `observed` with a retransmission in its echoes.
fn retransmitted(mut observed: Observation) -> Observation {
    let counts = FlowCounts { retransmissions: Some(1), ..FlowCounts::default() };
    observed.echo.as_mut().unwrap().counts = counts;
    observed
}

fn described_ends(all: &[Observation]) -> String {
    described(&all.iter().map(|one| unfinished(one).unwrap()).collect::<Vec<Cause>>())
}

#[test]
fn missing_output_is_described_by_its_evidence() {
    let unacknowledged = |one: &mut Unfinished| one.is_acknowledged = Some(false);
    let all = [
        missing(|_| ()),
        lossy(missing(|_| ())),
        missing(unacknowledged),
        lossy(missing(unacknowledged)),
        retransmitted(missing(unacknowledged)),
        missing(|one| one.is_acknowledged = None),
        missing(|one| one.received_bytes = 1_000),
    ];
    insta::assert_snapshot!(described_ends(&all), @r#"
    path MTU black hole of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      A path MTU black hole costs 8.00 s of the 8.00 s of a screenful (100 %): output of up to
      300 bytes arrived, output of 2,000 bytes did not, and the remote TCP acknowledged the
      request. Allow ICMP "packet too big", set the MTU to the size that the path carries, or
      set net.ipv4.tcp_mtu_probing = 1 on the remote host.
    retransmission timeouts of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Packet loss or a path MTU black hole costs 8.00 s of the 8.00 s of a screenful (100 %):
      output of up to 300 bytes arrived, output of 2,000 bytes did not, and the remote TCP
      acknowledged the request, but packets of any size were lost before. To tell them apart,
      measure again: if long output stops each time, allow ICMP "packet too big", set the MTU
      to the size that the path carries, or set net.ipv4.tcp_mtu_probing = 1 on the remote
      host; otherwise check the links for errors.
    unknown of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Unknown: missing output costs 8.00 s of the 8.00 s of a screenful (100 %): 0 of 2,000
      bytes arrived, and then nothing for 8.00 s; the remote TCP did not acknowledge the
      request, so the path or the remote host has failed. To tell them apart, ping the remote
      host.
    unknown of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Unknown: missing output costs 8.00 s of the 8.00 s of a screenful (100 %): 0 of 2,000
      bytes arrived, and then nothing for 8.00 s; the remote TCP did not acknowledge the
      request, so the path or the remote host has failed. To tell them apart, ping the remote
      host.
    retransmission timeouts of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Packet loss costs 8.00 s of the 8.00 s of a screenful (100 %): the request for output
      was retransmitted repeatedly and not acknowledged within 8.00 s, and packets were lost
      before. Check the links of the path for errors.
    unknown of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Unknown: missing output costs 8.00 s of the 8.00 s of a screenful (100 %): 0 of 2,000
      bytes arrived, and then nothing for 8.00 s; repeat the measurement, and check the remote
      host meanwhile.
    unknown of a screenful: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Unknown: missing output costs 8.00 s of the 8.00 s of a screenful (100 %): 1,000 of
      2,000 bytes arrived, and then nothing for 8.00 s; the remote TCP acknowledged the
      request, so its program has stopped or its packets are dropped. To tell them apart,
      capture packets on the remote host.
    "#);
}

#[test]
fn a_missing_echo_was_lost_if_packets_were_lost_before() {
    let lost_key = |one: &mut Unfinished| {
        one.is_acknowledged = Some(false);
        one.is_echo = true;
    };
    let all = [missing(lost_key), lossy(missing(lost_key)), retransmitted(missing(lost_key))];
    insta::assert_snapshot!(described_ends(&all), @"
    unknown of an echo: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Unknown: a missing echo costs 8.00 s of the 8.00 s of an echo (100 %): a key was not
      echoed within 8.00 s, although earlier keys were; the remote TCP did not acknowledge the
      request, so the path or the remote host has failed. To tell them apart, ping the remote
      host.
    retransmission timeouts of an echo: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Packet loss costs 8.00 s of the 8.00 s of an echo (100 %): the key was retransmitted
      repeatedly and not acknowledged within 8.00 s, and packets were lost before. Check the
      links of the path for errors.
    unknown of an echo: 8000000000 ns, 8000000000 ns of 8000000000 ns
      Unknown: a missing echo costs 8.00 s of the 8.00 s of an echo (100 %): a key was not
      echoed within 8.00 s, although earlier keys were; the remote TCP did not acknowledge the
      request, so the path or the remote host has failed. To tell them apart, ping the remote
      host.
    ");
}

fn echoes(ns: u64) -> Option<Echoes> {
    Some(Echoes { samples_ns: vec![ns; 20], ..Echoes::default() })
}

#[test]
fn a_wait_of_250_ms_without_a_cause_is_reported() {
    let screenful = |ns: u64| {
        let mut observed = session(20 * MS, 20 * MS);
        observed.screenful = Some(spaced(20 * MS + ns, 1_000, &[]));
        waits(&observed)
    };
    assert_eq!(screenful(250 * MS - 1), []);
    let mut both = session(20 * MS, 20 * MS);
    both.screenful = Some(spaced(400 * MS, 1_000, &[]));
    both.echo_under_load = echoes(500 * MS);
    insta::assert_snapshot!(described(&[screenful(250 * MS), waits(&both)].concat()), @"
    unknown of a screenful: 250000000 ns, 250000000 ns of 270000000 ns
      Unknown: an unexplained wait costs 250 ms of the 270 ms of a screenful (93 %): repeat
      the measurement to see whether it recurs, and capture packets on both hosts.
    unknown of an echo beside other data: 480000000 ns, 480000000 ns of 500000000 ns
      Unknown: an unexplained wait costs 480 ms of the 500 ms of an echo during output (96 %):
      without other output, an echo takes only 20.0 ms. During output, the echo waits for this
      output in a queue of the path or in the send buffer of the remote host. To tell them
      apart, capture packets on the remote host.
    ");
}

#[test]
fn an_echo_waits_in_the_remote_host_if_the_round_trip_grows_by_less_than_a_sixteenth() {
    let with = |rtt_ns: u64, out_of_order: u64| {
        let mut observed = session(20 * MS, 20 * MS);
        observed.echo.as_mut().unwrap().counts.out_of_order_in = Some(out_of_order);
        observed.echo_under_load = echoes(500 * MS);
        observed.path.rtt_under_load_ns = Some(rtt_ns);
        waits(&observed).remove(0)
    };
    let all = [with(50 * MS, 0), with(50 * MS - 1, 0), with(50 * MS - 1, 1)];
    insta::assert_snapshot!(described(&all), @"
    unknown of an echo beside other data: 480000000 ns, 480000000 ns of 500000000 ns
      Unknown: an unexplained wait costs 480 ms of the 500 ms of an echo during output (96 %):
      without other output, an echo takes only 20.0 ms. During output, the echo waits for this
      output in a queue of the path or in the send buffer of the remote host. To tell them
      apart, capture packets on the remote host.
    remote host of an echo beside other data: 480000000 ns, 480000000 ns of 500000000 ns
      Unsent output on the remote host costs 480 ms of the 500 ms of an echo during output (96
      %): its TCP responds in 50.0 ms meanwhile, but the echo waits behind this output in the
      send buffer; without this output, an echo takes 20.0 ms. Reduce the unsent data there
      (net.ipv4.tcp_notsent_lowat).
    loss of an echo beside other data: 480000000 ns, 480000000 ns of 500000000 ns
      Packet loss or unsent output on the remote host costs 480 ms of the 500 ms of an echo
      during output (96 %): packets were lost in this session; without other output, an echo
      takes 20.0 ms. To tell them apart, fix the errors of the links and measure again.
    ");
}

/// Returns the waits of an echo of 500 ms during output that fills a link of 8 Mbit/s.
fn held(rtt_ns: u64, change: impl Fn(&mut Observation)) -> Vec<Cause> {
    let mut observed = session(20 * MS, 20 * MS);
    observed.echo_under_load = echoes(500 * MS);
    observed.path.rtt_under_load_ns = Some(rtt_ns);
    observed.transfers = vec![spaced(20 * MS, 1_000, &[MS; 50])];
    change(&mut observed);
    waits(&observed)
}

#[test]
fn output_in_the_remote_host_delays_an_echo_behind_a_queue_longer_than_the_first_flight() {
    // The first flight takes 10 ms.
    assert_eq!([30 * MS, 30 * MS + 1].map(|rtt| held(rtt, |_| ()).len()), [1, 2]);
    insta::assert_snapshot!(described(&held(60 * MS, |_| ())), @"
    remote host of an echo beside other data: 440000000 ns, 440000000 ns of 500000000 ns
      Unsent output on the remote host costs 440 ms of the 500 ms of an echo during output (88
      %): its TCP responds in 60.0 ms meanwhile, but the echo waits behind this output in the
      send buffer; without this output, an echo takes 20.0 ms. Reduce the unsent data there
      (net.ipv4.tcp_notsent_lowat).
    queue of an echo beside other data: 40000000 ns, 30000000 ns of 500000000 ns
      The queue in front of the slowest link costs 40.0 ms of the 500 ms of an echo during
      output (8 %), but removing it saves only 30.0 ms, because other waits remain: an echo
      takes 20.0 ms without other output. Use fair queueing or a shorter queue in the router
      before that link (fq_codel), or a smaller receive window on this host.
    ");
    let lossy = |observed: &mut Observation| {
        observed.echo.as_mut().unwrap().counts.out_of_order_in = Some(1);
    };
    assert_eq!(held(60 * MS, lossy).len(), 1);
    let idle = |observed: &mut Observation| {
        observed.screenful = Some(spaced(20 * MS, 1_000, &[MS; 50]));
        observed.transfers = vec![spaced(20 * MS, 1_000, &[3 * MS; 50])];
    };
    assert_eq!(held(60 * MS, idle).len(), 1);
    // The queue explains all of the wait.
    assert_eq!(held(500 * MS, |_| ()).len(), 1);
    // A wait in the remote host is not noticed below 50 ms.
    assert_eq!([450 * MS, 450 * MS + 1].map(|rtt| held(rtt, |_| ()).len()), [2, 1]);
}
