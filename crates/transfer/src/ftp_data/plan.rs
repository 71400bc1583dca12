//! The plan of a transfer: how its bytes move between the file and the data connection.

use super::splice_pipe::SPLICE_PIPE_BYTES;
use crate::pace::RateLimit;
use protocols::ftp::Representation;

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
