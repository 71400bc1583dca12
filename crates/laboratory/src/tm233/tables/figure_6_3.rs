//! Figure 6-3: times of screenfuls from the host CSR, which form clumps, one for each number of
//! retransmissions.

use super::super::experiments::WINDOW;
use super::super::foreign::{Additions, ForeignSession, ScreenfulResult};
use super::super::scenario::{Scenario, Timer};
use crate::picture::{Bar, Drawing, Picture};
use crate::table::{Extent, Figure, Origin, Row, Table};
use simulator::Stuck;
use std::collections::BTreeMap;

/// Times of the clumps of the thesis, in seconds.
const CLUMPS: [f64; 3] = [3.0, 7.0, 11.0];

/// Returns the clumps at both line rates, with each rule for the retransmission timeout, and a
/// figure of the individual times with the rule of the scenario.
pub(super) fn table(scenario: &Scenario) -> Result<(Table, Picture), Stuck> {
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    for timer in Timer::ALL {
        let with_timer = Scenario { retransmission_timer: timer, ..scenario.clone() };
        for rate_bps in [scenario.rate_bps, scenario.rate_bps * 2] {
            let result = trials(&with_timer, rate_bps, Additions::default())?;
            if timer == scenario.retransmission_timer {
                bars.extend(by_half_seconds(rate_bps, &result));
            }
            let mut clumps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for result in result {
                clumps.entry(result.timeouts).or_default().push(result.time.as_secs_f64());
            }
            for (timeouts, times) in clumps {
                let clump = usize::try_from(timeouts).ok().and_then(|at| CLUMPS.get(at));
                let share = times.len() as f64 * 100.0 / f64::from(scenario.clumps.trials.max(1));
                let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
                let rule = timer.text();
                let what = format!("{rate_bps} bit/s, {rule}, {timeouts} timeouts, {share:.0} %");
                let origin = origin(timer, timeouts);
                let row = Row::new(what, origin, mean, 1);
                let measured = clump.map(|clump| Figure::new(Extent::About(*clump)));
                rows.push(Row { measured, ..row });
            }
        }
    }
    let table = Table {
        number: "figure 6-3",
        title: "screenfuls from CSR through a concentrator that drops packets of a burst",
        unit: "s, mean of each clump",
        rows,
        why: "Four packets arrive together. The first passes, and each of the others is dropped \
              with a probability of 35 %, because the thesis states only \"often\". The timeout of \
              CSR, 3.5 s, is derived from its clumps. The thesis shows the share of each clump for \
              ten tests in a picture that cannot be read in the scan. The thesis counts \
              retransmissions; plumbline counts timeouts, because all data that is missing at a \
              timeout is retransmitted together. In the thesis the second and the third clump are \
              as far apart as the first and the second. This means a fixed timer, which the \
              scenario has. A timer that backs off, as RFC 6298 §5.5 requires of modern hosts, \
              waits twice as long the second time, and its third clump is late by that time.",
    };
    let title = "screenfuls from CSR by the time that they took";
    Ok((table, Picture { number: "figure 6-3", title, drawing: Drawing::Bars(bars) }))
}

/// Returns the origin of a clump's mean.
///
/// Two settings of the scenario are derived from the thesis's clumps: the time until the first
/// retransmission from the second clump, and the fixed timer from the third clump. A mean that
/// agrees with the thesis because of such a setting is a fit.
const fn origin(timer: Timer, timeouts: u64) -> Origin {
    match (timer, timeouts) {
        (_, 1) | (Timer::Fixed, 2..) => Origin::Fit,
        _ => Origin::Output,
    }
}

/// Returns the numbers of trials by time, in steps of half a second.
fn by_half_seconds(rate_bps: u64, result: &[ScreenfulResult]) -> Vec<Bar> {
    let halves = result.iter().map(|result| result.time.as_millis() / 500);
    let mut counts: BTreeMap<u128, u32> = BTreeMap::new();
    for half in halves.clone() {
        *counts.entry(half).or_default() += 1;
    }
    let (Some(first), Some(last)) = (halves.clone().min(), halves.max()) else { return Vec::new() };
    (first..=last)
        .map(|half| Bar {
            what: format!("{rate_bps} bit/s, from {}.{} s", half / 2, half % 2 * 5),
            count: counts.get(&half).copied().unwrap_or(0),
        })
        .collect()
}

/// Simulates the number of screenfuls that the scenario specifies.
pub(super) fn trials(
    scenario: &Scenario,
    rate_bps: u64,
    additions: Additions,
) -> Result<Vec<ScreenfulResult>, Stuck> {
    let Some(host) = scenario.hosts.first() else { return Ok(Vec::new()) };
    let run = |trial| {
        let seed = scenario.seed + u64::from(trial);
        let window = WINDOW;
        ForeignSession { scenario, host, rate_bps, window, is_faulty: true, additions, seed }
            .screenful()
    };
    (0..scenario.clumps.trials).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn the_first_two_clumps_of_screenfuls_are_about_four_seconds_apart() {
        let mut scenario = built_in();
        scenario.clumps.trials = 25;
        let rows = table(&scenario).unwrap().0.rows;
        let clump = |row: &Row| row.measured.and_then(|figure| figure.bounds().0);
        let first_two = rows.iter().filter_map(|row| Some((row, clump(row)?)));
        let first_two: Vec<_> = first_two.filter(|(_, clump)| *clump < 8.0).collect();
        assert!(first_two.len() >= 4, "{rows:?}");
        for (row, clump) in first_two {
            assert!((row.ours - clump).abs() < 1.5, "{row:?}");
        }
    }

    #[test]
    fn with_a_fixed_timer_the_clumps_are_equally_spaced() {
        let scenario = built_in();
        let rows = table(&scenario).unwrap().0.rows;
        let third = |timer: &str| -> Vec<f64> {
            let is_it = |row: &&Row| row.what.contains(timer) && row.what.contains(" 2 timeouts");
            rows.iter().filter(is_it).map(|row| row.ours).collect()
        };
        let fixed = third("fixed");
        let backs_off = third("backs off");
        assert!(
            !fixed.is_empty() && fixed.iter().all(|time| (time - 11.0).abs() < 1.5),
            "{rows:?}"
        );
        assert!(backs_off.iter().all(|time| *time > 13.0), "{rows:?}");
    }
}
