//! State of the file transfers of a login.

use super::session_settings::LoginSettings;
use net::time::Instant;
use protocols::zmodem::{Autostart, Detection};
use transfer::modem::ModemTransfer;

/// Maximum number of bytes that wait for the carrier before a transfer provides more. Our choice: a
/// cancellation follows these bytes.
pub(super) const OUTPUT_MAX_BYTES: usize = 8 * 1024;

/// File transfers of a login.
pub(super) struct FileTransfers {
    /// Recognition of ZMODEM in the output of the remote host, if it is enabled.
    pub(super) autostart: Option<Autostart>,
    /// Transfer that runs, if there is one.
    pub(super) transfer: Option<ModemTransfer>,
    /// Whether the transfer has enabled BINARY, which its end disables.
    pub(super) has_enabled_binary: bool,
    /// Whether a receiver on the remote host waits for files.
    pub(super) is_awaited: bool,
    /// Last byte of the remote host before a transfer: the request of an XMODEM or YMODEM receiver,
    /// which repeats it only after several seconds.
    pub(super) last_byte: Option<u8>,
}

impl FileTransfers {
    /// Creates the file transfers of a session.
    pub(super) fn new(settings: &LoginSettings) -> Self {
        Self {
            autostart: settings.starts_zmodem.then(Autostart::default),
            transfer: None,
            has_enabled_binary: false,
            is_awaited: false,
            last_byte: None,
        }
    }

    /// Returns whether a transfer runs.
    pub(super) const fn is_active(&self) -> bool {
        self.transfer.is_some()
    }

    /// Returns when `Login::run_transfer` is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.transfer.as_ref().and_then(ModemTransfer::deadline)
    }

    /// Returns whether `Login::run_transfer` can send data.
    pub(super) fn has_output(&self) -> bool {
        self.transfer.as_ref().is_some_and(ModemTransfer::has_output)
    }

    /// Returns the first request of a ZMODEM program in `data`.
    pub(super) fn find_request(&mut self, data: &[u8]) -> Option<Detection> {
        self.autostart.as_mut()?.find(data)
    }
}
