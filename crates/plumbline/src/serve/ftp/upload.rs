//! Incoming files.
//!
//! An upload that is not committed is kept as a partial upload if it may be continued.

use super::partial::{Limits, Partials, trim};
use super::space::Space;
use super::tree::{copy, file_error};
use os::jail::{Draft, Jail, Kind};
use protocols::application::ftp::server::{FileError, Placement};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use rustix::pipe::{self, SpliceFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Removes temporary files that uploads left in the directories of a root before a crash, and
/// partial uploads beyond `limits`. Files that cannot be read or removed only take space and are
/// left.
pub(super) fn sweep(root: &Path, limits: Limits) {
    let Ok(jail) = Jail::open(root) else { return };
    trim(&jail, None, limits, None);
    let mut folders = vec![Vec::new()];
    while let Some(folder) = folders.pop() {
        _ = jail.sweep(&folder);
        let Ok(entries) = jail.entries(&folder) else { continue };
        for entry in entries.flatten() {
            if entry.status.kind == Kind::Folder {
                folders.push([&folder, b"/".as_slice(), &entry.name].concat());
            }
        }
    }
}

/// File that an upload continues, in its state when it was copied.
#[derive(Debug)]
struct Copied {
    /// Kept open so that its inode number is not reused.
    file: File,
    seen: Seen,
    jail: Arc<Jail>,
    name: Vec<u8>,
}

/// Attributes that identify one state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    unique: (u64, u64),
    len_bytes: i64,
    modified: (i64, i64),
}

impl Seen {
    fn of(file: &File) -> io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        #[allow(clippy::useless_conversion, reason = "it is another type on some machines")]
        let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Ok(Self {
            unique: (stat.st_dev, stat.st_ino),
            len_bytes: stat.st_size,
            modified: (stat.st_mtime, nanos),
        })
    }
}

impl Copied {
    /// Prevents other uploads that continue the same file from taking its name, as long as `self`
    /// exists.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Changed`] if another upload holds the file, or if the name refers to
    /// another file or another state of it. Committing would lose that data.
    fn hold(&self) -> Result<(), FileError> {
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(FileError::Changed);
        }
        // Without file locks, a race remains between this check and the rename.
        let now = self.jail.read(&self.name).and_then(|(file, _)| Seen::of(&file));
        if now.is_ok_and(|now| now == self.seen) { Ok(()) } else { Err(FileError::Changed) }
    }
}

/// Place for the partial upload of an interrupted transfer.
#[derive(Debug)]
struct Kept {
    partials: Arc<Partials>,
    path: Vec<u8>,
}

/// Incoming file. On drop it is kept as a partial upload, or removed and its space released.
#[derive(Debug)]
pub(super) struct Upload {
    draft: Option<Draft>,
    space: Option<Arc<Space>>,
    file_max_bytes: u64,
    len_bytes: u64,
    /// Bytes received on the connection.
    received_bytes: u64,
    /// `None` if the received data must not be continued.
    kept: Option<Kept>,
    waits_for_disk: bool,
    /// Name chosen by the server.
    name: Option<Vec<u8>>,
    /// File that this upload continues.
    copied: Option<Box<Copied>>,
    /// Set while the upload is in place and can be withdrawn.
    placed: Option<Placed>,
}

/// Upload in place.
#[derive(Clone, Copy, Debug)]
struct Placed {
    len_bytes: u64,
    /// Length of the replaced file in bytes.
    replaced_bytes: Option<u64>,
}

impl Upload {
    pub(super) fn new(draft: Draft, space: Option<Arc<Space>>, file_max_bytes: u64) -> Self {
        let (draft, len_bytes, received_bytes, waits_for_disk) = (Some(draft), 0, 0, true);
        let (kept, name, copied, placed) = (None, None, None, None);
        Self {
            draft,
            space,
            file_max_bytes,
            len_bytes,
            received_bytes,
            kept,
            waits_for_disk,
            name,
            copied,
            placed,
        }
    }

    /// Keeps the upload among `partials` if it is dropped.
    pub(super) fn kept_in(self, partials: Option<&Arc<Partials>>, path: Vec<u8>) -> Self {
        let mut upload = self;
        upload.kept = partials.map(|partials| Kept { partials: Arc::clone(partials), path });
        upload
    }

    /// Notes that the draft contains the first `len` of the `stored` bytes of a partial upload.
    pub(super) fn resumed(self, stored: u64, len: u64) -> Self {
        let mut upload = self;
        upload.len_bytes = len;
        if let Some(space) = &upload.space {
            space.resume(stored, len);
        }
        upload
    }

