//! Input: a script of queries of a guest, responses of resolvers (arbitrary, or with the right
//! identifier and question before arbitrary records), failures and time steps. Checked: every query
//! is answered once, no socket remains open, and limits hold.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use gateway::dns::{Event, Forwarder, QueryId, Settings};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// The question "a IN A".
const QUESTION: &[u8] = b"\x01a\0\0\x01\0\x01";
const OUTSTANDING_MAX: usize = 8;

struct Host {
    forwarder: Forwarder,
    bench: Bench,
    /// Open sockets: the resolver and the query of each.
    open: BTreeMap<QueryId, (SocketAddr, Vec<u8>)>,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut bench = Bench::default();
    let settings = Settings { resolvers: resolvers(2), outstanding_max: OUTSTANDING_MAX };
    let forwarder = Forwarder::new(settings, &mut bench.cx());
    let mut host = Host { forwarder, bench, open: BTreeMap::new() };
    let mut script = Script(input);
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.settle();
    }
    while host.forwarder.deadline().is_some() {
        host.bench.advance_to(host.forwarder.deadline());
        host.settle();
    }
    assert!(host.open.is_empty(), "no socket remains open");
    let counters = host.forwarder.counters();
    let unanswered = counters.ignored_queries + counters.repeated_queries;
    assert_eq!(counters.queries, unanswered + counters.replies + counters.replies_dropped);
});

fn resolvers(count: u8) -> Vec<SocketAddr> {
    let address = |n| SocketAddr::new(Ipv4Addr::new(192, 0, 2, n).into(), 53);
    (1..=count).map(address).collect()
}

impl Host {
    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let index = usize::from(verb >> 3);
        let asked = self.open.iter().nth(index).map(|(query, socket)| (*query, socket.clone()));
        match verb & 7 {
            0 => self.bench.advance_millis(1 << (verb >> 4)),
            1 => self.bench.advance_to(self.forwarder.deadline()),
            2 => {
                let len = usize::from(script.byte().unwrap_or(0));
                self.query(script.piece(len));
            }
            3 => {
                let len = usize::from(script.byte().unwrap_or(0));
                let header = [0, verb, 1, 0, 0, 1, 0, 0, 0, 0, 0, verb >> 7];
                self.query(&[&header, QUESTION, script.piece(len)].concat());
            }
            4 => {
                let count = (verb >> 3) % 4;
                self.forwarder.set_resolvers(resolvers(count), &mut self.bench.cx());
            }
            5 => {
                let Some((query, _)) = asked else { return };
                self.forwarder.unreachable(query, &mut self.bench.cx());
            }
            6 => {
                let Some((query, (server, _))) = asked else { return };
                let len = usize::from(script.byte().unwrap_or(0));
                let payload = script.piece(len);
                self.forwarder.receive(query, server, payload, &mut self.bench.cx());
            }
            _ => {
                let Some((query, (server, sent))) = asked else { return };
                let Some(flags) = script.word() else { return };
                let len = usize::from(script.byte().unwrap_or(0));
                let [f0, f1] = flags.to_be_bytes();
                let counts = script.byte().unwrap_or(0);
                let counts = [1, counts & 3, counts >> 2 & 3, counts >> 4 & 3];
                let counts: Vec<u8> = counts.iter().flat_map(|count| [0, *count]).collect();
                let header = [&[sent[0], sent[1], f0 | 0x80, f1], &counts[..]].concat();
                let payload = [&header, QUESTION, script.piece(len)].concat();
                self.forwarder.receive(query, server, &payload, &mut self.bench.cx());
            }
        }
    }

    fn query(&mut self, payload: &[u8]) {
        let guest = SocketAddr::new(Ipv4Addr::new(10, 0, 2, 100).into(), 40000);
        let local = SocketAddr::new(Ipv4Addr::new(10, 0, 2, 3).into(), 53);
        self.forwarder.receive_query(guest, local, payload, &mut self.bench.cx());
    }

    fn settle(&mut self) {
        self.forwarder.timeout(&mut self.bench.cx());
        while let Some(event) = self.forwarder.event() {
            match event {
                Event::Ask { query, server, payload } => {
                    assert!(self.open.insert(query, (server, payload)).is_none());
                }
                Event::Close { query } => assert!(self.open.remove(&query).is_some()),
            }
        }
        while let Some(reply) = self.forwarder.transmit() {
            assert!((12..=4096).contains(&reply.payload.len()));
            assert_eq!(reply.payload[2] & 0x80, 0x80, "a reply is a response");
        }
        assert!(self.forwarder.outstanding() <= OUTSTANDING_MAX);
        assert!(self.open.len() <= 4 * OUTSTANDING_MAX);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let answer = b"\xC0\x0C\0\x01\0\x01\0\0\0\0\0\x04\xC0\0\x02\x01";
    vec![
        [&[3, 0, 7, 0x81, 0x80, 16, 1], &answer[..]].concat(),
        vec![3, 0, 7, 0x81, 0x82, 0, 0, 7, 0x81, 0x85, 0, 0],
        vec![3, 0, 1, 1, 1, 1, 1],
        vec![3, 0, 5, 5, 3, 0, 4 | 8, 1],
    ]
}
