//! `bench flood`: the delay of ^C while a program floods a slow display.
//!
//! The shell runs `yes`; the driver reads the pseudo-terminal at a limited rate, types ^C after a
//! while, and continues to read at that rate until the prompt. Most of the time passes while
//! buffered output is displayed, so each client is compared with inetutils telnet at the same
//! server.

use super::congestion::congestion;
use super::harness::Harness;
use super::path::{INETUTILS, PLUMB, PLUMB_ON_TUN, Path};
use crate::benchmark_report::{Report, Section, Verdict};
use crate::conditions::{Conditions, ProgramSet};
use crate::driver::Session;
use crate::typing::Amount;
use anyhow::{Context, Result, ensure};
use net::time::Duration;
use records::statistics::median;
use report::table::Table;
use serde_json::json;
use std::io::{self, Write};

/// Rates of the display, in bytes per second.
const RATES: [u64; 6] = [50_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];
/// Duration of the flood before ^C.
const FLOOD_TIME: Duration = Duration::from_secs(2);
/// Time after which the interrupt counts as ineffective; at 50 KB/s it corresponds to 6 MB of
/// buffers.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(120);
/// Largest accepted delay in excess of that of inetutils telnet, in milliseconds.
const GOAL_MS: u64 = 200;

/// Label of each path (client and server), and the label of the path with which it is compared.
const PATHS: [(&str, Option<&str>); 6] = [
    (INETUTILS, None),
    ("plumb > inetutils", Some(INETUTILS)),
    ("inetutils > plumb", None),
    (PLUMB, Some("inetutils > plumb")),
    (PLUMB_ON_TUN, Some("inetutils > plumb")),
    ("plumb > plumb, TLS", Some("inetutils > plumb")),
];

/// Times of one path at one rate, in milliseconds; `None` where ^C had no effect.
struct Measured {
    label: &'static str,
    rate: u64,
    rounds_ms: Vec<Option<u64>>,
}

impl Measured {
    /// Returns the median; an interrupt without effect counts as [`INTERRUPT_LIMIT`].
    fn median_ms(&self) -> Option<u64> {
        let times: Vec<u64> =
            self.rounds_ms.iter().map(|time| time.unwrap_or(limit_ms())).collect();
        median(&times)
    }

    fn text(&self) -> String {
        match self.median_ms() {
            Some(time) if time < limit_ms() => format!("{time}"),
            Some(_) => "never".to_owned(),
            None => records::format::UNKNOWN.to_owned(),
        }
    }
}

fn limit_ms() -> u64 {
    u64::try_from(INTERRUPT_LIMIT.as_millis()).unwrap_or(u64::MAX)
}

/// Measures the paths whose label contains one of `filters`, or all paths if `filters` is empty.
/// The display rates are those from `slowest` on, in bytes per second; at each rate the paths are
/// interleaved.
pub(crate) fn run(
    conditions: &Conditions,
    amount: Amount,
    filters: &[String],
    slowest: u64,
) -> Result<Report> {
    let mut harness = Harness::new(conditions.pinning())?;
    let mut paths = Vec::new();
    let mut notes = Vec::new();
    for path in Path::all() {
        let is_wanted =
            filters.is_empty() || filters.iter().any(|filter| path.label.contains(filter));
        if !is_wanted || !PATHS.iter().any(|(label, _)| *label == path.label) {
            continue;
        }
        match harness.prepare(&path) {
            Ok(()) => paths.push(path),
            Err(error) => notes.push(format!("Left out: {}: {error:#}.", path.label)),
        }
    }
    ensure!(!paths.is_empty(), "no path can be measured: {}", notes.join(" "));
    let mut measured: Vec<Measured> = Vec::new();
    for rate in RATES.into_iter().filter(|rate| *rate >= slowest) {
        for path in &paths {
            measured.push(Measured { label: path.label, rate, rounds_ms: Vec::new() });
        }
        for _ in 0..amount.rounds {
            for path in &paths {
                let session = harness.open(path);
                let session = session.with_context(|| format!("cannot log in: {}", path.label))?;
                let time = interrupt(session, rate)?;
                let entry =
                    measured.iter_mut().find(|it| it.label == path.label && it.rate == rate);
                if let Some(entry) = entry {
                    entry.rounds_ms.push(time);
                }
            }
        }
        _ = writeln!(io::stderr(), "{} KB/s done", rate / 1000);
    }
    Ok(report(&paths, &measured, amount, notes))
}

/// Returns the milliseconds from ^C to the prompt; `None` if the prompt does not arrive.
fn interrupt(mut session: Session, rate: u64) -> Result<Option<u64>> {
    session.begin_flood()?;
    session.read_slowly(rate, FLOOD_TIME, false)?;
    let time = session.interrupt(rate, INTERRUPT_LIMIT)?;
    Ok(time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

fn report(paths: &[Path], measured: &[Measured], amount: Amount, notes: Vec<String>) -> Report {
    let mut table = Table::new().number("display (KB/s)");
    for path in paths {
        table = table.number(path.label);
    }
    for rate in RATES.into_iter().filter(|rate| measured.iter().any(|it| it.rate == *rate)) {
        let at = measured.iter().filter(|it| it.rate == rate);
        let cells = std::iter::once((rate / 1000).to_string()).chain(at.map(Measured::text));
        table.row(cells.collect::<Vec<_>>());
    }
    let data = measured.iter().map(
        |it| json!({ "path": it.label, "bytes_per_second": it.rate, "milliseconds": it.rounds_ms }),
    );
    let data = json!(data.collect::<Vec<_>>());
    let heading =
        format!("milliseconds from ^C to the prompt, medians of {} rounds", amount.rounds);
    Report {
        title: "bench flood: ^C while `yes` floods a slow display".into(),
        program_set: ProgramSet::Login,
        sections: vec![Section { heading, table, data }],
        verdicts: verdicts(measured),
        congestion: congestion(),
        notes,
    }
}

fn verdicts(measured: &[Measured]) -> Vec<Verdict> {
    let find = |label: &str, rate| measured.iter().find(|it| it.label == label && it.rate == rate);
    let mut verdicts = Vec::new();
    for ours in measured {
        let peer = PATHS.iter().find(|(label, _)| *label == ours.label).and_then(|(_, peer)| *peer);
        let Some(theirs) = peer.and_then(|peer| find(peer, ours.rate)) else { continue };
        // An ineffective interrupt meets no goal, even if the peer's interrupt is ineffective too.
        let goal = (theirs.median_ms().unwrap_or(0) + GOAL_MS).min(limit_ms() - 1);
        verdicts.push(Verdict {
            what: format!("{} at {} KB/s", ours.label, ours.rate / 1000),
            goal: goal as f64,
            actual: ours.median_ms().map(|time| time as f64),
            unit: " ms",
        });
    }
    verdicts
}
