//! The meters as text: a row for each account, and the totals per transaction below the rows.

use carrier::meters::{Figures, MeterReport, Primitive, Readings, RecentWindow};
use records::format::{UNKNOWN, count, duration, duration_or_unknown};
use report::table::Table;

/// Minimum width of the table, in characters, for a column with the mean.
const MEAN_MIN_WIDTH: usize = 50;
/// Minimum width of the table, in characters, for all columns. If the table has rates, this width
/// has room for all columns except the median.
const FULL_MIN_WIDTH: usize = 78;
/// Minimum width of the table, in characters, for all columns of a table with rates.
const FULL_WITH_RATES_MIN_WIDTH: usize = 90;

/// A column of the table of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    Visits,
    PerSecond,
    Mean,
    P50,
    P99,
    Max,
    Share,
}

/// Returns the columns of a table of `width` characters. With an earlier reading (`has_before`) a
/// wide table has a column with rates.
pub(super) fn columns(width: usize, has_before: bool) -> &'static [Column] {
    use Column::{Max, Mean, Name, P50, P99, PerSecond, Share, Visits};
    match (width, has_before) {
        (FULL_WITH_RATES_MIN_WIDTH.., true) => {
            &[Name, Visits, PerSecond, Mean, P50, P99, Max, Share]
        }
        (FULL_MIN_WIDTH.., true) => &[Name, Visits, PerSecond, Mean, P99, Max, Share],
        (FULL_MIN_WIDTH.., false) => &[Name, Visits, Mean, P50, P99, Max, Share],
        (MEAN_MIN_WIDTH.., _) => &[Name, Visits, Mean, P99, Share],
        _ => &[Name, Visits, P99, Share],
    }
}

impl Column {
    pub(super) fn header(self) -> &'static str {
        match self {
            Self::Name => "primitive",
            Self::Visits => "count",
            Self::PerSecond => "per s",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Share => "busy",
        }
    }

    pub(super) fn width(self) -> u16 {
        match self {
            Self::Name => 13,
            Self::Visits => 11,
            Self::PerSecond | Self::Mean | Self::P50 | Self::P99 | Self::Max => 8,
            Self::Share => 6,
        }
    }

    pub(super) fn cell(self, primitive: &Primitive, before: Option<&EarlierReading<'_>>) -> String {
        match self {
            Self::Name => primitive.name.clone(),
            Self::Visits => count(primitive.visits),
            Self::PerSecond => before.and_then(|before| before.rate(primitive)).unwrap_or_default(),
            Self::Mean => duration_or_unknown(primitive.mean_ns),
            Self::P50 => duration_or_unknown(primitive.p50_ns),
            Self::P99 => duration_or_unknown(primitive.p99_ns),
            Self::Max => duration_or_unknown(primitive.max_ns),
            Self::Share => primitive.share.map_or_else(|| UNKNOWN.to_owned(), percent),
        }
    }
}

/// An earlier reading, and the time since then.
pub(super) struct EarlierReading<'a> {
    pub(super) figures: &'a Figures,
    pub(super) passed_ns: u64,
}

impl EarlierReading<'_> {
    /// Returns the visits of the account since the earlier reading.
    fn visits_since(&self, now: &Primitive) -> u64 {
        let earlier_primitive =
            self.figures.primitives.iter().find(|primitive| primitive.name == now.name);
        now.visits.saturating_sub(earlier_primitive.map_or(0, |primitive| primitive.visits))
    }

    /// Returns whether the account was visited since the earlier reading.
    pub(super) fn has_moved(&self, now: &Primitive) -> bool {
        self.visits_since(now) > 0
    }

    /// Returns the visits of the account per second since the earlier reading.
    fn rate(&self, now: &Primitive) -> Option<String> {
        per_second(self.visits_since(now), Some(self.passed_ns)).map(count)
    }
}

