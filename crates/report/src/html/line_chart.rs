//! Line charts with two axes that both start at 0 and a label at the end of each line.

use super::elements::push_figure;
use super::svg::{Svg, Ticks, Window, fit, width_of};
use crate::table::Table;
use records::format::UNKNOWN;

const TOP_MARGIN: f64 = 34.0;
const BOTTOM_MARGIN: f64 = 46.0;
/// Width of the line sample before a label, in pixels.
const KEY_LINE_WIDTH: f64 = 26.0;
/// Maximum value drawn; larger values are not plausible measurements.
const MAX_VALUE: f64 = 1e18;
/// Minimum distance between labels, pixels.
const MIN_LABEL_DISTANCE: f64 = 15.0;

/// A line chart; both axes start at 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// Title of the chart.
    pub title: String,
    /// Quantity on the horizontal axis, with its unit.
    pub x_label: String,
    /// Quantity on the vertical axis, with its unit.
    pub y_label: String,
    /// The lines; later ones are drawn over earlier ones.
    pub lines: Vec<Line>,
    /// Note for the reader; may be empty.
    pub note: String,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name of the line, displayed at its end.
    pub name: String,
    /// Points (x, y) from left to right; negative and NaN points are omitted.
    pub points: Vec<(f64, f64)>,
    /// Index of one of five colors and marks; related lines share one.
    pub hue: usize,
    /// Line style.
    pub style: LineStyle,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// Solid, with marks: values measured here.
    Solid,
    /// Dashed, without marks: published values, for comparison.
    Dashed,
}

impl Line {
    fn visible_points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let is_shown = |value: f64| (0.0..=MAX_VALUE).contains(&value);
        self.points.iter().copied().filter(move |(x, y)| is_shown(*x) && is_shown(*y))
    }

    const fn hue_class(&self) -> (usize, &'static str) {
        match self.hue % 5 {
            0 => (0, "h0"),
            1 => (1, "h1"),
            2 => (2, "h2"),
            3 => (3, "h3"),
            _ => (4, "h4"),
        }
    }

    const fn style_class(&self) -> &'static str {
        match self.style {
            LineStyle::Solid => "solid",
            LineStyle::Dashed => "dashed",
        }
    }
}

/// Layout of one drawing, in pixels.
#[derive(Debug)]
struct ChartLayout {
    left: f64,
    right: f64,
    bottom: f64,
    height: f64,
    name_width: f64,
    x: Ticks,
    y: Ticks,
}

impl ChartLayout {
    fn new(chart: &LineChart, window: Window) -> Self {
        let (height, most_x, most_y) = match window {
            Window::Wide => (430.0, 7.0, 7.0),
            Window::Narrow => (340.0, 3.0, 6.0),
        };
        let visible_points = || chart.lines.iter().flat_map(Line::visible_points);
        let x = Ticks::up_to(visible_points().map(|point| point.0).fold(0.0, f64::max), most_x);
        let y = Ticks::up_to(visible_points().map(|point| point.1).fold(0.0, f64::max), most_y);
        let left = widest(y.at.iter().map(|tick| y.text(*tick))) + 10.0;
        let names = widest(chart.lines.iter().map(|line| line.name.clone()));
        let name_width = names.min(window.width() * 0.3);
        let right = window.width() - name_width - KEY_LINE_WIDTH - 14.0;
        Self { left, right, bottom: height - BOTTOM_MARGIN, height, name_width, x, y }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let x_offset = x / self.x.end() * (self.right - self.left);
        let y_offset = y / self.y.end() * (self.bottom - TOP_MARGIN);
        (self.left + x_offset, self.bottom - y_offset)
    }

    fn axes(&self, svg: &mut Svg, chart: &LineChart) {
        svg.text("start name", 0.0, 14.0, &chart.y_label);
        for tick in &self.y.at {
            let (_, y) = self.place((0.0, *tick));
            svg.line("grid", [self.left, y, self.right, y]);
            svg.text("end tick", self.left - 7.0, y + 4.0, &self.y.text(*tick));
        }
        for tick in &self.x.at {
            let (x, _) = self.place((*tick, 0.0));
            svg.line("axis", [x, self.bottom, x, self.bottom + 5.0]);
            svg.text("middle tick", x, self.bottom + 19.0, &self.x.text(*tick));
        }
        svg.line("axis", [self.left, self.bottom, self.right, self.bottom]);
        svg.text("end name", self.right, self.bottom + 38.0, &chart.x_label);
    }

