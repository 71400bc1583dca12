//! The record of every transfer, made by the program that made the transfer.
//!
//! A [`Recorder`] begins a [`Record`], the transfer's program fills what it learns, and the recorder
//! keeps it: a line of the journal (`records::journal`), out of which `plumb stats` makes its tables.
//! What nobody knows stays unknown. A journal that cannot be written is told of in one sentence and
//! never ends a transfer.
//!
//! The CPU time of a record is that of the transfer alone (`processor`); what TCP tells of its data
//! connection has the same names from the kernel and from our own TCP/IP (`tcp`).

mod processor;
mod record;
mod recorder;
mod summary;
mod tcp;
mod tls;

pub(crate) use processor::timed;
pub(crate) use record::{Record, local_outcome, nanos};
pub(crate) use recorder::{Recorder, Session};
pub(crate) use summary::{spent, summary};
pub(crate) use tcp::{TICK, of_info, of_kernel, of_own, of_settled};
pub(crate) use tls::DataTls;

/// Whether records are kept, as the commands are told.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Keeping {
    /// Keep no record of the transfers for `plumb stats`
    #[arg(long, env = "PLUMB_NO_RECORD", hide_env = true,
          value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_record: bool,
}
