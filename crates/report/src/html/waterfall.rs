//! Spans over one time axis: name, bar, duration.

use super::elements::push_figure;
use super::svg::{Svg, Ticks, Window, fit, part_class, width_of};
use crate::split_row::{Part, parts_of_wait};
use crate::table::Table;
use records::assessment::Location;
use records::format::duration;
use records::keystroke::MedianKeystroke;
use records::measurement::PromptKind;
use records::{LayerTime, Measurement};

const TOP_MARGIN: f64 = 8.0;
const BAR_HEIGHT: f64 = 16.0;
const DURATION_WIDTH: f64 = 68.0;
/// Minimum width of a bar in pixels, so that an instantaneous span is visible.
const MIN_BAR_WIDTH: f64 = 1.5;

/// Wait for a prompt that users notice, as for the causes of a verdict, ns.
const NOTICED_PROMPT_NS: u64 = 150_000_000;

/// Spans over one time axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waterfall {
    /// Title of the chart.
    pub title: String,
    /// Spans, from the top; the axis starts at the earliest start of a span.
    pub spans: Vec<Span>,
    /// Time after which users notice the wait, ns. It is drawn if the axis contains it.
    pub noticed_ns: Option<u64>,
    /// Whether spans below 1 % of the whole time are drawn.
    pub draws_short_spans: bool,
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
    /// Part of a time whose color the bar takes, if the span belongs to one.
    pub part: Option<Part>,
}

