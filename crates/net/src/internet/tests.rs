//! Tests of the Internet layer through its public interface.

use super::icmp::{EchoReply, IcmpError, Unreachable};
use super::ipv4::{Header, Protocol};
use super::testing::*;
use super::*;
use crate::checksum::Sum;
use crate::meter::{Clock, Meter};
use core::sync::atomic::{AtomicU64, Ordering};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const ECHO: [u8; 8] = [8, 0, 0, 0, 0, 1, 0, 1];
const UNREACHABLE: [u8; 8] = [3, 3, 0, 0, 0, 0, 0, 0];

fn ours(protocol: Protocol) -> Header {
    Header { source: OURS, destination: THEIRS, ..header(protocol) }
}

fn receive_icmp(host: &mut Host, message: &[u8]) {
    assert!(host.receive(&datagram(&header(Protocol::Icmp), &[], message)).is_none());
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=40)
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=100)
}

proptest! {
    #[test]
    fn any_bytes_leave_no_buffer_behind(frames: Vec<Vec<u8>>) {
        let mut host = Host::default();
        frames.iter().take(64).for_each(|bytes| host.refuse(bytes));
        while host.transmit().is_some() {}
        prop_assert_eq!(host.pool.lent(), 0);
    }

    #[test]
    fn any_fields_options_and_data_leave_no_buffer_behind(
        datagrams in prop::collection::vec((0..8_u8, any::<[u8; 12]>(), options(), data()), 0..64)
    ) {
        let mut host = Host::default();
        datagrams.iter().for_each(|(choice, fields, options, data)| {
            let [a, b, c, d, time_to_live, dscp_ecn, protocol, message_type, code, ..] = *fields;
            let near = Ipv4Addr::new(10, 0, 0, a % 4);
            let header = Header {
                source: if choice & 1 == 0 { near } else { Ipv4Addr::new(a, b, c, d) },
                destination: if choice & 2 == 0 { OURS } else { Ipv4Addr::BROADCAST },
                protocol: if choice & 4 == 0 { Protocol::Icmp } else { (protocol % 20).into() },
                time_to_live,
                dscp_ecn,
                ..header(Protocol::Icmp)
            };
            let data = match header.protocol {
                Protocol::Icmp => message([message_type % 16, code % 6, 0, 0, 0, 0, 0, 0], data),
                _ => data.clone(),
            };
            host.refuse(&datagram(&header, options, &data));
        });
        while host.transmit().is_some() {}
        prop_assert_eq!(host.pool.lent(), 0);
    }

    // req RFC1122:3.2.1.3-MUST-2, RFC1122:3.2.1.3-MUST-5, RFC1122:3.2.1.6-MUST-1
    #[test]
    fn etherparse_accepts_what_is_sent(data in prop::collection::vec(any::<u8>(), 0..=1480)) {
        let mut host = Host::default();
        let packet = host.packet(&data);
        let cx = &mut host.context.cx();
        let sent = host.internet.send(packet, super::Header { dscp_ecn: 0x48, ..super::Header::to(THEIRS.into(), Protocol::Tcp) }, &mut host.pool, cx);
        let sent = sent.unwrap().unwrap();
        let theirs = etherparse::Ipv4Slice::from_slice(sent.data()).unwrap();
        prop_assert_eq!(theirs.header().source_addr(), OURS);
        prop_assert_eq!(theirs.header().destination_addr(), THEIRS);
        prop_assert_eq!(theirs.header().dcp().value() << 2, 0x48);
        prop_assert_eq!(theirs.payload().payload, data);
        let header = theirs.header().to_header();
        prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
    }

    // req RFC1122:3.1-MUST-1, RFC1122:3.2.2.6-MUST-1, RFC1122:3.2.2.6-MUST-3
    #[test]
    fn an_echo_request_that_etherparse_makes_is_answered(
        identifier: u16,
        sequence: u16,
        data in prop::collection::vec(any::<u8>(), 0..=1472),
    ) {
        let mut host = Host::default();
        let mut bytes = Vec::new();
        etherparse::PacketBuilder::ipv4(THEIRS.octets(), OURS.octets(), 3)
            .icmpv4_echo_request(identifier, sequence)
            .write(&mut bytes, &data)
            .unwrap();
        prop_assert!(host.receive(&bytes).is_none());
        let reply = host.transmit().unwrap();
        let theirs = etherparse::SlicedPacket::from_ip(&reply).unwrap();
        let Some(etherparse::TransportSlice::Icmpv4(icmp)) = theirs.transport else {
            return Err(TestCaseError::fail("not ICMP"));
        };
        let echo = etherparse::IcmpEchoHeader { id: identifier, seq: sequence };
        prop_assert_eq!(icmp.icmp_type(), etherparse::Icmpv4Type::EchoReply(echo));
        prop_assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
        prop_assert_eq!(icmp.payload(), data);
    }
}

