//! The IPv6 header and the extension headers after it (RFC 8200).
//!
//! A datagram is parsed in two steps. [`Header::parse`] checks version and payload length. A buffer
//! may be longer than the payload, because a link pads short frames; the remaining bytes are
//! ignored. [`walk`] then processes the extension headers up to an upper-layer header or a fragment
//! header. After reassembly the walk continues with the header after the fragment header.
//!
//! The walk is bounded: it reads each byte once, and at most [`HEADERS_MAX`] headers and
//! [`OPTIONS_MAX`] options that are not padding (RFC 8504 §5.3). Padding is the only known option.
//! The two highest bits of an unknown option determine whether the option is skipped or the
//! datagram is dropped (RFC 8200 §4.2). A routing header of any type, including type 0 (RFC 5095),
//! is skipped if its route is complete and rejected otherwise. Jumbograms are not supported.
//!
//! Headers constructed here have no extension header, except the fragment header of a fragment.

use super::ipv4::Protocol;
use crate::checksum::Sum;
use core::net::Ipv6Addr;

/// Length of the fixed header, in bytes.
pub const HEADER_LEN: usize = 40;
/// Length of a fragment header, in bytes.
pub const FRAGMENT_HEADER_LEN: usize = 8;
/// Minimum MTU of every link (RFC 8200 §5), in bytes.
pub const MTU_MIN: u16 = 1280;
/// Maximum number of extension headers of one datagram.
pub const HEADERS_MAX: usize = 8;
/// Maximum number of options of one datagram that are not padding.
pub const OPTIONS_MAX: usize = 16;

/// Offset of the Next Header field in the fixed header.
pub const NEXT_HEADER_AT: usize = 6;
/// Offset of the Payload Length field in the fixed header.
pub const PAYLOAD_LENGTH_AT: usize = 4;
/// Next Header value of a fragment header (RFC 8200 §4.5).
pub const FRAGMENT: u8 = 44;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;

/// The fields of the fixed header, except its length and its next header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Maximum number of further hops.
    pub hop_limit: u8,
    /// Six bits DSCP (RFC 2474), two ECN (RFC 3168).
    pub dscp_ecn: u8,
    /// 20 bits that are the same in every datagram of a flow (RFC 6437), 0 for none.
    pub flow_label: u32,
}

/// A fixed header and the properties of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The header.
    pub header: Header,
    /// The next header, at which [`walk`] begins.
    pub next_header: u8,
    /// Length of the whole datagram in bytes. [`Header::parse`] checks that it does not exceed the
    /// buffer. [`parse_quoted`] does not check it.
    pub total_len: usize,
}

/// Reasons why bytes are not an IPv6 datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// There are fewer bytes than the header has.
    Truncated,
    /// The version is not 6.
    Version,
    /// The payload length exceeds the buffer.
    PayloadLength,
}

impl Header {
    /// Parses the fixed header of the datagram at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` do not hold a whole IPv6 datagram.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, HeaderError> {
        let parsed = read(bytes)?;
        if parsed.total_len > bytes.len() {
            return Err(HeaderError::PayloadLength);
        }
        Ok(parsed)
    }

    /// Returns the fixed header of a datagram with a payload of `payload_len` bytes. The payload
    /// begins with a header of the type `next_header`.
    #[must_use]
    pub fn emit(&self, next_header: u8, payload_len: u16) -> [u8; HEADER_LEN] {
        let first_word = 6 << 28 | u32::from(self.dscp_ecn) << 20 | self.flow_label & FLOW_LABEL;
        let mut bytes = [0; HEADER_LEN];
        let [p0, p1] = payload_len.to_be_bytes();
        let second_word = [p0, p1, next_header, self.hop_limit];
        let fields = first_word.to_be_bytes().into_iter().chain(second_word);
        let addresses = self.source.octets().into_iter().chain(self.destination.octets());
        bytes.iter_mut().zip(fields.chain(addresses)).for_each(|(to, from)| *to = from);
        bytes
    }
}

