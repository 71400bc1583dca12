//! Tests of the data transfer rules, on both sides of their thresholds.

mod data_boundaries;
mod ftp_boundaries;
mod shape_boundaries;
mod tftp_boundaries;

use super::*;
use crate::verdict::Arrival;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const MSS: u64 = 1_448;
const TRIP: u64 = 50 * MS - 1;

fn exchange(verb: &str, sent_ns: u64, preliminary_ns: Option<u64>, replied_ns: u64) -> Exchange {
    Exchange { verb: verb.to_owned(), sent_ns, preliminary_ns, replied_ns: Some(replied_ns) }
}

/// Returns a download whose data arrives with `gaps` (time, bytes), after three round trips.
fn download(gaps: &[(u64, u64)]) -> FileTransfer {
    let mut at_ns = 3 * TRIP;
    let mut arrivals = Vec::new();
    for (gap, bytes) in gaps {
        at_ns += gap;
        arrivals.push(Arrival { at_ns, bytes: *bytes });
    }
    FileTransfer {
        bytes: gaps.iter().map(|(_, bytes)| bytes).sum(),
        total_ns: at_ns + TRIP,
        exchanges: vec![
            exchange("EPSV", 0, None, TRIP),
            exchange("RETR", 0, Some(3 * TRIP), at_ns + TRIP),
        ],
        connected_ns: Some(2 * TRIP),
        first_byte_ns: arrivals.first().map(|first| first.at_ns),
        last_byte_ns: Some(at_ns),
        arrivals,
        tcp: DataTcp {
            min_rtt_ns: Some(TRIP),
            rcv_mss: Some(MSS),
            snd_mss: Some(MSS),
            pmtu: Some(1_500),
            ..DataTcp::default()
        },
        own_window_bytes: Some(400_000),
        ..FileTransfer::default()
    }
}

fn first(transfers: Vec<FileTransfer>) -> Option<(CauseKind, u64)> {
    let session = FileSession { transfers, ..FileSession::default() };
    causes(&session).first().map(|cause| (cause.kind, cause.gain_ns / MS))
}

/// Returns packets as delivered by a link.
fn on_a_link(packets: usize, each_ns: u64) -> Vec<(u64, u64)> {
    let mut gaps = vec![(0, MSS)];
    gaps.resize(packets, (each_ns, MSS));
    gaps
}

#[test]
fn evenly_spaced_packets_are_charged_to_the_slowest_link() {
    let Some((kind, gain_ms)) = first(vec![download(&on_a_link(200, 11 * MS))]) else { panic!() };
    assert_eq!(kind, CauseKind::LineRate);
    // Without the link, the round trips of slow start remain.
    assert!((1_900..2_200).contains(&gain_ms), "{gain_ms}");
}

#[test]
fn a_short_transfer_on_a_link_is_no_cause() {
    assert_eq!(first(vec![download(&on_a_link(40, 2 * MS))]), None);
}

#[test]
fn a_faster_smaller_transfer_shows_a_token_bucket() {
    let mut small = download(&[(0, 5 * MSS), (MS, 5 * MSS)]);
    let large = download(&on_a_link(200, 11 * MS));
    assert_eq!(first(vec![small.clone(), large.clone()]).unwrap().0, CauseKind::RateLimiter);
    // A first byte that was read late does not show a rate.
    small.first_byte_ns = Some(3 * TRIP + 150 * MS);
    assert_eq!(first(vec![small, large]).unwrap().0, CauseKind::LineRate);
}

/// Returns windows of two segments, one per round trip.
fn in_windows() -> Vec<(u64, u64)> {
    let mut gaps = vec![(0, 2 * MSS)];
    gaps.resize(40, (TRIP + MS / 10, 2 * MSS));
    gaps
}

#[test]
fn equal_amounts_per_round_trip_show_the_smaller_of_window_and_send_buffer() {
    let mut transfer = download(&in_windows());
    assert_eq!(first(vec![transfer.clone()]).unwrap().0, CauseKind::SmallSendBuffer);
    transfer.own_window_bytes = Some(4_000);
    assert_eq!(first(vec![transfer]).unwrap().0, CauseKind::SmallWindow);
}

