//! Incoming files.
//!
//! An upload that is not committed is kept as a partial upload if a later transfer may continue it.

use super::file_error::file_error;
use super::partial::{Limits, Partials, trim};
use super::space::Space;
use os::beneath::{AtomicFile, Kind, RootDir};
use protocols::ftp::server::{FileError, Placement};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use transfer::ftp_data::{FileSink, SplicePipe};

/// Removes temporary files that uploads left in the directories of a root before a crash, and
/// partial uploads beyond `limits`. Files that cannot be read or removed only use disk space, so
/// errors are ignored.
pub(super) fn sweep(root: &Path, limits: Limits) {
    let Ok(root_dir) = RootDir::open(root) else { return };
    trim(&root_dir, None, limits, None);
    let mut directories = vec![Vec::new()];
    while let Some(directory) = directories.pop() {
        _ = root_dir.sweep(&directory);
        let Ok(entries) = root_dir.entries(&directory) else { continue };
        for entry in entries.flatten() {
            if entry.status.kind == Kind::Directory {
                directories.push([&directory, b"/".as_slice(), &entry.name].concat());
            }
        }
    }
}

/// File that an upload continues, in its state when it was copied.
#[derive(Debug)]
struct ContinuedFile {
    /// Kept open so that its inode number is not reused.
    file: File,
    state: FileState,
    root_dir: Arc<RootDir>,
    name: Vec<u8>,
}

/// Attributes that identify one state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    unique: (u64, u64),
    len_bytes: i64,
    modified: (i64, i64),
}

impl FileState {
    fn from_file(file: &File) -> io::Result<Self> {
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

impl ContinuedFile {
    /// Prevents other uploads that continue the same file from replacing it, as long as `self`
    /// exists.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Changed`] if another upload has locked the file, if the name now refers
    /// to another file, or if the file has changed. In these cases, committing the upload would
    /// discard changes made by others.
    fn lock(&self) -> Result<(), FileError> {
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(FileError::Changed);
        }
        // Without file locks, a race remains between this check and the rename.
        let now = self.root_dir.read(&self.name).and_then(|(file, _)| FileState::from_file(&file));
        if now.is_ok_and(|now| now == self.state) { Ok(()) } else { Err(FileError::Changed) }
    }
}

/// Storage of the partial upload of an interrupted transfer.
#[derive(Debug)]
struct PartialTarget {
    partials: Arc<Partials>,
    path: Vec<u8>,
}

/// Incoming file. On drop, the file is kept as a partial upload, or removed and its space released.
#[derive(Debug)]
pub(super) struct Upload {
    atomic_file: Option<AtomicFile>,
    space: Option<Arc<Space>>,
    file_max_bytes: u64,
    len_bytes: u64,
    /// Bytes received on the connection.
    received_bytes: u64,
    /// `None` if the received data must not be continued.
    partial: Option<PartialTarget>,
    waits_for_disk: bool,
    /// Name chosen by the server.
    name: Option<Vec<u8>>,
    /// File that this upload continues.
    continued_file: Option<Box<ContinuedFile>>,
    /// Set while the file has its final name and the upload can still be withdrawn.
    placed_file: Option<PlacedFile>,
}

/// State of an upload whose file has its final name and can be withdrawn.
#[derive(Clone, Copy, Debug)]
struct PlacedFile {
    len_bytes: u64,
    /// Length of the replaced file in bytes.
    replaced_bytes: Option<u64>,
}

impl Upload {
    pub(super) fn new(
        atomic_file: AtomicFile,
        space: Option<Arc<Space>>,
        file_max_bytes: u64,
    ) -> Self {
        let atomic_file = Some(atomic_file);
        let len_bytes = 0;
        let received_bytes = 0;
        let waits_for_disk = true;
        let partial = None;
        let name = None;
        let continued_file = None;
        let placed_file = None;
        Self {
            atomic_file,
            space,
            file_max_bytes,
            len_bytes,
            received_bytes,
            partial,
            waits_for_disk,
            name,
            continued_file,
            placed_file,
        }
    }

    /// Keeps the upload among `partials` if it is dropped.
    pub(super) fn with_partials(self, partials: Option<&Arc<Partials>>, path: Vec<u8>) -> Self {
        let mut upload = self;
        upload.partial =
            partials.map(|partials| PartialTarget { partials: Arc::clone(partials), path });
        upload
    }

