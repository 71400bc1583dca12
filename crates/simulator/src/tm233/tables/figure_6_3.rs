//! Figure 6-3: screenfuls from CSR fall in clumps, by how often it had to send again.

use super::super::experiments::WINDOW;
use super::super::foreign::{Additions, Shown, Visit};
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};
use crate::world::Stuck;
use std::collections::BTreeMap;

/// Where the thesis has its clumps, in seconds.
const CLUMPS: [f64; 3] = [3.0, 7.0, 11.0];

/// Returns the clumps at both speeds.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for rate_bps in [scenario.rate_bps, scenario.rate_bps * 2] {
        let mut clumps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for shown in trials(scenario, rate_bps, Additions::default())? {
            clumps.entry(shown.timeouts).or_default().push(shown.time.as_secs_f64());
        }
        for (timeouts, times) in clumps {
            let clump = usize::try_from(timeouts).ok().and_then(|at| CLUMPS.get(at));
            let share = times.len() as f64 * 100.0 / f64::from(scenario.clumps.trials.max(1));
            let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
            let what = format!("{rate_bps} bit/s, {timeouts} time-outs, {share:.0} %");
            rows.push(Row { digits: 1, ..row(what, None, clump.copied(), mean) });
        }
    }
    Ok(Table {
        number: "figure 6-3",
        title: "screenfuls from CSR through a concentrator that drops what comes in a burst",
        unit: "s, the mean of each clump",
        rows,
        why: "Four packets come together; the first passes, and each other one is dropped with a \
              chance of 35 %, for the thesis says \"often\" and no more. How long CSR waits, 3.5 \
              s, is read off its clumps. How many fall in each it shows for ten tests in a picture \
              that cannot be read. It counts retransmissions, we count time-outs: what else is \
              missing comes again within the same one. After a second one in a row our CSR waits \
              twice as long (RFC 6298 §5.5), which the one of 1982 did not: its third clump comes \
              out six seconds late.",
    })
}

/// Runs the test as often as the scenario says.
pub(super) fn trials(
    scenario: &Scenario,
    rate_bps: u64,
    additions: Additions,
) -> Result<Vec<Shown>, Stuck> {
    let Some(host) = scenario.hosts.first() else { return Ok(Vec::new()) };
    let run = |trial| {
        let seed = scenario.seed + u64::from(trial);
        let window = WINDOW;
        Visit { scenario, host, rate_bps, window, is_faulty: true, additions, seed }.screenful()
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
        let rows = table(&scenario).unwrap().rows;
        for row in rows.iter().filter(|row| row.measured.is_some_and(|clump| clump < 8.0)) {
            let apart = (row.ours - row.measured.unwrap()).abs();
            assert!(apart < 1.5, "{row:?}");
        }
    }
}
