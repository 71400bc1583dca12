//! Tests of a transparent host: which datagrams it accepts, and for which addresses it sends.

use super::icmp::Unreachable;
use super::ipv4::{Header, Protocol};
use super::testing::*;
use super::*;
use std::vec::Vec;

/// A host that has no address in these tests.
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const OTHER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 1, 0, 0, 0, 0, 7);

const ECHO: [u8; 8] = [8, 0, 0, 0, 0, 1, 0, 1];

fn transparent() -> Host {
    let mut host = Host::default();
    host.internet.set_transparent_for(everywhere());
    host
}

/// Returns a TCP datagram from [`THEIRS`] to `destination`.
fn to(destination: Ipv4Addr) -> Vec<u8> {
    datagram(&Header { destination, ..header(Protocol::Tcp) }, &[], &[0; 20])
}

/// Returns a TCP datagram from `source` to [`OTHER`].
fn from(source: Ipv4Addr) -> Vec<u8> {
    datagram(&Header { source, destination: OTHER, ..header(Protocol::Tcp) }, &[], &[0; 20])
}

fn between_v6(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, data: &[u8]) -> Vec<u8> {
    let header = ipv6::Header { source, destination, ..header_v6() };
    let len = u16::try_from(data.len()).unwrap();
    [&header.emit(next_header, len)[..], data].concat()
}

