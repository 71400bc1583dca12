//! Transfer of the bytes of one data connection, for the client and the server.
//!
//! A small file can be moved at once, as far as the kernel socket accepts or contains its bytes:
//! handing a small file to a thread or a task and back costs more than moving its bytes.

use super::connection::{DataConnection, reset_on_close};
use super::conversion::{
    DecodeSteps, EncodeStep, EncodingFailure, FileDecoding, FileEncoding, read,
};
use super::data_stats::{TransferStats, add_time};
use super::environment::{
    DataSocket, EncodedPiece, FileSink, FileSource, Mechanism, PieceSizes, Pieces, Room,
    TransferDriver, TransferFailure, TransferPlan,
};
use super::splice_pipe::{SplicePipe, is_unsupported};
use net::meter::Account;
use os::clock::thread_cpu_time;
use protocols::ftp::Representation;
use protocols::ftp::data::Encoder;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tokio::io::Interest;

/// Buffer for received data.
#[derive(Debug)]
pub struct ReceiveBuffer<'a, R> {
    /// The buffer. With TLS, it may be empty.
    pub room: &'a R,
    /// Maximum number of bytes received at a time.
    pub limit: usize,
    /// Expected number of bytes, if known. After that many bytes, TLS may end without close_notify.
    pub expected_bytes: Option<u64>,
}

/// Transfer over one data connection.
#[derive(Debug)]
pub struct DataTransfer<'a, D, S: DataSocket> {
    /// The data connection. If the transfer fails, dropping the connection resets it.
    pub connection: &'a mut DataConnection<S>,
    /// Environment of the transfer.
    pub driver: &'a D,
    /// Statistics, which are valid even if the transfer is aborted.
    pub stats: &'a TransferStats,
    /// How the bytes move.
    pub plan: TransferPlan,
    /// Number of bytes that move at a time.
    pub sizes: PieceSizes,
}

type Moved<T, D> = Result<T, TransferFailure<<D as TransferDriver>::LocalError>>;

