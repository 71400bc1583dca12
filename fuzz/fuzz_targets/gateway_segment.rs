//! Input: a script of frames of a guest (arbitrary, or an ARP packet, a message of Neighbor
//! Discovery, DHCP or DHCPv6 with arbitrary content), and time steps. Checked: only datagrams of
//! the lease are forwarded, no packet leaks, and all output can be parsed.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use gateway::segment::{Advertisement, Ipv4Network, Ipv6Network, Represented, Segment, Settings};
use gateway::{dhcp_server, dhcpv6_server};
use libfuzzer_sys::fuzz_target;
use net::application::dhcp;
use net::internet::arp::ArpPacket;
use net::internet::ipv4::{self, Protocol};
use net::internet::{icmpv6, ipv6, nd};
use net::link::ethernet::{EtherType, Header, MacAddress};
use net::packet::{ChecksumState, Packet, Pool};
use std::net::{Ipv4Addr, Ipv6Addr};

const GATEWAY_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const GUEST_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const LEASE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0);
const GUEST: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 3);
const GATEWAY_LOCAL: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 2);
const GUEST_LOCAL: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 3);

struct Host {
    segment: Segment,
    pool: Pool,
    bench: Bench,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut script = Script(input);
    let represented = match script.byte() {
        Some(flags) if flags & 1 != 0 => Represented::EveryOther,
        _ => Represented::Gateway,
    };
    let segment = Segment::new(settings(represented));
    let mut host = Host { segment, pool: Pool::new(8, 2048), bench: Bench::default() };
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.settle();
    }
});

fn settings(represented: Represented) -> Settings {
    Settings {
        mac: GATEWAY_MAC,
        guest_mac: Some(GUEST_MAC),
        represented,
        ipv4: Some(Ipv4Network { lease: LEASE, prefix_len: 24, gateways: vec![GATEWAY] }),
        ipv6: Some(Ipv6Network {
            prefix: PREFIX,
            lease: None,
            link_local: GATEWAY_LOCAL,
            gateways: Vec::new(),
            advertisement: Some(Advertisement {
                prefix: PREFIX,
                mtu: 1500,
                dns_servers: vec![GATEWAY_LOCAL],
                search_domains: vec!["a.example".parse().expect("a valid name")],
            }),
        }),
        dhcp: Some(dhcp_server::Settings {
            server: GATEWAY,
            address: LEASE,
            prefix_len: 24,
            router: Some(GATEWAY),
            dns_servers: vec![GATEWAY],
            search_domains: vec!["a.example".parse().expect("a valid name")],
            mtu: Some(1500),
            lease_time: None,
        }),
        dhcpv6: Some(dhcpv6_server::Settings {
            mac: GATEWAY_MAC,
            address: GUEST,
            dns_servers: vec![GATEWAY_LOCAL],
            search_domains: vec!["a.example".parse().expect("a valid name")],
            lifetime: None,
        }),
    }
}

impl Host {
    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let len = usize::from(script.byte().unwrap_or(0));
        match verb & 7 {
            0 => self.bench.advance_millis(1 << (verb >> 4)),
            1 => self.bench.advance_to(self.segment.deadline()),
            2 => self.receive(script.piece(len)),
            3 => self.receive_as(0x0806, script.piece(len)),
            4 => self.receive_as(0x0800, script.piece(len)),
            5 => self.receive_as(0x86DD, script.piece(len)),
            6 => {
                let kind = 133 + (verb >> 3) % 5;
                let mut message = [&[kind, 0, 0, 0], script.piece(len)].concat();
                icmpv6::seal(GUEST_LOCAL, GATEWAY_LOCAL, &mut message);
                self.receive_as(0x86DD, &datagram_v6(&message, GATEWAY_LOCAL, nd::ICMPV6));
            }
            7 if verb & 0x80 != 0 => {
                let message = udp_v6(&[&[verb >> 3 & 15], script.piece(len)].concat());
                let to = dhcpv6_server::SERVERS;
                self.receive_as(0x86DD, &datagram_v6(&message, to, Protocol::Udp.into()));
            }
            _ => {
                // The fixed part of a DHCP message, and arbitrary options.
                let message = [&discover()[..240], script.piece(len)].concat();
                self.receive_as(0x0800, &datagram_v4(&message));
            }
        }
    }

    fn receive_as(&mut self, kind: u16, content: &[u8]) {
        let header = Header {
            destination: GATEWAY_MAC,
            source: GUEST_MAC,
            ether_type: EtherType::from(kind),
        };
        self.receive(&[&header.emit()[..], content].concat());
    }

    fn receive(&mut self, frame: &[u8]) {
        let mut packet = self.pool.take(&mut self.bench.meter).expect("the pool has a free packet");
        packet.extend(frame);
        if let Some(packet) = self.segment.receive(packet, &mut self.pool, &mut self.bench.cx()) {
            assert_eq!(packet.offload.checksum, ChecksumState::InPacket);
            match ipv4::Header::parse(packet.data()) {
                Ok(parsed) => assert_eq!(parsed.header.source, LEASE),
                Err(_) => {
                    let parsed = ipv6::Header::parse(packet.data()).expect("a valid datagram");
                    let source = parsed.header.source;
                    assert!(nd::is_link_local(source) || nd::prefix_of(source, 64) == PREFIX);
                }
            }
            self.pool.put(packet);
        }
    }

    fn settle(&mut self) {
        self.segment.timeout(&mut self.bench.cx());
        while let Some(packet) = self.segment.transmit(&mut self.pool, &mut self.bench.cx()) {
            let parsed = Header::parse(packet.data()).expect("a valid frame");
            let content = &packet.data()[parsed.header_len..];
            match parsed.header.ether_type {
                EtherType::Arp => _ = ArpPacket::parse(content).expect("a valid packet"),
                EtherType::Ipv4 => _ = ipv4::Header::parse(content).expect("a valid datagram"),
                _ => _ = ipv6::Header::parse(content).expect("a valid datagram"),
            }
            self.pool.put(packet);
        }
        while self.segment.event().is_some() {}
        assert_eq!(self.pool.lent(), 0, "no packet leaks");
    }
}

