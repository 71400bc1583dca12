//! Input: arbitrary bytes from a line into LLP, split anywhere, while the other direction sends.
//! Checked: LLP transmits bytes whenever it reports pending output, no timer stays due, and every
//! packet is returned to the pool.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::fill;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::link::llp::{ACK, ADDRESS_HEADER, END, ESC, IP_HEADER, REQ};
use net::link::{Event, Llp};
use net::packet::Pool;

const MTU: usize = 64;

struct Line {
    bench: Bench,
    pool: Pool,
    link: Llp,
    wire: Vec<u8>,
}

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut line = Line {
        bench: Bench::default(),
        pool: Pool::new(6, MTU),
        link: Llp::with_queue_limit(MTU, 4),
        wire: Vec::new(),
    };
    let mut script = Script(input);
    while let Some(verb) = script.byte() {
        line.run_step(verb, &mut script);
    }
    line.collect();
    line.link.reset(&mut line.pool);
    assert_eq!(line.pool.lent(), 0, "no packet leaks");
});

impl Line {
    fn run_step(&mut self, verb: u8, script: &mut Script<'_>) {
        let count = usize::from(verb >> 3);
        match verb & 7 {
            0 | 1 => {
                let piece = script.piece(count + 1);
                self.link.receive(piece, &mut self.pool, &mut self.bench.cx());
            }
            2 => self.transmit(count + 1),
            3 => self.send(script.piece(count * 4)),
            4 => self.wait(),
            5 => self.collect(),
            6 => self.link.request_address(&mut self.bench.cx()),
            _ => self.link.set_peer_address((count & 1 == 0).then_some([10, 0, 0, 9])),
        }
    }

    fn transmit(&mut self, limit: usize) {
        let has_output = self.link.has_output();
        self.wire.clear();
        let count = self.link.transmit_into(&mut self.wire, limit, &mut self.bench.cx());
        assert_eq!(count, self.wire.len());
        assert!(count <= limit && (count > 0) == has_output);
    }

    fn send(&mut self, data: &[u8]) {
        let Some(packet) = self.pool.take(&mut self.bench.meter) else { return };
        if let Err(refused) = self.link.send(fill(packet, data), &mut self.bench.cx()) {
            self.pool.put(refused);
        }
    }

    fn wait(&mut self) {
        self.bench.advance_to(self.link.deadline());
        self.link.timeout(&mut self.bench.cx());
        assert!(
            self.link.deadline().is_none_or(|next| next > self.bench.now),
            "the next deadline is in the future"
        );
    }

    fn collect(&mut self) {
        while let Some(event) = self.link.event() {
            if let Event::Received(packet) = &event {
                assert!(packet.len() <= MTU);
            }
            event.into_packet().into_iter().for_each(|packet| self.pool.put(packet));
        }
    }
}

/// Returns script steps that receive `bytes`.
fn receive_steps(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(8)
        .flat_map(|piece| {
            let count = u8::try_from(piece.len() - 1).expect("a short piece");
            [&[count << 3], piece].concat()
        })
        .collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let packet = [&[REQ][..], &IP_HEADER, b"data", &[ESC, 1], &[END]].concat();
    let answer = [&[ACK, REQ][..], &ADDRESS_HEADER, &[10, 0, 0, 1, END]].concat();
    let transmit = 250;
    let send = 19;
    let wait = 4;
    let collect = 5;
    let request_address = 6;
    let serve_address = 7;
    vec![
        [&receive_steps(&packet)[..], &[transmit, collect]].concat(),
        [&[send], &b"12345678"[..], &[transmit], &receive_steps(&[ACK]), &[transmit, collect]]
            .concat(),
        [&[request_address, transmit][..], &receive_steps(&answer), &[transmit, collect]].concat(),
        [
            &[serve_address],
            &receive_steps(&[&[REQ][..], &ADDRESS_HEADER, &[END]].concat())[..],
            &[transmit],
        ]
        .concat(),
        [&[send], &b"12345678"[..], &[transmit, wait, transmit, wait, transmit]].concat(),
    ]
}
