//! Observations of a file server's client: the steps of the session and of each transfer.
//!
//! All times of a transfer count from its request, by one clock of the local host. Unknown values
//! are `None` or empty, never zero.

use crate::transfer::Tcp;
use crate::verdict::flow::{Arrival, Direction};

/// The protocol of a file server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 959.
    #[default]
    Ftp,
    /// RFC 1350.
    Tftp,
}

/// A session with a file server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSession {
    /// The protocol.
    pub protocol: Protocol,
    /// Name resolution, ns.
    pub resolve_ns: Option<u64>,
    /// First SYN to established control connection, ns.
    pub connect_ns: Option<u64>,
    /// TLS handshake, ns.
    pub tls_ns: Option<u64>,
    /// From the established control connection to the greeting, ns.
    pub greeting_ns: Option<u64>,
    /// From the established control connection to the end of the login without TLS, ns.
    pub login_ns: Option<u64>,
    /// Commands of the login with their replies; times count from the connection.
    pub login: Vec<Exchange>,
    /// Time for which threads of this process waited for a processor during the login, ns.
    pub login_wait_ns: Option<u64>,
    /// Transfers in chronological order.
    pub transfers: Vec<FileTransfer>,
    /// Beginning of a second TFTP transfer, which has shorter blocks and waits for the
    /// acknowledgment of each block. It distinguishes a slow link from a slow server.
    pub control: Option<FileTransfer>,
    /// Transfer that did not complete, and ended the measurement.
    pub aborted: Option<Aborted>,
}

/// A command on the control connection, and its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Verb of the command.
    pub verb: String,
    /// Time at which the command was sent, ns.
    pub sent_ns: u64,
    /// Time at which the preliminary reply (1yz) was read, ns.
    pub preliminary_ns: Option<u64>,
    /// Time at which the final reply was read, ns.
    pub replied_ns: Option<u64>,
}

/// One transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTransfer {
    /// Direction of the file.
    pub direction: Direction,
    /// Size in bytes.
    pub bytes: u64,
    /// Time at which the final reply to the transfer was read, ns.
    pub total_ns: u64,
    /// Commands with their replies.
    pub exchanges: Vec<Exchange>,
    /// Time at which the data connection was established, or TFTP's options were acknowledged, ns.
    pub connected_ns: Option<u64>,
    /// Time at which the first byte arrived, or was passed to TCP, ns.
    pub first_byte_ns: Option<u64>,
    /// Time at which the last byte arrived, or was acknowledged, ns.
    pub last_byte_ns: Option<u64>,
    /// Arrivals, or acknowledgments, of bytes. Empty if unknown.
    pub arrivals: Vec<Arrival>,
    /// Arrivals of data segments, including those behind a missing one, sampled every few
    /// milliseconds: `bytes` counts segments here. Empty if unknown, and for uploads.
    pub segments: Vec<Arrival>,
    /// Bytes received in order, or acknowledged, when the first loss was noticed; sampled every few
    /// milliseconds.
    pub first_loss_bytes: Option<u64>,
    /// TCP statistics of the data connection at its end.
    pub tcp: DataTcp,
    /// Minimum and maximum receive window that the peer offered while data was sent, bytes.
    pub peer_window_bytes: Option<[u64; 2]>,
    /// Upper quartile of the smoothed round-trip time while data was sent, ns.
    pub upper_rtt_ns: Option<u64>,
    /// Receive window that the local host offered at the end, bytes.
    pub own_window_bytes: Option<u64>,
    /// Duplicate segments received, as counted by the kernel over all connections.
    pub duplicates_in: Option<u64>,
    /// Time for which threads of this process waited for a processor, ns.
    pub own_wait_ns: Option<u64>,
    /// Block size of TFTP, bytes.
    pub block_bytes: Option<u64>,
    /// Number of blocks that TFTP sends before it waits for an acknowledgment.
    pub window_blocks: Option<u64>,
    /// Blocks received twice or retransmitted.
    pub repeated_blocks: Option<u64>,
    /// Timeouts of the local host.
    pub timeouts: Option<u64>,
}

/// Local TCP statistics of a data connection; names as in the kernel's `tcp_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataTcp {
    /// Minimum round-trip time, ns.
    pub min_rtt_ns: Option<u64>,
    /// Smoothed round-trip time, ns.
    pub rtt_ns: Option<u64>,
    /// Maximum segment size for sending, bytes.
    pub snd_mss: Option<u64>,
    /// Estimated maximum segment size for receiving, bytes.
    pub rcv_mss: Option<u64>,
    /// Path MTU, bytes.
    pub pmtu: Option<u64>,
    /// Data segments received.
    pub data_segs_in: Option<u64>,
    /// Data segments sent.
    pub data_segs_out: Option<u64>,
    /// Segments retransmitted.
    pub total_retrans: Option<u64>,
    /// Duplicates that the peer reported (D-SACK).
    pub dsack_dups: Option<u64>,
    /// Reordering events detected.
    pub reord_seen: Option<u64>,
    /// Segments received out of order.
    pub rcv_ooopack: Option<u64>,
    /// Time with data in flight, ns.
    pub busy_ns: Option<u64>,
    /// Part of `busy_ns` with the peer's receive window full, ns.
    pub rwnd_limited_ns: Option<u64>,
    /// Part of `busy_ns` limited by the send buffer, ns.
    pub sndbuf_limited_ns: Option<u64>,
    /// Receive buffer size, bytes.
    pub rcvbuf: Option<u64>,
}

impl From<&Tcp> for DataTcp {
    fn from(tcp: &Tcp) -> Self {
        let ns = |us: Option<u64>| us.map(|us| us.saturating_mul(1_000));
        Self {
            min_rtt_ns: ns(tcp.min_rtt_us),
            rtt_ns: ns(tcp.rtt_us).filter(|ns| *ns > 0),
            snd_mss: tcp.snd_mss,
            rcv_mss: tcp.rcv_mss,
            pmtu: tcp.pmtu,
            data_segs_in: tcp.data_segs_in,
            data_segs_out: tcp.data_segs_out,
            total_retrans: tcp.total_retrans,
            dsack_dups: tcp.dsack_dups,
            reord_seen: tcp.reord_seen,
            rcv_ooopack: tcp.rcv_ooopack,
            busy_ns: ns(tcp.busy_us),
            rwnd_limited_ns: ns(tcp.rwnd_limited_us),
            sndbuf_limited_ns: ns(tcp.sndbuf_limited_us),
            rcvbuf: tcp.rcvbuf,
        }
    }
}

/// A transfer that did not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aborted {
    /// Known values of the transfer up to its end.
    pub transfer: FileTransfer,
    /// Reason for the end of the transfer: a sentence without a final period.
    pub reason: String,
}
