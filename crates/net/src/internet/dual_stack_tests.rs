//! Tests of IPv6, fragments, path MTU and loopback through the public interface of the layer.

use super::icmp::{ErrorKind, Unreachable};
use super::icmpv6::Message;
use super::ipv4::Protocol;
use super::testing::*;
use super::*;
use crate::time::Duration;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
const ECHO: [u8; 8] = [128, 0, 0, 0, 0, 1, 0, 1];

/// Returns a host at the other end of the link, with the addresses swapped.
fn remote_host() -> Host {
    let mut host = Host::default();
    host.internet.set_address(THEIRS, 24);
    host.internet.remove_address(OURS_V6.into());
    host.internet.add_address(Address::permanent(THEIRS_V6.into(), 64)).unwrap();
    host
}

/// Feeds datagrams and returns the data of the first one delivered.
fn delivered(host: &mut Host, datagrams: &[Vec<u8>]) -> Option<Vec<u8>> {
    let first_data = datagrams.iter().find_map(|bytes| host.receive(bytes))?;
    let data = first_data.packet.data().to_vec();
    host.pool.put(first_data.packet);
    Some(data)
}

/// Returns an IPv6 fragment with `data`.
fn fragment_v6(offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let fragment = ipv6::Fragment { next_header: UDP, offset, more, identification: 5 };
    datagram_v6(ipv6::FRAGMENT, &[fragment.emit().as_slice(), data].concat())
}

fn message_in(bytes: &[u8]) -> Message {
    let parsed = ipv6::Header::parse(bytes).unwrap();
    let ipv6::Header { source, destination, .. } = parsed.header;
    Message::parse(source, destination, &bytes[40..]).unwrap()
}

proptest! {
    #[test]
    fn any_datagram_of_ipv6_leaves_no_buffer_behind(
        datagrams in prop::collection::vec(
            (prop::sample::select(&[0, 6, 17, 43, 44, 58, 59, 60, 99]), any::<Vec<u8>>()), 0..40),
    ) {
        let mut host = Host::default();
        for (next_header, payload) in datagrams {
            host.refuse(&datagram_v6(next_header, &payload));
        }
        while host.transmit().is_some() {}
        host.context.advance_millis(60_000);
        host.internet.timeout(&mut host.pool, &mut host.context.cx());
        while host.transmit().is_some() {}
        prop_assert_eq!((host.pool.lent(), host.internet.reassembler.bytes()), (0, 0));
    }

    #[test]
    fn fragments_are_reassembled_in_any_order(
        data in prop::collection::vec(any::<u8>(), 1..12_000),
        is_v6: bool,
        seed: u64,
    ) {
        let mut host = Host::default();
        let mut remote_host = remote_host();
        let destination = if is_v6 { THEIRS_V6.into() } else { IpAddr::V4(THEIRS) };
        let mut sent = host.send(&data, destination, Protocol::Udp);
        prop_assert!(sent.iter().all(|bytes| bytes.len() <= 1500));
        let mut rng = crate::rng::Rng::from_seed(seed);
        sent.sort_by_cached_key(|_| rng.next_u64());
        prop_assert_eq!(delivered(&mut remote_host, &sent), Some(data));
        prop_assert_eq!((host.pool.lent(), remote_host.pool.lent()), (0, 0));
        prop_assert!(remote_host.internet.reassembler.is_empty());
    }

    #[test]
    fn etherparse_reads_the_fragments_of_ipv6(len in 1461_usize..9000) {
        let mut host = Host::default();
        let sent = host.send(&vec![7; len], THEIRS_V6.into(), Protocol::Udp);
        let mut next = 0;
        for bytes in &sent {
            let theirs = etherparse::Ipv6Slice::from_slice(bytes).unwrap();
            let fragment = theirs.extensions().clone().into_iter().next();
            let Some(etherparse::Ipv6ExtensionSlice::Fragment(fragment)) = fragment else {
                return Err(TestCaseError::fail("no fragment header"));
            };
            prop_assert_eq!(usize::from(fragment.fragment_offset().byte_offset()), next);
            next += theirs.payload().payload.len();
        }
        prop_assert_eq!(next, len);
    }
}

