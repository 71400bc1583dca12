//! A file that appears under its name only when it is complete.
//!
//! The file is written under a temporary name in its destination directory, synced to disk, and
//! renamed. Then the directory is synced. After a crash before the rename, the name refers to the
//! old file or to no file. After a crash after the rename, it refers to the new file. A writer
//! locks its temporary file, so an unlocked temporary file was left over by a crash.
//!
//! A temporary file created with a key can be resumed: its name is derived from the key, so that a
//! later process with the same key finds the data left by a crash. Other temporary files are
//! useless once their writer has exited.

use crate::fs_credentials::FsCredentials;
use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

mod placement;

/// Prefix of the name of a temporary file.
const DRAFT_PREFIX: &[u8] = b".plumb-draft-";
/// Directory at the root of a tree for the partial files of interrupted transfers.
pub(crate) const INTERRUPTED_DIRECTORY: &str = ".plumb-partial";
/// Byte after [`DRAFT_PREFIX`] in the name of a resumable temporary file.
const RESUMABLE_MARKER: u8 = b'r';
/// Time for which a resumable temporary file is kept after its last change; our own choice.
const RESUMABLE_MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of random names tried.
const NAME_ATTEMPTS_MAX: usize = 16;

/// Treatment of an existing file that already has the final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep the existing file, and refuse the new one.
    Keep,
    /// Replace the existing file atomically. The new file gets the permissions of the old file.
    Replace,
}

/// Method by which the new file took its name; determines how the replacement is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// The name was free. The temporary name is another hard link to the same file.
    Linked,
    /// The two names were exchanged. The temporary name refers to the replaced file.
    Exchanged,
}

/// A file that is being written under a temporary name. If it is dropped before it has its final
/// name, the temporary file is removed.
#[derive(Debug)]
pub struct AtomicFile {
    directory: OwnedFd,
    /// Current temporary name; `None` once the file has its final name.
    draft_name: Option<Vec<u8>>,
    name: Vec<u8>,
    existing: Existing,
    file: File,
    /// Credentials of the owner, if the file does not belong to the user of this process.
    credentials: Option<Arc<FsCredentials>>,
    /// Method by which [`Self::replace_provisionally`] gave the file its name, if it was called.
    placement: Option<Placement>,
}

impl AtomicFile {
    /// Creates a temporary file in `directory`, which must be open for reading. Its final name will
    /// be `name`, a single component.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call. Returns `EEXIST` if a file called `name` exists
    /// and `existing` is [`Existing::Keep`].
    pub fn begin(directory: OwnedFd, name: &[u8], existing: Existing) -> io::Result<Self> {
        let mode = mode_of_existing(&directory, name, existing)?;
        let (draft_name, file) = create_random(&directory)?;
        Ok(Self::of(directory, name, existing, (draft_name, file), mode))
    }

    fn of(
        directory: OwnedFd,
        name: &[u8],
        existing: Existing,
        (draft_name, file): (Vec<u8>, File),
        mode: Option<Mode>,
    ) -> Self {
        if let Some(mode) = mode {
            // Ignore the error: the file system may not support permissions.
            _ = fs::fchmod(&file, mode);
        }
        let draft_name = Some(draft_name);
        let name = name.to_vec();
        Self { directory, draft_name, name, existing, file, credentials: None, placement: None }
    }

