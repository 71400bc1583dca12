//! Table 6-6: echoes from foreign hosts.

use super::super::experiments::{WINDOW, echo_by};
use super::super::foreign::{Additions, Visit};
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};
use crate::world::Stuck;

/// Host, and its echo at 9,600 and 19,200 bit/s.
const PAPER: [(&str, f64, f64); 4] = [
    ("CSR", 0.175, 0.128),
    ("Comet", 0.196, 0.136),
    ("XX", 0.212, 0.161),
    ("Multics", 0.382, 0.325),
];
/// Echoes of which the average is taken.
const FOREIGN_KEYS: usize = 100;
/// Two personal computers, without the concentrator.
const IBM_PC: (f64, f64) = (0.122, 0.072);

/// Returns the echo of each host at both speeds.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let [slow, fast] = [scenario.rate_bps, scenario.rate_bps * 2];
    let add = |rows: &mut Vec<Row>, name: &str, rate_bps: u64, measured, ours: f64| {
        let what = format!("{name}, {rate_bps} bit/s");
        rows.push(Row { digits: 3, ..row(what, None, measured, ours) });
    };
    // The echoes of one host are alike to the byte that LLP escapes.
    let keys = scenario.keys.min(FOREIGN_KEYS);
    let mut rows = Vec::new();
    for (rate_bps, measured) in [(slow, IBM_PC.0), (fast, IBM_PC.1)] {
        let echo = echo_by(scenario.equipment(), rate_bps, scenario.keys)?.time.as_secs_f64();
        add(&mut rows, "IBM PC", rate_bps, Some(measured), echo);
    }
    for host in &scenario.hosts {
        let paper = PAPER.iter().find(|(name, ..)| *name == host.name);
        let [at_slow, at_fast] = paper.map_or([None; 2], |(_, a, b)| [Some(*a), Some(*b)]);
        for (rate_bps, measured) in [(slow, at_slow), (fast, at_fast)] {
            let visit = Visit {
                scenario,
                host,
                rate_bps,
                window: WINDOW,
                is_faulty: false,
                additions: Additions::default(),
                seed: scenario.seed,
            };
            let echo = visit.echo(keys)?.as_secs_f64();
            add(&mut rows, &host.name, rate_bps, measured, echo);
        }
    }
    Ok(Table {
        number: "6-6",
        title: "the echo with various foreign hosts",
        unit: "s",
        rows,
        why: "What a host and its networks take is set so that 19,200 bit/s come out; 9,600 bit/s \
              then are predicted, 50 ms later for each. Comet and Multics took 60 and 57 ms more, \
              of which the thesis says only that the difference should be the same for all.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn table_6_6_comes_out_within_six_percent() {
        for row in &table(&built_in()).unwrap().rows {
            assert_within(row.from_measured(), 0.06, row);
        }
    }
}
