//! The command line: one table for parser, help and man page.

#[allow(unused_imports, reason = "not every command needs the width of the terminal")]
pub(crate) use crate::exit::{Failure, Result, complain, stdout_columns};

use crate::{demo, exit, lab, login, manual, measure};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Logs in, and shows where every microsecond and every CPU cycle of it went.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, after_help = exit::CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Logs in to a host by Telnet.
    Login(login::Arguments),
    /// Measures a login, and says where its time goes and what limits it.
    Measure(measure::Arguments),
    /// Repeats the experiments of the papers in virtual time.
    Lab(lab::Arguments),
    /// Shows plumbline at work: needs nothing, asks nothing, takes half a minute.
    Demo(demo::Arguments),
    /// Writes the manual pages and the completions of the shells to a folder.
    Manual(manual::Arguments),
}

/// Returns the table of arguments.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments ask for.
pub(crate) fn run() -> ExitCode {
    exit::code(match Arguments::parse().command {
        Command::Login(arguments) => login::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, command()),
    })
}
