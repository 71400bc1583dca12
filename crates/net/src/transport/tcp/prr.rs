//! Proportional rate reduction (RFC 6937, and its revision draft-ietf-tcpm-prr-rfc6937bis): the
//! amount of data to send during a recovery.
//!
//! For each delivered byte the sender sends a certain fraction of a byte. The flight thereby
//! decreases evenly to the threshold within one round trip. If losses have reduced the flight below
//! the threshold, it grows again as in slow start: by the delivered bytes, plus one segment for
//! each acknowledgment that advances and reports no further loss.

/// The state of one recovery, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// Bytes outstanding at the start of the recovery.
    flight: u64,
    ssthresh: u64,
    delivered: u64,
    sent_bytes: u64,
}

/// The input from one acknowledgment during a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Bytes that the acknowledgment delivers.
    pub(super) delivered: u64,
    /// Bytes in the network now.
    pub(super) pipe: u64,
    /// Whether the acknowledgment advances and reports no further loss.
    pub(super) is_safe: bool,
    /// The maximum segment size.
    pub(super) mss: u32,
}

impl Prr {
    /// Starts a recovery with `flight` bytes outstanding and the threshold `ssthresh`.
    pub(super) fn new(flight: u64, ssthresh: u32) -> Self {
        Self { flight: flight.max(1), ssthresh: u64::from(ssthresh), delivered: 0, sent_bytes: 0 }
    }

    /// Records that `len` bytes were sent or retransmitted.
    pub(super) fn sent(&mut self, len: u32) {
        self.sent_bytes += u64::from(len);
    }

    /// Returns the congestion window after an acknowledgment.
    pub(super) fn window(&mut self, progress: Progress) -> u32 {
        let Progress { delivered, pipe, is_safe, mss } = progress;
        let mss = u64::from(mss);
        self.delivered += delivered;
        let allowed = if pipe > self.ssthresh {
            // A quotient in thousandths would not be exact.
            let share = u128::from(self.delivered) * u128::from(self.ssthresh);
            let share = share.div_ceil(u128::from(self.flight));
            u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(self.sent_bytes)
        } else {
            let conserved = self.delivered.saturating_sub(self.sent_bytes).max(delivered);
            let more = if is_safe { mss } else { 0 };
            (conserved + more).min(self.ssthresh - pipe)
        };
        // The first retransmission is always sent immediately.
        let allowed = if self.sent_bytes == 0 { allowed.max(mss) } else { allowed };
        u32::try_from(pipe + allowed).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1000;

    fn progress(delivered: u64, pipe: u64, is_safe: bool) -> Progress {
        Progress { delivered, pipe, is_safe, mss: MSS }
    }

    /// Sends as many segments as the window allows, and returns their number.
    fn send(prr: &mut Prr, pipe: &mut u64, window: u32) -> u64 {
        let mut count = 0;
        while *pipe + u64::from(MSS) <= u64::from(window) {
            prr.sent(MSS);
            *pipe += u64::from(MSS);
            count += 1;
        }
        count
    }

    #[test]
    fn one_loss_of_twenty_sends_one_segment_per_two_delivered() {
        let mut prr = Prr::new(20_000, 10_000);
        // The first segment is lost and the next three have arrived.
        let mut pipe = 16_000;
        let mut sent = 0;
        let window = prr.window(progress(3000, pipe, false));
        sent += send(&mut prr, &mut pipe, window);
        assert_eq!(sent, 1, "at once");
        for _ in 0..16 {
            pipe -= 1000;
            let window = prr.window(progress(1000, pipe, false));
            sent += send(&mut prr, &mut pipe, window);
        }
        assert_eq!((sent, pipe), (10, 10_000));
    }

    #[test]
    fn after_many_losses_slow_start_reaches_the_threshold() {
        let mut prr = Prr::new(20_000, 10_000);
        let mut pipe = 4000;
        let window = prr.window(progress(1000, pipe, false));
        assert_eq!(send(&mut prr, &mut pipe, window), 1, "nothing more than was delivered");
        for expected in [2, 2, 2] {
            pipe -= 1000;
            let window = prr.window(progress(1000, pipe, true));
            assert_eq!(send(&mut prr, &mut pipe, window), expected);
        }
        let window = prr.window(progress(1000, 9500, true));
        assert_eq!(window, 10_000, "not beyond the threshold");
    }

    proptest! {
        #[test]
        fn no_more_is_sent_than_delivered_except_in_slow_start(
            flight in 10..200_u64, share in 2..9_u64,
            steps in prop::collection::vec((1..4_u64, any::<bool>()), 1..100)
        ) {
            let ssthresh = u32::try_from(flight * 1000 * share / 10).unwrap();
            let mut prr = Prr::new(flight * 1000, ssthresh);
            let mut pipe = flight * 1000;
            for (delivered, is_safe) in steps {
                let delivered = (delivered * 1000).min(pipe);
                pipe -= delivered;
                let sent_before = prr.sent_bytes;
                let window = prr.window(progress(delivered, pipe, is_safe));
                let count = send(&mut prr, &mut pipe, window);
                prop_assert!(count * 1000 <= delivered + 1000 || sent_before == 0 || is_safe);
                prop_assert!(pipe <= u64::from(ssthresh).max(flight * 1000));
                prop_assert!(sent_before > 0 || count > 0);
            }
        }
    }

    #[test]
    fn the_share_of_the_threshold_is_exact() {
        let mut prr = Prr::new(20_000, 10_000);
        assert_eq!(prr.window(progress(100, 15_000, false)), 16_000, "one segment at once");
        prr.sent(200);
        assert_eq!(prr.window(progress(900, 15_000, false)), 15_000 + 500 - 200);
    }
}