// req RFC9293:MUST-50
// req RFC1122:3.2.1.8-MUST-3
#[test]
fn a_transport_gets_the_data_without_header_options_and_padding() {
    let mut host = Host::default();
    let padded = [datagram(&header(Protocol::Tcp), &[1; 4], b"data"), [0; 18].to_vec()].concat();
    let datagram = host.receive(&padded).unwrap();
    assert_eq!(datagram.packet.data(), b"data");
    assert_eq!((datagram.header.source, datagram.header_len), (THEIRS.into(), 24));
    assert_eq!(host.counted(Counter::IpDatagramsDelivered), 1);
    assert_eq!(host.counted(Counter::IpOptionsSkipped), 1);
}

// req RFC9293:MUST-50
// req RFC1122:3.2.1.8-MUST-3
#[test]
fn a_transport_gets_the_data_after_unknown_options() {
    // Option kinds: Security, an experiment, Router Alert, and an unassigned one. Each option is
    // four bytes long.
    for kind in [130, 30, 148, 0x5F] {
        let mut host = Host::default();
        let sent = datagram(&header(Protocol::Tcp), &[kind, 4, 0xFF, 0xFF], b"data");
        let received = host.receive(&sent).unwrap();
        assert_eq!(received.packet.data(), b"data", "{kind}");
        assert_eq!(host.counted(Counter::IpOptionsSkipped), 1);
    }
}

// req RFC1122:3.2.1.3-MUST-3
#[test]
fn a_datagram_for_another_host_is_counted_and_dropped() {
    let mut host = Host::default();
    let header = Header { destination: Ipv4Addr::new(10, 0, 0, 9), ..header(Protocol::Udp) };
    assert!(host.receive(&datagram(&header, &[], b"data")).is_none());
    assert_eq!((host.counted(Counter::IpAddressErrors), host.pool.lent()), (1, 0));
}

// req RFC1122:3.2.1.2-MUST-1
#[test]
fn a_header_with_a_wrong_checksum_is_counted_and_dropped() {
    let mut host = Host::default();
    let mut bytes = datagram(&header(Protocol::Udp), &[], b"data");
    bytes[8] -= 1;
    assert!(host.receive(&bytes).is_none());
    assert_eq!((host.counted(Counter::IpChecksumErrors), host.pool.lent()), (1, 0));
}

// req RFC9293:MUST-57
#[test]
fn a_broadcast_reaches_udp_but_not_tcp() {
    let mut host = Host::default();
    let mut reaches = |protocol| {
        let header = Header { destination: Ipv4Addr::BROADCAST, ..header(protocol) };
        host.receive(&datagram(&header, &[], b"data")).is_some()
    };
    assert_eq!((reaches(Protocol::Udp), reaches(Protocol::Tcp)), (true, false));
}

// req RFC9293:MUST-63
// req RFC1122:3.2.1.3-MUST-4
#[test]
fn a_source_that_no_host_may_have_is_counted_and_dropped() {
    let mut host = Host::default();
    let invalid_sources = [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
        [10, 0, 0, 255],
        [10, 0, 0, 0],
    ];
    let delivered = invalid_sources.iter().filter(|source| {
        let header = Header { source: (**source).into(), ..header(Protocol::Udp) };
        host.receive(&datagram(&header, &[], b"data")).is_some()
    });
    assert_eq!(delivered.count(), 0);
    assert_eq!((host.counted(Counter::IpSourceErrors), host.pool.lent()), (8, 0));
}

