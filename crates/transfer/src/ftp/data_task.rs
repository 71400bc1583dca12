//! Data transfers of the client: local ends, progress, and a thread for each transfer, or for a
//! small file no thread at all.
//!
//! The thread blocks in the system calls of its socket, so that parallel transfers use several
//! processors. A small file or a listing over an unencrypted kernel socket is received in a task of
//! the session's thread, and a small file is sent at once.

use super::arrival_log::ArrivalLog;
use super::error::{TransferError, connection_lost, limit_exceeded, local_error, malformed};
use super::transfer_progress::TransferProgress;
use crate::ftp_data::{
    BlockingSocket, Canceller, DataConnection, DataSocket, DataStats, DataTlsStream, DataTransfer,
    FileSink, FileSource, PieceSizes, ReceiveBuffer, SplicePipe, Steps, TransferDriver,
    TransferFailure, TransferPlan, TransferStats, complete, send_immediately,
};
use crate::pace::RateLimit;
use crate::recorder::{TICK, of_settled, timed};
use carrier::{TcpConnection, TlsClient};
use os::clock::{Monotonic, thread_cpu_time};
use os::context_switches::ContextSwitches;
use os::schedule::thread_run_queue_wait;
use os::socket::TcpInfo;
use protocols::ftp::Representation;
use protocols::ftp::data::Encoder;
use protocols::ftp::listing::Collector;
use protocols::ftp::user::DataFailure;
use records::transfer::Tcp;
use rustix::net::{Shutdown, shutdown};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Local end of a transfer.
#[derive(Debug)]
pub enum LocalEnd {
    /// Writes to a file from offset `at` on, or to a stream without offsets. The transfer ends
    /// after `stop_after` bytes, if given. More than `max_bytes` bytes are an error and are not
    /// written.
    WriteTo {
        /// The file.
        file: File,
        /// Offset of the first byte; by default the position of the file.
        at: Option<u64>,
        /// Number of bytes after which the transfer ends.
        stop_after: Option<u64>,
        /// Maximum number of bytes; more is an error.
        max_bytes: Option<u64>,
    },
    /// Reads from a file or a stream.
    ReadFrom(File),
    /// Appends to memory.
    Memory(Vec<u8>),
    /// Parses the entries of a listing as they arrive.
    Listing(Box<Collector>),
}

/// Maximum number of bytes of a file received into memory.
const MEMORY_MAX_BYTES: usize = 256 << 20;

/// Returns the number of bytes from the current position of a regular file to its end.
fn remaining_bytes(file: &File) -> Option<u64> {
    let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let position = rustix::fs::tell(file).ok()?;
    Some(metadata.len().saturating_sub(position))
}

/// Local end of a download, and the number of bytes that it has received.
#[derive(Debug)]
pub(super) struct LocalSink {
    pub(super) local_end: LocalEnd,
    file_bytes: u64,
    has_enough: bool,
}

impl LocalSink {
    pub(super) const fn new(local_end: LocalEnd) -> Self {
        Self { local_end, file_bytes: 0, has_enough: false }
    }
}

impl FileSink for LocalSink {
    type Error = TransferError;
    const DROPS_EXCESS: bool = true;

    fn write(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        let mut bytes = bytes;
        match &mut self.local_end {
            LocalEnd::WriteTo { file, at, stop_after, max_bytes } => {
                if stop_after.is_none() {
                    check_limit(*max_bytes, self.file_bytes, bytes.len())?;
                }
                if let Some(stop_after) = *stop_after {
                    let remaining_bytes =
                        usize::try_from(stop_after - self.file_bytes).unwrap_or(usize::MAX);
                    bytes = bytes.get(..remaining_bytes).unwrap_or(bytes);
                    self.has_enough = bytes.len() == remaining_bytes;
                }
                match at {
                    Some(at) => file.write_all_at(bytes, *at + self.file_bytes),
                    None => file.write_all(bytes),
                }
                .map_err(local_error)?;
            }
            LocalEnd::Memory(memory) if memory.len() + bytes.len() <= MEMORY_MAX_BYTES => {
                memory.extend_from_slice(bytes);
            }
            LocalEnd::Memory(_) => {
                let limit_mib = MEMORY_MAX_BYTES >> 20;
                return Err(limit_exceeded(format!(
                    "more than {limit_mib} MiB, the limit for a file received into memory"
                )));
            }
            LocalEnd::Listing(listing) => {
                listing.push(bytes).map_err(|error| limit_exceeded(error.to_string()))?;
            }
            LocalEnd::ReadFrom(_) => {}
        }
        self.file_bytes += bytes.len() as u64;
        Ok(())
    }

