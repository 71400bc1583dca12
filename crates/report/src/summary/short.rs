//! The short form of a measurement: at most eight lines with the grade and the time that a user
//! feels, a bar that shows where this time is spent, the remedy, and a table.

use crate::bar_chart::{Charset, Style};
use crate::table::wrap;
use records::assessment::{Assessment, Delay, Grade, Location};
use records::format::{UNKNOWN, count, duration, rate, share};
use records::measurement::{Measurement, NamedCause, PromptKind};
use records::sizes::Direction;
use records::verdict::{CauseKind, Operation};
use records::{escape, measures::AttemptOutcome};

/// Maximum number of lines.
const LINES_MAX: usize = 8;
/// Maximum number of rows of the table.
const ROWS_MAX: usize = 5;
/// Minimum width for times in the legend of the bar, and for the details of the table.
const WIDTH_FOR_DETAILS: usize = 64;
/// Minimum length of a bar that shares its line with the legend.
const BAR_MIN: usize = 12;
/// Minimum number of echoes for a 99th percentile that is not their maximum.
const SAMPLES_FOR_P99: u64 = 100;

/// A row of the table.
struct Row {
    name: &'static str,
    value: String,
    details: Vec<String>,
}

impl Row {
    fn new(name: &'static str, value: String) -> Self {
        Self { name, value, details: Vec::new() }
    }

    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }
}