#[test]
fn a_host_without_an_address_may_broadcast_over_udp() {
    let mut host = Host::default();
    let source = Ipv4Addr::UNSPECIFIED;
    let header = Header { source, destination: Ipv4Addr::BROADCAST, ..header(Protocol::Udp) };
    assert!(host.receive(&datagram(&header, &[], b"data")).is_some());
}

// req RFC1122:3.2.1.7-MUST-2
#[test]
fn a_time_to_live_of_one_is_enough_for_a_host_and_zero_is_not() {
    let mut host = Host::default();
    let mut reaches = |time_to_live| {
        let header = Header { time_to_live, ..header(Protocol::Udp) };
        host.receive(&datagram(&header, &[], b"data")).is_some()
    };
    assert_eq!((reaches(1), reaches(0)), (true, false));
    assert_eq!(host.counted(Counter::IpTimeExceeded), 1);
}

// req RFC1122:3.2.2-MUST-2, RFC1122:3.3.8-MUST-1
#[test]
fn an_unknown_protocol_is_reported_with_header_and_eight_bytes() {
    let mut host = Host::default();
    let bytes = datagram(&header(Protocol::Other(99)), &[1; 4], b"0123456789");
    assert!(host.receive(&bytes).is_none());
    let error = host.transmit().unwrap();
    let expected = message([3, 2, 0, 0, 0, 0, 0, 0], &bytes[..24 + 8]);
    assert_eq!(error[20..], expected);
    assert_eq!(Header::parse(&error).unwrap().header.destination, THEIRS);
    assert_eq!(host.counted(Counter::IpProtocolsUnknown), 1);
    assert_eq!(host.counted(Counter::IcmpErrorsOut), 1);
}

#[test]
fn an_unfinished_source_route_is_reported_as_failed() {
    let mut host = Host::default();
    let bytes = datagram(&header(Protocol::Udp), &[137, 7, 4, 192, 0, 2, 9], b"01234567");
    assert!(host.receive(&bytes).is_none());
    assert_eq!(host.transmit().unwrap()[20..22], [3, 5]);
}

// req RFC1122:3.2.2-MUST-5
#[test]
fn nothing_is_reported_about_a_broadcast() {
    let mut host = Host::default();
    let header = Header { destination: Ipv4Addr::BROADCAST, ..header(Protocol::Udp) };
    host.refuse(&datagram(&header, &[], b"data"));
    assert_eq!(host.transmit(), None);
    assert_eq!((host.counted(Counter::IcmpErrorsSuppressed), host.pool.lent()), (1, 0));
}

// req RFC1122:3.2.2-MUST-1, RFC1122:3.2.2.9-MUST-5
#[test]
fn messages_that_request_nothing_are_dropped_silently() {
    let mut host = Host::default();
    let answered_kinds = [1, 2, 7, 9, 10, 13, 15, 17, 41, 255].iter().filter(|kind| {
        receive_icmp(&mut host, &message([**kind, 0, 0, 0, 0, 1, 0, 1], &[0; 12]));
        host.transmit().is_some() || host.internet.event().is_some()
    });
    assert_eq!(answered_kinds.count(), 0);
    assert_eq!(host.pool.lent(), 0);
}

// req RFC1122:3.2.1.1-MUST-1
#[test]
fn a_datagram_of_another_version_is_dropped_silently() {
    let mut host = Host::default();
    let delivered = [0, 1, 2, 3, 5, 7, 8, 15].iter().filter(|version| {
        let mut bytes = datagram(&header(Protocol::Udp), &[], b"data");
        bytes[0] = **version << 4 | 5;
        reseal(&mut bytes);
        host.receive(&bytes).is_some() || host.transmit().is_some()
    });
    assert_eq!(delivered.count(), 0);
    assert_eq!(host.pool.lent(), 0);
}

