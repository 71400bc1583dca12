//! `plumb lab control`: control structures compared (TM-233 chapter 4 and 7.1).
//!
//! Four experiments use the same engines:
//!
//! - an empty change of control
//! - a key and a screenful in virtual time, with the costs of 1982
//! - a key and a screenful between two hosts in one process
//! - a key and a screenful over a TUN
//!
//! Experiments in real time are interleaved: each round measures one block of each structure.

mod control_report;
mod empty;
mod of_1982;
mod pair;
mod stepped_host;
mod structure;
mod tun;

use crate::exit::{self, Failure};
use crate::measure::ProgressLine;
use anyhow::{Context, Result, anyhow};
use empty::EmptySwitch;
use laboratory::tm233::control::ControlTimes;
use of_1982::VirtualTimeResult;
use os::clock::Calibration;
use os::namespace;
use pair::HostPair;
use records::statistics::median;
use std::io::Write;
use structure::ControlStructure;

/// Number of measurements.
#[derive(Clone, Copy, Debug)]
struct MeasurementCounts {
    /// Batches of empty changes of control.
    batches: usize,
    /// Rounds of the experiments in one process and over a TUN.
    rounds: usize,
    /// Keys in virtual time.
    keys: usize,
}

const FULL_RUN: MeasurementCounts = MeasurementCounts { batches: 400, rounds: 21, keys: 200 };

/// Line rates of the thesis for the experiments in virtual time, in bits per second.
const RATES_BPS: [u64; 2] = [9_600, 19_200];

/// Results of all experiments.
#[derive(Debug)]
struct ControlResults {
    /// Rate of the counter, in ticks per second.
    ticks_per_second: u64,
    load: [Option<[f64; 3]>; 2],
    empty: Vec<EmptySwitch>,
    of_1982: Vec<VirtualTimeResult>,
    in_process: Vec<RealTimeResult>,
    /// Results over a TUN, or the reason why they could not be measured.
    on_tun: Result<Vec<RealTimeResult>, String>,
}

/// Results of a structure in real time.
#[derive(Clone, Debug)]
struct RealTimeResult {
    structure: ControlStructure,
    /// Medians of the rounds.
    echo_ns: u64,
    screenful_ns: u64,
    /// Echo time relative to the echo time of the scheduler in the same round: the median of all
    /// rounds.
    echo_ratio: f64,
    screenful_ratio: f64,
    /// Changes of control per key, of the user and of the server; `None` if the kernel's TCP is the
    /// user.
    echo_switches: Option<[f64; 2]>,
}

