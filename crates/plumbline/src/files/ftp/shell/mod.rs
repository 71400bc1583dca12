//! `plumb ftp HOST`: the interactive FTP client.
//!
//! The working directory on the server is stored here, so that a lost session is opened again
//! without any action of the user.
//!
//! ```text
//! commands    list of commands, help, splitting a line into words
//! completion  tab completion
//! moving      get and put, of one file and of many
//! session     type, mode, status, and commands sent as they are
//! here        commands on the local machine
//! ```

mod commands;
mod completion;
mod here;
mod moving;
mod session;

use super::desk::{Interrupt, carry_out_with, tell};
use super::dialogue::{Caller, Dialogue};
use super::get::Terms;
use super::manage::{entries, line, rename, show, show_file, time_text};
use super::options::{Reach, host_terms};
use super::remote::{is_pattern, name_of, path_in, split, unread_text};
use super::removal::{Removal, RemoveOptions, check_named, remove_directory};
use super::trouble::Trouble;
use crate::exit;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::files::url::Url;
use crate::state_dir::state_folder;
use commands::{Group, Line, find, unknown};
use completion::Known;
use moving::flags;
use os::jail::Existing;
use protocols::application::ftp::Representation;
use protocols::application::ftp::user::Task;
use rustix::termios::{self, OptionalActions};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io::IsTerminal;

/// Introduction of `plumb ftp --help`.
pub(crate) const SHELL_ABOUT: &str = "\
Transfer and manage files interactively with commands such as ls, cd, get and put.

Tab completes commands, names of the last listing and local files; 'help' lists the commands. Put \
names with spaces in quotes. Ctrl-C cancels the running command and does not end the session.";

const SHELL_EXAMPLES: &str = "\
Examples:
  plumb ftp ftp.example.net
  plumb ftp ftpes://me@example.net/logs
  printf 'cd pub\\nmget *.gz\\n' | plumb ftp ftp.example.net

At its prompt:
  ls -l *.gz                   mget *.gz
  cd '/a directory'             put -c image.iso images/
  type L36                     store c36
  chmod 644 notes              quote SITE HELP
  lls -l                       !make

Exit codes: 0 session ended; 1 the server is unreachable or refused the login; 2 wrong arguments;
3 ended by a signal; 4 local error, such as permission denied.";

/// Arguments of `plumb ftp`.
#[derive(Debug, clap::Args)]
#[command(after_help = SHELL_EXAMPLES)]
pub(crate) struct Shell {
    /// Host name, or ftp://user@host:port/directory, ftpes:// and ftps:// with TLS
    #[arg(value_name = "HOST", value_parser = host)]
    url: Url,
    #[command(flatten)]
    reach: Reach,
}

fn host(text: &str) -> anyhow::Result<Url> {
    if text.contains("://") { text.parse() } else { format!("ftp://{text}/").parse() }
}

type Reader = Editor<Known, DefaultHistory>;

/// State of the interactive client.
struct Desk {
    dialogue: Dialogue,
    /// Line editor; `None` while it reads a line.
    editor: Option<Reader>,
    /// Working directory on the server.
    folder: Vec<u8>,
    names: Vec<String>,
    /// Transfer options.
    terms: Terms,
    /// Representation that TYPE I selects for this host.
    image: Representation,
    /// Whether to ask before each of many files.
    asks: bool,
}

/// Answer to the question about one of many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Quit,
}

/// Purpose of a line to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Command,
    /// Answer to a question. An interrupt leaves it unanswered, and the history does not keep it.
    Answer,
}

