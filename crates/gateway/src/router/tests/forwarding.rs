//! Forwarding, and the ICMP errors of a router.

use super::*;
use crate::incremental_checksum::{replace_word, set_word, word_at};
use crate::queue::testing::{ipv4_with, tcp4, udp4, udp6};
use net::checksum::Sum;
use net::internet::icmp::{ErrorKind, Message, Unreachable};
use net::internet::{icmpv6, ipv4, ipv6};
use net::time::Duration;

const OUTSIDE: u8 = 200;

fn two_lines() -> Fixture {
    Fixture::new(vec![slip_line(2), slip_line(3)])
}

fn v6_line(host: u8) -> LineSettings {
    let prefix = std::net::Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, u16::from(host));
    LineSettings { prefix: Some((prefix, 128)), ..slip_line(host) }
}

fn with_ttl(mut datagram: Vec<u8>, ttl: u8) -> Vec<u8> {
    let [_, protocol] = word_at(&datagram, 8).unwrap().to_be_bytes();
    replace_word(&mut datagram, 8, u16::from_be_bytes([ttl, protocol]), 10).unwrap();
    datagram
}

/// Returns the error in an ICMP datagram of the router, and the destination of the error.
fn error_in(datagram: &[u8]) -> (ErrorKind, Ipv4Addr) {
    let parsed = ipv4::Header::parse(datagram).unwrap();
    assert_eq!(parsed.header.source, ROUTER_ADDRESS);
    match Message::parse(&datagram[parsed.header_len..]) {
        Ok(Message::Error { kind, .. }) => (kind, parsed.header.destination),
        other => panic!("{other:?}"),
    }
}

fn icmpv6_in(datagram: &[u8]) -> icmpv6::Message {
    let header = ipv6::Header::parse(datagram).unwrap().header;
    icmpv6::Message::parse(header.source, header.destination, &datagram[ipv6::HEADER_LEN..])
        .unwrap()
}

#[test]
fn a_datagram_reaches_its_line_or_the_host_with_a_decremented_time_to_live() {
    let mut fixture = two_lines();
    let to_other_line = udp4(2, 3, 1, 30);
    fixture.send(0, &to_other_line);
    assert_eq!(fixture.received(1), [with_ttl(to_other_line, 63)]);
    let outside = udp4(2, OUTSIDE, 1, 30);
    fixture.send(0, &outside);
    assert_eq!(fixture.received_by_host(), [with_ttl(outside, 63)]);
    let from_host = udp4(OUTSIDE, 2, 1, 30);
    fixture.send_from_host(&from_host);
    assert_eq!(fixture.received(0), [with_ttl(from_host, 63)]);
    assert_eq!(fixture.router.packets_in_use(), 0);
}

#[test]
fn ipv6_is_forwarded_by_the_prefix_of_a_line() {
    let mut fixture = Fixture::new(vec![v6_line(2), v6_line(3)]);
    fixture.send(0, &udp6(2, 3, 1, 30));
    let received = fixture.received(1);
    assert_eq!(ipv6::Header::parse(&received[0]).unwrap().header.hop_limit, 63);
    fixture.send_from_host(&udp6(OUTSIDE, 3, 1, 30));
    assert_eq!(fixture.received(1).len(), 1);
    fixture.send(0, &udp6(2, OUTSIDE, 1, 30));
    assert_eq!(fixture.received_by_host().len(), 1);
}

// attack row 105
#[test]
fn a_source_that_is_not_the_address_of_the_line_is_dropped() {
    let mut fixture = Fixture::new(vec![v6_line(2), v6_line(3)]);
    fixture.send(0, &udp4(3, OUTSIDE, 1, 30));
    fixture.send(0, &udp6(3, OUTSIDE, 1, 30));
    fixture.send(0, &udp4(1, OUTSIDE, 1, 30));
    // The host may not use the address of a line or of the router either.
    fixture.send_from_host(&udp4(3, 2, 1, 30));
    fixture.send_from_host(&udp4(1, 2, 1, 30));
    fixture.send_from_host(&udp6(3, 2, 1, 30));
    assert_eq!(fixture.router.counters().drops.source, 6);
    assert_eq!((fixture.received(0), fixture.received_by_host()), (vec![], vec![]));
}

