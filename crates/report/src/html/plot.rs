//! Points, steps, bars and stems over two axes, each linear or logarithmic, with units.
//!
//! Each axis has a unit and formats its ticks with it: `20 µs`, `16 kB`, `5 MB/s`. A linear axis
//! begins at 0 with [`Scale::FromZero`], and at its smallest value with [`Scale::Linear`].

use super::elements::push_figure;
use super::svg::{Svg, Window, fit, width_of};
use crate::table::Table;
use records::format::count;

const TOP_MARGIN: f64 = 12.0;
const BOTTOM_MARGIN: f64 = 46.0;
const LEGEND_ROW: f64 = 18.0;
/// Height of the name of the vertical axis above its last tick, in pixels.
const LABEL_HEIGHT: f64 = 26.0;
const KEY_WIDTH: f64 = 24.0;
/// Maximum number of points drawn per series; more would not be distinguishable.
const POINTS_MAX: usize = 600;
/// Maximum value drawn; larger values are not plausible measurements.
const MAX_VALUE: f64 = 1e18;

/// A plot with two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Title of the plot.
    pub title: String,
    /// The horizontal axis.
    pub x: PlotAxis,
    /// The vertical axis.
    pub y: PlotAxis,
    /// Series to draw; later ones are drawn over earlier ones.
    pub series: Vec<Series>,
    /// Note for the reader; may be empty.
    pub note: String,
    /// The plotted values as a table.
    pub figures: Table,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotAxis {
    /// Quantity, without the unit.
    pub label: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Linear or logarithmic scale of the axis.
    pub scale: Scale,
}

/// Unit of the values of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    ByteRate,
    /// A dimensionless count.
    Count,
    /// Percent.
    Percent,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0.
    FromZero,
    /// Linear, from the smallest value.
    Linear,
    /// Logarithmic; values not above 0 are omitted.
    Logarithmic,
}

/// One set of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name for the legend, which is drawn if there are several series.
    pub name: String,
    /// Points (x, y) from left to right.
    pub points: Vec<(f64, f64)>,
    /// Index of one of five colors.
    pub hue: usize,
    /// Shape of the points.
    pub shape: SeriesShape,
}

/// Shape in which the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesShape {
    /// A mark at each point.
    Marks,
    /// A solid line through the points.
    Line,
    /// A dashed line through the points.
    Dashed,
    /// A step line that keeps its value until the next point.
    Steps,
    /// A box from each point to the next; the last point only ends the box before it.
    Bars,
    /// A line from the axis up to each point, with a mark at its end.
    Stems,
    /// A vertical line over the full height at each point.
    Verticals,
    /// A shaded area over the full height from each point to the next, without a legend.
    Band,
}

impl SeriesShape {
    /// Returns whether the vertical position of the points has no meaning.
    const fn has_full_height(self) -> bool {
        matches!(self, Self::Verticals | Self::Band)
    }
}

impl Series {
    fn hue_class(&self) -> (usize, &'static str) {
        match self.hue % 5 {
            0 => (0, "h0"),
            1 => (1, "h1"),
            2 => (2, "h2"),
            3 => (3, "h3"),
            _ => (4, "h4"),
        }
    }

    /// Returns the points within the scales of `plot`, thinned to about [`POINTS_MAX`].
    fn visible_points<'a>(&'a self, plot: &'a Plot) -> Vec<(f64, f64)> {
        let is_drawable = |axis: &PlotAxis, value: f64| match axis.scale {
            Scale::Logarithmic => value > 1e-9 && value <= MAX_VALUE,
            Scale::FromZero => (0.0..=MAX_VALUE).contains(&value),
            Scale::Linear => value.abs() <= MAX_VALUE,
        };
        let is_vertical = self.shape.has_full_height();
        let visible_points = self.points.iter().copied();
        let visible_points = visible_points
            .filter(|(x, y)| is_drawable(&plot.x, *x) && (is_vertical || is_drawable(&plot.y, *y)));
        thinned(&visible_points.collect::<Vec<_>>(), POINTS_MAX)
    }
}

