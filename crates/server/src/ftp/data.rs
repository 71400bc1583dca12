//! Data transfers of a session: small files at once, all others in a task of the session's thread.
//!
//! The transfer itself is [`transfer::ftp_data`]; this file is its driver, and opens the files and
//! listings of the server for it. The statistics of a transfer are shared with its session, so that
//! the statistics of an aborted transfer are available too.

use super::control_connection::HANDSHAKE_TIMEOUT;
use super::data_tls::{DataTlsParameters, MeteredSocket};
use super::ftp_server::FtpServer;
use super::listing::{Lister, Progress};
use super::local_channel::LocalQueue;
use super::long_work::{self, ListingPiece};
use super::upload::Upload;
use super::user_files::FileView;
use crate::metered::{Metered, MeteredStream};
use carrier::TcpConnection;
use net::meter::Account;
use os::clock::{Monotonic, thread_cpu_time};
use protocols::ftp::data::Encoder;
use protocols::ftp::server::{FileError, Opened, Transfer, TransferError, TransferKind};
use protocols::ftp::{ByteSize, Mode, Representation, Type, WordFormat};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use transfer::ftp_data::{
    self, DataConnection, DataStats, DataTransfer, EncodedPiece, FileSource, PieceSizes, Pieces,
    ReceiveBuffer, Steps, TransferDriver, TransferFailure, TransferPlan, TransferStats,
};
use transfer::pace::RateLimit;

type Moved<T> = Result<T, TransferFailure<FileError>>;

/// Minimum length of a sent file for which TCP is queried for the time at which the client received
/// all data. A shorter file is sent in one flight.
const UNACKNOWLEDGED_MIN_BYTES: u64 = 64 * 1024;
/// Maximum size of a file that is transferred in the session itself, without a task for the
/// transfer.
const SMALL_BYTES: u64 = 256 * 1024;
/// Number of listing bytes deflated at a time.
const LISTED_BYTES: usize = 16 * 1024;
/// Maximum number of directory entries read in the thread that runs all sessions; longer listings
/// are read in other threads.
const INLINE_NAMES: usize = 256;

/// Source or target of a transfer.
#[derive(Debug)]
pub(super) enum Payload {
    /// The file is sent from `offset` to `len`.
    Send { file: File, offset: u64, len: u64 },
    /// A listing is sent.
    List(Box<Lister>),
    /// A file is received.
    Receive(Upload),
}

/// Returns whether the file and the wire have different word formats. Offsets (RFC 3659) count
/// bytes on the wire.
pub(super) fn converts_words(representation: &Representation) -> bool {
    let has_words =
        matches!(representation.data_type, Type::Local(size) if size != ByteSize::OCTET);
    has_words && representation.word_format != WordFormat::Packed
}

/// Opens the source or target of a transfer.
pub(super) fn open(view: &FileView, transfer: &Transfer) -> Result<(Opened, Payload), FileError> {
    match &transfer.kind {
        TransferKind::Retrieve => {
            let (file, len) = view.read(&transfer.path)?;
            let offset = transfer.offset_bytes;
            let representation = &transfer.representation;
            let is_converted = converts_words(representation);
            if offset > 0 && is_converted && representation.mode != Mode::Stream {
                return Err(FileError::NotSupported);
            }
            // With converted words the number of bytes on the wire is not known yet.
            if offset > len && !is_converted {
                return Err(FileError::BeyondEnd);
            }
            let size_bytes = representation.passes_through().then(|| len.saturating_sub(offset));
            Ok((Opened { size_bytes, name: None }, Payload::Send { file, offset, len }))
        }
        TransferKind::List { form, pattern, shows_hidden } => {
            let pattern = pattern.as_ref();
            let lister = Lister::new(view, &transfer.path, form, pattern, *shows_hidden)?;
            Ok((Opened::default(), Payload::List(Box::new(lister))))
        }
        TransferKind::Mail(_) => Err(FileError::NotSupported),
        TransferKind::Store | TransferKind::StoreUnique | TransferKind::Append => {
            if transfer.offset_bytes > 0 && converts_words(&transfer.representation) {
                return Err(FileError::NotSupported);
            }
            let upload = view.write(transfer)?;
            let last = upload.name().and_then(|name| name.rsplit(|&byte| byte == b'/').next());
            let opened = Opened { size_bytes: None, name: last.map(<[u8]>::to_vec) };
            Ok((opened, Payload::Receive(upload)))
        }
    }
}

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

