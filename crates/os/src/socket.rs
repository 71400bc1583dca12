//! Options and status of the kernel's TCP sockets, as far as a login session needs them.
//!
//! Telnet's Synch uses TCP urgent data (RFC 854, "The TELNET Synch signal"): the receiver must
//! learn at once that the peer has sent an urgent mark, and must find the position of the mark in
//! the byte stream. Therefore urgent data stays in line (`SO_OOBINLINE`), `poll` reports it as
//! `POLLPRI`, and [`is_at_urgent_mark`] returns whether the reader has reached the mark. Linux ends
//! a read at the mark, so a short read does not mean that no more data is waiting.

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream as TcpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};

/// Makes the last close of a TCP socket reset its connection, so that no data and no FIN is
/// retransmitted afterwards.
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
pub fn reset_on_close(socket: &impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO))?)
}

/// Disables Nagle's algorithm (`true`) or enables it (RFC 9293 §3.7.4).
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
pub fn set_no_delay(socket: &impl AsFd, no_delay: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, no_delay)?)
}

/// Enables immediate acknowledgments (`true`). The kernel may disable immediate acknowledgments by
/// itself, so enable them again after reads.
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
pub fn set_quick_ack(socket: &impl AsFd, quick_ack: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, quick_ack)?)
}

/// Acknowledges the received data now. Later data is still acknowledged with a delay.
///
/// [`set_quick_ack`] would make the kernel acknowledge each of the next segments separately, even
/// the echoes of keys, which costs a segment per key.
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
#[expect(clippy::cast_possible_truncation, reason = "the size of an int fits in socklen_t")]
pub fn acknowledge_now(socket: &impl AsFd) -> io::Result<()> {
    // tcp(7) documents 0 and 1; an even number above 0 acknowledges once and keeps the mode of
    // delayed acknowledgments (Linux 2.4).
    let acknowledge_once: libc::c_int = 2;
    // SAFETY: the kernel reads an int of the length passed.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const acknowledge_once).cast(),
            size_of_val(&acknowledge_once) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Limits the data that the kernel has accepted but not sent to about `bytes` bytes
/// (`TCP_NOTSENT_LOWAT`, Linux 3.12). The program keeps the rest of its output and can still
/// discard it, as Telnet's Abort Output does.
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
#[expect(clippy::cast_possible_truncation, reason = "the size of an int fits in socklen_t")]
pub fn set_unsent_limit(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    // SAFETY: the kernel reads an int of the length passed.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Leaves urgent data in line with the other data (`true`).
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
pub fn set_urgent_inline(socket: &impl AsFd, inline: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_oobinline(socket, inline)?)
}

/// Returns the name of the congestion control algorithm in use.
///
/// # Errors
///
/// Returns the error of `getsockopt(2)`.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Selects the congestion control algorithm by name.
///
/// # Errors
///
/// Returns ENOENT if the kernel does not have the algorithm; EPERM if only root may use it.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

/// Connects to `remote` with a congestion control algorithm selected before the first segment. The
/// algorithm must be selected early because an algorithm that paces leaves its timer running if it
/// is replaced later.
///
/// # Errors
///
/// Returns the errors of [`set_congestion_control`] and of `connect(2)`.
pub fn connect_with_congestion_control(remote: SocketAddr, name: &str) -> io::Result<TcpSocket> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_congestion_control(&socket, name)?;
    rustix::net::connect(&socket, &remote)?;
    Ok(socket.into())
}

