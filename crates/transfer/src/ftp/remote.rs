//! Queries about the remote host: listings, the facts of one name, patterns and directory trees.
//!
//! If the server advertises MLSD and MLST, these commands are used; otherwise LIST in any of its
//! formats. A name in a listing must be one path component. Names that would lead out of the
//! directory are left out.
//!
//! Listings of a tree include the names that Unix hides. If deletions depend on a listing, the
//! listing is audited ([`Audit`](super::Audit)): the lines that could not be parsed are counted.

use super::client::FtpClient;
use super::data_task::{LocalEnd, TransferResult};
use super::error::FtpError;
use super::remote_path::{is_pattern, join, name_of, split};
use crate::escaped;
use protocols::ftp::listing::{Collector, Dialect, Entry, Kind, Pattern, UnknownLines};
use protocols::ftp::user::{Done, ListKind, Task};
use protocols::ftp::{LocalName, Name, Reply, Timestamp};
use records::severity::Severity;
use std::collections::BTreeSet;
use std::time::SystemTime;

/// Maximum number of entries of a directory tree.
const ENTRIES_MAX: usize = 1_000_000;
/// Maximum depth of a directory tree in directories, because links may form cycles.
const DEPTH_MAX: usize = 64;

/// An entry on the remote host.
#[derive(Clone, Debug)]
pub struct RemoteEntry {
    /// Path to send to the server.
    pub path: Vec<u8>,
    /// Path relative to the listed directory tree, or the name of the entry.
    pub relative_path: Vec<u8>,
    /// Facts of the entry.
    pub entry: Entry,
}

/// Answer of the server to a query for the facts of one path (MLST).
enum Facts {
    Known(Box<Entry>),
    /// The path does not exist.
    Nothing,
    /// The server does not report facts.
    Unknown,
}

impl FtpClient {
    /// Returns the entries of a directory, without `.` and `..`.
    pub async fn list(&mut self, directory: &[u8]) -> Result<Vec<Entry>, FtpError> {
        let wants_hidden = self.audit.is_some() || self.lists_hidden;
        self.list_at_most(directory, ENTRIES_MAX, wants_hidden).await
    }

