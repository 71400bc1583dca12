//! Transfer of the bytes of one data connection, in a blocking thread.

use super::arrival_log::ArrivalLog;
use super::data_connection::{DataConnection, receive_tls};
use super::local_end::{LocalEnd, check_limit};
use super::transfer_progress::TransferProgress;
use super::transfer_result::{
    TransferError, TransferResult, connection_lost, local_error, malformed,
};
use crate::ftp_data::{
    BlockingSocket, FileDecoder, Mechanism, PieceSizes, SPLICE_PIPE_BYTES, SplicePipe,
    TransferPlan, add_since, encode_read,
};
use crate::pace::RateLimit;
use os::clock::{Monotonic, thread_cpu_time};
use os::context_switches::ContextSwitches;
use os::schedule::thread_run_queue_wait;
use os::socket::TcpInfo;
use protocols::ftp::Representation;
use protocols::ftp::data::Encoder;
use protocols::ftp::user::DataFailure;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum number of bytes read at a time.
const SMALL_PIECE_BYTES: usize = 16 * 1024;
/// Minimum file size for which received data goes through a kernel pipe (`splice(2)`).
const SPLICE_MIN_BYTES: u64 = 256 * 1024;

/// Cancels a transfer that waits for its rate limit. Closing the connection is not enough: the
/// transfer would read the data in the kernel's buffers to the end, at the limited rate.
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
    fn wait(&self, time: Duration) -> Result<(), TransferError> {
        let is_cancelled = self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let wait_result =
            self.changed.wait_timeout_while(is_cancelled, time, |cancelled| !*cancelled);
        let (is_cancelled, _) = wait_result.unwrap_or_else(PoisonError::into_inner);
        match *is_cancelled {
            true => Err(connection_lost(io::Error::other("the transfer was cancelled"))),
            false => Ok(()),
        }
    }
}

/// A transfer and the state that its thread needs.
#[derive(Debug)]
pub(super) struct DataTransfer {
    pub(crate) connection: DataConnection,
    pub(crate) cancellation: Arc<Cancellation>,
    pub(crate) local_end: LocalEnd,
    pub(crate) representation: Representation,
    pub(crate) plan: TransferPlan,
    pub(crate) pace: RateLimit,
    /// Bytes moved on this data connection; `progress` counts the bytes of all data connections.
    pub(crate) moved: Arc<AtomicU64>,
    pub(crate) progress: TransferProgress,
    /// Log of arrivals, if the transfer is measured.
    pub(crate) arrival_log: Option<Arc<Mutex<ArrivalLog>>>,
    /// Expected number of bytes, if known. After that many bytes, TLS may end without close_notify.
    pub(crate) expected_bytes: Option<u64>,
    pub(crate) clock: Monotonic,
}

