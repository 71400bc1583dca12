//! The command line: one table for parser, help and man page, and the exit codes.

use crate::{demo, lab, login, measure};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Logs in, moves files, and shows where every microsecond and every CPU cycle of it went.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Logs in to a host by Telnet.
    #[command(long_about = login::ABOUT)]
    Login(login::Arguments),
    /// Measures a login, and says where its time goes and what limits it.
    Measure(measure::Arguments),
    /// Repeats the experiments of the papers in virtual time.
    Lab(lab::Arguments),
    /// Shows plumbline at work: needs nothing, asks nothing, takes half a minute.
    Demo(demo::Arguments),
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
pub(crate) enum Failure {
    /// 1: the far side.
    FarSide = 1,
    /// 3: nothing could be measured.
    NothingMeasured = 3,
    /// 4: this machine.
    ThisMachine = 4,
}

/// What a command returns: it has said why itself, in one sentence on stderr.
pub(crate) type Result = std::result::Result<(), Failure>;

/// Runs the command that the arguments ask for.
pub(crate) fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let result = match arguments.command {
        Command::Login(arguments) => login::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure as u8),
    }
}

/// Shows the help that was asked for, or says in one sentence what is wrong with the arguments.
fn refuse(error: &clap::Error) -> ExitCode {
    use std::io::Write;
    if !error.use_stderr() {
        // Where stdout is closed nobody reads the help.
        _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        _ = error.print();
        return ExitCode::from(WRONG_ARGUMENTS);
    }
    // clap's first paragraph says what is wrong; the hints and the usage below it are in --help.
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = paragraph.split_whitespace().collect();
    let sentence = words.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    _ = writeln!(std::io::stderr(), "plumb: {sentence}; see --help");
    ExitCode::from(WRONG_ARGUMENTS)
}

const WRONG_ARGUMENTS: u8 = 2;

/// Says on stderr why a command failed, in one sentence.
pub(crate) fn complain(error: &anyhow::Error) {
    use std::io::Write;
    // Where stderr is closed there is nobody to tell.
    _ = writeln!(std::io::stderr(), "plumb: {error:#}");
}
