//! `bench goodput`: bulk transfers of plumb's TCP in the simulator, compared with published figures
//! of a peer.
//!
//! Everything runs in virtual time and depends only on seeds, so every machine produces the same
//! figures under any load. The peer's figures are those that smoltcp stores with the test that
//! generates them (its `tests/snapshots/netsim__netsim.snap`), for the same path and buffers.

use anyhow::{Context, Result, bail};
use net::time::Duration;
use net::transport::tcp::Congestion;
use records::format::UNKNOWN;
use report::table::{Table, wrap};
use serde_json::{Value, json};
use simulator::goodput::{Failure, Outcome, Trial};
use std::fmt::Write as _;
use std::io::Write as _;

pub(super) const USAGE: &str = "\
usage: ./x bench goodput [--seeds N] [--json]

  --seeds N      runs of each trial, over which medians are taken (default 3, from 1 to 1000)
  --json         print all data as JSON instead of tables";

const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Simulated loss rates in parts per million.
const LOSSES_PPM: [u32; 5] = [0, 10_000, 50_000, 100_000, 300_000];
const BUFFERS_KIB: [usize; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
const FLOWS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Lowest Jain index of flows with equal round-trip times. The times differ only enough to
/// desynchronize the flows, and the transfers are long enough to converge.
const FAIRNESS_GOAL: f64 = 0.98;
const SIMILAR_RTTS: [Duration; 2] = [Duration::from_millis(95), Duration::from_millis(105)];
const SIMILAR_RTT_FLOW_BYTES: u64 = 16 << 20;
/// Shortest and longest round-trip time of the flows in smoltcp's simulation.
const DIFFERENT_RTTS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(150)];
const DIFFERENT_RTT_FLOW_BYTES: u64 = 2 << 20;
/// smoltcp's bytes per second and fairness, by the number of flows.
const SMOLTCP_FLOWS: [(usize, f64, f64); 5] = [
    (2, 6_966.98, 0.9999),
    (4, 12_848.40, 0.9997),
    (16, 52_408.19, 0.9913),
    (32, 94_342.76, 0.9759),
    (64, 167_823.63, 0.9866),
];

/// smoltcp's bytes per second, by buffer size and loss rate.
const SMOLTCP_GOODPUT: [[f64; 5]; 4] = [
    [35_062.41, 26_937.41, 14_073.67, 7_870.66, 401.79],
    [77_374.28, 58_490.74, 29_421.45, 15_515.23, 710.80],
    [161_842.28, 127_090.53, 55_319.33, 27_269.28, 1_277.32],
    [322_944.88, 219_670.76, 76_626.48, 37_774.62, 1_156.40],
];

/// Returns the required ratio to smoltcp's figure: 1.5 at loss rates of 1 to 10 %, where loss
/// recovery determines the rate, and 1.0 at other loss rates. The ratio is also 1.0 if one buffer
/// per round trip does not exceed 1.5 times smoltcp's figure.
fn required_ratio(loss_ppm: u32, buffer_bytes: usize, peer: f64) -> f64 {
    let max_bytes_per_second = buffer_bytes as f64 / ROUND_TRIP.as_secs_f64();
    let is_recovery_limited = (10_000..=100_000).contains(&loss_ppm);
    if is_recovery_limited && 1.5 * peer < max_bytes_per_second { 1.5 } else { 1.0 }
}

/// The runs of one trial, one per seed.
#[derive(Debug)]
struct Runs {
    outcomes: Vec<Result<Outcome, Failure>>,
}

impl Runs {
    fn run(seeds: u64, trial: impl Fn(u64) -> Trial) -> Self {
        Self { outcomes: (1..=seeds).map(|seed| trial(seed).run()).collect() }
    }

    /// Returns the median; a failed run counts as the worst.
    fn median(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
        let figure = |outcome: &Result<Outcome, Failure>| outcome.as_ref().map_or(0.0, &figure);
        let mut figures: Vec<f64> = self.outcomes.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        records::statistics::nearest_rank(&figures, 50).copied().unwrap_or(0.0)
    }

    /// Returns the number of failed runs, and the first failure.
    fn failure(&self) -> Option<String> {
        let numbered_outcomes = (1..).zip(&self.outcomes);
        let mut failed =
            numbered_outcomes.filter_map(|(seed, outcome)| Some((seed, outcome.as_ref().err()?)));
        let (seed, failure) = failed.next()?;
        let count = failed.count() + 1;
        let all = self.outcomes.len();
        Some(format!("{count} of {all} runs failed; seed {seed}: {failure}"))
    }
}

#[derive(Debug, Default)]
struct Report {
    text: String,
    data: Vec<Value>,
    missed_goals: usize,
    compared_goals: usize,
    notes: Vec<String>,
}

