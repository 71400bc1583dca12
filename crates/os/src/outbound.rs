//! Options of sockets that a gateway opens to hosts: source address, interface, hop limit and
//! fragmentation.

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

/// Source of the packets of a socket. By default the kernel selects both by its routing table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// Source address.
    pub address: Option<IpAddr>,
    /// Name of the interface (`SO_BINDTODEVICE`, without privileges since Linux 5.7).
    pub interface: Option<String>,
}

impl Outbound {
    /// Binds `socket` to the interface, if one is given.
    pub(crate) fn bind_interface(&self, socket: &impl AsFd) -> io::Result<()> {
        let Some(name) = &self.interface else { return Ok(()) };
        let length = libc::socklen_t::try_from(name.len()).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: the kernel reads `length` bytes of the name at most.
        let status = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BINDTODEVICE,
                name.as_ptr().cast(),
                length,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

pub(crate) fn set_hop_limit(socket: &impl AsFd, is_ipv4: bool, hop_limit: u8) -> io::Result<()> {
    Ok(if is_ipv4 {
        sockopt::set_ip_ttl(socket, hop_limit.into())
    } else {
        sockopt::set_ipv6_unicast_hops(socket, Some(hop_limit))
    }?)
}

pub(crate) fn forbid_fragments(
    socket: &impl AsFd,
    is_ipv4: bool,
    is_forbidden: bool,
) -> io::Result<()> {
    Ok(match (is_ipv4, is_forbidden) {
        (true, true) => sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO),
        (true, false) => sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT),
        (false, true) => sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO),
        (false, false) => sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT),
    }?)
}