/// Runs `plumb ftp`.
pub(crate) fn shell(arguments: &Shell) -> exit::Result {
    let url = &arguments.url;
    let terms = host_terms(url, Existing::Keep).map_err(|trouble| tell(&trouble))?;
    // The editor handles SIGINT itself, so it is created before the other signal handlers.
    let how = Config::builder().completion_type(CompletionType::List).build();
    let mut editor =
        Reader::with_config(how).map_err(|error| tell(&Trouble::Ours(error.into())))?;
    carry_out_with(url, &arguments.reach, None, Interrupt::EndsThis, async move |caller| {
        editor.set_helper(Some(Known::default()));
        let history = state_folder().join("ftp_history");
        // The file does not exist at first.
        _ = editor.load_history(&history);
        let mut desk = Desk {
            dialogue: Dialogue::new(&caller),
            editor: Some(editor),
            folder: Vec::new(),
            names: Vec::new(),
            terms,
            image: Representation::IMAGE,
            asks: false,
        };
        desk.go(if url.name.is_empty() { b"." } else { &url.name }).await?;
        desk.dialogue.choose_type(&mut desk.terms).await?;
        desk.image = desk.terms.representation;
        while let Some(line) = desk.read("plumb ftp> ", Asked::Command).await? {
            let line = Line::parse(&line);
            match line.words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] => {}
                ["quit" | "exit" | "bye", ..] => break,
                [word, words @ ..] => match desk.command(word, words, &line.rest).await {
                    Err(Trouble::Stopped) if !caller.stopper.goes_on() => {
                        return Err(Trouble::Stopped);
                    }
                    Err(trouble) => say(&trouble.sentence()),
                    // An interrupt after the end of the command ends nothing.
                    Ok(()) => _ = caller.stopper.goes_on(),
                },
            }
            if let Some(known) = desk.editor.as_mut().and_then(Reader::helper_mut) {
                known.names.clone_from(&desk.names);
            }
        }
        _ = std::fs::create_dir_all(state_folder());
        if let Some(editor) = &mut desk.editor {
            // Without a place for it, there is no history.
            _ = editor.save_history(&history);
        }
        desk.dialogue.quit().await;
        Ok(())
    })
}

/// Reads a line in a blocking thread. If it is cancelled, restores the modes of the terminal.
async fn read(
    caller: &Caller,
    mut editor: Reader,
    prompt: &'static str,
    asked: Asked,
) -> Result<(Reader, Result<Option<String>, Trouble>), Trouble> {
    let terminal = termios::tcgetattr(rustix::stdio::stdin()).ok();
    let reading = tokio::task::spawn_blocking(move || {
        let line = read_line(&mut editor, prompt, asked);
        (editor, line)
    });
    let mut stop = caller.shared.stop.clone();
    tokio::select! {
        read = reading => Ok(read.map_err(anyhow::Error::new)?),
        _ = stop.wait_for(|is_wanted| *is_wanted) => {
            if let Some(terminal) = terminal {
                let stdin = rustix::stdio::stdin();
                // On failure the terminal no longer exists.
                _ = termios::tcsetattr(stdin, OptionalActions::Now, &terminal);
            }
            Err(Trouble::Stopped)
        }
    }
}

fn read_line(editor: &mut Reader, prompt: &str, asked: Asked) -> Result<Option<String>, Trouble> {
    match editor.readline(prompt) {
        Ok(line) => {
            if asked == Asked::Command {
                // A line with a password would be kept too; no command of the shell takes one.
                _ = editor.add_history_entry(&line);
            }
            Ok(Some(line))
        }
        Err(ReadlineError::Interrupted) if asked == Asked::Answer => Ok(None),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => Ok(Some(String::new())),
        Err(ReadlineError::Eof) => Ok(None),
        Err(error) => Err(Trouble::Ours(error.into())),
    }
}

impl Desk {
    /// Reads a line; `None` at the end of the input, and if a question stays unanswered.
    async fn read(
        &mut self,
        prompt: &'static str,
        asked: Asked,
    ) -> Result<Option<String>, Trouble> {
        let Some(editor) = self.editor.take() else { return Ok(None) };
        let (editor, line) = read(&self.dialogue.caller, editor, prompt, asked).await?;
        self.editor = Some(editor);
        line
    }

    /// Asks whether to process one of many files, if questions are enabled. After the answer 'a',
    /// no question about the `others` follows.
    async fn ask(&mut self, what: &str, name: &[u8], others: &mut bool) -> Result<Answer, Trouble> {
        if !self.asks || !*others {
            return Ok(Answer::Yes);
        }
        loop {
            say(&format!(
                "{what} '{}'? y: yes, n: no, a: yes to all, q: skip the rest",
                shown(name)
            ));
            let answer = self.read("y/n/a/q> ", Asked::Answer).await?;
            return Ok(match answer.as_deref().map(str::trim) {
                Some("y" | "yes") => Answer::Yes,
                Some("n" | "no") => Answer::No,
                Some("a" | "all") => {
                    *others = false;
                    Answer::Yes
                }
                Some("q" | "quit") | None => Answer::Quit,
                Some(_) => continue,
            });
        }
    }

