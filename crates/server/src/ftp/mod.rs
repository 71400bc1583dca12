//! FTP server: serves files below one root for each user. Users are configured users, system users
//! or anonymous users.
//!
//! ```text
//! listener ── admission ──► session: engine ◄─► control connection (clear, AUTH TLS, implicit TLS)
//!                              │        └─────► user_files: names beneath one root (os::beneath)
//!                              └─ task: data connection ◄─► file (sendfile, encoder, decoder)
//! ```
//!
//! All sessions run in one thread. Operations that wait long for a disk (the commit of an upload,
//! hashes, copies) and password checks run in other threads. An upload has a temporary name until
//! it is complete and on the disk, so an interrupted upload leaves the old file unchanged. This
//! also holds with REST or APPE, for which the server first copies the part of the old file that
//! the upload keeps. If the name no longer refers to the copied file when the upload is complete,
//! the upload is refused (450), so that no concurrent change is lost.
//!
//! A data connection is accepted from the peer of the control connection only, one at a time, on a
//! random port. Its TLS must resume the TLS session of the control connection ([`tickets`]), unless
//! `requires-session-reuse` is false. In stream mode without TLS, the end of an upload looks the
//! same whether the client has finished or was killed. Such an upload has its final name when the
//! reply is sent. The upload is withdrawn and kept as a partial upload ([`partial`]) if the control
//! connection ends before the client has acknowledged the reply (`upload-grace-ms`).
//!
//! System users ([`system`]) access files with their own rights. All other users access files with
//! the rights of the server process; anonymous users of a server that runs as root get only files
//! that every user of the machine may read. Mail ([`mail`]) is accepted for users with a directory
//! in the spool.
//!
//! Not implemented: local ports below 1024 for active data connections.

mod client_hello;
mod configuration;
mod control_connection;
mod data;
mod data_tls;
mod default_tls;
mod digest;
mod file_error;
mod ftp_log;
mod ftp_server;
mod futures;
mod listing;
mod listing_entry;
mod local_channel;
mod logged_in_user;
mod logged_operation;
mod long_work;
mod mail;
mod partial;
mod passive;
mod passive_ports;
mod protection;
mod rights;
mod serve;
mod session;
mod space;
mod system;
mod tickets;
mod upload;
mod user_files;
mod users;
mod virtual_host;

pub(super) use configuration::{FtpSettings, FtpTable};
pub(super) use ftp_server::{FtpPlan, FtpServer};
pub use protection::Protection;
pub(super) use serve::FtpPolicy;
pub use system::authenticate_claim as prove_system_user;
