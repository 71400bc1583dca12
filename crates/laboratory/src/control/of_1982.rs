//! Control structures in virtual time with the costs of 1982, compared with the measurements of
//! TM-233 with tasking.

use super::control_error::ControlError;
use super::structure::ControlStructure;
use crate::table::{Row, Table};
use crate::tm233::control::{ControlTimes, ibm_pc_switching_in, measure_control};
use net::meter::{Costs, Work};
use net::station::{Control, Scheduler};
use serde_json::{Value, json};
use simulator::transmission_line::Line;
use std::time::Duration;

/// Line rates of the thesis, in bits per second.
const RATES_BPS: [u64; 2] = [9_600, 19_200];

/// Results of a structure in virtual time, with the structure's cost of 1982.
#[derive(Debug)]
pub(super) struct VirtualTimeResult {
    pub(super) structure: ControlStructure,
    /// Cost of a change of control, in nanoseconds.
    pub(super) switch_ns: u64,
    /// Results without a line, where only changes of control take time.
    pub(super) without_line: ControlTimes,
    /// Results by line rate, in bits per second.
    pub(super) on_lines: Vec<(u64, ControlTimes)>,
}

/// Measurements of the thesis on one line, with tasking.
struct ThesisMeasurement {
    rate_bps: u64,
    /// Echo time of a key (table 6-4).
    echo_ms: f64,
    /// Time of a screenful (table 6-5).
    screenful_ms: f64,
}

const THESIS_MEASUREMENTS: [ThesisMeasurement; 2] = [
    ThesisMeasurement { rate_bps: 9_600, echo_ms: 121.9, screenful_ms: 2_820.0 },
    ThesisMeasurement { rate_bps: 19_200, echo_ms: 71.8, screenful_ms: 2_830.0 },
];
/// Costs of a change of control between procedures and between tasks (section 4.2.4), in µs.
const PROCEDURE_SWITCH_US: f64 = 70.0;
const TASK_SWITCH_US: f64 = 135.0;

/// Simulates `keys` keys and a screenful with each structure that has a cost of 1982.
///
/// # Errors
///
/// Returns an error if a run stops making progress, or if there is no memory for a stack.
pub(super) fn measure(keys: usize) -> Result<Vec<VirtualTimeResult>, ControlError> {
    let structures_with_cost = ControlStructure::all().into_iter();
    let structures_with_cost = structures_with_cost
        .filter_map(|structure| Some((structure, structure.switch_ns_of_1982()?)));
    structures_with_cost
        .map(|(structure, switch_ns)| {
            // The size of a ring is always within its limit, so only the memory for a stack may be
            // missing.
            structure.create()?;
            let control = || -> Box<dyn Control> {
                structure.create().unwrap_or_else(|_| Box::new(Scheduler::default()))
            };
            let no_line = Line::path(Duration::ZERO);
            let only_switches = Costs::default().with(Work::Switch, switch_ns);
            let times_without_line = measure_control(no_line, only_switches, keys, &control)?;
            let costs = ibm_pc_switching_in(switch_ns);
            let on_lines = RATES_BPS.into_iter().map(|rate_bps| {
                Ok((rate_bps, measure_control(Line::serial(rate_bps), costs, keys, &control)?))
            });
            let on_lines = on_lines.collect::<Result<_, ControlError>>()?;
            Ok(VirtualTimeResult {
                structure,
                switch_ns,
                without_line: times_without_line,
                on_lines,
            })
        })
        .collect()
}

/// Returns the table with the figures of each structure.
pub(super) fn table(results: &[VirtualTimeResult]) -> Table {
    Table {
        number: "6-4 and 6-5 by structure",
        title: "echo and screenful on a line, in virtual time, with the costs of 1982",
        unit: "as named",
        rows: results.iter().flat_map(rows).collect(),
        why: "The cost of a change of control is that of the thesis. The other costs are those of \
              table 6-1 minus the changes of control that they include. The thesis measured the \
              echo and the screenful with tasking only, so the results of the other structures \
              cannot be compared. The thesis could not explain 0.15 s of its screenful.",
    }
}

fn rows(result: &VirtualTimeResult) -> Vec<Row> {
    let VirtualTimeResult { structure, switch_ns, without_line, on_lines } = result;
    let name = structure.name();
    let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
    let printed_us = if structure.is_tasking() { TASK_SWITCH_US } else { PROCEDURE_SWITCH_US };
    let changes = without_line.echo_switches.iter().sum();
    let mut rows = vec![
        Row::input(format!("{name}: change of control, µs"), *switch_ns as f64 / 1e3, 0)
            .measured(printed_us),
        Row::output(format!("{name}: changes per echo"), changes, 2),
        Row::output(format!("{name}: changes per echo, ms"), millis(without_line.echo), 2),
    ];
    // Only tasking as measured in the thesis, without the improvements of the thesis's section 7.1.
    let is_of_thesis = structure.name() == ControlStructure::TASKING;
    for (rate_bps, course) in on_lines {
        let measured =
            THESIS_MEASUREMENTS.iter().find(|entry| is_of_thesis && entry.rate_bps == *rate_bps);
        let echo = format!("{name}: echo at {rate_bps} bit/s, ms");
        let screenful = format!("{name}: screenful at {rate_bps} bit/s, ms");
        rows.extend([
            Row::output(echo, millis(course.echo), 2)
                .measured_if(measured.map(|entry| entry.echo_ms)),
            Row::output(screenful, millis(course.screenful), 0)
                .measured_if(measured.map(|entry| entry.screenful_ms)),
        ]);
    }
    rows
}

/// Returns the figures of a structure as JSON, in base units.
pub(super) fn json(result: &VirtualTimeResult) -> Value {
    let on_lines = result.on_lines.iter().map(|(rate_bps, course)| {
        json!({
            "rate_bps": rate_bps,
            "echo_ns": course.echo.as_nanos(),
            "screenful_ns": course.screenful.as_nanos(),
            "screenful_switches": course.screenful_switches,
        })
    });
    json!({
        "structure": result.structure.name(),
        "switch_ns": result.switch_ns,
        "echo_switches": result.without_line.echo_switches,
        "switches_alone_echo_ns": result.without_line.echo.as_nanos(),
        "on_lines": on_lines.collect::<Vec<_>>(),
    })
}