#[test]
fn a_larger_amount_in_the_first_round_trips_shows_no_window() {
    let mut gaps = in_windows();
    gaps[1].1 = 6 * MSS;
    gaps[2].1 = 4 * MSS;
    assert_ne!(
        first(vec![download(&gaps)]).map(|(kind, _)| kind),
        Some(CauseKind::SmallSendBuffer)
    );
}

#[test]
fn silences_longer_than_round_trips_are_charged_to_the_server() {
    let blocks = |ns: u64| {
        let mut gaps = vec![(0, 16_384)];
        gaps.resize(30, (ns, 16_384));
        first(vec![download(&gaps)])
    };
    assert_eq!(blocks(90 * MS).unwrap().0, CauseKind::SlowDisk);
    assert_eq!(blocks(20 * MS).unwrap().0, CauseKind::SlowDisk);
    assert_ne!(blocks(TRIP).map(|(kind, _)| kind), Some(CauseKind::SlowDisk));
}

/// Returns a transfer whose segments arrive in `bursts` (time since the previous burst, segments),
/// with the first loss after `place` bytes.
fn in_bursts(bursts: &[(u64, u64)], place: u64) -> FileTransfer {
    let read_arrivals: Vec<(u64, u64)> =
        bursts.iter().map(|(gap, segments)| (*gap, segments * MSS)).collect();
    let mut transfer = download(&read_arrivals);
    let segments = transfer.arrivals.iter().zip(bursts);
    transfer.segments = segments
        .map(|(arrival, (_, segments))| Arrival { at_ns: arrival.at_ns, bytes: *segments })
        .collect();
    transfer.first_loss_bytes = Some(place);
    transfer.tcp.rcv_ooopack = Some(40);
    transfer
}

/// Returns one burst per round trip, whose size rises and falls like a congestion window.
fn sawtooth() -> Vec<(u64, u64)> {
    (0..60).map(|at| (TRIP, 6 + at % 7)).collect()
}

#[test]
fn a_first_loss_after_the_same_number_of_bytes_in_each_transfer_shows_a_policer() {
    let whole = download(&[(0, 5 * MSS), (TRIP, 5 * MSS)]);
    let smaller = in_bursts(&sawtooth()[..12], 40_000);
    let larger = in_bursts(&sawtooth(), 42_000);
    let cause = first(vec![whole.clone(), smaller.clone(), larger.clone()]).unwrap();
    assert_eq!(cause.0, CauseKind::RateLimiter);
    // Silences far beyond a round trip are those of a queue that is served in bursts.
    let near_kind = |mut transfer: FileTransfer| {
        transfer.tcp.min_rtt_ns = Some(2 * MS);
        transfer
    };
    let pieces: Vec<(u64, u64)> = sawtooth().iter().map(|(_, n)| (8 * MS * n, *n)).collect();
    let cause = first(vec![smaller.clone(), near_kind(in_bursts(&pieces, 42_000))]);
    assert_ne!(cause.map(|(kind, _)| kind), Some(CauseKind::RateLimiter));
    // With random loss, the first loss is elsewhere.
    let elsewhere = in_bursts(&sawtooth(), 90_000);
    assert_eq!(first(vec![whole.clone(), smaller.clone(), elsewhere]).unwrap().0, CauseKind::Loss);
    let mut lossy = whole;
    lossy.tcp.rcv_ooopack = Some(2);
    assert_eq!(first(vec![lossy, smaller.clone(), larger]).unwrap().0, CauseKind::Loss);
    // Behind a full link nothing arrives in bursts.
    let even: Vec<(u64, u64)> = (0..450).map(|_| (TRIP / 8, 1)).collect();
    let on_a_link = in_bursts(&even, 42_000);
    let cause = first(vec![smaller, on_a_link]);
    assert_ne!(cause.unwrap().0, CauseKind::RateLimiter);
}

#[test]
fn losses_without_silences_show_a_token_bucket_with_a_short_queue() {
    let small = download(&[(0, 5 * MSS), (MS, 5 * MSS)]);
    let mut gaps = on_a_link(200, 11 * MS);
    // Data behind a hole is read at once, although its segments arrived evenly.
    for hole in [50, 100, 150] {
        gaps[hole..hole + 9].iter_mut().for_each(|gap| gap.0 = 0);
        gaps[hole + 9].0 += 99 * MS;
    }
    let mut large = download(&gaps);
    let segment = |at: u64| Arrival { at_ns: 3 * TRIP + at * 11 * MS, bytes: 1 };
    large.segments = (0..200).map(segment).collect();
    large.tcp.rcv_ooopack = Some(27);
    let session = FileSession { transfers: vec![small, large], ..FileSession::default() };
    let sentence = causes(&session).first().unwrap().sentence();
    assert!(sentence.starts_with("A rate limiter (token bucket) on the path costs"), "{sentence}");
}