impl DataTransfer {
    /// Runs the transfer to its end.
    pub(super) fn run(mut self) -> TransferResult {
        let began = Instant::now();
        let cpu = thread_cpu_time();
        let switches = ContextSwitches::of_thread();
        let run_queue_wait_before = thread_run_queue_wait();
        let mut transfer_result = TransferResult::empty();
        transfer_result.result = match self.connection.begin() {
            Err(error) => Err((DataFailure::Tls, error)),
            Ok(tls) => {
                transfer_result.stats.tls = tls;
                transfer_result.stats.tls_time = tls.map(|_| began.elapsed());
                match self.local_end {
                    LocalEnd::ReadFrom(_) => {
                        transfer_result.stats.first_byte_at = Some(Instant::now());
                        transfer_result.is_sending = true;
                        let result = self.send(&mut transfer_result);
                        if result.is_err() {
                            self.connection.abort();
                        }
                        result
                    }
                    _ => self.receive(&mut transfer_result),
                }
            }
        };
        transfer_result.wire_bytes = self.moved.load(Ordering::Relaxed);
        transfer_result.stats.ended_at = Some(Instant::now());
        transfer_result.read_connection(self.connection.tcp());
        if let (Some(arrival_log), BlockingSocket::Kernel(stream)) =
            (&self.arrival_log, self.connection.tcp())
        {
            let window = TcpInfo::of(stream).ok().and_then(|info| info.own_window_bytes);
            arrival_log.lock().unwrap_or_else(PoisonError::into_inner).own_window_bytes =
                window.map(u64::from);
        }
        transfer_result.stats.cpu_time = Some(thread_cpu_time().saturating_sub(cpu));
        transfer_result.stats.run_queue_wait = thread_run_queue_wait()
            .zip(run_queue_wait_before)
            .map(|(now, before)| now.saturating_sub(before));
        // All context switches of this thread belong to the transfer: the thread has no other work.
        transfer_result.stats.switches =
            ContextSwitches::of_thread().zip(switches).map(|(now, old)| now.switches_since(old));
        if let DataConnection::Tls(tls_stream) = &self.connection {
            transfer_result.stats.crypto_time = Some(tls_stream.crypto_time());
        }
        let is_all_counted =
            matches!(self.connection, DataConnection::Plaintext(BlockingSocket::Kernel(_)));
        transfer_result.stats.calls = transfer_result.stats.calls.filter(|_| is_all_counted);
        self.local_end.store_content(&mut transfer_result);
        transfer_result
    }

    /// Counts moved bytes. If the bytes exceed the rate limit, waits.
    fn count(&mut self, bytes: usize) -> Result<(), TransferError> {
        let bytes_u64 = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.moved.fetch_add(bytes_u64, Ordering::Relaxed);
        self.progress.add(bytes_u64);
        if let Some(arrival_log) = &self.arrival_log {
            arrival_log.lock().unwrap_or_else(PoisonError::into_inner).count(bytes_u64);
        }
        let now = self.clock.now();
        self.pace.spend(bytes, now);
        match self.pace.waits_until(now) {
            Some(until) => self.cancellation.wait(until - now),
            None => Ok(()),
        }
    }

    /// Returns the buffer size. A small file needs a buffer of its size and one more byte to detect
    /// the end.
    fn buffer_len(&self) -> usize {
        let max_len = self.plan.piece_bytes(&PieceSizes::CLIENT);
        let expected = self.expected_bytes.and_then(|size| usize::try_from(size).ok());
        let needed_len = expected.map_or(max_len, |size| size.saturating_add(1));
        max_len.min(needed_len.max(SMALL_PIECE_BYTES))
    }

