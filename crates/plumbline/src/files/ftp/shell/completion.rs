//! Tab completion: commands, their arguments, names of the last listing, and local files.

use super::commands::{COMMANDS, find, quoted, words};
use protocols::ftp::WordFormat;
use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};
use std::path::Path;

/// Remote names that can be completed.
#[derive(Default, Helper, Hinter, Highlighter, Validator)]
pub(super) struct CompletionNames {
    pub(super) names: Vec<String>,
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
            ("!" | "quote" | "site", _) => Self::Nothing,
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
                matching(&self.names.iter().map(String::as_str).collect::<Vec<_>>())
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
        CompletionNames { names }.candidates(typed)
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
