//! Reordering without loss: RFC 8985 §6, RFC 4015. What users of other hosts complain of is that
//! time-based loss detection takes reordering for loss and the window never recovers.

use super::*;

/// What is out is bounded by what can be remembered of what came early.
const BULK: Profile = Profile {
    receive_window: ReceiveWindow::Bytes(1 << 18),
    congestion: Congestion::Cubic,
    ..Profile::BULK
};

/// Transfers `len` bytes over a path of 20 ms where `late` in a million take half a way longer;
/// returns the time that it took and what was counted.
fn run(late: u32, len: usize) -> (Duration, Statistics) {
    let mut pair = Pair::new(7);
    pair.delay = Duration::from_millis(20);
    let ids = pair.connect(BULK);
    pair.faults.late = late;
    let start = pair.lab.now;
    let data = pattern(len);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    (pair.lab.now - start, pair.client.status(ids.0).unwrap().statistics)
}

#[test]
fn segments_that_a_hundred_others_overtake_cost_no_more_than_their_delay() {
    let (straight, _) = run(0, 4_000_000);
    for late in [1_000, 20_000, 200_000] {
        let (took, statistics) = run(late, 4_000_000);
        assert!(took < straight * 2, "{late}: {took:?} {straight:?} {statistics:?}");
        assert!(statistics.retransmissions < 300, "{late}: {statistics:?}");
        assert_eq!(statistics.timeouts, 0, "{late}");
    }
}

#[test]
fn after_it_has_adapted_reordering_causes_no_retransmission() {
    let (_, short) = run(20_000, 2_000_000);
    let (_, long) = run(20_000, 8_000_000);
    let later = long.retransmissions - short.retransmissions;
    assert!(later <= short.retransmissions / 2 + 20, "{short:?} {long:?}");
}
