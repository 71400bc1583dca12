//! Input: a script of answers to a DHCP client, with arbitrary bytes as options after a fixed part
//! that matches the client's request. Checked: the client never uses an unchecked address, and all
//! its output can be parsed.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::application::dhcp::{Client, Event, Kind, Message, Op, Options, Settings};
use net::link::ethernet::MacAddress;
use std::net::Ipv4Addr;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Length of the fixed part and the magic cookie before the options, bytes.
const FIXED_LEN: usize = 240;

struct Host {
    client: Client,
    bench: Bench,
    /// Last message that the client sent.
    last_request: Option<Message>,
    /// Address for which the client waits for a duplicate address check.
    unchecked_address: Option<Ipv4Addr>,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    // A message that can be parsed survives a round trip through `emit`.
    if let Ok(message) = Message::parse(input) {
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
    let client = Client::new(Settings { mac: MAC, host_name: b"fuzz".to_vec() });
    let mut host = Host { client, bench: Bench::default(), last_request: None, unchecked_address: None };
    host.client.start(&mut host.bench.cx());
    let mut script = Script(input);
    while let Some(verb) = script.byte() {
        host.run_step(verb, &mut script);
        host.settle();
    }
});

impl Host {
    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        match verb & 7 {
            0 => self.bench.advance_to(self.client.deadline()),
            1 => self.bench.advance_millis(1 << (verb >> 3)),
            2 => self.receive(&matching_answer(self.last_request.as_ref(), Kind::Offer).emit()),
            3 => self.receive(&matching_answer(self.last_request.as_ref(), Kind::Ack).emit()),
            4 => self.receive(&matching_answer(self.last_request.as_ref(), Kind::Nak).emit()),
            5 => {
                let len = usize::from(script.byte().unwrap_or(0));
                let mut bytes = matching_answer(self.last_request.as_ref(), Kind::Offer).emit();
                bytes.truncate(FIXED_LEN);
                bytes.extend_from_slice(script.piece(len));
                self.receive(&bytes);
            }
            6 => {
                let Some(address) = self.unchecked_address.take() else { return };
                if verb & 8 == 0 {
                    self.client.accept(address, &mut self.bench.cx());
                } else {
                    self.client.decline(address, &mut self.bench.cx());
                }
            }
            _ => {
                let len = usize::from(script.byte().unwrap_or(0));
                self.receive(script.piece(len));
            }
        }
    }

    fn receive(&mut self, payload: &[u8]) {
        self.client.receive(payload, &mut self.bench.cx());
    }

    fn settle(&mut self) {
        self.client.timeout(&mut self.bench.cx());
        while let Some(outgoing) = self.client.transmit(&mut self.bench.cx()) {
            let sent = Message::parse(&outgoing.payload).expect("sent messages can be parsed");
            assert_eq!((sent.op, sent.mac), (Op::Request, MAC));
            self.last_request = Some(sent);
        }
        while let Some(event) = self.client.event() {
            match event {
                Event::Check(address) => self.unchecked_address = Some(address),
                Event::Bound(lease) => {
                    assert!(!lease.address.is_multicast() && !lease.address.is_unspecified());
                    assert!(lease.prefix_len <= 32);
                    assert!(lease.routers.len() <= 4 && lease.dns_servers.len() <= 4);
                    assert!(
                        lease.renew_at <= lease.rebind_at && lease.rebind_at <= lease.expires_at
                    );
                }
                Event::Lost(_) => {}
            }
        }
        let is_later = self.client.deadline().is_none_or(|at| at > self.bench.now);
        assert!(is_later, "the next deadline is in the future");
    }
}

fn matching_answer(last_request: Option<&Message>, kind: Kind) -> Message {
    let options = Options {
        prefix_len: Some(24),
        routers: vec![SERVER],
        lease_s: Some(600),
        server: Some(SERVER),
        ..Options::default()
    };
    Message {
        op: Op::Reply,
        kind,
        transaction: last_request.map_or(0, |last_request| last_request.transaction),
        elapsed_s: 0,
        is_broadcast: true,
        client: Ipv4Addr::UNSPECIFIED,
        your_address: Ipv4Addr::new(10, 0, 0, 5),
        relay: Ipv4Addr::UNSPECIFIED,
        mac: MAC,
        options,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0, 2, 3, 6, 0, 3, 0, 0, 0, 0, 0],
        vec![0, 2, 3, 14, 0, 0],
        vec![0, 2, 3, 6, 0, 4, 0],
        matching_answer(None, Kind::Offer).emit(),
    ]
}
