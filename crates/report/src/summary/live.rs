//! A series of tries as one screen: the last try, the times of the recent tries as a chart, and the
//! parts of their echoes as a table. The caller draws the lines on a terminal.

use super::series::{felt_ns, first_line, recent_line, try_text};
use crate::bar_chart::{Charset, Style, color_code};
use crate::table::Table;
use records::assessment::{Grade, Location, LocationTime};
use records::escape;
use records::format::{UNKNOWN, duration, share};
use records::measures::{Attempt, AttemptOutcome};
use records::statistics;

/// Text of the last line.
const KEY_HELP: &str = "q: quit";
/// Minimum and maximum height of the chart, in lines without its axis.
const CHART_HEIGHT: [usize; 2] = [3, 16];
/// Width of the labels of the vertical axis.
const LABEL_WIDTH: usize = 9;
/// Minimum width for the long names of the places, and for the longest times.
const WIDTH_FOR_LONG_NAMES: usize = 64;

/// A part of a line in one color.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSpan {
    /// Text without control characters.
    pub text: String,
    /// Index of one of the 16 ANSI colors; `None` is the color of the terminal.
    pub color: Option<u8>,
}

/// A line of the screen.
pub type LiveLine = Vec<LiveSpan>;

/// Contents of the screen.
#[derive(Clone, Copy, Debug)]
pub struct LiveSeries<'a> {
    /// The target of the tries.
    pub target: &'a str,
    /// The tries, the latest last.
    pub tries: &'a [Attempt],
    /// Status of the try in progress; may be empty.
    pub status: &'a str,
}

impl LiveSeries<'_> {
    /// Returns the lines of a screen with `height` lines. On a low screen, the chart is omitted
    /// before the table.
    #[must_use]
    pub fn lines(&self, style: Style, height: usize) -> Vec<LiveLine> {
        let width = style.width.max(1);
        let plain = Style { color: false, ..style };
        let clean = |text: &str| first_line(&escape::terminal(style.in_charset(text)), width);
        let mut lines = vec![text_line(clean(self.target), Some(15))];
        let failed = self.tries.iter().filter(|one| one.outcome != AttemptOutcome::Ok).count();
        match self.tries.last() {
            Some(last) => {
                let counts = recent_line(self.tries, Style { width: 0, ..plain });
                let counts = counts.split("  ").next().unwrap_or_default().to_owned();
                lines.push(text_line(first_line(&counts, width), (failed > 0).then_some(9)));
                lines.push(last_try(last, plain, width));
            }
            None => lines.push(text_line(clean(self.status), None)),
        }
        let status = if self.tries.is_empty() { "" } else { self.status };
        let last_line = text_line(clean(format!("{KEY_HELP}  {status}").trim_end()), Some(8));
        let table = self.table(plain, width);
        let free = height.saturating_sub(lines.len() + 1);
        let table_lines = if table.len() < free { table.len() + 1 } else { 0 };
        let chart = self.chart(plain, width, free - table_lines);
        if !chart.is_empty() {
            lines.push(Vec::new());
            lines.extend(chart);
        }
        if table_lines > 0 && !table.is_empty() {
            lines.push(Vec::new());
            lines.extend(table);
        }
        lines.resize(height.saturating_sub(1), Vec::new());
        lines.push(last_line);
        lines
    }

    /// Returns the chart with its axis, one column for each recent try, for at most `room` lines
    /// with the empty line above it.
    fn chart(&self, style: Style, width: usize, room: usize) -> Vec<LiveLine> {
        let [min, max] = CHART_HEIGHT;
        let height = room.saturating_sub(2).min(max);
        let columns = width.saturating_sub(LABEL_WIDTH + 2);
        if height < min || columns == 0 || self.tries.is_empty() {
            return Vec::new();
        }
        let first = self.tries.len().saturating_sub(columns);
        let recent = self.tries.get(first..).unwrap_or(self.tries);
        let longest = recent.iter().filter_map(felt_ns).max().unwrap_or(0).max(1);
        let mut lines = Vec::new();
        for row in (0..height).rev() {
            let label = if row + 1 == height { duration(longest) } else { String::new() };
            let label = style.in_charset(&label);
            let mut line = vec![span(format!("{label:>LABEL_WIDTH$} "), None)];
            for one in recent {
                let (mark, color) = chart_cell(one, longest, [row, height], style.charset);
                match line.last_mut() {
                    Some(last) if last.color == color => last.text.push(mark),
                    _ => line.push(span(mark.to_string(), color)),
                }
            }
            lines.push(line);
        }
        let axis = if style.charset == Charset::Unicode { "─" } else { "-" };
        let zero = format!("{:>LABEL_WIDTH$} {}", "0", axis.repeat(columns));
        lines.push(text_line(zero, Some(8)));
        lines
    }

    /// Returns the parts of the last echo, with the medians and maxima of all tries.
    fn table(&self, style: Style, width: usize) -> Vec<LiveLine> {
        let Some(last) = self.tries.iter().rev().find(|one| !one.parts.is_empty()) else {
            return Vec::new();
        };
        let total_ns = last.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.ns));
        let is_wide = width >= WIDTH_FOR_LONG_NAMES;
        let mut table = Table::new().text("part").number("last").number("share").number("median");
        if is_wide {
            table = table.number("longest");
        }
        for LocationTime { location, ns } in &last.parts {
            let times: Vec<u64> =
                self.tries.iter().filter_map(|one| ns_at(one, *location)).collect();
            let median = statistics::median(&times).map_or_else(|| UNKNOWN.to_owned(), duration);
            let longest = duration(times.iter().copied().max().unwrap_or(*ns));
            let name = if is_wide { location.text() } else { location.short_text() };
            table.row([name.to_owned(), duration(*ns), share(*ns, total_ns), median, longest]);
        }
        let text = style.in_charset(&table.render(width));
        let color = |at: usize| {
            let part = last.parts.get(at.checked_sub(2)?)?;
            Some(color_index(part.location))
        };
        let lines = text.lines().enumerate();
        lines.map(|(at, line)| text_line(first_line(line, width), color(at))).collect()
    }
}

