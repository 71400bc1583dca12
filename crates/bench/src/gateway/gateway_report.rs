//! The tables of the benchmark, and the comparison with its goals.

use super::contender::Gateway;
use super::guest_traffic::{Bulk, EchoTimes, Operations};
use super::spread::{self, Spread};
use crate::benchmark_report::{Report, Section, Verdict};
use crate::conditions::ProgramSet;
use records::format::UNKNOWN;
use report::table::Table;
use serde_json::{Value, json};

/// Figures of one round. A missing figure was not measured, or its measurement failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) to_host: Option<Bulk>,
    pub(super) from_host: Option<Bulk>,
    pub(super) echo: Option<EchoTimes>,
    pub(super) connections: Option<Operations>,
    pub(super) datagrams: Option<Operations>,
}

/// All rounds of the kernel or of one gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) label: String,
    /// `None` for the kernel.
    pub(super) mtu_bytes: Option<u16>,
    pub(super) is_plumb: bool,
    pub(super) rounds: Vec<Figures>,
    /// Private memory before the first connection.
    pub(super) idle_bytes: Option<u64>,
    /// Private memory with idle connections.
    pub(super) busy_bytes: Option<u64>,
}

impl Measured {
    pub(super) fn kernel() -> Self {
        Self { label: "kernel loopback".to_owned(), ..Self::default() }
    }

    pub(super) fn of_gateway(gateway: &Gateway) -> Self {
        Self {
            label: gateway.label.clone(),
            mtu_bytes: Some(gateway.mtu_bytes),
            is_plumb: gateway.is_plumb(),
            idle_bytes: gateway.idle_bytes,
            ..Self::default()
        }
    }

    fn spread(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(figure))
    }

    /// Returns a figure as a ratio to that of `other` in the same round.
    fn ratio(
        &self,
        other: Option<&Self>,
        figure: impl Fn(&Figures) -> Option<f64>,
    ) -> Option<Spread> {
        let pairs = self.rounds.iter().zip(&other?.rounds);
        Spread::of(pairs.map(|(own, other)| Some(figure(own)? / figure(other)?)))
    }
}

/// Returns the tables of one placement of the programs.
pub(super) fn sections(place: &str, all: &[Measured]) -> Vec<Section> {
    vec![
        bulk_section("to", |figures| figures.to_host, place, all),
        bulk_section("from", |figures| figures.from_host, place, all),
        connections_section(place, all),
        datagrams_section(place, all),
    ]
}

fn bulk_section(
    direction: &str,
    bulk: fn(&Figures) -> Option<Bulk>,
    place: &str,
    all: &[Measured],
) -> Section {
    let mut table = Table::new().text("gateway");
    for column in ["Gbit/s", "x kernel", "gateway (s/Gbit)", "all (s/Gbit)"] {
        table = table.number(column);
    }
    let rate = |figures: &Figures| Some(bulk(figures)?.gbit_per_s);
    for measured in all {
        let gateway = measured.spread(|figures| Some(bulk(figures)?.gateway_s_per_gbit));
        let all_programs = measured.spread(|figures| Some(bulk(figures)?.all_s_per_gbit));
        table.row([
            measured.label.clone(),
            spread::text(measured.spread(rate), 1.0, 2),
            spread::text(measured.ratio(all.first(), rate), 1.0, 2),
            spread::text(gateway.filter(|_| measured.mtu_bytes.is_some()), 1.0, 3),
            spread::text(all_programs, 1.0, 3),
        ]);
    }
    let data = all.iter().map(|measured| {
        let round = |figures: &Figures| {
            bulk(figures).map(|bulk| {
                json!({
                    "gbit_per_s": bulk.gbit_per_s,
                    "gateway_s_per_gbit": bulk.gateway_s_per_gbit,
                    "all_s_per_gbit": bulk.all_s_per_gbit,
                })
            })
        };
        let rounds: Vec<_> = measured.rounds.iter().map(round).collect();
        json!({ "gateway": measured.label, "rounds": rounds })
    });
    let heading = format!("bulk stream {direction} the host, {place}; median (least-greatest)");
    Section { heading, table, data: data.collect() }
}

