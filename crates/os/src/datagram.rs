//! UDP sockets of the kernel that send and receive many datagrams per system call.
//!
//! One system call sends or receives a whole window of datagrams. Consecutive datagrams of equal
//! length are sent as one long buffer, which the kernel segments (`UDP_SEGMENT`). They are received
//! as one buffer, which the kernel has coalesced (`UDP_GRO`). Other datagrams are passed in
//! separate buffers of the same call (`sendmmsg`, `recvmmsg`). If the kernel or the device does not
//! segment, all datagrams are passed in separate buffers.
//!
//! The sockets are not connected: a datagram from an unexpected address is received and can be
//! answered. If a datagram cannot be delivered, the kernel reports the error and the destination,
//! and [`DatagramSocket::datagram_error`] returns this report.

use crate::control_message::{Control, SocketName, for_each_control_message};
use crate::error_queue::{self, ErrorReport};
use crate::outbound::{self, Outbound};
use crate::readiness::{OwnsDescriptor, would_block_as_pending};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with, sockopt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};

/// Maximum number of datagrams in one buffer. Every kernel that supports `UDP_SEGMENT` accepts this
/// number.
const SEGMENTS_MAX: usize = 64;
/// Maximum length in bytes of a buffer that the kernel segments: the longest UDP payload in IPv4.
const SEGMENTED_MAX_BYTES: usize = 65_507;
/// Maximum number of buffers per call to send.
const SEND_BUFFERS_MAX: usize = 16;
/// Number of buffers of an [`Inbox`], each large enough for the longest datagram.
const RECEIVE_BUFFERS: usize = 8;
const BUFFER_LEN: usize = 65_536;
/// Size of the buffer for the control messages of a datagram, in 64-bit words.
const CONTROL_WORDS: usize = 16;

/// A non-blocking UDP socket.
#[derive(Debug)]
pub struct DatagramSocket {
    fd: OwnedFd,
    is_ipv4: bool,
    /// True until the kernel refuses to segment a buffer.
    can_segment: AtomicBool,
}

// SAFETY: the socket is an `OwnedFd` that is never replaced.
unsafe impl OwnsDescriptor for DatagramSocket {}

/// Error report about a datagram that was sent.
#[derive(Debug)]
pub struct DatagramError {
    /// Destination of the datagram.
    pub to: SocketAddr,
    /// Reason for which the datagram was not delivered.
    pub error: io::Error,
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Local destination address, if [`DatagramSocket::report_destinations`] was called.
    pub to: Option<IpAddr>,
    /// True if the datagram was sent to this host alone, or if destinations are not reported.
    pub is_unicast: bool,
    /// Payload of the datagram.
    pub data: &'a [u8],
}

