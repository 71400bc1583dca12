//! Tests of UDP super-datagrams that a station passes to its device.

use super::*;
use crate::internet::addresses::Address;
use crate::internet::ipv4::Protocol;
use crate::internet::pseudo_header;
use crate::internet::testing::{OURS, OURS_V6, THEIRS, THEIRS_V6};
use crate::link::{self, Link};
use crate::meter::{Clock, Meter};
use crate::rng::Rng;
use crate::time::Instant;
use crate::transport::udp::{self, HEADER_LEN, SocketId};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU16;
use core::task::Poll;
use proptest::prelude::*;

/// Result of a send: the number of accepted bytes.
type Accepted = Poll<Result<usize, udp::SendError>>;

const PORT: u16 = 69;
const LOCAL: u16 = 1000;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 131) >> 3).to_le_bytes()[0]).collect()
}

proptest! {
    #[test]
    fn a_super_datagram_sends_the_same_bytes_as_single_datagrams(
        len in 1..9000_usize, size in 1..2000_u16, uso: bool, is_v6: bool
    ) {
        let data = pattern(len);
        let mut harness = Harness::new(uso);
        let Poll::Ready(Ok(accepted)) = harness.send(&data, size, is_v6) else {
            panic!("not accepted");
        };
        let sent = harness.take_sent();
        let datagrams: Vec<_> = sent.iter().flat_map(Sent::segmented_data).collect();
        let expected: Vec<_> = data.chunks(size.into()).map(<[u8]>::to_vec).collect();
        prop_assert!(accepted == len || accepted.is_multiple_of(size.into()));
        prop_assert_eq!(&datagrams[..], &expected[..accepted.div_ceil(size.into())]);
        // The queue has space for 64 separate datagrams, or for all datagrams if they are in
        // super-datagrams.
        prop_assert!(accepted == len || datagrams.len() >= 64 || !uso || size > 1452);
    }
}

/// A station, and the packets passed to its device.
struct Harness {
    station: Station,
    socket: SocketId,
    rng: Rng,
    meter: Meter,
}

/// A packet as the device receives it.
#[derive(Debug)]
struct Sent {
    bytes: Vec<u8>,
    segment_size: usize,
    offloaded_checksum: Option<(usize, usize)>,
}

impl Sent {
    /// Returns the data of the datagrams into which the device segments the packet.
    fn segmented_data(&self) -> Vec<Vec<u8>> {
        let ip_header_len = if self.bytes[0] >> 4 == 4 { 20 } else { 40 };
        let data = &self.bytes[ip_header_len + HEADER_LEN..];
        let size = if self.segment_size == 0 { data.len() } else { self.segment_size };
        data.chunks(size).map(<[u8]>::to_vec).collect()
    }
}

impl Harness {
    fn new(uso: bool) -> Self {
        let mut rng = Rng::from_seed(7);
        let mut meter = Meter::new(Clock::None);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
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
        let mut station = Station::new(link, settings, &mut cx);
        let own = Address::permanent(OURS_V6.into(), 64);
        station.layers.internet.add_address(own).unwrap();
        let socket = station.layers.udp.bind(PORT, &mut cx).unwrap();
        Self { station, socket, rng, meter }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut Station, SocketId, &mut Cx<'_>) -> R) -> R {
        let Self { station, socket, rng, meter } = self;
        call(station, *socket, &mut Cx { now: Instant::ZERO, rng, meter })
    }

    fn send(&mut self, data: &[u8], size: u16, is_v6: bool) -> Accepted {
        let to = if is_v6 { THEIRS_V6.into() } else { IpAddr::from(THEIRS) };
        self.send_to(data, size, (to, LOCAL).into())
    }

    fn send_to(&mut self, data: &[u8], size: u16, to: SocketAddr) -> Accepted {
        let size = NonZeroU16::new(size).unwrap();
        self.with(|station, id, cx| station.layers.send_segments(id, data, size, to, cx))
    }

    /// Returns the packets passed to the device. Fragmented datagrams are reassembled.
    fn take_sent(&mut self) -> Vec<Sent> {
        let mut sent: Vec<Sent> = Vec::new();
        self.with(|station, _, cx| {
            let mut device = |frame: Frame<'_>, _: &mut Cx<'_>| {
                let packet = frame.packet;
                let bytes = packet.data().to_vec();
                let offset = match bytes[0] >> 4 {
                    4 => u16::from_be_bytes([bytes[6] & 0x1F, bytes[7]]) * 8,
                    _ if bytes[6] == 44 => u16::from_be_bytes([bytes[42], bytes[43]]) & !7,
                    _ => 0,
                };
                let headers_len = if bytes[0] >> 4 == 4 { 20 } else { 48 };
                if offset > 0 {
                    sent.last_mut().unwrap().bytes.extend(&bytes[headers_len..]);
                    return true;
                }
                let bytes = match bytes[0] >> 4 == 6 && bytes[6] == 44 {
                    true => [&bytes[..40], &bytes[48..]].concat(),
                    false => bytes,
                };
                let segment_size = packet.offload.segment_size.into();
                sent.push(Sent {
                    bytes,
                    segment_size,
                    offloaded_checksum: packet.offloaded_checksum(),
                });
                true
            };
            station.transmit_to(&mut device, cx);
        });
        sent
    }
}

