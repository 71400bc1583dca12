//! What the interrupt routine loses at each line speed (TM-233 §6.2.3).

use super::super::overrun::received_wrongly;
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};

/// Line, and the share of packets that the thesis received wrongly.
const PAPER: [(u64, f64); 3] = [(28_800, 3.0), (38_400, 50.0), (43_000, 100.0)];

/// Returns the share of packets that are wrong at each speed.
pub(super) fn table(scenario: &Scenario) -> Table {
    let rows = scenario.interrupt.lines_bps.iter().map(|rate_bps| {
        let measured = PAPER.iter().find(|(line, _)| line == rate_bps).map(|(_, share)| *share);
        let ours = received_wrongly(scenario, *rate_bps) * 100.0;
        Row { digits: 1, ..row(format!("{rate_bps} bit/s"), None, measured, ours) }
    });
    Table {
        number: "C",
        title: "packets of 500 bytes that are not received correctly (§6.2.3)",
        unit: "%",
        rows: rows.collect(),
        why: "A byte that comes before the routine is done with the one before is lost. That some \
              bytes take longer than 231 us is the thesis's conclusion; that these are 3.6 in a \
              thousand, and 28 us longer on the average, is fitted to its figures at 28,800 and \
              38,400 bit/s, with packets of 500 bytes, of which it does not say the size. At \
              43,000 bit/s a byte has 232.6 us, and nothing is fitted: the model still receives \
              one packet in six, the thesis none. Its 231 us would have to be 233.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn the_faster_the_line_the_more_is_lost() {
        let rows = table(&built_in()).rows;
        assert!(rows.is_sorted_by(|a, b| a.ours <= b.ours), "{rows:?}");
        assert!((rows[3].ours - 3.0).abs() < 1.5 && (rows[4].ours - 50.0).abs() < 5.0, "{rows:?}");
    }
}
