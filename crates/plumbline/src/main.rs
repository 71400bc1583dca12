//! `plumb`: logs in, transfers files, and reports where the time went.

mod carrier;
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
mod recording;
mod replay;
mod serve;
mod state_dir;
mod stats;
mod terminal_filter;
mod transfer_recorder;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