#[test]
fn an_upload_that_lengthens_round_trips_fills_a_queue_and_shows_no_policer() {
    // Each burst has the bytes for which tokens accumulate between two timeouts.
    let gaps: Vec<(u64, u64)> = (0..12).map(|_| (300 * MS, 24 * MSS)).collect();
    let mut upload = download(&gaps);
    upload.direction = Direction::Outgoing;
    upload.tcp.total_retrans = Some(80);
    upload.tcp.data_segs_out = Some(400);
    assert_eq!(first(vec![upload.clone()]).unwrap().0, CauseKind::RateLimiter);
    // Six segments take 75 ms on this link.
    upload.upper_rtt_ns = Some(TRIP + 70 * MS);
    assert_eq!(first(vec![upload.clone()]).unwrap().0, CauseKind::RateLimiter);
    upload.upper_rtt_ns = Some(TRIP + 80 * MS);
    assert_eq!(first(vec![upload]).unwrap().0, CauseKind::LineRate);
}

#[test]
fn segments_spaced_before_the_first_loss_have_passed_a_queue() {
    let of_a_link = |place: u64| {
        let mut gaps = on_a_link(30, 10 * MS);
        // A timer expires, and the segments that the queue dropped arrive again.
        gaps.extend((0..8).flat_map(|_| [(160 * MS, MSS), (10 * MS, 11 * MSS)]));
        let mut transfer = download(&gaps);
        transfer.tcp.rcv_ooopack = Some(40);
        transfer.first_loss_bytes = Some(place);
        transfer
    };
    let kind_of = |place| first(vec![of_a_link(place)]).unwrap().0;
    assert_eq!(kind_of(30 * MSS), CauseKind::LineRate);
    assert_ne!(kind_of(3 * MSS), CauseKind::LineRate);
}

#[test]
fn occasional_replies_with_equal_delays_show_reordering() {
    let late_to = |late_ms: u64, verbs: [&str; 3]| {
        let mut at_ns = 0;
        let mut transfer = download(&[(0, 10 * MSS), (MS, 10 * MSS)]);
        let mut exchanges = Vec::new();
        for step in 0..8 {
            let sent_ns = at_ns;
            at_ns += TRIP + if step % 4 == 0 || step == 7 { late_ms * MS } else { 0 };
            exchanges.push(exchange(verbs[step % verbs.len()], sent_ns, None, at_ns));
        }
        exchanges.append(&mut transfer.exchanges);
        transfer.exchanges = exchanges;
        transfer.total_ns += at_ns;
        transfer.tcp.rcv_ooopack = Some(2);
        transfer
    };
    let late_by = |late_ms| late_to(late_ms, ["SIZE", "MDTM", "REST"]);
    assert_eq!(first(vec![late_by(78)]).map(|(kind, _)| kind), Some(CauseKind::Reordering));
    // If only one command is slow, the server is the cause.
    let slow = late_to(78, ["SIZE"; 3]);
    assert_ne!(first(vec![slow]).map(|(kind, _)| kind), Some(CauseKind::Reordering));
    // A retransmission timer takes longer.
    assert_ne!(first(vec![late_by(220)]).map(|(kind, _)| kind), Some(CauseKind::Reordering));
    let mut in_order = late_by(78);
    in_order.tcp.rcv_ooopack = Some(0);
    assert_ne!(first(vec![in_order]).map(|(kind, _)| kind), Some(CauseKind::Reordering));
}

