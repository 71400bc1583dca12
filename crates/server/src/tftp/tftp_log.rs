//! Log events of the TFTP server, one line each.

use crate::log_line::{Level, LogEvent};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// Log event of the TFTP server.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum TftpEvent {
    /// A listener is open.
    Serving { at: String, root: String, rights: &'static str },
    /// A request was declined. The name is already escaped.
    Declined { from: SocketAddr, name: String, why: String },
    /// A transfer completed.
    Moved { from: SocketAddr, name: String, is_read: bool, bytes: u64, milliseconds: u64 },
    /// A transfer failed.
    Failed { from: SocketAddr, name: String, is_read: bool, bytes: u64, why: String },
    /// The address prefixes and limits were reloaded.
    Reloaded,
    /// Reloading failed; the previous configuration remains in force.
    NotReloaded { why: String },
}

impl fmt::Display for TftpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = |is_read: bool| if is_read { "download" } else { "upload" };
        match self {
            Self::Serving { at, root, rights } => {
                write!(f, "serving TFTP at {at}, root {root}, {rights}")
            }
            Self::Declined { from, name, why } => {
                write!(f, "{from}: request for '{name}' refused: {why}")
            }
            Self::Moved { from, name, is_read, bytes, milliseconds } => {
                let direction = direction(*is_read);
                let time = records::format::duration(milliseconds.saturating_mul(1_000_000));
                write!(f, "{from}: {direction} of '{name}': {bytes} bytes in {time}")
            }
            Self::Failed { from, name, is_read, bytes, why } => {
                let direction = direction(*is_read);
                write!(f, "{from}: {direction} of '{name}' failed after {bytes} bytes: {why}")
            }
            Self::Reloaded => f.write_str("TFTP address prefixes reloaded"),
            Self::NotReloaded { why } => {
                write!(f, "TFTP configuration not reloaded, the old one stays in force: {why}")
            }
        }
    }
}

impl LogEvent for TftpEvent {
    fn level(&self) -> Level {
        match self {
            Self::NotReloaded { .. } => Level::Error,
            Self::Declined { .. } => Level::Warning,
            Self::Serving { .. } | Self::Reloaded => Level::Notice,
            Self::Moved { .. } | Self::Failed { .. } => Level::Info,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::log::{HOSTILE, assert_lines_are_harmless};
    use super::*;

    // attack row 75
    #[test]
    fn tftp_log_lines_contain_no_terminal_command_or_forged_line() {
        let from = SocketAddr::from(([192, 0, 2, 7], 6969));
        let text = || HOSTILE.to_owned();
        let events = [
            TftpEvent::Serving { at: text(), root: text(), rights: "rights" },
            TftpEvent::Declined { from, name: text(), why: text() },
            TftpEvent::Moved { from, name: text(), is_read: true, bytes: 1, milliseconds: 1 },
            TftpEvent::Failed { from, name: text(), is_read: false, bytes: 1, why: text() },
            TftpEvent::Reloaded,
            TftpEvent::NotReloaded { why: text() },
        ];
        assert_lines_are_harmless(&events, 6, |event| match event {
            TftpEvent::Serving { .. } => 0,
            TftpEvent::Declined { .. } => 1,
            TftpEvent::Moved { .. } => 2,
            TftpEvent::Failed { .. } => 3,
            TftpEvent::Reloaded => 4,
            TftpEvent::NotReloaded { .. } => 5,
        });
    }
}
