//! `get` and `put` of the shell, for one file and for many.

use super::super::desk::Shown;
use super::super::get::{self, Ending, Terms, To};
use super::super::put;
use super::super::remote::{Found, is_pattern, join, split};
use super::super::trouble::Trouble;
use super::{Answer, Desk};
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::transfer_recorder::{Record, summary};
use os::jail::Existing;
use protocols::application::ftp::LocalName;
use protocols::application::ftp::listing::Pattern;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Splits the flags from the words; `None` if a flag is unknown.
pub(super) fn flags<'a, 'w>(words: &'w [&'a str], known: &str) -> Option<(String, &'w [&'a str])> {
    let (mut flags, mut rest) = (String::new(), words);
    while let [word, behind @ ..] = rest
        && let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty())
    {
        rest = behind;
        if letters == "-" {
            break;
        }
        if !letters.chars().all(|letter| known.contains(letter)) {
            return None;
        }
        flags.push_str(letters);
    }
    Some((flags, rest))
}

impl Desk {
    /// Runs a transfer command; `None` if its arguments are wrong.
    pub(super) async fn moves(
        &mut self,
        name: &str,
        words: &[&str],
    ) -> Option<Result<(), Trouble>> {
        let (flags, words) = flags(words, "cf")?;
        let mut terms = self.terms;
        terms.continues = flags.contains('c') || matches!(name, "reget" | "reput");
        if flags.contains('f') {
            terms.existing = Existing::Replace;
        }
        self.dialogue.caller.tell_of_no_comparison(&terms);
        Some(match (name, words) {
            ("get" | "reget", [one]) if is_pattern(one.as_bytes()) => {
                self.get_all(words, None, &terms).await
            }
            ("get" | "reget", [one, here]) if is_pattern(one.as_bytes()) => {
                self.get_into(one, Path::new(here), &terms).await
            }
            ("get" | "reget", [one]) => self.get(&self.at(one), None, &terms).await,
            ("get" | "reget", [one, here]) => {
                self.get(&self.at(one), Some(Path::new(here)), &terms).await
            }
            ("mget", [_, ..]) => self.get_all(words, None, &terms).await,
            ("put", [one]) if is_pattern(one.as_bytes()) => self.put_all(words, &terms).await,
            ("put" | "reput", [here]) => self.put_here(Path::new(here), &terms).await,
            ("put" | "reput", [here, there]) => {
                let path = match there.ends_with('/') {
                    true => join(&self.at(there), last_of(Path::new(here))),
                    false => self.at(there),
                };
                self.put(Path::new(here), path, &terms).await
            }
            ("mput", [_, ..]) => self.put_all(words, &terms).await,
            _ => return None,
        })
    }

    async fn get(
        &mut self,
        path: &[u8],
        here: Option<&Path>,
        terms: &Terms,
    ) -> Result<(), Trouble> {
        let last = split(path).1;
        let name = LocalName::new(last)
            .map_err(|_| Trouble::Wrong("the remote name is not a valid local name".to_owned()))?;
        let own = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        let to = To::File(match here {
            Some(folder) if folder.is_dir() => folder.join(own),
            Some(path) => path.to_owned(),
            None => own,
        });
        let errand = get::Errand {
            path: path.to_vec(),
            size: None,
            modified: None,
            has_rough_time: false,
            has_no_part: false,
            to,
        };
        let mut record = Record::begin(&self.dialogue, true, path, terms.representation);
        let meanwhile = self.begin_to_show();
        let result = get::get(&mut self.dialogue, &errand, terms, &mut record).await;
        meanwhile.end().await;
        self.dialogue.caller.keep(&mut record, result.as_ref().copied());
        told("downloaded", path, result?, &record);
        Ok(())
    }

    /// Displays the progress of a single file.
    fn begin_to_show(&self) -> Shown {
        let shared = &self.dialogue.caller.shared;
        shared.tally.store(0, Ordering::Relaxed);
        shared.expected.store(0, Ordering::Relaxed);
        Shown::begin(&self.dialogue.caller)
    }

    /// Downloads the matches of a pattern into a local directory. A single file may get another
    /// name.
    async fn get_into(&mut self, word: &str, here: &Path, terms: &Terms) -> Result<(), Trouble> {
        if here.is_dir() {
            return self.get_all(&[word], Some(here), terms).await;
        }
        match self.expand(word).await?.as_slice() {
            [one] if !one.entry.kind.is_directory() => self.get(&one.path, Some(here), terms).await,
            _ => {
                let name = here.display();
                Err(Trouble::Wrong(format!("{name} is not a directory: several files need one")))
            }
        }
    }

