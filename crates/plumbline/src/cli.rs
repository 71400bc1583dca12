//! Command line: one definition for the parser, the help and the manual pages.

use crate::{demo, exit, files, lab, login, manual, measure, meters, replay, serve, stats};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Telnet, FTP, TFTP and serial client and server that measures where the time goes.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, after_help = exit::CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Log in to a host by Telnet.
    #[command(long_about = login::ABOUT)]
    Login(login::Arguments),
    /// Play back a recorded login.
    #[command(long_about = replay::ABOUT)]
    Replay(replay::Arguments),
    /// Download files by FTP or TFTP.
    #[command(long_about = files::GET_ABOUT)]
    Get(files::Get),
    /// Upload files by FTP or TFTP.
    #[command(long_about = files::PUT_ABOUT)]
    Put(files::Put),
    /// List a remote directory by FTP.
    Ls(files::List),
    /// Print remote files by FTP.
    Cat(files::Cat),
    /// Remove remote files by FTP.
    Rm(files::Remove),
    /// Create a remote directory by FTP.
    Mkdir(files::MakeDirectory),
    /// Rename a remote file by FTP.
    Mv(files::Move),
    /// Mirror a directory from or to a remote host by FTP.
    #[command(long_about = files::MIRROR_ABOUT)]
    Mirror(files::Mirror),
    /// Send a text to a mailbox on an FTP server.
    #[command(long_about = files::MAIL_ABOUT)]
    Mail(files::Mail),
    /// Start an interactive FTP client.
    #[command(long_about = files::SHELL_ABOUT)]
    Ftp(files::Shell),
    /// Measure a login, a server's files, a serial line or a recording, and report what limits it.
    #[command(long_about = measure::ABOUT)]
    Measure(measure::Arguments),
    /// Display the meters of a running plumb.
    #[command(long_about = meters::ABOUT)]
    Meters(meters::Arguments),
    /// Print statistics of the recorded transfers.
    #[command(long_about = stats::ABOUT)]
    Stats(stats::Arguments),
    /// Serve logins by Telnet and files by FTP and TFTP, with TLS or in plaintext.
    #[command(long_about = serve::ABOUT)]
    Serve(serve::Arguments),
    /// Repeat the experiments of the papers in virtual time.
    Lab(lab::Arguments),
    /// Demonstrate plumbline on this machine, without input, in half a minute.
    Demo(demo::Arguments),
    /// Generate manual pages and shell completions.
    Manual(manual::Arguments),
}

/// Returns the definition of the arguments.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments select.
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

/// Prints the requested help, or one sentence about the invalid arguments.
fn refuse(error: &clap::Error) -> ExitCode {
    use std::io::Write;
    if !error.use_stderr() {
        // Ignored: stdout may be closed.
        _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        _ = error.print();
        return ExitCode::from(exit::WRONG_ARGUMENTS);
    }
    // The first paragraph of clap is the error message; --help has the hints and the usage below
    // it.
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

/// Returns the most similar valid word for an unknown one, if there is one.
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
