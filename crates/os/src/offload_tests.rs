//! Tests of the exchange of unfinished packets with the kernel's TCP and UDP, on each type of
//! device.
//!
//! The [`Peer`] is a minimal host. It answers ARP, accepts one connection, and sends segments whose
//! checksum the kernel must compute.

use crate::checksum::Routines;
use crate::device::Device;
use crate::interface::Interface;
use crate::packet_socket::{self, PacketSocket};
use crate::testing::{in_new_network, segments_datagrams, wait_until_readable};
use crate::tun::{Kind, Options, Tun};
use crate::veth;
use crate::vnet::{Checksum, Header, SegmentKind, Segmentation};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
const OUR_FRAMES: [u8; 6] = [2, 0, 0, 0, 0, 7];
const PORT: u16 = 7;
const MSS: u16 = 1440;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FIRST_OUT: u32 = 1000;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FRAME_HEADER_LEN: usize = 14;
const TCP_HEADER_LEN: usize = 20;

/// Minimal host on the test's end of a device.
struct Peer {
    device: Device,
    kernel: IpAddr,
    own: IpAddr,
    /// The kernel's Ethernet address, learned from its ARP request.
    kernel_mac: [u8; 6],
    port: u16,
    next_out: u32,
    next_in: u32,
}

impl Peer {
    fn new(device: Device, kernel: IpAddr, own: IpAddr) -> Self {
        let next_out = FIRST_OUT;
        let next_in = 0;
        Self { device, kernel, own, kernel_mac: [0xFF; 6], port: 0, next_out, next_in }
    }

    fn ip_header_len(&self) -> usize {
        if self.own.is_ipv4() { 20 } else { 40 }
    }

    /// Reads until a packet of `protocol` for this host arrives, and returns it from the IP header
    /// on.
    fn read(&mut self, protocol: u8) -> (Header, Vec<u8>) {
        let mut packet = vec![0; 70_000];
        loop {
            wait_until_readable(&self.device);
            let Some(received) = self.device.receive(&mut packet).unwrap() else { continue };
            let header = received.header;
            let mut ip = &packet[received.range()];
            if self.device.has_frames() {
                let (frame_header, rest) = ip.split_at(FRAME_HEADER_LEN);
                ip = rest;
                match frame_header[12..] {
                    [0x08, 0x06] => self.answer_arp(ip),
                    [0x08, 0x00] => {}
                    _ => continue,
                }
            }
            let version = ip[0] >> 4;
            let packet_protocol = if ip[0] >> 4 == 4 { ip[9] } else { ip[6] };
            if (version == 4) == self.own.is_ipv4() && packet_protocol == protocol {
                return (header, ip.to_vec());
            }
        }
    }

    /// Answers an ARP request with the same packet, its addresses exchanged (RFC 826).
    fn answer_arp(&mut self, request: &[u8]) {
        self.kernel_mac.copy_from_slice(&request[8..14]);
        let mut reply = request[..28].to_vec();
        reply[7] = 2;
        reply[8..14].copy_from_slice(&OUR_FRAMES);
        reply[14..18].copy_from_slice(&request[24..28]);
        reply[18..28].copy_from_slice(&request[8..18]);
        let frame_header = [&self.kernel_mac[..], &OUR_FRAMES, &[0x08, 0x06]].concat();
        self.device.write_vectored(&Header::default(), [&frame_header, &reply, &[]]).unwrap();
    }

