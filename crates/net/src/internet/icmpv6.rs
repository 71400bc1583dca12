//! ICMPv6 messages (RFC 4443): parsing and construction.
//!
//! Like ICMP, ICMPv6 contains echo requests and error messages. There are four differences:
//!
//! - The checksum also covers a pseudo header.
//! - An error quotes as many bytes of the datagram as the minimum MTU allows.
//! - Packet Too Big is a type of its own.
//! - Neighbor Discovery (RFC 4861) uses ICMPv6 messages. They are only recognized here, and
//!   processed elsewhere.
//!
//! Listener reports and node information queries are ignored.
//!
//! Errors have the types of [`super::icmp`], so that a transport need not distinguish the versions
//! of IP. The engine in the parent module decides when to send an answer and to which host. It
//! obeys the rule of [`may_report`].

use super::icmp::{ErrorKind, QUOTED_LEN, Unreachable};
use super::ipv4::Protocol;
use super::ipv6::{self, Problem, QuotedHeaders};
use core::net::Ipv6Addr;

/// Length of the header in front of the data of every message used here, in bytes.
pub const HEADER_LEN: usize = 8;

/// Maximum number of bytes that an error quotes: the error fits into 1280 bytes (RFC 4443 §2.4 c).
pub const QUOTED_MAX: usize = 1280 - ipv6::HEADER_LEN - HEADER_LEN;

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
pub(super) const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const ROUTER_SOLICITATION: u8 = 133;
const REDIRECT: u8 = 137;

const CODE_NO_ROUTE: u8 = 0;
const CODE_PROHIBITED: u8 = 1;
const CODE_ADDRESS: u8 = 3;
const CODE_PORT: u8 = 4;
const CODE_REASSEMBLY: u8 = 1;
const CODE_NEXT_HEADER: u8 = 1;

/// A parsed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An echo request.
    EchoRequest,
    /// An echo reply.
    EchoReply {
        /// The identifier of the request.
        identifier: u16,
        /// The sequence number of the request.
        sequence: u16,
        /// Number of bytes after the header of the message.
        payload_len: usize,
    },
    /// An error about a datagram.
    Error {
        /// The kind of error.
        kind: ErrorKind,
        /// The headers of the datagram.
        quoted: QuotedHeaders,
        /// The first bytes after those headers.
        first_bytes: [u8; QUOTED_LEN],
    },
    /// A message of Neighbor Discovery, types 133 to 137.
    NeighborDiscovery,
    /// A message that a host may ignore.
    Ignored,
}

/// Reasons why bytes are not an ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// There are fewer bytes than the message needs.
    Truncated,
    /// The checksum is wrong.
    Checksum,
    /// The quotation in an error is not the start of an IPv6 datagram.
    Quote,
}

impl Message {
    /// Parses the ICMPv6 message in `bytes`, sent from `source` to `destination`. There must be no
    /// other bytes after it.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is damaged or truncated.
    pub fn parse(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        bytes: &[u8],
    ) -> Result<Self, MessageError> {
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(MessageError::Truncated);
        };
        // No datagram holds a message longer than 65,535 bytes.
        let len = u16::try_from(bytes.len()).map_err(|_| MessageError::Truncated)?;
        let sum = ipv6::pseudo_header(source, destination, Protocol::ICMPV6, len);
        if !sum.bytes(bytes).is_good() {
            return Err(MessageError::Checksum);
        }
        let [message_type, code, _, _, b4, b5, b6, b7] = *header;
        let kind = match (message_type, code) {
            (ECHO_REQUEST, 0) => return Ok(Self::EchoRequest),
            (ECHO_REPLY, 0) => {
                return Ok(Self::EchoReply {
                    identifier: u16::from_be_bytes([b4, b5]),
                    sequence: u16::from_be_bytes([b6, b7]),
                    payload_len: body.len(),
                });
            }
            (ROUTER_SOLICITATION..=REDIRECT, _) => return Ok(Self::NeighborDiscovery),
            (ECHO_REQUEST.., _) => return Ok(Self::Ignored),
            (PACKET_TOO_BIG, _) => {
                let mtu = u32::from_be_bytes([b4, b5, b6, b7]);
                // An MTU above the maximum length of a datagram is no limit.
                let next_hop_mtu = Some(u16::try_from(mtu).unwrap_or(u16::MAX));
                ErrorKind::FragmentationNeeded { next_hop_mtu }
            }
            (TIME_EXCEEDED, _) => ErrorKind::TimeExceeded,
            (PARAMETER_PROBLEM, CODE_NEXT_HEADER) => ErrorKind::Unreachable(Unreachable::Protocol),
            (PARAMETER_PROBLEM, _) => ErrorKind::ParameterProblem,
            (UNREACHABLE, code) => ErrorKind::Unreachable(unreachable_of(code)),
            // RFC 4443 §2.4 a: an error of an unknown type is passed to the transport.
            (_, code) => ErrorKind::Unreachable(Unreachable::Other(code)),
        };
        let quoted = ipv6::parse_quoted(body).map_err(|_| MessageError::Quote)?;
        let payload = body.get(quoted.headers_len..).unwrap_or_default();
        let first_bytes = *payload.first_chunk().ok_or(MessageError::Quote)?;
        Ok(Self::Error { kind, quoted, first_bytes })
    }
}

