//! `plumb ftp HOST`: the interactive FTP client.
//!
//! The shell stores the working directory on the server. After the loss of a session, a new session
//! therefore continues in that directory without any action of the user.
//!
//! A script consists of the commands of `-e`, or of the lines of a standard input that is not a
//! terminal. It ends at its first failed command, unless `--continue-on-error` is given. In both
//! cases the exit code is that of the first failed command.
//!
//! ```text
//! commands           list of commands, help
//! completion         tab completion
//! input              commands of the terminal or of a script
//! reading            reading of commands and answers
//! session_commands   other hosts and users, bookmarks
//! transfer_commands  get, put and mirror
//! settings_commands  type, mode, status, and commands sent as they are
//! local_commands     commands on the local machine
//! ```

mod commands;
mod completion;
mod input;
mod local_commands;
mod reading;
mod session_commands;
mod settings_commands;
mod transfer_commands;

use super::command_options::{ConnectionOptions, host_transfer_options};
use super::command_output::print;
use super::manage::{format_of, print_file, rename};
use super::removal::{Removal, RemoveOptions, check_named, remove_directory};
use super::run_command::{report_error, run_command_with};
use crate::exit::{self, Failure, print_diagnostic};
use crate::files::progress::print_message;
use crate::manual::entries::{
    CONFIGURATION, CONFIGURATION_VARIABLE, EXIT_STATUS, FILE_VARIABLES, JOURNAL, KNOWN_HOSTS,
    METERS, NETRC,
};
use crate::manual::{ManualNote, ManualPage};
use crate::output_style;
use commands::{Group, find, unknown_command_message};
use input::{Answer, PromptKind, ShellInput};
use os::beneath::Existing;
use os::state_directory::state_directory;
use protocols::ftp::Representation;
use protocols::ftp::user::Task;
use records::severity::Severity;
use std::io::IsTerminal;
use transfer::bookmarks::Bookmarks;
use transfer::escaped;
use transfer::ftp::FtpError;
use transfer::ftp::FtpOptions;
use transfer::ftp::Interrupt;
use transfer::ftp::{Connector, FtpClient};
use transfer::ftp::{is_pattern, name_of, path_in, split, unparsed_text};
use transfer::ftp::{listing_text, time_text, tree_text};
use transfer::shell_line::{CommandLine, prompt, split_flags};
use transfer::url::Url;

/// Introduction of `plumb ftp --help`.
pub(crate) const SHELL_ABOUT: &str = "\
Transfer and manage files interactively with commands such as ls, cd, get and put.

Tab completes commands, remote names and local files; 'help' lists the commands. Put names with \
spaces in quotes. Ctrl-C cancels the running command and does not end the session.

With -e, or with a standard input that is not a terminal, the commands are a script. The script ends \
at its first failed command, whose exit code is that of plumb.";

/// Manual page of `plumb ftp`.
pub(crate) const SHELL_PAGE: ManualPage = ManualPage {
    command: "ftp",
    examples: &[
        "plumb ftp ftp.example.net",
        "plumb ftp ftpes://me@example.net/logs",
        "plumb ftp -e 'cd pub; get README' ftp.example.net",
        "printf 'cd pub\\nmget *.gz\\n' | plumb ftp ftp.example.net",
    ],
    notes: &[ManualNote::Code(
        "Commands at the prompt",
        "text",
        "ls -la *.gz                  mget *.gz\n\
         cd '/a directory'             put -c image.iso images/\n\
         mirror tree                   mirror -R site /www\n\
         open ftpes://me@example.org   bookmark add work\n\
         type L36                     store c36\n\
         chmod 644 notes              quote SITE HELP\n\
         lls -l *.iso                 !make",
    )],
    exit_status: EXIT_STATUS,
    environment: &[
        FILE_VARIABLES,
        CONFIGURATION_VARIABLE,
        &[("SHELL", "Shell for ! and lls [default: /bin/sh]")],
    ],
    files: &[
        NETRC,
        CONFIGURATION,
        &[
            ("~/.local/state/plumb/ftp_history", "Commands of earlier sessions"),
            ("~/.local/state/plumb/ftp_bookmarks", "Bookmarks"),
        ],
        KNOWN_HOSTS,
        JOURNAL,
        METERS,
    ],
    see_also: &["get", "put", "ls", "mirror"],
};

