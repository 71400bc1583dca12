//! Ping sockets of the kernel: ICMP echo without privileges (icmp(7)).
//!
//! A gateway opens one socket per identifier of a guest. The kernel writes the identifier and the
//! checksum into each request, and passes only the replies with this identifier. Errors, like Time
//! Exceeded for traceroute, are in the error queue.
//!
//! The kernel permits ping sockets to the groups of `net.ipv4.ping_group_range`, for IPv4 and IPv6.

use crate::error_queue::{self, ErrorReport};
use crate::outbound::{self, Outbound};
use crate::readiness::would_block_as_pending;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recvfrom, sendto,
    socket_with,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Poll, ready};
use std::{error, fmt, io};

/// A non-blocking ping socket.
#[derive(Debug)]
pub struct PingSocket {
    fd: OwnedFd,
    is_ipv4: bool,
}

/// Error of opening a ping socket.
#[derive(Debug)]
pub enum PingSocketError {
    /// No group of this process is in `net.ipv4.ping_group_range`.
    NotPermitted,
    /// Another ping socket uses the identifier.
    IdentifierInUse(u16),
    /// Any other error.
    Other(io::Error),
}

impl PingSocket {
    /// Opens a socket for IPv4 (`true`) or IPv6. Identifier 0 lets the kernel choose one.
    ///
    /// # Errors
    ///
    /// Returns [`PingSocketError`], whose message names the remedy.
    pub fn open(
        is_ipv4: bool,
        identifier: u16,
        outbound: &Outbound,
    ) -> Result<Self, PingSocketError> {
        let (family, protocol, any) = if is_ipv4 {
            (AddressFamily::INET, ipproto::ICMP, IpAddr::from(Ipv4Addr::UNSPECIFIED))
        } else {
            (AddressFamily::INET6, ipproto::ICMPV6, IpAddr::from(Ipv6Addr::UNSPECIFIED))
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(family, SocketType::DGRAM, flags, Some(protocol));
        let fd = fd.map_err(|error| match error {
            Errno::ACCESS | Errno::PERM => PingSocketError::NotPermitted,
            error => PingSocketError::Other(error.into()),
        })?;
        let socket = Self { fd, is_ipv4 };
        outbound.bind_interface(&socket.fd).map_err(PingSocketError::Other)?;
        socket.report_errors().map_err(PingSocketError::Other)?;
        // By default ping sockets share identifiers, and each gets replies for the others.
        rustix::net::sockopt::set_socket_reuseaddr(&socket.fd, false)
            .map_err(|error| PingSocketError::Other(error.into()))?;
        let local = SocketAddr::new(outbound.address.unwrap_or(any), identifier);
        rustix::net::bind(&socket.fd, &local).map_err(|error| match error {
            Errno::ADDRINUSE => PingSocketError::IdentifierInUse(identifier),
            error => PingSocketError::Other(error.into()),
        })?;
        Ok(socket)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the size of an int fits in socklen_t")]
    fn report_errors(&self) -> io::Result<()> {
        let (level, name) = if self.is_ipv4 {
            (libc::IPPROTO_IP, libc::IP_RECVERR)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        };
        let on: libc::c_int = 1;
        // SAFETY: the kernel reads an int of the length passed.
        let status = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the identifier of the requests.
    ///
    /// # Errors
    ///
    /// Returns the error of `getsockname(2)`.
    pub fn identifier(&self) -> io::Result<u16> {
        Ok(SocketAddr::try_from(rustix::net::getsockname(&self.fd)?)?.port())
    }

    /// Sends an echo request, which begins with the ICMP header. Returns [`Poll::Pending`] if the
    /// send buffer is full.
    ///
    /// # Errors
    ///
    /// Returns the error of `sendto(2)`: EINVAL for another message than an echo request.
    pub fn send(&self, request: &[u8], to: IpAddr) -> Poll<io::Result<()>> {
        let to = SocketAddr::new(to, 0);
        would_block_as_pending(sendto(&self.fd, request, SendFlags::empty(), &to)).map_ok(|_| ())
    }

    /// Receives the next reply, which begins with the ICMP header, and returns its length and its
    /// sender. Returns [`Poll::Pending`] if none is waiting.
    ///
    /// # Errors
    ///
    /// Returns the error of `recvfrom(2)`; an error in the error queue too.
    pub fn receive(&self, reply: &mut [u8]) -> Poll<io::Result<(usize, IpAddr)>> {
        let received = recvfrom(&self.fd, &mut *reply, RecvFlags::DONTWAIT);
        let (length, _, from) = ready!(would_block_as_pending(received))?;
        let from = from.map(SocketAddr::try_from).transpose()?;
        let Some(from) = from else { return Poll::Ready(Err(Errno::PROTO.into())) };
        Poll::Ready(Ok((length, from.ip())))
    }

    /// Takes the next error report about a request. The beginning of the request, with its ICMP
    /// header, is copied to `quoted`.
    #[must_use]
    pub fn error_report(&self, quoted: &mut [u8]) -> Option<ErrorReport> {
        error_queue::take(&self.fd, quoted)
    }

    /// Sets the time to live or hop limit of requests, 1 to 255.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)`.
    pub fn set_hop_limit(&self, hop_limit: u8) -> io::Result<()> {
        outbound::set_hop_limit(&self.fd, self.is_ipv4, hop_limit)
    }

    /// Sets whether requests must not be fragmented (`true`).
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)`.
    pub fn forbid_fragments(&self, is_forbidden: bool) -> io::Result<()> {
        outbound::forbid_fragments(&self.fd, self.is_ipv4, is_forbidden)
    }
}

impl AsFd for PingSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Display for PingSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot open a ping socket: ")?;
        match self {
            Self::NotPermitted => f.write_str(
                "permission denied; let root run 'sysctl net.ipv4.ping_group_range=\"0 2147483647\"'",
            ),
            Self::IdentifierInUse(identifier) => {
                write!(f, "another socket uses the identifier {identifier}")
            }
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl error::Error for PingSocketError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_new_network, unwrap_ready, wait_until_readable};

    fn permit(groups: &str) {
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", groups).unwrap();
    }

    #[test]
    fn an_echo_request_is_answered_with_the_identifier_of_the_socket() {
        in_new_network(|| {
            permit("0 0");
            for (address, request, reply) in [("127.0.0.1", 8, 0), ("::1", 128, 129)] {
                let address: IpAddr = address.parse().unwrap();
                let outbound = Outbound { address: Some(address), interface: Some("lo".into()) };
                let socket = PingSocket::open(address.is_ipv4(), 77, &outbound).unwrap();
                socket.set_hop_limit(9).unwrap();
                assert_eq!(socket.identifier().unwrap(), 77);
                let message = [request, 0, 0, 0, 0xff, 0xff, 0, 5, b'd', b'a', b't', b'a'];
                unwrap_ready(socket.send(&message, address)).unwrap();
                wait_until_readable(&socket);
                let mut buffer = [0; 100];
                let (length, from) = unwrap_ready(socket.receive(&mut buffer)).unwrap();
                assert_eq!((buffer[0], from), (reply, address));
                assert_eq!(buffer[4..length], [0, 77, 0, 5, b'd', b'a', b't', b'a']);
                assert!(socket.receive(&mut buffer).is_pending());
                let second = PingSocket::open(address.is_ipv4(), 77, &outbound).unwrap_err();
                assert!(matches!(second, PingSocketError::IdentifierInUse(77)), "{second}");
            }
        });
    }

    #[test]
    fn a_group_outside_of_the_range_is_reported_with_the_setting() {
        in_new_network(|| {
            permit("1 0");
            let error = PingSocket::open(true, 0, &Outbound::default()).unwrap_err();
            assert!(matches!(error, PingSocketError::NotPermitted));
            assert!(error.to_string().contains("ping_group_range"));
        });
    }

    #[test]
    fn an_unreachable_host_is_reported_with_the_request() {
        in_new_network(|| {
            permit("0 0");
            let socket = PingSocket::open(true, 0, &Outbound::default()).unwrap();
            let refused = unwrap_ready(socket.send(&[8; 8], [192, 0, 2, 1].into())).unwrap_err();
            // A network without a route.
            assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
            let request = [8, 0, 0, 0, 0, 0, 0, 1];
            let refused = unwrap_ready(socket.send(&request, [192, 0, 2, 1].into())).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::NetworkUnreachable);
        });
    }
}
