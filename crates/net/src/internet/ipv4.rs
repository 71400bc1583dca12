//! The IPv4 header (RFC 791 §3.1): parsing into a type that is always valid, and construction.
//!
//! A header is accepted only if its version, header length, total length and checksum are valid,
//! and if no option extends beyond the header. A buffer may be longer than the total length,
//! because a link pads short frames; the remaining bytes are ignored. Options are skipped (RFC 1122
//! §3.2.1.8: those not understood MUST be ignored). They are only searched for a source route that
//! is not complete, because a host does not forward datagrams. Headers constructed here never have
//! options.

use crate::checksum::Sum;
use core::net::Ipv4Addr;

/// Length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// The fields of an IPv4 header, except its lengths and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Protocol of the data.
    pub protocol: Protocol,
    /// Maximum number of further hops.
    pub time_to_live: u8,
    /// Distinguishes the fragments of one datagram from those of another; 0 if DF is set.
    pub identification: u16,
    /// The byte that was once the type of service: six bits DSCP (RFC 2474), two ECN (RFC 3168).
    pub dscp_ecn: u8,
    /// DF: no router may cut the datagram into fragments.
    pub dont_fragment: bool,
}

/// The protocol field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Protocol number 1.
    Icmp,
    /// Protocol number 6.
    Tcp,
    /// Protocol number 17.
    Udp,
    /// Any other number.
    Other(u8),
}

impl Protocol {
    /// 58: ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: Self = Self::Other(58);
}

/// A header and the properties of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The header.
    pub header: Header,
    /// Length of the header with its options, 20 to 60 bytes.
    pub header_len: usize,
    /// Length of the whole datagram in bytes. [`Header::parse`] checks that it is not less than the
    /// header and not more than the buffer. [`Header::parse_quoted`] does not check it.
    pub total_len: usize,
    /// Whether this is a fragment: MF is set or the offset is not 0.
    pub is_fragment: bool,
    /// Offset of this fragment's data in the data of the whole datagram, in bytes; 0 if this is not
    /// a fragment.
    pub fragment_offset: usize,
    /// MF: another fragment follows.
    pub more_fragments: bool,
    /// The options between byte 20 and the end of the header.
    pub options: Options,
}

/// Summary of a header's options. This host executes none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Options {
    /// The header has no options.
    Absent,
    /// The options were skipped.
    Skipped,
    /// The options were skipped. One of them is a source route that still has hops.
    RouteUnfinished,
}

/// Reasons why bytes are not an IPv4 datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// There are fewer bytes than the header has.
    Truncated,
    /// The version is not 4.
    Version,
    /// The header length field is below five words.
    HeaderLength,
    /// The total length is below that of the header or above that of the buffer.
    TotalLength,
    /// The checksum is wrong.
    Checksum,
    /// The length of an option is impossible.
    Options,
}

impl Header {
    /// Parses the header of the datagram at the start of `bytes`, with all checks.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` are not a whole and undamaged IPv4 datagram.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, HeaderError> {
        let (mut parsed, header) = read(bytes)?;
        if parsed.total_len < parsed.header_len || parsed.total_len > bytes.len() {
            return Err(HeaderError::TotalLength);
        }
        let sum = match header.try_into() {
            Ok(fixed) => Sum::default().header(fixed),
            Err(_) => Sum::default().bytes(header),
        };
        if !sum.is_good() {
            return Err(HeaderError::Checksum);
        }
        if header.len() > HEADER_LEN {
            parsed.options = walk_options(header.get(HEADER_LEN..).unwrap_or_default())?;
        }
        Ok(parsed)
    }

    /// Parses the header of a datagram that an ICMP error quotes.
    ///
    /// The quotation is truncated, and routers have changed the header on its path, so total length
    /// and checksum are not checked. Only the length of the options is checked, not their content.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` do not hold a whole IPv4 header.
    pub fn parse_quoted(bytes: &[u8]) -> Result<Parsed, HeaderError> {
        read(bytes).map(|(parsed, _)| parsed)
    }

    /// Returns the header of a datagram of `total_len` bytes. It has a checksum and no options.
    ///
    /// # Panics
    ///
    /// Panics if `total_len` is less than the header, which is a bug in this crate.
    #[must_use]
    pub fn emit(&self, total_len: u16) -> [u8; HEADER_LEN] {
        self.emit_fragment(total_len, 0, false)
    }

    /// Returns the header of a fragment of `total_len` bytes.
    ///
    /// `offset` is the position of the fragment's data in the data of the datagram, in bytes; it is
    /// a multiple of eight. `more` is true if another fragment follows.
    ///
    /// # Panics
    ///
    /// Panics if `total_len` is less than the header, which is a bug in this crate.
    #[must_use]
    pub fn emit_fragment(&self, total_len: u16, offset: u16, more: bool) -> [u8; HEADER_LEN] {
        assert!(usize::from(total_len) >= HEADER_LEN, "total_len is less than the header length");
        let [t0, t1] = total_len.to_be_bytes();
        let [i0, i1] = self.identification.to_be_bytes();
        let dont_fragment = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let more_fragments = if more { MORE_FRAGMENTS } else { 0 };
        let [f0, f1] = (dont_fragment | more_fragments | (offset / 8)).to_be_bytes();
        let protocol = self.protocol.into();
        let [s0, s1, s2, s3] = self.source.octets();
        let [d0, d1, d2, d3] = self.destination.octets();
        #[rustfmt::skip]
        let mut bytes = [
            VERSION_AND_FIVE_WORDS, self.dscp_ecn, t0, t1, i0, i1, f0, f1,
            self.time_to_live, protocol, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3,
        ];
        [bytes[10], bytes[11]] = Sum::default().header(&bytes).finish().to_be_bytes();
        bytes
    }
}

