//! Partial files of interrupted transfers, which are stored so that the transfers can be resumed.
//!
//! All partial files are in one directory at the root of the tree, which is hidden from callers'
//! names and from listings. Their number, size and age are found by reading this one directory. The
//! directory exists only while it has entries. A file keeps its inode when it is moved into the
//! directory and back, so nothing is copied. A file in a different file system than the root (a
//! mount within the tree) is not stored.
//!
//! Nothing is synced: Linux file systems write the data of a growing file before its length, so
//! that a system crash leaves a shorter partial file.

use super::{Kind, RootDir, Status};
use crate::atomic_file::{AtomicFile, Existing, INTERRUPTED_DIRECTORY};
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// A stored partial file of an interrupted transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptedDraft {
    /// Key under which the partial file is kept.
    pub key: Vec<u8>,
    /// Length in bytes.
    pub len: u64,
    /// Time of the last write, in seconds of Unix time.
    pub modified_s: i64,
}

/// Methods for interrupted transfers. A key is a single path component, chosen by the caller.
impl RootDir {
    /// Keeps a partial file of this tree under `key`, and replaces any partial file with the same
    /// key.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call, after which the partial file is removed;
    /// `EXDEV` if the file is in another file system than the root.
    pub fn keep(&self, draft: AtomicFile, key: &[u8]) -> io::Result<()> {
        let directory = self.lend(|| {
            match fs::mkdirat(&self.root, INTERRUPTED_DIRECTORY, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            self.interrupted_directory()
        })?;
        draft.keep_in(&directory, key)
    }

    /// Opens the partial file kept under `key` for reading.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; `ENOENT` if no file has that key.
    pub fn open_interrupted(&self, key: &[u8]) -> io::Result<(File, Status)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = self.lend(|| {
            let directory = self.interrupted_directory()?;
            Ok(fs::openat(&directory, OsStr::from_bytes(key), flags, Mode::empty())?)
        });
        let file = File::from(file?);
        let status = Status::of_file(&file)?;
        if status.kind == Kind::File { Ok((file, status)) } else { Err(Errno::ACCESS.into()) }
    }

    /// Continues the partial file kept under `key` as the temporary file of `name`, truncated to
    /// its first `len` bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; `ENOENT` if no file has that key, and `EBUSY`
    /// if a process is writing the file.
    pub fn continue_interrupted(
        &self,
        key: &[u8],
        len: u64,
        name: &[u8],
        existing: Existing,
    ) -> io::Result<AtomicFile> {
        let draft = self.lend(|| {
            let from = self.interrupted_directory()?;
            let (directory, leaf) = self.split(name)?;
            let draft =
                AtomicFile::resume_partial_from(&from, key, directory, leaf, existing, None)?;
            fs::ftruncate(draft.file(), len)?;
            draft.file().seek(SeekFrom::End(0))?;
            self.remove_interrupted_directory();
            Ok(draft)
        });
        Ok(draft?.with_credentials(self.credentials.clone()))
    }

    /// Returns all kept partial files, in no particular order; none if their directory does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn list_interrupted(&self) -> io::Result<Vec<InterruptedDraft>> {
        self.lend(|| {
            let directory = match self.interrupted_directory() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                directory => directory?,
            };
            let mut all = Vec::new();
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let stat = fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let Ok(status) = stat.map(|stat| Status::of(&stat)) else { continue };
                if status.kind == Kind::File {
                    let key = entry.file_name().to_bytes().to_vec();
                    all.push(InterruptedDraft {
                        key,
                        len: status.len,
                        modified_s: status.modified_s,
                    });
                }
            }
            Ok(all)
        })
    }

    /// Removes the partial file kept under `key`, and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; `ENOENT` if no file has that key.
    pub fn remove_interrupted(&self, key: &[u8]) -> io::Result<u64> {
        self.lend(|| {
            let directory = self.interrupted_directory()?;
            let key = OsStr::from_bytes(key);
            let stat = fs::statat(&directory, key, AtFlags::SYMLINK_NOFOLLOW)?;
            fs::unlinkat(&directory, key, AtFlags::empty())?;
            self.remove_interrupted_directory();
            Ok(Status::of(&stat).len)
        })
    }

    fn interrupted_directory(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&self.root, INTERRUPTED_DIRECTORY, flags, Mode::empty())?)
    }

    /// Removes the directory of partial files if it is empty.
    fn remove_interrupted_directory(&self) {
        _ = fs::unlinkat(&self.root, INTERRUPTED_DIRECTORY, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    struct Root(PathBuf, RootDir);

    impl Root {
        fn new() -> Self {
            let seed = crate::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-kept-{seed:x}"));
            std::fs::create_dir_all(path.join("folder")).unwrap();
            let root_dir = RootDir::open(&path).unwrap();
            Self(path, root_dir)
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
    fn an_interrupted_draft_can_be_resumed_at_any_offset() {
        let root = Root::new();
        root.keep(b"folder/file", b"key", b"12345");
        let (_, status) = root.1.open_interrupted(b"key").unwrap();
        assert_eq!(status.len, 5);
        let draft = root.1.continue_interrupted(b"key", 3, b"folder/file", Existing::Keep).unwrap();
        draft.file().write_all(b"678").unwrap();
        draft.commit_soon().unwrap();
        assert_eq!(std::fs::read(root.0.join("folder/file")).unwrap(), b"123678");
        assert_eq!(root.1.open_interrupted(b"key").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(&root.0).unwrap().count(), 1, "the directory is gone");
    }

    #[test]
    fn interrupted_drafts_have_no_name_within_the_root() {
        let root = Root::new();
        root.keep(b"file", b"key", b"12345");
        let drafts = root.1.list_interrupted().unwrap();
        assert_eq!((drafts[0].key.as_slice(), drafts[0].len, drafts.len()), (&b"key"[..], 5, 1));
        let path = [INTERRUPTED_DIRECTORY.as_bytes(), b"/key"].concat();
        assert_eq!(root.1.read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(root.1.list(b"/", 10).unwrap().len(), 1, "only the folder");
        assert_eq!(root.1.remove_interrupted(b"key").unwrap(), 5);
        assert_eq!(root.1.list_interrupted().unwrap(), []);
    }

    #[test]
    fn a_second_attempt_to_resume_a_draft_finds_none() {
        let root = Root::new();
        root.keep(b"file", b"key", b"12345");
        let first = root.1.continue_interrupted(b"key", 5, b"file", Existing::Keep).unwrap();
        let second = root.1.continue_interrupted(b"key", 5, b"file", Existing::Keep);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(first);
        assert_eq!(std::fs::read_dir(&root.0).unwrap().count(), 1);
    }
}
