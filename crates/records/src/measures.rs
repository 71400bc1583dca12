//! The six measures of RFC 573: rate, response, processing cost, failures to connect, availability
//! and accuracy.
//!
//! A try is one attempt to obtain the use of what is measured; its answer stands until the next
//! one, as in the paper's survey. A failure to connect is counted where a try fails that is the first
//! or follows one that did not, so that an outage counts once however long it lasts. What lies
//! between two tries is not seen: the interval says how short an outage may be and pass unseen.

use crate::accuracy::Accuracy;
use crate::measurement::Measurement;
use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// The six measures, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// The highest rate of one transfer, bit/s.
    pub rate_peak_bps: Option<u64>,
    /// The rate of all transfers together, bit/s.
    pub rate_average_bps: Option<u64>,
    /// From the name until what was asked for can be used, median of the tries that succeeded, ns.
    pub response_ns: Option<u64>,
    /// CPU time of this process for a megabit, ns.
    pub cpu_ns_per_megabit: Option<u64>,
    /// How often it was tried.
    pub tries: u64,
    /// How many of the tries failed.
    pub tries_failed: u64,
    /// Failures to connect: times at which it began to fail.
    pub failures: u64,
    /// The time between the beginnings of failures, ns; unknown if there was none.
    pub between_failures_ns: Option<u64>,
    /// The part of the tries that succeeded, from 0 to 1.
    pub availability: Option<f64>,
    /// How often what was transferred came out wrong.
    pub accuracy: Option<Accuracy>,
}

/// One attempt to obtain the use of what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// When it began, in ns since the first one did.
    pub at_ns: u64,
    /// How it ended.
    pub outcome: TryOutcome,
    /// How long it took until it could be used, ns.
    pub response_ns: Option<u64>,
    /// Why it failed, in a sentence.
    pub error: Option<String>,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TryOutcome {
    /// It can be used.
    Ok,
    /// The name has no address.
    NoAddress,
    /// There is no connection: refused, reset, unreachable or silent.
    NoConnection,
    /// There is a connection, and it cannot be used: no prompt, no login, no file.
    NotUsable,
    /// This machine refuses what is needed.
    ThisMachine,
}

impl TryOutcome {
    /// Returns the text that people read.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoAddress => "no address",
            Self::NoConnection => "no connection",
            Self::NotUsable => "not usable",
            Self::ThisMachine => "this machine",
        }
    }
}

impl Measures {
    /// Returns the measures of what `measured` holds; each try stands for `every_ns`.
    #[must_use]
    pub fn of(measured: &Measurement, every_ns: Option<u64>, accuracy: Option<Accuracy>) -> Self {
        let transfers = measured.transfers.as_ref();
        let rates = transfers.and_then(|transfers| transfers.rates_bps());
        let screenful = measured.screenful.as_ref().and_then(|screenful| {
            let bits = u128::from(screenful.bytes) * 8 * 1_000_000_000;
            // Painting is no transfer: from asking for it to the last of it, where that is known.
            let last_ns = screenful.arrivals.last().map(|last| last.at_ns);
            let rate = bits.checked_div(last_ns.unwrap_or(screenful.first_to_last_ns).into())?;
            u64::try_from(rate).ok()
        });
        // What is typed comes back: a key is 8 bits of a file that a person writes.
        let of_keys = measured.echo.as_ref().and_then(|echo| echo.cpu_ns_per_key);
        let of_keys = of_keys.map(|ns| ns.saturating_mul(1_000_000) / 8);
        let tries = &measured.tries;
        let responses: Vec<u64> = tries.iter().filter_map(|one| one.response_ns).collect();
        let is_ok = |one: &Try| one.outcome == TryOutcome::Ok;
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let ok = tries.iter().filter(|one| is_ok(one)).count();
        let before = std::iter::once(true).chain(tries.iter().map(is_ok));
        let failures = before.zip(tries).filter(|(was_ok, one)| *was_ok && !is_ok(one)).count();
        let last_ns = tries.last().map(|one| one.at_ns);
        let stood_ns = last_ns.zip(every_ns).map(|(last, every)| last.saturating_add(every));
        Self {
            rate_peak_bps: rates.map(|(peak, _)| peak).or(screenful),
            rate_average_bps: rates.map(|(_, average)| average).or(screenful),
            response_ns: median(&responses),
            cpu_ns_per_megabit: transfers
                .and_then(|transfers| transfers.cpu_ns_per_megabit())
                .or(of_keys),
            tries: count(tries.len()),
            tries_failed: count(tries.len() - ok),
            failures: count(failures),
            between_failures_ns: stood_ns.and_then(|ns| ns.checked_div(count(failures))),
            availability: (!tries.is_empty()).then(|| ok as f64 / tries.len() as f64),
            accuracy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// Returns the measures of tries of which `outcomes` tells, one an hour.
    fn measures(outcomes: &[TryOutcome]) -> Measures {
        let mut measured =
            Measurement::from_json(include_str!("../samples/measurement-1.json")).unwrap();
        measured.tries = (0..)
            .zip(outcomes)
            .map(|(at, outcome)| Try {
                at_ns: at * HOUR_NS,
                outcome: *outcome,
                response_ns: (*outcome == Ok).then_some(1_000 * (at + 1)),
                error: None,
            })
            .collect();
        Measures::of(&measured, Some(HOUR_NS), None)
    }

    use TryOutcome::{NoConnection, NotUsable, Ok};

    #[test]
    fn an_outage_counts_once_however_long_it_lasts() {
        let found = measures(&[Ok, NoConnection, NotUsable, Ok, NoConnection, Ok]);
        assert_eq!((found.tries, found.tries_failed, found.failures), (6, 3, 2));
        assert_eq!(found.between_failures_ns, Some(3 * HOUR_NS));
        assert_eq!(found.availability, Some(0.5));
    }

    #[test]
    fn response_is_that_of_the_tries_that_succeeded() {
        assert_eq!(measures(&[Ok, NoConnection, Ok, Ok]).response_ns, Some(3_000));
    }

    #[test]
    fn without_a_failure_the_time_between_them_is_unknown() {
        let found = measures(&[Ok, Ok]);
        assert_eq!((found.between_failures_ns, found.availability), (None, Some(1.0)));
    }

    #[test]
    fn without_a_try_there_is_no_availability() {
        assert_eq!(measures(&[]).availability, None);
    }

    #[test]
    fn a_login_has_the_rate_of_its_screenful_and_the_cost_of_its_keys() {
        let found = measures(&[Ok]);
        // 2,070 bytes in 1.41 ms, and 9.4 µs for the 8 bits of a key.
        assert_eq!(found.rate_peak_bps, Some(11_744_680));
        assert_eq!(found.cpu_ns_per_megabit, Some(1_175_000_000));
    }
}
