//! Assignment of packets to the queues of flows: a keyed hash of the five-tuple (RFC 8290 §4.1.1).
//!
//! A host that could predict the hash could place its packets into the queue of another flow. The
//! key is therefore random (RFC 8290 §8). Fragments carry no ports after the first one, so all
//! fragments between two hosts share the queue of their addresses and protocol, in order.

use core::hash::Hasher;
use net::internet::ipv6::{self, End};
use net::rng::Rng;
use siphasher::sip::SipHasher13;

const IPV4_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = ipv6::HEADER_LEN;
/// The ports of TCP and UDP, and of other protocols that place them at the same offset.
const PORTS_LEN: usize = 4;

/// A keyed hash function of flows.
#[derive(Clone, Debug)]
pub(crate) struct FlowHasher {
    key: (u64, u64),
}

impl FlowHasher {
    /// Draws a random key.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        Self { key: (rng.next_u64(), rng.next_u64()) }
    }

    /// Returns the hash of the flow of `datagram`. Bytes that are not a datagram form one flow.
    pub(crate) fn hash(&self, datagram: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        match datagram.first().map(|first| first >> 4) {
            Some(4) => write_ipv4(datagram, &mut hasher),
            Some(6) => write_ipv6(datagram, &mut hasher),
            _ => {}
        }
        hasher.finish()
    }
}

fn write_ipv4(datagram: &[u8], hasher: &mut SipHasher13) {
    let Some((header, _)) = datagram.split_first_chunk::<IPV4_HEADER_LEN>() else { return };
    let [first, _, _, _, _, _, fragment, offset, _, protocol, _, _, addresses @ ..] = header;
    hasher.write(addresses);
    hasher.write_u8(*protocol);
    let is_fragment = fragment & 0x3F != 0 || *offset != 0;
    let header_len = usize::from(first & 0x0F) * 4;
    if !is_fragment && has_ports(*protocol) {
        write_ports(datagram.get(header_len..).unwrap_or_default(), hasher);
    }
}

fn write_ipv6(datagram: &[u8], hasher: &mut SipHasher13) {
    let Some((header, rest)) = datagram.split_first_chunk::<IPV6_HEADER_LEN>() else { return };
    let [_, _, _, _, _, _, next_header, _, addresses @ ..] = header;
    hasher.write(addresses);
    let chain = ipv6::walk(*next_header, rest, IPV6_HEADER_LEN, ipv6::NEXT_HEADER_AT);
    let Ok(chain) = chain else { return hasher.write_u8(*next_header) };
    let protocol = match chain.end {
        End::Upper(_) => datagram.get(chain.next_header_at).copied().unwrap_or(*next_header),
        End::Fragment(_) | End::Nothing => *next_header,
    };
    hasher.write_u8(protocol);
    if matches!(chain.end, End::Upper(_)) && has_ports(protocol) {
        write_ports(rest.get(chain.len..).unwrap_or_default(), hasher);
    }
}

/// Returns whether the header of a protocol starts with two ports: TCP, UDP, DCCP, SCTP and
/// UDP-Lite.
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

fn write_ports(payload: &[u8], hasher: &mut SipHasher13) {
    if let Some(ports) = payload.first_chunk::<PORTS_LEN>() {
        hasher.write(ports);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{tcp4, udp4, udp6};
    use super::*;

    fn hasher(seed: u64) -> FlowHasher {
        FlowHasher::draw(&mut Rng::from_seed(seed))
    }

    #[test]
    fn packets_of_one_flow_have_one_hash_and_each_field_of_the_tuple_changes_it() {
        let hasher = hasher(1);
        let hash = hasher.hash(&udp4(1, 2, 3, 10));
        assert_eq!(hash, hasher.hash(&udp4(1, 2, 3, 900)));
        let others = [udp4(9, 2, 3, 10), udp4(1, 9, 3, 10), udp4(1, 2, 9, 10), tcp4(1, 2, 3, 10)];
        assert!(others.iter().all(|other| hasher.hash(other) != hash));
        assert_ne!(hasher.hash(&udp6(1, 2, 3, 10)), hasher.hash(&udp6(1, 2, 4, 10)));
    }

    #[test]
    fn the_fragments_of_a_datagram_have_one_hash() {
        let hasher = hasher(1);
        let mut first = udp4(1, 2, 3, 100);
        first[6] = 0x20;
        let mut last = udp4(1, 2, 77, 100);
        last[7] = 12;
        assert_eq!(hasher.hash(&first), hasher.hash(&last));
    }

    #[test]
    fn another_key_gives_another_hash() {
        let packet = udp4(1, 2, 3, 10);
        assert_ne!(hasher(1).hash(&packet), hasher(2).hash(&packet));
    }

    #[test]
    fn an_extension_header_does_not_hide_the_ports() {
        let hasher = hasher(1);
        let with_option = |port| {
            let mut packet = udp6(1, 2, port, 10);
            packet[6] = 60;
            packet.splice(40..40, [17, 0, 1, 4, 0, 0, 0, 0]);
            packet
        };
        assert_ne!(hasher.hash(&with_option(3)), hasher.hash(&with_option(4)));
    }
}
