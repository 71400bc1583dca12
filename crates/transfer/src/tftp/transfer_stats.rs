//! Statistics of a TFTP transfer.

use net::time::Duration;
use protocols::tftp::{AgreedParameters, Direction};
use std::net::SocketAddr;

/// Statistics of a transfer so far.
#[derive(Clone, Copy, Debug)]
pub struct TftpTransferStats {
    pub(crate) local: Option<SocketAddr>,
    /// Remote address, with the port of the transfer.
    pub(crate) remote: SocketAddr,
    /// Direction, from the client's point of view.
    pub direction: Direction,
    /// Parameters that the peers agreed on; `None` before the first answer.
    pub agreed: Option<AgreedParameters>,
    /// Number of bytes of the file that have moved.
    pub file_bytes: u64,
    pub(crate) wire_bytes: u64,
    /// Number of received datagrams.
    pub datagrams_in: u64,
    pub(crate) repeated_blocks: u64,
    pub(crate) timeouts: u64,
    /// Number of line endings that were converted, in netascii.
    pub(crate) line_ends: Option<u64>,
    pub(crate) first_byte: Option<Duration>,
    /// Duration of the transfer.
    pub total: Duration,
    /// CPU time of the transfer's task, set at the end of the transfer.
    pub cpu: Option<Duration>,
}