/// Returns `measured` in at most eight lines for a terminal.
#[must_use]
pub fn short(measured: &Measurement, style: Style) -> String {
    let width = style.columns();
    let assessment = Assessment::of(measured);
    let plain = |text: &str| wrap(&escape::terminal(style.in_charset(text)), width);
    let mut lines = plain(&headline(measured, &assessment, width));
    if let Some(first) = lines.first_mut() {
        *first = painted_grade(first, assessment.grade, style);
    }
    let delay = assessment.delay.as_ref().filter(|delay| !delay.parts.is_empty());
    lines.extend(delay.iter().flat_map(|delay| bar(delay, style)));
    lines.extend(assessment.remedy.iter().flat_map(|text| plain(&format!("Remedy: {text}"))));
    let rows = rows(measured);
    let row_count = LINES_MAX.saturating_sub(lines.len()).min(ROWS_MAX);
    lines.extend(table(rows.get(..row_count).unwrap_or(&rows), style));
    lines.truncate(LINES_MAX);
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns `line` with the grade at its beginning in bold and in the color of the grade.
pub(crate) fn painted_grade(line: &str, grade: Grade, style: Style) -> String {
    let text = grade.text();
    let code = match grade {
        Grade::Ok => 32,
        Grade::Slow => 33,
        Grade::Failed => 31,
    };
    match line.strip_prefix(text) {
        Some(rest) if style.color => format!("\x1b[1;{code}m{text}\x1b[0m{rest}"),
        _ => line.to_owned(),
    }
}

/// Returns the grade and the time that a user notices, as one line if it fits into `width`.
pub(super) fn headline(measured: &Measurement, assessment: &Assessment, width: usize) -> String {
    let grade = assessment.grade.text();
    if let Some(reason) = &measured.failure {
        return format!("{grade}: {reason}");
    }
    let text = match measured.causes.first() {
        Some(cause) => {
            let operation = match Operation::from_name(&cause.operation) {
                Some(operation) => operation.text(),
                None => cause.operation.as_str(),
            };
            let kind = match CauseKind::from_name(&cause.name) {
                Some(kind) => kind.text(),
                None => cause.name.as_str(),
            };
            format!(
                "{operation} takes {}, {} due to {kind}",
                duration(cause.operation_ns),
                share(cause.cost_ns, cause.operation_ns)
            )
        }
        None => felt_times(measured, width.saturating_sub(grade.len() + 2)),
    };
    // With the target, a pasted report is complete.
    let with_target = format!("{grade}: {text}, {}", measured.target);
    let fits = with_target.chars().count() <= width;
    if fits { with_target } else { format!("{grade}: {text}") }
}

/// Returns the times or rates that a user notices, as many as fit into `width` columns.
fn felt_times(measured: &Measurement, width: usize) -> String {
    let mut parts = Vec::new();
    if let Some(echo) = &measured.echo {
        parts.push(format!("echo {}", duration(echo.p50_ns)));
        let (name, ns) = match echo.samples {
            SAMPLES_FOR_P99.. => ("p99", echo.p99_ns),
            _ => ("max", echo.max_ns),
        };
        parts.push(format!("{name} {}", duration(ns)));
    }
    if let Some(screenful) = &measured.screenful {
        parts.push(format!("screenful {}", duration(screenful.total_ns())));
    }
    for direction in [Direction::Received, Direction::Sent] {
        let rate_bps = fastest_bps(measured, direction);
        parts.extend(rate_bps.map(|bps| format!("{} {}", rate(bps), direction.text())));
    }
    if let Some(running) = &measured.running {
        parts.push(running.sentence().trim_end_matches('.').to_owned());
    }
    let mut parts = parts.into_iter();
    let mut text = parts.next().unwrap_or_else(|| "nothing was measured".to_owned());
    for part in parts {
        if text.chars().count() + part.chars().count() + 2 > width {
            break;
        }
        text += &format!(", {part}");
    }
    text
}

/// Returns the rate of the fastest size of a direction, bit/s.
fn fastest_bps(measured: &Measurement, direction: Direction) -> Option<u64> {
    let sizes = measured.transfers.as_ref()?.sizes(direction);
    sizes.iter().map(|size| size.rate_bps()).max()
}

/// Returns the bar of a delay, scaled to its total, with its legend: on one line if they fit.
fn bar(delay: &Delay, style: Style) -> Vec<String> {
    let width = style.columns();
    let is_wide = width >= WIDTH_FOR_DETAILS;
    let entry = |(location, ns): &(Location, u64)| match is_wide {
        true => format!("{} {}", location.text(), style.in_charset(&duration(*ns))),
        false => format!("{} {}", location.short_text(), share(*ns, delay.total_ns)),
    };
    let mark = |location: Location| mark(location, style.charset);
    let gap = if is_wide { "  " } else { " " };
    let plain: Vec<String> =
        delay.parts.iter().map(|part| format!("{} {}", mark(part.0), entry(part))).collect();
    let legend_width = plain.join(gap).chars().count();
    let painted = delay.parts.iter().map(|part| {
        let mark = mark(part.0).to_string();
        format!("{} {}", paint(part.0, &mark, style.color), entry(part))
    });
    let legend = painted.collect::<Vec<_>>().join(gap);
    let bar_width = width.saturating_sub(legend_width + gap.len());
    if bar_width >= BAR_MIN {
        return vec![format!("{}{gap}{legend}", stacked(delay, bar_width, style))];
    }
    let full_bar = stacked(delay, width, style);
    if legend_width <= width { vec![full_bar, legend] } else { vec![full_bar] }
}

/// Returns a bar of exactly `width` characters in which each part has at least one.
fn stacked(delay: &Delay, width: usize, style: Style) -> String {
    let total = u128::from(delay.total_ns.max(1));
    let part_count = delay.parts.len();
    let scaled = |ns: u64| {
        let cells = u128::from(ns) * u128::try_from(width - part_count).unwrap_or(0) / total;
        usize::try_from(cells).unwrap_or(0) + 1
    };
    let mut cells: Vec<usize> = delay.parts.iter().map(|(_, ns)| scaled(*ns)).collect();
    let missing = width.saturating_sub(cells.iter().sum());
    if let Some(largest) = cells.iter_mut().max() {
        *largest += missing;
    }
    let parts = delay.parts.iter().zip(cells).map(|((location, _), count)| {
        let text = mark(*location, style.charset).to_string().repeat(count);
        paint(*location, &text, style.color)
    });
    parts.collect()
}

const fn mark(location: Location, charset: Charset) -> char {
    match (charset, location) {
        (Charset::Unicode, Location::Network) => '▒',
        (Charset::Unicode, Location::Line) => '▓',
        (Charset::Unicode, Location::RemoteHost | Location::RemoteHostAndNetwork) => '█',
        (Charset::Unicode, Location::ThisHost) => '░',
        (Charset::Unicode, Location::Other) => '·',
        (Charset::Ascii, Location::Network) => '-',
        (Charset::Ascii, Location::Line) => '~',
        (Charset::Ascii, Location::RemoteHost | Location::RemoteHostAndNetwork) => '#',
        (Charset::Ascii, Location::ThisHost) => '=',
        (Charset::Ascii, Location::Other) => '.',
    }
}

fn paint(location: Location, text: &str, color: bool) -> String {
    let code = match location {
        Location::Network => 34,
        Location::Line => 35,
        Location::RemoteHost | Location::RemoteHostAndNetwork => 33,
        Location::ThisHost => 36,
        Location::Other => 90,
    };
    if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Returns the rows that have a value, the most important first.
fn rows(measured: &Measurement) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    rows.extend(availability(measured));
    rows.extend(login(measured));
    rows.extend(echo(measured));
    rows.extend(screenful(measured));
    rows.extend(echo_during_output(measured));
    rows.extend(transfers(measured));
    rows.extend(round_trip(measured));
    rows.extend(recording(measured));
    rows.extend(process(measured));
    rows
}

fn availability(measured: &Measurement) -> Option<Row> {
    let tries = &measured.tries;
    let good = tries.iter().filter(|one| one.outcome == AttemptOutcome::Ok).count();
    let [good, all] = [good, tries.len()].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    let row = Row::new("available", share(good, all));
    (all > 1).then(|| row.detail(format!("{} of {} tries failed", all - good, all)))
}

fn login(measured: &Measurement) -> Option<Row> {
    let phases = &measured.phases;
    let login_time = phases.login_ns.map(|ns| ("login", ns));
    let prompt = match phases.prompt {
        Some(PromptKind::Silence) => "first output",
        _ => "prompt",
    };
    let steps = [
        phases.resolve_ns.map(|ns| ("name", ns)),
        phases.connect_ns.map(|ns| ("connect", ns)),
        phases.tls_ns.map(|ns| ("TLS", ns)),
        phases.negotiation_ns.map(|ns| ("negotiation", ns)),
        phases.login_prompt_ns.map(|ns| (prompt, ns)),
        login_time,
    ];
    let mut steps: Vec<(&str, u64)> = steps.into_iter().flatten().collect();
    let total_ns = steps.iter().fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns));
    steps.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let name = match (login_time, measured.transfers.is_some()) {
        (Some(_), _) => "login",
        (None, true) => "connect",
        (None, false) => "until prompt",
    };
    let row = Row::new(name, duration(total_ns));
    let details = steps.iter().map(|(step, ns)| format!("{step} {}", duration(*ns)));
    (!steps.is_empty()).then(|| details.fold(row, Row::detail))
}