    /// Lets the kernel move the received data into the file. Returns whether the kernel moved all
    /// data.
    fn receive_by_splice(&mut self, ended: &mut TransferResult) -> Result<bool, TransferError> {
        let is_small = self.expected_bytes.is_some_and(|size| size < SPLICE_MIN_BYTES);
        let LocalEnd::WriteTo { file, at, stop_after: None, max_bytes } = &self.local_end else {
            return Ok(false);
        };
        let max_bytes = *max_bytes;
        if is_small || self.plan.mechanism() != Mechanism::Kernel {
            return Ok(false);
        }
        let file = file.try_clone().map_err(local_error)?;
        let at = *at;
        let Ok(mut splice_pipe) = SplicePipe::new() else { return Ok(false) };
        let at_most = self.buffer_len().min(SPLICE_PIPE_BYTES);
        loop {
            let began = Instant::now();
            let received = self.connection.receive_into_pipe(&mut splice_pipe, at_most);
            add_since(&mut ended.stats.network_wait, began);
            ended.stats.count_call();
            let count = match received {
                None => return Ok(false),
                Some(Ok(0)) => return Ok(true),
                Some(Ok(count)) => count,
                Some(Err(error)) => return Err(connection_lost(error)),
            };
            ended.stats.first_byte_at.get_or_insert_with(Instant::now);
            self.count(count)?;
            check_limit(max_bytes, ended.file_bytes, count)?;
            let began = Instant::now();
            while splice_pipe.buffered_bytes() > 0 {
                ended.stats.count_call();
                match splice_pipe.write_to(&file, at.map(|at| at + ended.file_bytes)) {
                    Ok(0) => return Err(local_error(ErrorKind::WriteZero.into())),
                    Ok(moved) => ended.file_bytes += u64::try_from(moved).unwrap_or(0),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // The file system does not support `splice`.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => {
                        let bytes = splice_pipe.into_bytes().map_err(local_error)?;
                        self.local_end.write_file_bytes(&bytes, ended)?;
                        return Ok(false);
                    }
                    Err(error) => return Err(local_error(error)),
                }
            }
            add_since(&mut ended.stats.write_time, began);
        }
    }

    fn receive(&mut self, ended: &mut TransferResult) -> Result<(), TransferError> {
        if self.receive_by_splice(ended)? {
            return Ok(());
        }
        let mut piece = vec![0; self.buffer_len()];
        let mut decoder = match self.representation.passes_through() {
            true => None,
            false => Some(
                FileDecoder::new(&self.representation)
                    .map_err(|_| malformed("this representation is not supported"))?,
            ),
        };
        loop {
            let mut write_result = Ok(());
            let Self { connection, local_end, .. } = self;
            let mut process = |wire: &[u8], ended: &mut TransferResult| {
                if write_result.is_ok() {
                    write_result = local_end.process_wire_bytes(wire, decoder.as_mut(), ended);
                }
            };
            let began = Instant::now();
            let read_result = match connection {
                // With TLS one call both waits and decrypts, so the wait alone is not timed.
                DataConnection::Tls(tls_stream) => {
                    receive_tls(tls_stream, piece.len(), &mut |wire| process(wire, ended))
                }
                DataConnection::Plaintext(tcp) => {
                    let read = tcp.read(&mut piece);
                    add_since(&mut ended.stats.network_wait, began);
                    ended.stats.count_call();
                    if let Ok(count @ 1..) = read {
                        process(piece.get(..count).unwrap_or_default(), ended);
                    }
                    read
                }
            };
            let count = match read_result {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The stream ended without close_notify. If the expected number of bytes has
                // arrived, the file is complete.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    let moved_bytes = self.moved.load(Ordering::Relaxed);
                    if self.expected_bytes == Some(moved_bytes) {
                        break;
                    }
                    return Err(connection_lost(error));
                }
                Err(error) => return Err(connection_lost(error)),
            };
            self.count(count)?;
            write_result?;
            if ended.has_enough {
                return Ok(());
            }
        }
        if let Some(decoder) = &mut decoder {
            let result = decoder.finish();
            ended.stats.counts = decoder.counts();
            result.map_err(|error| malformed(&format!("{error:?}")))?;
            self.local_end.write_file_bytes(decoder.content(), ended)?;
        }
        self.connection.close();
        Ok(())
    }

    /// Sends the local file and ends the stream. A file that became shorter during the upload is an
    /// error.
    fn send(&mut self, ended: &mut TransferResult) -> Result<(), TransferError> {
        let remaining_bytes = self.local_end.remaining_bytes();
        if !(self.plan.mechanism() == Mechanism::Kernel && self.send_by_sendfile(ended)?) {
            self.send_by_copy(ended)?;
        }
        if remaining_bytes.is_some_and(|remaining| ended.file_bytes < remaining) {
            let why = "the local file was truncated during the upload";
            return Err(local_error(io::Error::new(ErrorKind::UnexpectedEof, why)));
        }
        self.connection.finish().map_err(connection_lost)
    }

    fn send_by_copy(&mut self, ended: &mut TransferResult) -> Result<(), TransferError> {
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
        let mut piece = vec![0; self.buffer_len()];
        let mut wire = Vec::new();
        while let LocalEnd::ReadFrom(file) = &mut self.local_end {
            let began = Instant::now();
            let read = file.read(&mut piece);
            add_since(&mut ended.stats.read_time, began);
            ended.stats.count_call();
            let count = match read {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(local_error(error)),
            };
            let read = piece.get(..count).unwrap_or_default();
            ended.file_bytes += u64::try_from(count).unwrap_or(0);
            let began = Instant::now();
            let encoded = match &mut encoder {
                None => Ok(()),
                Some(encoder) => encode_read(encoder, read, &mut wire),
            };
            // A retry would read the same content, so the failure is an error of the local file.
            encoded.map_err(|error| {
                let why = format!("the local file does not have this format: {error:?}");
                local_error(io::Error::new(ErrorKind::InvalidData, why))
            })?;
            if let Some(encoder) = &encoder {
                add_since(&mut ended.stats.conversion_time, began);
                ended.stats.counts = encoder.counts();
            }
            let bytes = if encoder.is_some() { wire.as_slice() } else { read };
            let began = Instant::now();
            self.connection.write_all(bytes).map_err(connection_lost)?;
            ended.stats.count_call();
            if ended.stats.tls.is_none() {
                add_since(&mut ended.stats.network_wait, began);
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

    /// Lets the kernel send the file by `sendfile`. Returns whether the kernel sent the file.
    fn send_by_sendfile(&mut self, ended: &mut TransferResult) -> Result<bool, TransferError> {
        let LocalEnd::ReadFrom(file) = &self.local_end else { return Ok(false) };
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            return Ok(false);
        }
        let file = file.try_clone().map_err(local_error)?;
        let at_most = if self.plan.is_limited() { self.buffer_len() } else { usize::MAX };
        let moved = Arc::clone(&self.moved);
        let progress = self.progress.clone();
        let mut pace = self.pace;
        let clock = self.clock;
        let cancellation = Arc::clone(&self.cancellation);
        let sent = self.connection.send_file(&file, at_most, &mut |count| {
            ended.stats.count_call();
            let counted = u64::try_from(count).unwrap_or(u64::MAX);
            moved.fetch_add(counted, Ordering::Relaxed);
            progress.add(counted);
            let now = clock.now();
            pace.spend(count, now);
            match pace.waits_until(now) {
                Some(until) => cancellation.wait(until - now).map_err(|(_, error)| error),
                None => Ok(()),
            }
        });
        ended.file_bytes = self.moved.load(Ordering::Relaxed);
        // The last call found the end of the file.
        ended.stats.count_call();
        sent.map_or(Ok(false), |sent| sent.map(|()| true).map_err(connection_lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    /// Time limit of the test, much longer than a loaded machine needs.
    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_cancelled_transfer_does_not_drain_buffered_data_at_its_limited_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (data, _) = listener.accept().unwrap();
        // At ten bytes per second the transfer takes more than an hour. All bytes fit into the
        // kernel's buffers.
        server.write_all(&[7; 40_000]).unwrap();
        let cancellation = Arc::new(Cancellation::default());
        let pace = RateLimit::new(Some(10));
        let transfer = DataTransfer {
            connection: DataConnection::Plaintext(BlockingSocket::Kernel(data)),
            cancellation: Arc::clone(&cancellation),
            local_end: LocalEnd::Memory(Vec::new()),
            representation: Representation::IMAGE,
            plan: TransferPlan::new(&Representation::IMAGE, false, true, &pace),
            pace,
            moved: Arc::default(),
            progress: TransferProgress::default(),
            arrival_log: None,
            expected_bytes: None,
            clock: Monotonic::start(),
        };
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || _ = sender.send(transfer.run()));
        cancellation.cancel();
        let moved = receiver.recv_timeout(TIMEOUT).expect("the transfer ends");
        thread.join().unwrap();
        assert!(moved.result.is_err());
        assert!(moved.wire_bytes < 40_000, "{}", moved.wire_bytes);
    }
}
