//! A file that takes its name when it is whole.
//!
//! It is written under a name of its own in the folder where it will be, brought to the disk, and
//! renamed; then the folder is brought to the disk. A crash before the rename leaves the old file,
//! or none; one behind it leaves the new file. What it leaves besides is known by its name, and
//! told from a draft that is being written by the lock that its writer holds.
//!
//! A draft that begins with a key can be resumed: its name is made of the key, so that a later process
//! with the same key finds what a crash has left. Others are of no use once their writer has gone.

use crate::file_rights::FileRights;
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

use placement::Placement;

/// How the name of a draft begins.
const PREFIX: &[u8] = b".plumb-draft-";
/// The directory at the root of a jail in which drafts are kept that were broken off.
pub(crate) const KEPT_FOLDER: &str = ".plumb-partial";
/// What follows it in the name of a draft that can be resumed.
const RESUMABLE: u8 = b'r';
/// How long a draft that can be resumed is kept after its last change; our own choice.
const RESUMABLE_MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// How often another name is tried.
const ATTEMPTS: usize = 16;

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is refused.
    Keep,
    /// The new one takes its place, at once and with its permissions.
    Replace,
}

/// A file that is being written. Dropped, it goes.
#[derive(Debug)]
pub struct Draft {
    folder: OwnedFd,
    /// Its name for now, until it has the right one.
    draft_name: Option<Vec<u8>>,
    name: Vec<u8>,
    existing: Existing,
    file: File,
    /// Whose it is, if not that of whoever runs this.
    rights: Option<Arc<FileRights>>,
    /// How it was placed, if it was.
    placement: Option<Placement>,
}

impl Draft {
    /// Begins the file `name`, a single component, in `folder`, which must be open to be read.
    ///
    /// # Errors
    ///
    /// What the kernel says; `EEXIST` if there is one that is to be kept.
    pub fn begin(folder: OwnedFd, name: &[u8], existing: Existing) -> io::Result<Self> {
        let mode = mode_of_old(&folder, name, existing)?;
        let (draft_name, file) = create_random(&folder)?;
        Ok(Self::of(folder, name, existing, (draft_name, file), mode))
    }

    fn of(
        folder: OwnedFd,
        name: &[u8],
        existing: Existing,
        (draft_name, file): (Vec<u8>, File),
        mode: Option<Mode>,
    ) -> Self {
        if let Some(mode) = mode {
            // Where the file system has no permissions it has none to keep.
            _ = fs::fchmod(&file, mode);
        }
        let (draft_name, name) = (Some(draft_name), name.to_vec());
        Self { folder, draft_name, name, existing, file, rights: None, placement: None }
    }