const FLOW_LABEL: u32 = 0x000F_FFFF;

fn read(bytes: &[u8]) -> Result<Parsed, HeaderError> {
    let (fixed, _) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
    let (first_word, rest) = fixed.split_first_chunk::<4>().ok_or(HeaderError::Truncated)?;
    let (middle, rest) = rest.split_first_chunk::<4>().ok_or(HeaderError::Truncated)?;
    let (source, rest) = rest.split_first_chunk::<16>().ok_or(HeaderError::Truncated)?;
    let destination = rest.first_chunk::<16>().ok_or(HeaderError::Truncated)?;
    let first_word = u32::from_be_bytes(*first_word);
    if first_word >> 28 != 6 {
        return Err(HeaderError::Version);
    }
    let [p0, p1, next_header, hop_limit] = *middle;
    let [_, dscp_ecn, _, _] = (first_word >> 4).to_be_bytes();
    let header = Header {
        source: Ipv6Addr::from(*source),
        destination: Ipv6Addr::from(*destination),
        hop_limit,
        dscp_ecn,
        flow_label: first_word & FLOW_LABEL,
    };
    let total_len = HEADER_LEN + usize::from(u16::from_be_bytes([p0, p1]));
    Ok(Parsed { header, next_header, total_len })
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Type of the first header in the reassembled data. Only the value in the first fragment is
    /// used.
    pub next_header: u8,
    /// Offset of this fragment's data in the data of the whole datagram, in bytes; a multiple of 8.
    pub offset: u16,
    /// Whether another fragment follows.
    pub more: bool,
    /// Distinguishes the fragments of one datagram from those of another.
    pub identification: u32,
}

impl Fragment {
    /// Returns whether this is the only fragment of its datagram. Such a fragment is processed
    /// independently of all others (RFC 6946 §4).
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn emit(&self) -> [u8; FRAGMENT_HEADER_LEN] {
        let [o0, o1] = (self.offset & OFFSET | u16::from(self.more)).to_be_bytes();
        let [i0, i1, i2, i3] = self.identification.to_be_bytes();
        [self.next_header, 0, o0, o1, i0, i1, i2, i3]
    }
}

const OFFSET: u16 = 0xFFF8;

/// The result of a walk over extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderChain {
    /// The end of the chain.
    pub end: End,
    /// Number of bytes walked.
    pub len: usize,
    /// Offset of the last Next Header field from the start of the datagram. An error about an
    /// unknown protocol has this offset as its pointer.
    pub next_header_at: usize,
}

/// The end of a chain of extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A protocol that is not an extension header, supported or not.
    Upper(Protocol),
    /// A fragment header. It is part of the chain.
    Fragment(Fragment),
    /// No Next Header (59): the datagram has no data.
    Nothing,
}

/// Reasons why a datagram is dropped for its extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A header extends beyond the end of the datagram.
    Truncated,
    /// There are more headers or options than in any legitimate datagram.
    TooMany,
    /// An unknown option requests a silent drop.
    Option,
    /// An error that is reported with Parameter Problem if the source is a unicast address. The
    /// destination must be a unicast address too, unless `allows_group` is true.
    Problem {
        /// The kind of problem.
        problem: Problem,
        /// Offset of the problem from the start of the datagram, in bytes.
        pointer: usize,
        /// Whether the error is sent even for a datagram to a group.
        allows_group: bool,
    },
}

/// The codes of Parameter Problem (RFC 4443 §3.4, RFC 7112 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// 0: an erroneous header field.
    Field,
    /// 1: an unrecognized next header.
    NextHeader,
    /// 2: an unrecognized option.
    Option,
    /// 3: a first fragment with an incomplete header chain.
    FirstFragment,
}