#[test]
fn a_transport_gets_the_data_of_ipv6_without_extension_headers_and_padding() {
    let mut host = Host::default();
    let bytes = datagram_v6(60, &[&[UDP, 0, 1, 4, 0, 0, 0, 0], b"data".as_slice()].concat());
    let datagram = host.receive(&[bytes, vec![0; 9]].concat()).unwrap();
    assert_eq!((datagram.packet.data(), datagram.header_len), (b"data".as_slice(), 48));
    assert_eq!(datagram.header.source, IpAddr::V6(THEIRS_V6));
    assert_eq!(datagram.header.protocol, Protocol::Udp);
}

#[test]
fn an_ipv6_echo_is_answered_from_its_destination_address() {
    let mut host = Host::default();
    let second_address = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 9);
    host.internet.add_address(Address::permanent(second_address.into(), 64)).unwrap();
    let mut message = [ECHO.as_slice(), b"data"].concat();
    icmpv6::seal(THEIRS_V6, second_address, &mut message);
    let header = ipv6::Header { destination: second_address, ..header_v6() };
    host.receive(&[header.emit(ICMPV6, 12).as_slice(), &message].concat());
    let reply = host.transmit().unwrap();
    let parsed = ipv6::Header::parse(&reply).unwrap();
    assert_eq!((parsed.header.source, parsed.header.destination), (second_address, THEIRS_V6));
    assert!(matches!(message_in(&reply), Message::EchoReply { identifier: 1, .. }));
    assert_eq!(&reply[48..], b"data");
}

#[test]
fn an_ipv6_echo_reply_is_reported_with_its_round_trip() {
    let mut host = Host::default();
    let mut remote_host = remote_host();
    let pool = &mut host.pool;
    let cx = &mut host.context.cx();
    let request_result = host.internet.make_echo_request(THEIRS_V6.into(), 7, 1, 56, pool, cx);
    remote_host.receive(request_result.unwrap().unwrap().data());
    host.context.advance_millis(25);
    host.receive(&remote_host.transmit().unwrap());
    let Some(Event::EchoReply(reply)) = host.internet.event() else { panic!("an echo reply") };
    assert_eq!(reply.round_trip, Duration::from_millis(25));
    assert_eq!((reply.source, reply.payload_len), (THEIRS_V6.into(), 56));
}

#[test]
fn an_echo_longer_than_the_mtu_is_sent_and_answered_in_fragments() {
    let mut host = Host::default();
    let mut remote_host = remote_host();
    let pool = &mut host.pool;
    let cx = &mut host.context.cx();
    let request_result = host.internet.make_echo_request(THEIRS.into(), 7, 1, 4000, pool, cx);
    assert!(request_result.unwrap().is_none());
    let requests: Vec<_> = core::iter::from_fn(|| host.transmit()).collect();
    requests.iter().for_each(|bytes| assert!(remote_host.receive(bytes).is_none()));
    let replies: Vec<_> = core::iter::from_fn(|| remote_host.transmit()).collect();
    replies.iter().for_each(|bytes| assert!(host.receive(bytes).is_none()));
    assert_eq!((requests.len(), replies.len()), (3, 3));
    assert!(matches!(host.internet.event(), Some(Event::EchoReply(_))));
    assert_eq!((host.pool.lent(), remote_host.pool.lent()), (0, 0));
}

#[test]
fn the_error_about_a_closed_ipv6_port_has_1280_bytes() {
    let mut host = Host::default();
    let bytes = datagram_v6(UDP, &[7; 1400]);
    host.refuse(&bytes);
    let error = host.transmit().unwrap();
    assert_eq!(error.len(), 1280);
    assert_eq!(error[48..], bytes[..1232]);
    assert!(matches!(
        message_in(&error),
        Message::Error { kind: ErrorKind::Unreachable(Unreachable::Port), .. }
    ));
}

#[test]
fn an_unknown_protocol_of_ipv6_is_reported_with_a_pointer_to_its_number() {
    let mut host = Host::default();
    host.receive(&datagram_v6(60, &[&[99, 0, 1, 4, 0, 0, 0, 0], [7; 8].as_slice()].concat()));
    assert_eq!(host.transmit().unwrap()[40..48], {
        let mut expected = [4, 1, 0, 0, 0, 0, 0, 40];
        expected[2..4].copy_from_slice(&host_checksum(&host_error(99)));
        expected
    });
}