#[test]
fn bursts_proportional_to_their_time_show_a_policer() {
    let timers: Vec<(u64, u64)> = (0..9).map(|at| (240 * MS + at * MS, 17)).collect();
    let regular = in_bursts(&timers, 20_000);
    assert_eq!(first(vec![regular.clone()]).unwrap().0, CauseKind::RateLimiter);
    // A window that is filled each time causes no loss.
    let mut one = regular;
    one.tcp.rcv_ooopack = Some(1);
    assert_ne!(first(vec![one]).map(|(kind, _)| kind), Some(CauseKind::RateLimiter));
    let rng = [17, 3, 40, 9, 25, 2, 31, 12, 5].map(|segments| (240 * MS, segments));
    assert_eq!(first(vec![in_bursts(&rng, 20_000)]).unwrap().0, CauseKind::Loss);
}

#[test]
fn silences_after_lost_segments_are_charged_to_loss() {
    let mut gaps = on_a_link(100, MS / 10);
    for at in [13, 38, 55, 91] {
        gaps[at] = (300 * MS, MSS);
    }
    let mut transfer = download(&gaps);
    transfer.tcp.rcv_ooopack = Some(40);
    let (kind, gain_ms) = first(vec![transfer.clone()]).unwrap();
    assert_eq!(kind, CauseKind::Loss);
    assert!((950..1_250).contains(&gain_ms), "{gain_ms}");
    transfer.duplicates_in = Some(3);
    assert_eq!(first(vec![transfer]).unwrap().0, CauseKind::Reordering);
}

#[test]
fn a_slow_reading_server_is_distinguished_from_a_small_window() {
    let mut gaps = vec![(0, 8_000)];
    gaps.resize(40, (TRIP + MS / 10, 8_000));
    let mut transfer = download(&gaps);
    transfer.direction = Direction::Outgoing;
    transfer.tcp.rwnd_limited_ns = Some(39 * TRIP);
    transfer.peer_window_bytes = Some([8_000, 8_500]);
    assert_eq!(first(vec![transfer.clone()]).unwrap().0, CauseKind::SmallWindow);
    transfer.peer_window_bytes = Some([0, 65_000]);
    assert_eq!(first(vec![transfer.clone()]).unwrap().0, CauseKind::SlowReader);
    transfer.peer_window_bytes = Some([0, 6_000_000]);
    assert_ne!(first(vec![transfer.clone()]).map(|(kind, _)| kind), Some(CauseKind::SlowReader));
    transfer.peer_window_bytes = Some([0, 65_000]);
    transfer.tcp.rwnd_limited_ns = Some(0);
    assert_ne!(first(vec![transfer]).map(|(kind, _)| kind), Some(CauseKind::SlowReader));
}

#[test]
fn a_distant_server_is_charged_to_the_round_trip_time() {
    let trip = 200 * MS;
    let mut transfer = download(&[(0, 10 * MSS), (trip, 20 * MSS)]);
    transfer.tcp.min_rtt_ns = Some(trip);
    transfer.connected_ns = Some(2 * trip);
    transfer.first_byte_ns = Some(3 * trip);
    transfer.last_byte_ns = Some(4 * trip);
    transfer.total_ns = 4 * trip;
    transfer.exchanges =
        vec![exchange("EPSV", 0, None, trip), exchange("RETR", 0, Some(3 * trip), 4 * trip)];
    assert_eq!(first(vec![transfer]), Some((CauseKind::Distance, 800)));
}

#[test]
fn a_wait_for_the_local_processor_is_charged_to_the_local_host() {
    let mut transfer = download(&on_a_link(200, 11 * MS));
    transfer.own_wait_ns = Some(transfer.total_ns / 2);
    assert_eq!(first(vec![transfer.clone()]).unwrap().0, CauseKind::LocalProcessor);
    transfer.own_wait_ns = Some(transfer.total_ns / 8);
    assert_eq!(first(vec![transfer.clone()]).unwrap().0, CauseKind::LineRate);
    // Removing the wait does not save the round trips.
    transfer.own_wait_ns = Some(transfer.total_ns * 2);
    let diagnosis =
        causes(&FileSession { transfers: vec![transfer.clone()], ..FileSession::default() });
    assert_eq!(diagnosis[0].kind, CauseKind::LocalProcessor);
    assert!(diagnosis[0].gain_ns <= transfer.total_ns - 2 * TRIP, "{diagnosis:?}");
}

