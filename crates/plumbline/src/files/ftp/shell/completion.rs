//! Tab completion: commands, their arguments, remote names, and local files.
//!
//! Remote names are those of the directory that the typed word names. The thread of the editor
//! requests them from the session, once per prompt and directory.

use super::commands::{COMMANDS, find};
use protocols::ftp::WordFormat;
use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use transfer::shell_line::{quoted, words};

/// Maximum time for a listing that completes a word.
const LISTING_TIMEOUT: Duration = Duration::from_secs(5);

/// Request for the names in a remote directory.
pub(super) struct ListingRequest {
    /// The directory as typed, with its final slash; empty for the working directory.
    pub(super) directory: String,
    /// Receives the names, each with the directory before it.
    pub(super) reply: SyncSender<Vec<String>>,
}

/// Remote names that can be completed.
#[derive(Default, Helper, Hinter, Highlighter, Validator)]
pub(super) struct CompletionNames {
    /// Names of the last listing.
    names: Vec<String>,
    /// Session that lists directories.
    pub(super) requests: Option<UnboundedSender<ListingRequest>>,
    /// Names of the directories that were listed since the last command.
    listed: RefCell<BTreeMap<String, Vec<String>>>,
}

/// Kind of word that may occur at a position in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Command,
    /// One of these words.
    OneOf(&'static [&'static str]),
    Format,
    RemoteName,
    LocalFile,
    Nothing,
}

impl WordKind {
    /// Returns the kind of word that may follow `words`; the first word is the command.
    fn following(words: &[String]) -> Self {
        let Some(word) = words.first() else { return Self::Command };
        let name = find(word).map_or("", |known| known.name);
        match (name, words.len()) {
            ("help", _) => Self::Command,
            ("type", _) => Self::OneOf(&["A", "E", "I", "L36", "auto"]),
            ("mode", _) => Self::OneOf(&["B", "C", "S", "Z"]),
            ("stru", _) => Self::OneOf(&["F", "P", "R"]),
            ("store", _) => Self::Format,
            ("lcd" | "lls" | "mput", _) | ("put" | "reput", 1) | ("get" | "reget", 2..) => {
                Self::LocalFile
            }
            ("bookmark", 1) => Self::OneOf(&["add", "delete", "list"]),
            ("!" | "quote" | "site" | "open" | "user" | "bookmark", _) => Self::Nothing,
            _ => Self::RemoteName,
        }
    }
}

/// Returns the local paths that begin with `word`.
fn local_files(word: &str) -> Vec<String> {
    let (directory, _) =
        word.rsplit_once('/').map_or(("", word), |(directory, last)| (directory, last));
    let prefix = if word.contains('/') { format!("{directory}/") } else { String::new() };
    let search_directory = if prefix.is_empty() { "." } else { &prefix };
    let Ok(entries) = std::fs::read_dir(Path::new(search_directory)) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let suffix = if entry.path().is_dir() { "/" } else { "" };
        Some(format!("{prefix}{name}{suffix}"))
    });
    let mut names: Vec<_> = names.filter(|name| name.starts_with(word)).collect();
    names.sort();
    names
}

impl CompletionNames {
    /// Sets the names of the last listing. Earlier listings may be outdated.
    pub(super) fn set_names(&mut self, names: &[String]) {
        self.names = names.to_vec();
        self.listed.borrow_mut().clear();
    }

    /// Returns the names in the directory of `word`, and the names of the last listing.
    fn remote_names(&self, word: &str) -> Vec<String> {
        let directory = word.rfind('/').map_or("", |end| word.get(..=end).unwrap_or_default());
        let mut listed = self.listed.borrow_mut();
        let names = listed.entry(directory.to_owned()).or_insert_with(|| {
            let (reply, names) = sync_channel(1);
            let request = ListingRequest { directory: directory.to_owned(), reply };
            let is_sent = self.requests.as_ref().is_some_and(|to| to.send(request).is_ok());
            let names = is_sent.then(|| names.recv_timeout(LISTING_TIMEOUT).ok());
            names.flatten().unwrap_or_default()
        });
        let mut names = names.clone();
        let is_new = |name: &&String| !names.contains(name) && !names.contains(&format!("{name}/"));
        let more: Vec<_> = self.names.iter().filter(is_new).cloned().collect();
        names.extend(more);
        names
    }

