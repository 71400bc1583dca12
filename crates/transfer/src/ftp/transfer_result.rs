//! Result of a transfer over one data connection, and the errors that end a transfer.

use super::transfer_stats::FtpTransferStats;
use protocols::ftp::listing::Collector;
use protocols::ftp::user::DataFailure;
use std::io::{self, ErrorKind};

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
    pub(crate) stats: FtpTransferStats,
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
            stats: FtpTransferStats::default(),
            result: Ok::<(), (_, io::Error)>(()),
            has_enough: false,
        }
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
