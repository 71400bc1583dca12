//! The command line: one table for parser, help and man page.

use crate::{demo, exit, files, lab, login, manual, measure, meters, replay, serve, stats};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Logs in, moves files, and shows where every microsecond and every CPU cycle of it went.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, after_help = exit::CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Logs in to a host by Telnet.
    #[command(long_about = login::ABOUT)]
    Login(login::Arguments),
    /// Shows a recording of a login again.
    #[command(long_about = replay::ABOUT)]
    Replay(replay::Arguments),
    /// Gets files from another host by FTP or TFTP.
    #[command(long_about = files::GET_ABOUT)]
    Get(files::Get),
    /// Puts files on another host by FTP or TFTP.
    #[command(long_about = files::PUT_ABOUT)]
    Put(files::Put),
    /// Lists a folder of another host by FTP.
    Ls(files::List),
    /// Shows files of another host by FTP.
    Cat(files::Cat),
    /// Removes files of another host by FTP.
    Rm(files::Remove),
    /// Makes a folder on another host by FTP.
    Mkdir(files::MakeDirectory),
    /// Gives a file of another host another name by FTP.
    Mv(files::Move),
    /// Makes a folder here as it is on another host, or the other way round, by FTP.
    #[command(long_about = files::MIRROR_ABOUT)]
    Mirror(files::Mirror),
    /// Sends a text into a mailbox at an FTP server.
    #[command(long_about = files::MAIL_ABOUT)]
    Mail(files::Mail),
    /// Moves files by FTP, by hand.
    #[command(long_about = files::SHELL_ABOUT)]
    Ftp(files::Shell),
    /// Measures a login, a server's files, a line or a recording, and says what limits it.
    #[command(long_about = measure::ABOUT)]
    Measure(measure::Arguments),
    /// Shows the meters of a running plumb.
    #[command(long_about = meters::ABOUT)]
    Meters(meters::Arguments),
    /// Shows statistics of the recorded transfers.
    #[command(long_about = stats::ABOUT)]
    Stats(stats::Arguments),
    /// Serves logins by Telnet and files by FTP and TFTP, in TLS and in cleartext.
    #[command(long_about = serve::ABOUT)]
    Serve(serve::Arguments),
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
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    exit::code(match arguments.command {
        Command::Login(arguments) => login::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Get(arguments) => files::get(&arguments),
        Command::Put(arguments) => files::put(&arguments),
        Command::Ls(arguments) => files::list(&arguments),
        Command::Cat(arguments) => files::cat(&arguments),
        Command::Rm(arguments) => files::remove(&arguments),
        Command::Mkdir(arguments) => files::make_directory(&arguments),
        Command::Mv(arguments) => files::move_file(&arguments),
        Command::Mirror(arguments) => files::mirror(&arguments),
        Command::Mail(arguments) => files::mail(&arguments),
        Command::Ftp(arguments) => files::shell(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Meters(arguments) => meters::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, command()),
    })
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
        return ExitCode::from(exit::WRONG_ARGUMENTS);
    }
    // clap's first paragraph says what is wrong; the hints and the usage below it are in --help.
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = paragraph.split_whitespace().collect();
    let sentence = words.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    let hint =
        meant(error).map(|meant| format!("; perhaps '{meant}' was meant")).unwrap_or_default();
    _ = writeln!(std::io::stderr(), "plumb: {sentence}{hint}; see --help");
    ExitCode::from(exit::WRONG_ARGUMENTS)
}

/// Returns the word that is most like the one that nobody knows, if one is like it.
fn meant(error: &clap::Error) -> Option<&str> {
    let kinds =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.as_str()),
        ContextValue::Strings(words) => words.last().map(String::as_str),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_by(words: &[&str]) -> Option<String> {
        let error = Arguments::try_parse_from(words).err().unwrap();
        meant(&error).map(str::to_owned)
    }

    #[test]
    fn a_slip_of_the_finger_is_told_what_was_meant() {
        assert_eq!(meant_by(&["plumb", "mesure"]).as_deref(), Some("measure"));
        assert_eq!(meant_by(&["plumb", "get", "--frce", "x"]).as_deref(), Some("--force"));
        assert_eq!(meant_by(&["plumb", "lab", "tm23"]).as_deref(), Some("tm233"));
        assert_eq!(meant_by(&["plumb", "quux"]), None);
    }
}
