//! SVG drawing: a few shapes, escaped text, and axis ticks.

use records::Layer;
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

/// An SVG drawing under construction.
#[derive(Debug)]
pub(super) struct Svg {
    window: Window,
    body: String,
}

impl Svg {
    pub(super) fn new(window: Window) -> Self {
        Self { window, body: String::new() }
    }

    /// Adds a rectangle that displays `tip` when hovered.
    pub(super) fn rect(&mut self, class: &'static str, [x, y, w, h]: [f64; 4], tip: &str) {
        // Writing to a String cannot fail.
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\">\
             <title>{}</title></rect>",
            escape::html(tip)
        );
    }

    pub(super) fn line(&mut self, class: &'static str, [x1, y1, x2, y2]: [f64; 4]) {
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

    /// Adds a mark, one of five shapes, that displays `tip` when hovered.
    pub(super) fn mark(&mut self, hue: (usize, &'static str), (x, y): (f64, f64), tip: &str) {
        let path = match hue.0 % 5 {
            0 => "m-3.5 -3.5h7v7h-7z",
            1 => "m0 -4.6l4.2 7.6h-8.4z",
            2 => "m0 -5l5 5l-5 5l-5 -5z",
            3 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            _ => "m0 4.6l4.2 -7.6h-8.4z",
        };
        let _ = write!(
            self.body,
            "<path class=\"mark {}\" d=\"M{x:.1} {y:.1}{path}\"><title>{}</title></path>",
            hue.1,
            escape::html(tip)
        );
    }

    /// Returns the drawing, `height` pixels high, with `label` as its accessible text.
    pub(super) fn finish(self, height: f64, label: &str) -> String {
        format!(
            "<svg class=\"{}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0} {height:.0}\">\
             {}</svg>\n",
            self.window.class(),
            escape::html(label),
            self.window.width(),
            self.body
        )
    }
}

/// Returns the class with the color of `layer`.
pub(super) const fn layer_class(layer: Layer) -> &'static str {
    match layer {
        Layer::Line => "l0",
        Layer::InterruptOrSystemCall => "l1",
        Layer::Link => "l2",
        Layer::Internet => "l3",
        Layer::TcpFixed => "l4",
        Layer::TcpPerByte => "l5",
        Layer::Telnet => "l6",
        Layer::Terminal => "l7",
        Layer::RemoteHostAndNetwork => "l8",
        Layer::RunQueue => "l9",
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
