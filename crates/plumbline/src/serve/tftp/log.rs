//! What the TFTP server says of itself: one line an event.

use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// An event.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event {
    /// Files are served.
    Serving { at: String, root: String, rights: &'static str },
    /// Somebody asked in vain. The name is escaped already.
    Declined { from: SocketAddr, name: String, why: String },
    /// A file has gone out or come in.
    Moved { from: SocketAddr, name: String, is_read: bool, bytes: u64, milliseconds: u64 },
    /// A transfer has failed.
    Failed { from: SocketAddr, name: String, is_read: bool, bytes: u64, why: String },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |is_read: bool| if is_read { "reads" } else { "writes" };
        match self {
            Self::Serving { at, root, rights } => {
                write!(f, "serving TFTP at {at}, the files of {root}, {rights}")
            }
            Self::Declined { from, name, why } => write!(f, "{from} asks for '{name}': {why}"),
            Self::Moved { from, name, is_read, bytes, milliseconds } => {
                let way = way(*is_read);
                write!(f, "{from} {way} '{name}': {bytes} bytes in {milliseconds} ms")
            }
            Self::Failed { from, name, is_read, bytes, why } => {
                let way = way(*is_read);
                write!(f, "{from} {way} '{name}': ended after {bytes} bytes: {why}")
            }
        }
    }
}