    /// Writes a packet whose transport checksum, at `offset`, contains only the sum of the
    /// pseudo-header.
    fn write(
        &mut self,
        protocol: u8,
        transport: &mut [u8],
        payload: &[u8],
        cut: Option<Segmentation>,
    ) {
        let offset = if protocol == TCP { 16 } else { 6 };
        let length = u16::try_from(transport.len() + payload.len()).unwrap();
        let (ip, pseudo_sum) = self.ip_header(protocol, length);
        transport[offset..offset + 2].copy_from_slice(&pseudo_sum.to_be_bytes());
        let mut head = Vec::new();
        if self.device.has_frames() {
            head.extend([&self.kernel_mac[..], &OUR_FRAMES, &[0x08, 0x00]].concat());
        }
        head.extend(ip);
        let start = u16::try_from(head.len()).unwrap();
        head.extend_from_slice(transport);
        let checksum = Checksum::Partial { start, offset: u16::try_from(offset).unwrap() };
        let header_len_bytes = u16::try_from(head.len()).unwrap();
        let segmentation = cut.map(|cut| Segmentation { header_len_bytes, ..cut });
        let (first, second) = payload.split_at(payload.len() / 3);
        let header = Header { checksum, segmentation };
        let written = self.device.write_vectored(&header, [&head, first, second]).unwrap();
        assert_eq!(written, Some(head.len() + payload.len()));
    }

    /// Returns the IP header, and the sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).
    fn ip_header(&self, protocol: u8, length: u16) -> (Vec<u8>, u16) {
        let sum = |parts: &[&[u8]]| (Routines::PORTABLE.sum)(&parts.concat());
        let rest = [&[0, protocol][..], &length.to_be_bytes()].concat();
        match (self.own, self.kernel) {
            (IpAddr::V4(own), IpAddr::V4(kernel)) => {
                let total = (length + 20).to_be_bytes();
                let mut header = [&[0x45, 0][..], &total, &[0, 0, 0x40, 0, 64, protocol, 0, 0]];
                let own = own.octets();
                let kernel = kernel.octets();
                let mut header = header.as_mut().concat();
                header.extend([own, kernel].concat());
                let check = !(Routines::PORTABLE.sum)(&header);
                header[10..12].copy_from_slice(&check.to_be_bytes());
                (header, sum(&[&own, &kernel, &rest]))
            }
            (IpAddr::V6(own), IpAddr::V6(kernel)) => {
                let own = own.octets();
                let kernel = kernel.octets();
                let fixed_fields = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[protocol, 64]];
                let header = [&fixed_fields.concat()[..], &own, &kernel].concat();
                (header, sum(&[&own, &kernel, &rest]))
            }
            _ => panic!("two versions in one packet"),
        }
    }

    fn write_tcp(&mut self, flags: u8, options: &[u8], payload: &[u8], cut: Option<Segmentation>) {
        let header_len = u8::try_from(TCP_HEADER_LEN + options.len()).unwrap();
        let mut tcp = [
            &PORT.to_be_bytes()[..],
            &self.port.to_be_bytes(),
            &self.next_out.to_be_bytes(),
            &self.next_in.to_be_bytes(),
            &[header_len << 2, flags, 0xFF, 0xFF, 0, 0, 0, 0],
            options,
        ]
        .concat();
        self.write(TCP, &mut tcp, payload, cut);
        let sequence_len = u32::try_from(payload.len()).unwrap() + u32::from(flags & SYN != 0);
        self.next_out += sequence_len;
    }

    /// Reads a segment for this host, and returns its flags and the new part of its payload: on a
    /// busy machine the kernel may retransmit data that is acknowledged late.
    fn read_tcp(&mut self) -> (Header, u8, Vec<u8>) {
        let (header, packet) = self.read(TCP);
        let tcp = &packet[self.ip_header_len()..];
        self.port = u16::from_be_bytes([tcp[0], tcp[1]]);
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let mut payload = tcp[usize::from(tcp[12] >> 4) * 4..].to_vec();
        if tcp[13] & SYN != 0 {
            self.next_in = sequence.wrapping_add(1);
        }
        let known_len = usize::try_from(self.next_in.wrapping_sub(sequence)).unwrap();
        if tcp[13] & SYN == 0 && known_len < 1 << 31 {
            payload.drain(..known_len.min(payload.len()));
        }
        self.next_in = self.next_in.wrapping_add(u32::try_from(payload.len()).unwrap());
        (header, tcp[13], payload)
    }

    /// Connects a socket of the kernel to this host.
    fn accept(&mut self) -> TcpStream {
        let family = if self.own.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).unwrap();
        let connect_result = rustix::net::connect(&socket, &SocketAddr::new(self.own, PORT));
        assert_eq!(connect_result, Err(rustix::io::Errno::INPROGRESS));
        let [high, low] = MSS.to_be_bytes();
        // The kernel may not be ready on an interface that has just come up; it then repeats its
        // SYN.
        while self.read_tcp().1 & SYN != 0 {
            self.next_out = FIRST_OUT;
            self.write_tcp(SYN | ACK, &[2, 4, high, low], &[], None);
        }
        rustix::io::ioctl_fionbio(&socket, false).unwrap();
        TcpStream::from(socket)
    }
}

