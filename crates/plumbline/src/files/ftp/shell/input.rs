//! Input of the shell: lines of a terminal or of a script, and answers to questions.

use super::ShellState;
use super::completion::{CompletionNames, ListingRequest};
use crate::exit::Failure;
use crate::files::progress::print_message;
use os::state_directory::state_directory;
use protocols::ftp::listing::Kind;
use rustix::termios::{self, OptionalActions};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::collections::VecDeque;
use std::io::IsTerminal;
use tokio::sync::mpsc;
use transfer::escaped;
use transfer::ftp::FtpError;
use transfer::shell_line::{split_commands, words};

type Reader = Editor<CompletionNames, DefaultHistory>;

/// Answer to the question whether to process one of several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    Quit,
}

/// Purpose of a line to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptKind {
    Command,
    /// Answer to a question. An interrupt leaves the question unanswered. The history does not keep
    /// the answer.
    Answer,
}

/// Input of the shell.
pub(super) struct ShellInput {
    /// Line editor; `None` while the editor reads a line.
    editor: Option<Reader>,
    /// Commands of `--execute`, which replace the standard input.
    commands: Option<VecDeque<String>>,
    continues_on_error: bool,
    /// Failure of the first failed command of a script.
    failure: Option<Failure>,
}

impl ShellInput {
    /// Creates the input from the arguments of `--execute`, or else from the standard input.
    pub(super) fn new(execute: &[String], continues_on_error: bool) -> Result<Self, FtpError> {
        let configuration = Config::builder().completion_type(CompletionType::List).build();
        let editor = Reader::with_config(configuration);
        let mut editor = editor.map_err(|error| FtpError::Local(error.into()))?;
        editor.set_helper(Some(CompletionNames::default()));
        // The file does not exist at first.
        _ = editor.load_history(&state_directory().join("ftp_history"));
        let commands = execute.iter().flat_map(|script| split_commands(script)).collect();
        let commands = (!execute.is_empty()).then_some(commands);
        Ok(Self { editor: Some(editor), commands, continues_on_error, failure: None })
    }

    /// Returns whether a person types the commands.
    pub(super) fn is_interactive(&self) -> bool {
        self.commands.is_none() && std::io::stdin().is_terminal()
    }

    /// Returns whether the error of a command ends the script. Stores the first failure.
    pub(super) fn ends_after(&mut self, error: &FtpError) -> bool {
        if self.is_interactive() {
            return false;
        }
        self.failure.get_or_insert(error.failure().into());
        !self.continues_on_error
    }

    /// Returns the failure of the first failed command of a script.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Sets the names of the last listing, for completion.
    pub(super) fn set_names(&mut self, names: &[String]) {
        if let Some(known) = self.editor.as_mut().and_then(Reader::helper_mut) {
            known.set_names(names);
        }
    }

    /// Saves the typed commands.
    pub(super) fn save_history(&mut self) {
        if self.commands.is_some() {
            return;
        }
        // Ignored: if the file cannot be written, the history is lost.
        _ = std::fs::create_dir_all(state_directory());
        if let Some(editor) = &mut self.editor {
            _ = editor.save_history(&state_directory().join("ftp_history"));
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
            // `user NAME PASSWORD` is not kept, so that the history contains no password.
            let words = words(&line).0;
            let has_password = words.len() > 2 && words.first().is_some_and(|word| word == "user");
            if prompt_kind == PromptKind::Command && !has_password {
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

impl ShellState<'_> {
    /// Reads a line; `None` at the end of the input, or if an interrupt leaves a question
    /// unanswered. The editor reads in a blocking thread; meanwhile this function lists the
    /// directories whose names the editor completes. If the command is cancelled, restores the
    /// terminal modes.
    pub(super) async fn read(
        &mut self,
        prompt: String,
        prompt_kind: PromptKind,
    ) -> Result<Option<String>, FtpError> {
        if let Some(commands) = &mut self.input.commands {
            return Ok(commands.pop_front());
        }
        let Some(mut editor) = self.input.editor.take() else { return Ok(None) };
        let (sender, mut requests) = mpsc::unbounded_channel();
        if let Some(names) = editor.helper_mut() {
            names.requests = Some(sender);
        }
        let terminal = termios::tcgetattr(rustix::stdio::stdin()).ok();
        let mut reading = tokio::task::spawn_blocking(move || {
            let line = read_line(&mut editor, &prompt, prompt_kind);
            (editor, line)
        });
        loop {
            let cancelled = std::sync::Arc::clone(self.client.connector());
            tokio::select! {
                read = &mut reading => {
                    let (editor, line) = read.map_err(anyhow::Error::new)?;
                    self.input.editor = Some(editor);
                    return line;
                }
                Some(request) = requests.recv() => self.answer(request).await,
                () = cancelled.cancelled() => {
                    if let Some(terminal) = terminal {
                        let stdin = rustix::stdio::stdin();
                        // Ignored: restoring the modes fails only if the terminal no longer exists.
                        _ = termios::tcsetattr(stdin, OptionalActions::Now, &terminal);
                    }
                    return Err(FtpError::Stopped);
                }
            }
        }
    }

    /// Answers a request for the names in a directory. If the directory cannot be listed, there are
    /// no names.
    async fn answer(&mut self, request: ListingRequest) {
        let path = match request.directory.as_str() {
            "" => self.directory.clone(),
            directory => self.remote_path(directory),
        };
        let unparsed = std::mem::take(&mut self.client.unparsed);
        let entries = self.client.list(&path).await.unwrap_or_default();
        self.client.unparsed = unparsed;
        let names = entries.into_iter().filter_map(|entry| {
            let end = if entry.kind == Kind::Directory { "/" } else { "" };
            let name = String::from_utf8(entry.name).ok()?;
            Some(format!("{}{name}{end}", request.directory))
        });
        // Ignored: the editor may have stopped waiting.
        _ = request.reply.send(names.collect());
    }

    /// Asks whether to process one of several files, if questions are enabled. The answer 'a' sets
    /// `asks_about_rest` to false, so that no further question follows.
    pub(super) async fn ask(
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
            let answer = self.read("y/n/a/q> ".to_owned(), PromptKind::Answer).await?;
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
}
