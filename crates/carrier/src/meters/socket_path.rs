//! Location of the sockets of running plumbs: `PID.sock` in a directory that only its user may
//! enter.
//!
//! A socket gets its final name only after its process has begun to listen. If a socket with its
//! final name refuses connections, its process is dead, and the next plumb removes the socket.

use os::state_directory::service_runtime_directory;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// File mode bits for group and others.
const GROUP_AND_OTHERS_BITS: u32 = 0o077;
/// File name extension of a socket.
const SUFFIX: &str = ".sock";
/// Runtime directories of the packaged services, which belong to the users of the services.
const SERVICE_DIRECTORIES: [&str; 2] = ["/run/plumb", "/run/plumb-login"];

/// Returns the directories for the socket of a service: that of the service manager, if there is one,
/// and then those of the user.
pub(super) fn directories_of_service() -> Vec<PathBuf> {
    service_runtime_directory().into_iter().chain(directories()).collect()
}

/// Returns all directories that a client searches. The private ones of the user come first.
pub(super) fn searched_directories() -> Vec<PathBuf> {
    let mut searched = directories_of_service();
    for directory in SERVICE_DIRECTORIES.map(PathBuf::from) {
        if !searched.contains(&directory) {
            searched.push(directory);
        }
    }
    searched
}

/// Returns the directories of this user in the order in which they are tried.
pub(super) fn directories() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid();
    let runtime_directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime_directory = runtime_directory
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("plumb"));
    let system_directory = match uid.is_root() {
        true => PathBuf::from("/run/plumb"),
        false => PathBuf::from(format!("/run/user/{}/plumb", uid.as_raw())),
    };
    let fallback = PathBuf::from(format!("/tmp/plumb-{}", uid.as_raw()));
    let mut directories: Vec<_> =
        runtime_directory.into_iter().chain([system_directory, fallback]).collect();
    directories.dedup();
    directories
}

