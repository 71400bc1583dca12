//! Quota of one root, shared by its users.
//!
//! Stored files and running uploads are counted separately. Files are replaced, removed and renamed
//! while the usage is locked, and the released amount is looked up under the same lock. If several
//! uploads replace one file, each upload therefore releases the length of the file that it
//! replaces. Symbolic links do not count. A periodic recount finds changes made outside of FTP.
//!
//! The number of files and directories is limited too, because a file system has a limited number
//! of inodes. The limit is one entry per [`BYTES_PER_ENTRY`] bytes of the quota, but at least
//! [`ENTRIES_MIN`] entries.

use os::beneath::{Kind, RootDir, Status};
use protocols::ftp::server::FileError;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of quota per allowed file or directory: the block size of most file systems.
const BYTES_PER_ENTRY: u64 = 4096;
/// Minimum number of files and directories that any quota allows.
const ENTRIES_MIN: u64 = 1000;

/// Usage of a quota by files and directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    /// Bytes of files.
    pub(super) bytes: u64,
    /// Number of files and directories.
    pub(super) entries: u64,
}

impl Amount {
    /// Returns the amount used by an entry with `status`.
    pub(super) fn from_status(status: &Status) -> Self {
        match status.kind {
            Kind::File => Self { bytes: status.len, entries: 1 },
            Kind::Directory => Self { bytes: 0, entries: 1 },
            Kind::Other => Self::default(),
        }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
        }
    }

    fn min(self, other: Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), entries: self.entries.min(other.entries) }
    }
}

/// Quota and usage of one root.
#[derive(Debug)]
pub(super) struct Space {
    limit: Amount,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Files, directories and partial uploads.
    stored: Amount,
    /// Bytes reserved by running uploads.
    running_bytes: u64,
    /// Changes since the start of the last recount.
    changes: Changes,
}

#[derive(Debug, Default)]
struct Changes {
    count: u64,
    added: Amount,
    /// Whether an entry was moved, so that the recount may have missed the entry.
    has_moved: bool,
}

impl Space {
    /// Counts the existing files; reads all directories.
    pub(super) fn open(root_dir: &RootDir, limit_bytes: u64) -> Self {
        let entries = (limit_bytes / BYTES_PER_ENTRY).max(ENTRIES_MIN);
        let usage = Usage { stored: count_stored(root_dir), ..Usage::default() };
        Self { limit: Amount { bytes: limit_bytes, entries }, usage: Mutex::new(usage) }
    }

    /// Recounts the existing files. If entries are stored or removed during the recount, the result
    /// can only lower the usage. If an entry is moved, the result is discarded.
    pub(super) fn recount(&self, root_dir: &RootDir) {
        self.usage().changes = Changes::default();
        let counted_amount = count_stored(root_dir);
        let mut usage = self.usage();
        let Changes { count, added, has_moved } = usage.changes;
        if count == 0 {
            usage.stored = counted_amount;
        } else if !has_moved {
            usage.stored = usage.stored.min(counted_amount.plus(added));
        }
    }

