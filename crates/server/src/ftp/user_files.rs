//! File operations of one user below the user's root directory. All operations block on the disk.

use super::file_error::file_error;
use super::listing_entry::entry_of;
use super::mail::Spool;
use super::partial::Partials;
use super::rights::Access;
use super::space::{Amount, Space};
use super::upload::Upload;
use os::beneath::{Existing, Kind, RootDir, Status};
use protocols::ftp::server::{FileError, Operation, Outcome, Rights, Transfer, TransferKind};
use protocols::ftp::{Representation, Right, SetFacts, Timestamp, Type, VirtualPath, WordFormat};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

/// Word format of each directory and of its descendants, by the name that users see. A word format
/// specifies how files store words that are not octets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordFormats(Vec<(Vec<u8>, WordFormat)>);

impl WordFormats {
    pub(super) fn new(mut formats: Vec<(Vec<u8>, WordFormat)>) -> Self {
        // Longer names first, so that the first match is the nearest directory above a path.
        formats.sort_by_key(|(directory, _)| std::cmp::Reverse(directory.len()));
        Self(formats)
    }

    fn for_path(&self, path: &[u8]) -> Option<WordFormat> {
        let holds = |directory: &[u8]| {
            path.strip_prefix(directory)
                .is_some_and(|rest| rest.starts_with(b"/") || directory.ends_with(b"/"))
        };
        self.0.iter().find(|(directory, _)| holds(directory)).map(|(_, format)| *format)
    }
}

/// Root directory of one user, with the rights and limits of the user.
#[derive(Clone, Debug)]
pub(super) struct FileView {
    pub(super) root_dir: Arc<RootDir>,
    pub(super) access: Arc<Access>,
    /// Whether only files readable by every user of the machine are sent: the user is anonymous,
    /// and the server runs as root.
    pub(super) requires_world_readable: bool,
    pub(super) space: Option<Arc<Space>>,
    /// Partial uploads of the user, if they are kept.
    pub(super) partials: Option<Arc<Partials>>,
    /// Path whose partial upload is selected, even if a file exists at the path.
    pub(super) selected_partial: Option<VirtualPath>,
    pub(super) file_max_bytes: u64,
    /// Mail spool, if the user may send mail.
    pub(super) spool: Option<Arc<Spool>>,
    /// Word formats, by directory.
    pub(super) word_formats: Arc<WordFormats>,
}

impl FileView {
    /// Returns `representation` with the word format of the directory of `path`.
    pub(super) fn representation(
        &self,
        path: &VirtualPath,
        representation: Representation,
    ) -> Representation {
        let Type::Local(size) = representation.data_type else { return representation };
        let format = self.word_formats.for_path(&path.to_bytes());
        match format.filter(|format| format.can_store(size)) {
            Some(word_format) => Representation { word_format, ..representation },
            None => representation,
        }
    }

    /// Opens a file for sending. Also returns its length in bytes.
    pub(super) fn read(&self, path: &VirtualPath) -> Result<(File, u64), FileError> {
        self.access.require(Right::Read, path)?;
        let (file, status) =
            self.root_dir.read(&path.to_bytes()).map_err(|error| file_error(&error))?;
        if self.requires_world_readable && !status.is_readable_by_all() {
            return Err(FileError::Denied);
        }
        Ok((file, status.len))
    }

