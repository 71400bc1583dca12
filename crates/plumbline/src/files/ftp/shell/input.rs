//! Input of the shell: lines of a terminal or of a script, and the failure of a script.

use super::completion::CompletionNames;
use crate::exit::Failure;
use os::state_directory::state_directory;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::collections::VecDeque;
use std::io::IsTerminal;
use transfer::ftp::FtpError;
use transfer::shell_line::{split_commands, words};

pub(super) type Reader = Editor<CompletionNames, DefaultHistory>;

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
    pub(super) editor: Option<Reader>,
    /// Commands of `--execute`, which replace the standard input.
    pub(super) commands: Option<VecDeque<String>>,
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

/// Reads a line from the terminal or the standard input; `None` at its end.
pub(super) fn read_line(
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
