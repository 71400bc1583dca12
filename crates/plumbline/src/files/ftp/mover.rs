//! Transfer of the bytes of one data connection, in a blocking thread.

use super::facts::{DataFacts, add_since};
use super::link::{Link, Plain, SPLICE_PIPE_BYTES, SplicePipe};
use crate::files::pace::Pace;
use crate::transfer_recorder::{nanos, of_info};
use os::clock::{Monotonic, thread_cpu_time};
use os::context_switches::ContextSwitches;
use os::schedule::thread_run_queue_wait;
use os::socket::TcpInfo;
use protocols::application::ftp::Representation;
use protocols::application::ftp::data::{Decoded, Decoder, Encoder};
use protocols::application::ftp::listing::Collector;
use protocols::application::ftp::user::DataFailure;
use records::arrivals::Log;
use records::statistics;
use records::transfer::Tcp;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of bytes read or written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The same for data that is converted or encrypted in between: it fits into a processor cache.
const WORKED_PIECE_BYTES: usize = 128 * 1024;
/// Minimum number of bytes read at a time.
const SMALL_PIECE_BYTES: usize = 16 * 1024;
/// File size from which received data goes through a kernel pipe (`splice(2)`).
const SPLICE_MIN_BYTES: u64 = 256 * 1024;
/// Maximum number of bytes of a file kept in memory for a comparison.
const MEMORY_MAX_BYTES: usize = 256 << 20;

/// Local end of a transfer.
#[derive(Debug)]
pub(super) enum Near {
    /// Writes to a file from offset `at` on, or to a stream without offsets. The transfer ends
    /// after `enough` bytes, if given. More than `most` bytes are an error and are not written.
    Into { file: File, at: Option<u64>, enough: Option<u64>, most: Option<u64> },
    /// Reads from a file or a stream.
    From(File),
    /// Appends to memory.
    Memory(Vec<u8>),
    /// Parses the entries of a listing as they arrive.
    Listing(Box<Collector>),
}

/// Result of a transfer.
#[derive(Debug)]
pub(super) struct Moved {
    /// Bytes on the data connection.
    pub(super) wire_bytes: u64,
    /// Bytes of the local file.
    pub(super) file_bytes: u64,
    /// Content received into memory.
    pub(super) memory: Vec<u8>,
    /// Received listing, if the transfer was one.
    pub(super) listing: Option<Box<Collector>>,
    /// Measurements for the record.
    pub(super) data: DataFacts,
    /// Whether the transfer succeeded, and the cause of a failure.
    pub(super) result: Result<(), (DataFailure, io::Error)>,
    /// Whether the transfer ended because `enough` bytes had arrived.
    pub(super) is_enough: bool,
}

/// Arrivals and TCP samples of one transfer.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) began: Instant,
    pub(super) log: Log,
    /// Data segments of a download, including those received after a missing one.
    pub(super) segments: Log,
    /// Bytes received in order, or acknowledged, when the first loss was observed.
    pub(super) first_loss_bytes: Option<u64>,
    bytes: u64,
    /// Run-queue wait of the sampling thread, caused by the sampling. It does not delay the
    /// transfer.
    pub(super) sampling_wait: Duration,
    sampled_wait: Option<Duration>,
    /// Smallest and largest window that the peer of an upload offered, in bytes.
    pub(super) peer_window_bytes: Option<[u64; 2]>,
    /// Smoothed round-trip times of an upload in µs. A full list is thinned to every second sample.
    round_trips_us: Vec<u64>,
    /// Window offered locally at the end of a download, in bytes.
    pub(super) own_window_bytes: Option<u64>,
    /// The latest `tcp_info` of an upload.
    pub(super) tcp: Option<Tcp>,
}

/// Maximum number of smoothed round-trip times kept for an upload.
const ROUND_TRIPS_MAX: usize = 4_096;

impl Watch {
    /// Starts to watch a transfer. Each log keeps at most `most` entries.
    pub(super) fn begin(most: usize) -> Self {
        Self {
            began: Instant::now(),
            log: Log::new(most),
            segments: Log::new(most),
            first_loss_bytes: None,
            bytes: 0,
            sampling_wait: Duration::ZERO,
            sampled_wait: None,
            peer_window_bytes: None,
            round_trips_us: Vec::new(),
            own_window_bytes: None,
            tcp: None,
        }
    }

