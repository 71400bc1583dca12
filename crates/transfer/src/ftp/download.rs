//! A file to download, and its local destination.
//!
//! A temporary file (draft) receives the data, and a partial download is kept as `name.part`.

use crate::escaped;
use os::beneath::{AtomicFile, Existing, RootDir};
use protocols::ftp::Timestamp;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffix of the name of a partial download.
pub const PART_SUFFIX: &[u8] = b".part";

/// Destination of a download.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// The file at this path.
    File(PathBuf),
    /// The file with this relative path, which cannot lead out of the directory.
    Beneath(Arc<RootDir>, Vec<u8>),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
            Self::Beneath(_, name) => String::from_utf8_lossy(name).fmt(f),
        }
    }
}

/// A file to download.
#[derive(Clone, Debug)]
pub struct Download {
    /// Path of the file on the server.
    pub path: Vec<u8>,
    /// Size in bytes, if a listing reported it.
    pub size: Option<u64>,
    /// Modification time, if known.
    pub modified: Option<Timestamp>,
    /// Whether `modified` comes from LIST, so that the time reported by MDTM replaces it.
    pub has_rough_time: bool,
    /// Whether a remote file has the name that the partial download of this file would get.
    pub is_part_name_taken: bool,
    /// Where the file is stored.
    pub destination: Destination,
}

impl Download {
    /// Returns the size in bytes and the time in Unix seconds of the local file, if it exists.
    pub fn local_size_and_time(&self) -> Option<(u64, i64)> {
        match &self.destination {
            Destination::Stdout => None,
            Destination::File(path) => {
                fs::metadata(path).ok().map(|about| (about.len(), time_of(&about)))
            }
            Destination::Beneath(root_dir, name) => {
                root_dir.status(name).ok().map(|about| (about.len, about.modified_s))
            }
        }
    }

    /// Returns whether the local file exists. A device or a pipe is not a file.
    pub fn has_local_file(&self) -> bool {
        match &self.destination {
            Destination::Stdout => false,
            Destination::File(path) => path.is_file(),
            Destination::Beneath(root_dir, name) => root_dir.status(name).is_ok(),
        }
    }

    /// Returns whether the local partial download has the time of the remote file, and no more
    /// bytes than the remote file.
    pub fn has_matching_part(&self) -> bool {
        let name_of_part = |name: &[u8]| [name, PART_SUFFIX].concat();
        let part = match &self.destination {
            Destination::Stdout => None,
            Destination::File(path) => path.file_name().and_then(|name| {
                let part = OsString::from_vec(name_of_part(name.as_bytes()));
                let metadata = fs::symlink_metadata(path.with_file_name(part)).ok()?;
                Some((metadata.len(), time_of(&metadata)))
            }),
            Destination::Beneath(root_dir, name) => {
                let about = root_dir.status_of_name(&name_of_part(name)).ok();
                about.map(|about| (about.len, about.modified_s))
            }
        };
        let remote = self.size.zip(self.modified.map(|modified| modified.seconds));
        part.zip(remote)
            .is_some_and(|((len, time), (size, remote_time))| len <= size && time == remote_time)
    }

    /// Returns whether the user requested this file by its own name, and not as a part of a pattern
    /// or a directory.
    pub fn is_single(&self) -> bool {
        !matches!(self.destination, Destination::Beneath(..))
    }

    /// Returns the local destination for messages.
    pub fn local_name(&self) -> String {
        match &self.destination {
            Destination::Stdout => "the standard output".to_owned(),
            Destination::File(path) => path.display().to_string(),
            Destination::Beneath(_, name) => format!("'{}'", escaped(name)),
        }
    }
}

/// Returns whether the local file has the size and time of the remote file.
pub(super) fn is_already_complete(download: &Download) -> bool {
    let remote = download.size.zip(download.modified.map(|modified| modified.seconds));
    remote.is_some() && remote == download.local_size_and_time()
}

/// Opens the directory of a file, and returns it with the name of the file.
pub(super) fn open_parent(path: &Path) -> io::Result<(OwnedFd, Vec<u8>)> {
    // A symbolic link is followed: its target is the file to replace.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    let directory = OwnedFd::from(File::open(directory.unwrap_or(Path::new(".")))?);
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.as_bytes().to_vec();
    Ok((directory, name))
}

/// Creates the draft of the download. If plumb is killed, a later process with the same `key`
/// resumes the draft.
pub(super) fn begin(
    download: &Download,
    existing: Existing,
    key: Option<u64>,
) -> io::Result<AtomicFile> {
    match (&download.destination, key) {
        (Destination::Stdout, _) => Err(io::ErrorKind::Unsupported.into()),
        (Destination::Beneath(root_dir, name), Some(key)) => {
            root_dir.create_resumable(name, existing, key)
        }
        (Destination::Beneath(root_dir, name), None) => root_dir.create(name, existing),
        (Destination::File(path), _) => {
            let (directory, name) = open_parent(path)?;
            match key {
                Some(key) => AtomicFile::begin_resumable(directory, &name, existing, key),
                None => AtomicFile::begin(directory, &name, existing),
            }
        }
    }
}

/// Opens the partial download `name.part` to resume the download.
pub(super) fn resume_part(
    download: &Download,
    existing: Existing,
    key: Option<u64>,
) -> io::Result<AtomicFile> {
    let part = |name: &[u8]| [name, PART_SUFFIX].concat();
    match &download.destination {
        Destination::Stdout => Err(io::ErrorKind::Unsupported.into()),
        Destination::Beneath(root_dir, name) => {
            root_dir.resume_partial(&part(name), name, existing, key)
        }
        Destination::File(path) => {
            let (directory, name) = open_parent(path)?;
            AtomicFile::resume_partial(directory, &part(&name), &name, existing, key)
        }
    }
}

fn time_of(about: &fs::Metadata) -> i64 {
    std::os::unix::fs::MetadataExt::mtime(about)
}
