//! Horizontal bars for a terminal that show the time of each layer.
//!
//! The total fills the space left beside names and numbers, so that the length of a bar is its share.
//! Bars are drawn in eighths of a column. Every nonzero time gets at least one mark.

use crate::split_row::{Part, SplitRow};
use crate::table::MIN_WIDTH;
use records::LayerTime;
use records::assessment::Location;
use records::format::{duration, share};
use std::fmt::Write;

/// Maximum width of a chart, columns; a wider chart adds no information.
pub(crate) const MAX_WIDTH: usize = 200;

/// Minimum width for the long names of the layers, columns; narrower charts use the short names.
const WIDTH_FOR_LONG_NAMES: usize = 64;
const EIGHTH_BLOCKS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Characters to draw with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Block elements, in eighths of a column.
    #[default]
    Unicode,
    /// No character above 0x7e.
    Ascii,
}

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns, clamped to the range 40 to 200.
    pub width: usize,
    /// Characters to draw with.
    pub charset: Charset,
    /// Whether to color the bars, with the eight standard ANSI colors.
    pub color: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, charset: Charset::Unicode, color: false }
    }
}

impl Style {
    /// Returns the number of columns that a chart may take.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.clamp(MIN_WIDTH, MAX_WIDTH)
    }

    /// Returns `text` in the character set of this style. `µ` is the only non-ASCII character that
    /// is replaced, so `text` must contain no other.
    #[must_use]
    pub fn in_charset(&self, text: &str) -> String {
        match self.charset {
            Charset::Unicode => text.to_owned(),
            Charset::Ascii => text.replace('µ', "u"),
        }
    }
}

/// Returns one line per layer with time, share and bar, and a line with the total.
#[must_use]
pub fn layers(layers: &[LayerTime], style: Style) -> String {
    let rows: Vec<SplitRow> = layers.iter().copied().map(SplitRow::from).collect();
    named(&rows, style)
}

/// Returns the same lines as [`layers`], for rows that may have other names than their layers.
#[must_use]
pub(crate) fn named(rows: &[SplitRow], style: Style) -> String {
    let total = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.ns));
    let name = |row: &SplitRow| match style.columns() {
        WIDTH_FOR_LONG_NAMES.. => row.name,
        _ => row.short_name,
    };
    let widest = rows.iter().map(|row| name(row).len()).max().unwrap_or(0).max(5);
    let mut out = String::new();
    for row in rows {
        let name = name(row);
        let time = style.in_charset(&duration(row.ns));
        let share = share(row.ns, total);
        let label_and_time = format!("{name:<widest$} {time:>8} {share:>6} ");
        let available_width = style.columns().saturating_sub(label_and_time.chars().count());
        let bar = bar(row.ns, total, available_width, style.charset);
        let bar = paint(row.part, bar, style.color);
        out.push_str(format!("{label_and_time}{bar}").trim_end());
        out.push('\n');
    }
    let time = style.in_charset(&duration(total));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{:<widest$} {time:>8}  100 %", "total");
    out
}

fn bar(ns: u64, total: u64, available_width: usize, charset: Charset) -> String {
    let steps = match charset {
        Charset::Unicode => 8,
        Charset::Ascii => 1,
    };
    let available_eighths = u128::try_from(available_width * steps).unwrap_or(0);
    let scaled = (u128::from(ns) * available_eighths).checked_div(u128::from(total)).unwrap_or(0);
    let eighths = usize::try_from(scaled).unwrap_or(0).max(usize::from(ns > 0));
    match charset {
        Charset::Unicode => {
            "█".repeat(eighths / 8) + EIGHTH_BLOCKS.get(eighths % 8).copied().unwrap_or_default()
        }
        Charset::Ascii => "#".repeat(eighths),
    }
}

/// Colors the bar of a place outside of this host; the layers of this host are gray.
fn paint(part: Part, bar: String, color: bool) -> String {
    if !color || bar.is_empty() {
        return bar;
    }
    let location = match part {
        Part::Local(_) => Location::Other,
        Part::Remote(location) => location,
    };
    format!("\x1b[{}m{bar}\x1b[0m", color_code(location))
}