/// Walks the extension headers at the start of `bytes`. The first header has the type
/// `next_header`.
///
/// `start` is the offset of `bytes` in the datagram, and `next_header_at` is the offset of the Next
/// Header field that contains `next_header`.
///
/// # Errors
///
/// Returns the reason if the datagram must be dropped.
pub fn walk(
    next_header: u8,
    bytes: &[u8],
    start: usize,
    next_header_at: usize,
) -> Result<HeaderChain, Refusal> {
    let mut walker = HeaderChainParser { rest: bytes, at: start, next_header_at, options: 0 };
    let mut next_header = next_header;
    for _ in 0..=HEADERS_MAX {
        next_header = match walker.step(next_header)? {
            Ok(next_header) => next_header,
            Err(end) => {
                let len = walker.at - start;
                let next_header_at = walker.next_header_at;
                return Ok(HeaderChain { end, len, next_header_at });
            }
        };
    }
    Err(Refusal::TooMany)
}

struct HeaderChainParser<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the datagram.
    at: usize,
    next_header_at: usize,
    /// Number of options processed so far, without padding.
    options: usize,
}

impl<'a> HeaderChainParser<'a> {
    /// Processes one header, and returns the next header's number or the end of the walk.
    fn step(&mut self, next_header: u8) -> Result<Result<u8, End>, Refusal> {
        match next_header {
            // RFC 8200 §4.1: a hop-by-hop options header is recognized only as the first header.
            HOP_BY_HOP if self.next_header_at != NEXT_HEADER_AT => {
                Err(field(Problem::NextHeader, self.next_header_at))
            }
            HOP_BY_HOP | DESTINATION_OPTIONS => {
                let (next, header) = self.split_header()?;
                self.walk_options(header)?;
                Ok(Ok(next))
            }
            ROUTING => {
                let start = self.at;
                let (next, header) = self.split_header()?;
                // RFC 8200 §4.4: type and segments left are the third and the fourth byte.
                match header {
                    [_, 0, ..] => Ok(Ok(next)),
                    _ => Err(field(Problem::Field, start + 2)),
                }
            }
            FRAGMENT => {
                let (header, rest) =
                    self.rest.split_first_chunk::<8>().ok_or(Refusal::Truncated)?;
                let [next_header, _, o0, o1, i0, i1, i2, i3] = *header;
                let offset = u16::from_be_bytes([o0, o1]);
                self.next_header_at = self.at;
                self.at += FRAGMENT_HEADER_LEN;
                self.rest = rest;
                Ok(Err(End::Fragment(Fragment {
                    next_header,
                    offset: offset & OFFSET,
                    more: offset & 1 != 0,
                    identification: u32::from_be_bytes([i0, i1, i2, i3]),
                })))
            }
            NO_NEXT_HEADER => Ok(Err(End::Nothing)),
            upper => Ok(Err(End::Upper(upper.into()))),
        }
    }

    /// Splits off the next header. Its second byte is its length in units of 8 bytes, excluding the
    /// first 8. Returns the Next Header value and the bytes after the length.
    fn split_header(&mut self) -> Result<(u8, &'a [u8]), Refusal> {
        let [next_header, units, ..] = *self.rest else { return Err(Refusal::Truncated) };
        let len = (usize::from(units) + 1) * 8;
        let (header, rest) = self.rest.split_at_checked(len).ok_or(Refusal::Truncated)?;
        self.next_header_at = self.at;
        self.at += len;
        self.rest = rest;
        Ok((next_header, header.get(2..).unwrap_or_default()))
    }

    /// Checks the options of the last header that was split off.
    fn walk_options(&mut self, mut options: &[u8]) -> Result<(), Refusal> {
        while let [kind, rest @ ..] = options {
            if *kind == PAD_1 {
                options = rest;
                continue;
            }
            let at = self.at - options.len();
            // The length does not count the two bytes of kind and length.
            let len = rest.first().ok_or(field(Problem::Field, at))?;
            let after_option = rest.get(1 + usize::from(*len)..);
            options = after_option.ok_or(field(Problem::Field, at + 1))?;
            if *kind == PAD_N {
                continue;
            }
            self.options += 1;
            if self.options > OPTIONS_MAX {
                return Err(Refusal::TooMany);
            }
            // RFC 8200 §4.2: the action for an unknown option.
            let problem = Problem::Option;
            let pointer = at;
            match kind >> 6 {
                0 => {}
                1 => return Err(Refusal::Option),
                2 => return Err(Refusal::Problem { problem, pointer, allows_group: true }),
                _ => return Err(field(problem, pointer)),
            }
        }
        Ok(())
    }
}