/// Returns the expected Parameter Problem for an unknown protocol number, with a checksum of zero.
fn host_error(protocol: u8) -> Vec<u8> {
    let quoted = datagram_v6(60, &[&[protocol, 0, 1, 4, 0, 0, 0, 0], [7; 8].as_slice()].concat());
    [[4, 1, 0, 0, 0, 0, 0, 40].as_slice(), &quoted].concat()
}

fn host_checksum(message: &[u8]) -> [u8; 2] {
    let len = u16::try_from(message.len()).unwrap();
    let pseudo = ipv6::pseudo_header(OURS_V6, THEIRS_V6, Protocol::ICMPV6, len);
    pseudo.bytes(message).finish().to_be_bytes()
}

#[test]
fn an_unknown_option_is_reported_only_if_it_requests_so() {
    let mut host = Host::default();
    let answers = [0x3E, 0x7E, 0xBE, 0xFE].map(|kind| {
        let options = [UDP, 0, kind, 2, 0, 0, 0, 0];
        let bytes = datagram_v6(60, &[options.as_slice(), &[7; 8]].concat());
        let is_delivered = delivered(&mut host, &[bytes]).is_some();
        (is_delivered, host.transmit().map(|error| (error[40], error[41], error[47])))
    });
    let problem = Some((4, 2, 42));
    assert_eq!(answers, [(true, None), (false, None), (false, problem), (false, problem)]);
}

#[test]
fn a_registered_protocol_is_delivered() {
    let mut host = Host::default();
    assert!(host.internet.register_protocol(89) && !host.internet.register_protocol(6));
    let v4 = datagram(&header(Protocol::Other(89)), &[], b"four");
    let v6 = datagram_v6(89, b"six.");
    assert_eq!(delivered(&mut host, &[v4]).unwrap(), b"four");
    assert_eq!(delivered(&mut host, &[v6]).unwrap(), b"six.");
    host.internet.unregister_protocol(89);
    host.receive(&datagram_v6(89, b"six."));
    assert_eq!(host.counted(Counter::IpProtocolsUnknown), 1);
}

#[test]
fn neighbor_discovery_is_delivered_only_from_the_link() {
    let mut host = Host::default();
    let solicitation = message_v6([135, 0, 0, 0, 0, 0, 0, 0], &OURS_V6.octets());
    let mut reaches = |hop_limit| {
        let header = ipv6::Header { hop_limit, ..header_v6() };
        let bytes = [header.emit(ICMPV6, 24).as_slice(), &solicitation].concat();
        delivered(&mut host, &[bytes]).is_some()
    };
    assert_eq!((reaches(255), reaches(254)), (true, false));
    assert_eq!(host.counted(Counter::IcmpErrors), 1);
}