    /// Records that the file already contains the first `len` of the `stored` bytes of a partial
    /// upload.
    pub(super) fn with_resumed_bytes(self, stored: u64, len: u64) -> Self {
        let mut upload = self;
        upload.len_bytes = len;
        if let Some(space) = &upload.space {
            space.resume(stored, len);
        }
        upload
    }

    /// Marks the received data as unusable, so that no partial upload is kept.
    pub(super) fn mark_unusable(&mut self) {
        self.partial = None;
    }

    /// Sets the name chosen by the server.
    pub(super) fn with_server_name(self, name: Vec<u8>) -> Self {
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
        let Some(atomic_file) = &self.atomic_file else { return Err(FileError::Local) };
        let private = Mode::RUSR | Mode::WUSR;
        let result = atomic_file.fill(|file| Ok(rustix::fs::fchmod(file, private)?));
        result.map_err(|error| file_error(&error))
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.charge(bytes.len() as u64)?;
        let Some(atomic_file) = &self.atomic_file else { return Err(FileError::Local) };
        let write_result = atomic_file.write_all(bytes).map_err(|error| file_error(&error));
        self.note_received(bytes.len(), write_result)
    }

    /// Counts received bytes. After a failed write the content may not be a prefix of the file, so
    /// no partial upload is kept.
    fn note_received(
        &mut self,
        count: usize,
        write_result: Result<(), FileError>,
    ) -> Result<(), FileError> {
        match write_result {
            Ok(()) => self.received_bytes += count as u64,
            Err(_) => self.mark_unusable(),
        }
        write_result
    }

    /// Copies the first `len` bytes of the file `name`. Later writes continue after the copied
    /// bytes.
    pub(super) fn continue_from(
        &mut self,
        file: File,
        len: u64,
        root_dir: &Arc<RootDir>,
        name: &[u8],
    ) -> Result<(), FileError> {
        let to_file_error = |error| file_error(&error);
        // No partial upload is needed, because the client can continue the existing file.
        self.mark_unusable();
        // Recorded before the file is read, so that later changes are detected.
        let state = FileState::from_file(&file).map_err(to_file_error)?;
        self.copy(file.try_clone().map_err(to_file_error)?, len)?;
        let root_dir = Arc::clone(root_dir);
        let name = name.to_vec();
        self.continued_file = Some(Box::new(ContinuedFile { file, state, root_dir, name }));
        Ok(())
    }

    /// Copies the first `len` bytes of another file.
    pub(super) fn copy(&mut self, from: File, len: u64) -> Result<(), FileError> {
        self.charge(len)?;
        let Some(atomic_file) = &self.atomic_file else { return Err(FileError::Local) };
        match atomic_file.fill(|to| copy(from, len, to)) {
            Ok(copied) if copied == len => Ok(()),
            Ok(_) => Err(FileError::Local),
            Err(error) => Err(file_error(&error)),
        }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), FileError> {
        let result = match (&self.space, self.file_max_bytes.saturating_sub(self.len_bytes)) {
            (_, room) if bytes > room => Err(FileError::Limit),
            (Some(space), _) => space.reserve(bytes),
            (None, _) => Ok(()),
        };
        match result {
            Ok(()) => self.len_bytes += bytes,
            // A partial upload would use the space that is missing.
            Err(_) => self.mark_unusable(),
        }
        result
    }

    /// Starts writing received data to the disk in another thread.
    pub(super) fn start_sync(&self) {
        let file =
            self.atomic_file.as_ref().and_then(|atomic_file| atomic_file.file().try_clone().ok());
        if let Some(file) = file {
            // An error is ignored, because it recurs in the final sync.
            tokio::task::spawn_blocking(move || rustix::fs::fdatasync(&file));
        }
    }

    /// Returns whether [`Self::commit`] waits for a disk.
    pub(super) const fn waits_for_disk(&self) -> bool {
        self.waits_for_disk
    }

    /// Sets whether the file system is in memory, without a disk to wait for.
    pub(super) const fn with_memory_storage(self, is_in_memory: bool) -> Self {
        let mut upload = self;
        upload.waits_for_disk = !is_in_memory;
        upload
    }

    /// Returns the current length of the file in bytes.
    pub(super) const fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Excludes the bytes written so far from the count of received bytes.
    pub(super) fn reset_received_bytes(&mut self) {
        self.received_bytes = 0;
    }