    /// Reserves space for a running upload.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), FileError> {
        let mut usage = self.usage();
        let used_bytes = usage.stored.bytes.saturating_add(usage.running_bytes);
        if bytes > self.limit.bytes.saturating_sub(used_bytes) {
            return Err(FileError::Quota);
        }
        usage.running_bytes += bytes;
        Ok(())
    }

    /// Releases the space of a running upload.
    pub(super) fn release(&self, bytes: u64) {
        let mut usage = self.usage();
        usage.running_bytes = usage.running_bytes.saturating_sub(bytes);
    }

    /// Calls `operation` and then counts an upload of `bytes` as stored. `operation` stores the
    /// upload and returns the length of the file that the upload replaced, if any. Before
    /// `operation` stores a new file, it calls its argument, which fails with
    /// [`io::ErrorKind::QuotaExceeded`] if no more files are allowed.
    ///
    /// # Errors
    ///
    /// Returns the error of `operation`.
    pub(super) fn store(
        &self,
        bytes: u64,
        operation: impl FnOnce(&dyn Fn() -> io::Result<()>) -> io::Result<Option<u64>>,
    ) -> io::Result<()> {
        let mut usage = self.usage();
        let replaced_bytes = operation(&|| self.check_entry(&usage))?;
        usage.running_bytes = usage.running_bytes.saturating_sub(bytes);
        usage.add(Amount { bytes, entries: u64::from(replaced_bytes.is_none()) });
        usage.stored.bytes = usage.stored.bytes.saturating_sub(replaced_bytes.unwrap_or(0));
        Ok(())
    }

    /// Calls `operation`, which withdraws a stored upload of `bytes`. Then counts the upload as
    /// running again, and the file that the upload had replaced, if any, as stored again.
    ///
    /// # Errors
    ///
    /// Returns the error of `operation`.
    pub(super) fn withdraw(
        &self,
        bytes: u64,
        replaced_bytes: Option<u64>,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut usage = self.usage();
        operation()?;
        let entries = u64::from(replaced_bytes.is_none());
        usage.stored = usage.stored.minus(Amount { bytes, entries });
        usage.add(Amount { bytes: replaced_bytes.unwrap_or(0), entries: 0 });
        usage.running_bytes += bytes;
        usage.changes.has_moved = true;
        Ok(())
    }

    /// Calls `operation`, which creates a directory, and counts the directory.
    ///
    /// # Errors
    ///
    /// Returns the error of `operation`; [`io::ErrorKind::QuotaExceeded`] if no more directories
    /// are allowed.
    pub(super) fn make_directory(
        &self,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut usage = self.usage();
        self.check_entry(&usage)?;
        operation()?;
        usage.add(Amount { bytes: 0, entries: 1 });
        Ok(())
    }

    fn check_entry(&self, usage: &Usage) -> io::Result<()> {
        let is_entry_limit_reached = usage.stored.entries >= self.limit.entries;
        if is_entry_limit_reached { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
    }

    /// Calls `operation`, which removes an entry and returns the released amount, and subtracts
    /// this amount from the stored amount.
    pub(super) fn remove(&self, operation: impl FnOnce() -> io::Result<Amount>) -> io::Result<()> {
        let mut usage = self.usage();
        let removed_amount = operation()?;
        usage.stored = usage.stored.minus(removed_amount);
        usage.changes.count += 1;
        Ok(())
    }

    /// Like [`Self::remove`], for a rename; `operation` returns the amount of the replaced entry.
    pub(super) fn rename(&self, operation: impl FnOnce() -> io::Result<Amount>) -> io::Result<()> {
        self.remove(operation)?;
        self.usage().changes.has_moved = true;
        Ok(())
    }

    /// Turns a partial upload of `stored` bytes into a running upload that keeps `kept` bytes.
    pub(super) fn resume(&self, stored: u64, kept: u64) {
        let mut usage = self.usage();
        usage.stored = usage.stored.minus(Amount { bytes: stored, entries: 1 });
        usage.running_bytes += kept;
        usage.changes.count += 1;
    }

    pub(super) fn left_bytes(&self) -> u64 {
        let usage = self.usage();
        self.limit.bytes.saturating_sub(usage.stored.bytes.saturating_add(usage.running_bytes))
    }

    /// Returns whether one more file or directory is allowed.
    pub(super) fn has_entry_left(&self) -> bool {
        self.check_entry(&self.usage()).is_ok()
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    fn add(&mut self, added: Amount) {
        self.stored = self.stored.plus(added);
        self.changes.count += 1;
        self.changes.added = self.changes.added.plus(added);
    }
}

fn count_stored(root_dir: &RootDir) -> Amount {
    let kept = root_dir.list_interrupted().unwrap_or_default();
    let kept = kept.iter().map(|kept| Amount { bytes: kept.len, entries: 1 });
    let mut stored = kept.fold(Amount::default(), Amount::plus);
    let mut directories = vec![Vec::new()];
    while let Some(directory) = directories.pop() {
        // A directory that cannot be read cannot be written either.
        let Ok(entries) = root_dir.entries(&directory) else { continue };
        for entry in entries.flatten() {
            stored = stored.plus(Amount::from_status(&entry.status));
            if entry.status.kind == Kind::Directory {
                directories.push([&directory, b"/".as_slice(), &entry.name].concat());
            }
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Root(PathBuf, RootDir);

    impl Root {
        fn new() -> Self {
            let seed = os::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-space-{seed:x}"));
            std::fs::create_dir_all(&path).unwrap();
            let root_dir = RootDir::open(&path).unwrap();
            Self(path, root_dir)
        }

        fn write(&self, name: &str, len: usize) {
            std::fs::write(self.0.join(name), vec![1; len]).unwrap();
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_recount_finds_changes_made_outside_of_ftp() {
        let root = Root::new();
        root.write("file", 60);
        let space = Space::open(&root.1, 100);
        std::fs::remove_file(root.0.join("file")).unwrap();
        assert_eq!(space.left_bytes(), 40);
        space.recount(&root.1);
        assert_eq!(space.left_bytes(), 100);
        root.write("other", 30);
        space.recount(&root.1);
        assert_eq!(space.left_bytes(), 70);
    }

    #[test]
    fn a_recount_keeps_the_space_of_running_uploads() {
        let root = Root::new();
        root.write("file", 10);
        let space = Space::open(&root.1, 100);
        space.reserve(50).unwrap();
        space.recount(&root.1);
        assert_eq!((space.left_bytes(), space.reserve(41)), (40, Err(FileError::Quota)));
        space.release(50);
        assert_eq!(space.left_bytes(), 90);
    }

    #[test]
    fn files_in_deep_directories_count() {
        let root = Root::new();
        let mut name = String::new();
        for _ in 0..200 {
            name += "d/";
            root.1.create_directory(name.trim_end_matches('/').as_bytes()).unwrap();
        }
        root.write(&format!("{name}file"), 60);
        let space = Space::open(&root.1, 100);
        assert_eq!((space.left_bytes(), space.usage().stored.entries), (40, 201));
    }

    #[test]
    fn files_and_directories_are_limited_in_number() {
        let root = Root::new();
        let space = Space::open(&root.1, 100);
        let entries_left = |space: &Space| space.limit.entries - space.usage().stored.entries;
        assert_eq!(entries_left(&space), ENTRIES_MIN);
        for name in 0..ENTRIES_MIN {
            space.make_directory(|| root.1.create_directory(format!("{name}").as_bytes())).unwrap();
        }
        assert!(!space.has_entry_left());
        let quota = |result: io::Result<()>| result.unwrap_err().kind();
        assert_eq!(quota(space.make_directory(|| Ok(()))), io::ErrorKind::QuotaExceeded);
        let store_result = space.store(0, |may_add| may_add().map(|()| None));
        assert_eq!(quota(store_result), io::ErrorKind::QuotaExceeded);
        space.store(0, |_| Ok(Some(0))).unwrap();
        let removed_amount = Amount { bytes: 0, entries: 1 };
        space.remove(|| root.1.remove_directory(b"7").map(|()| removed_amount)).unwrap();
        assert_eq!(entries_left(&space), 1);
        space.recount(&root.1);
        assert_eq!(entries_left(&space), 1, "a recount finds the same number");
    }

    #[test]
    fn symbolic_links_do_not_count() {
        let root = Root::new();
        root.write("file", 10);
        std::os::unix::fs::symlink("file", root.0.join("link")).unwrap();
        assert_eq!(Space::open(&root.1, 100).left_bytes(), 90);
    }
}
