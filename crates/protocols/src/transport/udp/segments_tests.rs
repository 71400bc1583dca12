//! Super-datagrams up to a socket, and from a station down to its device.

use super::super::{LowerLevel, SendError};
use super::*;
use crate::chance::Chance;
use crate::internet::ipv4::Protocol;
use crate::internet::testing::{Host, OURS, OURS_V6, THEIRS, THEIRS_V6, datagram, header};
use crate::internet::{Datagram, pseudo_header};
use crate::link::{self, Link};
use crate::meter::{Clock, Meter};
use crate::packet::ChecksumState;
use crate::station::{self, Settings, Station};
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use proptest::prelude::*;

const PORT: u16 = 69;
const FROM: u16 = 1000;

/// A datagram of UDP to [`PORT`] as a device gives it that has put it together.
fn super_datagram(host: &mut Host, data: &[u8], segment_size: u16) -> Datagram {
    let len = u16::try_from(data.len() + HEADER_LEN).unwrap();
    let sum = pseudo_header(THEIRS.into(), OURS.into(), Protocol::Udp, len).unfinished();
    let words = [FROM, PORT, len, sum].map(u16::to_be_bytes).concat();
    let bytes = datagram(&header(Protocol::Udp), &[], &[&words, data].concat());
    let mut datagram = host.receive(&bytes).unwrap();
    datagram.packet.offload.segment_size = segment_size;
    datagram.packet.leave_checksum_at(6);
    datagram
}

fn bound(host: &mut Host, takes_segments: bool) -> (Udp, SocketId) {
    let mut udp = Udp::new(Limits { datagrams: 100, ..Limits::default() });
    let socket = udp.bind(PORT, &mut host.lab.cx()).unwrap();
    udp.set_takes_segments(socket, takes_segments);
    (udp, socket)
}

fn roomy() -> Host {
    Host { pool: Pool::new(200, 1600), ..Host::default() }
}

/// Returns every datagram that waits, taken one by one in place.
fn in_place(udp: &mut Udp, socket: SocketId, pool: &mut Pool) -> Vec<Vec<u8>> {
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
    fn what_came_as_one_is_received_in_datagrams_of_its_size(
        len in 1..4000_usize, size in 50..2000_u16, takes_segments: bool
    ) {
        let mut host = roomy();
        let (mut udp, socket) = bound(&mut host, takes_segments);
        let data = pattern(len);
        let datagram = super_datagram(&mut host, &data, size);
        prop_assert!(udp.receive(datagram, &mut host.pool, &mut host.lab.cx()).is_none());
        let expected: Vec<_> = data.chunks(size.into()).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(host.counted(Counter::UdpIn), expected.len() as u64);
        prop_assert_eq!(in_place(&mut udp, socket, &mut host.pool), expected);
        prop_assert_eq!((host.pool.lent(), udp.sockets[0].waiting_bytes), (0, 0));
    }

    #[test]
    fn no_segment_size_on_any_bytes_leaves_a_buffer_behind(
        bytes in prop::collection::vec(any::<u8>(), 0..200), size: u16, takes_segments: bool,
        dropped in prop::collection::vec(0..5_usize, 0..50)
    ) {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host, takes_segments);
        let words = [FROM, PORT, 8 + u16::try_from(bytes.len()).unwrap(), 0];
        let words = words.map(u16::to_be_bytes).concat();
        let bytes = datagram(&header(Protocol::Udp), &[], &[&words, bytes.as_slice()].concat());
        let mut datagram = host.receive(&bytes).unwrap();
        datagram.packet.offload.segment_size = size;
        datagram.packet.offload.checksum = ChecksumState::Verified;
        udp.receive(datagram, &mut host.pool, &mut host.lab.cx());
        for count in dropped {
            udp.drop_first(socket, count, &mut host.pool);
        }
        udp.close(socket, &mut host.pool);
        prop_assert_eq!(host.pool.lent(), 0);
    }

    #[test]
    fn what_is_sent_in_segments_is_what_single_datagrams_would_be(
        len in 1..9000_usize, size in 1..2000_u16, cuts_datagrams: bool, is_v6: bool
    ) {
        let data = pattern(len);
        let mut bench = Bench::new(cuts_datagrams);
        let taken = bench.send(&data, size, is_v6).unwrap();
        let sent = bench.sent();
        let cut: Vec<_> = sent.iter().flat_map(Sent::cut).collect();
        let whole: Vec<_> = data.chunks(size.into()).map(<[u8]>::to_vec).collect();
        prop_assert!(taken == len || taken.is_multiple_of(size.into()));
        prop_assert_eq!(&cut[..], &whole[..taken.div_ceil(size.into())]);
        // No room but for 64 that are apart, and all that come as one.
        prop_assert!(taken == len || cut.len() >= 64 || !cuts_datagrams || size > 1452);
    }
}

