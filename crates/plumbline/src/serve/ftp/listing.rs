//! Listings of folders, written as they are read.
//!
//! The names of a folder of usual size are sorted; behind so many the rest follows as the disk has
//! it, so that no folder is held whole.

use super::rights::{Access, Held};
use super::tree::{Tree, file_error};
use os::jail::{self, Jail, Kind, Status};
use protocols::application::ftp::listing::{self, Entry, ListForm, Pattern, Permissions};
use protocols::application::ftp::server::FileError;
use protocols::application::ftp::{Right, Timestamp, VirtualPath};
use std::sync::Arc;
use std::time::SystemTime;

/// So many names are sorted.
const SORTED_MAX: usize = 4096;
/// The most lines of a reply to STAT; ours.
const LINES_MAX: usize = 2_000;

/// A listing that is being written.
#[derive(Debug)]
pub(super) struct Lister {
    jail: Arc<Jail>,
    folder: Vec<u8>,
    form: ListForm,
    pattern: Option<Pattern>,
    shows_hidden: bool,
    access: Arc<Access>,
    now: Timestamp,
    /// Those that are sorted, the last first.
    sorted: Vec<jail::Entry>,
    rest: Option<jail::Listing>,
    /// Names that could not be told as they are.
    untold: u64,
}

impl Lister {
    /// Begins the listing of a folder, or of one file.
    pub(super) fn new(
        tree: &Tree,
        path: &VirtualPath,
        form: &ListForm,
        pattern: Option<&Pattern>,
        shows_hidden: bool,
    ) -> Result<Self, FileError> {
        tree.access.need(Right::List, path)?;
        let status = tree.status(path)?;
        let (jail, folder) = (Arc::clone(&tree.jail), path.to_bytes());
        let is_folder = status.kind == Kind::Folder;
        if !is_folder && (matches!(form, ListForm::Facts(_)) || pattern.is_some()) {
            return Err(FileError::NotADirectory);
        }
        let form = if is_folder { form.clone() } else { form.clone().of_file() };
        let mut lister = Self {
            jail,
            folder,
            form,
            pattern: pattern.cloned(),
            shows_hidden: shows_hidden || !is_folder,
            access: Arc::clone(&tree.access),
            now: now(),
            sorted: Vec::new(),
            rest: None,
            untold: 0,
        };
        if !is_folder {
            let name = path.file_name().unwrap_or_default().to_vec();
            lister.folder = path.parent().to_bytes();
            lister.sorted.push(jail::Entry { name, status });
            return Ok(lister);
        }
        let entries = tree.jail.entries(&lister.folder);
        let mut entries = entries.map_err(|error| file_error(&error))?;
        let first = entries.by_ref().take(SORTED_MAX).collect::<Result<Vec<_>, _>>();
        lister.sorted = first.map_err(|error| file_error(&error))?;
        lister.sorted.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        lister.rest = Some(entries);
        Ok(lister)
    }

    /// Puts lines behind `out` until it has `enough` bytes. Returns whether more follow.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, enough: usize) -> Result<bool, FileError> {
        while out.len() < enough {
            let next = match self.sorted.pop() {
                Some(entry) => Some(Ok(entry)),
                None => self.rest.as_mut().and_then(Iterator::next),
            };
            let Some(entry) = next else { return Ok(false) };
            let entry = entry.map_err(|error| file_error(&error))?;
            if !self.is_shown(&entry.name) {
                continue;
            }
            let mut status = entry.status;
            if status.kind == Kind::Other {
                // A link that leads somewhere in here is shown as what is there.
                let name = [&self.folder, b"/".as_slice(), &entry.name].concat();
                status = self.jail.status(&name).unwrap_or(status);
            }
            let held = self.access.within(&self.folder, &entry.name);
            let entry = entry_of(entry.name, status, held);
            self.untold += u64::from(!self.form.write(&entry, self.now, out));
        }
        Ok(true)
    }

    /// Returns how many names could not be told as they are.
    pub(super) const fn untold(&self) -> u64 {
        self.untold
    }

    fn is_shown(&self, name: &[u8]) -> bool {
        let is_hidden = name.first() == Some(&b'.');
        match &self.pattern {
            Some(pattern) => pattern.matches(name) && (self.shows_hidden || !is_hidden),
            None => self.shows_hidden || !is_hidden,
        }
    }
}

/// Returns the lines of a listing, as STAT has them.
pub(super) fn lines(
    tree: &Tree,
    path: &VirtualPath,
    pattern: Option<&Pattern>,
    shows_hidden: bool,
) -> Result<Vec<Vec<u8>>, FileError> {
    let mut lister = Lister::new(tree, path, &ListForm::Unix, pattern, shows_hidden)?;
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while lines.len() < LINES_MAX {
        let has_more = lister.write(&mut line, 1)?;
        if !line.is_empty() {
            lines.push(line.trim_ascii_end().to_vec());
            line.clear();
        }
        if !has_more {
            break;
        }
    }
    Ok(lines)
}

/// Returns what is told of a file.
pub(super) fn entry_of(name: Vec<u8>, status: Status, held: Held) -> Entry {
    let kind = match status.kind {
        Kind::File => listing::Kind::File,
        Kind::Folder => listing::Kind::Directory,
        Kind::Other => listing::Kind::Other,
    };
    let (device, inode) = status.unique;
    Entry {
        name,
        kind,
        size: (status.kind == Kind::File).then_some(status.len),
        modified: Some(Timestamp { seconds: status.modified_s, nanos: 0 }),
        mode: u16::try_from(status.mode & 0o7777).ok(),
        links: Some(status.links),
        unique: Some(format!("{device:x}g{inode:x}").into_bytes()),
        permissions: Some(permissions(status.kind, held)),
        ..Entry::default()
    }
}

/// RFC 3659 §7.5.5.
fn permissions(kind: Kind, held: Held) -> Permissions {
    let of_file: [(Right, &[u8]); 5] = [
        (Right::Read, b"r"),
        (Right::Append, b"a"),
        (Right::Overwrite, b"w"),
        (Right::Rename, b"f"),
        (Right::Delete, b"d"),
    ];
    let of_folder: [(Right, &[u8]); 6] = [
        (Right::List, b"el"),
        (Right::Write, b"c"),
        (Right::MakeDirectory, b"m"),
        (Right::Rename, b"f"),
        (Right::Delete, b"d"),
        // What is in it, which may go where the folder itself stays.
        (Right::Delete, b"p"),
    ];
    let table: &[(Right, &[u8])] = if kind == Kind::Folder { &of_folder } else { &of_file };
    let is_there = |letters: &[u8], right| match letters {
        b"f" | b"d" => held.of_name.contains(right),
        _ => held.rights.contains(right),
    };
    let told = table.iter().filter(|(right, letters)| is_there(letters, *right));
    let letters: Vec<u8> = told.flat_map(|(_, letters)| letters.iter().copied()).collect();
    Permissions::parse(&letters)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: 0 }
}