const VERSION_AND_FIVE_WORDS: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1FFF;

impl From<u8> for Protocol {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Icmp,
            6 => Self::Tcp,
            17 => Self::Udp,
            other => Self::Other(other),
        }
    }
}

impl From<Protocol> for u8 {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Icmp => 1,
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Other(number) => number,
        }
    }
}

/// Parses the fields, and returns them with the bytes of the header.
fn read(bytes: &[u8]) -> Result<(Parsed, &[u8]), HeaderError> {
    let fixed_bytes = bytes.first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
    #[rustfmt::skip]
    let [version_ihl, dscp_ecn, t0, t1, i0, i1, f0, f1, time_to_live, protocol, _, _,
         s0, s1, s2, s3, d0, d1, d2, d3] = *fixed_bytes;
    if version_ihl >> 4 != 4 {
        return Err(HeaderError::Version);
    }
    let header_len = usize::from(version_ihl & 0x0F) * 4;
    if header_len < HEADER_LEN {
        return Err(HeaderError::HeaderLength);
    }
    let header_bytes = bytes.get(..header_len).ok_or(HeaderError::Truncated)?;
    let fragment = u16::from_be_bytes([f0, f1]);
    let header = Header {
        source: Ipv4Addr::new(s0, s1, s2, s3),
        destination: Ipv4Addr::new(d0, d1, d2, d3),
        protocol: protocol.into(),
        time_to_live,
        identification: u16::from_be_bytes([i0, i1]),
        dscp_ecn,
        dont_fragment: fragment & DONT_FRAGMENT != 0,
    };
    let parsed = Parsed {
        header,
        header_len,
        total_len: usize::from(u16::from_be_bytes([t0, t1])),
        is_fragment: fragment & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0,
        fragment_offset: usize::from(fragment & FRAGMENT_OFFSET) * 8,
        more_fragments: fragment & MORE_FRAGMENTS != 0,
        options: if header_len > HEADER_LEN { Options::Skipped } else { Options::Absent },
    };
    Ok((parsed, header_bytes))
}

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;

