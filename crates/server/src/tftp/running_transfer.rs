//! A transfer that the TFTP server runs.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use transfer::tftp::Stop;

/// Running transfer.
pub(super) struct RunningTransfer {
    /// Datagram of the request.
    pub(super) request: Vec<u8>,
    pub(super) stop: Arc<Stop>,
    pub(super) started_at: Instant,
    /// Whether any datagram has arrived from the client since the request.
    pub(super) has_answered: Arc<AtomicBool>,
    /// Whether a new request has displaced the transfer.
    pub(super) is_displaced: Cell<bool>,
}

impl RunningTransfer {
    pub(super) fn new(request: &[u8]) -> Self {
        Self {
            request: request.to_vec(),
            stop: Arc::default(),
            started_at: Instant::now(),
            has_answered: Arc::default(),
            is_displaced: Cell::new(false),
        }
    }
}
