//! The cable between a host and its IMP, which transfers each bit with a handshake.

use net::time::Duration;

/// Time per bit over a cable: a constant part for the handshake of the interfaces at both ends, and
/// a part per foot of cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    handshake_ns: u64,
    per_foot_ns: u64,
}

/// Host to IMP: a two-way handshake (RFC 594, II).
const HOST_TO_IMP: Cable = Cable { handshake_ns: 2_225, per_foot_ns: 3 };
/// IMP to host: a four-way handshake, so the cable counts twice (RFC 594, II).
const IMP_TO_HOST: Cable = Cable { handshake_ns: 1_350, per_foot_ns: 6 };
/// Delay of a distant driver-receiver pair per pass of a signal (RFC 594, II).
const DISTANT_PAIR_NS: u64 = 250;
/// Twice the signal delay of one foot of cable. A signal passes the cable twice per bit in a
/// two-way handshake, and four times in a four-way handshake.
const PASSAGE_FOOT_NS_X2: u64 = 3;
/// Time per bit before the speedup, at 100 kbit/s.
const BEFORE_NS: u64 = 10_000;

impl Cable {
    /// Returns the time of a bit over `feet` of cable.
    #[must_use]
    pub(crate) const fn bit_ns(&self, feet: u64) -> u64 {
        self.handshake_ns + self.per_foot_ns * feet
    }

    /// Returns the time of a bit over `feet` of cable without the delays of distant driver-receiver
    /// pairs.
    #[must_use]
    pub(crate) const fn local_bit_ns(&self, feet: u64) -> u64 {
        let passages = 2 * self.per_foot_ns / PASSAGE_FOOT_NS_X2;
        self.bit_ns(feet).saturating_sub(passages * DISTANT_PAIR_NS)
    }
}

/// Speed of a host's interface in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Time per bit from host to IMP, in nanoseconds.
    pub to_imp_ns: u64,
    /// Time per bit from IMP to host, in nanoseconds.
    pub to_host_ns: u64,
}

impl Interface {
    /// Interfaces before the speedup, at 100 kbit/s.
    pub(crate) const BEFORE: Self = Self { to_imp_ns: BEFORE_NS, to_host_ns: BEFORE_NS };

    /// Returns a distant interface with `feet` of cable.
    #[must_use]
    pub(crate) const fn distant(feet: u64) -> Self {
        Self { to_imp_ns: HOST_TO_IMP.bit_ns(feet), to_host_ns: IMP_TO_HOST.bit_ns(feet) }
    }

    /// Returns a local interface with `feet` of cable. Its times are lower limits, because the
    /// delay of local drivers and receivers is assumed to be zero.
    #[must_use]
    pub const fn local(feet: u64) -> Self {
        let to_imp_ns = HOST_TO_IMP.local_bit_ns(feet);
        Self { to_imp_ns, to_host_ns: IMP_TO_HOST.local_bit_ns(feet) }
    }

    /// Returns the time of `bits` from host to IMP.
    #[must_use]
    pub(crate) const fn to_imp(self, bits: u64) -> Duration {
        Duration::from_nanos(self.to_imp_ns * bits)
    }

    /// Returns the time of `bits` from IMP to host.
    #[must_use]
    pub(crate) const fn to_host(self, bits: u64) -> Duration {
        Duration::from_nanos(self.to_host_ns * bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foot_of_cable_delays_the_four_way_handshake_twice_as_much() {
        let short = Interface::distant(0);
        let long = Interface::distant(1000);
        assert_eq!(long.to_host_ns - short.to_host_ns, 2 * (long.to_imp_ns - short.to_imp_ns));
    }
}
