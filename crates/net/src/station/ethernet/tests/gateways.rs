//! Tests of dead gateways and the probes that detect them (RFC 1122 §3.3.1).

use super::*;

const REMOTE_HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Returns a segment in which host 1 has two gateways: hosts 2 and 3, which drop the packets to be
/// forwarded.
fn between_two_gateways() -> Segment {
    let opening = Opening::Passive { port: PORT };
    let mut host = Host::new(1, fixed_address(1, Some(address(2))), Ipv6::Off, opening);
    let other = routes::Route::via(address(3).into(), Ipv4Addr::UNSPECIFIED.into(), 0);
    host.station.internet_mut().routes_mut().add(routes::Route { metric: 1, ..other }).unwrap();
    let mut segment = Segment(vec![host, Host::with_fixed_address(2), Host::with_fixed_address(3)]);
    segment.run_seconds(10);
    segment
}

/// Returns the destinations of the neighbor solicitations that a host has sent since the last call.
fn solicited_macs(host: &mut Host) -> Vec<MacAddress> {
    let sent = core::mem::take(&mut host.sent);
    let solicitations = sent.iter().filter_map(|frame| {
        let header = ethernet::Header::parse(frame).unwrap().header;
        let packet = (header.ether_type == EtherType::Arp).then(|| ArpPacket::parse(&frame[14..]));
        let is_question = packet?.unwrap().operation == Operation::Request;
        is_question.then_some(header.destination)
    });
    solicitations.collect()
}

/// Returns the gateway to which a ping to a remote host is sent.
fn gateway_of_ping(segment: &mut Segment) -> Option<MacAddress> {
    segment.0[0].sent.clear();
    segment.0[0].ping(REMOTE_HOST);
    segment.deliver_all();
    let mut headers =
        segment.0[0].sent.iter().map(|frame| ethernet::Header::parse(frame).unwrap().header);
    headers.find(|header| header.ether_type == EtherType::Ipv4).map(|header| header.destination)
}

fn ping_every_second(segment: &mut Segment, seconds: u64) {
    for _ in 0..seconds {
        segment.0[0].ping(REMOTE_HOST);
        segment.run_seconds(1);
    }
}

// req RFC1122:3.3.1.4-MUST-1, RFC1122:3.3.1.5-MUST-1, RFC1122:3.3.1.6-MUST-1
#[test]
fn of_two_static_gateways_the_second_is_used_after_the_first_fails() {
    let mut segment = between_two_gateways();
    assert_eq!(gateway_of_ping(&mut segment), Some(mac(2)));
    segment.0.remove(1);
    ping_every_second(&mut segment, 60);
    assert_eq!(gateway_of_ping(&mut segment), Some(mac(3)));
}

#[test]
fn of_two_dead_gateways_the_one_that_recovers_is_used() {
    let mut segment = between_two_gateways();
    let third = segment.0.remove(2);
    let second = segment.0.remove(1);
    ping_every_second(&mut segment, 20);
    drop(third);
    segment.0.push(second);
    segment.0[1].context.now = segment.0[0].context.now;
    ping_every_second(&mut segment, 20);
    assert_eq!(gateway_of_ping(&mut segment), Some(mac(2)));
}

// req RFC1122:3.3.1.4-MUST-2
#[test]
fn a_gateway_in_use_is_not_probed_continuously() {
    let mut segment = between_two_gateways();
    ping_every_second(&mut segment, 10);
    solicited_macs(&mut segment.0[0]);
    ping_every_second(&mut segment, 300);
    let solicited_macs = solicited_macs(&mut segment.0[0]);
    // An answer confirms the gateway for at least 15 s. The next probe follows 5 s later.
    assert!((1..=15).contains(&solicited_macs.len()), "{solicited_macs:?}");
    assert!(solicited_macs.iter().all(|to| *to == mac(2)), "the gateway alone");
}

// req RFC1122:3.3.1.4-MUST-3
#[test]
fn an_unused_gateway_is_not_probed() {
    let mut segment = between_two_gateways();
    ping_every_second(&mut segment, 10);
    solicited_macs(&mut segment.0[0]);
    segment.run_seconds(3600);
    assert_eq!(solicited_macs(&mut segment.0[0]), []);
}

// req RFC1122:3.3.1.4-MUST-4
#[test]
fn a_neighbor_that_acknowledges_data_is_not_probed() {
    let mut segment = connected_hosts();
    solicited_macs(&mut segment.0[0]);
    for _ in 0..300 {
        segment.0[0].send_byte(7);
        segment.run_seconds(2);
    }
    assert_eq!(segment.0[0].application.stream.received.len(), 300);
    assert_eq!(solicited_macs(&mut segment.0[0]), []);
}

#[test]
fn a_neighbor_that_acknowledges_no_data_is_probed_early() {
    let mut segment = connected_hosts();
    segment.0.remove(1);
    solicited_macs(&mut segment.0[0]);
    segment.0[0].send_byte(7);
    segment.run_seconds(1);
    assert_eq!(solicited_macs(&mut segment.0[0]), [], "a segment may be lost");
    segment.run_seconds(1);
    assert_eq!(solicited_macs(&mut segment.0[0]), [mac(2)]);
    segment.run_seconds(3);
    assert_eq!(segment.0[0].ethernet().cache().lookup(address(2).into()), None);
}
