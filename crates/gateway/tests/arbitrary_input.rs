//! Random input for a guest and for a router: the entry points of the fuzz targets `gateway` and
//! `gateway_router` with seeds.

mod guest_input;
mod router_input;

use net::rng::Rng;

/// The seed is printed if a step fails.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input of seed {} failed", self.0);
        }
    }
}

#[test]
fn random_datagrams_and_calls_of_the_driver_leave_nothing_behind() {
    let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
    let mut sums = [0; 9];
    for seed in 0..if is_long { 1_000_000 } else { 5000 } {
        let _repeat = Repeat(seed);
        let mut rng = Rng::from_seed(seed);
        let len = rng.below(3000);
        let input: Vec<u8> = (0..len).map(|_| rng.next_u64().to_be_bytes()[0]).collect();
        let (tcp, udp, echo) = guest_input::run(&input);
        let reached = [
            tcp.outgoing,
            tcp.incoming,
            tcp.failed,
            tcp.bytes_to_host,
            tcp.bytes_to_guest,
            udp.outgoing,
            udp.incoming,
            udp.bytes_to_guest,
            echo.replies,
        ];
        sums.iter_mut().zip(reached).for_each(|(sum, count)| *sum += count);
    }
    assert!(sums.iter().all(|sum| *sum > 0), "every kind of flow carries data: {sums:?}");
}

#[test]
fn random_bytes_of_lines_and_datagrams_leave_nothing_in_a_router() {
    let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
    let mut sums = [0; 8];
    for seed in 0..if is_long { 1_000_000 } else { 5000 } {
        let _repeat = Repeat(seed);
        let mut rng = Rng::from_seed(seed);
        // Short pieces and values below 16 reach more checks.
        let input: Vec<u8> = (0..rng.below(2000))
            .map(|_| match rng.next_u64().to_be_bytes() {
                [0..=127, low, ..] => low % 16,
                [_, any, ..] => any,
            })
            .collect();
        let counters = router_input::run(&input);
        let reached = [
            counters.transmitted,
            counters.generated,
            counters.echoes,
            counters.errors_sent,
            counters.dropped_in_queues,
            counters.drops.source,
            counters.drops.time_exceeded,
            counters.drops.removed,
        ];
        sums.iter_mut().zip(reached).for_each(|(sum, count)| *sum += count);
    }
    let [transmitted, generated, _, errors_sent, in_queues, source, time_exceeded, _] = sums;
    let reached = [transmitted, generated, errors_sent, in_queues, source, time_exceeded];
    assert!(reached.iter().all(|sum| *sum > 0), "every path of a packet is reached: {sums:?}");
}
