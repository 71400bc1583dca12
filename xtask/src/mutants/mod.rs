//! `cargo xtask mutants`: counts the faults in one area of the engines that its tests detect.
//!
//! A mutant is a small fault in the source text. A seeded sample of the possible mutants is inserted
//! into a copy of the workspace in `target/mutation`, each behind a run-time switch, so that all of
//! them are compiled at once. A mutant is caught if a test fails while it is active, or does not end
//! in time. Only the tests that execute the code of a mutant run for it.
//!
//! The tests of other crates run only for the mutants that survive those of the crate itself.

mod compile;
mod mutant;
mod points;
mod sample;
mod test_program;
mod workspace_copy;

use crate::project_files;
use anyhow::{Context, Result, bail, ensure};
use mutant::Mutants;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use test_program::{Outcome, Test, TestProgram};
use workspace_copy::WorkspaceCopy;

const USAGE: &str = "\
usage: cargo xtask mutants --area NAME[,NAME...] [--seed N] [--count N] [--only N,N...] [--list]

  --area NAME  tcp, internet, telnet, ftp, records, terminal, or all
  --seed N     seed of the samples (default: 1)
  --count N    number of mutants in the sample of an area (default: 200, at most 999)
  --only N,N   run only the mutants with these numbers
  --list       print the samples and run nothing

  Everything is built and run in target/mutation. PROPTEST_RNG_SEED selects the cases of the property
  tests (default: 573).";

/// Directory of the copy of the workspace, relative to the root.
const COPY: &str = "target/mutation";

/// A part of the engines, and its tests.
#[derive(Debug)]
struct Area {
    name: &'static str,
    /// Number of the first mutant.
    first_id: usize,
    /// Directory whose files are mutated.
    sources: &'static str,
    /// Directory of the crate.
    crate_directory: &'static str,
    package: &'static str,
    /// Arguments of `cargo test` for the tests that run only for surviving mutants.
    further_tests: &'static [&'static str],
}

const AREAS: [Area; 6] = [
    Area {
        name: "tcp",
        first_id: 1001,
        sources: "crates/net/src/transport/tcp",
        crate_directory: "crates/net",
        package: "plumbline-net",
        further_tests: &["-p", "simulator"],
    },
    Area {
        name: "internet",
        first_id: 2001,
        sources: "crates/net/src/internet",
        crate_directory: "crates/net",
        package: "plumbline-net",
        further_tests: &["-p", "simulator"],
    },
    Area {
        name: "telnet",
        first_id: 3001,
        sources: "crates/protocols/src/telnet",
        crate_directory: "crates/protocols",
        package: "plumbline-protocols",
        further_tests: &["-p", "plumbline-protocols", "--test", "*"],
    },
    Area {
        name: "ftp",
        first_id: 4001,
        sources: "crates/protocols/src/ftp",
        crate_directory: "crates/protocols",
        package: "plumbline-protocols",
        further_tests: &[],
    },
    Area {
        name: "records",
        first_id: 5001,
        sources: "crates/records/src",
        crate_directory: "crates/records",
        package: "records",
        further_tests: &["-p", "records", "--test", "*"],
    },
    Area {
        name: "terminal",
        first_id: 6001,
        sources: "crates/protocols/src/terminal",
        crate_directory: "crates/protocols",
        package: "plumbline-protocols",
        further_tests: &[],
    },
];

/// Largest sample of an area, so that the numbers of two areas differ.
const COUNT_LIMIT: usize = 999;

/// Options of the command line.
#[derive(Debug)]
struct Options {
    areas: Vec<&'static Area>,
    seed: u64,
    count: usize,
    only: Vec<usize>,
    list: bool,
}

