//! Directory listings, written while the directory is read.
//!
//! The first [`SORTED_MAX`] names of a directory are sorted. Further names follow in the order of
//! the file system, so that a large directory is never held in memory as a whole. A directory may
//! have any number of names, and a pattern may match none of them, so each call examines a bounded
//! number of names.

use super::file_error::file_error;
use super::listing_entry::entry_of;
use super::rights::Access;
use super::user_files::FileView;
use os::beneath::{self, Kind, RootDir};
use protocols::ftp::listing::{self, ListForm, Pattern};
use protocols::ftp::server::FileError;
use protocols::ftp::{Right, Timestamp, VirtualPath};
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of names that are sorted.
const SORTED_MAX: usize = 4096;

/// Reason why [`Lister::write`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The requested number of bytes was written; more lines may follow.
    Full,
    /// The maximum number of names was examined.
    Paused,
    /// The listing is complete.
    Done,
}

/// Listing in progress.
#[derive(Debug)]
pub(super) struct Lister {
    root_dir: Arc<RootDir>,
    directory: Vec<u8>,
    form: ListForm,
    pattern: Option<Pattern>,
    shows_hidden: bool,
    access: Arc<Access>,
    now: Timestamp,
    /// Sorted entries, in reverse order.
    sorted: Vec<beneath::Entry>,
    rest: Option<beneath::Listing>,
    /// Whether the entries to be sorted are still being read.
    is_collecting: bool,
    /// Number of names that could not be sent unchanged.
    unsendable: u64,
}

impl Lister {
    /// Starts the listing of a directory or of a single file.
    pub(super) fn new(
        view: &FileView,
        path: &VirtualPath,
        form: &ListForm,
        pattern: Option<&Pattern>,
        shows_hidden: bool,
    ) -> Result<Self, FileError> {
        view.access.require(Right::List, path)?;
        let status = view.status(path)?;
        let root_dir = Arc::clone(&view.root_dir);
        let directory = path.to_bytes();
        let is_directory = status.kind == Kind::Directory;
        if !is_directory && (matches!(form, ListForm::Facts(_)) || pattern.is_some()) {
            return Err(FileError::NotADirectory);
        }
        let form = if is_directory { form.clone() } else { form.clone().of_file() };
        let mut lister = Self {
            root_dir,
            directory,
            form,
            pattern: pattern.cloned(),
            shows_hidden: shows_hidden || !is_directory,
            access: Arc::clone(&view.access),
            now: now(),
            sorted: Vec::new(),
            rest: None,
            is_collecting: false,
            unsendable: 0,
        };
        if !is_directory {
            let name = path.file_name().unwrap_or_default().to_vec();
            lister.directory = path.parent().to_bytes();
            lister.sorted.push(beneath::Entry { name, status });
            return Ok(lister);
        }
        let entries = view.root_dir.entries(&lister.directory);
        lister.rest = Some(entries.map_err(|error| file_error(&error))?);
        lister.is_collecting = true;
        Ok(lister)
    }

