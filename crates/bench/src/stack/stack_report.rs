//! The report of `bench stack`: three tables of figures, and one of goals.

use super::amount::Amount;
use super::client;
use super::rounds::{
    Results, Round, cost_in, cost_out, echo_p50, echo_p99, rate_in, rate_out, spun_p50,
};
use super::server::Contender;
use crate::benchmark_report::{Report, Section};
use crate::conditions::ProgramSet;
use crate::rounds::{Ratio, micros};
use records::format::{UNKNOWN, count};
use report::table::Table;
use serde_json::{Value, json};

/// Results of all contenders.
struct Measured<'a> {
    all: Vec<(&'a Contender, &'a Results)>,
}

pub(super) fn report(
    contenders: &[Contender],
    results: &[Results],
    peer_notes: Vec<String>,
    amount: &Amount,
    rounds: usize,
) -> Report {
    let measured = Measured { all: contenders.iter().zip(results).collect() };
    let failed = measured.all.iter().flat_map(|(contender, results)| {
        results.failures.iter().map(|failure| format!("{}: {failure}", contender.name))
    });
    let method = format!(
        "{rounds} rounds, medians; a stream of {} ms after {} ms; {} echoes of one byte; x kernel \
         is the ratio to the kernel in the same round",
        amount.window.as_millis(),
        amount.warm_up.as_millis(),
        count(amount.echoes as u64),
    );
    Report {
        title: "bench stack: servers on several stacks, client on the kernel's".to_owned(),
        program_set: ProgramSet::Stack,
        sections: vec![
            measured.one_processor(&method),
            measured.two_processors(),
            measured.idle_connections(),
            measured.goals(),
        ],
        verdicts: Vec::new(),
        congestion: format!(
            "{} on the kernel's sockets; gVisor and smoltcp cubic, lwIP Reno (it has no other)",
            client::CONGESTION_CONTROL
        ),
        notes: peer_notes.into_iter().chain(failed).collect(),
    }
}

