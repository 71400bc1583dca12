//! Figure 6-1: the five lines of packet transfer time by size.

use super::super::experiments::{Content, packet_transfer_by};
use super::super::scenario::Scenario;
use super::row;
use crate::line::Line;
use crate::picture::{self, Drawing, Picture};
use crate::table::{Row, Table};
use crate::world::Stuck;

/// Data bytes of the packets; the fits go through all but the first, as the thesis does not say
/// which sizes its own went through.
const SIZES: [usize; 6] = [1, 100, 200, 300, 400, 500];
/// What a packet has beside its data.
const OVERHEAD_BYTES: usize = 47;

/// Returns each line as its fit: a constant, and a slope by the data byte; and its points.
pub(super) fn table(scenario: &Scenario) -> Result<(Table, Picture), Stuck> {
    let time = |content| -> Result<Vec<f64>, Stuck> {
        SIZES
            .iter()
            .map(|size| {
                packet_transfer_by(scenario.equipment(), scenario.rate_bps, *size, content)
                    .map(|time| time.as_secs_f64())
            })
            .collect()
    };
    let of_bytes = |ns_a_byte: f64| -> Vec<f64> {
        SIZES.iter().map(|size| (size + OVERHEAD_BYTES) as f64 * ns_a_byte / 1e9).collect()
    };
    let byte_ns = Line::serial(scenario.rate_bps).serial_time(1).as_secs_f64() * 1e9;
    // Each of the thesis's lines is the one below it and what table 6-1 has between them.
    let lines = [
        ("CR", time(Content::CarriageReturns)?, 0.0589, 2_279.7),
        ("PC", time(Content::Printable)?, 0.0589, 1_887.7),
        ("OP", time(Content::NotPrinted)?, 0.0590, 1_195.7),
        ("SL", of_bytes(byte_ns), 0.0490, 1_041.7),
        ("INT", of_bytes(scenario.costs.line_byte_ns as f64), 0.0109, 231.0),
    ];
    let mut rows = Vec::new();
    let drawn = lines.iter().map(|(name, times, ..)| points(name, times)).collect();
    for (name, times, constant, slope) in lines {
        let (ours_at_0, ours_slope) = fit(&times);
        rows.push(row(format!("line {name} at no data, s"), None, Some(constant), ours_at_0));
        let what = format!("line {name}, us a data byte");
        rows.push(Row { digits: 0, ..row(what, None, Some(slope), ours_slope * 1e6) });
        let last = times.last().copied().unwrap_or_default();
        let theirs = constant + slope * 500.0 / 1e6;
        rows.push(row(format!("line {name} at 500 bytes, s"), None, Some(theirs), last));
    }
    let table = Table {
        number: "figure 6-1",
        title: "packet transfer time by size, the lines fitted to the points",
        unit: "s; us",
        rows,
        why: "The thesis prints the picture and table 6-1, from which its lines are put together \
              here. SL and INT are computed in both. Line OP has the interrupt of the last byte, \
              231 us, which the thesis has in its OOF. In line CR our carriage returns come at \
              every 82nd byte, so that sizes between have none for their rest: a fit through five \
              sizes is not the thesis's through its own.",
    };
    let title = "packet transfer time by size, from our own points";
    let (across, up) = ("bits of the packet", "s");
    let drawing = Drawing::Plot { across, up, lines: drawn };
    Ok((table, Picture { number: "figure 6-1", title, drawing }))
}

fn points(name: &'static str, times: &[f64]) -> picture::Line {
    let bits = SIZES.iter().map(|size| ((size + OVERHEAD_BYTES) * 10) as f64);
    let mark = name.chars().next().unwrap_or('*');
    picture::Line { name, mark, points: bits.zip(times.iter().copied()).collect() }
}

/// Returns the constant and the slope of the line that is nearest to `times`.
fn fit(times: &[f64]) -> (f64, f64) {
    let points = SIZES.iter().map(|size| *size as f64).zip(times.iter().copied());
    let count = times.len().max(1) as f64;
    let (sum_x, sum_y) = points.clone().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let (over, under) = points.fold((0.0, 0.0), |(over, under), (x, y)| {
        (over + (x - mean_x) * (y - mean_y), under + (x - mean_x) * (x - mean_x))
    });
    let slope = over / under;
    (mean_y - slope * mean_x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_of_a_straight_line_is_the_line() {
        let times: Vec<f64> = SIZES.iter().map(|size| 3.0 + 2.0 * *size as f64).collect();
        let (constant, slope) = fit(&times);
        assert!((constant - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-12);
    }
}