/// Returns the range of ephemeral ports, from which the kernel selects a port if the program
/// specifies none (ip(7), `ip_local_port_range`).
///
/// # Errors
///
/// Returns an error if the file in /proc cannot be read or parsed.
pub fn ephemeral_ports() -> io::Result<RangeInclusive<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    ports_in(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn ports_in(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let (Some(Ok(first)), Some(Ok(last))) = (words.next(), words.next()) else { return None };
    (first <= last).then_some(first..=last)
}

/// Returns the user ID of the process that connected a socket of this machine, as recorded by the
/// kernel at that time (SO_PEERCRED).
///
/// # Errors
///
/// Returns the error of `getsockopt(2)`, also for an internet socket.
pub fn peer_user(socket: &impl AsFd) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// Returns whether the next byte to read is at the urgent mark.
///
/// # Errors
///
/// Returns the error of `ioctl(2)`.
pub fn is_at_urgent_mark(socket: &impl AsFd) -> io::Result<bool> {
    // SAFETY: SIOCATMARK takes no input and writes an int.
    let status = unsafe { ioctl(socket, Getter::<SIOCATMARK, libc::c_int>::new()) };
    Ok(status? != 0)
}

/// Returns the number of bytes written to a TCP socket that the peer has not acknowledged
/// (`SIOCOUTQ`), and 1 more for an unacknowledged FIN.
///
/// # Errors
///
/// Returns the error of `ioctl(2)`.
pub fn unacknowledged_len(socket: &impl AsFd) -> io::Result<usize> {
    // SAFETY: SIOCOUTQ takes no input and writes an int.
    let len = unsafe { ioctl(socket, Getter::<SIOCOUTQ, libc::c_int>::new()) };
    Ok(usize::try_from(len?).unwrap_or(0))
}

/// The kernel's statistics of a connection (`TCP_INFO`). A field that an older kernel does not
/// provide is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, microseconds.
    pub round_trip_us: u32,
    /// Mean deviation of the round-trip time, microseconds.
    pub round_trip_deviation_us: u32,
    /// Minimum round-trip time in the recent window, microseconds.
    pub min_round_trip_us: Option<u32>,
    /// Retransmission timeout, microseconds.
    pub retransmission_timeout_us: u32,
    /// Delay of a delayed acknowledgment, microseconds.
    pub ack_timeout_us: u32,
    /// Maximum segment size for sending, bytes.
    pub send_mss_bytes: u32,
    /// Estimated maximum size of received segments, bytes.
    pub receive_mss_bytes: u32,
    /// Path MTU, bytes.
    pub path_mtu_bytes: u32,
    /// Congestion window, segments.
    pub congestion_window_segments: u32,
    /// Slow start threshold, segments; very large until the first loss.
    pub slow_start_threshold_segments: u32,
    /// Segments sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Unacknowledged segments that are presumed lost.
    pub lost_segments: u32,
    /// Retransmitted segments that are not acknowledged yet.
    pub retransmitted_segments: u32,
    /// Retransmissions since the connection was opened.
    pub total_retransmissions: u32,
    /// Time since the last acknowledgment was received, milliseconds.
    pub last_ack_ms: u32,
    /// Bytes acknowledged by the peer.
    pub bytes_acknowledged: Option<u64>,
    /// Bytes received in order.
    pub bytes_received: Option<u64>,
    /// Bytes accepted from the program and not sent yet.
    pub unsent_bytes: Option<u32>,
    /// Segments sent, including those without data.
    pub segments_out: Option<u32>,
    /// Segments received, including those without data.
    pub segments_in: Option<u32>,
    /// Latest delivery rate, bytes per second.
    pub delivery_bytes_per_second: Option<u64>,
    /// Time during which data was waiting to be sent or acknowledged, microseconds.
    pub busy_us: Option<u64>,
    /// Part of the busy time during which the peer's receive window was full, microseconds.
    pub limited_by_window_us: Option<u64>,
    /// Part of the busy time during which the send buffer was full, microseconds.
    pub limited_by_buffer_us: Option<u64>,
    /// True if the latest delivery rate was limited by a lack of data from the program.
    pub is_rate_app_limited: bool,
    /// True if segments carry timestamps (RFC 7323).
    pub has_timestamps: bool,
    /// Pacing rate, bytes per second; `None` if pacing is off.
    pub pacing_bytes_per_second: Option<u64>,
    /// Segments received with data.
    pub data_segments_in: Option<u32>,
    /// Segments sent with data.
    pub data_segments_out: Option<u32>,
    /// Segments delivered with a congestion mark (ECN).
    pub marked_segments: Option<u32>,
    /// Data bytes sent, including retransmissions.
    pub bytes_sent: Option<u64>,
    /// Data bytes retransmitted.
    pub bytes_retransmitted: Option<u64>,
    /// Duplicate segments reported by the peer (RFC 2883).
    pub duplicate_reports: Option<u32>,
    /// Reordering events.
    pub reorderings: Option<u32>,
    /// Segments received out of order.
    pub out_of_order_segments: Option<u32>,
    /// Receive window advertised by the peer, bytes.
    pub peer_window_bytes: Option<u32>,
    /// Receive window advertised to the peer, bytes.
    pub own_window_bytes: Option<u32>,
}

