//! Figure 6-1: five lines that show the packet transfer time as a function of the packet size.

use super::super::experiments::{Content, packet_transfer_with};
use super::super::scenario::Scenario;
use crate::picture::{self, Drawing, Picture};
use crate::table::{Figure, Origin, Row, Table};
use simulator::Stuck;
use simulator::transmission_line::Line;

/// Data bytes of the simulated packets. The lines are fitted to all sizes except the first; the
/// thesis does not state the sizes to which it fitted its lines.
const SIZES: [usize; 6] = [1, 100, 200, 300, 400, 500];
/// Overhead of a packet on the line, in bytes.
const OVERHEAD_BYTES: usize = 47;

/// A line of the thesis's figure. Each line adds one component of table 6-1 to the line below it.
struct PaperLine {
    name: &'static str,
    origin: Origin,
    /// Whether the thesis measured the line instead of calculating or estimating it (§6.2.1).
    is_measured: bool,
    at_0_s: f64,
    us_per_byte: f64,
}

const fn line(name: &'static str, origin: Origin, at_0_s: f64, us_per_byte: f64) -> PaperLine {
    PaperLine { name, origin, is_measured: true, at_0_s, us_per_byte }
}

/// The lines of the figure from top to bottom. All costs except that of a carriage return are those
/// of the thesis.
const PAPER: [PaperLine; 5] = [
    line("CR", Origin::Fit, 0.0589, 2_279.7),
    line("PC", Origin::Input, 0.0589, 1_887.7),
    line("OP", Origin::Input, 0.0590, 1_195.7),
    PaperLine { is_measured: false, ..line("SL", Origin::Input, 0.0490, 1_041.7) },
    PaperLine { is_measured: false, ..line("INT", Origin::Input, 0.0109, 231.0) },
];

/// Returns a table with the constant and the slope per data byte of each line, and the figure with
/// its points.
pub(super) fn table(scenario: &Scenario) -> Result<(Table, Picture), Stuck> {
    let time = |content| -> Result<Vec<f64>, Stuck> {
        SIZES
            .iter()
            .map(|size| {
                packet_transfer_with(scenario.equipment(), scenario.rate_bps, *size, content)
                    .map(|time| time.as_secs_f64())
            })
            .collect()
    };
    let of_bytes = |ns_a_byte: f64| -> Vec<f64> {
        SIZES.iter().map(|size| (size + OVERHEAD_BYTES) as f64 * ns_a_byte / 1e9).collect()
    };
    let byte_ns = Line::serial(scenario.rate_bps).serial_time(1).as_secs_f64() * 1e9;
    let ours = [
        time(Content::CarriageReturns)?,
        time(Content::Printable)?,
        time(Content::NotPrinted)?,
        of_bytes(byte_ns),
        of_bytes(scenario.costs.line_byte_ns as f64),
    ];
    let lines = || PAPER.iter().zip(&ours);
    let plot_lines = lines().map(|(paper, times)| points(paper.name, times)).collect();
    let rows = lines().flat_map(|(paper, times)| compared(paper, times)).collect();
    let table = Table {
        number: "figure 6-1",
        title: "packet transfer time by size, lines fitted to the points",
        unit: "s; us",
        rows,
        why: "The thesis prints the picture and table 6-1, from which all values of its lines are \
              computed here. It calculated SL, and estimated INT by counting cycles. Line OP \
              includes the interrupt of the last byte, 231 us, which the thesis counts in its OOF. \
              In line CR the carriage returns of plumbline's text come at every 82nd byte. A packet \
              whose size is between two multiples of 82 therefore has no carriage return for the \
              rest, and a fit through five sizes differs from the thesis's fit through its own \
              sizes.",
    };
    let title = "packet transfer time by size, from plumbline's points";
    let x_label = "bits of the packet";
    let y_label = "s";
    let drawing = Drawing::Plot { x_label, y_label, lines: plot_lines };
    Ok((table, Picture { number: "figure 6-1", title, drawing }))
}

/// Returns the rows of a line: its constant, its slope, and its value at 500 bytes.
fn compared(paper: &PaperLine, times: &[f64]) -> [Row; 3] {
    let (at_0, slope) = fit(times);
    let PaperLine { name, origin, is_measured, at_0_s, us_per_byte } = *paper;
    let row = |what: String, theirs: f64, ours: f64, digits| {
        let row = Row::new(what, origin, ours, digits);
        let figure = Figure::derived(theirs);
        if is_measured { row.measured(figure) } else { row.predicted(figure) }
    };
    let last = times.last().copied().unwrap_or_default();
    let at_500_s = at_0_s + us_per_byte * 500.0 / 1e6;
    [
        row(format!("line {name} at no data, s"), at_0_s, at_0, 4),
        row(format!("line {name}, us a data byte"), us_per_byte, slope * 1e6, 0),
        row(format!("line {name} at 500 bytes, s"), at_500_s, last, 4),
    ]
}

fn points(name: &'static str, times: &[f64]) -> picture::Line {
    let bits = SIZES.iter().map(|size| ((size + OVERHEAD_BYTES) * 10) as f64);
    let mark = name.chars().next().unwrap_or('*');
    picture::Line { name, mark, points: bits.zip(times.iter().copied()).collect() }
}

/// Returns the constant and the slope of the least-squares line through `times`.
fn fit(times: &[f64]) -> (f64, f64) {
    let points = SIZES.iter().map(|size| *size as f64).zip(times.iter().copied());
    let count = times.len().max(1) as f64;
    let (sum_x, sum_y) = points.clone().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let mean_x = sum_x / count;
    let mean_y = sum_y / count;
    let (over, under) = points.fold((0.0, 0.0), |(over, under), (x, y)| {
        (over + (x - mean_x) * (y - mean_y), under + (x - mean_x) * (x - mean_x))
    });
    let slope = over / under;
    (mean_y - slope * mean_x, slope)
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn packets_that_the_thesis_did_not_time_are_not_listed_as_measured() {
        let (table, _) = table(&built_in()).unwrap();
        assert_eq!(table.rows.len(), 15);
        for row in &table.rows {
            let is_timed = !row.what.starts_with("line SL") && !row.what.starts_with("line INT");
            assert_eq!((row.measured.is_some(), row.predicted.is_some()), (is_timed, !is_timed));
            let figure = row.measured.or(row.predicted).unwrap();
            assert!(figure.is_derived, "{row:?}");
        }
    }

    #[test]
    fn the_fit_of_a_straight_line_is_the_line() {
        let times: Vec<f64> = SIZES.iter().map(|size| 3.0 + 2.0 * *size as f64).collect();
        let (constant, slope) = fit(&times);
        assert!((constant - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-12);
    }
}
