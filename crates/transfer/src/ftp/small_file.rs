//! Transfer of a small file, or of a listing, over an unencrypted kernel socket, in the task of the
//! session. Handing a small file to a thread and back costs more than moving its bytes.

use super::local_end::LocalEnd;
use super::transfer_progress::TransferProgress;
use super::transfer_result::{TransferError, TransferResult, connection_lost};
use crate::ftp_data::add_since;
use crate::recorder::timed;
use os::clock::thread_cpu_time;
use rustix::net::{Shutdown, shutdown};
use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Maximum size of a small file, which is sent in one flight.
const SMALL_BYTES: u64 = 64 * 1024;
/// Minimum size of the receive buffer.
const PIECE_BYTES: u64 = 16 * 1024;

/// Sends a small file from its current position, as far as the socket accepts the data at once, and
/// returns the number of bytes sent. If the socket accepts the whole file, ends the stream and also
/// returns the completed transfer. Errors are ignored here: the caller sends the rest of the file
/// and gets the same error.
pub(super) fn send_small_file(stream: &TcpStream, file: &File) -> (u64, Option<TransferResult>) {
    let metadata = file.metadata().ok().filter(|about| about.is_file());
    let Some(size) = metadata.map(|metadata| metadata.len()).filter(|size| *size <= SMALL_BYTES)
    else {
        return (0, None);
    };
    let Ok(at) = rustix::fs::tell(file) else { return (0, None) };
    let remaining_bytes = usize::try_from(size.saturating_sub(at)).unwrap_or(0);
    let began = Instant::now();
    let cpu = thread_cpu_time();
    let sent_bytes = rustix::fs::sendfile(stream, file, None, remaining_bytes).unwrap_or(0);
    let is_sent_completely =
        sent_bytes == remaining_bytes && shutdown(stream, Shutdown::Write).is_ok();
    let count = u64::try_from(sent_bytes).unwrap_or(0);
    if !is_sent_completely {
        return (count, None);
    }
    let ended_at = Instant::now();
    let mut ended = TransferResult::empty();
    ended.wire_bytes = count;
    ended.file_bytes = count;
    ended.is_sending = true;
    ended.stats.first_byte_at = Some(began);
    ended.stats.ended_at = Some(ended_at);
    ended.stats.cpu_time = Some(thread_cpu_time().saturating_sub(cpu));
    ended.stats.count_call();
    ended.stats.query_addresses(stream);
    (count, Some(ended))
}

/// Reception of a small file or of a listing.
#[derive(Debug)]
pub(super) struct SmallDownload {
    pub(crate) stream: TcpStream,
    pub(crate) local_end: LocalEnd,
    /// Expected number of bytes, if known.
    pub(crate) expected_bytes: Option<u64>,
    /// Bytes moved on this data connection; `progress` counts the bytes of all data connections.
    pub(crate) moved: Arc<AtomicU64>,
    pub(crate) progress: TransferProgress,
    pub(crate) cancelled: Arc<Notify>,
}

impl SmallDownload {
    /// Returns whether a transfer can be received without a thread.
    pub(super) fn is_small(local_end: &LocalEnd, expected_bytes: Option<u64>) -> bool {
        match local_end {
            LocalEnd::Memory(_) | LocalEnd::Listing(_) => true,
            LocalEnd::WriteTo { .. } => expected_bytes.is_some_and(|size| size <= SMALL_BYTES),
            LocalEnd::ReadFrom(_) => false,
        }
    }

    /// Receives the data up to the end of the stream.
    pub(super) async fn run(mut self) -> TransferResult {
        let mut ended = TransferResult::empty();
        let (result, cpu) = timed(self.receive(&mut ended)).await;
        ended.result = result;
        ended.stats.cpu_time = Some(cpu);
        ended.wire_bytes = self.moved.load(Ordering::Relaxed);
        ended.stats.ended_at = Some(Instant::now());
        ended.stats.query_tcp(&self.stream);
        ended.stats.query_addresses(&self.stream);
        self.local_end.store_content(&mut ended);
        ended
    }