// req RFC1122:3.2.1.7-MUST-1
#[test]
fn a_time_to_live_of_zero_is_sent_as_one() {
    let mut host = Host::default();
    host.internet.set_time_to_live(0);
    receive_icmp(&mut host, &message(ECHO, b"data"));
    let reply = host.transmit().unwrap();
    assert_eq!(reply[8], 1);
}

// req RFC1122:3.2.2-MUST-7
#[test]
fn nothing_is_reported_about_a_fragment_that_is_not_the_first() {
    let mut host = Host::default();
    let mut bytes = datagram(&header(Protocol::Other(200)), &[], &[7; 16]);
    bytes[6..8].copy_from_slice(&0x0010_u16.to_be_bytes());
    reseal(&mut bytes);
    assert!(host.receive(&bytes).is_none());
    assert_eq!(host.transmit(), None);
}

// req RFC1122:3.2.2-MUST-4
#[test]
fn nothing_is_reported_about_icmp() {
    let mut host = Host::default();
    let packet = host.packet(b"01234567");
    let datagram = Datagram {
        header: header(Protocol::Icmp).into(),
        header_len: 20,
        is_reassembled: false,
        packet,
    };
    let cx = &mut host.context.cx();
    host.internet.report(datagram, Unreachable::Port, &mut host.pool, cx);
    assert_eq!(host.transmit(), None);
}

// req RFC1122:3.2.2-MUST-8
#[test]
fn nothing_is_reported_to_a_source_that_is_not_one_host() {
    let mut host = Host::default();
    let packet = host.packet(b"01234567");
    let header = Header { source: Ipv4Addr::BROADCAST, ..header(Protocol::Udp) };
    let cx = &mut host.context.cx();
    let datagram =
        Datagram { header: header.into(), header_len: 20, is_reassembled: false, packet };
    host.internet.report(datagram, Unreachable::Port, &mut host.pool, cx);
    assert_eq!(host.counted(Counter::IcmpErrorsSuppressed), 1);
}

#[test]
fn an_echo_reply_keeps_the_priority_of_its_request_and_marks_no_congestion() {
    let mut host = Host::default();
    let header = Header { dscp_ecn: 0b1010_1011, ..header(Protocol::Icmp) };
    host.receive(&datagram(&header, &[], &message(ECHO, b"data")));
    assert_eq!(host.transmit().unwrap()[1], 0b1010_1000);
    assert_eq!(host.counted(Counter::IcmpEchoesAnswered), 1);
}

#[test]
fn a_flood_of_echoes_queues_at_most_eight_answers() {
    let mut host = Host::default();
    (0..100).for_each(|_| receive_icmp(&mut host, &message(ECHO, b"data")));
    assert_eq!(host.pool.lent(), 8);
    assert_eq!(host.counted(Counter::IpOutputDropped), 92);
}

// req RFC9293:MUST-54
// req RFC1122:3.2.2-MUST-3, RFC1122:3.2.2.1-MUST-1, RFC1122:3.4-MUST-5, RFC1122:3.4-MUST-6
#[test]
fn an_error_about_a_sent_datagram_is_reported_with_its_first_bytes() {
    let mut host = Host::default();
    let quoted = datagram(&ours(Protocol::Tcp), &[], b"portsseq");
    receive_icmp(&mut host, &message([3, 4, 0, 0, 0, 0, 0x05, 0x78], &quoted));
    let expected = IcmpError {
        kind: icmp::ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1400) },
        reporter: THEIRS.into(),
        protocol: Protocol::Tcp,
        source: OURS.into(),
        destination: THEIRS.into(),
        first_bytes: *b"portsseq",
    };
    assert_eq!(host.internet.event(), Some(Event::Error(expected)));
    assert_eq!(host.counted(Counter::IcmpErrorsDelivered), 1);
}

#[test]
fn an_error_about_a_datagram_of_another_host_is_counted_and_dropped() {
    let mut host = Host::default();
    let quoted = datagram(&header(Protocol::Tcp), &[], b"portsseq");
    receive_icmp(&mut host, &message(UNREACHABLE, &quoted));
    assert_eq!(host.internet.event(), None);
    assert_eq!(host.counted(Counter::IcmpErrors), 1);
}

