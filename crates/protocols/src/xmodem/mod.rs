//! XMODEM (Ward Christensen, 1977; XMODEM/YMODEM Protocol Reference by Chuck Forsberg, 1988), both
//! roles: one file in numbered blocks, each of which is acknowledged.
//!
//! ```text
//!   sender                              receiver
//!    │ ◄────────────────────────── C or NAK │   CRC of 16 bits, or checksum of 8 bits
//!    │ ── SOH 01 fe data[128] CRC ────────► │   STX for blocks of 1024 bytes
//!    │ ◄─────────────────────────────── ACK │   NAK requests the block again
//!    │ ── SOH 02 fd data[128] CRC ────────► │
//!    │ ◄─────────────────────────────── ACK │
//!    │ ── EOT ────────────────────────────► │
//!    │ ◄─────────────────────────────── NAK │   the first EOT may be noise
//!    │ ── EOT ────────────────────────────► │
//!    │ ◄─────────────────────────────── ACK │
//! ```
//!
//! `BlockSender` and `BlockReceiver` transfer one sequence of blocks. XMODEM uses one sequence
//! per transfer; YMODEM (`ymodem`) uses two per file. The protocol has no size, so the last block is
//! padded with SUB characters that the receiver cannot distinguish from data.
//!
//! A receiver that has lost its place in a block discards input until the line is silent, and only
//! then sends NAK. Otherwise the answer to the rest of the damaged block would be taken for the
//! answer to the next block. A repeated block is acknowledged and dropped. Any other block number
//! ends the transfer: the protocol cannot recover.
//!
//! If text arrives instead of an acknowledgment and no answer follows in 8 s, the receiver has ended. The
//! block is not repeated in this time. The block in flight reaches the shell: the protocol has no escapes.
//!
//! Two CAN characters between blocks cancel the transfer. Checksums, CRC and blocks of 1024 bytes
//! are implemented. Streaming (YMODEM-g) is not.

mod block;
mod block_receiver;
mod block_sender;
#[cfg(test)]
mod tests;
mod xmodem_receiver;
mod xmodem_sender;

pub(crate) use block_receiver::{BlockReceiver, BlockSequence, ReceivedBlock};
pub(crate) use block_sender::{BlockSender, SentBlocks};
pub use xmodem_receiver::Receiver;
pub use xmodem_sender::Sender;

/// Length of a block that starts with SOH.
pub(crate) const SHORT_BLOCK_LEN: usize = 128;
/// Length of a block that starts with STX.
pub(crate) const LONG_BLOCK_LEN: usize = 1024;
