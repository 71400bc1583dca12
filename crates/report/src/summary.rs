//! Presentation of a measurement: as text for a terminal, and as the sections of a page.

mod live;
mod measures;
mod predictions;
mod series;
mod short;
mod transfers;

use crate::bar_chart::{self, Style};
use crate::charts::charts;
use crate::html::layer_stack::{LayerStack, StackedBar};
use crate::html::location_bar::LocationBar;
use crate::html::waterfall::Waterfall;
use crate::html::{Report, Section};
use crate::split_row::{SplitRow, rows_of_echo, rows_of_screenful};
use crate::table::{Table, wrap};
use records::arrivals::LineRate;
use records::assessment::Assessment;
use records::escape;
use records::format::{
    count, count_or_unknown, duration, duration_or_unknown, rate, rate_or_unknown, share,
};
use records::measurement::{Echo, Measurement, NamedCause, PromptKind, Recording, Screenful};
use records::running::Running;
use records::verdict::{CauseKind, Operation};

pub use live::{LiveLine, LiveSeries, LiveSpan};
pub use series::try_line;
pub(crate) use short::painted_grade;
pub use short::short;

/// Returns all of `measured` except the measures of RFC 573 as text for a terminal, with the
/// verdict first.
#[must_use]
pub fn text(measured: &Measurement, style: Style) -> String {
    let width = style.columns();
    let mut out = String::new();
    let mut push_text = |text: &str| {
        for line in wrap(&escape::terminal(style.in_charset(text)), width) {
            out.push_str(&line);
            out.push('\n');
        }
    };
    push_text(&measured.verdict);
    slow_echo(measured).iter().for_each(|text| push_text(text));
    push_text("");
    push_text(&subject(measured));
    for (title, table, split) in tables(measured, false) {
        let title = wrap(&title, width).join("\n");
        out.push_str(&format!("\n{title}\n{}", style.in_charset(&table.render(width))));
        let Some(split) = split else { continue };
        out.push_str(&format!("\n{}\n{}", split.title, bar_chart::named(&split.rows, style)));
        for line in split.error.iter().flat_map(|error| wrap(&style.in_charset(error), width)) {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

/// Returns the six measures of RFC 573 as text for a terminal; empty if `measured` has none.
#[must_use]
pub fn rfc573(measured: &Measurement, style: Style) -> String {
    let Some(measures) = &measured.measures else { return String::new() };
    let table = measures::measures(measures, measured).render(style.columns());
    format!("{RFC_573_TITLE}\n{}", style.in_charset(&table))
}

/// Returns the sentences on a slow echo beside the first cause.
fn slow_echo(measured: &Measurement) -> Option<String> {
    Some(short::slow_echo(&Assessment::of(measured).slow_echo?).concat())
}

const CAUSES_TITLE: &str = "Causes, most important first";
const RFC_573_TITLE: &str = "The six measures of RFC 573";

/// A table with its title, and the time split that is drawn below the table.
type Titled = (String, Table, Option<Split>);

/// The split of a time, row by row, with its possible error.
struct Split {
    title: &'static str,
    rows: Vec<SplitRow>,
    error: Option<String>,
}

/// Returns the tables of the measurement, in display order.
fn tables(measured: &Measurement, has_rfc573: bool) -> Vec<Titled> {
    let mut all: Vec<Titled> = Vec::new();
    let mut add = |title: &str, table: Table| all.push((title.to_owned(), table, None));
    if !measured.causes.is_empty() {
        add(CAUSES_TITLE, causes(&measured.causes));
    }
    if let Some(measures) = measured.measures.as_ref().filter(|_| has_rfc573) {
        add(RFC_573_TITLE, measures::measures(measures, measured));
    }
    if measured.tries.len() > 1 {
        add("Tries", measures::tries(&measured.tries));
    }
    if measured.recording.is_none() && measured.running.is_none() {
        let title = match &measured.transfers {
            Some(_) if measured.phases.connect_ns.is_none() => "Before the transfers",
            Some(_) => "Up to the login",
            None => "Up to the login prompt",
        };
        add(title, phases(measured));
    }
    if let Some(transfers) = &measured.transfers {
        add("Throughput against size", transfers::sizes(transfers));
        for (title, table) in transfers::phases(transfers) {
            add(&title, table);
        }
    }
    if let Some(running) = &measured.running {
        add("Work of the process", process_table(running));
    }
    if let Some(recording) = &measured.recording {
        add("The recording", recording_table(recording));
    }
    if let Some(echo) = &measured.echo {
        let split = (!echo.layers.is_empty()).then(|| Split {
            title: "Where the median echo went",
            rows: rows_of_echo(&echo.layers, measured),
            error: echo.error.map(|error| {
                let spread = echo.spread_sentence().map(|spread| format!(" {spread}"));
                let reduced = reduced_sentence(echo).map(|reduced| format!(" {reduced}"));
                let sentences = spread.into_iter().chain(reduced);
                error.sentence(echo.p50_ns) + &sentences.collect::<String>()
            }),
        });
        all.push(("Echo of one character".to_owned(), echoes(measured), split));
    }
    if measured.paced_echo.is_some() || measured.echo_during_output.is_some() {
        all.push(("Echo of further keys".to_owned(), further_echoes(measured), None));
    }
    if let Some(screenful) = &measured.screenful {
        let split = (!screenful.layers.is_empty()).then(|| Split {
            title: "Where the screenful went",
            rows: rows_of_screenful(screenful, measured),
            error: screenful.error.map(|error| error.sentence(screenful.total_ns())),
        });
        all.push((screenful_title(measured), screenfuls(measured), split));
    }
    if !measured.predictions.is_empty() {
        let table = predictions::predictions(&measured.predictions);
        all.push(("Predicted and measured".to_owned(), table, None));
    }
    if let Some(line) = &measured.line {
        all.push(("The line, by packet pairs".to_owned(), line_rate(line), None));
    }
    if measured.tcp.is_some() {
        all.push(("TCP at the end of the connection".to_owned(), tcp(measured), None));
    }
    all
}

/// Returns `measured` as a page; the caller may add sections.
#[must_use]
pub fn report(measured: &Measurement) -> Report {
    let assessment = Assessment::of(measured);
    let mut sections = vec![
        Section::Lead(short::headline(measured, &assessment, usize::MAX)),
        Section::Paragraph(subject(measured)),
    ];
    if !measured.causes.is_empty() {
        let table = causes(&measured.causes);
        sections.push(Section::Table { title: CAUSES_TITLE.to_owned(), table });
    }
    sections.push(Section::Paragraph(measured.verdict.clone()));
    sections.extend(slow_echo(measured).map(Section::Paragraph));
    if let Some(delay) = assessment.delay.filter(|delay| !delay.parts.is_empty()) {
        let title = "Where the time is spent".to_owned();
        sections.push(Section::Locations(LocationBar { title, delay }));
    }
    sections.extend(Waterfall::of_login(measured).map(Section::Waterfall));
    let stack = stack(measured);
    if !stack.bars.is_empty() {
        sections.push(Section::Layers(stack));
    }
    sections.extend(charts(measured).into_iter().map(|plot| Section::Plot(Box::new(plot))));
    let all = tables(measured, true).into_iter().filter(|(title, ..)| title != CAUSES_TITLE);
    for (title, table, split) in all {
        sections.push(Section::Table { title, table });
        let Some(split) = split else { continue };
        sections.extend(split.error.map(Section::Paragraph));
    }
    Report { title: format!("Latency report: {}", measured.target), sections }
}

/// Returns the layer bars of the echo and the screenful, as far as they were measured.
#[must_use]
pub fn stack(measured: &Measurement) -> LayerStack {
    let echo = measured.echo.as_ref().filter(|echo| !echo.layers.is_empty());
    let echo = echo.map(|echo| StackedBar {
        label: "median echo of one character".to_owned(),
        name: "echo".to_owned(),
        rows: rows_of_echo(&echo.layers, measured),
    });
    let screenful = measured.screenful.as_ref().filter(|screenful| !screenful.layers.is_empty());
    let screenful = screenful.map(|screenful| StackedBar {
        label: format!("screenful, {}", extent_of(screenful)),
        name: "screenful".to_owned(),
        rows: rows_of_screenful(screenful, measured),
    });
    LayerStack {
        title: "Where the time went, by layer".to_owned(),
        bars: echo.into_iter().chain(screenful).collect(),
    }
}

fn subject(measured: &Measurement) -> String {
    let host = &measured.host;
    let address = measured.address.as_deref().map_or_else(String::new, |at| format!(" at {at}"));
    let mut text = format!(
        "{}{address} via {}, {}, plumb {}",
        measured.target, measured.via, measured.started_at, measured.program_version
    );
    let cpus = host.cpus.map(|cpus| format!("{cpus} CPUs"));
    let load = host.load1.map(|load| format!("load {load:.2}"));
    let host_facts = [&host.kernel, &host.cpu].into_iter().cloned();
    for known in host_facts.chain([cpus, load, host.congestion_control.clone()]).flatten() {
        text += ", ";
        text += &known;
    }
    text + "."
}

fn causes(causes: &[NamedCause]) -> Table {
    // The gain is a column only if it differs from the cost: removing a cause can leave other waits.
    let has_gains = causes.iter().any(|cause| duration(cause.gain_ns) != duration(cause.cost_ns));
    let mut table = Table::new().text("cause").number("costs").number("share");
    if has_gains {
        table = table.number("gain without it");
    }
    let mut table = table.text("of");
    for cause in causes {
        let name = match CauseKind::from_name(&cause.name) {
            Some(kind) => kind.text(),
            None => cause.name.as_str(),
        };
        let operation = match Operation::from_name(&cause.operation) {
            Some(operation) => operation.text(),
            None => cause.operation.as_str(),
        };
        let operation_and_time = format!("{operation} of {}", duration(cause.operation_ns));
        let cost = duration(cause.cost_ns);
        let share = share(cause.cost_ns, cause.operation_ns);
        let gain = has_gains.then(|| duration(cause.gain_ns));
        let cells = [name.to_owned(), cost, share].into_iter().chain(gain);
        table.row(cells.chain([operation_and_time]));
    }
    table
}

fn phases(measured: &Measurement) -> Table {
    let phases = &measured.phases;
    let mut table = Table::new().text("step").number("time");
    table.row(["name to address".to_owned(), duration_or_unknown(phases.resolve_ns)]);
    // TFTP has no connection.
    if measured.transfers.is_some() && phases.connect_ns.is_none() {
        return table;
    }
    table.row(["connect".to_owned(), duration_or_unknown(phases.connect_ns)]);
    if let Some(tls_ns) = phases.tls_ns {
        table.row(["TLS".to_owned(), duration(tls_ns)]);
    }
    if measured.transfers.is_some() {
        table.row(["login".to_owned(), duration_or_unknown(phases.login_ns)]);
        return table;
    }
    table.row(["negotiation".to_owned(), duration_or_unknown(phases.negotiation_ns)]);
    let prompt = match (phases.prompt, phases.login_prompt_ns) {
        // The local wait for a prompt that never arrived is not charged to the remote host.
        (Some(PromptKind::Silence), None) => "prompt (none received)",
        (kind, _) => kind.unwrap_or(PromptKind::Login).text(),
    };
    table.row([prompt.to_owned(), duration_or_unknown(phases.login_prompt_ns)]);
    if let Some(prompt_ns) = phases.password_prompt_ns {
        table.row([PromptKind::Password.text().to_owned(), duration(prompt_ns)]);
    }
    if let Some(login_ns) = phases.login_ns {
        table.row(["login".to_owned(), duration(login_ns)]);
    }
    table
}

fn line_rate(line: &LineRate) -> Table {
    let headers = ["median", "configured", "pairs", "bits per byte"];
    let mut table = headers.into_iter().fold(Table::new(), Table::number);
    let nominal = rate_or_unknown(line.nominal_bps);
    let pairs = count(line.pairs);
    let bits = count(line.bits_per_byte);
    table.row([rate(line.median_bps), nominal, pairs, bits]);
    table
}

fn process_table(running: &Running) -> Table {
    let headers = ["visits", "time", "mean", "share of the work"];
    let mut table = headers.into_iter().fold(Table::new().text("primitive"), Table::number);
    for part in &running.primitives {
        table.row([
            part.name.clone(),
            count(part.visits),
            duration(part.ns),
            duration_or_unknown(part.ns.checked_div(part.visits)),
            share(part.ns, running.busy_ns),
        ]);
    }
    let empty = String::new;
    let cpu = duration(running.cpu_ns);
    table.row(["CPU of all threads".to_owned(), empty(), cpu, empty(), empty()]);
    table
}

fn recording_table(recording: &Recording) -> Table {
    let mut table = Table::new().text("figure").number("value");
    table.row(["length".to_owned(), duration(recording.duration_ns)]);
    let keys = match recording.keys {
        0 => "not recorded".to_owned(),
        keys => count(keys),
    };
    table.row(["keys".to_owned(), keys]);
    table.row(["bytes received".to_owned(), count(recording.bytes)]);
    let longest = match recording.keys {
        0 => "longest gap, including pauses of the user",
        _ => "longest gap in the output",
    };
    let names = [longest, "second longest gap", "third longest gap"];
    for (name, gap_ns) in names.into_iter().zip(&recording.gaps_ns) {
        table.row([name.to_owned(), duration(*gap_ns)]);
    }
    table
}

fn echoes(measured: &Measurement) -> Table {
    let headers = ["least", "p50", "p90", "p99", "most", "CPU per key"];
    let table = Table::new().number("samples");
    let mut table = headers.into_iter().fold(table, Table::number);
    if let Some(echo) = &measured.echo {
        let times = [echo.min_ns, echo.p50_ns, echo.p90_ns, echo.p99_ns, echo.max_ns];
        let cpu = duration_or_unknown(echo.cpu_ns_per_key);
        table.row([count(echo.samples)].into_iter().chain(times.map(duration)).chain([cpu]));
    }
    table
}

/// Returns a sentence about a number of keys that was reduced.
fn reduced_sentence(echo: &Echo) -> Option<String> {
    Some(format!(
        "{} of {} keys were typed because the path is slow; --keys specifies the number.",
        count(echo.samples),
        count(echo.reduced_from?)
    ))
}

fn further_echoes(measured: &Measurement) -> Table {
    let headers = ["samples", "p50", "most"];
    let mut table = headers.into_iter().fold(Table::new().text("keys"), Table::number);
    let rows = [
        ("at a constant interval", measured.paced_echo),
        ("during a long output", measured.echo_during_output),
    ];
    for (name, echo) in rows {
        let Some(echo) = echo else { continue };
        let times = [count(echo.samples), duration(echo.p50_ns), duration(echo.max_ns)];
        table.row([name.to_owned()].into_iter().chain(times));
    }
    table
}

/// From the first cell of a screenful to its last, as timed in TM-233 §6.2.5.
pub const FIRST_TO_LAST: &str = "first to last cell";
/// From the request for a screenful to its last cell.
pub const REQUEST_TO_LAST: &str = "request to last cell";

/// Returns the interval that the layers of a screenful cover.
#[must_use]
pub const fn extent_of(screenful: &Screenful) -> &'static str {
    if screenful.request_to_last_ns.is_some() { REQUEST_TO_LAST } else { FIRST_TO_LAST }
}

/// Returns the title of the screenful's table, which includes how the screenful was produced.
fn screenful_title(measured: &Measurement) -> String {
    let method = measured.screenful.as_ref().and_then(|screenful| screenful.method);
    method.map_or_else(
        || "A screenful".to_owned(),
        |method| format!("A screenful: {}", method.text()),
    )
}

fn screenfuls(measured: &Measurement) -> Table {
    let mut headers = vec!["bytes", "cells", "segments", FIRST_TO_LAST, "longest gap"];
    let Some(screenful) = &measured.screenful else { return Table::new() };
    let mut row = vec![
        count(screenful.bytes),
        count(screenful.cells),
        count_or_unknown(screenful.segments_in),
        duration(screenful.first_to_last_ns),
        duration_or_unknown(screenful.longest_gap_ns),
    ];
    if let Some(request_to_last_ns) = screenful.request_to_last_ns {
        headers.insert(3, REQUEST_TO_LAST);
        row.insert(3, duration(request_to_last_ns));
    }
    let mut table = headers.into_iter().fold(Table::new(), Table::number);
    table.row(row);
    table
}

fn tcp(measured: &Measurement) -> Table {
    let mut table = Table::new().text("figure").number("value");
    let Some(tcp) = &measured.tcp else { return table };
    if let Some(min_ns) = tcp.rtt_min_ns {
        table.row(["minimum RTT".to_owned(), duration(min_ns)]);
    }
    let rows = [
        ("smoothed RTT at the end", duration_or_unknown(tcp.rtt_ns)),
        ("RTT mean deviation", duration_or_unknown(tcp.rtt_deviation_ns)),
        ("segments retransmitted", count_or_unknown(tcp.retransmissions)),
        ("segments in", count_or_unknown(tcp.segments_in)),
        ("segments out", count_or_unknown(tcp.segments_out)),
        ("data in (bytes)", count_or_unknown(tcp.bytes_in)),
        ("data out (bytes)", count_or_unknown(tcp.bytes_out)),
        ("largest segment (bytes)", count_or_unknown(tcp.mss)),
        ("congestion window (bytes)", count_or_unknown(tcp.cwnd)),
    ];
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bar_chart::Charset;

    fn sample() -> Measurement {
        Measurement::from_json(include_str!("../../records/samples/measurement-1.json")).unwrap()
    }

    #[test]
    fn at_80_columns_all_values_are_in_tables() {
        insta::assert_snapshot!(text(&sample(), Style::default()), @"
        The far host takes 69 % of an echo of 210 µs, and the network's round trip only
        58.0 µs; with nothing but the far side it could be 202 µs, and less than 25 ms
        is not noticed.

        telnet://host.example at 192.0.2.7:23 via kernel, 2026-03-01T12:00:00Z, plumb
        0.1.0, Linux 6.12.0, Example CPU at 2.10 GHz, 2 CPUs, load 0.25, cubic.

        Up to the login prompt
        step                time
        ---------------  -------
        name to address   412 µs
        connect          61.0 µs
        negotiation      1.32 ms
        login prompt     5.21 ms

        Echo of one character
        samples   least     p50     p90     p99    most  CPU per key
        -------  ------  ------  ------  ------  ------  -----------
            200  181 µs  210 µs  268 µs  402 µs  911 µs      9.40 µs

        Where the median echo went
        interrupt or system call  5.10 µs    2 % ▉
        Telnet                     400 ns  < 1 % ▏
        terminal                  2.50 µs    1 % ▍
        network                   58.0 µs   28 % ██████████▊
        remote host                144 µs   69 % ██████████████████████████▋
        total                      210 µs  100 %

        A screenful: the output of a command
        bytes  cells  segments  first to last cell  longest gap
        -----  -----  --------  ------------------  -----------
        2,070  1,920         3             1.41 ms       700 µs

        Where the screenful went
        interrupt or system call  30.0 µs    2 % ▊
        Telnet                    6.00 µs  < 1 % ▏
        terminal                   214 µs   15 % █████▉
        remote host and network   1.16 ms   82 % ████████████████████████████████
        total                     1.41 ms  100 %

        TCP at the end of the connection
        figure                       value
        -------------------------  -------
        smoothed RTT at the end    58.0 µs
        RTT mean deviation         21.0 µs
        segments retransmitted           0
        segments in                    214
        segments out                   209
        data in (bytes)              3,120
        data out (bytes)               260
        largest segment (bytes)      1,460
        congestion window (bytes)   14,600
        ");
    }

    #[test]
    fn at_40_columns_in_ascii_nothing_is_lost() {
        let style = Style { width: 40, charset: Charset::Ascii, color: false };
        insta::assert_snapshot!(text(&sample(), style), @"
        The far host takes 69 % of an echo of
        210 us, and the network's round trip
        only 58.0 us; with nothing but the far
        side it could be 202 us, and less than
        25 ms is not noticed.

        telnet://host.example at 192.0.2.7:23
        via kernel, 2026-03-01T12:00:00Z, plumb
        0.1.0, Linux 6.12.0, Example CPU at 2.10
        GHz, 2 CPUs, load 0.25, cubic.

        Up to the login prompt
        step                time
        ---------------  -------
        name to address   412 us
        connect          61.0 us
        negotiation      1.32 ms
        login prompt     5.21 ms

        Echo of one character
        samples      200
        least        181 us
        p50          210 us
        p90          268 us
        p99          402 us
        most         911 us
        CPU per key  9.40 us

        Where the median echo went
        int/syscall  5.10 us    2 % #
        Telnet        400 ns  < 1 % #
        terminal     2.50 us    1 % #
        network      58.0 us   28 % ###
        remote host   144 us   69 % ########
        total         210 us  100 %

        A screenful: the output of a command
        bytes  cells  segments    first  longest
                                to last      gap
                                   cell
        -----  -----  --------  -------  -------
        2,070  1,920         3  1.41 ms   700 us

        Where the screenful went
        int/syscall  30.0 us    2 % #
        Telnet       6.00 us  < 1 % #
        terminal      214 us   15 % #
        remote       1.16 ms   82 % #########
        total        1.41 ms  100 %

        TCP at the end of the connection
        figure                       value
        -------------------------  -------
        smoothed RTT at the end    58.0 us
        RTT mean deviation         21.0 us
        segments retransmitted           0
        segments in                    214
        segments out                   209
        data in (bytes)              3,120
        data out (bytes)               260
        largest segment (bytes)      1,460
        congestion window (bytes)   14,600
        ");
    }

    #[test]
    fn attack_row_75_a_hostile_target_is_printed_as_text() {
        let mut measured = sample();
        measured.target = "\x1b]2;owned\x07".to_owned();
        assert!(!text(&measured, Style::default()).contains(['\x1b', '\x07']));
    }

    #[test]
    fn a_value_that_was_not_measured_has_no_section() {
        let mut measured = sample();
        measured.echo = None;
        measured.screenful = None;
        measured.tcp = None;
        let count = report(&measured).sections.len();
        assert_eq!(count, 5, "lead, subject, verdict, and the steps as a chart and a table");
    }
}
