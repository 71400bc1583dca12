//! Boundaries of the rates, windows and knees derived from arrivals.

use super::{MS, arrivals, flow, path_with_mss, spaced};
use crate::verdict::traffic::{
    Knee, burst_rate_bps, data_packets, evenness_percent, full_rate_bps, gaps, knee,
    largest_arrival, rate_bps, serial_ns, span_ns, stalls, sum_ns, window_bytes,
};
use crate::verdict::{Arrival, Flow, Path};

/// Returns arrivals of 1,000 bytes, the first at 0 and each other one of `gaps` later.
fn pieces(gaps: &[u64]) -> Vec<Arrival> {
    spaced(0, 1_000, gaps).arrivals
}

#[test]
fn a_rate_and_a_transmission_time_are_of_eight_bits_per_byte() {
    assert_eq!(serial_ns(1_000, 8_000_000), MS);
    assert_eq!([serial_ns(1, 0), serial_ns(1, 1)], [8_000_000_000; 2]);
    assert_eq!(serial_ns(u64::MAX, 1), u64::MAX);
    assert_eq!(rate_bps(1_000, MS), Some(8_000_000));
    assert_eq!(rate_bps(1_000, 0), None);
}

#[test]
fn a_gap_belongs_to_the_later_arrival() {
    let all: Vec<_> = gaps(&arrivals(&[(5, 10), (8, 20), (15, 30)])).collect();
    assert_eq!(all, [(1, 3, 20), (2, 7, 30)]);
    assert_eq!(span_ns(&arrivals(&[(5, 10), (8, 20), (15, 30)])), Some(10));
    assert_eq!(largest_arrival(&arrivals(&[(5, 10), (8, 30), (15, 20)])), 30);
    assert_eq!((span_ns(&[]), largest_arrival(&[])), (None, 0));
}

#[test]
fn the_burst_rate_is_reached_by_half_of_the_bytes() {
    let rate = |of: &[(u64, u64)]| burst_rate_bps(&arrivals(of));
    assert_eq!(rate(&[(0, 1_000)]), None);
    assert_eq!(rate(&[(0, 1_000), (MS, 1_000)]), Some(8_000_000));
    assert_eq!(rate(&[(0, 1), (2 * MS, 1_000), (3 * MS, 1_000)]), Some(8_000_000));
    assert_eq!(rate(&[(0, 1), (MS, 999), (3 * MS, 1_001)]), Some(4_004_000));
    // 10.4, 8 and 2.4 Mbit/s: the second has the byte in the middle.
    assert_eq!(rate(&[(0, 1), (MS, 300), (4 * MS, 3_900), (8 * MS, 4_000)]), Some(8_000_000));
}

#[test]
fn ten_pieces_at_one_rate_show_a_full_link() {
    assert_eq!(full_rate_bps(&pieces(&[MS; 10])), Some(8_000_000));
    assert_eq!(full_rate_bps(&pieces(&[MS; 9])), None);
    // Data that waited behind a hole belongs to the piece that fills the hole.
    let with_hole = |singles: usize| {
        let gaps = [vec![MS; singles], vec![3 * MS, 0, 0]].concat();
        full_rate_bps(&pieces(&gaps))
    };
    assert_eq!([8, 9].map(with_hole), [None, Some(8_000_000)]);
}

#[test]
fn three_fifths_of_the_bytes_have_the_rate_of_a_full_link() {
    let with = |alike: usize, slower_ns: u64| {
        let gaps = [vec![MS; alike], vec![slower_ns; 10 - alike]].concat();
        full_rate_bps(&pieces(&gaps))
    };
    assert_eq!([5, 6].map(|alike| with(alike, MS * 6 / 5)), [None, Some(8_000_000)]);
    // A rate differs by at most an eighth: 7 Mbit/s.
    let with_one = |ns: u64| {
        let gaps = [vec![MS; 5], vec![ns], vec![2 * MS; 4]].concat();
        full_rate_bps(&pieces(&gaps))
    };
    assert_eq!([1_142_857, 1_142_858].map(with_one), [Some(8_000_000), None]);
}