    /// Returns the 75th percentile of the smoothed round-trip times of an upload, in ns.
    pub(super) fn upper_rtt_ns(&self) -> Option<u64> {
        statistics::percentile(&self.round_trips_us, 75).map(|us| us.saturating_mul(1_000))
    }

    /// Records a `tcp_info` sample of an upload.
    pub(super) fn sample_outgoing(&mut self, info: &TcpInfo) {
        let tcp = of_info(info);
        if tcp == Tcp::default() {
            return;
        }
        self.tcp = Some(tcp);
        // TCP counts its SYN as an acknowledged byte.
        let acknowledged = info.bytes_acknowledged.unwrap_or(0).saturating_sub(1);
        self.bytes = self.bytes.max(acknowledged);
        self.log.note(nanos(self.began.elapsed()), self.bytes);
        if info.total_retransmissions > 0 {
            self.first_loss_bytes.get_or_insert(self.bytes);
        }
        if self.round_trips_us.len() >= ROUND_TRIPS_MAX {
            let mut number = 0_usize;
            self.round_trips_us.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
        }
        self.round_trips_us.push(info.round_trip_us.into());
        if let Some(window) = info.peer_window_bytes.map(u64::from) {
            let [least, most] = self.peer_window_bytes.unwrap_or([window; 2]);
            self.peer_window_bytes = Some([least.min(window), most.max(window)]);
        }
    }

    /// Records the number of data segments received in a download.
    pub(super) fn sample_incoming(&mut self, info: &TcpInfo) {
        if let Some(count) = info.data_segments_in {
            self.segments.note(nanos(self.began.elapsed()), u64::from(count));
        }
        if info.out_of_order_segments.is_some_and(|count| count > 0) {
            // The end of the handshake counts as a byte.
            let received = info.bytes_received.unwrap_or(0).saturating_sub(1);
            self.first_loss_bytes.get_or_insert(received);
        }
    }

    /// Adds the run-queue wait of the calling thread since the last sample.
    pub(super) fn account_sampling(&mut self) {
        let now = thread_run_queue_wait();
        let since = now.zip(self.sampled_wait).map(|(now, before)| now.saturating_sub(before));
        self.sampling_wait += since.unwrap_or(Duration::ZERO);
        self.sampled_wait = now;
    }

    fn count(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.log.note(nanos(self.began.elapsed()), self.bytes);
    }
}