fn span(text: String, color: Option<u8>) -> LiveSpan {
    LiveSpan { text, color }
}

fn text_line(text: String, color: Option<u8>) -> LiveLine {
    vec![span(text, color)]
}

/// Returns the line of the last try, in the color of its grade.
fn last_try(last: &Attempt, style: Style, width: usize) -> LiveLine {
    let (text, grade) = try_text(last, style, width);
    let color = match grade {
        Some(Grade::Ok) => Some(2),
        Some(Grade::Slow) => Some(3),
        Some(Grade::Failed) => Some(1),
        None => None,
    };
    text_line(first_line(&text, width), color)
}

fn ns_at(one: &Attempt, location: Location) -> Option<u64> {
    one.parts.iter().find(|part| part.location == location).map(|part| part.ns)
}

/// Returns the index of the color of a place.
fn color_index(location: Location) -> u8 {
    match color_code(location) {
        code @ 30..=37 => code - 30,
        code => code.saturating_sub(82),
    }
}

/// Returns the character and the color of row `row` of `height` in the column of a try. Each cell has
/// the color of the part at its bottom; this host is at the bottom of the column.
fn chart_cell(
    one: &Attempt,
    longest: u64,
    [row, height]: [usize; 2],
    charset: Charset,
) -> (char, Option<u8>) {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(ns) = felt_ns(one) else {
        let is_mark = row == 0;
        return (if is_mark { 'x' } else { ' ' }, is_mark.then_some(1));
    };
    let wide = |count: usize| u128::try_from(count).unwrap_or(u128::MAX);
    let eighths = u128::from(ns) * wide(height) * 8 / u128::from(longest);
    // A try is visible even if it is much shorter than the longest one.
    let filled = eighths.max(1).saturating_sub(wide(row) * 8).min(8);
    if filled == 0 {
        return (' ', None);
    }
    let at_ns = u64::try_from(u128::from(longest) * wide(row) / wide(height)).unwrap_or(u64::MAX);
    let mut below_ns = 0_u64;
    let part = one.parts.iter().rev().find(|part| {
        below_ns = below_ns.saturating_add(part.ns);
        below_ns > at_ns
    });
    let color = part.map(|part| color_index(part.location));
    let mark = match charset {
        Charset::Unicode => EIGHTHS.get(usize::try_from(filled).unwrap_or(8)).copied(),
        Charset::Ascii => Some(if filled >= 4 { '#' } else { '.' }),
    };
    (mark.unwrap_or('#'), color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(network_ns: u64, host_ns: u64) -> Attempt {
        let part = |location, ns| LocationTime { location, ns };
        Attempt {
            echo_p50_ns: Some(network_ns + host_ns),
            grade: Some(Grade::Ok),
            parts: vec![part(Location::Network, network_ns), part(Location::RemoteHost, host_ns)],
            ..Attempt::new(0, AttemptOutcome::Ok)
        }
    }

    fn text(lines: &[LiveLine]) -> String {
        let line = |line: &LiveLine| line.iter().map(|span| span.text.as_str()).collect::<String>();
        lines.iter().map(|one| format!("{}\n", line(one).trim_end())).collect()
    }

    fn series() -> Vec<Attempt> {
        let failed = Attempt {
            error: Some("192.0.2.1:23 refuses the connection: check the port".to_owned()),
            ..Attempt::new(0, AttemptOutcome::NoConnection)
        };
        let ms = 1_000_000;
        vec![
            tried(20 * ms, 100 * ms),
            tried(20 * ms, 40 * ms),
            failed,
            tried(20 * ms, 10 * ms),
            tried(21 * ms, 60 * ms),
        ]
    }

    #[test]
    fn a_screen_of_80_columns() {
        let tries = series();
        let live = LiveSeries { target: "host", tries: &tries, status: "" };
        let lines = live.lines(Style::default(), 18);
        insta::assert_snapshot!(text(&lines), @r"
        host
        5 tries, 1 failed, echo 60.0 ms
        OK      echo 81.0 ms

           120 ms █
                  █
                  █   ▅
                  █▄  █
                  ██  █
                  ██ ▆█
                  ██x██
                0 ─────────────────────────────────────────────────────────────────────

        part            last  share   median  longest
        -----------  -------  -----  -------  -------
        network      21.0 ms   26 %  20.0 ms  21.0 ms
        remote host  60.0 ms   74 %  40.0 ms   100 ms
        q: quit
        ");
    }

    #[test]
    fn a_screen_of_40_columns_in_ascii() {
        let tries = series();
        let style = Style { width: 40, charset: Charset::Ascii, color: false };
        let live = LiveSeries { target: "host", tries: &tries, status: "" };
        let lines = live.lines(style, 14);
        insta::assert_snapshot!(text(&lines), @r"
        host
        5 tries, 1 failed, echo 60.0 ms
        OK      echo 81.0 ms

           120 ms #
                  ##  #
                  ##x##
                0 -----------------------------

        part        last  share   median
        -------  -------  -----  -------
        network  21.0 ms   26 %  20.0 ms
        remote   60.0 ms   74 %  40.0 ms
        q: quit
        ");
        assert!(text(&lines).is_ascii());
    }

    #[test]
    fn before_the_first_try_ends_the_status_is_displayed() {
        let live = LiveSeries { target: "host", tries: &[], status: "echo 20 of 200" };
        let lines = live.lines(Style::default(), 5);
        assert_eq!(text(&lines), "host\necho 20 of 200\n\n\nq: quit\n");
    }

    #[test]
    fn each_screen_has_the_size_of_the_terminal() {
        let tries = series();
        let live = LiveSeries { target: "a target", tries: &tries, status: "connecting" };
        for width in [1, 5, 20, 40, 80, 120] {
            for height in [1, 2, 5, 10, 24, 60] {
                let lines = live.lines(Style { width, ..Style::default() }, height);
                assert!(lines.len() <= height.max(4), "{width} x {height}: {}", lines.len());
                let is_within = |line: &LiveLine| {
                    let count: usize = line.iter().map(|one| one.text.chars().count()).sum();
                    count <= width.max(40)
                };
                assert!(lines.iter().all(is_within), "{width} x {height}");
            }
        }
    }

    #[test]
    fn a_column_has_the_colors_of_its_parts_with_the_network_at_the_top() {
        let one = tried(50, 50);
        let color = |row| chart_cell(&one, 100, [row, 4], Charset::Unicode);
        let [host, network] = [Location::RemoteHost, Location::Network].map(color_index);
        assert_eq!(
            [0, 1, 2, 3].map(color),
            [('█', Some(host)), ('█', Some(host)), ('█', Some(network)), ('█', Some(network)),]
        );
    }
}
