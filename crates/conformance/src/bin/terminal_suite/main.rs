//! Runs two public suites of terminal tests against plumb's terminal.
//!
//! The suites are not part of this project: the command line names the directory of each. The
//! expected results are in `libvterm.txt` and `esctest.txt`.

#![forbid(unsafe_code)]

mod esctest;
mod expected;
mod libvterm;
mod script;
mod usage;

use anyhow::{Result, bail};
use usage::USAGE;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["libvterm", rest @ ..] => libvterm::run(rest),
        ["esctest", rest @ ..] => esctest::run(rest),
        _ => bail!("{USAGE}"),
    }
}
