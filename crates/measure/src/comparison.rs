//! Comparison of programs: each program is measured once in every round, so that a change of the
//! load affects all programs alike.

use super::interrupt::Interrupts;
use super::login_runs::Logins;
use super::measure_options::MeasureOptions;
use super::series::failure;
use super::target::{LoginTarget, ProgramTarget};
use anyhow::Result;
use records::Measurement;
use records::assessment::Assessment;
use records::comparison::ComparedProgram;

/// Measures `programs` in turn, `rounds` times each, or until an interrupt. A program that failed
/// is not measured again.
///
/// # Errors
///
/// Returns an error if the operating system refuses a resource.
pub fn compare(
    programs: &[ProgramTarget],
    rounds: u32,
    options: &MeasureOptions,
    interrupts: &Interrupts,
) -> Result<Vec<ComparedProgram>> {
    let targets = programs.iter().cloned().map(LoginTarget::Program);
    let mut all: Vec<(LoginTarget, Vec<Measurement>, Option<String>)> =
        targets.map(|target| (target, Vec::new(), None)).collect();
    for _ in 0..rounds {
        for (target, records, reason) in all.iter_mut().filter(|(_, _, reason)| reason.is_none()) {
            if interrupts.is_interrupted() {
                break;
            }
            match (Logins { target, options, interrupts }).measure()? {
                Ok(mut results) => {
                    *reason = failure(&results);
                    results.record.is_interrupted = interrupts.is_interrupted();
                    results.record.failure.clone_from(reason);
                    results.record.assessment = Some(Assessment::of(&results.record));
                    records.push(results.record);
                }
                Err(failed) => *reason = Some(failed.reason),
            }
        }
    }
    let rounds = usize::try_from(rounds).unwrap_or(usize::MAX);
    let compared = all.into_iter().map(|(target, records, reason)| {
        let is_whole = records.len() == rounds && !records.iter().any(|one| one.is_interrupted);
        let is_interrupted = interrupts.is_interrupted() && !is_whole;
        let program = ComparedProgram::of(target.to_string(), records, reason);
        ComparedProgram { is_interrupted, ..program }
    });
    Ok(compared.collect())
}