/// Runs all trials and prints the tables.
pub(super) fn run(arguments: &[&str]) -> Result<()> {
    let mut seeds = 3;
    let mut as_json = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--json" => as_json = true,
            "--seeds" => {
                let number = words.next().and_then(|word| word.parse().ok());
                let number = number.filter(|number| (1..=1000).contains(number));
                seeds = number
                    .with_context(|| format!("--seeds needs a number from 1 to 1000\n{USAGE}"))?;
            }
            _ => bail!("unknown argument '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    let mut report = Report::default();
    report.measure_losses(seeds, "CUBIC", Congestion::Cubic);
    report.measure_losses(seeds, "BBR", Congestion::Bbr);
    report.measure_similar_rtts(seeds);
    report.measure_different_rtts(seeds);
    let text = if as_json {
        format!("{:#}\n", json!({ "title": TITLE, "seeds": seeds, "data": report.data }))
    } else {
        report.finish(seeds)
    };
    std::io::stdout().write_all(text.as_bytes()).context("the report cannot be written")
}

const TITLE: &str = "bench goodput: rate of bulk transfers in virtual time";
/// Width of the tables in columns.
const WIDTH: usize = 110;

impl Report {
    fn measure_losses(&mut self, seeds: u64, name: &str, congestion: Congestion) {
        let mut table = Table::new().number("buffers");
        for loss_ppm in LOSSES_PPM {
            table = table.number(&format!("{} % lost", loss_ppm / 10_000)).number("x smoltcp");
        }
        for (row, buffer_kib) in BUFFERS_KIB.into_iter().enumerate() {
            let mut cells = vec![format!("{buffer_kib} KiB")];
            for (column, loss_ppm) in LOSSES_PPM.into_iter().enumerate() {
                let trial = |seed| Trial {
                    congestion,
                    ..Trial::lossy(ROUND_TRIP, loss_ppm, buffer_kib << 10, seed)
                };
                let runs = Runs::run(seeds, trial);
                let peer = SMOLTCP_GOODPUT.get(row).and_then(|row| row.get(column)).copied();
                let what = format!("{name}, {buffer_kib} KiB, {} % lost", loss_ppm / 10_000);
                let goodput = runs.median(Outcome::goodput);
                cells.push(format!("{goodput:.0}"));
                let required_ratio =
                    required_ratio(loss_ppm, buffer_kib << 10, peer.unwrap_or(0.0));
                cells.push(self.compare(&what, goodput, peer, required_ratio));
                self.add_note(&what, &runs);
            }
            table.row(cells);
        }
        let heading = format!(
            "{name}, 10 MiB over a round trip of 100 ms: bytes per second; ! is a goal missed \
             (smoltcp's figure; 1.5 times at 1 to 10 %, if a buffer a round trip is that much)"
        );
        self.add_table(&heading, &table);
    }

    fn compare(
        &mut self,
        what: &str,
        goodput: f64,
        peer: Option<f64>,
        required_ratio: f64,
    ) -> String {
        let ratio = peer.map(|peer| goodput / peer);
        let is_met = ratio.map(|ratio| ratio >= required_ratio);
        self.data.push(json!({
            "what": what,
            "bytes_per_second": goodput,
            "smoltcp_bytes_per_second": peer,
            "ratio": ratio,
            "goal_at_least": required_ratio,
            "is_met": is_met,
        }));
        self.count(is_met);
        let mark = if is_met == Some(false) { "!" } else { "" };
        ratio.map_or_else(|| UNKNOWN.to_owned(), |ratio| format!("{ratio:.2}{mark}"))
    }

    /// Measures flows with almost equal round-trip times, and judges their fairness.
    fn measure_similar_rtts(&mut self, seeds: u64) {
        let mut table = flows_table().number("fairness");
        for flows in FLOWS {
            let runs = Runs::run(seeds, |seed| {
                Trial::shared(flows, SIMILAR_RTTS, SIMILAR_RTT_FLOW_BYTES, seed)
            });
            let fairness = runs.median(Outcome::fairness);
            let is_met = fairness >= FAIRNESS_GOAL;
            let mark = if is_met { "" } else { "!" };
            let mut cells = self.flow_cells(flows, &runs, Some(FAIRNESS_GOAL));
            cells.push(format!("{fairness:.4}{mark}"));
            table.row(cells);
            self.count(Some(is_met));
        }
        let heading = "flows of 16 MiB through one link: 200 Mbit/s, a queue of 64 KiB, round trips \
                       of 95 to 105 ms, buffers of 256 KiB; fairness is Jain's, goal 0.98";
        self.add_table(heading, &table);
    }

    /// Measures flows like those of smoltcp's simulation, and lists smoltcp's figures beside the
    /// results.
    fn measure_different_rtts(&mut self, seeds: u64) {
        let mut table =
            flows_table().number("fairness").number("smoltcp, all").number("smoltcp, fairness");
        for (flows, peer_rate, peer_fairness) in SMOLTCP_FLOWS {
            let runs = Runs::run(seeds, |seed| {
                Trial::shared(flows, DIFFERENT_RTTS, DIFFERENT_RTT_FLOW_BYTES, seed)
            });
            let mut cells = self.flow_cells(flows, &runs, None);
            cells.push(format!("{:.4}", runs.median(Outcome::fairness)));
            cells.extend([format!("{peer_rate:.0}"), format!("{peer_fairness:.4}")]);
            table.row(cells);
        }
        let heading = "as in smoltcp's simulation: flows of 2 MiB, round trips of 50 to 150 ms, other \
                       parameters as above; no goal: flows with a shorter round trip are faster";
        self.add_table(heading, &table);
    }

    fn flow_cells(&mut self, flows: usize, runs: &Runs, goal: Option<f64>) -> Vec<String> {
        let rate = |bytes: Option<&u64>, outcome: &Outcome| {
            bytes.map_or(0.0, |bytes| *bytes as f64 / outcome.elapsed.as_secs_f64())
        };
        let goodput = runs.median(Outcome::goodput);
        let fairness = runs.median(Outcome::fairness);
        let dropped = runs
            .median(|outcome| outcome.dropped as f64 / (outcome.carried + outcome.dropped) as f64);
        let what = format!("{flows} flows{}", if goal.is_some() { "" } else { " as smoltcp's" });
        self.data.push(json!({
            "what": what,
            "bytes_per_second": goodput,
            "dropped_share": dropped,
            "fairness": fairness,
            "goal_at_least": goal,
            "is_met": goal.map(|goal| fairness >= goal),
        }));
        self.add_note(&what, runs);
        vec![
            flows.to_string(),
            format!("{goodput:.0}"),
            format!("{:.0}", runs.median(|o| rate(o.received.iter().min(), o))),
            format!("{:.0}", runs.median(|o| rate(o.received.iter().max(), o))),
            format!("{:.2} %", dropped * 100.0),
        ]
    }

    fn count(&mut self, is_met: Option<bool>) {
        self.compared_goals += usize::from(is_met.is_some());
        self.missed_goals += usize::from(is_met == Some(false));
    }

    fn add_note(&mut self, what: &str, runs: &Runs) {
        self.notes.extend(runs.failure().map(|failure| format!("{what}: {failure}")));
    }

    fn add_table(&mut self, heading: &str, table: &Table) {
        for line in wrap(heading, WIDTH) {
            // Writing to a String cannot fail.
            _ = writeln!(self.text, "{line}");
        }
        _ = write!(self.text, "\n{}\n", table.render(WIDTH));
    }

    fn finish(self, seeds: u64) -> String {
        let mut text = format!("{TITLE}; medians of {seeds} seeds\n\n{}", self.text);
        for line in self.notes.iter().flat_map(|note| wrap(note, WIDTH)) {
            _ = writeln!(text, "{line}");
        }
        _ = writeln!(
            text,
            "{} of {} goals are met",
            self.compared_goals - self.missed_goals,
            self.compared_goals
        );
        text
    }
}

fn flows_table() -> Table {
    let table = Table::new().number("flows").number("all (bytes/s)").number("slowest");
    table.number("fastest").number("dropped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_compared_only_if_the_peer_has_a_figure() {
        let mut report = Report::default();
        assert_eq!(report.compare("a", 150.0, Some(100.0), 1.5), "1.50");
        assert_eq!(report.compare("b", 149.0, Some(100.0), 1.5), "1.49!");
        assert_eq!(report.compare("c", 1.0, None, 1.5), UNKNOWN);
        assert_eq!((report.compared_goals, report.missed_goals), (2, 1));
    }

    #[test]
    fn a_failed_run_counts_as_zero() {
        let outcome = |bytes| Outcome {
            elapsed: Duration::from_secs(1),
            received: vec![bytes],
            carried: 1,
            dropped: 0,
        };
        let runs = Runs { outcomes: vec![Ok(outcome(9)), Err(Failure::TooLong), Ok(outcome(5))] };
        assert_eq!(runs.median(Outcome::goodput), 5.0);
        assert!(runs.failure().unwrap().starts_with("1 of 3 runs failed; seed 2: "));
    }

    #[test]
    fn the_goal_is_higher_where_recovery_matters_and_is_possible() {
        assert_eq!(
            LOSSES_PPM.map(|loss| required_ratio(loss, 32_768, 1_000.0)),
            [1.0, 1.5, 1.5, 1.5, 1.0]
        );
        // 1.5 times 219,671 bytes per second exceed 32 KiB per round trip.
        assert_eq!(required_ratio(10_000, 32_768, 219_670.76), 1.0);
    }
}
