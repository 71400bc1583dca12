//! Data transfer: copies bytes between a file and a data connection, in cleartext or TLS.
//!
//! In cleartext, if no conversion is needed, the kernel moves the bytes (`sendfile`). Aborted
//! transfers reset the data connection, so the client cannot mistake a truncated file for a
//! complete one.

use super::control_connection::HANDSHAKE_TIMEOUT;
use super::conversion::{DecodeSteps, EncodeStep, Incoming, Outgoing};
use super::data_tls::{DataTlsParameters, MeteredSocket};
use super::ftp_server::FtpServer;
use super::listing::{Lister, Progress};
use super::local_channel::LocalQueue;
use super::long_work::{self, ListingPiece};
use super::source::{Payload, converts_words};
use super::transfer_stats::ServerTransferStats;
use super::upload::Upload;
use crate::metered::Metered;
use carrier::TcpConnection;
use net::meter::Account;
use os::clock::{Monotonic, thread_cpu_time};
use protocols::ftp::data::Encoder;
use protocols::ftp::server::{FileError, TransferError};
use protocols::ftp::{Mode, Representation};
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;
use transfer::ftp_data::{
    DataTlsStream, Mechanism, PieceSizes, SPLICE_PIPE_BYTES, SplicePipe, TransferPlan,
};
use transfer::pace::RateLimit;

type Result<T> = std::result::Result<T, TransferError>;

/// Maximum number of bytes per `sendfile` call.
const SEND_BYTES: usize = 1 << 20;
/// Number of bytes transferred at a time in cleartext.
const PIECE_BYTES: usize = PieceSizes::SERVER.plain;
/// Minimum length of a sent file for which TCP is queried for the time at which the client received
/// all data. A shorter file is sent in one flight.
const UNACKNOWLEDGED_MIN_BYTES: u64 = 64 * 1024;

/// Minimum number of received bytes for which a pipe for `splice` is worth its cost.
const LARGE_BYTES: u64 = 1 << 20;
/// Maximum size of a file that is transferred in the session itself, without a task for the
/// transfer.
const SMALL_BYTES: u64 = 256 * 1024;
/// Number of listing bytes deflated at a time.
const LISTED_BYTES: usize = 16 * 1024;
/// Maximum number of directory entries read in the thread that runs all sessions; longer listings
/// are read in other threads.
const INLINE_NAMES: usize = 256;

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
    let Some(stream) = stream.kernel() else { return 0 };
    let mut position = offset;
    let count = usize::try_from(count).unwrap_or(0);
    let started_at = Instant::now();
    let cpu = thread_cpu_time();
    let sent_bytes = rustix::fs::sendfile(stream, file, Some(&mut position), count).unwrap_or(0);
    let ended_at = Instant::now();
    let mut data = stats.data();
    data.first_byte_at = Some(started_at);
    data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
    data.count_call();
    stats.add_file_bytes(sent_bytes);
    stats.moved_bytes.set(sent_bytes as u64);
    if sent_bytes == count {
        data.is_single_call = (sent_bytes as u64) < UNACKNOWLEDGED_MIN_BYTES;
        data.ended_at = Some(ended_at);
        data.query_addresses(&stream);
        data.query_tcp(&stream);
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
        let duplicate = rustix::io::fcntl_dupfd_cloexec(stream, 0).ok();
        stats.unacknowledged.replace(duplicate.map(|stream| (stream, started_at)));
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
) -> Result<bool> {
    let Some(stream) = stream.kernel() else { return Ok(false) };
    let cpu = thread_cpu_time();
    let mut piece_count = 0_u32;
    let received = loop {
        let (count, received_at) =
            match rustix::net::recv(stream, &mut *scratch, RecvFlags::empty()) {
                Ok((_, 0)) => break Ok(true),
                Ok((_, count)) => (count, Instant::now()),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break Ok(false),
                Err(_) => break Err(TransferError::ConnectionLost),
            };
        stats.data().first_byte_at.get_or_insert(received_at);
        piece_count = piece_count.saturating_add(1);
        stats.moved_bytes.set(stats.moved_bytes.get() + count as u64);
        let write_result = upload.write(scratch.get(..count).unwrap_or_default());
        stats.data().add_write_time(received_at.elapsed());
        if let Err(error) = write_result {
            break Err(TransferError::File(error));
        }
        if stats.moved_bytes.get() >= SMALL_BYTES {
            break Ok(false);
        }
    };
    let ended_at = Instant::now();
    stats.file_bytes.set(Some(upload.received_bytes()));
    let mut data = stats.data();
    data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
    if received != Ok(false) {
        data.is_single_call = piece_count == 1;
        data.ended_at = Some(ended_at);
        data.query_addresses(&stream);
        data.query_tcp(&stream);
    }
    if received.is_err() {
        reset(&stream);
    }
    received
}

