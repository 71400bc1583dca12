//! `bench meter`: the cost of the meter.
//!
//! The bench measures three costs. The first is the cost that a user would notice: `plumb login`
//! with and without its meter, on the kernel's sockets and on a TUN. A few hundred nanoseconds are
//! not measurable between processes, so the second measurement runs the same engines in one process
//! ([`super::in_process_echo`]), and compares the added time with the echo of the first
//! measurement. The third is the cost of the meter of `plumb serve` ([`super::served`]), which
//! other processes may read.

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use super::in_process_echo::{self, Costs};
use super::rounds::{Ratio, Rounds, micros};
use super::served;
use super::telnetd::{Kind, Listener};
use super::typing::{self, Amount, Client, Via};
use anyhow::Result;
use records::format::UNKNOWN;
use records::statistics::median;
use report::table::Table;
use serde_json::{Value, json};

/// Largest ratio of a time with the meter to the time without.
const MAX_TIME_RATIO: f64 = 1.03;

/// Number of pairs of measurement blocks in one process, and number of echoes per block.
const BLOCKS: usize = 101;
const BLOCK_ECHOES: u32 = 1_000;

/// Number of pairs of blocks, and number of echoes per block, for the cost of reading the meter.
/// The meter is read a few times per block.
const READ_BLOCKS: usize = 31;
const READ_ECHOES: u32 = 40_000;

/// Largest ratio of the echo time while another thread reads the meters to the time while no thread
/// does.
const MAX_READ_RATIO: f64 = 1.01;

/// Measures with and without the meter.
pub(super) fn run(conditions: &Conditions, amount: Amount) -> Result<Report> {
    let plumb = |via, is_metered| Client::Plumb { via, is_metered };
    let clients = [
        ("(ii) plumb login, meter on", plumb(Via::Kernel, true)),
        ("(ii) plumb login, meter off", plumb(Via::Kernel, false)),
        ("(iii) plumb login, TUN, meter on", plumb(Via::Tun(0), true)),
        ("(iii) plumb login, TUN, meter off", plumb(Via::Tun(1), false)),
    ];
    typing::prepare(&clients)?;
    let listener = Listener::open(Kind::Inetutils, conditions.pinning())?;
    let amount = Amount { screenfuls: 0, ..amount };
    let measured = typing::measure(&clients, &listener, amount, conditions)?;
    conditions.run_in_real_time()?;
    let costs = in_process_echo::measure(BLOCKS, BLOCK_ECHOES)?;
    let read = in_process_echo::measure_read(READ_BLOCKS, READ_ECHOES)?;
    let served = served::measure(amount, conditions)?;
    let metered = block_median(&costs, |b| b.0);
    let plain = block_median(&costs, |b| b.1);
    let echo_ns = measured.last().and_then(|path| path.median_of(|round| round.echo(50)));
    // This process contains both hosts of the connection. A login contains one host, so half of the
    // added cost counts.
    let added_ns = metered.zip(plain).map(|(on, off)| on.saturating_sub(off) / 2);
    let share =
        added_ns.zip(echo_ns).map(|(added_ns, echo_ns)| 1.0 + added_ns as f64 / echo_ns as f64);
    Ok(Report {
        program_set: ProgramSet::Login,
        title: "bench meter: the time that the meter adds to an echo".to_owned(),
        sections: vec![
            process_section(&measured, amount),
            in_process_section(&costs, metered, plain),
            read_section(read),
            served.section(amount),
        ],
        verdicts: verdicts(&measured, share, read).into_iter().chain(served.verdicts()).collect(),
        congestion: listener.congestion_control().unwrap_or_else(|| UNKNOWN.to_owned()),
        notes: vec![note(added_ns, echo_ns)],
    })
}

fn block_median(costs: &Costs, of: impl Fn(&(u64, u64)) -> u64) -> Option<u64> {
    median(&costs.blocks.iter().map(of).collect::<Vec<_>>())
}

fn note(added_ns: Option<u64>, echo_ns: Option<u64>) -> String {
    format!(
        "The meter of one host adds {} µs to an echo by our own TCP/IP, which takes {} µs (TUN, \
         meter off).",
        micros(added_ns),
        micros(echo_ns)
    )
}

/// Returns the pairs of paths that differ only in the meter.
fn pairs(measured: &[Rounds]) -> impl Iterator<Item = (&Rounds, &Rounds)> {
    measured.chunks_exact(2).filter_map(|pair| Some((pair.first()?, pair.last()?)))
}

