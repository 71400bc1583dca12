//! Transfer of a small file, or of a listing, over an unencrypted kernel socket, in the task of its
//! session. Handing a small file to a thread and back costs more than moving it.

use super::facts::{DataFacts, add_since};
use super::mover::{Broken, Moved, Near, lost};
use crate::transfer_recorder::timed;
use os::clock::thread_cpu_time;
use rustix::net::{Shutdown, shutdown};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Maximum size of a small file: it is sent in one flight.
const SMALL_BYTES: u64 = 64 * 1024;
/// Minimum size of the receive buffer.
const PIECE_BYTES: u64 = 16 * 1024;

/// Sends as much of a small file as the socket accepts at once, from the current position of the
/// file, and returns the number of bytes. If that is all of it, ends the stream and returns the
/// completed transfer too. An error shows when the rest is sent.
pub(super) fn send_at_once(stream: &TcpStream, file: &File) -> (u64, Option<Moved>) {
    let about = file.metadata().ok().filter(|about| about.is_file());
    let Some(size) = about.map(|about| about.len()).filter(|size| *size <= SMALL_BYTES) else {
        return (0, None);
    };
    let Ok(at) = rustix::fs::tell(file) else { return (0, None) };
    let left = usize::try_from(size.saturating_sub(at)).unwrap_or(0);
    let (began, cpu) = (Instant::now(), thread_cpu_time());
    let sent = rustix::fs::sendfile(stream, file, None, left).unwrap_or(0);
    let is_all = sent == left && shutdown(stream, Shutdown::Write).is_ok();
    let count = u64::try_from(sent).unwrap_or(0);
    if !is_all {
        return (count, None);
    }
    let ended = Instant::now();
    let mut data = DataFacts::default();
    (data.first_byte, data.ended) = (Some(began), Some(ended));
    (data.is_sending, data.cpu) = (true, thread_cpu_time().saturating_sub(cpu));
    data.count_call();
    data.meet(stream.local_addr().ok().zip(stream.peer_addr().ok()));
    (count, Some(Moved { wire_bytes: count, file_bytes: count, data, ..Moved::nothing() }))
}

/// Reception of a small file or of a listing.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) stream: TcpStream,
    pub(super) near: Near,
    /// Expected number of bytes, if known.
    pub(super) expected_bytes: Option<u64>,
    /// Bytes moved on this data connection; `tally` counts those of all data connections.
    pub(super) moved: Arc<AtomicU64>,
    pub(super) tally: Arc<AtomicU64>,
    pub(super) cancelled: Arc<Notify>,
}

impl Incoming {
    /// Returns whether a transfer can be received this way.
    pub(super) fn is_small(near: &Near, expected_bytes: Option<u64>) -> bool {
        match near {
            Near::Memory(_) | Near::Listing(_) => true,
            Near::Into { .. } => expected_bytes.is_some_and(|size| size <= SMALL_BYTES),
            Near::From(_) => false,
        }
    }

    /// Receives the data up to the end of the stream.
    pub(super) async fn run(mut self) -> Moved {
        let mut ended = Moved::nothing();
        let (result, cpu) = timed(self.receive(&mut ended)).await;
        (ended.result, ended.data.cpu) = (result, cpu);
        ended.wire_bytes = self.moved.load(Ordering::Relaxed);
        ended.data.ended = Some(Instant::now());
        ended.data.ask_kernel(&self.stream);
        ended.data.meet(self.stream.local_addr().ok().zip(self.stream.peer_addr().ok()));
        ended.keep(self.near);
        ended
    }

    async fn receive(&mut self, ended: &mut Moved) -> Result<(), Broken> {
        // One byte more than expected, so a read that fills the buffer is not the last.
        let room = self.expected_bytes.unwrap_or(0).clamp(PIECE_BYTES, SMALL_BYTES) + 1;
        let mut room = vec![0; usize::try_from(room).unwrap_or(1)];
        loop {
            let began = Instant::now();
            let read = tokio::select! {
                biased;
                read = self.stream.read(&mut room) => read,
                () = self.cancelled.notified() => Err(ErrorKind::ConnectionAborted.into()),
            };
            add_since(&mut ended.data.waiting, began);
            let count = match read {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(lost(error)),
            };
            ended.data.first_byte.get_or_insert_with(Instant::now);
            let counted = u64::try_from(count).unwrap_or(u64::MAX);
            self.moved.fetch_add(counted, Ordering::Relaxed);
            self.tally.fetch_add(counted, Ordering::Relaxed);
            self.near.put(room.get(..count).unwrap_or_default(), ended)?;
            if ended.is_enough {
                return Ok(());
            }
        }
    }
}

impl Moved {
    /// Returns a result without any transferred data.
    pub(super) fn nothing() -> Self {
        Self {
            wire_bytes: 0,
            file_bytes: 0,
            memory: Vec::new(),
            listing: None,
            data: DataFacts::default(),
            result: Ok::<(), (_, io::Error)>(()),
            is_enough: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::net::TcpListener;

    /// Returns a connection and its peer.
    fn connected() -> (TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (TcpStream::from_std(near).unwrap(), listener.accept().unwrap().0)
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
    fn a_small_file_goes_from_where_it_stands_and_its_end_with_it() {
        run(async {
            let ((near, mut far), mut file) = (connected(), file_of(5000));
            file.seek(SeekFrom::Start(1000)).unwrap();
            let (count, moved) = send_at_once(&near, &file);
            assert_eq!((count, moved.unwrap().file_bytes), (4000, 4000));
            let mut came = Vec::new();
            assert_eq!(far.read_to_end(&mut came).unwrap(), 4000);
        });
    }

    #[test]
    fn a_large_file_stays_where_it_is() {
        run(async {
            let ((near, _far), mut file) = (connected(), file_of(100_000));
            assert!(matches!(send_at_once(&near, &file), (0, None)));
            assert_eq!(file.stream_position().unwrap(), 0);
        });
    }

    #[test]
    fn more_than_was_expected_comes_too() {
        run(async {
            let (stream, mut far) = connected();
            let sender = std::thread::spawn(move || far.write_all(&vec![3; 300_000]).unwrap());
            let (moved, tally) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
            let (near, cancelled) = (Near::Memory(Vec::new()), Arc::default());
            let expected_bytes = Some(10);
            let incoming = Incoming { stream, near, expected_bytes, moved, tally, cancelled };
            let moved = incoming.run().await;
            assert!(moved.result.is_ok());
            assert_eq!((moved.wire_bytes, moved.memory.len()), (300_000, 300_000));
            sender.join().unwrap();
        });
    }

    #[test]
    fn who_waits_for_what_does_not_come_can_be_told_to_end() {
        run(async {
            let (stream, _far) = connected();
            let cancelled = Arc::new(Notify::new());
            cancelled.notify_one();
            let (moved, tally) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
            let (near, expected_bytes) = (Near::Memory(Vec::new()), None);
            let incoming = Incoming { stream, near, expected_bytes, moved, tally, cancelled };
            assert!(incoming.run().await.result.is_err());
        });
    }
}
