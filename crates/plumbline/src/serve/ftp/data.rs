//! Data transfer: copies bytes between a file and a data connection, in cleartext or TLS.
//!
//! In cleartext, if no conversion is needed, the kernel moves the bytes (`sendfile`). Aborted
//! transfers reset the data connection, so the client cannot mistake a truncated file for a
//! complete one.

use super::Server;
use super::control::HANDSHAKE;
use super::conversion::{self, Decoding, Encoding, Incoming, Outgoing};
use super::facts::Ledger;
use super::listing::{Lister, Progress};
use super::long_work::{self, ListingPiece};
use super::post::Post;
use super::secured::{Secured, Security};
use super::session::Marker;
use super::socket::Socket;
use super::upload::Upload;
use super::work::converts_words;
use crate::files::pace::Pace;
use crate::serve::charged::Metered;
use os::clock::{Monotonic, thread_cpu_time};
use protocols::application::ftp::data::Encoder;
use protocols::application::ftp::server::{FileError, TransferError};
use protocols::application::ftp::{Mode, Representation};
use protocols::meter::Account;
use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};
use rustix::pipe::{self, PipeFlags, SpliceFlags};
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

type Result<T> = std::result::Result<T, TransferError>;

/// Maximum number of bytes per `sendfile` or `splice` call.
const SEND_BYTES: usize = 1 << 20;
/// Size of one piece in cleartext.
const PIECE_BYTES: usize = 256 * 1024;
/// Size of one piece in TLS: small enough for plaintext and ciphertext to stay in the CPU cache at
/// both ends. Twice this size costs a receiver a tenth more.
const SECURED_PIECE_BYTES: usize = 64 * 1024;
/// Larger files do not leave in one flight, so TCP is queried for the time of arrival.
const UNSETTLED_MIN_BYTES: u64 = 64 * 1024;

/// Number of received bytes from which a pipe for `splice` is worth its cost.
const LARGE_BYTES: u64 = 1 << 20;
/// Files up to this size are moved directly in the session, without a task of their own.
const SMALL_BYTES: u64 = 256 * 1024;
/// Number of listing bytes deflated at a time.
const LISTED_BYTES: usize = 16 * 1024;
/// Number of directory entries read in the thread of all sessions.
const INLINE_NAMES: usize = 256;

/// Data connection before its first transferred byte.
#[derive(Debug)]
pub(super) enum Stream {
    /// Not registered with the runtime.
    Fresh(std::net::TcpStream),
    Watched(Socket),
}

impl Stream {
    fn watched(self) -> io::Result<Socket> {
        match self {
            Self::Fresh(stream) => TcpStream::from_std(stream).map(Socket::Kernel),
            Self::Watched(socket) => Ok(socket),
        }
    }

    /// Returns the descriptor of a kernel socket.
    fn kernel(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Fresh(stream) => Some(stream.as_fd()),
            Self::Watched(socket) => socket.kernel().map(AsFd::as_fd),
        }
    }
}

/// Sends as much of a small file as the connection accepts without blocking, and returns the number
/// of bytes. Errors are left to the sending of the rest.
pub(super) fn send_at_once(
    stream: &Stream,
    file: &File,
    offset: u64,
    len: u64,
    ledger: &Ledger,
    clock: Monotonic,
) -> u64 {
    let Ok(count @ 1..=SMALL_BYTES) = len.checked_sub(offset).ok_or(()) else { return 0 };
    let Some(stream) = stream.kernel() else { return 0 };
    let (mut at, count) = (offset, usize::try_from(count).unwrap_or(0));
    let (began, cpu) = (clock.now(), thread_cpu_time());
    let sent = rustix::fs::sendfile(stream, file, Some(&mut at), count).unwrap_or(0);
    let ended = clock.now();
    ledger.first_byte.set(Some(began));
    ledger.add_cpu(thread_cpu_time().saturating_sub(cpu));
    ledger.count_call();
    ledger.add_file(sent);
    ledger.moved.set(sent as u64);
    if sent == count {
        ledger.is_by_one_call.set((sent as u64) < UNSETTLED_MIN_BYTES);
        ledger.ended.set(Some(ended));
        ledger.open(&stream);
        ledger.ask(&stream);
    }
    sent as u64
}