    /// Appends lines to `out` until it has `min_bytes`. Examines at most `names_left` names, and
    /// subtracts the number of examined names from `names_left`.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        min_bytes: usize,
        names_left: &mut usize,
    ) -> Result<Progress, FileError> {
        while out.len() < min_bytes {
            let Some(remaining) = names_left.checked_sub(1) else { return Ok(Progress::Paused) };
            *names_left = remaining;
            if self.is_collecting {
                self.collect_next()?;
                continue;
            }
            let next = match self.sorted.pop() {
                Some(entry) => entry,
                None => match self.read_next()? {
                    Some(entry) if self.is_listed(&entry.name) => entry,
                    Some(_) => continue,
                    None => return Ok(Progress::Done),
                },
            };
            self.write_entry(next, out);
        }
        Ok(Progress::Full)
    }

    /// Reads the next name of the sorted part of the listing.
    fn collect_next(&mut self) -> Result<(), FileError> {
        let next = self.read_next()?;
        let is_last = next.is_none();
        self.sorted.extend(next.filter(|entry| self.is_listed(&entry.name)));
        if is_last || self.sorted.len() >= SORTED_MAX {
            self.sorted.sort_unstable_by(|a, b| b.name.cmp(&a.name));
            self.is_collecting = false;
        }
        Ok(())
    }

    fn read_next(&mut self) -> Result<Option<beneath::Entry>, FileError> {
        let next = self.rest.as_mut().and_then(Iterator::next).transpose();
        next.map_err(|error| file_error(&error))
    }

    fn write_entry(&mut self, entry: beneath::Entry, out: &mut Vec<u8>) {
        let mut status = entry.status;
        if status.kind == Kind::Other {
            // A link whose target lies below the root is listed with the status of its target.
            let name = [&self.directory, b"/".as_slice(), &entry.name].concat();
            status = self.root_dir.status(&name).unwrap_or(status);
        }
        // A client that mistakes a link for a directory would remove the content of the directory.
        let is_link = entry.status.kind == Kind::Other && status.kind == Kind::Directory;
        let rights = self.access.entry_rights(&self.directory, &entry.name);
        let mut entry = entry_of(entry.name, status, rights);
        if is_link {
            entry.kind = listing::Kind::Link;
        }
        self.unsendable += u64::from(!self.form.write(&entry, self.now, out));
    }

    /// Returns the number of names that could not be sent unchanged.
    pub(super) const fn unsendable(&self) -> u64 {
        self.unsendable
    }

    fn is_listed(&self, name: &[u8]) -> bool {
        let is_hidden = name.first() == Some(&b'.');
        match &self.pattern {
            Some(pattern) => pattern.matches(name) && (self.shows_hidden || !is_hidden),
            None => self.shows_hidden || !is_hidden,
        }
    }
}

fn now() -> Timestamp {
    let unix_time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(unix_time.as_secs()).unwrap_or(i64::MAX), nanos: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::ftp::server::Rights;
    use std::path::PathBuf;

    /// Creates a directory with `files` files, and a listing of the files that match `pattern`.
    fn lister(name: &str, files: usize, pattern: Option<&[u8]>) -> (Lister, PathBuf) {
        let path = std::env::temp_dir().join(format!("plumb-list-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for number in 0..files {
            std::fs::File::create(path.join(format!("name{number:05}"))).unwrap();
        }
        let view = FileView {
            root_dir: Arc::new(RootDir::open(&path).unwrap()),
            access: Arc::new(Access::everywhere(Rights::READ_ONLY)),
            requires_world_readable: false,
            space: None,
            partials: None,
            selected_partial: None,
            file_max_bytes: u64::MAX,
            spool: None,
            word_formats: Arc::default(),
        };
        let pattern = pattern.map(|pattern| Pattern::parse(pattern).unwrap());
        let root = VirtualPath::root();
        let form = ListForm::Unix;
        let lister = Lister::new(&view, &root, &form, pattern.as_ref(), false).unwrap();
        (lister, path)
    }

    // attack row 89
    #[test]
    fn each_call_examines_a_bounded_number_of_names() {
        let (mut lister, path) = lister("none", 1_000, Some(b"zzz*"));
        let mut calls = 0;
        loop {
            let mut lines = Vec::new();
            let mut names_left = 100;
            let progress = lister.write(&mut lines, 65_536, &mut names_left).unwrap();
            assert!(lines.is_empty());
            calls += 1;
            if progress == Progress::Done {
                break;
            }
            assert_eq!((progress, names_left), (Progress::Paused, 0));
        }
        assert!((11..=12).contains(&calls), "{calls}");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_listing_in_small_steps_is_sorted_and_complete() {
        let (mut lister, path) = lister("all", 700, None);
        let mut lines = Vec::new();
        while lister.write(&mut lines, usize::MAX, &mut 64).unwrap() != Progress::Done {}
        let text = String::from_utf8(lines).unwrap();
        let names: Vec<&str> = text.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert!(names.is_sorted());
        assert_eq!(names.iter().filter(|name| name.starts_with("name")).count(), 700);
        std::fs::remove_dir_all(path).unwrap();
    }
}
