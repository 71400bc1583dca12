//! The folder that is served, and what may be done there, whatever the protocol.

use serde::Deserialize;
use std::path::PathBuf;

/// The arguments of the command that are for every server of files.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct Folder {
    /// The folder that is served: by FTP, or by what --ftp and --tftp say
    #[arg(long, value_name = "FOLDER", group = "files")]
    root: Option<PathBuf>,
    /// Give files and take none, which is the default
    #[arg(long, requires = "files", group = "rights")]
    read_only: bool,
    /// Take files that are not there yet
    #[arg(long, requires = "files", group = "rights")]
    write_once: bool,
    /// Take files, and replace those that are there
    #[arg(long, requires = "files", group = "rights")]
    writable: bool,
}

impl Folder {
    /// Returns the folder, if it is said.
    pub(super) fn root(&self) -> Option<&PathBuf> {
        self.root.as_ref()
    }

    /// Returns what may be done with the files, if it is said.
    pub(super) fn rights(&self) -> Option<Rights> {
        match self {
            Self { read_only: true, .. } => Some(Rights::ReadOnly),
            Self { write_once: true, .. } => Some(Rights::WriteOnce),
            Self { writable: true, .. } => Some(Rights::Writable),
            _ => None,
        }
    }
}

/// What may be done with the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rights {
    /// They are read.
    #[default]
    ReadOnly,
    /// New ones are written.
    WriteOnce,
    /// All are written.
    Writable,
}

impl Rights {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::ReadOnly => "to be read",
            Self::WriteOnce => "to be read, and written once",
            Self::Writable => "to be read and written",
        }
    }
}