/// Runs the tests with each mutant of the samples, and prints the mutants that survive.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let root = root.canonicalize()?;
    let files = project_files::files(&root)?;
    let mut mutants = Mutants::new();
    let mut possible = BTreeMap::new();
    for area in &options.areas {
        let sample = sample::draw(&files, area.sources, options.seed, options.count)?;
        possible.insert(area.name, sample.possible);
        mutants.extend((area.first_id..).zip(sample.mutants));
    }
    if !options.only.is_empty() {
        mutants.retain(|id, _| options.only.contains(id));
    }
    let mut stdout = std::io::stdout().lock();
    if options.list {
        for (id, mutant) in &mutants {
            writeln!(stdout, "{id} {} {}", mutant.place(), mutant.description)?;
        }
        return Ok(());
    }
    let results = run_tests(&root, &options, &mut mutants)?;
    for area in &options.areas {
        let possible = possible.get(area.name).copied().unwrap_or(0);
        let summary = results.describe(area, &mutants);
        writeln!(stdout, "{}, seed {}: {possible} possible; {summary}", area.name, options.seed)?;
    }
    Ok(())
}

/// Builds and runs the tests, and removes the mutants that do not compile.
fn run_tests(root: &Path, options: &Options, mutants: &mut Mutants) -> Result<Results> {
    let crates = options.areas.iter().map(|area| area.crate_directory).collect();
    let copy = WorkspaceCopy::create(root, root.canonicalize()?.join(COPY), crates, mutants)?;
    let mut results = Results::default();
    let mut stages: Vec<Vec<&str>> = vec![vec!["--lib"]];
    for area in &options.areas {
        if let Some(stage) = stages.first_mut()
            && !stage.contains(&area.package)
        {
            stage.extend(["-p", area.package]);
        }
        let further = area.further_tests.to_vec();
        if !further.is_empty() && !stages.contains(&further) {
            stages.push(further);
        }
    }
    for stage in stages {
        if results.survivors(mutants).is_empty() {
            break;
        }
        for path in compile::build(&copy, mutants, &stage)? {
            let directory = copy.root.join(directory_of(&path));
            results.run_program(&TestProgram { path, directory, copy: &copy }, mutants)?;
        }
    }
    Ok(results)
}

/// Returns the directory in which cargo would run the test program at `path`.
fn directory_of(path: &Path) -> &'static str {
    let name = path.file_name().map(|name| name.to_string_lossy().replace('_', "-"));
    let name = name.unwrap_or_default();
    let area = AREAS.iter().find(|area| name.starts_with(area.package));
    area.map_or("", |area| area.crate_directory)
}

/// The results of all test programs.
#[derive(Debug, Default)]
struct Results {
    outcomes: BTreeMap<usize, Outcome>,
    /// Number of tests that execute the code of each mutant.
    tests: BTreeMap<usize, usize>,
}

impl Results {
    /// Returns the numbers of the mutants that no test has caught.
    fn survivors(&self, mutants: &Mutants) -> Vec<usize> {
        mutants.keys().copied().filter(|id| self.outcome(*id) == Outcome::Survived).collect()
    }

    fn outcome(&self, id: usize) -> Outcome {
        self.outcomes.get(&id).copied().unwrap_or(Outcome::Survived)
    }

    /// Runs the tests of `program` for the mutants that no other program has caught.
    fn run_program(&mut self, program: &TestProgram<'_>, mutants: &Mutants) -> Result<()> {
        let names = program.names()?;
        eprintln!("{}: {} tests", program.path.display(), names.len());
        let measured = in_parallel(&names, |worker, name| {
            let report = program.copy.root.join(format!("reached.{worker}"));
            program.measure(name.clone(), &report)
        })?;
        let tests: Vec<Test> = measured.into_iter().flatten().collect();
        for id in tests.iter().flat_map(|test| &test.reached) {
            *self.tests.entry(*id).or_default() += 1;
        }
        let survivors = self.survivors(mutants);
        let outcomes = in_parallel(&survivors, |_, id| {
            let outcome = program.run(*id, &tests)?;
            eprintln!("mutant {id}: {outcome:?}");
            Ok((*id, outcome))
        })?;
        self.outcomes.extend(outcomes);
        Ok(())
    }

