//! Rounds of an experiment in real time. Each round measures one block of each structure.

use super::control_error::ControlError;
use super::control_results::RealTimeResult;
use super::structure::ControlStructure;
use records::statistics::median;

/// Results of one block of a structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockTimes {
    /// Time of a key and its echo.
    pub echo_ns: u64,
    /// Time of a key and the screenful that answers it.
    pub screenful_ns: u64,
    /// Changes of control per key, of the user and of the server; `None` if the kernel's TCP is the
    /// user.
    pub echo_switches: Option<[f64; 2]>,
}

/// Measures a block of each session in every round, in a different order each time, and returns a
/// result for each session. The first round finds cold caches and is discarded. The first session
/// is the one with which the others are compared.
///
/// `progress` receives a line at the start of each round, which begins with `experiment`.
///
/// # Errors
///
/// Returns the error of `measure_block`, and an error if there are no rounds.
pub fn interleave<S, E: From<ControlError>>(
    sessions: &mut [(ControlStructure, S)],
    rounds: usize,
    experiment: &str,
    progress: &mut dyn FnMut(&str),
    mut measure_block: impl FnMut(&mut S) -> Result<BlockTimes, E>,
) -> Result<Vec<RealTimeResult>, E> {
    let mut samples: Vec<Vec<BlockTimes>> = vec![Vec::with_capacity(rounds); sessions.len()];
    for round in 0..=rounds {
        progress(&format!("{experiment}, round {round} of {rounds}"));
        for turn in 0..sessions.len() {
            let number = (turn + round) % sessions.len();
            let Some((_, session)) = sessions.get_mut(number) else { continue };
            let sample = measure_block(session)?;
            if let Some(samples) = samples.get_mut(number).filter(|_| round > 0) {
                samples.push(sample);
            }
        }
    }
    let scheduler_samples = samples.first().cloned().unwrap_or_default();
    let results = sessions.iter().zip(samples).map(|((structure, _), samples)| {
        real_time_result(*structure, &samples, &scheduler_samples)
            .ok_or_else(|| ControlError::NoRound.into())
    });
    results.collect()
}

/// Returns the medians of the samples; `None` if there are none.
fn real_time_result(
    structure: ControlStructure,
    samples: &[BlockTimes],
    scheduler_samples: &[BlockTimes],
) -> Option<RealTimeResult> {
    let median_of =
        |of: fn(&BlockTimes) -> u64| median(&samples.iter().map(of).collect::<Vec<_>>());
    let ratio = |of: fn(&BlockTimes) -> u64| {
        let pairs = samples.iter().zip(scheduler_samples);
        let mut ratios: Vec<f64> = pairs
            .map(|(own, scheduler_samples)| of(own) as f64 / of(scheduler_samples).max(1) as f64)
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    };
    Some(RealTimeResult {
        structure,
        echo_ns: median_of(|sample| sample.echo_ns)?,
        screenful_ns: median_of(|sample| sample.screenful_ns)?,
        echo_ratio: ratio(|sample| sample.echo_ns)?,
        screenful_ratio: ratio(|sample| sample.screenful_ns)?,
        echo_switches: samples.last().and_then(|sample| sample.echo_switches),
    })
}