    /// Begins the file `name` as [`Self::begin`], under a name made of `key`. What a process that was
    /// killed has left of the same key is the beginning of the file; it is empty otherwise, and also
    /// while another process writes a draft of that key.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`].
    pub fn begin_resumable(
        folder: OwnedFd,
        name: &[u8],
        existing: Existing,
        key: u64,
    ) -> io::Result<Self> {
        let mode = mode_of_old(&folder, name, existing)?;
        let draft_name = keyed_name(key);
        let file = match open_locked(&folder, &draft_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_locked(&folder, &draft_name)?
            }
            opened => opened?,
        };
        let begun = match file {
            Some(file) => (draft_name, file),
            // Another process writes it.
            None => create_random(&folder)?,
        };
        Ok(Self::of(folder, name, existing, begun, mode))
    }

    /// Has the rest done with the rights of whoever it belongs to.
    pub(crate) fn with_rights(self, rights: Option<Arc<FileRights>>) -> Self {
        let mut draft = self;
        draft.rights = rights;
        draft
    }

    /// Puts bytes behind what there is, into the room that its owner has on the disk.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        lend(self.rights.as_deref(), || (&self.file).write_all(bytes))
    }

    /// Has `work` write to the file, as [`Self::write_all`].
    ///
    /// # Errors
    ///
    /// What `work` says.
    pub fn fill<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        lend(self.rights.as_deref(), || work(&self.file))
    }

    /// Returns the file, to write to it.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Makes the file what its name stands for, when all of it is on the disk. This waits for the
    /// disk.
    ///
    /// # Errors
    ///
    /// What the kernel says, and then the draft is gone; `EEXIST` if a file has come up meanwhile
    /// that is to be kept.
    pub fn commit(mut self) -> io::Result<()> {
        let rights = self.rights.clone();
        lend(rights.as_deref(), || {
            fs::fsync(&self.file)?;
            self.publish()?;
            Ok(fs::fsync(&self.folder)?)
        })
    }

    /// Takes up what [`Self::keep_as`] has left under the single component `kept`, to go on with
    /// it. With a `key` it can be resumed, as one of [`Self::begin_resumable`].
    ///
    /// # Errors
    ///
    /// As [`Self::begin`]; `ENOENT` if there is no such file, and `EBUSY` if a process writes it.
    pub fn take_up(
        folder: OwnedFd,
        kept: &[u8],
        name: &[u8],
        existing: Existing,
        key: Option<u64>,
    ) -> io::Result<Self> {
        let from = folder.try_clone()?;
        Self::take_from(&from, kept, folder, name, existing, key)
    }

    /// As [`Self::take_up`], of what is in the directory `from`.
    pub(crate) fn take_from(
        from: &OwnedFd,
        kept: &[u8],
        folder: OwnedFd,
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
        let free = key.map(keyed_name).filter(|name| {
            // One of another process stays its own.
            !matches!(open_locked(&folder, name), Ok(None))
        });
        let draft_name = free.map_or_else(random_name, Ok)?;
        fs::renameat(from, kept, &folder, OsStr::from_bytes(&draft_name))?;
        let (draft_name, name) = (Some(draft_name), name.to_vec());
        Ok(Self { folder, draft_name, name, existing, file, rights: None, placement: None })
    }

    /// Leaves what there is under the single component `kept`, if nothing has that name.
    ///
    /// # Errors
    ///
    /// `EEXIST` if something has the name, and other errors of `renameat2`; then the draft is gone.
    pub fn keep_as(mut self, kept: &[u8]) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let (from, to) = (OsStr::from_bytes(draft_name), OsStr::from_bytes(kept));
        lend(self.rights.as_deref(), || rename_new(&self.folder, from, to))?;
        self.draft_name = None;
        Ok(())
    }

    /// Leaves what there is under the single component `kept` of another directory.
    pub(crate) fn keep_in(mut self, folder: &OwnedFd, kept: &[u8]) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let (from, to) = (OsStr::from_bytes(draft_name), OsStr::from_bytes(kept));
        lend(self.rights.as_deref(), || Ok(fs::renameat(&self.folder, from, folder, to)?))?;
        self.draft_name = None;
        Ok(())
    }

    /// Brings the bytes to the disk. This waits for it.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn sync(&self) -> io::Result<()> {
        lend(self.rights.as_deref(), || Ok(fs::fsync(&self.file)?))
    }

    /// Returns the length of the regular file that [`Self::take_name`] would replace now, bytes;
    /// `None` if there is none.
    #[must_use]
    pub fn replaced_bytes(&self) -> Option<u64> {
        let name = OsStr::from_bytes(&self.name);
        lend(self.rights.as_deref(), || {
            let old = fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_file = FileType::from_raw_mode(old.st_mode) == FileType::RegularFile;
            Ok(is_file.then(|| u64::try_from(old.st_size).unwrap_or(0)))
        })
        .unwrap_or(None)
    }

    /// Makes the file what its name stands for. The name is lasting behind [`Self::sync_name`].
    ///
    /// # Errors
    ///
    /// As [`Self::commit`], but the draft is still there.
    pub fn take_name(&mut self) -> io::Result<()> {
        let rights = self.rights.clone();
        lend(rights.as_deref(), || self.publish())
    }

    /// Brings the name to the disk. This waits for it.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn sync_name(&self) -> io::Result<()> {
        lend(self.rights.as_deref(), || Ok(fs::fsync(&self.folder)?))
    }

    /// Makes the file what its name stands for, without waiting for the disk: a crash of the
    /// machine soon after may leave less of it.
    ///
    /// # Errors
    ///
    /// As [`Self::commit`].
    pub fn commit_soon(mut self) -> io::Result<()> {
        let rights = self.rights.clone();
        lend(rights.as_deref(), || self.publish())
    }

    fn publish(&mut self) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let (from, to) = (OsStr::from_bytes(draft_name), OsStr::from_bytes(&self.name));
        let folder = &self.folder;
        match self.existing {
            Existing::Replace => fs::renameat(folder, from, folder, to)?,
            Existing::Keep => {
                match fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
                    // A file system without it; a link does not replace either.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        fs::linkat(folder, from, folder, to, AtFlags::empty())?;
                        fs::unlinkat(folder, from, AtFlags::empty())?;
                    }
                    renamed => renamed?,
                }
            }
        }
        self.draft_name = None;
        Ok(())
    }
}

