//! Boundaries of token buckets, windows and policers, in the data of a transfer by FTP.

use super::ftp_boundaries::{VIEW_TRIP, two_seconds, with_view};
use super::{MS, download, exchange, on_a_link};
use crate::transfer::Tcp;
use crate::verdict::cause::{Cause, CauseKind, Operation};
use crate::verdict::files::faster_transfer::{RateRequirements, faster_transfer_bytes};
use crate::verdict::files::reply_delays::Steps;
use crate::verdict::files::shape::TransferShape;
use crate::verdict::files::transfer_view::View;
use crate::verdict::files::{
    DataTcp, FileSession, FileTransfer, causes, data, ftp_transfer, is_overriding, limits, policer,
    weight, without_consequences,
};
use crate::verdict::tests::{arrivals, described, spaced};
use crate::verdict::{Arrival, Direction};

/// Returns arrivals of 1,000 bytes: `fast` of them `fast_ns` apart, and then 20 pieces of `bytes`
/// 50 ms apart.
fn behind_a_bucket(fast: usize, fast_ns: u64, bytes: u64) -> Vec<Arrival> {
    let mut all = spaced(0, 1_000, &[vec![fast_ns; fast], vec![50 * MS; 20]].concat()).arrivals;
    for one in all.iter_mut().skip(fast + 1) {
        one.bytes = bytes;
    }
    all
}

