//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00): a model of the path instead of
//! a window that grows until a loss.
//!
//! The model consists of the maximum delivery rate of the last ten rounds and the minimum round
//! trip of the last ten seconds. Data is paced at that rate, and at most twice the capacity of the
//! path is outstanding. From time to time the sender paces slightly faster to probe for more
//! bandwidth, and from time to time it sends almost nothing to measure the round trip of an empty
//! path. Losses do not affect the rate. BBR therefore suits paths with random losses, and is unfair
//! to senders that reduce their window at a loss.

use super::flight::RateSample;
use crate::time::{Duration, Instant};
use core::cmp::Ordering;

/// Number of rounds for which a measured rate is valid (§4.1.1.3).
const RATE_ROUNDS: usize = 10;
/// Time for which a minimum round trip is valid (§4.3.5).
const MIN_RTT_VALID: Duration = Duration::from_secs(10);
/// Time for which the path is kept empty to measure its round trip (§4.3.5).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const PROBE_RTT_SEGMENTS: u32 = 4;
/// Gain of the startup phase, 2 / ln 2, in thousandths (§4.1.1.4).
const HIGH_GAIN: u64 = 2885;
/// Gain of the drain phase: the reciprocal of [`HIGH_GAIN`], in thousandths.
const DRAIN_GAIN: u64 = 347;
/// Gains of the eight rounds of a cycle, in thousandths (§4.3.4): one round probes, one drains the
/// queue, and six send at the measured rate.
const CYCLE: [u64; 8] = [1250, 750, 1000, 1000, 1000, 1000, 1000, 1000];
const WINDOW_GAIN: u64 = 2000;
/// Number of consecutive rounds in which the delivery rate grows by less than a quarter. After
/// these rounds the path counts as full (§4.3.2.3).
const FULL_ROUNDS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth {
        phase: usize,
        since: Instant,
    },
    ProbeRtt {
        /// Time at which the measurement of the empty path ends; `None` until the path is empty.
        ends_at: Option<Instant>,
    },
}

/// The model of one path.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mode: Mode,
    /// Maximum rate of each of the last rounds.
    rates: [u64; RATE_ROUNDS],
    rounds: usize,
    /// Whether no rate of the current round is recorded yet.
    is_fresh_round: bool,
    /// Number of bytes that had been delivered when the round began. The round ends when data is
    /// delivered that was sent after its beginning.
    round_end: u64,
    min_rtt: Option<(Duration, Instant)>,
    full_rate: u64,
    full_rounds: u32,
    /// The window to restore after a recovery or a measurement of the empty path.
    prior_cwnd: u32,
    /// Number of delivered bytes at which the first round of a recovery ends. In this round the
    /// sender sends no more than is delivered.
    conserves_until: Option<u64>,
    first_phase: usize,
}

/// The input from one acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct BbrSample {
    pub(super) rate: Option<RateSample>,
    pub(super) rtt: Option<Duration>,
    /// Bytes delivered since the connection began.
    pub(super) delivered: u64,
    /// Bytes delivered by this acknowledgment.
    pub(super) newly_delivered: u64,
    pub(super) pipe: u64,
    pub(super) cwnd: u32,
    pub(super) mss: u32,
    pub(super) now: Instant,
}

/// The window and the pacing rate that follow from the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) cwnd: u32,
    pub(super) bytes_per_s: Option<u64>,
}

impl Bbr {
    /// Returns an empty model. Flows with different `seed` probe at different times.
    pub(super) fn new(seed: u32) -> Self {
        Self {
            mode: Mode::Startup,
            rates: [0; RATE_ROUNDS],
            rounds: 0,
            is_fresh_round: false,
            round_end: 0,
            min_rtt: None,
            full_rate: 0,
            full_rounds: 0,
            prior_cwnd: 0,
            conserves_until: None,
            // Flows may start in any phase except the draining one, because there is no queue to
            // drain yet.
            first_phase: [0, 2, 3, 4, 5, 6, 7].get(seed as usize % 7).copied().unwrap_or(0),
        }
    }

    fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    fn is_path_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    /// Returns `gain` times the bandwidth-delay product of the path, in bytes. The gain is in
    /// thousandths.
    fn path_capacity(&self, gain: u64) -> u64 {
        let Some((min_rtt, _)) = self.min_rtt else { return u64::MAX };
        let bytes = u128::from(self.rate()) * min_rtt.as_nanos() / 1_000_000_000;
        u64::try_from(bytes * u128::from(gain) / 1000).unwrap_or(u64::MAX)
    }

