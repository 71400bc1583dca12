//! The kernel's own TCP: what a login needs of a connected socket beyond bytes.
//!
//! Telnet's Synch rides on TCP's urgent data (RFC 854, "The TELNET Synch signal"): the receiver
//! must learn at once that there is a mark, and must find it in its place among the bytes. So
//! urgent data stays in line (`SO_OOBINLINE`), `poll` reports it as `POLLPRI`, and
//! [`is_at_urgent_mark`] tells when the reader has come to the mark. Linux ends a read there: one
//! that did not fill its buffer is not the last.

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream as TcpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd};

/// Sends small segments at once (`true`) or has Nagle's algorithm collect them (RFC 9293 §3.7.4).
///
/// # Errors
///
/// What `setsockopt` says.
pub fn set_no_delay(socket: &impl AsFd, no_delay: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, no_delay)?)
}

/// Acknowledges at once (`true`), until the kernel thinks otherwise: set it again after reads.
///
/// # Errors
///
/// What `setsockopt` says.
pub fn set_quick_ack(socket: &impl AsFd, quick_ack: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, quick_ack)?)
}

/// Acknowledges now what has been read, and stays with delayed acknowledgments for what follows.
///
/// [`set_quick_ack`] would have the kernel acknowledge each of the next segments by itself, echoes
/// of keys too, which costs a segment per key.
///
/// # Errors
///
/// What `setsockopt` says.
#[expect(clippy::cast_possible_truncation, reason = "the size of an int is small")]
pub fn acknowledge_now(socket: &impl AsFd) -> io::Result<()> {
    // tcp(7) tells of 0 and 1; an even number above 0 acts once and leaves the mode (Linux 2.4).
    let once: libc::c_int = 2;
    // SAFETY: the kernel reads an int of the length that is told.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const once).cast(),
            size_of_val(&once) as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes no more than about `bytes` that have not been sent yet (`TCP_NOTSENT_LOWAT`, Linux 3.12), so
/// that a program can still discard the rest, as Telnet's abort output does.
///
/// # Errors
///
/// The error of `setsockopt`.
#[expect(clippy::cast_possible_truncation, reason = "the size of an int is small")]
pub fn set_unsent_limit(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    // SAFETY: the kernel reads an int of the length that is told.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Leaves urgent data in its place among the other bytes (`true`).
///
/// # Errors
///
/// What `setsockopt` says.
pub fn set_urgent_inline(socket: &impl AsFd, inline: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_oobinline(socket, inline)?)
}

/// Returns the name of the congestion control in force.
///
/// # Errors
///
/// What `getsockopt` says.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Chooses the congestion control by its name.
///
/// # Errors
///
/// ENOENT, if the kernel does not have it; EPERM, if only root may use it.
pub fn set_congestion_control(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

/// Connects to `remote` with a congestion control that is chosen before the first segment: one
/// that paces leaves its clock running when it is replaced later.
///
/// # Errors
///
/// As [`set_congestion_control`], and what the far side or the network says.
pub fn connect_with_congestion_control(remote: SocketAddr, name: &str) -> io::Result<TcpSocket> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_congestion_control(&socket, name)?;
    rustix::net::connect(&socket, &remote)?;
    Ok(socket.into())
}

/// Returns the ports from which the kernel takes one for who asks for none (ip(7),
/// `ip_local_port_range`).
///
/// # Errors
///
/// If the kernel does not say, or not as it should.
pub fn ephemeral_ports() -> io::Result<RangeInclusive<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    ports_in(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn ports_in(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_ascii_whitespace().map(str::parse);
    let (Some(Ok(first)), Some(Ok(last))) = (words.next(), words.next()) else { return None };
    (first <= last).then_some(first..=last)
}

/// Returns the user whose process has connected a socket of this machine, as the kernel noted it
/// then (SO_PEERCRED).
///
/// # Errors
///
/// What the kernel says; of a socket of the Internet too.
pub fn peer_user(socket: &impl AsFd) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// Returns whether the next byte to be read is the one at the urgent mark.
///
/// # Errors
///
/// What the kernel says.
pub fn is_at_urgent_mark(socket: &impl AsFd) -> io::Result<bool> {
    // SAFETY: SIOCATMARK takes nothing and writes an int.
    let answer = unsafe { ioctl(socket, Getter::<SIOCATMARK, libc::c_int>::new()) };
    Ok(answer? != 0)
}

/// What the kernel knows about a connection (`TCP_INFO`). What an older one does not tell is
/// `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time, microseconds.
    pub round_trip_us: u32,
    /// Mean deviation of the round-trip time, microseconds.
    pub round_trip_deviation_us: u32,
    /// Smallest round-trip time seen lately, microseconds.
    pub min_round_trip_us: Option<u32>,
    /// Retransmission timeout, microseconds.
    pub retransmission_timeout_us: u32,
    /// Time for which an acknowledgment is delayed, microseconds.
    pub ack_timeout_us: u32,
    /// Largest segment that is sent, bytes.
    pub send_mss_bytes: u32,
    /// Largest segment that has come, as estimated, bytes.
    pub receive_mss_bytes: u32,
    /// Path MTU, bytes.
    pub path_mtu_bytes: u32,
    /// Congestion window, segments.
    pub congestion_window_segments: u32,
    /// Slow start threshold, segments; very large until the first loss.
    pub slow_start_threshold_segments: u32,
    /// Segments sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Of these, segments held to be lost.
    pub lost_segments: u32,
    /// Retransmissions not acknowledged yet.
    pub retransmitted_segments: u32,
    /// Retransmissions since the connection was made.
    pub total_retransmissions: u32,
    /// Time since the last acknowledgment came, milliseconds.
    pub last_ack_ms: u32,
    /// Bytes that the far side has acknowledged.
    pub bytes_acknowledged: Option<u64>,
    /// Bytes received in order.
    pub bytes_received: Option<u64>,
    /// Bytes written and not sent yet.
    pub unsent_bytes: Option<u32>,
    /// Segments sent, with those that have no data.
    pub segments_out: Option<u32>,
    /// Segments received, with those that have no data.
    pub segments_in: Option<u32>,
    /// Latest rate of delivery, bytes per second.
    pub delivery_bytes_per_second: Option<u64>,
    /// Time in which data was waiting to be sent or acknowledged, microseconds.
    pub busy_us: Option<u64>,
    /// Of that, time in which the receiver's window was full, microseconds.
    pub limited_by_window_us: Option<u64>,
    /// Of that, time in which the send buffer was empty of room, microseconds.
    pub limited_by_buffer_us: Option<u64>,
    /// Whether the latest rate of delivery was limited by what the program gave.
    pub is_rate_app_limited: bool,
    /// Whether segments carry timestamps (RFC 7323).
    pub has_timestamps: bool,
    /// Pacing rate, bytes per second; `None` where nothing is paced.
    pub pacing_bytes_per_second: Option<u64>,
    /// Segments with data received.
    pub data_segments_in: Option<u32>,
    /// Segments with data sent.
    pub data_segments_out: Option<u32>,
    /// Segments delivered with a mark of congestion.
    pub marked_segments: Option<u32>,
    /// Data bytes sent, with those sent again.
    pub bytes_sent: Option<u64>,
    /// Data bytes sent again.
    pub bytes_retransmitted: Option<u64>,
    /// Duplicates that the far side has reported (RFC 2883).
    pub duplicate_reports: Option<u32>,
    /// Reorderings seen.
    pub reorderings: Option<u32>,
    /// Segments received out of order.
    pub out_of_order_segments: Option<u32>,
    /// Receive window that the peer offers, bytes.
    pub peer_window_bytes: Option<u32>,
    /// Receive window that this side offers, bytes.
    pub own_window_bytes: Option<u32>,
}

impl TcpInfo {
    /// Asks the kernel about `socket`.
    ///
    /// # Errors
    ///
    /// What `getsockopt` says, where the socket is no TCP connection.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0_u8; 512];
        let mut length = libc::socklen_t::try_from(bytes.len()).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `length` bytes into the buffer of that length, and
        // then sets `length` to how many.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        let told = usize::try_from(length).ok().and_then(|length| bytes.get(..length));
        told.and_then(Self::parse).ok_or_else(|| Errno::MSGSIZE.into())
    }

    /// Reads the kernel's `struct tcp_info`, which has only ever grown at its end.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let at = |offset| Some(u32::from_ne_bytes(field(bytes, offset)?));
        let long_at = |offset| Some(u64::from_ne_bytes(field(bytes, offset)?));
        Some(Self {
            retransmission_timeout_us: at(8)?,
            ack_timeout_us: at(12)?,
            send_mss_bytes: at(16)?,
            receive_mss_bytes: at(20)?,
            unacknowledged_segments: at(24)?,
            lost_segments: at(32)?,
            retransmitted_segments: at(36)?,
            last_ack_ms: at(56)?,
            path_mtu_bytes: at(60)?,
            round_trip_us: at(68)?,
            round_trip_deviation_us: at(72)?,
            slow_start_threshold_segments: at(76)?,
            congestion_window_segments: at(80)?,
            total_retransmissions: at(100)?,
            bytes_acknowledged: long_at(120),
            bytes_received: long_at(128),
            segments_out: at(136),
            segments_in: at(140),
            unsent_bytes: at(144),
            min_round_trip_us: at(148),
            delivery_bytes_per_second: long_at(160),
            busy_us: long_at(168),
            limited_by_window_us: long_at(176),
            limited_by_buffer_us: long_at(184),
            // TCPI_OPT_TIMESTAMPS
            has_timestamps: bytes.get(5)? & 1 != 0,
            is_rate_app_limited: bytes.get(7)? & 1 != 0,
            pacing_bytes_per_second: long_at(104).filter(|rate| *rate != u64::MAX),
            data_segments_in: at(152),
            data_segments_out: at(156),
            marked_segments: at(196),
            bytes_sent: long_at(200),
            bytes_retransmitted: long_at(208),
            duplicate_reports: at(216),
            reorderings: at(220),
            out_of_order_segments: at(224),
            peer_window_bytes: at(228),
            own_window_bytes: at(232),
        })
    }
}