fn bring_up(name: &str) {
    let interface = Interface::named(name).unwrap();
    interface.set_address(KERNEL, 24).unwrap();
    interface.bring_up().unwrap();
}

fn tun(kind: Kind) -> Device {
    let options = Options { kind, is_offloading: true, ..Options::default() };
    let tun = Tun::open_with(Some("plumb0"), options).unwrap();
    assert!(tun.offloads().unwrap().tcp, "this kernel offers {:?}", tun.offloads());
    bring_up("plumb0");
    Device::Tun(tun)
}

fn packet_socket() -> Device {
    let _client = veth::make_pair("near", "far", None).unwrap();
    let server = Interface::named("far").unwrap();
    server.bring_up().unwrap();
    bring_up("near");
    let options = packet_socket::Options { is_offloading: true, is_promiscuous: true };
    let socket = PacketSocket::open("far", options).unwrap();
    assert!(socket.has_offloads());
    Device::PacketSocket(socket)
}

fn tcp_peer(device: Device) -> Peer {
    Peer::new(device, KERNEL.into(), USERSPACE.into())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| ((n * 131) >> 3).to_le_bytes()[0]).collect()
}

/// Asserts that a megabyte sent by the kernel arrives in unfinished packets of many segments.
fn assert_bulk_arrives_in_super_packets(mut peer: Peer, kind: SegmentKind, length: usize) {
    let mut stream = peer.accept();
    let writer = std::thread::spawn(move || {
        stream.write_all(&pattern(length)).unwrap();
        stream
    });
    let mut received = Vec::new();
    let mut super_packets = 0;
    while received.len() < length {
        let (header, _, payload) = peer.read_tcp();
        if payload.is_empty() {
            peer.write_tcp(ACK, &[], &[], None);
            continue;
        }
        let frame = if peer.device.has_frames() { FRAME_HEADER_LEN } else { 0 };
        let start = u16::try_from(frame + peer.ip_header_len()).unwrap();
        assert_eq!(header.checksum, Checksum::Partial { start, offset: 16 });
        if let Some(cut) = header.segmentation {
            assert_eq!((cut.kind, cut.segment_size_bytes), (kind, MSS));
            assert!(payload.len() > usize::from(MSS));
            super_packets += 1;
        } else {
            assert!(payload.len() <= usize::from(MSS));
        }
        received.extend(payload);
        peer.write_tcp(ACK, &[], &[], None);
    }
    writer.join().unwrap();
    assert_eq!(received, pattern(length));
    assert!(super_packets > 0);
}

