//! The project's own checks: `cargo xtask COMMAND`.
//!
//! `./x check` builds this program first, so it depends on no crate of the project.

mod conformance;
mod dependencies;
mod ledger;
mod mutants;
mod project_files;
mod tidy;

use anyhow::{Result, bail, ensure};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy          check the project's own rules: sizes, layers, banned calls, paths, dependencies
  dependencies  compare the number of crates of plumb with docs/dependencies.md
  ledger        print every requirement and attack with its tests; fail if a test is missing
  conformance   run two public script suites on plumb's TCP; see 'cargo xtask conformance --help'
  mutants       count the faults in one area that its tests detect; see 'cargo xtask mutants --help'";

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
        ["dependencies"] => dependencies::check(root),
        ["ledger"] => ledger::run(root),
        ["conformance", rest @ ..] => conformance::run(root, rest),
        ["mutants", rest @ ..] => mutants::run(root, rest),
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