const PAD_1: u8 = 0;
const PAD_N: u8 = 1;

fn field(problem: Problem, pointer: usize) -> Refusal {
    Refusal::Problem { problem, pointer, allows_group: false }
}

/// The start of a datagram quoted by an ICMPv6 error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotedHeaders {
    /// The fixed header; its lengths are unchecked.
    pub parsed: Parsed,
    /// The protocol after the extension headers.
    pub protocol: Protocol,
    /// Length of fixed and extension headers, in bytes.
    pub headers_len: usize,
    /// Whether the datagram is a fragment other than the first. Such a fragment contains no header
    /// of `protocol`.
    pub is_later_fragment: bool,
}

/// Parses the headers of a truncated datagram that an ICMPv6 error quotes.
///
/// # Errors
///
/// Returns an error if `bytes` do not contain all headers of the datagram.
pub fn parse_quoted(bytes: &[u8]) -> Result<QuotedHeaders, HeaderError> {
    let parsed = read(bytes)?;
    let mut next_header = parsed.next_header;
    let mut headers_len = HEADER_LEN;
    let mut next_header_at = NEXT_HEADER_AT;
    let mut is_later_fragment = false;
    // Datagrams sent here have at most one fragment header, so the walk continues at most once.
    for _ in 0..2 {
        let rest = bytes.get(headers_len..).unwrap_or_default();
        let result = walk(next_header, rest, headers_len, next_header_at);
        let walk = result.map_err(|_| HeaderError::Truncated)?;
        headers_len += walk.len;
        next_header_at = walk.next_header_at;
        match walk.end {
            End::Upper(protocol) => {
                return Ok(QuotedHeaders { parsed, protocol, headers_len, is_later_fragment });
            }
            End::Fragment(fragment) if fragment.offset == 0 => next_header = fragment.next_header,
            End::Fragment(fragment) => {
                is_later_fragment = true;
                let protocol = fragment.next_header.into();
                return Ok(QuotedHeaders { parsed, protocol, headers_len, is_later_fragment });
            }
            End::Nothing => break,
        }
    }
    Err(HeaderError::Truncated)
}