/// Cancels a transfer that waits for its rate limit. Closing the connection is not enough: the
/// kernel still returns the data that it has buffered, which then drains at the limited rate.
#[derive(Debug, Default)]
pub(super) struct Cancellation {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Cancellation {
    /// Cancels the transfer and wakes its thread.
    pub(super) fn cancel(&self) {
        *self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `time`, or until the transfer is cancelled.
    ///
    /// # Errors
    ///
    /// Returns an error if the transfer is cancelled.
    fn wait(&self, time: Duration) -> Result<(), Broken> {
        let is_cancelled = self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_cancelled, time, |cancelled| !*cancelled);
        let (is_cancelled, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *is_cancelled {
            true => Err(lost(io::Error::other("the transfer was cancelled"))),
            false => Ok(()),
        }
    }
}

/// A transfer and the state that its thread needs.
#[derive(Debug)]
pub(super) struct Mover {
    pub(super) link: Link,
    pub(super) cancellation: Arc<Cancellation>,
    pub(super) near: Near,
    pub(super) representation: Representation,
    pub(super) pace: Pace,
    /// Bytes moved on this data connection; `tally` counts those of all data connections.
    pub(super) moved: Arc<AtomicU64>,
    pub(super) tally: Arc<AtomicU64>,
    /// Log of arrivals, if the transfer is measured.
    pub(super) watch: Option<Arc<Mutex<Watch>>>,
    /// Expected number of bytes, if known. When they have arrived, TLS may end without
    /// close_notify.
    pub(super) expected_bytes: Option<u64>,
    pub(super) clock: Monotonic,
}

pub(super) type Broken = (DataFailure, io::Error);

pub(super) fn lost(error: io::Error) -> Broken {
    let is_tls = error.get_ref().is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>());
    (if is_tls { DataFailure::Tls } else { DataFailure::ConnectionLost }, error)
}

fn ours(error: io::Error) -> Broken {
    (DataFailure::File, error)
}

/// Returns the failure of a transfer that exceeds its limit.
fn excess(why: String) -> Broken {
    (DataFailure::Excess, io::Error::new(ErrorKind::InvalidData, why))
}

fn malformed(why: &str) -> Broken {
    (DataFailure::Malformed, io::Error::new(ErrorKind::InvalidData, why.to_owned()))
}

impl Mover {
    /// Runs the transfer to its end.
    pub(super) fn run(mut self) -> Moved {
        let (began, cpu, switches) =
            (Instant::now(), thread_cpu_time(), ContextSwitches::of_thread());
        let waited = thread_run_queue_wait();
        let mut ended = Moved::nothing();
        ended.result = match self.link.begin() {
            Err(error) => Err((DataFailure::Tls, error)),
            Ok(tls) => {
                ended.data.tls = tls;
                ended.data.tls_time = tls.map(|_| began.elapsed());
                match self.near {
                    Near::From(_) => {
                        ended.data.first_byte = Some(Instant::now());
                        ended.data.is_sending = true;
                        let sent = self.send(&mut ended);
                        if sent.is_err() {
                            self.link.give_up();
                        }
                        sent
                    }
                    _ => self.receive(&mut ended),
                }
            }
        };
        ended.wire_bytes = self.moved.load(Ordering::Relaxed);
        ended.data.ended = Some(Instant::now());
        ended.data.ask(self.link.plain());
        if let (Some(watch), Plain::Kernel(stream)) = (&self.watch, self.link.plain()) {
            let window = TcpInfo::of(stream).ok().and_then(|info| info.own_window_bytes);
            watch.lock().unwrap_or_else(PoisonError::into_inner).own_window_bytes =
                window.map(u64::from);
        }
        ended.data.cpu = thread_cpu_time().saturating_sub(cpu);
        ended.data.run_queue_wait =
            thread_run_queue_wait().zip(waited).map(|(now, before)| now.saturating_sub(before));
        // The thread does nothing else during the transfer.
        ended.data.switches =
            ContextSwitches::of_thread().zip(switches).map(|(now, before)| now.since(before));
        if let Link::Tls(secured) = &self.link {
            ended.data.crypto = Some(secured.spent());
        }
        let is_all_counted = matches!(self.link, Link::Clear(Plain::Kernel(_)));
        ended.data.calls = ended.data.calls.filter(|_| is_all_counted);
        ended.keep(self.near);
        ended
    }

    /// Counts moved bytes, and waits if they exceed the rate limit.
    fn count(&mut self, bytes: usize) -> Result<(), Broken> {
        let counted = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.moved.fetch_add(counted, Ordering::Relaxed);
        self.tally.fetch_add(counted, Ordering::Relaxed);
        if let Some(watch) = &self.watch {
            watch.lock().unwrap_or_else(PoisonError::into_inner).count(counted);
        }
        let now = self.clock.now();
        self.pace.spend(bytes, now);
        match self.pace.waits_until(now) {
            Some(until) => self.cancellation.wait(until - now),
            None => Ok(()),
        }
    }

    /// Returns the buffer size. A small file needs no more than its size and a byte to detect the
    /// end.
    fn piece_len(&self) -> usize {
        let is_worked = self.link.is_secured() || !self.representation.passes_through();
        let most = if is_worked { WORKED_PIECE_BYTES } else { PIECE_BYTES };
        let burst = self.pace.burst_bytes().and_then(|burst| usize::try_from(burst).ok());
        let expected = self.expected_bytes.and_then(|size| usize::try_from(size).ok());
        let room = expected.map_or(most, |size| size.saturating_add(1));
        burst.unwrap_or(most).min(room.max(SMALL_PIECE_BYTES)).min(most)
    }