    /// Returns the survivors of `area`, one per line after the numbers of mutants.
    fn describe(&self, area: &Area, mutants: &Mutants) -> String {
        let ids = area.first_id..area.first_id + COUNT_LIMIT;
        let viable: Vec<_> = mutants.range(ids).collect();
        let number = |wanted| viable.iter().filter(|(id, _)| self.outcome(**id) == wanted).count();
        let [by_test, by_timeout] = [Outcome::Caught, Outcome::TimedOut].map(number);
        let percent = 100.0 * f64_of(by_test + by_timeout) / f64_of(viable.len().max(1));
        let mut text = format!(
            "{} viable, {by_test} caught by a test, {by_timeout} by a timeout ({percent:.1} %), {} survived",
            viable.len(),
            number(Outcome::Survived),
        );
        for (id, mutant) in viable {
            if self.outcome(*id) == Outcome::Survived {
                let tests = self.tests.get(id).copied().unwrap_or(0);
                let place = mutant.place();
                let description = &mutant.description;
                text += &format!("\n{id} {place} {description} [{tests} tests]");
            }
        }
        text
    }
}

/// Calls `work` for each item, in as many threads as there are processors, and returns the results
/// in the order of the items. `work` also receives the number of the thread.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(usize, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let run = |worker| {
        while let Some((index, item)) = take_next(&next, items) {
            let result = work(worker, item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            if let Ok(mut results) = results.lock() {
                results.insert(index, result);
            }
        }
    };
    std::thread::scope(|scope| {
        for worker in 0..threads {
            let run = &run;
            scope.spawn(move || run(worker));
        }
    });
    let results = results.into_inner().ok().context("a worker thread panicked")?;
    results.into_values().collect()
}

fn take_next<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, items.get(index)?))
}

fn f64_of(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let mut options =
        Options { areas: Vec::new(), seed: 1, count: 200, only: Vec::new(), list: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().context(USAGE);
        match *argument {
            "--area" => options.areas = areas(value()?)?,
            "--seed" => options.seed = value()?.parse().context("--seed needs a number")?,
            "--count" => options.count = value()?.parse().context("--count needs a number")?,
            "--only" => {
                let numbers = value()?.split(',').map(str::parse);
                options.only = numbers.collect::<Result<_, _>>().context("--only needs numbers")?;
            }
            "--list" => options.list = true,
            _ => bail!("{USAGE}"),
        }
    }
    ensure!(!options.areas.is_empty(), USAGE);
    ensure!(options.count <= COUNT_LIMIT, "--count is at most {COUNT_LIMIT}");
    Ok(options)
}

fn areas(names: &str) -> Result<Vec<&'static Area>> {
    if names == "all" {
        return Ok(AREAS.iter().collect());
    }
    let area = |name: &str| {
        let area = AREAS.iter().find(|area| area.name == name);
        area.with_context(|| format!("there is no area '{name}'\n\n{USAGE}"))
    };
    names.split(',').map(area).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_required_and_the_other_options_have_defaults() {
        let options = parse(&["--area", "ftp"]).unwrap();
        assert_eq!((options.areas.len(), options.seed, options.count), (1, 1, 200));
        let options = parse(&["--area", "all", "--seed", "7", "--only", "1003,2005"]).unwrap();
        assert_eq!((options.areas.len(), options.seed), (6, 7));
        assert_eq!(options.only, [1003, 2005]);
        assert_eq!(parse(&[]).unwrap_err().to_string(), USAGE);
        let error = parse(&["--area", "x"]).unwrap_err().to_string();
        assert!(error.starts_with("there is no area 'x'"), "{error}");
    }

    #[test]
    fn results_have_the_order_of_the_items_and_an_error_ends_the_work() {
        let items: Vec<usize> = (0..50).collect();
        let doubled = in_parallel(&items, |_, item| Ok(item * 2)).unwrap();
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        let failed = in_parallel(&items, |_, item| {
            ensure!(*item != 7, "seven");
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "seven");
    }
}