/// Data connection before its first transferred byte.
#[derive(Debug)]
pub(super) enum Stream {
    /// Not registered with the runtime.
    Unregistered(std::net::TcpStream),
    Registered(TcpConnection),
}

impl Stream {
    fn into_registered(self) -> io::Result<TcpConnection> {
        match self {
            Self::Unregistered(stream) => TcpStream::from_std(stream).map(TcpConnection::Kernel),
            Self::Registered(socket) => Ok(socket),
        }
    }

    /// Returns whether the connection is a socket of the kernel.
    pub(super) fn is_kernel(&self) -> bool {
        self.kernel().is_some()
    }

    /// Returns the descriptor of a kernel socket.
    fn kernel(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unregistered(stream) => Some(stream.as_fd()),
            Self::Registered(socket) => socket.kernel().map(AsFd::as_fd),
        }
    }
}

/// Sends as much of a small file as the connection accepts without blocking, and returns the number
/// of bytes sent. Errors are ignored, because they recur when the rest is sent.
pub(super) fn send_immediately(
    stream: &Stream,
    file: &File,
    offset: u64,
    len: u64,
    stats: &ServerTransferStats,
) -> u64 {
    let Ok(count @ 1..=SMALL_BYTES) = len.checked_sub(offset).ok_or(()) else { return 0 };
    let Some(socket) = stream.kernel() else { return 0 };
    let count = usize::try_from(count).unwrap_or(0);
    let sent_bytes =
        ftp_data::send_immediately(&socket, file, Some(offset), count, &stats.transfer);
    if sent_bytes == count {
        let mut data = stats.data();
        data.is_single_call = (sent_bytes as u64) < UNACKNOWLEDGED_MIN_BYTES;
        data.query_tcp(&socket);
    }
    sent_bytes as u64
}

/// Closes a connection over which a whole file of `sent_bytes` bytes was sent since `started_at`.
/// For a file of at least [`UNACKNOWLEDGED_MIN_BYTES`], stores a duplicate of the descriptor in
/// `stats`. The time of arrival is later queried with this duplicate.
pub(super) fn close_after_send(
    stream: Stream,
    sent_bytes: u64,
    stats: &ServerTransferStats,
    started_at: Instant,
) {
    if sent_bytes >= UNACKNOWLEDGED_MIN_BYTES
        && let Some(stream) = stream.kernel()
        && rustix::net::shutdown(stream, rustix::net::Shutdown::Write).is_ok()
    {
        stats.await_acknowledgment(&stream, started_at);
    }
    // The FIN is sent with the last byte.
    drop(stream);
}

/// Receives data that has already arrived, without waiting for more. Returns whether the whole file
/// was received.
///
/// # Errors
///
/// Returns an error if the connection is lost, or if the file accepts no more data. After an error,
/// closing the connection sends a reset.
pub(super) fn receive_available(
    stream: &Stream,
    upload: &mut Upload,
    scratch: &mut [u8],
    stats: &ServerTransferStats,
) -> Result<bool, TransferError> {
    let Some(socket) = stream.kernel() else { return Ok(false) };
    let received =
        ftp_data::receive_immediately(&socket, upload, scratch, SMALL_BYTES, &stats.transfer);
    received.map_err(|failure| error_of(&failure))
}

/// Restart marker of a client, and the length of the local file at that point.
pub(super) type Marker = (Vec<u8>, u64);

/// Driver of the transfers of one session.
pub(super) struct ServerDriver {
    /// Server whose meter is charged, and whose threads convert large files.
    pub(super) server: Rc<FtpServer>,
    /// Client address, for the fair queues of long operations.
    pub(super) source: IpAddr,
    pub(super) pace: Rc<Cell<RateLimit>>,
    pub(super) clock: Monotonic,
    pub(super) markers: LocalQueue<Marker>,
    pub(super) stats: Rc<ServerTransferStats>,
}

impl TransferDriver for ServerDriver {
    type LocalError = FileError;
    const TIMES_WAITS: bool = false;

    fn charge<T>(&self, account: Account, call: impl FnOnce() -> T) -> T {
        self.server.charge(account, call)
    }

    async fn limit_rate(&self, bytes: usize) -> io::Result<()> {
        let mut pace = self.pace.get();
        let now = self.clock.now();
        pace.spend(bytes, now);
        self.pace.set(pace);
        if let Some(until) = pace.waits_until(now) {
            let nanos = u64::try_from((until - now).as_nanos()).unwrap_or(0);
            tokio::time::sleep(Duration::from_nanos(nanos)).await;
        }
        Ok(())
    }

