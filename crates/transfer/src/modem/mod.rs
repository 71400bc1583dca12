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
//! After a cancellation by either end, the data that was in flight is discarded (`discarding`), so
//! that it does not reach the display. `CancelFilter` removes cancel sequences that follow later.
//!
//! The progress reports a stall after 5 s without data, and the time that is left. A remote program
//! that is silent for 60 s ends the transfer. lrzsz also gives up after about 60 s. If text of a shell or
//! a menu shows that the remote program has ended, the transfer ends within 10 s. `discarding` then
//! empties the command line of the shell, which has read data in flight.

mod cancel_filter;
mod discarding;
mod download;
mod download_policy;
mod engine;
mod file_name;
mod file_record;
mod interruption;
mod local_paths;
mod modem_command;
mod modem_transfer;
mod partial_file;
mod progress;
mod report;
mod session_text;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_end_tests;
mod upload;

pub use cancel_filter::CancelFilter;
pub use download_policy::{DOWNLOAD_LIMIT_BYTES, DownloadPolicy, parse_limit};
pub use file_record::{FileRecord, ModemRecorder, TransferRecords};
pub use interruption::Interruption;
pub use local_paths::{PathCompletion, complete_path};
pub use modem_command::{ModemCommand, ModemProtocol};
pub use modem_transfer::ModemTransfer;
