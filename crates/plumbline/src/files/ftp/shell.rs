//! `plumb ftp HOST`: one command after the other, by hand.
//!
//! Where we are there is kept here, so that a session that was lost meanwhile is opened again
//! without anybody's noticing.

use super::desk::{Interrupt, carry_out_with, tell};
use super::dialogue::{Caller, Dialogue};
use super::get::{self, Ending, Terms, To};
use super::manage::{entries, line, remove_all, remove_folder, rename, show, show_file};
use super::options::Reach;
use super::put;
use super::remote::{is_pattern, join, name_of, split};
use super::trouble::Trouble;
use crate::exit;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::files::url::Url;
use crate::state::state_folder;
use crate::transfers::{Record, summary};
use os::jail::Existing;
use protocols::application::ftp::user::Task;
use protocols::application::ftp::{LocalName, Representation};
use rustix::termios::{self, OptionalActions};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Context, Editor, Helper, Highlighter, Hinter, Validator};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What `plumb ftp --help` says first.
pub(crate) const SHELL_ABOUT: &str = "\
Moves files by hand: ls, cd, get, put and their like, one after the other.

The tabulator completes commands and the names of the last listing; 'help' tells what there is. An \
interrupt ends what is at work, and not the shell.";

const COMMANDS: [(&str, &str); 17] = [
    ("ls", "what is here, or in the folder or pattern named; -l with sizes and times"),
    ("cd", "go to a folder there"),
    ("cdup", "go up"),
    ("pwd", "where we are there"),
    ("lcd", "go to a folder on this machine"),
    ("get", "get a file, or all that fit a pattern; then its name here"),
    ("put", "put a file; then its name there"),
    ("cat", "show a file"),
    ("rm", "remove a file or all that fit a pattern; -r folders too"),
    ("mkdir", "make a folder"),
    ("rmdir", "remove an empty folder"),
    ("mv", "give a file another name"),
    ("size", "the size and the time of a file"),
    ("quote", "send a command as it is"),
    ("status", "what the server says of the session"),
    ("help", "this"),
    ("quit", "the end"),
];

/// Arguments of `plumb ftp`.
#[derive(Debug, clap::Args)]
#[command(long_about = SHELL_ABOUT)]
pub(crate) struct Shell {
    /// Which host: its name, or ftp://user@host:port/folder, ftpes:// and ftps:// in TLS
    #[arg(value_name = "HOST", value_parser = host)]
    url: Url,
    #[command(flatten)]
    reach: Reach,
}

fn host(text: &str) -> anyhow::Result<Url> {
    if text.contains("://") { text.parse() } else { format!("ftp://{text}/").parse() }
}

/// What the tabulator knows.
#[derive(Default, Helper, Hinter, Highlighter, Validator)]
struct Known {
    names: Vec<String>,
}

impl Completer for Known {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or_default();
        let start = typed.rfind(' ').map_or(0, |space| space + 1);
        let word = typed.get(start..).unwrap_or_default();
        let fits = |name: &&str| name.starts_with(word);
        let pair = |name: &str| Pair { display: name.to_owned(), replacement: name.to_owned() };
        let found = if start == 0 {
            COMMANDS.iter().map(|(name, _)| *name).filter(fits).map(pair).collect()
        } else {
            self.names.iter().map(String::as_str).filter(fits).map(pair).collect()
        };
        Ok((start, found))
    }
}

type Reader = Editor<Known, DefaultHistory>;

/// A conversation with the person.
struct Desk {
    dialogue: Dialogue,
    /// Where we are there.
    folder: Vec<u8>,
    names: Vec<String>,
}

/// Runs `plumb ftp`.
pub(crate) fn shell(arguments: &Shell) -> exit::Result {
    let url = &arguments.url;
    // It takes SIGINT for itself: whoever wants to hear of it comes later.
    let editor = Reader::new().map_err(|error| tell(&Trouble::Ours(error.into())))?;
    carry_out_with(url, &arguments.reach, None, Interrupt::EndsThis, async move |caller| {
        let mut editor = editor;
        let mut desk =
            Desk { dialogue: Dialogue::new(&caller), folder: Vec::new(), names: Vec::new() };
        desk.go(if url.name.is_empty() { b"." } else { &url.name }).await?;
        editor.set_helper(Some(Known::default()));
        let history = state_folder().join("ftp_history");
        // There is none at first.
        _ = editor.load_history(&history);
        loop {
            let (returned, line) = read(&caller, editor).await?;
            editor = returned;
            let Some(line) = line? else { break };
            let words: Vec<_> = words(&line);
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] => {}
                ["quit" | "exit" | "bye", ..] => break,
                words => match desk.command(words).await {
                    Err(Trouble::Stopped) if !caller.stopper.goes_on() => {
                        return Err(Trouble::Stopped);
                    }
                    Err(trouble) => say(&trouble.sentence()),
                    // An interrupt that came too late ends nothing.
                    Ok(()) => _ = caller.stopper.goes_on(),
                },
            }
            if let Some(known) = editor.helper_mut() {
                known.names.clone_from(&desk.names);
            }
        }
        _ = std::fs::create_dir_all(state_folder());
        // Who has no place for it goes without.
        _ = editor.save_history(&history);
        desk.dialogue.quit().await;
        Ok(())
    })
}

