//! The format of `scenarios/rfc594.toml`.

use super::subnet::{Path, Subnet};
use crate::limits::{OutOfRange, within};
use net::time::Duration;
use serde::Deserialize;

/// Parameters of the hosts and the subnet between them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Length of the cable from the host to its IMP, in feet.
    pub cable_feet: u64,
    /// Processing time of both hosts together per message in BBN's measurement, in milliseconds.
    pub bbn_hosts_ms: u64,
    /// Processing time of an IMP per packet, in microseconds.
    pub processing_us: u64,
    /// Rate of the lines between IMPs, in bits per second.
    pub line_bps: u64,
    /// Time after which the buffer reservation of an RFNM expires, in milliseconds.
    pub room_lasts_ms: u64,
}

impl Scenario {
    /// The default scenario, in TOML.
    pub(crate) const BUILT_IN: &str = include_str!("../../../../scenarios/rfc594.toml");

    /// Returns an error if a value is out of its permitted range.
    ///
    /// # Errors
    ///
    /// Returns the value that is out of range, and its range.
    pub(crate) fn check(&self) -> Result<(), OutOfRange> {
        within("cable_feet", self.cable_feet, 0..=100_000)?;
        within("bbn_hosts_ms", self.bbn_hosts_ms, 0..=100_000)?;
        within("processing_us", self.processing_us, 0..=10_000_000)?;
        within("line_bps", self.line_bps, 300..=1_000_000_000)?;
        within("room_lasts_ms", self.room_lasts_ms, 0..=100_000)
    }

    /// Returns a path of `hops` lines without propagation delay.
    #[must_use]
    pub const fn path(&self, hops: u32) -> Path {
        let subnet = Subnet {
            processing: Duration::from_micros(self.processing_us),
            line_bps: self.line_bps,
            reservation_lifetime: Duration::from_millis(self.room_lasts_ms),
        };
        Path { subnet, hops, propagation: Duration::ZERO }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::rfc594) fn built_in() -> Scenario {
        toml::from_str(Scenario::BUILT_IN).unwrap()
    }

    #[test]
    fn the_built_in_subnet_is_the_arpanet_of_1973() {
        assert_eq!(built_in().path(3), Path::of_hops(3));
    }
}