fn walk_options(mut options: &[u8]) -> Result<Options, HeaderError> {
    let mut summary = if options.is_empty() { Options::Absent } else { Options::Skipped };
    while let [kind, rest @ ..] = options {
        match *kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => options = rest,
            kind => {
                // The length counts the two bytes of kind and length (RFC 791 §3.1).
                let len = rest.first().copied().unwrap_or(0);
                if len < 2 {
                    return Err(HeaderError::Options);
                }
                let Some((option, behind)) = options.split_at_checked(usize::from(len)) else {
                    return Err(HeaderError::Options);
                };
                if matches!(kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) {
                    // A source route is complete if its pointer is past its end.
                    let pointer = option.get(2).ok_or(HeaderError::Options)?;
                    if *pointer <= len {
                        summary = Options::RouteUnfinished;
                    }
                }
                options = behind;
            }
        }
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn any_header() -> impl Strategy<Value = Header> {
        (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<[u8; 3]>(), any::<u16>(), any::<bool>())
            .prop_map(|(source, destination, [protocol, time_to_live, dscp_ecn], id, df)| Header {
                source: source.into(),
                destination: destination.into(),
                protocol: protocol.into(),
                time_to_live,
                identification: id,
                dscp_ecn,
                dont_fragment: df,
            })
    }

    fn plain() -> Header {
        Header {
            source: Ipv4Addr::new(10, 0, 0, 2),
            destination: Ipv4Addr::new(10, 0, 0, 1),
            protocol: Protocol::Udp,
            time_to_live: 64,
            identification: 0,
            dscp_ecn: 0,
            dont_fragment: true,
        }
    }

    /// Returns a header with `options`, padded to whole words, and a correct checksum.
    fn with_options(options: &[u8]) -> Vec<u8> {
        let words = options.len().div_ceil(4);
        let mut bytes = plain().emit(u16::try_from(HEADER_LEN + words * 4).unwrap()).to_vec();
        bytes.extend_from_slice(options);
        bytes.resize(HEADER_LEN + words * 4, 0);
        bytes[0] += u8::try_from(words).unwrap();
        bytes[10..12].fill(0);
        let sum = Sum::default().bytes(&bytes).finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn parsed_ranges_lie_within_the_buffer(bytes: Vec<u8>) {
            if let Ok(parsed) = Header::parse(&bytes) {
                prop_assert!(HEADER_LEN <= parsed.header_len);
                prop_assert!(parsed.header_len <= parsed.total_len);
                prop_assert!(parsed.total_len <= bytes.len());
            }
        }

        #[test]
        fn emitted_packets_are_parsed_back_equal(header in any_header(), data_len in 0..1500_u16) {
            let mut bytes = header.emit(20 + data_len).to_vec();
            bytes.resize(20 + usize::from(data_len), 0);
            let parsed = Header::parse(&bytes).unwrap();
            prop_assert_eq!(parsed.header, header);
            prop_assert_eq!((parsed.header_len, parsed.total_len), (20, bytes.len()));
            prop_assert!(!parsed.is_fragment && parsed.options == Options::Absent);
        }

        #[test]
        fn etherparse_reads_what_is_emitted(header in any_header(), data_len in 0..1500_u16) {
            let bytes = header.emit(20 + data_len);
            let (theirs, rest) = etherparse::Ipv4Header::from_slice(&bytes).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(theirs.source, header.source.octets());
            prop_assert_eq!(theirs.destination, header.destination.octets());
            prop_assert_eq!(theirs.protocol.0, u8::from(header.protocol));
            prop_assert_eq!(theirs.time_to_live, header.time_to_live);
            prop_assert_eq!(theirs.identification, header.identification);
            prop_assert_eq!(theirs.dscp.value() << 2 | theirs.ecn.value(), header.dscp_ecn);
            prop_assert_eq!(theirs.dont_fragment, header.dont_fragment);
            prop_assert_eq!(theirs.total_len, 20 + data_len);
            prop_assert_eq!(theirs.header_checksum, theirs.calc_header_checksum());
        }

        #[test]
        fn headers_from_etherparse_are_parsed(
            header in any_header(), data_len in 0..1500_u16, no_operations in 0..=10_usize
        ) {
            let theirs = etherparse::Ipv4Header {
                time_to_live: header.time_to_live,
                identification: header.identification,
                dscp: (header.dscp_ecn >> 2).try_into().unwrap(),
                ecn: (header.dscp_ecn & 3).try_into().unwrap(),
                dont_fragment: header.dont_fragment,
                options: std::vec![NO_OPERATION; no_operations * 4].as_slice().try_into().unwrap(),
                ..etherparse::Ipv4Header::new(
                    data_len,
                    header.time_to_live,
                    u8::from(header.protocol).into(),
                    header.source.octets(),
                    header.destination.octets(),
                ).unwrap()
            };
            let total_len = 20 + no_operations * 4 + usize::from(data_len);
            let theirs = etherparse::Ipv4Header {
                total_len: u16::try_from(total_len).unwrap(),
                ..theirs
            };
            let mut bytes = Vec::new();
            theirs.write(&mut bytes).unwrap();
            bytes.resize(total_len, 0);
            let parsed = Header::parse(&bytes).unwrap();
            prop_assert_eq!(parsed.header, header);
            prop_assert_eq!(parsed.total_len, total_len);
        }

        #[test]
        fn parsed_headers_equal_those_of_etherparse(
            bytes in prop::collection::vec(any::<u8>(), 40)
        ) {
            let mut bytes = bytes;
            bytes[0] = 0x40 | bytes[0] & 0x0F;
            bytes[2..4].copy_from_slice(&[0, 40]);
            bytes[10..12].fill(0);
            let covered = (usize::from(bytes[0] & 0x0F) * 4).min(40);
            let sum = Sum::default().bytes(&bytes[..covered]).finish();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            let theirs = etherparse::Ipv4HeaderSlice::from_slice(&bytes);
            match Header::parse(&bytes) {
                Ok(ours) => {
                    let theirs = theirs.unwrap();
                    prop_assert_eq!(ours.header.source, theirs.source_addr());
                    prop_assert_eq!(ours.header.destination, theirs.destination_addr());
                    prop_assert_eq!(ours.header_len, theirs.slice().len());
                    prop_assert_eq!(ours.is_fragment, theirs.is_fragmenting_payload());
                }
                Err(HeaderError::Options) => prop_assert!(theirs.is_ok()),
                Err(_) => prop_assert!(theirs.is_err()),
            }
        }
    }

    #[test]
    fn row_8_a_header_cut_at_any_byte_is_refused() {
        let complete_header = with_options(&[NO_OPERATION; 40]);
        let accepted_count = (0..complete_header.len())
            .filter(|len| Header::parse(&complete_header[..*len]).is_ok())
            .count();
        assert!(Header::parse(&complete_header).is_ok());
        assert_eq!(accepted_count, 0);
    }

    #[test]
    fn row_6_a_total_length_above_the_buffer_is_rejected() {
        let lengths = (20..=0xFFFF_u16).filter(|len| {
            let mut bytes = plain().emit(*len).to_vec();
            bytes.resize(100, 0);
            Header::parse(&bytes).is_ok_and(|parsed| parsed.total_len == usize::from(*len))
        });
        assert!(lengths.eq(20..=100));
    }

    #[test]
    fn row_6_a_total_length_below_that_of_the_header_is_refused() {
        let mut bytes = with_options(&[NO_OPERATION; 8]);
        bytes[2..4].copy_from_slice(&[0, 27]);
        assert_eq!(Header::parse(&bytes), Err(HeaderError::TotalLength));
    }

    #[test]
    fn a_damaged_bit_anywhere_in_the_header_is_noticed() {
        let header_bytes = plain().emit(20);
        let undetected_bits = (0..160).filter(|bit| {
            let mut damaged = header_bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            Header::parse(&damaged).is_ok()
        });
        assert_eq!(undetected_bits.count(), 0);
    }

    // req RFC1122:3.2.1.8-MUST-3
    #[test]
    fn row_9_an_option_is_skipped_only_if_its_length_fits() {
        let failures = (2..=255_u8).flat_map(|kind| (0..=255).map(move |len| (kind, len))).filter(
            |(kind, len)| {
                let mut options = [NO_OPERATION; 40];
                options[..2].copy_from_slice(&[*kind, *len]);
                let needed = if matches!(*kind, 131 | 137) { 3 } else { 2 };
                Header::parse(&with_options(&options)).is_ok() != (needed..=40).contains(len)
            },
        );
        assert_eq!(failures.count(), 0);
    }

    #[test]
    fn row_9_an_option_without_its_length_byte_is_refused() {
        let mut options = [NO_OPERATION; 40];
        options[39] = 7;
        assert_eq!(Header::parse(&with_options(&options)), Err(HeaderError::Options));
    }

    #[test]
    fn bytes_after_the_end_of_options_are_ignored() {
        let options = [NO_OPERATION, END_OF_OPTIONS, 7, 0];
        assert_eq!(Header::parse(&with_options(&options)).unwrap().options, Options::Skipped);
    }

    // req RFC1122:3.2.1.8c-MUST-2
    #[test]
    fn a_source_route_is_finished_when_its_pointer_is_past_its_end() {
        let options = |pointer| with_options(&[LOOSE_SOURCE_ROUTE, 7, pointer, 10, 0, 0, 9]);
        let parsed_options = |pointer| Header::parse(&options(pointer)).unwrap().options;
        assert_eq!(
            (parsed_options(7), parsed_options(8)),
            (Options::RouteUnfinished, Options::Skipped)
        );
    }
}
