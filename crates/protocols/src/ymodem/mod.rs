//! YMODEM (XMODEM/YMODEM Protocol Reference by Chuck Forsberg, 1988), both roles: a batch of files
//! with names and sizes.
//!
//! ```text
//!   sender                              receiver
//!    │ ◄───────────────────────────────── C │
//!    │ ── block 0: name, size, time ──────► │
//!    │ ◄───────────────────────────── ACK C │
//!    │ ── blocks 1, 2 … and EOT ──────────► │   as in XMODEM with a CRC
//!    │ ◄───────────────────────────── ACK C │
//!    │ ── block 0 without a name ─────────► │   end of the batch
//!    │ ◄─────────────────────────────── ACK │
//! ```
//!
//! Each block 0 and the data of each file are sequences of blocks of `xmodem`. The size in block 0
//! determines the length of the file; without a size, the file keeps the padding of its last block.
//! The protocol has no positions and no reply that skips a file: a file that is not wanted is
//! received and dropped.
//!
//! Streaming (YMODEM-g) is not implemented.

#[cfg(test)]
mod tests;
mod ymodem_receiver;
mod ymodem_sender;

pub use ymodem_receiver::Receiver;
pub use ymodem_sender::Sender;
