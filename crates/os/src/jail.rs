//! A folder that nobody leaves: every name is looked up beneath it.
//!
//! The kernel walks (`openat2` with `RESOLVE_BENEATH`): a symbolic link may lead to another place
//! in the jail, and to none outside, whatever is renamed meanwhile. Where the kernel has no such
//! call, or a filter forbids it, each component is opened by itself and no link is followed.
//!
//! Names are those of a network: bytes, with `/` between components, of which the first may be
//! empty. `..` is refused as such: a link inside may have it, a name from outside may not.
//!
//! A jail may be one user's ([`Jail::open_as`]): then all that names a file is done with his rights.
//!
//! A file is written as a [`Draft`]: under another name in the same folder, and under its own when
//! it is whole and on the disk.

use crate::draft::lend;
use crate::file_rights::FileRights;
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

mod kept;

pub use crate::draft::{Draft, Existing, sweep};
pub use kept::Kept;

/// How often a walk is begun again that a rename has disturbed.
const ATTEMPTS: usize = 128;

/// A folder, and all that is beneath it.
#[derive(Debug)]
pub struct Jail {
    root: OwnedFd,
    walk: Walk,
    /// Who looks names up, if not whoever runs this.
    rights: Option<Arc<FileRights>>,
    is_in_memory: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// By `openat2`.
    Beneath,
    /// One component after the other, without links.
    ByComponent,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file of bytes.
    File,
    /// A folder.
    Folder,
    /// Anything else: a link, a device, a pipe.
    Other,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file.
    pub len: u64,
    /// When it was changed, in seconds of Unix time.
    pub modified_s: i64,
    /// The permission bits.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    /// What is the same for two names of one file: the device, and the number of the file there.
    pub unique: (u64, u64),
}

/// The names of a folder, read as they are asked for, in no order and without drafts. Links are not
/// followed.
#[derive(Debug)]
pub struct Listing {
    folder: OwnedFd,
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
            if matches!(name, b"." | b"..") || crate::draft::is_internal(name) {
                continue;
            }
            // It may have gone since.
            let stat = fs::statat(&self.folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(stat) = stat else { continue };
            return Some(Ok(Entry { name: name.to_vec(), status: Status::of(&stat) }));
        }
    }
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, any bytes but NUL and `/`.
    pub name: Vec<u8>,
    /// What it is; links are not followed.
    pub status: Status,
}

impl Status {
    fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            _ => Kind::Other,
        };
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        #[allow(clippy::useless_conversion, reason = "it is of 32 bits on some machines")]
        let links = u64::from(stat.st_nlink);
        Self {
            kind,
            len,
            modified_s: stat.st_mtime,
            mode: stat.st_mode & 0o7777,
            links,
            unique: (stat.st_dev, stat.st_ino),
        }
    }

    /// Returns what is known of an open file.
    ///
    /// # Errors
    ///
    /// What `fstat` says.
    pub fn of_file(file: &impl AsFd) -> io::Result<Self> {
        Ok(Self::of(&fs::fstat(file)?))
    }

    /// Returns whether everybody on the machine may read it.
    #[must_use]
    pub const fn is_readable_by_all(self) -> bool {
        self.mode & 0o004 != 0
    }
}