    /// Creates a temporary file like [`Self::begin`], under a temporary name derived from `key`.
    ///
    /// If a process with the same key was killed, the file starts with the data written by that
    /// process. Otherwise, or if another process is writing the file of that key, it is empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::begin`].
    pub fn begin_resumable(
        directory: OwnedFd,
        name: &[u8],
        existing: Existing,
        key: u64,
    ) -> io::Result<Self> {
        let mode = mode_of_existing(&directory, name, existing)?;
        let draft_name = keyed_name(key);
        let file = match open_locked(&directory, &draft_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_locked(&directory, &draft_name)?
            }
            opened => opened?,
        };
        let draft = match file {
            Some(file) => (draft_name, file),
            // Another process is writing the file of this key, so the new file gets a random name.
            None => create_random(&directory)?,
        };
        Ok(Self::of(directory, name, existing, draft, mode))
    }

    /// Performs further operations with `credentials`, the credentials of the file's owner.
    pub(crate) fn with_credentials(self, credentials: Option<Arc<FsCredentials>>) -> Self {
        let mut draft = self;
        draft.credentials = credentials;
        draft
    }

    /// Appends `bytes`, with the owner's credentials so that the owner's disk quota applies.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        lend(self.credentials.as_deref(), || (&self.file).write_all(bytes))
    }

    /// Calls `work` to write to the file with the owner's credentials, so that the owner's disk
    /// quota applies.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`.
    pub fn fill<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        lend(self.credentials.as_deref(), || work(&self.file))
    }

    /// Returns the file for writing.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file to disk, gives it its final name, and syncs the directory. This waits for the
    /// disk.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call; the temporary file is then removed. Returns
    /// `EEXIST` if an existing file must be kept and was created after the call of [`Self::begin`].
    pub fn commit(mut self) -> io::Result<()> {
        let credentials = self.credentials.clone();
        lend(credentials.as_deref(), || {
            fs::fsync(&self.file)?;
            self.publish()?;
            Ok(fs::fsync(&self.directory)?)
        })
    }

    /// Continues the partial file that [`Self::keep_as`] stored in `directory` under the name
    /// `kept`, a single component. If `key` is given, the file becomes resumable, as if created by
    /// [`Self::begin_resumable`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::begin`]. Returns `ENOENT` if the partial file does not exist,
    /// and `EBUSY` if a process is writing it.
    pub fn resume_partial(
        directory: OwnedFd,
        kept: &[u8],
        name: &[u8],
        existing: Existing,
        key: Option<u64>,
    ) -> io::Result<Self> {
        let from = directory.try_clone()?;
        Self::resume_partial_from(&from, kept, directory, name, existing, key)
    }

    /// Continues a partial file like [`Self::resume_partial`]. The partial file `kept` is in the
    /// directory `from` instead.
    pub(crate) fn resume_partial_from(
        from: &OwnedFd,
        kept: &[u8],
        directory: OwnedFd,
        name: &[u8],
        existing: Existing,
        key: Option<u64>,
    ) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let kept = OsStr::from_bytes(kept);
        let file = File::from(fs::openat(from, kept, flags, Mode::empty())?);
        if FileType::from_raw_mode(fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::ACCESS.into());
        }
        if fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Errno::BUSY.into());
        }
        let free_name = key.map(keyed_name).filter(|name| {
            // Another process may be writing the temporary file of this key. A random name is used
            // then.
            !matches!(open_locked(&directory, name), Ok(None))
        });
        let draft_name = free_name.map_or_else(random_name, Ok)?;
        fs::renameat(from, kept, &directory, OsStr::from_bytes(&draft_name))?;
        let draft_name = Some(draft_name);
        let name = name.to_vec();
        Ok(Self { directory, draft_name, name, existing, file, credentials: None, placement: None })
    }

    /// Keeps the partial file under the name `kept`, a single component, if that name is free.
    ///
    /// # Errors
    ///
    /// Returns `EEXIST` if the name is not free, and other errors of `renameat2(2)`. After an error
    /// the temporary file is removed.
    pub fn keep_as(mut self, kept: &[u8]) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let from = OsStr::from_bytes(draft_name);
        let to = OsStr::from_bytes(kept);
        lend(self.credentials.as_deref(), || rename_new(&self.directory, from, to))?;
        self.draft_name = None;
        Ok(())
    }

    /// Keeps the partial file under the name `kept` in another directory, and replaces any file of
    /// that name.
    pub(crate) fn keep_in(mut self, directory: &OwnedFd, kept: &[u8]) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let from = OsStr::from_bytes(draft_name);
        let to = OsStr::from_bytes(kept);
        lend(self.credentials.as_deref(), || {
            Ok(fs::renameat(&self.directory, from, directory, to)?)
        })?;
        self.draft_name = None;
        Ok(())
    }

    /// Syncs the data to disk. This waits for the disk.
    ///
    /// # Errors
    ///
    /// Returns the error of `fsync(2)`.
    pub fn sync(&self) -> io::Result<()> {
        lend(self.credentials.as_deref(), || Ok(fs::fsync(&self.file)?))
    }

    /// Returns the length in bytes of the regular file that [`Self::take_name`] would replace now;
    /// `None` if there is no such file.
    #[must_use]
    pub fn replaced_bytes(&self) -> Option<u64> {
        let name = OsStr::from_bytes(&self.name);
        lend(self.credentials.as_deref(), || {
            let old = fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_file = FileType::from_raw_mode(old.st_mode) == FileType::RegularFile;
            Ok(is_file.then(|| u64::try_from(old.st_size).unwrap_or(0)))
        })
        .unwrap_or(None)
    }

    /// Gives the file its final name. The name is durable after [`Self::sync_name`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::commit`], but the temporary file is kept.
    pub fn take_name(&mut self) -> io::Result<()> {
        let credentials = self.credentials.clone();
        lend(credentials.as_deref(), || self.publish())
    }

    /// Syncs the directory, which makes the name durable. This waits for the disk.
    ///
    /// # Errors
    ///
    /// Returns the error of `fsync(2)`.
    pub fn sync_name(&self) -> io::Result<()> {
        lend(self.credentials.as_deref(), || Ok(fs::fsync(&self.directory)?))
    }

    /// Gives the file its final name without waiting for the disk: a system crash soon afterwards
    /// may truncate it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::commit`].
    pub fn commit_soon(mut self) -> io::Result<()> {
        let credentials = self.credentials.clone();
        lend(credentials.as_deref(), || self.publish())
    }

    fn publish(&mut self) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let from = OsStr::from_bytes(draft_name);
        let to = OsStr::from_bytes(&self.name);
        let directory = &self.directory;
        match self.existing {
            Existing::Replace => fs::renameat(directory, from, directory, to)?,
            Existing::Keep => {
                match fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
                    // The file system lacks RENAME_NOREPLACE; a hard link does not replace a file
                    // either.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        fs::linkat(directory, from, directory, to, AtFlags::empty())?;
                        fs::unlinkat(directory, from, AtFlags::empty())?;
                    }
                    renamed => renamed?,
                }
            }
        }
        self.draft_name = None;
        Ok(())
    }
}

