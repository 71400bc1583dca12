//! Boundaries of the rules for transfers by TFTP.

use super::{MS, tftp};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::files::tftp_transfer::{causes, trip_ns};
use crate::verdict::files::{FileSession, FileTransfer};
use crate::verdict::tests::described;
use crate::verdict::{Arrival, Direction};

/// Returns the session of `tftp` with its transfer changed.
fn changed(session: FileSession, change: impl Fn(&mut FileTransfer)) -> FileSession {
    let mut session = session;
    change(&mut session.transfers[0]);
    session
}

fn of(session: &FileSession, kind: CauseKind) -> Option<Cause> {
    causes(session).into_iter().find(|cause| cause.kind == kind)
}

fn cost(session: &FileSession, kind: CauseKind) -> Option<u64> {
    of(session, kind).map(|cause| cause.cost_ns)
}

/// Returns a transfer of blocks of 512 bytes, one of `gaps` after each other.
fn blocks(gaps: &[u64], window_blocks: Option<u64>) -> FileTransfer {
    let mut at_ns = 0;
    let mut arrivals = vec![Arrival { at_ns, bytes: 512 }];
    for gap in gaps {
        at_ns += gap;
        arrivals.push(Arrival { at_ns, bytes: 512 });
    }
    FileTransfer { arrivals, window_blocks, block_bytes: Some(512), ..FileTransfer::default() }
}

#[test]
fn the_round_trip_is_that_of_the_options_or_the_tenth_percentile_of_the_blocks() {
    let trip = |transfer: &FileTransfer, options: &[Option<u64>]| {
        let run = |connected_ns| FileTransfer { connected_ns, ..FileTransfer::default() };
        let transfers = options.iter().map(|ns| run(*ns)).collect();
        trip_ns(&FileSession { transfers, ..FileSession::default() }, transfer)
    };
    let gaps: Vec<u64> = (1..=20).map(|ms| ms * MS).collect();
    let alone = blocks(&gaps, None);
    assert_eq!(trip(&alone, &[]), Some(2 * MS));
    assert_eq!(trip(&alone, &[Some(9 * MS), Some(0), None]), Some(2 * MS));
    assert_eq!(trip(&alone, &[Some(9 * MS), Some(MS)]), Some(MS));
    // The last block of a window may be followed by one that was in flight already.
    let window = blocks(&[8 * MS, 3 * MS, 8 * MS, 3 * MS], Some(2));
    assert_eq!(trip(&window, &[]), Some(3 * MS));
    assert_eq!(trip(&window, &[Some(9 * MS)]), Some(9 * MS));
    let single = blocks(&[8 * MS, 3 * MS], Some(1));
    assert_eq!(trip(&single, &[Some(9 * MS)]), Some(3 * MS));
    assert_eq!(trip(&blocks(&[0, 0], None), &[]), None);
    let mut default_size = blocks(&[8 * MS, 3 * MS], None);
    default_size.block_bytes = None;
    assert_eq!(trip(&default_size, &[]), Some(3 * MS));
}

/// Returns the cost of losses if one of 40 blocks, each `each_ms` after the previous one, arrives
/// `gap` after it.
fn loss(gap: u64, each_ms: u64, timeouts: u64) -> u64 {
    let session = changed(tftp(each_ms * MS, None, each_ms * MS), |transfer| {
        for arrival in transfer.arrivals.iter_mut().skip(20) {
            arrival.at_ns += gap - each_ms * MS;
        }
        transfer.total_ns += gap;
        transfer.timeouts = Some(timeouts);
    });
    cost(&session, CauseKind::Loss).unwrap()
}

#[test]
fn a_silence_as_long_as_a_timer_is_a_loss() {
    assert_eq!([300 * MS - 1, 300 * MS].map(|gap| loss(gap, 10, 0)), [0, 290 * MS]);
    assert_eq!([100 * MS - 1, 100 * MS].map(|gap| loss(gap, 10, 1)), [0, 90 * MS]);
    // A timer is at least five times as long as the time of a block.
    assert_eq!([350 * MS - 1, 350 * MS].map(|gap| loss(gap, 70, 0)), [0, 280 * MS]);
    assert_eq!([150 * MS - 1, 150 * MS].map(|gap| loss(gap, 30, 1)), [0, 120 * MS]);
}

