//! Table 6-4: the echo time between two personal computers.

use super::super::experiments::echo_with;
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use simulator::Stuck;

/// A row of the thesis's table.
struct PaperRow {
    rate_bps: u64,
    line_s: f64,
    predicted_s: f64,
    measured_s: Option<f64>,
    measured_less_line_s: Option<f64>,
}

const fn paper(
    rate_bps: u64,
    line_s: f64,
    predicted_s: f64,
    measured: Option<[f64; 2]>,
) -> PaperRow {
    let (measured_s, measured_less_line_s) = match measured {
        Some([measured, less_line]) => (Some(measured), Some(less_line)),
        None => (None, None),
    };
    PaperRow { rate_bps, line_s, predicted_s, measured_s, measured_less_line_s }
}

const PAPER: [PaperRow; 4] = [
    paper(4_800, 0.2000, 0.2216, None),
    paper(9_600, 0.1000, 0.1216, Some([0.1219, 0.0219])),
    paper(19_200, 0.0500, 0.0716, Some([0.0718, 0.0218])),
    paper(23_040, 0.0416, 0.0632, Some([0.0638, 0.0222])),
];
/// Part of the echo time that does not depend on the line rate, in seconds.
const OVERHEAD_S: f64 = 0.0216;
/// Bits on the line for a key and its echo: 480 bits in each direction.
const ECHO_BITS: f64 = 2.0 * 480.0;

/// Returns for each line rate the echo time, the part of it that is spent on the line, and the
/// remainder.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = overhead(scenario);
    for rate_bps in &scenario.lines_bps {
        let paper = PAPER.iter().find(|paper| paper.rate_bps == *rate_bps);
        let ours = echo_with(scenario.equipment(), *rate_bps, scenario.keys)?.time.as_secs_f64();
        let line = ECHO_BITS / *rate_bps as f64;
        let predicted = paper.map(|paper| paper.predicted_s);
        let measured = paper.and_then(|paper| paper.measured_s);
        let total = Row::output(format!("{rate_bps} bit/s, total"), ours, 4);
        rows.push(total.predicted_if(predicted).measured_if(measured));
        let line_s = paper.map(|paper| paper.line_s);
        rows.push(Row::input(format!("{rate_bps} bit/s, line"), line, 4).predicted_if(line_s));
        let predicted = paper.map(|_| OVERHEAD_S);
        let measured = paper.and_then(|paper| paper.measured_less_line_s);
        let rest = Row::output(format!("{rate_bps} bit/s, total minus line"), ours - line, 4);
        rows.push(rest.predicted_if(predicted).measured_if(measured));
    }
    Ok(Table {
        number: "6-4",
        title: "character echo between two personal computers, round trip",
        unit: "s",
        rows,
        why: "Plumbline's time is longer for two reasons. The first is the interrupt of the last \
              byte in each direction, 231 us, which the thesis counts in its OOF. The second is the \
              header bytes that LLP escapes, one in eight round trips (with one seed of five, two \
              or four bytes in each, 2 or 4 ms at 9,600 bit/s). The time of the line is calculated \
              in the thesis and here, 960 bits, without escaped bytes. The measured figure at 4,800 \
              bit/s cannot be read in the scan. The time that does not depend on the line is the \
              sum of the costs.",
    })
}

/// Returns the part of the echo time that does not depend on the line rate, computed from the
/// costs.
fn overhead(scenario: &Scenario) -> Vec<Row> {
    let costs = scenario.costs;
    let printing = costs.terminal_byte_ns as f64 / 1e9;
    let fixed = 2.0 * costs.segment_ns as f64 / 1e9;
    let by_byte = 4.0 * costs.touch_ns as f64 / 1e9;
    let one_way = printing + fixed + by_byte;
    [
        ("one way, PCO(1)", 0.0006, printing),
        ("one way, OOF", 0.0100, fixed),
        ("one way, OOV(1)", 0.0002, by_byte),
        ("one way without the line", 0.0108, one_way),
        ("round trip without the line", OVERHEAD_S, 2.0 * one_way),
    ]
    .map(|(what, paper, ours)| Row::input(what, ours, 4).predicted(paper))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn table_6_4_is_within_one_percent_of_the_measurements() {
        let rows = table(&built_in()).unwrap().rows;
        let totals: Vec<_> = rows.iter().filter(|row| row.what.ends_with("total")).collect();
        assert_eq!(totals.len(), 4);
        for row in &totals[1..] {
            assert_within(row.measured, 0.01, row);
        }
    }

    #[test]
    fn the_echo_time_without_the_line_is_within_half_a_millisecond() {
        let rows = table(&built_in()).unwrap().rows;
        let mut compared = 0;
        for row in rows.iter().filter(|row| row.what.ends_with("minus line")) {
            let Some((Some(measured), _)) = row.measured.map(|figure| figure.bounds()) else {
                continue;
            };
            assert!((row.ours - measured).abs() < 0.0005, "{row:?}");
            compared += 1;
        }
        assert_eq!(compared, 3);
    }
}
