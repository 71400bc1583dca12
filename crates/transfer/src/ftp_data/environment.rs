//! Environment of a data transfer: its plan, its socket, its driver and its local end.

use super::data_stats::DataStats;
use super::splice_pipe::{SPLICE_PIPE_BYTES, SplicePipe};
use crate::pace::RateLimit;
use net::meter::Account;
use protocols::ftp::Representation;
use protocols::ftp::data::{Counts, Encoder};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest};

/// How the bytes of a transfer move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// The kernel moves the bytes: `sendfile(2)` or `splice(2)`.
    Kernel,
    /// The bytes are copied unchanged, through TLS or the user-space TCP.
    Copy,
    /// The bytes are converted between the file and its representation.
    Convert,
}

/// Number of bytes that one end transfers at a time, and the thresholds of its mechanisms.
#[derive(Clone, Copy, Debug)]
pub struct PieceSizes {
    /// Bytes that are unchanged on the wire.
    pub plain: usize,
    /// Bytes in TLS.
    pub secured: usize,
    /// Converted bytes.
    pub converted: usize,
    /// Maximum number of bytes per `sendfile(2)` call.
    pub sendfile: usize,
    /// Number of received bytes after which `splice(2)` moves the rest.
    pub splice_after: u64,
    /// Minimum size of a file that `splice(2)` receives, if the size is known.
    pub splice_min: u64,
    /// Whether `splice(2)` is used with a burst smaller than `plain`.
    pub splices_bursts: bool,
}

impl PieceSizes {
    /// The client. A piece that is converted or encrypted fits into a processor cache.
    pub const CLIENT: Self = Self {
        plain: 1 << 20,
        secured: 128 * 1024,
        converted: 128 * 1024,
        sendfile: 8 << 20,
        splice_after: 0,
        splice_min: 256 * 1024,
        splices_bursts: true,
    };
    /// The server. In TLS, plaintext and ciphertext of a piece stay in the CPU cache at both ends;
    /// with twice this size, the cost of a receiver is a tenth higher. A stalled transfer holds
    /// one converted piece in memory. The size of an upload is not known, so a pipe for `splice` is
    /// worth its cost only after the first bytes.
    pub const SERVER: Self = Self {
        plain: 256 * 1024,
        secured: 64 * 1024,
        converted: 64 * 1024,
        sendfile: 1 << 20,
        splice_after: 1 << 20,
        splice_min: 0,
        splices_bursts: false,
    };
}

/// Maximum number of bytes per `sendfile(2)` call with a rate limit.
const LIMITED_SENDFILE_BYTES: usize = 1 << 20;
/// Minimum size of the client's receive buffer.
const ROOM_MIN_BYTES: usize = 16 * 1024;

/// The plan of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct TransferPlan {
    mechanism: Mechanism,
    is_protected: bool,
    burst_bytes: Option<usize>,
}

impl TransferPlan {
    /// Plans a transfer in `representation`, over TLS if `is_protected`, and over a socket of the
    /// kernel or of the user-space host.
    #[must_use]
    pub fn new(
        representation: &Representation,
        is_protected: bool,
        is_kernel_socket: bool,
        pace: &RateLimit,
    ) -> Self {
        let mechanism = match representation.passes_through() {
            false => Mechanism::Convert,
            true if is_kernel_socket && !is_protected => Mechanism::Kernel,
            true => Mechanism::Copy,
        };
        let burst_bytes =
            pace.burst_bytes().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Self { mechanism, is_protected, burst_bytes }
    }