/// Sets the linger option of a connection so that closing the connection sends a reset.
fn reset(stream: &impl AsFd) {
    // If the option cannot be set, the connection is closed without a reset, but the reply still
    // reports the error.
    _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// Restart marker of a client, and the length of the local file at that point.
pub(super) type Marker = (Vec<u8>, u64);

/// Running data transfer.
pub(super) struct DataTransfer {
    /// FtpServer whose meter is charged for file access.
    pub(super) server: Rc<FtpServer>,
    /// Client address, for the fair queues of long operations.
    pub(super) source: IpAddr,
    pub(super) representation: Representation,
    pub(super) plan: TransferPlan,
    pub(super) deflate_level: Option<u8>,
    pub(super) stats: Rc<ServerTransferStats>,
    pub(super) pace: Rc<Cell<RateLimit>>,
    pub(super) clock: Monotonic,
    pub(super) markers: LocalQueue<Marker>,
}

impl DataTransfer {
    /// Transfers all data. Returns the received file of an upload.
    pub(super) async fn run(
        self,
        stream: Stream,
        parameters: Option<DataTlsParameters>,
        payload: Payload,
        scratch: &RefCell<Vec<u8>>,
    ) -> Result<Option<Upload>> {
        let stream = stream.into_registered().map_err(|_| TransferError::NoConnection)?;
        let is_incoming = matches!(payload, Payload::Receive(_));
        if let Some(stream) = stream.kernel() {
            if !is_incoming || parameters.is_some() {
                // Small writes are sent immediately.
                _ = stream.set_nodelay(true);
            }
            self.stats.data().query_addresses(stream);
        }
        let started_at = Instant::now();
        let mut connection =
            Connection::open(stream, &self.server, parameters, is_incoming).await?;
        if let Transport::Tls(tls_stream, _) = &connection.transport {
            let mut data = self.stats.data();
            data.tls = Some(tls_stream.parameters());
            data.tls_time = Some(started_at.elapsed());
        }
        if !is_incoming {
            self.note_first_byte();
        }
        let sending_started_at = Instant::now();
        let result = self.move_all(&mut connection, payload, scratch).await;
        self.stats.data().ended_at = Some(Instant::now());
        if let Transport::Tls(tls_stream, _) = &connection.transport {
            self.stats.data().crypto_time = Some(tls_stream.crypto_time());
        }
        let Some(stream) = connection.socket().kernel() else { return result };
        self.stats.data().query_tcp(stream);
        if !is_incoming
            && self.stats.moved_bytes.get() >= UNACKNOWLEDGED_MIN_BYTES
            && connection.is_over
        {
            let duplicate = rustix::io::fcntl_dupfd_cloexec(stream, 0).ok();
            self.stats.unacknowledged.replace(duplicate.map(|stream| (stream, sending_started_at)));
        }
        result
    }

    async fn move_all(
        &self,
        connection: &mut Connection,
        payload: Payload,
        scratch: &RefCell<Vec<u8>>,
    ) -> Result<Option<Upload>> {
        let upload = match payload {
            Payload::Send { file, offset, len } => {
                self.send(connection, file, offset, len).await?;
                None
            }
            Payload::List(lister) => {
                self.list(connection, lister).await?;
                None
            }
            Payload::Receive(upload) => Some(self.receive(connection, upload, scratch).await?),
        };
        if upload.is_none() {
            connection.finish().await.map_err(|_| TransferError::ConnectionLost)?;
        } else if let Transport::Tls(tls_stream, _) = &mut connection.transport {
            // The client may already have closed without reading our session tickets; ignore
            // errors.
            _ = tls_stream.finish().await;
        }
        connection.is_over = true;
        Ok(upload)
    }

    async fn send(&self, to: &mut Connection, file: File, offset: u64, len: u64) -> Result<()> {
        // Sets the count for an empty file, for which no bytes are counted below.
        self.stats.add_file_bytes(0);
        match (self.plan.mechanism(), to.plaintext_kernel()) {
            (Mechanism::Convert, _) => self.send_converted(to, file, offset, len).await,
            (Mechanism::Kernel, Some(stream)) => {
                self.send_by_kernel(stream, &file, offset, len).await
            }
            (Mechanism::Kernel | Mechanism::Copy, _) => self.send_copy(to, file, offset).await,
        }
    }

    /// Sends a file unchanged, through TLS or the user-space TCP.
    async fn send_copy(&self, to: &mut Connection, mut file: File, offset: u64) -> Result<()> {
        super::user_files::seek(&mut file, offset).map_err(TransferError::File)?;
        let mut piece = vec![0; self.plan.piece_bytes(&PieceSizes::SERVER)];
        loop {
            let count = self.server.charge(Account::Files, || file.read(&mut piece));
            let count = count.map_err(|_| TransferError::File(FileError::Local))?;
            if count == 0 {
                return Ok(());
            }
            self.stats.add_file_bytes(count);
            self.send_bytes(to, piece.get(..count).unwrap_or_default()).await?;
        }
    }

    /// Sends a file with conversion of its representation.
    async fn send_converted(
        &self,
        to: &mut Connection,
        mut file: File,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        // With converted words, the offset counts bytes of the encoded data.
        let mut unsent = if converts_words(&self.representation) { offset } else { 0 };
        super::user_files::seek(&mut file, offset - unsent).map_err(TransferError::File)?;
        let encoder = Encoder::new(&self.representation, self.deflate_level);
        let encoder = encoder.map_err(|_| TransferError::Malformed)?;
        let piece_bytes = self.plan.piece_bytes(&PieceSizes::SERVER);
        let mut outgoing = Outgoing::new(file, encoder, piece_bytes);
        loop {
            let encoded = match Outgoing::is_inline(len) {
                true => self.server.charge(Account::Files, || outgoing.encode()),
                false => {
                    let piece = EncodeStep(Some(outgoing));
                    let result = long_work::run(&self.server.long_work, self.source, piece).await;
                    let result = result.unwrap_or(Err(FileError::ServerBusy));
                    let encoded;
                    (outgoing, encoded) = result.map_err(TransferError::File)?;
                    self.stats.data().add_cpu_time(encoded.cpu);
                    Ok(encoded)
                }
            };
            let encoded = encoded.map_err(TransferError::File)?;
            self.stats.add_file_bytes(encoded.file_bytes);
            self.stats.data().counts = encoded.counts;
            let wire = encoded.wire;
            let skipped_bytes = usize::try_from(unsent).map_or(wire.len(), |at| at.min(wire.len()));
            unsent -= skipped_bytes as u64;
            if skipped_bytes > 0 {
                self.limit_rate(skipped_bytes).await;
            }
            self.send_bytes(to, wire.get(skipped_bytes..).unwrap_or_default()).await?;
            if encoded.is_over {
                return match unsent {
                    0 => Ok(()),
                    _ => Err(TransferError::File(FileError::BeyondEnd)),
                };
            }
        }
    }

    async fn send_by_kernel(
        &self,
        stream: &TcpStream,
        file: &File,
        mut offset: u64,
        len: u64,
    ) -> Result<()> {
        let count = self.plan.limited(SEND_BYTES);
        loop {
            let mut position = offset;
            let sent = stream.async_io(Interest::WRITABLE, || {
                self.stats.data().count_call();
                Ok(rustix::fs::sendfile(stream, file, Some(&mut position), count)?)
            });
            let sent = sent.await.map_err(|_| TransferError::ConnectionLost)?;
            if sent == 0 {
                // If `len` is not reached, the file was truncated in the meantime.
                let is_completely_sent = offset >= len;
                return match is_completely_sent {
                    true => Ok(()),
                    false => Err(TransferError::File(FileError::Local)),
                };
            }
            offset += sent as u64;
            self.stats.add_file_bytes(sent);
            self.count_bytes(sent).await;
        }
    }

    async fn list(&self, to: &mut Connection, mut lister: Box<Lister>) -> Result<()> {
        let encoder = Encoder::new(&self.representation, self.deflate_level);
        let mut encoder = encoder.map_err(|_| TransferError::Malformed)?;
        let encodes = self.representation.mode == Mode::Deflate;
        let mut lines = Vec::new();
        let mut wire = Vec::new();
        let mut names_left = INLINE_NAMES;
        loop {
            // Lines are encoded in this thread, a few at a time.
            let default_bytes = if encodes { LISTED_BYTES } else { PIECE_BYTES };
            let max_bytes = self.plan.limited(default_bytes);
            let write = || lister.write(&mut lines, max_bytes, &mut names_left);
            let progress = self.server.charge(Account::Files, write);
            let has_more = match progress.map_err(TransferError::File)? {
                Progress::Full => true,
                Progress::Done => false,
                Progress::Paused => {
                    let piece = ListingPiece::new(lister, lines, max_bytes);
                    let listed = long_work::run(&self.server.listings, self.source, piece).await;
                    let listed = listed.ok_or(TransferError::File(FileError::ServerBusy))?;
                    lister = listed.lister;
                    lines = listed.lines;
                    listed.has_more.map_err(TransferError::File)?
                }
            };
            self.stats.add_file_bytes(lines.len());
            self.stats.unsendable_names.set(lister.unsendable());
            let local = |_| TransferError::File(FileError::Local);
            encoder.encode(&lines, &mut wire).map_err(local)?;
            if !has_more {
                encoder.finish(&mut wire).map_err(local)?;
            }
            self.stats.data().counts = encoder.counts();
            self.send_bytes(to, &wire).await?;
            if wire.is_empty() {
                // Without a write, this iteration has not yielded to other tasks.
                tokio::task::yield_now().await;
            }
            lines.clear();
            wire.clear();
            if !has_more {
                return Ok(());
            }
        }
    }

    async fn receive(
        &self,
        from: &mut Connection,
        mut upload: Upload,
        scratch: &RefCell<Vec<u8>>,
    ) -> Result<Upload> {
        if self.plan.mechanism() == Mechanism::Convert {
            return self.receive_converted(from, upload, scratch).await;
        }
        let limit = self.plan.piece_bytes(&PieceSizes::SERVER);
        loop {
            if let (true, Some(stream)) = (limit == PIECE_BYTES, from.plaintext_kernel())
                && self.stats.moved_bytes.get() >= LARGE_BYTES
            {
                self.receive_by_kernel(stream, &mut upload).await?;
                return Ok(upload);
            }
            let count = std::future::poll_fn(|context| {
                let mut scratch = scratch.borrow_mut();
                let mut written = Ok(());
                let received = from.poll_receive(context, &mut scratch, limit, &mut |wire| {
                    let started_at = Instant::now();
                    written = written.and_then(|()| {
                        let result = self.server.charge(Account::Files, || upload.write(wire));
                        result.map_err(TransferError::File)
                    });
                    self.stats.data().add_write_time(started_at.elapsed());
                });
                let received = ready!(received).map_err(|_| TransferError::ConnectionLost);
                Poll::Ready(written.and(received))
            });
            let count = count.await?;
            self.stats.file_bytes.set(Some(upload.received_bytes()));
            if count == 0 {
                return Ok(upload);
            }
            self.note_first_byte();
            self.count_bytes(count).await;
        }
    }

    /// Receives a file with conversion of its representation.
    async fn receive_converted(
        &self,
        from: &mut Connection,
        upload: Upload,
        scratch: &RefCell<Vec<u8>>,
    ) -> Result<Upload> {
        let mut incoming = Incoming::new(&self.representation, upload)?;
        let limit = self.plan.piece_bytes(&PieceSizes::SERVER);
        loop {
            let wire = &mut incoming.wire;
            let received = std::future::poll_fn(|context| {
                let mut scratch = scratch.borrow_mut();
                let mut append = |data: &[u8]| wire.extend_from_slice(data);
                from.poll_receive(context, &mut scratch, limit, &mut append)
            });
            let count = received.await.map_err(|_| TransferError::ConnectionLost)?;
            if count == 0 {
                break;
            }
            self.note_first_byte();
            if incoming.is_inline() {
                while !self.server.charge(Account::Files, || incoming.decode())? {}
                incoming.decode_times.1 = Duration::ZERO;
            } else {
                let piece = DecodeSteps(Some(incoming));
                let result = long_work::run(&self.server.long_work, self.source, piece).await;
                incoming = result.unwrap_or(Err(TransferError::File(FileError::ServerBusy)))?;
            }
            for marker in incoming.markers.drain(..) {
                // A marker that does not fit into the queue is dropped; the client then has one
                // restart point fewer.
                self.markers.push(marker);
            }
            let (took, cpu) = std::mem::take(&mut incoming.decode_times);
            self.stats.data().add_write_time(took);
            self.stats.data().add_cpu_time(cpu);
            self.stats.data().counts = incoming.counts();
            self.stats.file_bytes.set(Some(incoming.upload.received_bytes()));
            self.count_bytes(count).await;
        }
        self.stats.data().counts = incoming.counts();
        let upload = incoming.finish()?;
        self.stats.file_bytes.set(Some(upload.received_bytes()));
        Ok(upload)
    }

    fn note_first_byte(&self) {
        self.stats.data().first_byte_at.get_or_insert_with(Instant::now);
    }

    /// Receives the rest of the file with `splice`, through a pipe that holds the pages.
    async fn receive_by_kernel(&self, stream: &TcpStream, upload: &mut Upload) -> Result<()> {
        let local = |_| TransferError::File(FileError::Local);
        let mut splice_pipe = SplicePipe::new().map_err(local)?;
        loop {
            let received = stream.async_io(Interest::READABLE, || {
                Ok(splice_pipe.fill(stream, SPLICE_PIPE_BYTES, false)?)
            });
            let count = received.await.map_err(|_| TransferError::ConnectionLost)?;
            if count == 0 {
                return Ok(());
            }
            let started_at = Instant::now();
            let written =
                self.server.charge(Account::Files, || upload.write_from(&mut splice_pipe));
            written.map_err(TransferError::File)?;
            self.stats.data().add_write_time(started_at.elapsed());
            self.stats.file_bytes.set(Some(upload.received_bytes()));
            self.count_bytes(count).await;
        }
    }

    async fn send_bytes(&self, to: &mut Connection, wire: &[u8]) -> Result<()> {
        for piece in wire.chunks(PIECE_BYTES) {
            to.write_all(piece).await.map_err(|_| TransferError::ConnectionLost)?;
            self.count_bytes(piece.len()).await;
        }
        Ok(())
    }

    /// Counts transferred bytes, and waits if the rate limit is exceeded.
    async fn count_bytes(&self, count: usize) {
        let moved_bytes = &self.stats.moved_bytes;
        moved_bytes.set(moved_bytes.get() + count as u64);
        self.limit_rate(count).await;
    }

    /// Charges `count` bytes to the rate limiter, and waits if the rate is exceeded.
    async fn limit_rate(&self, count: usize) {
        let mut pace = self.pace.get();
        let now = self.clock.now();
        pace.spend(count, now);
        self.pace.set(pace);
        if let Some(until) = pace.waits_until(now) {
            let nanos = u64::try_from((until - now).as_nanos()).unwrap_or(0);
            tokio::time::sleep(Duration::from_nanos(nanos)).await;
        }
    }
}

/// Data connection. Dropping it before the end of the transfer resets it.
struct Connection {
    transport: Transport,
    /// Whether the client has closed its half of the connection.
    has_ended: bool,
    is_over: bool,
}

enum Transport {
    Plaintext(TcpConnection),
    Tls(Box<DataTlsStream<MeteredSocket>>, Rc<FtpServer>),
}

impl Connection {
    async fn open(
        stream: TcpConnection,
        server: &Rc<FtpServer>,
        parameters: Option<DataTlsParameters>,
        is_incoming: bool,
    ) -> Result<Self> {
        let transport = match parameters {
            None => Transport::Plaintext(stream),
            Some(parameters) => {
                let handshake = parameters.accept(stream, server, is_incoming);
                let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
                match handshake {
                    Ok(Ok(tls_stream)) => Transport::Tls(Box::new(tls_stream), Rc::clone(server)),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(TransferError::TlsNotResumed);
                    }
                    _ => return Err(TransferError::Tls),
                }
            }
        };
        Ok(Self { transport, has_ended: false, is_over: false })
    }

    /// Returns the socket; with TLS, the socket below TLS.
    fn socket(&self) -> &TcpConnection {
        match &self.transport {
            Transport::Plaintext(socket) => socket,
            Transport::Tls(tls_stream, _) => tls_stream.socket().inner(),
        }
    }

    /// Returns the kernel socket if there is no TLS, so that the kernel can move file data itself.
    fn plaintext_kernel(&self) -> Option<&TcpStream> {
        match &self.transport {
            Transport::Plaintext(socket) => socket.kernel(),
            Transport::Tls(..) => None,
        }
    }

    /// Waits for data and passes the data to `each` in pieces, which are collected in the buffer
    /// `room`. Reads at most `limit` bytes. Returns the number of bytes; 0 at the end of the
    /// stream.
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let stream = match &mut self.transport {
            Transport::Tls(tls_stream, server) => {
                let mut buffer = RecordBuffer { room, len: 0, each };
                let read = server.charge(Account::Encryption, || {
                    tls_stream.poll_receive(context, limit, &mut |data| buffer.put(data))
                });
                // Data received before an error is valid.
                buffer.flush();
                return read;
            }
            Transport::Plaintext(stream) => stream,
        };
        let mut room = ReadBuf::new(room.get_mut(..limit).unwrap_or_default());
        while !self.has_ended && room.remaining() > 0 {
            let filled_before = room.filled().len();
            match Pin::new(&mut *stream).poll_read(context, &mut room) {
                Poll::Pending if filled_before == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            self.has_ended = room.filled().len() == filled_before;
        }
        if !room.filled().is_empty() {
            each(room.filled());
        }
        Poll::Ready(Ok(room.filled().len()))
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.transport {
            Transport::Plaintext(stream) => stream.write_all(bytes).await,
            Transport::Tls(tls_stream, server) => {
                server.charge(Account::Encryption, || tls_stream.encrypt(bytes))?;
                tls_stream.flush().await
            }
        }
    }

    /// Sends the end of the stream.
    async fn finish(&mut self) -> io::Result<()> {
        match &mut self.transport {
            Transport::Plaintext(stream) => stream.shutdown().await,
            Transport::Tls(tls_stream, _) => tls_stream.finish().await,
        }
    }
}

/// Collects the content of several TLS records: copying costs less than one write per record.
struct RecordBuffer<'a> {
    room: &'a mut [u8],
    len: usize,
    each: &'a mut dyn FnMut(&[u8]),
}

impl RecordBuffer<'_> {
    fn put(&mut self, data: &[u8]) {
        if self.room.len() - self.len < data.len() {
            self.flush();
        }
        match self.room.get_mut(self.len..self.len + data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                self.len += data.len();
            }
            None => (self.each)(data),
        }
    }

    fn flush(&mut self) {
        let filled = self.room.get(..self.len).unwrap_or_default();
        if !filled.is_empty() {
            (self.each)(filled);
        }
        self.len = 0;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        match self.socket() {
            TcpConnection::Kernel(stream) => reset(stream),
            TcpConnection::Userspace(stream) => stream.abort(),
        }
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