    fn is_file(&self) -> bool {
        matches!(self.local_end, LocalEnd::WriteTo { .. })
    }

    fn takes_pipe(&self) -> bool {
        matches!(self.local_end, LocalEnd::WriteTo { stop_after: None, .. })
    }

    fn write_pipe(&mut self, pipe: &mut SplicePipe) -> Result<bool, TransferError> {
        let LocalEnd::WriteTo { file, at, max_bytes, .. } = &self.local_end else {
            return Ok(false);
        };
        check_limit(*max_bytes, self.file_bytes, pipe.buffered_bytes())?;
        while pipe.buffered_bytes() > 0 {
            match pipe.write_to(file, at.map(|at| at + self.file_bytes)) {
                Ok(0) => return Err(local_error(ErrorKind::WriteZero.into())),
                Ok(moved) => self.file_bytes += moved as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The file system does not support `splice`.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    let bytes = pipe.take_bytes().map_err(local_error)?;
                    self.write(&bytes)?;
                    return Ok(false);
                }
                Err(error) => return Err(local_error(error)),
            }
        }
        Ok(true)
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn has_enough(&self) -> bool {
        self.has_enough
    }
}

/// Returns an error if `before + count` bytes exceed `max_bytes`.
fn check_limit(max_bytes: Option<u64>, before: u64, count: usize) -> Result<(), TransferError> {
    match max_bytes {
        Some(max_bytes) if before.saturating_add(count as u64) > max_bytes => {
            Err(limit_exceeded(format!("more than the {max_bytes} bytes that the server reports")))
        }
        _ => Ok(()),
    }
}