/// Returns the sum over the pseudo header for an upper-layer checksum (RFC 8200 §8.1). `len` is the
/// number of bytes of upper-layer header and data.
#[must_use]
pub fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, protocol: Protocol, len: u16) -> Sum {
    Sum::default()
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(u16::from(u8::from(protocol)))
        .word(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const TCP: u8 = 6;

    fn plain() -> Header {
        Header {
            source: Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 2),
            destination: Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1),
            hop_limit: 64,
            dscp_ecn: 0,
            flow_label: 0,
        }
    }

    fn any_header() -> impl Strategy<Value = Header> {
        (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u8>(), any::<u8>(), 0..=FLOW_LABEL).prop_map(
            |(source, destination, hop_limit, dscp_ecn, flow_label)| Header {
                source: source.into(),
                destination: destination.into(),
                hop_limit,
                dscp_ecn,
                flow_label,
            },
        )
    }

    /// Walks the headers after a fixed header.
    fn walk_headers(next_header: u8, bytes: &[u8]) -> Result<HeaderChain, Refusal> {
        walk(next_header, bytes, HEADER_LEN, NEXT_HEADER_AT)
    }

    /// Returns an options header of 8 bytes in front of TCP.
    fn options(bytes: [u8; 6]) -> Vec<u8> {
        [[TCP, 0].as_slice(), &bytes, b"data"].concat()
    }

    proptest! {
        #[test]
        fn a_walk_stays_within_the_bytes(
            bytes in prop::collection::vec(prop::sample::select(&[0, 1, 5, 43, 44, 60, 6]), 0..200),
            next_header in prop::sample::select(&[0, 43, 44, 60]),
        ) {
            if let Ok(walk) = walk_headers(next_header, &bytes) {
                prop_assert!(walk.len <= bytes.len());
                prop_assert!(walk.next_header_at < HEADER_LEN + bytes.len());
            }
        }

        #[test]
        fn emitted_packets_are_parsed_back_equal(header in any_header(), data_len in 0..1500_u16) {
            let mut bytes = header.emit(TCP, data_len).to_vec();
            bytes.resize(HEADER_LEN + usize::from(data_len), 0);
            let parsed = Header::parse(&bytes).unwrap();
            let expected = Parsed { header, next_header: TCP, total_len: bytes.len() };
            prop_assert_eq!(parsed, expected);
        }

        #[test]
        fn etherparse_reads_what_is_emitted(header in any_header(), payload_len: u16) {
            let bytes = header.emit(TCP, payload_len);
            let (theirs, _) = etherparse::Ipv6Header::from_slice(&bytes).unwrap();
            prop_assert_eq!(theirs.source_addr(), header.source);
            prop_assert_eq!(theirs.destination_addr(), header.destination);
            prop_assert_eq!(theirs.hop_limit, header.hop_limit);
            prop_assert_eq!(theirs.traffic_class, header.dscp_ecn);
            prop_assert_eq!(theirs.flow_label.value(), header.flow_label);
            prop_assert_eq!((theirs.next_header.0, theirs.payload_length), (TCP, payload_len));
        }

        #[test]
        fn a_fragment_header_is_skipped_and_parsed(
            next_header: u8, units in 0..=0x1FFF_u16, more: bool, identification: u32
        ) {
            let fragment = Fragment { next_header, offset: units * 8, more, identification };
            let walk = walk_headers(FRAGMENT, &fragment.emit()).unwrap();
            prop_assert_eq!(walk.end, End::Fragment(fragment));
            prop_assert_eq!((walk.len, walk.next_header_at), (8, 40));
        }

        #[test]
        fn etherparse_reads_the_fragment_header(
            next_header: u8, units in 0..=0x1FFF_u16, more: bool, identification: u32
        ) {
            let fragment = Fragment { next_header, offset: units * 8, more, identification };
            let bytes = fragment.emit();
            let (theirs, _) = etherparse::Ipv6FragmentHeader::from_slice(&bytes).unwrap();
            prop_assert_eq!(theirs.fragment_offset.byte_offset(), fragment.offset);
            prop_assert_eq!((theirs.more_fragments, theirs.next_header.0), (more, next_header));
            prop_assert_eq!(theirs.identification, identification);
        }
    }

    #[test]
    fn a_payload_longer_than_the_buffer_is_refused() {
        let bytes = plain().emit(TCP, 1);
        assert_eq!(Header::parse(&bytes), Err(HeaderError::PayloadLength));
    }

    #[test]
    fn a_header_of_version_4_is_rejected() {
        assert_eq!(Header::parse(&[0x45; 40]), Err(HeaderError::Version));
    }

    #[test]
    fn a_chain_of_every_kind_of_header_leads_to_the_protocol() {
        let bytes = [
            [60, 0, 1, 4, 0, 0, 0, 0],
            [43, 0, 0, 0, 0, 0, 0, 0],
            [60, 0, 0, 0, 0, 0, 0, 0],
            [TCP, 0, 5, 2, 0, 0, 0, 0],
        ];
        let walk = walk_headers(0, bytes.as_flattened()).unwrap();
        let end = End::Upper(Protocol::Tcp);
        assert_eq!(walk, HeaderChain { end, len: 32, next_header_at: 64 });
    }

    #[test]
    fn hop_by_hop_options_are_rejected_unless_they_come_first() {
        let bytes = [[0, 0, 0, 0, 0, 0, 0, 0], [TCP, 0, 0, 0, 0, 0, 0, 0]];
        let expected = Err(field(Problem::NextHeader, 40));
        assert_eq!(walk_headers(60, bytes.as_flattened()), expected);
        assert_eq!(walk_headers(0, bytes.as_flattened()), expected);
    }

    #[test]
    fn a_routing_header_of_type_0_is_skipped_only_if_its_route_is_complete() {
        let route = |segments_left| walk_headers(43, &[TCP, 0, 0, segments_left, 0, 0, 0, 0]);
        assert_eq!(route(0).unwrap().end, End::Upper(Protocol::Tcp));
        assert_eq!(route(1), Err(field(Problem::Field, 42)));
    }

    #[test]
    fn no_next_header_ends_the_walk() {
        assert_eq!(walk_headers(59, b"rest").unwrap().end, End::Nothing);
    }

    #[test]
    fn an_unknown_option_is_treated_as_its_two_highest_bits_request() {
        let results = [0x3E, 0x7E, 0xBE, 0xFE]
            .map(|kind| walk_headers(60, &options([0, kind, 2, 7, 7, 0])).err());
        let problem = Problem::Option;
        assert_eq!(
            results,
            [
                None,
                Some(Refusal::Option),
                Some(Refusal::Problem { problem, pointer: 43, allows_group: true }),
                Some(Refusal::Problem { problem, pointer: 43, allows_group: false }),
            ]
        );
    }

    #[test]
    fn an_option_beyond_the_end_of_its_header_is_rejected() {
        let result = walk_headers(60, &options([0, 0x3E, 4, 0, 0, 0]));
        assert_eq!(result, Err(field(Problem::Field, 44)));
        assert_eq!(walk_headers(60, &options([0, 0, 0, 0, 0, 1])), Err(field(Problem::Field, 47)));
    }

    #[test]
    fn eight_headers_are_accepted_and_nine_are_rejected() {
        let chain = |before| {
            [[60, 0, 1, 4, 0, 0, 0, 0].repeat(before), vec![59, 0, 1, 4, 0, 0, 0, 0]].concat()
        };
        assert_eq!(walk_headers(60, &chain(7)).unwrap().end, End::Nothing);
        assert_eq!(walk_headers(60, &chain(8)), Err(Refusal::TooMany));
    }

    #[test]
    fn sixteen_options_are_accepted_and_seventeen_are_rejected() {
        let header = |count: usize| {
            let len = (2 + count * 2).div_ceil(8) * 8;
            let mut bytes =
                [vec![TCP, u8::try_from(len / 8 - 1).unwrap()], [0x3E, 0].repeat(count)].concat();
            bytes.resize(len, 0);
            bytes
        };
        assert!(walk_headers(60, &header(16)).is_ok());
        assert_eq!(walk_headers(60, &header(17)), Err(Refusal::TooMany));
    }

    #[test]
    fn a_quote_of_a_first_fragment_leads_to_the_protocol() {
        let fragment = Fragment { next_header: TCP, offset: 0, more: true, identification: 9 };
        let bytes = [plain().emit(FRAGMENT, 1240).as_slice(), &fragment.emit(), b"ports"].concat();
        let quoted = parse_quoted(&bytes).unwrap();
        assert_eq!((quoted.protocol, quoted.headers_len), (Protocol::Tcp, 48));
        assert!(!quoted.is_later_fragment);
    }

    #[test]
    fn the_pseudo_header_is_summed_as_its_forty_bytes_are() {
        let header = plain();
        let addresses = [header.source.octets(), header.destination.octets()].concat();
        let bytes = [addresses.as_slice(), &[0, 0, 0x12, 0x34, 0, 0, 0, 6]].concat();
        let sum = pseudo_header(header.source, header.destination, Protocol::Tcp, 0x1234);
        assert_eq!(sum.finish(), Sum::default().bytes(&bytes).finish());
    }
}
