//! ICMP messages (RFC 792): parsing and construction.
//!
//! A host answers echo requests and sends Destination Unreachable about datagrams of others. It
//! processes the errors that routers and other hosts send about its own datagrams. Source quench is
//! ignored (RFC 6633). Redirects are ignored too, because there is only one link, and so are the
//! obsolete queries. Invalid length fields in a message cannot cause a read beyond its end. The
//! engine in the parent module decides when to send an answer and to which host.

use super::ipv4::{Header, Parsed, Protocol};
use crate::checksum::Sum;
use crate::time::Duration;
use core::net::IpAddr;

/// Length of the header in front of the data of every message used here, in bytes.
pub const HEADER_LEN: usize = 8;

/// Length of the transport header that every error quotes, in bytes (RFC 792).
pub const QUOTED_LEN: usize = 8;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
pub(super) const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

const CODE_FRAGMENTATION_NEEDED: u8 = 4;
const CODE_REASSEMBLY: u8 = 1;

/// Header of the Time Exceeded error that is sent when fragments of a datagram do not arrive in
/// time.
pub(super) const REASSEMBLY_TIME_EXCEEDED: [u8; HEADER_LEN] =
    [TIME_EXCEEDED, CODE_REASSEMBLY, 0, 0, 0, 0, 0, 0];

/// Reasons why a datagram could not reach its destination (RFC 792, RFC 1122 §3.2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// 0: no route to the network.
    Network,
    /// 1: no route to the host.
    Host,
    /// 2: the host does not support the protocol.
    Protocol,
    /// 3: the port has no listener.
    Port,
    /// 5: the source route cannot be followed.
    SourceRouteFailed,
    /// 13: administratively prohibited (RFC 1812 §5.2.7.1).
    Prohibited,
    /// Any other code. Code 4 is [`ErrorKind::FragmentationNeeded`] instead.
    Other(u8),
}

impl Unreachable {
    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Network,
            1 => Self::Host,
            2 => Self::Protocol,
            3 => Self::Port,
            5 => Self::SourceRouteFailed,
            13 => Self::Prohibited,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Network => 0,
            Self::Host => 1,
            Self::Protocol => 2,
            Self::Port => 3,
            Self::SourceRouteFailed => 5,
            Self::Prohibited => 13,
            Self::Other(code) => code,
        }
    }
}

/// Kinds of ICMP errors about datagrams that this host sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The datagram did not reach its destination.
    Unreachable(Unreachable),
    /// The datagram is longer than the MTU of a link on its path, and has DF set (RFC 1191).
    FragmentationNeeded {
        /// The MTU of the link in bytes, if the router provides it. A transport must reject a value
        /// below a length that is known to reach the destination (RFC 5927 §7).
        next_hop_mtu: Option<u16>,
    },
    /// The time to live expired.
    TimeExceeded,
    /// A host or router rejected the header of the datagram.
    ParameterProblem,
}

/// An error about a datagram with a local source address.
///
/// Anyone can forge such an error: a transport accepts it only if `first_bytes` match data that it
/// has in flight (RFC 5927 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The sender of the error: a router on the path, or the destination.
    pub reporter: IpAddr,
    /// The protocol of the datagram.
    pub protocol: Protocol,
    /// The source of the datagram, a local address.
    pub source: IpAddr,
    /// The destination of the datagram.
    pub destination: IpAddr,
    /// The first bytes of the datagram's payload: ports, and TCP's sequence number.
    pub first_bytes: [u8; QUOTED_LEN],
}

/// An answer to an echo request of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoReply {
    /// The sender of the reply.
    pub source: IpAddr,
    /// The identifier of the request.
    pub identifier: u16,
    /// The sequence number of the request.
    pub sequence: u16,
    /// Number of data bytes in request and reply.
    pub payload_len: usize,
    /// Time from the creation of the request to the arrival of the reply.
    pub round_trip: Duration,
    /// Time to live of the received reply.
    pub time_to_live: u8,
}

/// A parsed ICMP message.
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
        /// The header of the datagram.
        quoted: Parsed,
        /// The first bytes after that header.
        first_bytes: [u8; QUOTED_LEN],
    },
    /// A message that a host may ignore.
    Ignored,
}

/// Reasons why bytes are not an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// There are fewer bytes than the message needs.
    Truncated,
    /// The checksum is wrong.
    Checksum,
    /// The quotation in an error is not the start of an IPv4 datagram.
    Quote,
}

impl Message {
    /// Parses the ICMP message in `bytes`. There must be no other bytes after it.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is damaged or truncated.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(MessageError::Truncated);
        };
        if !Sum::default().bytes(bytes).is_good() {
            return Err(MessageError::Checksum);
        }
        let [message_type, code, _, _, b4, b5, b6, b7] = *header;
        let second_half = u16::from_be_bytes([b6, b7]);
        let kind = match (message_type, code) {
            (ECHO_REQUEST, 0) => return Ok(Self::EchoRequest),
            (ECHO_REPLY, 0) => {
                return Ok(Self::EchoReply {
                    identifier: u16::from_be_bytes([b4, b5]),
                    sequence: second_half,
                    payload_len: body.len(),
                });
            }
            (UNREACHABLE, CODE_FRAGMENTATION_NEEDED) => ErrorKind::FragmentationNeeded {
                // A router older than RFC 1191 sends zero here.
                next_hop_mtu: (second_half != 0).then_some(second_half),
            },
            (UNREACHABLE, code) => ErrorKind::Unreachable(Unreachable::from_code(code)),
            (TIME_EXCEEDED, _) => ErrorKind::TimeExceeded,
            (PARAMETER_PROBLEM, _) => ErrorKind::ParameterProblem,
            _ => return Ok(Self::Ignored),
        };
        let quoted = Header::parse_quoted(body).map_err(|_| MessageError::Quote)?;
        let payload = body.get(quoted.header_len..).unwrap_or_default();
        let first_bytes = *payload.first_chunk().ok_or(MessageError::Quote)?;
        Ok(Self::Error { kind, quoted, first_bytes })
    }
}

