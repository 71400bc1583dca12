//! A test program with all mutants: its tests, the mutants that each of them reaches, and the result
//! of the tests for one mutant.

use super::workspace_copy::{ACTIVE, REACHED, WorkspaceCopy};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Limit of a mutant's memory: a loop that never ends may allocate without limit.
const MEMORY_KIB: u64 = 4_000_000;
/// Shortest time limit of the tests of a mutant.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time of a test that runs with mutants: a few longer ones would take most of the time.
const LONGEST_TEST: Duration = Duration::from_secs(5);
/// Tests of the first run for a mutant; most mutants fail in one of the shortest tests.
const FIRST_TESTS: usize = 30;

/// A program that cargo has built from tests.
#[derive(Debug)]
pub(super) struct TestProgram<'a> {
    pub(super) path: PathBuf,
    /// Directory in which the program runs.
    pub(super) directory: PathBuf,
    pub(super) copy: &'a WorkspaceCopy,
}

/// A test, its time without an active mutant, and the numbers of the mutants in the code that it
/// executes.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) time: Duration,
    pub(super) reached: BTreeSet<usize>,
}

/// Result of the tests for one mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed or the program aborted.
    Caught,
    /// The tests did not end in time.
    TimedOut,
    Survived,
}

impl TestProgram<'_> {
    /// Returns the names of the tests that are not ignored.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let ignored = self.list(&["--ignored"])?;
        let mut names = self.list(&[])?;
        names.retain(|name| !ignored.contains(name));
        Ok(names)
    }

    fn list(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let arguments = ["--list", "--format", "terse"].iter().chain(arguments);
        let output = self.command().args(arguments).output().context("cannot list the tests")?;
        ensure!(output.status.success(), "{} cannot list its tests", self.path.display());
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs a test without an active mutant. `report` is a path for a temporary file. Returns `None`
    /// if the test fails or takes too long.
    pub(super) fn measure(&self, name: String, report: &Path) -> Result<Option<Test>> {
        let _ = std::fs::remove_file(report);
        let start = Instant::now();
        let output = self
            .command()
            .args(["--exact", &name, "--test-threads", "1"])
            .env(REACHED, report)
            .output()
            .context("cannot run a test")?;
        let time = start.elapsed();
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            eprintln!("{name} fails without a mutant, and is left out:\n{text}");
            return Ok(None);
        }
        if time > LONGEST_TEST {
            eprintln!("{name} takes {:.1} s, and is left out", time.as_secs_f64());
            return Ok(None);
        }
        let report = std::fs::read_to_string(report).unwrap_or_default();
        let reached = report.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(Some(Test { name, time, reached }))
    }

    /// Runs the tests that reach the mutant `id`, until one fails. The shortest tests run first.
    pub(super) fn run(&self, id: usize, tests: &[Test]) -> Result<Outcome> {
        let mut reaching: Vec<&Test> =
            tests.iter().filter(|test| test.reached.contains(&id)).collect();
        reaching.sort_by_key(|test| test.time);
        let (first, rest) = reaching.split_at(reaching.len().min(FIRST_TESTS));
        for part in [first, rest] {
            if part.is_empty() {
                continue;
            }
            let outcome = self.run_part(id, part)?;
            if outcome != Outcome::Survived {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Survived)
    }

    fn run_part(&self, id: usize, tests: &[&Test]) -> Result<Outcome> {
        let time: Duration = tests.iter().map(|test| test.time).sum();
        let deadline = Instant::now() + TIMEOUT.max(time * 5);
        let mut child = self
            .command()
            .args(["--exact", "--test-threads", "1"])
            .args(tests.iter().map(|test| &test.name))
            .env(ACTIVE, id.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run the tests")?;
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().context("the tests have no output")?;
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let outcome = loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.ends_with("... FAILED") => break Some(Outcome::Caught),
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => break Some(Outcome::TimedOut),
                Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            }
        };
        if outcome.is_some() {
            child.kill().context("cannot end the tests")?;
        }
        let status = child.wait()?;
        let _ = reader.join();
        let ended = if status.success() { Outcome::Survived } else { Outcome::Caught };
        Ok(outcome.unwrap_or(ended))
    }

    /// Returns the program in the environment that makes a run repeatable.
    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
        command.args(["-c", &limited]).arg(&self.path).current_dir(&self.directory);
        command.env("INSTA_WORKSPACE_ROOT", &self.copy.root).env("INSTA_UPDATE", "no");
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
            command.env("PROPTEST_RNG_SEED", "573");
        }
        // Tests that are ended leave temporary files behind.
        command.env("TMPDIR", self.copy.temporary_directory()).env_remove("PLUMB_TEST_REPORT");
        command.env_remove(ACTIVE).env_remove(REACHED);
        command
    }
}