/// Arguments of `plumb ftp`.
#[derive(Debug, clap::Args)]
pub(crate) struct FtpShell {
    /// Host name, bookmark, or ftp://user@host:port/directory, ftpes:// and ftps:// with TLS
    #[arg(value_name = "host")]
    host: String,
    /// Run these commands, separated by semicolons or line ends, and exit; may be repeated
    #[arg(short = 'e', long = "execute", value_name = "commands")]
    execute: Vec<String>,
    /// Continue a script after a failed command; the exit code is that of the first failed command
    #[arg(long)]
    continue_on_error: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// State of the interactive client.
struct ShellState<'a> {
    client: FtpClient,
    input: &'a mut ShellInput,
    /// URL of the server and the user.
    url: Url,
    /// Server to which `open` or `user` leads.
    next_url: Option<Url>,
    /// Working directory on the server.
    directory: Vec<u8>,
    names: Vec<String>,
    /// Transfer options.
    options: FtpOptions,
    /// Representation that TYPE I selects for this host.
    image: Representation,
    /// Whether the shell asks before each of several files.
    asks_before_each: bool,
}

fn bookmarks() -> anyhow::Result<Bookmarks> {
    Bookmarks::read(state_directory().join("ftp_bookmarks"))
}

/// Runs `plumb ftp`.
pub(crate) fn shell(arguments: &FtpShell) -> exit::Result {
    let resolved = bookmarks().and_then(|bookmarks| bookmarks.resolve(&arguments.host));
    let mut url = resolved.map_err(|error| {
        exit::print_error(&error);
        Failure::WrongArguments
    })?;
    // The editor handles SIGINT itself, so it is created before the other signal handlers.
    let mut input = ShellInput::new(&arguments.execute, arguments.continue_on_error)
        .map_err(|error| report_error(&error))?;
    let mut connection = arguments.connection.clone();
    let mut previous_url = None;
    loop {
        match run_session(&url, &connection, &mut input) {
            Ok((_, None)) => break,
            Ok((left, Some(next))) => {
                // The name and the password are for the host in the arguments only.
                connection.user = None;
                previous_url = Some(std::mem::replace(&mut url, next)).map(|_| left);
            }
            // A host that cannot be reached leads back to the host before.
            Err(failure) => match previous_url.take() {
                Some(left) if input.is_interactive() && failure != Failure::Interrupted => {
                    url = left;
                }
                _ => return Err(failure),
            },
        }
    }
    input.save_history();
    input.failure().map_or(Ok(()), Err)
}

/// Runs the commands for one server. Returns the URL of the last directory, and the URL of the next
/// server if there is one.
fn run_session(
    url: &Url,
    connection: &ConnectionOptions,
    input: &mut ShellInput,
) -> Result<(Url, Option<Url>), Failure> {
    let options =
        host_transfer_options(url, Existing::Keep).map_err(|error| report_error(&error))?;
    let interrupt = match input.is_interactive() {
        true => Interrupt::CancelsOperation,
        false => Interrupt::CancelsCommand,
    };
    run_command_with(url, connection, None, interrupt, async |connector| {
        let mut state = ShellState {
            client: FtpClient::new(&connector),
            input,
            url: url.clone(),
            next_url: None,
            directory: Vec::new(),
            names: Vec::new(),
            options,
            image: Representation::IMAGE,
            asks_before_each: false,
        };
        state.change_directory(if url.name.is_empty() { b"." } else { &url.name }).await?;
        state.client.choose_type(&mut state.options).await?;
        state.image = state.options.representation;
        state.run_commands(&connector).await?;
        state.client.quit().await;
        let left = Url { name: state.directory, ..state.url };
        Ok((left, state.next_url))
    })
}

