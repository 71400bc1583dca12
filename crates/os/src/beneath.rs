//! A directory tree that names cannot escape: every name is resolved beneath its root.
//!
//! The kernel resolves names (`openat2` with `RESOLVE_BENEATH`): a symbolic link may lead to
//! another directory of the tree but never outside, even if files are renamed meanwhile. If the
//! kernel lacks `openat2`, or a system call filter forbids it, each component is opened separately
//! and no link is followed.
//!
//! Names come from the network: bytes, with `/` between components. Empty components are ignored,
//! so a leading `/` is allowed. A name that contains `..` is refused, but the target of a link
//! inside the tree may contain `..`.
//!
//! A tree can be opened for one user ([`RootDir::open_as`]): then all operations on names have the
//! rights of that user.
//!
//! A file is written as an [`AtomicFile`]: under a temporary name in the same directory, and under
//! its final name when it is complete and on disk.

use crate::atomic_file::lend;
use crate::fs_credentials::FsCredentials;
use rustix::fs::{
    self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

mod interrupted;

pub use crate::atomic_file::{AtomicFile, Existing, sweep};
pub use interrupted::InterruptedDraft;

/// Maximum number of attempts to resolve a name while other processes rename files.
const RESOLUTION_ATTEMPTS_MAX: usize = 128;

/// A directory tree confined to its root.
#[derive(Debug)]
pub struct RootDir {
    root: OwnedFd,
    resolution: Resolution,
    /// Credentials for resolving names; `None` for the credentials of this process.
    credentials: Option<Arc<FsCredentials>>,
    is_in_memory: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// The kernel resolves the name, by `openat2`.
    Beneath,
    /// Each component is opened separately, without following symbolic links.
    ByComponent,
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Any other type: a symbolic link, device or pipe.
    Other,
}

/// Metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Type of the file.
    pub kind: Kind,
    /// Length in bytes.
    pub len: u64,
    /// Time of the last modification, in seconds of Unix time.
    pub modified_s: i64,
    /// Permission bits.
    pub mode: u32,
    /// Number of hard links.
    pub links: u64,
    /// Device number and inode number, which together identify the file.
    pub file_id: (u64, u64),
}

/// Iterator over the entries of a directory, in no particular order and without temporary files.
/// Links are not followed.
#[derive(Debug)]
pub struct Listing {
    directory: OwnedFd,
    names: Dir,
}

impl Iterator for Listing {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.names.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || crate::atomic_file::is_internal(name) {
                continue;
            }
            // The file may have been removed since the directory was read.
            let stat = fs::statat(&self.directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(stat) = stat else { continue };
            return Some(Ok(Entry { name: name.to_vec(), status: Status::of(&stat) }));
        }
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name: any bytes except NUL and `/`.
    pub name: Vec<u8>,
    /// Metadata; links are not followed.
    pub status: Status,
}

impl Status {
    fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        #[allow(clippy::useless_conversion, reason = "the field has 32 bits on some machines")]
        let links = u64::from(stat.st_nlink);
        Self {
            kind,
            len,
            modified_s: stat.st_mtime,
            mode: stat.st_mode & 0o7777,
            links,
            file_id: (stat.st_dev, stat.st_ino),
        }
    }

    /// Returns the metadata of an open file.
    ///
    /// # Errors
    ///
    /// Returns the error of `fstat(2)`.
    pub fn of_file(file: &impl AsFd) -> io::Result<Self> {
        Ok(Self::of(&fs::fstat(file)?))
    }

    /// Returns whether all users of the machine may read the file.
    #[must_use]
    pub const fn is_readable_by_all(self) -> bool {
        self.mode & 0o004 != 0
    }
}

