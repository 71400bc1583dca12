//! Check whether a serial line runs at its configured rate.
//!
//! A pseudo-terminal and many network adapters accept any configured rate and ignore it. On a line
//! that does run at its rate, no byte can arrive before its bits have passed. An earlier arrival
//! refutes the rate, and then no time may be charged to the line. A later arrival proves nothing,
//! because other components may have delayed it.

use crate::format::{count, duration};

/// Data received over the line, and the time since it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// Number of bytes transmitted in sequence: for an echo, the key and the echoed bytes.
    pub bytes: u64,
    /// From the request to the last byte, ns.
    pub ns: u64,
}

/// Tolerance of the line's clock in percent; beyond it, a line loses bytes.
const CLOCK_TOLERANCE_PERCENT: u64 = 5;

/// Returns the transmission time of `bytes` on a line, ns.
#[must_use]
pub(crate) fn line_ns(bytes: u64, bits_per_byte: u64, rate_bps: u64) -> u64 {
    let bits = u128::from(bytes) * u128::from(bits_per_byte);
    u64::try_from(bits * 1_000_000_000 / u128::from(rate_bps.max(1))).unwrap_or(u64::MAX)
}

/// Returns the first of `transits` that is too fast for a line of `rate_bps`.
#[must_use]
pub fn refutation(transits: &[Transit], bits_per_byte: u64, rate_bps: u64) -> Option<Transit> {
    let is_too_soon = |transit: &&Transit| {
        let min = u128::from(line_ns(transit.bytes, bits_per_byte, rate_bps));
        u128::from(transit.ns) * u128::from(100 + CLOCK_TOLERANCE_PERCENT) < min * 100
    };
    transits.iter().find(is_too_soon).copied()
}

/// Returns a sentence that states that the line does not run at `rate_bps`.
#[must_use]
pub fn sentence(transit: Transit, bits_per_byte: u64, rate_bps: u64) -> String {
    format!(
        "This line does not run at {} bit/s: {} bytes take {} at that rate, but arrived in {}. \
         It is probably a pseudo-terminal or a serial-to-network adapter, which ignores the \
         configured rate. The report attributes no time to the line.",
        count(rate_bps),
        count(transit.bytes),
        duration(line_ns(transit.bytes, bits_per_byte, rate_bps)),
        duration(transit.ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Transit = Transit { bytes: 2, ns: 167_000 };

    #[test]
    fn an_echo_in_167_us_refutes_9600_bit_s() {
        assert_eq!(refutation(&[ECHO], 10, 9_600), Some(ECHO));
        assert_eq!(
            sentence(ECHO, 10, 9_600),
            "This line does not run at 9,600 bit/s: 2 bytes take 2.08 ms at that rate, but arrived \
             in 167 µs. It is probably a pseudo-terminal or a serial-to-network adapter, which \
             ignores the configured rate. The report attributes no time to the line."
        );
    }

    #[test]
    fn a_transit_within_the_clock_tolerance_refutes_nothing() {
        let echo = Transit { bytes: 2, ns: 2_040_000 };
        assert_eq!(refutation(&[echo], 10, 9_600), None);
    }

    #[test]
    fn a_screenful_refutes_a_rate_although_echoes_waited_for_a_distant_host() {
        let echo = Transit { bytes: 2, ns: 90_000_000 };
        let screenful = Transit { bytes: 1_968, ns: 4_000_000 };
        assert_eq!(refutation(&[echo, screenful], 10, 9_600), Some(screenful));
    }

    #[test]
    fn a_line_may_be_faster_by_its_clock_tolerance() {
        // 105 bits at 1,000 bit/s take 105 ms, and 100 ms within the tolerance.
        let refuted = |ns: u64| refutation(&[Transit { bytes: 21, ns }], 5, 1_000).is_some();
        assert_eq!([99_999_999, 100_000_000].map(refuted), [true, false]);
        assert_eq!(line_ns(21, 5, 1_000), 105_000_000);
        assert_eq!(line_ns(1, 1, 0), 1_000_000_000);
    }
}
