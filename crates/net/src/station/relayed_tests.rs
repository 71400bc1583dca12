//! Tests of the datagrams that a transparent host receives and sends for other hosts.

use super::*;
use crate::cx::OwnedCx;
use crate::internet::ipv4::Protocol;
use crate::internet::testing::{OURS, THEIRS, datagram, header};
use crate::internet::{self, ipv4};
use crate::link::{self, Link};
use crate::transport::udp;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::task::Poll;

const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const OTHER_END: SocketAddr = SocketAddr::new(IpAddr::V4(OTHER), 53);
const THEIR_END: SocketAddr = SocketAddr::new(IpAddr::V4(THEIRS), 4000);

fn station(uso: bool, context: &mut OwnedCx) -> Station {
    let settings = Settings {
        address: OURS,
        prefix_len: 24,
        packets: 128,
        uso,
        checksum_offload: uso,
        tso: uso,
        ..Settings::default()
    };
    let link = Link::Datagram(link::Datagram::new(1500));
    let mut station = Station::new(link, settings, &mut context.cx());
    station.internet_mut().set_transparent_for(internet::testing::everywhere());
    station
}

/// Returns the packets passed to the device: the bytes after the IP header, and the segment size.
fn take_sent(station: &mut Station, context: &mut OwnedCx) -> Vec<(Vec<u8>, u16)> {
    let mut sent = Vec::new();
    let mut device = |frame: Frame<'_>, _: &mut Cx<'_>| {
        let bytes = frame.packet.data();
        assert_eq!(ipv4::Header::parse(bytes).unwrap().header.source, OTHER);
        sent.push((bytes[20..].to_vec(), frame.packet.offload.segment_size));
        true
    };
    station.transmit_to(&mut device, &mut context.cx());
    sent
}

fn send(
    station: &mut Station,
    data: &[u8],
    size: u16,
    context: &mut OwnedCx,
) -> Poll<Result<usize, udp::SendError>> {
    station.layers.send_between((OTHER_END, THEIR_END), data, size, &mut context.cx())
}

#[test]
fn datagrams_of_one_size_are_sent_one_by_one_or_as_a_super_datagram() {
    let data: Vec<u8> = (0..250).collect();
    for (uso, size, expected) in [
        (false, 100, &[(100, 0), (100, 0), (50, 0)][..]),
        (true, 100, &[(250, 100)]),
        (true, 250, &[(250, 0)]),
        (true, 0, &[(250, 0)]),
    ] {
        let mut context = OwnedCx::default();
        let mut station = station(uso, &mut context);
        assert_eq!(send(&mut station, &data, size, &mut context), Poll::Ready(Ok(250)));
        let sent = take_sent(&mut station, &mut context);
        let lens: Vec<_> = sent.iter().map(|(bytes, size)| (bytes.len() - 8, *size)).collect();
        assert_eq!(lens, expected, "{uso} {size}");
        let all: Vec<u8> = sent.iter().flat_map(|(bytes, _)| bytes[8..].to_vec()).collect();
        assert_eq!(all, data);
        assert_eq!(station.packets_in_use(), 0);
    }
}

#[test]
fn an_empty_datagram_is_sent() {
    let mut context = OwnedCx::default();
    let mut station = station(false, &mut context);
    for size in [0, 100] {
        assert_eq!(send(&mut station, &[], size, &mut context), Poll::Ready(Ok(0)));
        let sent = take_sent(&mut station, &mut context);
        assert_eq!(sent.iter().map(|(bytes, _)| bytes.len()).collect::<Vec<_>>(), [8]);
    }
}

#[test]
fn datagrams_for_which_the_queue_has_no_space_are_not_accepted() {
    let mut context = OwnedCx::default();
    let mut station = station(false, &mut context);
    assert_eq!(send(&mut station, &[7; 1000], 10, &mut context), Poll::Ready(Ok(640)));
    assert_eq!(send(&mut station, &[7; 10], 10, &mut context), Poll::Pending);
    assert_eq!(send(&mut station, &[], 10, &mut context), Poll::Pending);
    assert_eq!(take_sent(&mut station, &mut context).len(), 64);
    assert_eq!(send(&mut station, &[7; 10], 10, &mut context), Poll::Ready(Ok(10)));
}

#[test]
fn datagrams_from_an_invalid_source_are_an_error() {
    let mut context = OwnedCx::default();
    let mut station = station(false, &mut context);
    let invalid = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53);
    let cx = &mut context.cx();
    let sent = station.layers.send_between((invalid, THEIR_END), b"x", 1, cx);
    let error = udp::SendError::Internet(internet::SendError::NoAddress);
    assert_eq!(sent, Poll::Ready(Err(error)));
    assert_eq!(station.packets_in_use(), 0);
}

#[test]
fn a_packet_is_sent_or_dropped_and_counted() {
    let mut context = OwnedCx::default();
    let mut station = station(false, &mut context);
    let valid = internet::Header {
        source: OTHER.into(),
        ..internet::Header::to(THEIRS.into(), Protocol::Icmp)
    };
    let invalid = internet::Header { source: Ipv4Addr::LOCALHOST.into(), ..valid };
    let send = |station: &mut Station, header, context: &mut OwnedCx| {
        let mut packet = station.lend(&mut context.cx()).unwrap();
        packet.extend(b"message");
        station.layers.send_packet(packet, header, &mut context.cx());
    };
    send(&mut station, invalid, &mut context);
    assert_eq!(context.counted(Counter::IpOutputDropped), 1);
    assert_eq!(station.packets_in_use(), 0);
    (0..65).for_each(|_| send(&mut station, valid, &mut context));
    assert_eq!(context.counted(Counter::IpOutputDropped), 2);
    assert_eq!(station.packets_in_use(), 64);
    let sent = take_sent(&mut station, &mut context);
    assert_eq!((sent.len(), &sent[0].0[..]), (64, &b"message"[..]));
    assert_eq!(station.packets_in_use(), 0);
}

/// A transparent host has no UDP sockets of its own: its application receives all datagrams.
#[test]
fn received_datagrams_are_queued_for_the_application_up_to_a_limit() {
    let mut context = OwnedCx::default();
    let mut station = station(false, &mut context);
    let to_other = ipv4::Header { destination: OTHER, ..header(Protocol::Udp) };
    let bytes = datagram(&to_other, &[], &[0, 9, 0, 53, 0, 9, 0, 0, 7]);
    for _ in 0..70 {
        let mut packet = station.lend(&mut context.cx()).unwrap();
        packet.extend(&bytes);
        station.receive_packet(packet, &mut context.cx());
    }
    assert_eq!(context.counted(Counter::IpRawQueueFull), 6);
    assert_eq!(station.packets_in_use(), 64);
    let received: Vec<_> = core::iter::from_fn(|| station.layers.receive_raw()).collect();
    assert_eq!(received.len(), 64);
    assert_eq!(received[0].header.destination, IpAddr::V4(OTHER));
    received.into_iter().for_each(|datagram| station.take_back(datagram.packet));
    assert_eq!(station.packets_in_use(), 0);
}
