//! Statistics of a transfer for its record.
//!
//! The task that moves the data stores the statistics in a [`ServerTransferStats`] shared with its
//! session, so that the statistics of an aborted transfer are available too. All times are times of
//! the server's clock. The CPU time of a transfer includes its task and the commit of an upload,
//! but not the control connection.

use super::upload::Upload;
use net::Instant;
use net::time::Duration;
use protocols::ftp::data::Counts;
use protocols::ftp::listing::ListForm;
use protocols::ftp::server::{
    self as engine, FileError, Finished, Transfer, TransferError, TransferKind,
};
use records::transfer::{Command, DataStyle, Outcome, Tcp, Text};
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use transfer::recorder::{DataTls, Record, nanos, of_kernel};

/// Statistics collected by the task of a transfer.
#[derive(Debug, Default)]
pub(super) struct ServerTransferStats {
    /// Bytes transferred on the data connection.
    pub(super) moved_bytes: Cell<u64>,
    /// Bytes read from or written to the file.
    pub(super) file_bytes: Cell<Option<u64>>,
    pub(super) first_byte_at: Cell<Option<Instant>>,
    pub(super) ended_at: Cell<Option<Instant>>,
    pub(super) tls: Cell<Option<DataTls>>,
    pub(super) tls_time: Cell<Option<Duration>>,
    /// Time for writing the file; `None` if nothing was written.
    pub(super) write_time: Cell<Option<Duration>>,
    /// Time for the commit, which waits for the disk.
    pub(super) commit_time: Cell<Option<Duration>>,
    pub(super) cpu_time: Cell<Option<Duration>>,
    /// Number of system calls that moved bytes, if the kernel moved all of them.
    calls: Cell<Option<u64>>,
    pub(super) counts: Cell<Counts>,
    /// Time for encryption and decryption.
    pub(super) crypto_time: Cell<Option<Duration>>,
    /// Number of names in a listing that could not be sent unchanged.
    pub(super) unsendable_names: Cell<u64>,
    tcp: RefCell<Option<Tcp>>,
    endpoints: Cell<Option<(SocketAddr, SocketAddr)>>,
    /// Whether a single system call moved all bytes, so that its duration contains no information
    /// about the network.
    pub(super) is_single_call: Cell<bool>,
    /// Connection over which a large file was sent, and the time at which sending began.
    pub(super) unacknowledged: RefCell<Option<(OwnedFd, std::time::Instant)>>,
}

impl ServerTransferStats {
    /// Sets the addresses of the data connection, if they are known.
    pub(super) fn set_endpoints(&self, endpoints: Option<(SocketAddr, SocketAddr)>) {
        self.endpoints.set(endpoints);
    }

    /// Queries the addresses of the data connection if they are not known yet.
    pub(super) fn query_endpoints(&self, stream: &impl AsFd) {
        if self.endpoints.get().is_some() {
            return;
        }
        let address = |name: Option<SocketAddrAny>| SocketAddr::try_from(name?).ok();
        let local = address(getsockname(stream).ok());
        self.endpoints.set(local.zip(address(getpeername(stream).ok().flatten())));
    }

    /// Queries TCP statistics at the end of the data connection.
    pub(super) fn query_tcp(&self, stream: &impl AsFd) {
        self.tcp.replace(Some(Tcp { streams: Some(1), ..of_kernel(stream) }));
    }

    /// Adds bytes of the file.
    pub(super) fn add_file_bytes(&self, count: usize) {
        self.file_bytes.set(Some(self.file_bytes.get().unwrap_or(0) + count as u64));
    }

    /// Counts one system call that moves bytes.
    pub(super) fn count_call(&self) {
        self.calls.set(Some(self.calls.get().unwrap_or(0) + 1));
    }

    /// Adds CPU time.
    pub(super) fn add_cpu_time(&self, time: Duration) {
        self.cpu_time.set(Some(self.cpu_time.get().unwrap_or_default() + time));
    }

    /// Adds time spent writing the file.
    pub(super) fn add_write_time(&self, time: Duration) {
        self.write_time.set(Some(self.write_time.get().unwrap_or_default() + time));
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
    let nanos_between = |from: Option<Instant>, to: Option<Instant>| Some((to? - from?).as_nanos());
    let ns = |time: Option<u128>| time.and_then(|ns| u64::try_from(ns).ok());
    let duration_ns = |time: Option<Duration>| ns(time.map(|time| time.as_nanos()));
    let transfer = &mut record.transfer;
    let command = Some(timing.command_at);
    let first = stats.first_byte_at.get();
    let last = stats.ended_at.get();
    let time = &mut transfer.time;
    time.command_to_150_ns = ns(nanos_between(command, timing.opened_at));
    time.data_connect_ns = ns(nanos_between(timing.data_requested_at, timing.data_connected_at));
    time.data_tls_ns = duration_ns(stats.tls_time.get());
    time.first_byte_ns = ns(nanos_between(command, first));
    let has_duration = !stats.is_single_call.get();
    time.transfer_ns = ns(nanos_between(first, last)).filter(|_| has_duration);
    time.last_byte_to_226_ns = ns(nanos_between(last, Some(timing.finished_at)));
    time.file_write_ns = duration_ns(stats.write_time.get());
    time.disk_wait_ns = duration_ns(stats.commit_time.get());
    transfer.time.crypto_ns = stats.crypto_time.get().map(nanos);
    transfer.cpu.cpu_ns = duration_ns(stats.cpu_time.get());
    transfer.cpu.syscalls = stats.calls.get();
    let counts = stats.counts.get();
    transfer.size.records = counts.records;
    transfer.size.restart_markers = counts.markers;
    transfer.size.crlf_conversions = counts.line_ends;
    transfer.size.wire_bytes = Some(finished.wire_bytes);
    transfer.size.file_bytes = stats.file_bytes.get();
    transfer.tcp = stats.tcp.take().unwrap_or_default();
    if let Some((local, remote)) = stats.endpoints.get() {
        transfer.identity.data_local = Some(local);
        transfer.identity.data_remote = Some(remote);
    }
    if let Some(tls) = stats.tls.get() {
        tls.note(&mut transfer.identity);
    }
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