/// Sending.
impl<D: TransferDriver, S: DataSocket> DataTransfer<'_, D, S> {
    /// Sends a file and ends the stream.
    ///
    /// # Errors
    ///
    /// Returns the reason of the failure. Dropping the connection then resets it.
    pub async fn send(&mut self, mut source: FileSource) -> Moved<(), D> {
        // Sets the count for an empty file, for which no bytes are counted below.
        self.stats.add_file_bytes(0);
        self.stats.note_first_byte(Instant::now());
        let result = self.send_file(&mut source).await;
        self.end(result, source.expected_bytes).await
    }

    /// Sends all pieces of a source and ends the stream.
    ///
    /// # Errors
    ///
    /// Returns the reason of the failure. Dropping the connection then resets it.
    pub async fn send_pieces(
        &mut self,
        pieces: &mut impl Pieces<Error = TransferFailure<D::LocalError>>,
    ) -> Moved<(), D> {
        self.stats.note_first_byte(Instant::now());
        let result = self.move_pieces(pieces, 0, None).await;
        self.end(result, None).await
    }

    async fn end(&mut self, result: Moved<u64, D>, expected_bytes: Option<u64>) -> Moved<(), D> {
        let result = match result {
            Ok(sent_bytes) if expected_bytes.is_some_and(|expected| sent_bytes < expected) => {
                Err(TransferFailure::Truncated)
            }
            Ok(_) => self.connection.finish_sending().await.map_err(TransferFailure::Connection),
            Err(failure) => Err(failure),
        };
        self.observe();
        result
    }

    /// Sends a file. Returns the number of bytes read from the file.
    async fn send_file(&mut self, source: &mut FileSource) -> Moved<u64, D> {
        if let Some(encoder) = source.encoder.take() {
            return self.send_converted(source, encoder).await;
        }
        if self.plan.mechanism() == Mechanism::Kernel
            && let Some(sent_bytes) = self.send_by_kernel(source).await?
        {
            return Ok(sent_bytes);
        }
        self.send_copy(source).await
    }

    /// Lets the kernel send a regular file (`sendfile`); `None` if the kernel cannot send the file.
    async fn send_by_kernel(&mut self, source: &FileSource) -> Moved<Option<u64>, D> {
        if source.expected_bytes.is_none() {
            return Ok(None);
        }
        let at_most = self.plan.sendfile_bytes(&self.sizes);
        let mut sent_bytes = 0;
        loop {
            let sent = self.connection.socket().kernel_io(Interest::WRITABLE, |socket| {
                self.stats.data().count_call();
                let mut position = source.offset.map(|offset| offset + sent_bytes);
                Ok(rustix::fs::sendfile(socket, &source.file, position.as_mut(), at_most)?)
            });
            match sent.await {
                None => return Ok(None),
                Some(Err(error)) if sent_bytes == 0 && is_unsupported(&error) => return Ok(None),
                Some(Err(error)) => return Err(TransferFailure::Connection(error)),
                Some(Ok(0)) => return Ok(Some(sent_bytes)),
                Some(Ok(count)) => {
                    sent_bytes += count as u64;
                    self.stats.add_file_bytes(count);
                    self.count(count).await?;
                }
            }
        }
    }

    /// Sends a file unchanged, through TLS or the user-space TCP.
    async fn send_copy(&mut self, source: &mut FileSource) -> Moved<u64, D> {
        seek(source).map_err(TransferFailure::Read)?;
        let mut sent_bytes = 0;
        let mut piece = vec![0; self.plan.piece_bytes(&self.sizes)];
        loop {
            let began_at = Instant::now();
            let count = self.driver.charge(Account::Files, || read(&mut source.file, &mut piece));
            add_time(&mut self.stats.data().read_time, began_at.elapsed());
            self.count_calls(1);
            let count = count.map_err(TransferFailure::Read)?;
            if count == 0 {
                return Ok(sent_bytes);
            }
            sent_bytes += count as u64;
            self.stats.add_file_bytes(count);
            self.send_bytes(piece.get(..count).unwrap_or_default()).await?;
        }
    }

    async fn send_converted(&mut self, source: &mut FileSource, encoder: Encoder) -> Moved<u64, D> {
        seek(source).map_err(TransferFailure::Read)?;
        let piece_bytes = self.plan.piece_bytes(&self.sizes);
        let file = source.file.try_clone().map_err(TransferFailure::Read)?;
        let encoding = match S::BLOCKS {
            true => FileEncoding::by_reads(file, encoder, piece_bytes),
            false => FileEncoding::in_pieces(file, encoder, piece_bytes),
        };
        let is_short = source.expected_bytes.is_some_and(FileEncoding::is_short);
        let encoding = Some(Box::new(encoding));
        let mut pieces = EncodedFile { driver: self.driver, encoding, is_short };
        self.move_pieces(&mut pieces, source.skipped_bytes, source.expected_bytes).await
    }

    /// Sends all pieces except the first `unsent` bytes of the representation. Returns the number
    /// of bytes of the file. The last piece of a file with fewer than `expected_bytes` bytes is not
    /// sent.
    async fn move_pieces(
        &mut self,
        pieces: &mut impl Pieces<Error = TransferFailure<D::LocalError>>,
        mut unsent: u64,
        expected_bytes: Option<u64>,
    ) -> Moved<u64, D> {
        let mut file_bytes = 0;
        loop {
            let piece = pieces.next().await?;
            file_bytes += piece.file_bytes as u64;
            self.stats.add_file_bytes(piece.file_bytes);
            self.note_piece(&piece);
            if piece.is_over && expected_bytes.is_some_and(|expected| file_bytes < expected) {
                // The last piece contains the end-of-file mark of the transfer mode, which the peer
                // would take for the end of a complete file.
                return Err(TransferFailure::Truncated);
            }
            let skipped_bytes = usize::try_from(unsent).unwrap_or(usize::MAX).min(piece.wire.len());
            unsent -= skipped_bytes as u64;
            if skipped_bytes > 0 {
                self.limit_rate(skipped_bytes).await?;
            }
            self.send_bytes(piece.wire.get(skipped_bytes..).unwrap_or_default()).await?;
            if piece.is_over {
                return match unsent {
                    0 => Ok(file_bytes),
                    _ => Err(TransferFailure::BeyondEnd),
                };
            }
            pieces.recycle(piece.wire);
        }
    }

    fn note_piece(&self, piece: &EncodedPiece) {
        self.count_calls(1);
        let mut data = self.stats.data();
        data.counts = piece.counts;
        add_time(&mut data.read_time, piece.read_time);
        add_time(&mut data.conversion_time, piece.conversion_time);
    }

    async fn send_bytes(&mut self, wire: &[u8]) -> Moved<(), D> {
        for piece in wire.chunks(self.sizes.plain) {
            let began_at = Instant::now();
            let written = self.connection.write_all(self.driver, piece).await;
            written.map_err(TransferFailure::Connection)?;
            self.count_calls(1);
            if D::TIMES_WAITS && self.connection.tls().is_none() {
                add_time(&mut self.stats.data().network_wait, began_at.elapsed());
            }
            self.count(piece.len()).await?;
        }
        Ok(())
    }

    /// Counts transferred bytes, and waits if the rate limit is exceeded.
    async fn count(&self, count: usize) -> Moved<(), D> {
        self.note_moved(count);
        self.limit_rate(count).await
    }

    fn note_moved(&self, count: usize) {
        // The end of the stream is not an arrival of data.
        if count > 0 {
            self.stats.add_moved_bytes(count);
            self.driver.count(count);
        }
    }

    async fn limit_rate(&self, count: usize) -> Moved<(), D> {
        if count == 0 {
            return Ok(());
        }
        self.driver.limit_rate(count).await.map_err(TransferFailure::Connection)
    }

    /// Counts system calls. The calls of asynchronous sockets are not all known.
    fn count_calls(&self, count: u64) {
        if S::BLOCKS {
            self.stats.data().count_calls(count);
        }
    }

    fn observe(&self) {
        let mut data = self.stats.data();
        data.ended_at = Some(Instant::now());
        self.connection.observe(&mut data);
    }
}

