//! Queries about the remote host: listings, the facts of one name, patterns and directory trees.
//!
//! MLSD and MLST are used if the server advertises them, and LIST in any of its dialects otherwise.
//! A name in a listing is one path component. Names that would lead elsewhere are left out.
//!
//! A tree is listed with the names that Unix hides. If names that are missing in a listing are
//! deleted, the listing is audited ([`Audit`]): the lines that could not be parsed are counted.

use super::dialogue::Dialogue;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use protocols::application::ftp::listing::{Entry, Kind, Pattern, Unread};
use protocols::application::ftp::user::{ListKind, Task};
use protocols::application::ftp::{LocalName, Name, Reply, Timestamp};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Maximum number of entries and maximum depth of a tree, since links may form cycles.
const ENTRIES_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 64;

/// An entry on the remote host.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Path as it is sent to the server.
    pub(super) path: Vec<u8>,
    /// Path relative to the directory that was walked.
    pub(super) below: Vec<u8>,
    pub(super) entry: Entry,
}

/// Audit of the listings on which deletions depend.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// Directory whose listing must succeed: a refusal does not count as an empty directory.
    pub(super) root: Vec<u8>,
    /// Number of unparsed lines, names without a kind, and directories that were not entered.
    pub(super) unread: u64,
}

/// Answer of the server to a query about one path.
enum Facts {
    Known(Box<Entry>),
    /// The path does not exist.
    Nothing,
    /// The server does not report facts.
    Unknown,
}

/// Converts bytes to a name that a command can carry.
pub(super) fn name_of(bytes: &[u8]) -> Result<Name, Trouble> {
    Name::new(bytes).map_err(|_| {
        let shown = shown(bytes);
        Trouble::Wrong(match bytes {
            b"" => "no file name is given".to_owned(),
            _ => format!("'{shown}': FTP cannot transfer a file name that contains a line break"),
        })
    })
}

/// Returns `folder/name`.
pub(super) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        b"" => name.to_vec(),
        _ if folder.ends_with(b"/") => [folder, name].concat(),
        _ => [folder, b"/", name].concat(),
    }
}

/// Returns the path of `name` in `folder`. An absolute name is returned unchanged.
pub(super) fn path_in(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") { name.to_vec() } else { join(folder, name) }
}

/// Splits a path before its last component. The slash between is dropped, except that of the root.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        None => (b"", path),
        Some(at) => {
            let (folder, name) = path.split_at_checked(at).unwrap_or_default();
            let folder = if folder.is_empty() { b"/" } else { folder };
            (folder, name.get(1..).unwrap_or_default())
        }
    }
}

/// Returns whether a path is a pattern.
pub(super) fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Returns the wall-clock time in seconds.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: 0 }
}

impl Dialogue {
    /// Returns the entries of a directory, without itself and its parent.
    pub(super) async fn list(&mut self, folder: &[u8]) -> Result<Vec<Entry>, Trouble> {
        self.list_at_most(folder, ENTRIES_MAX, self.audit.is_some()).await
    }