/// Returns the ANSI code of the color of a location.
pub(crate) const fn color_code(location: Location) -> u8 {
    match location {
        Location::Network => 34,
        Location::Line => 35,
        Location::RemoteHost | Location::RemoteHostAndNetwork => 33,
        Location::ThisHost => 36,
        Location::Other => 90,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use records::Layer;

    const ECHO: [LayerTime; 5] = [
        LayerTime { layer: Layer::InterruptOrSystemCall, ns: 43_512 },
        LayerTime { layer: Layer::TcpFixed, ns: 9_100 },
        LayerTime { layer: Layer::TcpPerByte, ns: 40 },
        LayerTime { layer: Layer::Terminal, ns: 21_000 },
        LayerTime { layer: Layer::RemoteHostAndNetwork, ns: 136_348 },
    ];

    fn at(width: usize) -> Style {
        Style { width, ..Style::default() }
    }

    #[test]
    fn at_40_columns_names_are_short() {
        insta::assert_snapshot!(layers(&ECHO, at(40)), @r"
        int/syscall  43.5 µs   21 % ██▍
        TCP fixed    9.10 µs    4 % ▌
        TCP by byte    40 ns  < 1 % ▏
        terminal     21.0 µs   10 % █▏
        remote        136 µs   65 % ███████▊
        total         210 µs  100 %
        ");
    }

    #[test]
    fn at_80_columns_names_are_complete() {
        insta::assert_snapshot!(layers(&ECHO, at(80)), @r"
        interrupt or system call  43.5 µs   21 % ████████
        TCP, fixed                9.10 µs    4 % █▋
        TCP, per byte               40 ns  < 1 % ▏
        terminal                  21.0 µs   10 % ███▉
        remote host and network    136 µs   65 % █████████████████████████▎
        total                      210 µs  100 %
        ");
    }

    #[test]
    fn at_120_columns_bars_are_longer() {
        insta::assert_snapshot!(layers(&ECHO, at(120)), @r"
        interrupt or system call  43.5 µs   21 % ████████████████▎
        TCP, fixed                9.10 µs    4 % ███▍
        TCP, per byte               40 ns  < 1 % ▏
        terminal                  21.0 µs   10 % ███████▉
        remote host and network    136 µs   65 % ███████████████████████████████████████████████████▎
        total                      210 µs  100 %
        ");
    }

    #[test]
    fn the_ascii_style_uses_only_ascii_characters() {
        let text = layers(&ECHO, Style { charset: Charset::Ascii, ..at(60) });
        assert!(text.is_ascii());
        insta::assert_snapshot!(text, @r"
        int/syscall  43.5 us   21 % ######
        TCP fixed    9.10 us    4 % #
        TCP by byte    40 ns  < 1 % #
        terminal     21.0 us   10 % ###
        remote        136 us   65 % ####################
        total         210 us  100 %
        ");
    }

    #[test]
    fn a_color_ends_with_its_bar() {
        let text = layers(&ECHO[..1], Style { color: true, ..at(40) });
        assert!(text.contains("\x1b[90m█"));
        assert!(text.lines().next().unwrap().ends_with("█\x1b[0m"));
    }

    #[test]
    fn a_zero_time_has_no_bar() {
        let none = [LayerTime { layer: Layer::Telnet, ns: 0 }];
        let chart = layers(&none, at(40));
        assert_eq!(chart.lines().next(), Some("Telnet     0 ns      -"));
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            times in proptest::collection::vec(any::<u64>(), 0..10),
            width in 0..300_usize,
            ascii in any::<bool>(),
        ) {
            let charset = if ascii { Charset::Ascii } else { Charset::Unicode };
            let style = Style { charset, ..at(width) };
            let parts: Vec<LayerTime> = Layer::ALL.into_iter().zip(times)
                .map(|(layer, ns)| LayerTime { layer, ns }).collect();
            for line in layers(&parts, style).lines() {
                prop_assert!(line.chars().count() <= style.columns(), "{line:?}");
            }
        }
    }
}