/// Closes a connection to which a whole file was written since `began`. For a file that does not
/// leave in one flight, keeps a duplicate to query the time of arrival.
pub(super) fn end_sent(stream: Stream, sent: u64, ledger: &Ledger, began: Instant) {
    if sent >= UNSETTLED_MIN_BYTES
        && let Some(stream) = stream.kernel()
        && rustix::net::shutdown(stream, rustix::net::Shutdown::Write).is_ok()
    {
        let duplicate = rustix::io::fcntl_dupfd_cloexec(stream, 0).ok();
        ledger.unsettled.replace(duplicate.map(|stream| (stream, began)));
    }
    // The FIN is sent with the last byte.
    drop(stream);
}

/// Receives data that has already arrived, without waiting for more. Returns whether that is the
/// whole file.
///
/// # Errors
///
/// Returns an error if the connection is lost, which also resets it, or if the file accepts no more
/// data.
pub(super) fn receive_at_once(
    stream: &Stream,
    upload: &mut Upload,
    scratch: &mut [u8],
    ledger: &Ledger,
    clock: Monotonic,
) -> Result<bool> {
    let Some(stream) = stream.kernel() else { return Ok(false) };
    let cpu = thread_cpu_time();
    let mut pieces = 0_u32;
    let received = loop {
        let (count, came) = match rustix::net::recv(stream, &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => break Ok(true),
            Ok((_, count)) => (count, clock.now()),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => break Ok(false),
            Err(_) => break Err(TransferError::ConnectionLost),
        };
        if ledger.first_byte.get().is_none() {
            ledger.first_byte.set(Some(came));
        }
        pieces = pieces.saturating_add(1);
        ledger.moved.set(ledger.moved.get() + count as u64);
        let written = upload.write(scratch.get(..count).unwrap_or_default());
        ledger.add_writing(clock.now() - came);
        if let Err(error) = written {
            break Err(TransferError::File(error));
        }
        if ledger.moved.get() >= SMALL_BYTES {
            break Ok(false);
        }
    };
    let ended = clock.now();
    ledger.add_cpu(thread_cpu_time().saturating_sub(cpu));
    ledger.file_bytes.set(Some(upload.received_bytes()));
    if received != Ok(false) {
        ledger.is_by_one_call.set(pieces == 1);
        ledger.ended.set(Some(ended));
        ledger.open(&stream);
        ledger.ask(&stream);
    }
    if received.is_err() {
        reset(&stream);
    }
    received
}