#[test]
fn datagrams_to_our_own_address_are_looped_back_without_the_link() {
    let mut host = Host::default();
    let ours =
        [OURS.into(), OURS_V6.into(), Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let looped_back = ours.map(|ours: IpAddr| {
        let sent = host.send(b"data", ours, Protocol::Udp);
        let datagram =
            host.internet.receive_looped(&mut host.pool, &mut host.context.cx()).unwrap();
        let is_ours = datagram.header.source == ours && datagram.packet.data() == b"data";
        host.pool.put(datagram.packet);
        sent.is_empty() && is_ours
    });
    assert_eq!((looped_back, host.pool.lent()), ([true; 4], 0));
    assert!(!host.internet.has_looped());
}

#[test]
fn an_echo_to_ourselves_is_answered_by_ourselves() {
    let mut host = Host::default();
    let pool = &mut host.pool;
    let cx = &mut host.context.cx();
    let request_result =
        host.internet.make_echo_request(Ipv6Addr::LOCALHOST.into(), 7, 1, 56, pool, cx);
    assert!(request_result.unwrap().is_none());
    while host.internet.has_looped() {
        let delivered = host.internet.receive_looped(&mut host.pool, &mut host.context.cx());
        assert!(delivered.is_none());
    }
    assert!(matches!(host.internet.event(), Some(Event::EchoReply(_))));
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn loopback_addresses_received_from_the_link_are_dropped() {
    let mut host = Host::default();
    let local = Ipv4Addr::LOCALHOST;
    let v4 = [
        ipv4::Header { destination: local, ..header(Protocol::Udp) },
        ipv4::Header { source: local, ..header(Protocol::Udp) },
    ];
    let v4 = v4.map(|header| datagram(&header, &[], b"data"));
    let v6 = [
        ipv6::Header { destination: Ipv6Addr::LOCALHOST, ..header_v6() },
        ipv6::Header { source: Ipv6Addr::LOCALHOST, ..header_v6() },
    ];
    let v6 = v6.map(|header| [header.emit(UDP, 4).as_slice(), b"data"].concat());
    assert_eq!(delivered(&mut host, &[v4, v6].concat()), None);
    assert_eq!(host.counted(Counter::IpAddressErrors), 2);
    assert_eq!(host.counted(Counter::IpSourceErrors), 2);
}

#[test]
fn nothing_leaves_without_a_route_or_from_an_address_that_is_not_ours() {
    let mut host = Host::default();
    let everywhere = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    assert!(host.internet.routes_mut().remove(everywhere, 0, None));
    let mut send_error = |source: IpAddr, destination: IpAddr| {
        let packet = host.packet(b"data");
        let header = Header { source, ..Header::to(destination, Protocol::Udp) };
        let pool = &mut host.pool;
        let cx = &mut host.context.cx();
        host.internet.send(packet, header, pool, cx).err()
    };
    assert_eq!(send_error(everywhere, THEIRS_V6.into()), Some(SendError::NoRoute));
    let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let not_ours = Ipv4Addr::new(10, 0, 0, 77).into();
    assert_eq!(send_error(not_ours, THEIRS.into()), Some(SendError::NoAddress));
    assert_eq!(send_error(Ipv4Addr::LOCALHOST.into(), THEIRS.into()), Some(SendError::NoAddress));
    assert_eq!(send_error(unspecified, THEIRS.into()), None);
}

#[test]
fn a_host_without_an_address_broadcasts_its_request() {
    let mut host = Host::default();
    host.internet.set_address(Ipv4Addr::UNSPECIFIED, 0);
    let sent = host.send(b"discover", Ipv4Addr::BROADCAST.into(), Protocol::Udp);
    let header = ipv4::Header::parse(&sent[0]).unwrap().header;
    assert_eq!(header.source, Ipv4Addr::UNSPECIFIED);
}

#[test]
fn a_lowered_path_mtu_fragments_datagrams_but_never_segments() {
    let mut host = Host::default();
    let lowered = host.internet.lower_path_mtu(THEIRS.into(), 1000, &mut host.context.cx());
    assert_eq!(lowered, Some(1000));
    let udp = host.send(&[7; 1400], THEIRS.into(), Protocol::Udp);
    assert!(udp.len() == 2 && udp.iter().all(|bytes| bytes.len() <= 1000));
    assert_eq!(host.send(&[7; 1400], THEIRS.into(), Protocol::Tcp).len(), 1);
    assert_eq!(host.internet.mtu_to(THEIRS.into(), host.context.now), 1000);
    let later = host.context.now + Duration::from_secs(600);
    assert_eq!(host.internet.mtu_to(THEIRS.into(), later), 1500);
}

// attack row 20
#[test]
fn below_the_ipv4_floor_routers_may_fragment() {
    let mut host = Host::default();
    host.internet.lower_path_mtu(THEIRS.into(), 68, &mut host.context.cx());
    let sent = host.send(&[7; 100], THEIRS.into(), Protocol::Tcp);
    let header = ipv4::Header::parse(&sent[0]).unwrap().header;
    assert!(!header.dont_fragment && header.identification != 0);
    assert_eq!(host.internet.mtu_to(THEIRS.into(), host.context.now), 552);
}

#[test]
fn packet_too_big_lowers_the_path_mtu_only_if_it_quotes_our_echo() {
    let mut host = Host::default();
    let pool = &mut host.pool;
    let cx = &mut host.context.cx();
    let request_result = host.internet.make_echo_request(THEIRS_V6.into(), 7, 1, 1400, pool, cx);
    let mut quoted = request_result.unwrap().unwrap().data()[..60].to_vec();
    let mut path_mtu_after = |quoted: &[u8]| {
        let error = message_v6([2, 0, 0, 0, 0, 0, 5, 0x14], quoted);
        host.receive(&datagram_v6(ICMPV6, &error));
        host.internet.mtu_to(THEIRS_V6.into(), host.context.now)
    };
    let genuine_quote = quoted.clone();
    // A wrong sequence number: the quoted echo request was never sent.
    quoted[47] = 9;
    assert_eq!((path_mtu_after(&quoted), path_mtu_after(&genuine_quote)), (1500, 1300));
    assert_eq!(host.counted(Counter::IpPathMtusLowered), 1);
}

#[test]
fn a_missing_next_hop_mtu_is_replaced_by_the_next_plateau() {
    let mut host = Host::default();
    let ours = ipv4::Header { source: OURS, destination: THEIRS, ..header(Protocol::Tcp) };
    let quoted = [ours.emit(1500).as_slice(), b"portsseq"].concat();
    let error = message([3, 4, 0, 0, 0, 0, 0, 0], &quoted);
    host.receive(&datagram(&header(Protocol::Icmp), &[], &error));
    let Some(Event::Error(error)) = host.internet.event() else { panic!("an error") };
    assert_eq!(error.kind, ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1492) });
}

