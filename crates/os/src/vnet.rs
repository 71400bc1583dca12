//! The virtio_net header, which precedes a packet and describes its unfinished checksum and
//! segmentation.
//!
//! `struct virtio_net_hdr` (VIRTIO 1.2 §5.1.6; <linux/virtio_net.h>) states that the packet after
//! the header still lacks its checksum, or that it is a super-packet, to be cut into segments of a
//! given size. TUN, TAP and packet sockets of Linux write the header in front of received packets
//! and expect it in front of sent packets. The fields of the header are in native byte order, as
//! for a device that has not negotiated VIRTIO 1.0.
//!
//! Packets from the kernel may originate in another virtual machine: [`Header::decode`] rejects
//! values that do not fit the packet, so that every offset in the returned [`Header`] lies inside
//! the packet.

use std::{error, fmt, io};

/// Length in bytes of the header with `num_buffers`.
pub const HEADER_LEN: usize = 12;

/// A packet that a device has read into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Unfinished parts of the packet; offsets count from the start of the packet.
    pub header: Header,
    /// Offset of the packet in the buffer, in bytes; its header may precede it.
    pub start: usize,
    /// Length of the packet in bytes.
    pub length: usize,
}

/// Unfinished parts of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// State of the transport's checksum.
    pub checksum: Checksum,
    /// Segmentation of the packet, if it is a super-packet.
    pub segmentation: Option<Segmentation>,
}

/// State of a transport's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Not verified: the packet contains a checksum that may be wrong.
    #[default]
    None,
    /// The checksum field contains the sum of the pseudo-header; the sum of the bytes from `start`
    /// on must be added.
    Partial {
        /// Offset of the first byte to sum, in bytes from the start of the packet.
        start: u16,
        /// Offset of the checksum field, in bytes from `start`.
        offset: u16,
    },
    /// The checksum was verified, or the packet never left the machine.
    Valid,
}

/// Segmentation of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Type of the resulting packets.
    pub kind: SegmentKind,
    /// Payload of each packet except the last, in bytes; never 0.
    pub segment_size_bytes: u16,
    /// Length in bytes of the headers that each packet repeats. The value is only a hint: the
    /// kernel may report a larger length.
    pub header_len_bytes: u16,
    /// True if only the first segment may carry CWR (RFC 3168 §6.1.2).
    pub has_ecn: bool,
}

/// Types of packets into which a super-packet can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams of equal size, over IPv4 or IPv6.
    Udp,
}

