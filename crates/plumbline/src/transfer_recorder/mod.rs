//! Records of all transfers, made by the program that runs the transfer.
//!
//! A [`TransferRecorder`] begins a [`Record`], the program fills in its values, and the recorder
//! stores it as a line of the journal (`records::journal`). `plumb stats` computes its tables from
//! the journal. Values that were not measured stay unknown. If the journal cannot be written, the
//! transfers continue, and one message reports the error.
//!
//! The CPU time of a record is the CPU time of the transfer alone (`processor`). The TCP values of
//! the data connection have the same names for the kernel and for the user-space TCP/IP (`tcp`).

mod processor;
mod record;
mod recorder;
mod summary;
mod tcp;
mod tls;

use crate::heading;

pub(crate) use processor::timed;
pub(crate) use record::{Record, local_outcome, nanos};
pub(crate) use recorder::{RecordedSession, TransferRecorder};
pub(crate) use summary::{summary, time_breakdown};
pub(crate) use tcp::{TICK, of_info, of_kernel, of_settled, of_userspace};
pub(crate) use tls::DataTls;

/// Option of the commands that turns records off.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct RecordOptions {
    /// Do not record the transfers for 'plumb stats'
    #[arg(long, env = "PLUMB_NO_RECORD", hide_env = true, help_heading = heading::RECORDS,
          value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_record: bool,
}
