//! Log files, which belong to the owner of their directory.
//!
//! The directory of a service belongs to its user, and log files are rotated by that user. If the
//! service runs as root, its new log files would belong to root, and the rotation would fail.

use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Opens a log file to append to it, and creates it if it does not exist. If the process is
/// privileged and the directory belongs to another user, the file gets the owner of its directory.
///
/// # Errors
///
/// Returns an error if the file cannot be opened. In a directory of another user, this includes a
/// symbolic link, which could lead a privileged process to any file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let owner = fs::metadata(directory.unwrap_or_else(|| Path::new("."))).ok();
    let owner = owner.filter(|owner| os::user::is_root() && owner.uid() != 0);
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    if owner.is_some() {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = options.open(path)?;
    if let Some(owner) = owner {
        let opened = file.metadata()?;
        // A file with several links may have a name in another directory.
        if opened.is_file() && opened.nlink() == 1 && opened.uid() != owner.uid() {
            // Ignored: without the capability, only the rotation fails.
            _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_appended_to_a_file_of_the_owner_of_its_directory() {
        let directory = std::env::temp_dir().join(format!("plumb-owner-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("log");
        open(&path).unwrap().write_all(b"1\n").unwrap();
        open(&path).unwrap().write_all(b"2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
        assert_eq!(fs::metadata(&path).unwrap().uid(), fs::metadata(&directory).unwrap().uid());
        fs::remove_dir_all(directory).unwrap();
    }
}