impl TcpInfo {
    /// Queries the kernel about `socket`.
    ///
    /// # Errors
    ///
    /// Returns the error of `getsockopt(2)` if the socket is not a TCP socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0_u8; 512];
        let mut length = libc::socklen_t::try_from(bytes.len()).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `length` bytes into the buffer of that length, and then
        // sets `length` to the number written.
        let status = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        let filled_bytes = usize::try_from(length).ok().and_then(|length| bytes.get(..length));
        filled_bytes.and_then(Self::parse).ok_or_else(|| Errno::MSGSIZE.into())
    }

    /// Parses the kernel's `struct tcp_info`; new kernels only append fields to it.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at = |offset| Some(u32::from_ne_bytes(field(bytes, offset)?));
        let long_at = |offset| Some(u64::from_ne_bytes(field(bytes, offset)?));
        Some(Self {
            retransmission_timeout_us: u32_at(8)?,
            ack_timeout_us: u32_at(12)?,
            send_mss_bytes: u32_at(16)?,
            receive_mss_bytes: u32_at(20)?,
            unacknowledged_segments: u32_at(24)?,
            lost_segments: u32_at(32)?,
            retransmitted_segments: u32_at(36)?,
            last_ack_ms: u32_at(56)?,
            path_mtu_bytes: u32_at(60)?,
            round_trip_us: u32_at(68)?,
            round_trip_deviation_us: u32_at(72)?,
            slow_start_threshold_segments: u32_at(76)?,
            congestion_window_segments: u32_at(80)?,
            total_retransmissions: u32_at(100)?,
            bytes_acknowledged: long_at(120),
            bytes_received: long_at(128),
            segments_out: u32_at(136),
            segments_in: u32_at(140),
            unsent_bytes: u32_at(144),
            min_round_trip_us: u32_at(148),
            delivery_bytes_per_second: long_at(160),
            busy_us: long_at(168),
            limited_by_window_us: long_at(176),
            limited_by_buffer_us: long_at(184),
            // TCPI_OPT_TIMESTAMPS
            has_timestamps: bytes.get(5)? & 1 != 0,
            is_rate_app_limited: bytes.get(7)? & 1 != 0,
            pacing_bytes_per_second: long_at(104).filter(|rate| *rate != u64::MAX),
            data_segments_in: u32_at(152),
            data_segments_out: u32_at(156),
            marked_segments: u32_at(196),
            bytes_sent: long_at(200),
            bytes_retransmitted: long_at(208),
            duplicate_reports: u32_at(216),
            reorderings: u32_at(220),
            out_of_order_segments: u32_at(224),
            peer_window_bytes: u32_at(228),
            own_window_bytes: u32_at(232),
        })
    }
}

fn field<const LENGTH: usize>(bytes: &[u8], offset: usize) -> Option<[u8; LENGTH]> {
    bytes.get(offset..offset.checked_add(LENGTH)?)?.try_into().ok()
}

