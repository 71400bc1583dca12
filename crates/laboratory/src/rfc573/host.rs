//! A surveyed host and its logger, each of which fails and recovers.

use super::scenario::{Rates, Scenario};
use crate::sample::exponential_time;
use net::rng::Rng;
use net::time::{Duration, Instant};

const HOUR_S: f64 = 3_600.0;

/// Mean durations of the up and down phases of a host or a logger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PhaseDurations {
    pub(super) mean_up: Duration,
    pub(super) mean_down: Duration,
}

impl PhaseDurations {
    /// Returns the mean up and down times of a component that fails every `cycle_hours` on average
    /// and is down for the fraction `down_part` of the time.
    fn failing_every(cycle_hours: f64, down_part: f64) -> Self {
        let cycle_s = (cycle_hours * HOUR_S).max(1.0);
        let down_part = down_part.clamp(0.0, 1.0);
        Self {
            mean_up: Duration::from_secs_f64(cycle_s * (1.0 - down_part)),
            mean_down: Duration::from_secs_f64(cycle_s * down_part),
        }
    }

    /// Returns random outages of the component until `end`.
    pub(super) fn outages(self, end: Instant, rng: &mut Rng) -> Outages {
        let mut now = Instant::ZERO;
        let mut outages = Vec::new();
        while now < end && !self.mean_down.is_zero() {
            let fails = now + exponential_time(self.mean_up, rng);
            now = fails + exponential_time(self.mean_down, rng);
            if fails < end {
                outages.push((fails, now.min(end)));
            }
        }
        Outages(outages)
    }
}

/// Disjoint outages in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Outages(Vec<(Instant, Instant)>);

impl Outages {
    /// Returns whether `at` lies within an outage.
    pub(super) fn includes(&self, at: Instant) -> bool {
        let after = self.0.partition_point(|(_, ends)| *ends <= at);
        self.0.get(after).is_some_and(|(begins, _)| *begins <= at)
    }

    /// Returns the number of outages.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the total downtime.
    pub(super) fn total(&self) -> Duration {
        self.0.iter().map(|(begins, ends)| ends.since(*begins)).sum()
    }

    /// Returns the union of both sets of outages.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut joined_outages: Vec<(Instant, Instant)> = Vec::new();
        for (begins, ends) in all {
            match joined_outages.last_mut() {
                Some((_, last)) if begins <= *last => *last = ends.max(*last),
                _ => joined_outages.push((begins, ends)),
            }
        }
        Self(joined_outages)
    }
}

/// A surveyed host with its outages.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// Times at which the host is dead.
    pub(super) dead: Outages,
    /// Times at which login is impossible, because the host is dead or its logger does not answer.
    pub(super) login_outages: Outages,
    /// Mean response time minus the minimum response time.
    mean_extra_response: Duration,
    least_response: Duration,
}

impl Host {
    /// Creates a host with random outages according to `rates`, for the duration of the survey.
    pub(super) fn new(rates: &Rates, scenario: &Scenario, rng: &mut Rng) -> Self {
        let end = Instant::ZERO + days(scenario.days);
        let dead_part = 1.0 - rates.host_availability / 100.0;
        let dead =
            PhaseDurations::failing_every(rates.host_failure_hours, dead_part).outages(end, rng);
        let login_outages = match logger_phases(rates) {
            Some(phases) => dead.union(&phases.outages(end, rng)),
            None => dead.clone(),
        };
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
        Self {
            dead,
            login_outages,
            mean_extra_response: seconds(rates.response_s - scenario.least_response_s),
            least_response: seconds(scenario.least_response_s),
        }
    }

    /// Returns a random response time.
    pub(super) fn response(&self, rng: &mut Rng) -> Duration {
        self.least_response + exponential_time(self.mean_extra_response, rng)
    }
}

/// Returns the mean up and down times of the logger while its host is up, derived from the
/// differences in failure rate and availability between logger and host. Returns `None` if the
/// logger does not fail more often, or is not less available, than its host.
fn logger_phases(rates: &Rates) -> Option<PhaseDurations> {
    let failures = 1.0 / rates.logger_failure_hours - 1.0 / rates.host_failure_hours;
    let down_part = 1.0 - rates.logger_availability / rates.host_availability;
    (failures > 0.0 && down_part > 0.0)
        .then(|| PhaseDurations::failing_every(1.0 / failures, down_part))
}

/// Returns a duration of `count` days.
pub(super) fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_pair_is_down_when_either_host_is_down() {
        let a = Outages(vec![(at(1), at(3)), (at(10), at(11))]);
        let b = Outages(vec![(at(2), at(5)), (at(20), at(21))]);
        let either = a.union(&b);
        assert_eq!((either.count(), either.total()), (3, Duration::from_secs(6)));
        assert!(either.includes(at(4)) && !either.includes(at(5)) && either.includes(at(20)));
    }

    #[test]
    fn a_downtime_of_one_tenth_is_sampled_correctly() {
        let phases = PhaseDurations::failing_every(10.0, 0.1);
        let outages = phases.outages(at(86_400 * 1_000), &mut Rng::from_seed(1));
        let part = outages.total().as_secs_f64() / 86_400_000.0;
        assert!((0.09..0.11).contains(&part), "{part}");
        assert!((2_300..2_500).contains(&outages.count()), "{}", outages.count());
    }
}