    /// Returns the remote path of a name that the user has typed.
    fn at(&self, name: &str) -> Vec<u8> {
        path_in(&self.folder, name.as_bytes())
    }

    async fn command(&mut self, word: &str, words: &[&str], rest: &str) -> Result<(), Trouble> {
        let Some(command) = find(word) else { return Err(Trouble::Wrong(unknown(word))) };
        let name = command.name;
        let result = match command.group {
            Group::There => self.there(name, words).await,
            Group::Moving => self.moves(name, words).await,
            Group::Here => self.here(name, words, rest).await,
            Group::Session => self.session(name, words, rest).await,
        };
        result.unwrap_or_else(|| {
            let usage = command.usage_text();
            Err(Trouble::Wrong(format!("wrong arguments for '{word}', usage: {usage}")))
        })
    }

    /// Runs a command on the server; `None` if its arguments are wrong.
    async fn there(&mut self, name: &str, words: &[&str]) -> Option<Result<(), Trouble>> {
        Some(match (name, words) {
            ("ls" | "dir", words) => {
                let (flags, names) = flags(words, "l")?;
                self.list(names, name == "dir" || flags.contains('l')).await
            }
            ("cd", [folder]) => self.go(&self.at(folder)).await,
            ("cdup", []) => self.go(split(&self.folder.clone()).0).await,
            ("pwd", []) => show(&[self.folder.as_slice(), b"\n"].concat()),
            ("cat", [name]) => {
                let path = self.at(name);
                show_file(&mut self.dialogue, &path, self.image).await
            }
            ("rm", words) => {
                let (flags, names) = flags(words, "rfnv")?;
                if names.is_empty() {
                    return None;
                }
                self.remove(names, &flags).await
            }
            ("mkdir", names) if !names.is_empty() => self.make_folders(names).await,
            ("rmdir", names) if !names.is_empty() => self.remove_folders(names).await,
            ("mv", [from, to]) => {
                let (from, to) = (self.at(from), self.at(to));
                rename(&mut self.dialogue, &from, &to).await
            }
            ("chmod", [mode, names @ ..]) if !names.is_empty() => self.change(mode, names).await,
            ("size", [name]) => self.size(name).await,
            ("modtime", [name]) => self.modified(name).await,
            _ => return None,
        })
    }

    async fn list(&mut self, names: &[&str], is_long: bool) -> Result<(), Trouble> {
        let (is_many, mut listed) = (names.len() > 1, Vec::new());
        for name in if names.is_empty() { &[""] } else { names } {
            let entries = entries(&mut self.dialogue, &self.folder, name.as_bytes()).await;
            let unread = unread_text(&std::mem::take(&mut self.dialogue.unread));
            let entries = entries?;
            let lines: String = entries.iter().map(|entry| line(entry, is_long)).collect();
            let head =
                if is_many { format!("{}:\n", shown(name.as_bytes())) } else { String::new() };
            show(format!("{head}{lines}").as_bytes())?;
            if let Some(unread) = unread {
                say(&unread);
            }
            listed.extend(entries);
        }
        let named = |name: &[u8]| String::from_utf8(name.to_vec()).ok();
        self.names = listed.iter().filter_map(|entry| named(&entry.name)).collect();
        Ok(())
    }

    async fn go(&mut self, folder: &[u8]) -> Result<(), Trouble> {
        let wanted = format!("cannot change to '{}'", shown(folder));
        let dialogue = &mut self.dialogue;
        dialogue.run(&wanted, Task::ChangeDirectory(name_of(folder)?)).await?;
        let told = dialogue.run(&wanted, Task::WorkingDirectory).await;
        let told = told.ok().and_then(|done| done.reply.quoted());
        self.folder = told.unwrap_or_else(|| folder.to_vec());
        self.dialogue.directory = name_of(&self.folder).ok();
        Ok(())
    }

