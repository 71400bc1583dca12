//! Input: a script of ARP packets (arbitrary or well-formed bytes), packets to send, and time
//! steps. Checked: the neighbor cache keeps its limits, no packet leaks, and all output can be
//! parsed.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::internet::arp::{Arp, ArpPacket, Defense, Operation};
use net::internet::neighbor::{Cache, Event, Limits};
use net::link::ethernet::MacAddress;
use net::packet::Pool;
use std::net::{IpAddr, Ipv4Addr};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const LIMITS: Limits =
    Limits { entries: 6, incomplete: 3, unused: 2, packets_per_entry: 2, packets: 4 };
/// Upper bound on the packets that one step of a script sends.
const MAX_SENT_PACKETS: usize = 200;

struct Host {
    arp: Arp,
    cache: Cache,
    pool: Pool,
    bench: Bench,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut host = Host {
        arp: Arp::new(MAC),
        cache: Cache::new(LIMITS),
        pool: Pool::new(16, 64),
        bench: Bench::default(),
    };
    host.arp.hold(US, Defense::Keep, &mut host.bench.cx()).expect("the first address is accepted");
    let mut script = Script(input);
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.settle();
    }
    host.cache.reset(&mut host.pool);
    assert_eq!(host.pool.lent(), 0, "no packet leaks");
});

impl Host {
    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let last = verb >> 3;
        match verb & 7 {
            0 => self.receive(script.piece(usize::from(last))),
            1 => self.receive(script.piece(28)),
            2 => self.receive(&packet(last, Operation::Reply)),
            3 => self.receive(&packet(last, Operation::Request)),
            4 => self.send(last),
            5 => {
                let address = Ipv4Addr::new(10, 0, 0, last);
                _ = self.arp.claim(address, Defense::GiveUp, &mut self.bench.cx());
            }
            6 => self.bench.advance_millis(1 << (last & 15)),
            _ => self.bench.advance_to(self.cache.deadline().or(self.arp.deadline())),
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.arp.receive(bytes, &mut self.cache, &mut self.bench.cx());
    }

    fn send(&mut self, last: u8) {
        let packet = self.pool.take(&mut self.bench.meter).expect("the pool has a free packet");
        let to = IpAddr::from([10, 0, 0, last]);
        let cx = &mut self.bench.cx();
        if let Some((mac, packet)) = self.cache.resolve(to, packet, &mut self.pool, cx) {
            assert!(mac.is_unicast());
            self.pool.put(packet);
        }
    }

    fn settle(&mut self) {
        self.cache.timeout(&mut self.bench.cx());
        self.arp.timeout(&mut self.bench.cx());
        while let Some(solicitation) = self.cache.transmit(&mut self.bench.cx()) {
            let IpAddr::V4(target) = solicitation.target else {
                panic!("the script sends only to IPv4 addresses")
            };
            self.arp.solicit(US, target, solicitation.to, &mut self.bench.cx());
        }
        let mut sent = 0;
        while let Some(outgoing) = self.arp.transmit(&mut self.bench.cx()) {
            sent += 1;
            assert_eq!(ArpPacket::parse(&outgoing.packet.emit()), Ok(outgoing.packet));
        }
        assert!(sent < MAX_SENT_PACKETS, "the cache becomes idle");
        while let Some(event) = self.cache.event() {
            if let Event::Resolved { packet, .. } | Event::Failed { packet: Some(packet), .. } =
                event
            {
                self.pool.put(packet);
            }
        }
        while self.arp.event().is_some() {}
        assert!(self.pool.lent() <= LIMITS.packets, "the number of queued packets is limited");
    }
}

fn packet(last: u8, operation: Operation) -> [u8; 28] {
    let packet = ArpPacket {
        operation,
        sender_mac: MacAddress::new([2, 0, 0, 0, 1, last]),
        sender: Ipv4Addr::new(10, 0, 0, last),
        target_mac: MAC,
        target: US,
    };
    packet.emit()
}

fn seeds() -> Vec<Vec<u8>> {
    let request = packet(2, Operation::Request);
    vec![
        [&[1], &request[..]].concat(),
        vec![0x14, 0x12, 0x14, 6 | 0x78, 0x14, 7, 7, 7, 7],
        vec![0x14, 7, 7, 7, 7],
        vec![5 | 0x50, 7, 7, 7, 7, 7, 7],
    ]
}
