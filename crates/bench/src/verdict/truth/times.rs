//! The measured times of a run.

use super::super::user_wait::UserWait;
use super::run::LIMIT;
use std::collections::BTreeMap;
use std::time::Duration;

/// One measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Time {
    pub(in super::super) ms: f64,
    /// Whether the time limit was reached, so that the time is a lower bound.
    pub(in super::super) timed_out: bool,
}

/// The times of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Truth {
    pub(in super::super) times: BTreeMap<UserWait, Time>,
}

impl Truth {
    /// Returns the time by which the waiting time in `without` is shorter. `timed_out` is set if
    /// one of the two times reached its limit.
    pub(in super::super) fn gain(&self, without: &Self, user_wait: UserWait) -> Option<Time> {
        let with = self.times.get(&user_wait)?;
        let without = without.times.get(&user_wait)?;
        let timed_out = with.timed_out || without.timed_out;
        Some(Time { ms: with.ms - without.ms, timed_out })
    }

    pub(super) fn set(&mut self, user_wait: UserWait, times: &[f64], is_random: bool) {
        let ms = if is_random { mean(times) } else { median(times) };
        if let Some(ms) = ms {
            self.times.insert(user_wait, Time { ms, timed_out: false });
        }
    }

    pub(super) fn set_limit(&mut self, user_wait: UserWait) {
        self.times.insert(user_wait, Time { ms: millis(LIMIT), timed_out: true });
    }
}

/// Converts a duration to milliseconds.
pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mean(times: &[f64]) -> Option<f64> {
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

/// Returns the median of `times`: for an even number the smaller of the two middle values.
pub(in super::super) fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_the_difference_of_two_runs_and_a_limit_makes_it_a_lower_bound() {
        let mut with = Truth::default();
        with.set(UserWait::Echo, &[30.0, 20.0, 400.0], false);
        with.set_limit(UserWait::Screenful);
        let mut without = Truth::default();
        without.set(UserWait::Echo, &[10.0], false);
        without.set(UserWait::Screenful, &[40.0], false);
        assert_eq!(with.gain(&without, UserWait::Echo), Some(Time { ms: 20.0, timed_out: false }));
        let gain = with.gain(&without, UserWait::Screenful).unwrap();
        assert!(gain.timed_out && gain.ms > 14_000.0);
        assert_eq!(with.gain(&without, UserWait::Transfer), None);
    }
}
