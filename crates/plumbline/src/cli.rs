//! Command line: one definition for the parser, the help and the manual pages.

use crate::manual::ManualPage;
use crate::manual::entries::{
    CONFIGURATION, EXIT_STATUS, HOME, JOURNAL, KNOWN_HOSTS, RUNTIME, STATE, STORE,
};
use crate::{
    certificates, demo, exit, files, gateway, heading, lab, login, manual, measure, meters,
    output_style, replay, serve, stats, version,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use records::severity::Severity;
use std::ffi::OsString;
use std::process::ExitCode;

/// Telnet, FTP, TFTP and serial client and server that measures where the time goes.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, long_version = version::long(), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Color the output. auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "auto|always|never", default_value = "auto",
          hide_possible_values = true, help_heading = heading::OUTPUT)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Log in to a host by Telnet.
    #[command(long_about = login::ABOUT)]
    Login(login::Arguments),
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
    /// Start an interactive FTP client.
    #[command(long_about = files::SHELL_ABOUT)]
    Ftp(files::FtpShell),
    /// Measure a login, a server's files, a serial line or a recording, and report what limits it.
    #[command(long_about = measure::ABOUT)]
    Measure(measure::Arguments),
    /// Print statistics of the recorded transfers.
    #[command(long_about = stats::ABOUT)]
    Stats(stats::Arguments),
    /// Display the meters of a running plumb.
    #[command(long_about = meters::ABOUT)]
    Meters(meters::Arguments),
    /// Serve logins by Telnet and files by FTP and TFTP, with TLS or in cleartext.
    #[command(long_about = serve::ABOUT)]
    Serve(serve::Arguments),
    /// Connect namespaces, virtual machines and serial lines to the network, without root.
    #[command(long_about = gateway::ABOUT)]
    Gateway(gateway::Arguments),
    /// Play back a recorded login.
    #[command(long_about = replay::ABOUT)]
    Replay(replay::Arguments),
    /// List or remove the certificates of servers that were saved at the first connection.
    #[command(long_about = certificates::ABOUT)]
    Certificates(certificates::Arguments),
    /// Demonstrate plumbline on this machine, without input, in half a minute.
    Demo(demo::Arguments),
    /// Generate manual pages and shell completions.
    #[command(long_about = manual::ABOUT)]
    Manual(manual::Arguments),
    /// Send a text to a mailbox on an FTP server.
    #[command(long_about = files::MAIL_ABOUT)]
    Mail(files::Mail),
    /// Repeat the experiments of the papers in virtual time.
    Lab(lab::Arguments),
}

/// Manual pages of the program and of its commands, in the order of the help.
pub(crate) const PAGES: &[&ManualPage] = &[
    &PROGRAM_PAGE,
    &login::PAGE,
    &replay::PAGE,
    &files::GET_PAGE,
    &files::PUT_PAGE,
    &files::LIST_PAGE,
    &files::CAT_PAGE,
    &files::REMOVE_PAGE,
    &files::MAKE_DIRECTORY_PAGE,
    &files::MOVE_PAGE,
    &files::MIRROR_PAGE,
    &files::MAIL_PAGE,
    &files::SHELL_PAGE,
    &measure::PAGE,
    &meters::PAGE,
    &stats::PAGE,
    &serve::PAGE,
    &gateway::PAGE,
    &certificates::PAGE,
    &lab::PAGE,
    &demo::PAGE,
    &manual::PAGE,
];

/// Returns the manual page of the command `name`.
fn page(name: &str) -> Option<&'static ManualPage> {
    PAGES.iter().copied().find(|page| page.command == name)
}

/// Manual page of the program.
const PROGRAM_PAGE: ManualPage = ManualPage {
    command: "plumb",
    examples: &[
        "plumb login mit-multics",
        "plumb measure host",
        "plumb get ftp://ftp.example.net/pub/README",
        "plumb serve --ftp --root /srv/ftp",
        "plumb demo",
    ],
    notes: &[],
    exit_status: EXIT_STATUS,
    environment: &[&[STATE, RUNTIME, HOME]],
    files: &[KNOWN_HOSTS, JOURNAL, STORE, CONFIGURATION],
    see_also: &[
        "login",
        "get",
        "put",
        "ftp",
        "measure",
        "meters",
        "stats",
        "serve",
        "certificates",
    ],
};

/// Returns the definition of the arguments.
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

/// Width in columns below which the help of an option begins on the line after its name.
const NARROW_COLUMNS: usize = 60;

/// Returns the definition of the arguments, with examples and exit codes in the help, for a
/// terminal of this width.
fn command_with_help(columns: usize) -> clap::Command {
    let with_help = |command: clap::Command| {
        let command = command.next_line_help(columns < NARROW_COLUMNS);
        match page(command.get_name()) {
            Some(page) => command.after_help(page.short_help()).after_long_help(page.long_help()),
            None => command,
        }
    };
    with_help(command()).mut_subcommands(with_help)
}