/// Receiving.
impl<D: TransferDriver, S: DataSocket> DataTransfer<'_, D, S> {
    /// Receives a file up to the end of the stream, or until the sink needs no more bytes. Returns
    /// the sink.
    ///
    /// # Errors
    ///
    /// Returns the reason of the failure. Dropping the connection then resets it.
    pub async fn receive<L: FileSink<Error = D::LocalError>, R: Room>(
        &mut self,
        mut sink: L,
        representation: &Representation,
        buffer: &ReceiveBuffer<'_, R>,
    ) -> Moved<L, D> {
        let result = match self.plan.mechanism() {
            Mechanism::Convert => self.receive_converted(sink, representation, buffer).await,
            Mechanism::Kernel | Mechanism::Copy => {
                self.receive_copy(&mut sink, buffer).await.map(|()| sink)
            }
        };
        if let Ok(sink) = &result {
            self.stats.data().file_bytes = Some(sink.file_bytes());
            match sink.has_enough() {
                true => self.connection.stop_receiving(),
                false => self.connection.finish_receiving().await,
            }
        }
        self.observe();
        result
    }

    async fn receive_copy<L: FileSink<Error = D::LocalError>, R: Room>(
        &mut self,
        sink: &mut L,
        buffer: &ReceiveBuffer<'_, R>,
    ) -> Moved<(), D> {
        let mut splice_bytes = self.plan.splice_bytes(&self.sizes, buffer.expected_bytes);
        loop {
            if self.stats.moved_bytes() >= self.sizes.splice_after
                && let Some(at_most) = splice_bytes.take_if(|_| sink.takes_pipe())
                && self.receive_by_kernel(sink, at_most).await?
            {
                return Ok(());
            }
            let driver = self.driver;
            let stats = self.stats;
            let mut written = Ok(());
            let mut writes = 0;
            let mut write_time = Duration::ZERO;
            let write = |wire: &[u8]| {
                let began_at = Instant::now();
                stats.note_first_byte(began_at);
                if written.is_ok() {
                    written = driver.charge(Account::Files, || sink.write(wire));
                    writes += u64::from(sink.is_file());
                }
                write_time += began_at.elapsed();
                began_at.elapsed()
            };
            let count = self.receive_piece(buffer, write).await?;
            self.count_calls(writes);
            add_time(&mut stats.data().write_time, write_time);
            stats.data().file_bytes = Some(sink.file_bytes());
            self.note_moved(count);
            written.map_err(TransferFailure::Local)?;
            self.limit_rate(count).await?;
            if count == 0 || sink.has_enough() {
                return Ok(());
            }
        }
    }

    /// Receives a file with conversion of its representation.
    async fn receive_converted<L: FileSink<Error = D::LocalError>, R: Room>(
        &mut self,
        sink: L,
        representation: &Representation,
        buffer: &ReceiveBuffer<'_, R>,
    ) -> Moved<L, D> {
        let mut decoding = Box::new(FileDecoding::new(representation, sink)?);
        loop {
            let stats = self.stats;
            let mut decoded = Ok(true);
            let process = |wire: &[u8]| {
                let began_at = Instant::now();
                stats.note_first_byte(began_at);
                if !S::BLOCKS {
                    decoding.push(wire);
                    return Duration::ZERO;
                }
                let mut rest = wire;
                while decoded.is_ok() {
                    decoded = decoding.decode(&mut rest);
                    if matches!(decoded, Ok(true)) {
                        break;
                    }
                }
                began_at.elapsed()
            };
            let count = self.receive_piece(buffer, process).await?;
            if count > 0 && !S::BLOCKS {
                let is_short = decoding.is_short();
                let steps = DecodeSteps(Some(decoding));
                let result = self.driver.run_steps(is_short, steps).await;
                decoding = result.unwrap_or(Err(TransferFailure::Busy))?;
            }
            if count == 0 {
                decoded = decoding.finish().map(|()| true);
            }
            self.note_moved(count);
            self.note_decoded(&mut decoding);
            decoded?;
            self.limit_rate(count).await?;
            if count == 0 || decoding.sink.has_enough() {
                return Ok(decoding.sink);
            }
        }
    }

    fn note_decoded<L: FileSink>(&self, decoding: &mut FileDecoding<L>) {
        self.count_calls(std::mem::take(&mut decoding.writes));
        for (marker, file_bytes) in decoding.markers.drain(..) {
            self.driver.marker_reached(marker, file_bytes);
        }
        let mut data = self.stats.data();
        data.file_bytes = Some(decoding.sink.file_bytes());
        data.counts = decoding.counts();
        add_time(&mut data.write_time, std::mem::take(&mut decoding.write_time));
        add_time(&mut data.conversion_time, std::mem::take(&mut decoding.conversion_time));
    }

    /// Waits for data and passes the data to `each`, which returns the time that it has taken.
    /// Returns the number of bytes; 0 at the end of the stream.
    async fn receive_piece<R: Room>(
        &mut self,
        buffer: &ReceiveBuffer<'_, R>,
        mut each: impl FnMut(&[u8]) -> Duration,
    ) -> Moved<usize, D> {
        let began_at = Instant::now();
        let mut processing_time = Duration::ZERO;
        let mut each = |wire: &[u8]| processing_time += each(wire);
        let Self { connection, driver, .. } = &mut *self;
        let received = poll_fn(|context| {
            buffer.room.borrow(|room| {
                connection.poll_receive(context, *driver, (room, buffer.limit), &mut each)
            })
        });
        let received = received.await;
        // With TLS one call both waits and decrypts, so the wait alone is not timed.
        if D::TIMES_WAITS && self.connection.tls().is_none() {
            let wait = began_at.elapsed().saturating_sub(processing_time);
            add_time(&mut self.stats.data().network_wait, wait);
        }
        self.count_calls(1);
        match received {
            // The stream ended without close_notify. If the expected number of bytes has arrived,
            // the file is complete.
            Err(error)
                if error.kind() == ErrorKind::UnexpectedEof
                    && buffer.expected_bytes == Some(self.stats.moved_bytes()) =>
            {
                Ok(0)
            }
            received => received.map_err(TransferFailure::Connection),
        }
    }

    /// Receives the rest of the file with `splice`, through a pipe that holds the pages. Returns
    /// false if the kernel cannot move the data; nothing is lost then.
    async fn receive_by_kernel<L: FileSink<Error = D::LocalError>>(
        &mut self,
        sink: &mut L,
        at_most: usize,
    ) -> Moved<bool, D> {
        let Ok(mut pipe) = SplicePipe::new() else { return Ok(false) };
        loop {
            let began_at = Instant::now();
            let received = self.connection.socket().kernel_io(Interest::READABLE, |socket| {
                Ok(pipe.fill(&socket, at_most, S::BLOCKS)?)
            });
            let count = match received.await {
                None => return Ok(false),
                Some(Err(error)) if is_unsupported(&error) => return Ok(false),
                Some(Err(error)) => return Err(TransferFailure::Connection(error)),
                Some(Ok(count)) => count,
            };
            let received_at = Instant::now();
            if D::TIMES_WAITS {
                add_time(&mut self.stats.data().network_wait, received_at - began_at);
            }
            self.count_calls(pipe.take_calls());
            if count == 0 {
                return Ok(true);
            }
            self.stats.note_first_byte(received_at);
            self.note_moved(count);
            let written = self.driver.charge(Account::Files, || sink.write_pipe(&mut pipe));
            add_time(&mut self.stats.data().write_time, received_at.elapsed());
            self.count_calls(pipe.take_calls());
            self.stats.data().file_bytes = Some(sink.file_bytes());
            let is_supported = written.map_err(TransferFailure::Local)?;
            self.limit_rate(count).await?;
            if !is_supported {
                return Ok(false);
            }
        }
    }
}

