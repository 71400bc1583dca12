//! A draft that takes its name provisionally, until it is settled or withdrawn.
//!
//! Until then the draft's temporary name refers to the file that was replaced, or to the new file
//! itself if nothing was replaced. A crash leaves the new file; a later sweep removes the temporary
//! name.

use super::{Draft, Existing, lend, random_name, rename_new};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// Minimum size of a file whose removal takes noticeable time; our own choice.
const LARGE_MIN_BYTES: i64 = 1 << 20;

/// Method by which a file took its name, so that it can be withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The name was free. The draft's name is another hard link to the same file.
    Linked,
    /// The draft's name refers to the file that had the name before.
    Exchanged,
}

impl Draft {
    /// Gives the file its final name, and keeps the file that had the name before until
    /// [`Self::settle`] or [`Self::withdraw`]. Dropping the draft settles it. The name is durable
    /// after [`Self::sync_name`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::take_name`]; [`io::ErrorKind::Unsupported`] if the file system
    /// can neither exchange two names nor create hard links.
    pub fn place(&mut self) -> io::Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        let (from, to) = (OsStr::from_bytes(draft_name), OsStr::from_bytes(&self.name));
        let folder = &self.folder;
        let placed = lend(self.rights.as_deref(), || {
            if self.existing == Existing::Replace {
                match fs::renameat_with(folder, from, folder, to, RenameFlags::EXCHANGE) {
                    Ok(()) if is_directory(folder, from) => {
                        // A directory has taken the name since the draft was begun.
                        fs::renameat_with(folder, from, folder, to, RenameFlags::EXCHANGE)?;
                        return Err(Errno::ISDIR.into());
                    }
                    Ok(()) => return Ok(Placement::Exchanged),
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(unsupported(error)),
                }
            }
            fs::linkat(folder, from, folder, to, AtFlags::empty()).map_err(unsupported)?;
            Ok(Placement::Linked)
        });
        self.placement = Some(placed?);
        Ok(())
    }

    /// Removes the temporary name of the replaced file. Returns the replaced file if it is large:
    /// its blocks are freed when it is closed, which takes time.
    pub fn settle(mut self) -> Option<OwnedFd> {
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
        let opened = lend(self.rights.as_deref(), || {
            Ok(fs::openat(&self.folder, OsStr::from_bytes(draft_name), flags, Mode::empty())?)
        });
        opened.ok()
    }

    /// Takes back a placed file: it is a draft again, and its name refers to the old file or to
    /// none.
    ///
    /// # Errors
    ///
    /// Returns `ESTALE` if the name refers to another file by now; then nothing has changed.
    /// Otherwise returns the error of the failed system call.
    pub fn withdraw(&mut self) -> io::Result<()> {
        let (Some(draft_name), Some(placement)) = (&self.draft_name, self.placement) else {
            return Ok(());
        };
        let (draft, name) = (OsStr::from_bytes(draft_name), OsStr::from_bytes(&self.name));
        let folder = &self.folder;
        lend(self.rights.as_deref(), || {
            let own = fs::fstat(&self.file)?.st_ino;
            let is_own = |name: &OsStr| {
                let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
                stat.is_ok_and(|stat| stat.st_ino == own)
            };
            if !is_own(name) {
                return Err(Errno::STALE.into());
            }
            match placement {
                Placement::Linked => {
                    // Rename first instead of removing at once: another process may have taken the
                    // name since the check.
                    let aside = random_name()?;
                    let aside = OsStr::from_bytes(&aside);
                    fs::renameat(folder, name, folder, aside)?;
                    if !is_own(aside) {
                        rename_new(folder, aside, name)?;
                        return Err(Errno::STALE.into());
                    }
                    fs::unlinkat(folder, aside, AtFlags::empty())?;
                }
                Placement::Exchanged => {
                    let exchange =
                        || fs::renameat_with(folder, name, folder, draft, RenameFlags::EXCHANGE);
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

fn is_directory(folder: &OwnedFd, name: &OsStr) -> bool {
    let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
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
    use super::super::tests::Desk;
    use super::*;
    use std::io::Write;

    fn placed(desk: &Desk) -> Draft {
        let mut draft = desk.begin(Existing::Replace).unwrap();
        draft.file().write_all(b"new").unwrap();
        draft.place().unwrap();
        assert_eq!((desk.says().as_str(), draft.placement.is_some()), ("new", true));
        draft
    }

    // attack row 126
    #[test]
    fn a_file_that_was_placed_is_taken_back_and_the_old_one_is_there_again() {
        let desk = Desk::new("withdrawn");
        let mut draft = placed(&desk);
        draft.withdraw().unwrap();
        assert_eq!((desk.says().as_str(), desk.names()), ("old", 2));
        draft.place().unwrap();
        assert!(draft.settle().is_none());
        assert_eq!((desk.says().as_str(), desk.names()), ("new", 1));
        std::fs::remove_file(desk.0.join("name")).unwrap();
        let mut draft = placed(&desk);
        draft.withdraw().unwrap();
        assert!(!desk.0.join("name").exists());
        draft.place().unwrap();
        drop(draft);
        assert_eq!((desk.says().as_str(), desk.names()), ("new", 1));
    }

    #[test]
    fn a_large_file_that_was_replaced_is_freed_when_it_is_closed() {
        let desk = Desk::new("large");
        std::fs::write(desk.0.join("name"), vec![0; 1 << 20]).unwrap();
        let replaced = placed(&desk).settle().unwrap();
        assert_eq!((desk.says().as_str(), desk.names()), ("new", 1));
        assert_eq!(fs::fstat(&replaced).unwrap().st_nlink, 0);
    }

    #[test]
    fn a_file_whose_name_stands_for_another_by_now_is_not_taken_back() {
        let desk = Desk::new("stale");
        for had_old in [true, false] {
            if !had_old {
                std::fs::remove_file(desk.0.join("name")).unwrap();
            }
            let mut draft = placed(&desk);
            std::fs::write(desk.0.join("other"), "other").unwrap();
            std::fs::rename(desk.0.join("other"), desk.0.join("name")).unwrap();
            assert_eq!(draft.withdraw().unwrap_err().raw_os_error(), Some(libc::ESTALE));
            drop(draft);
            assert_eq!((desk.says().as_str(), desk.names()), ("other", 1));
        }
    }

    #[test]
    fn a_directory_that_comes_meanwhile_is_not_replaced_by_a_file_that_is_placed() {
        let desk = Desk::new("directory");
        let mut draft = desk.begin(Existing::Replace).unwrap();
        std::fs::remove_file(desk.0.join("name")).unwrap();
        std::fs::create_dir(desk.0.join("name")).unwrap();
        assert_eq!(draft.place().unwrap_err().raw_os_error(), Some(libc::EISDIR));
        drop(draft);
        assert!(desk.0.join("name").is_dir());
        assert_eq!(desk.names(), 1);
        let mut kept = Draft::begin(desk.folder(), b"new", Existing::Keep).unwrap();
        std::fs::write(desk.0.join("new"), "first").unwrap();
        assert_eq!(kept.place().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