fn field<const LENGTH: usize>(bytes: &[u8], offset: usize) -> Option<[u8; LENGTH]> {
    bytes.get(offset..offset.checked_add(LENGTH)?)?.try_into().ok()
}

// <asm-generic/sockios.h>, which all but the architectures below use.
#[cfg(not(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64")))]
const SIOCATMARK: Opcode = 0x8905;
#[cfg(any(target_arch = "mips", target_arch = "mips64", target_arch = "sparc64"))]
const SIOCATMARK: Opcode = rustix::ioctl::opcode::read::<libc::c_int>(b's', 7);

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
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    proptest! {
        #[test]
        fn an_answer_of_any_length_is_read_or_refused(length in 0..300_usize) {
            let info = TcpInfo::parse(&vec![1; length]);
            prop_assert_eq!(info.is_some(), length >= 104);
            prop_assert_eq!(info.is_some_and(|i| i.busy_us.is_some()), length >= 176);
        }
    }

    /// Waits until `stream` has news of one of these kinds.
    fn polled(stream: &std::net::TcpStream, wanted: PollFlags) {
        let mut descriptors = [PollFd::new(stream, wanted)];
        assert_eq!(poll(&mut descriptors, None), Ok(1));
        assert!(descriptors[0].revents().intersects(wanted));
    }

    #[test]
    fn urgent_data_is_noticed_before_it_is_read_and_found_at_its_mark_each_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        set_urgent_inline(&far, true).unwrap();
        let mut bytes = [0; 16];
        for urgent in [b'1', b'2'] {
            (&near).write_all(b"before").unwrap();
            assert_eq!(send(&near, &[urgent], SendFlags::OOB), Ok(1));
            polled(&far, PollFlags::PRI);
            assert!(!is_at_urgent_mark(&far).unwrap());
            assert_eq!(far.read(&mut bytes).unwrap(), 6);
            assert!(is_at_urgent_mark(&far).unwrap());
            assert_eq!(far.read(&mut bytes).unwrap(), 1);
            assert_eq!(bytes[0], urgent);
            assert!(!is_at_urgent_mark(&far).unwrap());
        }
    }

    #[test]
    fn the_kernel_tells_how_many_bytes_have_gone_each_way() {
        run(async {
            let (mut near, mut far) = pair().await;
            near.write_all(b"question").await.unwrap();
            far.read_exact(&mut [0; 8]).await.unwrap();
            far.write_all(b"answer").await.unwrap();
            near.read_exact(&mut [0; 6]).await.unwrap();
            let info = TcpInfo::of(&near).unwrap();
            // The SYN counts as one byte (RFC 9293 §3.4).
            assert_eq!(info.bytes_acknowledged, Some(9));
            assert_eq!(info.bytes_received, Some(6));
            assert!(info.round_trip_us > 0 && info.send_mss_bytes > 500);
            assert!(info.congestion_window_segments > 0);
        });
    }

    #[test]
    fn what_is_no_tcp_has_no_information() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }

    #[test]
    fn options_that_are_set_are_in_force() {
        run(async {
            let (near, _far) = pair().await;
            set_no_delay(&near, true).unwrap();
            assert!(near.nodelay().unwrap());
            set_quick_ack(&near, true).unwrap();
            acknowledge_now(&near).unwrap();
            set_congestion_control(&near, "reno").unwrap();
            assert_eq!(congestion_control(&near).unwrap(), "reno");
        });
    }

    /// Returns how many bytes a connection accepts while its peer reads nothing.
    fn room_bytes(near: &TcpSocket) -> usize {
        near.set_nonblocking(true).unwrap();
        let mut near = near;
        let mut all = 0;
        while let Ok(count) = near.write(&[0; 16_384]) {
            all += count;
        }
        all
    }

    #[test]
    fn a_limit_of_unsent_bytes_leaves_less_in_a_connection_that_is_not_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = || TcpSocket::connect(listener.local_addr().unwrap()).unwrap();
        let (usual, limited) = (open(), open());
        set_unsent_limit(&limited, 65_536).unwrap();
        let (usual, limited) = (room_bytes(&usual), room_bytes(&limited));
        assert!(limited < usual / 2, "{limited} and {usual}");
    }

    #[test]
    fn a_congestion_control_that_nobody_has_is_refused() {
        run(async {
            let (near, _far) = pair().await;
            assert!(set_congestion_control(&near, "vegetarian").is_err());
        });
    }

    #[test]
    fn the_ephemeral_ports_are_what_the_kernel_says() {
        assert_eq!(ports_in("32768\t60999\n"), Some(32768..=60999));
        assert_eq!(ports_in("60999 32768"), None);
        assert_eq!(ports_in("32768"), None);
        assert_eq!(ports_in("-1 70000"), None);
        assert!(*ephemeral_ports().unwrap().start() > 0);
    }
}
