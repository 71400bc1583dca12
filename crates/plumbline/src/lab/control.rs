//! `plumb lab control`: the comparison of control structures on this machine.

use super::tun_session::TunSession;
use crate::exit::{self, Failure};
use crate::measure::status_display;
use crate::output_style;
use anyhow::{Result, anyhow};
use laboratory::control::control_report::{self, MachineDescription};
use laboratory::control::{
    ControlResults, ControlStructure, FULL_RUN, MachineFunctions, MeasurementCounts,
    RealTimeResult, interleave, measure,
};
use measure::ProgressLine;
use net::time::Instant;
use os::clock::{Calibration, Monotonic, TickRate};
use os::load::{Machine, load_average};
use os::namespace;
use std::io::Write;

/// Runs the experiments and prints the results.
pub(super) fn run(is_json: bool) -> exit::Result {
    let mut progress = ProgressLine::new(status_display());
    let load_before = load_average();
    let rate = Calibration::start().finish();
    let results = run_experiments(FULL_RUN, rate, &mut progress);
    progress.clear();
    let results = results.map_err(|error| {
        exit::print_error(&error.context("the experiment stalled"));
        Failure::NothingMeasured
    })?;
    let machine = describe_machine(rate, [load_before, load_average()]);
    let text = if is_json {
        control_report::json(&results, &machine)
    } else {
        control_report::text(&results, &machine, output_style::stdout_columns())
    };
    // Ignored: the reader has closed the pipe.
    _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn describe_machine(rate: TickRate, load: [Option<[f64; 3]>; 2]) -> MachineDescription {
    let Machine { processor, architecture, kernel, .. } = Machine::current();
    MachineDescription {
        processor,
        architecture,
        kernel,
        clock_source: os::clock::source(),
        ticks_per_second: rate.ticks_per_second(),
        load,
    }
}

fn run_experiments(
    counts: MeasurementCounts,
    rate: TickRate,
    progress: &mut ProgressLine,
) -> Result<ControlResults> {
    let clock = Monotonic::start();
    let now = || clock.now();
    let nanos_of = |ticks| rate.to_nanos(ticks);
    let machine = machine_functions(&now, &nanos_of);
    let on_tun = |progress: &mut dyn FnMut(&str)| {
        // The namespace ends with the process.
        namespace::enter_new_network().map_err(|refused| refused.to_string())?;
        measure_on_tun(counts.rounds, &machine, progress).map_err(|error| format!("{error:#}"))
    };
    // The line is painted before the experiment starts, so that painting takes no time from the
    // experiment.
    let mut show_progress = |experiment: &str| {
        progress.show(experiment);
        progress.paint();
    };
    measure(counts, &machine, on_tun, &mut show_progress).map_err(|error| anyhow!(error))
}

fn machine_functions<'a>(
    now: &'a dyn Fn() -> Instant,
    nanos_of: &'a dyn Fn(u64) -> u64,
) -> MachineFunctions<'a> {
    let counter = os::clock::counter();
    let routines = os::checksum::routines();
    MachineFunctions { now, counter, nanos_of, routines }
}

fn measure_on_tun(
    rounds: usize,
    machine: &MachineFunctions<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<RealTimeResult>> {
    let sessions = (0..).zip(ControlStructure::all()).map(|(number, structure)| {
        Ok((structure, TunSession::connect(structure, number, machine)?))
    });
    let mut sessions = sessions.collect::<Result<Vec<_>>>()?;
    interleave(&mut sessions, rounds, "on a TUN", progress, TunSession::measure_block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_structure_is_measured_with_the_clocks_of_this_machine() {
        let rate = TickRate::calibrate();
        let clock = Monotonic::start();
        let now = || clock.now();
        let nanos_of = |ticks| rate.to_nanos(ticks);
        // A TUN would move the whole test process into another network namespace.
        let on_tun = |_: &mut dyn FnMut(&str)| Err("not permitted".to_owned());
        let counts = MeasurementCounts { batches: 2, rounds: 1, keys: 20 };
        let machine = machine_functions(&now, &nanos_of);
        let results = measure(counts, &machine, on_tun, &mut |_| {}).unwrap();
        let text = control_report::json(&results, &describe_machine(rate, [None, None]));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let in_one_process = json["in_one_process"].as_array().unwrap();
        assert_eq!(in_one_process.len(), 9);
        assert!(in_one_process.iter().all(|row| row["echo_ns"].as_u64() > Some(0)), "{text}");
        let empty = json["empty_switch"].as_array().unwrap();
        assert!(empty.iter().all(|row| row["own_code"]["best_ns"].as_f64() > Some(0.0)), "{text}");
    }
}
