//! `plumb demo`.

use crate::cli;

/// Arguments of `plumb demo`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments) -> cli::Result {
    Ok(())
}
