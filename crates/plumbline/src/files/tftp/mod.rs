//! TFTP transfers over UDP sockets of the kernel or of the user-space host.
//!
//! A [`Transfer`] moves one file, in either direction, as client or server. A client transfers to
//! or from the first address of a host that answers ([`run`]). The module `serve` starts the
//! transfers of a server.

mod error;
mod outbox;
pub(crate) mod probe;
mod transfer;
mod transfer_record;
mod udp_transport;
mod user;

pub(crate) use error::{TftpError, is_out_of_space};
pub(crate) use transfer::{Stop, TftpOptions, TftpTransferStats, Transfer, TransferEngine};
pub(crate) use udp_transport::UdpTransport;
pub(crate) use user::{Operation, TftpReport, TransferSpec, run};
