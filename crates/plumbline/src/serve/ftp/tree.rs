//! File view of one user, and the operations on it. All of them block on the disk.

use super::listing::entry_of;
use super::mail::Spool;
use super::partial::Partials;
use super::rights::Access;
use super::space::{Amount, Space};
use super::upload::Upload;
use os::jail::{Existing, Jail, Kind, Status};
use protocols::application::ftp::server::{
    FileError, Operation, Outcome, Rights, Transfer, TransferKind,
};
use protocols::application::ftp::{
    Representation, Right, SetFacts, Timestamp, Type, VirtualPath, WordFormat,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Word formats of directories and their descendants, by the name that users see: how words that
/// are not octets are stored in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordFormats(Vec<(Vec<u8>, WordFormat)>);

impl WordFormats {
    pub(super) fn new(mut formats: Vec<(Vec<u8>, WordFormat)>) -> Self {
        // The nearest directory decides.
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

/// File view of one user.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) jail: Arc<Jail>,
    pub(super) access: Arc<Access>,
    /// Whether only files readable by every user of the machine are sent: the user is anonymous,
    /// and the server runs as root.
    pub(super) is_for_all: bool,
    pub(super) space: Option<Arc<Space>>,
    /// Partial uploads of the user, if they are kept.
    pub(super) partials: Option<Arc<Partials>>,
    /// Path whose partial upload is selected, even if a file has the name.
    pub(super) selected: Option<VirtualPath>,
    pub(super) file_max_bytes: u64,
    /// Mail spool, if the user may send mail.
    pub(super) spool: Option<Arc<Spool>>,
    /// Word formats, by directory.
    pub(super) word_formats: Arc<WordFormats>,
}

impl Tree {
    /// Returns `representation` with the word format of the directory of `path`.
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

    /// Opens a file for sending. Returns its length in bytes, too.
    pub(super) fn read(&self, path: &VirtualPath) -> Result<(File, u64), FileError> {
        self.access.need(Right::Read, path)?;
        let (file, status) =
            self.jail.read(&path.to_bytes()).map_err(|error| file_error(&error))?;
        if self.is_for_all && !status.is_readable_by_all() {
            return Err(FileError::Denied);
        }
        Ok((file, status.len))
    }

    /// Opens a file, or the partial upload that stands in for its name. Returns its length in
    /// bytes, and whether it is a partial upload.
    pub(super) fn file_or_partial(
        &self,
        path: &VirtualPath,
    ) -> Result<(File, u64, bool), FileError> {
        let name = path.to_bytes();
        if self.selected.as_ref() != Some(path) {
            match self.jail.read(&name) {
                Ok((_, status)) if self.is_for_all && !status.is_readable_by_all() => {
                    return Err(FileError::Denied);
                }
                Ok((file, status)) => return Ok((file, status.len, false)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(file_error(&error)),
            }
        }
        let (file, len) = self.partial(path).ok_or(FileError::NotFound)?;
        Ok((file, len, true))
    }

    fn partial(&self, path: &VirtualPath) -> Option<(File, u64)> {
        self.partials.as_ref()?.find(&path.to_bytes())
    }

    /// Continues a partial upload if the transfer refers to it: the client has selected it, or REST
    /// precedes STOR of a file that does not exist.
    fn resume(&self, transfer: &Transfer) -> Result<Option<Upload>, FileError> {
        let path = transfer.path.to_bytes();
        let is_selected = self.selected.as_ref() == Some(&transfer.path);
        let is_meant = match transfer.kind {
            TransferKind::Append => is_selected,
            TransferKind::Store => transfer.offset_bytes > 0,
            _ => false,
        };
        let Some(partials) = self.partials.as_ref().filter(|_| is_meant) else { return Ok(None) };
        let is_there = self.jail.status(&path).is_ok();
        if is_there && !is_selected {
            return Ok(None);
        }
        // A partial upload that was reported but has been removed must not become a new file.
        let stored = partials.find(&path).map(|(_, len)| len).ok_or(FileError::BeyondEnd)?;
        let is_append = transfer.kind == TransferKind::Append;
        let kept = if is_append { stored } else { transfer.offset_bytes };
        if kept > stored {
            return Err(FileError::BeyondEnd);
        }
        let needed = if is_there { Right::Overwrite } else { Right::Write };
        if !self.access.at(&path).contains(needed) {
            return Err(FileError::Missing(needed));
        }
        let existing = if is_there { Existing::Replace } else { Existing::Keep };
        let draft = self.jail.continue_kept(&partials.key(&path), kept, &path, existing);
        let draft = draft.map_err(|error| file_error(&error))?;
        let upload = Upload::new(draft, self.space.clone(), self.file_max_bytes);
        let upload = upload.resumed(stored, kept).in_memory(self.jail.is_in_memory());
        Ok(Some(upload.kept_in(Some(partials), path)))
    }

    /// Starts an upload. Copies the part of the old file that remains.
    pub(super) fn write(&self, transfer: &Transfer) -> Result<Upload, FileError> {
        if let Some(upload) = self.resume(transfer)? {
            return Ok(upload);
        }
        let path = transfer.path.to_bytes();
        let is_unique = transfer.kind == TransferKind::StoreUnique;
        let name = if is_unique { self.unique_name(&transfer.path)? } else { path };
        self.room(transfer.allocation_bytes.unwrap_or(0))?;
        let (offset, is_append) = (transfer.offset_bytes, transfer.kind == TransferKind::Append);
        let rights = self.access.at(&name);
        let may_all = rights.contains(Right::Write)
            && rights.contains(Right::Overwrite)
            && rights.contains(Right::Append);
        let is_new = offset == 0 && !is_append;
        let old = match (self.space.is_none() && is_new && may_all).then_some(None) {
            // The old length is not needed.
            Some(old) => old,
            None => self.file_len(&name),
        };
        let old_bytes = old.unwrap_or(0);
        if offset > old_bytes {
            return Err(FileError::BeyondEnd);
        }
        let continues = is_append || (offset > 0 && offset == old_bytes);
        let may = |right| rights.contains(right);
        if !may_all {
            let needed = match old {
                None => Right::Write,
                Some(_) if is_unique => Right::Write,
                Some(_) if continues && (is_append || may(Right::Append)) => Right::Append,
                Some(_) => Right::Overwrite,
            };
            if !may(needed) {
                return Err(FileError::Missing(needed));
            }
        }
        if old.is_none() && self.space.as_ref().is_some_and(|space| !space.has_entry_left()) {
            return Err(FileError::Quota);
        }
        // Two clients may append to a file that does not exist yet: the second must not replace the
        // first one's file.
        let is_first = is_append && old.is_none();
        let may_replace =
            !is_unique && !is_first && (may(Right::Overwrite) || (continues && old.is_some()));
        let existing = if may_replace { Existing::Replace } else { Existing::Keep };
        let draft = self.jail.create(&name, existing).map_err(|error| file_error(&error))?;
        let upload = Upload::new(draft, self.space.clone(), self.file_max_bytes);
        let partials = self.partials.as_ref().filter(|_| !is_unique);
        let upload = upload.kept_in(partials, name.clone());
        let mut upload = upload.in_memory(self.jail.is_in_memory());
        let kept = if is_append { old_bytes } else { offset };
        if kept > 0 || (is_append && old.is_some()) {
            let (file, _) = self.jail.read(&name).map_err(|error| file_error(&error))?;
            upload.go_on_from(file, kept, &self.jail, &name)?;
        }
        Ok(if is_unique { upload.named(name) } else { upload })
    }

    /// Checks whether there is room for `bytes` more.
    fn room(&self, bytes: u64) -> Result<(), FileError> {
        if bytes == 0 {
            return Ok(());
        }
        if bytes > self.file_max_bytes {
            return Err(FileError::Limit);
        }
        if self.space.as_ref().is_some_and(|space| bytes > space.left_bytes()) {
            return Err(FileError::Quota);
        }
        let is_full = bytes > self.jail.free_bytes().unwrap_or(u64::MAX);
        if is_full { Err(FileError::NoSpace) } else { Ok(()) }
    }

    /// Returns the length of an existing file in bytes; 0 for anything that is not a file.
    fn file_len(&self, name: &[u8]) -> Option<u64> {
        let status = self.jail.status(name).ok()?;
        Some(if status.kind == Kind::File { status.len } else { 0 })
    }

    /// Returns a name that no file has yet.
    fn unique_name(&self, path: &VirtualPath) -> Result<Vec<u8>, FileError> {
        let is_folder = self.jail.status(&path.to_bytes()).is_ok_and(|s| s.kind == Kind::Folder);
        let mut stem = path.to_bytes();
        if is_folder {
            let slash: &[u8] = if path.is_root() { b"" } else { b"/" };
            stem.extend([slash, b"file"].concat());
        }
        for _ in 0..16 {
            let chance = os::entropy::seed().map_err(|_| FileError::Local)?;
            let name = [stem.as_slice(), format!(".{:08x}", chance >> 32).as_bytes()].concat();
            if self.jail.status(&name).is_err() {
                return Ok(name);
            }
        }
        Err(FileError::Exists)
    }

    /// Performs an operation of the engine.
    pub(super) fn perform(&self, operation: &Operation) -> Result<Outcome, FileError> {
        self.look_at_rights(operation)?;
        match operation {
            Operation::ChangeDirectory(path) => {
                // The directory must be readable, so that the user does not enter one that shows
                // nothing.
                self.jail.entries(&path.to_bytes()).map_err(|error| file_error(&error))?;
                Ok(Outcome::Done)
            }
            Operation::MakeDirectory(path) => {
                let make = || self.jail.make_folder(&path.to_bytes());
                done(self.space.as_ref().map_or_else(make, |space| space.make_directory(make)))
            }
            Operation::RemoveDirectory(path) => self.remove_directory(path),
            Operation::Delete(path) => self.delete(path),
            Operation::Exists(path) => self.status(path).map(|_| Outcome::Done),
            Operation::Rename { from, to } => self.rename(from, to),
            Operation::Size { path, .. } => {
                let (_, len_bytes, is_partial) = self.file_or_partial(path)?;
                let outcome = if is_partial { Outcome::PartialSize } else { Outcome::Size };
                Ok(outcome(len_bytes))
            }
            Operation::Partial(path) => {
                let (_, len) = self.partial(path).ok_or(FileError::NotFound)?;
                Ok(Outcome::PartialSize(len))
            }
            Operation::Modified(path) => {
                let status = self.status(path)?;
                Ok(Outcome::Modified(Timestamp { seconds: status.modified_s, nanos: 0 }))
            }
            Operation::Facts(path) => {
                let status = self.status(path)?;
                let name = path.file_name().unwrap_or(b"/").to_vec();
                let held = self.access.with_name(&path.to_bytes());
                Ok(Outcome::Entry(entry_of(name, status, held)))
            }
            Operation::SetFacts(path, facts) => self.set_facts(path, facts),
            Operation::Available(_) => {
                let free = self.jail.free_bytes().map_err(|error| file_error(&error))?;
                let left = self.space.as_ref().map_or(u64::MAX, |space| space.left_bytes());
                Ok(Outcome::Size(free.min(left)))
            }
            Operation::Allocate(bytes) => self.room(*bytes).map(|()| Outcome::Done),
            // Long operations run in steps (`long_work`); the session handles the others.
            Operation::Hash(..)
            | Operation::Combine { .. }
            | Operation::Status { .. }
            | Operation::Host(_)
            | Operation::Mailbox(_)
            | Operation::Deliver { .. } => Err(FileError::NotSupported),
        }
    }

    /// Checks whether the user has the right to an operation.
    pub(super) fn look_at_rights(&self, operation: &Operation) -> Result<(), FileError> {
        let access = &self.access;
        match operation {
            Operation::ChangeDirectory(path) => {
                let is_shut = access.at(&path.to_bytes()) == Rights::NONE;
                if is_shut { Err(FileError::Missing(Right::List)) } else { Ok(()) }
            }
            Operation::MakeDirectory(path) => access.need(Right::MakeDirectory, path),
            Operation::RemoveDirectory(path) | Operation::Delete(path) => {
                access.need_of_name(Right::Delete, path)
            }
            Operation::Exists(path) => access.need_of_name(Right::Rename, path),
            Operation::Rename { from, to } => access.need_to_rename(from, to),
            Operation::Size { path, .. }
            | Operation::Modified(path)
            | Operation::Facts(path)
            | Operation::Available(path)
            | Operation::Status { path, .. } => access.need(Right::List, path),
            Operation::SetFacts(path, _) => access.need(Right::Change, path),
            Operation::Partial(path) => {
                let held = access.at(&path.to_bytes());
                let writes = [Right::Write, Right::Overwrite, Right::Append];
                let may = writes.iter().any(|right| held.contains(*right));
                if may { Ok(()) } else { Err(FileError::Missing(Right::Write)) }
            }
            // These check their rights themselves.
            Operation::Hash(..)
            | Operation::Combine { .. }
            | Operation::Allocate(_)
            | Operation::Host(_)
            | Operation::Mailbox(_)
            | Operation::Deliver { .. } => Ok(()),
        }
    }

    pub(super) fn status(&self, path: &VirtualPath) -> Result<Status, FileError> {
        self.jail.status(&path.to_bytes()).map_err(|error| file_error(&error))
    }

    fn delete(&self, path: &VirtualPath) -> Result<Outcome, FileError> {
        self.remove(path, |name| self.jail.remove_file(name))
    }

    fn remove_directory(&self, path: &VirtualPath) -> Result<Outcome, FileError> {
        self.remove(path, |name| self.jail.remove_folder(name))
    }

    /// Removes a name with `work`, and releases its quota.
    fn remove(
        &self,
        path: &VirtualPath,
        work: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> Result<Outcome, FileError> {
        let name = path.to_bytes();
        done(match &self.space {
            Some(space) => space.remove(|| {
                let old = self.jail.status_of_name(&name)?;
                work(&name)?;
                Ok(Amount::of(&old))
            }),
            None => work(&name),
        })
    }

    fn rename(&self, from: &VirtualPath, to: &VirtualPath) -> Result<Outcome, FileError> {
        let old = self.status(to).ok();
        if old.is_some() && from != to {
            self.access.need(Right::Overwrite, to)?;
        }
        let is_folder = || self.status(from).is_ok_and(|status| status.kind == Kind::Folder);
        if from.parent() != to.parent() && is_folder() {
            self.access.need(Right::MakeDirectory, to)?;
        }
        let (from, to) = (from.to_bytes(), to.to_bytes());
        done(match &self.space {
            Some(space) => space.rename(|| {
                let (moved, old) =
                    (self.jail.status_of_name(&from)?, self.jail.status_of_name(&to));
                self.jail.rename(&from, &to)?;
                // If both names belong to one file, both remain.
                let old = old.ok().filter(|old| old.unique != moved.unique);
                Ok(old.as_ref().map_or_else(Amount::default, Amount::of))
            }),
            None => self.jail.rename(&from, &to),
        })
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

    /// Starts the file into which others are combined.
    pub(super) fn begin_combined(&self, target: &VirtualPath) -> Result<Upload, FileError> {
        let name = target.to_bytes();
        let old = self.status(target).ok();
        let needed = if old.is_some() { Right::Overwrite } else { Right::Write };
        self.access.need(needed, target)?;
        let existing = match needed {
            Right::Overwrite => Existing::Replace,
            _ => Existing::Keep,
        };
        let draft = self.jail.create(&name, existing).map_err(|error| file_error(&error))?;
        Ok(Upload::new(draft, self.space.clone(), self.file_max_bytes))
    }
}

/// Copies at most `len` bytes of `from` to `to`.
pub(super) fn copy(from: File, len: u64, mut to: &File) -> io::Result<u64> {
    let copied = io::copy(&mut from.take(len), &mut to)?;
    to.flush()?;
    Ok(copied)
}

/// Sets the position in a file to `offset`.
pub(super) fn seek(file: &mut File, offset: u64) -> Result<(), FileError> {
    file.seek(SeekFrom::Start(offset)).map(drop).map_err(|error| file_error(&error))
}

fn done(result: io::Result<()>) -> Result<Outcome, FileError> {
    result.map(|()| Outcome::Done).map_err(|error| file_error(&error))
}

/// Returns the protocol engine's error for an error of the file system.
pub(super) fn file_error(error: &io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NotFound,
        io::ErrorKind::NotADirectory => FileError::NotADirectory,
        io::ErrorKind::IsADirectory => FileError::IsADirectory,
        io::ErrorKind::AlreadyExists => FileError::Exists,
        io::ErrorKind::DirectoryNotEmpty => FileError::NotEmpty,
        io::ErrorKind::StorageFull => FileError::NoSpace,
        io::ErrorKind::QuotaExceeded => FileError::Quota,
        io::ErrorKind::FileTooLarge => FileError::Limit,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => FileError::NameRefused,
        io::ErrorKind::ResourceBusy => FileError::Busy,
        // A name that leaves the root is reported like one without permission.
        io::ErrorKind::CrossesDevices
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem => FileError::Denied,
        // ELOOP, which has no stable `ErrorKind`.
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