    async fn remove(&mut self, names: &[&str], flags: &str) -> Result<(), Trouble> {
        let is_recursive = flags.contains('r');
        let (mut removal, mut others) = (Removal::default(), true);
        'all: for name in names {
            // Checks the typed name, and not only its path below the working directory.
            check_named(name.as_bytes(), "remove")?;
            let is_named = !is_pattern(name.as_bytes());
            for found in self.expand(name).await? {
                match self.ask("remove", &found.path, &mut others).await? {
                    Answer::Yes if is_named => {
                        removal.add_named(&mut self.dialogue, &found.path, is_recursive).await?;
                    }
                    Answer::Yes => removal.add(&mut self.dialogue, &found, is_recursive).await?,
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
        let is_asked = is_recursive && !flags.contains('f') && !options.is_dry_run;
        if is_asked && removal.is_many() && !self.confirms_removal(&removal).await? {
            return Err(Trouble::Declined);
        }
        let unread = std::mem::take(&mut self.dialogue.unread);
        let removed = removal.run(&mut self.dialogue, options).await;
        self.dialogue.unread = unread;
        removed
    }

    /// Asks whether to remove the names, if there is a terminal.
    async fn confirms_removal(&mut self, removal: &Removal) -> Result<bool, Trouble> {
        say(&format!("removing {}", removal.amount()));
        if !std::io::stdin().is_terminal() {
            return Ok(true);
        }
        let answer = self.read("remove them? y/n> ", Asked::Answer).await?;
        Ok(matches!(answer.as_deref().map(str::trim), Some("y" | "yes")))
    }

    async fn make_folders(&mut self, names: &[&str]) -> Result<(), Trouble> {
        for name in names {
            let path = self.at(name);
            let wanted = format!("cannot create the directory '{}'", shown(&path));
            self.dialogue.run(&wanted, Task::MakeDirectory(name_of(&path)?)).await?;
        }
        Ok(())
    }

    async fn remove_folders(&mut self, names: &[&str]) -> Result<(), Trouble> {
        for name in names {
            check_named(name.as_bytes(), "remove")?;
            let path = self.at(name);
            remove_directory(&mut self.dialogue, &path).await?;
        }
        Ok(())
    }

    async fn change(&mut self, mode: &str, names: &[&str]) -> Result<(), Trouble> {
        let digits = u16::from_str_radix(mode, 8).ok().filter(|digits| *digits <= 0o7777);
        let Some(digits) = digits else {
            let sentence = format!("'{mode}' is not an octal mode like 644");
            return Err(Trouble::Wrong(sentence));
        };
        for name in names {
            for found in self.expand(name).await? {
                let wanted = format!("cannot change the permissions of '{}'", shown(&found.path));
                let task = Task::ChangeMode(digits, name_of(&found.path)?);
                self.dialogue.run(&wanted, task).await?;
            }
        }
        Ok(())
    }

    async fn size(&mut self, name: &str) -> Result<(), Trouble> {
        let (size, time) = self.dialogue.size_and_time(&self.at(name)).await?;
        if size.is_none() && time.is_none() {
            return Err(Trouble::NotThere(format!("no size or time is reported for '{name}'")));
        }
        let size = size.map_or_else(|| "unknown".to_owned(), |size| format!("{size} bytes"));
        let time = time.map_or_else(|| "unknown".to_owned(), |time| time.to_text());
        show(format!("{size}, {time}\n").as_bytes())
    }

    async fn modified(&mut self, name: &str) -> Result<(), Trouble> {
        let (_, time) = self.dialogue.facts_of_text(&self.at(name), true).await?;
        let Some(time) = time else {
            return Err(Trouble::NotThere(format!("the server reports no time of '{name}'")));
        };
        show(format!("{} UTC\n", time_text(time)).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_alone_is_a_url_of_ftp() {
        assert_eq!(host("example.net:2121").unwrap().to_string(), "ftp://example.net:2121/");
        assert_eq!(host("ftps://example.net").unwrap().to_string(), "ftps://example.net/");
    }
}
