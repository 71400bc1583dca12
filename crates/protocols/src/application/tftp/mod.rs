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
//! Each transfer has one [`Sender`] and one [`Receiver`], independent of which end requested it: a
//! user that reads and a server that is written to are both receivers. Each end starts with an
//! opening datagram (the request, the OACK or ACK 0), which it repeats until it is answered, then
//! exchanges the blocks, then ends. [`Request::parse`] parses an incoming request;
//! [`Options::grant`] determines the options that a server agrees to.
//!
//! The sender sends one window of blocks at a time (RFC 7440). The receiver acknowledges the last
//! block of a window, or, once, the last block before a gap; the sender continues after that block.
//! With a window of one block this is RFC 1350. With that window a duplicate acknowledgment never
//! triggers a retransmission, which avoids the Sorcerer's Apprentice syndrome (RFC 1123 §4.2.3.1).
//! With a larger window a duplicate acknowledgment triggers one retransmission per block, since it
//! may be the only sign that the first block of the window was lost. Both ends repeat their last
//! packets when a timer based on the measured round trip expires (RFC 1123 §4.2.3.2), and fail when
//! the transfer makes no progress for [`Settings::idle_timeout`].
//!
//! Block numbers have 16 bits and wrap from 65,535 to 0. The file size is not limited.
//!
//! The owner opens one socket per transfer (the port is the transfer identifier, TID), drops
//! datagrams from other hosts, and reads and writes the file. A receiver withholds its last
//! acknowledgment until the owner reports that the file is stored ([`Receiver::keep`]), so a sender
//! that considers the transfer complete is right. Mode `mail` is refused (RFC 1123 §4.2.2.1). The
//! owner silently drops requests that arrive by broadcast (RFC 1123 §4.2.3.5).

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

pub use options::{Agreed, BLOCK_SIZE_DEFAULT, Limits, Options, OptionsError, window_size_for};
pub use receiver::Receiver;
pub use request::{Direction, Mode, REQUEST_MAX_LEN, Request, RequestError};
pub use sender::Sender;
pub use tftp_packet::{ErrorCode, Fault, HEADER_LEN};

use crate::time::Duration;
use alloc::vec::Vec;

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
    /// The opening is complete; carries the negotiated parameters.
    Opened(Agreed),
    /// The receiver has the last byte. The owner stores the file and calls [`Receiver::keep`] or
    /// [`Receiver::abort`].
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

/// ERROR packet for a datagram that arrives on the port of a transfer from another port
/// (RFC 1350 §4). The transfer itself is not disturbed.
pub const UNKNOWN_TRANSFER_ID: &[u8] = b"\0\x05\0\x05This port is in use by another transfer.\0";

/// A datagram that belongs to another transfer. Its sender is to be answered with
/// [`UNKNOWN_TRANSFER_ID`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongTransferId;

/// Upper bound on the number of queued events: a transfer reports each event at most once.
const EVENTS_LIMIT: usize = 4;

/// The opening of a transfer: a datagram that is repeated until the first answer arrives.
#[derive(Debug)]
struct Opening {
    datagram: Vec<u8>,
    must_send: bool,
    /// Options of a user's request; `None` for a server's opening.
    asked: Option<Options>,
}

impl Opening {
    const fn of_user(datagram: Vec<u8>, asked: Options) -> Self {
        Self { datagram, must_send: true, asked: Some(asked) }
    }

    const fn of_server(datagram: Vec<u8>) -> Self {
        Self { datagram, must_send: true, asked: None }
    }
}

const OPTIONS_REFUSED: Fault =
    Fault { code: ErrorCode::OptionsRefused, text: "The answer has unrequested options." };