    /// Updates the model with an acknowledgment, and returns the resulting window and rate.
    pub(super) fn observe(&mut self, sample: &BbrSample) -> Control {
        let begins_round = self.record_rate(sample);
        self.change_mode(sample);
        self.update_min_rtt(sample, begins_round);
        if self.conserves_until.is_some_and(|until| sample.delivered >= until) {
            self.conserves_until = None;
        }
        Control { cwnd: self.window(sample), bytes_per_s: self.pace(sample) }
    }

    /// §4.1.1: records the delivery rate, and counts the rounds without growth. Returns whether a
    /// round begins.
    fn record_rate(&mut self, sample: &BbrSample) -> bool {
        let Some(rate_sample) = sample.rate else { return false };
        let begins_round = rate_sample.delivered_before >= self.round_end;
        if begins_round {
            self.round_end = sample.delivered;
            self.is_fresh_round = true;
        }
        if !rate_sample.is_app_limited || rate_sample.bytes_per_s >= self.rate() {
            // Rounds limited by the application do not age the recorded rates. Otherwise a file
            // transfer after a period of typing would start at the rate of the keystrokes.
            if core::mem::take(&mut self.is_fresh_round) {
                self.rounds = (self.rounds + 1) % RATE_ROUNDS;
                self.set_rate(0);
            }
            let round_rate = self.rates.get(self.rounds).copied().unwrap_or(0);
            self.set_rate(round_rate.max(rate_sample.bytes_per_s));
        }
        if begins_round && !rate_sample.is_app_limited && !self.is_path_full() {
            if self.rate() >= self.full_rate.saturating_add(self.full_rate / 4) {
                self.full_rate = self.rate();
                self.full_rounds = 0;
            } else {
                self.full_rounds += 1;
            }
        }
        begins_round
    }

    fn set_rate(&mut self, rate: u64) {
        if let Some(round_rate) = self.rates.get_mut(self.rounds) {
            *round_rate = rate;
        }
    }

    fn change_mode(&mut self, sample: &BbrSample) {
        if self.mode == Mode::Startup && self.is_path_full() {
            self.mode = Mode::Drain;
        }
        match self.mode {
            Mode::Drain if sample.pipe <= self.path_capacity(1000) => {
                let phase = self.first_phase;
                self.mode = Mode::ProbeBandwidth { phase, since: sample.now };
            }
            Mode::ProbeBandwidth { phase, since } => {
                let gain = CYCLE.get(phase).copied().unwrap_or(1000);
                let is_over = self.min_rtt.is_some_and(|(rtt, _)| sample.now - since > rtt);
                let may_end = match gain.cmp(&1000) {
                    Ordering::Greater => is_over && sample.pipe >= self.path_capacity(gain),
                    Ordering::Less => is_over || sample.pipe <= self.path_capacity(1000),
                    Ordering::Equal => is_over,
                };
                // A phase ends after two round trips at the latest, even if the path cannot deliver
                // at the higher rate.
                let rtt = self.min_rtt.map_or(Duration::ZERO, |(rtt, _)| rtt);
                if may_end || sample.now - since > rtt * 2 {
                    let phase = (phase + 1) % CYCLE.len();
                    self.mode = Mode::ProbeBandwidth { phase, since: sample.now };
                }
            }
            _ => {}
        }
    }

    /// §4.3.5: records the round-trip time. If the minimum has expired, starts to measure the round
    /// trip of an empty path.
    fn update_min_rtt(&mut self, sample: &BbrSample, begins_round: bool) {
        let now = sample.now;
        let is_old = self.min_rtt.is_some_and(|(_, at)| now - at > MIN_RTT_VALID);
        if let Some(rtt) = sample.rtt
            && (is_old || self.min_rtt.is_none_or(|(least, _)| rtt <= least))
        {
            self.min_rtt = Some((rtt, now));
        }
        let in_probe = matches!(self.mode, Mode::ProbeRtt { .. });
        if is_old && !in_probe {
            self.prior_cwnd = self.prior_cwnd.max(sample.cwnd);
            self.mode = Mode::ProbeRtt { ends_at: None };
        }
        let Mode::ProbeRtt { ends_at } = &mut self.mode else { return };
        match ends_at {
            None if sample.pipe <= u64::from(PROBE_RTT_SEGMENTS * sample.mss) => {
                *ends_at = Some(now + PROBE_RTT_TIME);
                self.round_end = sample.delivered;
            }
            Some(ends_at) if now >= *ends_at && begins_round => {
                self.min_rtt = self.min_rtt.map(|(rtt, _)| (rtt, now));
                let phase = self.first_phase;
                self.mode = if self.is_path_full() {
                    Mode::ProbeBandwidth { phase, since: now }
                } else {
                    Mode::Startup
                };
            }
            _ => {}
        }
    }