// <asm-generic/sockios.h>, used by all architectures except those below.
#[cfg(not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64")))]
const SIOCATMARK: Opcode = 0x8905;
#[cfg(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64"))]
const SIOCATMARK: Opcode = rustix::ioctl::opcode::read::<libc::c_int>(b's', 7);
/// The kernel defines SIOCOUTQ as TIOCOUTQ.
#[allow(clippy::cast_possible_truncation, reason = "requests of ioctl have 32 bits")]
const SIOCOUTQ: Opcode = libc::TIOCOUTQ as Opcode;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::{SendFlags, send};
    use std::future::Future;
    use std::io::{Read, Write};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limit = Duration::from_secs(10);
        runtime.block_on(async { tokio::time::timeout(limit, test).await.unwrap() });
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    proptest! {
        #[test]
        fn a_tcp_info_of_any_length_is_parsed_or_rejected(length in 0..300_usize) {
            let info = TcpInfo::parse(&vec![1; length]);
            prop_assert_eq!(info.is_some(), length >= 104);
            prop_assert_eq!(info.is_some_and(|i| i.busy_us.is_some()), length >= 176);
        }
    }

    /// Waits until `stream` is ready for one of the events `wanted`.
    fn wait_for_events(stream: &std::net::TcpStream, wanted: PollFlags) {
        let mut descriptors = [PollFd::new(stream, wanted)];
        assert_eq!(poll(&mut descriptors, None), Ok(1));
        assert!(descriptors[0].revents().intersects(wanted));
    }

    #[test]
    fn urgent_data_is_announced_before_it_is_read_and_found_at_its_mark() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        set_urgent_inline(&server, true).unwrap();
        let mut bytes = [0; 16];
        for urgent in [b'1', b'2'] {
            (&client).write_all(b"before").unwrap();
            assert_eq!(send(&client, &[urgent], SendFlags::OOB), Ok(1));
            wait_for_events(&server, PollFlags::PRI);
            assert!(!is_at_urgent_mark(&server).unwrap());
            assert_eq!(server.read(&mut bytes).unwrap(), 6);
            assert!(is_at_urgent_mark(&server).unwrap());
            assert_eq!(server.read(&mut bytes).unwrap(), 1);
            assert_eq!(bytes[0], urgent);
            assert!(!is_at_urgent_mark(&server).unwrap());
        }
    }

    #[test]
    fn tcp_info_reports_the_bytes_of_each_direction() {
        run(async {
            let (mut client, mut server) = pair().await;
            client.write_all(b"question").await.unwrap();
            server.read_exact(&mut [0; 8]).await.unwrap();
            server.write_all(b"answer").await.unwrap();
            client.read_exact(&mut [0; 6]).await.unwrap();
            let info = TcpInfo::of(&client).unwrap();
            // The SYN counts as one byte (RFC 9293 §3.4).
            assert_eq!(info.bytes_acknowledged, Some(9));
            assert_eq!(info.bytes_received, Some(6));
            assert!(info.round_trip_us > 0 && info.send_mss_bytes > 500);
            assert!(info.congestion_window_segments > 0);
        });
    }

    #[test]
    fn a_socket_other_than_tcp_has_no_tcp_info() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }

    #[test]
    fn socket_options_take_effect() {
        run(async {
            let (client, _server) = pair().await;
            set_no_delay(&client, true).unwrap();
            assert!(client.nodelay().unwrap());
            set_quick_ack(&client, true).unwrap();
            acknowledge_now(&client).unwrap();
            set_congestion_control(&client, "reno").unwrap();
            assert_eq!(congestion_control(&client).unwrap(), "reno");
        });
    }

    /// Returns the number of bytes that a connection accepts while its peer reads nothing.
    fn accepted_bytes(client: &TcpSocket) -> usize {
        client.set_nonblocking(true).unwrap();
        let mut client = client;
        let mut all = 0;
        while let Ok(count) = client.write(&[0; 16_384]) {
            all += count;
        }
        all
    }

    #[test]
    fn a_limit_of_unsent_bytes_leaves_less_in_a_connection_that_is_not_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = || TcpSocket::connect(listener.local_addr().unwrap()).unwrap();
        let default_limit = open();
        let small_limit = open();
        set_unsent_limit(&small_limit, 65_536).unwrap();
        let default_limit = accepted_bytes(&default_limit);
        let small_limit = accepted_bytes(&small_limit);
        assert!(small_limit < default_limit / 2, "{small_limit} and {default_limit}");
    }

    #[test]
    fn an_unknown_congestion_control_is_rejected() {
        run(async {
            let (client, _server) = pair().await;
            assert!(set_congestion_control(&client, "vegetarian").is_err());
        });
    }

    #[test]
    fn the_ephemeral_ports_are_those_of_the_kernel() {
        assert_eq!(ports_in("32768\t60999\n"), Some(32768..=60999));
        assert_eq!(ports_in("60999 32768"), None);
        assert_eq!(ports_in("32768"), None);
        assert_eq!(ports_in("-1 70000"), None);
        assert!(*ephemeral_ports().unwrap().start() > 0);
    }
}
