//! Data connections of FTP (RFC 959 §3), for the client and the server.
//!
//! ```text
//! plan             how the bytes of a transfer move, and how many at a time
//! conversion       one step between a file and its representation
//! splice_pipe      a pipe through which the kernel moves received data
//! tls_stream       TLS of a data connection, in either role
//! data_stats       observations of a data connection, for its record
//! blocking_socket  a socket that the thread of a transfer reads and writes
//! ```
//!
//! The client moves the bytes in a thread that blocks, the server in a task.

mod blocking_socket;
mod conversion;
mod data_stats;
mod plan;
mod splice_pipe;
mod tls_stream;

pub(crate) use blocking_socket::{BlockingSocket, Canceller, complete};
pub use conversion::{FileDecoder, encode_read};
pub(crate) use data_stats::add_since;
pub use data_stats::{DataStats, nanos_between};
pub use plan::{Mechanism, PieceSizes, TransferPlan};
pub(crate) use splice_pipe::is_unsupported;
pub use splice_pipe::{SPLICE_PIPE_BYTES, SplicePipe};
pub use tls_stream::{DataSocket, DataTlsStream};
