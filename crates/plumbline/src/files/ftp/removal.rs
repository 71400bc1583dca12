//! Removal on the server, in the required order, and the check of paths to remove or rename.
//!
//! The root, and a path whose last component is empty, `.` or `..`, do not name the directory that
//! would be removed. Like rm(1), plumb refuses such a path before it removes anything. The names to
//! remove are first listed, counted, and confirmed on a terminal.

use super::command_output::{change_as_json, print};
use crate::exit::print_diagnostic;
use crate::files::progress::print_message;
use protocols::ftp::listing::{Entry, Kind};
use protocols::ftp::user::Task;
use records::format::count;
use records::severity::Severity;
use std::io::{BufRead, IsTerminal, Write};
use transfer::escaped;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::{RemoteEntry, is_pattern, name_of};

/// Refuses a path that names a directory by its position instead of its name.
///
/// # Errors
///
/// Returns an error for an empty path, the root, `~`, and paths that end with `.` or `..`.
pub(super) fn check_named(path: &[u8], verb: &str) -> Result<(), FtpError> {
    // Windows servers accept either slash.
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\');
    let end = path.iter().rposition(|byte| !is_separator(byte)).map_or(0, |at| at + 1);
    let last_component =
        path.get(..end).unwrap_or_default().rsplit(is_separator).next().unwrap_or_default();
    let why = match last_component.trim_ascii() {
        b"" if path.is_empty() => "no path is given".to_owned(),
        b"" => format!("'{}' is the root directory", escaped(path)),
        b"." | b".." => {
            format!("'{}' ends with '{}'", escaped(path), escaped(last_component.trim_ascii()))
        }
        b"~" if path == b"~" => "'~' is the home directory".to_owned(),
        _ => return Ok(()),
    };
    Err(FtpError::InvalidRequest(format!(
        "refusing to {verb}: {why}; use the name of a file or directory"
    )))
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
    /// Names, each with `true` for a directory; the content of a directory precedes the directory.
    names: Vec<(Vec<u8>, bool)>,
    /// Directories that stay, because the removal is not recursive.
    remaining_directories: Vec<Vec<u8>>,
}

impl Removal {
    /// Finds the names that a path or a pattern denotes.
    pub(super) async fn of(
        client: &mut FtpClient,
        name: &[u8],
        is_recursive: bool,
    ) -> Result<Self, FtpError> {
        check_named(name, "remove")?;
        let mut removal = Self::default();
        if !is_pattern(name) {
            removal.add_named(client, name, is_recursive).await?;
            return Ok(removal);
        }
        let matches = client.expand(name).await?;
        if matches.is_empty() {
            let escaped = escaped(name);
            return Err(FtpError::NotFound(format!("nothing on the server matches '{escaped}'")));
        }
        for entry_found in matches {
            removal.add(client, &entry_found, is_recursive).await?;
        }
        Ok(removal)
    }

    /// Adds the file or directory at `path`, which is not a pattern.
    pub(super) async fn add_named(
        &mut self,
        client: &mut FtpClient,
        path: &[u8],
        is_recursive: bool,
    ) -> Result<(), FtpError> {
        check_named(path, "remove")?;
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let entry = if is_recursive { client.find_entry(path).await? } else { None };
        let entry = entry.unwrap_or_default();
        let entry_found = RemoteEntry { path: path.to_vec(), relative_path: Vec::new(), entry };
        self.add(client, &entry_found, is_recursive).await
    }

    /// Adds an entry of a listing.
    pub(super) async fn add(
        &mut self,
        client: &mut FtpClient,
        entry_found: &RemoteEntry,
        is_recursive: bool,
    ) -> Result<(), FtpError> {
        check_named(&entry_found.path, "remove")?;
        if entry_found.entry.kind != Kind::Directory {
            self.names.push((entry_found.path.clone(), false));
            return Ok(());
        }
        if !is_recursive {
            self.remaining_directories.push(entry_found.path.clone());
            return Ok(());
        }
        let found = client.list_tree(&entry_found.path, |_, _| true).await?;
        let is_directory = |entry: &Entry| entry.kind == Kind::Directory;
        let content = found.into_iter().rev().map(|found| (found.path, is_directory(&found.entry)));
        self.names.extend(content);
        self.names.push((entry_found.path.clone(), true));
        Ok(())
    }

    /// Returns whether the removal contains a directory or more than one name.
    pub(super) fn is_many(&self) -> bool {
        self.names.len() > 1 || self.names.iter().any(|(_, is_directory)| *is_directory)
    }

    /// Returns the number of names as text: `3 files and 1 directory`.
    pub(super) fn amount_text(&self) -> String {
        amount_text(&self.names)
    }

    /// Removes all names. If the server refuses to remove a name, reports the refusal and continues
    /// with the next name.
    pub(super) async fn run(
        &self,
        client: &mut FtpClient,
        options: RemoveOptions,
    ) -> Result<(), FtpError> {
        for name in &self.remaining_directories {
            print_diagnostic(
                Severity::Error,
                &format!("'{}' is a directory: use -r to remove it", escaped(name)),
            );
        }
        if options.is_dry_run {
            self.show_dry_run(options)?;
            return self.check_complete(0, None, client);
        }
        let mut removed_names = Vec::new();
        let mut failure_count = 0_u64;
        let mut first_error = None;
        for (path, is_directory) in &self.names {
            match self.remove(client, path, *is_directory).await {
                Ok(()) => {
                    report_removed(path, *is_directory, options)?;
                    removed_names.push((path.clone(), *is_directory));
                }
                // The error of a single name is the error of the command.
                Err(error) if self.names.len() == 1 || !error.is_refusal() => {
                    return Err(error);
                }
                Err(error) => {
                    failure_count += 1;
                    print_diagnostic(Severity::Error, &error.sentence());
                    first_error.get_or_insert(error);
                }
            }
        }
        if self.is_many() && !options.is_quiet && !options.is_json {
            print_message(&format!("removed {}", amount_text(&removed_names)));
        }
        self.check_complete(failure_count, first_error, client)
    }

