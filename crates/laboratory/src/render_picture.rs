//! Draws the plots and bar charts of a paper as text.

use crate::paragraph::paragraph;
use crate::picture::{Bar, Drawing, Line, Picture};
use serde_json::{Value, json};
use std::fmt::Write;

/// Height of a plot, in lines.
const PLOT_ROWS: usize = 20;
/// Maximum width; wider plots show no more detail.
const PLOT_MAX_COLUMNS: usize = 80;

/// Returns a picture as text, at most `width` columns wide.
pub(crate) fn text(picture: &Picture, width: usize) -> String {
    let width = width.min(PLOT_MAX_COLUMNS);
    match &picture.drawing {
        Drawing::Plot { x_label, y_label, lines } => plot(x_label, y_label, lines, width),
        Drawing::Bars(bars) => bars_text(bars, width),
    }
}

fn bars_text(bars: &[Bar], width: usize) -> String {
    let label_width = bars.iter().map(|bar| bar.what.len()).max().unwrap_or(0);
    let max_count = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let max_bar_width = width.saturating_sub(label_width + 6).max(1);
    let mut text = String::new();
    for Bar { what, count } in bars {
        let columns = f64::from(*count) / f64::from(max_count) * max_bar_width as f64;
        let bar = "#".repeat(ceiling(columns));
        _ = writeln!(text, "{}", format!("{what:<label_width$} {count:>4} {bar}").trim_end());
    }
    text
}

fn plot(x_label: &str, y_label: &str, lines: &[Line], width: usize) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let [right, top] =
        points().fold([0.0_f64, 0.0_f64], |[x, y], point| [x.max(point.0), y.max(point.1)]);
    if right <= 0.0 || top <= 0.0 {
        return String::new();
    }
    let columns = width.saturating_sub(6).max(8);
    let mut grid = vec![vec![' '; columns]; PLOT_ROWS];
    for line in lines {
        for (x, y) in interpolate(&line.points, columns * 2) {
            let column = nearest_index(x / right, columns);
            let row = PLOT_ROWS - 1 - nearest_index(y / top, PLOT_ROWS);
            if let Some(cell) = grid.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = if *cell == ' ' || *cell == '.' { '.' } else { *cell };
            }
        }
        for (x, y) in &line.points {
            let column = nearest_index(x / right, columns);
            let row = PLOT_ROWS - 1 - nearest_index(y / top, PLOT_ROWS);
            if let Some(cell) = grid.get_mut(row).and_then(|row| row.get_mut(column)) {
                // A cell shared by two lines is marked with `*`.
                *cell = if matches!(*cell, ' ' | '.') { line.mark } else { '*' };
            }
        }
    }
    let mut text = format!("{y_label}\n");
    for (row, cells) in grid.iter().enumerate() {
        let value = top * (PLOT_ROWS - 1 - row) as f64 / (PLOT_ROWS - 1) as f64;
        let cells: String = cells.iter().collect();
        _ = writeln!(text, "{}", format!("{value:>4.2} |{cells}").trim_end());
    }
    _ = writeln!(text, "     +{}", "-".repeat(columns));
    let label = format!("{right:.0} {x_label}");
    _ = writeln!(text, "     0{label:>columns$}");
    let names = lines.iter().map(|line| format!("{} = {}", line.mark, line.name));
    let names = names.chain(std::iter::once(String::from("* = two lines")));
    text.push_str(&paragraph(&names.collect::<Vec<_>>().join(", "), width));
    text
}

/// Returns `count` points on each straight line between consecutive `points`.
fn interpolate(points: &[(f64, f64)], count: usize) -> Vec<(f64, f64)> {
    let pairs = points.iter().zip(points.iter().skip(1));
    pairs
        .flat_map(|((from_x, from_y), (to_x, to_y))| {
            (0..count).map(move |at| {
                let fraction = at as f64 / count as f64;
                (from_x + (to_x - from_x) * fraction, from_y + (to_y - from_y) * fraction)
            })
        })
        .collect()
}

/// Returns the index of the cell nearest to the fraction `part` of a line of `count` cells.
fn nearest_index(part: f64, count: usize) -> usize {
    let last = count.saturating_sub(1);
    (0..last).find(|cell| part * (last as f64) < *cell as f64 + 0.5).unwrap_or(last)
}

fn ceiling(columns: f64) -> usize {
    let mut count = 0;
    while (count as f64) < columns {
        count += 1;
    }
    count
}

/// Returns the points of a picture as JSON.
pub(crate) fn json(picture: &Picture) -> Value {
    let Picture { number, title, drawing } = picture;
    match drawing {
        Drawing::Plot { x_label, y_label, lines } => {
            let lines = lines
                .iter()
                .map(|line| json!({ "name": line.name, "points": line.points }))
                .collect::<Vec<_>>();
            json!({ "number": number, "title": title, "across": x_label, "up": y_label, "lines": lines })
        }
        Drawing::Bars(bars) => {
            let bars = bars.iter().map(|bar| json!({ "what": bar.what, "count": bar.count }));
            json!({ "number": number, "title": title, "bars": bars.collect::<Vec<_>>() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extreme_points_of_a_plot_are_in_its_corners() {
        let line = Line { name: "SL", mark: 'S', points: vec![(0.0, 0.0), (100.0, 1.0)] };
        let text = plot("bits", "s", &[line], 40);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "s");
        assert!(rows[1].starts_with("1.00 |") && rows[1].ends_with('S'), "{text}");
        assert!(rows[PLOT_ROWS].starts_with("0.00 |S"), "{text}");
        assert!(rows.iter().all(|row| row.chars().count() <= 40), "{text}");
    }

    #[test]
    fn the_longest_bar_fills_the_width_and_a_zero_count_has_no_mark() {
        let bar = |what: &str, count| Bar { what: what.to_owned(), count };
        let text = bars_text(&[bar("3 s", 10), bar("5 s", 0), bar("7 s", 1)], 19);
        assert_eq!(text, "3 s   10 ##########\n5 s    0\n7 s    1 #\n");
    }

    #[test]
    fn a_plot_without_points_is_empty() {
        assert_eq!(plot("bits", "s", &[], 40), "");
    }
}
