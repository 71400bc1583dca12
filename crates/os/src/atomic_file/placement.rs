//! Provisional replacement of a file: the new file takes the name, and the replaced file is kept
//! until the caller confirms the replacement (`confirm_replacement`) or undoes it
//! (`undo_replacement`).
//!
//! Until then the temporary name refers to the replaced file, or to the new file if the name was
//! free. A crash leaves the new file; a later [`super::sweep`] removes the temporary name.

use super::{AtomicFile, Existing, Placement, lend, random_name, rename_new};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// Minimum size of a file whose removal takes noticeable time; our own choice.
const LARGE_MIN_BYTES: i64 = 1 << 20;

impl AtomicFile {
    /// Gives the file its final name, and keeps the file that had the name before until
    /// [`Self::confirm_replacement`] or [`Self::undo_replacement`]. Dropping `self` confirms the
    /// replacement. The name is durable after [`Self::sync_name`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::take_name`]; [`io::ErrorKind::Unsupported`] if the file system
    /// can neither exchange two names nor create hard links.
    pub fn replace_provisionally(&mut self) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let from = OsStr::from_bytes(draft_name);
        let to = OsStr::from_bytes(&self.name);
        let directory = &self.directory;
        let placement = lend(self.credentials.as_deref(), || {
            if self.existing == Existing::Replace {
                match fs::renameat_with(directory, from, directory, to, RenameFlags::EXCHANGE) {
                    Ok(()) if is_directory(directory, from) => {
                        // A directory has taken the name since the temporary file was created.
                        fs::renameat_with(directory, from, directory, to, RenameFlags::EXCHANGE)?;
                        return Err(Errno::ISDIR.into());
                    }
                    Ok(()) => return Ok(Placement::Exchanged),
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(unsupported(error)),
                }
            }
            fs::linkat(directory, from, directory, to, AtFlags::empty()).map_err(unsupported)?;
            Ok(Placement::Linked)
        });
        self.placement = Some(placement?);
        Ok(())
    }

    /// Removes the temporary name of the replaced file. Returns the replaced file if it is large:
    /// its blocks are freed when it is closed, which takes time.
    pub fn confirm_replacement(mut self) -> Option<OwnedFd> {
        let replaced = self.replaced().filter(|replaced| {
            fs::fstat(replaced).is_ok_and(|stat| stat.st_size >= LARGE_MIN_BYTES)
        });
        self.discard();
        replaced
    }

    /// Opens the replaced file.
    fn replaced(&self) -> Option<OwnedFd> {
        let draft_name = self.draft_name.as_ref()?;
        if self.placement != Some(Placement::Exchanged) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let replaced_file = lend(self.credentials.as_deref(), || {
            Ok(fs::openat(&self.directory, OsStr::from_bytes(draft_name), flags, Mode::empty())?)
        });
        replaced_file.ok()
    }

    /// Undoes [`Self::replace_provisionally`]: the file is temporary again. The name refers to the
    /// replaced file, or to no file if there was none.
    ///
    /// # Errors
    ///
    /// Returns `ESTALE` if the name refers to another file by now; then nothing has changed.
    /// Otherwise returns the error of the failed system call.
    pub fn undo_replacement(&mut self) -> io::Result<()> {
        let (Some(draft_name), Some(placement)) = (&self.draft_name, self.placement) else {
            return Ok(());
        };
        let draft = OsStr::from_bytes(draft_name);
        let name = OsStr::from_bytes(&self.name);
        let directory = &self.directory;
        lend(self.credentials.as_deref(), || {
            let own_inode = fs::fstat(&self.file)?.st_ino;
            let is_own = |name: &OsStr| {
                let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
                stat.is_ok_and(|stat| stat.st_ino == own_inode)
            };
            if !is_own(name) {
                return Err(Errno::STALE.into());
            }
            match placement {
                Placement::Linked => {
                    // The name is not removed directly: another process may have given it to a
                    // different file since the check. It is renamed first, and the renamed file is
                    // checked again.
                    let moved_name = random_name()?;
                    let moved_name = OsStr::from_bytes(&moved_name);
                    fs::renameat(directory, name, directory, moved_name)?;
                    if !is_own(moved_name) {
                        rename_new(directory, moved_name, name)?;
                        return Err(Errno::STALE.into());
                    }
                    fs::unlinkat(directory, moved_name, AtFlags::empty())?;
                }
                Placement::Exchanged => {
                    let exchange = || {
                        fs::renameat_with(directory, name, directory, draft, RenameFlags::EXCHANGE)
                    };
                    exchange()?;
                    if !is_own(draft) {
                        exchange()?;
                        return Err(Errno::STALE.into());
                    }
                }
            }
            Ok(())
        })?;
        self.placement = None;
        Ok(())
    }
}

