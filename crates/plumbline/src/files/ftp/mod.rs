//! FTP client: the commands, over sessions of the engine.
//!
//! ```text
//! get put mirror ls rm mkdir mv cat mail, the shell
//!   batch    many files over several sessions in parallel
//!   get put  one file: attempts, partial files, comparison
//!   dialogue a session that is opened on demand, and again after a loss
//!   session  the engine, its control connection, one data connection after the other
//!   mover    a thread for the bytes of one transfer
//!   secured  TLS of a data connection
//!   small    the bytes of a small file, without a thread
//! ```
//!
//! A data connection goes to the host of the control connection, whatever address a reply contains.
//! With TLS it resumes a session of the control connection.

mod account;
mod batch;
mod desk;
mod dialogue;
mod exchanges;
mod facts;
mod get;
mod link;
mod mail;
mod manage;
mod mirror;
mod mover;
mod options;
mod probe;
mod put;
mod remote;
mod removal;
mod rules;
mod sample;
mod secured;
mod session;
mod shell;
mod small;
mod system;
mod trouble;
mod wire;

pub(super) use batch::{get_files, put_files};
pub(crate) use mail::{MAIL_ABOUT, Mail, mail};
pub(crate) use manage::{
    Cat, List, MakeDirectory, Move, Remove, cat, list, make_directory, move_file, remove,
};
pub(crate) use mirror::{MIRROR_ABOUT, Mirror, mirror};
pub(super) use options::{Moving, Reach, TypeWish, type_wish, word_format};
pub(super) use probe::pattern_file;
pub(crate) use probe::{
    Found, Moment, Reached, Refused, Spans, Way, Wish, probe, probe_availability,
};
pub(crate) use shell::{SHELL_ABOUT, Shell, shell};
