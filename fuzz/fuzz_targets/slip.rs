//! Input: arbitrary bytes from a line into SLIP, split anywhere. Checked: split or whole, the bytes
//! give the same datagrams, the datagrams pass a second line unchanged, and every packet is
//! returned to the pool.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::fill;
use libfuzzer_sys::fuzz_target;
use net::link::slip::{END, ESC, ESC_END, ESC_ESC};
use net::link::{Event, Slip};
use net::packet::Pool;

const MTU: usize = 64;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let Some((cut, bytes)) = input.split_first() else { return };
    let whole = receive([bytes]);
    assert_eq!(receive(bytes.chunks(usize::from(cut % 16) + 1)), whole);
    assert!(whole.iter().all(|datagram| (1..=MTU).contains(&datagram.len())));
    assert_eq!(receive([&send(&whole)[..]]), whole);
});

/// Returns the datagrams in the bytes of a line. Datagrams are taken from the queue before it is
/// full.
fn receive<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut bench = Bench::default();
    let mut pool = Pool::new(4, MTU);
    let mut link = Slip::new(MTU);
    let mut datagrams = Vec::new();
    for piece in pieces {
        // Each piece is received up to one END at a time, so that the queue is emptied equally
        // often for split and whole input.
        for run in piece.split_inclusive(|byte| *byte == END) {
            link.receive(run, &mut pool, &mut bench.cx());
            while let Some(Event::Received(packet)) = link.event() {
                datagrams.push(packet.data().to_vec());
                pool.put(packet);
            }
        }
    }
    assert!(pool.lent() <= 1);
    link.reset(&mut pool);
    assert_eq!(pool.lent(), 0, "no packet leaks");
    datagrams
}

fn send(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut bench = Bench::default();
    let mut pool = Pool::new(2, MTU);
    let mut link = Slip::new(MTU);
    let mut wire = Vec::new();
    for datagram in datagrams {
        let packet = fill(
            pool.take(&mut bench.meter).expect("the packet was returned to the pool"),
            datagram,
        );
        link.send(packet, &mut bench.cx()).expect("the queue is empty");
        while link.has_output() {
            assert!(link.transmit_into(&mut wire, 5, &mut bench.cx()) > 0);
        }
        while let Some(Event::Sent(packet)) = link.event() {
            pool.put(packet);
        }
    }
    assert_eq!(pool.lent(), 0, "no packet leaks");
    wire
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        [&[3, END][..], b"one", &[ESC, ESC_END, ESC, ESC_ESC, END], b"two", &[END]].concat(),
        [&[0][..], &[7; MTU + 1], &[END], &[7; MTU], &[END]].concat(),
        vec![1, ESC, END, ESC, ESC, END, ESC, 0, END],
    ]
}