/// All methods fail with [`io::ErrorKind::CrossesDevices`] for a name that leaves the jail.
impl Jail {
    /// Makes a jail of a folder.
    ///
    /// # Errors
    ///
    /// If it is none, or may not be read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(folder, flags, Mode::empty())?;
        let walk = match fs::openat2(&root, ".", FOLDER, Mode::empty(), BENEATH) {
            // ENOSYS: before Linux 5.6. EPERM: a filter of system calls that does not know it.
            Err(Errno::NOSYS | Errno::PERM) => Walk::ByComponent,
            _ => Walk::Beneath,
        };
        let kind = fs::fstatfs(&root).map(|disk| disk.f_type);
        let is_in_memory = kind
            .is_ok_and(|kind| MEMORY.iter().any(|known| i128::from(*known) == i128::from(kind)));
        Ok(Self { root, walk, rights: None, is_in_memory })
    }

    /// Makes a jail of a folder for one user, in which he may do what he may do anyway.
    ///
    /// # Errors
    ///
    /// If it is none, or he may not read it.
    pub fn open_as(folder: &Path, rights: Arc<FileRights>) -> io::Result<Self> {
        let jail = rights.lend(|| Self::open(folder))?;
        Ok(Self { rights: Some(rights), ..jail })
    }

    /// Returns whether what is written here is in memory alone, so that nothing waits for a disk.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Returns whether `folder` is the folder of this jail, by whatever name.
    #[must_use]
    pub fn is(&self, folder: &Path) -> bool {
        let (ours, there) = (fs::fstat(&self.root), fs::stat(folder));
        matches!((ours, there), (Ok(ours), Ok(there))
            if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino))
    }

    fn lend<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        lend(self.rights.as_deref(), work)
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    ///
    /// What the kernel says; `EISDIR` for a folder, `EACCES` for what is neither file nor folder.
    pub fn read(&self, name: &[u8]) -> io::Result<(File, Status)> {
        self.file(name, OFlags::RDONLY)
    }

    /// Opens a file that exists to change it where it is: what is there when the machine goes down
    /// is whatever was written. [`Self::create`] makes a whole one.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn change(&self, name: &[u8]) -> io::Result<(File, Status)> {
        self.file(name, OFlags::WRONLY)
    }

    fn file(&self, name: &[u8], access: OFlags) -> io::Result<(File, Status)> {
        // A pipe without another end or a terminal must not hold us.
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.lend(|| Ok(self.walk(&components(name)?, flags)?))?;
        let file = File::from(file);
        let status = Status::of_file(&file)?;
        match status.kind {
            Kind::File => Ok((file, status)),
            Kind::Folder => Err(Errno::ISDIR.into()),
            Kind::Other => Err(Errno::ACCESS.into()),
        }
    }

    /// Begins a file, which takes its name when it is whole.
    ///
    /// # Errors
    ///
    /// What the kernel says; `EEXIST` if there is one that is to be kept.
    pub fn create(&self, name: &[u8], existing: Existing) -> io::Result<Draft> {
        let draft = self.lend(|| {
            let (folder, leaf) = self.place(name)?;
            Draft::begin(folder, leaf, existing)
        });
        Ok(draft?.with_rights(self.rights.clone()))
    }

    /// Begins a file that can be resumed: see [`Draft::begin_resumable`].
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn create_resumable(&self, name: &[u8], existing: Existing, key: u64) -> io::Result<Draft> {
        let draft = self.lend(|| {
            let (folder, leaf) = self.place(name)?;
            Draft::begin_resumable(folder, leaf, existing, key)
        });
        Ok(draft?.with_rights(self.rights.clone()))
    }

    /// Takes up what a draft has left as `kept`, beside `name`, to go on with it: see
    /// [`Draft::take_up`].
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn take_up(
        &self,
        kept: &[u8],
        name: &[u8],
        existing: Existing,
        key: Option<u64>,
    ) -> io::Result<Draft> {
        let draft = self.lend(|| {
            let ((folder, kept), (_, name)) = (self.place(kept)?, self.place(name)?);
            Draft::take_up(folder, kept, name, existing, key)
        });
        Ok(draft?.with_rights(self.rights.clone()))
    }

    /// Returns what a name stands for; a link in the last place is followed if it may be.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn status(&self, name: &[u8]) -> io::Result<Status> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Status::of_file(&self.lend(|| Ok(self.walk(&components(name)?, flags)?))?)
    }

    /// Returns what a name stands for, and of a link the link itself.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn status_of_name(&self, name: &[u8]) -> io::Result<Status> {
        self.lend(|| {
            let (folder, leaf) = self.place(name)?;
            let leaf = OsStr::from_bytes(leaf);
            Ok(Status::of(&fs::statat(&folder, leaf, AtFlags::SYMLINK_NOFOLLOW)?))
        })
    }

    /// Returns at most `limit` names of a folder, in no order, without drafts.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn list(&self, folder: &[u8], limit: usize) -> io::Result<Vec<Entry>> {
        self.entries(folder)?.take(limit).collect()
    }

    /// Returns the names of a folder, to be read one after the other.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn entries(&self, folder: &[u8]) -> io::Result<Listing> {
        self.lend(|| {
            let folder = self.folder(&components(folder)?)?;
            // What the names stand for is looked up later, with our own rights.
            fs::statat(&folder, c".", AtFlags::empty())?;
            let names = Dir::read_from(&folder)?;
            Ok(Listing { folder, names })
        })
    }

    /// Says when a file or a folder was changed, in Unix time.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set_modified(&self, name: &[u8], seconds: i64, nanos: u32) -> io::Result<()> {
        let at = |tv_nsec| Timespec { tv_sec: seconds, tv_nsec };
        let omitted = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT };
        let times = Timestamps { last_access: omitted, last_modification: at(nanos.into()) };
        self.lend(|| Ok(fs::futimens(self.walk(&components(name)?, OPENED)?, &times)?))
    }

    /// Sets the nine permission bits of a file or a folder; the set-user-ID kind is cleared.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set_mode(&self, name: &[u8], mode: u16) -> io::Result<()> {
        let mode = Mode::from_raw_mode(u32::from(mode & 0o777));
        self.lend(|| Ok(fs::fchmod(self.walk(&components(name)?, OPENED)?, mode)?))
    }

    /// Gives a file or a folder another name, which may have been another file's.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (from_folder, from) = self.place(from)?;
            let (to_folder, to) = self.place(to)?;
            let (from, to) = (OsStr::from_bytes(from), OsStr::from_bytes(to));
            Ok(fs::renameat(from_folder, from, to_folder, to)?)
        })
    }

    /// Removes a file, or a link.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn remove_file(&self, name: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (folder, leaf) = self.place(name)?;
            Ok(fs::unlinkat(folder, OsStr::from_bytes(leaf), AtFlags::empty())?)
        })
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn remove_folder(&self, name: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (folder, leaf) = self.place(name)?;
            Ok(fs::unlinkat(folder, OsStr::from_bytes(leaf), AtFlags::REMOVEDIR)?)
        })
    }

    /// Makes a folder.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn make_folder(&self, name: &[u8]) -> io::Result<()> {
        self.lend(|| {
            let (folder, leaf) = self.place(name)?;
            Ok(fs::mkdirat(folder, OsStr::from_bytes(leaf), Mode::from_raw_mode(0o777))?)
        })
    }

    /// Removes the drafts that a crash has left in a folder, and returns how many; those that are
    /// being written stay.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn sweep(&self, folder: &[u8]) -> io::Result<usize> {
        self.lend(|| sweep(&self.folder(&components(folder)?)?))
    }

    /// Returns how many bytes are free for us on the disk of the jail.
    ///
    /// # Errors
    ///
    /// What `fstatvfs` says.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let disk = fs::fstatvfs(&self.root)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Returns the folder of a name, and its last component.
    fn place<'a>(&self, name: &'a [u8]) -> io::Result<(OwnedFd, &'a [u8])> {
        let components = components(name)?;
        let (leaf, folders) = components.split_last().ok_or(Errno::ISDIR)?;
        Ok((self.folder(folders)?, leaf))
    }

    fn folder(&self, components: &[&[u8]]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(self.walk(components, flags)?)
    }

    fn walk(&self, components: &[&[u8]], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.walk {
            Walk::Beneath => beneath(self.root.as_fd(), components, flags),
            Walk::ByComponent => by_component(self.root.as_fd(), components, flags),
        }
    }
}

