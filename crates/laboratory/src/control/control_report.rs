//! Report of the control structure experiments, as text and as JSON.

use super::control_results::{ControlResults, RealTimeResult};
use super::empty::{BatchCost, EmptySwitch};
use super::of_1982;
use super::structure::ControlStructure;
use crate::comparison_tables;
use crate::paragraph::paragraph;
use crate::table::{Census, Origin};
use control::{Kind, Structure};
use records::format::UNKNOWN;
use report::table::Table;
use serde_json::{Value, json};

/// The machine on which the experiments in real time ran.
#[derive(Clone, Debug)]
pub struct MachineDescription {
    /// Processor model, if the machine states it.
    pub processor: Option<String>,
    /// Processor architecture.
    pub architecture: String,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Name of the counter that was read.
    pub clock_source: &'static str,
    /// Rate of the counter, in ticks per second.
    pub ticks_per_second: u64,
    /// Load averages over 1, 5 and 15 minutes, before and after the experiments.
    pub load: [Option<[f64; 3]>; 2],
}

/// Goal for a change of control between procedures, in nanoseconds.
const PROCEDURE_GOAL_NS: f64 = 5.0;
/// Goal for a change of control between tasks, in nanoseconds.
const TASK_GOAL_NS: f64 = 20.0;

const HEAD: &str = "The same protocol code runs with several control structures. The scheduler is \
                    the structure that plumb uses. The rings of procedures and tasks are those of \
                    TM-233; the rings of futures are added here. 'User sends' and the one-call \
                    switch are the improvements of section 7.1 of TM-233. The order of the steps \
                    and every byte on the line are the same with all structures. A time measured on \
                    this machine is an output. The times of 1982 in the same table are those of \
                    another machine, so no difference is computed.";

/// Returns all results as tables, each at most `width` columns wide.
#[must_use]
pub fn text(findings: &ControlResults, machine: &MachineDescription, width: usize) -> String {
    let mut text = paragraph(HEAD, width);
    let machine_text = format!(
        "{} ({}), {}; {} at {:.3} GHz; load {} before, {} after.{}",
        machine.processor.as_deref().unwrap_or(UNKNOWN),
        machine.architecture,
        machine.kernel,
        machine.clock_source,
        machine.ticks_per_second as f64 / 1e9,
        load(machine.load[0]),
        load(machine.load[1]),
        if cfg!(debug_assertions) {
            " Built without optimization: the times are not meaningful."
        } else {
            ""
        },
    );
    text.push_str(&paragraph(&machine_text, width));
    text.push('\n');
    text.push_str(&paragraph(&comparison_tables::census(&census(findings)), width));
    section(
        &mut text,
        "Cost of an empty change of control: two steps wake each other, both in the same code or \
         each in its own code",
        width,
    );
    text.push_str(&empty_table(&findings.empty).render(width));
    text.push('\n');
    text.push_str(&comparison_tables::table_text(
        &of_1982::table(&findings.of_1982),
        "1982",
        width,
    ));
    let title = "Two hosts in one process, without system calls: time that both hosts together need \
                 from a key until both are idle";
    section(&mut text, title, width);
    text.push_str(&real_table(&findings.in_process).render(width));
    section(&mut text, "Over a TUN: time from the kernel's socket to the station and back", width);
    match &findings.on_tun {
        Ok(real) => text.push_str(&real_table(real).render(width)),
        Err(why) => text.push_str(&paragraph(&format!("Not measured: {why}"), width)),
    }
    text.push('\n');
    for (subject, measured_ns, goal_ns) in verdicts(&findings.empty) {
        let verdict = if measured_ns <= goal_ns { "met" } else { "missed" };
        let sentence =
            format!("{subject}: {measured_ns:.1} ns, goal at most {goal_ns:.0} ns: {verdict}");
        text.push_str(&paragraph(&sentence, width));
    }
    text
}

/// Counts the rows by origin. Every row measured on this machine is an output; only the table in
/// virtual time is compared with the thesis.
fn census(findings: &ControlResults) -> Census {
    let in_virtual_time = Census::of(&[of_1982::table(&findings.of_1982)]);
    let on_tun = findings.on_tun.as_ref().map_or(0, Vec::len);
    let measured_rows = findings.empty.len() + findings.in_process.len() + on_tun;
    let [inputs, fits, outputs] = in_virtual_time.rows;
    Census { rows: [inputs, fits, outputs + measured_rows], ..in_virtual_time }
}

fn section(text: &mut String, title: &str, width: usize) {
    text.push('\n');
    text.push_str(&paragraph(title, width));
    text.push('\n');
}

fn load(averages: Option<[f64; 3]>) -> String {
    averages.map_or_else(
        || UNKNOWN.to_owned(),
        |[one, five, fifteen]| format!("{one:.1} {five:.1} {fifteen:.1}"),
    )
}

