//! `plumb`: logs in, moves files, and shows where the time went.

mod carry;
mod cli;
mod demo;
mod exit;
mod files;
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