/// Returns the limiter of a download with these arrivals, of which 25,000 bytes take `span_ns`.
fn limiter(
    arrivals: Vec<Arrival>,
    span_ns: u64,
    change: impl Fn(&mut View<'_>, &mut TransferShape),
    lost: u64,
) -> Option<Cause> {
    let mut transfer = two_seconds(Direction::Incoming);
    transfer.arrivals = arrivals;
    transfer.tcp.rcv_ooopack = Some(lost);
    let shape = TransferShape { span_ns, bytes: 25_000, mss: 1_000, ..TransferShape::default() };
    with_view(&transfer, shape, |view| {
        let mut shape = view.shape.clone();
        change(view, &mut shape);
        view.shape = shape;
        data::causes(view).into_iter().find(|cause| cause.kind == CauseKind::RateLimiter)
    })
}

#[test]
fn a_bucket_of_five_segments_at_three_times_the_later_rate_is_a_limiter() {
    let second = 1_000 * MS;
    let of = |fast, fast_ns| limiter(behind_a_bucket(fast, fast_ns, 1_000), second, |_, _| (), 0);
    assert!(of(5, MS).is_some() && of(4, MS).is_none());
    // 480,000 bit/s before the knee, and 160,000 bit/s after it.
    assert_eq!([16_666_666, 16_666_667].map(|ns| of(5, ns).is_some()), [true, false]);
    insta::assert_snapshot!(described(of(5, MS).as_slice()), @"
    rate limiter of the transfer: 900000000 ns, 900000000 ns of 2000000000 ns
      A rate limiter (token bucket) on the path costs 900 ms of the 2.00 s of the transfer (45
      %): about 5,000 bytes pass at once, and from then on the data arrives evenly at 160
      kbit/s. Ask the network operator for the configured rate, or keep transfers below the
      size of the token bucket.
    ");
}

#[test]
fn a_full_bucket_saves_two_round_trips_and_25_ms() {
    let with_trip = |trip: u64| {
        let change = |view: &mut View<'_>, _: &mut TransferShape| view.trip = trip;
        limiter(behind_a_bucket(5, MS, 1_000), 1_000 * MS, change, 0).is_some()
    };
    // Five segments take 250 ms at the rate after the knee.
    assert_eq!([125 * MS, 125 * MS + 1].map(with_trip), [true, false]);
}

#[test]
fn the_limited_part_takes_three_fifths_of_the_time_packet_by_packet() {
    let with = |bytes: u64, span_ns: u64, lost: u64| {
        let change = |view: &mut View<'_>, shape: &mut TransferShape| {
            view.trip = 10 * MS;
            shape.bytes = 5_000 + 20 * bytes;
        };
        limiter(behind_a_bucket(5, MS, bytes), span_ns, change, lost).is_some()
    };
    // The pieces after the bucket take a second.
    assert_eq!([1_666_666_666, 1_666_666_667].map(|span| with(1_000, span, 0)), [true, false]);
    assert_eq!([2_000, 2_001].map(|bytes| with(bytes, 1_000 * MS, 0)), [true, false]);
    assert!(!with(1_000, 1_000 * MS, 1));
}

/// Returns the kind of the cause of windows of these bytes, one per round trip of 100 ms.
fn windows(sizes: &[u64], shape_bytes: u64, mss: u64, lost: u64) -> Option<CauseKind> {
    let at = |(index, bytes): (u64, &u64)| Arrival { at_ns: index * VIEW_TRIP, bytes: *bytes };
    let mut transfer = two_seconds(Direction::Incoming);
    transfer.arrivals = (0..).zip(sizes).map(at).collect();
    transfer.tcp.rcv_ooopack = Some(lost);
    let shape =
        TransferShape { span_ns: 1_000 * MS, bytes: shape_bytes, mss, ..TransferShape::default() };
    let buffer = CauseKind::SmallSendBuffer;
    with_view(&transfer, shape, |view| {
        data::causes(view).into_iter().map(|cause| cause.kind).find(|kind| *kind == buffer)
    })
}

#[test]
fn four_round_trips_with_equal_bytes_show_a_send_buffer() {
    let buffer = Some(CauseKind::SmallSendBuffer);
    let alike = |count: usize| windows(&vec![3_000; count], 3_000 * (count as u64 - 1), 1_000, 0);
    assert_eq!([4, 5].map(alike), [None, buffer]);
    // The first quarter of a round trip has three fifths of the mean, and at most twice the mean.
    let eight = [3_000; 8];
    assert_eq!([35_000, 35_007].map(|sum| windows(&eight, sum, 1_000, 0)), [buffer, None]);
    assert_eq!([10_500, 10_499].map(|sum| windows(&eight, sum, 1_000, 0)), [buffer, None]);
    // The first three round trips bring at most four windows.
    let opening =
        |third| windows(&[3_000, 4_500, third, 3_000, 3_000, 3_000, 3_000, 1], 21_000, 1_000, 0);
    assert_eq!([4_500, 4_501].map(opening), [buffer, None]);
    // Three fifths of the round trips are alike, and bring at least two segments.
    let odd = |count: usize| {
        let sizes = [vec![3_000; 10 - count], vec![1_000; count], vec![1]].concat();
        windows(&sizes, 30_000, 1_000, 0)
    };
    assert_eq!([4, 5].map(odd), [buffer, None]);
    assert_eq!([1_500, 1_501].map(|mss| windows(&eight, 21_000, mss, 0)), [buffer, None]);
    let small = [1_072, 1_071].map(|bytes| windows(&[bytes; 8], 7 * bytes, 100, 0));
    assert_eq!(small, [buffer, None]);
    assert_eq!(windows(&eight, 21_000, 1_000, 1), None);
}

/// Returns whether bursts of `segments` after each of `gaps` show a limiter that drops segments.
fn is_policed(bursts: &[(u64, u64)], lost: u64) -> bool {
    let mut at_ns = 0;
    let mut transfer = two_seconds(Direction::Incoming);
    for (gap, segments) in bursts {
        at_ns += gap;
        transfer.segments.push(Arrival { at_ns, bytes: *segments });
        // Reads are uneven, so that the rate of the whole transfer is not.
        transfer.arrivals.push(Arrival { at_ns, bytes: segments * 1_000 });
    }
    transfer.tcp.rcv_ooopack = Some(lost);
    let shape =
        TransferShape { span_ns: 12 * MS, bytes: 100_000, mss: 1_000, ..TransferShape::default() };
    with_view(&transfer, shape, |view| policer::policer(view).is_some())
}

#[test]
fn five_bursts_with_the_tokens_of_their_time_show_a_policer() {
    let regular = |count: usize| is_policed(&vec![(300 * MS, 20); count], 40);
    assert_eq!([4, 5].map(regular), [false, true]);
    // A silence takes 150 ms, and two round trips of 100 ms.
    let silence = |gap: u64| is_policed(&[(gap, 20); 6], 40);
    assert_eq!([200 * MS - 1, 200 * MS].map(silence), [false, true]);
    // Half of the bursts lost a segment.
    assert_eq!([2, 3].map(|lost| is_policed(&[(300 * MS, 20); 6], lost)), [false, true]);
    // The tokens are those since the previous burst.
    assert!(is_policed(&[(300 * MS, 20), (600 * MS, 40)].repeat(4), 40));
    // Three quarters of the bursts are alike.
    let unlike = |count: usize| {
        let bursts = [vec![(300 * MS, 20); 9 - count], vec![(300 * MS, 60); count]].concat();
        is_policed(&bursts, 40)
    };
    assert_eq!([2, 3].map(unlike), [true, false]);
}

#[test]
fn a_smaller_transfer_at_three_times_the_rate_passes_a_full_bucket() {
    let faster = |bytes: u64, data_ns: u64, change: &dyn Fn(&mut FileTransfer)| {
        let mut small = two_seconds(Direction::Incoming);
        small.bytes = bytes;
        small.first_byte_ns = Some(10 * MS);
        small.last_byte_ns = Some(10 * MS + data_ns);
        change(&mut small);
        let transfers = vec![two_seconds(Direction::Incoming), small];
        let session = FileSession { transfers, ..FileSession::default() };
        let view = View {
            session: &session,
            transfer: &session.transfers[0],
            trip: VIEW_TRIP,
            shape: TransferShape { mss: 1_000, ..TransferShape::default() },
            steps: Steps::default(),
            is_lossy: false,
            is_disordered: false,
        };
        let requirements = RateRequirements { segments: 2, saved_ns: 8 * MS };
        faster_transfer_bytes(&view, 800_000, requirements)
    };
    let usual = |bytes, data_ns| faster(bytes, data_ns, &|_| ());
    // 3,000 bytes after the first segment take 30 ms at 800,000 bit/s.
    assert_eq!([10 * MS, 10 * MS + 1].map(|ns| usual(4_000, ns)), [Some(4_000), None]);
    assert_eq!([2_000, 2_001].map(|bytes| usual(bytes, 0)), [None, Some(2_001)]);
    assert_eq!(usual(100_000, 0), None);
    assert_eq!(faster(4_000, MS, &|one| one.tcp.rcv_ooopack = Some(1)), None);
    assert_eq!(faster(4_000, MS, &|one| one.direction = Direction::Outgoing), None);
    // A reader that waited for its processor read several segments at once.
    assert_eq!(faster(4_000, MS, &|one| one.own_wait_ns = Some(9 * MS)), Some(4_000));
    assert_eq!(faster(4_000, MS, &|one| one.own_wait_ns = Some(9 * MS + 1)), None);
    let known = |one: &mut FileTransfer| one.arrivals = arrivals(&[(0, 1), (10 * MS + 1, 1)]);
    assert_eq!(faster(4_000, MS, &known), None);
    let late = |one: &mut FileTransfer| {
        one.exchanges = vec![exchange("RETR", 0, None, 900 * MS)];
        one.connected_ns = Some(0);
        one.first_byte_ns = Some(VIEW_TRIP + 10 * MS);
        one.last_byte_ns = Some(VIEW_TRIP + 11 * MS);
    };
    // The first byte was read 10 ms late, and then 9 ms and a nanosecond.
    assert_eq!(faster(4_000, MS, &late), None);
    let exact = |one: &mut FileTransfer, more_ns: u64| {
        one.exchanges = vec![exchange("RETR", 0, None, 900 * MS)];
        one.connected_ns = Some(0);
        one.first_byte_ns = Some(VIEW_TRIP + 9 * MS + more_ns);
        one.last_byte_ns = Some(VIEW_TRIP + 10 * MS + more_ns);
    };
    assert_eq!(faster(4_000, MS, &|one| exact(one, 0)), Some(4_000));
    assert_eq!(faster(4_000, MS, &|one| exact(one, 1)), None);
}

#[test]
fn a_faster_transfer_saves_the_required_time() {
    let saved = |saved_ns: u64| {
        let mut small = two_seconds(Direction::Incoming);
        small.bytes = 4_000;
        small.first_byte_ns = Some(0);
        small.last_byte_ns = Some(10 * MS);
        let transfers = vec![two_seconds(Direction::Incoming), small];
        let session = FileSession { transfers, ..FileSession::default() };
        let view = View {
            session: &session,
            transfer: &session.transfers[0],
            trip: VIEW_TRIP,
            shape: TransferShape { mss: 1_000, ..TransferShape::default() },
            steps: Steps::default(),
            is_lossy: false,
            is_disordered: false,
        };
        let requirements = RateRequirements { segments: 2, saved_ns };
        faster_transfer_bytes(&view, 800_000, requirements).is_some()
    };
    assert_eq!([20 * MS, 20 * MS + 1].map(saved), [true, false]);
}

fn cause(kind: CauseKind, cost_ns: u64) -> Cause {
    Cause {
        kind,
        operation: Operation::Transfer,
        cost_ns,
        gain_ns: cost_ns,
        total_ns: 200 * MS,
        subject: "Subject".to_owned(),
        advice: "advice".to_owned(),
    }
}

#[test]
fn a_limit_of_the_path_has_half_of_the_weight_of_a_cause_that_can_be_fixed() {
    let weights = [CauseKind::Loss, CauseKind::Distance, CauseKind::LineRate]
        .map(|kind| weight(&cause(kind, 100 * MS)));
    assert_eq!(weights, [250_000, 125_000, 125_000]);
}

#[test]
fn a_step_of_a_second_and_an_expired_timer_override_their_share() {
    let mut session = FileSession::default();
    let overrides = |session: &FileSession, kind, ns| is_overriding(session, &cause(kind, ns));
    let second = 1_000 * MS;
    let command = [second - 1, second].map(|ns| overrides(&session, CauseKind::SlowCommand, ns));
    assert_eq!(command, [false, true]);
    let limits = [CauseKind::Distance, CauseKind::LineRate, CauseKind::LockStep];
    assert_eq!(limits.map(|kind| overrides(&session, kind, second)), [false; 3]);
    assert!(!overrides(&session, CauseKind::Loss, 1));
    session.transfers = vec![FileTransfer { timeouts: Some(1), ..FileTransfer::default() }];
    assert!(overrides(&session, CauseKind::Loss, 1) && !overrides(&session, CauseKind::Loss, 0));
    assert!(!overrides(&session, CauseKind::SlowDisk, 1));
    session.transfers[0].timeouts = Some(0);
    assert!(!overrides(&session, CauseKind::Loss, 1));
}

#[test]
fn a_limiter_that_stands_out_explains_the_losses_of_transfers() {
    let kinds = |limiter_ns: u64| {
        let session_loss = Cause { operation: Operation::Session, ..cause(CauseKind::Loss, 9) };
        let all = vec![
            cause(CauseKind::RateLimiter, limiter_ns),
            cause(CauseKind::Loss, 9),
            session_loss,
            cause(CauseKind::Tls, 9),
        ];
        without_consequences(all).len()
    };
    assert_eq!([100 * MS - 1, 100 * MS].map(kinds), [4, 3]);
}

#[test]
fn smaller_transfers_show_loss_only_on_an_impaired_path() {
    let session = |is_impaired: bool| {
        let mut small = download(&[(0, 1_448), (MS, 1_448), (400 * MS, 1_448), (MS, 1_448)]);
        small.tcp.rcv_ooopack = Some(1);
        let mut other = small.clone();
        other.tcp.rcv_ooopack = Some(u64::from(is_impaired));
        let largest = download(&on_a_link(60, MS));
        FileSession { transfers: vec![small, other, largest], ..FileSession::default() }
    };
    let losses = |is_impaired| {
        let causes = causes(&session(is_impaired));
        causes.iter().filter(|cause| cause.kind == CauseKind::Loss).count()
    };
    assert_eq!([losses(false), losses(true)], [0, 1]);
}

#[test]
fn the_statistics_of_the_kernel_are_converted_to_nanoseconds() {
    let tcp = Tcp {
        rtt_us: Some(3),
        min_rtt_us: Some(2),
        busy_us: Some(5),
        rwnd_limited_us: Some(6),
        sndbuf_limited_us: Some(7),
        rcv_mss: Some(8),
        ..Tcp::default()
    };
    let expected = DataTcp {
        rtt_ns: Some(3_000),
        min_rtt_ns: Some(2_000),
        busy_ns: Some(5_000),
        rwnd_limited_ns: Some(6_000),
        sndbuf_limited_ns: Some(7_000),
        rcv_mss: Some(8),
        ..DataTcp::default()
    };
    assert_eq!(DataTcp::from(&tcp), expected);
    let unknown = Tcp { rtt_us: Some(0), min_rtt_us: Some(0), ..Tcp::default() };
    let expected = DataTcp { min_rtt_ns: Some(0), ..DataTcp::default() };
    assert_eq!(DataTcp::from(&unknown), expected);
}

#[test]
fn a_cause_of_the_data_limits_the_round_trips_of_a_distant_server_to_slow_start() {
    let distance = |gaps: &[(u64, u64)]| {
        let transfers = vec![download(gaps)];
        let session = FileSession { transfers, ..FileSession::default() };
        let transfer = &session.transfers[0];
        let found = ftp_transfer::causes(&session, transfer, VIEW_TRIP);
        let view = View::of(&session, transfer, VIEW_TRIP);
        let [with_cause, without] = [true, false].map(|has| limits::distance(&view, has));
        assert_ne!(with_cause, without);
        let found = found.into_iter().find(|cause| cause.kind == CauseKind::Distance);
        (found == with_cause, found == without)
    };
    // Blocks of a slow disk, and the packets of a link.
    assert_eq!(distance(&[(250 * MS, 16_384); 20]), (true, false));
    assert_eq!(distance(&on_a_link(400, 9 * MS)), (false, true));
}

#[test]
fn a_faster_transfer_shows_a_limiter_only_if_the_data_arrives_evenly() {
    let is_limited = |gaps: &[(u64, u64)]| {
        let mut large = download(gaps);
        large.tcp.rcv_ooopack = Some(30);
        let small = download(&[(0, 7_000), (MS, 7_000)]);
        let session = FileSession { transfers: vec![small, large], ..FileSession::default() };
        policer::policer(&View::of(&session, &session.transfers[1], 20 * MS)).is_some()
    };
    assert!(is_limited(&[(10 * MS, 1_448); 120]));
    // 100 ms with a segment per millisecond, and then 100 ms with five segments.
    let uneven: Vec<(u64, u64)> =
        (0..630).map(|at| (if at % 105 < 100 { MS } else { 20 * MS }, 1_448)).collect();
    assert!(!is_limited(&uneven));
}