#[test]
fn a_datagram_without_further_hops_is_reported_to_its_source() {
    let mut fixture = two_lines();
    fixture.send(0, &with_ttl(udp4(2, OUTSIDE, 1, 30), 1));
    assert_eq!(error_in(&fixture.received(0)[0]), (ErrorKind::TimeExceeded, address(2)));
    fixture.send_from_host(&with_ttl(udp4(OUTSIDE, 2, 1, 30), 0));
    let errors = fixture.received_by_host();
    assert_eq!(error_in(&errors[0]), (ErrorKind::TimeExceeded, address(OUTSIDE)));
    assert_eq!(fixture.router.counters().drops.time_exceeded, 2);
    let mut v6 = Fixture::new(vec![v6_line(2)]);
    let mut datagram = udp6(2, OUTSIDE, 1, 30);
    datagram[7] = 1;
    v6.send(0, &datagram);
    let error = icmpv6_in(&v6.received(0)[0]);
    assert!(
        matches!(error, icmpv6::Message::Error { kind: ErrorKind::TimeExceeded, .. }),
        "{error:?}"
    );
}

#[test]
fn a_destination_without_a_line_is_unreachable_for_the_host() {
    let mut fixture = two_lines();
    fixture.send_from_host(&udp4(OUTSIDE, 9, 1, 30));
    let (kind, to) = error_in(&fixture.received_by_host()[0]);
    assert_eq!((kind, to), (ErrorKind::Unreachable(Unreachable::Host), address(OUTSIDE)));
}

#[test]
fn a_datagram_never_returns_to_its_own_line() {
    let mut fixture = two_lines();
    fixture.send(0, &udp4(2, 2, 1, 30));
    let (kind, _) = error_in(&fixture.received(0)[0]);
    assert_eq!(kind, ErrorKind::Unreachable(Unreachable::Host));
    assert_eq!(fixture.router.counters().drops.no_route, 1);
}

#[test]
fn a_long_datagram_is_fragmented_unless_it_forbids_that() {
    let mut fixture = Fixture::new(vec![LineSettings { mtu: 296, ..slip_line(2) }]);
    fixture.send_from_host(&udp4(OUTSIDE, 2, 1, 1_000));
    let fragments = fixture.received(0);
    assert_eq!(fragments.iter().map(Vec::len).collect::<Vec<_>>(), [292, 292, 292, 204]);
    let mut whole = udp4(OUTSIDE, 2, 1, 1_000);
    let flags = word_at(&whole, 6).unwrap() | 0x4000;
    replace_word(&mut whole, 6, flags, 10).unwrap();
    fixture.send_from_host(&whole);
    let (kind, _) = error_in(&fixture.received_by_host()[0]);
    assert_eq!(kind, ErrorKind::FragmentationNeeded { next_hop_mtu: Some(296) });
    assert_eq!(fixture.received(0), Vec::<Vec<u8>>::new());
}

#[test]
fn a_long_ipv6_datagram_is_never_fragmented() {
    let mut fixture = Fixture::new(vec![LineSettings { mtu: 1_280, ..v6_line(2) }]);
    fixture.send_from_host(&udp6(OUTSIDE, 2, 1, 1_300));
    let error = icmpv6_in(&fixture.received_by_host()[0]);
    let icmpv6::Message::Error { kind, .. } = error else { panic!("{error:?}") };
    assert_eq!(kind, ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1_280) });
    assert_eq!(fixture.received(0), Vec::<Vec<u8>>::new());
}

fn echo_request(source: u8, destination: u8) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 1, 2, 0, 3, 9, 9, 9];
    let checksum = Sum::default().bytes(&message).finish();
    set_word(&mut message, 2, checksum).unwrap();
    ipv4_with(source, destination, 1, &message)
}