fn datagram_v6(message: &[u8], destination: Ipv6Addr, next_header: u8) -> Vec<u8> {
    let header = ipv6::Header {
        source: GUEST_LOCAL,
        destination,
        hop_limit: nd::HOP_LIMIT,
        dscp_ecn: 0,
        flow_label: 0,
    };
    let len = u16::try_from(message.len()).expect("a short message");
    [&header.emit(next_header, len)[..], message].concat()
}

/// Returns a UDP datagram with a message to the DHCPv6 servers.
fn udp_v6(message: &[u8]) -> Vec<u8> {
    let len = u16::try_from(message.len() + 8).expect("a short message");
    let [l0, l1] = len.to_be_bytes();
    let ports = [2, 34, 2, 35];
    let sum = ipv6::pseudo_header(GUEST_LOCAL, dhcpv6_server::SERVERS, Protocol::Udp, len);
    let [c0, c1] = sum.bytes(&ports).bytes(&[l0, l1]).bytes(message).finish().to_be_bytes();
    [&ports, &[l0, l1, c0, c1], message].concat()
}

fn datagram_v4(message: &[u8]) -> Vec<u8> {
    let mut packet = Packet::from_slice(message);
    let len = u16::try_from(message.len() + 8).expect("a short message");
    let [l0, l1] = len.to_be_bytes();
    // A checksum of zero is none.
    packet.push(&[0, 68, 0, 67, l0, l1, 0, 0]);
    let header = ipv4::Header {
        source: Ipv4Addr::UNSPECIFIED,
        destination: Ipv4Addr::BROADCAST,
        protocol: Protocol::Udp,
        time_to_live: 64,
        identification: 0,
        dscp_ecn: 0,
        dont_fragment: false,
    };
    packet.push(&header.emit(len + 20));
    packet.data().to_vec()
}

fn discover() -> Vec<u8> {
    let message = dhcp::Message {
        op: dhcp::Op::Request,
        kind: dhcp::Kind::Discover,
        transaction: 7,
        elapsed_s: 0,
        is_broadcast: false,
        client: Ipv4Addr::UNSPECIFIED,
        your_address: Ipv4Addr::UNSPECIFIED,
        relay: Ipv4Addr::UNSPECIFIED,
        mac: GUEST_MAC,
        options: dhcp::Options::default(),
    };
    message.emit()
}

fn seeds() -> Vec<Vec<u8>> {
    let packet = ArpPacket {
        operation: net::internet::arp::Operation::Request,
        sender_mac: GUEST_MAC,
        sender: LEASE,
        target_mac: MacAddress::UNSPECIFIED,
        target: GATEWAY,
    };
    let solicitation = [&[0; 4], &GATEWAY_LOCAL.octets()[..], &[1, 1, 2, 0, 0, 0, 0, 2]].concat();
    let options = [53, 1, 3, 50, 4, 10, 0, 2, 100, 255];
    vec![
        [&[0, 3, 28], &packet.emit()[..]].concat(),
        [&[0, 6 | 2 << 3, 28], &solicitation[..]].concat(),
        vec![0, 6, 12, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 2, 1, 0],
        [&[1, 7, 10], &options[..]].concat(),
        [&[1, 0x8F, 13], &b"\x01\x02\x03\0\x01\0\x04\0\x04\x07\x07\0\0"[..]].concat(),
    ]
}