    /// Lets the kernel move the received data into the file. Returns whether it moved everything.
    fn receive_whole(&mut self, ended: &mut Moved) -> Result<bool, Broken> {
        let is_small = self.expected_bytes.is_some_and(|size| size < SPLICE_MIN_BYTES);
        let Near::Into { file, at, enough: None, most } = &self.near else { return Ok(false) };
        let most = *most;
        if is_small || !self.representation.passes_through() {
            return Ok(false);
        }
        let (file, at) = (file.try_clone().map_err(ours)?, *at);
        let Some(mut splice_pipe) = SplicePipe::new() else { return Ok(false) };
        let at_most = self.piece_len().min(SPLICE_PIPE_BYTES);
        loop {
            let began = Instant::now();
            let poured = self.link.pour(&mut splice_pipe, at_most);
            add_since(&mut ended.data.waiting, began);
            ended.data.count_call();
            let count = match poured {
                None => return Ok(false),
                Some(Ok(0)) => return Ok(true),
                Some(Ok(count)) => count,
                Some(Err(error)) => return Err(lost(error)),
            };
            ended.data.first_byte.get_or_insert_with(Instant::now);
            self.count(count)?;
            check_most(most, ended.file_bytes, count)?;
            let began = Instant::now();
            while splice_pipe.held_bytes() > 0 {
                ended.data.count_call();
                match splice_pipe.empty_into(&file, at.map(|at| at + ended.file_bytes)) {
                    Ok(0) => return Err(ours(ErrorKind::WriteZero.into())),
                    Ok(moved) => ended.file_bytes += u64::try_from(moved).unwrap_or(0),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // The file system does not support `splice`.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => {
                        let bytes = splice_pipe.into_bytes().map_err(ours)?;
                        self.near.put(&bytes, ended)?;
                        return Ok(false);
                    }
                    Err(error) => return Err(ours(error)),
                }
            }
            add_since(&mut ended.data.writing, began);
        }
    }

