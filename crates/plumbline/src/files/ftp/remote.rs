//! What is on the other host: listings, facts of one name, patterns and whole trees.
//!
//! MLSD and MLST are asked where the server says that it has them, and LIST in every dialect of it
//! otherwise. A name from a listing is one component; what would lead elsewhere is left out.
//!
//! Whoever deletes for want of a name in a listing has it audited ([`Audit`]): it is asked for with
//! the hidden names, and what could not be read of it is counted.

use super::dialogue::Dialogue;
use super::trouble::Trouble;
use crate::files::progress::say;
use crate::files::shown::shown;
use protocols::application::ftp::listing::{Entry, Kind, ListReader, Pattern, parse_facts};
use protocols::application::ftp::user::{ListKind, Task};
use protocols::application::ftp::{LocalName, Name, Reply, Timestamp};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// The most entries of a tree, and how deep it may be: links may lead in circles.
const ENTRIES_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 64;

/// Something on the other host.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Where it is, as the server is asked for it.
    pub(super) path: Vec<u8>,
    /// Where it is below what was walked.
    pub(super) below: Vec<u8>,
    pub(super) entry: Entry,
}

/// What is noted of listings by which something may be deleted.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// The folder whose listing must come as one: that there are no files is not taken from a
    /// refusal.
    pub(super) root: Vec<u8>,
    /// Lines that say nothing, names without a kind, and folders that were not looked into.
    pub(super) unread: u64,
}

/// What the server says of a path.
enum Facts {
    Known(Box<Entry>),
    /// There is no such thing.
    Nothing,
    /// It does not say.
    Unknown,
}

