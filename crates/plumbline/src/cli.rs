//! The command line: one table for parser, help and man page, and the exit codes.

use crate::{demo, lab, login, manual, measure};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Logs in, and shows where every microsecond and every CPU cycle of it went.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, after_help = EXIT_CODES)]
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

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for a login, the far side or you closed it
  1  the far side cannot be reached, refused, reset, or fell silent
  2  the arguments are wrong
  3  nothing could be measured
  4  this machine refuses what is needed: no permission, no such device";

/// Why a command failed, which decides its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 1: the far side.
    FarSide = 1,
    /// 3: nothing could be measured.
    NothingMeasured = 3,
    /// 4: this machine.
    ThisMachine = 4,
}

/// What a command returns: it has said why itself, in one sentence on stderr.
pub type Result = std::result::Result<(), Failure>;

/// Returns the table of arguments.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments ask for.
pub fn run() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Login(arguments) => login::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure as u8),
    }
}

/// Returns the width of the terminal on stdout, or 80 where there is none.
pub fn stdout_columns() -> usize {
    let size = os::tty::WindowSize::of(std::io::stdout());
    size.map_or(80, |size| usize::from(size.columns)).clamp(40, 200)
}

/// Says on stderr why a command failed, in one sentence.
pub fn complain(error: &anyhow::Error) {
    use std::io::Write;
    // Where stderr is closed there is nobody to tell.
    _ = writeln!(std::io::stderr(), "plumb: {error:#}");
}
