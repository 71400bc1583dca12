//! Arbitrary datagrams of a guest and arbitrary calls of the driver. The fuzz target `gateway` and
//! the test `arbitrary_input` run it.
//!
//! Checked: nothing panics, the limits hold after each step, and nothing is left when all sockets
//! have failed and the guest is silent.

use gateway::dns;
use gateway::policy::{self, Policy, Rule};
use gateway::relay::host_errors::{self, FlowError};
use gateway::relay::{Key, echo_flows, tcp_flows, udp_flows};
use gateway::{ConnectFailure, Event, Guest, Medium, Settings};
use net::cx::OwnedCx;
use net::internet::ipv4::{self, Protocol};
use net::internet::{icmp, ipv6};
use net::packet::ChecksumState;
use net::station;
use net::time::Duration;
use net::transport::tcp::header::{Flags, Header, MAX_HEADER_LEN, Options};
use net::transport::tcp::seq::Seq;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const PACKETS: usize = 16;
const FLOWS: usize = 8;
/// Maximum number of flow keys that the driver remembers, also of flows that have ended.
const KEYS_MAX: usize = 32;
/// Maximum number of timers until nothing is left.
const TIMERS_MAX: usize = 100_000;

/// Reads the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the next byte, or 0 at the end of the input.
    fn next(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.next(), self.next()])
    }

    fn piece(&mut self, len: usize) -> Vec<u8> {
        let (piece, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        piece.to_vec()
    }
}

/// A segment of the gateway, which the guest's next segments continue.
#[derive(Clone, Copy)]
struct Seen {
    remote: Ipv4Addr,
    header: Header,
    len: u32,
}

struct Driver {
    guest: Guest,
    context: OwnedCx,
    keys: Vec<Key>,
    seen: Option<Seen>,
    /// Whether the device accepts packets.
    is_accepting: bool,
}

/// Counters that a run has reached.
pub(crate) type Reached = (tcp_flows::Counters, udp_flows::Counters, echo_flows::Counters);

/// Runs the steps that `input` describes.
pub(crate) fn run(input: &[u8]) -> Reached {
    let mut input = Input(input);
    let mut driver = Driver::new(input.next());
    while let Some(verb) = input.byte() {
        driver.step(verb, &mut input);
        driver.settle();
        driver.assert_limits();
    }
    driver.finish();
    let guest = &driver.guest;
    (guest.tcp().counters(), guest.udp().counters(), guest.echo().counters())
}

/// Returns a policy that also permits the addresses of documentation.
fn permissive_policy() -> Policy {
    let prefixes = ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"];
    let prefixes = prefixes.iter().filter_map(|prefix| prefix.parse().ok());
    let rules = prefixes.map(|prefix| Rule::new(prefix, true)).collect();
    Policy::new(policy::Settings { rules, ..policy::Settings::default() })
}

