//! The root directory of a file server and its access mode, independent of the protocol.

use crate::heading;
use serde::Deserialize;
use std::path::PathBuf;

/// Command-line arguments shared by the file servers.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct RootArguments {
    /// Serve this directory: by FTP, or by the protocols selected with --ftp and --tftp
    #[arg(long, value_name = "directory", group = "files", help_heading = heading::FILES)]
    root: Option<PathBuf>,
    /// Allow downloads only, which is the default
    #[arg(long, requires = "files", group = "rights", help_heading = heading::FILES)]
    read_only: bool,
    /// Also allow uploads of new files
    #[arg(long, requires = "files", group = "rights", help_heading = heading::FILES)]
    write_once: bool,
    /// Also allow uploads that replace existing files
    #[arg(long, requires = "files", group = "rights", help_heading = heading::FILES)]
    writable: bool,
}

impl RootArguments {
    /// Returns the root directory given on the command line.
    pub(super) fn root(&self) -> Option<&PathBuf> {
        self.root.as_ref()
    }

    /// Returns the access mode given on the command line.
    pub(super) fn rights(&self) -> Option<Rights> {
        match self {
            Self { read_only: true, .. } => Some(Rights::ReadOnly),
            Self { write_once: true, .. } => Some(Rights::WriteOnce),
            Self { writable: true, .. } => Some(Rights::Writable),
            _ => None,
        }
    }
}

/// Access mode of the served directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rights {
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