/// Reads a line in a thread that waits, and gives the terminal back as it was if all is to end.
async fn read(
    caller: &Caller,
    mut editor: Reader,
) -> Result<(Reader, Result<Option<String>, Trouble>), Trouble> {
    let terminal = termios::tcgetattr(rustix::stdio::stdin()).ok();
    let reading = tokio::task::spawn_blocking(move || {
        let line = read_line(&mut editor);
        (editor, line)
    });
    let mut stop = caller.shared.stop.clone();
    tokio::select! {
        read = reading => Ok(read.map_err(anyhow::Error::new)?),
        _ = stop.wait_for(|is_wanted| *is_wanted) => {
            if let Some(terminal) = terminal {
                let stdin = rustix::stdio::stdin();
                // It is as it was, or there is no terminal any more.
                _ = termios::tcsetattr(stdin, OptionalActions::Now, &terminal);
            }
            Err(Trouble::Stopped)
        }
    }
}

fn read_line(editor: &mut Reader) -> Result<Option<String>, Trouble> {
    match editor.readline("plumb ftp> ") {
        Ok(line) => {
            // A line with a password of a command is kept too; there is none among ours.
            _ = editor.add_history_entry(&line);
            Ok(Some(line))
        }
        Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => Ok(Some(String::new())),
        Err(ReadlineError::Eof) => Ok(None),
        Err(error) => Err(Trouble::Ours(error.into())),
    }
}

/// Splits a line at its spaces, but for those between quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

impl Desk {
    /// Returns where a name of the person's is.
    fn at(&self, name: &str) -> Vec<u8> {
        match name.as_bytes() {
            absolute @ [b'/', ..] => absolute.to_vec(),
            name => join(&self.folder, name),
        }
    }

    async fn command(&mut self, words: &[&str]) -> Result<(), Trouble> {
        match words {
            ["ls" | "dir", rest @ ..] => self.list(rest).await,
            ["cd", name] => self.go(&self.at(name)).await,
            ["cdup"] => self.go(split(&self.folder.clone()).0).await,
            ["pwd"] => show(&[self.folder.as_slice(), b"\n"].concat()),
            ["lcd", folder] => std::env::set_current_dir(folder)
                .map_err(|error| Trouble::Wrong(format!("there is no way to {folder}: {error}"))),
            ["get" | "mget", name] if is_pattern(name.as_bytes()) => self.get_all(name).await,
            ["get", name] => self.get(&self.at(name), None).await,
            ["get", name, here] => self.get(&self.at(name), Some(Path::new(here))).await,
            ["put", here] => {
                let last = Path::new(here).file_name().unwrap_or(OsStr::new(here)).as_bytes();
                self.put(here, join(&self.folder, last)).await
            }
            ["put", here, name] => self.put(here, self.at(name)).await,
            ["mv", from, to] => {
                let (from, to) = (self.at(from), self.at(to));
                rename(&mut self.dialogue, &from, &to).await
            }
            ["rm", "-r", name] => {
                let path = self.at(name);
                remove_all(&mut self.dialogue, &path, true).await
            }
            [word @ ("cat" | "rm" | "mkdir" | "rmdir"), name] => self.one(word, name).await,
            ["size", name] => self.size(name).await,
            ["quote", rest @ ..] => self.quote(&rest.join(" ")).await,
            ["status"] => self.reply("the status", Task::Status(None)).await,
            ["help" | "?", ..] => help(),
            [word, ..] if COMMANDS.iter().any(|(known, _)| known == word) => {
                let sentence = format!("'{word}' is not used so: 'help' tells what it does");
                Err(Trouble::Wrong(sentence))
            }
            _ => Err(Trouble::Wrong("there is no such command: 'help' tells of all".to_owned())),
        }
    }

    async fn one(&mut self, word: &str, name: &str) -> Result<(), Trouble> {
        let (path, dialogue) = (self.at(name), &mut self.dialogue);
        match word {
            "cat" => show_file(dialogue, &path, false).await,
            "rm" => remove_all(dialogue, &path, false).await,
            "mkdir" => {
                let wanted = format!("to make '{}'", shown(&path));
                dialogue.run(&wanted, Task::MakeDirectory(name_of(&path)?)).await.map(|_| ())
            }
            _ => remove_folder(dialogue, &path).await,
        }
    }

