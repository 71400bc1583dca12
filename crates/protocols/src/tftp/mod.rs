//! TFTP (RFC 1350), both roles: a file in numbered blocks over UDP.
//!
//! ```text
//!   user                                   server
//!    │ ── RRQ name octet blksize 1428 … ──►  │      read: the server is the sender
//!    │ ◄── OACK blksize 1428 windowsize 16 ─ │
//!    │ ── ACK 0 ───────────────────────────► │
//!    │ ◄── DATA 1 … DATA 16 ──────────────── │
//!    │ ── ACK 16 ──────────────────────────► │      … until a block that is not full
//! ```
//!
//! Each transfer has one [`Sender`] and one [`Receiver`], independent of the end that requested it:
//! a user that reads and a server that stores a file are both receivers. Each end first repeats an
//! opening datagram (the request, the OACK or ACK 0) until it is answered. Then the ends exchange
//! the blocks. [`Request::parse`] parses an incoming request; [`Options::grant`] determines the
//! options that a server agrees to.
//!
//! The sender sends one window of blocks at a time (RFC 7440). The receiver acknowledges the last
//! block of a window. If a block is missing, it acknowledges the last block before the gap, once.
//! The sender continues after the acknowledged block. With a window of one block, as in RFC 1350, a
//! duplicate acknowledgment never triggers a retransmission, which avoids the Sorcerer's Apprentice
//! syndrome (RFC 1123 §4.2.3.1). With a larger window a duplicate acknowledgment triggers one
//! retransmission per block, since it may be the only sign that the first block of the window was
//! lost. Both ends repeat their last packets when a timer based on the measured round-trip time
//! expires (RFC 1123 §4.2.3.2), and fail when the transfer makes no progress for
//! [`Settings::idle_timeout`].
//!
//! Block numbers have 16 bits and wrap from 65,535 to 0. The file size is not limited.
//!
//! The owner opens one socket per transfer (the port is the transfer identifier, TID), drops
//! datagrams from other hosts, and reads and writes the file. A receiver delays its last
//! acknowledgment until the owner reports that the file is stored ([`Receiver::confirm_stored`]).
//! When the sender considers the transfer complete, the file is therefore stored. Mode `mail` is
//! refused (RFC 1123 §4.2.2.1). The owner silently drops requests that arrive by broadcast (RFC
//! 1123 §4.2.3.5).

mod block;
mod netascii;
mod options;
mod receiver;
mod request;
mod sender;
#[cfg(test)]
mod tests;
mod tftp_packet;
mod timer;

pub use options::{
    AgreedParameters, BLOCK_SIZE_DEFAULT, Limits, Options, OptionsError, window_size_for,
};
pub use receiver::Receiver;
pub use request::{Direction, Mode, REQUEST_MAX_LEN, Request, RequestError};
pub use sender::Sender;
pub use tftp_packet::{ErrorCode, Fault, HEADER_LEN};

use alloc::vec::Vec;
use net::time::Duration;

/// The UDP port of servers.
pub const SERVER_PORT: u16 = 69;

/// Timing parameters of either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The transfer fails after this time without progress.
    pub idle_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { idle_timeout: Duration::from_secs(25) }
    }
}

/// Events of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has answered the request or the OACK; carries the negotiated parameters.
    Opened(AgreedParameters),
    /// The receiver has the last byte. The owner stores the file and calls
    /// [`Receiver::confirm_stored`] or [`Receiver::abort`].
    Received,
    /// The transfer is complete: the receiver has stored the whole file.
    Complete,
    /// The transfer has failed; no further events follow.
    Failed(Failure),
}

/// Reason why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer sent an ERROR: its code and its text, which may contain any bytes.
    Refused(ErrorCode, Vec<u8>),
    /// The local end sent an ERROR.
    Aborted(Fault),
    /// The timeout expired before the peer answered at all.
    NoAnswer,
    /// The timeout expired in the middle of the transfer.
    Silence,
}

/// ERROR packet that answers a datagram from a port that does not belong to the transfer (RFC 1350
/// §4). The transfer itself is not disturbed.
pub const UNKNOWN_TRANSFER_ID: &[u8] = b"\0\x05\0\x05This port is in use by another transfer.\0";

/// Error: the datagram belongs to another transfer. The caller answers it with
/// [`UNKNOWN_TRANSFER_ID`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongTransferId;

/// Upper bound on the number of queued events: a transfer reports each event at most once.
const EVENTS_MAX: usize = 4;

/// The opening of a transfer: a datagram that is repeated until the first answer arrives.
#[derive(Debug)]
struct Opening {
    datagram: Vec<u8>,
    must_send: bool,
    /// Options that a user requested; `None` for a server, which requests none.
    requested: Option<Options>,
}

impl Opening {
    const fn for_user(datagram: Vec<u8>, requested: Options) -> Self {
        Self { datagram, must_send: true, requested: Some(requested) }
    }

    const fn for_server(datagram: Vec<u8>) -> Self {
        Self { datagram, must_send: true, requested: None }
    }
}

const OPTIONS_REFUSED: Fault =
    Fault { code: ErrorCode::OptionsRefused, text: "The answer has unrequested options." };
