//! The short form of a measurement: at most eight lines with the grade and the time that a user
//! feels, a bar that shows where this time is spent, the remedy, and a table.

use crate::bar_chart::{Charset, Style, color_code};
use crate::table::wrap;
use records::assessment::{Assessment, Delay, Grade, Location, LocationTime, SlowEcho};
use records::format::{UNKNOWN, byte_rate, count, counted, duration, share, size};
use records::measurement::{Measurement, NamedCause, PromptKind};
use records::sizes::Direction;
use records::verdict::{CauseKind, Operation};
use records::{escape, measures::AttemptOutcome};

/// Maximum number of lines on a terminal of at least [`WIDTH_FOR_LINES_MAX`] columns.
const LINES_MAX: usize = 8;
/// Width from which on the number of lines is limited. A narrower terminal has whole sentences and
/// rows, in more lines.
const WIDTH_FOR_LINES_MAX: usize = 80;
/// Maximum number of rows of the table.
const ROWS_MAX: usize = 5;
/// Minimum number of rows of the table beside the remedy of a slow echo.
const ROWS_MIN: usize = 2;
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

/// Returns `measured` in at most eight lines for a terminal; in more lines if it has less than 80
/// columns.
#[must_use]
pub fn short(measured: &Measurement, style: Style) -> String {
    let width = style.columns();
    let lines_max = if width < WIDTH_FOR_LINES_MAX { usize::MAX } else { LINES_MAX };
    let assessment = Assessment::of(measured);
    let plain = |text: &str| wrap(&escape::terminal(style.in_charset(text)), width);
    let mut lines = plain(&headline(measured, &assessment, width));
    if let Some(first) = lines.first_mut() {
        *first = painted_grade(first, assessment.grade, style);
    }
    let delay = assessment.delay.as_ref().filter(|delay| !delay.parts.is_empty());
    lines.extend(delay.iter().flat_map(|delay| bar(delay, style)));
    lines.extend(assessment.remedy.iter().flat_map(|text| plain(&format!("Remedy: {text}"))));
    if let Some([place, remedy]) = assessment.slow_echo.as_ref().map(slow_echo) {
        // A remedy that leaves no room for the table is omitted.
        let whole = plain(&(place.clone() + &remedy));
        let fits = lines.len() + whole.len() + ROWS_MIN <= lines_max;
        lines.extend(if fits { whole } else { plain(&place) });
    }
    let rows = rows(measured);
    let row_count = lines_max.saturating_sub(lines.len()).min(ROWS_MAX);
    lines.extend(table(rows.get(..row_count).unwrap_or(&rows), style));
    lines.truncate(lines_max);
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns the share of the place where most of a slow echo is spent, and the remedy.
pub(super) fn slow_echo(echo: &SlowEcho) -> [String; 2] {
    let SlowEcho { total_ns, location, ns, remedy } = echo;
    let place = match location {
        Location::Network => "in the network",
        Location::Line => "on the line",
        Location::RemoteHost => "on the remote host",
        Location::RemoteHostAndNetwork => "on the remote host and in the network",
        Location::ThisHost => "on this host",
        Location::Other => "without a known place",
    };
    let share = share(*ns, *total_ns);
    [format!("Echo: {share} of {} {place}.", duration(*total_ns)), format!(" {remedy}")]
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
        let grade = if is_interrupted_early(measured) { INTERRUPTED } else { grade };
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

/// Grade of a measurement that an interrupt ended before its first result.
const INTERRUPTED: &str = "INTERRUPTED";

/// Returns whether an interrupt ended a single measurement before its first result.
fn is_interrupted_early(measured: &Measurement) -> bool {
    let has_result = measured.echo.is_some()
        || measured.screenful.is_some()
        || measured.transfers.is_some()
        || measured.running.is_some();
    measured.is_interrupted && measured.tries.len() <= 1 && !has_result
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
        parts.extend(rate_bps.map(|bps| format!("{} {}", byte_rate(bps), direction.text())));
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
    let entry = |LocationTime { location, ns }: &LocationTime| match is_wide {
        true => format!("{} {}", location.text(), style.in_charset(&duration(*ns))),
        false => format!("{} {}", location.short_text(), share(*ns, delay.total_ns)),
    };
    let mark = |location: Location| mark(location, style.charset);
    let gap = if is_wide { "  " } else { " " };
    let width_of = |parts: &[&LocationTime]| {
        let texts = parts.iter().map(|part| format!("{} {}", mark(part.location), entry(part)));
        texts.collect::<Vec<_>>().join(gap).chars().count()
    };
    let mut named: Vec<&LocationTime> = delay.parts.iter().collect();
    if width_of(&named) > width {
        // The legend of a narrow terminal has only the parts that the bar shows.
        named.retain(|part| is_visible(part, delay));
    }
    let legend_width = width_of(&named);
    let painted = named.iter().map(|part| {
        let mark = mark(part.location).to_string();
        format!("{} {}", paint(part.location, &mark, style.color), entry(part))
    });
    let legend = painted.collect::<Vec<_>>().join(gap);
    let bar_width = width.saturating_sub(legend_width + gap.len());
    if bar_width >= BAR_MIN {
        return vec![format!("{}{gap}{legend}", stacked(delay, bar_width, style))];
    }
    let full_bar = stacked(delay, width, style);
    if legend_width <= width { vec![full_bar, legend] } else { vec![full_bar] }
}

/// Returns whether a part is at least one percent of the delay. A smaller part has no cell in the
/// bar, in which one cell would show a larger share.
fn is_visible(part: &LocationTime, delay: &Delay) -> bool {
    part.ns.saturating_mul(100) >= delay.total_ns
}

/// Returns a bar of exactly `width` characters in which each visible part has at least one.
fn stacked(delay: &Delay, width: usize, style: Style) -> String {
    let total = u128::from(delay.total_ns.max(1));
    let parts: Vec<_> = delay.parts.iter().filter(|part| is_visible(part, delay)).collect();
    let scaled = |ns: u64| {
        let free = width.saturating_sub(parts.len());
        let cells = u128::from(ns) * u128::try_from(free).unwrap_or(0) / total;
        usize::try_from(cells).unwrap_or(0) + 1
    };
    let mut cells: Vec<usize> = parts.iter().map(|part| scaled(part.ns)).collect();
    let missing = width.saturating_sub(cells.iter().sum());
    if let Some(largest) = cells.iter_mut().max() {
        *largest += missing;
    }
    let painted = parts.iter().zip(cells).map(|(part, count)| {
        let text = mark(part.location, style.charset).to_string().repeat(count);
        paint(part.location, &text, style.color)
    });
    painted.collect()
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
    match color {
        true => format!("\x1b[{}m{text}\x1b[0m", color_code(location)),
        false => text.to_owned(),
    }
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
        phases.password_prompt_ns.map(|ns| (PromptKind::Password.text(), ns)),
        login_time,
    ];
    let mut steps: Vec<(&str, u64)> = steps.into_iter().flatten().collect();
    let total_ns = steps.iter().fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns));
    steps.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let name = match (login_time, measured.transfers.is_some()) {
        (Some(_), _) => "login",
        (None, true) => "connect",
        (None, false) if phases.prompt.is_none() => "connect",
        (None, false) => "until prompt",
    };
    let row = Row::new(name, duration(total_ns));
    let details = steps.iter().map(|(step, ns)| format!("{step} {}", duration(*ns)));
    (!steps.is_empty()).then(|| details.fold(row, Row::detail))
}