fn echo(measured: &Measurement) -> Option<Row> {
    let echo = measured.echo.as_ref()?;
    let row = Row::new("echo", duration(echo.p50_ns))
        .detail(format!("p90 {}", duration(echo.p90_ns)))
        .detail(format!("p99 {}", duration(echo.p99_ns)))
        .detail(format!("max {}", duration(echo.max_ns)));
    Some(row.detail(format!("{} keys", count(echo.samples))))
}

fn screenful(measured: &Measurement) -> Option<Row> {
    let screenful = measured.screenful.as_ref()?;
    let mut row = Row::new("screenful", duration(screenful.total_ns()));
    let is_nagle = |cause: &NamedCause| cause.name == CauseKind::Nagle.name();
    if measured.causes.iter().any(is_nagle) {
        // The cause was observed in another screenful, with delayed acknowledgments.
        row = row.detail("with immediate ACKs");
    }
    let first = screenful.first_byte_wait_ns;
    let row = match first {
        Some(ns) => row.detail(format!("first byte {}", duration(ns))),
        None => row,
    };
    Some(row.detail(format!("{} characters", count(screenful.cells))))
}

fn echo_during_output(measured: &Measurement) -> Option<Row> {
    let echo = measured.echo_during_output?;
    let row = Row::new("during output", duration(echo.p50_ns));
    let row = row.detail(format!("max {}", duration(echo.max_ns)));
    Some(row.detail(format!("{} keys typed during a long output", count(echo.samples))))
}

