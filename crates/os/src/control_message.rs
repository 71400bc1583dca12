//! Socket addresses and control messages (cmsg(3)) in the kernel's layout.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A socket address in the kernel's layout.
#[repr(C)]
pub(crate) union SocketName {
    ipv4: libc::sockaddr_in,
    ipv6: libc::sockaddr_in6,
}

impl SocketName {
    // SAFETY: an all-zero address has family AF_UNSPEC.
    pub(crate) const ZERO: Self = unsafe { std::mem::zeroed() };
    #[expect(clippy::cast_possible_truncation, reason = "the size of a socket address is 28 bytes")]
    pub(crate) const LEN: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "address families fit in sa_family_t, and lengths in socklen_t"
    )]
    pub(crate) fn of(address: SocketAddr) -> (Self, libc::socklen_t) {
        let mut name = Self::ZERO;
        match address {
            SocketAddr::V4(address) => {
                name.ipv4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (name, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            SocketAddr::V6(address) => {
                name.ipv6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (name, Self::LEN)
            }
        }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        // SAFETY: the family is at the same offset in both variants, and all bytes are initialized,
        // here or by the kernel.
        let family = unsafe { self.ipv4.sin_family };
        match libc::c_int::from(family) {
            libc::AF_INET => {
                // SAFETY: the family says that this variant is set.
                let name = unsafe { self.ipv4 };
                let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that this variant is set.
                let name = unsafe { self.ipv6 };
                let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
                let port = u16::from_be(name.sin6_port);
                Some(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// Buffer for control messages, aligned like their headers.
#[derive(Clone, Copy)]
pub(crate) struct Control<const WORDS: usize>(pub(crate) [u64; WORDS]);

impl<const WORDS: usize> Control<WORDS> {
    pub(crate) const ZERO: Self = Self([0; WORDS]);
}

/// Calls `each` with level, type and data of every control message that the kernel has written.
pub(crate) fn for_each_control_message(
    message: &libc::msghdr,
    mut each: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) {
    // SAFETY: the kernel has filled the control buffer of `message` with complete control messages
    // and set its length accordingly. The macros return only headers inside that buffer.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = header.as_ref() {
            let len = control.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as _) as usize;
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(header), len);
            each(control.cmsg_level, control.cmsg_type, data);
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