/// Sends at most `count` bytes of `file`, from `offset` or from its current position, as far as the
/// socket accepts them without waiting. Returns the number of bytes sent. Errors are ignored,
/// because they recur when the rest is sent.
pub fn send_immediately(
    socket: &impl AsFd,
    file: &File,
    mut offset: Option<u64>,
    count: usize,
    stats: &TransferStats,
) -> usize {
    let started_at = Instant::now();
    let cpu = thread_cpu_time();
    let sent_bytes = rustix::fs::sendfile(socket, file, offset.as_mut(), count).unwrap_or(0);
    let ended_at = Instant::now();
    stats.add_file_bytes(sent_bytes);
    stats.add_moved_bytes(sent_bytes);
    let mut data = stats.data();
    data.first_byte_at = Some(started_at);
    data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
    data.count_call();
    if sent_bytes == count {
        data.ended_at = Some(ended_at);
        data.query_addresses(socket);
    }
    sent_bytes
}

/// Receives data that has already arrived, without waiting for more, until at least `most` bytes
/// have been received. Returns whether the whole file was received.
///
/// # Errors
///
/// Returns an error if the connection is lost, or if the file accepts no more data. After an error,
/// closing the connection sends a reset.
pub fn receive_immediately<L: FileSink>(
    socket: &impl AsFd,
    sink: &mut L,
    room: &mut [u8],
    most: u64,
    stats: &TransferStats,
) -> Result<bool, TransferFailure<L::Error>> {
    let cpu = thread_cpu_time();
    let mut piece_count = 0_u32;
    let received = loop {
        let (count, received_at) = match rustix::net::recv(socket, &mut *room, RecvFlags::empty()) {
            Ok((_, 0)) => break Ok(true),
            Ok((_, count)) => (count, Instant::now()),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => break Ok(false),
            Err(error) => break Err(TransferFailure::Connection(error.into())),
        };
        stats.note_first_byte(received_at);
        piece_count = piece_count.saturating_add(1);
        stats.add_moved_bytes(count);
        let write_result = sink.write(room.get(..count).unwrap_or_default());
        stats.data().add_write_time(received_at.elapsed());
        if let Err(error) = write_result {
            break Err(TransferFailure::Local(error));
        }
        if stats.moved_bytes() >= most {
            break Ok(false);
        }
    };
    let ended_at = Instant::now();
    let mut data = stats.data();
    data.file_bytes = Some(sink.file_bytes());
    data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
    if !matches!(received, Ok(false)) {
        data.is_single_call = piece_count == 1;
        data.ended_at = Some(ended_at);
        data.query_addresses(socket);
        data.query_tcp(socket);
    }
    if received.is_err() {
        reset_on_close(socket);
    }
    received
}

