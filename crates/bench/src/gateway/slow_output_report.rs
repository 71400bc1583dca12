//! Measurements and tables of outputs that are slower than their gateway.

use super::contender::GatewayKind;
use super::serial_lines::{self, SerialLines};
use super::shared_rate_guests::{self, SharedRate};
use super::spread::{self, Spread};
use crate::benchmark_report::{Section, Verdict};
use net::time::Duration;
use report::table::Table;
use serde_json::json;

/// Duration of one measurement.
const DURATION: Duration = Duration::from_secs(8);

/// All rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowOutputs {
    shared: Vec<(String, Vec<SharedRate>)>,
    lines: Vec<SerialLines>,
}

/// Measures each gateway. A failed measurement is noted, and its figures are missing.
pub(super) fn measure(
    kinds: &[GatewayKind],
    rounds: usize,
    notes: &mut Vec<String>,
) -> SlowOutputs {
    let mut all = SlowOutputs::default();
    for kind in kinds.iter().filter(|kind| **kind != GatewayKind::Pasta) {
        all.shared.push((kind.name().to_owned(), Vec::new()));
    }
    for _ in 0..rounds {
        for (name, measured) in &mut all.shared {
            let Some(kind) = kinds.iter().find(|kind| kind.name() == name) else { continue };
            match shared_rate_guests::measure(kind, DURATION) {
                Ok(figures) => measured.push(figures),
                Err(error) => notes.push(format!("{name}, 20 guests: {error:#}")),
            }
        }
        if kinds.iter().any(|kind| matches!(kind, GatewayKind::Plumb(_))) {
            match serial_lines::measure(DURATION) {
                Ok(figures) => all.lines.push(figures),
                Err(error) => notes.push(format!("plumb, serial lines: {error:#}")),
            }
        }
    }
    all
}

/// Returns the tables.
pub(super) fn sections(all: &SlowOutputs) -> Vec<Section> {
    vec![shared_section(all), lines_section(all)]
}

fn shared_section(all: &SlowOutputs) -> Section {
    let mut table = Table::new().text("gateway");
    for column in ["Jain index", "Mbit/s", "echo p50 (ms)", "echo p99 (ms)"] {
        table = table.number(column);
    }
    let mut data = Vec::new();
    for (name, rounds) in &all.shared {
        let spread = |figure: fn(&SharedRate) -> f64| {
            Spread::of(rounds.iter().map(|round| Some(figure(round))))
        };
        let jain = spread(|round| round.jain);
        let rate = spread(|round| round.mbit_per_s);
        let p50 = spread(|round| round.echo_p50_ns);
        let p99 = spread(|round| round.echo_p99_ns);
        table.row([
            name.clone(),
            spread::text(jain, 1.0, 3),
            spread::text(rate, 1.0, 2),
            spread::text(p50, 1e6, 2),
            spread::text(p99, 1e6, 2),
        ]);
        data.push(json!({
            "gateway": name,
            "jain": jain.map(Spread::to_json),
            "mbit_per_s": rate.map(Spread::to_json),
            "echo_p50_ns": p50.map(Spread::to_json),
            "echo_p99_ns": p99.map(Spread::to_json),
        }));
    }
    let heading = "20 guests at 10 Mbit/s: 19 with 50 downloads each, and echoes of a quiet one";
    Section { heading: heading.to_owned(), table, data: data.into() }
}

fn lines_section(all: &SlowOutputs) -> Section {
    let mut table = Table::new().text("gateway");
    for column in ["quiet hosts p99 (ms)", "uploading host p99 (ms)", "upload (kbit/s)"] {
        table = table.number(column);
    }
    let spread = |figure: fn(&SerialLines) -> f64| {
        Spread::of(all.lines.iter().map(|round| Some(figure(round))))
    };
    let quiet = spread(|round| round.quiet_p99_ns);
    let uploading = spread(|round| round.uploading_p99_ns);
    let upload = spread(|round| round.upload_bit_per_s);
    table.row([
        "plumb".to_owned(),
        spread::text(quiet, 1e6, 1),
        spread::text(uploading, 1e6, 1),
        spread::text(upload, 1e3, 1),
    ]);
    let data = json!({
        "quiet_p99_ns": quiet.map(Spread::to_json),
        "uploading_p99_ns": uploading.map(Spread::to_json),
        "upload_bit_per_s": upload.map(Spread::to_json),
    });
    let heading = "echoes over 4 serial lines of 115,200 bit/s while one host uploads";
    Section { heading: heading.to_owned(), table, data }
}

/// Returns the comparisons of plumb with its goals.
pub(super) fn verdicts(all: &SlowOutputs) -> Vec<Verdict> {
    let plumb = all.shared.iter().find(|(name, _)| name == "plumb");
    let Some((_, rounds)) = plumb else { return Vec::new() };
    let median = |figure: fn(&SharedRate) -> f64| {
        Spread::of(rounds.iter().map(|round| Some(figure(round)))).map(|spread| spread.median)
    };
    let line = |figure: fn(&SerialLines) -> f64| {
        let spread = Spread::of(all.lines.iter().map(|round| Some(figure(round))));
        spread.map(|spread| spread.median / 1e6)
    };
    let verdict = |what: &str, goal: f64, actual: Option<f64>, unit: &'static str| Verdict {
        what: format!("plumb: {what}"),
        goal,
        actual,
        unit,
    };
    let unfairness = median(|round| round.jain).map(|jain| 1.0 / jain);
    let p99 = median(|round| round.echo_p99_ns).map(|ns| ns / 1e6);
    let line_goal = 3.0 * serial_lines::packet_time_ns() / 1e6;
    vec![
        verdict("1 / Jain index of 19 guests", 1.0 / 0.98, unfairness, ""),
        verdict("echo p99 beside 19 busy guests", 5.0, p99, " ms"),
        verdict("echo p99 of quiet lines", line_goal, line(|l| l.quiet_p99_ns), " ms"),
        verdict("echo p99 of the uploading line", line_goal, line(|l| l.uploading_p99_ns), " ms"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_within_the_goals_meets_them() {
        let shared = SharedRate { jain: 0.99, mbit_per_s: 9.5, echo_p50_ns: 1e6, echo_p99_ns: 4e6 };
        let lines = SerialLines { quiet_p99_ns: 3e7, uploading_p99_ns: 2e8, upload_bit_per_s: 9e4 };
        let all =
            SlowOutputs { shared: vec![("plumb".to_owned(), vec![shared])], lines: vec![lines] };
        let met: Vec<_> = verdicts(&all).iter().map(Verdict::is_met).collect();
        assert_eq!(met, [Some(true), Some(true), Some(true), Some(false)]);
    }
}