impl AtomicFile {
    /// Removes the temporary file.
    fn discard(&mut self) {
        if let Some(name) = self.draft_name.take() {
            // If the removal fails, a later sweep removes the file.
            let name = OsStr::from_bytes(&name);
            _ = lend(self.credentials.as_deref(), || {
                Ok(fs::unlinkat(&self.directory, name, AtFlags::empty())?)
            });
        }
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Returns the permissions of the regular file that has the final name. The new file gets the same
/// permissions.
fn mode_of_existing(
    directory: &OwnedFd,
    name: &[u8],
    existing: Existing,
) -> io::Result<Option<Mode>> {
    let old = match fs::statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) if existing == Existing::Keep => return Err(Errno::EXIST.into()),
        Err(Errno::NOENT) => return Ok(None),
        old => old?,
    };
    match FileType::from_raw_mode(old.st_mode) {
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::RegularFile => Ok(Some(Mode::from_raw_mode(old.st_mode & 0o777))),
        _ => Ok(None),
    }
}

/// Creates and locks a temporary file under an unused random name.
fn create_random(directory: &OwnedFd) -> io::Result<(Vec<u8>, File)> {
    for _ in 0..NAME_ATTEMPTS_MAX {
        let draft_name = random_name()?;
        if let Some(file) = create_locked(directory, &draft_name)? {
            return Ok((draft_name, file));
        }
    }
    Err(Errno::EXIST.into())
}

fn random_name() -> io::Result<Vec<u8>> {
    Ok([DRAFT_PREFIX, format!("{:016x}", crate::entropy::seed()?).as_bytes()].concat())
}

fn keyed_name(key: u64) -> Vec<u8> {
    [DRAFT_PREFIX, &[RESUMABLE_MARKER], format!("{key:016x}").as_bytes()].concat()
}

/// Opens and locks an existing temporary file. Returns `None` if another process is writing the
/// file. Also returns `None` if it must not be continued, because it is not a regular file, belongs
/// to another user, or has several links.
fn open_locked(directory: &OwnedFd, name: &[u8]) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let name = OsStr::from_bytes(name);
    let file = match fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
        Err(_) => return Ok(None),
    };
    if fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let metadata = fs::fstat(&file)?;
    let is_sole_link_of_user =
        metadata.st_uid == rustix::process::geteuid().as_raw() && metadata.st_nlink == 1;
    // The previous writer may have renamed the file before this process got the lock.
    let current = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_still_named = current.is_ok_and(|current| current.st_ino == metadata.st_ino);
    let is_file = FileType::from_raw_mode(metadata.st_mode) == FileType::RegularFile;
    Ok((is_sole_link_of_user && is_still_named && is_file).then_some(file))
}

/// Runs `work` with `credentials`, or with the credentials of this process if `None`.
pub(crate) fn lend<T>(
    credentials: Option<&FsCredentials>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match credentials {
        Some(credentials) => credentials.lend(work),
        None => work(),
    }
}

