//! Removal and renaming on the server: which paths are permitted, and in which order they are
//! removed.
//!
//! A path whose last component is empty, `.` or `..`, and the root, denote more than their text
//! shows. They are refused, as by rm(1), before anything is removed. The names to remove are listed
//! first, counted, and confirmed on a terminal.

use super::dialogue::Dialogue;
use super::manage::show;
use super::mirror::as_json;
use super::remote::{Found, is_pattern, name_of};
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use protocols::application::ftp::listing::{Entry, Kind};
use protocols::application::ftp::user::Task;
use records::figures::count;
use std::io::{BufRead, IsTerminal, Write};

/// Refuses a path that names a directory by its position and not by its name.
///
/// # Errors
///
/// Returns an error for an empty path, the root, `~`, and paths that end with `.` or `..`.
pub(super) fn check_named(path: &[u8], verb: &str) -> Result<(), Trouble> {
    // Windows servers accept either slash.
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\');
    let end = path.iter().rposition(|byte| !is_separator(byte)).map_or(0, |at| at + 1);
    let last = path.get(..end).unwrap_or_default().rsplit(is_separator).next().unwrap_or_default();
    let why = match last.trim_ascii() {
        b"" if path.is_empty() => "no path is given".to_owned(),
        b"" => format!("'{}' is the root directory", shown(path)),
        b"." | b".." => {
            format!("'{}' ends with '{}'", shown(path), shown(last.trim_ascii()))
        }
        b"~" if path == b"~" => "'~' is the home directory".to_owned(),
        _ => return Ok(()),
    };
    Err(Trouble::Wrong(format!("refusing to {verb}: {why}; name a file or a directory in it")))
}

/// Options of a removal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemoveOptions {
    /// Whether the names are printed instead of removed.
    pub(super) is_dry_run: bool,
    /// Whether each removed name is printed.
    pub(super) is_verbose: bool,
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
}

/// Names to remove, in order, and directories that stay.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// Names, and whether each is a directory; the content of a directory precedes it.
    things: Vec<(Vec<u8>, bool)>,
    /// Directories that stay, since only files are to be removed.
    directories_left: Vec<Vec<u8>>,
}

impl Removal {
    /// Finds the names that a path or a pattern denotes.
    pub(super) async fn of(
        dialogue: &mut Dialogue,
        name: &[u8],
        is_recursive: bool,
    ) -> Result<Self, Trouble> {
        check_named(name, "remove")?;
        let mut removal = Self::default();
        if !is_pattern(name) {
            removal.add_named(dialogue, name, is_recursive).await?;
            return Ok(removal);
        }
        let found = dialogue.expand(name).await?;
        if found.is_empty() {
            let shown = shown(name);
            return Err(Trouble::NotThere(format!("nothing on the server matches '{shown}'")));
        }
        for place in found {
            removal.add(dialogue, &place, is_recursive).await?;
        }
        Ok(removal)
    }

    /// Adds the file or directory at `path`, which is not a pattern.
    pub(super) async fn add_named(
        &mut self,
        dialogue: &mut Dialogue,
        path: &[u8],
        is_recursive: bool,
    ) -> Result<(), Trouble> {
        check_named(path, "remove")?;
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let entry = if is_recursive { dialogue.look_at(path).await? } else { None };
        let entry = entry.unwrap_or_default();
        let place = Found { path: path.to_vec(), below: Vec::new(), entry };
        self.add(dialogue, &place, is_recursive).await
    }

    /// Adds an entry that was found.
    pub(super) async fn add(
        &mut self,
        dialogue: &mut Dialogue,
        place: &Found,
        is_recursive: bool,
    ) -> Result<(), Trouble> {
        check_named(&place.path, "remove")?;
        if place.entry.kind != Kind::Directory {
            self.things.push((place.path.clone(), false));
            return Ok(());
        }
        if !is_recursive {
            self.directories_left.push(place.path.clone());
            return Ok(());
        }
        let found = dialogue.walk(&place.path, |_, _| true).await?;
        let is_directory = |entry: &Entry| entry.kind == Kind::Directory;
        let inner = found.into_iter().rev().map(|it| (it.path, is_directory(&it.entry)));
        self.things.extend(inner);
        self.things.push((place.path.clone(), true));
        Ok(())
    }