/// Creates or reuses the first of `directories` that can be created and is private to this user.
///
/// # Errors
///
/// Returns the error of the last directory.
pub(super) fn create_private(directories: &[PathBuf]) -> io::Result<PathBuf> {
    let mut last_error = ErrorKind::NotFound.into();
    for directory in directories {
        match create(directory) {
            Ok(()) => return Ok(directory.clone()),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn create(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match is_private(directory)? {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

/// Returns whether `directory` is a directory, not a symbolic link, owned by this user and
/// inaccessible to others. The check is necessary because any user could have created the directory
/// in /tmp.
fn is_private(directory: &Path) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(directory)?;
    Ok(is_private_to_owner(&metadata) && metadata.uid() == rustix::process::geteuid().as_raw())
}

fn is_private_to_owner(metadata: &fs::Metadata) -> bool {
    metadata.is_dir() && metadata.mode() & GROUP_AND_OTHERS_BITS == 0
}

/// Returns whether a client may use the sockets in `directory`: a private directory of this user, or
/// for root a directory of the services, because only root can create it.
fn is_searchable(directory: &Path, is_root: bool) -> bool {
    let is_of_services = is_root
        && SERVICE_DIRECTORIES.iter().any(|of_services| directory == Path::new(of_services));
    let of_services = || fs::symlink_metadata(directory).is_ok_and(|it| is_private_to_owner(&it));
    is_private(directory).unwrap_or(false) || (is_of_services && of_services())
}

/// Listens in `directory` under a process ID and returns the path of the socket.
///
/// # Errors
///
/// Returns the error of the operating system.
pub(super) fn listen(directory: &Path, pid: u32) -> io::Result<(UnixListener, PathBuf)> {
    remove_stale(directory);
    let temporary_path = directory.join(format!("{pid}.new"));
    let path = path(directory, pid);
    // A leftover of an earlier process with the same ID.
    _ = fs::remove_file(&temporary_path);
    let listener = UnixListener::bind(&temporary_path)?;
    fs::rename(&temporary_path, &path)?;
    Ok((listener, path))
}

fn path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}{SUFFIX}"))
}

/// Removes the sockets in `directory` whose process died without removing them.
fn remove_stale(directory: &Path) {
    for (_, path) in sockets_in(directory) {
        let connect_error = UnixStream::connect(&path).err().map(|error| error.kind());
        if connect_error == Some(ErrorKind::ConnectionRefused) {
            // Ignored: another process may remove it at the same time.
            _ = fs::remove_file(path);
        }
    }
}

/// Returns the sockets of all plumbs of this user in `directories`, by process ID; for root also those
/// of the services.
pub(super) fn sockets(directories: &[PathBuf]) -> Vec<(u32, PathBuf)> {
    let is_root = rustix::process::geteuid().is_root();
    let searchable = directories.iter().filter(|directory| is_searchable(directory, is_root));
    let mut sockets: Vec<_> = searchable
        .flat_map(|directory| {
            remove_stale(directory);
            sockets_in(directory)
        })
        .collect();
    sockets.sort();
    sockets
}

fn sockets_in(directory: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
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
    struct TempDirectory(PathBuf);

    impl TempDirectory {
        fn new(name: &str) -> Self {
            let directory =
                std::env::temp_dir().join(format!("plumb-socket-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&directory);
            fs::create_dir(&directory).unwrap();
            Self(directory)
        }

        fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for TempDirectory {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_directory_is_accessible_only_to_its_owner() {
        let scratch = TempDirectory::new("made");
        let directory = scratch.join("plumb");
        assert_eq!(create_private(std::slice::from_ref(&directory)).unwrap(), directory);
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    // attack row 113
    #[test]
    fn a_directory_accessible_to_others_is_not_used() {
        let scratch = TempDirectory::new("open");
        let directories = [scratch.join("open"), scratch.join("second")];
        fs::create_dir(&directories[0]).unwrap();
        fs::set_permissions(&directories[0], fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(create_private(&directories).unwrap(), directories[1]);
        let modes = directories.map(|path| fs::metadata(path).unwrap().mode() & 0o777);
        assert_eq!(modes, [0o711, 0o700]);
    }

    // attack row 113
    #[test]
    fn a_link_to_a_directory_is_not_used() {
        let scratch = TempDirectory::new("link");
        create(&scratch.join("real")).unwrap();
        symlink(scratch.join("real"), scratch.join("link")).unwrap();
        let refused = create_private(&[scratch.join("link")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    }

    // attack row 113
    #[test]
    fn root_searches_the_directory_of_another_user_only_if_it_is_that_of_the_services() {
        let scratch = TempDirectory::new("other");
        let other = scratch.join("other");
        create(&other).unwrap();
        assert!(is_searchable(&other, true));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
            assert!(!is_searchable(&other, true));
        }
        let searched = searched_directories();
        assert!(SERVICE_DIRECTORIES.iter().all(|it| searched.contains(&PathBuf::from(it))));
    }

    #[test]
    fn only_the_socket_of_a_dead_process_is_removed() {
        let scratch = TempDirectory::new("swept");
        let directory = create_private(&[scratch.join("plumb")]).unwrap();
        let (ended, stale_path) = listen(&directory, 1).unwrap();
        let (_live, live_path) = listen(&directory, 2).unwrap();
        drop(ended);
        assert_eq!(sockets(&[directory]), [(2, live_path)]);
        assert!(!stale_path.exists());
    }

    #[test]
    fn a_socket_without_a_listener_yet_is_not_removed() {
        let scratch = TempDirectory::new("new");
        let directory = create_private(&[scratch.join("plumb")]).unwrap();
        fs::write(directory.join("7.new"), "").unwrap();
        let listed = sockets(std::slice::from_ref(&directory));
        assert!(listed.is_empty(), "{listed:?}");
        assert!(directory.join("7.new").exists());
    }
}
