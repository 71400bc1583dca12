//! Input: arbitrary bytes as an ICMP message, unchanged or with a repaired checksum, to a host that
//! waits for an echo reply. Checked: no packet leaks, and an error is never answered.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER, US, datagram, echo, error, fill, quote, repair_icmp};
use libfuzzer_sys::fuzz_target;
use net::internet::icmp::Message;
use net::internet::ipv4::Protocol;
use net::internet::{Event, Internet};
use net::packet::Pool;

const PAYLOAD_LEN: u16 = 4;
/// The longest message that a datagram of the link carries.
const MAX_MESSAGE_LEN: usize = 1480;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let input = &input[..input.len().min(MAX_MESSAGE_LEN)];
    let mut repaired = input.to_vec();
    repair_icmp(&mut repaired);
    // The unrepaired input may be parsed or not, but the host must not act on a message without a
    // valid checksum.
    for message in [input, &repaired] {
        receive(message);
    }
});

fn seeds() -> Vec<Vec<u8>> {
    vec![
        echo(8, b"abcdefgh"),
        echo(0, &[0, 1, 2, 3]),
        error(3, 0, &quote(53)),
        error(3, 3, &quote(53)),
        error(3, 4, &quote(53)),
        error(5, 1, &quote(53)),
        error(11, 0, &quote(53)),
        error(12, 0, &quote(53)),
        echo(13, &[0; 12]),
    ]
}

fn receive(message: &[u8]) {
    let mut bench = Bench::default();
    let mut pool = Pool::new(4, 1500);
    let mut internet = Internet::new(US, 24, 1500);
    let probe =
        internet.make_echo_request(PEER.into(), 1, 2, PAYLOAD_LEN, &mut pool, &mut bench.cx());
    let probe = probe.expect("an echo request can be built");
    pool.put(probe.expect("the request is short, and for another host"));
    let parsed = Message::parse(message);
    for round in 0..2 {
        let packet = pool.take(&mut bench.meter).expect("the pool is not empty");
        let packet = fill(packet, &datagram(Protocol::Icmp, message));
        let delivered = internet.receive(packet, &mut pool, &mut bench.cx());
        assert!(delivered.is_none(), "ICMP is delivered to no transport protocol");
        while let Some(event) = internet.event() {
            if let Event::EchoReply(reply) = event {
                assert_eq!((round, reply.payload_len), (0, usize::from(PAYLOAD_LEN)));
            }
        }
        let mut answers = 0;
        while let Some(answer) = internet.transmit(&mut pool, &mut bench.cx()) {
            answers += 1;
            pool.put(answer);
        }
        assert_eq!(answers, usize::from(parsed == Ok(Message::EchoRequest)));
        assert_eq!(pool.lent(), 0, "no packet leaks");
    }
}
