//! Tests of link parameters from routers and servers: hop limit and MTU.

use super::*;

/// Returns a router advertisement from `fe80::8` with this hop limit and MTU.
fn advertisement_with(hop_limit: u8, mtu: u32) -> Vec<u8> {
    let router = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 8);
    let sent_data = RouterAdvertisement {
        lifetime_s: 1800,
        source_mac: Some(mac(8)),
        hop_limit,
        mtu: Some(mtu),
        ..RouterAdvertisement::default()
    };
    let mut packet = Packet::with_capacity(200);
    packet.extend(&nd::Message::RouterAdvertisement(sent_data).emit(router, nd::ALL_NODES));
    push_ipv6(&mut packet, router, nd::ALL_NODES);
    let destination = MacAddress::of_group_v6(nd::ALL_NODES);
    packet.push(
        &ethernet::Header { destination, source: mac(8), ether_type: EtherType::Ipv6 }.emit(),
    );
    packet.data().to_vec()
}

/// Returns the hop limit of a ping to the router.
fn hop_limit_of_ping(segment: &mut Segment) -> u8 {
    segment.0[0].sent.clear();
    segment.0[0].ping(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 8));
    segment.deliver_all();
    let mut pings = segment.0[0].sent.iter().filter(|frame| frame[20] == 58 && frame[54] == 128);
    pings.next_back().unwrap()[21]
}

#[test]
fn the_hop_limit_of_a_router_is_used_for_sent_datagrams() {
    let host = Host::new(1, Ipv4::Off, Ipv6::Autoconfigured, Opening::Passive { port: PORT });
    let mut segment = Segment(vec![host]);
    segment.run_seconds(3);
    let limits = [0, 200, 1].map(|hop_limit| {
        segment.0[0].receive(&advertisement_with(hop_limit, 1500));
        hop_limit_of_ping(&mut segment)
    });
    assert_eq!(limits, [64, 200, 200], "and none lowers it (CVE-2015-2922)");
}

/// Sends 5000 bytes from host 1, and returns the length of the longest datagram.
fn longest_datagram(segment: &mut Segment) -> usize {
    segment.0[0].sent.clear();
    segment.0[0].application.stream.outgoing.extend([7; 5000]);
    segment.0[0].send_byte(7);
    segment.run_seconds(5);
    segment.0[0].sent.iter().map(Vec::len).max().unwrap() - 14
}

#[test]
fn a_smaller_mtu_of_the_link_shortens_the_segments_of_open_connections() {
    let mut segment = connected_with(Ipv6::Autoconfigured);
    let lengths = [1500, 1400, 1450].map(|mtu| {
        segment.0[0].receive(&advertisement_with(64, mtu));
        longest_datagram(&mut segment)
    });
    assert_eq!(lengths, [1500, 1400, 1400]);
    assert_eq!(segment.0[0].application.stream.received.len(), 3 * 5001);
}