    /// Returns whether more than one name is removed, or a directory with its content.
    pub(super) fn is_many(&self) -> bool {
        self.things.len() > 1 || self.things.iter().any(|(_, is_directory)| *is_directory)
    }

    /// Returns how much is removed: `3 files and 1 directory`.
    pub(super) fn amount(&self) -> String {
        amount(&self.things)
    }

    /// Removes all names. A refusal of the server is reported, and the rest is removed.
    pub(super) async fn run(
        &self,
        dialogue: &mut Dialogue,
        options: RemoveOptions,
    ) -> Result<(), Trouble> {
        for name in &self.directories_left {
            say(&format!("'{}' is a directory: use -r to remove it", shown(name)));
        }
        if options.is_dry_run {
            self.show_dry_run(options)?;
            return self.check_complete(0, None, dialogue);
        }
        let mut removed = Vec::new();
        let (mut failed, mut first) = (0_u64, None);
        for (path, is_directory) in &self.things {
            match self.remove(dialogue, path, *is_directory).await {
                Ok(()) => {
                    tell(path, *is_directory, options)?;
                    removed.push((path.clone(), *is_directory));
                }
                // The error of a single name is the error of the command.
                Err(trouble) if self.things.len() == 1 || !trouble.is_refusal() => {
                    return Err(trouble);
                }
                Err(trouble) => {
                    failed += 1;
                    say(&trouble.sentence());
                    first.get_or_insert(trouble);
                }
            }
        }
        if self.is_many() && !options.is_quiet && !options.is_json {
            say(&format!("removed {}", amount(&removed)));
        }
        self.check_complete(failed, first, dialogue)
    }

    fn show_dry_run(&self, options: RemoveOptions) -> Result<(), Trouble> {
        let mut text = String::new();
        for (path, is_directory) in &self.things {
            let end = if *is_directory { "/" } else { "" };
            text.push_str(&match options.is_json {
                true => format!("{}\n", as_json("delete", path, *is_directory)),
                false => format!("delete {}{end}\n", shown(path)),
            });
        }
        show(text.as_bytes())
    }

    fn check_complete(
        &self,
        failed: u64,
        first: Option<Trouble>,
        dialogue: &Dialogue,
    ) -> Result<(), Trouble> {
        if let Some(first) = first {
            let of = u64::try_from(self.things.len()).unwrap_or(u64::MAX);
            let (failed, of) = (count(failed), count(of));
            let sentence = first.sentence();
            return Err(Trouble::LeftOut(format!(
                "{failed} of {of} were not removed; the first error: {sentence}"
            )));
        }
        match self.directories_left.as_slice() {
            [] => dialogue.report_unread(),
            [_] => Err(Trouble::LeftOut("1 directory was not removed".to_owned())),
            all => Err(Trouble::LeftOut(format!("{} directories were not removed", all.len()))),
        }
    }

    async fn remove(
        &self,
        dialogue: &mut Dialogue,
        path: &[u8],
        is_directory: bool,
    ) -> Result<(), Trouble> {
        if is_directory {
            return remove_directory(dialogue, path).await;
        }
        match remove_file(dialogue, path).await {
            Err(trouble) if trouble.is_refusal() && self.things.len() == 1 => {
                // The reply of the server does not say that it is a directory.
                let entry = dialogue.look_at(path).await.ok().flatten();
                let shown = shown(path);
                Err(match entry {
                    Some(entry) if entry.kind.is_directory() => Trouble::IsFolder(format!(
                        "'{shown}' is a directory: use -r to remove it and its contents"
                    )),
                    _ => trouble,
                })
            }
            result => result,
        }
    }
}

