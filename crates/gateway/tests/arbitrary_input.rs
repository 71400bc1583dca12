//! Random input for a guest: the entry point of the fuzz target `gateway` with seeds.

mod guest_input;

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
