//! Unix sockets at which the gateway listens.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::{fs, io};

/// Listens at `path`, without blocking. The socket of a program that has ended is replaced.
///
/// # Errors
///
/// Returns `AddrInUse` if a program listens at `path`, or if it is not a socket; otherwise the error
/// of `bind(2)`.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
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
    fn a_file_that_is_not_a_socket_is_kept() {
        let path = path("file");
        fs::write(&path, "data").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        fs::remove_file(&path).unwrap();
    }
}
