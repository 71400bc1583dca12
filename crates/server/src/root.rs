//! The root directory of a file server and its access mode, independent of the protocol.

use serde::{Deserialize, Serialize};

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