/// Asserts that the kernel accepts a super-packet of twenty and a half segments.
fn assert_a_super_packet_is_received(mut peer: Peer, kind: SegmentKind) {
    let mut stream = peer.accept();
    let payload = pattern(usize::from(MSS) * 20 + 700);
    let cut = Segmentation { kind, segment_size_bytes: MSS, header_len_bytes: 0, has_ecn: false };
    peer.write_tcp(ACK, &[], &payload, Some(cut));
    let mut received = vec![0; payload.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(received, payload);
}

#[test]
fn bulk_from_the_kernel_comes_from_a_tun_in_super_packets() {
    in_new_network(|| {
        let peer = tcp_peer(tun(Kind::Tun));
        assert_bulk_arrives_in_super_packets(peer, SegmentKind::Tcp4, 1 << 20);
    });
}

#[test]
fn bulk_from_the_kernel_comes_from_a_tap_in_super_packets() {
    in_new_network(|| {
        let peer = tcp_peer(tun(Kind::Tap));
        assert_bulk_arrives_in_super_packets(peer, SegmentKind::Tcp4, 1 << 20);
    });
}

#[test]
fn bulk_from_the_kernel_comes_from_a_packet_socket_in_super_packets() {
    in_new_network(|| {
        let peer = tcp_peer(packet_socket());
        assert_bulk_arrives_in_super_packets(peer, SegmentKind::Tcp4, 100_000);
    });
}

#[test]
fn a_super_packet_written_to_a_tun_is_received_by_the_kernel() {
    in_new_network(|| {
        assert_a_super_packet_is_received(tcp_peer(tun(Kind::Tun)), SegmentKind::Tcp4);
    });
}

#[test]
fn a_super_packet_written_to_a_tap_is_received_by_the_kernel() {
    in_new_network(|| {
        assert_a_super_packet_is_received(tcp_peer(tun(Kind::Tap)), SegmentKind::Tcp4);
    });
}

#[test]
fn a_super_packet_written_to_a_packet_socket_is_received_by_the_kernel() {
    in_new_network(|| {
        assert_a_super_packet_is_received(tcp_peer(packet_socket()), SegmentKind::Tcp4);
    });
}

fn ipv6_peer() -> Peer {
    let device = tun(Kind::Tun);
    let kernel: Ipv6Addr = "fd00::1".parse().unwrap();
    let own: Ipv6Addr = "fd00::2".parse().unwrap();
    Interface::named("plumb0").unwrap().add_address6(kernel, 64).unwrap();
    Peer::new(device, kernel.into(), own.into())
}

#[test]
fn super_packets_of_ipv6_come_from_a_tun() {
    in_new_network(|| {
        assert_bulk_arrives_in_super_packets(ipv6_peer(), SegmentKind::Tcp6, 1 << 20);
    });
}

#[test]
fn a_super_packet_of_ipv6_is_received_by_the_kernel() {
    in_new_network(|| assert_a_super_packet_is_received(ipv6_peer(), SegmentKind::Tcp6));
}

/// Asserts that datagrams of equal size cross the device as one packet in both directions.
fn assert_datagrams_go_both_ways_as_one_packet(mut peer: Peer) {
    if !segments_datagrams(&peer.device) {
        return;
    }
    let socket = UdpSocket::bind((peer.kernel, PORT)).unwrap();
    let size: libc::c_int = 100;
    // SAFETY: the kernel reads an int.
    let status = unsafe {
        let level = libc::SOL_UDP;
        let option = libc::UDP_SEGMENT;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const size).cast(), 4)
    };
    assert_eq!(status, 0);
    socket.send_to(&pattern(1050), (peer.own, PORT)).unwrap();
    let (header, packet) = peer.read(UDP);
    let cut = header.segmentation.unwrap();
    assert_eq!((cut.kind, cut.segment_size_bytes), (SegmentKind::Udp, 100));
    assert_eq!(packet[peer.ip_header_len() + 8..], pattern(1050));

    let length = 1058_u16.to_be_bytes();
    let port = PORT.to_be_bytes();
    let mut udp = [port, port, length, [0, 0]].concat();
    peer.write(UDP, &mut udp, &pattern(1050), Some(cut));
    let mut received = Vec::new();
    while received.len() < 1050 {
        let mut datagram = [0; 2000];
        wait_until_readable(&socket);
        let length = socket.recv(&mut datagram).unwrap();
        assert_eq!(length, 100.min(1050 - received.len()));
        received.extend_from_slice(&datagram[..length]);
    }
    assert_eq!(received, pattern(1050));
}

#[test]
fn datagrams_of_one_size_go_both_ways_over_a_tun_as_one_packet() {
    in_new_network(|| assert_datagrams_go_both_ways_as_one_packet(tcp_peer(tun(Kind::Tun))));
}

