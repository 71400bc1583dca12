//! A virtual machine without an operating system: it sends and receives any Ethernet frames at the
//! gateway's socket, with the framing of QEMU's stream network device.

use super::gateway_harness::{Gateway, TIMEOUT, TestFile, command};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;

pub(crate) const MACHINE_MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const GATEWAY_MAC: [u8; 6] = [0x52, 0x55, 10, 0, 2, 2];
pub(crate) const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const ETHER_HEADER_LEN: usize = 14;
/// Bit of the first byte of a hardware address.
const MULTICAST: u8 = 1;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86DD;
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

/// A gateway with a machine at its socket.
pub(crate) struct RawMachine {
    stream: UnixStream,
    echoes: u16,
    _gateway: Gateway,
    socket: TestFile,
}

impl RawMachine {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let socket = TestFile::unused("machine");
        let gateway =
            Gateway::start_command(command(&format!("qemu:{}", socket.path()), arguments));
        let stream = connect(&socket);
        Self { stream, echoes: 0, _gateway: gateway, socket }
    }

    /// Disconnects as a machine does that is killed.
    pub(crate) fn disconnect(&self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
    }

    /// Connects as the next machine.
    pub(crate) fn reconnect(&mut self) {
        self.stream = connect(&self.socket);
    }

    pub(crate) fn send(&mut self, frame: &[u8]) {
        let len = u32::try_from(frame.len()).unwrap();
        self.stream.write_all(&[&len.to_be_bytes(), frame].concat()).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len).unwrap();
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(len)).unwrap()];
        self.stream.read_exact(&mut frame).unwrap();
        frame
    }

    /// Returns the frames that the gateway has sent to the machine in response to all frames so far:
    /// those before the response to an echo request, because the gateway processes frames in their
    /// order.
    pub(crate) fn responses(&mut self) -> Vec<Vec<u8>> {
        self.echoes += 1;
        let request = echo(8, self.echoes, b"");
        self.send(&ipv4(ICMP, MACHINE, GATEWAY, &request));
        let response = echo(0, self.echoes, b"");
        let mut frames = Vec::new();
        loop {
            let frame = self.receive();
            if datagram(&frame) == Some((ICMP, &response)) {
                return frames;
            }
            if is_arp_request(&frame) {
                self.send(&arp(2));
            } else if frame[0] & MULTICAST == 0 {
                frames.push(frame);
            }
        }
    }
}

fn connect(socket: &TestFile) -> UnixStream {
    let stream = UnixStream::connect(&socket.0).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Returns a frame to the gateway.
pub(crate) fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&GATEWAY_MAC[..], &MACHINE_MAC, &ether_type.to_be_bytes(), payload].concat()
}

/// Returns a frame with an ARP message of the machine: a request for the gateway's address (1), or
/// a response to the gateway (2).
pub(crate) fn arp(operation: u8) -> Vec<u8> {
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, operation];
    message.extend(MACHINE_MAC.iter().chain(&MACHINE.octets()));
    message.extend(GATEWAY_MAC.iter().chain(&GATEWAY.octets()));
    ethernet(ARP, &message)
}

fn is_arp_request(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&ARP.to_be_bytes()) && frame.get(20..22) == Some(&[0, 1])
}

/// Returns a frame with an IPv4 datagram.
pub(crate) fn ipv4(protocol: u8, source: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut header = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
    header.extend(source.octets().iter().chain(&to.octets()));
    let sum = checksum(&[&header]).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    ethernet(IPV4, &[header.as_slice(), payload].concat())
}

/// Returns a frame with an IPv6 datagram.
pub(crate) fn ipv6(next: u8, source: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let header = [0x60, 0, 0, 0, len[0], len[1], next, 255];
    ethernet(IPV6, &[&header[..], &octets(source), &octets(to), payload].concat())
}

/// Returns a frame with a datagram of either version.
pub(crate) fn ip(protocol: u8, source: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    match (source, to) {
        (IpAddr::V4(source), IpAddr::V4(to)) => ipv4(protocol, source, to, payload),
        _ => ipv6(protocol, source, to, payload),
    }
}

/// Returns an ICMP echo message of this type.
pub(crate) fn echo(kind: u8, number: u16, data: &[u8]) -> Vec<u8> {
    let mut message =
        [&[kind, 0, 0, 0][..], &0x1234_u16.to_be_bytes(), &number.to_be_bytes(), data];
    let sum = checksum(&message).to_be_bytes();
    let start = [kind, 0, sum[0], sum[1]];
    message[0] = &start;
    message.concat()
}

/// Returns a UDP datagram with its checksum.
pub(crate) fn udp(ends: [(IpAddr, u16); 2], data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + data.len()).unwrap();
    let header = [ends[0].1.to_be_bytes(), ends[1].1.to_be_bytes(), len.to_be_bytes(), [0; 2]];
    let mut datagram = [header.as_flattened(), data].concat();
    let sum = transport_checksum(UDP, ends, &datagram);
    datagram[6..8].copy_from_slice(&sum);
    datagram
}

/// Returns a SYN with these options and its checksum.
pub(crate) fn syn(ends: [(IpAddr, u16); 2], options: &[u8]) -> Vec<u8> {
    let mut segment = [ends[0].1.to_be_bytes(), ends[1].1.to_be_bytes()].concat();
    // Sequence number, acknowledgment number, length of the header and flags, window.
    let header_len = u8::try_from(20 + options.len()).unwrap() << 2;
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, header_len, 2, 0xFF, 0xFF, 0, 0, 0, 0]);
    segment.extend(options);
    let sum = transport_checksum(TCP, ends, &segment);
    segment[16..18].copy_from_slice(&sum);
    segment
}

/// Returns an ICMPv6 message with its checksum.
pub(crate) fn icmpv6(source: IpAddr, to: IpAddr, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let sum = transport_checksum(ICMPV6, [(source, 0), (to, 0)], &message);
    message[2..4].copy_from_slice(&sum);
    message
}

/// Returns the protocol and the payload of the datagram in a frame, without the padding of the frame.
pub(crate) fn datagram(frame: &[u8]) -> Option<(u8, &[u8])> {
    let packet = &frame[ETHER_HEADER_LEN..];
    let word = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    match u16::from_be_bytes([frame[12], frame[13]]) {
        IPV4 => Some((packet[9], &packet[usize::from(packet[0] & 15) * 4..word(2)])),
        IPV6 => Some((packet[6], &packet[40..40 + word(4)])),
        _ => None,
    }
}

fn transport_checksum(protocol: u8, ends: [(IpAddr, u16); 2], datagram: &[u8]) -> [u8; 2] {
    let len = u16::try_from(datagram.len()).unwrap().to_be_bytes();
    let addresses = ends.map(|(address, _)| octets(address)).concat();
    checksum(&[&addresses, &[0, protocol], &len, datagram]).to_be_bytes()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the checksum of RFC 1071. Each part but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |bytes: &[u8]| u32::from(bytes[0]) << 8 | u32::from(*bytes.get(1).unwrap_or(&0));
    let sum: u32 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !u16::try_from((sum & 0xFFFF) + (sum >> 16)).unwrap()
}
