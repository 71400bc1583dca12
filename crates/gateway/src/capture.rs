//! Copies of the packets of one guest, for a file.
//!
//! The packets are queued up to a limit until the driver has written them. Packets of a device with
//! offloads are super-segments whose checksums may be incomplete, as in a capture of the kernel.

use net::Instant;
use std::collections::VecDeque;

/// Maximum number of bytes that wait for the driver. The driver writes after every turn, in which a
/// guest sends at most 64 packets.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the guest to the gateway.
    FromGuest,
    /// From the gateway to the guest.
    ToGuest,
}

/// A copy of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Time at which the gateway has processed it.
    pub at: Instant,
    /// Direction.
    pub direction: Direction,
    /// The packet, as on the device.
    pub data: Vec<u8>,
}

/// The packets that wait for the driver.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    queue: VecDeque<CapturedPacket>,
    queued_bytes: usize,
    dropped: u64,
}

impl Capture {
    /// Copies the packet of these parts, or counts it if too many bytes wait.
    pub(crate) fn record(&mut self, direction: Direction, parts: [&[u8]; 3], at: Instant) {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.queued_bytes + len > QUEUE_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        self.queued_bytes += len;
        self.queue.push_back(CapturedPacket { at, direction, data: parts.concat() });
    }

    /// Returns the next packet.
    pub(crate) fn next_packet(&mut self) -> Option<CapturedPacket> {
        let packet = self.queue.pop_front()?;
        self.queued_bytes -= packet.data.len();
        Some(packet)
    }

    /// Returns the number of packets of which no copy was made.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_copied_in_their_order_up_to_the_limit() {
        let mut capture = Capture::default();
        let at = Instant::from_nanos(5);
        capture.record(Direction::FromGuest, [b"ab", b"", b"c"], at);
        let large = vec![0; QUEUE_BYTES_MAX - 3];
        capture.record(Direction::ToGuest, [&large, &[], &[]], at);
        capture.record(Direction::ToGuest, [b"d", b"", b""], at);
        assert_eq!(capture.dropped(), 1);
        let first = capture.next_packet().unwrap();
        let direction = Direction::FromGuest;
        assert_eq!(first, CapturedPacket { at, direction, data: b"abc".to_vec() });
        capture.record(Direction::ToGuest, [b"d", b"", b""], at);
        assert_eq!(capture.next_packet().unwrap().data.len(), large.len());
        assert_eq!(capture.next_packet().unwrap().data, b"d");
        assert_eq!((capture.next_packet(), capture.queued_bytes), (None, 0));
    }
}
