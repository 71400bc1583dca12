//! The record of one transferred file, for the journal.

use super::modem_command::ModemProtocol;
use crate::recorder::{RecordedSession, TransferRecorder, nanos};
use net::time::Duration;
use records::transfer::{Command, Outcome, Role, Stack, Text, Type};
use std::sync::{Arc, Mutex, PoisonError};

/// Result of the transfer of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    pub(super) protocol: ModemProtocol,
    pub(super) is_upload: bool,
    /// Name that the sender has announced.
    pub(super) name: Vec<u8>,
    /// Name of the stored file, or path of the sent file.
    pub(super) path: Vec<u8>,
    pub(super) size: Option<u64>,
    /// Position at which the transfer began.
    pub(super) start: u64,
    /// Number of bytes that were transferred.
    pub(super) bytes: u64,
    pub(super) duration: Duration,
    pub(super) outcome: Outcome,
    /// Reason, if the file is not complete.
    pub(super) error: Option<String>,
}

impl FileRecord {
    const fn command(&self) -> Command {
        match (self.protocol, self.is_upload) {
            (ModemProtocol::Zmodem, false) => Command::ZmodemReceive,
            (ModemProtocol::Zmodem, true) => Command::ZmodemSend,
            (ModemProtocol::Ymodem, false) => Command::YmodemReceive,
            (ModemProtocol::Ymodem, true) => Command::YmodemSend,
            (ModemProtocol::Xmodem | ModemProtocol::Xmodem1k, false) => Command::XmodemReceive,
            (ModemProtocol::Xmodem | ModemProtocol::Xmodem1k, true) => Command::XmodemSend,
        }
    }
}

/// Values that the records of a session have in common.
#[derive(Clone, Debug, Default)]
pub struct TransferRecords {
    /// Whether records are kept.
    pub is_wanted: bool,
    /// Remote host, or device of the serial line.
    pub remote_name: String,
    /// Whether plumb's own TCP/IP carries the session.
    pub is_userspace: bool,
}

/// Writes the records of the transfers of a session to the journal, which is opened for the first
/// record.
#[derive(Debug)]
pub struct ModemRecorder {
    settings: TransferRecords,
    open: Option<(TransferRecorder, RecordedSession)>,
    /// Messages of the journal that were not taken.
    messages: Arc<Mutex<Vec<String>>>,
}

impl ModemRecorder {
    /// Creates the recorder of a session.
    #[must_use]
    pub fn new(settings: TransferRecords) -> Self {
        Self { settings, open: None, messages: Arc::default() }
    }

    /// Keeps the records of files. Returns the messages about errors of the journal.
    pub fn keep(&mut self, files: Vec<FileRecord>) -> Vec<String> {
        if files.is_empty() || !self.settings.is_wanted {
            return Vec::new();
        }
        let messages = Arc::clone(&self.messages);
        let report = move |message: &str| {
            let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.push(message.to_owned());
        };
        let stack = if self.settings.is_userspace { Stack::Plumbline } else { Stack::Kernel };
        let (recorder, session) = self.open.get_or_insert_with(|| {
            let recorder = TransferRecorder::for_client(true, report);
            let session = recorder.session();
            (recorder, session)
        });
        for file in files {
            let mut record = recorder.begin(Role::User, stack, Some(file.command()));
            if session.number(&mut record) {
                record.transfer.host = recorder.host();
            }
            let transfer = &mut record.transfer;
            transfer.identity.remote_name = Some(Text::from(&self.settings.remote_name));
            let request = &mut transfer.request;
            request.representation = Some(Type::Image);
            request.byte_size = Some(8);
            // XMODEM transfers no name.
            let has_name = !file.name.is_empty();
            request.path_requested = has_name.then(|| Text::from(file.name.as_slice()));
            // A download has no path before a file is offered.
            let has_path = !file.path.is_empty();
            request.path_real = has_path.then(|| Text::from(file.path.as_slice()));
            request.restart_offset_bytes = (file.start > 0).then_some(file.start);
            request.announced_bytes = file.size;
            transfer.size.file_bytes = Some(file.bytes);
            record.end(file.outcome, file.error.as_deref());
            let time = &mut record.transfer.time;
            let duration_ns = nanos(file.duration);
            time.start_unix_ns = time.start_unix_ns.map(|now| now.saturating_sub(duration_ns));
            time.start_boot_ns = time.start_boot_ns.map(|now| now.saturating_sub(duration_ns));
            time.transfer_ns = Some(duration_ns);
            time.total_ns = Some(duration_ns);
            recorder.keep(&record);
        }
        recorder.flush();
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
