//! SVG drawing: a few shapes, escaped text, and axis ticks.

use crate::split_row::Part;
use records::Layer;
use records::assessment::Location;
use records::escape;
use std::fmt::Write;

/// Window width for which a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// Desktop screen.
    Wide,
    /// Phone screen.
    Narrow,
}

impl Window {
    pub(super) const BOTH: [Self; 2] = [Self::Wide, Self::Narrow];

    /// Returns the width of a drawing in pixels.
    pub(super) const fn width(self) -> f64 {
        match self {
            Self::Wide => 860.0,
            Self::Narrow => 350.0,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Approximate width of a letter, in pixels, at the font size of the style.
pub(super) const LETTER_WIDTH: f64 = 6.9;

/// Height of the line for tips, in pixels.
const TIP_HEIGHT: f64 = 20.0;

/// An SVG drawing under construction.
#[derive(Debug)]
pub(super) struct Svg {
    window: Window,
    body: String,
    /// Whether the last line is reserved for tips.
    has_tips: bool,
}

impl Svg {
    pub(super) fn new(window: Window) -> Self {
        Self { window, body: String::new(), has_tips: false }
    }

    /// Adds a rectangle that displays `tip` at the bottom of the drawing while the pointer is on it
    /// or it has the focus.
    pub(super) fn rect(&mut self, class: &'static str, [x, y, w, h]: [f64; 4], tip: &str) {
        let shape = format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" \
             height=\"{h:.1}\"/>"
        );
        self.with_tip("0", &shape, tip);
    }

    /// Adds a rectangle without a tip.
    pub(super) fn area(&mut self, class: &'static str, [x, y, w, h]: [f64; 4]) {
        // Writing to a String cannot fail.
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\"/>"
        );
    }

    /// Adds `shape` with its tip. A pointer, a touch or a click can focus it, and with the tab index
    /// 0 also the keyboard.
    fn with_tip(&mut self, tab_index: &'static str, shape: &str, tip: &str) {
        self.has_tips = true;
        let label = escape::html(tip);
        let text = escape::html(&fit(tip, self.window.width() - 4.0));
        // Writing to a String cannot fail.
        let _ = write!(
            self.body,
            "<g class=\"tip\" tabindex=\"{tab_index}\" role=\"img\" aria-label=\"{label}\">{shape}\
             <text x=\"2\" y=\"100%\" dy=\"-5\">{text}</text></g>"
        );
    }

    pub(super) fn line(&mut self, class: &'static str, [x1, y1, x2, y2]: [f64; 4]) {
        // Writing to a String cannot fail.
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// Adds a text; its class determines the anchor.
    pub(super) fn text(&mut self, class: &'static str, x: f64, y: f64, text: &str) {
        let text = escape::html(text);
        let _ =
            write!(self.body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }

    pub(super) fn polyline(&mut self, [drawn, hue]: [&'static str; 2], points: &[(f64, f64)]) {
        let _ = write!(self.body, "<polyline class=\"{drawn} {hue}\" points=\"");
        for (x, y) in points {
            let _ = write!(self.body, "{x:.1},{y:.1} ");
        }
        self.body.push_str("\"/>");
    }

    /// Adds a mark, one of five shapes, that displays `tip` as [`Self::rect`] does. A chart may have
    /// many marks, and a table of their values, so the keyboard skips them.
    pub(super) fn mark(&mut self, hue: (usize, &'static str), (x, y): (f64, f64), tip: &str) {
        let (fill, path) = match hue.0 % 5 {
            0 => ("", "m-3.6 -3.6h7.2v7.2h-7.2z"),
            1 => (" f1", "m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z"),
            2 => ("", "m0 -5l5 5l-5 5l-5 -5z"),
            3 => (" f3", "m0 -4.6l4.2 7.6h-8.4z"),
            _ => ("", "m-4 -4l8 8m0 -8l-8 8"),
        };
        let shape = format!("<path class=\"mark {}{fill}\" d=\"M{x:.1} {y:.1}{path}\"/>", hue.1);
        self.with_tip("-1", &shape, tip);
    }

    /// Returns the drawing, `height` pixels high, with `label` as its accessible text.
    pub(super) fn finish(self, height: f64, label: &str) -> String {
        let height = if self.has_tips { height + TIP_HEIGHT } else { height };
        format!(
            "<svg class=\"{}\" role=\"group\" aria-label=\"{}\" viewBox=\"0 0 {:.0} {height:.0}\">\
             {}</svg>\n",
            self.window.class(),
            escape::html(label),
            self.window.width(),
            self.body
        )
    }
}

/// Returns the class with the color of `part`: a shade of gray for a layer of this host.
pub(super) const fn part_class(part: Part) -> &'static str {
    match part {
        Part::Remote(location) => location_class(location),
        Part::Local(layer) => match layer {
            Layer::InterruptOrSystemCall | Layer::TcpPerByte => "g0",
            Layer::Link | Layer::Telnet => "g1",
            Layer::Internet | Layer::Terminal => "g2",
            _ => "g3",
        },
    }
}

/// Returns the class of a text on the color of `part`.
pub(super) const fn part_label_class(part: Part) -> &'static str {
    match part {
        Part::Remote(location) => location_label_class(location),
        Part::Local(_) => "middle on-light",
    }
}

/// Returns the class with the color of `location`.
pub(super) const fn location_class(location: Location) -> &'static str {
    match location {
        Location::Network => "l4",
        Location::Line => "l0",
        Location::RemoteHost => "l1",
        Location::RemoteHostAndNetwork => "l5",
        Location::ThisHost => "g2",
        Location::Other => "g0",
    }
}

/// Returns the class of a text on the color of `location`.
pub(super) const fn location_label_class(location: Location) -> &'static str {
    match location {
        Location::Network | Location::RemoteHost => "middle on-dark",
        _ => "middle on-light",
    }
}

/// Returns the approximate width of `text` in pixels.
pub(super) fn width_of(text: &str) -> f64 {
    // The percent sign is the only wide character among frequent short texts.
    text.chars().fold(0.0, |width, letter| width + if letter == '%' { 12.0 } else { LETTER_WIDTH })
}

/// Returns `text`, truncated with an ellipsis if it does not fit into `available_width` pixels.
pub(super) fn fit(text: &str, available_width: f64) -> String {
    if width_of(text) <= available_width {
        return text.to_owned();
    }
    let mut remaining_width = available_width - LETTER_WIDTH;
    let mut out: String = text
        .chars()
        .take_while(|_| {
            remaining_width -= LETTER_WIDTH;
            remaining_width >= 0.0
        })
        .collect();
    out.truncate(out.trim_end().len());
    out.push('…');
    out
}

/// Ticks of an axis that starts at 0.
#[derive(Debug, PartialEq)]
pub(super) struct Ticks {
    /// Values of the ticks, from 0; the last is the end of the axis.
    pub(super) at: Vec<f64>,
    decimals: usize,
}

impl Ticks {
    /// Returns ticks from 0 to `max` or more, at most `max_ticks` + 1 of them, at multiples of 1, 2
    /// or 5 times a power of ten.
    pub(super) fn up_to(max: f64, max_ticks: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max.clamp(1e-12, 1e18) } else { 1.0 };
        let min_step = max / max_ticks;
        let power = 10_f64.powf(min_step.log10().floor());
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= min_step);
        let step = factor.unwrap_or(10.0) * power;
        let mut at = vec![0.0];
        for tick in 1..=40_u32 {
            let value = f64::from(tick) * step;
            at.push(value);
            // The sum of steps is not exact, so a value slightly below the end counts as the end.
            if value >= max * (1.0 - 1e-9) {
                break;
            }
        }
        // A step of 0.05 needs two decimals, one of 0.1 needs one.
        let places =
            (0..12_usize).zip(std::iter::successors(Some(1.0), |scale| Some(scale * 10.0)));
        let mut fine = places.skip_while(|(_, scale): &(usize, f64)| step * scale < 0.999);
        Self { at, decimals: fine.next().map_or(12, |(places, _)| places) }
    }

    pub(super) fn end(&self) -> f64 {
        self.at.last().copied().unwrap_or(1.0)
    }

    /// Returns the text of the tick at `value`, with thousands separators.
    pub(super) fn text(&self, value: f64) -> String {
        let text = format!("{value:.*}", self.decimals);
        let whole = text.split('.').next().and_then(|whole| whole.parse().ok());
        match whole {
            Some(whole) if self.decimals == 0 => records::format::count(whole),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(max: f64, max_ticks: f64) -> Vec<String> {
        let ticks = Ticks::up_to(max, max_ticks);
        ticks.at.iter().map(|value| ticks.text(*value)).collect()
    }

    #[test]
    fn ticks_are_round_and_reach_the_largest_value() {
        assert_eq!(texts(1.27, 7.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2", "1.4"]);
        assert_eq!(
            texts(5_470.0, 6.0),
            ["0", "1,000", "2,000", "3,000", "4,000", "5,000", "6,000"]
        );
        assert_eq!(texts(0.3, 3.0), ["0.0", "0.1", "0.2", "0.3"]);
    }

    #[test]
    fn an_empty_axis_ends_at_one() {
        assert_eq!(Ticks::up_to(f64::NAN, 5.0).end(), 1.0);
    }

    #[test]
    fn a_text_that_does_not_fit_ends_with_an_ellipsis() {
        assert_eq!(fit("one time and another", 70.0), "one time…");
    }

    proptest! {
        #[test]
        fn few_ticks_always_reach_the_end(max in any::<f64>(), max_ticks in 2.0..12.0_f64) {
            let ticks = Ticks::up_to(max, max_ticks);
            prop_assert!((2..=14).contains(&ticks.at.len()), "{:?}", ticks.at);
            if max.is_finite() && max < 1e18 {
                prop_assert!(ticks.end() >= max * (1.0 - 1e-9));
            }
        }
    }
}