impl Received {
    /// Parses a received packet and the header before it, which together are the first `count`
    /// bytes of `buffer`. `header_len` is the length of the header: [`HEADER_LEN`], the length of
    /// the short header before VIRTIO 1.0, or 0.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` with a [`HeaderError`].
    pub(crate) fn parse(buffer: &[u8], header_len: usize, count: usize) -> io::Result<Self> {
        let length = count.saturating_sub(header_len);
        let complete_header = buffer.first_chunk().filter(|_| header_len.min(count) == HEADER_LEN);
        let header = complete_header.copied().unwrap_or_else(|| {
            let mut header = [0; HEADER_LEN];
            for (to, from) in header.iter_mut().zip(buffer.iter().take(header_len.min(count))) {
                *to = *from;
            }
            header
        });
        match Header::decode(&header, length) {
            Ok(header) => Ok(Self { header, start: header_len, length }),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    /// Returns the range of the packet in the buffer.
    #[must_use]
    pub fn range(&self) -> core::ops::Range<usize> {
        self.start..self.start + self.length
    }
}

impl Header {
    /// Parses the header `bytes` of a packet of `packet_len` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`HeaderError`] if the header does not fit the packet.
    pub fn decode(bytes: &[u8; HEADER_LEN], packet_len: usize) -> Result<Self, HeaderError> {
        let [flags, kind, h0, h1, s0, s1, c0, c1, o0, o1, _, _] = *bytes;
        let start = u16::from_ne_bytes([c0, c1]);
        let offset = u16::from_ne_bytes([o0, o1]);
        let checksum = if flags & NEEDS_CHECKSUM != 0 {
            let end = usize::from(start) + usize::from(offset) + CHECKSUM_LEN;
            if end > packet_len {
                return Err(HeaderError::ChecksumOutside { end, packet_len });
            }
            Checksum::Partial { start, offset }
        } else if flags & DATA_VALID != 0 {
            Checksum::Valid
        } else {
            Checksum::None
        };
        let Some(kind_of_segment) = kind_from(kind)? else {
            return Ok(Self { checksum, segmentation: None });
        };
        let segment_size_bytes = u16::from_ne_bytes([s0, s1]);
        if segment_size_bytes == 0 {
            return Err(HeaderError::EmptySegments);
        }
        let header_len_bytes = u16::from_ne_bytes([h0, h1]);
        if usize::from(header_len_bytes) > packet_len {
            return Err(HeaderError::HeadersOutside { header_len_bytes, packet_len });
        }
        let segmentation = Segmentation {
            kind: kind_of_segment,
            segment_size_bytes,
            header_len_bytes,
            has_ecn: kind & GSO_ECN != 0,
        };
        Ok(Self { checksum, segmentation: Some(segmentation) })
    }

    /// Encodes the header; `num_buffers` is 0, which every device accepts.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let (flags, start, offset) = match self.checksum {
            Checksum::None => (0, 0, 0),
            Checksum::Partial { start, offset } => (NEEDS_CHECKSUM, start, offset),
            Checksum::Valid => (DATA_VALID, 0, 0),
        };
        let (kind, header_len, size) = match self.segmentation {
            None => (GSO_NONE, 0, 0),
            Some(cut) => {
                let ecn = if cut.has_ecn { GSO_ECN } else { 0 };
                (kind_to(cut.kind) | ecn, cut.header_len_bytes, cut.segment_size_bytes)
            }
        };
        let [h0, h1] = header_len.to_ne_bytes();
        let [s0, s1] = size.to_ne_bytes();
        let [c0, c1] = start.to_ne_bytes();
        let [o0, o1] = offset.to_ne_bytes();
        [flags, kind, h0, h1, s0, s1, c0, c1, o0, o1, 0, 0]
    }

    /// Returns whether the packet has no unfinished parts.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.segmentation.is_none() && !matches!(self.checksum, Checksum::Partial { .. })
    }
}

fn kind_from(kind: u8) -> Result<Option<SegmentKind>, HeaderError> {
    match kind & !GSO_ECN {
        GSO_NONE => Ok(None),
        GSO_TCP4 => Ok(Some(SegmentKind::Tcp4)),
        GSO_TCP6 => Ok(Some(SegmentKind::Tcp6)),
        GSO_UDP_L4 => Ok(Some(SegmentKind::Udp)),
        _ => Err(HeaderError::UnknownKind(kind)),
    }
}

fn kind_to(kind: SegmentKind) -> u8 {
    match kind {
        SegmentKind::Tcp4 => GSO_TCP4,
        SegmentKind::Tcp6 => GSO_TCP6,
        SegmentKind::Udp => GSO_UDP_L4,
    }
}

/// Reason for which a header does not fit its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The checksum field would end beyond the packet.
    ChecksumOutside {
        /// Offset of the end of the field, in bytes.
        end: usize,
        /// Length of the packet in bytes.
        packet_len: usize,
    },
    /// The headers would be longer than the packet.
    HeadersOutside {
        /// Length of the headers in bytes.
        header_len_bytes: u16,
        /// Length of the packet in bytes.
        packet_len: usize,
    },
    /// The segment size is 0.
    EmptySegments,
    /// The segment type was not negotiated.
    UnknownKind(u8),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChecksumOutside { end, packet_len } => {
                write!(
                    f,
                    "virtio_net header: the checksum field ends at byte {end}, but the packet has \
                     {packet_len} bytes"
                )
            }
            Self::HeadersOutside { header_len_bytes, packet_len } => {
                write!(
                    f,
                    "virtio_net header: the headers have {header_len_bytes} bytes, but the packet \
                     has {packet_len}"
                )
            }
            Self::EmptySegments => f.write_str("virtio_net header: the segment size is 0"),
            Self::UnknownKind(kind) => {
                write!(f, "virtio_net header: unknown segment type {kind:#04x}")
            }
        }
    }
}

