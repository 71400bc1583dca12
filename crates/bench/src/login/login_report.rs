//! The table of `bench login`, and its goals.

use super::congestion::congestion;
use super::path::{INETUTILS, PLUMB, PLUMB_ON_TUN, Path, SOCAT};
use crate::benchmark_report::{Report, Section, Verdict};
use crate::conditions::ProgramSet;
use crate::rounds::{Ratio, Round, Rounds, micros, millis, seconds};
use crate::typing::Amount;
use records::format::UNKNOWN;
use report::table::Table;
use serde_json::{Value, json};

/// Largest ratio of the echo time to that of the best third-party Telnet pair.
const ECHO_GOAL: f64 = 0.90;
/// Largest ratio of both ends' processor time per key to the least processor time of a third-party
/// Telnet pair.
const CPU_GOAL: f64 = 0.80;
/// Largest time from the key that requests a screenful to its last byte, in milliseconds. The time
/// between the first and the last byte is not used: it is short if a program delays the first bytes
/// until the last ones are available.
const SCREENFUL_GOAL_MS: f64 = 1.5;
/// Largest ratio of the time of a screenful to that of inetutils.
const SCREENFUL_GOAL: f64 = 0.05;
/// Largest ratio of the time of a long text to that of inetutils.
const TRANSFER_GOAL: f64 = 0.90;
/// Largest ratio of the processor time of a long text to that of the bare connection (socat).
const TRANSFER_CPU_GOAL: f64 = 1.05;
/// Largest ratio of a time over plumb's own TCP/IP to the same time over the kernel's.
const TUN_GOAL: f64 = 1.30;

type Figure = fn(&Round) -> Option<u64>;

pub(super) fn create(
    paths: &[Path],
    measured: &[Rounds],
    amount: Amount,
    notes: Vec<String>,
) -> Report {
    Report {
        program_set: ProgramSet::Login,
        title: "bench login: from a key at one pseudo-terminal to its echo there, both ends".into(),
        sections: vec![section(measured, amount)],
        verdicts: verdicts(paths, measured),
        congestion: congestion(),
        notes,
    }
}

fn section(measured: &[Rounds], amount: Amount) -> Section {
    let heading = format!(
        "{} rounds of {} keys, {} screenfuls and {} MB, medians of the rounds",
        amount.rounds, amount.keys, amount.screenfuls, amount.megabytes
    );
    let mut table = Table::new()
        .text("client > server")
        .number("echo p50 (µs)")
        .number("p99 (µs)")
        .number("client (µs/key)")
        .number("server (µs/key)")
        .number("screen (ms)")
        .number("from Enter (ms)")
        .number("text (s)")
        .number("client CPU (s)")
        .number("server CPU (s)");
    for path in measured {
        let key_to_screen = |round: &Round| records::statistics::median(&round.key_to_screen_ns);
        table.row([
            path.label.clone(),
            micros(path.median_of(|round| round.echo(50))),
            micros(path.median_of(|round| round.echo(99))),
            micros(path.median_of(|round| round.client_ns_per_key)),
            micros(path.median_of(|round| round.server_ns_per_key)),
            millis(path.median_of(Round::screenful)),
            millis(path.median_of(key_to_screen)),
            seconds(path.median_of(Round::transfer_wall)),
            seconds(path.median_of(|round| round.transfer?.client_ns)),
            seconds(path.median_of(|round| round.transfer?.server_ns)),
        ]);
    }
    let paths: Vec<Value> = measured.iter().map(Rounds::to_json).collect();
    Section { heading, table, data: json!({ "paths": paths }) }
}

