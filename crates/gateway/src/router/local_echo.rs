//! Echo replies of the router itself (RFC 1812 §4.3.3.6, RFC 4443 §4.2).

use crate::incremental_checksum::{replace_word, word_at};
use net::checksum::Sum;
use net::internet::ipv4::{self, Protocol};
use net::internet::ipv6;

/// Type and code of the messages, as one word.
const REQUEST: u16 = 8 << 8;
const REPLY: u16 = 0;
const REQUEST_V6: u16 = 128 << 8;
const REPLY_V6: u16 = 129 << 8;
const ICMP_CHECKSUM_AT: usize = 2;
const IPV4_TTL_AT: usize = 8;
const IPV4_CHECKSUM_AT: usize = 10;
const IPV4_ADDRESSES_AT: usize = 12;
const IPV6_ADDRESSES_AT: usize = 8;
const IPV6_HOP_LIMIT_AT: usize = 7;
const HOPS: u8 = 64;

/// Turns an IPv4 echo request into its reply. Returns `None` if it is not a valid request.
pub(super) fn reply_ipv4(parsed: &ipv4::Parsed, datagram: &mut [u8]) -> Option<()> {
    // Fragments are not reassembled, and options are not reversed.
    if parsed.header.protocol != Protocol::Icmp
        || parsed.is_fragment
        || parsed.header_len != ipv4::HEADER_LEN
    {
        return None;
    }
    let message = datagram.get_mut(ipv4::HEADER_LEN..)?;
    if word_at(message, 0)? != REQUEST || !Sum::default().bytes(message).is_good() {
        return None;
    }
    replace_word(message, 0, REPLY, ICMP_CHECKSUM_AT)?;
    let (source, destination) =
        datagram.get_mut(IPV4_ADDRESSES_AT..ipv4::HEADER_LEN)?.split_at_mut_checked(4)?;
    source.swap_with_slice(destination);
    let [_, protocol] = word_at(datagram, IPV4_TTL_AT)?.to_be_bytes();
    let word = u16::from_be_bytes([HOPS, protocol]);
    replace_word(datagram, IPV4_TTL_AT, word, IPV4_CHECKSUM_AT)
}

/// Turns an IPv6 echo request without extension headers into its reply. Returns `None` if it is not
/// a valid request.
pub(super) fn reply_ipv6(parsed: &ipv6::Parsed, datagram: &mut [u8]) -> Option<()> {
    const ICMPV6: u8 = 58;
    if parsed.next_header != ICMPV6 {
        return None;
    }
    let message = datagram.get_mut(ipv6::HEADER_LEN..)?;
    let len = u16::try_from(message.len()).ok()?;
    let header = &parsed.header;
    let sum = ipv6::pseudo_header(header.source, header.destination, Protocol::ICMPV6, len);
    if word_at(message, 0)? != REQUEST_V6 || !sum.bytes(message).is_good() {
        return None;
    }
    replace_word(message, 0, REPLY_V6, ICMP_CHECKSUM_AT)?;
    let (source, destination) =
        datagram.get_mut(IPV6_ADDRESSES_AT..ipv6::HEADER_LEN)?.split_at_mut_checked(16)?;
    source.swap_with_slice(destination);
    *datagram.get_mut(IPV6_HOP_LIMIT_AT)? = HOPS;
    Some(())
}
