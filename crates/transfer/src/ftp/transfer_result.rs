//! Result of a transfer over one data connection, and the errors that end a transfer.

use crate::ftp_data::{BlockingSocket, Canceller, DataStats};
use crate::recorder::{TICK, of_settled, of_userspace};
use protocols::ftp::listing::Collector;
use protocols::ftp::user::DataFailure;
use records::transfer::Tcp;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Result of a transfer.
#[derive(Debug)]
pub struct TransferResult {
    /// Bytes on the data connection.
    pub(crate) wire_bytes: u64,
    /// Bytes of the local file.
    pub(crate) file_bytes: u64,
    /// Content received into memory.
    pub(crate) memory: Vec<u8>,
    /// Received listing, if the transfer was a listing.
    pub(crate) listing: Option<Box<Collector>>,
    /// Measurements for the record.
    pub(crate) stats: DataStats,
    /// Whether the transfer is an upload.
    pub(crate) is_sending: bool,
    /// Whether the transfer succeeded, and the cause of a failure.
    pub(crate) result: Result<(), (DataFailure, io::Error)>,
    /// Whether the transfer ended because `stop_after` bytes had arrived.
    pub(crate) has_enough: bool,
}

impl TransferResult {
    /// Returns a result without any transferred data.
    pub(crate) fn empty() -> Self {
        Self {
            wire_bytes: 0,
            file_bytes: 0,
            memory: Vec::new(),
            listing: None,
            stats: DataStats {
                cpu_time: Some(Duration::ZERO),
                tcp: Some(Tcp::default()),
                ..DataStats::default()
            },
            is_sending: false,
            result: Ok::<(), (_, io::Error)>(()),
            has_enough: false,
        }
    }

    /// Reads the TCP state and the addresses of the connection at its end.
    pub(super) fn read_connection(&mut self, connection: &BlockingSocket) {
        match connection {
            BlockingSocket::Kernel(stream) => {
                self.stats.query_tcp(stream);
                self.stats.query_addresses(stream);
            }
            BlockingSocket::Userspace { stream, .. } => {
                if let Ok(status) = stream.status() {
                    let (tcp, own_stack) = of_userspace(&status);
                    self.stats.tcp = Some(tcp);
                    self.stats.own_stack = own_stack;
                    self.stats.addresses = Some((status.local, status.remote));
                }
            }
        }
    }

    /// Reads the TCP state of an upload again after the server's reply, because TCP sends the last
    /// bytes after the write has returned.
    pub(super) fn update_after_reply(&mut self, connection: &Canceller) {
        let Some(stream) = connection.socket().filter(|_| self.is_sending) else { return };
        let stats = &mut self.stats;
        let Some((ago, tcp)) = of_settled(&stream) else {
            if stats.tcp.as_ref().is_none_or(|tcp| *tcp == Tcp::default()) {
                stats.query_tcp(&stream);
            }
            return;
        };
        stats.tcp = Some(tcp);
        let arrived = Instant::now().checked_sub(ago + TICK);
        // The arrival time that TCP reports is rounded to ticks. If both times are within a tick,
        // the more precise time is kept.
        stats.ended_at = if arrived > stats.ended_at { arrived } else { stats.ended_at };
    }
}

pub(super) type TransferError = (DataFailure, io::Error);

pub(super) fn connection_lost(error: io::Error) -> TransferError {
    let is_tls = error.get_ref().is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>());
    (if is_tls { DataFailure::Tls } else { DataFailure::ConnectionLost }, error)
}

pub(super) fn local_error(error: io::Error) -> TransferError {
    (DataFailure::File, error)
}

/// Returns the failure of a transfer that exceeds a size limit.
pub(super) fn limit_exceeded(why: String) -> TransferError {
    (DataFailure::Excess, io::Error::new(ErrorKind::InvalidData, why))
}

pub(super) fn malformed(why: &str) -> TransferError {
    (DataFailure::Malformed, io::Error::new(ErrorKind::InvalidData, why.to_owned()))
}
