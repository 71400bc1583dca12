//! Input: arbitrary bytes as UDP datagrams, unchanged or with a repaired checksum, to a host with
//! two sockets, of which the application reads one. Checked: full queues drop datagrams, and no
//! packet leaks.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::datagrams::{PEER, US, datagram, error, fill, quote, repair_transport, udp};
use libfuzzer_sys::fuzz_target;
use net::internet::icmp::Unreachable;
use net::internet::ipv4::Protocol;
use net::internet::{Event, Internet};
use net::packet::Pool;
use net::transport::udp::{Limits, Udp};

const READ_PORT: u16 = 53;
const UNREAD_PORT: u16 = 69;
const CONTENT_MAX: usize = 1480;
const ROUNDS: usize = 6;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let Some((kind, content)) = input.split_first() else { return };
    let mut content = content[..content.len().min(CONTENT_MAX)].to_vec();
    let protocol = if kind & 2 == 0 { Protocol::Udp } else { Protocol::Icmp };
    if kind & 1 == 0 {
        repair_transport(protocol, PEER, US, &mut content);
    }
    receive(&datagram(protocol, &content), kind & 4 != 0);
});

fn seeds() -> Vec<Vec<u8>> {
    let content = [
        (0, udp(READ_PORT, b"data")),
        (0, udp(UNREAD_PORT, b"")),
        (4, udp(UNREAD_PORT, b"more")),
        (0, udp(9, b"nobody")),
        (2, error(3, 3, &quote(READ_PORT))),
    ];
    content.into_iter().map(|(kind, bytes)| [&[kind], &bytes[..]].concat()).collect()
}

fn receive(bytes: &[u8], requires_checksum: bool) {
    let mut bench = Bench::default();
    let mut pool = Pool::new(8, 1500);
    let mut internet = Internet::new(US, 24, 1500);
    let mut sockets = Udp::new(Limits { sockets: 2, datagrams: 2, bytes: 2000 });
    sockets.set_requires_checksum(requires_checksum);
    let read = sockets.bind(READ_PORT, &mut bench.cx()).expect("a free port");
    let unread = sockets.bind(UNREAD_PORT, &mut bench.cx()).expect("a free port");
    for _ in 0..ROUNDS {
        let packet = pool.take(&mut bench.meter).expect("the pool is not empty");
        let packet = fill(packet, bytes);
        if let Some(datagram) = internet.receive(packet, &mut pool, &mut bench.cx())
            && let Some(datagram) = sockets.receive(datagram, &mut pool, &mut bench.cx())
        {
            internet.report(datagram, Unreachable::Port, &mut pool, &mut bench.cx());
        }
        while let Some(Event::Error(error)) = internet.event() {
            sockets.receive_error(&error);
        }
        while let Some((_, packet)) = sockets.receive_from(read) {
            pool.put(packet);
        }
        _ = sockets.take_error(read);
        while let Some(answer) = internet.transmit(&mut pool, &mut bench.cx()) {
            pool.put(answer);
        }
    }
    assert!(pool.lent() <= 2, "the length of a queue is limited");
    sockets.close(unread, &mut pool);
    assert_eq!(pool.lent(), 0, "no packet leaks");
}
