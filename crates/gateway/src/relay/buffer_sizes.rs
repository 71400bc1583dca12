//! The sizes of the buffers of a guest's connections.
//!
//! # Theory of operation
//!
//! A connection has a buffer in each direction: a send buffer for data to the guest, and a receive
//! buffer whose free space is the window. A guest that does not acknowledge fills the send buffers,
//! and a host that does not read lets the guest fill the windows. A window cannot be taken back (RFC
//! 9293 §3.8.6), so the sizes themselves are limited and not the data in the buffers.
//!
//! A size has two parts. The initial size depends on the number of connections of the guest: they
//! share [`START_BYTES_SHARED`] in each direction, and each has at least [`START_MIN`], so that it
//! makes progress. If each of `n` connections began when there were the others, or fewer, the `k`-th
//! one has at most `START_BYTES_SHARED / k`, so the sum is at most `START_BYTES_SHARED * (1 + ln n) +
//! START_MIN * n`. The closing of older connections does not change this.
//!
//! The growth of both buffers is measured by [`net::transport::tcp`], which enlarges the buffers of
//! fast connections until the growth of all of them reaches [`GROWTH_BYTES`]. Connections keep their
//! initial sizes then.

use net::transport::tcp::SendLimit;

/// Maximum initial size of the buffer of a flow in each direction, in bytes. Memory is used only for
/// data that waits.
const START_MAX: usize = 1 << 18;
/// Minimum initial size: five segments of a guest whose MTU is 1500.
const START_MIN: usize = 1 << 13;
/// Bytes that the connections of a guest share initially in each direction: [`START_MAX`] for each of
/// 64 connections, more than the fast ones of most guests.
const START_BYTES_SHARED: usize = 16 << 20;
/// Maximum size of the buffer of a flow in each direction, in bytes.
pub(super) const SIZE_MAX: usize = 4 << 20;
/// Default of the number of bytes by which all buffers of a guest may grow: enough for sixteen
/// connections with the maximum window of one direction.
pub(super) const GROWTH_BYTES: usize = 64 << 20;
/// Minimum number of bytes to read at once. Smaller reads cost more than they gain.
const READ_MIN: usize = 1 << 14;

/// Returns the initial size of the buffers of a connection in bytes if the guest has `connections`
/// connections, and whether it is less than that of the connections of a guest with few of them.
pub(super) fn start(connections: usize) -> (usize, bool) {
    let size = (START_BYTES_SHARED / connections.max(1)).clamp(START_MIN, START_MAX);
    (size, size < START_MAX)
}

/// Returns the minimum number of bytes to read at once for a connection. It is less than the send
/// buffer, so that the next data is read before the guest has acknowledged all of the data before.
pub(super) fn read_min(send_limit: SendLimit) -> usize {
    match send_limit {
        SendLimit::Bytes(bytes) | SendLimit::Tuned { start: bytes, .. } => {
            (bytes / 2).clamp(1, READ_MIN)
        }
        SendLimit::OneSegment => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_size_decreases_with_the_number_of_connections() {
        let sizes = [0, 1, 64, 65, 256, 2048, 16_384].map(start);
        let few = (1 << 18, false);
        let rest = [(258_111, true), (1 << 16, true), (1 << 13, true), (1 << 13, true)];
        assert_eq!(sizes, [[few; 3].as_slice(), &rest].concat()[..]);
    }

    /// The figure of the documentation.
    #[test]
    fn the_initial_sizes_of_the_maximum_number_of_connections_have_a_limit() {
        let sum: usize = (1..=16_384).map(|connections| start(connections).0).sum();
        assert_eq!(sum >> 20, 183);
    }
}
