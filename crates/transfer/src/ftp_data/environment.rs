//! Environment of a transfer: its socket, its driver and its local end.

use super::data_stats::DataStats;
use super::splice_pipe::SplicePipe;
use net::meter::Account;
use protocols::ftp::data::{Counts, Encoder};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest};

/// Failure of a transfer.
#[derive(Debug)]
pub enum TransferFailure<E> {
    /// The data connection was lost, or the transfer was cancelled.
    Connection(io::Error),
    /// The sent file cannot be read.
    Read(io::Error),
    /// The sent file became shorter.
    Truncated,
    /// The content of the sent file does not match the representation.
    Format(String),
    /// The sent representation ends before the requested offset.
    BeyondEnd,
    /// The received data does not match the representation.
    Malformed(String),
    /// The representation cannot be received.
    NotSupported,
    /// Too many conversions wait for a thread.
    Busy,
    /// The local end failed.
    Local(E),
}

/// Environment of a transfer: a thread of its own, or a task among others.
pub trait TransferDriver {
    /// Error of the local end.
    type LocalError;

    /// Runs `call` and charges its time to an account of a meter.
    fn charge<T>(&self, _account: Account, call: impl FnOnce() -> T) -> T {
        call()
    }

    /// Counts bytes moved on the data connection.
    fn count(&self, _bytes: usize) {}

    /// Charges `bytes` to the rate limit, and waits if the rate is exceeded.
    ///
    /// # Errors
    ///
    /// Returns an error if the transfer is cancelled.
    fn limit_rate(&self, bytes: usize) -> impl Future<Output = io::Result<()>>;

    /// Runs all steps of a conversion: in the calling thread if the conversion `is_short` or the
    /// thread has no other work. Returns `None` if too many conversions wait for a thread.
    fn run_steps<W: Steps>(
        &self,
        is_short: bool,
        work: W,
    ) -> impl Future<Output = Option<W::Output>>;

    /// Reports that the received file was stored up to a restart marker of the peer.
    fn marker_reached(&self, _marker: Vec<u8>, _file_bytes: u64) {}
}

/// Operation that runs in steps, each of which takes a limited time.
pub trait Steps: Send + 'static {
    /// Result of the operation.
    type Output: Send + 'static;

    /// Runs the next step. Returns the result when the operation is complete.
    fn step(&mut self) -> Option<Self::Output>;
}

/// Socket of a data connection. Its calls either block or return `Poll::Pending`.
pub trait DataSocket: AsyncRead + AsyncWrite + Unpin {
    /// Whether the calls block. The elapsed time of a call is then the time for which the transfer
    /// has waited, because the thread has no other work.
    const BLOCKS: bool;

    /// Makes one attempt to send the alert of a TLS connection that has failed. Errors are ignored,
    /// because a peer that has closed the connection needs no alert.
    fn send_alert(&mut self, alert: &[u8]);

    /// Returns the descriptor of a kernel socket.
    fn kernel(&self) -> Option<BorrowedFd<'_>>;

    /// Performs a system call on a kernel socket as soon as the socket is ready for `interest`;
    /// `None` for the user-space TCP. Calls that a signal interrupts are repeated.
    fn kernel_io<T>(
        &self,
        interest: Interest,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> impl Future<Output = Option<io::Result<T>>>;

    /// Makes the connection end with a reset, now or when the socket is closed.
    fn reset(&self);

    /// Reads the addresses and the state of TCP.
    fn observe(&self, stats: &mut DataStats);
}

/// Buffer that a transfer uses only within one call, so that transfers of one thread can share it.
pub trait Room {
    /// Runs `call` with the buffer.
    fn borrow<T>(&self, call: impl FnOnce(&mut [u8]) -> T) -> T;
}

impl Room for RefCell<Vec<u8>> {
    fn borrow<T>(&self, call: impl FnOnce(&mut [u8]) -> T) -> T {
        call(&mut self.borrow_mut())
    }
}

impl Room for Mutex<Vec<u8>> {
    fn borrow<T>(&self, call: impl FnOnce(&mut [u8]) -> T) -> T {
        call(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Piece of the representation of a file.
#[derive(Debug)]
pub struct EncodedPiece {
    /// Bytes for the data connection.
    pub wire: Vec<u8>,
    /// Number of bytes read from the file.
    pub file_bytes: usize,
    /// Whether the file ends with this piece.
    pub is_over: bool,
    /// Numbers of records, markers and line ends so far.
    pub counts: Counts,
    /// Time spent in reads of the file.
    pub read_time: Duration,
    /// Time spent on the conversion.
    pub conversion_time: Duration,
}

/// File to send.
#[derive(Debug)]
pub struct FileSource {
    /// The file.
    pub file: File,
    /// Offset of the first byte; `None` for the current position of the file.
    pub offset: Option<u64>,
    /// Number of bytes from there to the end of a regular file. If the file has fewer bytes when it
    /// is sent, the transfer fails.
    pub expected_bytes: Option<u64>,
    /// Number of bytes of the representation that are not sent (REST with converted words).
    pub skipped_bytes: u64,
    /// Encoder of the representation; `None` if the bytes are sent unchanged.
    pub encoder: Option<Encoder>,
}

/// Source that produces its representation in pieces.
pub trait Pieces {
    /// Error of the source.
    type Error;

    /// Returns the next piece.
    fn next(&mut self) -> impl Future<Output = Result<EncodedPiece, Self::Error>>;

    /// Takes back the wire buffer of a piece that has been sent.
    fn recycle(&mut self, _wire: Vec<u8>) {}
}

/// Sink of received bytes.
pub trait Sink: Send + 'static {
    /// Error of the sink.
    type Error: Send + 'static;

    /// Whether received data that the file cannot contain is dropped. Otherwise, such data is an
    /// error, because retrieving the file would return different data.
    const DROPS_EXCESS: bool = false;

    /// Writes the next bytes of the file.
    ///
    /// # Errors
    ///
    /// Returns the error of the file, or of a limit.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Returns whether the kernel can move bytes from a pipe into the file.
    fn takes_pipe(&self) -> bool {
        true
    }

    /// Writes all bytes of a pipe. Returns false if the file does not support `splice(2)`; the bytes
    /// are copied in that case.
    ///
    /// # Errors
    ///
    /// Returns the error of the file, or of a limit.
    fn write_pipe(&mut self, pipe: &mut SplicePipe) -> Result<bool, Self::Error>;

    /// Returns the number of bytes written by this transfer.
    fn file_bytes(&self) -> u64;

    /// Returns the length of the file.
    fn len_bytes(&self) -> u64 {
        self.file_bytes()
    }

    /// Returns whether the sink needs no more bytes.
    fn has_enough(&self) -> bool {
        false
    }

    /// Marks the bytes written so far as unusable for a later transfer.
    fn discard(&mut self) {}
}
