//! Contents and limits of the queues of the Internet layer: pending answers, events, unanswered echo
//! requests, and datagrams that are being fragmented.

use super::datagram::Header;
use super::icmp::{EchoReply, IcmpError};
use super::{ipv4, ipv6};
use crate::packet::Packet;
use crate::time::Instant;
use core::net::IpAddr;

/// Maximum number of pending answers: a quarter of the default pool, so that a flood of echo
/// requests leaves buffers for other traffic.
pub(super) const PENDING_LIMIT: usize = 8;
/// Maximum number of queued events.
pub(super) const EVENTS_LIMIT: usize = 32;
/// Maximum number of echo requests that wait for a reply.
pub(super) const PROBES_LIMIT: usize = 64;
/// Maximum number of datagrams that are being fragmented.
pub(super) const FRAGMENTED_MAX: usize = 4;
/// Maximum number of looped-back datagrams.
pub(super) const LOOPED_MAX: usize = 16;

/// An event for the layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An error about a sent datagram.
    ///
    /// If the datagram was too long and the transport accepts the error, the transport calls
    /// [`lower_path_mtu`](super::Internet::lower_path_mtu).
    Error(IcmpError),
    /// The reply to an echo request of this host.
    EchoReply(EchoReply),
}

/// An unanswered echo request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) destination: IpAddr,
    pub(super) identifier: u16,
    pub(super) sequence: u16,
    pub(super) payload_len: usize,
    pub(super) sent_at: Instant,
}

/// A datagram that is being sent in fragments. Each call of
/// [`transmit`](super::Internet::transmit) returns one fragment.
#[derive(Debug)]
pub(super) struct FragmentedDatagram {
    pub(super) header: Header,
    pub(super) identification: u32,
    /// Unsent data of the datagram.
    pub(super) packet: Packet,
    /// Offset of the unsent data in the data of the whole datagram, in bytes.
    pub(super) offset: u16,
    pub(super) mtu: u16,
}

impl FragmentedDatagram {
    /// Returns the maximum number of data bytes in a fragment.
    pub(super) fn fragment_data_max(&self) -> usize {
        usize::from(self.mtu).saturating_sub(headers_len(&self.header))
    }

    pub(super) fn is_last(&self) -> bool {
        self.packet.len() <= self.fragment_data_max()
    }
}

/// Returns the length of the headers of a fragment, in bytes.
pub(super) fn headers_len(header: &Header) -> usize {
    match header.destination {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN + ipv6::FRAGMENT_HEADER_LEN,
    }
}