/// Makes the close of a connection reset it.
fn reset(stream: &impl AsFd) {
    // If that fails, the connection closes in order, but the reply still reports the error.
    _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// Source or target of a transfer.
#[derive(Debug)]
pub(super) enum Work {
    /// A file is sent, from an offset to its length.
    Send { file: File, offset: u64, len: u64 },
    /// A listing is sent.
    List(Box<Lister>),
    /// A file is received.
    Receive(Upload),
}

/// Running data transfer.
pub(super) struct Mover {
    /// Server whose meter is charged for file access.
    pub(super) server: Rc<Server>,
    /// Client address, for the fair queues of long operations.
    pub(super) source: IpAddr,
    pub(super) representation: Representation,
    pub(super) deflate_level: Option<u8>,
    pub(super) ledger: Rc<Ledger>,
    pub(super) pace: Rc<Cell<Pace>>,
    pub(super) clock: Monotonic,
    pub(super) markers: Post<Marker>,
}

impl Mover {
    /// Transfers all data. Returns the received file.
    pub(super) async fn run(
        self,
        stream: Stream,
        security: Option<Security>,
        work: Work,
        scratch: &RefCell<Vec<u8>>,
    ) -> Result<Option<Upload>> {
        let stream = stream.watched().map_err(|_| TransferError::NoConnection)?;
        let is_incoming = matches!(work, Work::Receive(_));
        if let Some(stream) = stream.kernel() {
            if !is_incoming || security.is_some() {
                // Small writes are sent immediately.
                _ = stream.set_nodelay(true);
            }
            self.ledger.open(stream);
        }
        let began = self.clock.now();
        let mut connection = Connection::open(stream, security, is_incoming).await?;
        if let Way::Secured(secured) = &connection.way {
            self.ledger.tls.set(Some(secured.tls()));
            self.ledger.tls_time.set(Some(self.clock.now() - began));
        }
        if !is_incoming && self.ledger.first_byte.get().is_none() {
            self.ledger.first_byte.set(Some(self.clock.now()));
        }
        let since = Instant::now();
        let moved = self.move_all(&mut connection, work, scratch).await;
        self.ledger.ended.set(Some(self.clock.now()));
        if let Way::Secured(secured) = &connection.way {
            self.ledger.crypto.set(Some(secured.spent()));
        }
        let Some(stream) = connection.socket().kernel() else { return moved };
        self.ledger.ask(stream);
        if !is_incoming && self.ledger.moved.get() >= UNSETTLED_MIN_BYTES && connection.is_over {
            let duplicate = rustix::io::fcntl_dupfd_cloexec(stream, 0).ok();
            self.ledger.unsettled.replace(duplicate.map(|stream| (stream, since)));
        }
        moved
    }

    async fn move_all(
        &self,
        connection: &mut Connection,
        work: Work,
        scratch: &RefCell<Vec<u8>>,
    ) -> Result<Option<Upload>> {
        let upload = match work {
            Work::Send { file, offset, len } => {
                self.send(connection, file, offset, len).await?;
                None
            }
            Work::List(lister) => {
                self.list(connection, lister).await?;
                None
            }
            Work::Receive(upload) => Some(self.receive(connection, upload, scratch).await?),
        };
        if upload.is_none() {
            connection.finish().await.map_err(|_| TransferError::ConnectionLost)?;
        } else if let Way::Secured(secured) = &mut connection.way {
            // The client may already have closed without reading our session tickets; ignore
            // errors.
            _ = secured.finish().await;
        }
        connection.is_over = true;
        Ok(upload)
    }

    async fn send(&self, to: &mut Connection, file: File, offset: u64, len: u64) -> Result<()> {
        // Sets the count for an empty file, which has no piece to count.
        self.ledger.add_file(0);
        if let (true, Some(stream)) = (self.representation.passes_through(), to.clear_kernel()) {
            return self.send_by_kernel(stream, &file, offset, len).await;
        }
        let mut file = file;
        if !self.representation.passes_through() {
            return self.send_converted(to, file, offset, len).await;
        }
        super::tree::seek(&mut file, offset).map_err(TransferError::File)?;
        let mut piece = vec![0; self.piece_bytes(to.piece_bytes())];
        loop {
            let count = self.server.charge(Account::Files, || file.read(&mut piece));
            let count = count.map_err(|_| TransferError::File(FileError::Local))?;
            if count == 0 {
                return Ok(());
            }
            self.ledger.add_file(count);
            self.put(to, piece.get(..count).unwrap_or_default()).await?;
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
        super::tree::seek(&mut file, offset - unsent).map_err(TransferError::File)?;
        let encoder = Encoder::new(&self.representation, self.deflate_level);
        let encoder = encoder.map_err(|_| TransferError::Malformed)?;
        let burst = self.piece_bytes(conversion::PIECE_BYTES);
        let mut outgoing = Outgoing::new(file, encoder, burst);
        loop {
            let encoded = match Outgoing::is_inline(len) {
                true => self.server.charge(Account::Files, || outgoing.encode()),
                false => {
                    let piece = Encoding(Some(outgoing));
                    let done = long_work::run(&self.server.long_work, self.source, piece).await;
                    let done = done.unwrap_or(Err(FileError::ServerBusy));
                    let encoded;
                    (outgoing, encoded) = done.map_err(TransferError::File)?;
                    self.ledger.add_cpu(encoded.cpu);
                    Ok(encoded)
                }
            };
            let encoded = encoded.map_err(TransferError::File)?;
            self.ledger.add_file(encoded.file_bytes);
            self.ledger.counts.set(encoded.counts);
            let wire = encoded.wire;
            let skipped = usize::try_from(unsent).map_or(wire.len(), |at| at.min(wire.len()));
            unsent -= skipped as u64;
            if skipped > 0 {
                self.spend(skipped).await;
            }
            self.put(to, wire.get(skipped..).unwrap_or_default()).await?;
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
        let count = self.piece_bytes(SEND_BYTES);
        loop {
            let mut at = offset;
            let sent = stream.async_io(Interest::WRITABLE, || {
                self.ledger.count_call();
                Ok(rustix::fs::sendfile(stream, file, Some(&mut at), count)?)
            });
            let sent = sent.await.map_err(|_| TransferError::ConnectionLost)?;
            if sent == 0 {
                // Before `len`, this means that the file was truncated meanwhile.
                let is_whole = offset >= len;
                return if is_whole { Ok(()) } else { Err(TransferError::File(FileError::Local)) };
            }
            offset += sent as u64;
            self.ledger.add_file(sent);
            self.note(sent).await;
        }
    }

    async fn list(&self, to: &mut Connection, mut lister: Box<Lister>) -> Result<()> {
        let encoder = Encoder::new(&self.representation, self.deflate_level);
        let mut encoder = encoder.map_err(|_| TransferError::Malformed)?;
        let encodes = self.representation.mode == Mode::Deflate;
        let (mut lines, mut wire, mut names_left) = (Vec::new(), Vec::new(), INLINE_NAMES);
        loop {
            // Lines are encoded in this thread, a few at a time.
            let usual = if encodes { LISTED_BYTES } else { PIECE_BYTES };
            let most = self.piece_bytes(usual);
            let write = || lister.write(&mut lines, most, &mut names_left);
            let progress = self.server.charge(Account::Files, write);
            let has_more = match progress.map_err(TransferError::File)? {
                Progress::Full => true,
                Progress::Done => false,
                Progress::Paused => {
                    let piece = ListingPiece::new(lister, lines, most);
                    let listed = long_work::run(&self.server.listings, self.source, piece).await;
                    let listed = listed.ok_or(TransferError::File(FileError::ServerBusy))?;
                    (lister, lines) = (listed.lister, listed.lines);
                    listed.has_more.map_err(TransferError::File)?
                }
            };
            self.ledger.add_file(lines.len());
            self.ledger.untold_names.set(lister.untold());
            let local = |_| TransferError::File(FileError::Local);
            encoder.encode(&lines, &mut wire).map_err(local)?;
            if !has_more {
                encoder.finish(&mut wire).map_err(local)?;
            }
            self.ledger.counts.set(encoder.counts());
            self.put(to, &wire).await?;
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
        if !self.representation.passes_through() {
            return self.receive_converted(from, upload, scratch).await;
        }
        let limit = self.piece_bytes(from.piece_bytes());
        loop {
            if let (true, Some(stream)) = (limit == PIECE_BYTES, from.clear_kernel())
                && self.ledger.moved.get() >= LARGE_BYTES
            {
                self.receive_by_kernel(stream, &mut upload).await?;
                return Ok(upload);
            }
            let count = std::future::poll_fn(|context| {
                let mut scratch = scratch.borrow_mut();
                let mut taken = Ok(());
                let received = from.poll_receive(context, &mut scratch, limit, &mut |wire| {
                    let began = self.clock.now();
                    taken = taken.and_then(|()| {
                        let written = self.server.charge(Account::Files, || upload.write(wire));
                        written.map_err(TransferError::File)
                    });
                    self.ledger.add_writing(self.clock.now() - began);
                });
                let received = ready!(received).map_err(|_| TransferError::ConnectionLost);
                Poll::Ready(taken.and(received))
            });
            let count = count.await?;
            self.ledger.file_bytes.set(Some(upload.received_bytes()));
            if count == 0 {
                return Ok(upload);
            }
            self.note_first_byte();
            self.note(count).await;
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
        let limit = self.piece_bytes(conversion::PIECE_BYTES);
        loop {
            let wire = &mut incoming.wire;
            let received = std::future::poll_fn(|context| {
                let mut scratch = scratch.borrow_mut();
                let mut add = |data: &[u8]| wire.extend_from_slice(data);
                from.poll_receive(context, &mut scratch, limit, &mut add)
            });
            let count = received.await.map_err(|_| TransferError::ConnectionLost)?;
            if count == 0 {
                break;
            }
            self.note_first_byte();
            if incoming.is_inline() {
                while !self.server.charge(Account::Files, || incoming.decode())? {}
                incoming.spent.1 = Duration::ZERO;
            } else {
                let piece = Decoding(Some(incoming));
                let done = long_work::run(&self.server.long_work, self.source, piece).await;
                incoming = done.unwrap_or(Err(TransferError::File(FileError::ServerBusy)))?;
            }
            for marker in incoming.markers.drain(..) {
                // A marker that does not fit is lost; the client has one restart point less.
                self.markers.put(marker);
            }
            let (took, cpu) = std::mem::take(&mut incoming.spent);
            self.ledger.add_writing(took);
            self.ledger.add_cpu(cpu);
            self.ledger.counts.set(incoming.counts());
            self.ledger.file_bytes.set(Some(incoming.upload.received_bytes()));
            self.note(count).await;
        }
        self.ledger.counts.set(incoming.counts());
        let upload = incoming.finish()?;
        self.ledger.file_bytes.set(Some(upload.received_bytes()));
        Ok(upload)
    }

    fn note_first_byte(&self) {
        if self.ledger.first_byte.get().is_none() {
            self.ledger.first_byte.set(Some(self.clock.now()));
        }
    }

    /// Receives the rest with `splice`, through a pipe that holds the pages.
    async fn receive_by_kernel(&self, stream: &TcpStream, upload: &mut Upload) -> Result<()> {
        let local = |_| TransferError::File(FileError::Local);
        let (from, to) = pipe::pipe_with(PipeFlags::CLOEXEC).map_err(local)?;
        // A smaller pipe only means more calls.
        _ = pipe::fcntl_setpipe_size(&to, SEND_BYTES);
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        loop {
            let come = stream.async_io(Interest::READABLE, || {
                Ok(pipe::splice(stream, None, &to, None, SEND_BYTES, flags)?)
            });
            let count = come.await.map_err(|_| TransferError::ConnectionLost)?;
            if count == 0 {
                return Ok(());
            }
            let began = self.clock.now();
            let written = self.server.charge(Account::Files, || upload.write_from(&from, count));
            written.map_err(TransferError::File)?;
            self.ledger.add_writing(self.clock.now() - began);
            self.ledger.file_bytes.set(Some(upload.received_bytes()));
            self.note(count).await;
        }
    }

    /// Returns the size of one piece, which respects the rate limit.
    fn piece_bytes(&self, usual: usize) -> usize {
        let burst = self.pace.get().burst_bytes();
        burst.and_then(|burst| usize::try_from(burst).ok()).unwrap_or(usual).clamp(1, usual)
    }

    async fn put(&self, to: &mut Connection, wire: &[u8]) -> Result<()> {
        for piece in wire.chunks(PIECE_BYTES) {
            to.write_all(piece).await.map_err(|_| TransferError::ConnectionLost)?;
            self.note(piece.len()).await;
        }
        Ok(())
    }

    /// Counts transferred bytes, and waits if the rate limit is exceeded.
    async fn note(&self, count: usize) {
        let moved = &self.ledger.moved;
        moved.set(moved.get() + count as u64);
        self.spend(count).await;
    }

    /// Charges `count` bytes to the rate limiter, and waits if the rate is exceeded.
    async fn spend(&self, count: usize) {
        let (mut pace, now) = (self.pace.get(), self.clock.now());
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
    way: Way,
    /// Whether the client has closed its half.
    has_ended: bool,
    is_over: bool,
}

enum Way {
    Clear(Socket),
    Secured(Box<Secured>),
}

impl Connection {
    async fn open(stream: Socket, security: Option<Security>, is_incoming: bool) -> Result<Self> {
        let way = match security {
            None => Way::Clear(stream),
            Some(security) => {
                let accepted = Secured::accept(stream, &security, is_incoming);
                let accepted = tokio::time::timeout(HANDSHAKE, accepted).await;
                match accepted {
                    Ok(Ok(secured)) => Way::Secured(Box::new(secured)),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(TransferError::TlsNotResumed);
                    }
                    _ => return Err(TransferError::Tls),
                }
            }
        };
        Ok(Self { way, has_ended: false, is_over: false })
    }

    /// Returns the socket, below TLS if there is TLS.
    fn socket(&self) -> &Socket {
        match &self.way {
            Way::Clear(socket) => socket,
            Way::Secured(secured) => secured.stream(),
        }
    }

    /// Returns the kernel socket if there is no TLS, so that the kernel can move file data itself.
    fn clear_kernel(&self) -> Option<&TcpStream> {
        match &self.way {
            Way::Clear(socket) => socket.kernel(),
            Way::Secured(_) => None,
        }
    }

    /// Returns the usual size of one piece.
    const fn piece_bytes(&self) -> usize {
        match &self.way {
            Way::Clear(_) => PIECE_BYTES,
            Way::Secured(_) => SECURED_PIECE_BYTES,
        }
    }

    /// Waits for data, passes it to `each`, and returns its length; 0 at the end. Collects the data
    /// in `room` and reads at most `limit` bytes.
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let stream = match &mut self.way {
            Way::Secured(secured) => {
                let mut gathered = Gathered { room, len: 0, each };
                let read = secured.poll_receive(context, limit, &mut |data| gathered.put(data));
                // Data received before an error is valid.
                gathered.give();
                return read;
            }
            Way::Clear(stream) => stream,
        };
        let mut room = ReadBuf::new(room.get_mut(..limit).unwrap_or_default());
        while !self.has_ended && room.remaining() > 0 {
            let before = room.filled().len();
            match Pin::new(&mut *stream).poll_read(context, &mut room) {
                Poll::Pending if before == 0 => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            self.has_ended = room.filled().len() == before;
        }
        if !room.filled().is_empty() {
            each(room.filled());
        }
        Poll::Ready(Ok(room.filled().len()))
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.way {
            Way::Clear(stream) => stream.write_all(bytes).await,
            Way::Secured(secured) => secured.send(bytes).await,
        }
    }

    /// Sends the end of the stream.
    async fn finish(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Clear(stream) => stream.shutdown().await,
            Way::Secured(secured) => secured.finish().await,
        }
    }
}

/// Collects the content of several TLS records: copying costs less than a write for each.
struct Gathered<'a> {
    room: &'a mut [u8],
    len: usize,
    each: &'a mut dyn FnMut(&[u8]),
}

impl Gathered<'_> {
    fn put(&mut self, data: &[u8]) {
        if self.room.len() - self.len < data.len() {
            self.give();
        }
        match self.room.get_mut(self.len..self.len + data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                self.len += data.len();
            }
            None => (self.each)(data),
        }
    }

    fn give(&mut self) {
        let gathered = self.room.get(..self.len).unwrap_or_default();
        if !gathered.is_empty() {
            (self.each)(gathered);
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
            Socket::Kernel(stream) => reset(stream),
            Socket::Own(stream) => stream.abort(),
        }
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
