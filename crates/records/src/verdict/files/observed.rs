//! What the client of a file server has seen: the steps of the session and of each transfer.
//!
//! All times of a transfer count from the moment at which it was asked for, by one clock of this host.
//! What is not known is `None` or empty, and never zero.

use crate::transfer::Tcp;
use crate::verdict::{Arrival, Direction};

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
    /// Name to address, ns.
    pub resolve_ns: Option<u64>,
    /// First SYN to established control connection, ns.
    pub connect_ns: Option<u64>,
    /// The handshake of TLS, ns.
    pub tls_ns: Option<u64>,
    /// From the established control connection to the greeting, ns.
    pub greeting_ns: Option<u64>,
    /// From the established control connection to the end of the login without TLS, ns.
    pub login_ns: Option<u64>,
    /// The commands of the login with their replies; times count from the connection.
    pub login: Vec<Exchange>,
    /// For how long threads of this process waited for a processor until then, ns.
    pub login_wait_ns: Option<u64>,
    /// The transfers, in their order.
    pub transfers: Vec<FileTransfer>,
    /// The beginning of a transfer by TFTP with shorter blocks, one at a time: what tells a slow link
    /// from a slow server.
    pub control: Option<FileTransfer>,
    /// The transfer that did not end, and ended the measurement.
    pub aborted: Option<Aborted>,
}

/// A command of the control connection, and its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The verb of the command.
    pub verb: String,
    /// When it was sent, ns.
    pub sent_ns: u64,
    /// When the preliminary reply (1yz) was read, ns.
    pub preliminary_ns: Option<u64>,
    /// When the last reply was read, ns.
    pub replied_ns: Option<u64>,
}

/// One transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTransfer {
    /// Which way the file went.
    pub direction: Direction,
    /// Its bytes.
    pub bytes: u64,
    /// Until its last reply was read, ns.
    pub total_ns: u64,
    /// The commands and their replies.
    pub exchanges: Vec<Exchange>,
    /// When the data connection was established, or TFTP's options were acknowledged, ns.
    pub connected_ns: Option<u64>,
    /// When the first byte came, or was given to TCP, ns.
    pub first_byte_ns: Option<u64>,
    /// When the last byte came, or was acknowledged, ns.
    pub last_byte_ns: Option<u64>,
    /// When how many bytes came, or were acknowledged. Empty if unknown.
    pub arrivals: Vec<Arrival>,
    /// When how many data segments came, also those behind one that is missing, sampled every few
    /// milliseconds: `bytes` counts segments here. Empty if unknown, and for a file that goes out.
    pub segments: Vec<Arrival>,
    /// Bytes that had come in order, or were acknowledged, when the first loss was noted; sampled
    /// every few milliseconds.
    pub first_loss_bytes: Option<u64>,
    /// TCP of the data connection at its end.
    pub tcp: DataTcp,
    /// The smallest and the largest receive window that the peer offered while data was sent, bytes.
    pub peer_window_bytes: Option<[u64; 2]>,
    /// The smoothed round trip that a quarter of the samples exceeds while data was sent, ns.
    pub upper_rtt_ns: Option<u64>,
    /// The receive window that this side offered at the end, bytes.
    pub own_window_bytes: Option<u64>,
    /// Segments that came twice, as the kernel counted them on all connections.
    pub duplicates_in: Option<u64>,
    /// For how long threads of this process waited for a processor, ns.
    pub own_wait_ns: Option<u64>,
    /// Bytes of a block of TFTP.
    pub block_bytes: Option<u64>,
    /// Blocks that TFTP sends before it waits for an acknowledgment.
    pub window_blocks: Option<u64>,
    /// Blocks that came twice or were sent again.
    pub repeated_blocks: Option<u64>,
    /// Times that this side waited for its timer.
    pub timeouts: Option<u64>,
}

/// What TCP of this side has counted on a data connection; the names of the kernel's `tcp_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataTcp {
    /// The shortest round trip, ns.
    pub min_rtt_ns: Option<u64>,
    /// The smoothed round trip, ns.
    pub rtt_ns: Option<u64>,
    /// Largest segment out, bytes.
    pub snd_mss: Option<u64>,
    /// Largest segment in, as estimated, bytes.
    pub rcv_mss: Option<u64>,
    /// Path MTU, bytes.
    pub pmtu: Option<u64>,
    /// Segments with data in.
    pub data_segs_in: Option<u64>,
    /// Segments with data out.
    pub data_segs_out: Option<u64>,
    /// Segments sent again.
    pub total_retrans: Option<u64>,
    /// Duplicates that the peer reported.
    pub dsack_dups: Option<u64>,
    /// Reorderings seen.
    pub reord_seen: Option<u64>,
    /// Segments in out of order.
    pub rcv_ooopack: Option<u64>,
    /// Time with data in flight, ns.
    pub busy_ns: Option<u64>,
    /// Of it: the peer's window was full, ns.
    pub rwnd_limited_ns: Option<u64>,
    /// Of it: the send buffer was too small, ns.
    pub sndbuf_limited_ns: Option<u64>,
    /// Receive buffer, bytes.
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

/// A transfer that did not end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aborted {
    /// What is known of it, until it was ended.
    pub transfer: FileTransfer,
    /// What ended it: a sentence without its end.
    pub why: String,
}
