//! Input: bytes of serial lines, datagrams of the host, and calls of the driver of a router; see the
//! included module.
#![no_main]

#[path = "../../crates/gateway/tests/router_input/mod.rs"]
mod router_input;

use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    router_input::run(input);
});

/// Returns a datagram from line to line, one from the host that needs fragments, an echo request to
/// the router, one whose time is exceeded, and a line that is removed with its packets.
fn seeds() -> Vec<Vec<u8>> {
    let between_lines = vec![0, 1, 1, 3, 4, 2, 64, 99, 0, 0, 4, 1, 2, 3, 4, 5, 2, 200, 6, 1];
    let large = [&[0, 3, 7, 4, 2, 64, 99, 0, 2, 88][..], &[7; 600], &[5, 2, 255, 6, 9]].concat();
    let echo = vec![0, 1, 1, 3, 1, 0, 64, 99, 0, 0, 8, 8, 0, 0xF7, 0xFF, 0, 0, 0, 0, 5, 1, 99];
    let expired = vec![0, 3, 7, 2, 2, 1, 99, 0, 0, 4, 1, 2, 3, 4, 6, 1];
    let removed = vec![0, 3, 7, 2, 2, 64, 99, 0, 0, 4, 1, 2, 3, 4, 7, 0, 6, 1];
    vec![between_lines, large, echo, expired, removed]
}
