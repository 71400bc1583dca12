//! Tests of reordering without loss: RFC 8985 §6, RFC 4015. Some other hosts mistake reordering for
//! loss, and their window never recovers.

use super::*;

/// The window is limited, so that the buffer can store all early ranges.
const BULK: Profile = Profile {
    receive_window: ReceiveWindow::Bytes(1 << 18),
    congestion: Congestion::Cubic,
    ..Profile::BULK
};

/// Transfers `len` bytes over a path with a one-way delay of 20 ms. Of a million segments,
/// `delayed` arrive 10 ms later. Returns the duration and the counters.
fn run(delayed: u32, len: usize) -> (Duration, Statistics) {
    let mut pair = Pair::new(7);
    pair.delay = Duration::from_millis(20);
    let ids = pair.connect(BULK);
    pair.faults.delayed = delayed;
    let start = pair.context.now;
    let data = pattern(len);
    assert!(pair.transfer(Side::Client, ids, &data) == data);
    (pair.context.now - start, pair.client.status(ids.0).unwrap().statistics)
}

#[test]
fn segments_that_a_hundred_others_overtake_cost_no_more_than_their_delay() {
    let (straight, _) = run(0, 4_000_000);
    for delayed in [1_000, 20_000, 200_000] {
        let (took, statistics) = run(delayed, 4_000_000);
        assert!(took < straight * 2, "{delayed}: {took:?} {straight:?} {statistics:?}");
        assert!(statistics.retransmissions < 300, "{delayed}: {statistics:?}");
        assert_eq!(statistics.timeouts, 0, "{delayed}");
    }
}

#[test]
fn after_it_has_adapted_reordering_causes_no_retransmission() {
    let (_, short) = run(20_000, 2_000_000);
    let (_, long) = run(20_000, 8_000_000);
    let later = long.retransmissions - short.retransmissions;
    assert!(later <= short.retransmissions / 2 + 20, "{short:?} {long:?}");
}
