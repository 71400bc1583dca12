//! The special bytes of the line, the local headers and the time limits of LLP.

use crate::time::Duration;

/// Precedes a byte from 0 to 3, which represents a data byte from 242 to 245.
pub const ESC: u8 = 242;
/// Requests to send a packet.
pub const REQ: u8 = 243;
/// Allows the peer to send the packet that it requested.
pub const ACK: u8 = 244;
/// Ends a packet.
pub const END: u8 = 245;

/// The local header of an Internet datagram.
pub const IP_HEADER: [u8; 4] = [2, 1, 0, 0];
/// The local header of an address request and of its answer.
pub const ADDRESS_HEADER: [u8; 4] = [2, 3, 0, 0];

/// The local header of a segment with uncompressed headers that are stored in a slot. This is an
/// extension of the protocol.
pub const UNCOMPRESSED_TCP_HEADER: [u8; 4] = [2, 0x70, 0, 0];
/// Bit in the first byte of a packet without a local header: TCP with compressed headers.
pub const COMPRESSED_TCP: u8 = 0x80;

/// Time after which a REQ without an ACK is repeated: 9 ticks.
pub const ACK_TIMEOUT: Duration = ticks(9);
/// Maximum number of repetitions of a REQ. If the last one is not answered either, the packet has
/// failed.
pub const RETRIES: u32 = 10;
/// Maximum time to send or receive a packet: 130 ticks.
pub const PACKET_TIMEOUT: Duration = ticks(130);
/// Timeout of the answer to an address request.
pub const ADDRESS_TIMEOUT: Duration = Duration::from_secs(6);

/// Returns the duration of `count` ticks of 1/18.2 s.
#[must_use]
pub const fn ticks(count: u64) -> Duration {
    Duration::from_nanos(count * 5_000_000_000 / 91)
}

pub(super) fn is_special(byte: u8) -> bool {
    (ESC..=END).contains(&byte)
}

/// Returns the number of bytes before the first special byte.
pub(super) fn ordinary_run(bytes: &[u8]) -> usize {
    // The compiler can vectorize the loop over a whole chunk, because it has no early exit.
    const CHUNK: usize = 32;
    let mut run_len = 0;
    for chunk in bytes.chunks(CHUNK) {
        if chunk.iter().fold(false, |found, byte| found | is_special(*byte)) {
            let run = chunk.iter().position(|byte| is_special(*byte));
            return run_len + run.unwrap_or(chunk.len());
        }
        run_len += chunk.len();
    }
    run_len
}
