//! The two ends of a connection, and the maximum segment sizes of its link and path.

use super::lower_level::{FIXED_HEADERS_V4_LEN, FIXED_HEADERS_V6_LEN};
use super::table::AddressPair;
use core::net::SocketAddr;

/// The two ends of a connection, and the maximum segment sizes of its link and path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoints {
    local: SocketAddr,
    remote: SocketAddr,
    link_mss: u16,
    /// Number of data bytes of the longest segment that fits the path MTU, as reported by the layer
    /// below.
    path_mss: u16,
}

impl Endpoints {
    /// Describes a connection whose path MTU is not known.
    pub(super) const fn new((local, remote): AddressPair, link_mss: u16) -> Self {
        Self { local, remote, link_mss, path_mss: u16::MAX }
    }

    /// Returns the local end.
    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the remote end.
    pub(super) const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns both ends, the local one first.
    pub(super) const fn pair(&self) -> AddressPair {
        (self.local, self.remote)
    }

    /// Returns the maximum number of data bytes of a segment on the link.
    pub(super) const fn link_mss(&self) -> u16 {
        self.link_mss
    }

    /// Returns the number of data bytes of the longest segment that fits the path MTU.
    pub(super) const fn path_mss(&self) -> u16 {
        self.path_mss
    }

    /// Returns the length of the IP and TCP headers without options, in bytes.
    pub(super) const fn fixed_headers_len(&self) -> u16 {
        if self.remote.is_ipv4() { FIXED_HEADERS_V4_LEN } else { FIXED_HEADERS_V6_LEN }
    }

    /// Records that datagrams may have at most `mtu` bytes.
    pub(super) fn limit_path(&mut self, mtu: u16) {
        let mss = mtu.saturating_sub(self.fixed_headers_len()).max(1);
        self.path_mss = self.path_mss.min(mss);
    }
}
