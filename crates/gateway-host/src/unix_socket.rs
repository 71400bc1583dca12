//! Unix sockets at which the gateway listens.

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Maximum length of the path of a Unix socket (`sun_path` without the NUL, unix(7)), in bytes.
pub(crate) const SOCKET_PATH_MAX_LEN: usize = 107;

/// The file of a socket. It is removed when the value is dropped, unless another program has replaced
/// it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// Returns the file at `path`, which the caller has created.
    pub(crate) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: identity_of(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity_of(&self.path) == self.identity {
            // Another gateway would remove the file too.
            _ = fs::remove_file(&self.path);
        }
    }
}

fn identity_of(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Listens at `path`, without blocking. Only the user of the gateway may connect. The socket of a program
/// that has ended is replaced.
///
/// # Errors
///
/// Returns `AddrInUse` if a program listens at `path`, or if it is not a socket; otherwise the error
/// of `bind(2)`.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let address = SocketAddrUnix::new(path)?;
    if is_socket && rustix::net::connect(open()?, &address) == Err(Errno::CONNREFUSED) {
        fs::remove_file(path)?;
    }
    let socket = open()?;
    // The file has the mode of the socket, as far as the umask permits.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A connection to a listener whose queue is full fails instead of blocking.
fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plumb-unix-socket-{name}-{}", std::process::id()))
    }

    #[test]
    fn the_socket_of_a_program_that_has_ended_is_replaced() {
        let path = path("ended");
        drop(listen(&path).unwrap());
        let listener = listen(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_the_user_may_connect() {
        let path = path("mode");
        let _listener = listen(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_listener_with_a_full_queue_is_not_replaced() {
        let path = path("full");
        let listener = listen(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_file_of_another_program_is_not_removed() {
        let path = path("other");
        let first = listen(&path).unwrap();
        let file = SocketFile::of(&path);
        fs::remove_file(&path).unwrap();
        let _second = listen(&path).unwrap();
        drop((first, file));
        assert!(path.exists());
        drop(SocketFile::of(&path));
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_kept() {
        let path = path("file");
        fs::write(&path, "data").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        fs::remove_file(&path).unwrap();
    }
}