fn echo(measured: &Measurement) -> Option<Row> {
    let echo = measured.echo.as_ref()?;
    let mut row = Row::new("echo", duration(echo.p50_ns));
    if let Some(all) = echo.reduced_from {
        row = row.detail(format!("{} of {} keys (slow path)", count(echo.samples), count(all)));
    }
    row = row.detail(format!("p90 {}", duration(echo.p90_ns)));
    if echo.samples >= SAMPLES_FOR_P99 {
        row = row.detail(format!("p99 {}", duration(echo.p99_ns)));
    }
    row = row.detail(format!("max {}", duration(echo.max_ns)));
    Some(match echo.reduced_from {
        Some(_) => row,
        None => row.detail(counted(echo.samples, "key", "keys")),
    })
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
    Some(row.detail(counted(screenful.cells, "character", "characters")))
}

fn echo_during_output(measured: &Measurement) -> Option<Row> {
    let echo = measured.echo_during_output?;
    let row = Row::new("during output", duration(echo.p50_ns));
    let row = row.detail(format!("max {}", duration(echo.max_ns)));
    let keys = counted(echo.samples, "key", "keys");
    Some(row.detail(format!("{keys} typed during a long output")))
}

fn transfers(measured: &Measurement) -> Vec<Row> {
    let Some(transfers) = &measured.transfers else { return Vec::new() };
    let mut rows = Vec::new();
    for direction in [Direction::Received, Direction::Sent] {
        let sizes = transfers.sizes(direction);
        let Some(largest) = sizes.last() else { continue };
        let time = duration(largest.total_ns);
        let row = Row::new(direction.text(), byte_rate(largest.rate_bps()));
        rows.push(row.detail(format!("{} in {time}", size(largest.bytes))));
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
    // The minimum is a property of the path; the smoothed time also includes the queue that the
    // last output has left.
    let row = match (tcp.rtt_min_ns, tcp.rtt_ns) {
        (Some(min_ns), smoothed_ns) => {
            let row = Row::new(name, duration(min_ns)).detail("minimum");
            match smoothed_ns {
                Some(ns) => row.detail(format!("smoothed {} at the end", duration(ns))),
                None => row,
            }
        }
        (None, smoothed_ns) => Row::new(name, duration(smoothed_ns?)).detail("smoothed"),
    };
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
    Some(row.detail(counted(recording.keys, "key", "keys")))
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
        TCP RTT       58.0 µs  smoothed
        ");
    }

    #[test]
    fn a_login_at_80_columns() {
        insta::assert_snapshot!(short(&login(), at(80)), @r"
        OK: echo 210 µs, max 911 µs, screenful 1.41 ms, telnet://host.example
        ▒▒▒▒▒████████████░  ▒ network 58.0 µs  █ remote host 143 µs  ░ this host 9.50 µs
        until prompt  7.00 ms  prompt 5.21 ms, negotiation 1.32 ms, name 412 µs
        echo           210 µs  p90 268 µs, max 911 µs, 20 keys
        screenful     1.41 ms  1,920 characters
        TCP RTT       58.0 µs  smoothed, 0 of 209 segments retransmitted
        ");
    }

    #[test]
    fn a_login_at_120_columns() {
        insta::assert_snapshot!(short(&login(), at(120)), @r"
        OK: echo 210 µs, max 911 µs, screenful 1.41 ms, telnet://host.example
        ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒███████████████████████████████████████░░░  ▒ network 58.0 µs  █ remote host 143 µs  ░ this host 9.50 µs
        until prompt  7.00 ms  prompt 5.21 ms, negotiation 1.32 ms, name 412 µs, connect 61.0 µs
        echo           210 µs  p90 268 µs, max 911 µs, 20 keys
        screenful     1.41 ms  1,920 characters
        TCP RTT       58.0 µs  smoothed, 0 of 209 segments retransmitted
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
        echo           210 µs  p90 268 µs, max 911 µs, 20 keys
        screenful     1.41 ms  with immediate ACKs, 1,920 characters
        TCP RTT       58.0 µs  smoothed, 0 of 209 segments retransmitted
        ");
    }

    /// Returns a login with an echo of 121 ms, of which the network takes 4 ms.
    fn slow_login() -> Measurement {
        let mut record = login();
        let echo = record.echo.as_mut().unwrap();
        echo.p50_ns = 121_000_000;
        echo.layers = vec![records::LayerTime {
            layer: records::Layer::RemoteHostAndNetwork,
            ns: 121_000_000,
        }];
        echo.samples = 1;
        let tcp = record.tcp.as_mut().unwrap();
        tcp.rtt_min_ns = Some(4_000_000);
        tcp.rtt_ns = Some(22_000_000);
        record.phases.connect_ns = Some(4_100_000);
        record
    }

    #[test]
    fn a_slow_echo_has_its_own_remedy_and_the_round_trip_time_its_name() {
        let mut record = slow_login();
        record.echo_during_output =
            Some(records::measurement::EchoTimes { samples: 1, p50_ns: 9, max_ns: 9 });
        let text = short(&record, at(80));
        let remedy = "Echo: 97 % of 121 ms on the remote host. Check the load there, and";
        assert!(text.contains(remedy), "{text}");
        assert!(text.starts_with("SLOW: echo 121 ms"), "{text}");
        assert!(text.contains("1 key typed during a long output"), "{text}");
        assert!(short(&slow_login(), at(120)).contains("max 911 µs, 1 key\n"), "{text}");
        record.echo_during_output = None;
        let text = short(&record, at(100));
        let row = "TCP RTT       4.00 ms  minimum, smoothed 22.0 ms at the end, 0 of 209 segments";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn the_remedy_of_a_slow_echo_leaves_room_for_the_table() {
        let cause = NamedCause {
            name: "Nagle".to_owned(),
            cost_ns: 240_000_000,
            operation: "a screenful".to_owned(),
            operation_ns: 400_000_000,
            gain_ns: 240_000_000,
            sentence: "It waits. Set TCP_NODELAY in the server program there.".to_owned(),
        };
        let record = Measurement { causes: vec![cause], ..slow_login() };
        let mut long = record.clone();
        let remedy = "in the server program there and ".repeat(8);
        long.causes[0].sentence = format!("It waits. Set TCP_NODELAY {remedy}here.");
        let place = "Echo: 97 % of 121 ms on the remote host.\n";
        let limited = short(&long, at(80));
        assert!(limited.contains(place) && limited.contains("\nuntil prompt"), "{limited}");
        assert!(short(&record, at(120)).contains("remote host. Check the load there"), "{limited}");
        // The tables and the page have the whole sentence.
        let whole = "Echo: 97 % of 121 ms on the remote host. Check the load there, and proxies";
        assert!(super::super::text(&long, at(120)).contains(whole));
        let page = super::super::report(&long).render();
        assert!(page.contains(whole), "{page}");
    }

    #[test]
    fn a_narrow_terminal_has_whole_sentences_and_all_rows() {
        let record = slow_login();
        let narrow = short(&record, at(40));
        let names = |text: &str| {
            let rows = ["until prompt", "echo  ", "screenful", "TCP RTT"];
            rows.into_iter().filter(|name| text.contains(&format!("\n{name}"))).count()
        };
        assert_eq!(names(&narrow), names(&short(&record, at(80))), "{narrow}");
        assert!(narrow.lines().count() > LINES_MAX, "{narrow}");
    }

    #[test]
    fn an_interrupt_before_the_first_result_is_not_a_failure_of_the_host() {
        let failure = Some("no login prompt after 950 ms".to_owned());
        let record =
            Measurement { failure, is_interrupted: true, echo: None, screenful: None, ..login() };
        let text = short(&record, at(80));
        assert!(text.starts_with("INTERRUPTED: no login prompt after 950 ms\n"), "{text}");
        let text = short(&Measurement { is_interrupted: false, ..record }, at(80));
        assert!(text.starts_with("FAILED: no login prompt"), "{text}");
    }

    #[test]
    fn without_a_prompt_the_steps_end_at_the_connection() {
        let mut record = login();
        record.phases.prompt = None;
        record.phases.login_prompt_ns = None;
        let text = short(&record, at(80));
        assert!(text.contains("\nconnect ") && !text.contains("until prompt"), "{text}");
    }

    #[test]
    fn a_reduced_number_of_keys_is_reported() {
        let mut record = login();
        record.echo.as_mut().unwrap().reduced_from = Some(200);
        let text = short(&record, at(80));
        assert!(text.contains("20 of 200 keys (slow path)"), "{text}");
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
            let is_limited = style.columns() >= WIDTH_FOR_LINES_MAX;
            prop_assert!(!is_limited || text.lines().count() <= LINES_MAX, "{text}");
            for line in text.lines() {
                prop_assert!(line.chars().count() <= style.columns(), "{line:?}");
            }
            prop_assert!(!ascii || text.is_ascii(), "{text}");
        }
    }
}