/// All methods return [`io::ErrorKind::CrossesDevices`] for a name that leads outside the root.
impl RootDir {
    /// Opens the tree whose root is `directory`.
    ///
    /// # Errors
    ///
    /// Returns an error if `directory` is not a directory or may not be read.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(directory, flags, Mode::empty())?;
        let resolution = match fs::openat2(&root, ".", PATH_DIRECTORY, Mode::empty(), RESOLVE_FLAGS)
        {
            // ENOSYS: before Linux 5.6. EPERM: a system call filter that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => Resolution::ByComponent,
            _ => Resolution::Beneath,
        };
        let kind = fs::fstatfs(&root).map(|disk| disk.f_type);
        let is_in_memory = kind.is_ok_and(|kind| {
            MEMORY_FILE_SYSTEMS.iter().any(|known| i128::from(*known) == i128::from(kind))
        });
        Ok(Self { root, resolution, credentials: None, is_in_memory })
    }

    /// Opens a tree in which all operations have the rights of one user.
    ///
    /// # Errors
    ///
    /// Returns an error if `directory` is not a directory or the user may not read it.
    pub fn open_as(directory: &Path, credentials: Arc<FsCredentials>) -> io::Result<Self> {
        let root_dir = credentials.lend(|| Self::open(directory))?;
        Ok(Self { credentials: Some(credentials), ..root_dir })
    }

    /// Returns whether the file system is in memory only, so that writing never waits for a disk.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Returns whether `directory` is the root of this tree, even under another path.
    #[must_use]
    pub fn is_root(&self, directory: &Path) -> bool {
        let root_stat = fs::fstat(&self.root);
        let current = fs::stat(directory);
        matches!((root_stat, current), (Ok(root_stat), Ok(current))
            if (root_stat.st_dev, root_stat.st_ino) == (current.st_dev, current.st_ino))
    }

    fn lend<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        lend(self.credentials.as_deref(), work)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call. Returns `EISDIR` for a directory, and `EACCES`
    /// for anything else that is not a regular file.
    pub fn read(&self, name: &[u8]) -> io::Result<(File, Status)> {
        self.file(name, OFlags::RDONLY)
    }

    /// Opens an existing file for writing in place. A crash leaves a partly changed file;
    /// [`Self::create`] replaces a file atomically.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::read`].
    pub fn change(&self, name: &[u8]) -> io::Result<(File, Status)> {
        self.file(name, OFlags::WRONLY)
    }

    fn file(&self, name: &[u8], access: OFlags) -> io::Result<(File, Status)> {
        // The open must not block on a terminal, or on a pipe whose other end is not open.
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.lend(|| Ok(self.resolve(&components(name)?, flags)?))?;
        let file = File::from(file);
        let status = Status::of_file(&file)?;
        match status.kind {
            Kind::File => Ok((file, status)),
            Kind::Directory => Err(Errno::ISDIR.into()),
            Kind::Other => Err(Errno::ACCESS.into()),
        }
    }

    /// Creates a file that gets its name when it is complete.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call. Returns `EEXIST` if a file called `name` exists
    /// and `existing` is [`Existing::Keep`].
    pub fn create(&self, name: &[u8], existing: Existing) -> io::Result<AtomicFile> {
        let draft = self.lend(|| {
            let (directory, leaf) = self.split(name)?;
            AtomicFile::begin(directory, leaf, existing)
        });
        Ok(draft?.with_credentials(self.credentials.clone()))
    }

    /// Creates a file that can be resumed: see [`AtomicFile::begin_resumable`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::create`].
    pub fn create_resumable(
        &self,
        name: &[u8],
        existing: Existing,
        key: u64,
    ) -> io::Result<AtomicFile> {
        let draft = self.lend(|| {
            let (directory, leaf) = self.split(name)?;
            AtomicFile::begin_resumable(directory, leaf, existing, key)
        });
        Ok(draft?.with_credentials(self.credentials.clone()))
    }

    /// Continues the partial file `kept`, which is in the directory of `name`: see
    /// [`AtomicFile::resume_partial`].
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn resume_partial(
        &self,
        kept: &[u8],
        name: &[u8],
        existing: Existing,
        key: Option<u64>,
    ) -> io::Result<AtomicFile> {
        let draft = self.lend(|| {
            let (directory, kept) = self.split(kept)?;
            let (_, name) = self.split(name)?;
            AtomicFile::resume_partial(directory, kept, name, existing, key)
        });
        Ok(draft?.with_credentials(self.credentials.clone()))
    }

    /// Returns the metadata of the file called `name`. Symbolic links are followed if the kernel
    /// resolves names.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn status(&self, name: &[u8]) -> io::Result<Status> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Status::of_file(&self.lend(|| Ok(self.resolve(&components(name)?, flags)?))?)
    }

    /// Returns the metadata of the file called `name`; for a symbolic link, the metadata of the
    /// link itself.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn status_of_name(&self, name: &[u8]) -> io::Result<Status> {
        self.lend(|| {
            let (directory, leaf) = self.split(name)?;
            let leaf = OsStr::from_bytes(leaf);
            Ok(Status::of(&fs::statat(&directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?))
        })
    }

    /// Returns at most `limit` entries of a directory, in no particular order, without temporary
    /// files.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn list(&self, directory: &[u8], limit: usize) -> io::Result<Vec<Entry>> {
        self.entries(directory)?.take(limit).collect()
    }

    /// Returns an iterator over the entries of a directory.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn entries(&self, directory: &[u8]) -> io::Result<Listing> {
        self.lend(|| {
            let directory = self.directory(&components(directory)?)?;
            // Check now that the directory may be searched: the iterator later reads metadata with
            // the rights of the process.
            fs::statat(&directory, c".", AtFlags::empty())?;
            let names = Dir::read_from(&directory)?;
            Ok(Listing { directory, names })
        })
    }

    /// Sets the modification time of a file or directory, in Unix time.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn set_modified(&self, name: &[u8], seconds: i64, nanos: u32) -> io::Result<()> {
        let timespec = |tv_nsec| Timespec { tv_sec: seconds, tv_nsec };
        let omitted = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT };
        let times = Timestamps { last_access: omitted, last_modification: timespec(nanos.into()) };
        self.lend(|| Ok(fs::futimens(self.resolve(&components(name)?, OPEN_FLAGS)?, &times)?))
    }

    /// Sets the nine permission bits of a file or directory; clears set-user-ID, set-group-ID and
    /// sticky bits.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn set_mode(&self, name: &[u8], mode: u16) -> io::Result<()> {
        let mode = Mode::from_raw_mode(u32::from(mode & 0o777));
        self.lend(|| Ok(fs::fchmod(self.resolve(&components(name)?, OPEN_FLAGS)?, mode)?))
    }

    /// Renames a file or directory; a file that has the new name is replaced.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (from_directory, from) = self.split(from)?;
            let (to_directory, to) = self.split(to)?;
            let from = OsStr::from_bytes(from);
            let to = OsStr::from_bytes(to);
            Ok(fs::renameat(from_directory, from, to_directory, to)?)
        })
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn remove_file(&self, name: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (directory, leaf) = self.split(name)?;
            Ok(fs::unlinkat(directory, OsStr::from_bytes(leaf), AtFlags::empty())?)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn remove_directory(&self, name: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (directory, leaf) = self.split(name)?;
            Ok(fs::unlinkat(directory, OsStr::from_bytes(leaf), AtFlags::REMOVEDIR)?)
        })
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub fn create_directory(&self, name: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (directory, leaf) = self.split(name)?;
            Ok(fs::mkdirat(directory, OsStr::from_bytes(leaf), Mode::from_raw_mode(0o777))?)
        })
    }

    /// Removes the temporary files that a crash has left in a directory, and returns their number;
    /// temporary files that are being written are kept.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be read.
    pub fn sweep(&self, directory: &[u8]) -> io::Result<usize> {
        self.lend(|| sweep(&self.directory(&components(directory)?)?))
    }

    /// Returns the number of bytes available to unprivileged users on the file system of the root.
    ///
    /// # Errors
    ///
    /// Returns the error of `fstatvfs(3)`.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let disk = fs::fstatvfs(&self.root)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Opens the directory that contains `name`, and returns it with the last component of `name`.
    fn split<'a>(&self, name: &'a [u8]) -> io::Result<(OwnedFd, &'a [u8])> {
        let components = components(name)?;
        let (leaf, directories) = components.split_last().ok_or(Errno::ISDIR)?;
        Ok((self.directory(directories)?, leaf))
    }

    fn directory(&self, components: &[&[u8]]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(self.resolve(components, flags)?)
    }

    fn resolve(&self, components: &[&[u8]], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.resolution {
            Resolution::Beneath => resolve_beneath(self.root.as_fd(), components, flags),
            Resolution::ByComponent => resolve_by_component(self.root.as_fd(), components, flags),
        }
    }
}

