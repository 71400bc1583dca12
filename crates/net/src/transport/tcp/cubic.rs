//! CUBIC (RFC 9438): the window grows with the cube of the time since the last loss.
//!
//! All arithmetic uses whole bytes and microseconds. It is exact, except for the last microsecond
//! of K. Simulations are therefore reproducible on every machine.

use crate::time::{Duration, Instant};

/// C of §4.1, in tenths: 0.4.
const C_TENTHS: u128 = 4;
/// Multiplicative decrease of §4.6, in tenths: 0.7.
const BETA_TENTHS: u64 = 7;
/// 3 (1 - beta) / (1 + beta) of §4.3, as a fraction: 9/17.
const ALPHA: (u64, u64) = (9, 17);
/// Cubic microseconds per cubic second, times 10 because C is in tenths.
const SCALE: u128 = 10 * 1_000_000_000_000_000_000;
/// Maximum duration of an epoch: a longer one would overflow when cubed.
const MAX_MICROS: u64 = 100_000_000_000;

/// An epoch of growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Epoch {
    since: Instant,
    /// Time after which the window has the same value as before the loss (K of figure 2), in
    /// microseconds.
    k_us: u64,
    /// The window of a Reno-friendly sender (§4.3), in bytes.
    w_est: u64,
    /// The fraction of a byte beyond `w_est`.
    w_est_rest: u64,
    /// The fraction of a byte by which the window has grown beyond its integral value.
    fraction: u64,
}

/// The state variables of RFC 9438 §4.1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cubic {
    /// The window just before the last reduction. Fast convergence lowers it (§4.7) if the window
    /// had not reached the previous value.
    w_max: u32,
    /// The window before the last reduction.
    cwnd_prior: u32,
    epoch: Option<Epoch>,
    /// Time at which the window last limited the sender.
    limited_at: Option<Instant>,
}

/// The input from one acknowledgment in congestion avoidance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub(super) cwnd: u32,
    pub(super) mss: u32,
    pub(super) acked: u64,
    pub(super) srtt: Duration,
    pub(super) now: Instant,
}

impl Cubic {
    /// Returns a state without an epoch. [`Self::windows`] has returned the two windows.
    pub(super) fn with_windows(w_max: u32, cwnd_prior: u32) -> Self {
        Self { w_max, cwnd_prior, epoch: None, limited_at: None }
    }

    /// Returns `w_max` and `cwnd_prior`.
    pub(super) fn windows(self) -> (u32, u32) {
        (self.w_max, self.cwnd_prior)
    }

    /// Returns the growth of the window (§4.2 to §4.5).
    pub(super) fn acknowledged(&mut self, growth: Growth) -> u32 {
        let Growth { cwnd, mss, acked, srtt, now } = growth;
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(cwnd, mss, now));
        self.limited_at = Some(now);
        let cwnd_bytes = u64::from(cwnd.max(1));
        epoch.grow_reno(u64::from(mss) * acked, cwnd_bytes, self.cwnd_prior);
        let elapsed = now - epoch.since;
        let cubic_now = window_at(elapsed, epoch.k_us, self.w_max, mss);
        let grown = if cubic_now < epoch.w_est {
            epoch.w_est.saturating_sub(cwnd_bytes)
        } else {
            let target = window_at(elapsed + srtt, epoch.k_us, self.w_max, mss);
            let target = target.clamp(cwnd_bytes, cwnd_bytes + cwnd_bytes / 2);
            let credit = (target - cwnd_bytes) * acked + epoch.fraction;
            epoch.fraction = credit % cwnd_bytes;
            credit / cwnd_bytes
        };
        self.epoch = Some(epoch);
        u32::try_from(grown).unwrap_or(u32::MAX)
    }

    fn begin(&mut self, cwnd: u32, mss: u32, now: Instant) -> Epoch {
        if self.w_max <= cwnd {
            // §4.10: after slow start without a loss, the curve starts at its plateau.
            self.w_max = cwnd;
        }
        let k_us = time_to(self.w_max - cwnd, mss);
        Epoch { since: now, k_us, w_est: u64::from(cwnd), w_est_rest: 0, fraction: 0 }
    }

    /// Records that the window has not limited the sender until now. That period is excluded from
    /// the time of growth (§4.2).
    pub(super) fn not_limited(&mut self, now: Instant) {
        if let (Some(epoch), Some(at)) = (&mut self.epoch, self.limited_at) {
            epoch.since = epoch.since + (now - at);
        }
        self.limited_at = self.limited_at.map(|_| now);
    }

    /// Returns the threshold after a loss (§4.6), with fast convergence (§4.7).
    pub(super) fn lost(&mut self, cwnd: u32, mss: u32) -> u32 {
        let tenths = |of: u64| u32::try_from(u64::from(cwnd) * of / 20).unwrap_or(u32::MAX);
        self.w_max = if cwnd < self.w_max { tenths(10 + BETA_TENTHS) } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        tenths(2 * BETA_TENTHS).max(2 * mss)
    }
}

impl Epoch {
    /// Advances W_est (§4.3). It grows as fast as Reno on average, and exactly like Reno once it
    /// has reached `cwnd_prior`, the window before the reduction.
    fn grow_reno(&mut self, mss_times_acked: u64, cwnd: u64, cwnd_prior: u32) {
        let is_caught_up = self.w_est >= u64::from(cwnd_prior);
        let (above, below) = if is_caught_up { (ALPHA.1, ALPHA.1) } else { ALPHA };
        let divisor = cwnd * below;
        // If the window has changed since the last call, the error is less than one byte.
        let credit = mss_times_acked * above + self.w_est_rest.min(divisor);
        self.w_est += credit / divisor;
        self.w_est_rest = credit % divisor;
    }
}