    fn show_dry_run(&self, options: RemoveOptions) -> Result<(), FtpError> {
        let mut text = String::new();
        for (path, is_directory) in &self.names {
            let end = if *is_directory { "/" } else { "" };
            text.push_str(&match options.is_json {
                true => format!("{}\n", change_as_json("delete", path, *is_directory)),
                false => format!("delete {}{end}\n", escaped(path)),
            });
        }
        print(text.as_bytes())
    }

    fn check_complete(
        &self,
        failed: u64,
        first: Option<FtpError>,
        client: &FtpClient,
    ) -> Result<(), FtpError> {
        if let Some(first) = first {
            let total = u64::try_from(self.names.len()).unwrap_or(u64::MAX);
            let failed = count(failed);
            let total = count(total);
            let sentence = format!("{failed} of {total} names were not removed");
            return Err(FtpError::Several { sentence, class: first.failure() });
        }
        match self.remaining_directories.as_slice() {
            [] => client.report_unparsed(),
            [_] => Err(FtpError::IsDirectory("1 directory was not removed".to_owned())),
            all => {
                Err(FtpError::IsDirectory(format!("{} directories were not removed", all.len())))
            }
        }
    }

    async fn remove(
        &self,
        client: &mut FtpClient,
        path: &[u8],
        is_directory: bool,
    ) -> Result<(), FtpError> {
        if is_directory {
            return remove_directory(client, path).await;
        }
        match remove_file(client, path).await {
            Err(error) if error.is_refusal() && self.names.len() == 1 => {
                // The reply of the server does not tell whether the name is a directory.
                let entry = client.find_entry(path).await.ok().flatten();
                let escaped = escaped(path);
                Err(match entry {
                    Some(entry) if entry.kind.is_directory() => FtpError::IsDirectory(format!(
                        "'{escaped}' is a directory: use -r to remove it and its contents"
                    )),
                    _ => error,
                })
            }
            result => result,
        }
    }
}

/// Returns the number of files and directories in `names` as text: `3 files and 1 directory`.
pub(super) fn amount_text(names: &[(Vec<u8>, bool)]) -> String {
    let directories = names.iter().filter(|(_, is_directory)| *is_directory).count();
    let counted_text = |number: usize, one: &str, many: &str| {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        format!("{} {}", count(number), if number == 1 { one } else { many })
    };
    let files = counted_text(names.len() - directories, "file", "files");
    match directories {
        0 => files,
        _ => format!("{files} and {}", counted_text(directories, "directory", "directories")),
    }
}

/// Reports a removed name, if requested.
fn report_removed(path: &[u8], is_directory: bool, options: RemoveOptions) -> Result<(), FtpError> {
    if options.is_json {
        return print(format!("{}\n", change_as_json("deleted", path, is_directory)).as_bytes());
    }
    if options.is_verbose && !options.is_quiet {
        let end = if is_directory { "/" } else { "" };
        print_message(&format!("removed '{}{end}'", escaped(path)));
    }
    Ok(())
}

/// Asks on the terminal whether to continue. Without a terminal the answer is yes.
pub(super) async fn confirm(client: &FtpClient, question: &str) -> Result<(), FtpError> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    let question = format!("{question} [y/N] ");
    let reading = tokio::task::spawn_blocking(move || {
        let mut stderr = std::io::stderr();
        stderr.write_all(question.as_bytes())?;
        stderr.flush()?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        Ok::<_, std::io::Error>(line)
    });
    let line = tokio::select! {
        line = reading => line.map_err(anyhow::Error::new)?.map_err(anyhow::Error::new)?,
        () = client.connector().cancelled() => return Err(FtpError::Stopped),
    };
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(FtpError::Declined),
    }
}

/// Removes one file.
pub(super) async fn remove_file(client: &mut FtpClient, path: &[u8]) -> Result<(), FtpError> {
    let context = format!("cannot remove '{}'", escaped(path));
    client.run(&context, Task::Delete(name_of(path)?)).await.map(|_| ())
}

/// Removes one directory, which must be empty.
pub(super) async fn remove_directory(client: &mut FtpClient, path: &[u8]) -> Result<(), FtpError> {
    let context = format!("cannot remove the directory '{}'", escaped(path));
    client.run(&context, Task::RemoveDirectory(name_of(path)?)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    // attack row 145
    #[test]
    fn paths_that_name_a_directory_by_its_position_are_refused() {
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
            assert!(matches!(refusal, Err(FtpError::InvalidRequest(_))), "{}", path.escape_ascii());
        }
        for path in [&b"a"[..], b"/a", b"a/", b"../a", b"a/../b", b"..a", b"...", b".a", b"~lock"] {
            assert!(check_named(path, "remove").is_ok(), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn the_amount_counts_files_and_directories_separately() {
        let name = |is_directory| (b"x".to_vec(), is_directory);
        assert_eq!(amount_text(&[name(false)]), "1 file");
        assert_eq!(amount_text(&[name(false), name(false), name(true)]), "2 files and 1 directory");
        assert_eq!(amount_text(&[name(true), name(true)]), "0 files and 2 directories");
    }
}
