//! FTP client: the commands, which run over sessions of the protocol engine.
//!
//! ```text
//! get put mirror ls rm mkdir mv cat mail, the shell
//!   batch           many files over several sessions in parallel
//!   get put         one file: attempts, partial files, comparison
//!   client          a session that is opened on demand, and again after a loss
//!   client_session  the engine, its control connection, one data connection after the other
//!   data_transfer   a thread for the bytes of one transfer
//!   secured         TLS of a data connection
//!   small_file      the bytes of a small file, without a thread
//! ```
//!
//! A data connection always goes to the host of the control connection, even if a reply contains
//! another address. With TLS the data connection resumes the TLS session of the control connection.

mod account;
mod batch;
mod client;
mod client_session;
mod command_options;
mod control_stream;
mod data_connection;
mod data_transfer;
mod download;
mod error;
mod exchanges;
mod get;
mod mail;
mod manage;
mod mirror;
mod probe;
mod put;
mod remote;
mod remote_hash;
mod removal;
mod rules;
mod run_command;
mod secured;
mod session_timing;
mod shell;
mod small_file;
mod system;
mod tail_sample;

pub(super) use batch::{get_files, put_files};
pub(super) use command_options::{
    ConnectionOptions, RequestedType, TransferArguments, parse_requested_type, parse_word_format,
};
pub(crate) use mail::{MAIL_ABOUT, Mail, mail};
pub(crate) use manage::{
    Cat, List, MakeDirectory, Move, Remove, cat, list, make_directory, move_file, remove,
};
pub(crate) use mirror::{MIRROR_ABOUT, Mirror, mirror};
pub(super) use probe::pattern_file;
pub(crate) use probe::{
    CommandOffsets, FailureStage, ProbeError, ProbeOptions, ProbePlan, ProbeResult, SetupTimes,
    probe, probe_availability,
};
pub(crate) use shell::{FtpShell, SHELL_ABOUT, shell};