impl Measured<'_> {
    fn results_of(&self, name: &str) -> Option<&Results> {
        self.all.iter().find(|(contender, _)| contender.name == name).map(|(_, results)| *results)
    }

    fn kernel(&self) -> Results {
        self.results_of("kernel").cloned().unwrap_or_default()
    }

    fn one_processor(&self, method: &str) -> Section {
        let kernel = self.kernel();
        let mut table = Table::new()
            .text("server")
            .number("in (Gb/s)")
            .number("x kernel")
            .number("CPU (s/Gb)")
            .number("out (Gb/s)")
            .number("x kernel")
            .number("CPU (s/Gb)")
            .number("echo (µs)")
            .number("p99 (µs)")
            .number("x kernel");
        for (contender, results) in &self.all {
            table.row([
                contender.label.to_owned(),
                gigabits(results.median_of(rate_in)),
                ratio(results.ratio_to(&kernel, rate_in)),
                seconds(results.median_of(cost_in)),
                gigabits(results.median_of(rate_out)),
                ratio(results.ratio_to(&kernel, rate_out)),
                seconds(results.median_of(cost_out)),
                micros(results.median_of(echo_p50)),
                micros(results.median_of(echo_p99)),
                ratio(results.ratio_to(&kernel, echo_p50)),
            ]);
        }
        let data = self.all.iter().map(|(contender, results)| results.to_json(contender.name));
        Section {
            heading: format!("one processor for client and server; {method}"),
            table,
            data: Value::Array(data.collect()),
        }
    }

    fn two_processors(&self) -> Section {
        let kernel = self.kernel();
        let mut table = Table::new()
            .text("server")
            .number("least (µs)")
            .number("p50 (µs)")
            .number("p90 (µs)")
            .number("p99 (µs)")
            .number("p50 x kernel");
        for (contender, results) in self.all.iter().filter(|(contender, _)| contender.can_spin) {
            table.row([
                contender.label.to_owned(),
                micros(results.median_of(|round| Some(round.spun?.min_ns))),
                micros(results.median_of(spun_p50)),
                micros(results.median_of(|round| Some(round.spun?.p90_ns))),
                micros(results.median_of(|round| Some(round.spun?.p99_ns))),
                ratio(results.ratio_to(&kernel, spun_p50)),
            ]);
        }
        let heading = "an echo on two processors, where both ends poll and never sleep".to_owned();
        Section { heading, table, data: Value::Null }
    }

    fn idle_connections(&self) -> Section {
        let mut table = Table::new()
            .text("server")
            .number("connections")
            .number("RSS (MB)")
            .number("each (KB)")
            .number("call (µs)")
            .number("in turn (µs)")
            .number("on one (µs)");
        for (contender, results) in &self.all {
            for (index, step) in results.idle_connections.iter().enumerate() {
                let is_last = index + 1 == results.idle_connections.len();
                let bytes = results.bytes_per_connection().filter(|_| is_last);
                table.row([
                    if index == 0 { contender.label.to_owned() } else { String::new() },
                    count(step.connections as u64),
                    format!("{:.1}", step.resident_bytes as f64 / 1e6),
                    bytes.map_or_else(String::new, |bytes| format!("{:.2}", bytes / 1024.0)),
                    micros(Some(step.connect_ns)),
                    micros(Some(step.each_p50_ns)),
                    micros(Some(step.same_p50_ns)),
                ]);
            }
        }
        let heading =
            "idle connections, one processor, one round: median echoes on up to 1,000 of them in \
                       turn, and on a single one; RSS does not include the kernel's memory"
                .to_owned();
        Section { heading, table, data: Value::Null }
    }

    fn goals(&self) -> Section {
        let mut table =
            Table::new().text("figure").text("goal").number("ours").text("").text("best peer");
        let mut data = Vec::new();
        for goal in GOALS {
            let ours = self.results_of(goal.ours).and_then(|ours| (goal.figure)(self, ours));
            let best = self.best_peer(&goal);
            let bound = if goal.is_lower_bound { "at least" } else { "at most" };
            table.row([
                goal.what.to_owned(),
                format!("{bound} {}", goal.bound),
                ours.map_or_else(|| UNKNOWN.to_owned(), |ours| format!("{ours:.3}")),
                ours.map_or("not known", |ours| goal.verdict(ours)).to_owned(),
                best.map_or_else(|| UNKNOWN.to_owned(), |(name, best)| format!("{best:.3} {name}")),
            ]);
            data.push(json!({
                "what": goal.what,
                "is_at_least": goal.is_lower_bound,
                "goal": goal.bound,
                "found": ours,
                "is_met": ours.map(|ours| goal.verdict(ours) == "met"),
                "best_peer": best.map(|(name, _)| name),
                "best_peer_found": best.map(|(_, found)| found),
            }));
        }
        Section { heading: "the goals".to_owned(), table, data: Value::Array(data) }
    }

    /// Returns the peer with the best value of a figure, apart from the kernel and plumb.
    fn best_peer(&self, goal: &Goal) -> Option<(&str, f64)> {
        if goal.ours == "plumb-plain" {
            // This figure is already a comparison with a peer.
            return None;
        }
        let peers = self.all.iter().filter(|(contender, _)| {
            !contender.name.starts_with("plumb") && contender.name != "kernel"
        });
        let found = peers.filter_map(|(contender, results)| {
            Some((contender.name, (goal.figure)(self, results)?))
        });
        let sign = if goal.is_lower_bound { -1.0 } else { 1.0 };
        found.min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)))
    }

    /// Returns the better of smoltcp's two entries for one figure.
    fn smoltcp(&self, figure: fn(&Round) -> Option<u64>) -> Option<&Results> {
        let peers = self.all.iter().filter(|(contender, _)| contender.name.starts_with("smoltcp"));
        peers.map(|(_, results)| *results).max_by_key(|results| results.median_of(figure))
    }
}

/// A goal for one figure, or for one ratio of figures.
struct Goal {
    what: &'static str,
    bound: f64,
    is_lower_bound: bool,
    /// Name of the contender whose figure counts.
    ours: &'static str,
    figure: fn(&Measured<'_>, &Results) -> Option<f64>,
}

impl Goal {
    fn verdict(&self, found: f64) -> &'static str {
        let is_met = if self.is_lower_bound { found >= self.bound } else { found <= self.bound };
        if is_met { "met" } else { "missed" }
    }
}

