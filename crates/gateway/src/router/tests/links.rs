//! The links of a router: address assignment, header compression, lines that end.

use super::*;
use crate::queue::testing::{ipv4_with, udp4, udp6};
use net::internet::ipv4::Protocol;
use net::internet::pseudo_header;

fn llp_line(host: u8) -> LineSettings {
    LineSettings::llp(address(host), 9_600)
}

fn ppp_line(host: u8) -> LineSettings {
    let settings = ppp::Settings { echo_interval: None, ..ppp::Settings::default() };
    LineSettings { protocol: LineProtocol::Ppp(Box::new(settings)), ..slip_line(host) }
}

fn open_ppp(fixture: &mut Fixture, line: usize) {
    if let Link::Ppp(ppp) = &mut fixture.lines[line].1 {
        ppp.open(&mut fixture.context.cx());
    }
    fixture.carry();
    // The request of the router was sent before the host opened the line, and is repeated.
    fixture.context.advance_millis(3_000);
    fixture.router.timeout(&mut fixture.context.cx());
    fixture.carry();
}

#[test]
fn the_router_answers_the_address_request_of_llp_with_the_address_of_the_line() {
    let mut fixture = Fixture::new(vec![llp_line(2), llp_line(3)]);
    for (line, host) in [(0, 2), (1, 3)] {
        if let Link::Llp(llp) = &mut fixture.lines[line].1 {
            llp.request_address(&mut fixture.context.cx());
        }
        fixture.carry();
        let Some(LinkEvent::Address(assigned)) = fixture.lines[line].1.event() else {
            panic!("the address request is not answered");
        };
        assert_eq!(assigned, address(host).octets());
    }
}

#[test]
fn the_router_assigns_the_address_of_a_ppp_line_and_reports_that_it_is_up() {
    let mut fixture = Fixture::new(vec![ppp_line(2), slip_line(3)]);
    assert_eq!(fixture.router.event(), Some(Event::LineUp(fixture.lines[1].0)));
    assert_eq!(fixture.router.event(), None);
    // Before the line is open, its host is unreachable.
    fixture.send_from_host(&udp4(200, 2, 1, 30));
    assert_eq!(fixture.router.counters().drops.line_down, 1);
    open_ppp(&mut fixture, 0);
    assert_eq!(fixture.router.event(), Some(Event::LineUp(fixture.lines[0].0)));
    let Link::Ppp(ppp) = &fixture.lines[0].1 else { panic!("the line is a PPP line") };
    assert_eq!(ppp.addresses(), [Some(address(2)), Some(ROUTER_ADDRESS)]);
    fixture.send(0, &udp4(2, 3, 1, 30));
    assert_eq!(fixture.received(1).len(), 1);
    fixture.send(1, &udp4(3, 2, 1, 30));
    assert_eq!(fixture.received(0).len(), 1);
}

#[test]
fn ipv6_passes_a_ppp_line_with_a_prefix() {
    let prefix = Some(("2001:db8::2".parse().unwrap(), 128));
    let mut fixture = Fixture::new(vec![LineSettings { prefix, ..ppp_line(2) }]);
    open_ppp(&mut fixture, 0);
    fixture.send(0, &udp6(2, 200, 1, 30));
    assert_eq!(fixture.received_by_host().len(), 1);
    fixture.send_from_host(&udp6(200, 2, 1, 30));
    assert_eq!(fixture.received(0).len(), 1);
}

#[test]
fn a_ppp_line_that_the_host_has_closed_is_opened_again() {
    let mut fixture = Fixture::new(vec![ppp_line(2)]);
    open_ppp(&mut fixture, 0);
    while fixture.router.event().is_some() {}
    if let Link::Ppp(ppp) = &mut fixture.lines[0].1 {
        ppp.close(&mut fixture.context.cx());
    }
    fixture.carry();
    assert_eq!(fixture.router.event(), Some(Event::LineDown(fixture.lines[0].0)));
    for _ in 0..20 {
        let Some(deadline) = fixture.router.deadline() else { break };
        fixture.context.now = fixture.context.now.max(deadline);
        fixture.router.timeout(&mut fixture.context.cx());
        fixture.carry();
        open_ppp(&mut fixture, 0);
    }
    assert_eq!(fixture.router.event(), Some(Event::LineUp(fixture.lines[0].0)));
}