#[test]
fn three_segments_at_once_show_a_rate_limiter_instead_of_a_slow_link() {
    let small = download(&[(0, 3 * MSS)]);
    let large = download(&on_a_link(200, 17 * MS));
    let kind_of = |small: &FileTransfer| first(vec![small.clone(), large.clone()]).unwrap().0;
    assert_eq!(kind_of(&small), CauseKind::RateLimiter);
    // On a link they arrive separately.
    assert_eq!(kind_of(&download(&on_a_link(3, 17 * MS))), CauseKind::LineRate);
    // A reader that waited for its processor finds them together.
    let late = FileTransfer { own_wait_ns: Some(30 * MS), ..small };
    assert_eq!(kind_of(&late), CauseKind::LineRate);
}

#[test]
fn unexplained_time_has_an_unknown_cause() {
    let mut transfer = download(&on_a_link(2, MS));
    transfer.exchanges.clear();
    transfer.total_ns = 4_000 * MS;
    assert_eq!(first(vec![transfer]).unwrap().0, CauseKind::Unknown);
}

#[test]
fn a_long_step_is_reported_regardless_of_its_share() {
    let mut transfer = download(&on_a_link(20, MS));
    transfer.total_ns = 30_000 * MS;
    transfer.exchanges = vec![
        exchange("EPSV", 0, None, TRIP + 1_200 * MS),
        exchange("RETR", 0, Some(3 * TRIP), 30_000 * MS),
    ];
    transfer.tcp.rcv_ooopack = Some(1);
    transfer.connected_ns = Some(2 * TRIP + 1_200 * MS);
    transfer.last_byte_ns = Some(29_990 * MS);
    let session = FileSession { transfers: vec![transfer], ..FileSession::default() };
    assert_eq!(causes(&session).first().unwrap().kind, CauseKind::SlowCommand);
}

/// Returns a TFTP transfer of 40 blocks of 1,428 bytes, `each_ns` apart, and a control run whose
/// blocks of 512 bytes take `short_ns`.
fn tftp(each_ns: u64, short_ns: Option<u64>, trip_ns: u64) -> FileSession {
    let control_run = |block: u64, each_ns: u64, count: u64| FileTransfer {
        bytes: block * count,
        total_ns: 2 * trip_ns + each_ns * count,
        connected_ns: Some(trip_ns),
        first_byte_ns: Some(trip_ns + each_ns),
        arrivals: (1..=count)
            .map(|at| Arrival { at_ns: trip_ns + at * each_ns, bytes: block })
            .collect(),
        block_bytes: Some(block),
        window_blocks: Some(1),
        timeouts: Some(0),
        repeated_blocks: Some(0),
        ..FileTransfer::default()
    };
    FileSession {
        protocol: Protocol::Tftp,
        resolve_ns: Some(0),
        transfers: vec![control_run(1_428, each_ns, 40)],
        control: short_ns.map(|ns| control_run(512, ns, 12)),
        ..FileSession::default()
    }
}

fn first_of(session: &FileSession) -> Option<CauseKind> {
    causes(session).first().map(|cause| cause.kind)
}

#[test]
fn one_block_per_long_round_trip_is_lock_step() {
    assert_eq!(first_of(&tftp(100 * MS, None, 100 * MS)), Some(CauseKind::LockStep));
    assert_eq!(first_of(&tftp(20 * MS, None, 20 * MS)), None);
}

#[test]
fn shorter_blocks_distinguish_a_slow_link_from_a_slow_server() {
    assert_eq!(first_of(&tftp(50 * MS, Some(25 * MS), 10 * MS)), Some(CauseKind::LineRate));
    assert_eq!(first_of(&tftp(50 * MS, Some(49 * MS), 10 * MS)), Some(CauseKind::SlowDisk));
    let session = tftp(50 * MS, None, 10 * MS);
    let sentence = causes(&session)[0].sentence();
    assert!(sentence.starts_with("Either the rate of the path's slowest link or"), "{sentence}");
}

#[test]
fn a_late_first_block_is_charged_to_the_server_unless_a_timer_expired() {
    let mut session = tftp(10 * MS, None, 10 * MS);
    let transfer = &mut session.transfers[0];
    transfer.first_byte_ns = Some(1_520 * MS);
    transfer.total_ns += 1_500 * MS;
    assert_eq!(first_of(&session), Some(CauseKind::SlowFirstByte));
    session.transfers[0].timeouts = Some(1);
    assert_eq!(first_of(&session), Some(CauseKind::Loss));
}

