//! The six measures, computed from the record of a run.
//!
//! The outcome of a try is assumed to hold until the next try, as in the paper's survey. A failed
//! try counts as a failure to connect if it is the first try or follows a successful one, so that an
//! outage counts once, regardless of its length. Outages between two tries go unnoticed: the
//! interval between tries bounds their length.

use super::{Attempt, AttemptOutcome, Measures};
use crate::accuracy::Accuracy;
use crate::measurement::Measurement;
use crate::statistics::median;

impl Measures {
    /// Computes the measures from `measured`. `every_ns` is the interval between tries, if there
    /// are several.
    #[must_use]
    pub fn of(measured: &Measurement, every_ns: Option<u64>, accuracy: Option<Accuracy>) -> Self {
        let transfers = measured.transfers.as_ref();
        let rates = transfers.and_then(|transfers| transfers.rates_bps());
        let screenful = measured.screenful.as_ref().and_then(|screenful| {
            let bits = u128::from(screenful.bytes) * 8 * 1_000_000_000;
            // The transfer ends with the last arrival if that is known, because rendering is not
            // part of it.
            let last_ns = screenful.arrivals.last().map(|last| last.at_ns);
            let rate = bits.checked_div(last_ns.unwrap_or(screenful.first_to_last_ns).into())?;
            u64::try_from(rate).ok()
        });
        // Typed text is echoed: each keystroke counts as 8 bits of user data.
        let per_keystroke = measured.echo.as_ref().and_then(|echo| echo.cpu_ns_per_key);
        let per_keystroke = per_keystroke.map(|ns| ns.saturating_mul(1_000_000) / 8);
        let tries = &measured.tries;
        let responses: Vec<u64> = tries.iter().filter_map(|attempt| attempt.response_ns).collect();
        let is_ok = |attempt: &Attempt| attempt.outcome == AttemptOutcome::Ok;
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let successful_count = tries.iter().filter(|attempt| is_ok(attempt)).count();
        let previous_results = std::iter::once(true).chain(tries.iter().map(is_ok));
        let failures = previous_results
            .zip(tries)
            .filter(|(was_ok, attempt)| *was_ok && !is_ok(attempt))
            .count();
        let last_ns = tries.last().map(|attempt| attempt.at_ns);
        let observed_ns = last_ns.zip(every_ns).map(|(last, every)| last.saturating_add(every));
        Self {
            rate_peak_bps: rates.map(|(peak, _)| peak).or(screenful),
            rate_average_bps: rates.map(|(_, average)| average).or(screenful),
            response_ns: median(&responses),
            cpu_ns_per_megabit: transfers
                .and_then(|transfers| transfers.cpu_ns_per_megabit())
                .or(per_keystroke),
            tries: count(tries.len()),
            tries_failed: count(tries.len() - successful_count),
            tries_missed: 0,
            failures: count(failures),
            between_failures_ns: observed_ns.and_then(|ns| ns.checked_div(count(failures))),
            availability: (!tries.is_empty()).then(|| successful_count as f64 / tries.len() as f64),
            accuracy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// Returns the measures of tries with these outcomes, at intervals of one hour.
    fn measures(outcomes: &[AttemptOutcome]) -> Measures {
        let mut measured =
            Measurement::from_json(include_str!("../../samples/measurement-1.json")).unwrap();
        measured.tries = (0..)
            .zip(outcomes)
            .map(|(at, outcome)| Attempt {
                response_ns: (*outcome == Ok).then_some(1_000 * (at + 1)),
                ..Attempt::new(at * HOUR_NS, *outcome)
            })
            .collect();
        Measures::of(&measured, Some(HOUR_NS), None)
    }

    use AttemptOutcome::{NoConnection, NotUsable, Ok};

    #[test]
    fn an_outage_counts_once_regardless_of_its_length() {
        let measures = measures(&[Ok, NoConnection, NotUsable, Ok, NoConnection, Ok]);
        assert_eq!((measures.tries, measures.tries_failed, measures.failures), (6, 3, 2));
        assert_eq!(measures.between_failures_ns, Some(3 * HOUR_NS));
        assert_eq!(measures.availability, Some(0.5));
    }

    #[test]
    fn response_is_the_median_of_successful_tries() {
        assert_eq!(measures(&[Ok, NoConnection, Ok, Ok]).response_ns, Some(3_000));
    }

    #[test]
    fn without_failures_the_time_between_failures_is_unknown() {
        let measures = measures(&[Ok, Ok]);
        assert_eq!((measures.between_failures_ns, measures.availability), (None, Some(1.0)));
    }

    #[test]
    fn without_a_try_the_availability_is_unknown() {
        assert_eq!(measures(&[]).availability, None);
    }

    #[test]
    fn a_login_has_the_rate_of_its_screenful_and_the_cost_of_its_keys() {
        let measures = measures(&[Ok]);
        // 2,070 bytes in 1.41 ms, and 9.4 µs per keystroke of 8 bits.
        assert_eq!(measures.rate_peak_bps, Some(11_744_680));
        assert_eq!(measures.cpu_ns_per_megabit, Some(1_175_000_000));
    }
}