#[test]
fn the_router_answers_echo_requests_to_its_own_addresses() {
    let mut fixture = Fixture::new(vec![v6_line(2)]);
    fixture.send(0, &echo_request(2, 1));
    let reply = fixture.received(0).remove(0);
    let parsed = ipv4::Header::parse(&reply).unwrap();
    assert_eq!((parsed.header.source, parsed.header.destination), (address(1), address(2)));
    let message = Message::parse(&reply[parsed.header_len..]).unwrap();
    assert_eq!(message, Message::EchoReply { identifier: 0x102, sequence: 3, payload_len: 3 });
    fixture.send_from_host(&echo_request(OUTSIDE, 1));
    assert_eq!(fixture.received_by_host().len(), 1);
    let mut request = udp6(2, 1, 1, 30);
    request[6] = 58;
    let [source, own] = ["2001:db8::2", "2001:db8::1"].map(|text| text.parse().unwrap());
    request[40..44].copy_from_slice(&[128, 0, 0, 0]);
    icmpv6::seal(source, own, &mut request[40..]);
    fixture.send(0, &request);
    let reply = icmpv6_in(&fixture.received(0)[0]);
    assert!(matches!(reply, icmpv6::Message::EchoReply { .. }), "{reply:?}");
    assert_eq!(fixture.router.counters().echoes, 3);
    let mut damaged = echo_request(2, 1);
    damaged[30] ^= 1;
    fixture.send(0, &damaged);
    assert_eq!((fixture.received(0), fixture.router.counters().drops.local), (vec![], 1));
}

#[test]
fn the_router_itself_has_no_ports() {
    let mut fixture = two_lines();
    for datagram in [udp4(2, 1, 1, 30), tcp4(2, 1, 1, 30), ipv4_with(2, 1, 99, &[0; 20])] {
        fixture.send(0, &datagram);
    }
    let kinds: Vec<_> = fixture.received(0).iter().map(|error| error_in(error).0).collect();
    let [port, protocol] = [Unreachable::Port, Unreachable::Protocol].map(ErrorKind::Unreachable);
    assert_eq!(kinds, [port, port, protocol]);
}

#[test]
fn errors_are_limited_in_rate_and_never_sent_about_errors_or_later_fragments() {
    let mut fixture = two_lines();
    let mut error = echo_request(2, OUTSIDE);
    error[20] = 3;
    let mut later_fragment = udp4(2, OUTSIDE, 1, 30);
    replace_word(&mut later_fragment, 6, 10, 10).unwrap();
    for datagram in [error, later_fragment] {
        fixture.send(0, &with_ttl(datagram, 1));
    }
    assert_eq!(fixture.received(0), Vec::<Vec<u8>>::new());
    for _ in 0..100 {
        fixture.send(0, &with_ttl(udp4(2, OUTSIDE, 1, 30), 1));
    }
    let count = fixture.received(0).len();
    assert!((4..=12).contains(&count), "{count}");
    assert_eq!(fixture.router.counters().errors_limited, 100 - count as u64);
    fixture.context.advance(Duration::from_secs(1));
    fixture.send(0, &with_ttl(udp4(2, OUTSIDE, 1, 30), 1));
    assert_eq!(fixture.received(0).len(), 1);
}

#[test]
fn groups_special_addresses_and_source_routes_are_dropped() {
    let mut fixture = two_lines();
    for destination in
        [[224, 0, 0, 1], [255, 255, 255, 255], [127, 0, 0, 1], [169, 254, 169, 254], [0, 0, 0, 0]]
    {
        let header = ipv4::Header {
            destination: destination.into(),
            ..ipv4::Header::parse(&udp4(2, 3, 1, 8)).unwrap().header
        };
        fixture.send(0, &[header.emit(28).as_slice(), &[0; 8]].concat());
    }
    assert_eq!(fixture.router.counters().drops.destination, 5);
    let mut routed = udp4(2, 3, 1, 20);
    routed.splice(20..20, [131, 7, 4, 10, 0, 0, 3, 0]);
    routed[0] = 0x47;
    let total_len = u16::try_from(routed.len()).unwrap();
    set_word(&mut routed, 2, total_len).unwrap();
    set_word(&mut routed, 10, 0).unwrap();
    let checksum = Sum::default().bytes(&routed[..28]).finish();
    set_word(&mut routed, 10, checksum).unwrap();
    fixture.send(0, &routed);
    assert_eq!(fixture.router.counters().drops.source_route, 1);
    assert_eq!(fixture.received(1), Vec::<Vec<u8>>::new());
}

#[test]
fn padding_after_a_datagram_is_removed() {
    let mut fixture = two_lines();
    let datagram = udp4(2, 3, 1, 30);
    fixture.send(0, &[datagram.as_slice(), &[0; 12]].concat());
    assert_eq!(fixture.received(1), [with_ttl(datagram, 63)]);
}