fn is_directory(directory: &OwnedFd, name: &OsStr) -> bool {
    let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Converts `error`; it becomes [`io::ErrorKind::Unsupported`] if the file system cannot perform
/// the call.
fn unsupported(error: Errno) -> io::Error {
    match error {
        Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::MLINK => {
            io::ErrorKind::Unsupported.into()
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Fixture;
    use super::*;
    use std::io::Write;

    fn placed(fixture: &Fixture) -> AtomicFile {
        let mut draft = fixture.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        draft.replace_provisionally().unwrap();
        assert_eq!((fixture.content().as_str(), draft.placement.is_some()), ("new", true));
        draft
    }

    // attack row 126
    #[test]
    fn undoing_a_replacement_restores_the_replaced_one() {
        let fixture = Fixture::new("withdrawn");
        let mut draft = placed(&fixture);
        draft.undo_replacement().unwrap();
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("old", 2));
        draft.replace_provisionally().unwrap();
        assert!(draft.confirm_replacement().is_none());
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("new", 1));
        std::fs::remove_file(fixture.0.join("name")).unwrap();
        let mut draft = placed(&fixture);
        draft.undo_replacement().unwrap();
        assert!(!fixture.0.join("name").exists());
        draft.replace_provisionally().unwrap();
        drop(draft);
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("new", 1));
    }

    #[test]
    fn a_large_file_that_was_replaced_is_freed_when_it_is_closed() {
        let fixture = Fixture::new("large");
        std::fs::write(fixture.0.join("name"), vec![0; 1 << 20]).unwrap();
        let replaced = placed(&fixture).confirm_replacement().unwrap();
        assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("new", 1));
        assert_eq!(fs::fstat(&replaced).unwrap().st_nlink, 0);
    }

    #[test]
    fn a_replacement_that_was_replaced_by_another_file_is_not_undone() {
        let fixture = Fixture::new("stale");
        for had_old in [true, false] {
            if !had_old {
                std::fs::remove_file(fixture.0.join("name")).unwrap();
            }
            let mut draft = placed(&fixture);
            std::fs::write(fixture.0.join("other"), "other").unwrap();
            std::fs::rename(fixture.0.join("other"), fixture.0.join("name")).unwrap();
            assert_eq!(draft.undo_replacement().unwrap_err().raw_os_error(), Some(libc::ESTALE));
            drop(draft);
            assert_eq!((fixture.content().as_str(), fixture.entry_count()), ("other", 1));
        }
    }

    #[test]
    fn a_directory_created_meanwhile_is_not_replaced() {
        let fixture = Fixture::new("directory");
        let mut draft = fixture.begin(Existing::Replace).unwrap();
        std::fs::remove_file(fixture.0.join("name")).unwrap();
        std::fs::create_dir(fixture.0.join("name")).unwrap();
        assert_eq!(draft.replace_provisionally().unwrap_err().raw_os_error(), Some(libc::EISDIR));
        drop(draft);
        assert!(fixture.0.join("name").is_dir());
        assert_eq!(fixture.entry_count(), 1);
        let mut draft = AtomicFile::begin(fixture.directory(), b"new", Existing::Keep).unwrap();
        std::fs::write(fixture.0.join("new"), "first").unwrap();
        assert_eq!(draft.replace_provisionally().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