#[test]
fn a_socket_that_takes_segments_has_them_in_the_packet_that_they_came_in() {
    let mut host = Host::default();
    let (mut udp, socket) = bound(&mut host, true);
    let datagram = super_datagram(&mut host, &pattern(250), 100);
    udp.receive(datagram, &mut host.pool, &mut host.lab.cx());
    udp.drop_first(socket, 1, &mut host.pool);
    let (_, packet) = udp.receive_from(socket).unwrap();
    assert_eq!((packet.offload.segment_size, packet.data()), (100, &pattern(250)[100..]));
    assert_eq!((host.counted(Counter::UdpIn), host.counted(Counter::UdpSuperIn)), (3, 1));
    assert_eq!(udp.sockets[0].waiting_bytes, 0);
}

#[test]
fn one_that_nobody_has_vouched_for_is_dropped_with_or_without_a_checksum() {
    for checksum in [0, 0x1234_u16] {
        let mut host = Host::default();
        let (mut udp, socket) = bound(&mut host, true);
        let mut datagram = super_datagram(&mut host, &pattern(250), 100);
        datagram.packet.data_mut()[6..8].copy_from_slice(&checksum.to_be_bytes());
        datagram.packet.offload.checksum = ChecksumState::InPacket;
        udp.receive(datagram, &mut host.pool, &mut host.lab.cx());
        assert_eq!(udp.waiting(socket), None);
        assert_eq!((host.counted(Counter::UdpErrors), host.pool.lent()), (1, 0));
    }
}

#[test]
fn a_full_queue_turns_away_the_rest_of_what_is_taken_apart() {
    let mut host = Host::default();
    let mut udp = Udp::default();
    let socket = udp.bind(PORT, &mut host.lab.cx()).unwrap();
    let datagram = super_datagram(&mut host, &pattern(1000), 100);
    udp.receive(datagram, &mut host.pool, &mut host.lab.cx());
    assert_eq!((host.counted(Counter::UdpIn), host.counted(Counter::UdpQueueFull)), (8, 2));
    assert_eq!(in_place(&mut udp, socket, &mut host.pool).concat(), pattern(800));
    assert_eq!(host.pool.lent(), 0);
}

#[test]
fn a_segment_size_of_one_byte_takes_no_more_than_its_share_of_the_packets() {
    let mut host = Host::default();
    let (mut udp, socket) = bound(&mut host, false);
    let datagram = super_datagram(&mut host, &pattern(1000), 1);
    udp.receive(datagram, &mut host.pool, &mut host.lab.cx());
    assert!(!host.pool.is_scarce());
    let (taken, lost) = (host.counted(Counter::UdpIn), host.counted(Counter::UdpQueueFull));
    assert_eq!(taken + lost, 1000);
    assert_eq!(in_place(&mut udp, socket, &mut host.pool).len() as u64, taken);
}

/// A station, and what its device was given.
struct Bench {
    station: Station,
    socket: SocketId,
    chance: Chance,
    meter: Meter,
}

/// A packet as a device has it.
#[derive(Debug)]
struct Sent {
    bytes: Vec<u8>,
    segment_size: usize,
    checksum_left: Option<(usize, usize)>,
}

impl Sent {
    /// Returns the data of each datagram that the device makes of it.
    fn cut(&self) -> Vec<Vec<u8>> {
        let ip_header_len = if self.bytes[0] >> 4 == 4 { 20 } else { 40 };
        let data = &self.bytes[ip_header_len + HEADER_LEN..];
        let size = if self.segment_size == 0 { data.len() } else { self.segment_size };
        data.chunks(size).map(<[u8]>::to_vec).collect()
    }
}

impl Bench {
    fn new(cuts_datagrams: bool) -> Self {
        let (mut chance, mut meter) = (Chance::from_seed(7), Meter::new(Clock::None));
        let mut cx = Cx { now: Instant::ZERO, chance: &mut chance, meter: &mut meter };
        let settings = Settings {
            address: OURS,
            prefix_len: 24,
            packets: 128,
            cuts_datagrams,
            finishes_checksums: cuts_datagrams,
            segments: cuts_datagrams,
            ..Settings::default()
        };
        let link = Link::Datagram(link::Datagram::new(1500));
        let mut station = Station::new(link, settings, &mut cx);
        let own = crate::internet::addresses::Address::lasting(OURS_V6.into(), 64);
        station.layers.internet.add_address(own).unwrap();
        let socket = station.layers.udp.bind(PORT, &mut cx).unwrap();
        Self { station, socket, chance, meter }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut Station, SocketId, &mut Cx<'_>) -> R) -> R {
        let Self { station, socket, chance, meter } = self;
        call(station, *socket, &mut Cx { now: Instant::ZERO, chance, meter })
    }

    fn send(&mut self, data: &[u8], size: u16, is_v6: bool) -> Result<usize, station::SendError> {
        let to = if is_v6 { THEIRS_V6.into() } else { IpAddr::from(THEIRS) };
        self.send_to(data, size, (to, FROM).into())
    }

    fn send_to(
        &mut self,
        data: &[u8],
        size: u16,
        to: SocketAddr,
    ) -> Result<usize, station::SendError> {
        let size = NonZeroU16::new(size).unwrap();
        self.with(|station, id, cx| station.layers.send_segments(id, data, size, to, cx))
    }