    /// Returns how the bytes move.
    pub(super) const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns whether a small file may be moved by the session itself. Handing a small file to a
    /// thread or a task costs more than moving its bytes.
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        self.mechanism == Mechanism::Kernel && self.burst_bytes.is_none()
    }

    /// Returns whether the transfer has a rate limit.
    const fn is_limited(&self) -> bool {
        self.burst_bytes.is_some()
    }

    /// Returns the number of bytes to transfer at a time.
    pub(super) fn piece_bytes(&self, sizes: &PieceSizes) -> usize {
        self.limited(match self.mechanism {
            Mechanism::Convert if self.is_protected => sizes.converted.min(sizes.secured),
            Mechanism::Convert => sizes.converted,
            Mechanism::Copy if self.is_protected => sizes.secured,
            Mechanism::Kernel | Mechanism::Copy => sizes.plain,
        })
    }

    /// Returns the size of the buffer for a file of `expected_bytes` bytes, if known. A small file
    /// needs a buffer of its size and one more byte to detect the end.
    #[must_use]
    pub fn room_bytes(&self, sizes: &PieceSizes, expected_bytes: Option<u64>) -> usize {
        let max_len = self.piece_bytes(sizes);
        let expected = expected_bytes.and_then(|size| usize::try_from(size).ok());
        let needed_len = expected.map_or(max_len, |size| size.saturating_add(1));
        max_len.min(needed_len.max(ROOM_MIN_BYTES))
    }

    /// Returns the maximum number of bytes per `sendfile(2)` call.
    pub(super) fn sendfile_bytes(&self, sizes: &PieceSizes) -> usize {
        match self.is_limited() {
            true => self.limited(LIMITED_SENDFILE_BYTES),
            false => sizes.sendfile,
        }
    }

    /// Returns the maximum number of bytes that `splice(2)` receives at a time; `None` if `splice`
    /// is not used for a file of `expected_bytes` bytes, if known.
    pub(super) fn splice_bytes(
        &self,
        sizes: &PieceSizes,
        expected_bytes: Option<u64>,
    ) -> Option<usize> {
        let is_small = expected_bytes.is_some_and(|size| size < sizes.splice_min);
        let is_small_burst = self.limited(sizes.plain) < sizes.plain;
        if self.mechanism != Mechanism::Kernel
            || is_small
            || is_small_burst && !sizes.splices_bursts
        {
            return None;
        }
        match sizes.splices_bursts {
            true => Some(self.room_bytes(sizes, expected_bytes).min(SPLICE_PIPE_BYTES)),
            false => Some(SPLICE_PIPE_BYTES),
        }
    }

    /// Returns `bytes`, or the burst of the rate limit if that is smaller.
    #[must_use]
    pub fn limited(&self, bytes: usize) -> usize {
        self.burst_bytes.unwrap_or(bytes).clamp(1, bytes.max(1))
    }
}

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

    /// Whether the elapsed time of a call is time for which the transfer has waited for the
    /// network, because the thread has no other work.
    const TIMES_WAITS: bool;

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
    /// Whether the calls block. All system calls are then known and counted.
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

/// FileSink of received bytes.
pub trait FileSink: Send + 'static {
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

    /// Returns whether each write is a system call.
    fn is_file(&self) -> bool {
        true
    }

    /// Returns whether the kernel can move bytes from a pipe into the file.
    fn takes_pipe(&self) -> bool {
        true
    }

    /// Writes all bytes of a pipe. Returns false if the file does not support `splice(2)`; the
    /// bytes are copied in that case.
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

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::ftp::Mode;

    const UNLIMITED: RateLimit = RateLimit::new(None);

    fn plan(representation: Representation, is_protected: bool, is_kernel: bool) -> TransferPlan {
        TransferPlan::new(&representation, is_protected, is_kernel, &UNLIMITED)
    }

    #[test]
    fn only_unchanged_bytes_over_a_plain_kernel_socket_are_moved_by_the_kernel() {
        let image = Representation::IMAGE;
        let deflated = Representation { mode: Mode::Deflate, ..Representation::IMAGE };
        assert_eq!(plan(image, false, true).mechanism(), Mechanism::Kernel);
        assert_eq!(plan(image, true, true).mechanism(), Mechanism::Copy);
        assert_eq!(plan(image, false, false).mechanism(), Mechanism::Copy);
        assert_eq!(plan(deflated, false, true).mechanism(), Mechanism::Convert);
    }

    #[test]
    fn the_size_of_a_piece_depends_on_tls_conversion_and_rate_limit() {
        let sizes = PieceSizes { plain: 100, secured: 50, converted: 20, ..PieceSizes::SERVER };
        let image = Representation::IMAGE;
        let deflated = Representation { mode: Mode::Deflate, ..Representation::IMAGE };
        assert_eq!(plan(image, false, true).piece_bytes(&sizes), 100);
        assert_eq!(plan(image, false, false).piece_bytes(&sizes), 100);
        assert_eq!(plan(image, true, true).piece_bytes(&sizes), 50);
        assert_eq!(plan(deflated, false, true).piece_bytes(&sizes), 20);
        // A burst lasts 250 ms.
        let limited = TransferPlan::new(&image, false, true, &RateLimit::new(Some(40)));
        assert_eq!((limited.piece_bytes(&sizes), limited.limited(5)), (10, 5));
        assert!(!limited.is_immediate() && plan(image, false, true).is_immediate());
    }
}
