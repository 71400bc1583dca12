//! A guest at a serial line whose link has a short queue.

use super::kernel::GUEST;
use super::world::settings;
use crate::{Guest, Medium, Settings};
use net::checksum::Sum;
use net::cx::OwnedCx;
use net::link::{Link, Slip};

const MTU: usize = 296;
const QUEUE_PACKETS: usize = 2;
const END: u8 = 0o300;

/// Returns a SLIP packet with a UDP datagram of a byte from port `port` of the guest.
fn packet(port: u16) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 198, 51, 100, 1];
    header[12..16].copy_from_slice(&GUEST.octets());
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
