//! TFTP transfers over UDP sockets of the kernel or of the user-space host.
//!
//! A [`Transfer`] moves one file, in either direction, as client or server. A client transfers to
//! or from the first address of a host that answers ([`run`]). The module `serve` starts the
//! transfers of a server.

mod error;
mod outbox;
pub mod probe;
mod transfer;
mod transfer_record;
mod transfer_stats;
mod udp_transport;
mod user;

pub use error::TftpError;
pub use transfer::{Stop, TftpOptions, Transfer, TransferEngine};
pub use transfer_stats::TftpTransferStats;
pub use udp_transport::UdpTransport;
pub use user::{Operation, TftpReport, TransferSpec, run};