    /// Marks the received data as unusable, so that it is not kept.
    pub(super) fn spoil(&mut self) {
        self.kept = None;
    }

    /// Sets the name chosen by the server.
    pub(super) fn named(self, name: Vec<u8>) -> Self {
        let mut upload = self;
        upload.name = Some(name);
        upload
    }

    /// Returns the name if the server has chosen it.
    pub(super) fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    /// Makes the file accessible to its owner only, independent of the umask.
    pub(super) fn make_private(&self) -> Result<(), FileError> {
        let Some(draft) = &self.draft else { return Err(FileError::Local) };
        let private = Mode::RUSR | Mode::WUSR;
        let made = draft.fill(|file| Ok(rustix::fs::fchmod(file, private)?));
        made.map_err(|error| file_error(&error))
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.charge(bytes.len() as u64)?;
        let Some(draft) = &self.draft else { return Err(FileError::Local) };
        let written = draft.write_all(bytes).map_err(|error| file_error(&error));
        self.note_received(bytes.len(), written)
    }

    /// Counts received bytes. After a failed write the content may not be a prefix of the file, so
    /// it is not kept.
    fn note_received(
        &mut self,
        count: usize,
        written: Result<(), FileError>,
    ) -> Result<(), FileError> {
        match written {
            Ok(()) => self.received_bytes += count as u64,
            Err(_) => self.spoil(),
        }
        written
    }