/// Returns whether the words may print the help of the program, which lists all commands.
fn may_print_commands(words: &[OsString]) -> bool {
    let first = words.get(1).and_then(|word| word.to_str());
    first.is_none_or(|word| word == "help" || word.starts_with('-'))
}

/// Describes the command help as the other commands are described. clap adds it when it builds the
/// definition, which takes some time for all commands.
fn with_described_help(mut command: clap::Command) -> clap::Command {
    command.build();
    command.mut_subcommand("help", |help| help.about("Print the help of a command"))
}

fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let columns = output_style::stdout_columns();
    let mut command = command_with_help(columns);
    if may_print_commands(words) {
        command = with_described_help(command);
    }
    let mut matches = command.try_get_matches_from(words)?;
    let program = self::command();
    let login = matches.subcommand_matches("login").zip(program.find_subcommand("login"));
    let typed = login.map(|(matches, login)| login::TypedLogin::of(matches, login));
    let arguments = Arguments::from_arg_matches_mut(&mut matches);
    let mut arguments = arguments.map_err(|error| error.format(&mut command_with_help(columns)))?;
    if let (Command::Login(login), Some(typed)) = (&mut arguments.command, typed) {
        login.typed = typed;
    }
    Ok(arguments)
}

/// Parses the command line, with the options of the configuration for the host of a login.
fn parse_command_line() -> Result<Arguments, ExitCode> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        // The command help has no help of its own.
        words.retain(|word| word != "--help" && word != "-h");
    }
    let arguments = parse(&words).map_err(|error| report_parse_error(&error))?;
    let Command::Login(login) = &arguments.command else { return Ok(arguments) };
    let configured = login.configured_host().map_err(|error| {
        exit::print_error(&error);
        ExitCode::from(exit::WRONG_ARGUMENTS)
    })?;
    let Some((destination, options)) = configured else { return Ok(arguments) };
    // Before the options of the user, which override them.
    let command = words.iter().position(|word| word == "login").map_or(words.len(), |at| at + 1);
    words.splice(command..command, options);
    let mut arguments = parse(&words).map_err(|error| report_parse_error(&error))?;
    if let Command::Login(login) = &mut arguments.command {
        login.set_destination(destination);
    }
    Ok(arguments)
}

/// Runs the command that the arguments select.
pub(crate) fn run() -> ExitCode {
    let arguments = match parse_command_line() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    output_style::set_color(arguments.color);
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
        Command::Gateway(arguments) => gateway::run(&arguments),
        Command::Certificates(arguments) => certificates::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Manual(arguments) => manual::run(&arguments, PAGES, command()),
    })
}

/// Prints the requested help, or one sentence about the invalid arguments.
fn report_parse_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return exit::code(error.print().map_err(|error| exit::local_failure(&error.into())));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        _ = error.print();
        return ExitCode::from(exit::WRONG_ARGUMENTS);
    }
    // The first paragraph of clap's text is the error message. The hints and the usage that follow
    // are in --help.
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = paragraph.split_whitespace().collect();
    let sentence = words.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    let hint = option_hint(error)
        .or_else(|| suggestion(error).map(|word| format!("; perhaps '{word}' was meant")))
        .unwrap_or_default();
    let sentence = format!("{sentence}{hint}; see --help");
    exit::print_diagnostic(Severity::Error, &sentence);
    ExitCode::from(exit::WRONG_ARGUMENTS)
}

/// Options of other terminal programs for the rate of a serial line.
const RATE_OPTIONS: [&str; 7] = ["--baud", "--baudrate", "--speed", "--rate", "--bps", "-b", "-s"];

/// Returns the correct form of an option of other programs, if the error is about such an option.
fn option_hint(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = word.split(['=', ' ']).next().unwrap_or_default();
    let is_rate = error.kind() == ErrorKind::UnknownArgument && RATE_OPTIONS.contains(&option);
    is_rate.then(|| {
        "; the rate of a serial line is part of its name: 'serial:/dev/ttyUSB0?baud=9600'"
            .to_owned()
    })
}

