//! `plumb ftp HOST`: the interactive FTP client.
//!
//! The shell stores the working directory on the server. After the loss of a session, a new session
//! therefore continues in that directory without any action of the user.
//!
//! ```text
//! commands           list of commands, help, splitting a line into words
//! completion         tab completion
//! transfer_commands  get and put, of one file and of many
//! settings_commands  type, mode, status, and commands sent as they are
//! local_commands     commands on the local machine
//! ```

mod commands;
mod completion;
mod local_commands;
mod settings_commands;
mod transfer_commands;

use super::command_options::{ConnectionOptions, host_transfer_options};
use super::command_output::print;
use super::listing::{entries, line, time_text};
use super::manage::{print_file, rename};
use super::removal::{Removal, RemoveOptions, check_named, remove_directory};
use super::run_command::{report_error, run_command_with};
use crate::exit;
use crate::files::progress::print_message;
use crate::manual::entries::{
    CONFIGURATION, CONFIGURATION_VARIABLE, EXIT_STATUS, FILE_VARIABLES, JOURNAL, KNOWN_HOSTS,
    METERS, NETRC,
};
use crate::manual::{ManualNote, ManualPage};
use commands::{CommandLine, Group, find, split_flags, unknown_command_message};
use completion::CompletionNames;
use os::beneath::Existing;
use os::state_directory::state_directory;
use protocols::ftp::Representation;
use protocols::ftp::user::Task;
use rustix::termios::{self, OptionalActions};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io::IsTerminal;
use transfer::escaped;
use transfer::ftp::FtpError;
use transfer::ftp::FtpOptions;
use transfer::ftp::Interrupt;
use transfer::ftp::{Connector, FtpClient};
use transfer::ftp::{is_pattern, name_of, path_in, split, unparsed_text};
use transfer::url::Url;

/// Introduction of `plumb ftp --help`.
pub(crate) const SHELL_ABOUT: &str = "\
Transfer and manage files interactively with commands such as ls, cd, get and put.

Tab completes commands, names of the last listing and local files; 'help' lists the commands. Put \
names with spaces in quotes. Ctrl-C cancels the running command and does not end the session.";

/// Manual page of `plumb ftp`.
pub(crate) const SHELL_PAGE: ManualPage = ManualPage {
    command: "ftp",
    examples: &[
        "plumb ftp ftp.example.net",
        "plumb ftp ftpes://me@example.net/logs",
        "printf 'cd pub\\nmget *.gz\\n' | plumb ftp ftp.example.net",
    ],
    notes: &[ManualNote::Code(
        "Commands at the prompt",
        "text",
        "ls -l *.gz                   mget *.gz\n\
         cd '/a directory'             put -c image.iso images/\n\
         type L36                     store c36\n\
         chmod 644 notes              quote SITE HELP\n\
         lls -l                       !make",
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
        &[("~/.local/state/plumb/ftp_history", "Commands of earlier sessions")],
        KNOWN_HOSTS,
        JOURNAL,
        METERS,
    ],
    see_also: &["get", "put", "ls", "mirror"],
};

/// Arguments of `plumb ftp`.
#[derive(Debug, clap::Args)]
pub(crate) struct FtpShell {
    /// Host name, or ftp://user@host:port/directory, ftpes:// and ftps:// with TLS
    #[arg(value_name = "host", value_parser = Url::parse_ftp_host)]
    url: Url,
    #[command(flatten)]
    connection: ConnectionOptions,
}

type Reader = Editor<CompletionNames, DefaultHistory>;

/// State of the interactive client.
struct ShellState {
    client: FtpClient,
    /// Line editor; `None` while the editor reads a line.
    editor: Option<Reader>,
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

/// Answer to the question whether to process one of several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Quit,
}

/// Purpose of a line to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptKind {
    Command,
    /// Answer to a question. An interrupt leaves the question unanswered. The history does not keep
    /// the answer.
    Answer,
}

/// Runs `plumb ftp`.
pub(crate) fn shell(arguments: &FtpShell) -> exit::Result {
    let url = &arguments.url;
    let options =
        host_transfer_options(url, Existing::Keep).map_err(|error| report_error(&error))?;
    // The editor handles SIGINT itself, so it is created before the other signal handlers.
    let configuration = Config::builder().completion_type(CompletionType::List).build();
    let mut editor = Reader::with_config(configuration)
        .map_err(|error| report_error(&FtpError::Local(error.into())))?;
    run_command_with(
        url,
        &arguments.connection,
        None,
        Interrupt::CancelsOperation,
        async move |connector| {
            editor.set_helper(Some(CompletionNames::default()));
            let history = state_directory().join("ftp_history");
            // The file does not exist at first.
            _ = editor.load_history(&history);
            let mut state = ShellState {
                client: FtpClient::new(&connector),
                editor: Some(editor),
                directory: Vec::new(),
                names: Vec::new(),
                options,
                image: Representation::IMAGE,
                asks_before_each: false,
            };
            state.change_directory(if url.name.is_empty() { b"." } else { &url.name }).await?;
            state.client.choose_type(&mut state.options).await?;
            state.image = state.options.representation;
            while let Some(line) = state.read("plumb ftp> ", PromptKind::Command).await? {
                let line = CommandLine::parse(&line);
                match line.words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    [] => {}
                    ["quit" | "exit" | "bye", ..] => break,
                    [word, words @ ..] => match state.command(word, words, &line.rest).await {
                        Err(FtpError::Stopped) if !connector.clear_cancellation() => {
                            return Err(FtpError::Stopped);
                        }
                        Err(error) => print_message(&error.sentence()),
                        // Clears an interrupt that arrived after the end of the command, so that it
                        // does not cancel the next command.
                        Ok(()) => _ = connector.clear_cancellation(),
                    },
                }
                if let Some(known) = state.editor.as_mut().and_then(Reader::helper_mut) {
                    known.names.clone_from(&state.names);
                }
            }
            _ = std::fs::create_dir_all(state_directory());
            if let Some(editor) = &mut state.editor {
                // Ignored: if the file cannot be written, the history is lost.
                _ = editor.save_history(&history);
            }
            state.client.quit().await;
            Ok(())
        },
    )
}