    fn receive(&mut self, ended: &mut Moved) -> Result<(), Broken> {
        if self.receive_whole(ended)? {
            return Ok(());
        }
        let mut piece = vec![0; self.piece_len()];
        let mut decoder = match self.representation.passes_through() {
            true => None,
            false => Some(
                Decoder::new(&self.representation)
                    .map_err(|_| malformed("this representation is not supported"))?,
            ),
        };
        let mut content = Vec::new();
        loop {
            let mut taken = Ok(());
            let Self { link, near, .. } = self;
            let mut take = |wire: &[u8], ended: &mut Moved| {
                if taken.is_ok() {
                    taken = near.take(wire, decoder.as_mut(), &mut content, ended);
                }
            };
            let began = Instant::now();
            let read = match link {
                // In TLS one call both waits and decrypts, so the wait is not timed.
                Link::Tls(secured) => secured.receive(piece.len(), |wire| take(wire, ended)),
                Link::Clear(plain) => {
                    let read = plain.read(&mut piece);
                    add_since(&mut ended.data.waiting, began);
                    ended.data.count_call();
                    if let Ok(count @ 1..) = read {
                        take(piece.get(..count).unwrap_or_default(), ended);
                    }
                    read
                }
            };
            let count = match read {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The stream ended without close_notify. If all bytes have arrived, nothing was
                // truncated.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    let moved = self.moved.load(Ordering::Relaxed);
                    if self.expected_bytes == Some(moved) {
                        break;
                    }
                    return Err(lost(error));
                }
                Err(error) => return Err(lost(error)),
            };
            self.count(count)?;
            taken?;
            if ended.is_enough {
                return Ok(());
            }
        }
        if let Some(decoder) = &mut decoder {
            let finished = decoder.finish(&mut content);
            ended.data.counts = decoder.counts();
            finished.map_err(|error| malformed(&format!("{error:?}")))?;
            self.near.put(&content, ended)?;
        }
        self.link.close();
        Ok(())
    }

    /// Sends the local file and ends the stream. A file that became shorter meanwhile is an error.
    fn send(&mut self, ended: &mut Moved) -> Result<(), Broken> {
        let due_bytes = self.near.left_bytes();
        if !(self.representation.passes_through() && self.send_whole(ended)?) {
            self.send_pieces(ended)?;
        }
        if due_bytes.is_some_and(|due| ended.file_bytes < due) {
            let why = "the local file was truncated during the upload";
            return Err(ours(io::Error::new(ErrorKind::UnexpectedEof, why)));
        }
        self.link.finish().map_err(lost)
    }

    fn send_pieces(&mut self, ended: &mut Moved) -> Result<(), Broken> {
        let mut encoder = match self.representation.passes_through() {
            true => None,
            false => Some(
                Encoder::new(&self.representation, None)
                    .map_err(|_| malformed("this representation is not supported"))?,
            ),
        };
        if let Some(encoder) = &mut encoder {
            encoder.keep_cr_lf();
        }
        let (mut piece, mut wire) = (vec![0; self.piece_len()], Vec::new());
        while let Near::From(file) = &mut self.near {
            let began = Instant::now();
            let read = file.read(&mut piece);
            add_since(&mut ended.data.reading, began);
            ended.data.count_call();
            let count = match read {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(ours(error)),
            };
            let read = piece.get(..count).unwrap_or_default();
            ended.file_bytes += u64::try_from(count).unwrap_or(0);
            let began = Instant::now();
            let encoded = match (&mut encoder, count) {
                (None, _) => Ok(()),
                (Some(encoder), 0) => encoder.finish(&mut wire),
                (Some(encoder), _) => encoder.encode(read, &mut wire),
            };
            // A retry would find the same file, so this is an error of the local file.
            encoded.map_err(|error| {
                let why = format!("the local file does not have this format: {error:?}");
                ours(io::Error::new(ErrorKind::InvalidData, why))
            })?;
            if let Some(encoder) = &encoder {
                add_since(&mut ended.data.converting, began);
                ended.data.counts = encoder.counts();
            }
            let bytes = if encoder.is_some() { wire.as_slice() } else { read };
            let began = Instant::now();
            self.link.write_all(bytes).map_err(lost)?;
            ended.data.count_call();
            if ended.data.tls.is_none() {
                add_since(&mut ended.data.waiting, began);
            }
            let sent = bytes.len();
            wire.clear();
            self.count(sent)?;
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Lets the kernel send the file. Returns whether it did.
    fn send_whole(&mut self, ended: &mut Moved) -> Result<bool, Broken> {
        let Near::From(file) = &self.near else { return Ok(false) };
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            return Ok(false);
        }
        let file = file.try_clone().map_err(ours)?;
        let at_most = self.pace.burst_bytes().map_or(usize::MAX, |_| self.piece_len());
        let (moved, tally) = (Arc::clone(&self.moved), Arc::clone(&self.tally));
        let (mut pace, clock) = (self.pace, self.clock);
        let cancellation = Arc::clone(&self.cancellation);
        let sent = self.link.send_file(&file, at_most, &mut |count| {
            ended.data.count_call();
            let counted = u64::try_from(count).unwrap_or(u64::MAX);
            moved.fetch_add(counted, Ordering::Relaxed);
            tally.fetch_add(counted, Ordering::Relaxed);
            let now = clock.now();
            pace.spend(count, now);
            match pace.waits_until(now) {
                Some(until) => cancellation.wait(until - now).map_err(|(_, error)| error),
                None => Ok(()),
            }
        });
        ended.file_bytes = self.moved.load(Ordering::Relaxed);
        // The last call found the end of the file.
        ended.data.count_call();
        sent.map_or(Ok(false), |sent| sent.map(|()| true).map_err(lost))
    }
}

/// Checks that `count` bytes after the first `before` do not exceed `most`.
fn check_most(most: Option<u64>, before: u64, count: usize) -> Result<(), Broken> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    match most {
        Some(most) if before.saturating_add(count) > most => {
            Err(excess(format!("more than the {most} bytes that the server reports")))
        }
        _ => Ok(()),
    }
}

impl Moved {
    /// Keeps the memory or the listing of the local end.
    pub(super) fn keep(&mut self, near: Near) {
        match near {
            Near::Memory(memory) => self.memory = memory,
            Near::Listing(listing) => self.listing = Some(listing),
            Near::Into { .. } | Near::From(_) => {}
        }
    }
}