/// Runs the experiments and prints the results.
pub(super) fn run(is_json: bool) -> exit::Result {
    let mut progress = ProgressLine::on_stderr();
    let findings = measure(FULL_RUN, &mut progress);
    progress.clear();
    let findings = findings.map_err(|error| {
        exit::print_error(&error.context("the experiment stalled"));
        Failure::NothingMeasured
    })?;
    let text = if is_json {
        control_report::json(&findings)
    } else {
        control_report::text(&findings, exit::stdout_columns())
    };
    // Ignored: the reader has closed the pipe.
    _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn measure(amount: MeasurementCounts, progress: &mut ProgressLine) -> Result<ControlResults> {
    show_progress(progress, "an empty change of control");
    let load_before = os::load::load_average();
    let calibration = Calibration::start();
    let rate = calibration.finish();
    let empty = empty::measure(amount.batches, rate)?;
    show_progress(progress, "lines of 1982 in virtual time");
    let of_1982 = of_1982::measure(amount.keys)?;
    let in_process = in_process(amount.rounds, progress)?;
    // The namespace ends with the process.
    let on_tun = namespace::enter_new_network().map_err(|refused| refused.to_string());
    let on_tun = on_tun
        .and_then(|()| over_tun(amount.rounds, progress).map_err(|error| format!("{error:#}")));
    let load = [load_before, os::load::load_average()];
    let ticks_per_second = rate.ticks_per_second();
    Ok(ControlResults { ticks_per_second, load, empty, of_1982, in_process, on_tun })
}

/// Displays the current experiment. The line is painted before the experiment starts, so that
/// painting takes no time from the experiment.
fn show_progress(progress: &mut ProgressLine, experiment: &str) {
    progress.show(experiment);
    progress.paint();
}

/// Results of a block of one structure: echo time in ns, screenful time in ns, and changes of
/// control per key (user, server).
type BlockSample = (u64, u64, Option<[f64; 2]>);

fn in_process(rounds: usize, progress: &mut ProgressLine) -> Result<Vec<RealTimeResult>> {
    let structures = ControlStructure::all();
    let mut pairs = structures
        .iter()
        .map(|structure| HostPair::connect(*structure))
        .collect::<Result<Vec<_>>>()?;
    interleave(
        &structures,
        rounds,
        &mut |round| {
            show_progress(progress, &format!("in one process, round {round} of {rounds}"));
        },
        |number| {
            let pair = pairs
                .get_mut(number)
                .with_context(|| format!("no pair of hosts for control structure {number}"))?;
            let block = pair.block()?;
            Ok((block.echo_ns, block.screenful_ns, Some(block.echo_switches)))
        },
    )
}

fn over_tun(rounds: usize, progress: &mut ProgressLine) -> Result<Vec<RealTimeResult>> {
    let structures = ControlStructure::all();
    let sessions = (0..)
        .zip(&structures)
        .map(|(number, structure)| tun::TunSession::connect(*structure, number));
    let mut sessions = sessions.collect::<Result<Vec<_>>>()?;
    interleave(
        &structures,
        rounds,
        &mut |round| {
            show_progress(progress, &format!("on a TUN, round {round} of {rounds}"));
        },
        |number| {
            let session = sessions
                .get_mut(number)
                .with_context(|| format!("no session for control structure {number}"))?;
            let block = session.block()?;
            Ok((block.echo_ns, block.screenful_ns, None))
        },
    )
}

/// Measures a block of each structure in every round, in a different order each time. The first
/// round finds cold caches and is discarded.
fn interleave(
    structures: &[ControlStructure],
    rounds: usize,
    on_round_start: &mut dyn FnMut(usize),
    mut block: impl FnMut(usize) -> Result<BlockSample>,
) -> Result<Vec<RealTimeResult>> {
    let mut samples: Vec<Vec<BlockSample>> = vec![Vec::with_capacity(rounds); structures.len()];
    for round in 0..=rounds {
        on_round_start(round);
        for turn in 0..structures.len() {
            let number = (turn + round) % structures.len();
            let sample = block(number)?;
            if let Some(samples) = samples.get_mut(number).filter(|_| round > 0) {
                samples.push(sample);
            }
        }
    }
    let scheduler_samples = samples.first().cloned().unwrap_or_default();
    structures
        .iter()
        .zip(samples)
        .map(|(structure, samples)| real_time_result(*structure, &samples, &scheduler_samples))
        .collect()
}

fn real_time_result(
    structure: ControlStructure,
    samples: &[BlockSample],
    scheduler_samples: &[BlockSample],
) -> Result<RealTimeResult> {
    let median_of = |of: fn(&BlockSample) -> u64| {
        median(&samples.iter().map(of).collect::<Vec<_>>()).context("no round was measured")
    };
    let ratio = |of: fn(&BlockSample) -> u64| -> Result<f64> {
        let pairs = samples.iter().zip(scheduler_samples);
        let mut ratios: Vec<f64> = pairs
            .map(|(own, scheduler_samples)| of(own) as f64 / of(scheduler_samples).max(1) as f64)
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().ok_or_else(|| anyhow!("no round was measured"))
    };
    Ok(RealTimeResult {
        structure,
        echo_ns: median_of(|sample| sample.0)?,
        screenful_ns: median_of(|sample| sample.1)?,
        echo_ratio: ratio(|sample| sample.0)?,
        screenful_ratio: ratio(|sample| sample.1)?,
        echo_switches: samples.last().and_then(|sample| sample.2),
    })
}

#[cfg(test)]
mod tests;
