//! Input: datagrams of a guest of the gateway, and calls of the driver; see the included module.
#![no_main]

#[path = "../../crates/gateway/tests/guest_input/mod.rs"]
mod guest_input;

use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    guest_input::run(input);
});

/// Returns a connection that opens, carries data and closes, a refused one, a datagram that is
/// answered, and an echo request.
fn seeds() -> Vec<Vec<u8>> {
    let syn = [1, 0, 2, 0, 16, 0, 0];
    let ack = [1, 1, 16, 0, 16, 0, 4, b'd', b'a', b't', b'a'];
    let fin = [1, 1, 17, 0, 16, 0, 0];
    let open = [&[0][..], &syn, &[12, 0, 7], &ack].concat();
    let both = [&open[..], &[12, 0, 3, 9, 12, 0, 4, 0, 99], &fin, &[12, 0, 2, 8, 1]].concat();
    let refused = [&[0][..], &syn, &[12, 0, 0]].concat();
    let datagram = vec![0, 5, 0, 3, 1, 2, 3, 11, 0, 4, 0, 9, 0, 9];
    let echo = vec![0, 6, 2, 16, 1, 2, 3, 4, 11, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1];
    vec![both, refused, datagram, echo]
}
