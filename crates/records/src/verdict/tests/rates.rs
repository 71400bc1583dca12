//! Boundaries of the rules for the rate of the path: links, headers and token buckets.

use super::{MS, described, flow, path_with_mss, session, spaced, view};
use crate::verdict::cause::{Cause, CauseKind, Operation};
use crate::verdict::flow_view::View;
use crate::verdict::rates::{
    emptied_bucket, full_bps, line, link, observed_line_bps, rate_limiter, small_packets,
};
use crate::verdict::{Direction, Flow, Observation, Path};

const TRIP: u64 = 10 * MS;

/// Returns a flow of `fast` pieces of 1,000 bytes 1 ms apart, and then one for each of `slow`.
fn bucket(fast: usize, slow: &[u64]) -> Flow {
    spaced(TRIP, 1_000, &[vec![MS; fast], slow.to_vec()].concat())
}

fn limited(flow: &Flow, change: impl Fn(&mut View<'_>)) -> Option<Cause> {
    let path = path_with_mss(1_000);
    let mut one = view(flow, &path, TRIP);
    one.operation = Operation::Transfer;
    change(&mut one);
    let cause = rate_limiter(&mut one);
    assert!(cause.is_none() || one.stalls.is_empty());
    cause
}

#[test]
fn a_token_bucket_costs_the_time_beyond_its_first_rate() {
    let cause = limited(&bucket(15, &[10 * MS; 30]), |_| ()).unwrap();
    let at_once = [vec![0; 15], vec![10 * MS; 30]].concat();
    let other = limited(&spaced(TRIP, 1_000, &at_once), |_| ()).unwrap();
    insta::assert_snapshot!(described(&[cause, other]), @"
    rate limiter of the transfer: 269000000 ns, 269000000 ns of 325000000 ns
      A rate limiter on the path costs 269 ms of the 325 ms of the transfer (83 %): the first
      15,000 bytes arrive at 8,000,000 bit/s, all others at 800,000 bit/s. Ask the network
      operator for the configured rate, or keep transfers below the size of the token bucket.
    rate limiter of the transfer: 300000000 ns, 280000000 ns of 310000000 ns
      A rate limiter on the path costs 300 ms of the 310 ms of the transfer (97 %), but
      removing it saves only 280 ms, because other waits remain: the first 15,000 bytes arrive
      faster than can be measured, all others at 800,000 bit/s. Ask the network operator for
      the configured rate, or keep transfers below the size of the token bucket.
    ");
}

#[test]
fn a_token_bucket_needs_ten_arrivals_without_other_causes() {
    assert!(limited(&bucket(1, &[20 * MS; 8]), |_| ()).is_some());
    assert_eq!(limited(&bucket(1, &[20 * MS; 7]), |_| ()), None);
    let flow = bucket(15, &[10 * MS; 30]);
    let explained = |ns: u64| limited(&flow, |view| view.explained_ns = ns).is_some();
    assert_eq!([81_250_000, 81_250_001].map(explained), [true, false]);
    assert_eq!(limited(&flow, |view| view.has_reordering = true), None);
    assert_eq!(limited(&flow, |view| view.window_bytes = Some(9_000)), None);
}

#[test]
fn a_token_bucket_is_even_after_its_knee() {
    // Two of eight parts take 50 ms instead of 30 ms.
    let with = |last: u64| {
        let slow_part = [17 * MS, 17 * MS, last];
        let mut slow = vec![10 * MS; 30];
        slow[3..6].copy_from_slice(&slow_part);
        slow[7..10].copy_from_slice(&slow_part);
        limited(&bucket(15, &slow), |_| ()).is_some()
    };
    assert_eq!([16 * MS, 16 * MS + 100].map(with), [true, false]);
}

#[test]
fn steps_of_half_of_the_time_show_no_token_bucket() {
    // Steps of 10 ms in 300 ms of slow data.
    let step = [20 * MS, 0];
    assert!(limited(&bucket(15, &step.repeat(15)), |_| ()).is_some());
    let more = [step.repeat(6), vec![40 * MS, 0, 0, 0], step.repeat(7)].concat();
    assert_eq!(limited(&bucket(15, &more), |_| ()), None);
    // A bucket that drops packets also produces steps.
    assert!(limited(&bucket(15, &more), |view| view.has_losses = true).is_some());
    // Losses while typing leave a quarter.
    let typing = |view: &mut View<'_>| {
        view.has_losses = true;
        view.has_losses_while_typing = true;
    };
    let quarter = [step.repeat(7), vec![15 * MS, 5 * MS], vec![10 * MS; 14]].concat();
    assert!(limited(&bucket(15, &quarter), typing).is_some());
    let more = [step.repeat(8), vec![10 * MS; 14]].concat();
    assert_eq!(limited(&bucket(15, &more), typing), None);
}

fn packets(flow: &Flow, path: &Path, change: impl Fn(&mut View<'_>)) -> Option<Cause> {
    let mut one = view(flow, path, TRIP);
    change(&mut one);
    small_packets(&one)
}

#[test]
fn three_times_the_necessary_packets_cost_their_headers() {
    let path = path_with_mss(1_000);
    let of = |count: u64| {
        let flow = Flow { data_packets: Some(count), ..flow(&[(200 * MS, 10_000)]) };
        packets(&flow, &path, |view| view.burst_bps = Some(1_000_000))
    };
    assert_eq!(of(29), None);
    let on_line = Path { line_bps: Some(10_000), ..path_with_mss(1_000) };
    let other_bits = Path { line_bits_per_byte: Some(8), header_bytes: Some(7), ..on_line.clone() };
    let flow = Flow { data_packets: Some(40), ..flow(&[(9_000 * MS, 10_000)]) };
    let all = [of(30), packets(&flow, &on_line, |_| ()), packets(&flow, &other_bits, |_| ())];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    small packets of a screenful: 5713660 ns, 5713660 ns of 200000000 ns
      The header overhead of small packets costs 5.71 ms of the 200 ms of a screenful (3 %):
      30 packets of 333 bytes carry as much data as 10 full ones. Write larger pieces there,
      or set TCP_CORK.
    small packets of a screenful: 1200000000 ns, 0 ns of 9000000000 ns
      The header overhead of small packets costs 1.20 s of the 9.00 s of a screenful (13 %),
      but removing it saves only 0 ns, because other waits remain: 40 packets of 250 bytes
      carry as much data as 10 full ones. Write larger pieces there, or set TCP_CORK.
    small packets of a screenful: 168000000 ns, 0 ns of 9000000000 ns
      The header overhead of small packets costs 168 ms of the 9.00 s of a screenful (2 %),
      but removing it saves only 0 ns, because other waits remain: 40 packets of 250 bytes
      carry as much data as 10 full ones. Write larger pieces there, or set TCP_CORK.
    ");
    assert_eq!(packets(&flow, &path, |_| ()), None);
}

#[test]
fn segments_below_536_bytes_are_small() {
    let with_mss = |mss_bytes: u64, data_packets: Option<u64>| {
        let flow = Flow { data_packets, ..flow(&[(800 * MS, 10_000)]) };
        let path = path_with_mss(mss_bytes);
        packets(&flow, &path, |view| view.burst_bps = Some(1_000_000))
    };
    assert_eq!(with_mss(536, None), None);
    let all = [with_mss(535, None), with_mss(100, Some(120)), with_mss(100, Some(7))];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    small packets of a screenful: 3568620 ns, 3568620 ns of 800000000 ns
      The header overhead of small segments costs 3.57 ms of the 800 ms of a screenful (< 1
      %): each has 526 bytes of data and 40 bytes of headers. To reduce the header overhead,
      check the MTU of the path and of both hosts, and MSS clamping.
    small packets of a screenful: 24400655 ns, 24400655 ns of 800000000 ns
      The header overhead of small segments costs 24.4 ms of the 800 ms of a screenful (3 %):
      each has 83 bytes of data and 40 bytes of headers. To reduce the header overhead, check
      the MTU of the path and of both hosts, and MSS clamping.
    small packets of a screenful: 21257103 ns, 21257103 ns of 800000000 ns
      The header overhead of small segments costs 21.3 ms of the 800 ms of a screenful (3 %):
      each has 100 bytes of data and 40 bytes of headers. To reduce the header overhead, check
      the MTU of the path and of both hosts, and MSS clamping.
    ");
}

#[test]
fn at_the_rate_of_a_link_a_header_takes_at_most_a_round_trip() {
    let flow = Flow::default();
    let path = path_with_mss(1_000);
    let rate = |trip_ns: u64| {
        let mut one = view(&flow, &path, trip_ns);
        one.burst_bps = Some(320_000);
        observed_line_bps(&one)
    };
    assert_eq!([MS, MS - 1].map(rate), [Some(320_000), None]);
}

#[test]
fn only_a_flow_with_losses_shows_a_full_link_by_its_pieces() {
    let flow = spaced(TRIP, 1_000, &[MS; 12]);
    let path = path_with_mss(1_000);
    let mut one = view(&flow, &path, TRIP);
    assert_eq!(full_bps(&one), None);
    one.has_losses = true;
    assert_eq!(full_bps(&one), Some(8_000_000));
}

/// Returns the cause of a transfer of `bytes` in `elapsed_ns` at 100,000 bit/s.
fn at_line_rate(
    (bytes, elapsed_ns): (u64, u64),
    path: &Path,
    change: impl Fn(&mut Flow),
    trip_ns: Option<u64>,
) -> Option<Cause> {
    let mut flow = Flow { bytes, elapsed_ns, ..Flow::default() };
    change(&mut flow);
    let mut one = view(&flow, path, TRIP);
    one.trip_ns = trip_ns;
    one.operation = Operation::Transfer;
    one.burst_bps = Some(100_000);
    line(&one)
}

#[test]
fn a_transfer_of_a_second_is_limited_by_the_link() {
    let path = path_with_mss(1_000);
    let cost = |elapsed: u64| {
        at_line_rate((12_000, elapsed), &path, |_| (), Some(TRIP)).map(|cause| cause.cost_ns)
    };
    assert_eq!([1_000 * MS, 1_000 * MS - 1].map(cost), [Some(960 * MS), None]);
    let flow = flow(&[(999 * MS, 12_000)]);
    let mut screenful = view(&flow, &path, TRIP);
    screenful.burst_bps = Some(100_000);
    let causes = [line(&screenful).unwrap(), link(&screenful, 200_000)];
    insta::assert_snapshot!(described(&causes), @"
    line rate of a screenful: 960000000 ns, 950000000 ns of 999000000 ns
      The rate of the slowest link costs 960 ms of the 999 ms of a screenful (96 %): it
      carries 100,000 bit/s of data. Use a faster link, or send less data.
    line rate of a screenful: 480000000 ns, 480000000 ns of 999000000 ns
      The rate of the slowest link costs 480 ms of the 999 ms of a screenful (48 %): it
      carries 200,000 bit/s of data. Use a faster link, or send less data.
    ");
}

#[test]
fn a_serial_line_also_carries_headers() {
    let of = |path: Path, data_packets: Option<u64>| {
        let change = |flow: &mut Flow| flow.data_packets = data_packets;
        at_line_rate((10_001, 20_000 * MS), &path, change, Some(TRIP)).unwrap()
    };
    let line = Path { line_bps: Some(10_000), ..path_with_mss(1_000) };
    let unknown = Path { line_bps: Some(10_000), ..Path::default() };
    let synchronous = Path { line_bits_per_byte: Some(8), header_bytes: Some(5), ..line.clone() };
    let all =
        [of(line.clone(), None), of(line, Some(20)), of(unknown, None), of(synchronous, None)];
    insta::assert_snapshot!(described(&all), @"
        line rate of the transfer: 10441000000 ns, 10441000000 ns of 20000000000 ns
          The rate of the serial line costs 10.4 s of the 20.0 s of the transfer (52 %): the line
          runs at 10,000 bit/s. Send less data, or use a faster line.
        line rate of the transfer: 10801000000 ns, 10801000000 ns of 20000000000 ns
          The rate of the serial line costs 10.8 s of the 20.0 s of the transfer (54 %): the line
          runs at 10,000 bit/s. Send less data, or use a faster line.
        line rate of the transfer: 10041000000 ns, 10041000000 ns of 20000000000 ns
          The rate of the serial line costs 10.0 s of the 20.0 s of the transfer (50 %): the line
          runs at 10,000 bit/s. Send less data, or use a faster line.
        line rate of the transfer: 8044800000 ns, 8044800000 ns of 20000000000 ns
          The rate of the serial line costs 8.04 s of the 20.0 s of the transfer (40 %): the line
          runs at 10,000 bit/s. Send less data, or use a faster line.
        ");
}

#[test]
fn a_rate_below_that_of_a_link_is_that_of_a_program_unless_segments_are_full() {
    let path = path_with_mss(1_000);
    let size = (8_100, 1_000 * MS);
    let kind = |bytes: u64, count: u64, trip_ns: Option<u64>| {
        let change = |flow: &mut Flow| flow.data_packets = Some(count);
        at_line_rate((bytes, size.1), &path, change, trip_ns).map(|cause| cause.kind)
    };
    // A header takes 3.2 ms.
    assert_eq!(kind(8_100, 30, Some(3_200_000)), Some(CauseKind::LineRate));
    assert_eq!(kind(8_100, 30, Some(3_199_999)), Some(CauseKind::RemoteHost));
    assert_eq!(kind(8_100, 9, Some(MS)), Some(CauseKind::LineRate));
    assert_eq!(kind(8_099, 9, Some(MS)), Some(CauseKind::RemoteHost));
    assert_eq!(kind(1_000, 1, Some(MS)), Some(CauseKind::RemoteHost));
    assert_eq!(kind(2_000, 2, Some(MS)), Some(CauseKind::LineRate));
    assert_eq!(kind(8_100, 30, None), None);
    let upload = |flow: &mut Flow| flow.direction = Direction::Outgoing;
    assert_eq!(at_line_rate(size, &path, upload, Some(MS)), None);
    let cause = at_line_rate(size, &path, |_| (), Some(MS)).unwrap();
    insta::assert_snapshot!(described(&[cause]), @"
    remote host of the transfer: 648000000 ns, 648000000 ns of 1000000000 ns
      The remote program's slow output costs 648 ms of the 1.00 s of the transfer (65 %): it
      sends at 100,000 bit/s, and the path carries more. Check the program and the load there.
    ");
}

/// Returns a session over 2 ms whose long output of 40,000 bytes takes `gaps`, of 400 ms in all,
/// and whose screenful of `screenful_bytes` takes `screenful_ns`.
fn slow_output(gaps: &[u64], screenful_bytes: u64, screenful_ns: u64) -> Observation {
    let mut observed = session(2 * MS, 2 * MS);
    let mut output = spaced(10 * MS, 1_000, gaps);
    output.arrivals[0].bytes = 0;
    output.bytes -= 1_000;
    observed.transfers = vec![output];
    let screenful = [(2 * MS, 1_000), (2 * MS + screenful_ns, screenful_bytes - 1_000)];
    observed.screenful = Some(flow(&screenful));
    observed
}

fn is_emptied(observed: &Observation) -> bool {
    emptied_bucket(observed, Some(2 * MS)).is_some()
}

#[test]
fn a_screenful_that_saves_three_milliseconds_passes_a_full_bucket() {
    // 100 bytes take 1 ms at the rate of the output.
    let even = [10 * MS; 40];
    let bytes = [1_299, 1_300].map(|bytes| is_emptied(&slow_output(&even, bytes, 0)));
    assert_eq!(bytes, [false, true]);
    let fast = [2_500_000 - 1, 2_500_000].map(|ns| is_emptied(&slow_output(&even, 2_000, ns)));
    assert_eq!(fast, [true, false]);
    let mut both = slow_output(&even, 2_000, 0);
    both.screenful_delayed_ack = Some(flow(&[(2 * MS, 1_000), (12 * MS, 1_000)]));
    assert!(!is_emptied(&both));
    both.screenful_delayed_ack = None;
    both.screenful = None;
    assert!(!is_emptied(&both));
    let cause = emptied_bucket(&slow_output(&even, 2_000, 0), Some(2 * MS)).unwrap();
    let unknown_trip = emptied_bucket(&slow_output(&even, 2_000, 0), None).unwrap();
    insta::assert_snapshot!(described(&[cause, unknown_trip]), @"
    rate limiter of the transfer: 306000000 ns, 306000000 ns of 410000000 ns
      A rate limiter on the path costs 306 ms of the 410 ms of the transfer (75 %): a
      screenful passes at once, but a long output only at 800,000 bit/s. Ask the network
      operator for the configured rate, or keep transfers below the size of the token bucket.
    rate limiter of the transfer: 307500000 ns, 307500000 ns of 410000000 ns
      A rate limiter on the path costs 308 ms of the 410 ms of the transfer (75 %): a
      screenful passes at once, but a long output only at 800,000 bit/s. Ask the network
      operator for the configured rate, or keep transfers below the size of the token bucket.
    ");
}

#[test]
fn a_program_that_writes_in_bursts_is_no_empty_bucket() {
    let pairs = |count: usize, early: u64| {
        let gaps = [[early, 20 * MS - early].repeat(count), vec![10 * MS; 40 - 2 * count]];
        is_emptied(&slow_output(&gaps.concat(), 2_000, 0))
    };
    // A sixth of the bytes may be early, that is at four times the rate.
    assert_eq!([6, 7].map(|count| pairs(count, 0)), [true, false]);
    assert_eq!([2_500_000 - 1, 2_500_000].map(|early| pairs(7, early)), [false, true]);
    let mut exact = slow_output(&[[0, 20 * MS].repeat(7), vec![10 * MS; 26]].concat(), 2_000, 0);
    let output = &mut exact.transfers[0];
    // The last early piece has the remainder of a sixth.
    output.arrivals[13].bytes = 666;
    output.arrivals[14].bytes = 1_334;
    assert!(is_emptied(&exact));
    exact.transfers[0].arrivals[13].bytes = 667;
    exact.transfers[0].arrivals[14].bytes = 1_333;
    assert!(!is_emptied(&exact));
}

#[test]
fn steps_of_half_of_the_output_show_a_window_instead_of_an_empty_bucket() {
    let [small, large] = [2_500_000, 32_500_000];
    let with = |early: u64| {
        let gaps = [
            [small, small, small, large].repeat(8),
            vec![5 * MS, 5 * MS, 5 * MS, 25 * MS],
            vec![early, 20 * MS - early, 10 * MS, 10 * MS],
        ];
        is_emptied(&slow_output(&gaps.concat(), 2_000, 0))
    };
    assert_eq!([5 * MS, 4 * MS].map(with), [true, false]);
}

#[test]
fn an_empty_bucket_needs_ten_even_arrivals_of_a_download() {
    let count = |count: usize| is_emptied(&slow_output(&vec![10 * MS; count], 2_000, 0));
    assert_eq!([8, 9].map(count), [false, true]);
    let mut observed = slow_output(&[10 * MS; 40], 2_000, 0);
    observed.path.mss_bytes = None;
    assert!(!is_emptied(&observed));
    let mut observed = slow_output(&[10 * MS; 40], 2_000, 0);
    observed.transfers[0].direction = Direction::Outgoing;
    assert!(!is_emptied(&observed));
    let uneven = [vec![5 * MS; 30], vec![25 * MS; 10]].concat();
    assert!(!is_emptied(&slow_output(&uneven, 2_000, 0)));
    // Windows of one round trip each.
    let mut windows = slow_output(&[100 * MS; 40], 12_000, 0);
    windows.transfers = vec![spaced(100 * MS, 4_000, &[100 * MS; 12])];
    assert_eq!(emptied_bucket(&windows, Some(100 * MS)), None);
    assert!(emptied_bucket(&windows, None).is_some());
}