#[test]
fn an_error_about_a_fragment_is_counted_and_dropped() {
    let mut host = Host::default();
    let mut quoted = datagram(&ours(Protocol::Tcp), &[], b"portsseq");
    quoted[7] = 1;
    receive_icmp(&mut host, &message(UNREACHABLE, &quoted));
    assert_eq!(host.internet.event(), None);
    assert_eq!(host.counted(Counter::IcmpErrors), 1);
}

#[test]
fn unread_events_are_limited() {
    let mut host = Host::default();
    let error = message(UNREACHABLE, &datagram(&ours(Protocol::Tcp), &[], b"portsseq"));
    (0..100).for_each(|_| receive_icmp(&mut host, &error));
    assert_eq!(core::iter::from_fn(|| host.internet.event()).count(), 32);
    assert_eq!(host.counted(Counter::IcmpEventsDropped), 68);
}

fn send(host: &mut Host, data: &[u8], to: [u8; 4], protocol: Protocol) -> Result<(), SendError> {
    let packet = host.packet(data);
    let cx = &mut host.context.cx();
    let sent =
        host.internet.send(packet, super::Header::to(to.into(), protocol), &mut host.pool, cx)?;
    sent.into_iter().for_each(|sent| host.pool.put(sent));
    Ok(())
}

