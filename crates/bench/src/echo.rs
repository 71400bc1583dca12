//! `bench echo`: a key and its echo, and a screenful, over every path to the same server.
//!
//! The peer is the Telnet client of inetutils on the kernel's sockets. A shell on a
//! pseudo-terminal, without a Telnet client or server, is measured too: this measurement shows the
//! cost of terminals, scheduler and driver, which no Telnet client can reduce.

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use super::rounds::{Ratio, Round, Rounds, micros, millis};
use super::telnetd::{Kind, Listener};
use super::typing::{self, Amount, Client, Via};
use anyhow::Result;
use records::format::UNKNOWN;
use records::statistics::median;
use report::table::Table;
use serde_json::{Value, json};

/// Largest accepted ratio of the echo time over path (ii), `plumb login`, to that over path (i),
/// the Telnet client of inetutils.
const ECHO_GOAL: f64 = 0.95;
/// Goal for a screenful, ms: well below the 40 ms of a delayed acknowledgment and well above the
/// achievable 1.4 ms.
const SCREENFUL_GOAL_MS: f64 = 5.0;

const PEER: usize = 1;

/// Measures all paths with both servers.
pub(super) fn run(conditions: &Conditions, amount: Amount) -> Result<Report> {
    let plumb = |via| Client::Plumb { via, is_metered: true };
    let clients = [
        ("a shell, no network", Client::Shell),
        ("(i) inetutils telnet", Client::Inetutils),
        ("(ii) plumb login", plumb(Via::Kernel)),
        ("(iii) plumb login, TUN", plumb(Via::Tun(0))),
    ];
    typing::prepare(&clients)?;
    let mut sections = Vec::new();
    let mut verdicts = Vec::new();
    let mut congestion = None;
    for kind in Kind::ALL {
        let listener = Listener::open(kind, conditions.pinning())?;
        congestion = listener.congestion_control();
        let measured = typing::measure(&clients, &listener, amount, conditions)?;
        sections.push(section(kind, &measured, amount));
        verdicts.extend(verdicts_of(kind, &measured));
    }
    let kernel = congestion.unwrap_or_else(|| UNKNOWN.to_owned());
    Ok(Report {
        program_set: ProgramSet::Login,
        title: "bench echo: from a key at the pseudo-terminal to its echo there".to_owned(),
        sections,
        verdicts,
        congestion: format!("{kernel} (kernel's sockets); our own TCP on the TUN: NewReno"),
        notes: Vec::new(),
    })
}

fn section(kind: Kind, measured: &[Rounds], amount: Amount) -> Section {
    let heading = format!(
        "server: {}; {} rounds of {} keys and {} screenfuls, medians of the rounds",
        kind.name(),
        amount.rounds,
        amount.keys,
        amount.screenfuls
    );
    let mut table = Table::new()
        .text("path")
        .number("echo p50 (µs)")
        .number("p90 (µs)")
        .number("p99 (µs)")
        .number("p50 to (i)")
        .number("client CPU (µs/key)")
        .number("server CPU (µs/key)")
        .number("screenful (ms)")
        .number("from Enter (ms)");
    for path in measured {
        table.row([
            path.label.clone(),
            micros(path.median_of(|round| round.echo(50))),
            micros(path.median_of(|round| round.echo(90))),
            micros(path.median_of(|round| round.echo(99))),
            echo_ratio(path, measured).map_or_else(|| UNKNOWN.to_owned(), Ratio::text),
            micros(path.median_of(|round| round.client_ns_per_key)),
            micros(path.median_of(|round| round.server_ns_per_key)),
            millis(path.median_of(Round::screenful)),
            millis(path.median_of(|round| median(&round.key_to_screen_ns))),
        ]);
    }
    let paths: Vec<Value> = measured.iter().map(|path| data(path, measured)).collect();
    Section { heading, table, data: json!({ "server": kind.name(), "paths": paths }) }
}

fn data(path: &Rounds, measured: &[Rounds]) -> Value {
    let mut data = path.to_json();
    if let Some(data) = data.as_object_mut() {
        let ratio = echo_ratio(path, measured).map(Ratio::to_json);
        data.insert("echo_p50_to_inetutils".to_owned(), ratio.unwrap_or(Value::Null));
    }
    data
}

fn echo_ratio(path: &Rounds, measured: &[Rounds]) -> Option<Ratio> {
    path.ratio_to(measured.get(PEER)?, |round| round.echo(50))
}

/// Returns the verdicts on the goals. The echo has a goal only over path (ii) and only relative to
/// path (i); a screenful has a goal over all paths of `plumb login`.
fn verdicts_of(kind: Kind, measured: &[Rounds]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (at, path) in measured.iter().enumerate().skip(PEER + 1) {
        let what = |figure: &str| format!("{} to {}, {figure}", path.label, kind.name());
        if at == PEER + 1 {
            let actual = echo_ratio(path, measured).map(|ratio| ratio.median);
            let what = what("echo p50 as a ratio to (i)");
            verdicts.push(Verdict { what, goal: ECHO_GOAL, actual, unit: "" });
        }
        let actual = path.median_of(Round::screenful).map(|ns| ns as f64 / 1e6);
        let what = what("screenful");
        verdicts.push(Verdict { what, goal: SCREENFUL_GOAL_MS, actual, unit: " ms" });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(label: &str, echo_ns: u64, screenful_ns: u64) -> Rounds {
        let mut rounds = Rounds::new(label);
        let echo_ns = vec![echo_ns];
        let screenful_ns = vec![screenful_ns];
        rounds.rounds.push(Round { echo_ns, screenful_ns, ..Round::default() });
        rounds
    }

    #[test]
    fn the_peer_and_the_shell_have_no_goal() {
        let measured = [
            path("shell", 70, 1),
            path("(i)", 200, 43_500_000),
            path("(ii)", 180, 1_400_000),
            path("(iii)", 170, 43_500_000),
        ];
        let verdicts = verdicts_of(Kind::Inetutils, &measured);
        let met: Vec<_> = verdicts.iter().map(Verdict::is_met).collect();
        assert_eq!(met, [Some(true), Some(true), Some(false)]);
    }

    #[test]
    fn the_data_has_every_ratio_to_the_peer() {
        let measured = [path("shell", 100, 1), path("(i)", 200, 1)];
        let amount = Amount { rounds: 1, keys: 1, screenfuls: 1, megabytes: 1 };
        let section = section(Kind::Busybox, &measured, amount);
        assert_eq!(section.data["paths"][0]["echo_p50_to_inetutils"]["median"], 0.5);
        assert_eq!(section.table.rows().len(), 2);
    }
}