#[test]
fn a_ppp_line_without_a_host_is_opened_again_until_a_host_appears() {
    let mut fixture = Fixture::new(vec![ppp_line(2)]);
    // The router gives up after ten requests, which are not answered.
    for _ in 0..40 {
        let deadline = fixture.router.deadline().unwrap();
        fixture.context.now = fixture.context.now.max(deadline);
        fixture.router.timeout(&mut fixture.context.cx());
        let id = fixture.lines[0].0;
        fixture.router.transmit_into(id, &mut Vec::new(), 2_048, &mut fixture.context.cx());
    }
    assert!(fixture.context.now.since(Instant::ZERO).as_secs() > 60);
    open_ppp(&mut fixture, 0);
    assert_eq!(fixture.router.event(), Some(Event::LineUp(fixture.lines[0].0)));
}

/// Returns a TCP segment from a host, with a valid checksum.
fn segment(source: u8, sequence: u32, data: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x04, 0xD2, 0, 23];
    segment.extend(sequence.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    segment.extend(data);
    let len = u16::try_from(segment.len()).unwrap();
    let [from, to] = [address(source), address(200)].map(Into::into);
    let checksum = pseudo_header(from, to, Protocol::Tcp, len).bytes(&segment).finish();
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    ipv4_with(source, 200, 6, &segment)
}

#[test]
fn compressed_headers_are_restored_before_a_datagram_is_routed() {
    let slip = LineProtocol::Slip { compresses_headers: true };
    let llp = LineProtocol::Llp { compresses_headers: true };
    let lines = [slip_line(2), llp_line(3), ppp_line(4)];
    for (mut line, protocol) in lines.into_iter().zip([Some(slip), Some(llp), None]) {
        line.protocol = protocol.unwrap_or(line.protocol);
        let host = line.address.octets()[3];
        let mut fixture = Fixture::new(vec![line]);
        open_ppp(&mut fixture, 0);
        for number in 0..5 {
            fixture.send(0, &segment(host, 1 + number * 10, b"ten bytes."));
        }
        let received = fixture.received_by_host();
        assert_eq!(received.len(), 5);
        for (datagram, number) in received.iter().zip(0..) {
            assert_eq!(datagram[20..], segment(host, 1 + number * 10, b"ten bytes.")[20..]);
        }
        let counted = fixture.context.counted(net::meter::Counter::VjCompressedIn);
        assert!(counted > 0, "{host}");
    }
}

#[test]
fn a_removed_line_leaves_no_packet_and_its_address_is_free_again() {
    let mut fixture = Fixture::new(vec![slip_line(2), slip_line(3)]);
    for number in 0..10 {
        fixture.enqueue_from_host(&udp4(200, 2, number, 100));
        fixture.enqueue_from_host(&udp4(200, 3, number, 100));
    }
    let (removed, _) = fixture.lines.remove(0);
    // Part of a packet is on the wire.
    let mut wire = Vec::new();
    fixture.router.transmit_into(removed, &mut wire, 50, &mut fixture.context.cx());
    fixture.router.remove_line(removed);
    fixture.assert_balanced();
    assert_eq!(fixture.router.held(), 10);
    assert!(!fixture.router.has_output(removed));
    fixture.send_from_host(&udp4(200, 2, 1, 100));
    assert_eq!(fixture.router.counters().drops.no_route, 1);
    assert!(fixture.router.add_line(slip_line(2), &mut fixture.context.cx()).is_ok());
    fixture.received_by_host();
    assert_eq!(fixture.router.packets_in_use(), 0);
}

