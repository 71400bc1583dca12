//! State of the file transfers of a login.

use super::session_settings::LoginSettings;
use net::time::Instant;
use os::tty::CaughtSignals;
use protocols::zmodem::{Autostart, Detection};
use transfer::modem::{CancelFilter, ModemCommand, ModemRecorder, ModemTransfer};

/// Maximum number of bytes that wait for the carrier before a transfer provides more. Our choice: a
/// cancellation follows these bytes.
pub(super) const OUTPUT_MAX_BYTES: usize = 8 * 1024;

/// File transfers of a login.
pub(super) struct FileTransfers {
    /// Recognition of ZMODEM in the output of the remote host, if it is enabled.
    pub(super) autostart: Option<Autostart>,
    /// Transfer that runs, if there is one.
    pub(super) transfer: Option<ModemTransfer>,
    /// Termination signals, which are caught while a transfer runs.
    pub(super) signals: Option<CaughtSignals>,
    /// Removes cancel sequences from the output after a transfer.
    pub(super) cancel_filter: CancelFilter,
    /// Records of the transferred files.
    pub(super) recorder: ModemRecorder,
    /// Whether the transfer has enabled BINARY, which its end disables.
    pub(super) has_enabled_binary: bool,
    /// Command of a script that waits for a request of the remote host.
    pub(super) script_command: Option<ModemCommand>,
    /// Result of a download that has ended before the script waited for it.
    pub(super) unclaimed: Option<Option<String>>,
    /// Whether a receiver on the remote host waits for files.
    pub(super) is_awaited: bool,
    /// Time at which the session ends after a termination signal, even if the remote program has not
    /// confirmed the cancellation.
    pub(super) ends_at: Option<Instant>,
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
            // Without a free descriptor, signals end the process as usual.
            signals: CaughtSignals::new().ok(),
            cancel_filter: CancelFilter::default(),
            recorder: ModemRecorder::new(settings.transfer_records.clone()),
            has_enabled_binary: false,
            script_command: None,
            unclaimed: None,
            is_awaited: false,
            ends_at: None,
            last_byte: None,
        }
    }

    /// Starts `transfer`, and catches the termination signals until [`Self::end`].
    pub(super) fn begin(&mut self, transfer: ModemTransfer) {
        self.is_awaited = false;
        self.unclaimed = None;
        self.forget_request();
        self.transfer = Some(transfer);
        // Ignored: signals then end the process as usual.
        _ = self.signals.as_ref().map(CaughtSignals::catch);
    }

    /// Ends the transfer.
    pub(super) fn end(&mut self) {
        self.transfer = None;
        if let Some(signals) = &self.signals {
            signals.release();
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

    /// Returns the number of bytes at the start of `data` that end the request that was found last.
    pub(super) fn request_line_end_len(&mut self, data: &[u8]) -> usize {
        self.autostart.as_mut().map_or(0, |autostart| autostart.line_end_len(data))
    }

    /// Forgets the request that was found last, because a transfer has begun.
    fn forget_request(&mut self) {
        if let Some(autostart) = &mut self.autostart {
            autostart.forget_line_end();
        }
    }

    /// Returns the first request of a ZMODEM program in `data`.
    pub(super) fn find_request(&mut self, data: &[u8]) -> Option<Detection> {
        self.autostart.as_mut()?.find(data)
    }
}