impl Draft {
    /// Removes what was written.
    fn discard(&mut self) {
        if let Some(name) = self.draft_name.take() {
            // What cannot be removed is swept another time.
            let name = OsStr::from_bytes(&name);
            _ = lend(self.rights.as_deref(), || {
                Ok(fs::unlinkat(&self.folder, name, AtFlags::empty())?)
            });
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Returns the permissions of the regular file that has the name, which the new one is to have too.
fn mode_of_old(folder: &OwnedFd, name: &[u8], existing: Existing) -> io::Result<Option<Mode>> {
    let old = match fs::statat(folder, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
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

/// Creates and locks a draft under a name that nothing else has.
fn create_random(folder: &OwnedFd) -> io::Result<(Vec<u8>, File)> {
    for _ in 0..ATTEMPTS {
        let draft_name = random_name()?;
        if let Some(file) = create_locked(folder, &draft_name)? {
            return Ok((draft_name, file));
        }
    }
    Err(Errno::EXIST.into())
}

fn random_name() -> io::Result<Vec<u8>> {
    Ok([PREFIX, format!("{:016x}", crate::entropy::seed()?).as_bytes()].concat())
}

fn keyed_name(key: u64) -> Vec<u8> {
    [PREFIX, &[RESUMABLE], format!("{key:016x}").as_bytes()].concat()
}

/// Opens and locks a draft that exists; `None` if another process writes it, or if it is not a plain
/// file of ours, which must not become the beginning of one.
fn open_locked(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let name = OsStr::from_bytes(name);
    let file = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
        Err(_) => return Ok(None),
    };
    if fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let about = fs::fstat(&file)?;
    let is_ours = about.st_uid == rustix::process::geteuid().as_raw() && about.st_nlink == 1;
    // It may have been renamed by its writer before the lock was ours.
    let there = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_there = there.is_ok_and(|there| there.st_ino == about.st_ino);
    let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    Ok((is_ours && is_there && is_file).then_some(file))
}

/// Does `work` with `rights`, or with our own.
pub(crate) fn lend<T>(
    rights: Option<&FileRights>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match rights {
        Some(rights) => rights.lend(work),
        None => work(),
    }
}

/// Creates a draft and locks it; `None` if somebody else has the name, or has swept it before the
/// lock was ours.
fn create_locked(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let name = OsStr::from_bytes(name);
    let file = match fs::openat(folder, name, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => File::from(file),
        Err(Errno::EXIST) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        // A file system without locks: nothing is ever swept there by somebody else in time.
        Err(_) => return Ok(Some(file)),
    }
    let ours = fs::fstat(&file)?;
    if ours.st_nlink > 0 {
        return Ok(Some(file));
    }
    // It has no name any more, or the file system counts none.
    let there = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    Ok(there.is_ok_and(|there| there.st_ino == ours.st_ino).then_some(file))
}

/// Returns whether this is a name that only this module uses.
pub(crate) fn is_internal(name: &[u8]) -> bool {
    is_draft(name) || name == KEPT_FOLDER.as_bytes()
}

/// Returns whether this is the name of a draft.
fn is_draft(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// Removes the drafts in `folder` that no process writes, and returns how many. Those that can be
/// resumed stay for a day after their last change.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn sweep(folder: &impl AsFd) -> io::Result<usize> {
    let mut swept = 0;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_draft(name.to_bytes()) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = fs::openat(folder, name, flags, Mode::empty()) else { continue };
        let is_resumable = name.to_bytes().get(PREFIX.len()) == Some(&RESUMABLE);
        if fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && !(is_resumable && is_recent(&File::from(file)))
            && fs::unlinkat(folder, name, AtFlags::empty()).is_ok()
        {
            swept += 1;
        }
    }
    Ok(swept)
}

/// Returns whether a draft was changed within [`RESUMABLE_MAX_AGE`].
fn is_recent(file: &File) -> bool {
    let modified = file.metadata().and_then(|about| about.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < RESUMABLE_MAX_AGE))
}

/// Renames a file within a directory, unless something has the new name.
fn rename_new(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Not every file system has the flag.
        Err(Errno::INVAL | Errno::NOSYS) => {}
        renamed => return Ok(renamed?),
    }
    match fs::statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST.into()),
        Err(_) => Ok(fs::renameat(folder, from, folder, to)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder of the test's own, with the file `name` that says "old".
    pub(super) struct Desk(pub(super) PathBuf);

    impl Desk {
        pub(super) fn new(name: &str) -> Self {
            let seed = crate::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-draft-{name}-{seed:x}"));
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("name"), "old").unwrap();
            Self(path)
        }

        pub(super) fn begin(&self, existing: Existing) -> io::Result<Draft> {
            Draft::begin(self.folder(), b"name", existing)
        }

        pub(super) fn folder(&self) -> OwnedFd {
            File::open(&self.0).unwrap().into()
        }

        pub(super) fn says(&self) -> String {
            std::fs::read_to_string(self.0.join("name")).unwrap()
        }

        pub(super) fn names(&self) -> usize {
            std::fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Ends a draft as a crash does: its lock goes, its name stays.
    fn crash(mut draft: Draft) {
        draft.draft_name = None;
    }

    #[test]
    fn what_is_kept_of_a_draft_is_taken_up_again() {
        let desk = Desk::new("kept");
        let draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        draft.keep_as(b"name.part").unwrap();
        assert_eq!((desk.says(), desk.names()), ("old".to_owned(), 2));
        let folder = desk.folder();
        let draft = Draft::take_up(folder, b"name.part", b"name", Existing::Replace, None);
        let draft = draft.unwrap();
        std::os::unix::fs::FileExt::write_all_at(draft.file(), b"w", 2).unwrap();
        draft.commit_soon().unwrap();
        assert_eq!((desk.says(), desk.names()), ("new".to_owned(), 1));
    }

    #[test]
    fn a_file_that_is_whole_takes_its_name_and_the_permissions_of_the_old_one() {
        use std::os::unix::fs::PermissionsExt;
        let desk = Desk::new("whole");
        let mode = PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(desk.0.join("name"), mode).unwrap();
        let draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        assert_eq!(desk.says(), "old");
        draft.commit().unwrap();
        assert_eq!((desk.says().as_str(), desk.names()), ("new", 1));
        let mode = std::fs::metadata(desk.0.join("name")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_draft_that_is_dropped_is_gone() {
        let desk = Desk::new("dropped");
        let draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        drop(draft);
        assert_eq!((desk.says().as_str(), desk.names()), ("old", 1));
    }

    // attack row 99
    #[test]
    fn a_crash_while_a_draft_is_written_leaves_the_old_file() {
        let desk = Desk::new("crash-early");
        let draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        crash(draft);
        assert_eq!((desk.says().as_str(), desk.names()), ("old", 2));
        assert_eq!(sweep(&desk.folder()).unwrap(), 1);
        assert_eq!((desk.says().as_str(), desk.names()), ("old", 1));
    }

    // attack row 99
    #[test]
    fn a_crash_before_the_rename_leaves_the_old_file() {
        let desk = Desk::new("crash-synced");
        let draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        fs::fsync(&draft.file).unwrap();
        crash(draft);
        assert_eq!(desk.says(), "old");
        assert_eq!(sweep(&desk.folder()).unwrap(), 1);
    }

    // attack row 99
    #[test]
    fn a_crash_behind_the_rename_leaves_the_new_file() {
        let desk = Desk::new("crash-late");
        let mut draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        fs::fsync(&draft.file).unwrap();
        draft.publish().unwrap();
        crash(draft);
        assert_eq!((desk.says().as_str(), desk.names()), ("new", 1));
    }

    fn resumable(desk: &Desk) -> Draft {
        Draft::begin_resumable(desk.folder(), b"name", Existing::Replace, 7).unwrap()
    }

    #[test]
    fn a_crash_leaves_a_draft_that_the_same_key_resumes() {
        let desk = Desk::new("resumed");
        let draft = resumable(&desk);
        draft.file().write_all(b"ne").unwrap();
        crash(draft);
        assert_eq!((sweep(&desk.folder()).unwrap(), desk.names()), (0, 2));
        let draft = resumable(&desk);
        assert_eq!((draft.file().metadata().unwrap().len(), desk.names()), (2, 2));
        std::os::unix::fs::FileExt::write_all_at(draft.file(), b"w", 2).unwrap();
        draft.commit().unwrap();
        assert_eq!((desk.says().as_str(), desk.names()), ("new", 1));
    }

    #[test]
    fn a_draft_of_a_live_process_is_neither_resumed_nor_removed() {
        let desk = Desk::new("live");
        let draft = resumable(&desk);
        draft.file().write_all(b"first").unwrap();
        let other = resumable(&desk);
        assert_eq!(other.file().metadata().unwrap().len(), 0);
        assert_eq!((sweep(&desk.folder()).unwrap(), desk.names()), (0, 3));
        other.keep_as(b"part").unwrap();
        let folder = desk.folder();
        let taken = Draft::take_up(folder, b"part", b"name", Existing::Replace, Some(7)).unwrap();
        drop(taken);
        draft.commit().unwrap();
        assert_eq!((desk.says().as_str(), desk.names()), ("first", 1));
    }

    #[test]
    fn a_draft_that_is_old_is_swept_even_if_it_could_be_resumed() {
        let desk = Desk::new("old");
        let draft = resumable(&desk);
        let then = std::time::SystemTime::now() - RESUMABLE_MAX_AGE * 2;
        draft.file().set_modified(then).unwrap();
        crash(draft);
        assert_eq!((sweep(&desk.folder()).unwrap(), desk.names()), (1, 1));
    }

    #[test]
    fn what_is_taken_up_with_a_key_can_be_resumed_again() {
        let desk = Desk::new("again");
        let draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"ne").unwrap();
        draft.keep_as(b"part").unwrap();
        let folder = desk.folder();
        crash(Draft::take_up(folder, b"part", b"name", Existing::Replace, Some(7)).unwrap());
        assert_eq!(resumable(&desk).file().metadata().unwrap().len(), 2);
    }

    #[test]
    fn a_draft_that_is_being_written_is_not_swept() {
        let desk = Desk::new("busy");
        let draft = desk.begin(Existing::Replace).unwrap();
        assert_eq!(sweep(&desk.folder()).unwrap(), 0);
        draft.file().write_all(b"new").unwrap();
        draft.commit().unwrap();
        assert_eq!(desk.says(), "new");
    }

    #[test]
    fn a_file_that_is_to_be_kept_is_kept_even_if_it_comes_later() {
        let desk = Desk::new("kept");
        assert_eq!(desk.begin(Existing::Keep).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_file(desk.0.join("name")).unwrap();
        let draft = desk.begin(Existing::Keep).unwrap();
        std::fs::write(desk.0.join("name"), "old").unwrap();
        assert_eq!(draft.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((desk.says().as_str(), desk.names()), ("old", 1));
    }
}
