//! Input: arbitrary bytes as an ICMPv6 message, unchanged or with a repaired checksum, to a host
//! that waits for an echo reply. Checked: no packet leaks, and an error is never answered.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER_V6, US, US_V6, fill, header_v6};
use libfuzzer_sys::fuzz_target;
use net::internet::addresses::Address;
use net::internet::icmpv6::{self, Message};
use net::internet::ipv4::Protocol;
use net::internet::ipv6::Header;
use net::internet::{Event, Internet};
use net::packet::Pool;

const PAYLOAD_LEN: u16 = 4;
/// The longest message that a datagram of the link carries.
const MAX_MESSAGE_LEN: usize = 1460;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let input = &input[..input.len().min(MAX_MESSAGE_LEN)];
    let mut repaired = input.to_vec();
    icmpv6::seal(PEER_V6, US_V6, &mut repaired);
    for message in [input, &repaired] {
        receive(message);
    }
});

fn seeds() -> Vec<Vec<u8>> {
    let ours = Header { source: US_V6, destination: PEER_V6, ..header_v6() };
    let quote = [&ours.emit(17, 40)[..], &[0, 53, 0, 69, 0, 40, 0, 0]].concat();
    let message = |header: [u8; 8], body: &[u8]| {
        let mut message = [&header, body].concat();
        icmpv6::seal(PEER_V6, US_V6, &mut message);
        message
    };
    vec![
        message([128, 0, 0, 0, 0, 1, 0, 2], b"abcdefgh"),
        message([129, 0, 0, 0, 0, 1, 0, 2], &[0, 1, 2, 3]),
        message([1, 4, 0, 0, 0, 0, 0, 0], &quote),
        message([2, 0, 0, 0, 0, 0, 5, 0x14], &quote),
        message([3, 0, 0, 0, 0, 0, 0, 0], &quote),
        message([4, 1, 0, 0, 0, 0, 0, 6], &quote),
        message([135, 0, 0, 0, 0, 0, 0, 0], &US_V6.octets()),
        message([130, 0, 0, 0, 0, 0, 0, 0], &[0; 16]),
    ]
}

fn receive(message: &[u8]) {
    let mut bench = Bench::default();
    let mut pool = Pool::new(4, 1500);
    let mut internet = Internet::new(US, 24, 1500);
    internet
        .add_address(Address::permanent(US_V6.into(), 64))
        .expect("the address is a unicast address");
    let cx = &mut bench.cx();
    let probe = internet.make_echo_request(PEER_V6.into(), 1, 2, PAYLOAD_LEN, &mut pool, cx);
    let probe = probe.expect("an echo request can be built");
    pool.put(probe.expect("the request is short, and for another host"));
    let parsed = Message::parse(PEER_V6, US_V6, message);
    let len = u16::try_from(message.len()).expect("a short message");
    let datagram = [&header_v6().emit(58, len), message].concat();
    for round in 0..2 {
        let packet = pool.take(&mut bench.meter).expect("the pool is not empty");
        let packet = fill(packet, &datagram);
        if let Some(datagram) = internet.receive(packet, &mut pool, &mut bench.cx()) {
            assert_eq!(datagram.header.protocol, Protocol::ICMPV6);
            assert_eq!(parsed, Ok(Message::NeighborDiscovery));
            pool.put(datagram.packet);
        }
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
