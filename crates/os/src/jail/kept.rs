//! Interrupted drafts that are kept to be continued.
//!
//! They are in one directory at the root of the jail, which is hidden from callers' names and from
//! listings. Their number, size and age are found by reading this one directory. It exists only
//! while it has entries. A draft keeps its inode when it moves there and back: nothing is copied,
//! and a draft in a different file system than the root (a mount within the jail) is not kept.
//!
//! Nothing is synced: Linux file systems write the data of a growing file before its length, so
//! that a system crash leaves a shorter draft.

use super::{Jail, Kind, Status};
use crate::draft::{Draft, Existing, KEPT_FOLDER};
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// A draft that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Key under which it is kept.
    pub key: Vec<u8>,
    /// Length in bytes.
    pub len: u64,
    /// Time of the last write, in seconds of Unix time.
    pub modified_s: i64,
}

/// Keys are single components, chosen by the caller.
impl Jail {
    /// Keeps a draft of this jail under `key`, and replaces any draft with the same key.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call, after which the draft is removed; `EXDEV` if it
    /// is in another file system.
    pub fn keep(&self, draft: Draft, key: &[u8]) -> io::Result<()> {
        let folder = self.lend(|| {
            match fs::mkdirat(&self.root, KEPT_FOLDER, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            self.kept_folder()
        })?;
        draft.keep_in(&folder, key)
    }

    /// Opens the draft kept under `key` for reading.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; `ENOENT` if there is none.
    pub fn kept(&self, key: &[u8]) -> io::Result<(File, Status)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = self.lend(|| {
            let folder = self.kept_folder()?;
            Ok(fs::openat(&folder, OsStr::from_bytes(key), flags, Mode::empty())?)
        });
        let file = File::from(file?);
        let status = Status::of_file(&file)?;
        if status.kind == Kind::File { Ok((file, status)) } else { Err(Errno::ACCESS.into()) }
    }

    /// Continues the draft kept under `key` as a draft of `name`, truncated to its first `len`
    /// bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; `ENOENT` if there is none, and `EBUSY` if a
    /// process is writing it.
    pub fn continue_kept(
        &self,
        key: &[u8],
        len: u64,
        name: &[u8],
        existing: Existing,
    ) -> io::Result<Draft> {
        let draft = self.lend(|| {
            let from = self.kept_folder()?;
            let (folder, leaf) = self.place(name)?;
            let draft = Draft::take_from(&from, key, folder, leaf, existing, None)?;
            fs::ftruncate(draft.file(), len)?;
            draft.file().seek(SeekFrom::End(0))?;
            self.remove_kept_folder();
            Ok(draft)
        });
        Ok(draft?.with_rights(self.rights.clone()))
    }

    /// Returns all kept drafts, in no particular order; none if the directory does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn all_kept(&self) -> io::Result<Vec<Kept>> {
        self.lend(|| {
            let folder = match self.kept_folder() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                folder => folder?,
            };
            let mut all = Vec::new();
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let stat = fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let Ok(status) = stat.map(|stat| Status::of(&stat)) else { continue };
                if status.kind == Kind::File {
                    let key = entry.file_name().to_bytes().to_vec();
                    all.push(Kept { key, len: status.len, modified_s: status.modified_s });
                }
            }
            Ok(all)
        })
    }

    /// Removes the draft kept under `key`, and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; `ENOENT` if there is none.
    pub fn remove_kept(&self, key: &[u8]) -> io::Result<u64> {
        self.lend(|| {
            let folder = self.kept_folder()?;
            let key = OsStr::from_bytes(key);
            let stat = fs::statat(&folder, key, AtFlags::SYMLINK_NOFOLLOW)?;
            fs::unlinkat(&folder, key, AtFlags::empty())?;
            self.remove_kept_folder();
            Ok(Status::of(&stat).len)
        })
    }

    fn kept_folder(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&self.root, KEPT_FOLDER, flags, Mode::empty())?)
    }

    /// Removes the directory if it is empty.
    fn remove_kept_folder(&self) {
        _ = fs::unlinkat(&self.root, KEPT_FOLDER, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    struct Root(PathBuf, Jail);

    impl Root {
        fn new() -> Self {
            let seed = crate::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-kept-{seed:x}"));
            std::fs::create_dir_all(path.join("folder")).unwrap();
            let jail = Jail::open(&path).unwrap();
            Self(path, jail)
        }

        fn keep(&self, name: &[u8], key: &[u8], bytes: &[u8]) {
            let draft = self.1.create(name, Existing::Replace).unwrap();
            draft.file().write_all(bytes).unwrap();
            self.1.keep(draft, key).unwrap();
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_kept_draft_is_continued_behind_any_of_its_bytes() {
        let root = Root::new();
        root.keep(b"folder/file", b"key", b"12345");
        let (_, status) = root.1.kept(b"key").unwrap();
        assert_eq!(status.len, 5);
        let draft = root.1.continue_kept(b"key", 3, b"folder/file", Existing::Keep).unwrap();
        draft.file().write_all(b"678").unwrap();
        draft.commit_soon().unwrap();
        assert_eq!(std::fs::read(root.0.join("folder/file")).unwrap(), b"123678");
        assert_eq!(root.1.kept(b"key").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(&root.0).unwrap().count(), 1, "the directory is gone");
    }

    #[test]
    fn what_is_kept_has_no_name_within_the_jail() {
        let root = Root::new();
        root.keep(b"file", b"key", b"12345");
        let kept = root.1.all_kept().unwrap();
        assert_eq!((kept[0].key.as_slice(), kept[0].len, kept.len()), (&b"key"[..], 5, 1));
        let path = [KEPT_FOLDER.as_bytes(), b"/key"].concat();
        assert_eq!(root.1.read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(root.1.list(b"/", 10).unwrap().len(), 1, "only the folder");
        assert_eq!(root.1.remove_kept(b"key").unwrap(), 5);
        assert_eq!(root.1.all_kept().unwrap(), []);
    }

    #[test]
    fn of_two_that_continue_one_draft_the_second_finds_nothing() {
        let root = Root::new();
        root.keep(b"file", b"key", b"12345");
        let first = root.1.continue_kept(b"key", 5, b"file", Existing::Keep).unwrap();
        let second = root.1.continue_kept(b"key", 5, b"file", Existing::Keep);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(first);
        assert_eq!(std::fs::read_dir(&root.0).unwrap().count(), 1);
    }
}
