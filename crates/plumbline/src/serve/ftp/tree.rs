//! The files that one user sees, and what is done with them. All of it waits for the disk.

use super::digest;
use super::listing::{entry_of, lines};
use super::mail::Spool;
use super::upload::{Space, Upload};
use os::jail::{Existing, Jail, Kind, Status};
use protocols::application::ftp::data::Encoder;
use protocols::application::ftp::server::{
    FileError, Operation, Outcome, Rights, Transfer, TransferKind,
};
use protocols::application::ftp::{
    Representation, Right, SetFacts, Timestamp, Type, VirtualPath, WordFormat,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// What is read at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// In which form words that are no octets lie in the files of a folder and of those beneath, by the
/// name of the folder as users see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordFormats(Vec<(Vec<u8>, WordFormat)>);

impl WordFormats {
    pub(super) fn new(mut formats: Vec<(Vec<u8>, WordFormat)>) -> Self {
        // The nearest folder says it.
        formats.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Self(formats)
    }

    fn of(&self, path: &[u8]) -> Option<WordFormat> {
        let holds = |folder: &[u8]| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with(b"/") || folder.ends_with(b"/"))
        };
        self.0.iter().find(|(folder, _)| holds(folder)).map(|(_, format)| *format)
    }
}

/// The files of one user.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) jail: Arc<Jail>,
    pub(super) rights: Rights,
    /// Whether only what everybody on the machine may read is given: nobody has proved who he is,
    /// and we may read everything.
    pub(super) is_for_all: bool,
    pub(super) space: Option<Arc<Space>>,
    pub(super) file_max_bytes: u64,
    /// Where mail lies, if it is taken.
    pub(super) spool: Option<Arc<Spool>>,
    /// How words of other sizes lie in files, by folder.
    pub(super) word_formats: Arc<WordFormats>,
}

impl Tree {
    /// Returns a representation with the form that words have in the folder of `path`.
    pub(super) fn representation(
        &self,
        path: &VirtualPath,
        representation: Representation,
    ) -> Representation {
        let Type::Local(size) = representation.data_type else { return representation };
        let format = self.word_formats.of(&path.to_bytes());
        match format.filter(|format| format.holds(size)) {
            Some(word_format) => Representation { word_format, ..representation },
            None => representation,
        }
    }

    /// Opens a file to send it, with the bytes that it has.
    pub(super) fn read(&self, path: &VirtualPath) -> Result<(File, u64), FileError> {
        let (file, status) =
            self.jail.read(&path.to_bytes()).map_err(|error| file_error(&error))?;
        if self.is_for_all && !status.is_readable_by_all() {
            return Err(FileError::Denied);
        }
        Ok((file, status.len))
    }

    /// Begins a file that comes in. What of the old one is to stay is copied.
    pub(super) fn write(
        &self,
        transfer: &Transfer,
    ) -> Result<(Upload, Option<Vec<u8>>), FileError> {
        let path = transfer.path.to_bytes();
        let (name, chosen) = match transfer.kind {
            TransferKind::StoreUnique => {
                let near = self.unique_name(&transfer.path)?;
                let last = near.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
                (near, Some(last))
            }
            _ => (path, None),
        };
        let may_replace = self.rights.contains(Right::Overwrite) && chosen.is_none();
        let existing = if may_replace { Existing::Replace } else { Existing::Keep };
        let told = transfer.allocation_bytes.unwrap_or(0);
        if told > 0 && told > self.jail.free_bytes().unwrap_or(u64::MAX) {
            return Err(FileError::NoSpace);
        }
        let is_new = transfer.offset_bytes == 0 && transfer.kind != TransferKind::Append;
        let old = match (self.space.is_none() && is_new).then_some(0) {
            // Nobody asks how much there was.
            Some(old) => old,
            None => self.file_len(&name),
        };
        let kept = match transfer.kind {
            TransferKind::Append => old,
            _ if transfer.offset_bytes > old => return Err(FileError::TooLarge),
            _ => transfer.offset_bytes,
        };
        let draft = self.jail.create(&name, existing).map_err(|error| file_error(&error))?;
        let upload = Upload::new(draft, self.space.clone(), self.file_max_bytes, old);
        let mut upload = upload.in_memory(self.jail.is_in_memory());
        if kept > 0 {
            let (file, _) = self.jail.read(&name).map_err(|error| file_error(&error))?;
            upload.copy(file, kept)?;
        }
        Ok((upload, chosen))
    }

