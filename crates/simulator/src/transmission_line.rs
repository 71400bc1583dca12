//! The line between two hosts: its timing, and its unit of transmission.

use crate::faults::Faults;
use net::time::Duration;

/// Unit of transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One byte with its start and stop bits, as on a serial line.
    Byte {
        /// Number of start and stop bits together.
        framing_bits: u32,
    },
    /// One whole datagram, as on a TUN device or a network.
    Datagram,
}

/// A full-duplex line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Unit of transmission.
    pub unit: Unit,
    /// Rate in bit/s; `None` for a line without transmission time.
    pub rate_bps: Option<u64>,
    /// Propagation delay.
    pub delay: Duration,
    /// Random faults of the line.
    pub faults: Faults,
}

impl Line {
    /// A serial line as in TM-233: eight data bits, one start and one stop bit, without delay.
    #[must_use]
    pub fn serial(rate_bps: u64) -> Self {
        Self {
            unit: Unit::Byte { framing_bits: 2 },
            rate_bps: Some(rate_bps),
            delay: Duration::ZERO,
            faults: Faults::default(),
        }
    }

    /// A path that delivers datagrams after `delay`, without transmission time.
    #[must_use]
    pub fn path(delay: Duration) -> Self {
        Self { unit: Unit::Datagram, rate_bps: None, delay, faults: Faults::default() }
    }

    /// Returns the transmission time of `len` bytes; [`Duration::MAX`] if the rate is 0.
    #[must_use]
    pub fn serial_time(&self, len: usize) -> Duration {
        let Some(rate_bps) = self.rate_bps else { return Duration::ZERO };
        let framing_bits = match self.unit {
            Unit::Byte { framing_bits } => framing_bits,
            Unit::Datagram => 0,
        };
        let bits = len as u64 * (8 + u64::from(framing_bits));
        bits.saturating_mul(1_000_000_000)
            .checked_div(rate_bps)
            .map_or(Duration::MAX, Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_rate_takes_no_time_and_a_rate_of_zero_never_finishes() {
        assert_eq!(Line::path(Duration::ZERO).serial_time(1500), Duration::ZERO);
        assert_eq!(Line::serial(0).serial_time(1), Duration::MAX);
    }

    #[test]
    fn the_smallest_packet_of_the_thesis_takes_the_calculated_time() {
        // TM-233 table 6-1: SL(0) = 0.0490 s at 9600 bit/s.
        assert_eq!(Line::serial(9_600).serial_time(47), Duration::from_nanos(48_958_333));
    }
}
