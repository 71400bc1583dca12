//! Spans over one time axis: name, bar, duration.

use super::elements::push_figure;
use super::svg::{Svg, Ticks, Window, fit, layer_class, width_of};
use crate::table::Table;
use records::Layer;
use records::format::duration;

const TOP_MARGIN: f64 = 8.0;
const BAR_HEIGHT: f64 = 16.0;
const DURATION_WIDTH: f64 = 68.0;
/// Minimum width of a bar in pixels, so that an instantaneous span is visible.
const MIN_BAR_WIDTH: f64 = 1.5;

/// Spans over one time axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waterfall {
    /// Title of the chart.
    pub title: String,
    /// Spans, from the top; the axis starts at the earliest start of a span.
    pub spans: Vec<Span>,
    /// Note for the reader; may be empty.
    pub note: String,
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name of the event.
    pub label: String,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns; an end before the start counts as the start.
    pub end_ns: u64,
    /// Layer whose color the bar takes, if the span belongs to one.
    pub layer: Option<Layer>,
}

impl Span {
    fn length(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

impl Waterfall {
    pub(super) fn push(&self, out: &mut String) {
        let drawings = Window::BOTH.map(|window| self.draw(window));
        push_figure(out, &self.title, drawings, &self.note, &self.figures());
    }

    fn origin(&self) -> u64 {
        self.spans.iter().map(|span| span.start_ns).min().unwrap_or(0)
    }

    fn draw(&self, window: Window) -> String {
        let origin = self.origin();
        let ends = self.spans.iter().map(|span| span.end_ns.max(span.start_ns) - origin);
        let (unit, per_unit) = unit_of(ends.max().unwrap_or(0));
        let longest = self.spans.iter().map(|span| width_of(&span.label)).fold(0.0, f64::max);
        // In a narrow window the name is above its bar, which then has the full width.
        let (row, left, name_width, max_ticks) = match window {
            Window::Wide => {
                let label_width = longest.min(window.width() * 0.35);
                (26.0, label_width + 12.0, label_width + 1.0, 8.0)
            }
            Window::Narrow => (38.0, 4.0, window.width() - 8.0, 5.0),
        };
        let in_units = |ns: u64| ns as f64 / per_unit;
        let last = self.spans.iter().map(|span| in_units(span.end_ns.saturating_sub(origin)));
        let ticks = Ticks::up_to(last.fold(0.0, f64::max), max_ticks);
        let right = window.width() - DURATION_WIDTH;
        let place = |value: f64| left + value / ticks.end() * (right - left);
        let bottom = self.spans.iter().fold(TOP_MARGIN, |bottom, _| bottom + row);
        let mut svg = Svg::new(window);
        for tick in &ticks.at {
            svg.line("grid", [place(*tick), TOP_MARGIN, place(*tick), bottom + 4.0]);
            svg.text("middle tick", place(*tick).max(9.0), bottom + 19.0, &ticks.text(*tick));
        }
        svg.text("end name", right, bottom + 38.0, &format!("time ({unit})"));
        let mut y = TOP_MARGIN;
        for span in &self.spans {
            let from = place(in_units(span.start_ns - origin));
            let to = place(in_units(span.end_ns.max(span.start_ns) - origin));
            let (name_y, bar_y) = match window {
                Window::Wide => (y + 17.0, y + 5.0),
                Window::Narrow => (y + 14.0, y + 19.0),
            };
            svg.text("start", 2.0, name_y, &fit(&span.label, name_width));
            let tip = format!("{}: {}", span.label, duration(span.length()));
            let class = span.layer.map_or("neutral", layer_class);
            svg.rect(class, [from, bar_y, (to - from).max(MIN_BAR_WIDTH), BAR_HEIGHT], &tip);
            svg.text("end number", window.width(), bar_y + 12.5, &duration(span.length()));
            y += row;
        }
        svg.finish(bottom + 46.0, &format!("{}: spans over time in {unit}", self.title))
    }

    fn figures(&self) -> Table {
        let origin = self.origin();
        let columns = Table::new().text("span").number("start").number("end").number("duration");
        let mut table = columns;
        for span in &self.spans {
            let times = [
                duration(span.start_ns - origin),
                duration(span.end_ns.max(span.start_ns) - origin),
                duration(span.length()),
            ];
            table.row([span.label.clone()].into_iter().chain(times));
        }
        table
    }
}

/// Returns the most readable unit for `ns`, and its length in ns.
fn unit_of(ns: u64) -> (&'static str, f64) {
    match ns {
        0..2_000 => ("ns", 1.0),
        2_000..2_000_000 => ("µs", 1e3),
        2_000_000..2_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start_ns: u64, end_ns: u64) -> Span {
        Span { label: "key".to_owned(), start_ns, end_ns, layer: None }
    }

    #[test]
    fn the_axis_starts_with_the_earliest_span() {
        let spans = vec![span(1_500, 2_000), span(1_000, 1_250)];
        let waterfall = Waterfall { spans, ..Waterfall::default() };
        let expected =
            [["key", "500 ns", "1.00 µs", "500 ns"], ["key", "0 ns", "250 ns", "250 ns"]];
        assert_eq!(waterfall.figures().rows(), expected);
    }

    #[test]
    fn a_span_that_ends_before_it_starts_has_zero_length() {
        let waterfall = Waterfall { spans: vec![span(900, 100)], ..Waterfall::default() };
        assert!(waterfall.draw(Window::Wide).contains("width=\"1.5\""));
    }

    #[test]
    fn a_waterfall_without_spans_is_drawn_with_its_axis() {
        assert!(!Waterfall::default().draw(Window::Narrow).contains("NaN"));
    }
}
