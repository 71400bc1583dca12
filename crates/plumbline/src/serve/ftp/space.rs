//! The room that the users of one root have together: a quota.
//!
//! What is on the disk and what running uploads have taken are counted apart. A file is replaced,
//! removed and renamed under the lock of the count, and what is given back is looked up there: of
//! several uploads that replace one file, each gives back what the one before it has left. Links
//! count nothing. What comes and goes outside of FTP is found by counting again now and then.

use os::jail::{Jail, Kind};
use protocols::application::ftp::server::FileError;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The deepest directory that is counted; ours.
pub(super) const DEPTH_MAX: usize = 64;

/// The room of one root.
#[derive(Debug)]
pub(super) struct Space {
    limit_bytes: u64,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    /// Files, and partial uploads that are kept.
    stored_bytes: u64,
    /// Taken by uploads that run.
    running_bytes: u64,
    /// What has happened since the last count began.
    changes: Changes,
}

#[derive(Debug, Default)]
struct Changes {
    count: u64,
    added_bytes: u64,
    /// Whether a name has moved, so that the count may have missed it.
    has_moved: bool,
}

impl Space {
    /// Counts what there is; looks at all directories.
    pub(super) fn of(jail: &Jail, limit_bytes: u64) -> Self {
        let stored_bytes = stored_bytes(jail);
        Self { limit_bytes, usage: Mutex::new(Usage { stored_bytes, ..Usage::default() }) }
    }

    /// Counts again what there is. Where files come in meanwhile, the count may only lower the usage;
    /// where a name moves, it says nothing.
    pub(super) fn recount(&self, jail: &Jail) {
        self.usage().changes = Changes::default();
        let counted = stored_bytes(jail);
        let mut usage = self.usage();
        let Changes { count, added_bytes, has_moved } = usage.changes;
        if count == 0 {
            usage.stored_bytes = counted;
        } else if !has_moved {
            let most = counted.saturating_add(added_bytes);
            usage.stored_bytes = usage.stored_bytes.min(most);
        }
    }

    /// Takes room for a running upload.
    pub(super) fn take(&self, bytes: u64) -> Result<(), FileError> {
        let mut usage = self.usage();
        let used = usage.stored_bytes.saturating_add(usage.running_bytes);
        if bytes > self.limit_bytes.saturating_sub(used) {
            return Err(FileError::Quota);
        }
        usage.running_bytes += bytes;
        Ok(())
    }

    /// Gives back what an upload has taken.
    pub(super) fn give_back(&self, bytes: u64) {
        let mut usage = self.usage();
        usage.running_bytes = usage.running_bytes.saturating_sub(bytes);
    }

    /// Stores an upload of so many bytes by `work`, which returns how many bytes it replaces.
    pub(super) fn store(
        &self,
        bytes: u64,
        work: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<()> {
        let mut usage = self.usage();
        let replaced = work()?;
        usage.running_bytes = usage.running_bytes.saturating_sub(bytes);
        usage.stored_bytes = (usage.stored_bytes + bytes).saturating_sub(replaced);
        usage.changes.count += 1;
        usage.changes.added_bytes += bytes;
        Ok(())
    }

    /// Removes something by `work`, which returns how many bytes it had.
    pub(super) fn remove(&self, work: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        let mut usage = self.usage();
        let removed = work()?;
        usage.stored_bytes = usage.stored_bytes.saturating_sub(removed);
        usage.changes.count += 1;
        Ok(())
    }

    /// As [`Self::remove`], of what is replaced when a name moves.
    pub(super) fn rename(&self, work: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        self.remove(work)?;
        self.usage().changes.has_moved = true;
        Ok(())
    }

    /// Takes a partial upload of `stored` bytes up again, of which `kept` stay.
    pub(super) fn resume(&self, stored: u64, kept: u64) {
        let mut usage = self.usage();
        usage.stored_bytes = usage.stored_bytes.saturating_sub(stored);
        usage.running_bytes += kept;
        usage.changes.count += 1;
    }

    pub(super) fn left_bytes(&self) -> u64 {
        let usage = self.usage();
        self.limit_bytes.saturating_sub(usage.stored_bytes.saturating_add(usage.running_bytes))
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stored_bytes(jail: &Jail) -> u64 {
    let kept = jail.all_kept().unwrap_or_default();
    let mut stored = kept.iter().fold(0_u64, |sum, kept| sum.saturating_add(kept.len));
    let mut folders = vec![(Vec::new(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        // What cannot be read cannot be counted, nor written.
        let Ok(entries) = jail.entries(&folder) else { continue };
        for entry in entries.flatten() {
            match entry.status.kind {
                Kind::File => stored = stored.saturating_add(entry.status.len),
                Kind::Folder if depth < DEPTH_MAX => {
                    folders.push(([&folder, b"/".as_slice(), &entry.name].concat(), depth + 1));
                }
                Kind::Folder | Kind::Other => {}
            }
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Root(PathBuf, Jail);

    impl Root {
        fn new() -> Self {
            let seed = os::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-space-{seed:x}"));
            std::fs::create_dir_all(&path).unwrap();
            let jail = Jail::open(&path).unwrap();
            Self(path, jail)
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
    fn what_comes_and_goes_outside_of_ftp_is_found_by_the_next_count() {
        let root = Root::new();
        root.write("file", 60);
        let space = Space::of(&root.1, 100);
        std::fs::remove_file(root.0.join("file")).unwrap();
        assert_eq!(space.left_bytes(), 40);
        space.recount(&root.1);
        assert_eq!(space.left_bytes(), 100);
        root.write("other", 30);
        space.recount(&root.1);
        assert_eq!(space.left_bytes(), 70);
    }

    #[test]
    fn a_count_leaves_what_running_uploads_have_taken() {
        let root = Root::new();
        root.write("file", 10);
        let space = Space::of(&root.1, 100);
        space.take(50).unwrap();
        space.recount(&root.1);
        assert_eq!((space.left_bytes(), space.take(41)), (40, Err(FileError::Quota)));
        space.give_back(50);
        assert_eq!(space.left_bytes(), 90);
    }

    #[test]
    fn links_count_nothing() {
        let root = Root::new();
        root.write("file", 10);
        std::os::unix::fs::symlink("file", root.0.join("link")).unwrap();
        assert_eq!(Space::of(&root.1, 100).left_bytes(), 90);
    }
}