/// Returns `value` per second in a time of `passed_ns`.
pub(super) fn per_second(value: u64, passed_ns: Option<u64>) -> Option<u64> {
    let per_second = u128::from(value) * 1_000_000_000;
    let per_second = per_second.checked_div(u128::from(passed_ns?))?;
    Some(u64::try_from(per_second).unwrap_or(u64::MAX))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a complete report as text of at most `width` columns.
pub(super) fn text(report: &MeterReport, width: usize) -> String {
    let visible_columns = columns(width, false);
    let mut table = Table::new();
    for column in visible_columns {
        table = match column {
            Column::Name => table.text(column.header()),
            _ => table.number(column.header()),
        };
    }
    for primitive in &report.all.primitives {
        table.row(visible_columns.iter().map(|column| column.cell(primitive, None)));
    }
    let mut out = String::new();
    for line in process_lines(report) {
        push_wrapped(&mut out, &line, width);
    }
    out.push_str(&table.render(width));
    for line in total_lines(report) {
        push_wrapped(&mut out, &line, width);
    }
    out
}

/// Returns the description of the process and its meters.
pub(super) fn process_lines(report: &MeterReport) -> Vec<String> {
    let MeterReport { command, pid, uptime_ns, .. } = report;
    let groups = report.groups.iter().map(|group| match group.ended {
        0 => format!("{} {}", group.name, group.live),
        ended => format!("{} {} ({ended} ended)", group.name, group.live),
    });
    let groups: Vec<_> = groups.collect();
    let head = format!("plumb {command}, process {pid}, for {}.", duration(*uptime_ns));
    vec![
        head,
        format!("Meters: {}.", if groups.is_empty() { "none".into() } else { groups.join(", ") }),
    ]
}

/// Returns the totals, and the averages per transaction.
pub(super) fn total_lines(report: &MeterReport) -> Vec<String> {
    let all = &report.all;
    let mut lines = vec![format!(
        "Metered work {}; CPU time of the process {}.",
        duration(all.busy_ns),
        duration(report.cpu_ns)
    )];
    lines.push(match all.transactions {
        0 => format!("{} wakeups, no transaction yet.", count(all.wakeups)),
        transactions => format!(
            "{} transactions: {} wakeups and {} each.",
            count(transactions),
            ratio(all.wakeups, transactions),
            duration(all.busy_ns / transactions)
        ),
    });
    lines.extend(all.last_hundred.as_ref().map(ready_message));
    lines.push("Shares are of busy clock time, not of CPU time.".to_owned());
    lines.extend(report.readings.as_ref().and_then(cost_of_readings));
    lines
}

/// Returns the average cost of a reading; `None` if there was no earlier reading.
fn cost_of_readings(readings: &Readings) -> Option<String> {
    let mean_ns = readings.cpu_ns.checked_div(readings.count)?;
    Some(format!(
        "{} readings so far: {} of CPU time each, in a separate thread.",
        count(readings.count),
        duration(mean_ns)
    ))
}

/// Returns the figures of the last hundred transactions, like the ready message of Multics after
/// each command.
fn ready_message(recent: &RecentWindow) -> String {
    let RecentWindow { transactions, wakeups, busy_ns, total_ns } = recent;
    format!(
        "The last {} transactions: {} wakeups and {} each, within {}.",
        count(*transactions),
        ratio(*wakeups, *transactions),
        duration(busy_ns.checked_div(*transactions).unwrap_or(0)),
        duration(*total_ns)
    )
}

fn ratio(part: u64, of: u64) -> String {
    format!("{:.2}", part as f64 / of.max(1) as f64)
}

/// Appends a sentence wrapped to lines of at most `width` columns.
fn push_wrapped(out: &mut String, sentence: &str, width: usize) {
    let mut column = 0;
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

/// A report of a server with two sessions, one of which has ended, for tests.
#[cfg(test)]
pub(super) fn example() -> MeterReport {
    use carrier::meters::Group;
    let primitive = |name: &str, visits, ns, p99: u64, share| Primitive {
        name: name.to_owned(),
        visits,
        ns,
        mean_ns: Some(ns / visits),
        p50_ns: Some(ns / visits),
        p99_ns: Some(p99),
        max_ns: Some(3 * p99),
        share,
    };
    let all = Figures {
        total_ns: 250_000_000_000,
        busy_ns: 90_000_000,
        primitives: vec![
            primitive("wait", 2_469, 249_910_000_000, 420_000_000, None),
            primitive("system calls", 4_938, 74_000_000, 41_000, Some(0.822)),
            primitive("Telnet", 2_469, 1_500_000, 1_900, Some(0.017)),
            primitive("application", 7_407, 14_500_000, 9_000, Some(0.161)),
        ],
        wakeups: 2_469,
        transactions: 1_234,
        last_hundred: Some(RecentWindow {
            transactions: 100,
            wakeups: 201,
            busy_ns: 7_200_000,
            total_ns: 12_300_000_000,
        }),
        ..Figures::default()
    };
    MeterReport {
        format: MeterReport::FORMAT,
        version: "0.1.0".to_owned(),
        pid: 4711,
        command: "serve".to_owned(),
        uptime_ns: 250_000_000_000,
        cpu_ns: 104_000_000,
        readings: Some(Readings { count: 3, cpu_ns: 204_000 }),
        groups: vec![Group {
            name: "sessions".to_owned(),
            live: 1,
            ended: 1,
            figures: all.clone(),
        }],
        all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_on_a_wide_terminal() {
        insta::assert_snapshot!(text(&example(), 80));
    }

    #[test]
    fn a_report_in_forty_columns() {
        let text = text(&example(), 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn from_fifty_columns_on_each_primitive_has_count_mean_p99_and_share() {
        let text = text(&example(), 50);
        let head = text.lines().find(|line| line.starts_with("primitive")).unwrap();
        let words: Vec<_> = head.split_whitespace().collect();
        assert_eq!(words, ["primitive", "count", "mean", "p99", "busy"]);
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
    }

    #[test]
    fn a_plumb_without_meters_and_transactions_is_reported_as_such() {
        let report = MeterReport { all: Figures::default(), groups: Vec::new(), ..example() };
        let text = text(&report, 80);
        assert!(text.contains("Meters: none.\n"), "{text}");
        assert!(text.contains("0 wakeups, no transaction yet.\n"), "{text}");
    }

    #[test]
    fn the_first_reading_reports_no_cost_of_earlier_ones() {
        let first_report = MeterReport { readings: Some(Readings::default()), ..example() };
        assert!(!text(&first_report, 80).contains("readings so far"));
        let third_reading_text =
            "3 readings so far: 68.0 µs of CPU time each, in a separate thread.\n";
        assert!(text(&example(), 80).ends_with(third_reading_text), "{}", text(&example(), 80));
    }

    #[test]
    fn a_rate_covers_the_time_between_two_readings() {
        let before = example();
        let mut now = example();
        now.all.primitives[1].visits += 50;
        let before = EarlierReading { figures: &before.all, passed_ns: 500_000_000 };
        let rate = Column::PerSecond.cell(&now.all.primitives[1], Some(&before));
        assert_eq!(rate, "100");
    }
}