/// Returns W_cubic of figure 1, in bytes.
fn window_at(elapsed: Duration, k_us: u64, w_max: u32, mss: u32) -> u64 {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(MAX_MICROS).min(MAX_MICROS);
    let distance = u128::from(micros.abs_diff(k_us));
    let change = C_TENTHS * u128::from(mss) * distance.pow(3) / SCALE;
    let change = u64::try_from(change).unwrap_or(u64::MAX);
    if micros < k_us {
        u64::from(w_max).saturating_sub(change)
    } else {
        u64::from(w_max).saturating_add(change)
    }
}

/// Returns K of figure 2, in microseconds: the time in which the curve grows by `bytes`.
fn time_to(bytes: u32, mss: u32) -> u64 {
    let cube = u128::from(bytes) * SCALE / (C_TENTHS * u128::from(mss.max(1)));
    // The cube root is computed bit by bit, the highest bit first. The cube of 2^37 has 112 bits.
    (0..=37).rev().fold(0_u64, |root, bit| {
        let candidate = root | (1 << bit);
        if u128::from(candidate).pow(3) <= cube { candidate } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1460;

    /// Figure 1, in segments, as written in the RFC.
    fn formula(t: f64, w_max: f64, cwnd: f64) -> f64 {
        let k = ((w_max - cwnd) / 0.4).cbrt();
        0.4 * (t - k).powi(3) + w_max
    }

    proptest! {
        #[test]
        fn the_window_is_the_formula_within_a_segment(
            w_max in 10..100_000_u32, share in 10..=100_u32, millis in 0..600_000_u64
        ) {
            let cwnd = w_max / 100 * share + w_max % 100;
            let cwnd = cwnd.min(w_max);
            let k_us = time_to((w_max - cwnd) * MSS, MSS);
            let t = Duration::from_millis(millis);
            let window = window_at(t, k_us, w_max * MSS, MSS) as f64 / f64::from(MSS);
            let expected = formula(t.as_secs_f64(), f64::from(w_max), f64::from(cwnd)).max(0.0);
            prop_assert!((window - expected).abs() < 1.0, "{window} {expected}");
        }
    }

    /// Acknowledges one window per round trip, one segment at a time, for `rounds` round trips.
    fn run(cubic: &mut Cubic, mut cwnd: u32, rtt: Duration, rounds: u32) -> u32 {
        for round in 0..rounds {
            let segments = (cwnd / MSS).max(1);
            for segment in 0..segments {
                let now = Instant::ZERO + rtt * round + rtt * segment / segments;
                let acked = u64::from(MSS);
                cwnd += cubic.acknowledged(Growth { cwnd, mss: MSS, acked, srtt: rtt, now });
            }
        }
        cwnd
    }

    #[test]
    fn on_a_long_path_the_window_follows_the_curve() {
        let mut cubic = Cubic::default();
        let cwnd = cubic.lost(1000 * MSS, MSS);
        assert_eq!(cwnd, 700 * MSS);
        let rtt = Duration::from_millis(200);
        // K is the cube root of 300 / 0.4, which is 9.09 s. At 15 s the curve has reached 1082
        // segments.
        let after = run(&mut cubic, cwnd, rtt, 75);
        let expected = formula(15.0, 1000.0, 700.0);
        let grown_cwnd = f64::from(after) / f64::from(MSS);
        assert!((grown_cwnd - expected).abs() < 10.0, "{grown_cwnd} {expected}");
    }

    #[test]
    fn on_a_short_path_the_window_is_that_of_reno() {
        let mut cubic = Cubic::default();
        let cwnd = cubic.lost(40 * MSS, MSS);
        let rtt = Duration::from_millis(5);
        // The window grows by 0.529 segments per round trip until it has 40 segments again, after
        // about 23 round trips. Then it grows by one segment per round trip.
        let after = run(&mut cubic, cwnd, rtt, 43);
        let segments = after / MSS;
        assert!((58..=62).contains(&segments), "{segments}");
    }

    #[test]
    fn fast_convergence_releases_bandwidth_to_new_flows() {
        let mut cubic = Cubic::default();
        cubic.lost(100 * MSS, MSS);
        assert_eq!(cubic.w_max, 100 * MSS);
        cubic.lost(80 * MSS, MSS);
        assert_eq!(cubic.w_max, 68 * MSS);
    }

    #[test]
    fn unlimited_time_does_not_count_as_growth_time() {
        let rtt = Duration::from_millis(200);
        let grow = |cubic: &mut Cubic, now| {
            let cwnd = 700 * MSS;
            cubic.acknowledged(Growth { cwnd, mss: MSS, acked: 14_600, srtt: rtt, now })
        };
        let mut cubic = Cubic::default();
        cubic.lost(1000 * MSS, MSS);
        let mut idle = cubic;
        grow(&mut cubic, Instant::ZERO);
        grow(&mut idle, Instant::ZERO);
        idle.not_limited(Instant::ZERO + Duration::from_secs(1000));
        let soon = grow(&mut cubic, Instant::ZERO + rtt);
        let late = grow(&mut idle, Instant::ZERO + Duration::from_secs(1000) + rtt);
        assert_eq!(soon, late);
    }

    #[test]
    fn the_time_of_a_cubic_number_of_bytes_is_exact() {
        // K is the cube root of 4 / (0.4 * 10).
        assert_eq!(time_to(4, 10), 1_000_000);
        assert_eq!(time_to(4 * 8, 10), 2_000_000);
    }
}