// req RFC1122:3.4-MUST-5
#[test]
fn only_an_error_about_our_first_fragment_is_reported() {
    let mut host = Host::default();
    let sent = host.send(&[7; 3000], THEIRS_V6.into(), Protocol::Udp);
    let is_reported = [&sent[0], &sent[1]].map(|bytes| {
        let error = message_v6([1, 4, 0, 0, 0, 0, 0, 0], &bytes[..100]);
        host.receive(&datagram_v6(ICMPV6, &error));
        host.internet.event().is_some()
    });
    assert_eq!(is_reported, [true, false]);
}

#[test]
fn a_reassembled_datagram_has_the_first_header_and_any_congestion_mark() {
    let mut host = Host::default();
    let fragment = |dscp_ecn, offset: u16, options: &[u8], data: &[u8]| {
        let header = ipv4::Header { dscp_ecn, dont_fragment: false, ..header(Protocol::Udp) };
        let mut bytes = datagram(&header, options, data);
        let field = if offset == 0 { 0x2000 } else { offset / 8 };
        bytes[6..8].copy_from_slice(&field.to_be_bytes());
        reseal(&mut bytes);
        bytes
    };
    assert!(host.receive(&fragment(0b1010_0010, 0, &[1; 8], b"12345678")).is_none());
    let reassembled = host.receive(&fragment(0b0000_0011, 8, &[], b"9")).unwrap();
    assert_eq!((reassembled.packet.data(), reassembled.header_len), (b"123456789".as_slice(), 28));
    assert_eq!(reassembled.header.dscp_ecn, 0b1010_0011);
}

// req RFC1122:3.3.2-MUST-4
#[test]
fn an_incomplete_datagram_is_reported_after_60_seconds() {
    let mut host = Host::default();
    host.receive(&fragment_v6(0, true, &[7; 1000]));
    let first_fragment = ipv4::Header { dont_fragment: false, ..header(Protocol::Udp) };
    let first_fragment =
        [first_fragment.emit_fragment(1020, 0, true).as_slice(), &[7; 1000]].concat();
    host.receive(&first_fragment);
    assert_eq!(host.internet.deadline(), Some(Instant::ZERO + Duration::from_secs(60)));
    host.context.advance_millis(60_000);
    host.internet.timeout(&mut host.pool, &mut host.context.cx());
    let v6 = host.transmit().unwrap();
    let v4 = host.transmit().unwrap();
    assert_eq!((&v6[40..42], v6.len()), ([3, 1].as_slice(), 40 + 8 + 48 + 1000));
    assert_eq!((&v4[20..22], &v4[28..]), ([11, 1].as_slice(), &first_fragment[..28]));
    assert_eq!((host.pool.lent(), host.internet.deadline()), (0, None));
}