impl DatagramSocket {
    /// Binds a socket to the address `local`; port 0 selects any port. An IPv6 socket accepts IPv6
    /// only.
    ///
    /// # Errors
    ///
    /// Returns the error of `socket(2)`, `setsockopt(2)` or `bind(2)`.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        Self::bind_socket(local, &Outbound::default(), false)
    }

    /// Binds a socket to the address `local` like [`Self::bind`], and to the interface of
    /// `outbound`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::bind`]; ENODEV if there is no such interface.
    pub fn bind_to(local: SocketAddr, outbound: &Outbound) -> io::Result<Self> {
        Self::bind_socket(local, outbound, false)
    }

    /// Like [`Self::bind`]. With `shares_port`, other sockets of this user that allow it
    /// (`SO_REUSEPORT`) may use the port at overlapping addresses while this socket is bound.
    ///
    /// # Errors
    ///
    /// Returns the error of `socket(2)`, `setsockopt(2)` or `bind(2)`.
    pub fn bind_beside(local: SocketAddr, shares_port: bool) -> io::Result<Self> {
        Self::bind_socket(local, &Outbound::default(), shares_port)
    }

    fn bind_socket(local: SocketAddr, outbound: &Outbound, shares_port: bool) -> io::Result<Self> {
        let is_ipv4 = local.is_ipv4();
        let family = if is_ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(family, SocketType::DGRAM, flags, None)?;
        if !is_ipv4 {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        outbound.bind_interface(&fd)?;
        sockopt::set_socket_reuseport(&fd, shares_port)?;
        rustix::net::bind(&fd, &local)?;
        sockopt::set_socket_reuseport(&fd, false)?;
        Self::of_bound(fd, is_ipv4)
    }

    /// Uses a socket that another process has bound, such as a service manager.
    ///
    /// # Errors
    ///
    /// Returns the error of `getsockname(2)`, `fcntl(2)` or `setsockopt(2)`.
    pub fn from_bound(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let local = SocketAddr::try_from(rustix::net::getsockname(&fd)?)?;
        Self::of_bound(fd, local.is_ipv4())
    }

    fn of_bound(fd: OwnedFd, is_ipv4: bool) -> io::Result<Self> {
        let socket = Self { fd, is_ipv4, can_segment: AtomicBool::new(true) };
        let (level, name) = select_by_family(
            is_ipv4,
            (libc::IPPROTO_IP, libc::IP_RECVERR),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        );
        socket.set(level, name, 1)?;
        // Without UDP_GRO, datagrams arrive one by one.
        _ = socket.set(libc::SOL_UDP, libc::UDP_GRO, 1);
        Ok(socket)
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// Returns the error of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        SocketAddr::try_from(rustix::net::getsockname(&self.fd)?).map_err(io::Error::from)
    }

    /// Requests a receive buffer of `bytes` and returns its actual size. Both sizes include the
    /// kernel's bookkeeping.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)` or `getsockopt(2)`.
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        // Only a privileged process may exceed the system's limit. The kernel doubles the requested
        // size.
        if sockopt::set_socket_recv_buffer_size_force(&self.fd, bytes / 2).is_err() {
            sockopt::set_socket_recv_buffer_size(&self.fd, bytes / 2)?;
        }
        Ok(sockopt::socket_recv_buffer_size(&self.fd)?)
    }

    /// Enables reporting of the local destination address with each received datagram.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)`.
    pub fn report_destinations(&self) -> io::Result<()> {
        let (level, name) = select_by_family(
            self.is_ipv4,
            (libc::IPPROTO_IP, libc::IP_PKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        );
        self.set(level, name, 1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the size of an int fits in socklen_t")]
    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the kernel reads an int of the length passed.
        let status = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends the datagrams that are stored one after another in `bytes`; `lens` contains the length
    /// of each.
    ///
    /// Returns the number of datagrams sent. It is less than the number of lengths if the send
    /// buffer is full or if the next datagram cannot be sent. Returns [`Poll::Pending`] if the send
    /// buffer has no space for the first datagram.
    ///
    /// # Errors
    ///
    /// Returns the error of sending the first datagram.
    pub fn send(&self, bytes: &[u8], lens: &[usize], to: SocketAddr) -> Poll<io::Result<usize>> {
        self.send_from(None, bytes, lens, to)
    }

    /// Like [`Self::send`], from the local address `source`, if one is given: a socket that is bound
    /// to all addresses answers from the address to which a request was sent.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::send`]; `EINVAL` if this host does not have the address.
    pub fn send_from(
        &self,
        source: Option<IpAddr>,
        bytes: &[u8],
        lens: &[usize],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        if let ([len], None) = (lens, source) {
            let datagram = bytes.get(..*len).unwrap_or(bytes);
            let sent = sendto(&self.fd, datagram, SendFlags::empty(), &to);
            return would_block_as_pending(sent).map_ok(|_| 1);
        }
        let mut sent = 0;
        let mut rest = lens;
        let mut bytes = bytes;
        while !rest.is_empty() {
            let buffers = self.buffers(bytes, rest);
            match self.send_buffers(&buffers, source, to) {
                Ok(count) => {
                    let sent_buffers = buffers.get(..count).unwrap_or(&buffers);
                    let datagrams: usize = sent_buffers.iter().map(|buffer| buffer.count).sum();
                    let len: usize = sent_buffers.iter().map(|buffer| buffer.bytes.len()).sum();
                    sent += datagrams;
                    rest = rest.get(datagrams..).unwrap_or_default();
                    bytes = bytes.get(len..).unwrap_or_default();
                    if count < buffers.len() {
                        break;
                    }
                }
                // The device computes no checksums (EIO), the datagrams need IP fragmentation
                // (EINVAL, EMSGSIZE), or the kernel does not support `UDP_SEGMENT`.
                Err(Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP)
                    if buffers.first().is_some_and(|buffer| buffer.count > 1) =>
                {
                    self.can_segment.store(false, Ordering::Relaxed);
                }
                Err(_) if sent > 0 => break,
                failed => return would_block_as_pending(failed),
            }
        }
        Poll::Ready(Ok(sent))
    }

    /// Groups consecutive datagrams into buffers that the kernel can segment.
    fn buffers<'a>(&self, mut bytes: &'a [u8], mut lens: &[usize]) -> Vec<Outgoing<'a>> {
        let mut buffers = Vec::with_capacity(SEND_BUFFERS_MAX);
        while let Some((&segment, other_lens)) = lens.split_first() {
            let mut count = 1;
            let mut total = segment;
            let max_count = if self.can_segment.load(Ordering::Relaxed) { SEGMENTS_MAX } else { 1 };
            for &len in other_lens {
                // Only the last datagram of a buffer may be shorter than the others.
                let has_shorter_datagram = total < segment * count;
                let is_full = total + len > SEGMENTED_MAX_BYTES || count == max_count;
                if len > segment || has_shorter_datagram || is_full || segment == 0 || len == 0 {
                    break;
                }
                count += 1;
                total += len;
            }
            let Some((buffer, rest)) = bytes.split_at_checked(total) else { break };
            buffers.push(Outgoing { bytes: buffer, segment, count });
            if buffers.len() == SEND_BUFFERS_MAX {
                break;
            }
            bytes = rest;
            lens = lens.get(count..).unwrap_or_default();
        }
        buffers
    }

    fn send_buffers(
        &self,
        buffers: &[Outgoing<'_>],
        source: Option<IpAddr>,
        to: SocketAddr,
    ) -> Result<usize, Errno> {
        let (mut name, name_len) = SocketName::of(to);
        let mut parts: Vec<libc::iovec> = buffers.iter().map(Outgoing::part).collect();
        let mut controls = [SentControl::EMPTY; SEND_BUFFERS_MAX];
        let mut messages = Vec::with_capacity(SEND_BUFFERS_MAX);
        for ((buffer, part), control) in buffers.iter().zip(&mut parts).zip(&mut controls) {
            // SAFETY: an all-zero message header is valid and empty.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_name = (&raw mut name).cast();
            message.msg_hdr.msg_namelen = name_len;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            if buffer.count > 1 {
                control.put_segment_len(buffer.segment);
            }
            if let Some(source) = source {
                control.put_source(source);
            }
            message.msg_hdr.msg_control = control.buffer.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = control.len as _;
            messages.push(message);
        }
        let count = libc::c_uint::try_from(messages.len()).unwrap_or(0);
        // SAFETY: every pointer in the messages points to memory that lives until the end of this
        // function, and each length is that of its memory.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| last_errno())
    }

    /// Receives datagrams until `inbox` is full or no datagram is waiting. Returns whether more
    /// datagrams may be waiting, or [`Poll::Pending`] if none was waiting.
    ///
    /// # Errors
    ///
    /// Returns the error of `recvmmsg(2)`.
    pub fn receive(&self, inbox: &mut Inbox) -> Poll<io::Result<bool>> {
        inbox.arrivals.clear();
        inbox.allocate_buffers();
        let mut names = [const { SocketName::ZERO }; RECEIVE_BUFFERS];
        let mut controls = [Control::<CONTROL_WORDS>::ZERO; RECEIVE_BUFFERS];
        let mut parts =
            [const { libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 } }; RECEIVE_BUFFERS];
        let mut messages = Vec::with_capacity(RECEIVE_BUFFERS);
        let buffers = inbox.bytes.chunks_exact_mut(BUFFER_LEN);
        let slots = buffers.zip(&mut names).zip(&mut controls).zip(&mut parts);
        for (((buffer, name), control), part) in slots {
            part.iov_base = buffer.as_mut_ptr().cast();
            part.iov_len = buffer.len();
            // SAFETY: an all-zero message header is valid and empty.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_name = (&raw mut *name).cast();
            message.msg_hdr.msg_namelen = SocketName::LEN;
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of_val(&control.0) as _;
            messages.push(message);
        }
        let count = libc::c_uint::try_from(messages.len()).unwrap_or(0);
        let null = std::ptr::null_mut();
        // SAFETY: every pointer in the messages points to memory that lives until the end of this
        // function, and each length is that of its memory.
        let received = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                null,
            )
        };
        let received = usize::try_from(received).map_err(|_| last_errno());
        let received = ready!(would_block_as_pending(received))?;
        for (message, name) in messages.iter().zip(&names).take(received) {
            let is_truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let len = usize::try_from(message.msg_len).unwrap_or(0);
            let from = name.address().filter(|_| !is_truncated);
            inbox.arrivals.push(Arrival::of(&message.msg_hdr, len, from));
        }
        Poll::Ready(Ok(received == RECEIVE_BUFFERS))
    }

    /// Takes the next error report about a datagram sent from this socket.
    #[must_use]
    pub fn datagram_error(&self) -> Option<DatagramError> {
        let report = self.error_report(&mut [])?;
        Some(DatagramError { to: report.to, error: report.error })
    }

    /// Like [`Self::datagram_error`], with the message that reported the error. The beginning of
    /// the payload of the datagram is copied to `quoted`.
    #[must_use]
    pub fn error_report(&self, quoted: &mut [u8]) -> Option<ErrorReport> {
        error_queue::take(&self.fd, quoted)
    }

    /// Sets the time to live or hop limit of sent datagrams, 1 to 255.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)`.
    pub fn set_hop_limit(&self, hop_limit: u8) -> io::Result<()> {
        outbound::set_hop_limit(&self.fd, self.is_ipv4, hop_limit)
    }

    /// Sets whether sent datagrams must not be fragmented (`true`). A datagram that exceeds the path
    /// MTU then fails with EMSGSIZE, and [`Self::error_report`] has the path MTU.
    ///
    /// # Errors
    ///
    /// Returns the error of `setsockopt(2)`.
    pub fn forbid_fragments(&self, is_forbidden: bool) -> io::Result<()> {
        outbound::forbid_fragments(&self.fd, self.is_ipv4, is_forbidden)
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for DatagramSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Datagrams that are passed to the kernel in one buffer.
struct Outgoing<'a> {
    bytes: &'a [u8],
    /// Length in bytes of each datagram in the buffer; the last one may be shorter.
    segment: usize,
    count: usize,
}

