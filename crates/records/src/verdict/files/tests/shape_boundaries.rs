//! Boundaries of the shape of the data: rates, pauses, bursts and full links.

use super::MS;
use crate::verdict::files::shape::{TransferShape, alike_percent, bytes_per_period, spaced_bps};
use crate::verdict::files::{DataTcp, FileTransfer};
use crate::verdict::tests::{arrivals, spaced};
use crate::verdict::{Arrival, Direction};

fn download(arrivals: Vec<Arrival>, mss: Option<u64>) -> FileTransfer {
    let tcp = DataTcp { rcv_mss: mss, ..DataTcp::default() };
    FileTransfer { arrivals, tcp, ..FileTransfer::default() }
}

fn lossy(arrivals: Vec<Arrival>) -> FileTransfer {
    let mut transfer = download(arrivals, Some(1_000));
    transfer.tcp.rcv_ooopack = Some(1);
    transfer
}

/// Returns the rate of the line and the lengths of the pauses, if `bytes` arrive after `gap`.
fn one_gap(gap: u64, bytes: u64, trip: u64, mss: u64) -> (bool, Vec<u64>) {
    let transfer = download(arrivals(&[(0, 1), (gap, bytes)]), Some(mss));
    let shape = TransferShape::of(&transfer, trip);
    (shape.line_bps.is_some(), shape.pauses.iter().map(|pause| pause.ns).collect())
}

#[test]
fn three_segments_after_five_milliseconds_are_a_pause() {
    let gap = 5 * MS;
    assert_eq!(one_gap(gap, 4_344, MS, 1_448), (false, vec![gap]));
    assert_eq!(one_gap(gap, 4_343, MS, 1_448), (true, vec![]));
    assert_eq!(one_gap(gap - 1, 4_344, MS, 1_448), (true, vec![]));
    // Small segments count as at least 3,000 bytes.
    assert_eq!(one_gap(gap, 3_000, MS, 500), (false, vec![gap]));
    assert_eq!(one_gap(gap, 2_999, MS, 500), (true, vec![]));
    // A pause takes a quarter of a round trip.
    assert_eq!(one_gap(gap, 4_344, 20 * MS + 3, 1_448), (false, vec![gap]));
    assert_eq!(one_gap(gap, 4_344, 20 * MS + 4, 1_448), (false, vec![]));
}

#[test]
fn acknowledgments_are_sampled_every_few_milliseconds() {
    let pauses = |gap: u64| {
        let mut upload = download(arrivals(&[(0, 1), (gap, 4_344)]), None);
        upload.direction = Direction::Outgoing;
        upload.tcp.snd_mss = Some(1_448);
        TransferShape::of(&upload, MS).pauses.len()
    };
    assert_eq!([12 * MS - 1, 12 * MS].map(pauses), [0, 1]);
    let mss = |rcv_mss: Option<u64>| TransferShape::of(&download(Vec::new(), rcv_mss), MS).mss;
    assert_eq!([None, Some(0), Some(1)].map(mss), [536, 536, 1]);
}

#[test]
fn a_pause_begins_after_the_arrival_before_it() {
    let transfer = download(
        arrivals(&[(10, 500), (11, 700), (50 * MS, 9_000), (50 * MS + 1, 800), (90 * MS, 9_000)]),
        Some(1_000),
    );
    let shape = TransferShape::of(&transfer, MS);
    let pauses: Vec<_> = shape.pauses.iter().map(|one| (one.at_ns, one.bytes)).collect();
    assert_eq!(pauses, [(1, 1_200), (50 * MS - 9, 9_800)]);
    assert_eq!((shape.bytes, shape.span_ns), (19_500, 90 * MS - 10));
    assert_eq!(shape.pauses_ns(), 50 * MS - 11 + 40 * MS - 1);
}

#[test]
fn a_quarter_of_the_bytes_without_pauses_shows_a_rate() {
    let rate = |paused: u64| {
        let pieces = [(0, 1), (MS, 1_000), (2 * MS, 1_000), (50 * MS, paused)];
        TransferShape::of(&download(arrivals(&pieces), Some(1_000)), MS).line_bps
    };
    assert_eq!([6_003, 6_004].map(rate), [Some(8_000_000), None]);
    // Half of these bytes are as fast.
    let of = |pieces: &[(u64, u64)]| {
        TransferShape::of(&download(arrivals(pieces), Some(1_000)), MS).line_bps
    };
    assert_eq!(of(&[(0, 1), (4 * MS, 1_000), (5 * MS, 1_000)]), Some(8_000_000));
    assert_eq!(of(&[(0, 1), (4 * MS, 1_001), (5 * MS, 1_000)]), Some(2_002_000));
    assert_eq!(of(&[(0, 1), (4 * MS, 1_000), (5 * MS, 999)]), Some(2_000_000));
}