    /// Opens the file at `path`. Opens the partial upload of `path` instead if no such file exists
    /// or if the partial upload is selected. Also returns the length in bytes, and whether a
    /// partial upload was opened.
    pub(super) fn file_or_partial(
        &self,
        path: &VirtualPath,
    ) -> Result<(File, u64, bool), FileError> {
        let name = path.to_bytes();
        if self.selected_partial.as_ref() != Some(path) {
            match self.root_dir.read(&name) {
                Ok((_, status)) if self.requires_world_readable && !status.is_readable_by_all() => {
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

    /// Continues a partial upload if the transfer refers to one: the client has selected the
    /// partial upload, or REST precedes STOR of a file that does not exist.
    fn resume(&self, transfer: &Transfer) -> Result<Option<Upload>, FileError> {
        let path = transfer.path.to_bytes();
        let is_selected = self.selected_partial.as_ref() == Some(&transfer.path);
        let applies = match transfer.kind {
            TransferKind::Append => is_selected,
            TransferKind::Store => transfer.offset_bytes > 0,
            _ => false,
        };
        let Some(partials) = self.partials.as_ref().filter(|_| applies) else { return Ok(None) };
        let exists = self.root_dir.status(&path).is_ok();
        if exists && !is_selected {
            return Ok(None);
        }
        // A partial upload that was reported but has been removed must not become a new file.
        let stored_len = partials.find(&path).map(|(_, len)| len).ok_or(FileError::BeyondEnd)?;
        let is_append = transfer.kind == TransferKind::Append;
        let kept_bytes = if is_append { stored_len } else { transfer.offset_bytes };
        if kept_bytes > stored_len {
            return Err(FileError::BeyondEnd);
        }
        let required_right = if exists { Right::Overwrite } else { Right::Write };
        if !self.access.rights_at(&path).contains(required_right) {
            return Err(FileError::Missing(required_right));
        }
        let existing = if exists { Existing::Replace } else { Existing::Keep };
        let atomic_file =
            self.root_dir.continue_interrupted(&partials.key(&path), kept_bytes, &path, existing);
        let atomic_file = atomic_file.map_err(|error| file_error(&error))?;
        let upload = Upload::new(atomic_file, self.space.clone(), self.file_max_bytes);
        let upload = upload
            .with_resumed_bytes(stored_len, kept_bytes)
            .with_memory_storage(self.root_dir.is_in_memory());
        Ok(Some(upload.with_partials(Some(partials), path)))
    }

    /// Starts an upload. First copies the part of the old file that the upload keeps.
    pub(super) fn write(&self, transfer: &Transfer) -> Result<Upload, FileError> {
        if let Some(upload) = self.resume(transfer)? {
            return Ok(upload);
        }
        let path = transfer.path.to_bytes();
        let is_unique = transfer.kind == TransferKind::StoreUnique;
        let name = if is_unique { self.unique_name(&transfer.path)? } else { path };
        self.check_space(transfer.allocation_bytes.unwrap_or(0))?;
        let offset = transfer.offset_bytes;
        let is_append = transfer.kind == TransferKind::Append;
        let rights = self.access.rights_at(&name);
        let has_all_rights = rights.contains(Right::Write)
            && rights.contains(Right::Overwrite)
            && rights.contains(Right::Append);
        let is_new = offset == 0 && !is_append;
        let old_len = match (self.space.is_none() && is_new && has_all_rights).then_some(None) {
            // No later check needs the old length.
            Some(old_len) => old_len,
            None => self.file_len(&name),
        };
        let old_bytes = old_len.unwrap_or(0);
        if offset > old_bytes {
            return Err(FileError::BeyondEnd);
        }
        let is_continuation = is_append || (offset > 0 && offset == old_bytes);
        let has_right = |right| rights.contains(right);
        if !has_all_rights {
            let required_right = match old_len {
                None => Right::Write,
                Some(_) if is_unique => Right::Write,
                Some(_) if is_continuation && (is_append || has_right(Right::Append)) => {
                    Right::Append
                }
                Some(_) => Right::Overwrite,
            };
            if !has_right(required_right) {
                return Err(FileError::Missing(required_right));
            }
        }
        if old_len.is_none() && self.space.as_ref().is_some_and(|space| !space.has_entry_left()) {
            return Err(FileError::Quota);
        }
        // Two clients may append to a file that does not exist yet: the second upload must not
        // replace the file of the first upload.
        let appends_to_new_file = is_append && old_len.is_none();
        let may_replace = !is_unique
            && !appends_to_new_file
            && (has_right(Right::Overwrite) || (is_continuation && old_len.is_some()));
        let existing = if may_replace { Existing::Replace } else { Existing::Keep };
        let atomic_file =
            self.root_dir.create(&name, existing).map_err(|error| file_error(&error))?;
        let upload = Upload::new(atomic_file, self.space.clone(), self.file_max_bytes);
        let partials = self.partials.as_ref().filter(|_| !is_unique);
        let upload = upload.with_partials(partials, name.clone());
        let mut upload = upload.with_memory_storage(self.root_dir.is_in_memory());
        let kept_bytes = if is_append { old_bytes } else { offset };
        if kept_bytes > 0 || (is_append && old_len.is_some()) {
            let (file, _) = self.root_dir.read(&name).map_err(|error| file_error(&error))?;
            upload.continue_from(file, kept_bytes, &self.root_dir, &name)?;
        }
        Ok(if is_unique { upload.with_server_name(name) } else { upload })
    }

    /// Checks whether the size limit, the quota and the disk allow `bytes` more bytes.
    fn check_space(&self, bytes: u64) -> Result<(), FileError> {
        if bytes == 0 {
            return Ok(());
        }
        if bytes > self.file_max_bytes {
            return Err(FileError::Limit);
        }
        if self.space.as_ref().is_some_and(|space| bytes > space.left_bytes()) {
            return Err(FileError::Quota);
        }
        let exceeds_free_space = bytes > self.root_dir.free_bytes().unwrap_or(u64::MAX);
        if exceeds_free_space { Err(FileError::NoSpace) } else { Ok(()) }
    }

    /// Returns the length of an existing file in bytes; 0 for anything that is not a file.
    fn file_len(&self, name: &[u8]) -> Option<u64> {
        let status = self.root_dir.status(name).ok()?;
        Some(if status.kind == Kind::File { status.len } else { 0 })
    }

    /// Returns a name derived from `path` that no file has yet.
    fn unique_name(&self, path: &VirtualPath) -> Result<Vec<u8>, FileError> {
        let is_directory =
            self.root_dir.status(&path.to_bytes()).is_ok_and(|s| s.kind == Kind::Directory);
        let mut stem = path.to_bytes();
        if is_directory {
            let slash: &[u8] = if path.is_root() { b"" } else { b"/" };
            stem.extend([slash, b"file"].concat());
        }
        for _ in 0..16 {
            let rng = os::entropy::seed().map_err(|_| FileError::Local)?;
            let name = [stem.as_slice(), format!(".{:08x}", rng >> 32).as_bytes()].concat();
            if self.root_dir.status(&name).is_err() {
                return Ok(name);
            }
        }
        Err(FileError::Exists)
    }

    /// Performs a file operation requested by the protocol engine.
    pub(super) fn perform(&self, operation: &Operation) -> Result<Outcome, FileError> {
        self.check_rights(operation)?;
        match operation {
            Operation::ChangeDirectory(path) => {
                // The directory must be readable, because an unreadable directory would appear
                // empty to the user.
                self.root_dir.entries(&path.to_bytes()).map_err(|error| file_error(&error))?;
                Ok(Outcome::Done)
            }
            Operation::MakeDirectory(path) => {
                let make = || self.root_dir.create_directory(&path.to_bytes());
                outcome_of(
                    self.space.as_ref().map_or_else(make, |space| space.make_directory(make)),
                )
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
                let path_rights = self.access.path_rights(&path.to_bytes());
                Ok(Outcome::Entry(entry_of(name, status, path_rights)))
            }
            Operation::SetFacts(path, facts) => self.set_facts(path, facts),
            Operation::Available(_) => {
                let free_bytes = self.root_dir.free_bytes().map_err(|error| file_error(&error))?;
                let quota_left = self.space.as_ref().map_or(u64::MAX, |space| space.left_bytes());
                Ok(Outcome::Size(free_bytes.min(quota_left)))
            }
            Operation::Allocate(bytes) => self.check_space(*bytes).map(|()| Outcome::Done),
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
    pub(super) fn check_rights(&self, operation: &Operation) -> Result<(), FileError> {
        let access = &self.access;
        match operation {
            Operation::ChangeDirectory(path) => {
                let is_inaccessible = access.rights_at(&path.to_bytes()) == Rights::NONE;
                if is_inaccessible { Err(FileError::Missing(Right::List)) } else { Ok(()) }
            }
            Operation::MakeDirectory(path) => access.require(Right::MakeDirectory, path),
            Operation::RemoveDirectory(path) | Operation::Delete(path) => {
                access.require_for_name(Right::Delete, path)
            }
            Operation::Exists(path) => access.require_for_name(Right::Rename, path),
            Operation::Rename { from, to } => access.require_for_rename(from, to),
            Operation::Size { path, .. }
            | Operation::Modified(path)
            | Operation::Facts(path)
            | Operation::Available(path)
            | Operation::Status { path, .. } => access.require(Right::List, path),
            Operation::SetFacts(path, _) => access.require(Right::Change, path),
            Operation::Partial(path) => {
                let rights = access.rights_at(&path.to_bytes());
                let writes = [Right::Write, Right::Overwrite, Right::Append];
                let has_any = writes.iter().any(|right| rights.contains(*right));
                if has_any { Ok(()) } else { Err(FileError::Missing(Right::Write)) }
            }
            // These operations check the rights themselves.
            Operation::Hash(..)
            | Operation::Combine { .. }
            | Operation::Allocate(_)
            | Operation::Host(_)
            | Operation::Mailbox(_)
            | Operation::Deliver { .. } => Ok(()),
        }
    }

    pub(super) fn status(&self, path: &VirtualPath) -> Result<Status, FileError> {
        self.root_dir.status(&path.to_bytes()).map_err(|error| file_error(&error))
    }

    fn delete(&self, path: &VirtualPath) -> Result<Outcome, FileError> {
        self.remove(path, |name| self.root_dir.remove_file(name))
    }

    fn remove_directory(&self, path: &VirtualPath) -> Result<Outcome, FileError> {
        self.remove(path, |name| self.root_dir.remove_directory(name))
    }

    /// Removes a name with `work`, and releases the quota of the removed entry.
    fn remove(
        &self,
        path: &VirtualPath,
        work: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> Result<Outcome, FileError> {
        let name = path.to_bytes();
        outcome_of(match &self.space {
            Some(space) => space.remove(|| {
                let status = self.root_dir.status_of_name(&name)?;
                work(&name)?;
                Ok(Amount::from_status(&status))
            }),
            None => work(&name),
        })
    }

    fn rename(&self, from: &VirtualPath, to: &VirtualPath) -> Result<Outcome, FileError> {
        let target_status = self.status(to).ok();
        if target_status.is_some() && from != to {
            self.access.require(Right::Overwrite, to)?;
        }
        let is_directory = || self.status(from).is_ok_and(|status| status.kind == Kind::Directory);
        if from.parent() != to.parent() && is_directory() {
            self.access.require(Right::MakeDirectory, to)?;
        }
        let from = from.to_bytes();
        let to = to.to_bytes();
        outcome_of(match &self.space {
            Some(space) => space.rename(|| {
                let moved_status = self.root_dir.status_of_name(&from)?;
                let target_status = self.root_dir.status_of_name(&to);
                self.root_dir.rename(&from, &to)?;
                // If both names are links to one file, both names remain.
                let replaced_status =
                    target_status.ok().filter(|status| status.file_id != moved_status.file_id);
                Ok(replaced_status.as_ref().map_or_else(Amount::default, Amount::from_status))
            }),
            None => self.root_dir.rename(&from, &to),
        })
    }

    fn set_facts(&self, path: &VirtualPath, facts: &SetFacts) -> Result<Outcome, FileError> {
        if facts.created.is_some() {
            return Err(FileError::NotSupported);
        }
        let name = path.to_bytes();
        if let Some(Timestamp { seconds, nanos }) = facts.modified {
            outcome_of(self.root_dir.set_modified(&name, seconds, nanos))?;
        }
        if let Some(mode) = facts.mode {
            outcome_of(self.root_dir.set_mode(&name, mode))?;
        }
        Ok(Outcome::Done)
    }

    /// Starts the upload into which other files are combined.
    pub(super) fn begin_combined(&self, target: &VirtualPath) -> Result<Upload, FileError> {
        let name = target.to_bytes();
        let target_status = self.status(target).ok();
        let required = if target_status.is_some() { Right::Overwrite } else { Right::Write };
        self.access.require(required, target)?;
        let existing = match required {
            Right::Overwrite => Existing::Replace,
            _ => Existing::Keep,
        };
        let atomic_file =
            self.root_dir.create(&name, existing).map_err(|error| file_error(&error))?;
        Ok(Upload::new(atomic_file, self.space.clone(), self.file_max_bytes))
    }
}

/// Sets the position in a file to `offset`.
pub(super) fn seek(file: &mut File, offset: u64) -> Result<(), FileError> {
    file.seek(SeekFrom::Start(offset)).map(drop).map_err(|error| file_error(&error))
}

fn outcome_of(result: io::Result<()>) -> Result<Outcome, FileError> {
    result.map(|()| Outcome::Done).map_err(|error| file_error(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_directory_determines_the_word_format() {
        let formats = WordFormats::new(vec![
            (b"/its".to_vec(), WordFormat::U36),
            (b"/its/tapes".to_vec(), WordFormat::C36),
        ]);
        assert_eq!(formats.for_path(b"/its/file"), Some(WordFormat::U36));
        assert_eq!(formats.for_path(b"/its/tapes/deep/file"), Some(WordFormat::C36));
        assert_eq!((formats.for_path(b"/itself"), formats.for_path(b"/file")), (None, None));
    }
}