    fn file_len(&self, name: &[u8]) -> u64 {
        let status = self.jail.status(name);
        status.ok().filter(|status| status.kind == Kind::File).map_or(0, |status| status.len)
    }

    /// Finds a name that no file has yet.
    fn unique_name(&self, path: &VirtualPath) -> Result<Vec<u8>, FileError> {
        let is_folder = self.jail.status(&path.to_bytes()).is_ok_and(|s| s.kind == Kind::Folder);
        let stem = if is_folder {
            [&path.to_bytes(), b"/file".as_slice()].concat()
        } else {
            path.to_bytes()
        };
        for _ in 0..16 {
            let chance = os::entropy::seed().map_err(|_| FileError::Local)?;
            let name = [stem.as_slice(), format!(".{:08x}", chance >> 32).as_bytes()].concat();
            if self.jail.status(&name).is_err() {
                return Ok(name);
            }
        }
        Err(FileError::Exists)
    }

    /// Does what the engine asks for.
    pub(super) fn perform(&self, operation: &Operation) -> Result<Outcome, FileError> {
        match operation {
            Operation::ChangeDirectory(path) => {
                // To be read, so that nobody is where he can see nothing.
                self.jail.entries(&path.to_bytes()).map_err(|error| file_error(&error))?;
                Ok(Outcome::Done)
            }
            Operation::MakeDirectory(path) => done(self.jail.make_folder(&path.to_bytes())),
            Operation::RemoveDirectory(path) => done(self.jail.remove_folder(&path.to_bytes())),
            Operation::Delete(path) => self.delete(path),
            Operation::Exists(path) => self.status(path).map(|_| Outcome::Done),
            Operation::Rename { from, to } => self.rename(from, to),
            Operation::Size { path, representation, text_max_bytes } => {
                let representation = self.representation(path, *representation);
                self.size(path, &representation, *text_max_bytes)
            }
            Operation::Modified(path) => {
                let status = self.status(path)?;
                Ok(Outcome::Modified(Timestamp { seconds: status.modified_s, nanos: 0 }))
            }
            Operation::Facts(path) => {
                let status = self.status(path)?;
                let name = path.file_name().unwrap_or(b"/").to_vec();
                Ok(Outcome::Entry(entry_of(name, status, self.rights)))
            }
            Operation::SetFacts(path, facts) => self.set_facts(path, facts),
            Operation::Hash(algorithm, path, range) => {
                let (file, _) = self.read(path)?;
                let (digits, len_bytes) = digest::of_file(*algorithm, file, *range)?;
                Ok(Outcome::Hash { digits, len_bytes })
            }
            Operation::Combine { target, parts } => self.combine(target, parts),
            Operation::Available(_) => {
                let free = self.jail.free_bytes().map_err(|error| file_error(&error))?;
                let left = self.space.as_ref().map_or(u64::MAX, |space| space.left_bytes());
                Ok(Outcome::Size(free.min(left)))
            }
            Operation::Status { path, pattern, shows_hidden } => {
                lines(self, path, pattern.as_ref(), *shows_hidden).map(Outcome::Lines)
            }
            Operation::Deliver { .. } => Err(FileError::NotSupported),
        }
    }

    pub(super) fn status(&self, path: &VirtualPath) -> Result<Status, FileError> {
        self.jail.status(&path.to_bytes()).map_err(|error| file_error(&error))
    }

    fn delete(&self, path: &VirtualPath) -> Result<Outcome, FileError> {
        let old = self.status(path).map_or(0, |status| status.len);
        self.jail.remove_file(&path.to_bytes()).map_err(|error| file_error(&error))?;
        self.give_back(old);
        Ok(Outcome::Done)
    }

    fn give_back(&self, bytes: u64) {
        if let Some(space) = &self.space {
            space.give_back(bytes);
        }
    }

    fn rename(&self, from: &VirtualPath, to: &VirtualPath) -> Result<Outcome, FileError> {
        let old = self.status(to).ok();
        if old.is_some() && from != to && !self.rights.contains(Right::Overwrite) {
            return Err(FileError::Exists);
        }
        let renamed = self.jail.rename(&from.to_bytes(), &to.to_bytes());
        renamed.map_err(|error| file_error(&error))?;
        if let Some(old) = old.filter(|old| old.kind == Kind::File && from != to) {
            self.give_back(old.len);
        }
        Ok(Outcome::Done)
    }