/// File system magic numbers of tmpfs and ramfs.
const MEMORY_FILE_SYSTEMS: [u32; 2] = [0x0102_1994, 0x8584_58f6];
const PATH_DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags for opening a file or directory of any type. The open of a pipe whose other end is not
/// open must not block.
const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const RESOLVE_FLAGS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

fn resolve_beneath(
    root: BorrowedFd<'_>,
    components: &[&[u8]],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let path = match components {
        [] => b".".to_vec(),
        _ => components.join(&b'/'),
    };
    for _ in 0..RESOLUTION_ATTEMPTS_MAX {
        match fs::openat2(root, OsStr::from_bytes(&path), flags, Mode::empty(), RESOLVE_FLAGS) {
            // A file was renamed while a link with `..` was followed.
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    Err(Errno::XDEV)
}

fn resolve_by_component(
    root: BorrowedFd<'_>,
    components: &[&[u8]],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let Some((leaf, directories)) = components.split_last() else {
        return fs::openat(root, ".", flags, Mode::empty());
    };
    let mut opened_directory: Option<OwnedFd> = None;
    let open_at = |parent: &Option<OwnedFd>, name: &[u8], flags: OFlags| {
        let directory = parent.as_ref().map_or(root, |parent| parent.as_fd());
        fs::openat(directory, OsStr::from_bytes(name), flags | OFlags::NOFOLLOW, Mode::empty())
    };
    for directory in directories {
        opened_directory = Some(open_at(&opened_directory, directory, PATH_DIRECTORY)?);
    }
    open_at(&opened_directory, leaf, flags)
}

/// Splits a name into components; empty components and `.` are omitted.
fn components(name: &[u8]) -> Result<Vec<&[u8]>, Errno> {
    if name.contains(&0) {
        return Err(Errno::INVAL);
    }
    let mut components = Vec::new();
    for component in name.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return Err(Errno::XDEV),
            // Temporary files are hidden from callers.
            draft if crate::atomic_file::is_internal(draft) => return Err(Errno::NOENT),
            component => components.push(component),
        }
    }
    Ok(components)
}

#[cfg(test)]
#[path = "beneath_tests.rs"]
mod tests;