    async fn receive(&mut self, ended: &mut TransferResult) -> Result<(), TransferError> {
        // The buffer has one byte more than expected, so that a read of the whole file does not
        // fill the buffer.
        let buffer_len = self.expected_bytes.unwrap_or(0).clamp(PIECE_BYTES, SMALL_BYTES) + 1;
        let mut buffer = vec![0; usize::try_from(buffer_len).unwrap_or(1)];
        loop {
            let began = Instant::now();
            let read_result = tokio::select! {
                biased;
                read = self.stream.read(&mut buffer) => read,
                () = self.cancelled.notified() => Err(ErrorKind::ConnectionAborted.into()),
            };
            add_since(&mut ended.stats.network_wait, began);
            let count = match read_result {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(connection_lost(error)),
            };
            ended.stats.first_byte_at.get_or_insert_with(Instant::now);
            let count_u64 = u64::try_from(count).unwrap_or(u64::MAX);
            self.moved.fetch_add(count_u64, Ordering::Relaxed);
            self.progress.add(count_u64);
            self.local_end.write_file_bytes(buffer.get(..count).unwrap_or_default(), ended)?;
            if ended.has_enough {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::net::TcpListener;

    /// Returns the two ends of a connection.
    fn connected_sockets() -> (TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        (TcpStream::from_std(client).unwrap(), listener.accept().unwrap().0)
    }

    fn file_of(len: usize) -> File {
        let fd = rustix::fs::memfd_create("small", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(&vec![7; len]).unwrap();
        file.rewind().unwrap();
        file
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn a_small_file_is_sent_from_its_position_with_the_end_of_the_stream() {
        run(async {
            let (client, mut server) = connected_sockets();
            let mut file = file_of(5000);
            file.seek(SeekFrom::Start(1000)).unwrap();
            let (count, moved) = send_small_file(&client, &file);
            assert_eq!((count, moved.unwrap().file_bytes), (4000, 4000));
            let mut received = Vec::new();
            assert_eq!(server.read_to_end(&mut received).unwrap(), 4000);
        });
    }

    #[test]
    fn a_large_file_is_not_sent_as_a_small_one() {
        run(async {
            let (client, _server) = connected_sockets();
            let mut file = file_of(100_000);
            assert!(matches!(send_small_file(&client, &file), (0, None)));
            assert_eq!(file.stream_position().unwrap(), 0);
        });
    }

    #[test]
    fn more_bytes_than_expected_are_received() {
        run(async {
            let (stream, mut server) = connected_sockets();
            let sender = std::thread::spawn(move || server.write_all(&vec![3; 300_000]).unwrap());
            let moved = Arc::<AtomicU64>::default();
            let progress = TransferProgress::default();
            let local_end = LocalEnd::Memory(Vec::new());
            let cancelled = Arc::default();
            let expected_bytes = Some(10);
            let incoming =
                SmallDownload { stream, local_end, expected_bytes, moved, progress, cancelled };
            let moved = incoming.run().await;
            assert!(moved.result.is_ok());
            assert_eq!((moved.wire_bytes, moved.memory.len()), (300_000, 300_000));
            sender.join().unwrap();
        });
    }

    #[test]
    fn a_download_that_waits_for_data_can_be_cancelled() {
        run(async {
            let (stream, _server) = connected_sockets();
            let cancelled = Arc::new(Notify::new());
            cancelled.notify_one();
            let moved = Arc::<AtomicU64>::default();
            let progress = TransferProgress::default();
            let local_end = LocalEnd::Memory(Vec::new());
            let expected_bytes = None;
            let incoming =
                SmallDownload { stream, local_end, expected_bytes, moved, progress, cancelled };
            assert!(incoming.run().await.result.is_err());
        });
    }
}
