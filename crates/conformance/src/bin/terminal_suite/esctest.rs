//! `terminal_suite esctest DIRECTORY`: runs the tests of esctest against plumb's terminal.
//!
//! esctest is a program that writes to its terminal, and reads the screen back by checksums
//! (DECRQCRA) and the cursor position by DSR. Here its terminal is a pseudo-terminal with plumb's
//! terminal at the other end. esctest is not part of this project: the command line names the
//! directory with its `esctest.py`. The results are taken from the log that esctest writes.

use super::expected::Expected;
use super::usage::USAGE;
use anyhow::{Context, Result, ensure};
use net::cx::Cx;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::{Duration, Instant};
use os::clock::Monotonic;
use os::pty::{Pty, PtyProgram};
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::tty::WindowSize;
use protocols::terminal::Terminal;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

const SIZE: WindowSize = WindowSize { rows: 25, columns: 80 };
/// Time without output after which a test has hung.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time that a test waits for a reply, in seconds.
const REPLY_TIMEOUT_S: &str = "1";
const EXPECTED: &str = include_str!("esctest.txt");

/// Runs the tests, prints the result of each, and lists the results that are not as expected.
///
/// # Errors
///
/// Returns an error if the tests cannot be run, or if one is not as expected.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_verbose = arguments.contains(&"--verbose");
    let include = arguments.iter().skip_while(|word| **word != "--include").nth(1);
    let directory = arguments.first().filter(|word| !word.starts_with("--")).context(USAGE)?;
    let log = std::env::temp_dir().join(format!("plumb-esctest-{}.log", std::process::id()));
    let mut command = Command::new("python3");
    command.arg(Path::new(directory).join("esctest.py"));
    command.args(["--expected-terminal", "xterm", "--max-vt-level", "4", "--no-print-logs"]);
    command.args(["--xterm-reverse-wrap", "383", "--timeout", REPLY_TIMEOUT_S]);
    command.args(["--include", include.unwrap_or(&".*")]).arg("--logfile").arg(&log);
    let serve_result = Pty::open(SIZE)?.start(command).map_err(Into::into).and_then(serve);
    let text = fs::read(&log).with_context(|| log.display().to_string());
    _ = fs::remove_file(&log);
    serve_result?;
    report(&outcomes(&String::from_utf8_lossy(&text?)), is_verbose, include.is_none())
}

/// Serves as the terminal of a program until the program ends.
fn serve(mut program: PtyProgram) -> Result<()> {
    let mut rng = Rng::from_seed(1);
    let mut meter = Meter::new(Clock::None);
    let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
    let mut terminal = Terminal::new(SIZE.columns, SIZE.rows);
    terminal.report_checksums(true);
    let clock = Monotonic::start();
    let mut bytes = vec![0; 65_536];
    loop {
        let mut ready = [PollFd::new(&program, PollFlags::IN)];
        let woken = wait(&mut ready, &clock, Some(clock.now() + OUTPUT_TIMEOUT))?;
        ensure!(woken != Wake::Deadline, "esctest has stopped writing output");
        match program.read(&mut bytes)? {
            Some(0) => break,
            Some(count) => {
                terminal.receive(bytes.get(..count).unwrap_or_default(), &mut cx);
                // Replies that do not fit are lost, and the test that waits for them reports it.
                let sent = program.write(terminal.output())?.unwrap_or(0);
                terminal.sent(sent);
            }
            None => {}
        }
    }
    program.program().wait_for_end(Duration::from_secs(5))?;
    Ok(())
}

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passes,
    Fails,
    /// esctest itself expects the test to fail, because xterm does, and it fails.
    FailsAsXterm,
    /// The test is for another kind of terminal.
    Skipped,
}

/// A test with its verdict and the last line that esctest logs about it.
type Outcome = (String, Verdict, String);

fn outcomes(log: &str) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in log.lines() {
        if let Some(name) = line.strip_prefix("Run test: ") {
            outcomes.push((name.to_owned(), Verdict::Fails, String::new()));
        }
        let Some((_, verdict, last_line)) = outcomes.last_mut() else { continue };
        match line {
            "Passed." => *verdict = Verdict::Passes,
            _ if line.starts_with("Fails as expected: ") => *verdict = Verdict::FailsAsXterm,
            _ if line.starts_with("Skipped because ") => *verdict = Verdict::Skipped,
            _ => {}
        }
        let is_summary = line.starts_with("*** ") && !line.starts_with("*** TEST ");
        if is_summary {
            break;
        }
        if !line.trim().is_empty() {
            line.trim().clone_into(last_line);
        }
    }
    outcomes
}

fn report(outcomes: &[Outcome], is_verbose: bool, is_whole: bool) -> Result<()> {
    ensure!(!outcomes.is_empty(), "esctest ran no test");
    let expected = Expected::parse(EXPECTED).context("esctest.txt")?;
    let mut out = std::io::stdout().lock();
    let mut surprises = 0;
    let count = |of| outcomes.iter().filter(|(_, v, _)| *v == of).count();
    for (name, verdict, last_line) in outcomes {
        let has_verdict = matches!(verdict, Verdict::Passes | Verdict::Fails);
        let is_surprise = has_verdict && expected.passes(name) != (*verdict == Verdict::Passes);
        surprises += usize::from(is_surprise);
        if is_surprise || is_verbose && *verdict == Verdict::Fails {
            let mark = if is_surprise { "not as expected: " } else { "" };
            writeln!(out, "{mark}{name}: {verdict:?}: {last_line}")?;
        }
    }
    let passed = count(Verdict::Passes);
    let failed = count(Verdict::Fails);
    let share = 100 * passed / (passed + failed).max(1);
    writeln!(
        out,
        "{passed} of {} tests pass ({share} %); {} more fail as on xterm, {} are skipped",
        passed + failed,
        count(Verdict::FailsAsXterm),
        count(Verdict::Skipped)
    )?;
    ensure!(surprises == 0 || !is_whole, "{surprises} tests have unexpected results");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_the_log() {
        let log = "Run test: A.a\nPassed.\n\nRun test: A.b\n*** TEST A.b FAILED:\nwhy\n\n\
            Run test: A.c\nFails as expected: so\n\n*** 1 test passed, 1 known bug ***\nA.b\n";
        let verdicts: Vec<_> = outcomes(log).into_iter().map(|(_, verdict, _)| verdict).collect();
        assert_eq!(verdicts, [Verdict::Passes, Verdict::Fails, Verdict::FailsAsXterm]);
    }

    #[test]
    fn the_list_can_be_read() {
        let expected = Expected::parse(EXPECTED).unwrap();
        let tests = ["ResetColorTests.test_ResetColor_All", "CUUTests.test_CUU_DefaultParam"];
        assert_eq!(tests.map(|name| expected.passes(name)), [false, true]);
    }
}
