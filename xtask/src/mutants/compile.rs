//! The build of the mutants: one compilation for all of them.
//!
//! A mutant that does not compile is removed, and the build is repeated.

use super::mutant::{Mutant, Mutants};
use super::workspace_copy::WorkspaceCopy;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

/// Repetitions of the build after which mutants still fail to compile only by a defect of the tool.
const BUILDS: usize = 20;

/// Builds the tests that `arguments` of `cargo test` select, with all mutants that compile.
///
/// Removes the other mutants from `mutants`, and returns the paths of the test programs.
pub(super) fn build(
    copy: &WorkspaceCopy,
    mutants: &mut Mutants,
    arguments: &[&str],
) -> Result<Vec<PathBuf>> {
    for _ in 0..BUILDS {
        copy.write_mutants(mutants)?;
        let output = cargo(copy, arguments)?;
        if output.success {
            // Cargo prints paths below its working directory relative to that directory.
            return Ok(programs(&output.text).iter().map(|path| copy.root.join(path)).collect());
        }
        let failed = failed_mutants(&output.text, mutants);
        ensure!(!failed.is_empty(), "the tests do not compile:\n{}", output.text);
        eprintln!("{} mutants do not compile", failed.len());
        mutants.retain(|id, _| !failed.contains(id));
    }
    bail!("mutants still fail to compile after {BUILDS} builds")
}

struct Output {
    success: bool,
    text: String,
}

fn cargo(copy: &WorkspaceCopy, arguments: &[&str]) -> Result<Output> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--locked", "--no-run", "--message-format", "short"])
        .args(arguments)
        .current_dir(&copy.root)
        .env_remove("CARGO_MANIFEST_DIR")
        .env("CARGO_TARGET_DIR", copy.target())
        .output()
        .context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(Output { success: output.status.success(), text })
}

/// Returns the paths in the lines `Executable unittests src/lib.rs (PATH)`.
fn programs(output: &str) -> Vec<PathBuf> {
    let lines = output.lines().filter(|line| line.trim_start().starts_with("Executable "));
    lines.filter_map(|line| Some(line.rsplit_once('(')?.1.strip_suffix(')')?.into())).collect()
}

/// Returns the mutants to which the compiler's errors `PATH:LINE:COLUMN: error...` refer.
fn failed_mutants(output: &str, mutants: &Mutants) -> BTreeSet<usize> {
    let mut failed = BTreeSet::new();
    for line in output.lines().filter(|line| line.contains(": error")) {
        let mut fields = line.splitn(4, ':');
        let (Some(path), Some(Ok(number))) =
            (fields.next(), fields.next().map(str::parse::<usize>))
        else {
            continue;
        };
        let on_line = |mutant: &Mutant| {
            let Range { start, end } = mutant.lines;
            mutant.path == path && (start == number || end == number + 1)
        };
        let near = |mutant: &Mutant| mutant.path == path && mutant.function.contains(&number);
        let any = mutants.values().any(on_line);
        let blamed = |mutant| if any { on_line(mutant) } else { near(mutant) };
        failed.extend(mutants.iter().filter(|(_, mutant)| blamed(mutant)).map(|(id, _)| *id));
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::mutant::Fault;

    fn mutant(line: usize) -> Mutant {
        Mutant {
            path: "a/b.rs".to_owned(),
            range: 0..1,
            lines: line..line + 1,
            function: 1..10,
            fault: Fault::Delete,
            description: String::new(),
        }
    }

    #[test]
    fn an_error_rejects_the_mutants_of_its_line_or_else_of_its_function() {
        let mutants = Mutants::from([(1, mutant(3)), (2, mutant(4))]);
        let failed = |line| {
            let text = format!("a/b.rs:{line}:7: error[E0308]: mismatched types");
            failed_mutants(&text, &mutants).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(failed(4), [2]);
        assert_eq!(failed(5), [1, 2]);
        assert_eq!(failed(11), Vec::<usize>::new());
    }

    #[test]
    fn the_test_programs_are_in_the_output_of_cargo() {
        let output = "   Compiling a v0.1.0 (/a)\n  Executable unittests src/lib.rs (/t/a-1)\n";
        assert_eq!(programs(output), [PathBuf::from("/t/a-1")]);
    }
}