/// Turns the echo request in `message` into its reply; the data is unchanged.
pub(super) fn make_reply(message: &mut [u8]) {
    if let Some(message_type) = message.first_mut() {
        *message_type = ECHO_REPLY;
    }
    seal(message);
}

/// Returns the header of an echo request without its checksum.
pub(super) fn echo_request(identifier: u16, sequence: u16) -> [u8; HEADER_LEN] {
    let [i0, i1] = identifier.to_be_bytes();
    let [s0, s1] = sequence.to_be_bytes();
    [ECHO_REQUEST, 0, 0, 0, i0, i1, s0, s1]
}

/// Returns the header of an error without its checksum.
pub(super) fn unreachable(reason: Unreachable) -> [u8; HEADER_LEN] {
    [UNREACHABLE, reason.code(), 0, 0, 0, 0, 0, 0]
}

/// Writes the checksum into a message that is otherwise complete.
pub fn seal(message: &mut [u8]) {
    set_checksum(message, [0, 0]);
    let sum = Sum::default().bytes(message);
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
    use etherparse::{Icmpv4Header, Icmpv4Type};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn sealed(header: [u8; HEADER_LEN], body: &[u8]) -> Vec<u8> {
        let mut message = [&header, body].concat();
        seal(&mut message);
        message
    }

    fn fragmentation_needed(next_hop_mtu: u16) -> Vec<u8> {
        let [m0, m1] = next_hop_mtu.to_be_bytes();
        let mut body = [0; 28];
        body[0] = 0x45;
        sealed([UNREACHABLE, CODE_FRAGMENTATION_NEEDED, 0, 0, 0, 0, m0, m1], &body)
    }

    proptest! {
        #[test]
        fn any_body_of_an_error_is_read_or_refused(
            message_type in prop::sample::select(&[UNREACHABLE, TIME_EXCEEDED, PARAMETER_PROBLEM]),
            first: u8,
            rest: Vec<u8>,
        ) {
            let body = [&[0x40 | first & 0x0F], rest.as_slice()].concat();
            let message = sealed([message_type, 0, 0, 0, 0, 0, 0, 0], &body);
            if let Ok(Message::Error { quoted, .. }) = Message::parse(&message) {
                prop_assert!(quoted.header_len + QUOTED_LEN <= body.len());
            }
        }

        #[test]
        fn etherparse_reads_the_request_and_the_reply(
            identifier: u16, sequence: u16, data: Vec<u8>
        ) {
            let mut message = sealed(echo_request(identifier, sequence), &data);
            let echo = etherparse::IcmpEchoHeader { id: identifier, seq: sequence };
            let (theirs, rest) = Icmpv4Header::from_slice(&message).unwrap();
            prop_assert_eq!(theirs.icmp_type.clone(), Icmpv4Type::EchoRequest(echo));
            prop_assert_eq!(theirs.checksum, theirs.icmp_type.calc_checksum(rest));
            make_reply(&mut message);
            let (theirs, rest) = Icmpv4Header::from_slice(&message).unwrap();
            prop_assert_eq!(theirs.icmp_type.clone(), Icmpv4Type::EchoReply(echo));
            prop_assert_eq!(theirs.checksum, theirs.icmp_type.calc_checksum(rest));
            prop_assert_eq!(rest, data);
        }

        #[test]
        fn an_echo_reply_that_etherparse_makes_is_read(
            identifier: u16, sequence: u16, data: Vec<u8>
        ) {
            let echo = etherparse::IcmpEchoHeader { id: identifier, seq: sequence };
            let theirs = Icmpv4Header::with_checksum(Icmpv4Type::EchoReply(echo), &data);
            let message = [theirs.to_bytes().as_slice(), &data].concat();
            let expected =
                Message::EchoReply { identifier, sequence, payload_len: data.len() };
            prop_assert_eq!(Message::parse(&message), Ok(expected));
        }
    }

    #[test]
    fn a_damaged_message_is_refused() {
        let mut message = sealed(echo_request(1, 2), b"data");
        message[9] ^= 1;
        assert_eq!(Message::parse(&message), Err(MessageError::Checksum));
    }

    #[test]
    fn a_next_hop_mtu_of_zero_is_unknown() {
        let mtu = |field| match Message::parse(&fragmentation_needed(field)) {
            Ok(Message::Error {
                kind: ErrorKind::FragmentationNeeded { next_hop_mtu }, ..
            }) => next_hop_mtu,
            other => panic!("{other:?}"),
        };
        assert_eq!((mtu(0), mtu(1400)), (None, Some(1400)));
    }

    // req RFC9293:MUST-55
    #[test]
    fn source_quench_and_redirect_are_ignored() {
        let read = [4, 5].map(|kind| Message::parse(&sealed([kind, 0, 0, 0, 0, 0, 0, 0], &[])));
        assert_eq!(read, [Ok(Message::Ignored); 2]);
    }

    #[test]
    fn each_code_of_destination_unreachable_is_written_back() {
        for code in 0..=255 {
            assert_eq!(unreachable(Unreachable::from_code(code)), [3, code, 0, 0, 0, 0, 0, 0]);
        }
    }
}
