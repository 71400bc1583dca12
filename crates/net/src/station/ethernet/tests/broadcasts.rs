//! Tests of broadcast frames and broadcast datagrams, including those that must not be answered.

use super::*;

/// Returns a frame from host 2 with a datagram for a closed port of host 1.
fn datagram_to_closed_port(frame_to: MacAddress, to: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(mac(2).octets(), frame_to.octets())
        .ipv4(address(2).octets(), to.octets(), 64)
        .udp(1000, 9)
        .write(&mut frame, b"discard")
        .unwrap();
    frame
}

/// Delivers `frame` to host 1, and returns the types of the frames that it sends in reply.
fn answers_to(frame: &[u8]) -> Vec<EtherType> {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[0].sent.clear();
    segment.0[0].receive(frame);
    segment.deliver_all();
    ether_types(&segment.0[0].sent)
}

// req RFC1122:3.2.2-MUST-6, RFC1122:2.4-MUST-1
#[test]
fn a_datagram_for_a_closed_port_causes_an_error_unless_its_frame_was_broadcast() {
    let unicast = answers_to(&datagram_to_closed_port(mac(1), address(1)));
    let broadcast = [address(1), address(255), Ipv4Addr::BROADCAST]
        .map(|to| answers_to(&datagram_to_closed_port(MacAddress::BROADCAST, to)));
    assert_eq!(unicast, [EtherType::Arp, EtherType::Ipv4]);
    assert_eq!(broadcast, [const { Vec::<EtherType>::new() }; 3]);
}

// req RFC1122:3.3.6-MUST-2
#[test]
fn broadcast_datagrams_are_sent_in_broadcast_frames_and_others_in_unicast_frames() {
    let mut segment = Segment(vec![Host::with_fixed_address(1), Host::with_fixed_address(2)]);
    segment.run_seconds(10);
    segment.0[0].sent.clear();
    let group = Ipv4Addr::new(224, 0, 0, 1);
    for to in [Ipv4Addr::BROADCAST, address(255), group, address(2)] {
        let Host { station, context, .. } = &mut segment.0[0];
        let layers = &mut station.layers;
        let cx = &mut context.cx();
        let socket = layers.udp.bind(0, cx).unwrap();
        let sent = layers.send_to(socket, b"all", SocketAddr::new(to.into(), 9), cx);
        assert_eq!(sent, Poll::Ready(Ok(())));
        segment.deliver_all();
    }
    let headers =
        segment.0[0].sent.iter().map(|frame| ethernet::Header::parse(frame).unwrap().header);
    let datagrams = headers.filter(|header| header.ether_type == EtherType::Ipv4);
    let broadcast_mac = MacAddress::BROADCAST;
    let expected = [broadcast_mac, broadcast_mac, MacAddress::of_group_v4(group), mac(2)];
    assert_eq!(datagrams.map(|header| header.destination).collect::<Vec<_>>(), expected);
}