    async fn list(&mut self, words: &[&str]) -> Result<(), Trouble> {
        let is_long = words.contains(&"-l");
        let name = words.iter().find(|word| !word.starts_with('-'));
        let place = name.map_or_else(|| join(&self.folder, b""), |name| self.at(name));
        let entries = entries(&mut self.dialogue, &place).await?;
        let named = |name: &[u8]| String::from_utf8(name.to_vec()).ok();
        self.names = entries.iter().filter_map(|entry| named(&entry.name)).collect();
        let text: String = entries.iter().map(|entry| line(entry, is_long)).collect();
        show(text.as_bytes())
    }

    async fn go(&mut self, folder: &[u8]) -> Result<(), Trouble> {
        let wanted = format!("to go to '{}'", shown(folder));
        let dialogue = &mut self.dialogue;
        dialogue.run(&wanted, Task::ChangeDirectory(name_of(folder)?)).await?;
        let told = dialogue.run(&wanted, Task::WorkingDirectory).await;
        let told = told.ok().and_then(|done| done.reply.quoted());
        self.folder = told.unwrap_or_else(|| folder.to_vec());
        Ok(())
    }

    async fn get(&mut self, path: &[u8], here: Option<&Path>) -> Result<(), Trouble> {
        let last = split(path).1;
        let name = LocalName::new(last)
            .map_err(|_| Trouble::Wrong("that is no name for a file here".to_owned()))?;
        let own = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        let to = To::File(here.map_or(own, Path::to_owned));
        let errand = get::Errand { path: path.to_vec(), size: None, modified: None, to };
        let mut record = Record::begin(&self.dialogue, true, path, Representation::IMAGE);
        let result = get::get(&mut self.dialogue, &errand, &terms(), &mut record).await;
        self.dialogue.caller.keep(&mut record, result.as_ref().copied());
        told("got", path, result?, &record);
        Ok(())
    }

    async fn get_all(&mut self, pattern: &str) -> Result<(), Trouble> {
        let found = self.dialogue.expand(&self.at(pattern)).await?;
        if found.is_empty() {
            return Err(Trouble::NotThere(format!("nothing there fits '{pattern}'")));
        }
        for found in self.dialogue.for_here(found) {
            if !found.entry.kind.is_directory() {
                self.get(&found.path, None).await?;
            }
        }
        Ok(())
    }

    async fn put(&mut self, here: &str, path: Vec<u8>) -> Result<(), Trouble> {
        let mut record = Record::begin(&self.dialogue, false, &path, Representation::IMAGE);
        let errand = put::Errand { from: here.into(), path, keeps_time: false };
        let result = put::put(&mut self.dialogue, &errand, &terms(), &mut record).await;
        self.dialogue.caller.keep(&mut record, result.as_ref().copied());
        told("put", &errand.path, result?, &record);
        Ok(())
    }

    async fn size(&mut self, name: &str) -> Result<(), Trouble> {
        let (size, time) = self.dialogue.size_and_time(&self.at(name)).await?;
        let size = size.map_or_else(|| "unknown".to_owned(), |size| format!("{size} bytes"));
        let time = time.map_or_else(|| "unknown".to_owned(), |time| time.to_text());
        show(format!("{size}, {time}\n").as_bytes())
    }

    async fn quote(&mut self, command: &str) -> Result<(), Trouble> {
        self.reply("the command", Task::Quote(name_of(command.as_bytes())?)).await
    }

    async fn reply(&mut self, wanted: &str, task: Task) -> Result<(), Trouble> {
        let done = self.dialogue.run_once(wanted, task, None).await.0?;
        let lines = done.reply.lines.iter().map(|text| format!("{}\n", shown(text)));
        show(lines.collect::<String>().as_bytes())
    }
}

fn terms() -> Terms {
    let representation = Representation::IMAGE;
    Terms { representation, existing: Existing::Keep, continues: false, segments: 1 }
}

fn told(done: &str, path: &[u8], ending: Ending, record: &Record) {
    let shown = shown(path);
    match ending {
        Ending::Moved => say(&format!("{done} '{shown}': {}", summary(&record.transfer))),
        Ending::WasThere => say(&format!("'{shown}' was there already")),
    }
}

fn help() -> Result<(), Trouble> {
    let lines = COMMANDS.iter().map(|(name, what)| format!("{name:8} {what}\n"));
    show(lines.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_between_quotes_may_have_spaces() {
        assert_eq!(words("get  'a b' \"c\"d ''"), ["get", "a b", "cd", ""]);
    }

    #[test]
    fn a_host_alone_is_a_url_of_ftp() {
        assert_eq!(host("example.net:2121").unwrap().to_string(), "ftp://example.net:2121/");
        assert_eq!(host("ftps://example.net").unwrap().to_string(), "ftps://example.net/");
    }
}
