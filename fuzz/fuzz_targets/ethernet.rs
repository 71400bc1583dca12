//! Input: a script of whole frames into a station on an Ethernet segment that configures its
//! addresses. Checked: the station becomes idle after each frame, keeps few packets, and sends only
//! valid frames.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{one_of_each, repair_all};
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::Cx;
use net::internet::arp::{ArpPacket, Operation};
use net::internet::neighbor::Limits;
use net::internet::slaac::Secret;
use net::link::ethernet::{EtherType, Header, MacAddress};
use net::link::{Ethernet, Link};
use net::station::ethernet::{Ipv4, Ipv6, Settings};
use net::station::{self, Application, Layers, Scheduler, Station};
use std::net::Ipv4Addr;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MTU: usize = 1500;
/// Upper bound on the scheduler steps that one frame causes.
const MAX_STEPS: usize = 10_000;

struct Silent;

impl Application for Silent {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut Layers, _cx: &mut Cx<'_>) {}
}

struct Host {
    bench: Bench,
    station: Station,
    scheduler: Scheduler,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut script = Script(input);
    let mut host = Host::new(script.byte().unwrap_or(0));
    host.run_until_idle();
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.run_until_idle();
    }
});

impl Host {
    fn new(kind: u8) -> Self {
        let mut bench = Bench::default();
        let link = Link::Ethernet(Ethernet::new(MTU));
        let mut station = Station::new(link, station::Settings::default(), &mut bench.cx());
        let ipv4 = match kind & 1 {
            0 => Ipv4::Static { address: US, prefix_len: 24, router: None },
            _ => Ipv4::Dhcp,
        };
        let ipv6 = Ipv6::Autoconfigured;
        let settings = Settings { mac: MAC, ipv4, ipv6, secret: Secret([1, 2]), host_name: vec![] };
        station.join_segment(settings, &mut bench.cx());
        Self { bench, station, scheduler: Scheduler::default() }
    }

    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let ether_type = match verb >> 2 & 3 {
            0 => EtherType::Ipv4,
            1 => EtherType::Arp,
            2 => EtherType::Ipv6,
            _ => EtherType::Other(script.word().unwrap_or(0)),
        };
        match verb & 3 {
            0 => self.bench.advance_to(self.station.deadline()),
            1 => self.bench.advance_millis(1 << (verb >> 2 & 15)),
            kind => {
                let len = usize::from(script.word().unwrap_or(0));
                let mut bytes = script.piece(len.min(MTU)).to_vec();
                if kind == 2 && ether_type == EtherType::Ipv4 {
                    repair_all(&mut bytes);
                }
                let destination = if verb & 0x80 == 0 { MAC } else { MacAddress::BROADCAST };
                let header = Header { destination, source: PEER, ether_type };
                let frame = [&header.emit()[..], &bytes].concat();
                self.station.receive(&frame, &mut self.bench.cx());
            }
        }
    }

    fn run_until_idle(&mut self) {
        let mut steps = 0;
        loop {
            let station = &mut self.station;
            let application = &mut Silent;
            while self.scheduler.run_one(station, application, &mut self.bench.cx()).is_some() {
                steps += 1;
                assert!(steps < MAX_STEPS, "the station becomes idle");
            }
            let mut wire = Vec::new();
            if station.transmit_into(&mut wire, MTU, &mut self.bench.cx()) == 0 {
                break;
            }
            assert!(wire.len() >= 60, "a frame has the minimum length");
            assert_eq!(Header::parse(&wire).expect("sent data is a frame").header.source, MAC);
        }
        let waiting = Limits::default().packets;
        assert!(self.station.packets_in_use() <= waiting, "no packet leaks");
        let is_later = |at| at > self.bench.now;
        assert!(self.station.deadline().is_none_or(is_later), "the next deadline is in the future");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let packet = ArpPacket {
        operation: Operation::Request,
        sender_mac: PEER,
        sender: Ipv4Addr::new(10, 0, 0, 2),
        target_mac: MacAddress::UNSPECIFIED,
        target: US,
    };
    let mut seeds = vec![[&[0, 0x86, 0, 28], &packet.emit()[..]].concat()];
    seeds.extend(one_of_each().into_iter().map(|bytes| {
        let [l0, l1] = u16::try_from(bytes.len()).expect("a short datagram").to_be_bytes();
        [&[0, 2, l0, l1], &bytes[..]].concat()
    }));
    seeds.push(vec![1, 0, 0, 0, 0, 0, 0]);
    seeds
}