fn unreachable_of(code: u8) -> Unreachable {
    match code {
        CODE_NO_ROUTE => Unreachable::Network,
        // 5 and 6: the source address or the route is rejected (RFC 4443 §3.1).
        CODE_PROHIBITED | 5 | 6 => Unreachable::Prohibited,
        CODE_ADDRESS => Unreachable::Host,
        CODE_PORT => Unreachable::Port,
        other => Unreachable::Other(other),
    }
}

/// The errors that this host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The datagram could not be delivered.
    Unreachable(Unreachable),
    /// The datagram is longer than this MTU of the next link, in bytes.
    PacketTooBig(u32),
    /// Some fragments of the datagram did not arrive in time.
    ReassemblyTimeExceeded,
    /// The datagram has an error in a header.
    ParameterProblem {
        /// The kind of problem.
        problem: Problem,
        /// Offset of the problem from the start of the datagram, in bytes.
        pointer: u32,
    },
}

impl Report {
    /// Returns the header of the error without its checksum.
    pub(super) fn header(self) -> [u8; HEADER_LEN] {
        let (message_type, code, field) = match self {
            Self::Unreachable(reason) => (UNREACHABLE, code_of(reason), 0),
            Self::PacketTooBig(mtu) => (PACKET_TOO_BIG, 0, mtu),
            Self::ReassemblyTimeExceeded => (TIME_EXCEEDED, CODE_REASSEMBLY, 0),
            Self::ParameterProblem { problem, pointer } => {
                let code = match problem {
                    Problem::Field => 0,
                    Problem::NextHeader => CODE_NEXT_HEADER,
                    Problem::Option => 2,
                    Problem::FirstFragment => 3,
                };
                (PARAMETER_PROBLEM, code, pointer)
            }
        };
        let [f0, f1, f2, f3] = field.to_be_bytes();
        [message_type, code, 0, 0, f0, f1, f2, f3]
    }

    /// Returns whether this error may be sent about a datagram to a group (RFC 4443 §2.4 e.3).
    /// `allows_group` is true if an unknown option requires the error even then.
    fn is_allowed_for_groups(self, allows_group: bool) -> bool {
        match self {
            Self::PacketTooBig(_) => true,
            Self::ParameterProblem { problem: Problem::Option, .. } => allows_group,
            _ => false,
        }
    }
}

fn code_of(reason: Unreachable) -> u8 {
    match reason {
        Unreachable::Network => CODE_NO_ROUTE,
        Unreachable::Prohibited => CODE_PROHIBITED,
        Unreachable::Port => CODE_PORT,
        Unreachable::Other(code) => code,
        Unreachable::Host | Unreachable::Protocol | Unreachable::SourceRouteFailed => CODE_ADDRESS,
    }
}

/// Returns whether RFC 4443 §2.4 e allows an error about a datagram.
///
/// `content` is the ICMPv6 message in the datagram; it is empty if the datagram carries another
/// protocol. `allows_group` is true if an option requires the error even for a datagram to a group.
#[must_use]
pub fn may_report(
    report: Report,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    content: &[u8],
    allows_group: bool,
) -> bool {
    // No error may be sent about an ICMPv6 error (a type below Echo Request) or a redirect.
    let is_forbidden = content.first().is_some_and(|t| *t < ECHO_REQUEST || *t == REDIRECT);
    let is_source_allowed =
        !source.is_unspecified() && !source.is_multicast() && !source.is_loopback();
    let is_destination_allowed =
        !destination.is_multicast() || report.is_allowed_for_groups(allows_group);
    !is_forbidden && is_source_allowed && is_destination_allowed
}

