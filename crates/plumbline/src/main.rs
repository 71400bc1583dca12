//! `plumb`: logs in, transfers files, and reports where the time went.

mod address_families;
mod certificates;
mod cli;
mod demo;
mod exit;
mod files;
mod heading;
mod lab;
mod login;
mod manual;
mod measure;
mod meters;
mod record_options;
mod replay;
mod serve;
mod stats;
mod terminal_filter;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