/// Makes a name of bytes that a command is to carry.
pub(super) fn name_of(bytes: &[u8]) -> Result<Name, Trouble> {
    Name::new(bytes).map_err(|_| {
        let shown = shown(bytes);
        Trouble::Wrong(format!("'{shown}' is no name that FTP can ask for"))
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

/// Returns where a name is that is said in a folder; an absolute one says it itself.
pub(super) fn path_in(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") { name.to_vec() } else { join(folder, name) }
}

/// Splits a path before its last component, without the slash between; that of the root stays.
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

/// Returns the time by the calendar.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: 0 }
}

impl Dialogue {
    /// Returns what is in a directory, without itself and the one above.
    pub(super) async fn list(&mut self, folder: &[u8]) -> Result<Vec<Entry>, Trouble> {
        let wanted = format!("the listing of '{}'", shown(folder));
        let name = if folder.is_empty() { None } else { Some(name_of(folder)?) };
        self.ready().await?;
        if self.has("MLST") || self.has("MLSD") {
            match self.fetch(&wanted, Task::List(ListKind::Facts, name.clone())).await {
                // What is no listing of facts is asked for in the other form.
                Ok((_, listing)) if !has_facts(&listing) => {}
                Ok((done, listing)) => {
                    self.note_left_out(folder, &done.reply);
                    let mut unread = 0;
                    let read = |line: &[u8]| {
                        let entry = parse_facts(line);
                        unread += u64::from(entry.is_none());
                        entry
                    };
                    let entries = entries(&listing, read);
                    self.note_unread(unread);
                    return Ok(entries);
                }
                Err(trouble) if self.is_empty(folder, &trouble) => return Ok(Vec::new()),
                Err(trouble) if trouble.is_refusal() => {}
                Err(trouble) => return Err(trouble),
            }
        }
        match self.fetch(&wanted, Task::List(ListKind::Long, name.clone())).await {
            Err(trouble) if self.is_empty(folder, &trouble) => Ok(Vec::new()),
            Ok((_, listing)) => {
                let (shown, unread) = read_long(&listing);
                let (entries, unread) = match self.audit {
                    Some(_) => self.with_hidden(&wanted, name, shown, unread).await?,
                    None => (shown, unread),
                };
                self.note_unread(unread);
                Ok(entries)
            }
            Err(trouble) if trouble.is_unknown_command() => {
                let (done, listing) =
                    self.fetch(&wanted, Task::List(ListKind::Names, name)).await?;
                self.note_left_out(folder, &done.reply);
                let named = |line: &[u8]| {
                    let last = split(line).1.to_vec();
                    Some(Entry { name: last, ..Entry::default() })
                };
                let entries = entries(&listing, named);
                self.note_unread(u64::try_from(entries.len()).unwrap_or(u64::MAX));
                Ok(entries)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns whether a refusal says of a folder that it is empty, and may be believed.
    fn is_empty(&self, folder: &[u8], trouble: &Trouble) -> bool {
        let must_come = self.audit.as_ref().is_some_and(|audit| audit.root == folder);
        trouble.is_empty_folder() && !must_come
    }

    /// Asks for a listing again, with the names that Unix hides. Who takes the `-a` for a name
    /// tells of another place, or of none: what does not hold all that was `shown` is not believed.
    async fn with_hidden(
        &mut self,
        wanted: &str,
        name: Option<Name>,
        shown: Vec<Entry>,
        unread: u64,
    ) -> Result<(Vec<Entry>, u64), Trouble> {
        match self.fetch(wanted, Task::List(ListKind::LongWithHidden, name)).await {
            Ok((_, listing)) => {
                let (all, unread_of_all) = read_long(&listing);
                let names: BTreeSet<_> = all.iter().map(|entry| &entry.name).collect();
                let holds_all = shown.iter().all(|entry| names.contains(&entry.name));
                Ok(if holds_all { (all, unread_of_all) } else { (shown, unread) })
            }
            Err(trouble) if trouble.is_refusal() => Ok((shown, unread)),
            Err(trouble) => Err(trouble),
        }
    }

    fn note_unread(&mut self, count: u64) {
        if let Some(audit) = &mut self.audit {
            audit.unread = audit.unread.saturating_add(count);
        }
    }

    /// Says how many names of a folder the server could not tell, if it says so.
    fn note_left_out(&mut self, folder: &[u8], reply: &Reply) {
        let Some(count) = left_out(reply) else { return };
        self.left_out = self.left_out.saturating_add(count);
        let names = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
        say(&format!(
            "{names} of '{}' there hold line ends: FTP cannot tell them, and they are left out",
            shown(folder)
        ));
    }

    /// Keeps what may have its name here too, and says how much that is not: a name of a listing is
    /// chosen by others.
    pub(super) fn for_here(&mut self, mut found: Vec<Found>) -> Vec<Found> {
        let is_safe = |found: &Found| {
            found.below.split(|&byte| byte == b'/').all(|part| LocalName::new(part).is_ok())
        };
        let unsafe_one = found.iter().find(|found| !is_safe(found));
        let Some(one) = unsafe_one.map(|found| shown(&found.below)) else { return found };
        let before = found.len();
        found.retain(is_safe);
        let count = before - found.len();
        self.left_out = self.left_out.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        say(&match count {
            1 => format!("'{one}' there is no name for a file here: it is left out"),
            _ => format!(
                "{count} names there are none for files here ('{one}' is one): they are left out"
            ),
        });
        found
    }

    /// Goes to the folder of a path, one component after the other, for servers that know no paths.
    /// Returns whether it is there.
    pub(super) async fn enter_folder_of(&mut self, path: &[u8]) -> Result<bool, Trouble> {
        let root: Option<&[u8]> = path.starts_with(b"/").then_some(b"/");
        let parts = split(path).0.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        for part in root.into_iter().chain(parts) {
            let wanted = format!("to go to '{}'", shown(part));
            match self.run(&wanted, Task::ChangeDirectory(name_of(part)?)).await {
                Ok(_) => {}
                Err(trouble) if trouble.is_refusal() => return Ok(false),
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(true)
    }

    /// Asks for the facts of a path.
    async fn facts(&mut self, path: &[u8]) -> Result<Facts, Trouble> {
        let wanted = format!("the facts of '{}'", shown(path));
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

    /// Returns what is known of a name; `None` if there is no such thing.
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
        match self.list(folder).await {
            Ok(entries) => Ok(entries.into_iter().find(|entry| entry.name == last)),
            Err(trouble) if trouble.is_refusal() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns the size and the time of a file, as far as the server tells.
    pub(super) async fn size_and_time(
        &mut self,
        path: &[u8],
    ) -> Result<(Option<u64>, Option<Timestamp>), Trouble> {
        let wanted = format!("the size of '{}'", shown(path));
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

    /// Returns the time of a file alone: its size is that of TYPE I, which some ask for in vain.
    pub(super) async fn time(&mut self, path: &[u8]) -> Result<Option<Timestamp>, Trouble> {
        self.ready().await?;
        if self.has("MLST") {
            match self.facts(path).await? {
                Facts::Known(entry) => return Ok(entry.modified),
                Facts::Nothing => return Ok(None),
                Facts::Unknown => {}
            }
        }
        self.told_time(path).await
    }

    async fn told_time(&mut self, path: &[u8]) -> Result<Option<Timestamp>, Trouble> {
        if !self.may_have("MDTM") {
            return Ok(None);
        }
        let wanted = format!("the time of '{}'", shown(path));
        match self.run(&wanted, Task::Modified(name_of(path)?)).await {
            Ok(done) => Ok(done.reply.timestamp()),
            Err(trouble) if trouble.is_refusal() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Returns everything that a pattern stands for.
    pub(super) async fn expand(&mut self, pattern: &[u8]) -> Result<Vec<Found>, Trouble> {
        self.expand_below(b"", pattern).await
    }

    /// Returns everything that a pattern stands for in a folder, whose own name is no pattern. What
    /// has the very name of a part of the pattern is all that this part stands for.
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

    /// Returns everything below a directory, each directory before what it holds. What is not
    /// `wanted`, by where it is below and whether it is a directory, is left out with all that is
    /// in it.
    pub(super) async fn walk(
        &mut self,
        folder: &[u8],
        mut wanted: impl FnMut(&[u8], bool) -> bool,
    ) -> Result<Vec<Found>, Trouble> {
        let mut found = Vec::new();
        let mut open = vec![(folder.to_vec(), Vec::new(), 0)];
        while let Some((path, below, depth)) = open.pop() {
            let mut entries = self.list(&path).await?;
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
                    open.push((here.path.clone(), here.below.clone(), depth + 1));
                } else if is_folder {
                    self.note_unread(1);
                }
                found.push(here);
            }
            if found.len() > ENTRIES_MAX {
                return Err(Trouble::Wrong(format!("there are more than {ENTRIES_MAX} entries")));
            }
        }
        Ok(found)
    }
}

/// Returns how many names a server of our kind says that it has left out of a listing.
fn left_out(reply: &Reply) -> Option<u64> {
    let text = String::from_utf8_lossy(reply.text()).into_owned();
    let before = text.split(" left out").next().filter(|before| before.len() < text.len())?;
    let counted = before.strip_suffix(" names").or(before.strip_suffix(" name"))?;
    counted.rsplit(' ').next()?.parse().ok().filter(|count| *count > 0)
}

/// Returns whether a name is that of something in a folder, and leads nowhere else.
fn is_component(name: &[u8]) -> bool {
    !matches!(name, b"." | b"..") && !name.contains(&b'/') && Name::new(name).is_ok()
}

/// Returns whether a listing is one of facts, or is empty.
fn has_facts(listing: &[u8]) -> bool {
    let mut lines = listing.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    listing.trim_ascii().is_empty() || lines.any(|line| parse_facts(line).is_some())
}

/// Reads a listing of LIST, and counts the lines that say nothing.
fn read_long(listing: &[u8]) -> (Vec<Entry>, u64) {
    let mut reader = ListReader::new(now());
    let entries = entries(listing, |line| reader.line(line));
    (entries, reader.unknown_lines())
}

/// Reads a listing; names that are none of ours are left out.
fn entries(listing: &[u8], mut read: impl FnMut(&[u8]) -> Option<Entry>) -> Vec<Entry> {
    let lines = listing.split(|&byte| byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let entries = lines.filter(|line| !line.is_empty()).filter_map(&mut read);
    let is_inside = |entry: &Entry| {
        !matches!(entry.kind, Kind::Current | Kind::Parent) && is_component(&entry.name)
    };
    entries.filter(is_inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // attack row 81
    #[test]
    fn a_listed_name_that_leads_elsewhere_is_left_out() {
        let listing = b"type=file;size=1; ../../x\r\ntype=file;size=1; a/b\r\n\
            type=cdir; .\r\ntype=file;size=2; good\r\ntype=file;size=2; -odd\r\n";
        let names: Vec<_> =
            entries(listing, parse_facts).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, [&b"good"[..], b"-odd"]);
    }

    #[test]
    fn a_path_is_split_before_its_last_component() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"/c"), (&b"/"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!((join(b"", b"c"), join(b"/", b"c")), (b"c".to_vec(), b"/c".to_vec()));
    }
}
