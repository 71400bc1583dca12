//! Congestion avoidance of RFC 5681 §3.1: the window grows by one segment per round trip, and is
//! halved after a loss.

/// The state of congestion avoidance: the number of bytes acknowledged since the window last grew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewReno {
    credit: u64,
}

impl NewReno {
    /// Returns the growth of a window of `cwnd` bytes when `acked` bytes are acknowledged. Counting
    /// bytes makes ACK division ineffective (RFC 3465, row 39 of the attack table).
    pub(super) fn acknowledged(&mut self, cwnd: u32, mss: u32, acked: u64) -> u32 {
        self.credit = self.credit.saturating_add(acked);
        let windows = self.credit / u64::from(cwnd.max(1));
        self.credit -= windows * u64::from(cwnd.max(1));
        u32::try_from(windows).unwrap_or(u32::MAX).saturating_mul(mss)
    }

    /// Returns the threshold after a loss with `flight` bytes outstanding (RFC 5681 (4)).
    pub(super) fn lost(&mut self, flight: u64, mss: u32) -> u32 {
        self.credit = 0;
        u32::try_from(flight / 2).unwrap_or(u32::MAX).max(2 * mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_by_a_segment_for_each_window_acknowledged() {
        let mut reno = NewReno::default();
        let grown: u32 = (0..30).map(|_| reno.acknowledged(10_000, 1000, 1000)).sum();
        assert_eq!(grown, 3000);
    }

    #[test]
    fn a_loss_halves_the_flight_but_leaves_at_least_two_segments() {
        let mut reno = NewReno::default();
        assert_eq!(reno.lost(10_000, 1000), 5000);
        assert_eq!(reno.lost(1000, 1000), 2000);
    }
}
