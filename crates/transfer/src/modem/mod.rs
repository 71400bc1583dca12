//! Transfers of files over a terminal session by XMODEM, YMODEM and ZMODEM: the local files, the
//! progress, and the cancellation.
//!
//! ```text
//!  session ──► ModemTransfer::receive ──► engine ──► Download ──► NAME.part ──► NAME
//!  session ◄── take_output ◄───────────── engine ◄── Upload ◄──── file
//! ```
//!
//! A download is hostile input: the remote host chooses names and sizes. Names are reduced to a safe
//! last component, an existing file is never replaced, and a budget limits the bytes and files of a
//! session. Data is written to `NAME.part`, which takes the name of the file when it is complete. A
//! partial file is continued only after the sender has confirmed its content by a CRC.
//!
//! After a cancellation, the data that was in flight is discarded, so that it does not reach the
//! display: until the remote program confirms the cancellation, until the line is silent, or until
//! a timeout.

mod download;
mod download_policy;
mod engine;
mod file_name;
mod modem_command;
mod modem_transfer;
mod partial_file;
mod progress;
mod report;
#[cfg(test)]
mod tests;
mod upload;

pub use download_policy::{DOWNLOAD_LIMIT_BYTES, DownloadPolicy, parse_limit};
pub use modem_command::{ModemCommand, ModemProtocol};
pub use modem_transfer::ModemTransfer;
