//! Check whether a serial line runs at its configured rate.
//!
//! A pseudo-terminal and many network adapters accept any rate and run at none. On a line that does
//! run at its rate, no byte can arrive before its bits have passed. An earlier arrival refutes the
//! rate, and then no time may be charged to the line. A later arrival proves nothing, because other
//! components may have waited.

use crate::figures::{count, duration};

/// Data that came over the line, and the time since it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Bytes that passed one after the other; for an echo, the key and the echoed bytes.
    pub bytes: u64,
    /// From the request to the last byte, ns.
    pub ns: u64,
}

/// Tolerance of the line's clock in percent; beyond it, a line loses bytes.
const CLOCK_PERCENT: u64 = 5;

/// Returns the transmission time of `bytes` on a line, ns.
#[must_use]
pub fn line_ns(bytes: u64, bits_per_byte: u64, rate_bps: u64) -> u64 {
    let bits = u128::from(bytes) * u128::from(bits_per_byte);
    u64::try_from(bits * 1_000_000_000 / u128::from(rate_bps.max(1))).unwrap_or(u64::MAX)
}

/// Returns the first of `passages` that is too fast for a line of `rate_bps`.
#[must_use]
pub fn refuting(passages: &[Passage], bits_per_byte: u64, rate_bps: u64) -> Option<Passage> {
    let is_too_soon = |passage: &&Passage| {
        let least = u128::from(line_ns(passage.bytes, bits_per_byte, rate_bps));
        u128::from(passage.ns) * u128::from(100 + CLOCK_PERCENT) < least * 100
    };
    passages.iter().find(is_too_soon).copied()
}

/// Returns a sentence that states that the line does not run at `rate_bps`.
#[must_use]
pub fn sentence(passage: Passage, bits_per_byte: u64, rate_bps: u64) -> String {
    format!(
        "This line does not run at {} bit/s, as a pseudo-terminal or an adapter to a network does \
         not: {} bytes there need {}, and came in {}; no time is charged to it.",
        count(rate_bps),
        count(passage.bytes),
        duration(line_ns(passage.bytes, bits_per_byte, rate_bps)),
        duration(passage.ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Passage = Passage { bytes: 2, ns: 167_000 };

    #[test]
    fn a_byte_there_and_back_in_167_us_refutes_9600_bit_a_second() {
        assert_eq!(refuting(&[ECHO], 10, 9_600), Some(ECHO));
        assert_eq!(
            sentence(ECHO, 10, 9_600),
            "This line does not run at 9,600 bit/s, as a pseudo-terminal or an adapter to a network \
             does not: 2 bytes there need 2.08 ms, and came in 167 µs; no time is charged to it."
        );
    }

    #[test]
    fn what_took_as_long_as_its_bits_or_a_little_less_refutes_nothing() {
        let echo = Passage { bytes: 2, ns: 2_040_000 };
        assert_eq!(refuting(&[echo], 10, 9_600), None);
    }

    #[test]
    fn a_screenful_refutes_where_echoes_waited_for_a_far_host() {
        let echo = Passage { bytes: 2, ns: 90_000_000 };
        let screenful = Passage { bytes: 1_968, ns: 4_000_000 };
        assert_eq!(refuting(&[echo, screenful], 10, 9_600), Some(screenful));
    }
}
