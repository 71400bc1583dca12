//! `get` and `put` of the shell, for one file or several files.

use super::super::mirror::{MirrorOptions, run_mirror};
use super::super::removal::check_named;
use super::super::run_command::ProgressDisplay;
use super::ShellState;
use super::input::Answer;
use crate::exit::print_diagnostic;
use crate::files::progress::print_message;
use os::beneath::Existing;
use protocols::ftp::LocalName;
use protocols::ftp::listing::Pattern;
use records::severity::Severity;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use transfer::FailureClass;
use transfer::escaped;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::{Destination, Download};
use transfer::ftp::{FileOutcome, FtpOptions};
use transfer::ftp::{RemoteEntry, is_pattern, join, path_in, split};
use transfer::recorder::{Record, summary};
use transfer::shell_line::split_flags;

impl ShellState<'_> {
    /// Runs a transfer command; `None` if its arguments are wrong.
    pub(super) async fn transfer_command(
        &mut self,
        name: &str,
        words: &[&str],
    ) -> Option<Result<(), FtpError>> {
        if name == "mirror" {
            return self.mirror(words).await;
        }
        let (flags, words) = split_flags(words, "cf")?;
        let mut options = self.options;
        options.continues = flags.contains('c') || matches!(name, "reget" | "reput");
        if flags.contains('f') {
            options.existing = Existing::Replace;
        }
        self.client.connector().report_whole_transfers(&options);
        Some(match (name, words) {
            ("get" | "reget", [remote]) if is_pattern(remote.as_bytes()) => {
                self.get_all(words, None, &options).await
            }
            ("get" | "reget", [remote, local]) if is_pattern(remote.as_bytes()) => {
                self.get_into(remote, Path::new(local), &options).await
            }
            ("get" | "reget", [remote]) => {
                self.get(&self.remote_path(remote), None, &options).await
            }
            ("get" | "reget", [remote, local]) => {
                self.get(&self.remote_path(remote), Some(Path::new(local)), &options).await
            }
            ("mget", [_, ..]) => self.get_all(words, None, &options).await,
            ("put", [local]) if is_pattern(local.as_bytes()) => self.put_all(words, &options).await,
            ("put" | "reput", [local]) => self.put_under_own_name(Path::new(local), &options).await,
            ("put" | "reput", [local, remote]) => {
                let path = match remote.ends_with('/') {
                    true => join(&self.remote_path(remote), last_component(Path::new(local))),
                    false => self.remote_path(remote),
                };
                self.put(Path::new(local), path, &options).await
            }
            ("mput", [_, ..]) => self.put_all(words, &options).await,
            _ => return None,
        })
    }

    /// Mirrors a directory; `None` if the arguments are wrong.
    async fn mirror(&mut self, words: &[&str]) -> Option<Result<(), FtpError>> {
        let (flags, names) = split_flags(words, "Rencv")?;
        let is_incoming = !flags.contains('R');
        let (source, target) = match names {
            [source] => (*source, last_component(Path::new(source)).to_vec()),
            [source, target] => (*source, target.as_bytes().to_vec()),
            _ => return None,
        };
        let (remote, local) = match is_incoming {
            true => (source.as_bytes(), target.as_slice()),
            false => (target.as_slice(), source.as_bytes()),
        };
        let root =
            if remote == b"." { self.directory.clone() } else { path_in(&self.directory, remote) };
        let options = MirrorOptions {
            deletes: flags.contains('e'),
            is_dry_run: flags.contains('n'),
            ..MirrorOptions::default()
        };
        if options.deletes
            && let Err(error) = check_named(&target, "delete in the destination")
        {
            return Some(Err(error));
        }
        // Some servers accept one session per client.
        self.client.close_session().await;
        let connector = self.client.connector();
        connector.progress().restart();
        let client = FtpClient::new(connector);
        let local = Path::new(OsStr::from_bytes(local)).to_owned();
        let mut file_options = self.options;
        file_options.existing = Existing::Replace;
        Some(run_mirror(client, &root, &local, is_incoming, file_options, &options).await)
    }

    async fn get(
        &mut self,
        path: &[u8],
        local: Option<&Path>,
        options: &FtpOptions,
    ) -> Result<(), FtpError> {
        let last_component = split(path).1;
        let name = LocalName::new(last_component).map_err(|_| {
            FtpError::InvalidRequest("the remote name is not a valid local name".to_owned())
        })?;
        let default_path = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        let destination = Destination::File(match local {
            Some(directory) if directory.is_dir() => directory.join(default_path),
            Some(path) => path.to_owned(),
            None => default_path,
        });
        let download = Download {
            path: path.to_vec(),
            size: None,
            modified: None,
            has_rough_time: false,
            is_part_name_taken: false,
            destination,
        };
        let mut record = Record::begin(&self.client, true, path, options.representation);
        let display = self.display_progress();
        let result = transfer::ftp::get(&mut self.client, &download, options, &mut record).await;
        display.end().await;
        self.client.connector().keep(&mut record, result.as_ref().copied());
        print_outcome("downloaded", path, result?, &record);
        Ok(())
    }

    /// Displays the progress of a single file.
    fn display_progress(&self) -> ProgressDisplay {
        let connector = self.client.connector();
        connector.progress().restart();
        ProgressDisplay::begin(connector, false)
    }

    /// Downloads the files that match a pattern into the local directory `local`. If a single file
    /// matches, `local` may also be the local name of the file.
    async fn get_into(
        &mut self,
        word: &str,
        local: &Path,
        options: &FtpOptions,
    ) -> Result<(), FtpError> {
        if local.is_dir() {
            return self.get_all(&[word], Some(local), options).await;
        }
        match self.expand(word).await?.as_slice() {
            [single] if !single.entry.kind.is_directory() => {
                self.get(&single.path, Some(local), options).await
            }
            _ => {
                let name = local.display();
                Err(FtpError::InvalidRequest(format!(
                    "{name} is not a directory: several files can be downloaded only into a \
                     directory"
                )))
            }
        }
    }

    async fn get_all(
        &mut self,
        words: &[&str],
        directory: Option<&Path>,
        options: &FtpOptions,
    ) -> Result<(), FtpError> {
        let mut asks_about_rest = true;
        let mut failures = Failures::default();
        for word in words {
            let matches = self.expand(word).await?;
            let is_single_name = !is_pattern(word.as_bytes());
            for matches in
                if is_single_name { matches } else { self.client.retain_valid_local_names(matches) }
            {
                if matches.entry.kind.is_directory() {
                    let name = escaped(&matches.path);
                    print_diagnostic(
                        Severity::Warning,
                        &format!("skipped directory '{name}': use plumb get -r"),
                    );
                    continue;
                }
                match self.ask("get", &matches.path, &mut asks_about_rest).await? {
                    Answer::Yes => {}
                    Answer::No => continue,
                    Answer::Quit => return failures.result(),
                }
                failures.add(self.get(&matches.path, directory, options).await)?;
            }
        }
        failures.result()
    }

    /// Returns the entries that a name or a pattern denotes. The name of the working directory is
    /// taken literally.
    pub(super) async fn expand(&mut self, word: &str) -> Result<Vec<RemoteEntry>, FtpError> {
        if !is_pattern(word.as_bytes()) {
            let path = self.remote_path(word);
            return Ok(vec![RemoteEntry {
                relative_path: split(&path).1.to_vec(),
                path,
                entry: <_>::default(),
            }]);
        }
        let found = self.client.expand_below(&self.directory, word.as_bytes()).await?;
        if found.is_empty() {
            return Err(FtpError::NotFound(format!("nothing on the server matches '{word}'")));
        }
        Ok(found)
    }

    async fn put_under_own_name(
        &mut self,
        local: &Path,
        options: &FtpOptions,
    ) -> Result<(), FtpError> {
        let path = join(&self.directory, last_component(local));
        self.put(local, path, options).await
    }

    async fn put(
        &mut self,
        local: &Path,
        path: Vec<u8>,
        options: &FtpOptions,
    ) -> Result<(), FtpError> {
        let mut record = Record::begin(&self.client, false, &path, options.representation);
        let display = self.display_progress();
        let size = std::fs::metadata(local).map_or(0, |about| about.len());
        self.client.connector().progress().expect(size);
        let upload = transfer::ftp::Upload { from: local.to_owned(), path };
        let result = transfer::ftp::put(&mut self.client, &upload, options, &mut record).await;
        display.end().await;
        self.client.connector().keep(&mut record, result.as_ref().copied());
        print_outcome("uploaded", &upload.path, result?, &record);
        Ok(())
    }

    async fn put_all(&mut self, words: &[&str], options: &FtpOptions) -> Result<(), FtpError> {
        let mut asks_about_rest = true;
        let mut failures = Failures::default();
        for word in words {
            for local in expand_local(word)? {
                if local.is_dir() {
                    let name = local.display();
                    print_diagnostic(
                        Severity::Warning,
                        &format!("skipped directory {name}: use plumb put -r"),
                    );
                    continue;
                }
                match self.ask("put", local.as_os_str().as_bytes(), &mut asks_about_rest).await? {
                    Answer::Yes => {}
                    Answer::No => continue,
                    Answer::Quit => return failures.result(),
                }
                failures.add(self.put_under_own_name(&local, options).await)?;
            }
        }
        failures.result()
    }
}