impl error::Error for HeaderError {}

const CHECKSUM_LEN: usize = 2;
// <linux/virtio_net.h>
const NEEDS_CHECKSUM: u8 = 0x01;
const DATA_VALID: u8 = 0x02;
const GSO_NONE: u8 = 0x00;
const GSO_TCP4: u8 = 0x01;
const GSO_TCP6: u8 = 0x04;
const GSO_UDP_L4: u8 = 0x05;
const GSO_ECN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checksum() -> impl Strategy<Value = Checksum> {
        prop_oneof![
            Just(Checksum::None),
            Just(Checksum::Valid),
            (0..1000_u16, 0..1000_u16)
                .prop_map(|(start, offset)| Checksum::Partial { start, offset }),
        ]
    }

    fn segmentation() -> impl Strategy<Value = Segmentation> {
        let kinds = [SegmentKind::Tcp4, SegmentKind::Tcp6, SegmentKind::Udp];
        (prop::sample::select(kinds.to_vec()), 1..=u16::MAX, 0..2002_u16, any::<bool>()).prop_map(
            |(kind, segment_size_bytes, header_len_bytes, has_ecn)| Segmentation {
                kind,
                segment_size_bytes,
                header_len_bytes,
                has_ecn,
            },
        )
    }

    proptest! {
        #[test]
        fn headers_are_read_back_as_written(
            checksum in checksum(), segmentation in prop::option::of(segmentation())
        ) {
            let header = Header { checksum, segmentation };
            prop_assert_eq!(Header::decode(&header.encode(), 2002), Ok(header));
        }

        #[test]
        fn no_accepted_header_points_outside_its_packet(
            bytes: [u8; HEADER_LEN], packet_len in 0..70_000_usize
        ) {
            let Ok(header) = Header::decode(&bytes, packet_len) else { return Ok(()) };
            if let Checksum::Partial { start, offset } = header.checksum {
                prop_assert!(usize::from(start) + usize::from(offset) + 2 <= packet_len);
            }
            if let Some(cut) = header.segmentation {
                prop_assert!(usize::from(cut.header_len_bytes) <= packet_len);
                prop_assert!(cut.segment_size_bytes > 0);
            }
        }
    }

    #[test]
    fn a_zero_header_describes_an_ordinary_packet() {
        let header = Header::decode(&[0; HEADER_LEN], 0).unwrap();
        assert_eq!(header, Header::default());
        assert!(header.is_plain());
        assert_eq!(header.encode(), [0; HEADER_LEN]);
    }

    #[test]
    fn a_checksum_one_byte_past_the_packet_is_rejected() {
        let checksum = Checksum::Partial { start: 20, offset: 16 };
        let bytes = Header { checksum, segmentation: None }.encode();
        assert!(Header::decode(&bytes, 38).is_ok());
        let error = Header::decode(&bytes, 37).unwrap_err();
        assert_eq!(error, HeaderError::ChecksumOutside { end: 38, packet_len: 37 });
    }

    #[test]
    fn a_segmentation_type_that_was_not_negotiated_is_rejected() {
        let mut bytes = [0; HEADER_LEN];
        bytes[1] = 0x03;
        assert_eq!(Header::decode(&bytes, 100), Err(HeaderError::UnknownKind(0x03)));
    }

    #[test]
    fn a_segment_size_of_zero_is_rejected() {
        let mut bytes = [0; HEADER_LEN];
        bytes[1] = GSO_TCP4;
        assert_eq!(Header::decode(&bytes, 100), Err(HeaderError::EmptySegments));
    }
}