    /// Like [`Self::list`], but with at most `entries_max` entries. If `wants_hidden`, also lists
    /// the names that Unix hides.
    async fn list_at_most(
        &mut self,
        directory: &[u8],
        entries_max: usize,
        wants_hidden: bool,
    ) -> Result<Vec<Entry>, FtpError> {
        self.is_reported_empty = false;
        let context = format!("cannot list '{}'", escaped(directory));
        let name = if directory.is_empty() { None } else { Some(name_of(directory)?) };
        self.ready().await?;
        if self.advertises("MLST") || self.advertises("MLSD") {
            let fetched = self.fetch_listing(&context, ListKind::Facts, name.clone(), entries_max);
            match fetched.await {
                // The reply to MLSD is not in the MLSD format: fall back to LIST.
                Ok((_, listing)) if !listing.has_facts() => {}
                Ok((done, listing)) => {
                    self.note_skipped(directory, &done.reply);
                    let (entries, unparsed) = listing.into_entries();
                    self.note_unparsed(unparsed);
                    return Ok(entries);
                }
                Err(error) if self.is_reported_as_empty(directory, &error) => return Ok(Vec::new()),
                Err(error) if error.is_refusal() => {}
                Err(error) => return Err(error),
            }
        }
        match self.fetch_listing(&context, ListKind::Long, name.clone(), entries_max).await {
            Err(error) if self.is_reported_as_empty(directory, &error) => Ok(Vec::new()),
            Ok((done, listing)) => {
                self.note_skipped(directory, &done.reply);
                let listed = listing.into_entries();
                self.has_rough_times = true;
                let (entries, unparsed) = match wants_hidden {
                    true => self.with_hidden(&context, name, listed, entries_max).await?,
                    false => listed,
                };
                self.note_unparsed(unparsed);
                Ok(entries)
            }
            Err(error) if error.is_unknown_command() => {
                let fetched = self.fetch_listing(&context, ListKind::Names, name, entries_max);
                let (done, listing) = fetched.await?;
                self.note_skipped(directory, &done.reply);
                let (entries, unparsed) = listing.into_entries();
                self.note_unparsed(unparsed);
                // NLST does not report the kind of a name.
                self.note_uncertain(u64::try_from(entries.len()).unwrap_or(u64::MAX));
                Ok(entries)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether a refusal reliably means that a directory is empty.
    fn is_reported_as_empty(&mut self, directory: &[u8], error: &FtpError) -> bool {
        let must_exist = self.audit.as_ref().is_some_and(|audit| audit.root == directory);
        self.is_reported_empty = error.is_empty_directory() && !must_exist;
        self.is_reported_empty
    }

    /// Requests a listing again, with the names that Unix hides. A server that takes `-a` for a
    /// name lists another directory or no directory. Therefore a listing that lacks an entry of
    /// `listed` is not used.
    async fn with_hidden(
        &mut self,
        context: &str,
        name: Option<Name>,
        listed: (Vec<Entry>, UnknownLines),
        entries_max: usize,
    ) -> Result<(Vec<Entry>, UnknownLines), FtpError> {
        match self.fetch_listing(context, ListKind::LongWithHidden, name, entries_max).await {
            Ok((_, listing)) => {
                let entries_with_hidden = listing.into_entries();
                let names: BTreeSet<_> =
                    entries_with_hidden.0.iter().map(|entry| &entry.name).collect();
                let holds_all = listed.0.iter().all(|entry| names.contains(&entry.name));
                Ok(if holds_all { entries_with_hidden } else { listed })
            }
            Err(error) if error.is_refusal() => Ok(listed),
            Err(error) => Err(error),
        }
    }

    fn note_unparsed(&mut self, unparsed: UnknownLines) {
        self.note_uncertain(unparsed.lines);
        self.unparsed.merge(unparsed);
    }

    /// Counts uncertain entries, on which no deletion may be based.
    fn note_uncertain(&mut self, count: u64) {
        if let Some(audit) = &mut self.audit {
            audit.uncertain = audit.uncertain.saturating_add(count);
        }
    }

    /// Checks that all listing lines could be parsed.
    ///
    /// # Errors
    ///
    /// Returns an error with the number of unparsed lines and the first of them.
    pub fn report_unparsed(&self) -> Result<(), FtpError> {
        match unparsed_text(&self.unparsed) {
            Some(sentence) => Err(FtpError::LeftOut(sentence)),
            None => Ok(()),
        }
    }

    /// Prints the number of names that the server left out of a listing, if the reply reports
    /// omitted names.
    fn note_skipped(&mut self, directory: &[u8], reply: &Reply) {
        // pure-ftpd: `226 Output truncated to 10000 matches`.
        if reply.contains_any(&[b"truncated"]) {
            self.skipped_names = self.skipped_names.saturating_add(1);
            self.note_uncertain(1);
            (self.connector.shared.message)(
                Severity::Warning,
                &format!("the listing of '{}' is incomplete: {reply}", escaped(directory)),
            );
        }
        let Some(count) = skipped_count(reply) else { return };
        self.skipped_names = self.skipped_names.saturating_add(count);
        let names = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
        (self.connector.shared.message)(
            Severity::Warning,
            &format!(
                "skipped {names} of '{}' on the server: FTP cannot transfer names with line breaks",
                escaped(directory)
            ),
        );
    }

    /// Keeps the entries whose names are valid local file names, and prints the number of other
    /// entries. The check is necessary because the server chooses the names in a listing.
    pub fn retain_valid_local_names(&mut self, mut found: Vec<RemoteEntry>) -> Vec<RemoteEntry> {
        let is_valid = |found: &RemoteEntry| {
            // The relative path of the listed directory itself is empty.
            let mut parts = found.relative_path.split(|&byte| byte == b'/');
            found.relative_path.is_empty() || parts.all(|part| LocalName::new(part).is_ok())
        };
        let first_invalid = found.iter().find(|found| !is_valid(found));
        let Some(example) = first_invalid.map(|found| escaped(&found.relative_path)) else {
            return found;
        };
        if self.connector.is_verbose() {
            for name in found.iter().filter(|found| !is_valid(found)) {
                (self.connector.shared.message)(
                    Severity::Warning,
                    &format!(
                        "'{}' on the server is not a valid local name",
                        escaped(&name.relative_path)
                    ),
                );
            }
        }
        let count_before = found.len();
        found.retain(is_valid);
        let count = count_before - found.len();
        self.skipped_names =
            self.skipped_names.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        (self.connector.shared.message)(
            Severity::Warning,
            &match count {
                1 => format!("skipped '{example}': it is not a valid local name"),
                _ => {
                    format!(
                        "skipped {count} names that are not valid local names, such as '{example}'"
                    )
                }
            },
        );
        found
    }

    /// Changes to the directory of a path, one component at a time, for servers that accept no
    /// paths with slashes. Returns whether the directory exists.
    pub(crate) async fn enter_parent_directory(&mut self, path: &[u8]) -> Result<bool, FtpError> {
        let root: Option<&[u8]> = path.starts_with(b"/").then_some(b"/");
        let parts = split(path).0.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        for part in root.into_iter().chain(parts) {
            let context = format!("cannot change to '{}'", escaped(part));
            match self.run(&context, Task::ChangeDirectory(name_of(part)?)).await {
                Ok(_) => {}
                Err(error) if error.is_refusal() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Requests the facts of a path (MLST).
    async fn facts(&mut self, path: &[u8]) -> Result<Facts, FtpError> {
        let context = format!("cannot query the attributes of '{}'", escaped(path));
        match self.run(&context, Task::Facts(name_of(path)?)).await {
            Ok(done) => {
                let entry = done.reply.entry().map(Box::new);
                Ok(entry.map_or(Facts::Unknown, Facts::Known))
            }
            Err(error) if error.is_unknown_command() => Ok(Facts::Unknown),
            Err(error) if error.is_refusal() => Ok(Facts::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Returns the entry of a path; `None` if the path does not exist.
    pub async fn find_entry(&mut self, path: &[u8]) -> Result<Option<Entry>, FtpError> {
        self.ready().await?;
        let (directory, last) = split(path);
        if last.is_empty() {
            return Ok(Some(Entry { kind: Kind::Directory, ..Entry::default() }));
        }
        if self.advertises("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok(Some(Entry { name: last.to_vec(), ..*entry })),
                Facts::Nothing => return Ok(None),
                Facts::Unknown => {}
            }
        }
        // Unparsed lines are not reported, because only one entry of this listing is needed.
        let unparsed = std::mem::take(&mut self.unparsed);
        let listed = self.list(directory).await;
        self.unparsed = unparsed;
        match listed {
            Ok(entries) => Ok(entries.into_iter().find(|entry| entry.name == last)),
            Err(error) if error.is_refusal() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a directory exists, for servers that list a missing directory as an empty
    /// directory. Changes to the directory and then ends the session, because the working directory
    /// of the session has changed.
    pub async fn is_directory(&mut self, path: &[u8]) -> Result<bool, FtpError> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let context = format!("cannot change to '{}'", escaped(path));
        let changed = self.run(&context, Task::ChangeDirectory(name_of(path)?)).await;
        self.close_session().await;
        match changed {
            Ok(_) => Ok(true),
            Err(error) if error.is_refusal() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the size and the time of a file; `None` for a fact that the server does not report.
    pub async fn size_and_time(
        &mut self,
        path: &[u8],
    ) -> Result<(Option<u64>, Option<Timestamp>), FtpError> {
        let context = format!("cannot read the size of '{}'", escaped(path));
        self.ready().await?;
        if self.advertises("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok((entry.size, entry.modified)),
                Facts::Nothing => return Ok((None, None)),
                Facts::Unknown => {}
            }
        }
        let mut size = None;
        if self.may_support("SIZE") {
            match self.run(&context, Task::Size(name_of(path)?)).await {
                Ok(done) => size = done.reply.number(),
                Err(error) if error.is_refusal() => {}
                Err(error) => return Err(error),
            }
        }
        Ok((size, self.modification_time(path).await?))
    }

    /// Returns the size of a text file, if MLST reports it, and the time of the file, if requested.
    /// SIZE is not used: it reports the size in TYPE I, and some servers refuse it.
    pub async fn text_size_and_time(
        &mut self,
        path: &[u8],
        wants_time: bool,
    ) -> Result<(Option<u64>, Option<Timestamp>), FtpError> {
        self.ready().await?;
        if self.advertises("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok((entry.size, entry.modified)),
                Facts::Nothing => return Ok((None, None)),
                Facts::Unknown => {}
            }
        }
        let time = if wants_time { self.modification_time(path).await? } else { None };
        Ok((None, time))
    }

    /// Returns the time of a file by MDTM, if the server supports MDTM.
    pub async fn modification_time(&mut self, path: &[u8]) -> Result<Option<Timestamp>, FtpError> {
        if !self.may_support("MDTM") {
            return Ok(None);
        }
        let context = format!("cannot read the time of '{}'", escaped(path));
        match self.run(&context, Task::Modified(name_of(path)?)).await {
            Ok(done) => Ok(done.reply.timestamp()),
            Err(error) if error.is_refusal() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all entries that match a pattern.
    pub async fn expand(&mut self, pattern: &[u8]) -> Result<Vec<RemoteEntry>, FtpError> {
        self.expand_below(b"", pattern).await
    }

    /// Returns all entries that match a pattern in a directory. The name of the directory itself is
    /// taken literally. A component of the pattern that is also the exact name of an entry matches
    /// only that entry.
    pub async fn expand_below(
        &mut self,
        directory: &[u8],
        pattern: &[u8],
    ) -> Result<Vec<RemoteEntry>, FtpError> {
        let is_absolute = pattern.starts_with(b"/");
        let root = if is_absolute { b"/".to_vec() } else { directory.to_vec() };
        let parts: Vec<_> =
            pattern.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
        let mut candidates =
            vec![RemoteEntry { path: root, relative_path: Vec::new(), entry: Entry::default() }];
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let mut found = Vec::new();
            for candidate in &candidates {
                if !is_pattern(part) && !is_last {
                    let path = join(&candidate.path, part);
                    found.push(RemoteEntry {
                        path,
                        relative_path: Vec::new(),
                        entry: Entry::default(),
                    });
                    continue;
                }
                let entries = self.list(&candidate.path).await?;
                let matcher = Pattern::parse(part);
                let matcher = matcher.filter(|_| !entries.iter().any(|entry| entry.name == *part));
                let is_match = |entry: &Entry| {
                    let may_lead_further = is_last || entry.kind != Kind::File;
                    let is_named = match &matcher {
                        Some(matcher) => matcher.matches(&entry.name),
                        None => entry.name == *part,
                    };
                    is_named && may_lead_further
                };
                found.extend(entries.into_iter().filter(is_match).map(|entry| RemoteEntry {
                    path: join(&candidate.path, &entry.name),
                    relative_path: entry.name.clone(),
                    entry,
                }));
            }
            candidates = found;
        }
        candidates.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(candidates)
    }

    /// Returns the entries of a directory, including the hidden ones. Many servers send an empty
    /// listing for a path that is missing, unreadable or not a directory, and list a file as a
    /// directory that contains this file. If the listing is empty or has one entry with the name of
    /// the path, the function verifies that the server can change to the path.
    async fn list_verified(
        &mut self,
        path: &[u8],
        entries_max: usize,
        is_readable: bool,
    ) -> Result<Vec<Entry>, FtpError> {
        let entries = self.list_at_most(path, entries_max, true).await?;
        let last = split(path.strip_suffix(b"/").unwrap_or(path)).1;
        let is_doubtful = match entries.as_slice() {
            [] => true,
            [entry] => entry.name == last || entry.name == path,
            _ => false,
        };
        if is_doubtful && !path.is_empty() {
            self.check_directory(path).await?;
        }
        if entries.is_empty() && !is_readable {
            self.note_uncertain(1);
            self.skipped_names = self.skipped_names.saturating_add(1);
            (self.connector.shared.message)(
                Severity::Warning,
                &format!("skipped '{}' on the server: permission denied", escaped(path)),
            );
        }
        Ok(entries)
    }

    /// Returns all entries below a directory, each directory before its content. `is_selected` gets
    /// the relative path of an entry and whether it is a directory. If `is_selected` returns false,
    /// the entry and its content are left out.
    pub async fn list_tree(
        &mut self,
        directory: &[u8],
        mut is_selected: impl FnMut(&[u8], bool) -> bool,
    ) -> Result<Vec<RemoteEntry>, FtpError> {
        let mut found = Vec::new();
        let mut pending_directories = vec![(directory.to_vec(), Vec::new(), 0, true)];
        while let Some((path, relative_path, depth, is_readable)) = pending_directories.pop() {
            let remaining_entries = ENTRIES_MAX.saturating_sub(found.len());
            let mut entries = match self.list_verified(&path, remaining_entries, is_readable).await
            {
                Err(error) if depth > 0 && error.is_refusal() => {
                    (self.connector.shared.message)(
                        Severity::Warning,
                        &format!("skipped '{}': {}", escaped(&path), error.sentence()),
                    );
                    self.skipped_names = self.skipped_names.saturating_add(1);
                    self.note_uncertain(1);
                    continue;
                }
                listed => listed?,
            };
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            for entry in entries {
                let child = RemoteEntry {
                    path: join(&path, &entry.name),
                    relative_path: join(&relative_path, &entry.name),
                    entry,
                };
                let is_directory = child.entry.kind == Kind::Directory;
                if !is_selected(&child.relative_path, is_directory) {
                    continue;
                }
                if is_directory && depth < DEPTH_MAX {
                    let may_be_read = may_be_read(&child.entry);
                    pending_directories.push((
                        child.path.clone(),
                        child.relative_path.clone(),
                        depth + 1,
                        may_be_read,
                    ));
                } else if is_directory {
                    self.note_uncertain(1);
                    self.skipped_names = self.skipped_names.saturating_add(1);
                    (self.connector.shared.message)(
                        Severity::Warning,
                        &format!(
                            "skipped '{}': it is more than {DEPTH_MAX} directories deep",
                            escaped(&child.path)
                        ),
                    );
                }
                found.push(child);
            }
        }
        Ok(found)
    }

    /// Changes to a directory, lists it without an argument, and changes back to the working
    /// directory. As an argument, the name of the directory might be expanded by the server like a
    /// pattern. If the change back fails, the session ends.
    async fn list_by_changing_directory(
        &mut self,
        context: &str,
        kind: ListKind,
        name: Name,
        local_end: LocalEnd,
    ) -> (Result<Done, FtpError>, Option<TransferResult>) {
        let previous_directory = self.working_directory(context).await;
        let session_number = self.session_number();
        if let (Err(error), _) = self.run_once(context, Task::ChangeDirectory(name), None).await {
            return (Err(error), None);
        }
        if session_number.is_none() || self.session_number() != session_number {
            // The session was replaced, and the new session is in a different working directory.
            self.close_session().await;
            let sentence = "the control connection was lost before the listing".to_owned();
            return (Err(FtpError::NoConnection(sentence)), None);
        }
        let result = self.run_once(context, Task::List(kind, None), Some(local_end)).await;
        let is_same = self.session_number() == session_number;
        if is_same {
            self.return_to(context, previous_directory).await;
        }
        result
    }

    /// Changes to a directory and back, to verify that the directory exists and is readable. Some
    /// servers list a file, or a missing or unreadable directory, as an empty directory, but refuse
    /// to change to that path.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses to change to the directory, or if the session is
    /// lost.
    pub(crate) async fn check_directory(&mut self, path: &[u8]) -> Result<(), FtpError> {
        let context = format!("cannot change to '{}'", escaped(path));
        self.ready().await?;
        let before = self.working_directory(&context).await;
        self.run(&context, Task::ChangeDirectory(name_of(path)?)).await?;
        self.return_to(&context, before).await;
        Ok(())
    }

    async fn working_directory(&mut self, context: &str) -> Option<Name> {
        let result = self.run_once(context, Task::WorkingDirectory, None).await.0;
        Name::new(result.ok()?.reply.quoted_name()?).ok()
    }

    /// Changes back to `directory`. If that fails, the session ends.
    async fn return_to(&mut self, context: &str, directory: Option<Name>) {
        let result = match directory {
            Some(before) => {
                let changed = self.run_once(context, Task::ChangeDirectory(before), None).await;
                changed.0.is_ok()
            }
            None => false,
        };
        if !result {
            self.close_session().await;
        }
    }

    /// Fetches a listing of at most `entries_max` entries, and parses the listing as it arrives.
    pub(crate) async fn fetch_listing(
        &mut self,
        context: &str,
        kind: ListKind,
        name: Option<Name>,
        entries_max: usize,
    ) -> Result<(Done, Collector), FtpError> {
        let dialect = match kind {
            ListKind::Facts => Dialect::Facts,
            ListKind::Long | ListKind::LongWithHidden => Dialect::Long,
            ListKind::Names => Dialect::Names,
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let local_end =
                LocalEnd::Listing(Box::new(Collector::new(dialect, now(), entries_max)));
            let pattern =
                name.clone().filter(|name| kind != ListKind::Facts && may_be_expanded(name));
            let (result, moved) = match pattern {
                Some(name) => self.list_by_changing_directory(context, kind, name, local_end).await,
                None => {
                    self.run_once(context, Task::List(kind, name.clone()), Some(local_end)).await
                }
            };
            let listing = moved.and_then(|moved| moved.listing);
            match result {
                Ok(done) => {
                    // If the server opened no data connection, the listing is empty.
                    let mut listing = listing.map_or_else(
                        || Collector::new(dialect, now(), entries_max),
                        |listing| *listing,
                    );
                    listing.finish().map_err(|error| FtpError::NotFound(error.to_string()))?;
                    return Ok((done, listing));
                }
                Err(error) if !self.wait_before_retry(attempt, &error).await => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }
}

/// Returns whether the fact `perm` (RFC 3659 §7.5.5) or the Unix mode bits permit listing a
/// directory.
fn may_be_read(entry: &Entry) -> bool {
    let may_list = entry.permissions.is_none_or(|permissions| permissions.allows(b'l'));
    may_list && entry.mode.is_none_or(|mode| mode & 0o444 != 0)
}

/// Returns the number of names that `plumb serve` reports as left out of a listing.
fn skipped_count(reply: &Reply) -> Option<u64> {
    let text = String::from_utf8_lossy(reply.text()).into_owned();
    // Earlier versions of the server wrote "left out".
    let (before, _) = text.split_once(" omitted").or_else(|| text.split_once(" left out"))?;
    let count_text = before.strip_suffix(" names").or(before.strip_suffix(" name"))?;
    count_text.rsplit(' ').next()?.parse().ok().filter(|count| *count > 0)
}

/// Returns the message about listing lines that could not be parsed; `None` if all lines were
/// parsed.
pub fn unparsed_text(unparsed: &UnknownLines) -> Option<String> {
    let example = escaped(unparsed.first.as_deref()?);
    let hint = "a file name with a line break is listed as two lines";
    match unparsed.lines {
        0 => None,
        1 => Some(format!("cannot parse 1 line of the listing: '{example}'; {hint}")),
        count => Some(format!(
            "cannot parse {} lines of the listing, the first: '{example}'; {hint}",
            records::format::count(count)
        )),
    }
}

/// Returns whether `name` looks like a pattern, an option or several words. A server that passes
/// the argument of LIST or NLST to a shell or to `ls` may then list another file or directory.
fn may_be_expanded(name: &Name) -> bool {
    let name = name.as_bytes();
    let is_special = |byte: &u8| byte.is_ascii_whitespace() || b"*?[]{}~\\'\"$`".contains(byte);
    name.starts_with(b"-") || name.iter().any(is_special)
}

/// Returns the wall-clock time in seconds.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: 0 }
}