fn last_component(path: &Path) -> &[u8] {
    path.file_name().unwrap_or(path.as_os_str()).as_bytes()
}

/// Files of several that failed.
#[derive(Default)]
struct Failures {
    total: u64,
    failed: u64,
    class: Option<FailureClass>,
}

impl Failures {
    /// Prints the error of one file. An error that ends all transfers is returned.
    fn add(&mut self, result: Result<(), FtpError>) -> Result<(), FtpError> {
        self.total += 1;
        let Err(error) = result else { return Ok(()) };
        if error.ends_all() || matches!(error, FtpError::NoConnection(_)) {
            return Err(error);
        }
        print_diagnostic(Severity::Error, &error.sentence());
        self.failed += 1;
        self.class.get_or_insert(error.failure());
        Ok(())
    }

    fn result(self) -> Result<(), FtpError> {
        let Some(class) = self.class else { return Ok(()) };
        let sentence = format!("{} of {} files failed", self.failed, self.total);
        Err(FtpError::Several { sentence, class })
    }
}

/// Returns the local files that a name or a pattern denotes. Only the last component may be a
/// pattern.
pub(super) fn expand_local(word: &str) -> Result<Vec<PathBuf>, FtpError> {
    let path = Path::new(word);
    let Some(pattern) = Pattern::parse(last_component(path)) else {
        return Ok(vec![path.to_owned()]);
    };
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    let entries = std::fs::read_dir(directory.unwrap_or(Path::new(".")));
    let entries = entries
        .map_err(|error| FtpError::InvalidRequest(format!("cannot list {word}: {error}")))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let matches = names.filter(|name| pattern.matches(name.as_bytes()));
    let mut found: Vec<_> = matches
        .map(|name| {
            directory.map_or_else(|| PathBuf::from(&name), |directory| directory.join(&name))
        })
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(FtpError::InvalidRequest(format!("no local file matches '{word}'")));
    }
    Ok(found)
}

fn print_outcome(done: &str, path: &[u8], outcome: FileOutcome, record: &Record) {
    let escaped = escaped(path);
    match outcome {
        FileOutcome::Transferred => {
            print_message(&format!("{done} '{escaped}': {}", summary(&record.transfer)));
        }
        FileOutcome::AlreadyComplete => print_message(&format!("'{escaped}' is already complete")),
        FileOutcome::Kept => print_message(&format!("'{escaped}' exists and was kept")),
    }
}
