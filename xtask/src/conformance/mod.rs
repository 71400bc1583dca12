//! `./x conformance`: runs the scripts of two public suites against plumb's TCP, and compares the
//! results with the expected ones.
//!
//! The runner and both suites are external programs and files, named by three environment
//! variables; the project stores only the paths of scripts in `crates/conformance/expected.txt`.
//! Every script runs in its own process, with as many processes as processors, because the runner
//! takes a tenth of a second of real time for any script.

mod expected;
mod play;
mod profiles;
mod sandbox;
mod scripts;

use anyhow::{Context, Result, bail, ensure};
use expected::{Expectation, Expected, Suite};
use play::{Outcome, PlayOptions, Player};
use scripts::{Script, play_all};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

const USAGE: &str = "\
usage: ./x conformance [--all] [--only TEXT] [--repeat N] [--verbose] [--tuned]

  --all        run every script of both suites, including scripts that are not in expected.txt
  --only TEXT  run only the scripts whose path contains TEXT
  --repeat N   run each script N times; a script with different outcomes is a failure
  --verbose    print the output of the runner for every script that fails
  --tuned      run only with the policies of the system for which a script was written, and not
               with the policies of plumb's programs

  PLUMB_PACKETDRILL          the script runner, with its shared-object mode
  PLUMB_PACKETDRILL_SCRIPTS  the directory gtests/net of google/packetdrill
  PLUMB_TCP_TESTSUITE        the root of freebsd-net/tcp-testsuite";

/// Options of the command line.
#[derive(Debug)]
struct Options<'a> {
    all: bool,
    only: &'a str,
    repeat: usize,
    verbose: bool,
    tuned: bool,
}

/// Runs the scripts that `arguments` select.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let text = std::fs::read_to_string(root.join("crates/conformance/expected.txt"))
        .context("cannot read crates/conformance/expected.txt")?;
    let expected = Expected::parse(&text)?;
    let directories = Suite::ALL.map(|suite| (suite, variable(suite.variable())));
    let mut scripts = Vec::new();
    for (suite, directory) in directories {
        scripts.extend(select_scripts(suite, &directory?, &expected, &options)?);
    }
    ensure!(!scripts.is_empty(), "no script has '{}' in its path", options.only);
    let library = library(root)?;
    let player = Player::new(&variable("PLUMB_PACKETDRILL")?, &library, &variable_of)?;
    let outcomes = play_all(&player, &scripts, PlayOptions::TUNED, options.repeat);
    let expected = report(&scripts, &outcomes, &options);
    if !options.tuned {
        profiles::report(&player, &scripts)?;
    }
    expected
}

fn parse<'a>(arguments: &[&'a str]) -> Result<Options<'a>> {
    let mut options = Options { all: false, only: "", repeat: 1, verbose: false, tuned: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--all" => options.all = true,
            "--verbose" => options.verbose = true,
            "--tuned" => options.tuned = true,
            "--only" => options.only = rest.next().context(USAGE)?,
            "--repeat" => {
                options.repeat = rest.next().and_then(|n| n.parse().ok()).context(USAGE)?;
            }
            _ => bail!("{USAGE}"),
        }
    }
    ensure!(options.repeat > 0, "--repeat needs a number above 0");
    Ok(options)
}

fn variable(name: &str) -> Result<PathBuf> {
    let value = std::env::var_os(name).map(PathBuf::from);
    let path = value.with_context(|| format!("please set {name}\n\n{USAGE}"))?;
    std::fs::canonicalize(&path).with_context(|| format!("{name}: there is no {}", path.display()))
}

fn variable_of(suite: Suite) -> Result<PathBuf> {
    variable(suite.variable())
}

/// Returns the path of the library that the runner loads; `./x` has just built it.
fn library(root: &Path) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    let library = target.join("debug/libconformance.so");
    std::fs::canonicalize(&library).with_context(|| {
        format!("there is no {}; build it with cargo build -p conformance", library.display())
    })
}

fn select_scripts(
    suite: Suite,
    directory: &Path,
    expected: &Expected,
    options: &Options<'_>,
) -> Result<Vec<Script>> {
    let mut paths: BTreeMap<String, Option<Expectation>> = BTreeMap::new();
    if options.all {
        for path in sandbox::scripts(directory)? {
            paths.insert(path, None);
        }
    }
    for (path, expectation) in expected.scripts_of(suite) {
        ensure!(directory.join(path).is_file(), "{}: there is no {path}", directory.display());
        paths.insert(path.clone(), Some(expectation.clone()));
    }
    let wanted = paths.into_iter().filter(|(path, _)| path.contains(options.only));
    Ok(wanted.map(|(path, expectation)| Script { suite, path, expectation }).collect())
}

/// Prints unexpected outcomes and the totals.
fn report(scripts: &[Script], outcomes: &[Vec<Outcome>], options: &Options<'_>) -> Result<()> {
    let mut surprises = 0;
    let mut out = std::io::stdout().lock();
    for suite in Suite::ALL {
        let mut passed = 0;
        let mut named = 0;
        let mut others = 0;
        let mut others_passed = 0;
        for (script, outcomes) in scripts.iter().zip(outcomes) {
            if script.suite != suite {
                continue;
            }
            let passes = outcomes.iter().filter(|outcome| outcome.has_passed()).count();
            let has_always_passed = passes == outcomes.len();
            let has_never_passed = passes == 0;
            let is_surprise = match &script.expectation {
                Some(Expectation::Passes) => !has_always_passed,
                Some(Expectation::Fails(_)) => !has_never_passed,
                None => !has_always_passed && !has_never_passed,
            };
            if script.expectation.is_some() {
                named += 1;
                passed += usize::from(has_always_passed);
            } else {
                others += 1;
                others_passed += usize::from(has_always_passed);
            }
            surprises += usize::from(is_surprise);
            if is_surprise || (options.verbose && !has_always_passed) {
                write_script(script, outcomes, passes, is_surprise, &mut out)?;
            }
        }
        let name = suite.name();
        writeln!(out, "{name}: {passed} of the {named} listed scripts pass")?;
        if others > 0 {
            writeln!(out, "{name}: {others_passed} of {others} other scripts pass")?;
        }
    }
    ensure!(
        surprises == 0,
        "conformance: {surprises} scripts have other results than in expected.txt"
    );
    Ok(())
}

fn write_script(
    script: &Script,
    outcomes: &[Outcome],
    passes: usize,
    is_surprise: bool,
    out: &mut impl Write,
) -> Result<()> {
    let what = match &script.expectation {
        Some(Expectation::Passes) => "is expected to pass".to_owned(),
        Some(Expectation::Fails(why)) => format!("is expected to fail: {why}"),
        None => "is not in expected.txt".to_owned(),
    };
    let mark = if is_surprise { "UNEXPECTED " } else { "" };
    writeln!(out, "{mark}{}: passed {passes} of {} times, {what}", script.path, outcomes.len())?;
    if let Some(failed) = outcomes.iter().find(|outcome| !outcome.has_passed()) {
        for line in failed.to_string().lines() {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let options = parse(&["--all", "--repeat", "10", "--only", "rst"]).unwrap();
        assert!(options.all && !options.verbose && !options.tuned);
        assert_eq!((options.repeat, options.only), (10, "rst"));
    }

    #[test]
    fn no_repetition_at_all_is_refused() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert_eq!(error(&["--repeat", "0"]), "--repeat needs a number above 0");
        assert_eq!(error(&["--repeat"]), USAGE);
    }
}