fn verdicts(paths: &[Path], measured: &[Rounds]) -> Vec<Verdict> {
    let Some(ours) = find(measured, PLUMB) else { return Vec::new() };
    let others: Vec<_> = measured
        .iter()
        .filter(|rounds| {
            paths.iter().any(|path| path.label == rounds.label && path.is_third_party_telnet())
        })
        .collect();
    let best = |figure: Figure| others.iter().copied().min_by_key(|path| sort_key(path, figure));
    let echo: Figure = |round| round.echo(50);
    let screen: Figure = |round| records::statistics::median(&round.key_to_screen_ns);
    let ms = ours.median_of(screen).map(|ns| ns as f64 / 1e6);
    let inetutils = find(measured, INETUTILS);
    let mut verdicts = vec![
        ratio("echo p50", ours, best(echo), echo, ECHO_GOAL),
        ratio(
            "processor time of a key, both ends",
            ours,
            best(Round::both_ns_per_key),
            Round::both_ns_per_key,
            CPU_GOAL,
        ),
        Verdict {
            what: format!("{PLUMB}, screenful from Enter"),
            goal: SCREENFUL_GOAL_MS,
            actual: ms,
            unit: " ms",
        },
        ratio("screenful from Enter", ours, inetutils, screen, SCREENFUL_GOAL),
        ratio("long text", ours, inetutils, Round::transfer_wall, TRANSFER_GOAL),
        ratio(
            "processor time of the long text, both ends",
            ours,
            find(measured, SOCAT),
            Round::transfer_both,
            TRANSFER_CPU_GOAL,
        ),
    ];
    if let Some(tun) = find(measured, PLUMB_ON_TUN) {
        verdicts.push(ratio("echo p50", tun, Some(ours), echo, TUN_GOAL));
        verdicts.push(ratio("long text", tun, Some(ours), Round::transfer_wall, TUN_GOAL));
    }
    verdicts
}

/// Returns the median of `figure` as a sort key: the smallest median first, unknown figures last.
fn sort_key(path: &Rounds, figure: Figure) -> u64 {
    path.median_of(figure).unwrap_or(u64::MAX)
}

fn find<'a>(measured: &'a [Rounds], label: &str) -> Option<&'a Rounds> {
    measured.iter().find(|path| path.label == label)
}

fn ratio(what: &str, path: &Rounds, peer: Option<&Rounds>, figure: Figure, goal: f64) -> Verdict {
    let ratio_to_peer = peer.and_then(|peer| path.ratio_to(peer, figure));
    let spread = ratio_to_peer
        .map_or_else(String::new, |ratio: Ratio| format!(" ({:.2}-{:.2})", ratio.min, ratio.max));
    let peer = peer.map_or(UNKNOWN, |peer| peer.label.as_str());
    Verdict {
        what: format!("{}, {what}, as a ratio to {peer}{spread}", path.label),
        goal,
        actual: ratio_to_peer.map(|ratio| ratio.median),
        unit: "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Transfer;

    fn path(label: &str, echo_ns: u64, wall_ns: u64) -> Rounds {
        let mut rounds = Rounds::new(label);
        let transfer = Transfer { wall_ns, client_ns: Some(1), server_ns: Some(2) };
        rounds.rounds.push(Round {
            echo_ns: vec![echo_ns],
            key_to_screen_ns: vec![1_000_000],
            transfer: Some(transfer),
            ..Round::default()
        });
        rounds
    }

    #[test]
    fn the_echo_is_compared_with_the_best_third_party_telnet() {
        let measured = [
            path(INETUTILS, 200, 100),
            path("busybox > busybox", 150, 90),
            path(PLUMB, 135, 80),
            path(SOCAT, 100, 50),
        ];
        let verdicts = verdicts(&Path::all(), &measured);
        assert_eq!(verdicts[0].actual, Some(0.9));
        assert!(verdicts[0].what.contains("ratio to busybox > busybox"));
        assert_eq!(verdicts[4].actual, Some(0.8));
    }

    #[test]
    fn a_missing_peer_leaves_its_goal_unknown() {
        let measured = [path(PLUMB, 135, 80), path(PLUMB_ON_TUN, 150, 80)];
        let verdicts = verdicts(&Path::all(), &measured);
        assert_eq!(verdicts[0].is_met(), None);
        assert_eq!(verdicts[2].is_met(), Some(true));
        assert_eq!(verdicts.last().unwrap().actual, Some(1.0));
    }
}