/// The numbers of tmpfs and ramfs.
const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A pipe without another end must not hold us.
const OPENED: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

fn beneath(root: BorrowedFd<'_>, components: &[&[u8]], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = match components {
        [] => b".".to_vec(),
        _ => components.join(&b'/'),
    };
    for _ in 0..ATTEMPTS {
        match fs::openat2(root, OsStr::from_bytes(&path), flags, Mode::empty(), BENEATH) {
            // Something was renamed while a link with `..` was followed.
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    Err(Errno::XDEV)
}

fn by_component(
    root: BorrowedFd<'_>,
    components: &[&[u8]],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let Some((leaf, folders)) = components.split_last() else {
        return fs::openat(root, ".", flags, Mode::empty());
    };
    let mut at: Option<OwnedFd> = None;
    let here = |at: &Option<OwnedFd>, name: &[u8], flags: OFlags| {
        let folder = at.as_ref().map_or(root, |at| at.as_fd());
        fs::openat(folder, OsStr::from_bytes(name), flags | OFlags::NOFOLLOW, Mode::empty())
    };
    for folder in folders {
        at = Some(here(&at, folder, FOLDER)?);
    }
    here(&at, leaf, flags)
}

/// Splits a name; what is empty or `.` is left out.
fn components(name: &[u8]) -> Result<Vec<&[u8]>, Errno> {
    if name.contains(&0) {
        return Err(Errno::INVAL);
    }
    let mut components = Vec::new();
    for component in name.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return Err(Errno::XDEV),
            // Drafts are nobody's business but ours.
            draft if crate::draft::is_internal(draft) => return Err(Errno::NOENT),
            component => components.push(component),
        }
    }
    Ok(components)
}

#[cfg(test)]
#[path = "jail_tests.rs"]
mod tests;