#[test]
fn a_host_is_not_transparent_by_default() {
    let mut host = Host::default();
    assert!(!host.internet.is_transparent());
    assert!(host.receive(&to(OTHER)).is_none());
    assert!(host.receive(&between_v6(THEIRS_V6, OTHER_V6, 6, &[0; 20])).is_none());
    assert_eq!(host.counted(Counter::IpAddressErrors), 2);
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn a_transparent_host_receives_datagrams_for_other_hosts() {
    let mut host = transparent();
    // The second address is on the network of the host.
    for destination in [OTHER, Ipv4Addr::new(10, 0, 0, 99), OURS] {
        let received = host.receive(&to(destination)).unwrap();
        assert_eq!(received.header.destination, IpAddr::V4(destination));
        host.pool.put(received.packet);
    }
    let received = host.receive(&between_v6(THEIRS_V6, OTHER_V6, 6, &[0; 20])).unwrap();
    assert_eq!(received.header.destination, IpAddr::V6(OTHER_V6));
}

#[test]
fn a_host_that_is_no_longer_transparent_remembers_no_address() {
    let mut host = transparent();
    for _ in 0..3 {
        let received = host.receive(&to(OTHER)).unwrap();
        host.pool.put(received.packet);
    }
    host.internet.set_transparent_for(None);
    assert!(host.receive(&to(OTHER)).is_none());
}

#[test]
fn a_transparent_host_refuses_groups_broadcasts_and_addresses_of_no_host() {
    let mut host = transparent();
    let refused =
        ["224.0.0.5", "255.255.255.255", "10.0.0.255", "127.0.0.1", "0.0.0.0", "240.0.0.1"];
    for destination in refused {
        assert!(host.receive(&to(destination.parse().unwrap())).is_none(), "{destination}");
    }
    let refused_v6 = ["ff02::5", "::1", "::", "::ffff:192.0.2.7"];
    for destination in refused_v6 {
        let bytes = between_v6(THEIRS_V6, destination.parse().unwrap(), 6, &[0; 20]);
        assert!(host.receive(&bytes).is_none(), "{destination}");
    }
    let all = refused.len() + refused_v6.len();
    assert_eq!(host.counted(Counter::IpAddressErrors), all as u64);
}

#[test]
fn a_transparent_host_refuses_sources_that_are_no_other_host() {
    let mut host = transparent();
    let refused =
        ["127.0.0.1", "224.0.0.1", "10.0.0.255", "0.0.0.0", "255.255.255.255", "10.0.0.1"];
    for source in refused {
        assert!(host.receive(&from(source.parse().unwrap())).is_none(), "{source}");
    }
    for source in ["::1", "ff02::1", "2001:db8::1", "::ffff:192.0.2.7"] {
        let bytes = between_v6(source.parse().unwrap(), OTHER_V6, 6, &[0; 20]);
        assert!(host.receive(&bytes).is_none(), "{source}");
    }
    assert_eq!(host.counted(Counter::IpSourceErrors), 10);
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn fragments_for_another_host_are_reassembled() {
    let mut host = transparent();
    let fragment = |offset: u16, more: u16, data: &[u8]| {
        let to_other = Header {
            destination: OTHER,
            identification: 5,
            dont_fragment: false,
            ..header(Protocol::Udp)
        };
        let mut bytes = datagram(&to_other, &[], data);
        bytes[6..8].copy_from_slice(&((more << 13) | (offset / 8)).to_be_bytes());
        reseal(&mut bytes);
        bytes
    };
    assert!(host.receive(&fragment(0, 1, &[1; 16])).is_none());
    let received = host.receive(&fragment(16, 0, &[2; 4])).unwrap();
    assert_eq!(received.packet.data(), [&[1; 16][..], &[2; 4]].concat());
    assert_eq!(received.header.destination, IpAddr::V4(OTHER));
    host.pool.put(received.packet);
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn an_expired_fragment_for_another_host_is_reported_by_that_host() {
    let mut host = transparent();
    let to_other = Header {
        destination: OTHER,
        identification: 5,
        dont_fragment: false,
        ..header(Protocol::Udp)
    };
    let mut bytes = datagram(&to_other, &[], &[1; 16]);
    bytes[6] |= 0x20;
    reseal(&mut bytes);
    assert!(host.receive(&bytes).is_none());
    host.context.now = host.internet.deadline().unwrap();
    host.internet.timeout(&mut host.pool, &mut host.context.cx());
    let error = Header::parse(&host.transmit().unwrap()).unwrap().header;
    assert_eq!((error.source, error.destination, error.protocol), (OTHER, THEIRS, Protocol::Icmp));
}

#[test]
fn an_error_for_another_host_has_its_address() {
    let mut host = transparent();
    let udp = datagram(&Header { destination: OTHER, ..header(Protocol::Udp) }, &[], &[0; 8]);
    host.refuse(&udp);
    let sent = host.transmit().unwrap();
    let parsed = Header::parse(&sent).unwrap().header;
    assert_eq!((parsed.source, parsed.destination), (OTHER, THEIRS));
    assert_eq!(&sent[20..22], &[3, 3]);
    let received = host.receive(&between_v6(THEIRS_V6, OTHER_V6, 17, &[0; 8])).unwrap();
    let cx = &mut host.context.cx();
    host.internet.report(received, Unreachable::Port, &mut host.pool, cx);
    let sent = host.transmit().unwrap();
    assert_eq!((&sent[8..24], &sent[24..40]), (&OTHER_V6.octets()[..], &THEIRS_V6.octets()[..]));
}

#[test]
fn an_unknown_protocol_for_another_host_is_reported_by_that_host() {
    let mut host = transparent();
    let header = Header { destination: OTHER, ..header(Protocol::Other(132)) };
    assert!(host.receive(&datagram(&header, &[], &[0; 8])).is_none());
    let sent = host.transmit().unwrap();
    assert_eq!((Header::parse(&sent).unwrap().header.source, &sent[20..22]), (OTHER, &[3, 2][..]));
}

#[test]
fn the_application_receives_echo_requests_for_other_hosts_only() {
    let mut host = transparent();
    let echo = |destination: Ipv4Addr, first: u8| {
        let mut request = ECHO;
        request[0] = first;
        let header = Header { destination, ..header(Protocol::Icmp) };
        datagram(&header, &[], &message(request, b"data"))
    };
    let received = host.receive(&echo(OTHER, 8)).unwrap();
    assert_eq!(&received.packet.data()[8..], b"data");
    host.pool.put(received.packet);
    assert!(host.receive(&echo(OTHER, 0)).is_none(), "a reply");
    assert!(host.receive(&echo(OTHER, 13)).is_none(), "another request");
    assert!(host.transmit().is_none());
    assert!(host.receive(&echo(OURS, 8)).is_none());
    assert_eq!(host.transmit().unwrap()[20], 0, "the host's own reply");
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn the_application_receives_ipv6_echo_requests_for_other_hosts_only() {
    let mut host = transparent();
    let request = |destination: Ipv6Addr, first: u8| {
        let mut message = [&[first, 0, 0, 0, 0, 1, 0, 1], &b"data"[..]].concat();
        icmpv6::seal(THEIRS_V6, destination, &mut message);
        between_v6(THEIRS_V6, destination, 58, &message)
    };
    let received = host.receive(&request(OTHER_V6, 128)).unwrap();
    assert_eq!(&received.packet.data()[8..], b"data");
    host.pool.put(received.packet);
    assert!(host.receive(&request(OTHER_V6, 129)).is_none(), "a reply");
    assert!(host.transmit().is_none());
    assert!(host.receive(&request(OURS_V6, 128)).is_none());
    assert_eq!(host.transmit().unwrap()[40], 129, "the host's own reply");
}

#[test]
fn only_a_transparent_host_sends_from_the_address_of_another_host() {
    for (is_transparent, source, is_sent) in [
        (true, IpAddr::V4(OTHER), true),
        (false, IpAddr::V4(OTHER), false),
        (true, IpAddr::V4(Ipv4Addr::LOCALHOST), false),
        (true, IpAddr::V4(Ipv4Addr::BROADCAST), false),
        (true, "224.0.0.1".parse().unwrap(), false),
        (true, "10.0.0.255".parse().unwrap(), false),
        (false, IpAddr::V4(OURS), true),
    ] {
        let mut host = Host::default();
        host.internet.set_transparent_for(everywhere().filter(|_| is_transparent));
        let packet = host.packet(b"data");
        let header = super::Header { source, ..super::Header::to(THEIRS.into(), Protocol::Udp) };
        let sent = host.internet.send(packet, header, &mut host.pool, &mut host.context.cx());
        match sent {
            Ok(sent) => {
                let parsed = Header::parse(sent.unwrap().data()).unwrap().header;
                assert_eq!((IpAddr::V4(parsed.source), is_sent), (source, true));
            }
            Err(error) => {
                assert_eq!((error, is_sent), (SendError::NoAddress, false), "{source}");
                assert_eq!(host.pool.lent(), 0);
            }
        }
    }
}