/// Creates and locks a temporary file. Returns `None` if a file of that name exists, or if another
/// process removed the new file before it was locked.
fn create_locked(directory: &OwnedFd, name: &[u8]) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let name = OsStr::from_bytes(name);
    let file = match fs::openat(directory, name, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        // The file system does not support locks. No lock is needed: `sweep` cannot lock the file
        // either, so it keeps the file.
        Err(_) => return Ok(Some(file)),
    }
    let file_stat = fs::fstat(&file)?;
    if file_stat.st_nlink > 0 {
        return Ok(Some(file));
    }
    // A link count of 0 means that the file was removed, or that the file system does not count
    // links.
    let current = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    Ok(current.is_ok_and(|current| current.st_ino == file_stat.st_ino).then_some(file))
}

/// Returns whether `name` is reserved for this module.
pub(crate) fn is_internal(name: &[u8]) -> bool {
    is_draft(name) || name == INTERRUPTED_DIRECTORY.as_bytes()
}

/// Returns whether `name` is the name of a temporary file.
fn is_draft(name: &[u8]) -> bool {
    name.starts_with(DRAFT_PREFIX)
}

/// Removes the temporary files in `directory` that no process is writing, and returns their number.
/// Resumable temporary files are kept for a day after their last change.
///
/// # Errors
///
/// Returns an error if the directory cannot be read.
pub fn sweep(directory: &impl AsFd) -> io::Result<usize> {
    let mut removed_count = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_draft(name.to_bytes()) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = fs::openat(directory, name, flags, Mode::empty()) else { continue };
        let is_resumable = name.to_bytes().get(DRAFT_PREFIX.len()) == Some(&RESUMABLE_MARKER);
        if fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && !(is_resumable && is_recent(&File::from(file)))
            && fs::unlinkat(directory, name, AtFlags::empty()).is_ok()
        {
            removed_count += 1;
        }
    }
    Ok(removed_count)
}

/// Returns whether the temporary file was changed within [`RESUMABLE_MAX_AGE`].
fn is_recent(file: &File) -> bool {
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < RESUMABLE_MAX_AGE))
}