/// Returns the valid word that clap suggests in place of an invalid word, if any.
fn suggestion(error: &clap::Error) -> Option<&str> {
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && word.starts_with("completion")
    {
        return Some("plumb manual --shell bash");
    }
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

    fn suggestion_for(words: &[&str]) -> Option<String> {
        let error = Arguments::try_parse_from(words).err().unwrap();
        suggestion(&error).map(str::to_owned)
    }

    /// Splits a line into commands, and each command into words, with single quotes as in a shell.
    fn commands_of(line: &str) -> Vec<Vec<String>> {
        let mut commands = vec![Vec::new()];
        let mut current_word = String::new();
        let mut is_quoted = false;
        for letter in line.chars().chain([' ']) {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted && current_word == "|" => {
                    commands.push(Vec::new());
                    current_word.clear();
                }
                ' ' if !is_quoted && !current_word.is_empty() => {
                    commands.last_mut().unwrap().push(std::mem::take(&mut current_word));
                }
                ' ' if !is_quoted => {}
                letter => {
                    let is_special = !is_quoted && "*?[]{}()&;<#!$\"\\".contains(letter);
                    assert!(!is_special, "{letter} without quotes: {line}");
                    current_word.push(letter);
                }
            }
        }
        assert!(!is_quoted, "{line}");
        commands
    }

    #[test]
    fn the_command_help_is_described_as_the_other_commands() {
        let words = ["plumb", "--help"].map(OsString::from);
        assert!(
            may_print_commands(&words) && !may_print_commands(&["plumb", "get"].map(Into::into))
        );
        let help = parse(&words).unwrap_err().to_string();
        assert!(help.contains(" Print the help of a command\n"), "{help}");
        assert!(!help.contains("this message"), "{help}");
        let words = ["plumb", "help", "get"].map(OsString::from);
        assert!(parse(&words).unwrap_err().to_string().contains("Download files by FTP or TFTP"));
    }

    #[test]
    fn in_a_narrow_terminal_the_help_of_an_option_begins_on_a_line_of_its_own() {
        let help = |columns| {
            let mut program = command_with_help(columns).term_width(columns);
            program.build();
            program.find_subcommand_mut("measure").unwrap().render_help().to_string()
        };
        assert!(help(40).contains("--keys <count>\n"), "{}", help(40));
        assert!(!help(80).contains("--keys <count>\n"), "{}", help(80));
    }

    #[test]
    fn only_the_terminal_wraps_the_help_of_an_option() {
        let program = command();
        let arguments = program.get_subcommands().flat_map(|command| command.get_arguments());
        let helps = arguments.flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
        for help in helps.flatten().map(ToString::to_string) {
            let is_list = |paragraph: &str| paragraph.starts_with("- ");
            let mut paragraphs = help.split("\n\n").filter(|paragraph| !is_list(paragraph));
            assert!(paragraphs.all(|paragraph| !paragraph.contains('\n')), "{help}");
        }
    }

    #[test]
    fn the_examples_in_the_help_are_valid_and_can_be_pasted_into_a_shell() {
        let program = command();
        let commands = program.get_subcommands().map(clap::Command::get_name);
        for name in commands.chain(["plumb"]) {
            let help = page(name).unwrap().short_help();
            for example in help.lines().skip(1) {
                for words in commands_of(example) {
                    let words = words.iter().skip_while(|word| word.contains('='));
                    let words: Vec<&String> = words.take_while(|word| *word != ">").collect();
                    if words.first().is_some_and(|word| *word == "plumb") {
                        let parsed = Arguments::try_parse_from(&words);
                        assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                    }
                }
            }
        }
    }

    #[test]
    fn value_names_are_in_lower_case_or_are_the_values() {
        let program = command();
        let arguments = program.get_subcommands().flat_map(|command| command.get_arguments());
        for argument in arguments.filter(|argument| !argument.is_hide_set()) {
            if !argument.get_action().takes_values() {
                continue;
            }
            let names = argument.get_value_names().unwrap_or_default();
            assert!(!names.is_empty(), "{}", argument.get_id().as_str());
            for name in names.iter().filter(|name| !name.contains('|')) {
                assert!(!name.contains(char::is_uppercase), "{name}");
            }
        }
    }

    #[test]
    fn an_option_for_the_rate_of_a_serial_line_gets_a_hint() {
        let hint_for = |words: &[&str]| {
            option_hint(&Arguments::try_parse_from(words).err().unwrap()).unwrap_or_default()
        };
        for option in ["--baud", "-b", "--speed", "--baud=9600", "-b9600", "--rate"] {
            for command in ["login", "measure"] {
                let hint = hint_for(&["plumb", command, option, "9600", "serial:/dev/ttyS0"]);
                assert!(hint.ends_with("'serial:/dev/ttyUSB0?baud=9600'"), "{option}: {hint}");
            }
        }
        assert_eq!(hint_for(&["plumb", "login", "--bad", "host"]), "");
        assert_eq!(hint_for(&["plumb", "login", "--terminal", "x", "host"]), "");
    }

    #[test]
    fn a_misspelled_word_gets_a_suggestion() {
        assert_eq!(suggestion_for(&["plumb", "mesure"]).as_deref(), Some("measure"));
        assert_eq!(suggestion_for(&["plumb", "get", "--frce", "x"]).as_deref(), Some("--force"));
        assert_eq!(suggestion_for(&["plumb", "lab", "tm23"]).as_deref(), Some("tm233"));
        let completions = suggestion_for(&["plumb", "completions", "bash"]);
        assert_eq!(completions.as_deref(), Some("plumb manual --shell bash"));
        assert_eq!(suggestion_for(&["plumb", "quux"]), None);
    }
}