#[test]
fn datagrams_of_one_size_are_one_packet_for_a_device_with_uso() {
    for (is_v6, ip_header_len) in [(false, 20), (true, 40)] {
        let mut harness = Harness::new(true);
        assert_eq!(harness.send(&pattern(1050), 100, is_v6), Poll::Ready(Ok(1050)));
        let sent = harness.take_sent();
        let [one] = &sent[..] else { panic!("{} packets", sent.len()) };
        assert_eq!((one.segment_size, one.offloaded_checksum), (100, Some((ip_header_len, 6))));
        let udp = &one.bytes[ip_header_len..];
        assert_eq!(udp[4..6], 1058_u16.to_be_bytes());
        let (from, to): (IpAddr, IpAddr) = match is_v6 {
            true => (OURS_V6.into(), THEIRS_V6.into()),
            false => (OURS.into(), THEIRS.into()),
        };
        let sum = pseudo_header(from, to, Protocol::Udp, 1058).unfinished();
        assert_eq!(udp[6..8], sum.to_be_bytes());
        assert_eq!(harness.meter.counted(Counter::UdpOut), 11);
        assert_eq!(harness.meter.counted(Counter::UdpSuperOut), 1);
    }
}

#[test]
fn data_beyond_the_maximum_of_one_packet_is_sent_in_two() {
    let mut harness = Harness::new(true);
    assert_eq!(harness.send(&pattern(65 * 10 + 3), 10, false), Poll::Ready(Ok(653)));
    let counts: Vec<_> =
        harness.take_sent().iter().map(|packet| packet.segmented_data().len()).collect();
    assert_eq!(counts, [64, 2]);
}

#[test]
fn a_single_datagram_at_the_end_has_no_segment_size() {
    let mut harness = Harness::new(true);
    assert_eq!(harness.send(&pattern(64 * 10 + 3), 10, false), Poll::Ready(Ok(643)));
    let sizes: Vec<_> = harness.take_sent().iter().map(|one| one.segment_size).collect();
    assert_eq!(sizes, [10, 0]);
}

#[test]
fn datagrams_longer_than_the_path_mtu_are_sent_individually() {
    let mut harness = Harness::new(true);
    let to = IpAddr::from(THEIRS);
    let mtu = 1000;
    harness.with(|station, _, cx| station.layers.internet.lower_path_mtu(to, mtu, cx));
    assert_eq!(harness.send(&pattern(4000), 973, false), Poll::Ready(Ok(4000)));
    let sent = harness.take_sent();
    assert_eq!(sent.iter().map(|one| one.segment_size).collect::<Vec<_>>(), [0; 5]);
    // A device could not finish the checksum of a fragmented datagram.
    assert_eq!(sent[0].offloaded_checksum, None);
    assert_eq!(harness.send(&pattern(4000), 972, false), Poll::Ready(Ok(4000)));
    assert_eq!(harness.take_sent()[0].segment_size, 972);
}

#[test]
fn if_the_queue_fills_only_whole_datagrams_are_accepted() {
    let mut harness = Harness::new(false);
    assert_eq!(harness.send(&pattern(7000), 100, false), Poll::Ready(Ok(6400)));
    assert_eq!(harness.send(&pattern(600), 100, false), Poll::Pending);
    assert_eq!(harness.take_sent().len(), 64);
}

#[test]
fn a_datagram_that_can_never_be_sent_is_refused() {
    let mut harness = Harness::new(true);
    let nowhere = harness.send_to(&pattern(1000), 100, (THEIRS, 0).into());
    assert_eq!(nowhere, Poll::Ready(Err(udp::SendError::Port)));
    assert_eq!(harness.station.packets_in_use(), 0);
}

#[test]
fn a_super_datagram_to_the_local_host_arrives_as_datagrams() {
    let mut harness = Harness::new(true);
    let to = (Ipv4Addr::LOCALHOST, PORT).into();
    assert_eq!(harness.send_to(&pattern(250), 100, to), Poll::Ready(Ok(250)));
    harness.with(|station, socket, cx| {
        station.step(Step::Network, &mut IdleApplication, cx);
        let lens: Vec<_> =
            core::iter::from_fn(|| station.layers.udp.receive_from(socket)).collect();
        assert_eq!(lens.iter().map(|(_, one)| one.len()).collect::<Vec<_>>(), vec![100, 100, 50]);
    });
}

struct IdleApplication;

impl Application for IdleApplication {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut Layers, _cx: &mut Cx<'_>) {}
}