    /// Draws the names of all lines beside their ends, spread where they would overlap.
    fn names(&self, svg: &mut Svg, chart: &LineChart) {
        let end = |line: &Line| line.visible_points().last().map(|end| self.place(end));
        let ends = chart.lines.iter().filter_map(|line| Some((line, end(line)?)));
        let mut ends: Vec<(&Line, f64, f64)> = ends.map(|(line, (x, y))| (line, x, y)).collect();
        ends.sort_by(|a, b| a.2.total_cmp(&b.2));
        let heights: Vec<f64> = ends.iter().map(|(_, _, y)| *y).collect();
        for ((line, x, y), at) in ends.into_iter().zip(spread_labels(&heights, self.bottom)) {
            let key = self.right + 12.0;
            svg.line("leader", [x + 6.0, y, key - 2.0, at]);
            let sample = [(key, at), (key + KEY_LINE_WIDTH - 6.0, at)];
            svg.polyline([line.style_class(), line.hue_class().1], &sample);
            if line.style == LineStyle::Solid {
                svg.mark(line.hue_class(), (key + (KEY_LINE_WIDTH - 6.0) / 2.0, at), &line.name);
            }
            svg.text(
                "start",
                key + KEY_LINE_WIDTH - 2.0,
                at + 4.0,
                &fit(&line.name, self.name_width + 1.0),
            );
        }
    }
}

impl LineChart {
    pub(super) fn push(&self, out: &mut String) {
        let drawings = Window::BOTH.map(|window| self.draw(window));
        push_figure(out, &self.title, drawings, &self.note, &self.figures());
    }

    fn draw(&self, window: Window) -> String {
        let plot = ChartLayout::new(self, window);
        let mut svg = Svg::new(window);
        plot.axes(&mut svg, self);
        for line in &self.lines {
            let points: Vec<(f64, f64)> =
                line.visible_points().map(|point| plot.place(point)).collect();
            svg.polyline([line.style_class(), line.hue_class().1], &points);
            if line.style == LineStyle::Solid {
                for (value, place) in line.visible_points().zip(&points) {
                    let tip = format!("{}: {} at {}", line.name, plain(value.1), plain(value.0));
                    svg.mark(line.hue_class(), *place, &tip);
                }
            }
        }
        plot.names(&mut svg, self);
        let label = format!("{}: {} against {}", self.title, self.y_label, self.x_label);
        svg.finish(plot.height, &label)
    }

    fn figures(&self) -> Table {
        let points = self.lines.iter().flat_map(Line::visible_points);
        let mut xs: Vec<f64> = points.map(|(x, _)| x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let names = self.lines.iter().map(|line| line.name.as_str());
        let mut table = names.fold(Table::new().number(&self.x_label), Table::number);
        for x in xs {
            let at =
                |line: &Line| line.visible_points().find(|point| point.0 == x).map(|point| point.1);
            let ys = self.lines.iter().map(|line| at(line).map_or(UNKNOWN.to_owned(), plain));
            table.row([plain(x)].into_iter().chain(ys));
        }
        table
    }
}

fn widest(texts: impl Iterator<Item = String>) -> f64 {
    texts.map(|text| width_of(&text)).fold(0.0, f64::max)
}

/// Returns the vertical positions of labels at the sorted `heights`, moved apart so that the labels
/// do not overlap and stay above `bottom`.
fn spread_labels(heights: &[f64], bottom: f64) -> Vec<f64> {
    let mut floor = TOP_MARGIN - MIN_LABEL_DISTANCE;
    let mut spread_heights: Vec<f64> = heights
        .iter()
        .map(|height| {
            floor = height.max(floor + MIN_LABEL_DISTANCE);
            floor
        })
        .collect();
    let mut ceiling = bottom + MIN_LABEL_DISTANCE;
    for height in spread_heights.iter_mut().rev() {
        *height = height.min(ceiling - MIN_LABEL_DISTANCE);
        ceiling = *height;
    }
    spread_heights
}

/// Returns a number with at most four decimals.
fn plain(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn points_that_are_not_finite_are_omitted() {
        let points = vec![(0.0, f64::NAN), (1.0, 2.0), (f64::INFINITY, 1.0), (-1.0, 1.0)];
        let line = Line { name: "x".to_owned(), points, hue: 0, style: LineStyle::Solid };
        assert_eq!(line.visible_points().collect::<Vec<_>>(), [(1.0, 2.0)]);
    }

    #[test]
    fn a_chart_without_lines_is_drawn_with_its_axes() {
        let drawing = LineChart::default().draw(Window::Wide);
        assert!(drawing.contains("class=\"axis\""));
        assert!(!drawing.contains("NaN"));
    }

    #[test]
    fn the_table_of_a_chart_marks_missing_points() {
        let line = |points: Vec<(f64, f64)>| Line {
            name: "a".to_owned(),
            points,
            hue: 0,
            style: LineStyle::Solid,
        };
        let lines = vec![line(vec![(1.0, 0.5)]), line(vec![(2.0, 0.25)])];
        let chart = LineChart { lines, ..LineChart::default() };
        assert_eq!(chart.figures().rows(), [["1", "0.5", "-"], ["2", "-", "0.25"]]);
    }

    proptest! {
        #[test]
        fn labels_keep_their_minimum_distance(
            mut heights in proptest::collection::vec(34.0..380.0_f64, 0..12),
        ) {
            heights.sort_by(f64::total_cmp);
            let spread_heights = spread_labels(&heights, 384.0);
            for pair in spread_heights.windows(2) {
                prop_assert!(pair[1] - pair[0] >= MIN_LABEL_DISTANCE - 1e-9);
            }
        }
    }
}
