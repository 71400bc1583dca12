//! The experiments with control structures, in the order of the report.

use super::control_error::ControlError;
use super::control_results::{ControlResults, RealTimeResult};
use super::interleaved_rounds::interleave;
use super::machine_functions::MachineFunctions;
use super::pair::HostPair;
use super::structure::ControlStructure;
use super::{empty, of_1982};

/// Number of measurements.
#[derive(Clone, Copy, Debug)]
pub struct MeasurementCounts {
    /// Batches of empty changes of control.
    pub batches: usize,
    /// Rounds of the experiments in one process and over a TUN.
    pub rounds: usize,
    /// Keys in virtual time.
    pub keys: usize,
}

/// Numbers of measurements in a report.
pub const FULL_RUN: MeasurementCounts = MeasurementCounts { batches: 400, rounds: 21, keys: 200 };

/// Runs the experiments. `measure_on_tun` returns the results over a TUN, or the reason why there
/// are none; `progress` receives the current experiment before it starts.
///
/// # Errors
///
/// Returns an error if there is no memory for a stack, or if a run stops making progress.
pub fn measure(
    counts: MeasurementCounts,
    machine: &MachineFunctions<'_>,
    measure_on_tun: impl FnOnce(&mut dyn FnMut(&str)) -> Result<Vec<RealTimeResult>, String>,
    progress: &mut dyn FnMut(&str),
) -> Result<ControlResults, ControlError> {
    progress("an empty change of control");
    let empty = empty::measure(counts.batches, machine)?;
    progress("lines of 1982 in virtual time");
    let of_1982 = of_1982::measure(counts.keys)?;
    let in_process = in_process(counts.rounds, machine, progress)?;
    let on_tun = measure_on_tun(progress);
    Ok(ControlResults { empty, of_1982, in_process, on_tun })
}

fn in_process(
    rounds: usize,
    machine: &MachineFunctions<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<RealTimeResult>, ControlError> {
    let pairs = ControlStructure::all()
        .into_iter()
        .map(|structure| Ok((structure, HostPair::connect(structure, machine)?)));
    let mut pairs = pairs.collect::<Result<Vec<_>, ControlError>>()?;
    interleave(&mut pairs, rounds, "in one process", progress, HostPair::measure_block)
}