/// Returns whether bursts of these segments at 50 Mbit/s, each `slower` times as late, show a link.
fn is_offloaded(segments: &[u64], slower: &[u64]) -> bool {
    let mut at_ns = 0;
    let mut pieces = vec![(0, 1_448)];
    for (count, factor) in segments.iter().zip(slower) {
        at_ns += count * 1_448 * 160 * factor / 100;
        pieces.push((at_ns, count * 1_448));
    }
    let transfer = download(arrivals(&pieces), Some(1_448));
    TransferShape::of(&transfer, MS / 10).line_bps.is_some()
}

#[test]
fn twenty_bursts_of_different_sizes_at_one_rate_show_a_link() {
    let sizes: Vec<u64> = (0..20).map(|at| 24 + at % 5 * 8).collect();
    assert!(is_offloaded(&sizes, &[100; 20]) && !is_offloaded(&sizes[..19], &[100; 19]));
    // Three of ten differ from the median by more than a sixth.
    let alike = |unlike: usize| [vec![24; 20 - unlike], vec![48; unlike]].concat();
    assert!(is_offloaded(&alike(6), &[100; 20]) && !is_offloaded(&alike(5), &[100; 20]));
    // Three fifths have the median rate.
    let slower = |count: usize| [vec![100; 20 - count], vec![200; count]].concat();
    assert!(is_offloaded(&sizes, &slower(8)) && !is_offloaded(&sizes, &slower(9)));
}

#[test]
fn data_within_0_3_ms_belongs_to_one_burst() {
    let is_link = |within: u64| {
        let mut at_ns = 0;
        let mut pieces = vec![(0, 1_448)];
        for at in 0..30_u64 {
            let segments = 24 + at % 5 * 8;
            at_ns += segments * 1_448 * 160;
            pieces.push((at_ns, segments * 724));
            pieces.push((at_ns + within, segments * 724));
        }
        let transfer = download(arrivals(&pieces), Some(1_448));
        TransferShape::of(&transfer, MS / 10).line_bps.is_some_and(|rate| rate < 60_000_000)
    };
    assert_eq!([299_999, 300_000].map(is_link), [true, false]);
}

#[test]
fn five_segments_in_each_quarter_of_a_round_trip_show_a_full_link() {
    let rate = |segments: &[u64]| {
        let mut transfer = lossy(arrivals(&[(0, 1), (1_000 * MS, 1)]));
        let sample = |(at, count): (u64, &u64)| Arrival { at_ns: at * 20 * MS, bytes: *count };
        transfer.segments = (0..).zip(segments).map(sample).collect();
        TransferShape::of(&transfer, 80 * MS).line_bps
    };
    let full = Some(5 * 1_000 * 8 * 50);
    assert_eq!(rate(&[5; 11]), full);
    assert_ne!(rate(&[4; 11]), Some(4 * 1_000 * 8 * 50));
    // Three fifths of the parts differ from the median by at most a third.
    assert_eq!(rate(&[5, 5, 5, 5, 5, 5, 9, 9, 9, 9, 5]), full);
    assert_ne!(rate(&[6, 6, 6, 6, 6, 9, 9, 9, 1, 1, 5]), Some(6 * 1_000 * 8 * 50));
}

#[test]
fn twenty_spaced_segments_before_the_first_loss_show_a_rate() {
    let rate = |position: u64, bytes: u64| {
        let mut transfer = lossy(spaced(0, bytes, &[MS; 60]).arrivals);
        transfer.first_loss_bytes = Some(position);
        spaced_bps(&transfer, 1_000)
    };
    assert_eq!([19_999, 20_000].map(|at| rate(at, 1_000)), [None, Some(8_000_000)]);
    // A read returns at most two segments.
    assert_eq!([2_000, 2_001].map(|bytes| rate(50_000, bytes).is_some()), [true, false]);
    let mut upload = lossy(spaced(0, 1_000, &[MS; 60]).arrivals);
    upload.first_loss_bytes = Some(30_000);
    upload.direction = Direction::Outgoing;
    assert_eq!(spaced_bps(&upload, 1_000), None);
    // Only the arrivals up to the position count.
    let mut changing = lossy(spaced(0, 1_000, &[vec![MS; 19], vec![4 * MS; 60]].concat()).arrivals);
    changing.first_loss_bytes = Some(20_000);
    assert_eq!(spaced_bps(&changing, 1_000), Some(8_000_000));
}

