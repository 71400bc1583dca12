//! ZMODEM (The ZMODEM Inter Application File Transfer Protocol, Chuck Forsberg, 1988), both roles:
//! a batch of files, sent without waiting for acknowledgments.
//!
//! ```text
//!   sender                               receiver
//!    │ ── ZRQINIT ───────────────────────► │
//!    │ ◄──────────── ZRINIT capabilities ─ │
//!    │ ── ZFILE, subpacket: name, size ──► │
//!    │ ◄────────────────────── ZRPOS 0 ─── │   or ZSKIP; not 0 if a partial file is continued
//!    │ ── ZDATA 0, subpacket … ──────────► │
//!    │ ◄─────────────────── ZRPOS 2048 ─── │   only after an error
//!    │ ── ZDATA 2048, subpacket … ───────► │
//!    │ ── ZEOF size ─────────────────────► │
//!    │ ◄───────────────────────── ZRINIT ─ │
//!    │ ── ZFIN ──────────────────────────► │
//!    │ ◄─────────────────────────── ZFIN ─ │
//!    │ ── OO ────────────────────────────► │
//! ```
//!
//! A frame is a header (`header`) and, after some headers, subpackets of data (`subpacket`). Headers
//! are encoded in hexadecimal digits or in binary; binary headers and subpackets have a CRC of 16 or
//! 32 bits, and escape control characters. `parser` recognizes headers in any
//! text before them and checks every CRC. `autostart` finds the first header of a transfer in the
//! output of a terminal session.
//!
//! The receiver determines the position: a header or subpacket that is damaged or does not follow
//! is dropped, and answered with ZRPOS, from which the sender continues. A receiver that has a
//! partial file requests the CRC of its length (ZCRC) before it continues the file.
//!
//! The sender limits the unacknowledged data to a window: after each quarter of the window, it
//! requests a ZACK. The window grows only while the delay of the ZACK stays close to the shortest one, so
//! that little data waits in queues: it keeps the position that is displayed close to the position of
//! the receiver, limits the time of a cancellation, and limits the data that a shell reads if the
//! receiver is killed. If the receiver has a small buffer or cannot
//! receive while it writes, each buffer is acknowledged before the next one is sent.
//!
//! If text arrives instead of a header during an upload, the sender sends no data, and requests four
//! answers in 4 s, in binary frames whose control characters are escaped. Without an answer in 6 s, the
//! receiver has ended. A receiver that noise has disturbed answers.
//!
//! Five consecutive CAN characters cancel the transfer. After a timeout, both ends repeat their last
//! header, at most ten times without progress.
//!
//! Not implemented: ZCOMMAND, which is refused; encryption, compression and conversions of text
//! (ZCNL); the attention sequence of ZSINIT. The latter two would let a file that is displayed with
//! `cat` execute commands: the attention sequence is text of the sender's choice that the receiver
//! sends, possibly to a shell.

mod autostart;
mod damaged_header;
mod header;
mod parser;
mod subpacket;
#[cfg(test)]
mod tests;
mod zmodem_receiver;
mod zmodem_sender;

pub use autostart::{Autostart, Detection, Request};
pub use zmodem_receiver::Receiver;
pub use zmodem_sender::Sender;

/// Maximum length of a file in bytes: positions have 32 bits.
pub const FILE_MAX_BYTES: u64 = u32::MAX as u64;

/// The character that starts every header, and escapes other characters.
const ZDLE: u8 = 0x18;
