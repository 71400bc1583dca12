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
mod summary;
mod tcp;
mod tls;
mod transfer_recorder;
mod write_out;

pub use processor::timed;
pub use record::{Record, local_outcome, nanos};
pub use summary::{summary, time_breakdown};
pub use tcp::{TICK, of_info, of_kernel, of_settled, of_userspace};
pub use tls::DataTls;
pub use transfer_recorder::{
    RecordedSession, SERVICE_RECORDS, TransferRecorder, journal_directory_in, records_directory,
};
pub use write_out::WriteOut;