#[test]
fn a_full_link_is_busy_for_three_fifths_of_the_time() {
    let with = |last: u64| {
        let gaps = [vec![MS; 8], vec![3 * MS; 3], vec![last]].concat();
        full_rate_bps(&pieces(&gaps))
    };
    assert_eq!([3 * MS, 3 * MS + 1].map(with), [Some(8_000_000), None]);
}

#[test]
fn a_stall_is_the_part_of_a_gap_beyond_the_transmission_time() {
    let flow = spaced(0, 1_000, &[5 * MS, 6 * MS, MS, 0]);
    let of = |rate: Option<u64>, min_ns: u64| -> Vec<(usize, u64)> {
        let found = stalls(&flow, rate, min_ns);
        assert!(found.iter().all(|stall| stall.bytes == 1_000));
        found.iter().map(|stall| (stall.index, stall.ns)).collect()
    };
    assert_eq!(of(Some(8_000_000), 4 * MS), [(1, 4 * MS), (2, 5 * MS)]);
    assert_eq!(of(Some(8_000_000), 4 * MS + 1), [(2, 5 * MS)]);
    assert_eq!(of(None, 0), [(1, 5 * MS), (2, 6 * MS), (3, MS)]);
    assert_eq!(sum_ns(&stalls(&flow, None, 0)), 12 * MS);
}

#[test]
fn arrivals_of_at_most_a_segment_count_as_packets() {
    let packets = |bytes: u64, path: &Path| data_packets(&flow(&[(0, 1_000), (1, bytes)]), path);
    let path = path_with_mss(1_000);
    assert_eq!([1_000, 1_001].map(|bytes| packets(bytes, &path)), [Some(2), None]);
    assert_eq!(packets(1_000, &Path::default()), None);
    assert_eq!(data_packets(&Flow::default(), &path), None);
    assert_eq!(data_packets(&flow(&[(0, 1_000)]), &path), Some(1));
    let counted = Flow { data_packets: Some(7), ..flow(&[(0, 5_000)]) };
    assert_eq!(data_packets(&counted, &Path::default()), Some(7));
}

const TRIP: u64 = 100 * MS;

#[test]
fn four_windows_begin_one_round_trip_after_each_other() {
    let windows = |gaps: &[u64]| window_bytes(&spaced(TRIP, 1_000, gaps).arrivals, TRIP);
    assert_eq!([2, 3].map(|count| windows(&[TRIP; 3][..count])), [None, Some(1_000)]);
    // A round trip is longer by at most a quarter, or shorter by at most an eighth.
    let gaps = [87_500_000 - 1, 87_500_000, 125 * MS, 125 * MS + 1];
    let results = gaps.map(|gap| windows(&[gap; 5]));
    assert_eq!(results, [None, Some(1_000), Some(1_000), None]);
    // Three quarters of the windows begin in time.
    assert_eq!(windows(&[TRIP, TRIP, TRIP, 3 * TRIP]), Some(1_000));
    assert_eq!(windows(&[TRIP, TRIP, 3 * TRIP, 3 * TRIP]), None);
    let of_35 = |good: usize| [vec![TRIP; good], vec![3 * TRIP; 35 - good]].concat();
    assert_eq!([26, 27].map(|good| windows(&of_35(good))), [None, Some(1_000)]);
}

#[test]
fn the_first_window_arrives_within_one_and_a_half_round_trips() {
    let first_at = |ns: u64| window_bytes(&spaced(ns, 1_000, &[TRIP; 5]).arrivals, TRIP);
    assert_eq!([150 * MS, 150 * MS + 1].map(first_at), [Some(1_000), None]);
    assert_eq!(window_bytes(&spaced(0, 1_000, &[TRIP; 5]).arrivals, 0), None);
}

