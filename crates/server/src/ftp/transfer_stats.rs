//! Statistics of a transfer for its record.
//!
//! The task that moves the data stores the statistics in a [`ServerTransferStats`] shared with its
//! session, so that the statistics of an aborted transfer are available too. All times are times of
//! the server's clock. The CPU time of a transfer includes its task and the commit of an upload,
//! but not the control connection.

use super::upload::Upload;
use protocols::ftp::listing::ListForm;
use protocols::ftp::server::{
    self as engine, FileError, Finished, Transfer, TransferError, TransferKind,
};
use records::transfer::{Command, DataStyle, Outcome, Text};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use transfer::ftp_data::{DataStats, TransferStats, nanos_between};
use transfer::recorder::Record;

/// Statistics collected by the task of a transfer.
#[derive(Debug, Default)]
pub(super) struct ServerTransferStats {
    /// Statistics of the data connection.
    pub(super) transfer: TransferStats,
    /// Number of names in a listing that could not be sent unchanged.
    pub(super) unsendable_names: Cell<u64>,
    /// Connection over which a large file was sent, and the time at which sending began.
    pub(super) unacknowledged: RefCell<Option<(OwnedFd, Instant)>>,
}

impl ServerTransferStats {
    /// Locks the observations of the data connection.
    pub(super) fn data(&self) -> MutexGuard<'_, DataStats> {
        self.transfer.data()
    }

    /// Stores the duration of the commit of an upload, and adds its CPU time.
    pub(super) fn note_commit(&self, elapsed: Duration, cpu_time: Duration) {
        let mut data = self.data();
        data.commit_time = Some(elapsed);
        data.add_cpu_time(cpu_time);
    }

    /// Keeps a duplicate of a descriptor, with which the time of arrival is queried later.
    pub(super) fn await_acknowledgment(&self, stream: &impl AsFd, sending_started_at: Instant) {
        let duplicate = rustix::io::fcntl_dupfd_cloexec(stream, 0).ok();
        self.unacknowledged.replace(duplicate.map(|stream| (stream, sending_started_at)));
    }
}

/// Times of events on the control connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControlTiming {
    pub(super) command_at: Instant,
    pub(super) opened_at: Option<Instant>,
    pub(super) data_requested_at: Option<Instant>,
    pub(super) data_connected_at: Option<Instant>,
    pub(super) finished_at: Instant,
}

/// Returns the command name for the record.
pub(super) fn command_of(kind: &TransferKind) -> Command {
    match kind {
        TransferKind::Retrieve => Command::Retr,
        TransferKind::Store => Command::Stor,
        TransferKind::StoreUnique => Command::Stou,
        TransferKind::Append => Command::Appe,
        TransferKind::List { form: ListForm::Facts(_), .. } => Command::Mlsd,
        TransferKind::List { form: ListForm::Names { .. }, .. } => Command::Nlst,
        TransferKind::List { .. } => Command::List,
        TransferKind::Mail(_) => Command::Mlfl,
    }
}

/// Records the requested transfer.
pub(super) fn note_request(record: &mut Record, transfer: &Transfer) {
    record.note_representation(&transfer.representation);
    let request = &mut record.transfer.request;
    request.path_real = Some(Text::from(&transfer.path.to_bytes()));
    request.restart_offset_bytes = (transfer.offset_bytes > 0).then_some(transfer.offset_bytes);
    request.announced_bytes = transfer.allocation_bytes;
    request.data_style = transfer.data_command.map(|style| match style {
        engine::DataCommand::Port => DataStyle::Port,
        engine::DataCommand::Eprt => DataStyle::Eprt,
        engine::DataCommand::Lprt => DataStyle::Lprt,
        engine::DataCommand::Pasv => DataStyle::Pasv,
        engine::DataCommand::Epsv => DataStyle::Epsv,
        engine::DataCommand::Lpsv => DataStyle::Lpsv,
    });
}

/// Records the offset at which an upload starts, and the name of the file if the server chose a
/// name other than the requested one.
pub(super) fn note_start(record: &mut Record, upload: &Upload) {
    let request = &mut record.transfer.request;
    // Without REST, APPE starts at the end of the file.
    request.restart_offset_bytes =
        Some(upload.len_bytes()).filter(|len| *len > 0).or(request.restart_offset_bytes);
    if let Some(name) = upload.name() {
        request.path_requested = request.path_real.replace(Text::from(name));
    }
}

/// Records the result of the transfer.
pub(super) fn note_result(
    record: &mut Record,
    stats: &ServerTransferStats,
    timing: &ControlTiming,
    finished: &Finished,
    reason: Option<&str>,
) {
    let transfer = &mut record.transfer;
    let data = stats.data();
    data.note(transfer, finished.wire_bytes);
    let command = Some(timing.command_at);
    let time = &mut transfer.time;
    time.command_to_150_ns = nanos_between(command, timing.opened_at);
    time.data_connect_ns = nanos_between(timing.data_requested_at, timing.data_connected_at);
    time.first_byte_ns = nanos_between(command, data.first_byte_at);
    time.last_byte_to_226_ns = nanos_between(data.ended_at, Some(timing.finished_at));
    transfer.result.final_reply = finished.reply.map(u64::from);
    record.end(outcome_of(finished.result), reason);
}

fn outcome_of(result: Result<(), TransferError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Complete,
        Err(TransferError::NoConnection | TransferError::Stalled) => Outcome::Timeout,
        Err(TransferError::ConnectionLost | TransferError::ControlLost) => Outcome::AbortedByPeer,
        Err(TransferError::Aborted) => Outcome::AbortedByUser,
        Err(TransferError::File(FileError::NoSpace | FileError::Local)) => Outcome::Disk,
        Err(TransferError::File(FileError::Quota | FileError::Limit)) => Outcome::Quota,
        Err(TransferError::File(_)) => Outcome::Refused,
        Err(TransferError::Tls | TransferError::TlsNotResumed | TransferError::Malformed) => {
            Outcome::Protocol
        }
    }
}
