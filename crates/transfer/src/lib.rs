//! Transfers of files by FTP, TFTP, XMODEM, YMODEM and ZMODEM, and the records of transfers.
//!
//! A remote file is named by a [`url::Url`]; a local file is a [`local::LocalSource`] or a
//! [`local::Sink`]. The result of a transfer is its record ([`recorder`]). The crate knows neither
//! commands nor their output: messages go to a function that the caller provides.

pub mod bookmarks;
mod escape_name;
mod failure;
pub mod ftp;
pub mod ftp_data;
pub mod local;
pub mod modem;
pub mod pace;
pub mod recorder;
pub mod shell_line;
pub mod termination;
pub mod tftp;
pub mod url;

pub use escape_name::escaped;
pub use failure::FailureClass;