    async fn run_steps<W: Steps>(&self, is_short: bool, mut work: W) -> Option<W::Output> {
        if is_short {
            loop {
                let output = self.charge(Account::Files, || work.step());
                if output.is_some() {
                    return output;
                }
            }
        }
        let steps = TimedSteps { work, cpu: Duration::ZERO };
        let (output, cpu) = long_work::run(&self.server.long_work, self.source, steps).await?;
        self.stats.data().add_cpu_time(cpu);
        Some(output)
    }

    fn marker_reached(&self, marker: Vec<u8>, file_bytes: u64) {
        // A marker that does not fit into the queue is dropped; the client then has one restart
        // point fewer.
        self.markers.push((marker, file_bytes));
    }
}

/// Steps whose CPU time is measured, because they run in other threads.
struct TimedSteps<W> {
    work: W,
    cpu: Duration,
}

impl<W: Steps> Steps for TimedSteps<W> {
    type Output = (W::Output, Duration);

    fn step(&mut self) -> Option<Self::Output> {
        let cpu = thread_cpu_time();
        let output = self.work.step();
        self.cpu += thread_cpu_time().saturating_sub(cpu);
        output.map(|output| (output, self.cpu))
    }
}

/// Transfer in a task.
pub(super) struct TransferTask {
    pub(super) driver: ServerDriver,
    pub(super) representation: Representation,
    pub(super) plan: TransferPlan,
    pub(super) deflate_level: Option<u8>,
}

impl TransferTask {
    /// Transfers all data. Returns the received file of an upload.
    pub(super) async fn run(
        self,
        stream: Stream,
        parameters: Option<DataTlsParameters>,
        payload: Payload,
    ) -> Result<Option<Upload>, TransferError> {
        let socket = stream.into_registered().map_err(|_| TransferError::NoConnection)?;
        let stats = Rc::clone(&self.driver.stats);
        let is_incoming = matches!(payload, Payload::Receive(_));
        if let Some(stream) = socket.kernel() {
            if !is_incoming || parameters.is_some() {
                // Small writes are sent immediately.
                _ = stream.set_nodelay(true);
            }
            stats.data().query_addresses(stream);
        }
        let mut connection = self.open(socket, parameters, is_incoming).await?;
        let sending_started_at = Instant::now();
        let result = self.move_all(&mut connection, payload).await;
        if let Some(stream) = connection.socket().inner().kernel()
            && !is_incoming
            && stats.transfer.moved_bytes() >= UNACKNOWLEDGED_MIN_BYTES
            && connection.is_over()
        {
            stats.await_acknowledgment(stream, sending_started_at);
        }
        result.map_err(|failure| error_of(&failure))
    }

    async fn open(
        &self,
        socket: TcpConnection,
        parameters: Option<DataTlsParameters>,
        is_incoming: bool,
    ) -> Result<DataConnection<MeteredSocket>, TransferError> {
        let server = &self.driver.server;
        let Some(parameters) = parameters else {
            let socket = MeteredStream::new(socket, Rc::clone(server), Account::Interrupt);
            return Ok(DataConnection::plaintext(socket));
        };
        let started_at = Instant::now();
        let handshake = parameters.accept(socket, server, is_incoming);
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(tls_stream)) => {
                let mut data = self.driver.stats.data();
                data.tls = Some(tls_stream.parameters());
                data.tls_time = Some(started_at.elapsed());
                Ok(DataConnection::secured(tls_stream))
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(TransferError::TlsNotResumed)
            }
            _ => Err(TransferError::Tls),
        }
    }

    async fn move_all(
        &self,
        connection: &mut DataConnection<MeteredSocket>,
        payload: Payload,
    ) -> Moved<Option<Upload>> {
        let Self { driver, representation, plan, .. } = self;
        let stats = &driver.stats.transfer;
        let sizes = PieceSizes::SERVER;
        let mut transfer = DataTransfer { connection, driver, stats, plan: *plan, sizes };
        match payload {
            Payload::Send { file, offset, len } => {
                let source = self.source(file, offset, len)?;
                transfer.send(source).await?;
                Ok(None)
            }
            Payload::List(lister) => {
                let mut pieces = ListingPieces::new(self, lister)?;
                transfer.send_pieces(&mut pieces).await?;
                Ok(None)
            }
            Payload::Receive(upload) => {
                let room = &driver.server.scratch;
                let limit = plan.room_bytes(&sizes, None);
                let buffer = ReceiveBuffer { room, limit, expected_bytes: None };
                transfer.receive(upload, representation, &buffer).await.map(Some)
            }
        }
    }

    fn source(&self, file: File, offset: u64, len: u64) -> Moved<FileSource> {
        let Self { representation, deflate_level, .. } = self;
        // With converted words, the offset counts bytes of the encoded data.
        let skipped_bytes = if converts_words(representation) { offset } else { 0 };
        let offset = offset - skipped_bytes;
        let encoder = match representation.passes_through() {
            true => None,
            false => Some(encoder(representation, *deflate_level)?),
        };
        let expected_bytes = Some(len.saturating_sub(offset));
        Ok(FileSource { file, offset: Some(offset), expected_bytes, skipped_bytes, encoder })
    }
}

