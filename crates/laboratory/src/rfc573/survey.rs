//! The survey and its results, by the rules of RFC 573, section II.

use super::host::{Host, days};
use super::scenario::Scenario;
use net::rng::Rng;
use net::time::{Duration, Instant};

/// Result of one try to connect to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The host does not answer.
    Dead,
    /// The host is up, but its logger does not answer in time.
    NotResponding,
    /// A connection was established, after this response time.
    Available(Duration),
}

impl Answer {
    const fn is_host_up(self) -> bool {
        !matches!(self, Self::Dead)
    }

    const fn is_logger_up(self) -> bool {
        matches!(self, Self::Available(_))
    }
}

/// The values of table I for one host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HostValues {
    /// Mean response time of the successful tries; `None` if no try was successful.
    pub(super) response_s: Option<f64>,
    /// Availability of the host in percent of the time.
    pub(super) host_availability: f64,
    pub(super) logger_availability: f64,
    /// Mean hours between the beginnings of failures; `None` without a failure.
    pub(super) host_failure_hours: Option<f64>,
    pub(super) logger_failure_hours: Option<f64>,
}

/// Tries to connect to a host at the interval of the scenario, for the duration of the survey.
pub(super) fn survey(host: &Host, scenario: &Scenario, rng: &mut Rng) -> Vec<Answer> {
    let every = Duration::from_secs(scenario.every_s.max(1));
    let limit = Duration::from_secs(scenario.timeout_s);
    // The first try is at a random time within the first interval.
    let nanos = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
    let mut now = Instant::ZERO + Duration::from_nanos(rng.below(nanos));
    let end = Instant::ZERO + days(scenario.days);
    let mut answers = Vec::new();
    while now < end {
        let response = host.response(rng);
        answers.push(match (host.dead.includes(now), host.login_outages.includes(now)) {
            (true, _) => Answer::Dead,
            (false, true) => Answer::NotResponding,
            (false, false) if response > limit => Answer::NotResponding,
            (false, false) => Answer::Available(response),
        });
        now = now + every;
    }
    answers
}

/// Computes the values of table I from consecutive answers.
pub(super) fn host_values(answers: &[Answer], scenario: &Scenario) -> HostValues {
    let hours = answers.len() as f64 * scenario.every_s as f64 / 3_600.0;
    let per_cent = |is_up: fn(Answer) -> bool| {
        let up = answers.iter().filter(|answer| is_up(**answer)).count();
        up as f64 * 100.0 / answers.len().max(1) as f64
    };
    let hours_between = |is_up: fn(Answer) -> bool| {
        let failures = answers.windows(2).filter(|pair| match pair {
            [before, after] => is_up(*before) && !is_up(*after),
            _ => false,
        });
        let failures = failures.count();
        (failures > 0).then(|| hours / failures as f64)
    };
    let responses: Vec<f64> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Available(response) => Some(response.as_secs_f64()),
            Answer::Dead | Answer::NotResponding => None,
        })
        .collect();
    HostValues {
        response_s: (!responses.is_empty())
            .then(|| responses.iter().sum::<f64>() / responses.len() as f64),
        host_availability: per_cent(Answer::is_host_up),
        logger_availability: per_cent(Answer::is_logger_up),
        host_failure_hours: hours_between(Answer::is_host_up),
        logger_failure_hours: hours_between(Answer::is_logger_up),
    }
}

/// Returns the answers of `count` days, starting at day `first`.
pub(super) fn days_of<'a>(
    answers: &'a [Answer],
    scenario: &Scenario,
    first: u64,
    count: u64,
) -> &'a [Answer] {
    let tries = |days: u64| {
        usize::try_from(days.saturating_mul(86_400) / scenario.every_s.max(1)).unwrap_or(usize::MAX)
    };
    let begin = tries(first).min(answers.len());
    let end = tries(first.saturating_add(count)).min(answers.len());
    answers.get(begin..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::built_in;
    use super::*;

    const UP: Answer = Answer::Available(Duration::from_secs(2));

    #[test]
    fn a_failure_during_three_polls_is_one_failure_of_one_hour() {
        let answers = [UP, UP, Answer::Dead, Answer::Dead, Answer::Dead, UP];
        let values = host_values(&answers, &built_in());
        assert_eq!((values.host_availability, values.host_failure_hours), (50.0, Some(2.0)));
        assert_eq!(values.response_s, Some(2.0));
    }

    #[test]
    fn a_host_whose_logger_does_not_respond_counts_as_available() {
        let values = host_values(&[UP, Answer::NotResponding], &built_in());
        assert_eq!((values.host_availability, values.logger_availability), (100.0, 50.0));
        assert_eq!(values.host_failure_hours, None);
    }
}
