//! The error queue of a UDP or ping socket: ICMP errors about its datagrams (`IP_RECVERR` of ip(7),
//! `IPV6_RECVERR` of ipv6(7)).
//!
//! A gateway converts a report into the ICMP error that its guest would have received:
//! [`ErrorReport::origin`] has the type and code of the message, [`ErrorReport::path_mtu`] the path
//! MTU, and the quoted payload identifies the datagram.

use crate::control_message::{Control, SocketName, for_each_control_message};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// Size of the control buffer for an entry of the error queue, in 64-bit words. An entry has the
/// destination, the error and the host that reported it.
const ERROR_CONTROL_WORDS: usize = 64;

/// Error report about a datagram that was sent.
#[derive(Debug)]
pub struct ErrorReport {
    /// Destination of the datagram. The port is 0 for a ping socket.
    pub to: SocketAddr,
    /// Error number of the kernel for the message.
    pub error: io::Error,
    /// Message that reported the error.
    pub origin: ErrorOrigin,
    /// Host that sent the message, if it was not this host.
    pub reporter: Option<IpAddr>,
    /// Number of bytes of the datagram's payload in the caller's buffer.
    pub quoted_len: usize,
}

/// Message that reported an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOrigin {
    /// This host, for example because the datagram exceeds the known path MTU in bytes.
    Local {
        /// Path MTU in bytes; 0 for an error without one.
        mtu_bytes: u32,
    },
    /// An ICMP message.
    Icmp {
        /// Type of the message.
        kind: u8,
        /// Code of the message.
        code: u8,
        /// MTU of the next hop in bytes (RFC 1191 §4); 0 for other messages.
        mtu_bytes: u32,
    },
    /// An ICMPv6 message.
    Icmp6 {
        /// Type of the message.
        kind: u8,
        /// Code of the message.
        code: u8,
        /// MTU of a Packet Too Big in bytes (RFC 4443 §3.2); 0 for other messages.
        mtu_bytes: u32,
    },
    /// Another source, like a timestamp.
    Other,
}

impl ErrorReport {
    /// Returns the path MTU in bytes, if the datagram exceeded it.
    #[must_use]
    pub fn path_mtu(&self) -> Option<u32> {
        let (ErrorOrigin::Local { mtu_bytes }
        | ErrorOrigin::Icmp { mtu_bytes, .. }
        | ErrorOrigin::Icmp6 { mtu_bytes, .. }) = self.origin
        else {
            return None;
        };
        let is_too_long = self.error.raw_os_error() == Some(libc::EMSGSIZE);
        (is_too_long && mtu_bytes > 0).then_some(mtu_bytes)
    }
}

/// Takes the next report from the error queue of `socket`, and copies the beginning of the payload
/// of the datagram to `quoted`.
pub(crate) fn take(socket: &impl AsFd, quoted: &mut [u8]) -> Option<ErrorReport> {
    let mut name = SocketName::ZERO;
    let mut control = Control::<ERROR_CONTROL_WORDS>::ZERO;
    let mut part = libc::iovec { iov_base: quoted.as_mut_ptr().cast(), iov_len: quoted.len() };
    // SAFETY: an all-zero message header is valid and empty.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = SocketName::LEN;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control.0) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the pointers point to memory of the given lengths that lives until the end of this
    // function.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    let quoted_len = usize::try_from(received).ok()?;
    let mut entry = None;
    for_each_control_message(&message, |level, kind, data| {
        if matches!(
            (level, kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        ) {
            entry = Entry::parse(data);
        }
    });
    let Entry { number, origin, reporter } = entry?;
    let error = io::Error::from_raw_os_error(number);
    Some(ErrorReport { to: name.address()?, error, origin, reporter, quoted_len })
}

/// A `struct sock_extended_err` with the address after it.
struct Entry {
    number: i32,
    origin: ErrorOrigin,
    reporter: Option<IpAddr>,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, address) = bytes.split_first_chunk::<SOCK_EXTENDED_ERR_LEN>()?;
        let [n0, n1, n2, n3, origin, kind, code, _, i0, i1, i2, i3, ..] = *head;
        let number = i32::try_from(u32::from_ne_bytes([n0, n1, n2, n3])).ok()?;
        let mtu_bytes = u32::from_ne_bytes([i0, i1, i2, i3]);
        let origin = match origin {
            libc::SO_EE_ORIGIN_LOCAL => ErrorOrigin::Local { mtu_bytes },
            libc::SO_EE_ORIGIN_ICMP => ErrorOrigin::Icmp { kind, code, mtu_bytes },
            libc::SO_EE_ORIGIN_ICMP6 => ErrorOrigin::Icmp6 { kind, code, mtu_bytes },
            _ => ErrorOrigin::Other,
        };
        Some(Self { number, origin, reporter: parse_address(address) })
    }
}

/// Parses a `struct sockaddr_in` or `sockaddr_in6`; the family AF_UNSPEC means no address.
fn parse_address(bytes: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    match libc::c_int::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Size of `struct sock_extended_err` of <linux/errqueue.h>.
const SOCK_EXTENDED_ERR_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::DatagramSocket;
    use crate::testing::{in_new_network, unwrap_ready};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_of_any_bytes_is_parsed_or_rejected(bytes: Vec<u8>) {
            let number = bytes.first_chunk().map(|number| u32::from_ne_bytes(*number));
            let is_valid = bytes.len() >= 16 && number.is_some_and(|number| number < 1 << 31);
            prop_assert_eq!(Entry::parse(&bytes).is_some(), is_valid);
        }
    }

    #[test]
    fn a_closed_port_is_reported_with_the_icmp_message_and_the_payload() {
        for (local, kind, code) in [("127.0.0.1:0", 3, 3), ("[::1]:0", 1, 4)] {
            let local: SocketAddr = local.parse().unwrap();
            let closed = DatagramSocket::bind(local).unwrap().local_addr().unwrap();
            let socket = DatagramSocket::bind(local).unwrap();
            assert_eq!(unwrap_ready(socket.send(b"payload", &[7], closed)).unwrap(), 1);
            let mut quoted = [0; 4];
            // The loopback interface delivers the error before `send` returns.
            let report = socket.error_report(&mut quoted).unwrap();
            assert_eq!((report.to, &quoted[..report.quoted_len]), (closed, &b"payl"[..]));
            assert_eq!(report.error.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(report.reporter, Some(local.ip()));
            let origin = if local.is_ipv4() {
                ErrorOrigin::Icmp { kind, code, mtu_bytes: 0 }
            } else {
                ErrorOrigin::Icmp6 { kind, code, mtu_bytes: 0 }
            };
            assert_eq!(report.origin, origin);
            assert_eq!(report.path_mtu(), None);
            assert!(socket.error_report(&mut quoted).is_none());
        }
    }

    #[test]
    fn a_datagram_longer_than_the_mtu_is_reported_with_the_mtu_if_fragments_are_forbidden() {
        in_new_network(|| {
            let loopback = crate::interface::Interface::named("lo").unwrap();
            loopback.set_mtu(1400).unwrap();
            for local in ["127.0.0.1:0", "[::1]:0"] {
                let socket = DatagramSocket::bind(local.parse().unwrap()).unwrap();
                let to = socket.local_addr().unwrap();
                socket.forbid_fragments(true).unwrap();
                let error = unwrap_ready(socket.send(&[0; 2000], &[2000], to)).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
                let report = socket.error_report(&mut []).unwrap();
                assert_eq!(report.path_mtu(), Some(1400));
            }
        });
    }
}
