//! The project's own checks and benchmarks: `cargo xtask COMMAND`.

mod bench;
mod conformance;
mod ledger;
mod soak;
mod terminal_suite;
mod tidy;

use anyhow::{Result, bail, ensure};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy          check the project's own rules: sizes, layers, banned calls, paths, dependencies
  ledger        print every requirement and attack with its tests; fail if a test is missing
  bench NAME    measure plumb and its peers, interleaved; see 'cargo xtask bench'
  conformance   run two public script suites on plumb's TCP; see 'cargo xtask conformance --help'
  soak          run the simulator's fault campaign; see './x help'
  terminal-suite DIRECTORY
                run the test scripts of libvterm (not part of the project) on plumb's terminal
  terminal-esctest DIRECTORY
                run the tests of esctest (not part of the project) on plumb's terminal";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Cargo sets this variable at run time, so it is correct even after the directory has been
    // moved.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "xtask".into());
    let root = Path::new(&package).join("..");
    match run(&root, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    match arguments {
        ["tidy"] => run_tidy(root),
        ["ledger"] => ledger::run(root),
        ["bench", rest @ ..] => bench::run(root, rest),
        ["terminal-esctest", rest @ ..] => terminal_suite::esctest::run(rest),
        ["terminal-suite", rest @ ..] => terminal_suite::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["conformance", rest @ ..] => conformance::run(root, rest),
        _ => bail!("{USAGE}"),
    }
}

fn run_tidy(root: &Path) -> Result<()> {
    let violations = tidy::check(root)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    ensure!(violations.is_empty(), "tidy: {} violations, listed above", violations.len());
    Ok(())
}