/// Returns evenly selected `points`, including the first and the last: at most `max_count` + 1
/// of them.
#[must_use]
pub(crate) fn thinned<T: Copy>(points: &[T], max_count: usize) -> Vec<T> {
    let step = points.len().div_ceil(max_count.max(1)).max(1);
    let last = points.len().saturating_sub(1);
    let kept_points = points.iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last);
    kept_points.map(|(_, point)| *point).collect()
}

/// The range of an axis, and its ticks with their labels.
#[derive(Debug)]
struct Ruler {
    low: f64,
    high: f64,
    is_log: bool,
    ticks: Vec<(f64, String)>,
}

impl Ruler {
    fn of(axis: &PlotAxis, values: impl Iterator<Item = f64>, max_steps: f64) -> Self {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            low = 1.0;
            high = 1.0;
        }
        match axis.scale {
            Scale::FromZero => Self::linear(axis.unit, 0.0, high, max_steps),
            Scale::Linear => Self::linear(axis.unit, low, high, max_steps),
            Scale::Logarithmic => Self::logarithmic(axis.unit, low, high, max_steps),
        }
    }

    fn linear(unit: Unit, low: f64, high: f64, max_steps: f64) -> Self {
        let span = if high - low > high.abs() * 1e-6 { high - low } else { high.abs().max(1.0) };
        let min = if unit == Unit::Count { 1.0 } else { 1e-6 };
        let min_step = (span / max_steps).max(min);
        let power = 10_f64.powf(min_step.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let factor = factors.into_iter().find(|factor| factor * power >= min_step * 0.999);
        let step = factor.unwrap_or(10.0) * power;
        let first = (low / step).floor();
        let mut at = Vec::new();
        for tick in 0..=40_u32 {
            let value = (first + f64::from(tick)) * step;
            at.push(value);
            if value >= high - step * 1e-6 && tick > 0 {
                break;
            }
        }
        let ends = (at.first().copied().unwrap_or(0.0), at.last().copied().unwrap_or(1.0));
        let ticks = at.into_iter().map(|value| (value, with_unit(unit, value))).collect();
        Self { low: ends.0, high: ends.1, is_log: false, ticks }
    }

    fn logarithmic(unit: Unit, low: f64, high: f64, max_steps: f64) -> Self {
        let low = low.clamp(1e-9, MAX_VALUE);
        let high = high.clamp(1e-9, MAX_VALUE);
        // Try divisions from fine to coarse until the tick labels fit.
        let bases = [10.0, 100.0, 1e3, 1e6];
        let divisions = [[1.0, 2.0, 5.0].as_slice(), &[1.0]];
        let mut found = None;
        for base in bases {
            for factors in divisions {
                if base > 10.0 && factors.len() > 1 {
                    continue;
                }
                let at = log_ticks(base, factors, low, high);
                let count = at.len();
                found = Some(at);
                if count as f64 <= max_steps + 1.0 {
                    return Self::with(unit, found.unwrap_or_default());
                }
            }
        }
        Self::with(unit, found.unwrap_or_default())
    }

    fn with(unit: Unit, at: Vec<f64>) -> Self {
        let low = at.first().copied().unwrap_or(1.0);
        let high = at.last().copied().unwrap_or(10.0);
        let ticks = at.into_iter().map(|value| (value, with_unit(unit, value))).collect();
        Self { low, high, is_log: true, ticks }
    }

    /// Returns the position of a value on the axis, from 0 to 1.
    fn position(&self, value: f64) -> f64 {
        let position = if self.is_log {
            (value.max(1e-9) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if position.is_finite() { position.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Returns the products of powers of `base` with `factors`, in ascending order. The first product
/// is at or below `low`, and the last is at or above `high`. There are at least two products.
fn log_ticks(base: f64, factors: &[f64], low: f64, high: f64) -> Vec<f64> {
    let first = (low.ln() / base.ln()).floor() - 1.0;
    let mut all = Vec::new();
    for power in 0..80_u32 {
        let scale = base.powf(first + f64::from(power));
        all.extend(factors.iter().map(|factor| factor * scale));
        if scale > high * base {
            break;
        }
    }
    let from = all.iter().rposition(|tick| *tick <= low * 1.000_001).unwrap_or(0);
    let to = all.iter().position(|tick| *tick >= high * 0.999_999).unwrap_or(0);
    let to = to.max(from + 1);
    all.get(from..=to).map(<[f64]>::to_vec).unwrap_or_default()
}

/// Returns a value with its unit, in short form.
fn with_unit(unit: Unit, value: f64) -> String {
    let decimal = |names: [&str; 4], scales: [f64; 4]| {
        let scale_and_name =
            scales.iter().zip(names).rev().find(|(scale, _)| value.abs() >= **scale * 0.999);
        let (scale, name) = scale_and_name.unwrap_or((&1.0, names[0]));
        format!("{} {name}", plain(value / scale))
    };
    match unit {
        _ if value.abs() < 1e-12 => "0".to_owned(),
        Unit::Time => decimal(["ns", "µs", "ms", "s"], [1.0, 1e3, 1e6, 1e9]),
        Unit::Bytes => decimal(["B", "kB", "MB", "GB"], [1.0, 1e3, 1e6, 1e9]),
        Unit::ByteRate => decimal(["B/s", "kB/s", "MB/s", "GB/s"], [1.0, 1e3, 1e6, 1e9]),
        Unit::Percent => format!("{} %", plain(value)),
        Unit::Count => plain(value),
    }
}

/// Returns a number with at most three decimals.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.parse::<u64>() {
        Ok(whole) => count(whole),
        Err(_) => text.to_owned(),
    }
}

/// Layout of one drawing, in pixels.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Ruler,
    y: Ruler,
}

impl Frame {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let x_offset = self.x.position(x) * (self.right - self.left);
        (self.left + x_offset, self.bottom - self.y.position(y) * (self.bottom - self.top))
    }
}

impl Plot {
    pub(super) fn push(&self, out: &mut String) {
        let drawings = Window::BOTH.map(|window| self.draw(window));
        push_figure(out, &self.title, drawings, &self.note, &self.figures);
    }

    fn draw(&self, window: Window) -> String {
        let visible_points: Vec<_> =
            self.series.iter().map(|series| series.visible_points(self)).collect();
        let (height, most_x, most_y) = match window {
            Window::Wide => (320.0, 8.0, 6.0),
            Window::Narrow => (270.0, 3.0, 5.0),
        };
        let x = Ruler::of(&self.x, visible_points.iter().flatten().map(|point| point.0), most_x);
        let not_vertical = self.series.iter().zip(&visible_points);
        let not_vertical = not_vertical.filter(|(series, _)| !series.shape.has_full_height());
        let ys = not_vertical.flat_map(|(_, points)| points).map(|point| point.1);
        let y = Ruler::of(&self.y, ys, most_y);
        let left = y.ticks.iter().map(|(_, name)| width_of(name)).fold(20.0, f64::max) + 10.0;
        let mut svg = Svg::new(window);
        let top = TOP_MARGIN + self.legend(&mut svg, window) + LABEL_HEIGHT;
        let right = window.width() - 24.0;
        let frame = Frame { left, right, top, bottom: top + height, x, y };
        self.axes(&mut svg, &frame);
        for (series, points) in self.series.iter().zip(&visible_points) {
            self.series(&mut svg, &frame, series, points);
        }
        let label = format!("{}: {} against {}", self.title, self.y.label, self.x.label);
        svg.finish(frame.bottom + BOTTOM_MARGIN, &label)
    }

    /// Draws the legend if there are several series, and returns its height.
    fn legend(&self, svg: &mut Svg, window: Window) -> f64 {
        let is_named = |series: &&Series| series.shape != SeriesShape::Band;
        if self.series.iter().filter(is_named).count() < 2 {
            return 0.0;
        }
        let mut x = 0.0;
        let mut y = TOP_MARGIN;
        for series in self.series.iter().filter(is_named) {
            let name = fit(&series.name, window.width() - KEY_WIDTH - 8.0);
            let width = KEY_WIDTH + width_of(&name) + 22.0;
            if x > 0.0 && x + width > window.width() {
                x = 0.0;
                y += LEGEND_ROW;
            }
            let stroke_class = match series.shape {
                SeriesShape::Dashed | SeriesShape::Verticals => "dashed",
                _ => "solid",
            };
            let hue = series.hue_class();
            if series.shape != SeriesShape::Marks {
                svg.polyline([stroke_class, hue.1], &[(x, y), (x + KEY_WIDTH - 6.0, y)]);
            } else {
                svg.mark(hue, (x + (KEY_WIDTH - 6.0) / 2.0, y), &series.name);
            }
            svg.text("start", x + KEY_WIDTH, y + 4.0, &name);
            x += width;
        }
        y - TOP_MARGIN + LEGEND_ROW
    }

    fn axes(&self, svg: &mut Svg, frame: &Frame) {
        svg.text("start name", 0.0, frame.top - 14.0, &self.y.label);
        for (value, name) in &frame.y.ticks {
            let (_, y) = frame.place((frame.x.low, *value));
            svg.line("grid", [frame.left, y, frame.right, y]);
            svg.text("end tick", frame.left - 7.0, y + 4.0, name);
        }
        for (value, name) in &frame.x.ticks {
            let (x, _) = frame.place((*value, frame.y.low));
            svg.line("axis", [x, frame.bottom, x, frame.bottom + 5.0]);
            svg.text("middle tick", x, frame.bottom + 19.0, name);
        }
        svg.line("axis", [frame.left, frame.bottom, frame.right, frame.bottom]);
        svg.text("end name", frame.right, frame.bottom + 38.0, &self.x.label);
    }

    fn series(&self, svg: &mut Svg, frame: &Frame, series: &Series, points: &[(f64, f64)]) {
        let hue = series.hue_class();
        let placed_points: Vec<_> = points.iter().map(|point| frame.place(*point)).collect();
        match series.shape {
            SeriesShape::Marks => {
                for (point, place) in points.iter().zip(&placed_points) {
                    svg.mark(hue, *place, &self.tip(series, *point));
                }
            }
            SeriesShape::Line => svg.polyline(["solid", hue.1], &placed_points),
            SeriesShape::Dashed => svg.polyline(["dashed", hue.1], &placed_points),
            SeriesShape::Steps => {
                let mut steps = Vec::with_capacity(placed_points.len() * 2);
                for (x, y) in placed_points {
                    let before = steps.last().map(|(_, before)| (x, *before));
                    steps.extend(before);
                    steps.push((x, y));
                }
                svg.polyline(["solid", hue.1], &steps);
            }
            SeriesShape::Bars => {
                for ((point, (x, y)), (next, _)) in
                    points.iter().zip(&placed_points).zip(placed_points.iter().skip(1))
                {
                    let height = frame.bottom - y;
                    let width = (next - x - 1.0).max(0.5);
                    svg.rect(fill_class(hue.0), [*x, *y, width, height], &self.tip(series, *point));
                }
            }
            SeriesShape::Stems => {
                for (point, (x, y)) in points.iter().zip(placed_points) {
                    svg.polyline(["solid", hue.1], &[(x, frame.bottom), (x, y)]);
                    svg.mark(hue, (x, y), &self.tip(series, *point));
                }
            }
            SeriesShape::Band => {
                for pair in placed_points.windows(2) {
                    let [(from, _), (to, _)] = pair else { continue };
                    svg.area("band", [*from, frame.top, to - from, frame.bottom - frame.top]);
                }
            }
            SeriesShape::Verticals => {
                for (x, _) in placed_points {
                    svg.polyline(["dashed", hue.1], &[(x, frame.bottom), (x, frame.top)]);
                }
            }
        }
    }

    fn tip(&self, series: &Series, (x, y): (f64, f64)) -> String {
        format!("{}: {} at {}", series.name, with_unit(self.y.unit, y), with_unit(self.x.unit, x))
    }
}

const fn fill_class(hue: usize) -> &'static str {
    match hue {
        0 => "f0",
        1 => "f1",
        2 => "f2",
        3 => "f3",
        _ => "f4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPES: [SeriesShape; 8] = [
        SeriesShape::Marks,
        SeriesShape::Line,
        SeriesShape::Dashed,
        SeriesShape::Steps,
        SeriesShape::Bars,
        SeriesShape::Stems,
        SeriesShape::Verticals,
        SeriesShape::Band,
    ];

    fn plot(points: Vec<(f64, f64)>, scale: Scale, unit: Unit, shape: SeriesShape) -> Plot {
        let axis = PlotAxis { label: "axis".to_owned(), unit, scale };
        Plot {
            title: "title".to_owned(),
            x: axis.clone(),
            y: axis,
            series: vec![Series { name: "one".to_owned(), points, hue: 0, shape }],
            note: String::new(),
            figures: Table::new(),
        }
    }

    fn names(axis_of: Scale, unit: Unit, values: [f64; 2]) -> Vec<String> {
        let axis = PlotAxis { label: String::new(), unit, scale: axis_of };
        let ruler = Ruler::of(&axis, values.into_iter(), 6.0);
        ruler.ticks.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn an_axis_of_time_names_its_ticks_with_their_unit() {
        let ticks = names(Scale::FromZero, Unit::Time, [0.0, 1_230_000.0]);
        assert_eq!(ticks, ["0", "500 µs", "1 ms", "1.5 ms"]);
    }

    #[test]
    fn a_linear_axis_of_bytes_has_the_units_of_files() {
        let ticks = names(Scale::FromZero, Unit::Bytes, [0.0, 2_070.0]);
        assert_eq!(ticks, ["0", "500 B", "1 kB", "1.5 kB", "2 kB", "2.5 kB"]);
    }

    #[test]
    fn a_logarithmic_axis_of_bytes_has_the_units_of_files() {
        let ticks = names(Scale::Logarithmic, Unit::Bytes, [1_024.0, 16_777_216.0]);
        assert_eq!(ticks, ["1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB"]);
    }

    #[test]
    fn a_logarithmic_axis_of_rates_has_ticks_at_powers_of_ten() {
        let ticks = names(Scale::Logarithmic, Unit::ByteRate, [3e5, 8e8]);
        assert_eq!(ticks, ["100 kB/s", "1 MB/s", "10 MB/s", "100 MB/s", "1 GB/s"]);
    }

    #[test]
    fn a_narrow_logarithmic_axis_has_finer_ticks() {
        let ticks = names(Scale::Logarithmic, Unit::Time, [210_000.0, 911_000.0]);
        assert_eq!(ticks, ["200 µs", "500 µs", "1 ms"]);
    }

    #[test]
    fn a_linear_axis_begins_at_its_smallest_value() {
        let ticks = names(Scale::Linear, Unit::Time, [181_000.0, 268_000.0]);
        assert_eq!(ticks, ["180 µs", "200 µs", "220 µs", "240 µs", "260 µs", "280 µs"]);
    }

    #[test]
    fn an_empty_plot_is_drawn_with_its_axes() {
        for scale in [Scale::FromZero, Scale::Linear, Scale::Logarithmic] {
            let drawn = plot(Vec::new(), scale, Unit::Time, SeriesShape::Line).draw(Window::Narrow);
            assert!(drawn.contains("class=\"axis\"") && !drawn.contains("NaN"), "{drawn}");
        }
    }

    #[test]
    fn thinning_keeps_the_ends() {
        let all: Vec<u32> = (0..10_000).collect();
        let kept_points = thinned(&all, 100);
        assert!(kept_points.len() <= 102);
        assert_eq!((kept_points.first(), kept_points.last()), (Some(&0), Some(&9_999)));
    }

    proptest! {
        #[test]
        fn no_points_cause_a_panic(
            points in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..20),
            shape in 0..SHAPES.len(),
        ) {
            for scale in [Scale::FromZero, Scale::Linear, Scale::Logarithmic] {
                for unit in [Unit::Time, Unit::Bytes, Unit::ByteRate, Unit::Count, Unit::Percent] {
                    let plot = plot(points.clone(), scale, unit, SHAPES[shape]);
                    let drawn = plot.draw(Window::Wide);
                    prop_assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
                }
            }
        }

        #[test]
        fn ticks_are_few_and_reach_both_ends(low in 1e-3..1e12_f64, factor in 1.0..1e6_f64) {
            for scale in [Scale::FromZero, Scale::Linear, Scale::Logarithmic] {
                for unit in [Unit::Time, Unit::Bytes, Unit::ByteRate, Unit::Percent] {
                    let axis = PlotAxis { label: String::new(), unit, scale };
                    let high = low * factor;
                    let ruler = Ruler::of(&axis, [low, high].into_iter(), 6.0);
                    prop_assert!((2..=14).contains(&ruler.ticks.len()), "{ruler:?}");
                    prop_assert!(ruler.low <= low * 1.001 && ruler.high >= high * 0.999);
                }
            }
        }
    }
}