fn connections_section(place: &str, all: &[Measured]) -> Section {
    let mut table = Table::new().text("gateway");
    for column in
        ["echo p50 (µs)", "x kernel", "echo p99 (µs)", "connections/s", "per gateway second"]
    {
        table = table.number(column);
    }
    let mut data = Vec::new();
    for measured in all.iter().filter(|measured| measured.mtu_bytes.is_none_or(is_small)) {
        let p50 = |figures: &Figures| Some(figures.echo?.p50_ns);
        let echo = measured.spread(p50);
        let p99 = measured.spread(|figures| Some(figures.echo?.p99_ns));
        let rate = measured.spread(|figures| Some(figures.connections?.per_s));
        let per_gateway_s = measured.spread(connections_per_gateway_s);
        table.row([
            measured.label.clone(),
            spread::text(echo, 1e3, 0),
            spread::text(measured.ratio(all.first(), p50), 1.0, 2),
            spread::text(p99, 1e3, 0),
            spread::text(rate, 1.0, 0),
            spread::text(per_gateway_s, 1.0, 0),
        ]);
        data.push(json!({
            "gateway": measured.label,
            "echo_p50_ns": echo.map(Spread::to_json),
            "echo_p99_ns": p99.map(Spread::to_json),
            "connections_per_s": rate.map(Spread::to_json),
            "connections_per_gateway_s": per_gateway_s.map(Spread::to_json),
        }));
    }
    let heading = format!("echoes of one byte, and connections one after another, {place}");
    Section { heading, table, data: Value::Array(data) }
}

fn datagrams_section(place: &str, all: &[Measured]) -> Section {
    let mut table = Table::new().text("gateway");
    for column in ["datagrams/s", "per gateway second", "memory (kB)", "with 1,000 flows (kB)"] {
        table = table.number(column);
    }
    let kilobytes = |bytes: Option<u64>| {
        bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| (bytes / 1024).to_string())
    };
    let mut data = Vec::new();
    for measured in all {
        let rate = measured.spread(|figures| Some(figures.datagrams?.per_s));
        let per_gateway_s = measured.spread(datagrams_per_gateway_s);
        table.row([
            measured.label.clone(),
            spread::text(rate, 1.0, 0),
            spread::text(per_gateway_s, 1.0, 0),
            kilobytes(measured.idle_bytes),
            kilobytes(measured.busy_bytes),
        ]);
        data.push(json!({
            "gateway": measured.label,
            "datagrams_per_s": rate.map(Spread::to_json),
            "datagrams_per_gateway_s": per_gateway_s.map(Spread::to_json),
            "idle_bytes": measured.idle_bytes,
            "bytes_with_1000_flows": measured.busy_bytes,
        }));
    }
    let heading = format!("datagrams of 1 KiB, and private memory, {place}");
    Section { heading, table, data: Value::Array(data) }
}

/// Returns whether a guest has the usual MTU of Ethernet.
fn is_small(mtu_bytes: u16) -> bool {
    mtu_bytes == 1500
}

fn connections_per_gateway_s(figures: &Figures) -> Option<f64> {
    Some(figures.connections?.per_gateway_s)
}

fn datagrams_per_gateway_s(figures: &Figures) -> Option<f64> {
    Some(figures.datagrams?.per_gateway_s)
}

