//! Boundaries of the rules for transfers by FTP, with a given shape of the data.

use super::{MS, MSS, TRIP, download, exchange, on_a_link};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::files::opening::can_path_delay;
use crate::verdict::files::path_impairment::{is_disordered, path_impairment};
use crate::verdict::files::reply_delays::Steps;
use crate::verdict::files::shape::{Pause, TransferShape};
use crate::verdict::files::transfer_view::View;
use crate::verdict::files::{
    DataTcp, FileSession, FileTransfer, data, ftp_transfer, limits, policer,
};
use crate::verdict::tests::{arrivals, described};
use crate::verdict::{Arrival, Direction};

/// Round-trip time of the views, ns.
pub(super) const VIEW_TRIP: u64 = 100 * MS;

/// Returns the shape of 100,000 bytes in segments of 1,000 bytes that take a second. Slow start
/// takes three round trips.
fn second() -> TransferShape {
    TransferShape { span_ns: 1_000 * MS, bytes: 100_000, mss: 1_000, ..TransferShape::default() }
}

/// Returns a transfer of 100,000 bytes in two seconds.
pub(super) fn two_seconds(direction: Direction) -> FileTransfer {
    FileTransfer { direction, bytes: 100_000, total_ns: 2_000 * MS, ..FileTransfer::default() }
}

