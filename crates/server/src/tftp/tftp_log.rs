//! Log events of the TFTP server, one line each.

use crate::log_line::{Level, LogEvent};
use crate::log_text::TransferAction;
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;

/// Log event of the TFTP server.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum TftpEvent {
    /// A listener is open.
    #[serde(rename = "serving-tftp")]
    Serving { at: String, root: String, rights: &'static str },
    /// A request was declined. The name is already escaped.
    #[serde(rename = "request-refused")]
    Declined { from: SocketAddr, name: String, why: String },
    /// A transfer completed.
    #[serde(rename = "transfer-complete")]
    Moved { from: SocketAddr, name: String, action: TransferAction, bytes: u64, duration_us: u64 },
    /// A transfer failed.
    #[serde(rename = "transfer-failed")]
    Failed {
        from: SocketAddr,
        name: String,
        action: TransferAction,
        bytes: u64,
        why: String,
        #[serde(skip)]
        level: Level,
    },
}

impl fmt::Display for TftpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving { at, root, rights } => {
                write!(f, "serving TFTP at {at}, root {root}, {rights}")
            }
            Self::Declined { from, name, why } => {
                write!(f, "{from}: request for '{name}' refused: {why}")
            }
            Self::Moved { from, name, action, bytes, duration_us } => {
                let time = records::format::duration(duration_us.saturating_mul(1000));
                write!(f, "{from}: {action} of '{name}': {bytes} bytes in {time}")
            }
            Self::Failed { from, name, action, bytes, why, .. } => {
                write!(f, "{from}: {action} of '{name}' failed after {bytes} bytes: {why}")
            }
        }
    }
}

impl LogEvent for TftpEvent {
    fn level(&self) -> Level {
        match self {
            Self::Declined { .. } => Level::Warning,
            Self::Serving { .. } => Level::Notice,
            Self::Moved { .. } => Level::Info,
            Self::Failed { level, .. } => *level,
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
        let action = TransferAction::Upload;
        let events = [
            TftpEvent::Serving { at: text(), root: text(), rights: "rights" },
            TftpEvent::Declined { from, name: text(), why: text() },
            TftpEvent::Moved { from, name: text(), action, bytes: 1, duration_us: 1 },
            TftpEvent::Failed {
                from,
                name: text(),
                action,
                bytes: 1,
                why: text(),
                level: Level::Warning,
            },
        ];
        assert_lines_are_harmless(&events, 4, |event| match event {
            TftpEvent::Serving { .. } => 0,
            TftpEvent::Declined { .. } => 1,
            TftpEvent::Moved { .. } => 2,
            TftpEvent::Failed { .. } => 3,
        });
    }
}