    /// Returns the offset of the last typed word, and the completions of the word.
    fn candidates(&self, typed: &str) -> (usize, Vec<String>) {
        let (mut previous, start) = words(typed);
        let word =
            if start < typed.len() { previous.pop().unwrap_or_default() } else { String::new() };
        let is_completion = |name: &&str| name.starts_with(&word);
        let matching = |names: &[&str]| {
            names.iter().copied().filter(is_completion).map(str::to_owned).collect::<Vec<_>>()
        };
        let found = match WordKind::following(&previous) {
            WordKind::Command => {
                let names = COMMANDS.iter().flat_map(|known| {
                    [known.name].into_iter().chain(known.aliases.iter().copied())
                });
                matching(&names.collect::<Vec<_>>())
            }
            WordKind::OneOf(names) => matching(names),
            WordKind::Format => matching(&WordFormat::ALL.map(|(_, name)| name)),
            WordKind::RemoteName => {
                let names = self.remote_names(&word);
                matching(&names.iter().map(String::as_str).collect::<Vec<_>>())
            }
            WordKind::LocalFile => local_files(&word),
            WordKind::Nothing => Vec::new(),
        };
        (start, found)
    }
}

impl Completer for CompletionNames {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = self.candidates(line.get(..at).unwrap_or_default());
        // A space follows a single completion. After a directory no space follows, because the path
        // may continue.
        let is_single_candidate = found.len() == 1;
        let pair = |name: String| {
            let end = if is_single_candidate && !name.ends_with('/') { " " } else { "" };
            Pair { replacement: format!("{}{end}", quoted(&name)), display: name }
        };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions_of(typed: &str) -> (usize, Vec<String>) {
        let names = ["a b", "ab", "c"].map(str::to_owned).to_vec();
        CompletionNames { names, ..CompletionNames::default() }.candidates(typed)
    }

    #[test]
    fn a_word_with_a_slash_completes_in_that_directory() {
        let (sender, mut requests) = tokio::sync::mpsc::unbounded_channel::<ListingRequest>();
        let session = std::thread::spawn(move || {
            let mut directories = Vec::new();
            while let Some(request) = requests.blocking_recv() {
                request.reply.send(vec![format!("{}tree/", request.directory)]).unwrap();
                directories.push(request.directory);
            }
            directories
        });
        let names = CompletionNames { requests: Some(sender), ..CompletionNames::default() };
        for _ in 0..2 {
            assert_eq!(names.candidates("cd /pub/tr"), (3, vec!["/pub/tree/".to_owned()]));
        }
        drop(names);
        assert_eq!(session.join().unwrap(), ["/pub/"]);
    }

    #[test]
    fn the_first_word_completes_commands_and_later_words_remote_names() {
        assert_eq!(completions_of("mge"), (0, vec!["mget".to_owned()]));
        assert_eq!(completions_of("get a"), (4, vec!["a b".to_owned(), "ab".to_owned()]));
        assert_eq!(completions_of("get \"a "), (4, vec!["a b".to_owned()]));
        assert_eq!(completions_of("type L"), (5, vec!["L36".to_owned()]));
        assert_eq!(completions_of("store c"), (6, vec!["c36".to_owned()]));
        assert_eq!(completions_of("help rena"), (5, vec!["rename".to_owned()]));
        assert_eq!(completions_of("quote S"), (6, Vec::new()));
    }

    #[test]
    fn arguments_of_put_complete_local_files() {
        let (start, files) = completions_of("put /dev/ze");
        assert_eq!((start, files), (4, vec!["/dev/zero".to_owned()]));
        let (_, files) = completions_of("lcd /de");
        assert_eq!(files, ["/dev/"]);
    }
}
