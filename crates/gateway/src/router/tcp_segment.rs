//! The fields of a TCP segment in a datagram that a router reads (RFC 9293 §3.1).

use net::internet::ipv4::Protocol;
use net::internet::{ipv4, ipv6};
use std::net::{IpAddr, SocketAddr};

/// Offset of the window in the TCP header.
const WINDOW_AT: usize = 14;
/// Offset of the checksum in the TCP header.
const CHECKSUM_AT: usize = 16;
const HEADER_LEN: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const OPTION_END: u8 = 0;
const OPTION_NO_OPERATION: u8 = 1;
const OPTION_WINDOW_SCALE: u8 = 3;
const OPTION_MD5: u8 = 19;
const OPTION_AUTHENTICATION: u8 = 29;

/// A TCP segment in a datagram that is not a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpSegment {
    /// Source address and port.
    pub(super) source: SocketAddr,
    /// Destination address and port.
    pub(super) destination: SocketAddr,
    /// Whether SYN is set.
    pub(super) is_syn: bool,
    /// Whether RST is set.
    pub(super) is_reset: bool,
    /// The sequence number after the segment.
    pub(super) end: u32,
    /// The acknowledgment number, if ACK is set.
    pub(super) acknowledged: Option<u32>,
    /// The window field, without its scale.
    pub(super) window: u16,
    /// Shift count of the window scale option.
    pub(super) window_shift: Option<u8>,
    /// Whether a digest covers the window.
    pub(super) has_digest: bool,
    /// Number of data bytes; FIN counts as one.
    pub(super) data_len: usize,
    /// Length of the datagram.
    pub(super) total_len: usize,
    /// Offset of the TCP header in the datagram.
    header_at: usize,
}

impl TcpSegment {
    /// Parses the segment in an IPv4 datagram.
    pub(super) fn of_ipv4(parsed: &ipv4::Parsed, datagram: &[u8]) -> Option<Self> {
        if parsed.header.protocol != Protocol::Tcp || parsed.is_fragment {
            return None;
        }
        let ends = [parsed.header.source.into(), parsed.header.destination.into()];
        Self::parse(ends, parsed.header_len, datagram)
    }

    /// Parses the segment in an IPv6 datagram.
    pub(super) fn of_ipv6(parsed: &ipv6::Parsed, datagram: &[u8]) -> Option<Self> {
        let rest = datagram.get(ipv6::HEADER_LEN..)?;
        let chain =
            ipv6::walk(parsed.next_header, rest, ipv6::HEADER_LEN, ipv6::NEXT_HEADER_AT).ok()?;
        if chain.end != ipv6::End::Upper(Protocol::Tcp) {
            return None;
        }
        let ends = [parsed.header.source.into(), parsed.header.destination.into()];
        Self::parse(ends, ipv6::HEADER_LEN + chain.len, datagram)
    }

    fn parse(
        [source, destination]: [IpAddr; 2],
        header_at: usize,
        datagram: &[u8],
    ) -> Option<Self> {
        let segment = datagram.get(header_at..)?;
        let fixed: &[u8; HEADER_LEN] = segment.first_chunk()?;
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, flags, w0, w1, ..] = *fixed;
        let header_len = usize::from(offset >> 4) * 4;
        let options = segment.get(HEADER_LEN..header_len)?;
        let (window_shift, has_digest) = read_options(options);
        let data_len = segment.len() - header_len + usize::from(flags & FIN != 0);
        let sequence = u32::from_be_bytes([q0, q1, q2, q3]);
        let sequence_len = u32::try_from(data_len).unwrap_or(0) + u32::from(flags & SYN != 0);
        Some(Self {
            end: sequence.wrapping_add(sequence_len),
            source: SocketAddr::new(source, u16::from_be_bytes([s0, s1])),
            destination: SocketAddr::new(destination, u16::from_be_bytes([d0, d1])),
            is_syn: flags & SYN != 0,
            is_reset: flags & RST != 0,
            acknowledged: (flags & ACK != 0).then(|| u32::from_be_bytes([a0, a1, a2, a3])),
            window: u16::from_be_bytes([w0, w1]),
            window_shift,
            has_digest,
            data_len,
            total_len: datagram.len(),
            header_at,
        })
    }

    /// Returns the offsets of the window and of the checksum in the datagram.
    pub(super) const fn window_and_checksum_at(&self) -> (usize, usize) {
        (self.header_at + WINDOW_AT, self.header_at + CHECKSUM_AT)
    }
}

/// Returns the shift count of the window scale option, and whether an option has a digest.
fn read_options(mut options: &[u8]) -> (Option<u8>, bool) {
    let mut shift = None;
    let mut has_digest = false;
    while let Some((kind, after)) = options.split_first() {
        let len = match (*kind, after.first()) {
            (OPTION_END, _) | (_, None) => break,
            (OPTION_NO_OPERATION, _) => 1,
            (_, Some(len)) => usize::from(*len).max(2),
        };
        match *kind {
            OPTION_WINDOW_SCALE if len == 3 => shift = after.get(1).copied(),
            OPTION_MD5 | OPTION_AUTHENTICATION => has_digest = true,
            _ => {}
        }
        options = options.get(len..).unwrap_or_default();
    }
    (shift, has_digest)
}