/// Returns the result of `rule` for a transfer with the given shape.
pub(super) fn with_view<T>(
    transfer: &FileTransfer,
    shape: TransferShape,
    rule: impl Fn(&mut View<'_>) -> T,
) -> T {
    let session = FileSession { transfers: vec![transfer.clone()], ..FileSession::default() };
    let mut view = View {
        session: &session,
        transfer: &session.transfers[0],
        trip: VIEW_TRIP,
        shape,
        steps: Steps::default(),
        is_lossy: false,
        is_disordered: false,
    };
    rule(&mut view)
}

#[test]
fn a_link_is_full_if_its_packets_take_three_fifths_of_the_time() {
    let download = two_seconds(Direction::Incoming);
    let full = |span_ns: u64| {
        let shape = TransferShape { span_ns, line_bps: Some(8_000_000), ..second() };
        with_view(&download, shape, |view| limits::is_full(view))
    };
    assert_eq!([166_666_666, 166_666_667].map(full), [true, false]);
    // After a loss, bursts may have the rate of the sender.
    let mut lossy = download;
    lossy.tcp.rcv_ooopack = Some(1);
    lossy.arrivals = arrivals(&[(0, 2_000), (VIEW_TRIP, 2_000), (2 * VIEW_TRIP, 2_000)]);
    let shape = TransferShape { span_ns: 100 * MS, line_bps: Some(8_000_000), ..second() };
    assert!(!with_view(&lossy, shape.clone(), |view| limits::is_full(view)));
    // A queue spaced the segments before the first loss.
    lossy.first_loss_bytes = Some(20_000);
    assert!(with_view(&lossy, shape, |view| limits::is_full(view)));
}

#[test]
fn the_link_limits_a_transfer_of_a_second() {
    let line = |total_ns: u64, line_bps: u64| {
        let mut transfer = two_seconds(Direction::Incoming);
        transfer.total_ns = total_ns;
        let shape = TransferShape { line_bps: Some(line_bps), ..second() };
        with_view(&transfer, shape, |view| limits::line(view))
    };
    assert_eq!(line(1_000 * MS - 1, 1_000_000), []);
    let causes = [line(1_000 * MS, 1_000_000), line(3_000 * MS, 500_000)].concat();
    insta::assert_snapshot!(described(&causes), @"
    line rate of the transfer: 808000000 ns, 708000000 ns of 1000000000 ns
      The rate of the path's slowest link costs 808 ms of the 1.00 s of the transfer (81 %),
      but removing it saves only 708 ms, because other waits remain: packets follow each other
      at 1.00 Mbit/s for most of the time. Compress the data, or use a faster link.
    line rate of the transfer: 1016000000 ns, 716000000 ns of 3000000000 ns
      The rate of the path's slowest link costs 1.02 s of the 3.00 s of the transfer (34 %),
      but removing it saves only 716 ms, because other waits remain: packets follow each other
      at 500 kbit/s for most of the time. Compress the data, or use a faster link.
    ");
}

#[test]
fn a_full_queue_with_losses_shows_the_mean_rate_of_a_link() {
    let mut upload = two_seconds(Direction::Outgoing);
    upload.upper_rtt_ns = Some(400 * MS);
    let line = |upload: &FileTransfer| with_view(upload, second(), |view| limits::line(view));
    assert_eq!(line(&upload), []);
    upload.tcp.total_retrans = Some(1);
    insta::assert_snapshot!(described(&line(&upload)), @"
    line rate of the transfer: 1010000000 ns, 710000000 ns of 2000000000 ns
      The rate of the path's slowest link costs 1.01 s of the 2.00 s of the transfer (51 %),
      but removing it saves only 710 ms, because other waits remain: packets follow each other
      at 800 kbit/s for most of the time. Compress the data, or use a faster link.
    ");
}

#[test]
fn segments_of_a_third_of_the_path_mtu_have_an_overhead() {
    let line = |mss: u64| {
        let mut transfer = two_seconds(Direction::Incoming);
        transfer.tcp.pmtu = Some(1_500);
        let shape = TransferShape { mss, line_bps: Some(1_000_000), ..second() };
        with_view(&transfer, shape, |view| limits::line(view))
    };
    let kinds = |mss: u64| line(mss).iter().map(|cause| cause.kind).collect::<Vec<_>>();
    assert_eq!(kinds(483), [CauseKind::LineRate]);
    assert_eq!(kinds(0), [CauseKind::LineRate]);
    // Headers of 52 bytes take too little at 482 bytes to stand out, but not at 100.
    insta::assert_snapshot!(described(&[line(482), line(100)].concat()), @"
    line rate of the transfer: 803856000 ns, 603856000 ns of 2000000000 ns
      The rate of the path's slowest link costs 804 ms of the 2.00 s of the transfer (40 %),
      but removing it saves only 604 ms, because other waits remain: packets follow each other
      at 1.00 Mbit/s for most of the time. Compress the data, or use a faster link.
    small packets of the transfer: 254783368 ns, 254783368 ns of 2000000000 ns
      The header overhead of small segments costs 255 ms of the 2.00 s of the transfer (13 %):
      52 of 152 bytes on the wire are headers, because segments have 100 bytes of data instead
      of 1,448, and the link carries 1.00 Mbit/s of data. To reduce the header overhead, check
      the MTU of the server's interface and route, and MSS clamping.
    ");
}

#[test]
fn the_round_trips_of_a_distant_server_are_a_cause_from_50_ms_on() {
    let transfer = two_seconds(Direction::Incoming);
    let distance = |trip: u64, has_data_cause: bool, lost: u64| {
        let mut transfer = transfer.clone();
        transfer.tcp.rcv_ooopack = Some(lost);
        let shape = TransferShape { line_bps: Some(4_000_000), ..second() };
        with_view(&transfer, shape, |view| {
            view.trip = trip;
            view.steps.trips = 3;
            limits::distance(view, has_data_cause)
        })
    };
    assert_eq!(distance(50 * MS - 1, false, 0), None);
    assert!(distance(50 * MS, false, 0).is_some());
    let all = [
        distance(100 * MS, false, 0),
        distance(100 * MS, true, 0),
        distance(100 * MS, false, 1),
        distance(400 * MS, true, 0),
    ];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    distance of the transfer: 1100000000 ns, 1100000000 ns of 2000000000 ns
      The round-trip time of the path costs 1.10 s of the 2.00 s of the transfer (55 %): 3
      round trips of 100 ms precede the first byte, and 800 ms pass while the congestion
      window grows. Use a server nearby, fewer and larger files, or parallel connections.
    distance of the transfer: 600000000 ns, 600000000 ns of 2000000000 ns
      The round-trip time of the path costs 600 ms of the 2.00 s of the transfer (30 %): 3
      round trips of 100 ms precede the first byte, and 300 ms pass while the congestion
      window grows. Use a server nearby, fewer and larger files, or parallel connections.
    distance of the transfer: 600000000 ns, 600000000 ns of 2000000000 ns
      The round-trip time of the path costs 600 ms of the 2.00 s of the transfer (30 %): 3
      round trips of 100 ms precede the first byte, and 300 ms pass while the congestion
      window grows. Use a server nearby, fewer and larger files, or parallel connections.
    distance of the transfer: 2000000000 ns, 2000000000 ns of 2000000000 ns
      The round-trip time of the path costs 2.00 s of the 2.00 s of the transfer (100 %): 3
      round trips of 400 ms precede the first byte, and 1.00 s pass while the congestion
      window grows. Use a server nearby, fewer and larger files, or parallel connections.
    ");
}

/// Returns the cause of an upload whose peer window of `window` bytes was full for `full_ns`.
fn peer_window(window: u64, full_ns: u64) -> Option<Cause> {
    let mut upload = two_seconds(Direction::Outgoing);
    upload.peer_window_bytes = Some([0, window]);
    upload.tcp.rwnd_limited_ns = Some(full_ns);
    with_view(&upload, second(), |view| data::causes(view).into_iter().next())
}

#[test]
fn a_peer_window_that_explains_half_of_the_time_is_small() {
    let kind = |window, full_ns| peer_window(window, full_ns).map(|cause| cause.kind);
    let [small, slow] = [Some(CauseKind::SmallWindow), Some(CauseKind::SlowReader)];
    // Five round trips take half a second.
    assert_eq!([20_000, 20_001].map(|window| kind(window, 500 * MS)), [small, slow]);
    let third = 333_333_333;
    assert_eq!([third - 1, third].map(|full| kind(20_000, full)), [None, small]);
    // A slow reader keeps its window full for half of the time.
    assert_eq!([500 * MS - 1, 500 * MS].map(|full| kind(60_000, full)), [None, slow]);
    assert_eq!([99_999, 100_000].map(|window| kind(window, 900 * MS)), [slow, None]);
    assert_eq!(kind(0, 900 * MS), None);
    let both = [peer_window(20_000, 900 * MS), peer_window(60_000, 900 * MS)];
    insta::assert_snapshot!(described(&both.map(Option::unwrap)), @"
    small window of the transfer: 700000000 ns, 700000000 ns of 2000000000 ns
      The server's small receive window costs 700 ms of the 2.00 s of the transfer (35 %):
      20,000 bytes can be in flight in each round trip of 100 ms. Increase the receive buffer
      of the server (net.ipv4.tcp_rmem, SO_RCVBUF).
    slow reader of the transfer: 700000000 ns, 700000000 ns of 2000000000 ns
      The slow reader on the server costs 700 ms of the 2.00 s of the transfer (35 %): its
      receive window of 60,000 bytes stays full although a round trip takes only 100 ms, and
      it reads only at 800 kbit/s. Check the disk there and the program that stores the file.
    ");
}

#[test]
fn a_send_buffer_that_limits_a_third_of_the_time_is_small() {
    let limited = |full_ns: u64| {
        let mut upload = two_seconds(Direction::Outgoing);
        upload.tcp.sndbuf_limited_ns = Some(full_ns);
        with_view(&upload, second(), |view| data::causes(view).into_iter().next())
    };
    assert_eq!(limited(333_333_332), None);
    let all = [limited(333_333_333), limited(900 * MS)];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    small send buffer of the transfer: 333333333 ns, 333333333 ns of 2000000000 ns
      This host's small send buffer costs 333 ms of the 2.00 s of the transfer (17 %): it was
      full while the server's window had room, at a round-trip time of 100 ms. Increase the
      send buffer of this host (net.ipv4.tcp_wmem, SO_SNDBUF).
    small send buffer of the transfer: 700000000 ns, 700000000 ns of 2000000000 ns
      This host's small send buffer costs 700 ms of the 2.00 s of the transfer (35 %): it was
      full while the server's window had room, at a round-trip time of 100 ms. Increase the
      send buffer of this host (net.ipv4.tcp_wmem, SO_SNDBUF).
    ");
}

#[test]
fn a_local_window_is_small_if_half_of_it_arrives_per_round_trip() {
    let window = |own: u64, bytes: u64| {
        let mut transfer = two_seconds(Direction::Incoming);
        transfer.own_window_bytes = Some(own);
        let shape = TransferShape { bytes, ..second() };
        with_view(&transfer, shape, |view| data::causes(view).into_iter().next())
    };
    assert!(window(20_000, 100_000).is_some() && window(20_001, 100_000).is_none());
    // A window of the usual initial size grows.
    assert!(window(49_999, 250_000).is_some() && window(50_000, 250_000).is_none());
    insta::assert_snapshot!(described(window(20_000, 100_000).as_slice()), @"
    small window of the transfer: 700000000 ns, 700000000 ns of 2000000000 ns
      This host's small receive window costs 700 ms of the 2.00 s of the transfer (35 %):
      20,000 bytes can be in flight in each round trip of 100 ms. Increase the receive buffer
      of this host (net.ipv4.tcp_rmem, SO_RCVBUF).
    ");
}

#[test]
fn disordered_data_is_charged_with_late_replies() {
    let disordered = |direction, change: fn(&mut DataTcp)| {
        let mut transfer = two_seconds(direction);
        change(&mut transfer.tcp);
        let late = |verb: &str, at_ms: u64, late_ms: u64| {
            exchange(verb, at_ms * MS, None, at_ms * MS + VIEW_TRIP + late_ms * MS)
        };
        transfer.exchanges =
            vec![late("TYPE", 0, 19), late("SIZE", 200, 20), late("RETR", 400, 50)];
        with_view(&transfer, second(), |view| {
            view.is_disordered = true;
            data::causes(view).into_iter().next()
        })
    };
    let all = [
        disordered(Direction::Incoming, |tcp| tcp.rcv_ooopack = Some(7)),
        disordered(Direction::Outgoing, |tcp| {
            tcp.reord_seen = Some(3);
            tcp.dsack_dups = Some(4);
        }),
    ];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    reordering of the transfer: 720000000 ns, 720000000 ns of 2000000000 ns
      Reordering on the path costs 720 ms of the 2.00 s of the transfer (36 %): 7 segments
      were out of order, and some replies were late by about the same time, and others were
      not. Check for parallel links that carry packets in turn, and for wireless links that
      repeat frames.
    reordering of the transfer: 720000000 ns, 720000000 ns of 2000000000 ns
      Reordering on the path costs 720 ms of the 2.00 s of the transfer (36 %): 4 segments
      were out of order, and the retransmitted data had not been lost. Check for parallel
      links that carry packets in turn, and for wireless links that repeat frames.
    ");
    assert_eq!(disordered(Direction::Incoming, |tcp| tcp.rcv_ooopack = Some(0)), None);
    assert_eq!(disordered(Direction::Incoming, |tcp| tcp.reord_seen = Some(9)), None);
}

/// Returns the loss in a download with `lost` segments that takes `total_ns`.
fn loss(lost: u64, total_ns: u64, is_lossy: bool, line_bps: Option<u64>) -> Option<Cause> {
    let mut transfer = two_seconds(Direction::Incoming);
    transfer.tcp.rcv_ooopack = Some(lost);
    transfer.total_ns = total_ns;
    let pause = Pause { at_ns: 0, ns: 230 * MS, bytes: 1 };
    let shape = TransferShape { line_bps, pauses: vec![pause], ..second() };
    with_view(&transfer, shape, |view| {
        view.is_lossy = is_lossy;
        data::causes(view).into_iter().find(|cause| cause.kind == CauseKind::Loss)
    })
}

#[test]
fn losses_that_cost_a_third_of_a_transfer_are_a_cause() {
    // Slow start takes 300 ms of the second.
    let is_named = |total_ns| loss(3, total_ns, false, None).is_some();
    assert_eq!([2_100 * MS + 2, 2_100 * MS + 3].map(is_named), [true, false]);
    assert!(loss(3, 4_000 * MS, true, None).is_some());
    assert_eq!(loss(0, 1_000 * MS, true, None), None);
    // A link that is busy for 35 % of the time may have a short queue.
    let busy = [2_285_714, 2_285_715].map(|rate| loss(3, 2_000 * MS, true, Some(rate)).unwrap());
    insta::assert_snapshot!(described(&busy), @"
    loss of the transfer: 554999970 ns, 554999970 ns of 2000000000 ns
      Packet loss costs 555 ms of the 2.00 s of the transfer (28 %): 3 segments waited for the
      retransmission of a lost one, with gaps of up to 230 ms; packets otherwise arrive at
      2.29 Mbit/s, so a short queue at a link of this rate also explains the loss. Check the
      links of the path for errors, and for buffers that are too small.
    loss of the transfer: 555000077 ns, 555000077 ns of 2000000000 ns
      Packet loss costs 555 ms of the 2.00 s of the transfer (28 %): 3 segments waited for the
      retransmission of a lost one, with gaps of up to 230 ms. Check the links of the path for
      errors, and for buffers that are too small.
    ");
}

fn paused(pauses_ms: &[u64], bytes: u64, more_ns: u64) -> Option<Cause> {
    let pause = |ms: &u64| Pause { at_ns: 0, ns: ms * MS + more_ns, bytes };
    let shape = TransferShape { pauses: pauses_ms.iter().map(pause).collect(), ..second() };
    let transfer = FileTransfer { total_ns: 1_000 * MS, ..two_seconds(Direction::Incoming) };
    with_view(&transfer, shape, |view| data::causes(view).into_iter().next())
}

#[test]
fn three_pauses_that_are_no_round_trips_are_those_of_a_program() {
    let named = |pauses: &[u64], bytes: u64| paused(pauses, bytes, 0).is_some();
    assert!(named(&[60; 3], 2_001) && !named(&[60; 2], 2_001));
    // Two segments at a time may be spaced by a limiter.
    assert!(!named(&[60; 3], 2_000));
    // A pause between two thirds and five quarters of a round trip is a round trip.
    assert!(!named(&[125; 3], 9_000) && paused(&[125; 3], 9_000, 1).is_some());
    assert!(!named(&[67; 3], 9_000) && named(&[66; 3], 9_000));
    assert!(paused(&[66; 3], 9_000, 666_667).is_none());
    assert!(paused(&[66; 3], 9_000, 666_666).is_some());
    // A single pause takes more than two round trips, and half of all pauses.
    assert!(!named(&[200], 1) && paused(&[200], 1, 1).is_some());
    assert!(named(&[300, 300], 1) && !named(&[210; 3], 1));
    let halves = [300 * MS, 300 * MS, 1].map(|ns| Pause { at_ns: 0, ns, bytes: 1 });
    let transfer = two_seconds(Direction::Incoming);
    let shape = TransferShape { pauses: halves.to_vec(), ..second() };
    assert!(with_view(&transfer, shape, |view| !data::causes(view).is_empty()));
    let all = [paused(&[40, 50, 60, 110], 9_000, 0), paused(&[900], 1_000, 0)];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    slow disk of the transfer: 260000000 ns, 260000000 ns of 1000000000 ns
      The server's slow file access (storage) costs 260 ms of the 1.00 s of the transfer (26
      %): 3 gaps of up to 60.0 ms, about 9,000 bytes apart, do not match the round trip of 100
      ms; nothing was lost, and the receive window of this host was open. Check the disk and
      the load on the server.
    slow disk of the transfer: 700000000 ns, 700000000 ns of 1000000000 ns
      The server's slow file access (storage) costs 700 ms of the 1.00 s of the transfer (70
      %): 1 gaps of up to 900 ms, about 1,000 bytes apart, do not match the round trip of 100
      ms; nothing was lost, and the receive window of this host was open. Check the disk and
      the load on the server.
    ");
}

#[test]
fn pauses_of_an_upload_or_of_an_impaired_path_are_not_those_of_a_program() {
    let is_program = |direction, lost, is_lossy, is_disordered| {
        let mut transfer = two_seconds(direction);
        transfer.tcp.rcv_ooopack = Some(lost);
        let pauses = vec![Pause { at_ns: 0, ns: 900 * MS, bytes: 9_000 }];
        let shape = TransferShape { pauses, ..second() };
        with_view(&transfer, shape, |view| {
            view.is_lossy = is_lossy;
            view.is_disordered = is_disordered;
            data::causes(view).iter().any(|cause| cause.kind == CauseKind::SlowDisk)
        })
    };
    assert!(is_program(Direction::Incoming, 0, false, false));
    assert!(!is_program(Direction::Outgoing, 0, false, false));
    assert!(!is_program(Direction::Incoming, 1, false, false));
    assert!(!is_program(Direction::Incoming, 0, true, false));
    assert!(!is_program(Direction::Incoming, 0, false, true));
}

#[test]
fn a_queue_of_six_segments_lengthens_most_round_trips() {
    let fills = |upper_ns: u64, bytes: u64| {
        let mut upload = two_seconds(Direction::Outgoing);
        upload.upper_rtt_ns = Some(upper_ns);
        let shape = TransferShape { bytes, ..second() };
        with_view(&upload, shape, |view| policer::fills_queue(view))
    };
    // Six segments take 60 ms at 800,000 bit/s.
    assert_eq!([160 * MS - 1, 160 * MS].map(|ns| fills(ns, 100_000)), [false, true]);
    // Delayed acknowledgments take up to 30 ms.
    assert_eq!([130 * MS - 1, 130 * MS].map(|ns| fills(ns, 1_000_000)), [false, true]);
}

#[test]
fn a_seventh_of_the_segments_lost_is_a_limiter_that_drops() {
    let kind = |lost: u64, sent: u64, direction, span_ms: u64| {
        let mut transfer = two_seconds(direction);
        transfer.tcp.total_retrans = Some(lost);
        transfer.tcp.data_segs_out = Some(sent);
        let shape = TransferShape { span_ns: span_ms * MS, ..second() };
        with_view(&transfer, shape, |view| policer::policer(view).map(|cause| cause.kind))
    };
    let limiter = Some(CauseKind::RateLimiter);
    let upload = Direction::Outgoing;
    assert_eq!([14, 15].map(|lost| kind(lost, 100, upload, 1_000)), [None, limiter]);
    assert_eq!(kind(15, 100, Direction::Incoming, 1_000), None);
    // The loss costs a third of the time: slow start takes 300 ms.
    assert_eq!([449, 450].map(|span| kind(15, 100, upload, span)), [None, limiter]);
}

/// Returns a session with a lossy download, two more downloads whose last replies are late by
/// `others_ns`, and the kind of the cause for a last reply that is late by `ns`.
fn late_reply(ns: u64, others_ns: [u64; 2]) -> CauseKind {
    let late = |segments: u64, ns: u64| {
        let mut transfer = download(&[(0, 10 * MSS), (MS, segments * MSS)]);
        transfer.total_ns += ns;
        transfer.exchanges[1].replied_ns = Some(transfer.total_ns);
        transfer
    };
    let [one, other] = others_ns;
    let mut transfers = vec![late(1, one), late(2, other), late(9, ns)];
    transfers[0].tcp.rcv_ooopack = Some(1);
    let session = FileSession { transfers, ..FileSession::default() };
    let causes = ftp_transfer::causes(&session, &session.transfers[2], TRIP);
    causes.into_iter().find(|cause| cause.cost_ns == ns).unwrap().kind
}

#[test]
fn a_late_reply_of_a_lossy_session_is_a_loss_if_a_timer_explains_its_delay() {
    let kinds = |ns: u64| late_reply(ns, [0, 0]);
    let [server, path] = [CauseKind::LateLastReply, CauseKind::Loss];
    assert_eq!([190 * MS - 1, 190 * MS].map(kinds), [server, path]);
    assert_eq!([700 * MS, 700 * MS + 1].map(kinds), [path, server]);
    // If most transfers are late by half of the delay, the server is always late.
    assert_eq!(late_reply(300 * MS, [150 * MS; 2]), server);
    assert_eq!(late_reply(300 * MS, [150 * MS, 0]), path);
    assert_eq!(late_reply(300 * MS, [150 * MS - 1, 150 * MS]), path);
}

#[test]
fn the_timers_of_a_repair_are_known() {
    let loss = |ms: u64, more_ns: u64| can_path_delay(CauseKind::Loss, ms * MS + more_ns);
    for (min, max) in [(950, 1_150), (2_950, 3_250)] {
        assert!(loss(min, 0) && !loss(min - 1, 999_999), "{min}");
        assert!(loss(max, 0) && !loss(max, 1), "{max}");
    }
    assert!(loss(0, 0) && loss(700, 0) && !loss(700, 1));
    let late = [500 * MS, 500 * MS + 1].map(|ns| can_path_delay(CauseKind::Reordering, ns));
    assert_eq!(late, [true, false]);
}

#[test]
fn each_late_step_of_a_transfer_has_its_cause() {
    let mut transfer = FileTransfer {
        bytes: 20_000,
        total_ns: 2_440 * MS,
        exchanges: vec![
            exchange("EPSV", 0, None, 340 * MS),
            exchange("RETR", 340 * MS, Some(1_500 * MS), 2_440 * MS),
        ],
        connected_ns: Some(1_380 * MS),
        first_byte_ns: Some(1_620 * MS),
        last_byte_ns: Some(1_700 * MS),
        arrivals: arrivals(&[(1_620 * MS, 10_000), (1_700 * MS, 10_000)]),
        ..FileTransfer::default()
    };
    let causes = |transfer: &FileTransfer| {
        let session = FileSession { transfers: vec![transfer.clone()], ..FileSession::default() };
        ftp_transfer::causes(&session, &session.transfers[0], 40 * MS)
    };
    insta::assert_snapshot!(described(&causes(&transfer)), @"
    slow command of the transfer: 300000000 ns, 300000000 ns of 2440000000 ns
      The server's slow reply to EPSV costs 300 ms of the 2.44 s of the transfer (12 %): it
      arrived that much later than one round trip of 40.0 ms. Check the load there, and the
      firewall or proxy that opens the data port.
    lost SYN of the transfer: 1000000000 ns, 1000000000 ns of 2440000000 ns
      A lost SYN costs 1.00 s of the 2.44 s of the transfer (41 %): the first packet of the
      data connection was retransmitted after a timeout, and the round-trip time is only 40.0
      ms. Check the links of the path for errors, and for a firewall that opens the port late.
    slow first byte of the transfer: 0 ns, 0 ns of 2440000000 ns
      The server's slow reply to RETR costs 0 ns of the 2.44 s of the transfer (0 %): the
      preliminary reply (150) arrived that much later than one round trip of 40.0 ms. Check
      how the server finds and opens the file.
    slow first byte of the transfer: 200000000 ns, 200000000 ns of 2440000000 ns
      The server's late first byte costs 200 ms of the 2.44 s of the transfer (8 %): the data
      began that much later than RETR and the data connection require at a round-trip time of
      40.0 ms. Check how the server finds and opens the file, and its load.
    late last reply of the transfer: 700000000 ns, 700000000 ns of 2440000000 ns
      The server's last reply (226) costs 700 ms of the 2.44 s of the transfer (29 %): it
      arrived that much later than the end of the data and one round trip of 40.0 ms. Check
      what the server does after a transfer (fsync, log, virus scan, quota).
    own processor of the transfer: 0 ns, 0 ns of 2440000000 ns
      This host's busy processor costs 0 ns of the 2.44 s of the transfer (0 %): plumb waited
      that long in the run queue of a processor. Stop other processes on this host, and
      measure again.
    ");
    // A SYN is repeated after 950 ms at the earliest.
    let kinds = |connected_ns: u64| {
        let mut transfer = transfer.clone();
        transfer.connected_ns = Some(connected_ns);
        causes(&transfer).iter().any(|cause| cause.kind == CauseKind::LostSyn)
    };
    assert_eq!([1_330 * MS - 1, 1_330 * MS].map(kinds), [false, true]);
    transfer.direction = Direction::Outgoing;
    transfer.exchanges[1] = exchange("STOR", 340 * MS, Some(2_440 * MS), 2_440 * MS);
    let late = causes(&transfer);
    insta::assert_snapshot!(described(&late[2..3]), @"
    slow first byte of the transfer: 740000000 ns, 740000000 ns of 2440000000 ns
      The server's slow reply to STOR costs 740 ms of the 2.44 s of the transfer (30 %): the
      preliminary reply (150) arrived that much later than one round trip of 40.0 ms. Check
      how the server finds and opens the file.
    ");
}

#[test]
fn a_last_reply_later_than_for_a_smaller_upload_is_that_of_a_slow_disk() {
    let kind = |smaller_bytes: u64, smaller_ns: u64, change: fn(&mut FileTransfer)| {
        let late = |bytes: u64, ns: u64| {
            let mut upload = download(&[(0, bytes / 2), (MS, bytes / 2)]);
            upload.direction = Direction::Outgoing;
            upload.total_ns += ns;
            upload.exchanges[1].replied_ns = Some(upload.total_ns);
            upload
        };
        let mut transfers = vec![late(smaller_bytes, smaller_ns), late(40_000, 700 * MS)];
        change(&mut transfers[0]);
        let session = FileSession { transfers, ..FileSession::default() };
        let causes = ftp_transfer::causes(&session, &session.transfers[1], TRIP);
        causes.into_iter().find(|cause| cause.cost_ns == 700 * MS).unwrap().kind
    };
    let [stored, late] = [CauseKind::SlowReader, CauseKind::LateLastReply];
    let factors = [350 * MS, 350 * MS + 1].map(|ns| kind(20_000, ns, |_| ()));
    assert_eq!(factors, [stored, late]);
    assert_eq!([39_998, 40_000].map(|bytes| kind(bytes, 0, |_| ())), [stored, late]);
    assert_eq!(kind(20_000, 0, |one| one.direction = Direction::Incoming), late);
}

#[test]
fn a_wait_for_a_processor_of_a_third_of_the_transfer_is_its_only_cause() {
    let causes = |own_wait_ns: u64, total_ns: u64| {
        let mut transfer = download(&on_a_link(20, 11 * MS));
        transfer.own_wait_ns = Some(own_wait_ns);
        transfer.total_ns = total_ns;
        let session = FileSession { transfers: vec![transfer], ..FileSession::default() };
        ftp_transfer::causes(&session, &session.transfers[0], TRIP)
    };
    assert_eq!(causes(300 * MS, 900 * MS + 2).len(), 1);
    assert!(causes(300 * MS, 900 * MS + 3).len() > 1);
    let processor = |own_wait_ns| causes(own_wait_ns, 9_000 * MS).pop().unwrap().cost_ns;
    assert_eq!([250 * MS - 1, 250 * MS].map(processor), [0, 250 * MS]);
    insta::assert_snapshot!(described(&causes(300 * MS, 900 * MS)), @"
    own processor of the transfer: 300000000 ns, 300000000 ns of 900000000 ns
      This host's busy processor costs 300 ms of the 900 ms of the transfer (33 %): plumb
      waited that long in the run queue of a processor. Stop other processes on this host, and
      measure again.
    ");
    assert_eq!(causes(2_000 * MS, 900 * MS)[0].cost_ns, 900 * MS - 4 * TRIP);
}

/// Returns the unexplained time of a transfer over `trip`, of which a round trip and 1 ms of data
/// are known.
fn unexplained(left_ns: u64, trip: u64) -> Option<Cause> {
    let mut transfer = download(&[(0, MSS), (MS, MSS)]);
    transfer.exchanges.clear();
    transfer.total_ns = trip + MS + left_ns;
    let session = FileSession { transfers: vec![transfer], ..FileSession::default() };
    let causes = ftp_transfer::causes(&session, &session.transfers[0], trip);
    causes.into_iter().find(|cause| cause.kind == CauseKind::Unknown)
}

#[test]
fn half_a_second_and_half_of_a_transfer_without_a_cause_are_reported() {
    let near = [500 * MS - 1, 500 * MS].map(|ns| unexplained(ns, 40 * MS).map(|one| one.cost_ns));
    assert_eq!(near, [None, Some(500 * MS)]);
    // Known: 601 ms.
    let known = 601 * MS;
    let far = [known - 2, known - 1].map(|ns| unexplained(ns, 600 * MS).is_some());
    assert_eq!(far, [false, true]);
    insta::assert_snapshot!(described(unexplained(500 * MS, 40 * MS).as_slice()), @"
    unknown of the transfer: 500000000 ns, 500000000 ns of 541000000 ns
      An unknown cause costs 500 ms of the 541 ms of the transfer (92 %): the data takes 1.00
      ms, and neither the round-trip time of 40.0 ms, nor loss, windows or a reply explains
      it. Measure again with packet captures on both hosts, and check the load of the server.
    ");
}

#[test]
fn the_longest_gap_is_named_if_it_takes_a_quarter_of_the_unexplained_time() {
    let text = |pause_ns: u64| {
        let pause = Pause { at_ns: 0, ns: pause_ns, bytes: 1 };
        let mut transfer = download(&[(0, MSS), (pause_ns, MSS), (0, 9_000)]);
        transfer.exchanges.clear();
        transfer.direction = Direction::Outgoing;
        let known = 40 * MS + pause.ns.min(50 * MS);
        transfer.total_ns = known + 1_000 * MS;
        let session = FileSession { transfers: vec![transfer], ..FileSession::default() };
        let causes = ftp_transfer::causes(&session, &session.transfers[0], 40 * MS);
        let unknown = causes.into_iter().find(|cause| cause.kind == CauseKind::Unknown).unwrap();
        unknown.advice.split(',').next().unwrap().to_owned()
    };
    insta::assert_snapshot!([40, 100, 249, 250, 260].map(|ms| text(ms * MS)).join("\n"), @"
    the data takes 40.0 ms
    the data takes 100 ms
    the data takes 249 ms
    the data takes 250 ms
    the data takes 260 ms
    ");
}

fn session_of(change: impl Fn(&mut FileTransfer), direction: Direction) -> FileSession {
    let mut transfer = two_seconds(direction);
    change(&mut transfer);
    FileSession { transfers: vec![transfer], ..FileSession::default() }
}

#[test]
fn three_duplicates_that_explain_retransmissions_show_disordered_packets() {
    let upload = |retransmitted: u64, spurious: u64, reordered: u64| {
        let change = |one: &mut FileTransfer| {
            one.tcp.total_retrans = Some(retransmitted);
            one.tcp.dsack_dups = Some(spurious);
            one.tcp.reord_seen = Some(reordered);
        };
        is_disordered(&session_of(change, Direction::Outgoing))
    };
    assert!(upload(6, 3, 0) && !upload(7, 3, 0) && !upload(2, 2, 0));
    assert!(upload(3, 0, 3) && !upload(4, 0, 3) && !upload(2, 0, 2));
    let download = |out_of_order: u64, duplicates: u64| {
        let change = |one: &mut FileTransfer| {
            one.tcp.rcv_ooopack = Some(out_of_order);
            one.duplicates_in = Some(duplicates);
        };
        is_disordered(&session_of(change, Direction::Incoming))
    };
    assert!(download(120, 3) && !download(121, 3) && !download(2, 2) && !download(0, 3));
    assert!(download(1, 3));
}

#[test]
fn two_lossy_short_transfers_on_an_idle_link_show_loss() {
    let impairment = |count: usize, bytes: u64, gap: u64| {
        let mut transfer = download(&[(0, MSS), (MS, MSS), (gap, MSS)]);
        transfer.bytes = bytes;
        transfer.tcp.rcv_ooopack = Some(1);
        let transfers = vec![transfer; count];
        path_impairment(&FileSession { transfers, ..FileSession::default() }, TRIP)
    };
    let loss = Some(CauseKind::Loss);
    assert_eq!([1, 2].map(|count| impairment(count, 9_000, 300 * MS)), [None, loss]);
    assert_eq!([262_144, 262_145].map(|bytes| impairment(2, bytes, 300 * MS)), [loss, None]);
    // A full link loses packets.
    assert_eq!(impairment(2, 9_000, MS), None);
}

/// Returns whether replies that are late by `late` (verb, ms) show reordering.
fn has_reordering(late: &[(&str, u64)]) -> bool {
    let mut transfer = download(&[(0, 10 * MSS), (MS, 10 * MSS)]);
    transfer.tcp.rcv_ooopack = Some(1);
    let mut at_ns = 0;
    let mut exchanges = Vec::new();
    for (verb, ms) in late {
        let sent_ns = at_ns;
        at_ns += TRIP + ms * MS;
        exchanges.push(exchange(verb, sent_ns, None, at_ns));
    }
    exchanges.push(exchange("RETR", at_ns, None, at_ns + TRIP));
    transfer.exchanges = exchanges;
    let session = FileSession { transfers: vec![transfer], ..FileSession::default() };
    path_impairment(&session, TRIP) == Some(CauseKind::Reordering)
}

#[test]
fn three_late_replies_of_several_commands_show_reordering_if_most_replies_are_in_time() {
    let in_time = [("SIZE", 0), ("MDTM", 0), ("REST", 0)];
    let of = |late: &[(&str, u64)]| has_reordering(&[&in_time, late].concat());
    assert!(of(&[("SIZE", 80), ("MDTM", 80), ("SIZE", 80)]));
    assert!(!of(&[("SIZE", 80), ("MDTM", 80)]));
    // More than half are late.
    assert!(!of(&[("SIZE", 80), ("MDTM", 80), ("SIZE", 80), ("REST", 80)]));
    // One command alone is slow, or each late command always is.
    assert!(!of(&[("SIZE", 80), ("SIZE", 80), ("SIZE", 80)]));
    assert!(!of(&[("CWD", 80), ("MLST", 80), ("CWD", 80)]));
    // Delays between 20 and 190 ms count, and three quarters of them are alike.
    assert!(of(&[("SIZE", 20), ("MDTM", 20), ("SIZE", 20)]));
    assert!(!of(&[("SIZE", 19), ("MDTM", 19), ("SIZE", 19)]));
    assert!(of(&[("SIZE", 189), ("MDTM", 189), ("SIZE", 189)]));
    assert!(!of(&[("SIZE", 190), ("MDTM", 190), ("SIZE", 190)]));
    assert!(!of(&[("SIZE", 60), ("MDTM", 90), ("SIZE", 150)]));
    let four = [("SIZE", 0), ("SIZE", 60), ("MDTM", 60), ("SIZE", 60), ("SIZE", 180)];
    assert!(of(&four));
}

#[test]
fn a_policer_drops_at_the_same_bytes_of_each_larger_transfer() {
    let kind = |position: u64, other_position: u64, other_bytes: u64, other_lost: u64| {
        let at = |index: u64| Arrival { at_ns: index * VIEW_TRIP, bytes: 9_000 };
        let mut transfer = two_seconds(Direction::Incoming);
        transfer.arrivals = (0..11).map(at).collect();
        transfer.tcp.rcv_ooopack = Some(1);
        transfer.first_loss_bytes = Some(position);
        let other = FileTransfer {
            bytes: other_bytes,
            first_loss_bytes: Some(other_position),
            tcp: DataTcp { rcv_ooopack: Some(other_lost), ..DataTcp::default() },
            ..two_seconds(Direction::Incoming)
        };
        let small = FileTransfer { bytes: 900, ..two_seconds(Direction::Incoming) };
        let transfers = vec![transfer, other, small];
        let session = FileSession { transfers, ..FileSession::default() };
        let mut view = View {
            session: &session,
            transfer: &session.transfers[0],
            trip: VIEW_TRIP,
            shape: second(),
            steps: Steps::default(),
            is_lossy: false,
            is_disordered: false,
        };
        view.shape.span_ns = 1_000 * MS;
        policer::policer(&view).map(|cause| cause.kind)
    };
    let limiter = Some(CauseKind::RateLimiter);
    // The positions differ by at most a sixth.
    assert_eq!(
        [24_000, 35_000, 36_000, 25_000].map(|at| kind(30_000, at, 90_000, 1)),
        [None, limiter, None, limiter]
    );
    // Another transfer that is not larger loses nothing.
    assert_eq!(kind(30_000, 30_000, 35_000, 1), None);
    assert_eq!(kind(30_000, 30_000, 35_001, 1), limiter);
    // Without a larger transfer, the position may be coincidence.
    assert_eq!(kind(30_000, 30_000, 900, 0), None);
    // Five segments show a position.
    assert_eq!([4_999, 5_000].map(|at| kind(at, at, 90_000, 1)), [None, limiter]);
}