/// Returns a figure as a ratio to the kernel's.
fn to_kernel(
    measured: &Measured<'_>,
    results: &Results,
    figure: fn(&Round) -> Option<u64>,
) -> Option<f64> {
    Some(results.ratio_to(&measured.kernel(), figure)?.median)
}

const GOALS: [Goal; 14] = [
    Goal {
        what: "bulk in, MTU 1500, x kernel",
        bound: 0.90,
        is_lower_bound: true,
        ours: "plumb-tun",
        figure: |all, one| to_kernel(all, one, rate_in),
    },
    Goal {
        what: "bulk out, MTU 1500, x kernel",
        bound: 0.90,
        is_lower_bound: true,
        ours: "plumb-tun",
        figure: |all, one| to_kernel(all, one, rate_out),
    },
    Goal {
        what: "CPU of both ends, in (s/Gbit)",
        bound: 0.023,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |_, one| Some(one.median_of(cost_in)? as f64 / 1e9),
    },
    Goal {
        what: "CPU of both ends, out (s/Gbit)",
        bound: 0.023,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |_, one| Some(one.median_of(cost_out)? as f64 / 1e9),
    },
    Goal {
        what: "plain TUN, in, x smoltcp",
        bound: 1.0,
        is_lower_bound: true,
        ours: "plumb-plain",
        figure: |all, one| Some(one.ratio_to(all.smoltcp(rate_in)?, rate_in)?.median),
    },
    Goal {
        what: "plain TUN, out, x smoltcp",
        bound: 1.0,
        is_lower_bound: true,
        ours: "plumb-plain",
        figure: |all, one| Some(one.ratio_to(all.smoltcp(rate_out)?, rate_out)?.median),
    },
    Goal {
        what: "echo p50, one processor, x kernel",
        bound: 0.82,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |all, one| to_kernel(all, one, echo_p50),
    },
    Goal {
        what: "echo p50, yielding before sleep, x kernel",
        bound: 0.82,
        is_lower_bound: false,
        ours: "plumb-yield",
        figure: |all, one| to_kernel(all, one, echo_p50),
    },
    Goal {
        what: "echo p99, one processor (µs)",
        bound: 18.0,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |_, one| Some(one.median_of(echo_p99)? as f64 / 1e3),
    },
    Goal {
        what: "echo p50, two spinning, x kernel",
        bound: 0.92,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |all, one| to_kernel(all, one, spun_p50),
    },
    Goal {
        what: "echo over all connections in turn, x one",
        bound: 1.2,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |_, one| one.growth(),
    },
    Goal {
        what: "echo on one of the most connections, x one",
        bound: 1.2,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |_, one| one.growth_of_same(),
    },
    Goal {
        what: "memory of an idle connection (KB)",
        bound: 1.0,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |_, one| Some(one.bytes_per_connection()? / 1024.0),
    },
    Goal {
        what: "echo p50, meters on, x meters off",
        bound: 1.03,
        is_lower_bound: false,
        ours: "plumb-tun",
        figure: |all, one| Some(one.ratio_to(all.results_of("plumb-unmetered")?, echo_p50)?.median),
    },
];

fn gigabits(bits_per_second: Option<u64>) -> String {
    in_billions(bits_per_second, 2)
}

fn seconds(ns: Option<u64>) -> String {
    in_billions(ns, 4)
}

fn in_billions(figure: Option<u64>, places: usize) -> String {
    let text = |figure: u64| format!("{:.places$}", figure as f64 / 1e9);
    figure.map_or_else(|| UNKNOWN.to_owned(), text)
}

fn ratio(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(|| UNKNOWN.to_owned(), |ratio| format!("{:.2}", ratio.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_bound_on_either_side() {
        assert_eq!(GOALS[0].verdict(0.90), "met");
        assert_eq!(GOALS[0].verdict(0.89), "missed");
        assert_eq!(GOALS[2].verdict(0.023), "met");
        assert_eq!(GOALS[2].verdict(0.024), "missed");
    }

    #[test]
    fn missing_measurements_are_dashes_in_every_table() {
        let measured = Measured { all: Vec::new() };
        let goals = measured.goals().table.render(110);
        assert!(goals.contains("not known") && goals.contains(UNKNOWN), "{goals}");
        assert!(measured.idle_connections().table.rows().is_empty());
    }
}
