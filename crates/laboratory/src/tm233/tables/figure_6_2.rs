//! Figure 6-2: echo times from the host CSR, measured by a clock with 18.2 ticks per second.

use super::super::experiments::WINDOW;
use super::super::foreign::{Additions, ForeignSession};
use super::super::scenario::Scenario;
use crate::picture::{Bar, Drawing, Picture};
use crate::table::{Row, Table};
use net::link::llp;
use net::rng::Rng;
use net::time::Duration;
use simulator::Stuck;
use std::collections::BTreeMap;

/// Returns the number of echoes for each number of ticks, at both line rates.
pub(super) fn table(scenario: &Scenario) -> Result<(Table, Picture), Stuck> {
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    let Some(host) = scenario.hosts.first() else { return Ok(results(rows, bars)) };
    let keys = usize::try_from(scenario.clumps.keys).unwrap_or(usize::MAX);
    for rate_bps in [scenario.rate_bps, scenario.rate_bps * 2] {
        let foreign_session = ForeignSession {
            scenario,
            host,
            rate_bps,
            window: WINDOW,
            is_faulty: true,
            additions: Additions::default(),
            seed: scenario.seed,
        };
        let mut rng = Rng::from_seed(scenario.seed);
        let mut by_ticks: BTreeMap<u128, u32> = BTreeMap::new();
        for time in foreign_session.echoes(keys)? {
            *by_ticks.entry(ticks(time, &mut rng)).or_default() += 1;
        }
        for (ticks, count) in by_ticks {
            let what = format!("{rate_bps} bit/s, {ticks} ticks ({} ms)", ticks * 55);
            bars.push(Bar { what: what.clone(), count });
            rows.push(Row::output(what, f64::from(count), 0));
        }
    }
    Ok(results(rows, bars))
}

fn results(rows: Vec<Row>, bars: Vec<Bar>) -> (Table, Picture) {
    let table = Table {
        number: "figure 6-2",
        title: "echoes from CSR, one by one, by ticks of 54.9 ms",
        unit: "echoes",
        rows,
        why: "The picture cannot be read in the scan. The text of the thesis states that most \
              echoes took three or four ticks at 9,600 bit/s and two or three at 19,200, and that \
              load delayed the others; the simulation has no load.",
    };
    let title = "echoes from CSR by the ticks that they took";
    (table, Picture { number: "figure 6-2", title, drawing: Drawing::Bars(bars) })
}

/// Returns the number of ticks during `time`, which begins at a random phase between two ticks.
fn ticks(time: Duration, rng: &mut Rng) -> u128 {
    let tick = llp::ticks(1).as_nanos();
    let phase = u128::from(rng.below(u64::try_from(tick).unwrap_or(1)));
    (phase + time.as_nanos()) / tick.max(1)
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn echoes_take_three_or_four_ticks_and_on_the_faster_line_two_or_three() {
        let (table, _) = table(&built_in()).unwrap();
        let what: Vec<&str> = table.rows.iter().map(|row| row.what.as_str()).collect();
        let expected = [
            "9600 bit/s, 3 ticks (165 ms)",
            "9600 bit/s, 4 ticks (220 ms)",
            "19200 bit/s, 2 ticks (110 ms)",
            "19200 bit/s, 3 ticks (165 ms)",
        ];
        assert_eq!(what, expected);
    }
}
