//! The project's own checks: `cargo xtask COMMAND`.

mod tidy;

use anyhow::{Result, bail};
use std::path::Path;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy    check what the compiler does not: sizes, layers, banned calls, paths, dependencies";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() else {
        bail!("the workspace is the folder above xtask, and there is none")
    };
    match arguments.as_slice() {
        ["tidy"] => run_tidy(root),
        _ => bail!("{USAGE}"),
    }
}

fn run_tidy(root: &Path) -> Result<()> {
    let violations = tidy::check(root)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => bail!("tidy found {count} violations"),
    }
}