    /// RFC 3659 §4.1: the bytes that RETR would send.
    fn size(
        &self,
        path: &VirtualPath,
        representation: &Representation,
        text_max_bytes: u64,
    ) -> Result<Outcome, FileError> {
        let (mut file, len) = self.read(path)?;
        if representation.passes_through() {
            return Ok(Outcome::Size(len));
        }
        if len > text_max_bytes {
            return Err(FileError::TooLarge);
        }
        let mut encoder =
            Encoder::new(representation, None).map_err(|_| FileError::NotSupported)?;
        let (mut piece, mut wire, mut total) = (vec![0; PIECE_BYTES], Vec::new(), 0);
        loop {
            let count = file.read(&mut piece).map_err(|error| file_error(&error))?;
            let read = piece.get(..count).unwrap_or_default();
            let encoded = match read {
                [] => encoder.finish(&mut wire),
                read => encoder.encode(read, &mut wire),
            };
            encoded.map_err(|_| FileError::Local)?;
            total += wire.len() as u64;
            wire.clear();
            if count == 0 {
                return Ok(Outcome::Size(total));
            }
        }
    }

    fn set_facts(&self, path: &VirtualPath, facts: &SetFacts) -> Result<Outcome, FileError> {
        if facts.created.is_some() {
            return Err(FileError::NotSupported);
        }
        let name = path.to_bytes();
        if let Some(Timestamp { seconds, nanos }) = facts.modified {
            done(self.jail.set_modified(&name, seconds, nanos))?;
        }
        if let Some(mode) = facts.mode {
            done(self.jail.set_mode(&name, mode))?;
        }
        Ok(Outcome::Done)
    }

    fn combine(&self, target: &VirtualPath, parts: &[VirtualPath]) -> Result<Outcome, FileError> {
        let name = target.to_bytes();
        let old = self.status(target).map_or(0, |status| status.len);
        let may_replace = self.rights.contains(Right::Overwrite);
        let existing = if may_replace { Existing::Replace } else { Existing::Keep };
        let draft = self.jail.create(&name, existing).map_err(|error| file_error(&error))?;
        let mut upload = Upload::new(draft, self.space.clone(), self.file_max_bytes, old);
        for part in parts {
            let (file, len) = self.read(part)?;
            upload.copy(file, len)?;
        }
        upload.commit()?;
        Ok(Outcome::Done)
    }
}

/// Copies what is read of `from` to `to`, at most `len` bytes.
pub(super) fn copy(from: File, len: u64, mut to: &File) -> io::Result<u64> {
    let copied = io::copy(&mut from.take(len), &mut to)?;
    to.flush()?;
    Ok(copied)
}

/// Puts the place in a file at `offset`.
pub(super) fn seek(file: &mut File, offset: u64) -> Result<(), FileError> {
    file.seek(SeekFrom::Start(offset)).map(drop).map_err(|error| file_error(&error))
}

fn done(result: io::Result<()>) -> Result<Outcome, FileError> {
    result.map(|()| Outcome::Done).map_err(|error| file_error(&error))
}

/// Returns what the user is told of an error of the file system.
pub(super) fn file_error(error: &io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NotFound,
        io::ErrorKind::NotADirectory => FileError::NotADirectory,
        io::ErrorKind::IsADirectory => FileError::IsADirectory,
        io::ErrorKind::AlreadyExists => FileError::Exists,
        io::ErrorKind::DirectoryNotEmpty => FileError::NotEmpty,
        io::ErrorKind::StorageFull => FileError::NoSpace,
        io::ErrorKind::QuotaExceeded => FileError::Quota,
        io::ErrorKind::FileTooLarge => FileError::TooLarge,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => FileError::NameRefused,
        io::ErrorKind::ResourceBusy => FileError::Busy,
        // A name that leaves the root is no more than one that may not be had.
        io::ErrorKind::CrossesDevices
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem => FileError::Denied,
        // ELOOP, which has no kind of its own yet.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            FileError::Denied
        }
        _ => FileError::Local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_says_how_words_lie() {
        let formats = WordFormats::new(vec![
            (b"/its".to_vec(), WordFormat::U36),
            (b"/its/tapes".to_vec(), WordFormat::C36),
        ]);
        assert_eq!(formats.of(b"/its/file"), Some(WordFormat::U36));
        assert_eq!(formats.of(b"/its/tapes/deep/file"), Some(WordFormat::C36));
        assert_eq!((formats.of(b"/itself"), formats.of(b"/file")), (None, None));
    }
}
