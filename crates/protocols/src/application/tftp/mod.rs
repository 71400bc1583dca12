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
//! A transfer is one [`Sender`] and one [`Receiver`], whoever asked for it: a user that reads and a
//! server that is written to are receivers. Each goes through an opening, whose datagram it repeats
//! (the request, the OACK, ACK 0), then through the blocks, then to its end. A request that came is
//! read by [`Request::parse`]; what a server agrees to is [`Options::grant`].
//!
//! Blocks go out a window at a time (RFC 7440). The receiver acknowledges the last block of a
//! window, or, once, the last block before one that is missing; the sender goes on behind it. With
//! a window of one block this is RFC 1350. An acknowledgment that repeats itself never makes the
//! sender repeat a block in lock step, which is the cure of the Sorcerer's Apprentice syndrome
//! (RFC 1123 §4.2.3.1); in a window it does so once for each block, since it may be the only sign
//! that the first of the window was lost. Both ends repeat what they sent last when a timer runs
//! out that follows the measured round trip (RFC 1123 §4.2.3.2), and give up when nothing has been
//! heard for the settings' patience.
//!
//! Block numbers have 16 bits; behind 65,535 comes 0. A file has no limit.
//!
//! The owner opens the sockets, one for each transfer (its transfer identifier, TID, is its port),
//! drops what other hosts send, and reads and writes the file. A receiver holds back its last
//! acknowledgment until the owner has said that the file is safe ([`Receiver::keep`]): what the
//! sender believes to have arrived, has. Mode `mail` is refused (RFC 1123 §4.2.2.1), and so is a
//! request that came by broadcast, by the owner, in silence (RFC 1123 §4.2.3.5).

mod block;
mod netascii;
mod options;
mod packet;
mod receiver;
mod request;
mod sender;
#[cfg(test)]
mod tests;
mod timer;

pub use options::{Agreed, BLOCK_SIZE_DEFAULT, Limits, Options, OptionsError, window_size_for};
pub use packet::{ErrorCode, Fault, HEADER_LEN};
pub use receiver::Receiver;
pub use request::{Direction, Mode, REQUEST_MAX_LEN, Request, RequestError};
pub use sender::Sender;

use crate::time::Duration;
use alloc::vec::Vec;

/// The UDP port of servers.
pub const SERVER_PORT: u16 = 69;

/// How long either end waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A transfer fails once nothing that moves it on has been heard for so long.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { patience: Duration::from_secs(25) }
    }
}

/// News of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The opening is over: what both ends have agreed to.
    Opened(Agreed),
    /// A receiver has the last byte: the owner makes the file safe and says
    /// [`Receiver::keep`], or [`Receiver::abort`].
    Received,
    /// The other end has everything, and has said so.
    Complete,
    /// It has failed; nothing follows.
    Failed(Failure),
}

/// Why a transfer has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other end sent an ERROR: its code and its text, which may hold any byte.
    Refused(ErrorCode, Vec<u8>),
    /// We sent one.
    Aborted(Fault),
    /// Nothing was heard for as long as the settings allow, and no answer ever came.
    NoAnswer,
    /// Nothing was heard for as long as the settings allow, in the middle of the transfer.
    Silence,
}

/// The datagram for a stranger who sends to the port of a transfer (RFC 1350 §4): the transfer is
/// not disturbed.
pub const UNKNOWN_TRANSFER_ID: &[u8] = b"\0\x05\0\x05This port is in use by another transfer.\0";

/// A datagram is of another transfer: its sender is to be answered [`UNKNOWN_TRANSFER_ID`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray;

/// News that wait for the owner: an opening, an end.
const EVENTS_LIMIT: usize = 4;

/// The opening of a transfer: a datagram that is repeated until the first answer.
#[derive(Debug)]
struct Opening {
    datagram: Vec<u8>,
    is_owed: bool,
    /// The options of a user's request; a server's opening has none.
    asked: Option<Options>,
}

impl Opening {
    const fn of_user(datagram: Vec<u8>, asked: Options) -> Self {
        Self { datagram, is_owed: true, asked: Some(asked) }
    }

    const fn of_server(datagram: Vec<u8>) -> Self {
        Self { datagram, is_owed: true, asked: None }
    }
}

const OPTIONS_REFUSED: Fault =
    Fault { code: ErrorCode::OptionsRefused, text: "These options were not asked for." };
