//! A guest at a serial line whose link has a short queue.

use super::kernel::GUEST;
use super::world::settings;
use crate::{Guest, Medium, Settings};
use net::checksum::Sum;
use net::cx::OwnedCx;
use net::link::{Link, Slip};
use std::net::{IpAddr, Ipv4Addr};

const MTU: usize = 296;
const QUEUE_PACKETS: usize = 2;
const END: u8 = 0o300;

/// Returns a SLIP packet with a UDP datagram of a byte from port `port` of the guest. No byte of it
/// has to be escaped.
fn packet(port: u16) -> Vec<u8> {
    packet_from(GUEST, port)
}

fn packet_from(source: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 198, 51, 100, 1];
    header[12..16].copy_from_slice(&source.octets());
    let sum = Sum::default().bytes(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    // The ports, the length of the datagram, no checksum, and the data.
    [&header[..], &port.to_be_bytes(), &[0, 9, 0, 9, 0, 0, 1], &[END]].concat()
}

#[test]
fn no_packet_is_lost_of_many_that_are_read_at_once() {
    const PACKETS: u16 = 50;
    let slip = Slip::with_queue_limit(MTU, QUEUE_PACKETS);
    let settings = Settings { medium: Medium::Line(Box::new(Link::Slip(slip))), ..settings() };
    let mut context = OwnedCx::with_seed(1);
    let mut guest = Guest::new(settings, &mut context.cx());
    let bytes: Vec<u8> = (1..=PACKETS).flat_map(packet).collect();
    assert_eq!(bytes.iter().filter(|byte| **byte == END).count(), PACKETS.into());
    guest.receive_bytes(&bytes, &mut context.cx());
    assert_eq!(guest.udp().len(), PACKETS.into());
}

/// Returns a guest at a SLIP line that must send from [`GUEST`].
fn guest_with_lease(context: &mut OwnedCx) -> Guest {
    let medium = Medium::Line(Box::new(Link::Slip(Slip::new(MTU))));
    let leases = vec![(GUEST.into(), 32)];
    Guest::new(Settings { medium, leases, ..settings() }, &mut context.cx())
}

#[test]
fn datagrams_from_a_wrong_source_are_counted_and_each_source_is_reported_once() {
    let mut context = OwnedCx::with_seed(1);
    let mut guest = guest_with_lease(&mut context);
    let wrong = [Ipv4Addr::new(172, 16, 7, 2), Ipv4Addr::new(172, 16, 7, 3)];
    for source in [wrong[0], GUEST, wrong[0], wrong[1], wrong[0]] {
        guest.receive_bytes(&packet_from(source, 1), &mut context.cx());
    }
    assert_eq!((guest.source_errors().ipv4, guest.source_errors().ipv6), (4, 0));
    assert_eq!(guest.udp().len(), 1);
    let reported: Vec<IpAddr> = std::iter::from_fn(|| guest.wrong_source()).collect();
    assert_eq!(reported, wrong.map(IpAddr::from));
}

#[test]
fn a_guest_that_sends_from_many_addresses_is_reported_a_few_times() {
    let mut context = OwnedCx::with_seed(1);
    let mut guest = guest_with_lease(&mut context);
    let mut reports = 0;
    for number in 0..100 {
        let source = Ipv4Addr::new(172, 16, 7, number);
        guest.receive_bytes(&packet_from(source, 1), &mut context.cx());
        reports += std::iter::from_fn(|| guest.wrong_source()).count();
    }
    assert_eq!((reports, guest.source_errors().ipv4), (8, 100));
}

#[test]
fn packets_above_the_mtu_of_the_line_are_counted_and_reported_once() {
    let mut context = OwnedCx::with_seed(1);
    let mut guest = guest_with_lease(&mut context);
    for len in [MTU + 1, MTU + 1, 1006] {
        let bytes = [&vec![1; len][..], &[END]].concat();
        // Split anywhere.
        bytes.chunks(100).for_each(|piece| guest.receive_bytes(piece, &mut context.cx()));
        assert_eq!(guest.reports_packets_above_mtu(), guest.packets_above_mtu() == 1);
    }
    guest.receive_bytes(&packet(1), &mut context.cx());
    assert_eq!((guest.packets_above_mtu(), guest.udp().len()), (3, 1));
}
