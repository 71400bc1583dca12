//! Input of the terminal benchmark: five kinds of output, generated from a seed.
//!
//! No recording of a real session is needed: the expensive operations of a terminal are known, and
//! each kind of output has many operations of one type. All output is for a screen of 80 columns
//! and 24 rows.

use net::rng::Rng;
use std::fmt::Write as _;

/// A kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lines of words, like the contents of a text file.
    Plain,
    /// Lines of words, each word in a different color.
    Colour,
    /// Output of an editor: cursor motions, erasures, insertions, scrolling between margins.
    Edits,
    /// Lines of wide characters, with some narrow ones and combining marks.
    Wide,
    /// Full screens in which each cell has its own colors and attributes.
    Dense,
}

impl Kind {
    /// All kinds, in the order of the report.
    pub(super) const ALL: [Self; 5] =
        [Self::Plain, Self::Colour, Self::Edits, Self::Wide, Self::Dense];

    /// Returns the name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain text",
            Self::Colour => "SGR colour",
            Self::Edits => "full-screen edits",
            Self::Wide => "Unicode wide",
            Self::Dense => "dense cells",
        }
    }
}

/// Generates at least `bytes` of one kind; the end is a valid start for any other kind.
pub(super) fn make(kind: Kind, bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::from_seed(seed);
    let mut text = String::with_capacity(bytes + 65_536);
    while text.len() < bytes {
        match kind {
            Kind::Plain => line(&mut text, &mut rng, false),
            Kind::Colour => line(&mut text, &mut rng, true),
            Kind::Edits => edit(&mut text, &mut rng),
            Kind::Wide => wide_line(&mut text, &mut rng),
            Kind::Dense => dense_screen(&mut text, &mut rng),
        }
    }
    text.push_str("\x1b[m\x1b[r\x1b[24H");
    text.into_bytes()
}

/// Generates at least `bytes` of all kinds in turn, some thousand bytes of each at a time.
pub(super) fn mixed(bytes: usize) -> Vec<u8> {
    // A dense screen is slightly larger.
    const PIECE: usize = 50_000;
    let turns = bytes.div_ceil(PIECE * Kind::ALL.len());
    let pieces =
        (0_u64..).take(turns).flat_map(|seed| Kind::ALL.map(|kind| make(kind, PIECE, seed)));
    pieces.flatten().collect()
}

fn word(text: &mut String, rng: &mut Rng) {
    for _ in 0..2 + rng.below(8) {
        let letter = u8::try_from(rng.below(26)).unwrap_or(0);
        text.push(char::from(b'a' + letter));
    }
}

fn line(text: &mut String, rng: &mut Rng, is_coloured: bool) {
    // As in most output, lines are of varying length and few wrap.
    for _ in 0..1 + rng.below(15) {
        if is_coloured {
            colour(text, rng);
        }
        word(text, rng);
        if is_coloured {
            text.push_str("\x1b[0m");
        }
        text.push(' ');
    }
    text.push_str("\r\n");
}

fn colour(text: &mut String, rng: &mut Rng) {
    let index = rng.below(8);
    let byte = rng.below(256);
    // Writing to a String cannot fail.
    _ = match rng.below(4) {
        0 => write!(text, "\x1b[3{index}m"),
        1 => write!(text, "\x1b[1;9{index}m"),
        2 => write!(text, "\x1b[38;5;{byte}m"),
        _ => write!(text, "\x1b[38;2;{byte};{};{}m", rng.below(256), rng.below(256)),
    };
}

fn edit(text: &mut String, rng: &mut Rng) {
    let row = 1 + rng.below(24);
    let column = 1 + rng.below(80);
    _ = write!(text, "\x1b[{row};{column}H");
    let count = 1 + rng.below(6);
    match rng.below(10) {
        0..=3 => word(text, rng),
        4 => text.push_str("\x1b[K"),
        5 => _ = write!(text, "\x1b[{count}P"),
        6 => _ = write!(text, "\x1b[{count}@"),
        7 => _ = write!(text, "\x1b[7m{count:>4}%\x1b[m"),
        8 => _ = write!(text, "\x1b[{count}L\x1b[{row}H\x1b[{count}M"),
        _ => _ = write!(text, "\x1b[3;22r\x1b[22H\n\x1b[3H\x1bM\x1b[r"),
    }
}

fn wide_line(text: &mut String, rng: &mut Rng) {
    for _ in 0..10 + rng.below(28) {
        let (start, many) = match rng.below(16) {
            0 => ('a', 26),
            1 => ('À', 64),
            2 => ('🌀', 64),
            3..=5 => ('ぁ', 80),
            6 => ('가', 4000),
            _ => ('一', 8000),
        };
        let code = u32::from(start) + u32::try_from(rng.below(many)).unwrap_or(0);
        text.extend(char::from_u32(code));
        if rng.below(40) == 0 {
            text.push('\u{301}');
        }
    }
    text.push_str("\r\n");
}

fn dense_screen(text: &mut String, rng: &mut Rng) {
    text.push_str("\x1b[H");
    for _ in 0..80 * 24 {
        let foreground = rng.below(256);
        let background = rng.below(256);
        let letter = u8::try_from(rng.below(26)).unwrap_or(0);
        _ = write!(
            text,
            "\x1b[38;5;{foreground};48;5;{background};1;3;4m{}",
            char::from(b'A' + letter)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_deterministic_and_long_enough() {
        for kind in Kind::ALL {
            let stream = make(kind, 10_000, 1);
            assert!(stream.len() >= 10_000, "{}", kind.name());
            assert_eq!(stream, make(kind, 10_000, 1));
            assert_ne!(stream, make(kind, 10_000, 2));
        }
    }

    #[test]
    fn a_mixed_stream_has_all_kinds_in_equal_parts() {
        let mixed = mixed(300_000);
        assert!(mixed.len() >= 300_000);
        let wide = mixed.iter().filter(|byte| **byte >= 0x80).count();
        assert!(wide > mixed.len() / 10);
    }
}