    async fn get_all(
        &mut self,
        words: &[&str],
        folder: Option<&Path>,
        terms: &Terms,
    ) -> Result<(), Trouble> {
        let mut all = true;
        for word in words {
            let found = self.expand(word).await?;
            let is_alone = !is_pattern(word.as_bytes());
            for found in if is_alone { found } else { self.dialogue.for_here(found) } {
                if found.entry.kind.is_directory() {
                    let name = shown(&found.path);
                    say(&format!("skipped directory '{name}': use plumb get -r"));
                    continue;
                }
                match self.ask("get", &found.path, &mut all).await? {
                    Answer::Yes => {}
                    Answer::No => continue,
                    Answer::Quit => return Ok(()),
                }
                let result = self.get(&found.path, folder, terms).await;
                one_of_many(result)?;
            }
        }
        Ok(())
    }

    /// Returns the entries that a name or a pattern denotes. The working directory is taken
    /// literally.
    pub(super) async fn expand(&mut self, word: &str) -> Result<Vec<Found>, Trouble> {
        if !is_pattern(word.as_bytes()) {
            let path = self.at(word);
            return Ok(vec![Found { below: split(&path).1.to_vec(), path, entry: <_>::default() }]);
        }
        let found = self.dialogue.expand_below(&self.folder, word.as_bytes()).await?;
        if found.is_empty() {
            return Err(Trouble::NotThere(format!("nothing on the server matches '{word}'")));
        }
        Ok(found)
    }

    async fn put_here(&mut self, here: &Path, terms: &Terms) -> Result<(), Trouble> {
        let path = join(&self.folder, last_of(here));
        self.put(here, path, terms).await
    }

    async fn put(&mut self, here: &Path, path: Vec<u8>, terms: &Terms) -> Result<(), Trouble> {
        let mut record = Record::begin(&self.dialogue, false, &path, terms.representation);
        let meanwhile = self.begin_to_show();
        let size = std::fs::metadata(here).map_or(0, |about| about.len());
        self.dialogue.caller.shared.expected.store(size, Ordering::Relaxed);
        let errand = put::Errand { from: here.to_owned(), path };
        let result = put::put(&mut self.dialogue, &errand, terms, &mut record).await;
        meanwhile.end().await;
        self.dialogue.caller.keep(&mut record, result.as_ref().copied());
        told("uploaded", &errand.path, result?, &record);
        Ok(())
    }

    async fn put_all(&mut self, words: &[&str], terms: &Terms) -> Result<(), Trouble> {
        let mut all = true;
        for word in words {
            for here in expand_here(word)? {
                if here.is_dir() {
                    let name = here.display();
                    say(&format!("skipped directory {name}: use plumb put -r"));
                    continue;
                }
                match self.ask("put", here.as_os_str().as_bytes(), &mut all).await? {
                    Answer::Yes => {}
                    Answer::No => continue,
                    Answer::Quit => return Ok(()),
                }
                let result = self.put_here(&here, terms).await;
                one_of_many(result)?;
            }
        }
        Ok(())
    }
}

fn last_of(path: &Path) -> &[u8] {
    path.file_name().unwrap_or(path.as_os_str()).as_bytes()
}

/// Prints the error of one file, unless it ends all of them.
fn one_of_many(result: Result<(), Trouble>) -> Result<(), Trouble> {
    match result {
        Err(trouble) if trouble.ends_all() || matches!(trouble, Trouble::NoConnection(_)) => {
            Err(trouble)
        }
        Err(trouble) => {
            say(&trouble.sentence());
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Returns the local files that a name or a pattern denotes. Only the last component is a pattern.
fn expand_here(word: &str) -> Result<Vec<PathBuf>, Trouble> {
    let path = Path::new(word);
    let Some(pattern) = Pattern::parse(last_of(path)) else { return Ok(vec![path.to_owned()]) };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    let entries =
        entries.map_err(|error| Trouble::Wrong(format!("cannot list {word}: {error}")))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let fits = names.filter(|name| pattern.matches(name.as_bytes()));
    let mut found: Vec<_> = fits
        .map(|name| folder.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name)))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Trouble::Wrong(format!("no local file matches '{word}'")));
    }
    Ok(found)
}

fn told(done: &str, path: &[u8], ending: Ending, record: &Record) {
    let shown = shown(path);
    match ending {
        Ending::Moved => say(&format!("{done} '{shown}': {}", summary(&record.transfer))),
        Ending::WasThere => say(&format!("'{shown}' is already complete")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_before_names_and_end_at_two_hyphens() {
        assert_eq!(flags(&["-c", "-f", "a"], "cf"), Some(("cf".to_owned(), &["a"][..])));
        assert_eq!(flags(&["--", "-c"], "cf"), Some((String::new(), &["-c"][..])));
        assert_eq!(flags(&["-x", "a"], "cf"), None);
    }
}