#[test]
fn a_silence_of_half_a_round_trip_separates_two_windows() {
    let pairs = |within: u64| {
        let gaps = [within, TRIP + 10 * MS - within].repeat(5);
        window_bytes(&spaced(TRIP, 1_000, &gaps).arrivals, TRIP)
    };
    assert_eq!([50 * MS - 1, 50 * MS].map(pairs), [Some(2_000), None]);
    // A paced window is followed by a round trip after its last byte.
    let gaps = [40 * MS, TRIP].repeat(5);
    assert_eq!(window_bytes(&spaced(TRIP, 1_000, &gaps).arrivals, TRIP), Some(2_000));
}

#[test]
fn three_quarters_of_the_windows_have_about_the_same_size() {
    let of = |sizes: &[u64]| {
        let at = |(index, bytes): (u64, &u64)| (TRIP + index * TRIP, *bytes);
        let pieces: Vec<(u64, u64)> = (0..).zip(sizes).map(at).collect();
        window_bytes(&arrivals(&pieces), TRIP)
    };
    // The last window is a remainder, and sizes differ by at most a quarter.
    let all = |size: u64| of(&[1_000, 1_000, 1_000, size, 9_000, 5]);
    assert_eq!([749, 750, 1_250, 1_251].map(all), [None, Some(1_000), Some(1_000), None]);
    assert_eq!(of(&[1_000, 1_000, 1_000, 10, 5]), Some(1_000));
    assert_eq!(of(&[1_000, 1_000, 10, 10, 5]), None);
}

#[test]
fn a_knee_is_where_the_rate_falls_to_half() {
    let at = |last_ns: u64| knee(&arrivals(&[(0, 1_000), (MS, 1_000), (last_ns, 1_000)]));
    let expected = Knee { bytes: 1_000, before_bps: Some(8_000_000), after_bps: 4_000_000 };
    assert_eq!([3 * MS - 1, 3 * MS].map(at), [None, Some(expected)]);
    // If several points are equally far above the straight line, the first is the knee.
    let level = [(0, 1), (MS, 2_000), (2 * MS, 1_000), (4 * MS, 1_000)];
    let expected = Knee { bytes: 2_000, before_bps: Some(16_000_000), after_bps: 5_333_333 };
    assert_eq!(knee(&arrivals(&level)), Some(expected));
    let at_once = [(MS, 1_000), (MS, 1_000), (3 * MS, 1_000)];
    assert_eq!(knee(&arrivals(&at_once)).unwrap().before_bps, None);
}

#[test]
fn each_side_of_a_knee_has_a_sixteenth_of_the_bytes() {
    let bytes_before = |before: u64| {
        knee(&arrivals(&[(0, 1), (1_000, before), (1_000 * MS, 16_000 - before)]))
            .map(|knee| knee.bytes)
    };
    let results = [999, 1_000, 15_000, 15_001].map(bytes_before);
    assert_eq!(results, [None, Some(1_000), Some(15_000), None]);
}

#[test]
fn evenness_compares_the_slowest_fifth_with_the_median() {
    let of = |gaps: &[u64], bytes: u64| evenness_percent(&pieces(gaps), bytes);
    assert_eq!(of(&[MS; 15], 0), Some(100));
    // Five pairs with 8, 8, 8, 4 and 2 Mbit/s.
    let uneven = [MS, MS, MS, MS, MS, MS, 2 * MS, MS, 4 * MS];
    assert_eq!(of(&uneven, 0), Some(25));
    assert_eq!(of(&uneven, 1_000), Some(25));
    // Without the first arrival, the pairs are others.
    assert_ne!(of(&uneven, 1_001), Some(25));
    // At least four parts show a rate.
    assert_eq!(of(&[MS; 7], 0), Some(100));
    assert_eq!(of(&[MS; 6], 0), None);
    assert_eq!(of(&[MS; 8], 1_001), Some(100));
    assert_eq!(of(&[MS; 8], 2_001), None);
    // With more arrivals, a part has an eighth of them.
    let gaps = [vec![MS, 3 * MS, MS], vec![MS; 21]].concat();
    assert_eq!(of(&gaps, 0), Some(100));
}
