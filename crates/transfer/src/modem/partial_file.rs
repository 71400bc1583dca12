//! A file that is being received: `NAME.part` until it is complete.

use super::file_name::numbered;
use protocols::modem::Crc32;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum number of names that are tried. Our choice.
const NUMBER_MAX: u32 = 999;
/// Size of the buffer for the CRC of a partial file.
const CRC_BUFFER_LEN: usize = 64 * 1024;

/// A file that is being received.
#[derive(Debug)]
pub(super) struct PartialFile {
    directory: OwnedFd,
    /// Safe name that the sender has requested.
    requested_name: String,
    /// Number of the name, to which [`numbered`] adds it.
    number: u32,
    file: File,
    len: u64,
}

impl PartialFile {
    /// Creates `NAME.part`, with a number in the name if a file of that name exists. If
    /// `resumable_len` is given, a partial file of an earlier transfer that is not longer is opened
    /// instead.
    ///
    /// # Errors
    ///
    /// Returns the error of the failed system call.
    pub(super) fn open(
        directory: &Path,
        name: &str,
        resumable_len: Option<u64>,
    ) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(directory, flags, Mode::empty())?;
        for number in 0..=NUMBER_MAX {
            let name_with_number = numbered(name, number);
            if exists(&directory, &name_with_number)? {
                continue;
            }
            if let Some(file) = open_part(&directory, &part_of(&name_with_number), resumable_len)? {
                let len = file.metadata()?.len();
                let requested_name = name.to_owned();
                return Ok(Self { directory, requested_name, number, file, len });
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Returns the length in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the name that the file will have.
    pub(super) fn name(&self) -> String {
        numbered(&self.requested_name, self.number)
    }

    /// Shortens the file if a CRC of the sender covers only its beginning, and positions it at its
    /// end. Returns whether `remote_crc` is the CRC of the file.
    ///
    /// lrzsz computes the CRC without the last byte if it cannot map the file into memory.
    pub(super) fn verify(&mut self, remote_crc: u32) -> io::Result<bool> {
        for len in [self.len, self.len.saturating_sub(1)] {
            if self.crc(len)? == remote_crc {
                self.file.set_len(len)?;
                self.file.seek(SeekFrom::Start(len))?;
                self.len = len;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn crc(&mut self, len: u64) -> io::Result<u32> {
        self.file.seek(SeekFrom::Start(0))?;
        crc_of(&mut self.file, len)
    }

    /// Appends data.
    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)?;
        self.len += data.len() as u64;
        Ok(())
    }

    /// Gives the complete file its name, or a name with a higher number if a file of that name was
    /// created since; returns the name.
    pub(super) fn complete(mut self, modified_unix_s: Option<u64>) -> io::Result<String> {
        if let Some(time) = modified_unix_s
            && let Some(time) = UNIX_EPOCH.checked_add(Duration::from_secs(time))
        {
            // Ignored: the file system may not support the time.
            _ = self.file.set_modified(time);
        }
        let part = part_of(&self.name());
        loop {
            let name = self.name();
            match rename_new(&self.directory, &part, &name) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) if self.number < NUMBER_MAX => self.number += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Keeps the partial file for a later transfer, unless it is empty; returns its name.
    pub(super) fn keep(self) -> Option<String> {
        let part = part_of(&self.name());
        if self.len == 0 {
            // Ignored: an empty file does no harm.
            _ = fs::unlinkat(&self.directory, &*part, AtFlags::empty());
            return None;
        }
        Some(part)
    }
}

/// Returns the CRC of the next `len` bytes of `file`.
pub(super) fn crc_of(file: &mut File, len: u64) -> io::Result<u32> {
    let mut crc = Crc32::default();
    let mut buffer = vec![0; CRC_BUFFER_LEN];
    let mut rest = file.take(len);
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(crc.value()),
            count => crc.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

fn part_of(name: &str) -> String {
    format!("{name}.part")
}

fn exists(directory: &OwnedFd, name: &str) -> io::Result<bool> {
    match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Creates and locks a partial file, or opens the one of an earlier transfer; `None` if the name is
/// in use.
fn open_part(
    directory: &OwnedFd,
    name: &str,
    resumable_len: Option<u64>,
) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o666);
    let (descriptor, is_new) =
        match fs::openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(descriptor) => (descriptor, true),
            Err(Errno::EXIST) => match fs::openat(directory, name, flags, Mode::empty()) {
                Ok(descriptor) => (descriptor, false),
                // A symbolic link, a directory, or a file of another user.
                Err(Errno::LOOP | Errno::ISDIR | Errno::ACCESS | Errno::NXIO) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
    let is_free = fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive).is_ok();
    let file = File::from(descriptor);
    let metadata = file.metadata()?;
    let is_usable = is_new
        || (is_free
            && metadata.is_file()
            && resumable_len.is_some_and(|max_len| metadata.len() <= max_len));
    Ok(is_usable.then_some(file))
}

/// Renames a file; an existing file is not replaced.
fn rename_new(directory: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
    match fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        // The file system lacks RENAME_NOREPLACE; a hard link does not replace a file either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::linkat(directory, from, directory, to, AtFlags::empty())?;
            fs::unlinkat(directory, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}