/// Positions the file of a source.
fn seek(source: &mut FileSource) -> io::Result<()> {
    match source.offset {
        Some(offset) => source.file.seek(SeekFrom::Start(offset)).map(drop),
        None => Ok(()),
    }
}

/// File that is encoded in pieces, in the thread that the driver chooses.
struct EncodedFile<'a, D> {
    driver: &'a D,
    encoding: Option<Box<FileEncoding>>,
    is_short: bool,
}

impl<D: TransferDriver> Pieces for EncodedFile<'_, D> {
    type Error = TransferFailure<D::LocalError>;

    async fn next(&mut self) -> Result<EncodedPiece, Self::Error> {
        let step = EncodeStep(self.encoding.take());
        match self.driver.run_steps(self.is_short, step).await {
            None => Err(TransferFailure::Busy),
            Some(Err(EncodingFailure::Read(error))) => Err(TransferFailure::Read(error)),
            Some(Err(EncodingFailure::Format(why))) => Err(TransferFailure::Format(why)),
            Some(Ok((encoding, piece))) => {
                self.encoding = Some(encoding);
                Ok(piece)
            }
        }
    }

    fn recycle(&mut self, wire: Vec<u8>) {
        if let Some(encoding) = &mut self.encoding {
            encoding.recycle(wire);
        }
    }
}