/// Reads a line in a blocking thread. If the command is cancelled, restores the terminal modes.
async fn read(
    connector: &Connector,
    mut editor: Reader,
    prompt: &'static str,
    prompt_kind: PromptKind,
) -> Result<(Reader, Result<Option<String>, FtpError>), FtpError> {
    let terminal = termios::tcgetattr(rustix::stdio::stdin()).ok();
    let reading = tokio::task::spawn_blocking(move || {
        let line = read_line(&mut editor, prompt, prompt_kind);
        (editor, line)
    });
    tokio::select! {
        read = reading => Ok(read.map_err(anyhow::Error::new)?),
        () = connector.cancelled() => {
            if let Some(terminal) = terminal {
                let stdin = rustix::stdio::stdin();
                // Ignored: restoring the modes fails only if the terminal no longer exists.
                _ = termios::tcsetattr(stdin, OptionalActions::Now, &terminal);
            }
            Err(FtpError::Stopped)
        }
    }
}

fn read_line(
    editor: &mut Reader,
    prompt: &str,
    prompt_kind: PromptKind,
) -> Result<Option<String>, FtpError> {
    match editor.readline(prompt) {
        Ok(line) => {
            if prompt_kind == PromptKind::Command {
                // The history contains no passwords, because no command of the shell has a password
                // as an argument.
                _ = editor.add_history_entry(&line);
            }
            Ok(Some(line))
        }
        Err(ReadlineError::Interrupted) if prompt_kind == PromptKind::Answer => Ok(None),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => Ok(Some(String::new())),
        Err(ReadlineError::Eof) => Ok(None),
        Err(error) => Err(FtpError::Local(error.into())),
    }
}

impl ShellState {
    /// Reads a line; `None` at the end of the input, or if an interrupt leaves a question
    /// unanswered.
    async fn read(
        &mut self,
        prompt: &'static str,
        prompt_kind: PromptKind,
    ) -> Result<Option<String>, FtpError> {
        let Some(editor) = self.editor.take() else { return Ok(None) };
        let (editor, line) = read(self.client.connector(), editor, prompt, prompt_kind).await?;
        self.editor = Some(editor);
        line
    }

    /// Asks whether to process one of several files, if questions are enabled. The answer 'a' sets
    /// `asks_about_rest` to false, so that no further question follows.
    async fn ask(
        &mut self,
        action: &str,
        name: &[u8],
        asks_about_rest: &mut bool,
    ) -> Result<Answer, FtpError> {
        if !self.asks_before_each || !*asks_about_rest {
            return Ok(Answer::Yes);
        }
        loop {
            print_message(&format!(
                "{action} '{}'? y: yes, n: no, a: yes to all, q: skip the rest",
                escaped(name)
            ));
            let answer = self.read("y/n/a/q> ", PromptKind::Answer).await?;
            return Ok(match answer.as_deref().map(str::trim) {
                Some("y" | "yes") => Answer::Yes,
                Some("n" | "no") => Answer::No,
                Some("a" | "all") => {
                    *asks_about_rest = false;
                    Answer::Yes
                }
                Some("q" | "quit") | None => Answer::Quit,
                Some(_) => continue,
            });
        }
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
                let (flags, names) = split_flags(words, "l")?;
                self.list(names, name == "dir" || flags.contains('l')).await
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

    async fn list(&mut self, names: &[&str], is_long: bool) -> Result<(), FtpError> {
        let is_many = names.len() > 1;
        let mut listed = Vec::new();
        for name in if names.is_empty() { &[""] } else { names } {
            let entries = entries(&mut self.client, &self.directory, name.as_bytes()).await;
            let unparsed = unparsed_text(&std::mem::take(&mut self.client.unparsed));
            let entries = entries?;
            let lines: String = entries.iter().map(|entry| line(entry, is_long)).collect();
            let name_prefix =
                if is_many { format!("{}:\n", escaped(name.as_bytes())) } else { String::new() };
            print(format!("{name_prefix}{lines}").as_bytes())?;
            if let Some(unparsed) = unparsed {
                print_message(&unparsed);
            }
            listed.extend(entries);
        }
        let to_text = |name: &[u8]| String::from_utf8(name.to_vec()).ok();
        self.names = listed.iter().filter_map(|entry| to_text(&entry.name)).collect();
        Ok(())
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
        let answer = self.read("remove them? y/n> ", PromptKind::Answer).await?;
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