    fn pace(&self, sample: &BbrSample) -> Option<u64> {
        let gain = match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBandwidth { phase, .. } => CYCLE.get(phase).copied().unwrap_or(1000),
            Mode::ProbeRtt { .. } => 1000,
        };
        let rtt = self.min_rtt?.0.as_nanos().max(1);
        // Before the model has a rate, the initial window determines the pacing rate.
        let initial_rate = u128::from(sample.cwnd) * 1_000_000_000 / rtt;
        let initial_rate = u64::try_from(initial_rate).unwrap_or(u64::MAX);
        let rate = if self.is_path_full() { self.rate() } else { self.rate().max(initial_rate) };
        Some((u128::from(rate) * u128::from(gain) / 1000).try_into().unwrap_or(u64::MAX))
    }

    fn window(&mut self, sample: &BbrSample) -> u32 {
        let gain = match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBandwidth { .. } | Mode::ProbeRtt { .. } => WINDOW_GAIN,
        };
        let min_cwnd = PROBE_RTT_SEGMENTS * sample.mss;
        let clip = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.conserves_until.is_some() {
            return sample.cwnd.max(clip(sample.pipe + sample.newly_delivered));
        }
        let mut cwnd = sample.cwnd.saturating_add(clip(sample.newly_delivered));
        if !matches!(self.mode, Mode::ProbeRtt { .. }) && self.prior_cwnd > 0 {
            cwnd = cwnd.max(core::mem::take(&mut self.prior_cwnd));
        }
        if self.is_path_full() {
            // Slightly more than the capacity of the path, to allow for bursts of acknowledgments.
            let target = clip(self.path_capacity(gain).saturating_add(u64::from(3 * sample.mss)));
            cwnd = cwnd.min(target);
        }
        match self.mode {
            Mode::ProbeRtt { .. } => cwnd.min(min_cwnd),
            _ => cwnd.max(min_cwnd),
        }
    }

    /// Starts a recovery with `pipe` bytes outstanding, and returns the window. In the first round
    /// no more is sent than is delivered.
    pub(super) fn lost(&mut self, cwnd: u32, pipe: u64, delivered: u64, mss: u32) -> u32 {
        self.prior_cwnd = self.prior_cwnd.max(cwnd);
        self.conserves_until = Some(delivered.saturating_add(pipe.max(1)));
        u32::try_from(pipe).unwrap_or(u32::MAX).saturating_add(mss)
    }

    /// Records that the retransmission timeout has expired.
    pub(super) fn timed_out(&mut self, cwnd: u32) {
        self.prior_cwnd = self.prior_cwnd.max(cwnd);
        self.conserves_until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;
    const RTT: Duration = Duration::from_millis(100);

    /// A path with a fixed rate and round-trip time and without a queue. The sender always fully
    /// uses it, and the receiver acknowledges each segment.
    struct Path {
        bbr: Bbr,
        now: Instant,
        delivered: u64,
        is_app_limited: bool,
        control: Control,
    }

    impl Path {
        fn new() -> Self {
            let control = Control { cwnd: 10 * MSS, bytes_per_s: None };
            let bbr = Bbr::new(1);
            let now = Instant::ZERO;
            Self { bbr, now, delivered: 0, is_app_limited: false, control }
        }

        /// Advances the time by `time`. The path has the rate `bytes_per_s`.
        fn run(&mut self, bytes_per_s: u64, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                let window = u64::from(self.control.cwnd) * 10;
                let rate = bytes_per_s.min(window).max(1);
                self.now = self.now + Duration::from_nanos(1_000_000_000 * u64::from(MSS) / rate);
                self.delivered += u64::from(MSS);
                let in_flight = rate / 10;
                let delivered_before = self.delivered.saturating_sub(in_flight);
                let is_app_limited = self.is_app_limited;
                let sample = RateSample { bytes_per_s: rate, is_app_limited, delivered_before };
                self.control = self.bbr.observe(&BbrSample {
                    rate: Some(sample),
                    rtt: Some(RTT),
                    delivered: self.delivered,
                    newly_delivered: u64::from(MSS),
                    pipe: in_flight,
                    cwnd: self.control.cwnd,
                    mss: MSS,
                    now: self.now,
                });
            }
        }
    }

    #[test]
    fn the_rate_is_found_and_twice_the_bandwidth_delay_product_is_outstanding() {
        let mut path = Path::new();
        path.run(1_000_000, Duration::from_secs(5));
        assert_eq!(path.bbr.rate(), 1_000_000);
        assert!(matches!(path.bbr.mode, Mode::ProbeBandwidth { .. }));
        assert_eq!(path.control.cwnd, 203_000);
    }

    #[test]
    fn a_slower_path_is_detected_after_ten_rounds() {
        let mut path = Path::new();
        path.run(1_000_000, Duration::from_secs(5));
        path.run(200_000, Duration::from_secs(3));
        assert_eq!(path.bbr.rate(), 200_000);
    }

    #[test]
    fn app_limited_rounds_do_not_age_the_rate() {
        let mut path = Path::new();
        path.run(1_000_000, Duration::from_secs(5));
        path.is_app_limited = true;
        path.run(10_000, Duration::from_secs(3));
        assert_eq!(path.bbr.rate(), 1_000_000);
        path.is_app_limited = false;
        path.run(200_000, Duration::from_secs(3));
        assert_eq!(path.bbr.rate(), 200_000);
    }

    #[test]
    fn a_loss_limits_output_to_delivery_for_one_round() {
        let mut path = Path::new();
        path.run(1_000_000, Duration::from_secs(5));
        let before = path.control.cwnd;
        let cwnd = path.bbr.lost(before, 90_000, path.delivered, MSS);
        assert_eq!(cwnd, 91_000);
        path.control.cwnd = cwnd;
        path.run(1_000_000, Duration::from_millis(50));
        assert!(path.control.cwnd < before);
        path.run(1_000_000, Duration::from_millis(100));
        assert_eq!((path.control.cwnd, path.bbr.rate()), (before, 1_000_000));
    }

    #[test]
    fn the_empty_path_is_measured_after_ten_seconds_of_higher_rtt() {
        let mut path = Path::new();
        path.run(1_000_000, Duration::from_secs(5));
        path.bbr.min_rtt = Some((RTT - Duration::from_millis(50), path.now));
        path.run(1_000_000, Duration::from_millis(10_100));
        assert!(matches!(path.bbr.mode, Mode::ProbeRtt { .. }));
        assert_eq!(path.control.cwnd, 4 * MSS);
        path.run(1_000_000, Duration::from_secs(1));
        assert!(matches!(path.bbr.mode, Mode::ProbeBandwidth { .. }));
        assert_eq!(path.control.cwnd, 203_000);
    }

    #[test]
    fn a_flow_starts_in_any_phase_except_the_draining_one() {
        let phases = [0, 1, 2, 3, 4, 5, 6, 7, 13].map(|seed| Bbr::new(seed).first_phase);
        assert_eq!(phases, [0, 2, 3, 4, 5, 6, 7, 0, 7]);
    }

    #[test]
    fn a_full_path_is_paced_at_its_measured_rate() {
        let mut path = Path::new();
        path.run(1_000_000, Duration::from_secs(5));
        path.bbr.mode = Mode::ProbeBandwidth { phase: 2, since: path.now };
        path.run(1_000_000, Duration::from_millis(1));
        // The window divided by the round trip is twice this rate.
        assert_eq!(path.control.bytes_per_s, Some(1_000_000));
    }

    #[test]
    fn the_path_is_drained_until_its_capacity_is_outstanding() {
        let mut bbr = Bbr { mode: Mode::Drain, full_rounds: FULL_ROUNDS, ..Bbr::new(1) };
        bbr.rates = [1_000_000; RATE_ROUNDS];
        bbr.min_rtt = Some((RTT, Instant::ZERO));
        let sample = |pipe| BbrSample {
            rate: None,
            rtt: None,
            delivered: 0,
            newly_delivered: 0,
            pipe,
            cwnd: 10 * MSS,
            mss: MSS,
            now: Instant::ZERO,
        };
        bbr.observe(&sample(100_001));
        assert_eq!(bbr.mode, Mode::Drain);
        bbr.observe(&sample(100_000));
        assert_eq!(bbr.mode, Mode::ProbeBandwidth { phase: 2, since: Instant::ZERO });
    }

    #[test]
    fn the_path_is_kept_empty_for_200_ms() {
        let ends_at = Instant::ZERO + PROBE_RTT_TIME;
        let mut bbr = Bbr { mode: Mode::ProbeRtt { ends_at: Some(ends_at) }, ..Bbr::new(1) };
        let rate = RateSample { bytes_per_s: 1000, is_app_limited: false, delivered_before: 0 };
        let sample = |now| BbrSample {
            rate: Some(rate),
            rtt: Some(RTT),
            delivered: 0,
            newly_delivered: 0,
            pipe: 0,
            cwnd: 10 * MSS,
            mss: MSS,
            now,
        };
        bbr.observe(&sample(Instant::ZERO + Duration::from_millis(199)));
        assert_eq!(bbr.mode, Mode::ProbeRtt { ends_at: Some(ends_at) });
        bbr.observe(&sample(ends_at));
        assert_eq!(bbr.mode, Mode::Startup);
    }
}
