//! Statistics of a transfer for its record.
//!
//! The task that moves the data stores them in a [`Ledger`] shared with its session, so that they
//! are available for an aborted transfer too. All times are of the server's clock. CPU time covers
//! the task and the commit of an upload; that of the control connection belongs to the session.

use super::upload::Upload;
use crate::transfer_recorder::{DataTls, Record, nanos, of_kernel};
use protocols::Instant;
use protocols::application::ftp::data::Counts;
use protocols::application::ftp::listing::ListForm;
use protocols::application::ftp::server::{
    self as engine, FileError, Finished, Transfer, TransferError, TransferKind,
};
use protocols::time::Duration;
use records::transfer::{Command, DataStyle, Outcome, Tcp, Text};
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Statistics collected by the task of a transfer.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Bytes transferred on the data connection.
    pub(super) moved: Cell<u64>,
    /// Bytes read from or written to the file.
    pub(super) file_bytes: Cell<Option<u64>>,
    pub(super) first_byte: Cell<Option<Instant>>,
    pub(super) ended: Cell<Option<Instant>>,
    pub(super) tls: Cell<Option<DataTls>>,
    pub(super) tls_time: Cell<Option<Duration>>,
    /// Time for writing the file; `None` if nothing was written.
    pub(super) writing: Cell<Option<Duration>>,
    /// Time for the commit, which waits for the disk.
    pub(super) committing: Cell<Option<Duration>>,
    pub(super) cpu: Cell<Option<Duration>>,
    /// Number of system calls that moved bytes, if the kernel moved all of them.
    calls: Cell<Option<u64>>,
    pub(super) counts: Cell<Counts>,
    /// Time for encryption and decryption.
    pub(super) crypto: Cell<Option<Duration>>,
    /// Number of names in a listing that could not be sent unchanged.
    pub(super) untold_names: Cell<u64>,
    tcp: RefCell<Option<Tcp>>,
    ends: Cell<Option<(SocketAddr, SocketAddr)>>,
    /// Whether a single call moved all bytes, so that its time says nothing about the network.
    pub(super) is_by_one_call: Cell<bool>,
    /// Connection of a large file that was sent, and the start of sending.
    pub(super) unsettled: RefCell<Option<(OwnedFd, std::time::Instant)>>,
}

impl Ledger {
    /// Sets the addresses of the data connection, if they are known.
    pub(super) fn met(&self, ends: Option<(SocketAddr, SocketAddr)>) {
        self.ends.set(ends);
    }

    /// Queries the addresses of the data connection, unless they are known.
    pub(super) fn open(&self, stream: &impl AsFd) {
        if self.ends.get().is_some() {
            return;
        }
        let address = |name: Option<SocketAddrAny>| SocketAddr::try_from(name?).ok();
        let local = address(getsockname(stream).ok());
        self.ends.set(local.zip(address(getpeername(stream).ok().flatten())));
    }

    /// Queries TCP statistics at the end of the data connection.
    pub(super) fn ask(&self, stream: &impl AsFd) {
        self.tcp.replace(Some(Tcp { streams: Some(1), ..of_kernel(stream) }));
    }

    /// Adds bytes of the file.
    pub(super) fn add_file(&self, count: usize) {
        self.file_bytes.set(Some(self.file_bytes.get().unwrap_or(0) + count as u64));
    }

    /// Counts one system call that moves bytes.
    pub(super) fn count_call(&self) {
        self.calls.set(Some(self.calls.get().unwrap_or(0) + 1));
    }

    /// Adds CPU time.
    pub(super) fn add_cpu(&self, time: Duration) {
        self.cpu.set(Some(self.cpu.get().unwrap_or_default() + time));
    }

    /// Adds time spent writing the file.
    pub(super) fn add_writing(&self, time: Duration) {
        self.writing.set(Some(self.writing.get().unwrap_or_default() + time));
    }
}

/// Times of events on the control connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) command: Instant,
    pub(super) opened: Option<Instant>,
    pub(super) data_asked: Option<Instant>,
    pub(super) data_connected: Option<Instant>,
    pub(super) finished: Instant,
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
    request.offset_rest = (transfer.offset_bytes > 0).then_some(transfer.offset_bytes);
    request.allo = transfer.allocation_bytes;
    request.data_style = transfer.data_style.map(|style| match style {
        engine::DataCommand::Port => DataStyle::Port,
        engine::DataCommand::Eprt => DataStyle::Eprt,
        engine::DataCommand::Lprt => DataStyle::Lprt,
        engine::DataCommand::Pasv => DataStyle::Pasv,
        engine::DataCommand::Epsv => DataStyle::Epsv,
        engine::DataCommand::Lpsv => DataStyle::Lpsv,
    });
}

/// Records the offset at which an upload starts, and its name if the server chose another one than
/// requested.
pub(super) fn note_start(record: &mut Record, upload: &Upload) {
    let request = &mut record.transfer.request;
    // APPE starts at the end of the file without REST.
    request.offset_rest = Some(upload.len_bytes()).filter(|len| *len > 0).or(request.offset_rest);
    if let Some(name) = upload.name() {
        request.path_requested = request.path_real.replace(Text::from(name));
    }
}

/// Records the result of the transfer.
pub(super) fn conclude(
    record: &mut Record,
    ledger: &Ledger,
    steps: &Steps,
    finished: &Finished,
    why: Option<&str>,
) {
    let between = |from: Option<Instant>, to: Option<Instant>| Some((to? - from?).as_nanos());
    let ns = |time: Option<u128>| time.and_then(|ns| u64::try_from(ns).ok());
    let lasted = |time: Option<Duration>| ns(time.map(|time| time.as_nanos()));
    let (transfer, command) = (&mut record.transfer, Some(steps.command));
    let (first, last) = (ledger.first_byte.get(), ledger.ended.get());
    let time = &mut transfer.time;
    time.ns_cmd_to_150 = ns(between(command, steps.opened));
    time.ns_data_connect = ns(between(steps.data_asked, steps.data_connected));
    time.ns_data_tls = lasted(ledger.tls_time.get());
    time.ns_first_byte = ns(between(command, first));
    let is_timed = !ledger.is_by_one_call.get();
    time.ns_transfer = ns(between(first, last)).filter(|_| is_timed);
    time.ns_last_byte_to_226 = ns(between(last, Some(steps.finished)));
    time.ns_write_file = lasted(ledger.writing.get());
    time.ns_wait_disk = lasted(ledger.committing.get());
    transfer.time.ns_crypto = ledger.crypto.get().map(nanos);
    transfer.cpu.cpu_ns = lasted(ledger.cpu.get());
    transfer.cpu.syscalls = ledger.calls.get();
    let counts = ledger.counts.get();
    transfer.size.records = counts.records;
    transfer.size.restart_markers = counts.markers;
    transfer.size.crlf_conversions = counts.line_ends;
    transfer.size.wire_bytes = Some(finished.wire_bytes);
    transfer.size.file_bytes = ledger.file_bytes.get();
    transfer.tcp = ledger.tcp.take().unwrap_or_default();
    if let Some((local, remote)) = ledger.ends.get() {
        transfer.identity.data_local = Some(local);
        transfer.identity.data_remote = Some(remote);
    }
    if let Some(tls) = ledger.tls.get() {
        tls.note(&mut transfer.identity);
    }
    transfer.result.reply_final = finished.reply.map(u64::from);
    record.end(outcome_of(finished.result), why);
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
