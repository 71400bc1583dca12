//! Reading of commands and answers, while the session lists directories for the completion.

use super::ShellState;
use super::completion::ListingRequest;
use super::input::{Answer, PromptKind, read_line};
use crate::files::progress::print_message;
use protocols::ftp::listing::Kind;
use rustix::termios::{self, OptionalActions};
use std::sync::Arc;
use tokio::sync::mpsc;
use transfer::escaped;
use transfer::ftp::FtpError;

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
            let cancelled = Arc::clone(self.client.connector());
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