fn process_section(measured: &[Rounds], amount: Amount) -> Section {
    let mut table = Table::new()
        .text("path")
        .number("echo p50 (µs)")
        .number("on to off")
        .number("client CPU (µs/key)")
        .number("on to off");
    let mut data = Vec::new();
    for (on, off) in pairs(measured) {
        let echo = on.ratio_to(off, |round| round.echo(50));
        let client = on.ratio_to(off, |round| round.client_ns_per_key);
        for path in [on, off] {
            let text = |ratio: Option<Ratio>| match ratio {
                Some(ratio) if path == on => ratio.text(),
                _ => String::new(),
            };
            table.row([
                path.label.clone(),
                micros(path.median_of(|round| round.echo(50))),
                text(echo),
                micros(path.median_of(|round| round.client_ns_per_key)),
                text(client),
            ]);
        }
        data.push(json!({
            "on": on.to_json(),
            "off": off.to_json(),
            "echo_p50_on_to_off": echo.map(Ratio::to_json),
            "client_cpu_on_to_off": client.map(Ratio::to_json),
        }));
    }
    let heading = format!(
        "between processes, server {}; {} rounds of {} keys, medians of the rounds",
        Kind::Inetutils.name(),
        amount.rounds,
        amount.keys
    );
    Section { heading, table, data: Value::Array(data) }
}

fn in_process_section(costs: &Costs, metered: Option<u64>, plain: Option<u64>) -> Section {
    let mut table = Table::new().text("both hosts").number("echo (µs)").number("on to off");
    let ratio = costs.ratio.map_or_else(|| UNKNOWN.to_owned(), Ratio::text);
    table.row(["meters on".to_owned(), micros_with_3_decimals(metered), ratio]);
    table.row(["meters off".to_owned(), micros_with_3_decimals(plain), String::new()]);
    let heading = format!(
        "in one process, both hosts and no system call; {BLOCKS} blocks of {BLOCK_ECHOES} echoes, \
         medians of the blocks"
    );
    let data = json!({
        "on_ns": metered,
        "off_ns": plain,
        "on_to_off": costs.ratio.map(Ratio::to_json),
        "blocks_on_off_ns": costs.blocks,
    });
    Section { heading, table, data }
}

fn read_section(read: Option<Ratio>) -> Section {
    let mut table = Table::new().text("both hosts, meters on").number("read to unread");
    let text = read.map_or_else(|| UNKNOWN.to_owned(), Ratio::text);
    table.row(["read by another thread every 20 ms".to_owned(), text]);
    let heading = format!(
        "in one process, while the meters are read; {READ_BLOCKS} pairs of blocks of {READ_ECHOES} \
         echoes, medians"
    );
    Section { heading, table, data: json!({ "read_to_unread": read.map(Ratio::to_json) }) }
}

fn micros_with_3_decimals(ns: Option<u64>) -> String {
    ns.map_or_else(|| UNKNOWN.to_owned(), |ns| format!("{:.3}", ns as f64 / 1_000.0))
}

fn verdicts(measured: &[Rounds], share: Option<f64>, read: Option<Ratio>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (on, off) in pairs(measured) {
        let echo = on.ratio_to(off, |round| round.echo(50)).map(|ratio| ratio.median);
        let what = format!("{}, echo p50 relative to meter off", on.label);
        verdicts.push(Verdict { what, goal: MAX_TIME_RATIO, actual: echo, unit: "" });
    }
    let what =
        "meter of one host, measured in one process, relative to the echo over a TUN".to_owned();
    verdicts.push(Verdict { what, goal: MAX_TIME_RATIO, actual: share, unit: "" });
    let what =
        "an echo in one process while the meters are read, relative to unread meters".to_owned();
    let actual = read.map(|ratio| ratio.median);
    verdicts.push(Verdict { what, goal: MAX_READ_RATIO, actual, unit: "" });
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Round;
    use super::*;

    fn path(label: &str, echo_ns: u64) -> Rounds {
        let mut rounds = Rounds::new(label);
        rounds.rounds.push(Round { echo_ns: vec![echo_ns], ..Round::default() });
        rounds
    }

    #[test]
    fn each_path_is_compared_with_itself_without_meter() {
        let measured =
            [path("a on", 103), path("a off", 100), path("b on", 120), path("b off", 100)];
        let verdicts = verdicts(&measured, Some(1.001), None);
        let met: Vec<_> = verdicts.iter().map(Verdict::is_met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(true), None]);
    }

    #[test]
    fn only_the_metered_row_has_the_ratio() {
        let measured = [path("a on", 110), path("a off", 100)];
        let section =
            process_section(&measured, Amount { rounds: 1, keys: 1, screenfuls: 0, megabytes: 1 });
        assert_eq!(section.table.rows()[0][2], "1.10 (1.10-1.10)");
        assert_eq!(section.table.rows()[1][2], "");
        assert_eq!(section.data[0]["echo_p50_on_to_off"]["median"], 1.1);
    }

    #[test]
    fn missing_measurements_are_dashes() {
        assert!(note(None, None).contains("adds - µs"));
        assert_eq!(micros_with_3_decimals(Some(1_234)), "1.234");
    }
}