    /// Returns what the device is given; datagrams that are in fragments are put together.
    fn sent(&mut self) -> Vec<Sent> {
        let mut sent: Vec<Sent> = Vec::new();
        self.with(|station, _, cx| {
            let mut device = |frame: station::Frame<'_>, _: &mut Cx<'_>| {
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
                sent.push(Sent { bytes, segment_size, checksum_left: packet.checksum_left() });
                true
            };
            station.transmit_to(&mut device, cx);
        });
        sent
    }
}

#[test]
fn datagrams_of_one_size_are_one_packet_for_a_device_that_cuts() {
    for (is_v6, ip_header_len) in [(false, 20), (true, 40)] {
        let mut bench = Bench::new(true);
        assert_eq!(bench.send(&pattern(1050), 100, is_v6), Ok(1050));
        let sent = bench.sent();
        let [one] = &sent[..] else { panic!("{} packets", sent.len()) };
        assert_eq!((one.segment_size, one.checksum_left), (100, Some((ip_header_len, 6))));
        let udp = &one.bytes[ip_header_len..];
        assert_eq!(udp[4..6], 1058_u16.to_be_bytes());
        let (from, to): (IpAddr, IpAddr) = match is_v6 {
            true => (OURS_V6.into(), THEIRS_V6.into()),
            false => (OURS.into(), THEIRS.into()),
        };
        let sum = pseudo_header(from, to, Protocol::Udp, 1058).unfinished();
        assert_eq!(udp[6..8], sum.to_be_bytes());
        assert_eq!(bench.meter.counted(Counter::UdpOut), 11);
        assert_eq!(bench.meter.counted(Counter::UdpSuperOut), 1);
    }
}

#[test]
fn two_packets_carry_what_is_more_than_the_most_datagrams_of_one() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.send(&pattern(65 * 10 + 3), 10, false), Ok(653));
    let counts: Vec<_> = bench.sent().iter().map(|one| one.cut().len()).collect();
    assert_eq!(counts, [64, 2]);
}

#[test]
fn a_single_datagram_at_the_end_has_no_segment_size() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.send(&pattern(64 * 10 + 3), 10, false), Ok(643));
    let sizes: Vec<_> = bench.sent().iter().map(|one| one.segment_size).collect();
    assert_eq!(sizes, [10, 0]);
}

#[test]
fn datagrams_that_are_too_long_for_the_path_go_one_by_one() {
    let mut bench = Bench::new(true);
    let (to, mtu) = (IpAddr::from(THEIRS), 1000);
    bench.with(|station, _, cx| station.layers.internet.lower_path_mtu(to, mtu, cx));
    assert_eq!(bench.send(&pattern(4000), 973, false), Ok(4000));
    let sent = bench.sent();
    assert_eq!(sent.iter().map(|one| one.segment_size).collect::<Vec<_>>(), [0; 5]);
    // A device could not finish the checksum of what leaves in fragments.
    assert_eq!(sent[0].checksum_left, None);
    assert_eq!(bench.send(&pattern(4000), 972, false), Ok(4000));
    assert_eq!(bench.sent()[0].segment_size, 972);
}

#[test]
fn without_room_for_all_whole_datagrams_are_taken_and_then_none() {
    let mut bench = Bench::new(false);
    assert_eq!(bench.send(&pattern(7000), 100, false), Ok(6400));
    assert_eq!(bench.send(&pattern(600), 100, false), Err(station::SendError::WouldBlock));
    assert_eq!(bench.sent().len(), 64);
}

#[test]
fn what_cannot_be_sent_at_all_is_refused() {
    let mut bench = Bench::new(true);
    let nowhere = bench.send_to(&pattern(1000), 100, (THEIRS, 0).into());
    assert_eq!(nowhere, Err(station::SendError::Refused(SendError::Port)));
    assert_eq!(bench.station.packets_lent(), 0);
}

#[test]
fn a_super_datagram_to_ourselves_arrives_in_datagrams() {
    let mut bench = Bench::new(true);
    let to = (Ipv4Addr::LOCALHOST, PORT).into();
    assert_eq!(bench.send_to(&pattern(250), 100, to), Ok(250));
    bench.with(|station, socket, cx| {
        station.step(station::Step::Network, &mut Nobody, cx);
        let lens: Vec<_> =
            core::iter::from_fn(|| station.layers.udp.receive_from(socket)).collect();
        assert_eq!(lens.iter().map(|(_, one)| one.len()).collect::<Vec<_>>(), vec![100, 100, 50]);
    });
}

struct Nobody;

impl station::Application for Nobody {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut station::Layers, _cx: &mut Cx<'_>) {}
}

#[test]
fn a_device_that_finishes_checksums_is_left_that_of_a_single_datagram() {
    let mut host = Host::default();
    let (mut udp, socket) = bound(&mut host, false);
    udp.set_lower_level(LowerLevel { finishes_checksums: true, ..LowerLevel::default() });
    let packet = host.packet(b"left to the device");
    let Host { internet, pool, lab } = &mut host;
    let to = (THEIRS, FROM).into();
    let sent = udp.send(socket, packet, to, internet, pool, &mut lab.cx()).unwrap().unwrap();
    assert_eq!(sent.checksum_left(), Some((20, 6)));
}