fn transfers(measured: &Measurement) -> Vec<Row> {
    let Some(transfers) = &measured.transfers else { return Vec::new() };
    let mut rows = Vec::new();
    for direction in [Direction::Received, Direction::Sent] {
        let sizes = transfers.sizes(direction);
        let Some(largest) = sizes.last() else { continue };
        let time = duration(largest.total_ns);
        let row = Row::new(direction.text(), rate(largest.rate_bps()));
        rows.push(row.detail(format!("{} bytes in {time}", count(largest.bytes))));
        if let Some(model) = transfers.model_of(direction) {
            let row = Row::new("time per file", duration(model.fixed_ns));
            let detail = format!("{}, whatever its size", direction.text());
            rows.push(row.detail(detail));
        }
    }
    rows
}

fn round_trip(measured: &Measurement) -> Option<Row> {
    let name = "TCP RTT";
    let has_echo = measured.echo.is_some();
    if measured.via == "exec" && measured.tcp.is_none() && has_echo {
        let row = Row::new(name, UNKNOWN.to_owned());
        return Some(row.detail("unavailable: a pseudo-terminal has no TCP counters"));
    }
    let tcp = measured.tcp.as_ref()?;
    let row = Row::new(name, duration(tcp.rtt_ns?));
    Some(match (tcp.retransmissions, tcp.segments_out) {
        (Some(lost), Some(sent)) => {
            row.detail(format!("{} of {} segments retransmitted", count(lost), count(sent)))
        }
        _ => row,
    })
}

fn recording(measured: &Measurement) -> Option<Row> {
    let recording = measured.recording.as_ref()?;
    let row = Row::new("recorded", duration(recording.duration_ns));
    let row = match recording.gaps_ns.first() {
        Some(gap_ns) => row.detail(format!("longest gap {}", duration(*gap_ns))),
        None => row,
    };
    Some(row.detail(format!("{} keys", count(recording.keys))))
}

fn process(measured: &Measurement) -> Option<Row> {
    let running = measured.running.as_ref()?;
    let row = Row::new("CPU time", duration(running.cpu_ns));
    let parts = running.primitives.iter().filter(|part| part.ns > 0).take(3);
    let parts = parts.map(|part| format!("{} {}", part.name, share(part.ns, running.busy_ns)));
    Some(parts.fold(row, Row::detail))
}