impl Outgoing<'_> {
    fn part(&self) -> libc::iovec {
        // The kernel only reads the bytes to send, so casting away const is sound.
        libc::iovec { iov_base: self.bytes.as_ptr().cast_mut().cast(), iov_len: self.bytes.len() }
    }
}

/// The control messages of a message to send.
#[derive(Clone, Copy)]
struct SentControl {
    buffer: Control<CONTROL_WORDS>,
    /// Number of bytes used.
    len: usize,
}

impl SentControl {
    const EMPTY: Self = Self { buffer: Control::ZERO, len: 0 };

    /// Requests segmentation into datagrams of `segment` bytes.
    fn put_segment_len(&mut self, segment: usize) {
        let segment = u16::try_from(segment).unwrap_or(u16::MAX);
        self.put((libc::SOL_UDP, libc::UDP_SEGMENT), &segment.to_ne_bytes());
    }

    /// Requests a source address: an `in_pktinfo` with the member `ipi_spec_dst`, or an
    /// `in6_pktinfo`. The interface 0 leaves the choice to the routing table.
    fn put_source(&mut self, source: IpAddr) {
        match source {
            IpAddr::V4(v4) => {
                let info = [[0; 4], v4.octets(), [0; 4]];
                self.put((libc::IPPROTO_IP, libc::IP_PKTINFO), info.as_flattened());
            }
            IpAddr::V6(v6) => {
                let mut info = [0; 20];
                info.iter_mut().zip(v6.octets()).for_each(|(to, octet)| *to = octet);
                self.put((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &info);
            }
        }
    }

    fn put(&mut self, (level, kind): (libc::c_int, libc::c_int), data: &[u8]) {
        let data_len = libc::c_uint::try_from(data.len()).unwrap_or(libc::c_uint::MAX);
        // SAFETY: both only calculate.
        let (space, len) = unsafe { (libc::CMSG_SPACE(data_len), libc::CMSG_LEN(data_len)) };
        let end = self.len + space as usize;
        assert!(end <= size_of_val(&self.buffer.0), "control messages of {end} bytes");
        // SAFETY: the header and the data end before `end`, which lies in the buffer. The buffer is
        // aligned for a header, and `CMSG_SPACE` returns multiples of this alignment.
        unsafe {
            let header = self.buffer.0.as_mut_ptr().byte_add(self.len).cast::<libc::cmsghdr>();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = len as _;
            libc::CMSG_DATA(header).copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
        self.len = end;
    }
}

/// Datagrams of one sender that arrived in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Local address that is the source of an answer, if [`DatagramSocket::report_destinations`] was
    /// called: the destination, unless it was a group.
    pub local: Option<IpAddr>,
    /// The datagrams, one after another.
    pub data: &'a [u8],
    /// Length of each datagram in bytes; the last one may be shorter.
    pub segment: usize,
}

/// Receive buffers, shared by the sockets of a thread.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    arrivals: Vec<Arrival>,
}