#[test]
fn with_holes_single_segments_at_one_rate_show_a_link() {
    let rate =
        |gaps: &[u64]| TransferShape::of(&lossy(spaced(0, 1_000, gaps).arrivals), MS).line_bps;
    let mixed = |even: usize, other: u64| [vec![MS; even], vec![other; 10 - even]].concat();
    assert_eq!(rate(&mixed(6, 3 * MS)), Some(8_000_000));
    assert_ne!(rate(&mixed(5, 3 * MS)), Some(8_000_000));
    // A rate differs by at most a sixth.
    let near = |other: u64| rate(&[vec![MS; 5], vec![other], vec![3 * MS; 4]].concat());
    assert_eq!(near(1_199_999), Some(8_000_000));
    assert_ne!(near(1_200_001), Some(8_000_000));
}

#[test]
fn with_holes_equal_parts_show_the_rate_of_a_link() {
    // Reads of two segments: 12 parts of 20 ms.
    let rate = |gaps: &[u64], direction| {
        let mut transfer = lossy(spaced(0, 2_000, gaps).arrivals);
        transfer.direction = direction;
        transfer.tcp.snd_mss = Some(1_000);
        transfer.tcp.total_retrans = Some(1);
        TransferShape::of(&transfer, MS).line_bps
    };
    let even = [2 * MS; 120];
    assert_eq!(rate(&even, Direction::Incoming), Some(8_000_000));
    assert_eq!(rate(&even, Direction::Outgoing), Some(8_000_000));
    let uneven = [vec![MS; 120], vec![3 * MS; 40]].concat();
    assert_eq!(rate(&uneven, Direction::Incoming), None);
    assert_eq!(rate(&uneven, Direction::Outgoing), Some(16_000_000));
}

#[test]
fn periods_are_counted_without_the_last_and_up_to_64_per_arrival() {
    let arrivals_at = |last: u64| arrivals(&[(5, 1), (6, 2), (last, 3)]);
    assert_eq!(bytes_per_period(&arrivals_at(15), 10), [3]);
    assert_eq!(bytes_per_period(&arrivals_at(25), 10), [3, 0]);
    assert_eq!(bytes_per_period(&arrivals_at(5 + 191 * 10), 10).len(), 191);
    assert!(bytes_per_period(&arrivals_at(5 + 192 * 10), 10).is_empty());
    assert_eq!(bytes_per_period(&arrivals_at(15), 1).len(), 10);
    assert!(bytes_per_period(&[], 10).is_empty());
}

#[test]
fn values_within_a_third_of_the_median_are_alike() {
    assert_eq!(alike_percent(&[30, 20, 40, 19, 41]), Some((30, 60)));
    assert_eq!(alike_percent(&[30, 30, 1]), Some((30, 66)));
    assert_eq!(alike_percent(&[]), None);
}

#[test]
fn a_silence_before_few_bytes_is_a_pause_of_its_whole_length_if_no_rate_is_known() {
    let pieces = arrivals(&[(0, 1), (50 * MS, 100), (100 * MS, 90_000)]);
    let shape = TransferShape::of(&download(pieces, Some(1_000)), MS);
    let pauses: Vec<_> = shape.pauses.iter().map(|pause| pause.ns).collect();
    assert_eq!((shape.line_bps, pauses), (None, vec![50 * MS; 2]));
}

#[test]
fn a_quarter_of_the_bytes_in_single_segments_shows_a_rate_despite_holes() {
    let rate = |bytes: u64| {
        let mut pieces = spaced(0, 1_000, &[MS; 10]).arrivals;
        pieces.push(Arrival { at_ns: 500 * MS, bytes });
        TransferShape::of(&lossy(pieces), MS).line_bps
    };
    assert_eq!([30_003, 30_004].map(rate), [Some(8_000_000), None]);
}