/// Renames a file within a directory, unless the new name is taken.
fn rename_new(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // The file system does not support RENAME_NOREPLACE.
        Err(Errno::INVAL | Errno::NOSYS) => {}
        renamed => return Ok(renamed?),
    }
    match fs::statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST.into()),
        Err(_) => Ok(fs::renameat(directory, from, directory, to)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A temporary directory with the file `name`, which contains "old".
    pub(super) struct Fixture(pub(super) PathBuf);

    impl Fixture {
        pub(super) fn new(name: &str) -> Self {
            let seed = crate::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-draft-{name}-{seed:x}"));
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("name"), "old").unwrap();
            Self(path)
        }

        pub(super) fn begin(&self, existing: Existing) -> io::Result<AtomicFile> {
            AtomicFile::begin(self.directory(), b"name", existing)
        }

        pub(super) fn directory(&self) -> OwnedFd {
            File::open(&self.0).unwrap().into()
        }

        pub(super) fn content(&self) -> String {
            std::fs::read_to_string(self.0.join("name")).unwrap()
        }

        pub(super) fn entry_count(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Simulates a crash: releases the lock of the temporary file without removing the file.
    fn crash(mut draft: AtomicFile) {
        draft.draft_name = None;
    }

    #[test]
    fn a_kept_draft_is_resumed() {
        let fixture = Fixture::new("kept");
        let draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        draft.keep_as(b"name.part").unwrap();
        assert_eq!((fixture.content(), fixture.entry_count()), ("old".to_owned(), 2));
        let directory = fixture.directory();
        let draft =
            AtomicFile::resume_partial(directory, b"name.part", b"name", Existing::Replace, None);
        let draft = draft.unwrap();
        std::os::unix::fs::FileExt::write_all_at(draft.file(), b"w", 2).unwrap();
        draft.commit_soon().unwrap();
        assert_eq!((fixture.content(), fixture.entry_count()), ("new".to_owned(), 1));
    }

    #[test]
    fn a_complete_file_gets_its_name_and_the_permissions_of_the_replaced_one() {
        use std::os::unix::fs::PermissionsExt;
        let fixture = Fixture::new("whole");
        let mode = PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(fixture.0.join("name"), mode).unwrap();
        let draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        assert_eq!(fixture.content(), "old");
        draft.commit().unwrap();
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("new", 1));
        let mode = std::fs::metadata(fixture.0.join("name")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_dropped_draft_is_removed() {
        let fixture = Fixture::new("dropped");
        let draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        drop(draft);
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("old", 1));
    }

    // attack row 99
    #[test]
    fn a_crash_during_a_write_leaves_the_existing_file() {
        let fixture = Fixture::new("crash-early");
        let draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        crash(draft);
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("old", 2));
        assert_eq!(sweep(&fixture.directory()).unwrap(), 1);
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("old", 1));
    }

    // attack row 99
    #[test]
    fn a_crash_before_the_rename_leaves_the_existing_file() {
        let fixture = Fixture::new("crash-synced");
        let draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        fs::fsync(&draft.file).unwrap();
        crash(draft);
        assert_eq!(fixture.content(), "old");
        assert_eq!(sweep(&fixture.directory()).unwrap(), 1);
    }

    // attack row 99
    #[test]
    fn a_crash_after_the_rename_leaves_the_new_file() {
        let fixture = Fixture::new("crash-late");
        let mut draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        fs::fsync(&draft.file).unwrap();
        draft.publish().unwrap();
        crash(draft);
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("new", 1));
    }

    fn resumable(fixture: &Fixture) -> AtomicFile {
        AtomicFile::begin_resumable(fixture.directory(), b"name", Existing::Replace, 7).unwrap()
    }

    #[test]
    fn a_crash_leaves_a_draft_that_the_same_key_resumes() {
        let fixture = Fixture::new("resumed");
        let draft = resumable(&fixture);
        draft.file().write_all(b"ne").unwrap();
        crash(draft);
        assert_eq!((sweep(&fixture.directory()).unwrap(), fixture.entry_count()), (0, 2));
        let draft = resumable(&fixture);
        assert_eq!((draft.file().metadata().unwrap().len(), fixture.entry_count()), (2, 2));
        std::os::unix::fs::FileExt::write_all_at(draft.file(), b"w", 2).unwrap();
        draft.commit().unwrap();
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("new", 1));
    }

    #[test]
    fn a_draft_of_a_live_process_is_neither_resumed_nor_removed() {
        let fixture = Fixture::new("live");
        let draft = resumable(&fixture);
        draft.file().write_all(b"first").unwrap();
        let other = resumable(&fixture);
        assert_eq!(other.file().metadata().unwrap().len(), 0);
        assert_eq!((sweep(&fixture.directory()).unwrap(), fixture.entry_count()), (0, 3));
        other.keep_as(b"part").unwrap();
        let directory = fixture.directory();
        let taken_result =
            AtomicFile::resume_partial(directory, b"part", b"name", Existing::Replace, Some(7))
                .unwrap();
        drop(taken_result);
        draft.commit().unwrap();
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("first", 1));
    }

    #[test]
    fn an_old_resumable_draft_is_swept() {
        let fixture = Fixture::new("old");
        let draft = resumable(&fixture);
        let old_time = std::time::SystemTime::now() - RESUMABLE_MAX_AGE * 2;
        draft.file().set_modified(old_time).unwrap();
        crash(draft);
        assert_eq!((sweep(&fixture.directory()).unwrap(), fixture.entry_count()), (1, 1));
    }

    #[test]
    fn a_draft_resumed_with_a_key_can_be_resumed_again() {
        let fixture = Fixture::new("again");
        let draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        draft.keep_as(b"part").unwrap();
        let directory = fixture.directory();
        crash(
            AtomicFile::resume_partial(directory, b"part", b"name", Existing::Replace, Some(7))
                .unwrap(),
        );
        assert_eq!(resumable(&fixture).file().metadata().unwrap().len(), 2);
    }

    #[test]
    fn a_draft_that_is_being_written_is_not_swept() {
        let fixture = Fixture::new("busy");
        let draft = fixture.begin(Existing::Replace).unwrap();
        assert_eq!(sweep(&fixture.directory()).unwrap(), 0);
        draft.file().write_all(b"new").unwrap();
        draft.commit().unwrap();
        assert_eq!(fixture.content(), "new");
    }

    #[test]
    fn an_existing_file_is_kept_even_if_created_later() {
        let fixture = Fixture::new("kept");
        assert_eq!(fixture.begin(Existing::Keep).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_file(fixture.0.join("name")).unwrap();
        let draft = fixture.begin(Existing::Keep).unwrap();
        std::fs::write(fixture.0.join("name"), "old").unwrap();
        assert_eq!(draft.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("old", 1));
    }
}