impl ShellState<'_> {
    /// Runs commands until the end of the input, or until a command leads to another server.
    async fn run_commands(&mut self, connector: &Connector) -> Result<(), FtpError> {
        while self.next_url.is_none() {
            let directory = escaped(&self.directory).to_string();
            let prompt =
                prompt(&connector.target().host, &directory, output_style::stdout_columns());
            let Some(line) = self.read(prompt, PromptKind::Command).await? else { break };
            let line = CommandLine::parse(&line);
            match line.words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] => {}
                ["quit" | "exit" | "bye", ..] => break,
                [word, words @ ..] => match self.command(word, words, &line.rest).await {
                    Err(FtpError::Stopped) if !connector.clear_cancellation() => {
                        return Err(FtpError::Stopped);
                    }
                    Err(error) if self.input.ends_after(&error) => {
                        report_error(&error);
                        break;
                    }
                    Err(error) => print_diagnostic(Severity::Error, &error.sentence()),
                    // Clears an interrupt that arrived after the end of the command, so that it
                    // does not cancel the next command.
                    Ok(()) => _ = connector.clear_cancellation(),
                },
            }
            self.input.set_names(&self.names);
        }
        Ok(())
    }

    /// Returns the remote path of a name that the user has typed.
    fn remote_path(&self, name: &str) -> Vec<u8> {
        path_in(&self.directory, name.as_bytes())
    }

    async fn command(&mut self, word: &str, words: &[&str], rest: &str) -> Result<(), FtpError> {
        let Some(command) = find(word) else {
            return Err(FtpError::InvalidRequest(unknown_command_message(word)));
        };
        let name = command.name;
        let result = match command.group {
            Group::Remote => self.remote_command(name, words).await,
            Group::Transfer => self.transfer_command(name, words).await,
            Group::Local => self.local_command(name, words, rest).await,
            Group::Settings => self.settings_command(name, words, rest).await,
            Group::Session => self.session_command(name, words).await,
        };
        result.unwrap_or_else(|| {
            let usage = command.usage_text();
            Err(FtpError::InvalidRequest(format!("wrong arguments for '{word}', usage: {usage}")))
        })
    }

    /// Runs a command on the server; `None` if its arguments are wrong.
    async fn remote_command(&mut self, name: &str, words: &[&str]) -> Option<Result<(), FtpError>> {
        Some(match (name, words) {
            ("ls" | "dir", words) => {
                let (mut flags, names) = split_flags(words, "laR1")?;
                flags.push_str(if name == "dir" { "l" } else { "" });
                self.client.lists_hidden = flags.contains('a');
                let result = self.list(names, &flags).await;
                self.client.lists_hidden = false;
                result
            }
            ("cd", [directory]) => self.change_directory(&self.remote_path(directory)).await,
            ("cdup", []) => self.change_directory(split(&self.directory.clone()).0).await,
            ("pwd", []) => print(&[self.directory.as_slice(), b"\n"].concat()),
            ("cat", [name]) => {
                let path = self.remote_path(name);
                print_file(&mut self.client, &path, self.image).await
            }
            ("rm", words) => {
                let (flags, names) = split_flags(words, "rfnv")?;
                if names.is_empty() {
                    return None;
                }
                self.remove(names, &flags).await
            }
            ("mkdir", names) if !names.is_empty() => self.make_directories(names).await,
            ("rmdir", names) if !names.is_empty() => self.remove_directories(names).await,
            ("mv", [from, to]) => {
                let from = self.remote_path(from);
                let to = self.remote_path(to);
                rename(&mut self.client, &from, &to).await
            }
            ("chmod", [mode, names @ ..]) if !names.is_empty() => {
                self.change_mode(mode, names).await
            }
            ("size", [name]) => self.size(name).await,
            ("modtime", [name]) => self.modified(name).await,
            _ => return None,
        })
    }

    async fn list(&mut self, names: &[&str], flags: &str) -> Result<(), FtpError> {
        let is_many = names.len() > 1;
        let mut listed = Vec::new();
        for name in if names.is_empty() { &[""] } else { names } {
            let result = self.listing(name, flags).await;
            let unparsed = unparsed_text(&std::mem::take(&mut self.client.unparsed));
            let (text, entries) = result?;
            let has_heading = is_many && !flags.contains('R');
            let heading = if has_heading {
                format!("{}:\n", escaped(name.as_bytes()))
            } else {
                String::new()
            };
            print(format!("{heading}{text}").as_bytes())?;
            if let Some(unparsed) = unparsed {
                print_diagnostic(Severity::Warning, &unparsed);
            }
            listed.extend(entries);
        }
        self.names = listed;
        Ok(())
    }

    /// Returns the text of a listing, and the listed names.
    async fn listing(
        &mut self,
        name: &str,
        flags: &str,
    ) -> Result<(String, Vec<String>), FtpError> {
        let is_long = flags.contains('l');
        if flags.contains('R') {
            let path =
                if name.is_empty() { self.directory.clone() } else { self.remote_path(name) };
            let root = path.strip_suffix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(&path);
            let found = self.client.list_tree(root, |_, _| true).await?;
            return Ok((tree_text(root, &found, format_of(&self.client, is_long)), Vec::new()));
        }
        let entries = self.client.named_entries(&self.directory, name.as_bytes()).await?;
        let text = listing_text(&entries, format_of(&self.client, is_long));
        let names = entries.into_iter().filter_map(|entry| String::from_utf8(entry.name).ok());
        Ok((text, names.collect()))
    }

    async fn change_directory(&mut self, directory: &[u8]) -> Result<(), FtpError> {
        let context = format!("cannot change to '{}'", escaped(directory));
        let client = &mut self.client;
        client.run(&context, Task::ChangeDirectory(name_of(directory)?)).await?;
        let reply = client.run(&context, Task::WorkingDirectory).await;
        let reported_directory = reply.ok().and_then(|done| done.reply.quoted_name());
        self.directory = reported_directory.unwrap_or_else(|| directory.to_vec());
        self.client.directory = name_of(&self.directory).ok();
        Ok(())
    }

    async fn remove(&mut self, names: &[&str], flags: &str) -> Result<(), FtpError> {
        let is_recursive = flags.contains('r');
        let mut removal = Removal::default();
        let mut asks_about_rest = true;
        'all: for name in names {
            // Checks the name as typed, in addition to the path of the name below the working
            // directory.
            check_named(name.as_bytes(), "remove")?;
            let is_named = !is_pattern(name.as_bytes());
            for found in self.expand(name).await? {
                match self.ask("remove", &found.path, &mut asks_about_rest).await? {
                    Answer::Yes if is_named => {
                        removal.add_named(&mut self.client, &found.path, is_recursive).await?;
                    }
                    Answer::Yes => removal.add(&mut self.client, &found, is_recursive).await?,
                    Answer::No => {}
                    Answer::Quit => break 'all,
                }
            }
        }
        let options = RemoveOptions {
            is_dry_run: flags.contains('n'),
            is_verbose: flags.contains('v'),
            ..RemoveOptions::default()
        };
        let needs_confirmation = is_recursive && !flags.contains('f') && !options.is_dry_run;
        if needs_confirmation && removal.is_many() && !self.confirms_removal(&removal).await? {
            return Err(FtpError::Declined);
        }
        let unparsed = std::mem::take(&mut self.client.unparsed);
        let result = removal.run(&mut self.client, options).await;
        self.client.unparsed = unparsed;
        result
    }

    /// On a terminal, asks whether to remove the names.
    async fn confirms_removal(&mut self, removal: &Removal) -> Result<bool, FtpError> {
        print_message(&format!("removing {}", removal.amount_text()));
        if !std::io::stdin().is_terminal() {
            return Ok(true);
        }
        let answer = self.read("remove them? y/n> ".to_owned(), PromptKind::Answer).await?;
        Ok(matches!(answer.as_deref().map(str::trim), Some("y" | "yes")))
    }

    async fn make_directories(&mut self, names: &[&str]) -> Result<(), FtpError> {
        for name in names {
            let path = self.remote_path(name);
            let context = format!("cannot create the directory '{}'", escaped(&path));
            self.client.run(&context, Task::MakeDirectory(name_of(&path)?)).await?;
        }
        Ok(())
    }

    async fn remove_directories(&mut self, names: &[&str]) -> Result<(), FtpError> {
        for name in names {
            check_named(name.as_bytes(), "remove")?;
            let path = self.remote_path(name);
            remove_directory(&mut self.client, &path).await?;
        }
        Ok(())
    }

    async fn change_mode(&mut self, mode: &str, names: &[&str]) -> Result<(), FtpError> {
        let permissions = u16::from_str_radix(mode, 8).ok().filter(|digits| *digits <= 0o7777);
        let Some(permissions) = permissions else {
            let sentence = format!("'{mode}' is not an octal mode like 644");
            return Err(FtpError::InvalidRequest(sentence));
        };
        for name in names {
            for found in self.expand(name).await? {
                let context =
                    format!("cannot change the permissions of '{}'", escaped(&found.path));
                let task = Task::ChangeMode(permissions, name_of(&found.path)?);
                self.client.run(&context, task).await?;
            }
        }
        Ok(())
    }

    async fn size(&mut self, name: &str) -> Result<(), FtpError> {
        let (size, time) = self.client.size_and_time(&self.remote_path(name)).await?;
        if size.is_none() && time.is_none() {
            return Err(FtpError::NotFound(format!("no size or time is reported for '{name}'")));
        }
        let size = size.map_or_else(|| "unknown".to_owned(), |size| format!("{size} bytes"));
        let time = time.map_or_else(|| "unknown".to_owned(), |time| time.to_text());
        print(format!("{size}, {time}\n").as_bytes())
    }

    async fn modified(&mut self, name: &str) -> Result<(), FtpError> {
        let (_, time) = self.client.text_size_and_time(&self.remote_path(name), true).await?;
        let Some(time) = time else {
            return Err(FtpError::NotFound(format!("the server reports no time of '{name}'")));
        };
        print(format!("{} UTC\n", time_text(time)).as_bytes())
    }
}