/// Returns how many files and directories there are: `3 files and 1 directory`.
pub(super) fn amount(things: &[(Vec<u8>, bool)]) -> String {
    let directories = things.iter().filter(|(_, is_directory)| *is_directory).count();
    let of = |number: usize, one: &str, many: &str| {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        format!("{} {}", count(number), if number == 1 { one } else { many })
    };
    let files = of(things.len() - directories, "file", "files");
    match directories {
        0 => files,
        _ => format!("{files} and {}", of(directories, "directory", "directories")),
    }
}

/// Reports a removed name, if requested.
fn tell(path: &[u8], is_directory: bool, options: RemoveOptions) -> Result<(), Trouble> {
    if options.is_json {
        return show(format!("{}\n", as_json("deleted", path, is_directory)).as_bytes());
    }
    if options.is_verbose && !options.is_quiet {
        let end = if is_directory { "/" } else { "" };
        say(&format!("removed '{}{end}'", shown(path)));
    }
    Ok(())
}

/// Asks on the terminal whether to continue. Without a terminal the answer is yes.
pub(super) async fn confirm(dialogue: &Dialogue, question: &str) -> Result<(), Trouble> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    let question = format!("plumb: {question} [y/N] ");
    let reading = tokio::task::spawn_blocking(move || {
        let mut stderr = std::io::stderr();
        stderr.write_all(question.as_bytes())?;
        stderr.flush()?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        Ok::<_, std::io::Error>(line)
    });
    let mut stop = dialogue.caller.shared.stop.clone();
    let line = tokio::select! {
        line = reading => line.map_err(anyhow::Error::new)?.map_err(anyhow::Error::new)?,
        _ = stop.wait_for(|is_wanted| *is_wanted) => return Err(Trouble::Stopped),
    };
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Trouble::Declined),
    }
}

/// Removes one file.
pub(super) async fn remove_file(dialogue: &mut Dialogue, path: &[u8]) -> Result<(), Trouble> {
    let wanted = format!("cannot remove '{}'", shown(path));
    dialogue.run(&wanted, Task::Delete(name_of(path)?)).await.map(|_| ())
}

/// Removes one directory, which must be empty.
pub(super) async fn remove_directory(dialogue: &mut Dialogue, path: &[u8]) -> Result<(), Trouble> {
    let wanted = format!("cannot remove the directory '{}'", shown(path));
    dialogue.run(&wanted, Task::RemoveDirectory(name_of(path)?)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    // attack row 145
    #[test]
    fn paths_that_name_a_directory_by_its_place_are_refused() {
        let refused: [&[u8]; 20] = [
            b"",
            b"/",
            b"//",
            b".",
            b"..",
            b"./",
            b"../",
            b"../..",
            b"a/..",
            b"a/../",
            b"a/../..",
            b"a/.",
            b"/.",
            b"/..",
            b"many//..//",
            b"a\\..",
            b"\\",
            b".. ",
            b"~",
            b" ",
        ];
        for path in refused {
            let refusal = check_named(path, "remove");
            assert!(matches!(refusal, Err(Trouble::Wrong(_))), "{}", path.escape_ascii());
        }
        for path in [&b"a"[..], b"/a", b"a/", b"../a", b"a/../b", b"..a", b"...", b".a", b"~lock"] {
            assert!(check_named(path, "remove").is_ok(), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn the_amount_tells_files_from_directories() {
        let thing = |is_directory| (b"x".to_vec(), is_directory);
        assert_eq!(amount(&[thing(false)]), "1 file");
        assert_eq!(amount(&[thing(false), thing(false), thing(true)]), "2 files and 1 directory");
        assert_eq!(amount(&[thing(true), thing(true)]), "0 files and 2 directories");
    }
}