#[test]
fn the_addresses_of_a_line_that_has_failed_are_unreachable_until_it_is_added_again() {
    let [first, second] = [(2, "2001:db8::2"), (3, "2001:db8::3")].map(|(host, address)| {
        let prefix = Some((address.parse().unwrap(), 128));
        LineSettings { prefix, ..slip_line(host) }
    });
    let mut fixture = Fixture::new(vec![first.clone(), second]);
    let (failed, _) = fixture.lines.remove(0);
    fixture.router.fail_line(failed);
    for datagram in [udp4(3, 2, 1, 30), udp6(3, 2, 1, 30)] {
        fixture.send(0, &datagram);
        assert_eq!(fixture.received(0).len(), 1, "an error");
    }
    fixture.send_from_host(&udp4(200, 2, 1, 30));
    assert_eq!(fixture.received_by_host().len(), 1, "an error");
    // The kernel does not send from the address of a line.
    fixture.send_from_host(&udp4(2, 3, 1, 30));
    let counters = fixture.router.counters();
    assert_eq!((counters.drops.line_down, counters.errors_sent), (3, 3));
    assert_eq!((counters.drops.source, fixture.received(0).len()), (1, 0));
    let added = fixture.router.add_line(first, &mut fixture.context.cx()).unwrap();
    fixture.send(0, &udp4(3, 2, 1, 30));
    assert_eq!(fixture.router.held(), 1);
    // A line that is removed leaves its addresses to the host.
    fixture.router.remove_line(added);
    fixture.send(0, &udp4(3, 2, 1, 30));
    assert_eq!(fixture.received_by_host().len(), 1);
    assert_eq!(fixture.router.counters().drops.line_down, 3);
}

#[test]
fn no_more_failed_lines_are_kept_than_lines() {
    let mut fixture = Fixture::new(Vec::new());
    for host in 2..20 {
        let id = fixture.router.add_line(slip_line(host), &mut fixture.context.cx()).unwrap();
        fixture.router.fail_line(id);
    }
    assert_eq!(fixture.router.failed.len(), RouterSettings::default().lines_max);
}

#[test]
fn a_line_is_refused_if_its_address_is_in_use_or_no_host_address() {
    let mut fixture = Fixture::new(vec![slip_line(2)]);
    let mut add = |line| fixture.router.add_line(line, &mut fixture.context.cx()).err();
    assert_eq!(add(slip_line(2)), Some(AddLineError::AddressInUse));
    assert_eq!(add(slip_line(1)), Some(AddLineError::AddressInUse));
    let address = Ipv4Addr::new(224, 0, 0, 1);
    assert_eq!(add(LineSettings { address, ..slip_line(3) }), Some(AddLineError::Address));
    assert_eq!(add(LineSettings { mtu: 67, ..slip_line(3) }), Some(AddLineError::Mtu));
    let prefix = Some(("2001:db8::".parse().unwrap(), 64));
    assert_eq!(add(LineSettings { mtu: 700, prefix, ..slip_line(3) }), Some(AddLineError::Mtu));
    assert_eq!(add(LineSettings { prefix, ..slip_line(3) }), None);
    let inside = Some(("2001:db8::5".parse().unwrap(), 128));
    let overlapping = LineSettings { prefix: inside, ..slip_line(4) };
    assert_eq!(add(overlapping), Some(AddLineError::AddressInUse));
    assert!((5..19).all(|host| add(slip_line(host)).is_none()));
    assert_eq!(add(slip_line(19)), Some(AddLineError::TooManyLines));
}

#[test]
fn a_packet_above_the_mtu_of_its_line_is_counted() {
    const END: u8 = 0o300;
    let mut fixture = Fixture::new(vec![slip_line(2)]);
    let id = fixture.lines[0].0;
    for len in [1, 10_000] {
        let bytes = [vec![1; len], vec![END]].concat();
        fixture.router.receive(id, &bytes, &mut fixture.context.cx());
    }
    fixture.assert_balanced();
    let drops = fixture.router.counters().drops;
    assert_eq!((drops.malformed, drops.above_mtu), (1, 1));
}