#[test]
fn windows_of_blocks_that_end_early_show_loss_and_no_slow_link() {
    let trip = 40 * MS;
    let windows = [16_u64, 4, 9, 3, 16, 5, 11];
    let mut session = tftp(trip, None, trip);
    let transfer = &mut session.transfers[0];
    let mut at_ns = 0;
    transfer.arrivals.clear();
    for blocks in windows {
        at_ns += trip;
        let of_window =
            (0..blocks).map(|block| Arrival { at_ns: at_ns + block * MS / 2, bytes: 512 });
        transfer.arrivals.extend(of_window);
        at_ns += blocks * MS / 2;
    }
    transfer.bytes = 512 * windows.iter().sum::<u64>();
    transfer.total_ns = at_ns;
    transfer.connected_ns = Some(trip);
    transfer.first_byte_ns = Some(trip);
    transfer.block_bytes = Some(512);
    transfer.window_blocks = Some(16);
    transfer.repeated_blocks = Some(12);
    let loss = causes(&session).into_iter().find(|cause| cause.kind == CauseKind::Loss).unwrap();
    // Four windows were needed.
    assert_eq!(loss.cost_ns, 3 * trip);
    assert!(loss.advice.starts_with("blocks arrived twice"), "{loss:?}");
    session.transfers[0].repeated_blocks = Some(0);
    assert!(causes(&session).iter().all(|cause| cause.kind != CauseKind::Loss));
    // On a link where a block takes as long as the round trip, one repeat costs one round trip at
    // most.
    let arrivals = &mut session.transfers[0].arrivals;
    for (arrival, number) in arrivals.iter_mut().zip(1..) {
        arrival.at_ns = number * 45 * MS;
    }
    session.transfers[0].total_ns = 64 * 45 * MS;
    session.transfers[0].repeated_blocks = Some(1);
    let loss = causes(&session).into_iter().find(|cause| cause.kind == CauseKind::Loss);
    assert!(loss.is_none_or(|loss| loss.cost_ns <= trip), "one block was repeated");
}

#[test]
fn single_packets_show_a_token_bucket_and_blocks_a_slow_disk() {
    let transfer_behind = |each_ns: u64, bytes: u64, count: usize| {
        let mut gaps = vec![(0, 40 * MSS), (2 * MS, 40 * MSS)];
        gaps.resize(2 + count, (each_ns, bytes));
        first(vec![download(&gaps)]).map(|(kind, _)| kind)
    };
    assert_eq!(transfer_behind(19 * MS, MSS, 16), Some(CauseKind::RateLimiter));
    assert_ne!(transfer_behind(60 * MS, 8 * MSS, 12), Some(CauseKind::RateLimiter));
}

#[test]
fn one_stall_after_a_single_segment_is_a_pause_and_spaced_packets_are_not() {
    let stalled_download = download(&[(0, MSS), (2_000 * MS, 40 * MSS), (MS, 40 * MSS)]);
    assert_eq!(first(vec![stalled_download]).map(|(kind, _)| kind), Some(CauseKind::SlowDisk));
}

#[test]
fn a_late_reply_of_one_transfer_shows_loss_only_if_it_is_as_late_as_a_timer() {
    let with_late_reply = |late_ms: u64| {
        let usual = download(&[(0, 10 * MSS), (MS, 10 * MSS)]);
        let mut lossy = usual.clone();
        lossy.tcp.rcv_ooopack = Some(1);
        let mut late = download(&[(0, 10 * MSS), (MS, 20 * MSS)]);
        late.total_ns += late_ms * MS;
        late.exchanges[1].replied_ns = Some(late.total_ns);
        first(vec![usual, lossy, late]).map(|(kind, _)| kind)
    };
    assert_eq!(with_late_reply(150), Some(CauseKind::LateLastReply));
    assert_eq!(with_late_reply(220), Some(CauseKind::Loss));
}

#[test]
fn a_timeout_of_this_host_may_be_short() {
    let mut session = tftp(10 * MS, None, 10 * MS);
    for arrival in session.transfers[0].arrivals.iter_mut().skip(20) {
        arrival.at_ns += 240 * MS;
    }
    session.transfers[0].total_ns += 240 * MS;
    assert_ne!(first_of(&session), Some(CauseKind::Loss));
    session.transfers[0].timeouts = Some(1);
    assert_eq!(first_of(&session), Some(CauseKind::Loss));
}