#[test]
fn losses_are_described_by_their_timeouts() {
    let sentence = |late: usize, repeated: u64, timeouts: u64| {
        let session = changed(tftp(10 * MS, None, 10 * MS), |transfer| {
            for at in 0..late {
                for arrival in transfer.arrivals.iter_mut().skip(10 * (at + 1)) {
                    arrival.at_ns += 400 * MS;
                }
            }
            transfer.total_ns += 1_200 * MS;
            transfer.repeated_blocks = Some(repeated);
            transfer.timeouts = Some(timeouts);
        });
        described(of(&session, CauseKind::Loss).as_slice())
    };
    let all = [sentence(1, 0, 0), sentence(2, 1, 0), sentence(1, 0, 1), sentence(0, 1, 0)];
    insta::assert_snapshot!(all.join("\n"), @"
    loss of the transfer: 400000000 ns, 400000000 ns of 1620000000 ns
      Packet loss costs 400 ms of the 1.62 s of the transfer (25 %): 1 block arrived only
      after a timeout, the longest after 410 ms, although no block arrived twice. Find the
      link that loses packets, and set a shorter timeout (RFC 2349).
    loss of the transfer: 800000000 ns, 800000000 ns of 1620000000 ns
      Packet loss costs 800 ms of the 1.62 s of the transfer (49 %): 2 blocks arrived only
      after a timeout, the longest after 410 ms. Find the link that loses packets, and set a
      shorter timeout (RFC 2349).
    loss of the transfer: 400000000 ns, 400000000 ns of 1620000000 ns
      Packet loss costs 400 ms of the 1.62 s of the transfer (25 %): 1 block arrived only
      after a timeout, the longest after 410 ms. Find the link that loses packets, and set a
      shorter timeout (RFC 2349).
    loss of the transfer: 0 ns, 0 ns of 1620000000 ns
      Packet loss costs 0 ns of the 1.62 s of the transfer (0 %): blocks arrived twice, and
      windows of blocks ended early. Find the link that loses packets.
    ");
}

fn late_first_block(late_ns: u64, control_ns: Option<u64>, timeouts: u64) -> Cause {
    let mut session = changed(tftp(10 * MS, Some(10 * MS), 10 * MS), |transfer| {
        transfer.first_byte_ns = Some(20 * MS + late_ns);
        transfer.total_ns += 3_000 * MS;
        transfer.timeouts = Some(timeouts);
    });
    session.control.as_mut().unwrap().first_byte_ns = control_ns;
    let kinds = [CauseKind::SlowFirstByte, CauseKind::Loss];
    causes(&session).into_iter().find(|cause| kinds.contains(&cause.kind)).unwrap()
}

#[test]
fn a_first_block_later_than_a_timer_was_requested_twice() {
    let kind = |late_ns, control_ns, timeouts| late_first_block(late_ns, control_ns, timeouts).kind;
    let [server, lost] = [CauseKind::SlowFirstByte, CauseKind::Loss];
    assert_eq!([950 * MS - 1, 950 * MS].map(|ns| kind(ns, None, 1)), [server, lost]);
    assert_eq!(kind(950 * MS, None, 0), server);
    // In the control run it is late by half of the delay as well.
    let control = [475 * MS - 1, 475 * MS].map(|ns| kind(950 * MS, Some(ns), 1));
    assert_eq!(control, [lost, server]);
    let both = [late_first_block(950 * MS, None, 1), late_first_block(200 * MS, None, 0)];
    insta::assert_snapshot!(described(&both), @"
    loss of the transfer: 950000000 ns, 950000000 ns of 3420000000 ns
      Packet loss (the request) costs 950 ms of the 3.42 s of the transfer (28 %): the request
      or its reply was repeated after a timeout. Find the link that loses packets.
    slow first byte of the transfer: 200000000 ns, 200000000 ns of 3420000000 ns
      The server's late first block costs 200 ms of the 3.42 s of the transfer (6 %): it
      arrived that much later than the round trips of 10.0 ms require. Check how the server
      finds and opens the file, and how it authorizes the request.
    ");
    let ignored = changed(tftp(10 * MS, None, 10 * MS), |transfer| transfer.connected_ns = None);
    // Without options, the first block takes one round trip.
    assert_eq!(cost(&ignored, CauseKind::SlowFirstByte), Some(10 * MS));
}

#[test]
fn a_wait_for_a_processor_of_a_third_of_the_transfer_is_its_only_cause() {
    let causes = |own_wait_ns: u64| {
        causes(&changed(tftp(10 * MS, None, 10 * MS), |transfer| {
            transfer.total_ns = 900 * MS;
            transfer.own_wait_ns = Some(own_wait_ns);
        }))
    };
    assert_eq!(causes(300 * MS).len(), 2);
    assert!(causes(300 * MS - 1).len() > 2);
    insta::assert_snapshot!(described(&causes(300 * MS)), @"
    name server of connection set-up: 0 ns, 0 ns of 0 ns
      Name resolution costs 0 ns of the 0 ns of connection set-up (-): the lookup of the host
      name took that long. Check the DNS servers in /etc/resolv.conf, or add the address to
      /etc/hosts.
    own processor of the transfer: 300000000 ns, 300000000 ns of 900000000 ns
      This host's busy processor costs 300 ms of the 900 ms of the transfer (33 %): plumb
      waited that long in the run queue of a processor. Stop other processes on this host.
    ");
}

#[test]
fn a_short_block_takes_as_long_as_its_bytes_on_a_link() {
    // 40 blocks of 1,428 bytes take 39 times 1.46 ms beyond the round trips, and a block of 512
    // bytes 0.98 ms, halfway between a link and a server.
    let kind = |short_ns: u64| {
        let session = tftp(11_460_000, Some(10 * MS + short_ns), 10 * MS);
        let kinds = [CauseKind::LineRate, CauseKind::SlowDisk, CauseKind::Unknown];
        causes(&session).into_iter().find(|cause| kinds.contains(&cause.kind)).unwrap().kind
    };
    let kinds = [976_950, 976_951].map(kind);
    assert_eq!(kinds, [CauseKind::LineRate, CauseKind::SlowDisk]);
}

#[test]
fn blocks_of_half_the_size_distinguish_a_link_from_a_server() {
    let kind = |short: u64| {
        let mut session = tftp(50 * MS, Some(49 * MS), 10 * MS);
        let control = session.control.as_mut().unwrap();
        control.block_bytes = Some(short);
        for arrival in &mut control.arrivals {
            arrival.bytes = short;
        }
        let kinds = [CauseKind::SlowDisk, CauseKind::Unknown];
        causes(&session).into_iter().find(|cause| kinds.contains(&cause.kind)).unwrap().kind
    };
    assert_eq!([714, 715].map(kind), [CauseKind::SlowDisk, CauseKind::Unknown]);
}

#[test]
fn a_slow_link_and_a_slow_server_are_described_with_the_time_of_a_block() {
    let link = tftp(50 * MS, Some(25 * MS), 10 * MS);
    let server = tftp(50 * MS, Some(49 * MS), 10 * MS);
    let unknown = tftp(50 * MS, None, 10 * MS);
    insta::assert_snapshot!([link, server, unknown].map(|one| described(&causes(&one))).join("\n\n"), @"
    name server of connection set-up: 0 ns, 0 ns of 0 ns
      Name resolution costs 0 ns of the 0 ns of connection set-up (-): the lookup of the host
      name took that long. Check the DNS servers in /etc/resolv.conf, or add the address to
      /etc/hosts.
    slow first byte of the transfer: 0 ns, 0 ns of 2020000000 ns
      The server's late first block costs 0 ns of the 2.02 s of the transfer (0 %): it arrived
      that much later than the round trips of 10.0 ms require. Check how the server finds and
      opens the file, and how it authorizes the request.
    own processor of the transfer: 0 ns, 0 ns of 2020000000 ns
      This host's busy processor costs 0 ns of the 2.02 s of the transfer (0 %): plumb waited
      that long in the run queue of a processor. Stop other processes on this host.
    loss of the transfer: 0 ns, 0 ns of 2020000000 ns
      Packet loss costs 0 ns of the 2.02 s of the transfer (0 %): blocks arrived twice, and
      windows of blocks ended early. Find the link that loses packets.
    line rate of the transfer: 1560000000 ns, 1560000000 ns of 2020000000 ns
      The rate of the path's slowest link costs 1.56 s of the 2.02 s of the transfer (77 %):
      each block takes 39.0 ms beyond the round-trip time of 10.0 ms, and a shorter block
      takes less, so the link carries 299 kbit/s. Use a faster link.

    name server of connection set-up: 0 ns, 0 ns of 0 ns
      Name resolution costs 0 ns of the 0 ns of connection set-up (-): the lookup of the host
      name took that long. Check the DNS servers in /etc/resolv.conf, or add the address to
      /etc/hosts.
    slow first byte of the transfer: 0 ns, 0 ns of 2020000000 ns
      The server's late first block costs 0 ns of the 2.02 s of the transfer (0 %): it arrived
      that much later than the round trips of 10.0 ms require. Check how the server finds and
      opens the file, and how it authorizes the request.
    own processor of the transfer: 0 ns, 0 ns of 2020000000 ns
      This host's busy processor costs 0 ns of the 2.02 s of the transfer (0 %): plumb waited
      that long in the run queue of a processor. Stop other processes on this host.
    loss of the transfer: 0 ns, 0 ns of 2020000000 ns
      Packet loss costs 0 ns of the 2.02 s of the transfer (0 %): blocks arrived twice, and
      windows of blocks ended early. Find the link that loses packets.
    slow disk of the transfer: 1560000000 ns, 1560000000 ns of 2020000000 ns
      The server's slow file access before each block (storage) costs 1.56 s of the 2.02 s of
      the transfer (77 %): each block takes 39.0 ms beyond the round-trip time of 10.0 ms, and
      a shorter block takes as long. Check the disk and the load there.

    name server of connection set-up: 0 ns, 0 ns of 0 ns
      Name resolution costs 0 ns of the 0 ns of connection set-up (-): the lookup of the host
      name took that long. Check the DNS servers in /etc/resolv.conf, or add the address to
      /etc/hosts.
    slow first byte of the transfer: 0 ns, 0 ns of 2020000000 ns
      The server's late first block costs 0 ns of the 2.02 s of the transfer (0 %): it arrived
      that much later than the round trips of 10.0 ms require. Check how the server finds and
      opens the file, and how it authorizes the request.
    own processor of the transfer: 0 ns, 0 ns of 2020000000 ns
      This host's busy processor costs 0 ns of the 2.02 s of the transfer (0 %): plumb waited
      that long in the run queue of a processor. Stop other processes on this host.
    loss of the transfer: 0 ns, 0 ns of 2020000000 ns
      Packet loss costs 0 ns of the 2.02 s of the transfer (0 %): blocks arrived twice, and
      windows of blocks ended early. Find the link that loses packets.
    unknown of the transfer: 1560000000 ns, 1560000000 ns of 2020000000 ns
      Either the rate of the path's slowest link or the server's slow storage costs 1.56 s of
      the 2.02 s of the transfer (77 %): at this block size, each block takes 39.0 ms beyond
      the round-trip time of 10.0 ms. To tell them apart, measure with another block size: a
      shorter block takes less time only on a slow link.
    ");
}

#[test]
fn each_block_of_a_distant_server_takes_a_round_trip() {
    let near = tftp(50 * MS - 1, None, 50 * MS - 1);
    assert_eq!(of(&near, CauseKind::LockStep), None);
    let far = tftp(50 * MS, None, 50 * MS);
    let without_options = changed(far.clone(), |transfer| {
        transfer.connected_ns = None;
        transfer.bytes += 1;
    });
    let windows = changed(far.clone(), |transfer| {
        transfer.window_blocks = Some(4);
        transfer.block_bytes = None;
    });
    let all = [far, without_options, windows].map(|one| of(&one, CauseKind::LockStep).unwrap());
    insta::assert_snapshot!(described(&all), @"
    lock-step of the transfer: 2050000000 ns, 2050000000 ns of 2100000000 ns
      TFTP's lock-step transfer (one block per round trip) costs 2.05 s of the 2.10 s of the
      transfer (98 %): it took 41 round trips of 50.0 ms, with one block per round trip and a
      block size of 1,428 bytes. Use larger blocks (blksize, RFC 2348), several blocks per
      round trip (windowsize, RFC 7440), and a server that supports these options.
    lock-step of the transfer: 2050000000 ns, 2050000000 ns of 2100000000 ns
      TFTP's lock-step transfer (one block per round trip) costs 2.05 s of the 2.10 s of the
      transfer (98 %): it took 41 round trips of 50.0 ms, with one block per round trip and a
      block size of 1,428 bytes. Use larger blocks (blksize, RFC 2348), several blocks per
      round trip (windowsize, RFC 7440), and a server that supports these options.
    lock-step of the transfer: 1450000000 ns, 1450000000 ns of 2100000000 ns
      TFTP's lock-step transfer (one window of blocks per round trip) costs 1.45 s of the 2.10
      s of the transfer (69 %): it took 29 round trips of 50.0 ms, with 4 blocks per round
      trip and a block size of unknown bytes. Use larger blocks (blksize, RFC 2348), several
      blocks per round trip (windowsize, RFC 7440), and a server that supports these options.
    ");
}

/// Returns a transfer of `windows` windows of `blocks` blocks of 1,428 bytes over 40 ms. A block
/// takes `each_ns`, and the third last one of the first `lossy` windows 400 ms.
fn windows(windows: u64, blocks: u64, each_ns: u64, lossy: u64) -> FileSession {
    let trip = 40 * MS;
    changed(tftp(8 * MS, Some(3 * MS), trip), |transfer| {
        let mut at_ns = trip;
        transfer.arrivals.clear();
        for window in 0..windows {
            at_ns += trip;
            for block in 0..blocks {
                let is_late = block + 3 == blocks && window < lossy;
                at_ns += if is_late { 400 * MS } else { each_ns };
                transfer.arrivals.push(Arrival { at_ns, bytes: 1_428 });
            }
        }
        transfer.bytes = windows * blocks * 1_428;
        transfer.total_ns = at_ns;
        transfer.window_blocks = Some(blocks);
        transfer.timeouts = Some(lossy);
        transfer.repeated_blocks = Some(0);
    })
}

#[test]
fn a_window_that_loses_blocks_each_time_or_takes_longer_than_a_timer_overflows_a_queue() {
    let loses = |session: &FileSession| of(session, CauseKind::Loss).is_some();
    // Three windows are enough, and two may be coincidence.
    assert!(!loses(&windows(3, 8, 8 * MS, 3)) && loses(&windows(2, 8, 8 * MS, 2)));
    assert!(loses(&windows(3, 8, 8 * MS, 2)));
    // A window of 64 blocks takes longer than a timer.
    assert!(!loses(&windows(3, 64, 8 * MS, 1)) && loses(&windows(3, 8, 8 * MS, 1)));
    insta::assert_snapshot!(described(&causes(&windows(3, 8, 8 * MS, 3))), @"
    name server of connection set-up: 0 ns, 0 ns of 0 ns
      Name resolution costs 0 ns of the 0 ns of connection set-up (-): the lookup of the host
      name took that long. Check the DNS servers in /etc/resolv.conf, or add the address to
      /etc/hosts.
    slow first byte of the transfer: 0 ns, 0 ns of 1528000000 ns
      The server's late first block costs 0 ns of the 1.53 s of the transfer (0 %): it arrived
      that much later than the round trips of 40.0 ms require. Check how the server finds and
      opens the file, and how it authorizes the request.
    own processor of the transfer: 0 ns, 0 ns of 1528000000 ns
      This host's busy processor costs 0 ns of the 1.53 s of the transfer (0 %): plumb waited
      that long in the run queue of a processor. Stop other processes on this host.
    line rate of the transfer: 1360000000 ns, 1360000000 ns of 1528000000 ns
      The rate of the path's slowest link costs 1.36 s of the 1.53 s of the transfer (89 %):
      each block takes 6.67 ms beyond the round-trip time of 40.0 ms, and a shorter block
      takes less, so the link carries 1.75 Mbit/s; its queue cannot hold a window of 8 blocks,
      so blocks are lost. Use a smaller window (RFC 7440).
    ");
    insta::assert_snapshot!(described(&causes(&windows(3, 8, 8 * MS, 1))), @"
    name server of connection set-up: 0 ns, 0 ns of 0 ns
      Name resolution costs 0 ns of the 0 ns of connection set-up (-): the lookup of the host
      name took that long. Check the DNS servers in /etc/resolv.conf, or add the address to
      /etc/hosts.
    slow first byte of the transfer: 0 ns, 0 ns of 744000000 ns
      The server's late first block costs 0 ns of the 744 ms of the transfer (0 %): it arrived
      that much later than the round trips of 40.0 ms require. Check how the server finds and
      opens the file, and how it authorizes the request.
    own processor of the transfer: 0 ns, 0 ns of 744000000 ns
      This host's busy processor costs 0 ns of the 744 ms of the transfer (0 %): plumb waited
      that long in the run queue of a processor. Stop other processes on this host.
    loss of the transfer: 352000000 ns, 352000000 ns of 744000000 ns
      Packet loss costs 352 ms of the 744 ms of the transfer (47 %): 1 block arrived only
      after a timeout, the longest after 400 ms. Find the link that loses packets, and set a
      shorter timeout (RFC 2349).
    line rate of the transfer: 176000000 ns, 176000000 ns of 744000000 ns
      The rate of the path's slowest link costs 176 ms of the 744 ms of the transfer (24 %):
      each block takes 7.33 ms beyond the round-trip time of 40.0 ms, and a shorter block
      takes less, so the link carries 1.59 Mbit/s. Use a faster link.
    ");
}

#[test]
fn a_window_that_ends_early_is_followed_by_three_quarters_of_a_round_trip() {
    let short_windows = |wait_ns: u64, repeated: u64| {
        let trip = 40 * MS;
        let session = changed(tftp(trip, None, trip), |transfer| {
            let mut at_ns = trip;
            transfer.arrivals.clear();
            // Windows of 4 blocks, of which each second one has only 2.
            for blocks in [4, 2, 4, 2, 4_u64] {
                for block in 0..blocks {
                    at_ns += if block == 0 { wait_ns } else { MS };
                    transfer.arrivals.push(Arrival { at_ns, bytes: 512 });
                }
            }
            transfer.bytes = 16 * 512;
            transfer.total_ns = at_ns;
            transfer.block_bytes = Some(512);
            transfer.window_blocks = Some(4);
            transfer.repeated_blocks = Some(repeated);
        });
        cost(&session, CauseKind::Loss).unwrap()
    };
    // Four windows were necessary, and five are observed.
    assert_eq!(short_windows(31 * MS, 9), 40 * MS);
    assert_eq!(short_windows(31 * MS - 1, 9), 0);
    assert_eq!(short_windows(31 * MS, 0), 0);
    assert_eq!(short_windows(31 * MS, 1), 40 * MS);
    let pairs = changed(tftp(40 * MS, None, 40 * MS), |transfer| {
        let mut at_ns = 40 * MS;
        transfer.arrivals.clear();
        // Windows of two blocks, of which each second one has only one.
        for gap in [40, 1, 40, 40, 1, 40, 40, 1].map(|ms| ms * MS) {
            at_ns += gap;
            transfer.arrivals.push(Arrival { at_ns, bytes: 512 });
        }
        transfer.bytes = 8 * 512;
        transfer.total_ns = at_ns;
        transfer.block_bytes = Some(512);
        transfer.window_blocks = Some(2);
        transfer.repeated_blocks = Some(1);
    });
    assert_eq!(pairs.transfers[0].arrivals.len(), 8);
    assert_eq!(cost(&pairs, CauseKind::Loss), Some(0));
}

#[test]
fn the_largest_download_is_analyzed_or_else_the_first_transfer() {
    let mut session = tftp(100 * MS, None, 100 * MS);
    let larger = FileTransfer { bytes: 1, ..session.transfers[0].clone() };
    session.transfers.insert(0, larger);
    let trips = |session: &FileSession| of(session, CauseKind::LockStep).unwrap().cost_ns;
    assert_eq!(trips(&session), 41 * 100 * MS);
    session.transfers[1].direction = Direction::Outgoing;
    assert_eq!(trips(&session), 2 * 100 * MS);
    session.transfers[0].direction = Direction::Outgoing;
    assert_eq!(trips(&session), 2 * 100 * MS);
    session.resolve_ns = Some(400 * MS);
    session.transfers.clear();
    insta::assert_snapshot!(described(&causes(&session)), @"
    name server of connection set-up: 400000000 ns, 400000000 ns of 400000000 ns
      Name resolution costs 400 ms of the 400 ms of connection set-up (100 %): the lookup of
      the host name took that long. Check the DNS servers in /etc/resolv.conf, or add the
      address to /etc/hosts.
    ");
}

#[test]
fn a_transfer_of_which_no_arrival_is_known_has_no_time_of_blocks() {
    let session = changed(tftp(10 * MS, None, 10 * MS), |transfer| {
        transfer.arrivals.clear();
        transfer.bytes = 512;
        transfer.block_bytes = Some(512);
        transfer.window_blocks = Some(2);
    });
    assert_eq!(cost(&session, CauseKind::Unknown), Some(0));
    assert_eq!(cost(&session, CauseKind::Loss), Some(0));
}