/// Contents of one buffer: datagrams of equal length from one sender.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    from: Option<SocketAddr>,
    to: Option<IpAddr>,
    is_unicast: bool,
    len: usize,
    segment: usize,
}

impl Inbox {
    /// Returns the buffer for one datagram that the caller reads from another kind of socket.
    /// [`Self::push_received`] then adds the datagram to the inbox.
    pub fn next_buffer(&mut self) -> &mut [u8] {
        self.arrivals.clear();
        self.allocate_buffers();
        self.bytes.get_mut(..BUFFER_LEN).unwrap_or_default()
    }

    /// Allocates the buffers on first use: an inbox that has never received anything has none.
    fn allocate_buffers(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = vec![0; RECEIVE_BUFFERS * BUFFER_LEN];
        }
    }

    /// Records that a datagram of `len` bytes was read into the buffer of [`Self::next_buffer`].
    pub fn push_received(&mut self, from: SocketAddr, len: usize) {
        let from = Some(from);
        let is_unicast = true;
        self.arrivals.push(Arrival { from, to: None, is_unicast, len, segment: len });
    }

    /// Returns the contents of each buffer of the last [`DatagramSocket::receive`], in order.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let buffers = self.bytes.chunks_exact(BUFFER_LEN).zip(&self.arrivals);
        buffers.filter_map(|(buffer, arrival)| {
            let data = buffer.get(..arrival.len).unwrap_or(buffer);
            let local = arrival.to.filter(|local| !local.is_multicast());
            Some(Group { from: arrival.from?, local, data, segment: arrival.segment })
        })
    }

    /// Returns the datagrams of the last [`DatagramSocket::receive`], in order.
    pub fn datagrams(&self) -> impl Iterator<Item = Received<'_>> {
        let buffers = self.bytes.chunks_exact(BUFFER_LEN).zip(&self.arrivals);
        buffers.flat_map(|(buffer, arrival)| {
            let bytes = buffer.get(..arrival.len).unwrap_or(buffer);
            // `chunks` yields nothing for an empty slice, but an empty datagram is a datagram.
            let empty: Option<&[u8]> = bytes.is_empty().then_some(bytes);
            let chunks = bytes.chunks(arrival.segment.max(1)).chain(empty);
            arrival.from.into_iter().flat_map(move |from| {
                let Arrival { to, is_unicast, .. } = *arrival;
                chunks.clone().map(move |data| Received { from, to, is_unicast, data })
            })
        })
    }
}