#[test]
fn a_silence_of_a_second_between_blocks_is_a_timeout() {
    let mut session = tftp(10 * MS, None, 10 * MS);
    let transfer = &mut session.transfers[0];
    for arrival in transfer.arrivals.iter_mut().skip(20) {
        arrival.at_ns += 1_000 * MS;
    }
    transfer.total_ns += 1_000 * MS;
    assert_eq!(first_of(&session), Some(CauseKind::Loss));
}

proptest! {
    #[test]
    fn no_session_causes_a_panic(
        // No file has more bytes than this.
        raw in proptest::collection::vec((any::<u64>(), 0..1_u64 << 48), 0..12),
        numbers: [Option<u64>; 16],
        is_tftp: bool,
        is_outgoing: bool,
        total_ns: u64,
    ) {
        let n = |index: usize| numbers[index];
        let transfer = FileTransfer {
            direction: if is_outgoing { Direction::Outgoing } else { Direction::Incoming },
            bytes: total_ns.rotate_left(7),
            total_ns,
            exchanges: vec![
                Exchange { verb: "EPSV".to_owned(), replied_ns: n(0), ..Exchange::default() },
                Exchange { verb: "RETR".to_owned(), preliminary_ns: n(1), replied_ns: n(2), ..Exchange::default() },
            ],
            connected_ns: n(3),
            first_byte_ns: n(4),
            last_byte_ns: n(5),
            arrivals: raw.into_iter().map(|(at_ns, bytes)| Arrival { at_ns, bytes }).collect(),
            tcp: DataTcp {
                min_rtt_ns: n(6), rcv_mss: n(7), snd_mss: n(8), pmtu: n(9), rcv_ooopack: n(10),
                total_retrans: n(11), rwnd_limited_ns: n(12), data_segs_out: n(13), ..DataTcp::default()
            },
            peer_window_bytes: n(14).map(|window| [0, window]),
            own_window_bytes: n(14),
            duplicates_in: n(15),
            own_wait_ns: n(15),
            block_bytes: n(7),
            window_blocks: n(8),
            timeouts: n(9),
            ..FileTransfer::default()
        };
        let session = FileSession {
            protocol: if is_tftp { Protocol::Tftp } else { Protocol::Ftp },
            resolve_ns: n(0),
            connect_ns: n(1),
            greeting_ns: n(2),
            login_ns: n(3),
            control: Some(transfer.clone()),
            aborted: Some(Aborted { transfer: transfer.clone(), reason: "x".to_owned() }),
            transfers: vec![transfer.clone(), FileTransfer { bytes: 1, ..transfer }],
            ..FileSession::default()
        };
        for cause in causes(&session) {
            prop_assert!(cause.gain_ns <= cause.cost_ns && cause.cost_ns <= cause.total_ns);
            _ = cause.sentence();
        }
    }
}

#[test]
fn a_window_of_blocks_that_overflows_a_queue_each_time_is_charged_to_the_link() {
    let trip = 40 * MS;
    // Blocks of 1,428 bytes take 8 ms and those of 512 bytes 3 ms; a timer waits for 300 ms.
    let of_windows = |lossy: u64| {
        let mut session = tftp(8 * MS, Some(3 * MS), trip);
        let transfer = &mut session.transfers[0];
        let mut at_ns = trip;
        transfer.arrivals.clear();
        for window in 0..6 {
            at_ns += trip;
            for block in 0..16 {
                let is_late = block == 12 && window < lossy;
                at_ns += if is_late { 300 * MS } else { 8 * MS };
                transfer.arrivals.push(Arrival { at_ns, bytes: 1_428 });
            }
        }
        transfer.bytes = 6 * 16 * 1_428;
        transfer.total_ns = at_ns;
        transfer.window_blocks = Some(16);
        transfer.timeouts = Some(lossy);
        causes(&session).first().map(|cause| cause.kind)
    };
    assert_eq!(of_windows(6), Some(CauseKind::LineRate));
    assert_eq!(of_windows(3), Some(CauseKind::Loss), "by chance in every second window");
}
