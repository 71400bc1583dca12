//! Parts that XMODEM, YMODEM and ZMODEM share: checksums, the description of a file, events, and
//! the timer that repeats unanswered requests.
//!
//! The three protocols transfer files over a terminal session, after the remote shell has started
//! the program at the other end. The receiver controls the transfer: the sender waits until the
//! receiver requests data.
//!
//! ```text
//!   sender                                receiver
//!    │ ◄──────────── request for a file ─── │
//!    │ ── name and size ──────────────────► │   YMODEM and ZMODEM
//!    │ ◄────────────────────── position ─── │   ZMODEM: not 0 if a partial file is continued
//!    │ ── data … end of file ─────────────► │
//! ```
//!
//! A sender requests the bytes of the file by their position, because a receiver can go back to any
//! position. The owner of a receiver answers each offered file with `accept` or `skip`. In both
//! directions, the owner passes received bytes to `receive` until none are left, and takes the
//! events with `event` after each call: a call returns early when an event is pending, so that no
//! queue of events can grow. Bytes that follow the end of the transfer remain in the input, because
//! they belong to the terminal session.

mod crc;
mod file_info;
mod nul_after_cr;
mod retry_timer;
#[cfg(test)]
pub(crate) mod simulated_line;
mod unexpected_text;

pub use crc::Crc32;
pub use file_info::FileInfo;

pub(crate) use crc::{crc16, crc16_of};
pub(crate) use nul_after_cr::{NulAfterCr, UnitParser};
pub(crate) use retry_timer::{RetryExpiry, RetryTimer};
pub(crate) use unexpected_text::UnexpectedText;

/// Event of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent<'a> {
    /// The sender offers a file. The owner calls `accept` or `skip`. XMODEM has no name and no size.
    Offer(FileInfo),
    /// The sender has answered `request_crc` with the CRC-32 of the first bytes of the offered
    /// file, or has not answered in time.
    RemoteCrc(Option<u32>),
    /// The next bytes of the file.
    Data(&'a [u8]),
    /// All bytes of the file have been received. The owner stores the file before it calls the
    /// receiver again, because the next output acknowledges the file.
    FileComplete,
    /// The transfer is complete.
    Complete,
    /// The transfer has failed; no further events follow.
    Failed(ModemFailure),
}

/// Event of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver waits for the next file. The owner calls `offer` or `finish`.
    NextFile,
    /// The receiver accepts the file from this position.
    Accepted(u64),
    /// The receiver does not want the file.
    Skipped,
    /// The receiver requests the CRC-32 of this number of bytes at the start of the file. The owner
    /// calls `answer_crc`.
    CrcRequested(u64),
    /// The receiver has the whole file.
    FileComplete,
    /// The transfer is complete.
    Complete,
    /// The transfer has failed; no further events follow.
    Failed(ModemFailure),
}

/// Reason why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModemFailure {
    /// The remote program cancelled the transfer.
    Cancelled,
    /// The remote program cannot read or write the file.
    RemoteFile,
    /// No valid answer arrived before the timeout.
    NoAnswer,
    /// The remote program no longer answers.
    Silence,
    /// The remote program has ended: text of the session arrives instead of answers.
    Ended,
    /// The same part of the file arrived damaged too often.
    TooManyErrors,
    /// The remote program requested the execution of a command.
    CommandRefused,
    /// The file is too large for the protocol.
    FileTooLarge,
}

impl ModemFailure {
    /// Returns whether the peer does not know of the failure.
    pub(crate) const fn must_cancel(self) -> bool {
        !matches!(self, Self::Cancelled | Self::RemoteFile)
    }
}

/// Position and maximum length of the bytes of the file that a sender needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRequest {
    /// Position in the file.
    pub position: u64,
    /// Maximum number of bytes. No bytes mark the end of the file.
    pub max_len: usize,
}

/// Character that cancels a transfer if it is repeated.
pub(crate) const CAN: u8 = 0x18;

/// Character that follows the CAN characters of most programs, to erase them from a command line.
pub(crate) const BACKSPACE: u8 = 0x08;

/// Number of consecutive CAN characters that cancel a transfer.
pub(crate) const CANCEL_COUNT: u8 = 5;

/// Sequence that cancels a transfer. The backspaces erase the CAN characters from the command line
/// of a shell that reads them after its program has ended.
pub const CANCEL_SEQUENCE: [u8; 16] =
    [CAN, CAN, CAN, CAN, CAN, CAN, CAN, CAN, 8, 8, 8, 8, 8, 8, 8, 8];