/// Returns the comparisons of plumb with its goals. There are none without plumb.
pub(super) fn verdicts(place: &str, all: &[Measured]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for plumb in all.iter().filter(|measured| measured.is_plumb) {
        let is_small = plumb.mtu_bytes.is_some_and(is_small);
        let kernel = all.first();
        let peers = all.iter().filter(|other| {
            !other.is_plumb && other.mtu_bytes.is_some() && other.mtu_bytes == plumb.mtu_bytes
        });
        let best = |figure: fn(&Figures) -> Option<f64>| {
            let best = peers.clone().filter_map(|peer| Some(peer.spread(figure)?.median));
            let best = best.max_by(f64::total_cmp)?;
            Some(best / plumb.spread(figure)?.median)
        };
        let inverse =
            |figure: fn(&Figures) -> Option<f64>| Some(1.0 / plumb.ratio(kernel, figure)?.median);
        let median = |figure: fn(&Figures) -> Option<f64>| Some(plumb.spread(figure)?.median);
        let megabytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e6);
        let mut add = |what: &str, goal: f64, actual: Option<f64>, unit: &'static str| {
            let what = format!("{}, {place}: {what}", plumb.label);
            verdicts.push(Verdict { what, goal, actual, unit });
        };
        let [to_goal, from_goal] = if is_small { [0.40, 0.40] } else { [0.50, 0.45] };
        let to = |figures: &Figures| Some(figures.to_host?.gbit_per_s);
        let from = |figures: &Figures| Some(figures.from_host?.gbit_per_s);
        add("kernel's rate to the host / plumb's", 1.0 / to_goal, inverse(to), "");
        add("kernel's rate from the host / plumb's", 1.0 / from_goal, inverse(from), "");
        if !is_small {
            continue;
        }
        let to = |figures: &Figures| Some(figures.to_host?.gateway_s_per_gbit);
        let from = |figures: &Figures| Some(figures.from_host?.gateway_s_per_gbit);
        add("gateway's processor time to the host", 0.05, median(to), " s/Gbit");
        add("gateway's processor time from the host", 0.05, median(from), " s/Gbit");
        let echo = plumb.ratio(kernel, |figures| Some(figures.echo?.p50_ns));
        add("echo p50 / kernel's", 2.0, echo.map(|echo| echo.median), "");
        let connections = best(connections_per_gateway_s);
        add("best peer's connections per gateway second / plumb's", 0.5, connections, "");
        let datagrams = best(datagrams_per_gateway_s);
        add("best peer's datagrams per gateway second / plumb's", 0.5, datagrams, "");
        add("private memory, idle", 3.0, megabytes(plumb.idle_bytes), " MB");
        add("private memory with 1,000 flows", 16.0, megabytes(plumb.busy_bytes), " MB");
    }
    verdicts
}

/// Returns the report.
pub(super) fn report(
    sections: Vec<Section>,
    verdicts: Vec<Verdict>,
    notes: Vec<String>,
    (rounds, congestion): (usize, &str),
) -> Report {
    Report {
        title: format!("bench gateway: gateways of network namespaces, {rounds} rounds"),
        program_set: ProgramSet::Gateway,
        sections,
        verdicts,
        congestion: format!("{congestion}, the default of all namespaces"),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(label: &str, mtu_bytes: Option<u16>, gbit_per_s: f64) -> Measured {
        let bulk = Bulk { gbit_per_s, gateway_s_per_gbit: 0.1, all_s_per_gbit: 0.2 };
        let connections = Operations { per_s: 100.0, per_gateway_s: 1000.0 * gbit_per_s };
        let figures = Figures {
            to_host: Some(bulk),
            from_host: Some(bulk),
            connections: Some(connections),
            ..Figures::default()
        };
        let is_plumb = label == "plumb";
        Measured {
            label: label.into(),
            mtu_bytes,
            is_plumb,
            rounds: vec![figures; 3],
            ..Measured::default()
        }
    }

    #[test]
    fn goals_are_compared_with_the_kernel_and_the_best_peer() {
        let all = [
            measured("kernel", None, 10.0),
            measured("slow", Some(1500), 1.0),
            measured("fast", Some(1500), 2.0),
            measured("plumb", Some(1500), 5.0),
        ];
        let verdicts = verdicts("here", &all);
        let actual = |what: &str| {
            verdicts.iter().find(|verdict| verdict.what.contains(what)).unwrap().actual
        };
        assert_eq!(actual("rate to the host"), Some(2.0));
        assert_eq!(actual("connections per gateway second"), Some(0.4));
        assert_eq!(actual("echo p50"), None);
    }

    #[test]
    fn the_kernel_has_no_gateway_time_and_missing_figures_are_dashes() {
        let table = bulk_section(
            "to",
            |figures| figures.to_host,
            "here",
            &[measured("kernel", None, 10.0)],
        )
        .table;
        assert_eq!(table.rows()[0][1], "10.00 (10.00-10.00)");
        assert_eq!(table.rows()[0][3], UNKNOWN);
    }
}
