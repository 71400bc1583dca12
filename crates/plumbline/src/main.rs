//! `plumb`: logs in, transfers files, and reports where the time went.

mod address_families;
mod certificates;
mod cli;
mod demo;
mod exit;
mod files;
mod gateway;
mod heading;
mod lab;
mod login;
mod manual;
mod measure;
mod meters;
mod output_style;
mod record_options;
mod replay;
mod serve;
mod stats;
mod terminal_filter;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    gateway::run_as_named().unwrap_or_else(cli::run)
}