/// Returns the subject of each goal, the measured value and the goal, in nanoseconds.
fn verdicts(empty: &[EmptySwitch]) -> Vec<(String, f64, f64)> {
    let mut verdicts = Vec::new();
    for row in empty {
        let ControlStructure::Ring(Structure { kind, .. }) = row.structure else { continue };
        let goal = match kind {
            Kind::Procedures => PROCEDURE_GOAL_NS,
            Kind::Tasks(_) => TASK_GOAL_NS,
            Kind::Futures => continue,
        };
        for (code, batch_cost) in [("the same code", row.same), ("own code", row.own)] {
            verdicts.push((
                format!("{}, {code}", row.structure.name()),
                nanos(batch_cost.best_ps),
                goal,
            ));
        }
    }
    verdicts
}

fn nanos(picos: u64) -> f64 {
    picos as f64 / 1_000.0
}

fn empty_table(empty: &[EmptySwitch]) -> Table {
    let mut table = Table::new()
        .text("structure")
        .text("origin")
        .number("same code, best (ns)")
        .number("ticks")
        .number("median (ns)")
        .number("own code, best (ns)")
        .number("ticks")
        .number("median (ns)")
        .number("1982 (µs)");
    for row in empty {
        let mut cells = vec![row.structure.name().to_owned(), Origin::Output.name().to_owned()];
        for batch_cost in [row.same, row.own] {
            cells.extend([
                format!("{:.2}", nanos(batch_cost.best_ps)),
                format!("{:.1}", batch_cost.best_milliticks as f64 / 1_000.0),
                format!("{:.2}", nanos(batch_cost.median_ps)),
            ]);
        }
        let micros = |ns: u64| (ns / 1_000).to_string();
        cells.push(row.structure.switch_ns_of_1982().map_or_else(|| UNKNOWN.to_owned(), micros));
        table.row(cells);
    }
    table
}

fn real_table(rows: &[RealTimeResult]) -> Table {
    let has_switches = rows.iter().any(|row| row.echo_switches.is_some());
    let mut table = Table::new()
        .text("structure")
        .text("origin")
        .number("echo (µs)")
        .number("to scheduler")
        .number("screenful (µs)")
        .number("to scheduler");
    if has_switches {
        table = table.number("changes of control for an echo: user").number("server");
    }
    for row in rows {
        let micros = |ns: u64| format!("{:.3}", ns as f64 / 1_000.0);
        let mut cells = vec![
            row.structure.name().to_owned(),
            Origin::Output.name().to_owned(),
            micros(row.echo_ns),
            format!("{:.2}", row.echo_ratio),
            micros(row.screenful_ns),
            format!("{:.2}", row.screenful_ratio),
        ];
        cells.extend(row.echo_switches.into_iter().flatten().map(|count| format!("{count:.2}")));
        table.row(cells);
    }
    table
}

/// Returns all results as one JSON object.
#[must_use]
pub fn json(findings: &ControlResults, machine: &MachineDescription) -> String {
    let empty = |row: &EmptySwitch| {
        json!({
            "structure": row.structure.name(),
            "origin": Origin::Output.name(),
            "same_code": batch_cost_json(row.same),
            "own_code": batch_cost_json(row.own),
            "ns_1982": row.structure.switch_ns_of_1982(),
        })
    };
    let real = |rows: &[RealTimeResult]| rows.iter().map(real_json).collect::<Vec<_>>();
    let document = json!({
        "schema": 2,
        "scenario": "control",
        "census": comparison_tables::census_json(&census(findings)),
        "is_optimised": !cfg!(debug_assertions),
        "processor": machine.processor,
        "clock": machine.clock_source,
        "ticks_per_second": machine.ticks_per_second,
        "load_before": machine.load[0],
        "load_after": machine.load[1],
        "empty_switch": findings.empty.iter().map(empty).collect::<Vec<_>>(),
        "tables": [comparison_tables::table_json(&of_1982::table(&findings.of_1982))],
        "virtual_time_1982": findings.of_1982.iter().map(of_1982::json).collect::<Vec<_>>(),
        "in_one_process": real(&findings.in_process),
        "on_tun": findings.on_tun.as_ref().ok().map(|rows| real(rows)),
        "on_tun_not_measured": findings.on_tun.as_ref().err(),
    });
    format!("{document:#}\n")
}

fn batch_cost_json(batch_cost: BatchCost) -> Value {
    json!({
        "best_ns": nanos(batch_cost.best_ps),
        "best_ticks": batch_cost.best_milliticks as f64 / 1_000.0,
        "median_ns": nanos(batch_cost.median_ps),
    })
}

fn real_json(row: &RealTimeResult) -> Value {
    json!({
        "structure": row.structure.name(),
        "origin": Origin::Output.name(),
        "echo_ns": row.echo_ns,
        "echo_to_scheduler": row.echo_ratio,
        "screenful_ns": row.screenful_ns,
        "screenful_to_scheduler": row.screenful_ratio,
        "echo_switches": row.echo_switches,
    })
}
