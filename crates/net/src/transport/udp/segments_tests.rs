//! Tests of super-datagrams that a socket receives.

use super::super::LowerLevel;
use super::*;
use crate::internet::ipv4::Protocol;
use crate::internet::testing::{Host, OURS, THEIRS, datagram, header};
use crate::internet::{Datagram, pseudo_header};
use crate::packet::ChecksumState;
use alloc::vec::Vec;
use proptest::prelude::*;

const PORT: u16 = 69;
const FROM: u16 = 1000;

/// Returns a UDP datagram to [`PORT`], merged by a device from datagrams of `segment_size` bytes.
fn super_datagram(host: &mut Host, data: &[u8], segment_size: u16) -> Datagram {
    let len = u16::try_from(data.len() + HEADER_LEN).unwrap();
    let sum = pseudo_header(THEIRS.into(), OURS.into(), Protocol::Udp, len).unfinished();
    let words = [FROM, PORT, len, sum].map(u16::to_be_bytes).concat();
    let bytes = datagram(&header(Protocol::Udp), &[], &[&words, data].concat());
    let mut datagram = host.receive(&bytes).unwrap();
    datagram.packet.offload.segment_size = segment_size;
    datagram.packet.offload_checksum(6);
    datagram
}

fn bound(host: &mut Host, accepts_super_datagrams: bool) -> (Udp, SocketId) {
    let mut udp = Udp::new(Limits { datagrams: 100, ..Limits::default() });
    let socket = udp.bind(PORT, &mut host.context.cx()).unwrap();
    udp.set_accepts_super_datagrams(socket, accepts_super_datagrams);
    (udp, socket)
}

fn large_limits() -> Host {
    Host { pool: Pool::new(200, 1600), ..Host::default() }
}

/// Returns the data of all queued datagrams, and drops each after it was read in place.
fn read_in_place(udp: &mut Udp, socket: SocketId, pool: &mut Pool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(waiting) = udp.waiting(socket) {
        assert_eq!(waiting.source, (THEIRS, FROM).into());
        all.push(waiting.first().to_vec());
        udp.drop_first(socket, 1, pool);
    }
    all
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 131) >> 3).to_le_bytes()[0]).collect()
}

proptest! {
    #[test]
    fn a_super_datagram_is_received_in_datagrams_of_its_size(
        len in 1..4000_usize, size in 50..2000_u16, accepts_super_datagrams: bool
    ) {
        let mut host = large_limits();
        let (mut udp, socket) = bound(&mut host, accepts_super_datagrams);
        let data = pattern(len);
        let datagram = super_datagram(&mut host, &data, size);
        prop_assert!(udp.receive(datagram, &mut host.pool, &mut host.context.cx()).is_none());
        let expected: Vec<_> = data.chunks(size.into()).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(host.counted(Counter::UdpIn), expected.len() as u64);
        prop_assert_eq!(read_in_place(&mut udp, socket, &mut host.pool), expected);
        prop_assert_eq!((host.pool.lent(), udp.sockets[0].waiting_bytes), (0, 0));
    }

    #[test]
    fn no_segment_size_on_any_bytes_leaves_a_buffer_behind(
        bytes in prop::collection::vec(any::<u8>(), 0..200), size: u16, accepts_super_datagrams: bool,
        dropped in prop::collection::vec(0..5_usize, 0..50)
    ) {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host, accepts_super_datagrams);
        let words = [FROM, PORT, 8 + u16::try_from(bytes.len()).unwrap(), 0];
        let words = words.map(u16::to_be_bytes).concat();
        let bytes = datagram(&header(Protocol::Udp), &[], &[&words, bytes.as_slice()].concat());
        let mut datagram = host.receive(&bytes).unwrap();
        datagram.packet.offload.segment_size = size;
        datagram.packet.offload.checksum = ChecksumState::Verified;
        udp.receive(datagram, &mut host.pool, &mut host.context.cx());
        for count in dropped {
            udp.drop_first(socket, count, &mut host.pool);
        }
        udp.close(socket, &mut host.pool);
        prop_assert_eq!(host.pool.lent(), 0);
    }
}

#[test]
fn a_socket_that_accepts_super_datagrams_receives_them_in_one_packet() {
    let mut host = Host::default();
    let (mut udp, socket) = bound(&mut host, true);
    let datagram = super_datagram(&mut host, &pattern(250), 100);
    udp.receive(datagram, &mut host.pool, &mut host.context.cx());
    udp.drop_first(socket, 1, &mut host.pool);
    let (_, packet) = udp.receive_from(socket).unwrap();
    assert_eq!((packet.offload.segment_size, packet.data()), (100, &pattern(250)[100..]));
    assert_eq!((host.counted(Counter::UdpIn), host.counted(Counter::UdpSuperIn)), (3, 1));
    assert_eq!(udp.sockets[0].waiting_bytes, 0);
}

#[test]
fn an_unverified_offer_is_dropped_with_or_without_a_checksum() {
    for checksum in [0, 0x1234_u16] {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host, true);
        let mut datagram = super_datagram(&mut host, &pattern(250), 100);
        datagram.packet.data_mut()[6..8].copy_from_slice(&checksum.to_be_bytes());
        datagram.packet.offload.checksum = ChecksumState::InPacket;
        udp.receive(datagram, &mut host.pool, &mut host.context.cx());
        assert_eq!(udp.waiting(socket), None);
        assert_eq!((host.counted(Counter::UdpErrors), host.pool.lent()), (1, 0));
    }
}

#[test]
fn a_full_queue_rejects_the_rest_of_a_super_datagram() {
    let mut host = Host::default();
    let mut udp = Udp::default();
    let socket = udp.bind(PORT, &mut host.context.cx()).unwrap();
    let datagram = super_datagram(&mut host, &pattern(1000), 100);
    udp.receive(datagram, &mut host.pool, &mut host.context.cx());
    assert_eq!((host.counted(Counter::UdpIn), host.counted(Counter::UdpQueueFull)), (8, 2));
    assert_eq!(read_in_place(&mut udp, socket, &mut host.pool).concat(), pattern(800));
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn a_segment_size_of_one_byte_uses_a_limited_number_of_packets() {
    let mut host = Host::default();
    let (mut udp, socket) = bound(&mut host, false);
    let datagram = super_datagram(&mut host, &pattern(1000), 1);
    udp.receive(datagram, &mut host.pool, &mut host.context.cx());
    assert!(!host.pool.is_only_reserve_left());
    let taken = host.counted(Counter::UdpIn);
    let lost = host.counted(Counter::UdpQueueFull);
    assert_eq!(taken + lost, 1000);
    assert_eq!(read_in_place(&mut udp, socket, &mut host.pool).len() as u64, taken);
}

#[test]
fn a_device_with_checksum_offload_completes_that_of_a_single_datagram() {
    let mut host = Host::default();
    let (mut udp, socket) = bound(&mut host, false);
    udp.set_lower_level(LowerLevel { checksum_offload: true, ..LowerLevel::default() });
    let packet = host.packet(b"left to the device");
    let Host { internet, pool, context } = &mut host;
    let to = (THEIRS, FROM).into();
    let sent = udp.send(socket, packet, to, internet, pool, &mut context.cx()).unwrap().unwrap();
    assert_eq!(sent.offloaded_checksum(), Some((20, 6)));
}