    /// Like [`Self::list`], with the names that Unix hides if `wants_hidden`.
    async fn list_at_most(
        &mut self,
        folder: &[u8],
        most: usize,
        wants_hidden: bool,
    ) -> Result<Vec<Entry>, Trouble> {
        self.says_empty = false;
        let wanted = format!("cannot list '{}'", shown(folder));
        let name = if folder.is_empty() { None } else { Some(name_of(folder)?) };
        self.ready().await?;
        if self.has("MLST") || self.has("MLSD") {
            let fetched = self.fetch_listing(&wanted, ListKind::Facts, name.clone(), most);
            match fetched.await {
                // The reply is not a listing of facts: LIST follows.
                Ok((_, listing)) if !listing.has_facts() => {}
                Ok((done, listing)) => {
                    self.note_left_out(folder, &done.reply);
                    let (entries, unread) = listing.into_entries();
                    self.note_unread(unread);
                    return Ok(entries);
                }
                Err(trouble) if self.is_empty(folder, &trouble) => return Ok(Vec::new()),
                Err(trouble) if trouble.is_refusal() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        match self.fetch_listing(&wanted, ListKind::Long, name.clone(), most).await {
            Err(trouble) if self.is_empty(folder, &trouble) => Ok(Vec::new()),
            Ok((done, listing)) => {
                self.note_left_out(folder, &done.reply);
                let shown = listing.into_entries();
                self.has_rough_times = true;
                let (entries, unread) = match wants_hidden {
                    true => self.with_hidden(&wanted, name, shown, most).await?,
                    false => shown,
                };
                self.note_unread(unread);
                Ok(entries)
            }
            Err(trouble) if trouble.is_unknown_command() => {
                let fetched = self.fetch_listing(&wanted, ListKind::Names, name, most);
                let (done, listing) = fetched.await?;
                self.note_left_out(folder, &done.reply);
                let (entries, unread) = listing.into_entries();
                self.note_unread(unread);
                // NLST does not report the kind of a name.
                self.note_uncertain(u64::try_from(entries.len()).unwrap_or(u64::MAX));
                Ok(entries)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns whether a refusal reliably means that a directory is empty.
    fn is_empty(&mut self, folder: &[u8], trouble: &Trouble) -> bool {
        let must_come = self.audit.as_ref().is_some_and(|audit| audit.root == folder);
        self.says_empty = trouble.is_empty_folder() && !must_come;
        self.says_empty
    }

    /// Requests a listing again, with the names that Unix hides. A server that takes `-a` for a
    /// name lists another directory, or none. A listing that lacks an entry of `shown` is not used.
    async fn with_hidden(
        &mut self,
        wanted: &str,
        name: Option<Name>,
        shown: (Vec<Entry>, Unread),
        most: usize,
    ) -> Result<(Vec<Entry>, Unread), Trouble> {
        match self.fetch_listing(wanted, ListKind::LongWithHidden, name, most).await {
            Ok((_, listing)) => {
                let all = listing.into_entries();
                let names: BTreeSet<_> = all.0.iter().map(|entry| &entry.name).collect();
                let holds_all = shown.0.iter().all(|entry| names.contains(&entry.name));
                Ok(if holds_all { all } else { shown })
            }
            Err(trouble) if trouble.is_refusal() => Ok(shown),
            Err(trouble) => Err(trouble),
        }
    }

    fn note_unread(&mut self, unread: Unread) {
        self.note_uncertain(unread.lines);
        self.unread.absorb(unread);
    }

    /// Counts entries from which a deletion must not conclude anything.
    fn note_uncertain(&mut self, count: u64) {
        if let Some(audit) = &mut self.audit {
            audit.unread = audit.unread.saturating_add(count);
        }
    }

    /// Reports the listing lines that could not be parsed, if there are any.
    ///
    /// # Errors
    ///
    /// Returns an error if there are any: the result is incomplete.
    pub(super) fn report_unread(&self) -> Result<(), Trouble> {
        match unread_text(&self.unread) {
            Some(sentence) => Err(Trouble::LeftOut(sentence)),
            None => Ok(()),
        }
    }

    /// Prints how many names of a directory the server left out, if it reports that.
    fn note_left_out(&mut self, folder: &[u8], reply: &Reply) {
        // pure-ftpd: `226 Output truncated to 10000 matches`.
        if reply.has_any(&[b"truncated"]) {
            self.left_out = self.left_out.saturating_add(1);
            self.note_uncertain(1);
            say(&format!("the listing of '{}' is incomplete: {reply}", shown(folder)));
        }
        let Some(count) = left_out(reply) else { return };
        self.left_out = self.left_out.saturating_add(count);
        let names = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
        say(&format!(
            "skipped {names} of '{}' on the server: FTP cannot transfer names with line breaks",
            shown(folder)
        ));
    }

    /// Keeps the entries whose names are valid local file names, and prints how many are not. The
    /// server chooses the names in a listing.
    pub(super) fn for_here(&mut self, mut found: Vec<Found>) -> Vec<Found> {
        let is_safe = |found: &Found| {
            // The root has no name of its own.
            let mut parts = found.below.split(|&byte| byte == b'/');
            found.below.is_empty() || parts.all(|part| LocalName::new(part).is_ok())
        };
        let unsafe_one = found.iter().find(|found| !is_safe(found));
        let Some(one) = unsafe_one.map(|found| shown(&found.below)) else { return found };
        if self.caller.shared.is_verbose.load(Ordering::Relaxed) {
            for name in found.iter().filter(|found| !is_safe(found)) {
                say(&format!("'{}' on the server is not a valid local name", shown(&name.below)));
            }
        }
        let before = found.len();
        found.retain(is_safe);
        let count = before - found.len();
        self.left_out = self.left_out.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        say(&match count {
            1 => format!("skipped '{one}': it is not a valid local name"),
            _ => format!("skipped {count} names that are not valid local names, such as '{one}'"),
        });
        found
    }

    /// Changes to the directory of a path, one component at a time, for servers that accept no
    /// paths. Returns whether the directory exists.
    pub(super) async fn enter_folder_of(&mut self, path: &[u8]) -> Result<bool, Trouble> {
        let root: Option<&[u8]> = path.starts_with(b"/").then_some(b"/");
        let parts = split(path).0.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        for part in root.into_iter().chain(parts) {
            let wanted = format!("cannot change to '{}'", shown(part));
            match self.run(&wanted, Task::ChangeDirectory(name_of(part)?)).await {
                Ok(_) => {}
                Err(trouble) if trouble.is_refusal() => return Ok(false),
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(true)
    }

    /// Requests the facts of a path (MLST).
    async fn facts(&mut self, path: &[u8]) -> Result<Facts, Trouble> {
        let wanted = format!("cannot read the facts of '{}'", shown(path));
        match self.run(&wanted, Task::Facts(name_of(path)?)).await {
            Ok(done) => {
                let entry = done.reply.entry().map(Box::new);
                Ok(entry.map_or(Facts::Unknown, Facts::Known))
            }
            Err(trouble) if trouble.is_unknown_command() => Ok(Facts::Unknown),
            Err(trouble) if trouble.is_refusal() => Ok(Facts::Nothing),
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns the entry of a path; `None` if it does not exist.
    pub(super) async fn look_at(&mut self, path: &[u8]) -> Result<Option<Entry>, Trouble> {
        self.ready().await?;
        let (folder, last) = split(path);
        if last.is_empty() {
            return Ok(Some(Entry { kind: Kind::Directory, ..Entry::default() }));
        }
        if self.has("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok(Some(Entry { name: last.to_vec(), ..*entry })),
                Facts::Nothing => return Ok(None),
                Facts::Unknown => {}
            }
        }
        // Unparsed lines are not reported: only one entry of this listing is requested.
        let unread = std::mem::take(&mut self.unread);
        let listed = self.list(folder).await;
        self.unread = unread;
        match listed {
            Ok(entries) => Ok(entries.into_iter().find(|entry| entry.name == last)),
            Err(trouble) if trouble.is_refusal() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns whether a directory exists, for servers that list a missing directory as an empty
    /// one. The session ends, since its working directory has changed.
    pub(super) async fn is_directory(&mut self, path: &[u8]) -> Result<bool, Trouble> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let wanted = format!("cannot change to '{}'", shown(path));
        let changed = self.run(&wanted, Task::ChangeDirectory(name_of(path)?)).await;
        self.hang_up().await;
        match changed {
            Ok(_) => Ok(true),
            Err(trouble) if trouble.is_refusal() => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns the size and the time of a file, as far as the server reports them.
    pub(super) async fn size_and_time(
        &mut self,
        path: &[u8],
    ) -> Result<(Option<u64>, Option<Timestamp>), Trouble> {
        let wanted = format!("cannot read the size of '{}'", shown(path));
        self.ready().await?;
        if self.has("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok((entry.size, entry.modified)),
                Facts::Nothing => return Ok((None, None)),
                Facts::Unknown => {}
            }
        }
        let mut size = None;
        if self.may_have("SIZE") {
            match self.run(&wanted, Task::Size(name_of(path)?)).await {
                Ok(done) => size = done.reply.number(),
                Err(trouble) if trouble.is_refusal() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok((size, self.told_time(path).await?))
    }

    /// Returns the size of a file, if MLST reports it, and its time, if requested. SIZE is that of
    /// TYPE I, and some servers refuse it.
    pub(super) async fn facts_of_text(
        &mut self,
        path: &[u8],
        wants_time: bool,
    ) -> Result<(Option<u64>, Option<Timestamp>), Trouble> {
        self.ready().await?;
        if self.has("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok((entry.size, entry.modified)),
                Facts::Nothing => return Ok((None, None)),
                Facts::Unknown => {}
            }
        }
        let time = if wants_time { self.told_time(path).await? } else { None };
        Ok((None, time))
    }

    /// Returns the time of a file by MDTM, if the server supports it.
    pub(super) async fn told_time(&mut self, path: &[u8]) -> Result<Option<Timestamp>, Trouble> {
        if !self.may_have("MDTM") {
            return Ok(None);
        }
        let wanted = format!("cannot read the time of '{}'", shown(path));
        match self.run(&wanted, Task::Modified(name_of(path)?)).await {
            Ok(done) => Ok(done.reply.timestamp()),
            Err(trouble) if trouble.is_refusal() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns all entries that match a pattern.
    pub(super) async fn expand(&mut self, pattern: &[u8]) -> Result<Vec<Found>, Trouble> {
        self.expand_below(b"", pattern).await
    }

    /// Returns all entries that match a pattern in a directory, whose own name is taken literally.
    /// A part of the pattern that is the name of an entry matches only that entry.
    pub(super) async fn expand_below(
        &mut self,
        folder: &[u8],
        pattern: &[u8],
    ) -> Result<Vec<Found>, Trouble> {
        let is_absolute = pattern.starts_with(b"/");
        let root = if is_absolute { b"/".to_vec() } else { folder.to_vec() };
        let parts: Vec<_> =
            pattern.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
        let mut places = vec![Found { path: root, below: Vec::new(), entry: Entry::default() }];
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let mut found = Vec::new();
            for place in &places {
                if !is_pattern(part) && !is_last {
                    let path = join(&place.path, part);
                    found.push(Found { path, below: Vec::new(), entry: Entry::default() });
                    continue;
                }
                let entries = self.list(&place.path).await?;
                let matcher = Pattern::parse(part);
                let matcher = matcher.filter(|_| !entries.iter().any(|entry| entry.name == *part));
                let fits = |entry: &Entry| {
                    let is_way = is_last || entry.kind != Kind::File;
                    let is_named = match &matcher {
                        Some(matcher) => matcher.matches(&entry.name),
                        None => entry.name == *part,
                    };
                    is_named && is_way
                };
                found.extend(entries.into_iter().filter(fits).map(|entry| Found {
                    path: join(&place.path, &entry.name),
                    below: entry.name.clone(),
                    entry,
                }));
            }
            places = found;
        }
        places.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(places)
    }

    /// Returns the entries of a directory, including the hidden ones. Many servers list a path that
    /// is no directory, does not exist or may not be read as an empty directory, and a file as a
    /// directory with that file. In these cases it must be possible to change to the path.
    async fn list_surely(
        &mut self,
        path: &[u8],
        most: usize,
        is_readable: bool,
    ) -> Result<Vec<Entry>, Trouble> {
        let entries = self.list_at_most(path, most, true).await?;
        let last = split(path.strip_suffix(b"/").unwrap_or(path)).1;
        let is_doubtful = match entries.as_slice() {
            [] => true,
            [one] => one.name == last || one.name == path,
            _ => false,
        };
        if is_doubtful && !path.is_empty() {
            self.check_directory(path).await?;
        }
        if entries.is_empty() && !is_readable {
            self.note_uncertain(1);
            self.left_out = self.left_out.saturating_add(1);
            say(&format!("skipped '{}' on the server: permission denied", shown(path)));
        }
        Ok(entries)
    }

    /// Returns all entries below a directory, each directory before its content. `wanted` gets the
    /// relative path of an entry and whether it is a directory. If it returns false, the entry is
    /// left out with its content.
    pub(super) async fn walk(
        &mut self,
        folder: &[u8],
        mut wanted: impl FnMut(&[u8], bool) -> bool,
    ) -> Result<Vec<Found>, Trouble> {
        let mut found = Vec::new();
        let mut open = vec![(folder.to_vec(), Vec::new(), 0, true)];
        while let Some((path, below, depth, is_readable)) = open.pop() {
            let room = ENTRIES_MAX.saturating_sub(found.len());
            let mut entries = match self.list_surely(&path, room, is_readable).await {
                Err(trouble) if depth > 0 && trouble.is_refusal() => {
                    say(&format!("skipped '{}': {}", shown(&path), trouble.sentence()));
                    self.left_out = self.left_out.saturating_add(1);
                    self.note_uncertain(1);
                    continue;
                }
                listed => listed?,
            };
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            for entry in entries {
                let here = Found {
                    path: join(&path, &entry.name),
                    below: join(&below, &entry.name),
                    entry,
                };
                let is_folder = here.entry.kind == Kind::Directory;
                if !wanted(&here.below, is_folder) {
                    continue;
                }
                if is_folder && depth < DEPTH_MAX {
                    let may_be_read = may_be_read(&here.entry);
                    open.push((here.path.clone(), here.below.clone(), depth + 1, may_be_read));
                } else if is_folder {
                    self.note_uncertain(1);
                    self.left_out = self.left_out.saturating_add(1);
                    say(&format!(
                        "skipped '{}': it is more than {DEPTH_MAX} directories deep",
                        shown(&here.path)
                    ));
                }
                found.push(here);
            }
        }
        Ok(found)
    }
}

/// Returns whether a directory may be listed, by the fact `perm` (RFC 3659 §7.5.5) or by the Unix
/// mode bits.
fn may_be_read(entry: &Entry) -> bool {
    let may_list = entry.permissions.is_none_or(|permissions| permissions.allows(b'l'));
    may_list && entry.mode.is_none_or(|mode| mode & 0o444 != 0)
}

/// Returns how many names `plumb serve` reports to have left out of a listing.
fn left_out(reply: &Reply) -> Option<u64> {
    let text = String::from_utf8_lossy(reply.text()).into_owned();
    let before = text.split(" left out").next().filter(|before| before.len() < text.len())?;
    let counted = before.strip_suffix(" names").or(before.strip_suffix(" name"))?;
    counted.rsplit(' ').next()?.parse().ok().filter(|count| *count > 0)
}

/// Returns the message about listing lines that could not be parsed, if there are any.
pub(super) fn unread_text(unread: &Unread) -> Option<String> {
    let example = shown(unread.first.as_deref()?);
    match unread.lines {
        0 => None,
        1 => Some(format!("cannot parse 1 line of the listing: '{example}'")),
        count => Some(format!(
            "cannot parse {} lines of the listing, the first: '{example}'",
            records::figures::count(count)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_its_last_component() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"/c"), (&b"/"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!((join(b"", b"c"), join(b"/", b"c")), (b"c".to_vec(), b"/c".to_vec()));
    }
}
