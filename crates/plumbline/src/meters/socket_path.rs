//! Location of the sockets of running plumbs: `PID.sock` in a directory that only its user may
//! enter.
//!
//! A socket gets its final name only once its process listens on it. A named socket that refuses
//! connections therefore belongs to a dead process, and the next plumb removes it.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// File mode bits for group and others.
const OTHERS: u32 = 0o077;
/// File name extension of a socket.
const SUFFIX: &str = ".sock";

/// Returns the directories in the order in which they are searched.
pub(super) fn folders() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid();
    let said = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let said = said.filter(|folder| folder.is_absolute()).map(|folder| folder.join("plumb"));
    let usual = match uid.is_root() {
        true => PathBuf::from("/run/plumb"),
        false => PathBuf::from(format!("/run/user/{}/plumb", uid.as_raw())),
    };
    let last = PathBuf::from(format!("/tmp/plumb-{}", uid.as_raw()));
    let mut folders: Vec<_> = said.into_iter().chain([usual, last]).collect();
    folders.dedup();
    folders
}

/// Creates or reuses the first of `folders` that can be created and is private to this user.
///
/// # Errors
///
/// Returns the error for the last of them.
pub(super) fn make_one(folders: &[PathBuf]) -> io::Result<PathBuf> {
    let mut why = ErrorKind::NotFound.into();
    for folder in folders {
        match make(folder) {
            Ok(()) => return Ok(folder.clone()),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match is_ours_alone(folder)? {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

/// Returns whether `folder` is a directory, not a symbolic link, owned by this user and
/// inaccessible to others: in /tmp any user could have created it.
fn is_ours_alone(folder: &Path) -> io::Result<bool> {
    let about = fs::symlink_metadata(folder)?;
    let uid = rustix::process::geteuid().as_raw();
    Ok(about.is_dir() && about.uid() == uid && about.mode() & OTHERS == 0)
}

/// Listens in `folder` under a process ID and returns the path of the socket.
///
/// # Errors
///
/// Returns the error of the operating system.
pub(super) fn listen(folder: &Path, pid: u32) -> io::Result<(UnixListener, PathBuf)> {
    sweep(folder);
    let (unfinished, path) = (folder.join(format!("{pid}.new")), path(folder, pid));
    // A leftover of an earlier process with the same ID.
    _ = fs::remove_file(&unfinished);
    let listener = UnixListener::bind(&unfinished)?;
    fs::rename(&unfinished, &path)?;
    Ok((listener, path))
}

fn path(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}{SUFFIX}"))
}

/// Removes the sockets in `folder` whose process died without removing them.
fn sweep(folder: &Path) {
    for (_, path) in sockets_in(folder) {
        let refused = UnixStream::connect(&path).err().map(|error| error.kind());
        if refused == Some(ErrorKind::ConnectionRefused) {
            // Ignored: another process may remove it at the same time.
            _ = fs::remove_file(path);
        }
    }
}

/// Returns the sockets of all plumbs of this user in `folders`, by process ID.
pub(super) fn sockets(folders: &[PathBuf]) -> Vec<(u32, PathBuf)> {
    let ours = folders.iter().filter(|folder| is_ours_alone(folder).unwrap_or(false));
    let mut sockets: Vec<_> = ours
        .flat_map(|folder| {
            sweep(folder);
            sockets_in(folder)
        })
        .collect();
    sockets.sort();
    sockets
}

fn sockets_in(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let sockets = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let pid = name.to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
        Some((pid, entry.path()))
    });
    sockets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A new directory below that for temporary files, removed at the end of the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("plumb-place-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_folder_is_made_for_its_owner_alone() {
        let scratch = Scratch::new("made");
        let folder = scratch.join("plumb");
        assert_eq!(make_one(std::slice::from_ref(&folder)).unwrap(), folder);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    // attack row 113
    #[test]
    fn a_folder_that_others_may_enter_is_not_taken() {
        let scratch = Scratch::new("open");
        let folders = [scratch.join("open"), scratch.join("second")];
        fs::create_dir(&folders[0]).unwrap();
        fs::set_permissions(&folders[0], fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(make_one(&folders).unwrap(), folders[1]);
    }

    // attack row 113
    #[test]
    fn a_link_to_a_folder_is_not_taken() {
        let scratch = Scratch::new("link");
        make(&scratch.join("real")).unwrap();
        symlink(scratch.join("real"), scratch.join("link")).unwrap();
        let refused = make_one(&[scratch.join("link")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_socket_whose_plumb_has_gone_is_swept_away_and_another_is_not() {
        let scratch = Scratch::new("swept");
        let folder = make_one(&[scratch.join("plumb")]).unwrap();
        let (gone, left) = listen(&folder, 1).unwrap();
        let (_there, kept) = listen(&folder, 2).unwrap();
        drop(gone);
        assert_eq!(sockets(&[folder]), [(2, kept)]);
        assert!(!left.exists());
    }

    #[test]
    fn a_socket_that_is_not_listened_at_yet_is_not_swept() {
        let scratch = Scratch::new("new");
        let folder = make_one(&[scratch.join("plumb")]).unwrap();
        fs::write(folder.join("7.new"), "").unwrap();
        sweep(&folder);
        assert!(folder.join("7.new").exists());
    }
}