    /// Gives the file its final name. Waits for the disk.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system, or [`FileError::Changed`] if the file that the upload
    /// continues has changed.
    pub(super) fn commit(mut self) -> Result<(), FileError> {
        let partial = self.partial.take();
        self.store(AtomicFile::take_name)?.map_err(|error| file_error(&error))?;
        // The file has its name now.
        self.atomic_file = None;
        if let Some(partial) = partial {
            partial.partials.remove(&partial.path);
        }
        Ok(())
    }

    /// Gives the file its final name. [`Self::withdraw`] can undo this until
    /// [`Self::make_permanent`] makes it permanent; dropping `self` also makes it permanent. Waits
    /// for the disk.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::commit`].
    pub(super) fn place(&mut self) -> Result<Placement, FileError> {
        let len_bytes = self.len_bytes;
        match self.store(AtomicFile::replace_provisionally)? {
            Ok(replaced_bytes) => {
                self.placed_file = Some(PlacedFile { len_bytes, replaced_bytes });
                Ok(Placement::Revocable)
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Placement::Unsupported),
            Err(error) => Err(file_error(&error)),
        }
    }

    /// Makes the name of a placed file permanent. Returns a descriptor of the replaced file, whose
    /// blocks are freed when the descriptor is closed.
    pub(super) fn make_permanent(mut self) -> Option<OwnedFd> {
        if let Some(partial) = self.partial.take() {
            partial.partials.remove(&partial.path);
        }
        self.atomic_file.take().and_then(AtomicFile::confirm_replacement)
    }

    /// Withdraws a placed file: the name refers to the previous file again, if any, and the upload
    /// is uncommitted. If another file has taken the name meanwhile, that file remains.
    pub(super) fn withdraw(&mut self) {
        let (Some(atomic_file), Some(placed_file)) =
            (&mut self.atomic_file, self.placed_file.take())
        else {
            return;
        };
        let result = match &self.space {
            Some(space) => {
                space.withdraw(placed_file.len_bytes, placed_file.replaced_bytes, || {
                    atomic_file.undo_replacement()
                })
            }
            None => atomic_file.undo_replacement(),
        };
        match result {
            Ok(()) => self.len_bytes = placed_file.len_bytes,
            Err(_) => self.mark_unusable(),
        }
    }

    /// Calls `name`, which gives the file its final name. Returns the length in bytes of the
    /// replaced file, or the error of `name`.
    fn store(
        &mut self,
        name: impl FnOnce(&mut AtomicFile) -> io::Result<()>,
    ) -> Result<io::Result<Option<u64>>, FileError> {
        let Some(atomic_file) = &mut self.atomic_file else { return Err(FileError::Local) };
        let to_file_error = |error| file_error(&error);
        if self.waits_for_disk {
            // The sync precedes the check of the continued file, so that the time between the check
            // and the rename is short.
            atomic_file.sync().map_err(to_file_error)?;
        }
        if let Some(continued_file) = &self.continued_file {
            continued_file.lock()?;
        }
        let mut replaced_bytes = None;
        let result = match &self.space {
            Some(space) => space.store(self.len_bytes, |may_add| {
                replaced_bytes = atomic_file.replaced_bytes();
                if replaced_bytes.is_none() {
                    may_add()?;
                }
                name(atomic_file).map(|()| replaced_bytes)
            }),
            None => name(atomic_file),
        };
        if let Err(error) = result {
            return Ok(Err(error));
        }
        // The space belongs to the stored file now.
        self.len_bytes = 0;
        if self.waits_for_disk {
            atomic_file.sync_name().map_err(to_file_error)?;
        }
        Ok(Ok(replaced_bytes))
    }
}

impl FileSink for Upload {
    type Error = FileError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        Self::write(self, bytes)
    }

    fn write_pipe(&mut self, pipe: &mut SplicePipe) -> Result<bool, FileError> {
        let count = pipe.buffered_bytes();
        self.charge(count as u64)?;
        let Some(atomic_file) = &self.atomic_file else { return Err(FileError::Local) };
        let result = atomic_file.fill(|file| pipe.drain_to(file));
        let is_supported = *result.as_ref().unwrap_or(&true);
        let write_result = result.map(drop).map_err(|error| file_error(&error));
        self.note_received(count, write_result).map(|()| is_supported)
    }