#[test]
fn datagrams_of_one_size_go_both_ways_over_a_tap_as_one_packet() {
    in_new_network(|| assert_datagrams_go_both_ways_as_one_packet(tcp_peer(tun(Kind::Tap))));
}

#[test]
fn datagrams_of_one_size_go_both_ways_over_a_packet_socket_as_one_packet() {
    in_new_network(|| assert_datagrams_go_both_ways_as_one_packet(tcp_peer(packet_socket())));
}

#[test]
fn a_device_without_offloads_refuses_a_packet_that_is_unfinished() {
    in_new_network(|| {
        let tun = Tun::open(Some("plumb0")).unwrap();
        bring_up("plumb0");
        let checksum = Checksum::Partial { start: 20, offset: 16 };
        let header = Header { checksum, segmentation: None };
        let error = tun.write_vectored(&header, [&[0x45; 60], &[], &[]]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    });
}

#[test]
fn each_of_two_queues_takes_packets_for_the_one_interface() {
    in_new_network(|| {
        let options = Options { has_many_queues: true, is_offloading: true, ..Options::default() };
        let first = Tun::open_with(Some("plumb0"), options).unwrap();
        let second = Tun::open_with(Some("plumb0"), options).unwrap();
        assert_eq!(first.name(), second.name());
        bring_up("plumb0");
        let socket = UdpSocket::bind((KERNEL, PORT)).unwrap();
        for (number, queue) in [(1, first), (2, second)] {
            let mut peer = tcp_peer(Device::Tun(queue));
            let port = PORT.to_be_bytes();
            let mut udp = [port, port, [0, 9], [0, 0]].concat();
            peer.write(UDP, &mut udp, &[number], None);
            let mut received = [0; 8];
            wait_until_readable(&socket);
            assert_eq!(socket.recv(&mut received).unwrap(), 1);
            assert_eq!(received[0], number);
        }
    });
}

#[test]
fn the_flows_of_the_kernel_are_spread_over_two_queues() {
    in_new_network(|| {
        let options = Options { has_many_queues: true, ..Options::default() };
        let queues = [(); 2].map(|()| Tun::open_with(Some("plumb0"), options).unwrap());
        bring_up("plumb0");
        let sockets: Vec<_> = (0..64).map(|_| UdpSocket::bind((KERNEL, 0)).unwrap()).collect();
        for socket in &sockets {
            socket.send_to(b"x", (USERSPACE, PORT)).unwrap();
        }
        let count = |queue: &Tun| {
            let mut packet = [0; 2048];
            let mut count = 0;
            while let Some(length) = queue.read(&mut packet).unwrap() {
                count += usize::from(length == 29);
            }
            count
        };
        let [first, second] = queues.each_ref().map(count);
        assert_eq!(first + second, sockets.len());
        assert!(first > 0 && second > 0, "{first} and {second}");
    });
}

#[test]
fn a_packet_socket_receives_frames_for_other_addresses_only_if_promiscuous() {
    in_new_network(|| {
        let _client = veth::make_pair("near", "far", None).unwrap();
        Interface::named("far").unwrap().bring_up().unwrap();
        bring_up("near");
        let client = PacketSocket::open("near", packet_socket::Options::default()).unwrap();
        let server = PacketSocket::open("far", packet_socket::Options::default()).unwrap();
        let target = Interface::named("far").unwrap().hardware_address().unwrap().unwrap();
        let frame = [&target[..], &OUR_FRAMES, &[0x88, 0xB5], &[7; 46]].concat();
        client.write_vectored(&Header::default(), [&frame, &[], &[]]).unwrap();
        let mut received = [0; 2048];
        loop {
            wait_until_readable(&server);
            let read = server.receive(&mut received).unwrap();
            if read.is_some_and(|read| received[read.range()] == frame) {
                break;
            }
        }
        // A device does not receive the frames that it has sent itself.
        while let Some(read) = client.receive_now(&mut received).unwrap() {
            assert_ne!(received[read.range()], frame);
        }
    });
}
