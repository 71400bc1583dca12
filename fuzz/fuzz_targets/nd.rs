//! Input: a script of Neighbor Discovery messages (a type and arbitrary bytes) to a host that
//! autoconfigures its addresses and uses the advertised routers. Checked: every list keeps its
//! limit, and all output can be parsed.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::internet::nd::{
    ALL_NODES, Discovery, HOP_LIMIT, Message, Prefix, RouterAdvertisement, Settings,
};
use net::internet::neighbor::Cache;
use net::internet::slaac::Secret;
use net::link::ethernet::MacAddress;
use std::net::Ipv6Addr;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
/// Upper bound on the packets that one step of a script sends.
const MAX_SENT_PACKETS: usize = 200;

struct Host {
    discovery: Discovery,
    cache: Cache,
    bench: Bench,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let secret = Secret([1, 2]);
    let accepts_router_advertisements = true;
    let settings = Settings { mac: MAC, secret, accepts_router_advertisements, mtu: 1500 };
    let discovery = Discovery::new(settings);
    let cache = Cache::default();
    let mut host = Host { discovery, cache, bench: Bench::default() };
    host.discovery.start(&mut host.bench.cx());
    let mut script = Script(input);
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.settle();
    }
});

impl Host {
    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let router = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, u16::from(verb >> 5));
        match verb & 7 {
            0 => self.bench.advance_millis(1 << (verb >> 3)),
            1 => self.bench.advance_to(self.discovery.deadline()),
            2 => {
                let ours = self.discovery.addresses().receive_addresses().next();
                let target = ours.unwrap_or(Ipv6Addr::UNSPECIFIED);
                let message =
                    Message::NeighborSolicitation { target, source_mac: Some(MAC), nonce: None };
                self.receive(&message.emit(router, target), router, target);
            }
            _ => {
                let Some(len) = script.byte() else { return };
                let kind = 133 + (verb >> 3) % 5;
                let rest = script.piece(usize::from(len) * 4);
                let bytes = [&[kind, 0, 0, 0], rest].concat();
                let source = if verb & 7 == 3 { Ipv6Addr::UNSPECIFIED } else { router };
                self.receive(&bytes, source, ALL_NODES);
            }
        }
    }

    fn receive(&mut self, bytes: &[u8], source: Ipv6Addr, destination: Ipv6Addr) {
        let cache = &mut self.cache;
        let cx = &mut self.bench.cx();
        self.discovery.receive(bytes, source, destination, HOP_LIMIT, cache, cx);
    }

    fn settle(&mut self) {
        self.discovery.timeout(&mut self.bench.cx());
        let mut sent = 0;
        while let Some(outgoing) = self.discovery.transmit(&mut self.bench.cx()) {
            sent += 1;
            let source = outgoing.source;
            let destination = outgoing.destination;
            let bytes = outgoing.message.emit(source, destination);
            let parsed = Message::parse(&bytes, source, destination, HOP_LIMIT);
            assert_eq!(parsed.expect("sent messages can be parsed").message, outgoing.message);
        }
        assert!(sent < MAX_SENT_PACKETS, "the host becomes idle");
        while self.discovery.event().is_some() {}
        let discovery = &self.discovery;
        assert!(discovery.addresses().receive_addresses().count() <= 16);
        assert!(discovery.routers().len() <= 8 && discovery.prefixes().len() <= 16);
        assert!(discovery.dns_servers().count() <= 8);
        assert!((1280..=1500).contains(&discovery.mtu()) && discovery.hop_limit() >= 64);
        let off_link_address = Ipv6Addr::new(0x2620, 0, 0, 0, 0, 0, 0, 1);
        _ = discovery.next_hop(off_link_address, &self.cache);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let prefix = Prefix {
        prefix: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0),
        len: 64,
        is_on_link: true,
        is_autonomous: true,
        valid_s: 3600,
        preferred_s: 60,
    };
    let router_advertisement = RouterAdvertisement {
        lifetime_s: 1800,
        source_mac: Some(MAC),
        mtu: Some(1400),
        prefixes: vec![prefix],
        dns_servers: vec![(prefix.prefix, 600)],
        ..RouterAdvertisement::default()
    };
    let router = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1);
    let bytes = Message::RouterAdvertisement(router_advertisement).emit(router, ALL_NODES);
    let len = u8::try_from((bytes.len() - 4) / 4).expect("a short message");
    let advertisement = [&[0x2F, len], &bytes[4..]].concat();
    vec![[&[1, 1, 1], &advertisement[..], &[1, 1, 1, 2, 0xF8]].concat(), vec![1, 1, 1, 2]]
}