// req RFC1122:3.3.3-MUST-2
#[test]
fn a_datagram_that_fills_the_mtu_is_sent_and_a_longer_one_is_refused() {
    let mut host = Host::default();
    assert_eq!(send(&mut host, &[0; 1480], [10, 0, 0, 2], Protocol::Tcp), Ok(()));
    let send_result = send(&mut host, &[0; 1481], [10, 0, 0, 2], Protocol::Tcp);
    assert_eq!(send_result, Err(SendError::TooBig { mtu: 1500 }));
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn nothing_is_sent_to_an_invalid_address_or_over_tcp_to_a_group() {
    let mut host = Host::default();
    let invalid_destinations = [[0; 4], [240, 0, 0, 1], [224, 0, 0, 1], [255; 4]];
    let send_results = invalid_destinations.map(|to| send(&mut host, b"data", to, Protocol::Tcp));
    assert_eq!(send_results, [Err(SendError::Destination); 4]);
    assert_eq!(send(&mut host, b"data", [255; 4], Protocol::Udp), Ok(()));
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn nothing_is_sent_before_an_address_is_set() {
    let mut host = Host::default();
    host.internet.set_address(Ipv4Addr::UNSPECIFIED, 0);
    let send_result = send(&mut host, b"data", [10, 0, 0, 2], Protocol::Udp);
    assert_eq!((send_result, host.pool.lent()), (Err(SendError::NoAddress), 0));
}

// req RFC1122:3.2.1.7-MUST-4
#[test]
fn output_has_df_no_identification_and_the_configured_time_to_live() {
    let mut host = Host::default();
    host.internet.set_time_to_live(9);
    let packet = host.packet(b"data");
    let cx = &mut host.context.cx();
    let sent = host
        .internet
        .send(packet, super::Header::to(THEIRS.into(), Protocol::Tcp), &mut host.pool, cx)
        .unwrap()
        .unwrap();
    let header = Header::parse(sent.data()).unwrap().header;
    assert_eq!((header.dont_fragment, header.identification, header.time_to_live), (true, 0, 9));
}

#[test]
fn a_datagram_for_a_group_stays_on_the_link() {
    let mut host = Host::default();
    let packet = host.packet(b"data");
    let group = Ipv4Addr::new(224, 0, 0, 1);
    let cx = &mut host.context.cx();
    let sent = host
        .internet
        .send(packet, super::Header::to(group.into(), Protocol::Udp), &mut host.pool, cx)
        .unwrap()
        .unwrap();
    assert_eq!(Header::parse(sent.data()).unwrap().header.time_to_live, 1);
}

fn make_echo_request_bytes(host: &mut Host) -> Vec<u8> {
    let cx = &mut host.context.cx();
    let packet =
        host.internet.make_echo_request(THEIRS.into(), 7, 1, 56, &mut host.pool, cx).unwrap();
    let packet = packet.unwrap();
    let request = packet.data().to_vec();
    host.pool.put(packet);
    request
}

/// Returns the answer of the host at [`THEIRS`].
fn answer(request: &[u8]) -> Vec<u8> {
    let mut them = Host::default();
    them.internet.set_address(THEIRS, 24);
    them.receive(request);
    them.transmit().unwrap()
}

// req RFC1122:3.2.2.6-MUST-4
#[test]
fn an_echo_reply_is_reported_once_with_its_round_trip() {
    let mut host = Host::default();
    let reply = answer(&make_echo_request_bytes(&mut host));
    host.context.advance_millis(25);
    host.receive(&reply);
    host.receive(&reply);
    let expected = EchoReply {
        source: THEIRS.into(),
        identifier: 7,
        sequence: 1,
        payload_len: 56,
        round_trip: crate::time::Duration::from_millis(25),
        time_to_live: 64,
    };
    assert_eq!(host.internet.event(), Some(Event::EchoReply(expected)));
    assert_eq!(host.internet.event(), None);
    assert_eq!(host.counted(Counter::IcmpIgnored), 1);
}

#[test]
fn an_echo_reply_of_another_length_or_from_another_host_is_ignored() {
    let mut host = Host::default();
    make_echo_request_bytes(&mut host);
    receive_icmp(&mut host, &message([0, 0, 0, 0, 0, 7, 0, 1], &[0; 55]));
    let other_source = Header { source: Ipv4Addr::new(10, 0, 0, 3), ..header(Protocol::Icmp) };
    host.receive(&datagram(&other_source, &[], &message([0, 0, 0, 0, 0, 7, 0, 1], &[0; 56])));
    assert_eq!(host.internet.event(), None);
    assert_eq!(host.counted(Counter::IcmpIgnored), 2);
}

#[test]
fn an_echo_request_longer_than_any_datagram_is_rejected_without_a_buffer() {
    let mut host = Host { pool: Pool::new(0, 1600), ..Host::default() };
    let cx = &mut host.context.cx();
    let results = [65_507, 65_508].map(|payload_len| {
        host.internet
            .make_echo_request(THEIRS.into(), 7, 1, payload_len, &mut host.pool, cx)
            .unwrap_err()
    });
    assert_eq!(results, [SendError::NoBuffer, SendError::TooBig { mtu: u16::MAX }]);
}

#[test]
fn an_echo_request_to_the_broadcast_address_is_rejected() {
    let mut host = Host::default();
    let cx = &mut host.context.cx();
    let broadcast = Ipv4Addr::BROADCAST;
    let result = host.internet.make_echo_request(broadcast.into(), 7, 1, 56, &mut host.pool, cx);
    assert_eq!(result.unwrap_err(), SendError::Destination);
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn an_echo_request_is_dropped_after_sixty_four_later_ones() {
    let mut host = Host::default();
    let reply = answer(&make_echo_request_bytes(&mut host));
    (2..=65).for_each(|sequence| {
        let pool = &mut host.pool;
        let cx = &mut host.context.cx();
        let request_result =
            host.internet.make_echo_request(THEIRS.into(), 7, sequence, 56, pool, cx);
        host.pool.put(request_result.unwrap().unwrap());
    });
    host.receive(&reply);
    assert_eq!(host.internet.event(), None);
}

#[test]
fn time_is_charged_to_the_internet_account_and_then_to_the_caller_again() {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    let mut host = Host::default();
    host.context.meter = Meter::new(Clock::Counter(|| CLOCK.fetch_add(1, Ordering::Relaxed)));
    host.context.meter.enter(Account::Telnet);
    let received = host.receive(&datagram(&header(Protocol::Udp), &[], b"data")).unwrap();
    assert_eq!(host.context.meter.enter(Account::Telnet), Account::Telnet);
    let cx = &mut host.context.cx();
    host.internet.report(received, Unreachable::Port, &mut host.pool, cx);
    assert_eq!(host.context.meter.enter(Account::Telnet), Account::Telnet);
    host.transmit().unwrap();
    assert_eq!(host.context.meter.enter(Account::Telnet), Account::Telnet);
    send(&mut host, b"data", [10, 0, 0, 2], Protocol::Tcp).unwrap();
    assert_eq!(host.context.meter.enter(Account::Outside), Account::Telnet);
    assert_eq!(host.context.meter.charged(Account::Internet), 4);
}

#[test]
fn the_pseudo_header_is_summed_as_its_twelve_bytes_are() {
    let bytes = [10, 0, 0, 2, 10, 0, 0, 1, 0, 6, 0x12, 0x34];
    let sum = pseudo_header(THEIRS.into(), OURS.into(), Protocol::Tcp, 0x1234);
    assert_eq!(sum.finish(), Sum::default().bytes(&bytes).finish());
}

/// Sends a TCP datagram from [`OURS`] to [`THEIRS`], and returns its length on the link.
fn send_from_ours(host: &mut Host, len: usize) -> Result<usize, SendError> {
    let packet = host.packet(&vec![0; len]);
    let header =
        super::Header { source: OURS.into(), ..super::Header::to(THEIRS.into(), Protocol::Tcp) };
    let sent = host.internet.send(packet, header, &mut host.pool, &mut host.context.cx())?;
    let packet = sent.expect("it is whole");
    let len = packet.len();
    let hops = packet.data()[8];
    host.pool.put(packet);
    assert_eq!(hops, TIME_TO_LIVE);
    Ok(len)
}

#[test]
fn a_repeated_datagram_is_rejected_after_its_destination_is_removed() {
    let mut host = Host::default();
    let segment = datagram(&header(Protocol::Tcp), &[], &[0; 20]);
    let are_received: Vec<bool> = (0..3).map(|_| host.receive(&segment).is_some()).collect();
    host.internet.remove_address(OURS.into());
    assert!(host.receive(&segment).is_none());
    assert_eq!((are_received, host.counted(Counter::IpAddressErrors)), (vec![true; 3], 1));
}

#[test]
fn a_repeated_datagram_is_dropped_without_hops_left() {
    let mut host = Host::default();
    assert!(host.receive(&datagram(&header(Protocol::Tcp), &[], &[0; 20])).is_some());
    let expired_header = Header { time_to_live: 0, ..header(Protocol::Tcp) };
    assert!(host.receive(&datagram(&expired_header, &[], &[0; 20])).is_none());
    assert_eq!(host.counted(Counter::IpTimeExceeded), 1);
}

#[test]
fn a_repeated_datagram_is_not_sent_without_a_route() {
    let mut host = Host::default();
    let routed_results = (0..3).map(|_| send_from_ours(&mut host, 100)).collect::<Vec<_>>();
    host.internet.routes_mut().remove(Ipv4Addr::UNSPECIFIED.into(), 0, None);
    let unrouted_result = send_from_ours(&mut host, 100);
    assert_eq!((routed_results, unrouted_result), (vec![Ok(120); 3], Err(SendError::NoRoute)));
}

#[test]
fn a_repeated_datagram_is_not_sent_from_a_removed_address() {
    let mut host = Host::default();
    assert_eq!(send_from_ours(&mut host, 100), Ok(120));
    host.internet.remove_address(OURS.into());
    assert_eq!(send_from_ours(&mut host, 100), Err(SendError::NoAddress));
}

#[test]
fn a_repeated_datagram_must_fit_the_mtu_of_the_link() {
    let mut host = Host::default();
    let sent_lengths: Vec<_> =
        [1480, 1480, 1481].into_iter().map(|len| send_from_ours(&mut host, len)).collect();
    assert_eq!(sent_lengths, [Ok(1500), Ok(1500), Err(SendError::TooBig { mtu: 1500 })]);
}

#[test]
fn at_most_sixteen_datagrams_to_this_host_are_pending() {
    let mut host = Host::default();
    let results = [(); 17].map(|()| send(&mut host, b"data", OURS.octets(), Protocol::Udp));
    assert_eq!(results[..16], [Ok(()); 16]);
    assert_eq!(results[16], Err(SendError::NoBuffer));
}