    fn file_bytes(&self) -> u64 {
        self.received_bytes
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn discard(&mut self) {
        self.mark_unusable();
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(partial), Some(atomic_file), 1..) =
            (&self.partial, self.atomic_file.take(), self.len_bytes)
            && partial.partials.keep(atomic_file, &partial.path, self.len_bytes)
        {
            return;
        }
        if let Some(space) = &self.space {
            space.release(self.len_bytes);
        }
    }
}

/// Copies at most `len` bytes of `from` to `to`.
fn copy(from: File, len: u64, mut to: &File) -> io::Result<u64> {
    let copied_bytes = io::copy(&mut from.take(len), &mut to)?;
    to.flush()?;
    Ok(copied_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::beneath::Existing;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plumb-upload-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn uploads_respect_the_quota_and_a_failed_upload_releases_its_space() {
        let path = directory("quota");
        std::fs::write(path.join("old"), [0; 40]).unwrap();
        let root_dir = RootDir::open(&path).unwrap();
        let space = Arc::new(Space::open(&root_dir, 100));
        assert_eq!(space.left_bytes(), 60);
        let begin = |name: &[u8]| {
            let atomic_file = root_dir.create(name, Existing::Replace).unwrap();
            Upload::new(atomic_file, Some(Arc::clone(&space)), u64::MAX)
        };
        let mut first = begin(b"a");
        let mut second = begin(b"old");
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
    fn a_second_upload_that_continues_the_same_file_is_refused() {
        let path = directory("two");
        std::fs::write(path.join("file"), b"old").unwrap();
        let root_dir = Arc::new(RootDir::open(&path).unwrap());
        let begin = |text: &[u8]| {
            let atomic_file = root_dir.create(b"file", Existing::Replace).unwrap();
            let mut upload = Upload::new(atomic_file, None, 100);
            let (file, status) = root_dir.read(b"file").unwrap();
            upload.continue_from(file, status.len, &root_dir, b"file").unwrap();
            upload.write(text).unwrap();
            upload
        };
        let first = begin(b"er");
        let second = begin(b"est");
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
    fn each_replacing_upload_releases_the_size_of_the_replaced_file() {
        let path = directory("replace");
        std::fs::write(path.join("file"), [0; 50]).unwrap();
        let root_dir = RootDir::open(&path).unwrap();
        let space = Arc::new(Space::open(&root_dir, 100));
        // All uploads begin while the large file exists.
        let uploads: Vec<Upload> = (0..4)
            .map(|_| {
                let atomic_file = root_dir.create(b"file", Existing::Replace).unwrap();
                let mut upload = Upload::new(atomic_file, Some(Arc::clone(&space)), u64::MAX);
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
    fn a_placed_upload_is_withdrawn_or_kept_together_with_its_space() {
        let path = directory("placed");
        std::fs::write(path.join("old"), [0; 40]).unwrap();
        let root_dir = RootDir::open(&path).unwrap();
        let space = Arc::new(Space::open(&root_dir, 100));
        let place = |name: &[u8]| {
            let atomic_file = root_dir.create(name, Existing::Replace).unwrap();
            let mut upload = Upload::new(atomic_file, Some(Arc::clone(&space)), u64::MAX);
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
            assert!(place(name).make_permanent().is_none());
            assert_eq!(space.left_bytes(), left_bytes);
        }
        // On drop the placed file remains too, because the client has the reply.
        drop(place(b"new"));
        assert_eq!((space.left_bytes(), std::fs::read_dir(&path).unwrap().count()), (80, 2));
        space.recount(&root_dir);
        assert_eq!(space.left_bytes(), 80);
        std::fs::remove_dir_all(&path).unwrap();
    }

    // attack row 99
    #[test]
    fn an_uncommitted_upload_leaves_the_old_file_unchanged() {
        let path = directory("old");
        std::fs::write(path.join("file"), b"old").unwrap();
        let root_dir = RootDir::open(&path).unwrap();
        let atomic_file = root_dir.create(b"file", Existing::Replace).unwrap();
        let mut upload = Upload::new(atomic_file, None, 5);
        upload.write(b"new").unwrap();
        assert_eq!(upload.write(b"er"), Ok(()));
        assert_eq!(upload.write(b"!"), Err(FileError::Limit));
        drop(upload);
        assert_eq!(std::fs::read(path.join("file")).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