    /// Appends the next `count` bytes of a pipe, which must contain them.
    pub(super) fn write_from(&mut self, pipe: &impl AsFd, count: usize) -> Result<(), FileError> {
        self.charge(count as u64)?;
        let Some(draft) = &self.draft else { return Err(FileError::Local) };
        let moved = draft.fill(|file| {
            let mut left = count;
            while left > 0 {
                match pipe::splice(pipe, None, file, None, left, SpliceFlags::MOVE) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(moved) => left -= moved.min(left),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        });
        let written = moved.map_err(|error| file_error(&error));
        self.note_received(count, written)
    }

    /// Copies the first `len` bytes of the file `name`, and continues after them.
    pub(super) fn go_on_from(
        &mut self,
        file: File,
        len: u64,
        jail: &Arc<Jail>,
        name: &[u8],
    ) -> Result<(), FileError> {
        let local = |error| file_error(&error);
        // The existing file can be continued instead.
        self.spoil();
        // Recorded before the file is read, so that later changes are detected.
        let seen = Seen::of(&file).map_err(local)?;
        self.copy(file.try_clone().map_err(local)?, len)?;
        let (jail, name) = (Arc::clone(jail), name.to_vec());
        self.copied = Some(Box::new(Copied { file, seen, jail, name }));
        Ok(())
    }

    /// Copies the first `len` bytes of another file.
    pub(super) fn copy(&mut self, from: File, len: u64) -> Result<(), FileError> {
        self.charge(len)?;
        let Some(draft) = &self.draft else { return Err(FileError::Local) };
        match draft.fill(|to| copy(from, len, to)) {
            Ok(copied) if copied == len => Ok(()),
            Ok(_) => Err(FileError::Local),
            Err(error) => Err(file_error(&error)),
        }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), FileError> {
        let charged = match (&self.space, self.file_max_bytes.saturating_sub(self.len_bytes)) {
            (_, room) if bytes > room => Err(FileError::Limit),
            (Some(space), _) => space.take(bytes),
            (None, _) => Ok(()),
        };
        match charged {
            Ok(()) => self.len_bytes += bytes,
            // A kept upload would use the space that is missing.
            Err(_) => self.spoil(),
        }
        charged
    }

    /// Starts writing received data to the disk in another thread.
    pub(super) fn begin_to_sync(&self) {
        let file = self.draft.as_ref().and_then(|draft| draft.file().try_clone().ok());
        if let Some(file) = file {
            // An error here recurs in the final sync.
            tokio::task::spawn_blocking(move || rustix::fs::fdatasync(&file));
        }
    }

    /// Returns whether [`Self::commit`] waits for a disk.
    pub(super) const fn waits_for_disk(&self) -> bool {
        self.waits_for_disk
    }

    /// Sets whether the file system is in memory, without a disk to wait for.
    pub(super) const fn in_memory(self, is_in_memory: bool) -> Self {
        let mut upload = self;
        upload.waits_for_disk = !is_in_memory;
        upload
    }

    /// Returns the current length of the file in bytes.
    pub(super) const fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the number of bytes received on the connection.
    pub(super) const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Excludes the bytes written so far from the count of received bytes.
    pub(super) fn begin_to_receive(&mut self) {
        self.received_bytes = 0;
    }

    /// Gives the file its name. Waits for the disk.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system, or [`FileError::Changed`] if the file that the upload
    /// continues has changed.
    pub(super) fn commit(mut self) -> Result<(), FileError> {
        let kept = self.kept.take();
        self.store(Draft::take_name)?.map_err(|error| file_error(&error))?;
        // The file has its name now.
        self.draft = None;
        if let Some(kept) = kept {
            kept.partials.remove(&kept.path);
        }
        Ok(())
    }

    /// Gives the file its name until [`Self::settle`] or [`Self::withdraw`]; dropping settles it.
    /// Waits for the disk.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::commit`].
    pub(super) fn place(&mut self) -> Result<Placement, FileError> {
        let len_bytes = self.len_bytes;
        match self.store(Draft::place)? {
            Ok(replaced_bytes) => {
                self.placed = Some(Placed { len_bytes, replaced_bytes });
                Ok(Placement::Revocable)
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Placement::Unsupported),
            Err(error) => Err(file_error(&error)),
        }
    }

    /// Makes a placed file final. Returns the file that it replaced, whose blocks are freed when it
    /// is closed.
    pub(super) fn settle(mut self) -> Option<OwnedFd> {
        if let Some(kept) = self.kept.take() {
            kept.partials.remove(&kept.path);
        }
        self.draft.take().and_then(Draft::settle)
    }

    /// Takes a placed file back: the name refers to the previous file again, if any, and the upload
    /// is uncommitted. If another file has taken the name meanwhile, that file remains.
    pub(super) fn withdraw(&mut self) {
        let (Some(draft), Some(placed)) = (&mut self.draft, self.placed.take()) else { return };
        let withdrawn = match &self.space {
            Some(space) => {
                space.withdraw(placed.len_bytes, placed.replaced_bytes, || draft.withdraw())
            }
            None => draft.withdraw(),
        };
        match withdrawn {
            Ok(()) => self.len_bytes = placed.len_bytes,
            Err(_) => self.spoil(),
        }
    }

    /// Gives the file its name with `name`. Returns the length in bytes of the file that it
    /// replaces, or the error of `name`.
    fn store(
        &mut self,
        name: impl FnOnce(&mut Draft) -> io::Result<()>,
    ) -> Result<io::Result<Option<u64>>, FileError> {
        let Some(draft) = &mut self.draft else { return Err(FileError::Local) };
        let local = |error| file_error(&error);
        if self.waits_for_disk {
            // Before the check of the continued file, to keep the time until the rename short.
            draft.sync().map_err(local)?;
        }
        if let Some(copied) = &self.copied {
            copied.hold()?;
        }
        let mut replaced = None;
        let stored = match &self.space {
            Some(space) => space.store(self.len_bytes, |may_add| {
                replaced = draft.replaced_bytes();
                if replaced.is_none() {
                    may_add()?;
                }
                name(draft).map(|()| replaced)
            }),
            None => name(draft),
        };
        if let Err(error) = stored {
            return Ok(Err(error));
        }
        // The space belongs to the stored file now.
        self.len_bytes = 0;
        if self.waits_for_disk {
            draft.sync_name().map_err(local)?;
        }
        Ok(Ok(replaced))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(kept), Some(draft), 1..) = (&self.kept, self.draft.take(), self.len_bytes)
            && kept.partials.keep(draft, &kept.path, self.len_bytes)
        {
            return;
        }
        if let Some(space) = &self.space {
            space.give_back(self.len_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::jail::Existing;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plumb-upload-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_quota_holds_while_files_come_in_and_an_upload_that_fails_gives_its_room_back() {
        let path = folder("quota");
        std::fs::write(path.join("old"), [0; 40]).unwrap();
        let jail = Jail::open(&path).unwrap();
        let space = Arc::new(Space::of(&jail, 100));
        assert_eq!(space.left_bytes(), 60);
        let begin = |name: &[u8]| {
            let draft = jail.create(name, Existing::Replace).unwrap();
            Upload::new(draft, Some(Arc::clone(&space)), u64::MAX)
        };
        let (mut first, mut second) = (begin(b"a"), begin(b"old"));
        first.write(&[1; 30]).unwrap();
        second.write(&[1; 30]).unwrap();
        assert_eq!(first.write(&[1]), Err(FileError::Quota));
        drop(first);
        assert_eq!(space.left_bytes(), 30);
        second.commit().unwrap();
        assert_eq!(space.left_bytes(), 70);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn of_two_who_go_on_from_one_file_the_second_is_refused_and_nothing_is_lost() {
        let path = folder("two");
        std::fs::write(path.join("file"), b"old").unwrap();
        let jail = Arc::new(Jail::open(&path).unwrap());
        let begin = |text: &[u8]| {
            let draft = jail.create(b"file", Existing::Replace).unwrap();
            let mut upload = Upload::new(draft, None, 100);
            let (file, status) = jail.read(b"file").unwrap();
            upload.go_on_from(file, status.len, &jail, b"file").unwrap();
            upload.write(text).unwrap();
            upload
        };
        let (first, second) = (begin(b"er"), begin(b"est"));
        assert_eq!((first.commit(), second.commit()), (Ok(()), Err(FileError::Changed)));
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"older");
        let third = begin(b"!");
        std::fs::write(path.join("file"), b"other").unwrap();
        assert_eq!(third.commit(), Err(FileError::Changed));
        begin(b"!").commit().unwrap();
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"other!");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        std::fs::remove_dir_all(&path).unwrap();
    }

    // attack row 128
    #[test]
    fn of_uploads_that_replace_one_file_each_gives_back_what_the_one_before_it_has_left() {
        let path = folder("replace");
        std::fs::write(path.join("file"), [0; 50]).unwrap();
        let jail = Jail::open(&path).unwrap();
        let space = Arc::new(Space::of(&jail, 100));
        // All uploads begin while the large file exists.
        let uploads: Vec<Upload> = (0..4)
            .map(|_| {
                let draft = jail.create(b"file", Existing::Replace).unwrap();
                let mut upload = Upload::new(draft, Some(Arc::clone(&space)), u64::MAX);
                upload.write(&[1]).unwrap();
                upload
            })
            .collect();
        assert_eq!(space.left_bytes(), 46);
        uploads.into_iter().for_each(|upload| upload.commit().unwrap());
        assert_eq!(space.left_bytes(), 99);
        std::fs::remove_dir_all(&path).unwrap();
    }

    // attack row 126
    #[test]
    fn what_was_placed_is_taken_back_with_its_room_or_stays_with_it() {
        let path = folder("placed");
        std::fs::write(path.join("old"), [0; 40]).unwrap();
        let jail = Jail::open(&path).unwrap();
        let space = Arc::new(Space::of(&jail, 100));
        let place = |name: &[u8]| {
            let draft = jail.create(name, Existing::Replace).unwrap();
            let mut upload = Upload::new(draft, Some(Arc::clone(&space)), u64::MAX);
            upload.write(&[1; 10]).unwrap();
            assert_eq!(upload.place(), Ok(Placement::Revocable));
            assert_eq!(std::fs::read(path.join(OsStr::from_bytes(name))).unwrap(), [1; 10]);
            upload
        };
        for (name, left_bytes, old) in [(&b"new"[..], 60, None), (b"old", 60, Some(vec![0; 40]))] {
            let mut upload = place(name);
            upload.withdraw();
            drop(upload);
            assert_eq!(space.left_bytes(), left_bytes);
            assert_eq!(std::fs::read(path.join(OsStr::from_bytes(name))).ok(), old);
        }
        for (name, left_bytes) in [(&b"new"[..], 50), (b"old", 80)] {
            assert!(place(name).settle().is_none());
            assert_eq!(space.left_bytes(), left_bytes);
        }
        // On drop it remains too, because the client has the reply.
        drop(place(b"new"));
        assert_eq!((space.left_bytes(), std::fs::read_dir(&path).unwrap().count()), (80, 2));
        space.recount(&jail);
        assert_eq!(space.left_bytes(), 80);
        std::fs::remove_dir_all(&path).unwrap();
    }

    // attack row 99
    #[test]
    fn what_is_not_committed_leaves_the_old_file_and_nothing_else() {
        let path = folder("old");
        std::fs::write(path.join("file"), b"old").unwrap();
        let jail = Jail::open(&path).unwrap();
        let draft = jail.create(b"file", Existing::Replace).unwrap();
        let mut upload = Upload::new(draft, None, 5);
        upload.write(b"new").unwrap();
        assert_eq!(upload.write(b"er"), Ok(()));
        assert_eq!(upload.write(b"!"), Err(FileError::Limit));
        drop(upload);
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
