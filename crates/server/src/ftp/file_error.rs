//! Errors of the file system, as the protocol engine reports them.

use protocols::ftp::server::FileError;
use std::io;

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
        // A name that leaves the root is reported like a file without permission.
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
