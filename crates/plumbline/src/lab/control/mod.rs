//! `plumb lab control`: control structures compared (TM-233 chapter 4 and 7.1).
//!
//! Four experiments use the same engines: an empty change of control; a key and a screenful in
//! virtual time with the costs of 1982; a key and a screenful between two hosts in one process; and
//! a key and a screenful over a TUN. Experiments in real time are interleaved: each round measures
//! one block of each structure.

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
use of_1982::VirtualTimeResult;
use os::clock::Calibration;
use os::namespace;
use pair::HostPair;
use records::statistics::median;
use simulator::tm233::control::ControlTimes;
use std::io::Write;
use structure::ControlStructure;

/// Number of measurements.
#[derive(Clone, Copy, Debug)]
struct Amount {
    /// Batches of empty changes of control.
    batches: usize,
    /// Rounds in one process, and over a TUN.
    rounds: usize,
    /// Keys in virtual time.
    keys: usize,
}

const AMOUNT: Amount = Amount { batches: 400, rounds: 21, keys: 200 };

/// Line rates of the thesis for the experiments in virtual time, in bits per second.
const RATES_BPS: [u64; 2] = [9_600, 19_200];

/// Results of all experiments.
#[derive(Debug)]
struct Findings {
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
    /// Median over the rounds of the ratio to the echo time of the scheduler in the same round.
    echo_ratio: f64,
    screenful_ratio: f64,
    /// Changes of control for each key, of user and server, where both use plumbline's TCP.
    echo_switches: Option<[f64; 2]>,
}

/// Runs the experiments and prints the results.
pub(super) fn run(is_json: bool) -> exit::Result {
    let mut progress = ProgressLine::on_stderr();
    let findings = measure(AMOUNT, &mut progress);
    progress.clear();
    let findings = findings.map_err(|error| {
        exit::complain(&error.context("the experiment stalled"));
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

fn measure(amount: Amount, progress: &mut ProgressLine) -> Result<Findings> {
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
    Ok(Findings { ticks_per_second, load, empty, of_1982, in_process, on_tun })
}

/// Displays the current experiment. The line is painted before the experiment starts, so that
/// painting takes no time from the experiment.
fn show_progress(progress: &mut ProgressLine, experiment: &str) {
    progress.show(experiment);
    progress.paint();
}

/// Results of a block of one structure: echo time, screenful time, changes of control for each key.
type Sample = (u64, u64, Option<[f64; 2]>);

fn in_process(rounds: usize, progress: &mut ProgressLine) -> Result<Vec<RealTimeResult>> {
    let all = ControlStructure::all();
    let mut pairs =
        all.iter().map(|structure| HostPair::connect(*structure)).collect::<Result<Vec<_>>>()?;
    interleave(
        &all,
        rounds,
        &mut |round| {
            show_progress(progress, &format!("in one process, round {round} of {rounds}"));
        },
        |number| {
            let pair = pairs.get_mut(number).context("there is a pair for each structure")?;
            let block = pair.block()?;
            Ok((block.echo_ns, block.screenful_ns, Some(block.echo_switches)))
        },
    )
}

fn over_tun(rounds: usize, progress: &mut ProgressLine) -> Result<Vec<RealTimeResult>> {
    let all = ControlStructure::all();
    let sessions =
        (0..).zip(&all).map(|(number, structure)| tun::Session::connect(*structure, number));
    let mut sessions = sessions.collect::<Result<Vec<_>>>()?;
    interleave(
        &all,
        rounds,
        &mut |round| {
            show_progress(progress, &format!("on a TUN, round {round} of {rounds}"));
        },
        |number| {
            let session =
                sessions.get_mut(number).context("there is a session for each structure")?;
            let block = session.block()?;
            Ok((block.echo_ns, block.screenful_ns, None))
        },
    )
}

/// Measures a block of each structure in every round, in a different order each time. The first
/// round finds cold caches and is discarded.
fn interleave(
    all: &[ControlStructure],
    rounds: usize,
    begins: &mut dyn FnMut(usize),
    mut block: impl FnMut(usize) -> Result<Sample>,
) -> Result<Vec<RealTimeResult>> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::with_capacity(rounds); all.len()];
    for round in 0..=rounds {
        begins(round);
        for turn in 0..all.len() {
            let number = (turn + round) % all.len();
            let sample = block(number)?;
            if let Some(samples) = samples.get_mut(number).filter(|_| round > 0) {
                samples.push(sample);
            }
        }
    }
    let base = samples.first().cloned().unwrap_or_default();
    all.iter().zip(samples).map(|(structure, samples)| real(*structure, &samples, &base)).collect()
}

fn real(
    structure: ControlStructure,
    samples: &[Sample],
    base: &[Sample],
) -> Result<RealTimeResult> {
    let median_of = |of: fn(&Sample) -> u64| {
        median(&samples.iter().map(of).collect::<Vec<_>>()).context("there was no round")
    };
    let ratio = |of: fn(&Sample) -> u64| -> Result<f64> {
        let pairs = samples.iter().zip(base);
        let mut ratios: Vec<f64> =
            pairs.map(|(own, base)| of(own) as f64 / of(base).max(1) as f64).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().ok_or_else(|| anyhow!("there was no round"))
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
