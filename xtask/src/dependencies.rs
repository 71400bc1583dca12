//! The number of crates from which `plumb` is built.
//!
//! `docs/dependencies.md` has the number, so that a change of it is part of a commit. `cargo tree`
//! counts the crates: Cargo.lock also has those of tests, benchmarks and other systems.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

const DOCUMENT: &str = "docs/dependencies.md";
/// Beginning of the row with the number.
const ROW: &str = "| `plumb` | ";
/// Arguments of cargo. The target makes the number independent of the machine.
const TREE: [&str; 11] = [
    "tree",
    "--package",
    "plumbline",
    "--edges",
    "normal,build",
    "--prefix",
    "none",
    "--locked",
    "--quiet",
    "--target",
    "x86_64-unknown-linux-gnu",
];

/// Compares the number of crates with the number in the document.
///
/// # Errors
///
/// Returns an error if the numbers differ, or if one of them cannot be determined.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = std::fs::read_to_string(root.join(DOCUMENT));
    let committed = committed(&text.with_context(|| format!("cannot read {DOCUMENT}"))?)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(TREE)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo tree")?;
    ensure!(output.status.success(), "cargo tree failed: {}", output.status);
    compare(committed, packages(&String::from_utf8_lossy(&output.stdout)).len())
}

fn committed(document: &str) -> Result<usize> {
    let row = document.lines().find_map(|line| line.strip_prefix(ROW));
    let number = row.and_then(|row| row.split(' ').next()?.parse().ok());
    number.with_context(|| format!("{DOCUMENT} has no line '{ROW}NUMBER |'"))
}

/// Returns the packages in the output of `cargo tree`, which marks repetitions with `(*)`.
fn packages(tree: &str) -> BTreeSet<&str> {
    let lines = tree.lines().map(|line| line.trim_end_matches("(*)").trim_end());
    lines.filter(|line| !line.is_empty()).collect()
}

fn compare(committed: usize, counted: usize) -> Result<()> {
    let change = if counted > committed { "more" } else { "fewer" };
    let difference = counted.abs_diff(committed);
    ensure!(
        difference == 0,
        "plumb is built from {counted} crates, {difference} {change} than {DOCUMENT} states; if this \
         is intended, write {counted} into its row '{ROW}{committed} |' (git diff Cargo.lock names \
         the crates)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_a_package_counts_once() {
        let tree = "plumbline v0.1.0 (/a)\nserde v1.0.1\nsyn v2.0.1\nserde v1.0.1 (*)\n\
            clap_derive v4.6.0 (proc-macro)\nsyn v3.0.0\n\nclap_derive v4.6.0 (proc-macro) (*)\n";
        assert_eq!(packages(tree).len(), 5);
    }

    #[test]
    fn the_number_is_in_the_row_of_the_document() {
        let document = "| program | crates |\n|---|---:|\n| `plumb` | 185 |\n";
        assert_eq!(committed(document).unwrap(), 185);
        let error = committed("| `plumb` | many |\n").unwrap_err().to_string();
        assert_eq!(error, "docs/dependencies.md has no line '| `plumb` | NUMBER |'");
    }

    #[test]
    fn a_difference_in_either_direction_is_an_error_that_says_what_to_write() {
        compare(185, 185).unwrap();
        let error = |counted| compare(185, counted).unwrap_err().to_string();
        assert!(error(187).starts_with("plumb is built from 187 crates, 2 more than"));
        assert!(error(184).starts_with("plumb is built from 184 crates, 1 fewer than"));
        assert!(error(184).contains("write 184 into its row '| `plumb` | 185 |'"));
    }
}
