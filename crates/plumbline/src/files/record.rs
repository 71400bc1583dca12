//! What is known of a transfer at its end: the one place from which it is reported and kept.
//!
//! What is not known is `None`, and never 0.

use super::tftp::Trouble;
use protocols::application::tftp::{Agreed, Direction, Mode};
use protocols::time::Duration;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::SystemTime;

/// Which of the two programs we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one that asked.
    User,
    /// The one that was asked.
    Server,
}

/// A transfer that is over.
#[derive(Debug)]
pub(crate) struct Record {
    /// Which program.
    pub(crate) role: Role,
    /// Whether our own TCP/IP carried it.
    pub(crate) is_own_stack: bool,
    /// This end, if it is known.
    pub(crate) local: Option<SocketAddr>,
    /// The far end.
    pub(crate) remote: SocketAddr,
    /// The far host as it was asked for.
    pub(crate) remote_name: Option<String>,
    /// Read or written, from the user's side.
    pub(crate) direction: Direction,
    /// As what.
    pub(crate) mode: Mode,
    /// The name that was asked for.
    pub(crate) name: Vec<u8>,
    /// When it was asked for.
    pub(crate) started: SystemTime,
    /// What was agreed, if anybody answered.
    pub(crate) agreed: Option<Agreed>,
    /// Bytes of the file that were moved, in the form that it has here.
    pub(crate) file_bytes: u64,
    /// Bytes of UDP data that went out and came in.
    pub(crate) wire_bytes: u64,
    /// Blocks that were sent again, or came again.
    pub(crate) repeated_blocks: u64,
    /// How often this end waited in vain.
    pub(crate) timeouts: u64,
    /// From the request to the first byte of the file.
    pub(crate) first_byte: Option<Duration>,
    /// From the request to the end.
    pub(crate) total: Duration,
    /// CPU time of this program for it, where it did nothing else.
    pub(crate) cpu: Option<Duration>,
    /// What went wrong.
    pub(crate) trouble: Option<Trouble>,
}

impl Record {
    /// Returns the rate of the file's bytes.
    pub(crate) fn bytes_per_second(&self) -> Option<u64> {
        let nanos = self.total.as_nanos();
        let bytes = u128::from(self.file_bytes) * 1_000_000_000;
        bytes.checked_div(nanos).and_then(|rate| u64::try_from(rate).ok())
    }

    /// Returns the name as a person may see it.
    pub(crate) fn shown_name(&self) -> String {
        self.name.escape_ascii().to_string()
    }

    /// Returns the record as JSON.
    pub(crate) fn json(&self) -> Value {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).ok();
        json!({
            "role": match self.role { Role::User => "user", Role::Server => "server" },
            "protocol": "tftp",
            "command": match self.direction {
                Direction::Read => "TFTP-RRQ",
                Direction::Write => "TFTP-WRQ",
            },
            "mode": match self.mode { Mode::Octet => "octet", Mode::Netascii => "netascii" },
            "stack": if self.is_own_stack { "plumbline" } else { "kernel" },
            "local": self.local.map(|at| at.to_string()),
            "remote": self.remote.to_string(),
            "remote_name": self.remote_name,
            "path_requested": String::from_utf8_lossy(&self.name),
            "t_start_unix_ns": started.map(nanos),
            "block_size": self.agreed.map(|agreed| agreed.block_size),
            "window_size": self.agreed.map(|agreed| agreed.window_size),
            "file_bytes": self.file_bytes,
            "wire_bytes": self.wire_bytes,
            "repeated_blocks": self.repeated_blocks,
            "timeouts": self.timeouts,
            "ns_first_byte": self.first_byte.map(nanos),
            "ns_total": nanos(self.total),
            "cpu_ns": self.cpu.map(nanos),
            "outcome": self.trouble.as_ref().map_or("complete", Trouble::outcome),
            "error": self.trouble.as_ref().map(|trouble| trouble.sentence(self)),
        })
    }
}