impl Near {
    /// Returns the number of bytes between the position and the end of a regular file.
    fn left_bytes(&self) -> Option<u64> {
        let Self::From(file) = self else { return None };
        let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(about.len().saturating_sub(rustix::fs::tell(file).ok()?))
    }

    /// Processes bytes from the data connection.
    fn take(
        &mut self,
        wire: &[u8],
        decoder: Option<&mut Decoder>,
        content: &mut Vec<u8>,
        ended: &mut Moved,
    ) -> Result<(), Broken> {
        ended.data.first_byte.get_or_insert_with(Instant::now);
        let Some(decoder) = decoder else { return self.put(wire, ended) };
        let mut wire = wire;
        while self.decode(decoder, &mut wire, content, ended)? {}
        Ok(())
    }

    /// Runs one step of the decoder. Returns whether to run another one for the same input.
    fn decode(
        &mut self,
        decoder: &mut Decoder,
        wire: &mut &[u8],
        content: &mut Vec<u8>,
        ended: &mut Moved,
    ) -> Result<bool, Broken> {
        let began = Instant::now();
        let decoded = decoder.decode(wire, content);
        add_since(&mut ended.data.converting, began);
        ended.data.counts = decoder.counts();
        let decoded = decoded.map_err(|error| malformed(&format!("{error:?}")))?;
        self.put(content, ended)?;
        content.clear();
        // Bytes after the end of the file are ignored.
        Ok(!matches!(decoded, Decoded::NeedsInput | Decoded::EndOfFile))
    }

    /// Writes the next bytes of the file.
    pub(super) fn put(&mut self, bytes: &[u8], ended: &mut Moved) -> Result<(), Broken> {
        let mut bytes = bytes;
        match self {
            Self::Into { file, at, enough, most } => {
                if enough.is_none() {
                    check_most(*most, ended.file_bytes, bytes.len())?;
                }
                if let Some(enough) = *enough {
                    let left = usize::try_from(enough - ended.file_bytes).unwrap_or(usize::MAX);
                    bytes = bytes.get(..left).unwrap_or(bytes);
                    ended.is_enough = bytes.len() == left;
                }
                let began = Instant::now();
                match at {
                    Some(at) => file.write_all_at(bytes, *at + ended.file_bytes),
                    None => file.write_all(bytes),
                }
                .map_err(ours)?;
                ended.data.count_call();
                add_since(&mut ended.data.writing, began);
            }
            Self::Memory(memory) if memory.len() + bytes.len() <= MEMORY_MAX_BYTES => {
                memory.extend_from_slice(bytes);
            }
            Self::Memory(_) => {
                let most = MEMORY_MAX_BYTES >> 20;
                return Err(excess(format!("more than {most} MiB, the limit in memory")));
            }
            Self::Listing(listing) => {
                listing.push(bytes).map_err(|error| excess(error.to_string()))?;
            }
            Self::From(_) => {}
        }
        ended.file_bytes += u64::try_from(bytes.len()).unwrap_or(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    /// Much longer than a loaded machine needs.
    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_cancelled_transfer_does_not_drain_buffered_data_at_its_limited_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (data, _) = listener.accept().unwrap();
        // Takes more than an hour at ten bytes per second, and fits into the kernel's buffers.
        server.write_all(&[7; 40_000]).unwrap();
        let cancellation = Arc::new(Cancellation::default());
        let mover = Mover {
            link: Link::Clear(Plain::Kernel(data)),
            cancellation: Arc::clone(&cancellation),
            near: Near::Memory(Vec::new()),
            representation: Representation::IMAGE,
            pace: Pace::new(Some(10)),
            moved: Arc::default(),
            tally: Arc::default(),
            watch: None,
            expected_bytes: None,
            clock: Monotonic::start(),
        };
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || _ = sender.send(mover.run()));
        cancellation.cancel();
        let moved = receiver.recv_timeout(TIMEOUT).expect("the transfer ends");
        thread.join().unwrap();
        assert!(moved.result.is_err());
        assert!(moved.wire_bytes < 40_000, "{}", moved.wire_bytes);
    }
}