impl Driver {
    fn new(choice: u8) -> Self {
        let mut context = OwnedCx::with_seed(choice.into());
        let is_offloading = choice & 1 == 1;
        let settings = Settings {
            medium: Medium::Datagrams(if choice & 2 == 0 { 1500 } else { 576 }),
            leases: vec![(Ipv4Addr::UNSPECIFIED.into(), 0), (Ipv6Addr::UNSPECIFIED.into(), 0)],
            dns_addresses: Vec::new(),
            dns: dns::Settings::default(),
            addresses: vec![GATEWAY.into(), Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2).into()],
            station: station::Settings {
                packets: PACKETS,
                tso: is_offloading,
                uso: is_offloading,
                checksum_offload: is_offloading,
                ..station::Settings::default()
            },
            policy: permissive_policy(),
            tcp: tcp_flows::Limits {
                flows: FLOWS,
                new_per_s: 1000,
                ..tcp_flows::Limits::default()
            },
            udp: udp_flows::Limits { flows: FLOWS, new_per_s: 1000 },
            output_rate: None,
        };
        let guest = Guest::new(settings, &mut context.cx());
        Self { guest, context, keys: Vec::new(), seen: None, is_accepting: true }
    }

    fn step(&mut self, verb: u8, input: &mut Input<'_>) {
        match verb % 16 {
            0 => {
                let len = input.word() % 2048;
                let bytes = input.piece(len.into());
                self.receive(&bytes, ChecksumState::InPacket, 0);
            }
            1..=4 => self.receive_tcp(input),
            5 => self.receive_udp(input),
            6 => self.receive_icmp(input),
            7 => self.receive_v6(input),
            8 => self.advance(input.next()),
            9 => self.is_accepting = input.next() & 3 != 0,
            10 => self.accept(input),
            11 => self.call_udp(input),
            _ => self.call_tcp(input),
        }
    }

    fn receive(&mut self, bytes: &[u8], checksum: ChecksumState, segment_size: u16) {
        let Some(mut packet) = self.guest.lend(&mut self.context.cx()) else { return };
        packet.extend(bytes);
        packet.offload.checksum = checksum;
        packet.offload.segment_size = segment_size;
        self.guest.receive_packet(packet, &mut self.context.cx());
    }

    /// Passes a datagram with a valid IPv4 header and a transport checksum that the device has
    /// verified.
    fn receive_v4(&mut self, to: Ipv4Addr, protocol: Protocol, content: &[u8], segment_size: u16) {
        let header = ipv4::Header {
            source: GUEST,
            destination: to,
            protocol,
            time_to_live: 64,
            identification: 0,
            dscp_ecn: 0,
            dont_fragment: true,
        };
        let Ok(total_len) = u16::try_from(ipv4::HEADER_LEN + content.len()) else { return };
        let bytes = [&header.emit(total_len), content].concat();
        self.receive(&bytes, ChecksumState::Verified, segment_size);
    }

    fn receive_tcp(&mut self, input: &mut Input<'_>) {
        let choice = input.next();
        let bits = input.next();
        let all = [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::URG];
        let chosen = all.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        let flags = chosen.fold(Flags::default(), |flags, (_, flag)| flags.with(flag));
        let deviation = u32::from(choice >> 6) * u32::from(input.next());
        let seen = self.seen.filter(|_| choice & 1 == 1);
        let (remote, header) = match seen {
            Some(seen) => {
                let header = Header {
                    source_port: seen.header.destination_port,
                    destination_port: seen.header.source_port,
                    seq: seen.header.ack + deviation,
                    ack: seen.header.seq + seen.len,
                    ..Header::default()
                };
                (seen.remote, header)
            }
            None => {
                let header = Header {
                    source_port: 4000 + u16::from(choice >> 1 & 7),
                    destination_port: 80,
                    seq: Seq(0xFFFF_FF00) + deviation,
                    ..Header::default()
                };
                (remote(choice >> 4), header)
            }
        };
        let is_syn = flags.has(Flags::SYN);
        let options = Options { mss: Some(400), window_scale: Some(3), ..Options::default() };
        let options = if is_syn && choice & 2 == 2 { options } else { Options::default() };
        let header = Header { flags, window: input.word(), options, ..header };
        let mut bytes = [0; MAX_HEADER_LEN];
        let header_len = header.emit(&mut bytes);
        let len = usize::from(input.next());
        let data = input.piece(len);
        let content = [bytes.get(..header_len).unwrap_or_default(), &data].concat();
        self.receive_v4(remote, Protocol::Tcp, &content, 0);
    }

    fn receive_udp(&mut self, input: &mut Input<'_>) {
        let choice = input.next();
        let data_len = usize::from(input.next());
        let data = input.piece(data_len);
        let [l0, l1] = u16::try_from(data.len() + 8).unwrap_or(8).to_be_bytes();
        let header = [0x13, choice & 15, 0, 50 + (choice >> 6), l0, l1, 0, 0];
        let segment_size = if choice & 16 == 16 { u16::from(input.next()) } else { 0 };
        let content = [&header[..], &data].concat();
        self.receive_v4(remote(choice >> 4), Protocol::Udp, &content, segment_size);
    }

    fn receive_icmp(&mut self, input: &mut Input<'_>) {
        let choice = input.next();
        let message_type = if choice & 1 == 0 { 8 } else { input.next() };
        let len = usize::from(input.next() / 4);
        let data = input.piece(len);
        let mut message = [&[message_type, 0, 0, 0, 0, choice, 0, 1][..], &data].concat();
        icmp::seal(&mut message);
        self.receive_v4(remote(choice), Protocol::Icmp, &message, 0);
    }

    fn receive_v6(&mut self, input: &mut Input<'_>) {
        let guest = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 15);
        let destination = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, input.next().into());
        let header =
            ipv6::Header { source: guest, destination, hop_limit: 64, dscp_ecn: 0, flow_label: 0 };
        let protocols = [6, 17, 58, 0, 44, 43, 60, 59];
        let index = usize::from(input.next() & 7);
        let next_header = protocols.get(index).copied().unwrap_or_default();
        let len = input.next();
        let data = input.piece(len.into());
        let Ok(payload_len) = u16::try_from(data.len()) else { return };
        let bytes = [&header.emit(next_header, payload_len)[..], &data].concat();
        self.receive(&bytes, ChecksumState::Verified, 0);
    }

    /// Advances the time by a power of two in milliseconds, or to the next timer.
    fn advance(&mut self, choice: u8) {
        match self.guest.deadline() {
            Some(deadline) if choice & 1 == 1 => self.context.now = self.context.now.max(deadline),
            _ => self.context.advance(Duration::from_millis(1 << (choice >> 3 & 15))),
        }
        self.guest.timeout(&mut self.context.cx());
    }

    fn key(&self, choice: u8) -> Key {
        let unknown = Key::from_bits(u64::from(choice));
        let index = usize::from(choice) % self.keys.len().max(1);
        self.keys.get(index).copied().unwrap_or(unknown)
    }

    fn accept(&mut self, input: &mut Input<'_>) {
        let choice = input.next();
        let source = SocketAddr::new(remote(choice >> 4).into(), 5000 + u16::from(choice & 1));
        let guest = match choice & 14 {
            0 => SocketAddr::new(GATEWAY.into(), 80),
            port => SocketAddr::new(GUEST.into(), port.into()),
        };
        if let Ok(flow) = self.guest.accept(source, guest, &mut self.context.cx()) {
            self.remember(flow);
        }
    }

    fn call_tcp(&mut self, input: &mut Input<'_>) {
        let flow = self.key(input.next());
        let cx = &mut self.context.cx();
        match input.next() % 8 {
            0 => {
                let failure = match input.next() % 3 {
                    0 => ConnectFailure::Refused,
                    1 => ConnectFailure::NoDescriptor,
                    _ => ConnectFailure::Unreachable(icmp::Unreachable::Host),
                };
                self.guest.connect_failed(flow, failure, cx);
            }
            1 => self.guest.host_reset(flow, cx),
            2 => self.guest.host_finished(flow),
            5 => self.guest.copied(flow, cx),
            3 => self.consume(flow, input.next().into()),
            4 => {
                let len = self.guest.space(flow).min(usize::from(input.word()));
                assert_eq!(self.guest.to_guest(flow, &vec![b'h'; len]), len);
            }
            _ => self.guest.connected(flow, cx),
        }
    }

    /// Lets the socket of a flow accept data of the guest.
    fn consume(&mut self, flow: Key, limit: usize) {
        let count = self.guest.to_host(flow).len().min(limit);
        self.guest.accepted(flow, count);
        if self.guest.must_shut_down(flow) {
            self.guest.shut_down(flow);
        }
    }

    fn call_udp(&mut self, input: &mut Input<'_>) {
        let flow = self.key(input.next());
        let choice = input.next();
        let peer = remote(choice >> 4);
        let end = SocketAddr::new(peer.into(), 50 + u16::from(choice & 3));
        let cx = &mut self.context.cx();
        match choice % 6 {
            0 => self.guest.udp_mut().end(flow),
            4 => {
                let payload = input.piece(choice.into());
                let kind = host_errors::kind_of_icmp(input.next() % 16, choice, 1400);
                let kind = kind.unwrap_or(host_errors::too_big(0));
                let reporter = Some(remote(choice & 7).into());
                let error = FlowError { to: end, kind, reporter, payload: &payload };
                self.guest.datagram_failed(flow, &error, cx);
                self.guest.echo_failed(flow, &error, cx);
                self.guest.forwarded_datagram_failed(0, &error, cx);
            }
            1 => {
                let guest = (GUEST, 80).into();
                let key = self.guest.udp_mut().forwarded((0, None), (end, end), guest, cx);
                key.into_iter().for_each(|key| self.remember(key));
            }
            2 => {
                while self.guest.udp().to_host(flow).is_some() {
                    self.guest.udp_mut().sent(flow);
                }
            }
            3 => {
                let data = input.piece(choice.into());
                self.guest.echo_to_guest(flow, peer.into(), &data, cx);
            }
            _ => {
                let len = usize::from(input.word());
                let size = input.word();
                self.guest.datagrams_to_guest(flow, end, (&vec![b'u'; len], size), cx);
            }
        }
    }

    fn remember(&mut self, flow: Key) {
        if self.keys.len() >= KEYS_MAX {
            self.keys.remove(0);
        }
        if !self.keys.contains(&flow) {
            self.keys.push(flow);
        }
    }

    /// Takes the events and the output of the guest.
    fn settle(&mut self) {
        self.guest.run(&mut self.context.cx());
        while let Some(event) = self.guest.event() {
            match event {
                Event::Tcp(tcp_flows::Event::Connect { flow, .. })
                | Event::Udp(udp_flows::Event::Bind { flow, .. })
                | Event::Echo(echo_flows::Event::Send { flow, .. }) => self.remember(flow),
                Event::Tcp(_) | Event::Udp(_) | Event::Echo(_) | Event::Dns(_) => {}
            }
        }
        let Self { guest, context, seen, is_accepting, .. } = self;
        let mut device = |frame: station::Frame<'_>, cx: &mut net::Cx<'_>| {
            let bytes = [frame.packet.data(), frame.tail[0], frame.tail[1]].concat();
            if *is_accepting {
                *seen = parse(&bytes, cx).or(*seen);
            }
            *is_accepting
        };
        guest.transmit_to(&mut device, &mut context.cx());
    }

    fn assert_limits(&self) {
        assert!(self.guest.packets_in_use() <= PACKETS);
        assert!(self.guest.tcp().len() <= FLOWS && self.guest.udp().len() <= FLOWS);
    }

    /// Fails all sockets and lets all timers expire.
    fn finish(&mut self) {
        self.is_accepting = true;
        self.settle();
        let keys: Vec<Key> =
            self.guest.tcp_statuses(self.context.now).map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.guest.host_reset(key, &mut self.context.cx()));
        self.settle();
        let mut timers = 0;
        while let Some(deadline) = self.guest.deadline() {
            self.context.now = self.context.now.max(deadline);
            self.guest.timeout(&mut self.context.cx());
            self.settle();
            timers += 1;
            assert!(timers < TIMERS_MAX, "timers end");
        }
        assert!(self.guest.tcp().is_empty() && self.guest.udp().is_empty());
        assert_eq!(self.guest.packets_in_use(), 0, "no packet leaks");
        assert_eq!(self.guest.event(), None);
    }
}

/// Returns one of four remote hosts.
fn remote(choice: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, choice & 3)
}

/// Returns the segment in a datagram of the gateway.
fn parse(bytes: &[u8], cx: &mut net::Cx<'_>) -> Option<Seen> {
    let parsed = ipv4::Header::parse(bytes).ok()?;
    let ipv4::Header { source, destination, protocol, .. } = parsed.header;
    let content = bytes.get(parsed.header_len..)?;
    let len = u16::try_from(content.len()).ok()?;
    if protocol != Protocol::Tcp {
        return None;
    }
    let ends = (IpAddr::V4(source), IpAddr::V4(destination));
    let sum = net::internet::pseudo_header(ends.0, ends.1, protocol, len).bytes(content);
    let (header, header_len) = Header::parse(content, sum, cx.meter).ok()?;
    let controls = [Flags::SYN, Flags::FIN].iter().filter(|f| header.flags.has(**f)).count();
    let len = u32::try_from(content.len() - header_len + controls).ok()?;
    let is_open = !header.flags.has(Flags::RST);
    is_open.then_some(Seen { remote: source, header, len })
}
