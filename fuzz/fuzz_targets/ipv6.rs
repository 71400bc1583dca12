//! Input: arbitrary bytes as an IPv6 datagram. Checked: the parsed lengths agree with the bytes,
//! and every datagram is answered, delivered, kept as a fragment or returned to the pool.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER_V6, US, US_V6, fill, header_v6, repair_payload_length};
use libfuzzer_sys::fuzz_target;
use net::internet::Internet;
use net::internet::addresses::Address;
use net::internet::icmpv6;
use net::internet::ipv6::{self, End, FRAGMENT, Fragment, HEADER_LEN, Header};
use net::packet::Pool;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut repaired = input.to_vec();
    repair_payload_length(&mut repaired);
    for bytes in [input, &repaired] {
        if let Ok(parsed) = Header::parse(bytes) {
            assert!(HEADER_LEN <= parsed.total_len && parsed.total_len <= bytes.len());
            let payload_len = u16::try_from(parsed.total_len - HEADER_LEN).expect("sixteen bits");
            let emitted = parsed.header.emit(parsed.next_header, payload_len);
            assert_eq!(emitted[..], bytes[..HEADER_LEN]);
            walk_headers(parsed.next_header, &bytes[HEADER_LEN..parsed.total_len]);
        }
        if let Ok(quoted) = ipv6::parse_quoted(bytes) {
            assert!(quoted.headers_len <= bytes.len());
        }
        receive(bytes);
    }
});

fn seeds() -> Vec<Vec<u8>> {
    let datagram = |next_header, payload: &[u8]| {
        let payload_len = u16::try_from(payload.len()).expect("a short datagram");
        [&header_v6().emit(next_header, payload_len), payload].concat()
    };
    let mut echo = *b"\x80\0\0\0\0\x01\0\x02data";
    icmpv6::seal(PEER_V6, US_V6, &mut echo);
    let first = Fragment { next_header: 17, offset: 0, more: true, identification: 1 };
    let last = Fragment { offset: 16, more: false, ..first };
    let atomic = Fragment { offset: 0, ..last };
    vec![
        datagram(58, &echo),
        datagram(60, &[&[58, 0, 1, 4, 0, 0, 0, 0], &echo[..]].concat()),
        datagram(0, &[&[43, 0, 5, 2, 0, 0, 0, 0, 58, 0, 0, 0, 0, 0, 0, 0], &echo[..]].concat()),
        datagram(60, &[58, 0, 0xFE, 2, 0, 0, 0, 0]),
        datagram(FRAGMENT, &[&first.emit()[..], &[7; 16]].concat()),
        datagram(FRAGMENT, &[&last.emit()[..], &[7; 4]].concat()),
        datagram(FRAGMENT, &[&atomic.emit()[..], &[7; 20]].concat()),
        datagram(99, b"not here"),
    ]
}

fn walk_headers(next_header: u8, payload: &[u8]) {
    let Ok(walk) = ipv6::walk(next_header, payload, HEADER_LEN, ipv6::NEXT_HEADER_AT) else {
        return;
    };
    assert!(walk.len <= payload.len());
    assert!(walk.next_header_at < HEADER_LEN + walk.len.max(1));
    if let End::Fragment(fragment) = walk.end {
        let at = walk.len - ipv6::FRAGMENT_HEADER_LEN;
        let emitted = fragment.emit();
        // The reserved bits of the second and fourth byte are not preserved.
        assert_eq!((emitted[0], &emitted[4..]), (payload[at], &payload[at + 4..walk.len]));
    }
}

fn receive(bytes: &[u8]) {
    let mut bench = Bench::default();
    let mut pool = Pool::new(4, 1500);
    let mut internet = Internet::new(US, 24, 1500);
    internet
        .add_address(Address::permanent(US_V6.into(), 64))
        .expect("the address is a unicast address");
    for _ in 0..2 {
        let packet = pool.take(&mut bench.meter).expect("the pool is not empty");
        let packet = fill(packet, bytes);
        if let Some(datagram) = internet.receive(packet, &mut pool, &mut bench.cx()) {
            pool.put(datagram.packet);
        }
        while internet.event().is_some() {}
        bench.advance_to(internet.deadline());
        internet.timeout(&mut pool, &mut bench.cx());
        while let Some(answer) = internet.transmit(&mut pool, &mut bench.cx()) {
            assert!(answer.len() <= 1500, "the answer fits the MTU");
            pool.put(answer);
        }
        assert_eq!(pool.lent(), 0, "no packet leaks");
    }
}