impl Span {
    fn length(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

impl Waterfall {
    /// Creates the waterfall of the median keystroke of `measured`, with one span per part.
    #[must_use]
    pub fn of_keystroke(keystroke: &MedianKeystroke, measured: &Measurement) -> Self {
        let mut spans = Vec::new();
        let mut add = |direction: &str, part: Part, ns: u64| {
            let start_ns = spans.last().map_or(0, |span: &Span| span.end_ns);
            let label = format!("{direction}{}", part.text());
            spans.push(Span { label, start_ns, end_ns: start_ns + ns, part: Some(part) });
        };
        for LayerTime { layer, ns } in &keystroke.sending {
            add("down: ", (*layer).into(), *ns);
        }
        for row in parts_of_wait(keystroke.waiting_ns, measured) {
            add("", row.part, row.ns);
        }
        for LayerTime { layer, ns } in &keystroke.receiving {
            add("up: ", (*layer).into(), *ns);
        }
        Self {
            title: "One keystroke, from key to cell".to_owned(),
            spans,
            noticed_ns: None,
            draws_short_spans: false,
            note: format!(
                "The median of {} echoes, with one span per layer. The layers of a direction are \
                 drawn in the order of their calls. The network is drawn as one span, although it \
                 is crossed in both directions.",
                keystroke.samples
            ),
        }
    }

    /// Creates the waterfall of the steps of a login, from the name lookup to the first prompt of
    /// the shell; `None` if no prompt was measured.
    #[must_use]
    pub(crate) fn of_login(measured: &Measurement) -> Option<Self> {
        let phases = &measured.phases;
        let prompt = match phases.prompt {
            // Text that matches no known prompt may be any output.
            None | Some(PromptKind::Silence) => return None,
            Some(kind) => kind.text(),
        };
        let network = Some(Part::Remote(Location::Network));
        let wait = |ns: Option<u64>| {
            let rows = parts_of_wait(ns.unwrap_or(0), measured);
            rows.into_iter().max_by_key(|row| row.ns).map(|row| row.part)
        };
        let steps = [
            ("name to address", phases.resolve_ns, network),
            ("connect", phases.connect_ns, network),
            ("TLS", phases.tls_ns, wait(phases.tls_ns)),
            ("negotiation", phases.negotiation_ns, wait(phases.negotiation_ns)),
            (prompt, phases.login_prompt_ns, wait(phases.login_prompt_ns)),
            ("password prompt", phases.password_prompt_ns, wait(phases.password_prompt_ns)),
            ("shell prompt", phases.login_ns, wait(phases.login_ns)),
        ];
        let mut spans: Vec<Span> = Vec::new();
        for (label, ns, part) in steps {
            let Some(ns) = ns else { continue };
            let start_ns = spans.last().map_or(0, |span| span.end_ns);
            let end_ns = start_ns.saturating_add(ns);
            spans.push(Span { label: label.to_owned(), start_ns, end_ns, part });
        }
        phases.login_prompt_ns.map(|_| Self {
            title: "The login, step by step".to_owned(),
            spans,
            noticed_ns: Some(NOTICED_PROMPT_NS),
            draws_short_spans: true,
            note: "Each step begins at the end of the step above it. A step has the color of the \
                   network or of the remote host, whichever takes more of it. Users notice a wait \
                   of more than 150 ms (dashed line)."
                .to_owned(),
        })
    }

    pub(super) fn push(&self, out: &mut String) {
        let drawings = Window::BOTH.map(|window| self.draw(window));
        let omitted = self.spans.len() - self.drawn_spans().len();
        let note = match omitted {
            0 => self.note.clone(),
            1 => format!("{} One span below 1 % is only in the table.", self.note),
            many => format!("{} {many} spans below 1 % are only in the table.", self.note),
        };
        push_figure(out, &self.title, drawings, note.trim(), &self.figures());
    }

    /// Returns the spans of at least 1 % of the whole time, or all. Shorter spans are hairlines.
    fn drawn_spans(&self) -> Vec<&Span> {
        let end = self.spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
        let min = match self.draws_short_spans {
            true => 0,
            false => end.saturating_sub(self.origin()) / 100,
        };
        self.spans.iter().filter(|span| span.length() >= min).collect()
    }

    fn origin(&self) -> u64 {
        self.spans.iter().map(|span| span.start_ns).min().unwrap_or(0)
    }

    fn draw(&self, window: Window) -> String {
        let origin = self.origin();
        let spans = self.drawn_spans();
        let ends = self.spans.iter().map(|span| span.end_ns.max(span.start_ns) - origin);
        let (unit, per_unit) = unit_of(ends.max().unwrap_or(0));
        let longest = spans.iter().map(|span| width_of(&span.label)).fold(0.0, f64::max);
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
        let bottom = spans.iter().fold(TOP_MARGIN, |bottom, _| bottom + row);
        let mut svg = Svg::new(window);
        for tick in &ticks.at {
            svg.line("grid", [place(*tick), TOP_MARGIN, place(*tick), bottom + 4.0]);
            svg.text("middle tick", place(*tick).max(9.0), bottom + 19.0, &ticks.text(*tick));
        }
        svg.text("end name", right, bottom + 38.0, &format!("time ({unit})"));
        let noticed = self.noticed_ns.map(in_units).filter(|value| *value <= ticks.end());
        let mut y = TOP_MARGIN;
        for span in &spans {
            let from = place(in_units(span.start_ns - origin));
            let to = place(in_units(span.end_ns.max(span.start_ns) - origin));
            // In a narrow window, a line beyond the bar would cross the name above it.
            let (name_y, bar_y, overhang) = match window {
                Window::Wide => (y + 17.0, y + 5.0, 4.0),
                Window::Narrow => (y + 14.0, y + 19.0, 0.0),
            };
            svg.text("start", 2.0, name_y, &fit(&span.label, name_width));
            let tip = format!("{}: {}", span.label, duration(span.length()));
            let class = span.part.map_or("neutral", part_class);
            svg.rect(class, [from, bar_y, (to - from).max(MIN_BAR_WIDTH), BAR_HEIGHT], &tip);
            if let Some(x) = noticed.map(place) {
                let limit = [x, bar_y - overhang, x, bar_y + BAR_HEIGHT + overhang];
                svg.line("dashed limit", limit);
            }
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
    use records::Layer;

    fn span(start_ns: u64, end_ns: u64) -> Span {
        Span { label: "key".to_owned(), start_ns, end_ns, part: None }
    }

    #[test]
    fn each_span_of_a_keystroke_starts_at_the_end_of_the_span_before() {
        let time = |layer, ns| LayerTime { layer, ns };
        let sample = include_str!("../../../records/samples/measurement-4.json");
        let mut measured = Measurement::from_json(sample).unwrap();
        measured.tcp = None;
        measured.phases.connect_ns = Some(100);
        let keystroke = MedianKeystroke {
            sending: vec![time(Layer::Telnet, 10), time(Layer::TcpFixed, 20)],
            waiting_ns: 300,
            receiving: vec![time(Layer::TcpFixed, 40), time(Layer::Terminal, 50)],
            samples: 200,
        };
        let waterfall = Waterfall::of_keystroke(&keystroke, &measured);
        let first_word = |span: &Span| span.label.split(' ').next().unwrap().to_owned();
        let spans = waterfall.spans.iter();
        let spans: Vec<_> =
            spans.map(|span| (first_word(span), span.start_ns, span.end_ns)).collect();
        let expected = [
            ("down:", 0, 10),
            ("down:", 10, 30),
            ("network", 30, 130),
            ("remote", 130, 330),
            ("up:", 330, 370),
            ("up:", 370, 420),
        ];
        assert_eq!(spans, expected.map(|(word, start, end)| (word.to_owned(), start, end)));
    }

    #[test]
    fn the_waterfall_of_a_login_ends_with_the_prompt_of_the_shell() {
        let sample = include_str!("../../../records/samples/measurement-4.json");
        let mut measured = Measurement::from_json(sample).unwrap();
        let phases = &mut measured.phases;
        phases.password_prompt_ns = Some(40_000_000);
        phases.login_ns = Some(600_000_000);
        let waterfall = Waterfall::of_login(&measured).unwrap();
        let labels: Vec<_> = waterfall.spans.iter().map(|span| span.label.as_str()).collect();
        let expected = [
            "name to address",
            "connect",
            "negotiation",
            "login prompt",
            "password prompt",
            "shell prompt",
        ];
        assert_eq!(labels, expected);
        let last = waterfall.spans.last().unwrap();
        assert_eq!(
            (last.length(), last.part),
            (600_000_000, Some(Part::Remote(Location::RemoteHost)))
        );
        assert!(waterfall.draw(Window::Wide).contains("dashed limit"), "users notice 150 ms");
        let narrow = waterfall.draw(Window::Narrow);
        let tops = |start: &str, attribute: &str| {
            let elements = narrow.split(start).skip(1);
            let value =
                |text: &str| text.split(attribute).nth(1)?.split('"').next()?.to_owned().into();
            elements.map(value).collect::<Option<Vec<String>>>().unwrap()
        };
        let bars = tops("<rect ", "y=\"");
        assert_eq!(tops("<line class=\"dashed limit\"", "y1=\""), bars, "names are not crossed");
        measured.phases.password_prompt_ns = None;
        measured.phases.login_ns = None;
        let short = Waterfall::of_login(&measured).unwrap();
        assert!(!short.draw(Window::Narrow).contains("dashed"), "the axis ends before 150 ms");
        measured.phases.prompt = Some(PromptKind::Silence);
        assert_eq!(Waterfall::of_login(&measured), None);
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
    fn spans_below_one_percent_are_only_in_the_table() {
        let spans = vec![span(0, 9), span(9, 1_000), span(1_000, 1_010)];
        let waterfall = Waterfall { spans, note: "Note.".to_owned(), ..Waterfall::default() };
        let mut out = String::new();
        waterfall.push(&mut out);
        assert_eq!(waterfall.drawn_spans().len(), 2);
        assert!(out.contains("Note. One span below 1 % is only in the table."), "{out}");
        assert!(out.contains("<td class=\"number\">9 ns</td>"), "{out}");
    }

    #[test]
    fn a_waterfall_without_spans_is_drawn_with_its_axis() {
        assert!(!Waterfall::default().draw(Window::Narrow).contains("NaN"));
    }
}
