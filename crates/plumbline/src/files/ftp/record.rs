//! What is known of a transfer at its end. What is not known is `None`, and never 0.

use super::dialogue::Dialogue;
use super::mover::Moved;
use super::trouble::Trouble;
use protocols::application::ftp::Representation;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

/// A transfer.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Whether a file came, or went.
    pub(super) is_incoming: bool,
    pub(super) path: Vec<u8>,
    pub(super) host: String,
    pub(super) representation: Representation,
    pub(super) is_own_stack: bool,
    pub(super) is_tls: bool,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) started: SystemTime,
    pub(super) began: Instant,
    pub(super) total: Option<Duration>,
    pub(super) file_bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) attempts: u32,
    pub(super) is_resumed: Option<bool>,
}

impl Record {
    /// Begins the record of a transfer.
    pub(super) fn begin(
        dialogue: &Dialogue,
        is_incoming: bool,
        path: &[u8],
        representation: Representation,
    ) -> Self {
        let caller = &dialogue.caller;
        Self {
            is_incoming,
            path: path.to_vec(),
            host: caller.target.host.clone(),
            representation,
            is_own_stack: caller.shared.host.is_some(),
            is_tls: caller.is_tls(),
            local: None,
            remote: None,
            started: SystemTime::now(),
            began: Instant::now(),
            total: None,
            file_bytes: 0,
            wire_bytes: 0,
            attempts: 0,
            is_resumed: None,
        }
    }

    /// Takes what an attempt has moved.
    pub(super) fn take(&mut self, dialogue: &Dialogue, moved: Option<&Moved>, made: u32) {
        self.attempts = self.attempts.max(made);
        if let Some(session) = dialogue.open_session() {
            (self.local, self.remote) = (Some(session.local), Some(session.peer));
        }
        if let Some(moved) = moved {
            self.file_bytes += moved.file_bytes;
            self.wire_bytes += moved.wire_bytes;
            self.is_resumed = moved.is_resumed;
        }
    }

    /// Adds what another session has moved of the same file.
    pub(super) fn add(&mut self, other: &Self) {
        self.file_bytes += other.file_bytes;
        self.wire_bytes += other.wire_bytes;
        self.attempts = self.attempts.max(other.attempts);
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        self.total = Some(self.began.elapsed());
    }

    /// Returns it as JSON, with what went wrong.
    pub(super) fn json(&self, trouble: Option<&Trouble>) -> Value {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).ok();
        let Representation { data_type, mode, structure, word_format } = self.representation;
        json!({
            "role": "user",
            "protocol": if self.is_tls { "ftps" } else { "ftp" },
            "command": if self.is_incoming { "RETR" } else { "STOR" },
            "type": data_type.to_string(),
            "mode": mode.to_string(),
            "structure": structure.to_string(),
            "word_format": super::options::word_format_name(word_format),
            "stack": if self.is_own_stack { "plumbline" } else { "kernel" },
            "local": self.local.map(|at| at.to_string()),
            "remote": self.remote.map(|at| at.to_string()),
            "remote_name": self.host,
            "path_requested": String::from_utf8_lossy(&self.path),
            "t_start_unix_ns": started.map(nanos),
            "file_bytes": self.file_bytes,
            "wire_bytes": self.wire_bytes,
            "attempts": self.attempts,
            "tls_resumed": self.is_resumed,
            "ns_total": self.total.map(nanos),
            "outcome": trouble.map_or("complete", Trouble::outcome),
            "error": trouble.map(Trouble::sentence),
        })
    }
}
