//! Input: arbitrary bytes as a datagram, with and without a repaired header. Checked: the parsed
//! lengths agree with the bytes, and every datagram is answered, delivered or returned to the pool.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{US, fill, one_of_each, repair_header};
use libfuzzer_sys::fuzz_target;
use net::internet::Internet;
use net::internet::ipv4::{HEADER_LEN, Header, Parsed};
use net::packet::Pool;

fuzz_target!(init: write_seeds(&one_of_each()), |input: &[u8]| {
    let mut repaired = input.to_vec();
    repair_header(&mut repaired);
    for bytes in [input, &repaired] {
        if let Ok(parsed) = Header::parse(bytes) {
            assert_agrees_with(&parsed, bytes);
        }
        // A quoted datagram may be truncated, and its header may be damaged.
        if let Ok(quoted) = Header::parse_quoted(bytes) {
            assert!(quoted.header_len <= bytes.len());
        }
        receive(bytes);
    }
});

fn assert_agrees_with(parsed: &Parsed, bytes: &[u8]) {
    assert!(HEADER_LEN <= parsed.header_len && parsed.header_len <= parsed.total_len);
    assert!(parsed.total_len <= bytes.len());
    let total_len = u16::try_from(parsed.total_len).expect("sixteen bits");
    let emitted = parsed.header.emit(total_len);
    let content = vec![0; parsed.total_len - HEADER_LEN];
    let reparsed = Header::parse(&[&emitted[..], &content].concat())
        .expect("the emitted header can be parsed");
    assert_eq!((reparsed.header, reparsed.total_len), (parsed.header, parsed.total_len));
}

fn receive(bytes: &[u8]) {
    let mut bench = Bench::default();
    let mut pool = Pool::new(4, 1500);
    let mut internet = Internet::new(US, 24, 1500);
    for _ in 0..2 {
        let packet = pool.take(&mut bench.meter).expect("the pool is not empty");
        let packet = fill(packet, bytes);
        if let Some(datagram) = internet.receive(packet, &mut pool, &mut bench.cx()) {
            pool.put(datagram.packet);
        }
        while internet.event().is_some() {}
        while let Some(answer) = internet.transmit(&mut pool, &mut bench.cx()) {
            assert!(Header::parse(answer.data()).is_ok(), "the answer is a datagram");
            pool.put(answer);
        }
        assert_eq!(pool.lent(), 0, "no packet leaks");
    }
}
