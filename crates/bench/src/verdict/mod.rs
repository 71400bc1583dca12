//! `bench verdict`: measures how often the first sentence of `plumb measure` names the cause.
//!
//! A generator draws cases from a seed: [`generate`], or [`second`] for other causes, magnitudes
//! and servers. A case is a service of a real server behind a packet relay between two network
//! namespaces, with no injected cause, one, or two. The bench's own clients measure the user's
//! waiting times with all causes, and without each cause ([`truth`]). Then `plumb measure` runs
//! over the same path, and a rule that was fixed in advance ([`rule`]) evaluates the first sentence
//! of its report. The relay ([`impairment`]) shares no code with the simulator.
//!
//! Attribution against injected causes follows Siekkinen et al. (2008), "A root cause analysis
//! toolkit for TCP"; the classes of limits (sender, receiver, path) are those of the triage of
//! Web100 (Mathis, Heffner and Reddy, 2003).

mod answer;
mod case;
mod cause;
mod generate;
mod generator;
mod impairment;
mod injection;
mod interposer;
mod link;
mod markdown;
mod network;
mod relay;
mod resolver;
mod rng;
mod rule;
mod score;
mod second;
mod service;
mod service_address;
mod setup;
mod starve;
mod stop;
mod trial;
mod trial_servers;
mod truth;
mod user_wait;
mod variation;
mod verdict_tables;

use anyhow::{Context, Result, bail};
use case::{Case, Peer};
use generator::Generator;
use os::load::{Machine, load_average};
use os::schedule;
use serde_json::json;
use std::collections::VecDeque;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Instant;
use trial::{CaseResult, Options};
use verdict_tables::Done;

/// Usage of `bench verdict`.
pub(super) const USAGE: &str = "\
usage: ./x bench verdict [--generator first|second] [--seed N] [--cases M] [--case K] [--jobs J]
                         [--list] [--json FILE]

  --generator G
               first (default), or second, with other causes, magnitudes and servers
  --seed N     seed of all cases (default 1)
  --cases M    number of cases (default 60, at most 10000)
  --case K     run only the case number K
  --jobs J     number of concurrent cases (default 3, at most 8); a case that starves a processor
               runs alone
  --list       print the cases without running them
  --json FILE  also write every case with its times and sentences to FILE
  --rule       print the rule and the causes of both generators as lists in Markdown";

/// Highest priority of an ordinary process.
const NICE: i8 = -20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Arguments {
    generator: Generator,
    seed: u64,
    cases: u64,
    case: Option<u64>,
    jobs: u64,
    is_list: bool,
    json: Option<PathBuf>,
}