/// Maximum size of a file that is moved without a thread. It is sent in one flight.
const SMALL_BYTES: u64 = 64 * 1024;
/// Minimum size of the receive buffer of a small file.
const SMALL_ROOM_BYTES: u64 = 16 * 1024;

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
    /// Converts the result of a transfer that has returned its local end, if it was a download.
    fn new(result: Result<Option<LocalSink>, TransferError>, stats: &TransferStats) -> Self {
        let wire_bytes = stats.moved_bytes();
        let mut stats = stats.data().clone();
        let file_bytes = *stats.file_bytes.get_or_insert(0);
        stats.cpu_time.get_or_insert(Duration::ZERO);
        stats.tcp.get_or_insert_default();
        let mut ended = Self {
            wire_bytes,
            file_bytes,
            memory: Vec::new(),
            listing: None,
            stats,
            is_sending: false,
            result: Ok(()),
            has_enough: false,
        };
        match result {
            Ok(Some(sink)) => {
                ended.has_enough = sink.has_enough();
                match sink.local_end {
                    LocalEnd::Memory(memory) => ended.memory = memory,
                    LocalEnd::Listing(listing) => ended.listing = Some(listing),
                    LocalEnd::WriteTo { .. } | LocalEnd::ReadFrom(_) => {}
                }
            }
            Ok(None) => {}
            Err(error) => ended.result = Err(error),
        }
        ended
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

/// Cancels a transfer that waits for its rate limit. Closing the connection is not enough: the
/// transfer would read the data in the kernel's buffers to the end, at the limited rate.
#[derive(Debug, Default)]
struct Cancellation {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Cancellation {
    /// Cancels the transfer and wakes its thread.
    fn cancel(&self) {
        *self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `time`, or until the transfer is cancelled.
    ///
    /// # Errors
    ///
    /// Returns an error if the transfer is cancelled.
    fn wait(&self, time: Duration) -> io::Result<()> {
        let is_cancelled = self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let wait_result =
            self.changed.wait_timeout_while(is_cancelled, time, |cancelled| !*cancelled);
        let (is_cancelled, _) = wait_result.unwrap_or_else(PoisonError::into_inner);
        match *is_cancelled {
            true => Err(io::Error::other("the transfer was cancelled")),
            false => Ok(()),
        }
    }
}

/// Driver of a transfer whose thread has no other work, or that never waits for a rate limit.
#[derive(Debug)]
struct ClientDriver {
    pace: Mutex<RateLimit>,
    clock: Monotonic,
    /// Progress of all data connections.
    progress: TransferProgress,
    /// Log of arrivals, if the transfer is measured.
    arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    cancellation: Arc<Cancellation>,
}

impl TransferDriver for ClientDriver {
    type LocalError = TransferError;
    const TIMES_WAITS: bool = true;

    fn count(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.progress.add(bytes);
        if let Some(arrival_log) = &self.arrival_log {
            arrival_log.lock().unwrap_or_else(PoisonError::into_inner).count(bytes);
        }
    }

    async fn limit_rate(&self, bytes: usize) -> io::Result<()> {
        let now = self.clock.now();
        let waits_until = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            pace.spend(bytes, now);
            pace.waits_until(now)
        };
        match waits_until {
            Some(until) => self.cancellation.wait(until - now),
            None => Ok(()),
        }
    }

    async fn run_steps<W: Steps>(&self, _: bool, mut work: W) -> Option<W::Output> {
        loop {
            if let Some(output) = work.step() {
                return Some(output);
            }
        }
    }
}

/// A transfer and the state that it needs.
#[derive(Debug)]
pub(super) struct TransferRequest {
    pub(super) local_end: LocalEnd,
    pub(super) representation: Representation,
    /// Expected number of bytes, if known.
    pub(super) expected_bytes: Option<u64>,
    pub(super) tls: Option<TlsClient>,
    pub(super) pace: RateLimit,
    /// Progress of all data connections.
    pub(super) progress: TransferProgress,
    /// Log of arrivals, if the transfer is measured.
    pub(super) arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    pub(super) clock: Monotonic,
}

/// Transfer in progress.
#[derive(Debug)]
pub(super) struct DataTask {
    /// The thread or the task that moves the bytes.
    pub(super) handle: JoinHandle<TransferResult>,
    /// Resets or closes the data connection.
    pub(super) canceller: Canceller,
    cancellation: Arc<Cancellation>,
    stats: Arc<TransferStats>,
    pub(super) is_sending: bool,
}

/// Result of [`TransferRequest::start`].
pub(super) enum Started {
    Running(DataTask),
    /// The transfer has ended; TCP may still send its last bytes.
    Ended(Box<TransferResult>, Option<Canceller>),
}

impl DataTask {
    /// Returns the number of bytes moved so far.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.stats.moved_bytes()
    }

    /// Cancels the transfer.
    pub(super) fn cancel(&self) {
        self.canceller.cancel();
        self.cancellation.cancel();
    }

    /// Waits for the end of the transfer. Cancel safe.
    pub(super) async fn ended(&mut self) -> TransferResult {
        let result = (&mut self.handle).await;
        result.unwrap_or_else(|error| {
            let lost = (DataFailure::File, io::Error::other(error));
            TransferResult::new(Err(lost), &self.stats)
        })
    }
}

impl TransferRequest {
    /// Starts the transfer over an established connection. Must be called within the runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection cannot be used by a thread.
    pub(super) fn start(self, connection: TcpConnection) -> io::Result<Started> {
        let is_sending = matches!(self.local_end, LocalEnd::ReadFrom(_));
        // A file that becomes shorter after this point is truncated.
        let mut expected_bytes = match &self.local_end {
            LocalEnd::ReadFrom(file) => remaining_bytes(file),
            _ => self.expected_bytes,
        };
        let is_kernel = connection.kernel().is_some();
        let plan =
            TransferPlan::new(&self.representation, self.tls.is_some(), is_kernel, &self.pace);
        let may_be_small = plan.is_immediate() && self.arrival_log.is_none();
        let stats = Arc::new(TransferStats::default());
        let driver = ClientDriver {
            pace: Mutex::new(self.pace),
            clock: self.clock,
            progress: self.progress,
            // The thread of an upload counts written bytes. The session logs the acknowledged bytes
            // instead.
            arrival_log: self.arrival_log.filter(|_| !is_sending),
            cancellation: Arc::default(),
        };
        if let (true, LocalEnd::ReadFrom(file), Some(stream)) =
            (may_be_small, &self.local_end, connection.kernel())
        {
            let is_sent_completely = send_small_file(stream, file, expected_bytes, &stats);
            let sent_bytes = stats.moved_bytes();
            driver.count(usize::try_from(sent_bytes).unwrap_or(usize::MAX));
            expected_bytes = expected_bytes.map(|bytes| bytes.saturating_sub(sent_bytes));
            if is_sent_completely {
                let ended = TransferResult { is_sending, ..TransferResult::new(Ok(None), &stats) };
                // The stream no longer needs to be registered with the runtime.
                return Ok(Started::Ended(Box::new(ended), Canceller::of(connection)));
            }
        }
        let cancellation = Arc::clone(&driver.cancellation);
        let transfer = ClientTransfer {
            driver,
            stats: Arc::clone(&stats),
            plan,
            local_end: self.local_end,
            representation: self.representation,
            expected_bytes,
        };
        let (handle, canceller) = if may_be_small && transfer.is_small() {
            let cancelled = Arc::new(Notify::new());
            let canceller = Canceller::Notify(Arc::clone(&cancelled));
            (tokio::spawn(transfer.run_in_task(connection, cancelled)), canceller)
        } else {
            let (socket, canceller) = BlockingSocket::new(connection)?;
            let tls = self.tls;
            (tokio::task::spawn_blocking(move || transfer.run_in_thread(socket, tls)), canceller)
        };
        Ok(Started::Running(DataTask { handle, canceller, cancellation, stats, is_sending }))
    }
}

/// Sends the `remaining_bytes` bytes of a small file from its current position, as far as the socket
/// accepts the data at once. If the socket accepts the whole file, ends the stream and returns true.
fn send_small_file(
    stream: &impl AsFd,
    file: &File,
    remaining_bytes: Option<u64>,
    stats: &TransferStats,
) -> bool {
    let Some(remaining_bytes) = remaining_bytes.filter(|bytes| *bytes <= SMALL_BYTES) else {
        return false;
    };
    let remaining_bytes = usize::try_from(remaining_bytes).unwrap_or(0);
    let sent_bytes = send_immediately(stream, file, None, remaining_bytes, stats);
    sent_bytes == remaining_bytes && shutdown(stream, Shutdown::Write).is_ok()
}

/// A transfer that waits for data or for its socket.
#[derive(Debug)]
struct ClientTransfer {
    driver: ClientDriver,
    stats: Arc<TransferStats>,
    plan: TransferPlan,
    local_end: LocalEnd,
    representation: Representation,
    /// Number of bytes to receive or to send, if known.
    expected_bytes: Option<u64>,
}

impl ClientTransfer {
    /// Returns whether a transfer can be received without a thread.
    fn is_small(&self) -> bool {
        match &self.local_end {
            LocalEnd::Memory(_) | LocalEnd::Listing(_) => true,
            LocalEnd::WriteTo { .. } => self.expected_bytes.is_some_and(|size| size <= SMALL_BYTES),
            LocalEnd::ReadFrom(_) => false,
        }
    }

    /// Receives a small file or a listing.
    async fn run_in_task(self, socket: TcpConnection, cancelled: Arc<Notify>) -> TransferResult {
        let Self { driver, stats, plan, local_end, representation, expected_bytes } = self;
        // The buffer has one byte more than expected, so that a read of the whole file does not
        // fill the buffer.
        let room_bytes = expected_bytes.unwrap_or(0).clamp(SMALL_ROOM_BYTES, SMALL_BYTES) + 1;
        let room_bytes = usize::try_from(room_bytes).unwrap_or(1);
        let mut connection = DataConnection::plaintext(socket);
        let moving = async {
            let connection = &mut connection;
            let sizes = PieceSizes::CLIENT;
            let mut transfer =
                DataTransfer { connection, driver: &driver, stats: &stats, plan, sizes };
            let room = Mutex::new(vec![0; room_bytes]);
            let buffer = ReceiveBuffer { room: &room, limit: room_bytes, expected_bytes };
            let sink = LocalSink::new(local_end);
            tokio::select! {
                biased;
                received = transfer.receive(sink, &representation, &buffer) => {
                    received.map_err(error_of)
                }
                () = cancelled.notified() => {
                    Err(connection_lost(ErrorKind::ConnectionAborted.into()))
                }
            }
        };
        let (result, cpu) = timed(moving).await;
        stats.data().add_cpu_time(cpu);
        TransferResult::new(result.map(Some), &stats)
    }

    /// Runs the transfer to its end in the calling thread.
    fn run_in_thread(self, socket: BlockingSocket, tls: Option<TlsClient>) -> TransferResult {
        let cpu = thread_cpu_time();
        let switches = ContextSwitches::of_thread();
        let run_queue_wait_before = thread_run_queue_wait();
        let is_sending = matches!(self.local_end, LocalEnd::ReadFrom(_));
        let is_all_counted = tls.is_none() && socket.kernel().is_some();
        let stats = Arc::clone(&self.stats);
        let result = complete(self.run(socket, tls));
        let mut data = stats.data();
        data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
        data.run_queue_wait = thread_run_queue_wait()
            .zip(run_queue_wait_before)
            .map(|(now, before)| now.saturating_sub(before));
        // All context switches of this thread belong to the transfer: the thread has no other work.
        data.switches =
            ContextSwitches::of_thread().zip(switches).map(|(now, old)| now.switches_since(old));
        data.calls = data.calls.filter(|_| is_all_counted);
        drop(data);
        TransferResult { is_sending, ..TransferResult::new(result, &stats) }
    }

    async fn run(
        self,
        socket: BlockingSocket,
        tls: Option<TlsClient>,
    ) -> Result<Option<LocalSink>, TransferError> {
        let mut connection = match tls {
            None => DataConnection::plaintext(socket),
            Some(tls) => {
                let tls_stream = secured(socket, &tls, &self.stats).await;
                DataConnection::secured(tls_stream.map_err(|error| (DataFailure::Tls, error))?)
            }
        };
        let arrival_log = self.driver.arrival_log.clone();
        let result = self.run_over(&mut connection).await;
        if let (Some(arrival_log), Some(socket)) = (arrival_log, connection.socket().kernel()) {
            let window = TcpInfo::of(&socket).ok().and_then(|info| info.own_window_bytes);
            arrival_log.lock().unwrap_or_else(PoisonError::into_inner).own_window_bytes =
                window.map(u64::from);
        }
        result
    }

    async fn run_over(
        self,
        connection: &mut DataConnection<BlockingSocket>,
    ) -> Result<Option<LocalSink>, TransferError> {
        let Self { driver, stats, plan, local_end, representation, expected_bytes } = self;
        // With TLS, each record is written as soon as it is decrypted.
        let is_plaintext = connection.tls().is_none();
        let sizes = PieceSizes::CLIENT;
        let mut transfer = DataTransfer { connection, driver: &driver, stats: &stats, plan, sizes };
        let result = match local_end {
            LocalEnd::ReadFrom(file) => match encoder(&representation) {
                Ok(encoder) => {
                    let source = FileSource {
                        file,
                        offset: None,
                        expected_bytes,
                        skipped_bytes: 0,
                        encoder,
                    };
                    transfer.send(source).await.map(|()| None)
                }
                Err(failure) => Err(failure),
            },
            local_end => {
                let room_bytes = plan.room_bytes(&sizes, expected_bytes);
                let room = Mutex::new(vec![0; if is_plaintext { room_bytes } else { 0 }]);
                let buffer = ReceiveBuffer { room: &room, limit: room_bytes, expected_bytes };
                let sink = LocalSink::new(local_end);
                transfer.receive(sink, &representation, &buffer).await.map(Some)
            }
        };
        result.map_err(error_of)
    }
}

/// Performs the TLS handshake.
async fn secured(
    socket: BlockingSocket,
    tls: &TlsClient,
    stats: &TransferStats,
) -> io::Result<DataTlsStream<BlockingSocket>> {
    let began_at = Instant::now();
    let (configuration, name) = tls.parts();
    let mut tls_stream = DataTlsStream::client(socket, configuration, name)?;
    let result = tls_stream.handshake().await;
    let mut data = stats.data();
    if let Err(error) = result {
        data.ended_at = Some(Instant::now());
        tls_stream.socket().observe(&mut data);
        return Err(error);
    }
    data.tls = Some(tls_stream.parameters());
    data.tls_time = Some(began_at.elapsed());
    drop(data);
    Ok(tls_stream)
}

/// Returns the encoder of an upload; `None` if the representation is the file itself.
fn encoder(
    representation: &Representation,
) -> Result<Option<Encoder>, TransferFailure<TransferError>> {
    if representation.passes_through() {
        return Ok(None);
    }
    let mut encoder =
        Encoder::new(representation, None).map_err(|_| TransferFailure::NotSupported)?;
    encoder.keep_cr_lf();
    Ok(Some(encoder))
}

fn error_of(failure: TransferFailure<TransferError>) -> TransferError {
    match failure {
        TransferFailure::Connection(error) => connection_lost(error),
        TransferFailure::Read(error) => local_error(error),
        TransferFailure::Truncated => {
            let why = "the local file was truncated during the upload";
            local_error(io::Error::new(ErrorKind::UnexpectedEof, why))
        }
        // A retry would read the same content, so the failure is an error of the local file.
        TransferFailure::Format(why) => {
            let why = format!("the local file does not have this format: {why}");
            local_error(io::Error::new(ErrorKind::InvalidData, why))
        }
        TransferFailure::Malformed(why) => malformed(&why),
        TransferFailure::NotSupported => malformed("this representation is not supported"),
        TransferFailure::BeyondEnd => malformed("the file ends before the requested offset"),
        TransferFailure::Busy => malformed("no thread for the conversion"),
        TransferFailure::Local(error) => error,
    }
}

#[cfg(test)]
#[path = "data_task_tests.rs"]
mod tests;
