//! FTP client: one file at a time, over sessions of the protocol engine.
//!
//! ```text
//! get put         one file: attempts, partial files, comparison
//! remote          names, listings and facts of remote files
//! client          a session that is opened on demand, and again after a loss
//! connector       the server and the login from which sessions are opened
//! client_session  the engine, its control connection, one data connection after the other
//! data_transfer   a thread for the bytes of one transfer
//! secured         TLS of a data connection
//! small_file      the bytes of a small file, without a thread
//! ```
//!
//! A data connection always goes to the host of the control connection, even if a reply contains
//! another address. With TLS the data connection resumes the TLS session of the control connection.

mod client;
mod client_session;
mod connector;
mod control_stream;
mod data_connection;
mod data_transfer;
mod download;
mod error;
mod exchanges;
mod file_options;
mod get;
pub mod probe;
mod put;
mod remote;
mod remote_hash;
mod run;
mod secured;
mod session_timing;
mod small_file;
mod system;
mod tail_sample;

pub use client::FtpClient;
pub use client_session::{FtpClientSession, Shared, TaskOutcome};
pub use connector::{CancellationToken, Connector};
pub use control_stream::ByteStream;
pub use data_connection::{Canceller, TcpConnection};
pub use data_transfer::{ArrivalLog, LocalEnd, TransferResult};
pub use download::{Destination, Download, PART_SUFFIX};
pub use error::FtpError;
pub use file_options::{FileOutcome, FtpOptions, check};
pub use get::get;
pub use put::{Upload, put};
pub use remote::{Audit, RemoteEntry, is_pattern, join, name_of, path_in, split, unparsed_text};
pub use run::{ConnectionSettings, FtpCredentials, Interrupt, run};
pub use session_timing::CommandOffsets;