fn encoder(representation: &Representation, deflate_level: Option<u8>) -> Moved<Encoder> {
    Encoder::new(representation, deflate_level).map_err(|_| TransferFailure::NotSupported)
}

/// Pieces of a listing. Few lines are read and encoded in the session's thread; a large directory
/// is read in other threads.
struct ListingPieces<'a> {
    driver: &'a ServerDriver,
    encoder: Encoder,
    lister: Option<Box<Lister>>,
    max_bytes: usize,
    names_left: usize,
    lines: Vec<u8>,
}

impl<'a> ListingPieces<'a> {
    fn new(task: &'a TransferTask, lister: Box<Lister>) -> Moved<Self> {
        let encoder = encoder(&task.representation, task.deflate_level)?;
        let encodes = task.representation.mode == Mode::Deflate;
        let default_bytes = if encodes { LISTED_BYTES } else { PieceSizes::SERVER.plain };
        Ok(Self {
            driver: &task.driver,
            encoder,
            lister: Some(lister),
            max_bytes: task.plan.limited(default_bytes),
            names_left: INLINE_NAMES,
            lines: Vec::new(),
        })
    }

    /// Reads the next lines. Returns whether more lines follow.
    async fn read_lines(&mut self) -> Result<bool, FileError> {
        let mut lister = self.lister.take().ok_or(FileError::Local)?;
        let Self { driver, max_bytes, lines, names_left, .. } = self;
        let write = || lister.write(lines, *max_bytes, names_left);
        let has_more = match driver.charge(Account::Files, write)? {
            Progress::Full => true,
            Progress::Done => false,
            Progress::Paused => {
                let piece = ListingPiece::new(lister, std::mem::take(lines), *max_bytes);
                let server = &driver.server;
                let listed = long_work::run(&server.listings, driver.source, piece).await;
                let listed = listed.ok_or(FileError::ServerBusy)?;
                lister = listed.lister;
                *lines = listed.lines;
                listed.has_more?
            }
        };
        driver.stats.unsendable_names.set(lister.unsendable());
        self.lister = Some(lister);
        Ok(has_more)
    }
}

impl Pieces for ListingPieces<'_> {
    type Error = TransferFailure<FileError>;

    async fn next(&mut self) -> Result<EncodedPiece, Self::Error> {
        let began_at = Instant::now();
        let has_more = self.read_lines().await.map_err(TransferFailure::Local)?;
        let read_at = Instant::now();
        let mut wire = Vec::new();
        let encoded = self.encoder.encode(&self.lines, &mut wire);
        let encoded = match has_more {
            true => encoded,
            false => encoded.and_then(|()| self.encoder.finish(&mut wire)),
        };
        encoded.map_err(|error| TransferFailure::Format(format!("{error:?}")))?;
        let conversion_time = read_at.elapsed();
        if wire.is_empty() {
            // Nothing is sent, so the transfer would not yield to other tasks.
            tokio::task::yield_now().await;
        }
        let file_bytes = self.lines.len();
        self.lines.clear();
        Ok(EncodedPiece {
            wire,
            file_bytes,
            is_over: !has_more,
            counts: self.encoder.counts(),
            read_time: read_at - began_at,
            conversion_time,
        })
    }
}

/// Returns the error that the protocol engine reports.
fn error_of(failure: &TransferFailure<FileError>) -> TransferError {
    match failure {
        TransferFailure::Connection(_) => TransferError::ConnectionLost,
        TransferFailure::Read(_) | TransferFailure::Truncated | TransferFailure::Format(_) => {
            TransferError::File(FileError::Local)
        }
        TransferFailure::BeyondEnd => TransferError::File(FileError::BeyondEnd),
        TransferFailure::Malformed(_) | TransferFailure::NotSupported => TransferError::Malformed,
        TransferFailure::Busy => TransferError::File(FileError::ServerBusy),
        TransferFailure::Local(error) => TransferError::File(*error),
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
