//! Packets of a guest at a serial line that are longer than the MTU of the line, for the meters and
//! the log.

use net::meter::{Counter, Meter};

/// The packets of one guest that its link has dropped because of their length.
#[derive(Debug, Default)]
pub(super) struct LongPackets {
    count: u64,
    is_reported: bool,
}

impl LongPackets {
    /// Counts the packets that were dropped since the meter had the value `before` of [`counted`].
    pub(super) fn record(&mut self, before: u64, meter: &Meter) {
        self.count += counted(meter).saturating_sub(before);
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether there were such packets, once.
    pub(super) const fn take_report(&mut self) -> bool {
        let reports = self.count > 0 && !self.is_reported;
        self.is_reported |= reports;
        reports
    }
}

/// Returns the number of packets that all links have dropped because of their length.
pub(super) fn counted(meter: &Meter) -> u64 {
    meter.counted(Counter::LinkPacketsTooLong)
}
