//! `./x soak`: the simulator's fault campaign, one seed after the other, on every core.

use anyhow::{Context as _, Result, bail, ensure};
use os::clock::thread_cpu_time;
use simulator::soak;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const USAGE: &str = "\
usage: ./x soak [--seeds N] [--seed S] [--jobs J]

  --seeds N   number of runs (default 200)
  --seed S    seed of the first run (default 0)
  --jobs J    number of concurrent runs (default: one per core)";

const SEEDS: u64 = 200;
/// Maximum number of failures printed in full; for further failures only the seeds are printed.
const PRINTED_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    seeds: u64,
    first: u64,
    jobs: Option<usize>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self { seeds: SEEDS, first: 0, jobs: None };
        for option in arguments.chunks(2) {
            let [name, value] = option else { bail!("{USAGE}") };
            let number: u64 = value
                .parse()
                .with_context(|| format!("{name} needs a number, not '{value}'\n{USAGE}"))?;
            match *name {
                "--seeds" => options.seeds = number,
                "--seed" => options.first = number,
                "--jobs" => options.jobs = Some(usize::try_from(number)?.max(1)),
                _ => bail!("{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Results of all runs so far.
#[derive(Debug, Default)]
struct Outcome {
    virtual_time: Duration,
    processor_time: Duration,
    failures: Vec<soak::Failure>,
}

/// Runs the campaign and prints its results.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or(cores);
    let mut outcome = run_all(options, jobs);
    outcome.failures.sort_by_key(|failure| failure.seed);
    writeln!(std::io::stdout().lock(), "{}", report(options, &outcome))?;
    let failed = outcome.failures.len();
    ensure!(failed == 0, "{failed} of {} seeds failed", options.seeds);
    Ok(())
}

fn report(options: Options, outcome: &Outcome) -> String {
    let failures = &outcome.failures;
    let mut report = String::new();
    for failure in failures.iter().take(PRINTED_MAX) {
        report += &format!("{failure}\n\n");
    }
    let rest: Vec<String> =
        failures.iter().skip(PRINTED_MAX).map(|failure| failure.seed.to_string()).collect();
    if !rest.is_empty() {
        report += &format!("further failed seeds: {}\n\n", rest.join(", "));
    }
    let hours = outcome.virtual_time.as_secs_f64() / 3600.0;
    let core_seconds = outcome.processor_time.as_secs_f64();
    let hours_per_core_second = hours / core_seconds.max(f64::MIN_POSITIVE);
    let Options { seeds, first, .. } = options;
    let failed = failures.len();
    report += &format!(
        "{seeds} seeds from {first} on: {hours:.1} connection-hours in {core_seconds:.1} \
         core-seconds ({hours_per_core_second:.2} per core-second); {failed} failed.",
    );
    report
}

fn run_all(options: Options, jobs: usize) -> Outcome {
    let next = AtomicU64::new(options.first);
    let end = options.first.saturating_add(options.seeds);
    let outcome = Mutex::new(Outcome::default());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let before = thread_cpu_time();
                    let result = soak::run(seed);
                    note(&outcome, result, thread_cpu_time().saturating_sub(before));
                }
            });
        }
    });
    outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn note(outcome: &Mutex<Outcome>, result: Result<Duration, soak::Failure>, taken: Duration) {
    let mut outcome = outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome.processor_time += taken;
    match result {
        Ok(virtual_time) => outcome.virtual_time += virtual_time,
        Err(failure) => outcome.failures.push(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_options_have_their_defaults() {
        let options = Options::parse(&["--seeds", "7", "--jobs", "0"]).unwrap();
        assert_eq!(options, Options { seeds: 7, first: 0, jobs: Some(1) });
    }

    #[test]
    fn an_option_without_its_number_and_an_unknown_one_are_refused() {
        let error = |arguments: &[&str]| Options::parse(arguments).unwrap_err().to_string();
        assert_eq!(error(&["--seeds"]), USAGE);
        let reason = "--seeds needs a number, not 'many'";
        assert_eq!(error(&["--seeds", "many"]), format!("{reason}\n{USAGE}"));
        assert_eq!(error(&["--faults", "1"]), USAGE);
    }

    #[test]
    fn every_seed_runs_once_however_many_jobs_there_are() {
        let expected: Duration = (5..8).map(|seed| soak::run(seed).unwrap()).sum();
        for jobs in [1, 3] {
            let outcome = run_all(Options { seeds: 3, first: 5, jobs: None }, jobs);
            assert_eq!((outcome.virtual_time, outcome.failures.len()), (expected, 0));
        }
    }

    #[test]
    fn the_report_has_the_number_of_failures_and_the_seeds() {
        let options = Options { seeds: 40, first: 2, jobs: None };
        let outcome = Outcome {
            virtual_time: Duration::from_secs(7200),
            processor_time: Duration::from_secs(4),
            failures: Vec::new(),
        };
        let expected = "40 seeds from 2 on: 2.0 connection-hours in 4.0 core-seconds (0.50 per \
            core-second); 0 failed.";
        assert_eq!(report(options, &outcome), expected);
    }
}