/// Turns the echo request in `message` into its reply, without its checksum; the data is unchanged.
pub(super) fn make_reply(message: &mut [u8]) {
    if let Some(message_type) = message.first_mut() {
        *message_type = ECHO_REPLY;
    }
}

/// Returns the header of an echo request without its checksum.
pub(super) fn echo_request(identifier: u16, sequence: u16) -> [u8; HEADER_LEN] {
    let [i0, i1] = identifier.to_be_bytes();
    let [s0, s1] = sequence.to_be_bytes();
    [ECHO_REQUEST, 0, 0, 0, i0, i1, s0, s1]
}

/// Writes the checksum into a message that is otherwise complete. A message that exceeds the
/// maximum length of a datagram gets no checksum.
pub fn seal(source: Ipv6Addr, destination: Ipv6Addr, message: &mut [u8]) {
    let Ok(len) = u16::try_from(message.len()) else { return };
    set_checksum(message, [0, 0]);
    let sum = ipv6::pseudo_header(source, destination, Protocol::ICMPV6, len).bytes(message);
    set_checksum(message, sum.finish().to_be_bytes());
}

fn set_checksum(message: &mut [u8], checksum: [u8; 2]) {
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Icmpv6Header, Icmpv6Type};
    use proptest::prelude::*;
    use std::vec::Vec;

    const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
    const THEIRS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

    fn sealed(header: [u8; HEADER_LEN], body: &[u8]) -> Vec<u8> {
        let mut message = [&header, body].concat();
        seal(THEIRS, OURS, &mut message);
        message
    }

    fn parse(message: &[u8]) -> Result<Message, MessageError> {
        Message::parse(THEIRS, OURS, message)
    }

    /// Returns the start of a TCP segment sent by this host.
    fn quote() -> Vec<u8> {
        let header = ipv6::Header {
            source: OURS,
            destination: THEIRS,
            hop_limit: 60,
            dscp_ecn: 0,
            flow_label: 0,
        };
        [header.emit(6, 1400).as_slice(), b"portsseq"].concat()
    }

    fn kind_of(header: [u8; HEADER_LEN]) -> ErrorKind {
        match parse(&sealed(header, &quote())) {
            Ok(Message::Error { kind, quoted, first_bytes }) => {
                assert_eq!((quoted.protocol, first_bytes), (Protocol::Tcp, *b"portsseq"));
                kind
            }
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn any_body_of_an_error_is_read_or_refused(message_type in 0..128_u8, rest: Vec<u8>) {
            let body = [&[0x60], rest.as_slice()].concat();
            let message = sealed([message_type, 0, 0, 0, 0, 0, 0, 0], &body);
            if let Ok(Message::Error { quoted, .. }) = parse(&message) {
                prop_assert!(quoted.headers_len + QUOTED_LEN <= body.len());
            }
        }

        #[test]
        fn etherparse_reads_the_request_and_the_reply(
            identifier: u16, sequence: u16, data: Vec<u8>
        ) {
            let mut message = sealed(echo_request(identifier, sequence), &data);
            let echo = etherparse::IcmpEchoHeader { id: identifier, seq: sequence };
            let (theirs, rest) = Icmpv6Header::from_slice(&message).unwrap();
            prop_assert_eq!(theirs.icmp_type, Icmpv6Type::EchoRequest(echo));
            let sum = theirs.icmp_type.calc_checksum(THEIRS.octets(), OURS.octets(), rest);
            prop_assert_eq!(Ok(theirs.checksum), sum);
            make_reply(&mut message);
            seal(OURS, THEIRS, &mut message);
            let (theirs, rest) = Icmpv6Header::from_slice(&message).unwrap();
            prop_assert_eq!(theirs.icmp_type, Icmpv6Type::EchoReply(echo));
            let sum = theirs.icmp_type.calc_checksum(OURS.octets(), THEIRS.octets(), rest);
            prop_assert_eq!(Ok(theirs.checksum), sum);
            prop_assert_eq!(rest, data);
        }

        #[test]
        fn an_echo_reply_that_etherparse_makes_is_read(
            identifier: u16, sequence: u16, data: Vec<u8>
        ) {
            let echo = Icmpv6Type::EchoReply(
                etherparse::IcmpEchoHeader { id: identifier, seq: sequence });
            let addresses = (THEIRS.octets(), OURS.octets());
            let theirs = Icmpv6Header::with_checksum(echo, addresses.0, addresses.1, &data).unwrap();
            let message = [theirs.to_bytes().as_slice(), &data].concat();
            let expected = Message::EchoReply { identifier, sequence, payload_len: data.len() };
            prop_assert_eq!(parse(&message), Ok(expected));
        }
    }

    #[test]
    fn a_message_that_was_sent_to_another_host_has_a_wrong_checksum() {
        let message = sealed(echo_request(1, 2), b"data");
        assert_eq!(Message::parse(THEIRS, GROUP, &message), Err(MessageError::Checksum));
    }

    #[test]
    fn the_four_errors_are_reported_as_icmp_messages() {
        assert_eq!(kind_of([1, 4, 0, 0, 0, 0, 0, 0]), ErrorKind::Unreachable(Unreachable::Port));
        let next_hop_mtu = Some(1400);
        assert_eq!(
            kind_of([2, 0, 0, 0, 0, 0, 5, 0x78]),
            ErrorKind::FragmentationNeeded { next_hop_mtu }
        );
        assert_eq!(kind_of([3, 0, 0, 0, 0, 0, 0, 0]), ErrorKind::TimeExceeded);
        assert_eq!(kind_of([4, 0, 0, 0, 0, 0, 0, 7]), ErrorKind::ParameterProblem);
        let no_protocol = ErrorKind::Unreachable(Unreachable::Protocol);
        assert_eq!(kind_of([4, 1, 0, 0, 0, 0, 0, 6]), no_protocol);
    }

    #[test]
    fn an_mtu_above_the_maximum_datagram_length_is_no_limit() {
        let next_hop_mtu = Some(u16::MAX);
        assert_eq!(
            kind_of([2, 0, 0, 0, 0, 1, 0, 0]),
            ErrorKind::FragmentationNeeded { next_hop_mtu }
        );
    }

    #[test]
    fn an_error_of_an_unknown_type_is_passed_to_the_transport() {
        let kind = ErrorKind::Unreachable(Unreachable::Other(9));
        assert_eq!(kind_of([100, 9, 0, 0, 0, 0, 0, 0]), kind);
    }

    #[test]
    fn neighbor_discovery_is_recognized_and_listener_queries_are_ignored() {
        let read = [133, 137, 130].map(|kind| parse(&sealed([kind, 0, 0, 0, 0, 0, 0, 0], &[])));
        let discovery = Ok(Message::NeighborDiscovery);
        assert_eq!(read, [discovery, discovery, Ok(Message::Ignored)]);
    }

    #[test]
    fn each_report_is_parsed_back() {
        let pointer = 40;
        let reports = [
            Report::Unreachable(Unreachable::Port),
            Report::PacketTooBig(1280),
            Report::ReassemblyTimeExceeded,
            Report::ParameterProblem { problem: Problem::Option, pointer },
        ];
        let headers = reports.map(Report::header);
        let expected = [
            [1, 4, 0, 0, 0, 0, 0, 0],
            [2, 0, 0, 0, 0, 0, 5, 0],
            [3, 1, 0, 0, 0, 0, 0, 0],
            [4, 2, 0, 0, 0, 0, 0, 40],
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn nothing_is_reported_about_an_error_or_a_redirect() {
        let report = Report::Unreachable(Unreachable::Port);
        let is_allowed =
            [1_u8, 127, 137, 128, 135].map(|t| may_report(report, THEIRS, OURS, &[t], false));
        assert_eq!(is_allowed, [false, false, false, true, true]);
    }

    #[test]
    fn nothing_is_reported_to_a_source_that_is_not_one_host() {
        let report = Report::Unreachable(Unreachable::Port);
        let is_allowed =
            [Ipv6Addr::UNSPECIFIED, GROUP].map(|s| may_report(report, s, OURS, &[], false));
        assert_eq!(is_allowed, [false, false]);
    }

    #[test]
    fn about_a_datagram_to_a_group_only_its_length_and_some_options_are_reported() {
        let option = Report::ParameterProblem { problem: Problem::Option, pointer: 40 };
        let is_reported_to_group =
            |report, allows_group| may_report(report, THEIRS, GROUP, &[], allows_group);
        assert!(is_reported_to_group(Report::PacketTooBig(1280), false));
        assert!(is_reported_to_group(option, true) && !is_reported_to_group(option, false));
        assert!(!is_reported_to_group(Report::Unreachable(Unreachable::Port), true));
    }

    #[test]
    fn an_echo_request_has_its_identifier_and_sequence_number_after_an_empty_checksum() {
        assert_eq!(echo_request(0x0102, 0x0304), [128, 0, 0, 0, 1, 2, 3, 4]);
    }
}