#[test]
fn at_most_four_datagrams_are_fragmented_at_once() {
    let mut host = Host::default();
    let results = [(); 5].map(|()| {
        let packet = host.packet(&[7; 3000]);
        let header = Header::to(THEIRS.into(), Protocol::Udp);
        let pool = &mut host.pool;
        let cx = &mut host.context.cx();
        host.internet.send(packet, header, pool, cx).err()
    });
    assert_eq!(results, [None, None, None, None, Some(SendError::NoBuffer)]);
    assert!(host.internet.has_pending());
    assert_eq!(core::iter::from_fn(|| host.transmit()).count(), 12);
    assert!(!host.internet.has_pending());
    assert_eq!(host.counted(Counter::IpFragmentsOut), 12);
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn fragments_wait_for_a_free_packet() {
    let mut host = Host { pool: Pool::new(2, 1600), ..Host::default() };
    let packet = host.packet(&[7; 3000]);
    let header = Header::to(THEIRS.into(), Protocol::Udp);
    host.internet.send(packet, header, &mut host.pool, &mut host.context.cx()).unwrap();
    let first = host.internet.transmit(&mut host.pool, &mut host.context.cx()).unwrap();
    assert!(!host.internet.has_output(&host.pool));
    assert!(host.internet.transmit(&mut host.pool, &mut host.context.cx()).is_none());
    host.pool.put(first);
    assert!(host.internet.has_output(&host.pool));
    assert_eq!(core::iter::from_fn(|| host.transmit()).count(), 2);
}

// attack row 2
#[test]
fn an_ipv6_fragment_that_ends_beyond_the_longest_payload_is_reported_at_its_offset_field() {
    let mut host = Host::default();
    host.receive(&fragment_v6(65_528, false, &[7; 16]));
    assert_eq!(host.transmit().unwrap()[40..42], [4, 0]);
    assert_eq!(host.internet.reassembler.bytes(), 0);
}

// attack row 6
#[test]
fn a_false_ipv6_payload_length_is_dropped_with_and_without_fragments() {
    let mut host = Host::default();
    let delivered_lens =
        [datagram_v6(UDP, &[7; 40]), fragment_v6(0, false, &[7; 32])].map(|whole| {
            let lens = (0..=200_u16).filter(|len| {
                let mut bytes = whole.clone();
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
                delivered(&mut host, &[bytes]).is_some()
            });
            lens.collect::<Vec<_>>()
        });
    assert!(delivered_lens[0].iter().copied().eq(0..=40));
    assert!(delivered_lens[1].iter().copied().eq(8..=40));
    assert_eq!(host.pool.lent(), 0);
}

// attack row 7
#[test]
fn an_ipv6_echo_with_a_false_length_returns_only_received_bytes() {
    let mut host = Host::default();
    let wrong_lens = (0..=200_u16).filter(|len| {
        let mut bytes = datagram_v6(ICMPV6, &[ECHO.as_slice(), &[0xA5; 32]].concat());
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        if let Some(covered) = bytes.get_mut(40..40 + usize::from(*len)) {
            icmpv6::seal(THEIRS_V6, OURS_V6, covered);
        }
        assert!(host.receive(&bytes).is_none());
        let Some(reply) = host.transmit() else { return (8..=40).contains(len) };
        reply[44..] != bytes[44..40 + usize::from(*len)]
    });
    assert_eq!(wrong_lens.count(), 0);
}

// attack row 8
#[test]
fn a_datagram_of_ipv6_cut_at_any_byte_is_dropped() {
    let mut host = Host::default();
    let message = message_v6(ECHO, &[0xA5; 32]);
    let complete_datagram =
        datagram_v6(60, &[&[ICMPV6, 0, 1, 4, 0, 0, 0, 0], message.as_slice()].concat());
    let answered_lens = (0..complete_datagram.len()).filter(|len| {
        assert!(host.receive(&complete_datagram[..*len]).is_none());
        host.transmit().is_some()
    });
    assert_eq!(answered_lens.count(), 0);
    assert_eq!((host.counted(Counter::IpHeaderErrors), host.pool.lent()), (88, 0));
}

// attack row 10
#[test]
fn a_hundred_extension_headers_of_any_kind_get_a_parameter_problem_at_most() {
    let mut host = Host::default();
    let failing_kinds = [0, 43, 44, 60].into_iter().filter(|kind| {
        let chain = [*kind, 0, 0, 0, 0, 0, 0, 0].repeat(100);
        let is_delivered = delivered(&mut host, &[datagram_v6(*kind, &chain)]).is_some();
        is_delivered || host.transmit().is_some_and(|error| error[40] != 4)
    });
    assert_eq!(failing_kinds.count(), 0);
    assert_eq!(host.pool.lent(), 0);
}

// attack row 10
#[test]
fn extension_headers_of_every_length_and_nested_fragments_are_dropped_or_delivered() {
    let mut host = Host::default();
    let fragment =
        |next_header| ipv6::Fragment { next_header, offset: 0, more: false, identification: 1 };
    for len in 0..=255 {
        host.refuse(&datagram_v6(60, &[[UDP, len].as_slice(), &[0; 78]].concat()));
        host.refuse(&datagram_v6(0, &[[UDP, len].as_slice(), &[1; 78]].concat()));
    }
    let nested = [fragment(44).emit(), fragment(UDP).emit(), [7; 8]].concat();
    assert_eq!(delivered(&mut host, &[datagram_v6(44, &nested)]), None);
    while host.transmit().is_some() {}
    assert_eq!(host.pool.lent(), 0);
}

// attack row 14
#[test]
fn an_echo_of_ipv6_to_a_group_is_not_answered() {
    let mut host = Host::default();
    let group = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
    let mut message = [ECHO.as_slice(), b"data"].concat();
    icmpv6::seal(THEIRS_V6, group, &mut message);
    let header = ipv6::Header { destination: group, ..header_v6() };
    host.receive(&[header.emit(ICMPV6, 12).as_slice(), &message].concat());
    assert_eq!((host.transmit(), host.counted(Counter::IcmpIgnored)), (None, 1));
}

// attack row 15
#[test]
fn a_datagram_of_ipv6_with_our_own_address_as_source_is_dropped() {
    let mut host = Host::default();
    let header = ipv6::Header { source: OURS_V6, ..header_v6() };
    let land_attack = [header.emit(TCP, 20).as_slice(), &[0; 20]].concat();
    assert_eq!(delivered(&mut host, &[land_attack]), None);
    assert_eq!(host.counted(Counter::IpSourceErrors), 1);
}

// attack row 16
#[test]
fn an_atomic_fragment_is_independent_of_fragments_with_its_identification() {
    let mut host = Host::default();
    assert_eq!(delivered(&mut host, &[fragment_v6(0, true, &[1; 16])]), None);
    assert_eq!(delivered(&mut host, &[fragment_v6(0, false, &[2; 24])]).unwrap(), [2; 24]);
    let first_data = delivered(&mut host, &[fragment_v6(16, false, &[1; 4])]);
    assert_eq!(first_data.unwrap(), [1; 20]);
}

// attack row 17
#[test]
fn an_ipv6_first_fragment_with_incomplete_headers_is_dropped_and_reported() {
    let mut host = Host::default();
    let fragment = ipv6::Fragment { next_header: TCP, offset: 0, more: true, identification: 1 };
    let bytes = datagram_v6(44, &[fragment.emit().as_slice(), &[7; 16]].concat());
    assert_eq!(delivered(&mut host, &[bytes]), None);
    assert_eq!(host.transmit().unwrap()[40..42], [4, 3]);
    assert!(host.internet.reassembler.is_empty());
}

// attack row 19
#[test]
fn a_flood_of_closed_ports_of_ipv6_gets_a_few_errors_and_then_one_a_second() {
    let mut host = Host::default();
    let bytes = datagram_v6(UDP, &[7; 8]);
    let errors = |host: &mut Host| {
        let answered_datagrams = (0..100).filter(|_| {
            host.refuse(&bytes);
            host.transmit().is_some()
        });
        answered_datagrams.count()
    };
    assert!((4..=12).contains(&errors(&mut host)));
    host.context.advance_millis(3_500);
    assert_eq!(errors(&mut host), 3);
}
