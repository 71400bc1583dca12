//! What the interrupt routine loses at each line speed (TM-233 §6.2.3).

use super::super::overrun::received_wrongly;
use super::super::scenario::Scenario;
use super::row;
use crate::table::{Row, Table};

/// Line, and the share of packets that the thesis received wrongly.
const PAPER: [(u64, f64); 3] = [(28_800, 3.0), (38_400, 50.0), (43_000, 100.0)];

/// A byte that takes a hundredth more than the thesis counted.
const SLOWER_BYTE_NS: u64 = 233_000;

/// Returns the share of packets that are wrong at each speed.
pub(super) fn table(scenario: &Scenario) -> Table {
    let paper = |rate_bps: u64| PAPER.iter().find(|(line, _)| *line == rate_bps);
    let compared = |scenario: &Scenario, rate_bps: u64, what: String| {
        let measured = paper(rate_bps).map(|(_, share)| *share);
        let ours = received_wrongly(scenario, rate_bps) * 100.0;
        Row { digits: 1, ..row(what, None, measured, ours) }
    };
    let lines = scenario.interrupt.lines_bps.iter().copied();
    let mut rows: Vec<Row> =
        lines.clone().map(|line| compared(scenario, line, format!("{line} bit/s"))).collect();
    let mut slower = scenario.clone();
    slower.costs.line_byte_ns = SLOWER_BYTE_NS;
    rows.extend(
        lines
            .filter(|line| paper(*line).is_some())
            .map(|line| compared(&slower, line, format!("{line} bit/s, a byte in 233 us"))),
    );
    Table {
        number: "C",
        title: "packets of 500 bytes that are not received correctly (§6.2.3)",
        unit: "%",
        rows,
        why: "A byte that comes before the routine is done with the one before is lost. That some \
              bytes take longer than 231 us is the thesis's conclusion; that these are 3.6 in a \
              thousand, and 28 us longer on the average, is fitted to its figures at 28,800 and \
              38,400 bit/s, with packets of 500 bytes, of which it does not say the size. At \
              43,000 bit/s a byte has 232.6 us, and nothing is fitted: the model still receives \
              one packet in six, the thesis none. Its rule is the same as ours, bytes are dropped \
              if they come faster than the routine takes them, but its 231 us are no measurement: \
              cycles counted in the processor's manual and a tenth more, of which it says that \
              they may be very inaccurate, and 43,000 is what it makes of 1 / 231 us = 4,329 bytes \
              a second. With 233 us, a hundredth more, every packet is lost and the other two \
              speeds hardly change: the last rows.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn the_faster_the_line_the_more_is_lost() {
        let rows = &table(&built_in()).rows[..6];
        assert!(rows.is_sorted_by(|a, b| a.ours <= b.ours), "{rows:?}");
        assert!((rows[3].ours - 3.0).abs() < 1.5 && (rows[4].ours - 50.0).abs() < 5.0, "{rows:?}");
    }

    #[test]
    fn where_a_byte_takes_233_us_nothing_passes_at_43000_and_the_rest_is_as_before() {
        let rows = &table(&built_in()).rows[6..];
        let lost: Vec<f64> = rows.iter().map(|row| row.ours).collect();
        assert!((lost[0] - 3.0).abs() < 1.5 && (lost[1] - 50.0).abs() < 5.0, "{rows:?}");
        assert_eq!(lost[2], 100.0);
    }
}