/// Returns the rows in columns. Details that do not fit are omitted from the end.
fn table(rows: &[Row], style: Style) -> Vec<String> {
    let width = style.columns();
    let clean = |text: &str| escape::terminal(style.in_charset(text));
    let name_width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let values: Vec<String> = rows.iter().map(|row| clean(&row.value)).collect();
    let value_width = values.iter().map(|value| value.chars().count()).max().unwrap_or(0);
    let lines = rows.iter().zip(&values).map(|(row, value)| {
        let mut line = format!("{:<name_width$}  {value:>value_width$}", row.name);
        for (at, detail) in row.details.iter().enumerate() {
            let gap = if at == 0 { "  " } else { ", " };
            let detail = clean(detail);
            if line.chars().count() + gap.len() + detail.chars().count() > width {
                break;
            }
            line.push_str(gap);
            line.push_str(&detail);
        }
        line
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOGIN: &str = include_str!("../../../records/samples/measurement-4.json");
    const OLD: &str = include_str!("../../../records/samples/measurement-1.json");

    fn of(sample: &str) -> Measurement {
        Measurement::from_json(sample).unwrap()
    }

    /// Returns a login without transfers.
    fn login() -> Measurement {
        Measurement { transfers: None, tries: Vec::new(), ..of(LOGIN) }
    }

    fn at(width: usize) -> Style {
        Style { width, ..Style::default() }
    }

    #[test]
    fn a_login_at_40_columns() {
        insta::assert_snapshot!(short(&login(), at(40)), @r"
        OK: echo 210 µs, max 911 µs
        ▒▒▒▒▒▒▒▒▒▒▒███████████████████████████░░
        ▒ network 28 % █ remote 68 % ░ here 5 %
        until prompt  7.00 ms  prompt 5.21 ms
        echo           210 µs  p90 268 µs
        screenful     1.41 ms  1,920 characters
        TCP RTT       58.0 µs
        ");
    }

    #[test]
    fn a_login_at_80_columns() {
        insta::assert_snapshot!(short(&login(), at(80)), @r"
        OK: echo 210 µs, max 911 µs, screenful 1.41 ms, telnet://host.example
        ▒▒▒▒▒████████████░  ▒ network 58.0 µs  █ remote host 143 µs  ░ this host 9.50 µs
        until prompt  7.00 ms  prompt 5.21 ms, negotiation 1.32 ms, name 412 µs
        echo           210 µs  p90 268 µs, p99 402 µs, max 911 µs, 20 keys
        screenful     1.41 ms  1,920 characters
        TCP RTT       58.0 µs  0 of 209 segments retransmitted
        ");
    }

    #[test]
    fn a_login_at_120_columns() {
        insta::assert_snapshot!(short(&login(), at(120)), @r"
        OK: echo 210 µs, max 911 µs, screenful 1.41 ms, telnet://host.example
        ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒███████████████████████████████████████░░░  ▒ network 58.0 µs  █ remote host 143 µs  ░ this host 9.50 µs
        until prompt  7.00 ms  prompt 5.21 ms, negotiation 1.32 ms, name 412 µs, connect 61.0 µs
        echo           210 µs  p90 268 µs, p99 402 µs, max 911 µs, 20 keys
        screenful     1.41 ms  1,920 characters
        TCP RTT       58.0 µs  0 of 209 segments retransmitted
        ");
    }

    #[test]
    fn a_slow_login_names_the_cause_and_the_remedy() {
        let cause = NamedCause {
            name: "Nagle".to_owned(),
            cost_ns: 44_800_000,
            operation: "a screenful".to_owned(),
            operation_ns: 46_500_000,
            gain_ns: 44_800_000,
            sentence: "Nagle's algorithm costs 44.8 ms: it waits. Set TCP_NODELAY there.".into(),
        };
        let record = Measurement { causes: vec![cause], ..login() };
        insta::assert_snapshot!(short(&record, at(80)), @r"
        SLOW: a screenful takes 46.5 ms, 96 % due to Nagle's algorithm
        ██████████████████████████████████████··  █ remote host 44.8 ms  · other 1.70 ms
        Remedy: Set TCP_NODELAY there.
        until prompt  7.00 ms  prompt 5.21 ms, negotiation 1.32 ms, name 412 µs
        echo           210 µs  p90 268 µs, p99 402 µs, max 911 µs, 20 keys
        screenful     1.41 ms  with immediate ACKs, 1,920 characters
        TCP RTT       58.0 µs  0 of 209 segments retransmitted
        ");
    }

    #[test]
    fn a_failure_is_the_first_line() {
        let failed = Measurement { failure: Some("login refused".to_owned()), ..of(LOGIN) };
        let text = short(&failed, Style { color: true, ..at(80) });
        assert!(text.starts_with("\x1b[1;31mFAILED\x1b[0m: login refused\n"), "{text}");
    }

    #[test]
    fn a_pseudo_terminal_has_no_round_trip_time() {
        let via = "exec".to_owned();
        let record = Measurement { via, tcp: None, ..login() };
        let text = short(&record, at(80));
        assert!(text.contains("unavailable: a pseudo-terminal has no TCP counters"), "{text}");
    }

    proptest! {
        #[test]
        fn at_most_eight_lines_fit_the_terminal(
            sample in prop::sample::select(vec![LOGIN, OLD]),
            width in 0..300_usize,
            ascii in any::<bool>(),
            failure in proptest::option::of("[a-z ]{0,400}"),
        ) {
            let charset = if ascii { Charset::Ascii } else { Charset::Unicode };
            let style = Style { charset, ..at(width) };
            let text = short(&Measurement { failure, ..of(sample) }, style);
            prop_assert!(text.lines().count() <= LINES_MAX, "{text}");
            for line in text.lines() {
                prop_assert!(line.chars().count() <= style.columns(), "{line:?}");
            }
            prop_assert!(!ascii || text.is_ascii(), "{text}");
        }
    }
}
