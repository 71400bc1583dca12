//! FTP client: one file at a time, over sessions of the protocol engine.
//!
//! ```text
//! get put         one file: attempts, partial files, comparison
//! remote          names, listings and facts of remote files
//! client          a session that is opened on demand, and again after a loss
//! connector       the server, the login and the options of all sessions
//! session         the engine, its control connection, one data connection after the other
//! data_task       local ends; a thread for the bytes of one transfer, or none for a small file
//! ```
//!
//! A data connection always goes to the host of the control connection, even if a reply contains
//! another address. With TLS the data connection resumes the TLS session of the control connection.

mod arrival_log;
mod batch_totals;
mod client;
mod command_trace;
mod connector;
mod data_task;
mod directories;
mod download;
mod error;
mod file_options;
mod get;
mod listing_audit;
mod listing_text;
pub mod mirror_plan;
mod named_entries;
pub mod probe;
mod put;
mod remote;
mod remote_hash;
mod remote_path;
mod session;
mod session_timing;
mod system;
mod tail_sample;
mod transfer_progress;
mod transfer_record;

pub use arrival_log::ArrivalLog;
pub use batch_totals::BatchTotals;
pub use client::FtpClient;
pub use connector::{ConnectionSettings, Connector, FtpCredentials, Interrupt, run};
pub use data_task::{LocalEnd, TransferResult};
pub use download::{Destination, Download, PART_SUFFIX};
pub use error::FtpError;
pub use file_options::{FileOutcome, FtpOptions, check};
pub use get::get;
pub use listing_audit::Audit;
pub use listing_text::{ListingFormat, listing_text, time_text, tree_text};
pub use put::{Upload, put};
pub use remote::{RemoteEntry, unparsed_text};
pub use remote_path::{is_pattern, join, name_of, path_in, split};
pub use session_timing::CommandOffsets;
pub use transfer_progress::TransferProgress;
