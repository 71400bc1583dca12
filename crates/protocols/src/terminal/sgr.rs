//! Select Graphic Rendition (ECMA-48 §8.3.117), with xterm's 256 colors and true color.
//!
//! A color is `38;5;n`, `38;2;r;g;b`, or a single parameter with colons. The form with colons may
//! contain a color space before the red value (ISO 8613-6).

use super::cell::{Attributes, Color, Style};
use super::parameters::Parameters;
use alloc::string::String;
use core::fmt::Write as _;

/// Applies the parameters of one SGR sequence to `style`; returns the number of unknown parameters.
pub(super) fn apply(style: &mut Style, parameters: &Parameters) -> u64 {
    let mut unknown = 0;
    let mut parameters = parameters.iter();
    while let Some(parameter) = parameters.next() {
        let is_known = match parameter {
            [38] => set(&mut style.foreground, parse_separate_color(&mut parameters)),
            [48] => set(&mut style.background, parse_separate_color(&mut parameters)),
            // The color of the underline is ignored: an underline always has the color of its
            // character here.
            [58] => parse_separate_color(&mut parameters).is_some(),
            [58, color @ ..] => parse_joined_color(color).is_some(),
            [59] => true,
            [38, color @ ..] => set(&mut style.foreground, parse_joined_color(color)),
            [48, color @ ..] => set(&mut style.background, parse_joined_color(color)),
            [4, 0] => {
                style.attributes = style.attributes.without(Attributes::UNDERLINE);
                true
            }
            [code, ..] => apply_code(style, *code),
            [] => false,
        };
        unknown += u64::from(!is_known);
    }
    unknown
}

/// Returns the SGR parameters that set `style`, starting with a reset.
pub(super) fn report(style: Style) -> String {
    let mut report = String::from("0");
    let codes = (1..=9).filter(|code| *code != 6);
    let is_in = |code: &u16| attribute(*code).is_some_and(|one| style.attributes.contains(one));
    for code in codes.filter(is_in) {
        // Writing to a String cannot fail.
        _ = write!(report, ";{code}");
    }
    for (color, base) in [(style.foreground, 30_u8), (style.background, 40)] {
        _ = match color {
            Color::Default => Ok(()),
            Color::Indexed(index @ 0..8) => write!(report, ";{}", base + index),
            Color::Indexed(index @ 8..16) => write!(report, ";{}", base + 52 + index),
            Color::Indexed(index) => write!(report, ";{}:5:{index}", base + 8),
            Color::Rgb(red, green, blue) => {
                write!(report, ";{}:2:{red}:{green}:{blue}", base + 8)
            }
        };
    }
    report.push('m');
    report
}

fn apply_code(style: &mut Style, code: u16) -> bool {
    if let Some(attribute) = attribute(code) {
        style.attributes = style.attributes.with(attribute);
        return true;
    }
    if let Some(attributes) = attributes_to_clear(code) {
        style.attributes = style.attributes.without(attributes);
        return true;
    }
    match code {
        0 => *style = Style::PLAIN,
        30..=37 => style.foreground = indexed(code - 30),
        39 => style.foreground = Color::Default,
        40..=47 => style.background = indexed(code - 40),
        49 => style.background = Color::Default,
        90..=97 => style.foreground = indexed(code - 90 + 8),
        100..=107 => style.background = indexed(code - 100 + 8),
        _ => return false,
    }
    true
}

fn attribute(code: u16) -> Option<Attributes> {
    Some(match code {
        1 => Attributes::BOLD,
        2 => Attributes::DIM,
        3 => Attributes::ITALIC,
        4 | 21 => Attributes::UNDERLINE,
        5 | 6 => Attributes::BLINK,
        7 => Attributes::REVERSE,
        8 => Attributes::HIDDEN,
        9 => Attributes::STRIKE,
        _ => return None,
    })
}

fn attributes_to_clear(code: u16) -> Option<Attributes> {
    Some(match code {
        22 => Attributes::BOLD.with(Attributes::DIM),
        23 => Attributes::ITALIC,
        24 => Attributes::UNDERLINE,
        25 => Attributes::BLINK,
        27 => Attributes::REVERSE,
        28 => Attributes::HIDDEN,
        29 => Attributes::STRIKE,
        _ => return None,
    })
}

fn indexed(index: u16) -> Color {
    Color::Indexed(u8::try_from(index).unwrap_or(u8::MAX))
}

fn set(place: &mut Color, color: Option<Color>) -> bool {
    if let Some(color) = color {
        *place = color;
    }
    color.is_some()
}

/// Parses a color whose numbers are separate parameters, such as `5;n` or `2;r;g;b`.
fn parse_separate_color<'a>(parameters: &mut impl Iterator<Item = &'a [u16]>) -> Option<Color> {
    let mut next = || parameters.next().and_then(|parameter| parameter.first().copied());
    match next()? {
        5 => Some(Color::Indexed(byte(next()?)?)),
        2 => {
            let red = next()?;
            let green = next()?;
            let blue = next()?;
            Some(Color::Rgb(byte(red)?, byte(green)?, byte(blue)?))
        }
        _ => None,
    }
}

/// Parses a color whose numbers are joined by colons, such as `38:5:n`.
fn parse_joined_color(numbers: &[u16]) -> Option<Color> {
    match *numbers {
        [5, index, ..] => Some(Color::Indexed(byte(index)?)),
        [2, red, green, blue] | [2, _, red, green, blue, ..] => {
            Some(Color::Rgb(byte(red)?, byte(green)?, byte(blue)?))
        }
        _ => None,
    }
}

fn byte(number: u16) -> Option<u8> {
    u8::try_from(number).ok()
}
