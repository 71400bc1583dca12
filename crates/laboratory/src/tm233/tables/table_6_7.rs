//! Table 6-7: times of screenfuls from foreign hosts; the thesis lists the shortest times that it
//! observed.

use super::super::experiments::{WINDOW, screenful_with};
use super::super::foreign::{Additions, ForeignSession};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use simulator::Stuck;

/// A host, the predicted time, and the measured times at 9,600 and 19,200 bit/s, in seconds.
const PAPER: [(&str, f64, Option<f64>, Option<f64>); 2] =
    [("CSR", 2.67, Some(2.80), Some(2.91)), ("XX", 2.77, None, Some(3.19))];

/// Returns the time of a screenful from each host at both line rates, without burst drops in the
/// concentrator.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let rates = [scenario.rate_bps, scenario.rate_bps * 2];
    let mut rows = Vec::new();
    for (rate_bps, measured) in rates.into_iter().zip([2.82, 2.83]) {
        let result = screenful_with(scenario.equipment(), rate_bps, WINDOW, scenario.seed)?;
        let what = format!("IBM PC, {rate_bps} bit/s");
        let ours = result.first_to_last.as_secs_f64();
        rows.push(Row::output(what, ours, 2).predicted(2.67).measured(measured));
    }
    for host in &scenario.hosts {
        let paper = PAPER.iter().find(|(name, ..)| *name == host.name);
        let predicted = paper.map(|(_, predicted, ..)| *predicted);
        let measured = paper.map_or([None; 2], |(.., slow, fast)| [*slow, *fast]);
        for (rate_bps, measured) in rates.into_iter().zip(measured) {
            let foreign_session = ForeignSession {
                scenario,
                host,
                rate_bps,
                window: WINDOW,
                is_faulty: false,
                additions: Additions::default(),
                seed: scenario.seed,
            };
            let result = foreign_session.screenful()?;
            let what =
                format!("{}, {rate_bps} bit/s, {} lost", host.name, result.dropped.overflows);
            let ours = result.time.as_secs_f64();
            let result = Row::output(what, ours, 2);
            rows.push(result.predicted_if(predicted).measured_if(measured));
        }
    }
    Ok(Table {
        number: "6-7",
        title: "a screenful from various foreign hosts, best case",
        unit: "s",
        rows,
        why: "The thesis takes the best of its tests, in which the faulty concentrator drops no \
              packet. It has no such test from Comet and Multics, nor from XX at 9,600 bit/s. Lost \
              packets are those that found no buffer. Plumbline's values are below the thesis's \
              measurements, like the thesis's own predictions. The thesis does not state what \
              delayed CSR and XX at 19,200 bit/s, by 0.3 and 0.5 s. One more packet costs 5 ms and \
              the interrupts of its headers, 11 ms.",
    })
}