impl Arrival {
    fn of(message: &libc::msghdr, len: usize, from: Option<SocketAddr>) -> Self {
        let mut arrival = Self { from, to: None, is_unicast: true, len, segment: len };
        for_each_control_message(message, |level, kind, data| match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let segment = data.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
                let segment = segment.and_then(|segment| usize::try_from(segment).ok());
                arrival.segment = segment.filter(|segment| *segment > 0).unwrap_or(len);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => arrival.take_ipv4(data),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let address = data.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes));
                arrival.is_unicast = address.is_some_and(|address| !address.is_multicast());
                arrival.to = address.map(IpAddr::from);
            }
            _ => {}
        });
        arrival
    }

    /// Parses an `in_pktinfo`: the interface, the local address, and the destination in the header,
    /// which differs from the local address if the datagram was broadcast or multicast.
    fn take_ipv4(&mut self, data: &[u8]) {
        let octets = |at: usize| data.get(at..)?.first_chunk::<4>().copied().map(Ipv4Addr::from);
        let local_address = octets(4);
        let header = octets(8);
        self.is_unicast = local_address.is_some() && local_address == header;
        self.to = local_address.map(IpAddr::from);
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn select_by_family<T>(is_ipv4: bool, ipv4: T, ipv6: T) -> T {
    if is_ipv4 { ipv4 } else { ipv6 }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
