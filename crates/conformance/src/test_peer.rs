//! A test peer that encodes and decodes its datagrams without the engines.

use crate::attempt::Attempt;
use crate::host_under_test::LOCAL;
use crate::scheduler::Scheduler;
use crate::script_settings::Flags;
use crate::world::World;
use net::checksum::Sum;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const PEER_IP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(PEER_IP), 8080);
/// The port on which tests listen.
pub(crate) const PORT: u16 = 8080;
/// Initial sequence number of the peer.
pub(crate) const IRS: u32 = 1000;

pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;
pub(crate) const FIN: u8 = 0x01;
pub(crate) const RST: u8 = 0x04;

/// The fields of a sent segment that tests examine.
#[derive(Debug)]
pub(crate) struct SentSegment {
    pub(crate) flags: u8,
    pub(crate) source_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
}

/// Creates a datagram from the peer to `port`.
pub(crate) fn datagram(port: u16, flags: u8, seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(40 + data.len()).unwrap();
    let mut ip = vec![0x45, 0];
    ip.extend(len.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    ip.extend(PEER_IP.octets());
    ip.extend(LOCAL.octets());
    let sum = Sum::default().bytes(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = Vec::new();
    tcp.extend(PEER.port().to_be_bytes());
    tcp.extend(port.to_be_bytes());
    tcp.extend(seq.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
    tcp.extend(data);
    let pseudo = Sum::default().bytes(&ip[12..20]).word(6).word(len - 20);
    let sum = pseudo.bytes(&tcp).finish().to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    ip.extend(tcp);
    ip
}

/// Returns the next segment sent by the host under test.
pub(crate) fn next_segment(scheduler: &Scheduler) -> SentSegment {
    let bytes = scheduler.next_sent().expect("a datagram is sent").bytes;
    let tcp = &bytes[20..];
    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    SentSegment {
        flags: tcp[13],
        source_port: u16::from_be_bytes([tcp[0], tcp[1]]),
        seq: word(4),
        ack: word(8),
    }
}

pub(crate) fn scheduler() -> Scheduler {
    Scheduler::new(World::new(Flags::parse("")))
}

/// Creates a non-blocking listener on [`PORT`] and returns its descriptor.
pub(crate) fn listener(scheduler: &Scheduler) -> i32 {
    scheduler.call(|world| {
        let fd = world.socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).unwrap();
        let (stream, host) = world.stream(fd).unwrap();
        stream.bind(PORT).unwrap();
        stream.listen(host).unwrap();
        fd
    })
}

/// Opens a connection from the peer and accepts it. Returns its descriptor, and the local sequence
/// number of the first data byte.
pub(crate) fn accepted(scheduler: &Scheduler) -> (i32, u32) {
    let listener = listener(scheduler);
    scheduler.inject(&datagram(PORT, SYN, IRS, 0, b""));
    let answer = next_segment(scheduler);
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, IRS + 1));
    scheduler.inject(&datagram(PORT, ACK, IRS + 1, answer.seq + 1, b""));
    let (fd, _) = done(scheduler.call(|world| world.accept(listener))).unwrap();
    (fd, answer.seq + 1)
}

/// Returns the result of a completed attempt; panics if the call blocks.
pub(crate) fn done<T>(attempt: Attempt<T>) -> T {
    match attempt {
        Attempt::Done(result) => result,
        Attempt::Blocked(_) => panic!("the call must not block"),
    }
}
