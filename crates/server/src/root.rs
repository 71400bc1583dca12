//! The root directory of a file server and its access mode, independent of the protocol.

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Access mode of the served directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rights {
    /// Files can be read.
    #[default]
    ReadOnly,
    /// Files can be read, and new files can be written.
    WriteOnce,
    /// Files can be read, written and replaced.
    Writable,
}

impl Rights {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WriteOnce => "write-once",
            Self::Writable => "writable",
        }
    }
}

/// Returns a warning if this process cannot create files in `root`, which its clients may fill.
pub(super) fn write_warning(root: &Path) -> Option<String> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let errno = rustix::fs::accessat(CWD, root, access, AtFlags::EACCESS).err()?;
    let path = root.display();
    let remedy = match errno {
        Errno::ROFS => format!("; under systemd, add ReadWritePaths={path} to the unit"),
        Errno::ACCESS => format!("; make it writable for user ID {}", os::user::effective_id()),
        _ => String::new(),
    };
    Some(format!("uploads to {path} will fail: {}{remedy}", std::io::Error::from(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_cannot_be_written_has_a_warning_with_the_reason() {
        assert_eq!(write_warning(&std::env::temp_dir()), None);
        let warning = write_warning("/nonexistent".as_ref()).unwrap();
        let expected = "uploads to /nonexistent will fail: No such file or directory (os error 2)";
        assert_eq!(warning, expected);
    }
}