/// Runs the cases, and prints a line for each and the tables.
///
/// # Errors
///
/// Returns an error if the arguments are wrong or this user may not create namespaces. A wrong
/// verdict is not an error.
pub(super) fn run(arguments: &[&str]) -> Result<()> {
    if arguments.contains(&"--help") {
        return print_text(USAGE);
    }
    if arguments.contains(&"--rule") {
        return print_text(&markdown_lists().join("\n"));
    }
    let arguments = parse(arguments)?;
    let numbers = match arguments.case {
        Some(number) => number..number + 1,
        None => 0..arguments.cases,
    };
    let cases: Vec<Case> = numbers.map(|number| generate_case(&arguments, number)).collect();
    if arguments.is_list {
        let lines: Vec<String> =
            cases.iter().map(|case| format!("case {} {case}", case.number)).collect();
        return print_text(&lines.join("\n"));
    }
    let load_before = load_average();
    print_text(&conditions_text(&arguments))?;
    let started_at = Instant::now();
    let mut done = run_all(cases, arguments.jobs)?;
    done.sort_by_key(|(case, _)| case.number);
    let seconds = started_at.elapsed().as_secs();
    let loads = [load_before, load_average()].map(|load| {
        load.map_or_else(|| "?".to_owned(), |[one, five, _]| format!("{one:.1} {five:.1}"))
    });
    let [before, after] = &loads;
    print_text(&format!(
        "{}\n{} generator, seed {}, {} cases, {seconds} s; load before {before}, after {after} (1, 5 min)",
        verdict_tables::text(&done),
        arguments.generator.name(),
        arguments.seed,
        done.len()
    ))?;
    if let Some(file) = &arguments.json {
        let data = json!({
            "generator": arguments.generator.name(),
            "seed": arguments.seed,
            "seconds": seconds,
            "load_before": load_before,
            "load_after": load_average(),
            "kernel": Machine::current().kernel,
            "peers": versions(arguments.generator),
            "results": verdict_tables::to_json(&done),
        });
        std::fs::write(file, format!("{data:#}\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn generate_case(arguments: &Arguments, number: u64) -> Case {
    match arguments.generator {
        Generator::First => generate::case(arguments.seed, number),
        Generator::Second => second::case(arguments.seed, number),
    }
}

/// Returns the lists of the causes and classes in `docs/benchmarks/verdict.md`.
fn markdown_lists() -> [String; 4] {
    [
        markdown::cause_list(&cause::ROWS),
        markdown::class_list(&rule::TABLE),
        markdown::cause_list(&second::ROWS),
        markdown::class_list(&rule::SECOND_TABLE),
    ]
}

fn parse(arguments: &[&str]) -> Result<Arguments> {
    let mut parsed = Arguments {
        generator: Generator::First,
        seed: 1,
        cases: 60,
        case: None,
        jobs: 3,
        is_list: false,
        json: None,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = |max: u64| -> Result<u64> {
            let number = words.next().and_then(|word| word.parse().ok());
            number
                .filter(|number| *number <= max)
                .with_context(|| format!("{word} needs a number up to {max}\n{USAGE}"))
        };
        match *word {
            "--seed" => parsed.seed = number(u64::MAX)?,
            "--cases" => parsed.cases = number(10_000)?,
            "--case" => parsed.case = Some(number(u64::MAX - 1)?),
            "--jobs" => parsed.jobs = number(8)?.max(1),
            "--generator" => {
                let name = words.next().context(USAGE)?;
                let known = Generator::ALL.into_iter().find(|generator| generator.name() == *name);
                parsed.generator =
                    known.with_context(|| format!("no generator {name}\n{USAGE}"))?;
            }
            "--list" => parsed.is_list = true,
            "--json" => parsed.json = Some(words.next().context(USAGE)?.into()),
            _ => bail!("there is no option '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    Ok(parsed)
}

fn print_text(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").context("the report cannot be written")
}

/// Returns the conditions: the seed, the machine, and the peers with their versions.
fn conditions_text(arguments: &Arguments) -> String {
    let machine = Machine::current();
    let load = load_average().map_or_else(|| "?".to_owned(), |[one, ..]| format!("{one:.1}"));
    let controls = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let mut text = format!(
        "bench verdict: {} generator, seed {}, {} cases, {} at once\n{} {}, {} processors, load {load}; congestion \
         control: {}\n",
        arguments.generator.name(),
        arguments.seed,
        if arguments.case.is_some() { 1 } else { arguments.cases },
        arguments.jobs,
        machine.kernel,
        machine.architecture,
        machine.processors.unwrap_or(0),
        controls.unwrap_or_default().trim()
    );
    for (peer, version) in versions(arguments.generator) {
        text += &format!("  {peer}: {version}\n");
    }
    text
}

fn versions(generator: Generator) -> Vec<(&'static str, String)> {
    let all: &[Peer] = match generator {
        Generator::First => &Peer::FIRST,
        Generator::Second => &Peer::SECOND,
    };
    all.iter().map(|peer| (peer.name(), trial_servers::version_of(*peer))).collect()
}

/// Runs all cases, `jobs` of them concurrently, and prints a line when a case ends.
fn run_all(cases: Vec<Case>, jobs: u64) -> Result<Vec<Done>> {
    let options = Options::detect()?;
    // Cases that must run alone come last.
    let (alone, shared): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(Case::is_exclusive);
    let queue: Mutex<VecDeque<Case>> = Mutex::new(shared.into_iter().chain(alone).collect());
    let turn = RwLock::new(());
    let done = Mutex::new(Vec::new());
    let work = || {
        // A higher priority reduces the influence of other programs. The bench also runs without
        // permission to set it.
        _ = schedule::set_nice(NICE);
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(case) = next else { return };
            let case_result = if case.is_exclusive() {
                let _turn = turn.write().unwrap_or_else(PoisonError::into_inner);
                run_one(&case, &options)
            } else {
                let _turn = turn.read().unwrap_or_else(PoisonError::into_inner);
                run_one(&case, &options)
            };
            // A closed stdout does not stop the cases.
            _ = print_text(&verdict_tables::progress(&case, &case_result));
            done.lock().unwrap_or_else(PoisonError::into_inner).push((case, case_result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn run_one(case: &Case, options: &Options) -> CaseResult {
    trial::run(case, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_any_order_and_wrong_ones_are_refused() {
        let parsed = parse(&["--jobs", "2", "--seed", "9", "--case", "4"]).unwrap();
        assert_eq!((parsed.seed, parsed.case, parsed.jobs), (9, Some(4), 2));
        assert_eq!(parsed.generator, Generator::First);
        assert_eq!(parse(&["--generator", "second"]).unwrap().generator, Generator::Second);
        for (wrong, reason) in [
            (&["--generator", "third"][..], "no generator third"),
            (&["--seed"], "--seed needs a number up to 18446744073709551615"),
            (&["--cases", "x"], "--cases needs a number up to 10000"),
            (&["--jobs", "9"], "--jobs needs a number up to 8"),
            (&["--fast"], "there is no option '--fast'"),
        ] {
            let error = parse(wrong).unwrap_err().to_string();
            assert_eq!(error, format!("{reason}\n{USAGE}"), "{wrong:?}");
        }
    }

    #[test]
    fn the_page_has_the_rule_and_the_causes_of_the_code() {
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        let page =
            std::fs::read_to_string(format!("{root}/../../docs/benchmarks/verdict.md")).unwrap();
        for list in markdown_lists() {
            assert!(page.contains(&list), "./x bench verdict --rule prints the lists");
        }
    }
}
