//! Input: a script of whole datagrams into a station that listens and has one connection open.
//! Checked: after each datagram the station becomes idle and has returned every packet to the pool,
//! and all its output can be parsed.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER, US, datagram, one_of_each, repair_all};
use fuzz::peer::Peer;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::internet::ipv4::{self, Protocol};
use net::internet::pseudo_header;
use net::link::{Datagram, Link};
use net::station::{Application, Layers, Scheduler, Settings, Station};
use net::transport::tcp::header::{Flags, Header};
use net::transport::tcp::{Event, Profile};
use net::{Cx, Instant};
use std::net::SocketAddr;

const LISTENING_PORT: u16 = 23;
const PEER_PORT: u16 = 7;
const MTU: usize = 1500;
/// Upper bound on the scheduler steps that one datagram causes.
const MAX_STEPS: usize = 10_000;

/// Listens, opens one connection, and echoes received data on every connection.
#[derive(Default)]
struct Echo {
    has_opened: bool,
}

impl Application for Echo {
    fn wants_to_run(&self) -> bool {
        !self.has_opened
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        let tcp = &mut layers.tcp;
        if !std::mem::replace(&mut self.has_opened, true) {
            tcp.listen(LISTENING_PORT, Profile::INTERACTIVE).expect("the port is free");
            let remote = SocketAddr::new(PEER.into(), PEER_PORT);
            tcp.open(US.into(), remote, Profile::BULK, cx).expect("the first connection");
        }
        while let Some((id, event)) = tcp.event() {
            while let Ok(data @ [_, ..]) = tcp.received(id) {
                let data = data.to_vec();
                _ = tcp.send(id, &data);
                _ = tcp.consume(id, data.len());
            }
            match event {
                Event::PeerClosed => _ = tcp.close(id),
                Event::Closed => tcp.release(id),
                _ => {}
            }
        }
    }
}

struct Host {
    bench: Bench,
    station: Station,
    scheduler: Scheduler,
    application: Echo,
    /// Peer of the connection that the station opens, and peer of the connection that the station
    /// accepts.
    peers: [Peer; 2],
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut host = Host::new();
    host.run_until_idle();
    let mut script = Script(input);
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.run_until_idle();
    }
});

impl Host {
    fn new() -> Self {
        let mut bench = Bench::default();
        let link = Link::Datagram(Datagram::new(MTU));
        let settings = Settings { address: US, prefix_len: 24, packets: 8, ..Settings::default() };
        let station = Station::new(link, settings, &mut bench.cx());
        Self {
            bench,
            station,
            scheduler: Scheduler::default(),
            application: Echo::default(),
            peers: [Peer::new(0, PEER_PORT), Peer::new(LISTENING_PORT, 4000)],
        }
    }

    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let peer = usize::from(verb >> 3 & 1);
        let count = usize::from(verb >> 4);
        match verb & 7 {
            0 => self.receive_raw(script, false),
            1 => self.receive_raw(script, true),
            2 => {
                if let Some(segment) = self.peers[peer].scripted(script) {
                    self.receive(&datagram(Protocol::Tcp, &segment));
                }
            }
            3 => {
                let flags = if peer == 0 { Flags::ACK } else { Flags::default() };
                let segment = self.peers[peer].synchronize(flags, count & 1 == 0);
                self.receive(&datagram(Protocol::Tcp, &segment));
            }
            4 => {
                let segment =
                    self.peers[peer].expected_segment(Flags::ACK, &vec![b'd'; count * 90]);
                self.receive(&datagram(Protocol::Tcp, &segment));
            }
            5 => {
                let segment = self.peers[peer].expected_segment(Flags::ACK.with(Flags::FIN), &[]);
                self.receive(&datagram(Protocol::Tcp, &segment));
            }
            6 => self.bench.advance_to(self.station.deadline()),
            _ => self.bench.advance_millis(1 << count),
        }
    }

    /// Delivers a datagram of raw bytes from the script. The length of the datagram precedes the
    /// bytes.
    fn receive_raw(&mut self, script: &mut Script<'_>, is_repaired: bool) {
        let Some(len) = script.word() else { return };
        let mut bytes = script.piece(usize::from(len)).to_vec();
        if is_repaired {
            repair_all(&mut bytes);
        }
        self.receive(&bytes);
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.station.receive(bytes, &mut self.bench.cx());
    }

    /// Runs the station until it is idle and has handed all its output to the wire.
    fn run_until_idle(&mut self) {
        let station = &mut self.station;
        let application = &mut self.application;
        let mut steps = 0;
        loop {
            while self.scheduler.run_one(station, application, &mut self.bench.cx()).is_some() {
                steps += 1;
                assert!(steps < MAX_STEPS, "the station becomes idle");
            }
            let mut wire = Vec::new();
            if station.transmit_into(&mut wire, MTU, &mut self.bench.cx()) == 0 {
                break;
            }
            assert_parseable(&wire, &mut self.peers, &mut self.bench);
        }
        assert_eq!(station.packets_in_use(), 0, "no packet leaks");
        let is_later = |at: Instant| at > self.bench.now;
        assert!(station.deadline().is_none_or(is_later), "the next deadline is in the future");
    }
}

fn assert_parseable(wire: &[u8], peers: &mut [Peer], bench: &mut Bench) {
    assert!(wire.len() <= MTU);
    let parsed = ipv4::Header::parse(wire).expect("sent data is a datagram");
    assert_eq!((parsed.header.source, parsed.total_len), (US, wire.len()));
    let content = &wire[parsed.header_len..];
    if parsed.header.protocol == Protocol::Tcp {
        let len = u16::try_from(content.len()).expect("a datagram");
        let pseudo = pseudo_header(US.into(), parsed.header.destination.into(), Protocol::Tcp, len);
        let segment = Header::parse(content, pseudo.bytes(content), &mut bench.meter);
        let (header, header_len) = segment.expect("sent data is a segment");
        peers.iter_mut().for_each(|peer| peer.process_segment(&header, content.len() - header_len));
    }
}

/// Returns scripts in which both connections open, carry data and close, and one of each kind of
/// datagram, unchanged and repaired.
fn seeds() -> Vec<Vec<u8>> {
    let active = 0;
    let passive = 8;
    let session =
        |peer: u8| vec![3 | peer, 4 | peer, 0x24 | peer, 4 | peer, 6, 5 | peer, 4 | peer, 6];
    let mut seeds = vec![session(active), session(passive)];
    seeds.extend(one_of_each().into_iter().flat_map(|bytes| {
        let [l0, l1] = u16::try_from(bytes.len()).expect("a short datagram").to_be_bytes();
        [0, 1].map(|verb| [&[verb, l0, l1], &bytes[..]].concat())
    }));
    seeds.push([&session(active)[..4], &[2, 0x10, 0x41, 0x81, 0, 1, 0, 2, 4, 1, 0x80, 1]].concat());
    seeds
}
