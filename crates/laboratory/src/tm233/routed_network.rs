//! Personal computers and fast hosts around the router of `crates/gateway`, which is a packet
//! concentrator for several personal computers (TM-233 §2.4, §6.1).

use super::experiments::Equipment;
use super::sessions::{Session, Sessions};
use gateway::queue::Discipline;
use gateway::router::{LineId, LineProtocol, LineSettings, Router, RouterSettings};
use net::Cx;
use net::link::{Datagram, Link};
use net::meter::{Clock, Costs, Meter};
use net::rng::Rng;
use net::station::Settings;
use net::time::{Duration, Instant};
use simulator::Host;
use simulator::star::{Center, Star};
use simulator::transmission_line::Line;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

/// MTU in bytes, as in the experiments without a concentrator.
pub(super) const MTU: usize = super::experiments::MTU;
/// Number of packet buffers of a fast host.
const FAST_HOST_PACKETS: usize = 256;
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Settings of the lines of a concentrator.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineOptions {
    /// Rate of each line in bit/s.
    pub(super) rate_bps: u64,
    /// Discipline of each queue.
    pub(super) discipline: Discipline,
    /// Whether the queues mark packets of transports with ECN.
    pub(super) marks_ecn: bool,
    /// Whether windows are limited to the queues.
    pub(super) limits_windows: bool,
}

/// The router between the lines and the network of the fast hosts.
#[derive(Debug)]
pub(super) struct RouterCenter {
    pub(super) router: Router,
    meter: Meter,
    lines: BTreeMap<usize, LineId>,
    /// Ports of the fast hosts.
    hosts: BTreeMap<Ipv4Addr, usize>,
    /// Datagrams for each fast host.
    outputs: BTreeMap<usize, VecDeque<Vec<u8>>>,
}

impl RouterCenter {
    fn new(seed: u64) -> Self {
        let settings = RouterSettings {
            address: ROUTER,
            host_mtu: MTU,
            line_mtu_max: MTU,
            ..RouterSettings::default()
        };
        let mut meter = Meter::new(Clock::None);
        let mut rng = Rng::from_seed(seed);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
        Self {
            router: Router::new(settings, &mut cx),
            meter,
            lines: BTreeMap::new(),
            hosts: BTreeMap::new(),
            outputs: BTreeMap::new(),
        }
    }

    /// Returns the line at a port.
    pub(super) fn line(&self, port: usize) -> Option<LineId> {
        self.lines.get(&port).copied()
    }

    /// Distributes the datagrams for the host output to the fast hosts. Datagrams to unknown hosts
    /// are dropped.
    fn distribute(&mut self, now: Instant, rng: &mut Rng) {
        let mut cx = Cx { now, rng, meter: &mut self.meter };
        while let Some(packet) = self.router.transmit_host(&mut cx) {
            let destination = packet.data().get(16..20).and_then(|octets| octets.first_chunk());
            let port =
                destination.and_then(|octets: &[u8; 4]| self.hosts.get(&Ipv4Addr::from(*octets)));
            if let Some(port) = port {
                self.outputs.entry(*port).or_default().push_back(packet.data().to_vec());
            }
            self.router.put_packet(packet);
        }
    }
}

impl Center for RouterCenter {
    fn receive(&mut self, port: usize, bytes: &[u8], now: Instant, rng: &mut Rng) {
        let mut cx = Cx { now, rng, meter: &mut self.meter };
        if let Some(line) = self.lines.get(&port) {
            self.router.receive(*line, bytes, &mut cx);
        } else if let Some(mut packet) = self.router.take_packet(&mut cx) {
            packet.extend(bytes);
            self.router.receive_host(packet, &mut cx);
        }
        self.distribute(now, rng);
    }

    fn transmit(&mut self, port: usize, limit: usize, now: Instant, rng: &mut Rng) -> Vec<u8> {
        let Some(line) = self.lines.get(&port) else {
            let output = self.outputs.get_mut(&port);
            return output.and_then(VecDeque::pop_front).unwrap_or_default();
        };
        let mut bytes = Vec::new();
        let mut cx = Cx { now, rng, meter: &mut self.meter };
        self.router.transmit_into(*line, &mut bytes, limit, &mut cx);
        bytes
    }

    fn deadline(&self) -> Option<Instant> {
        self.router.deadline()
    }

    fn timeout(&mut self, now: Instant, rng: &mut Rng) {
        self.router.timeout(&mut Cx { now, rng, meter: &mut self.meter });
        self.distribute(now, rng);
    }
}

/// Hosts around a concentrator.
#[derive(Debug)]
pub(super) struct RoutedNetwork {
    pub(super) star: Star<Sessions, RouterCenter>,
    seed: u64,
}

impl RoutedNetwork {
    pub(super) fn new(seed: u64) -> Self {
        Self { star: Star::new(RouterCenter::new(seed), seed), seed }
    }

    /// Connects a personal computer with the address `address` to a new line. Returns its port.
    pub(super) fn add_computer(
        &mut self,
        address: Ipv4Addr,
        equipment: Equipment,
        options: LineOptions,
        sessions: Vec<Session>,
    ) -> usize {
        let LineOptions { rate_bps, discipline, marks_ecn, limits_windows } = options;
        let host = new_host(self.seed, equipment.link(), address, equipment.costs, sessions);
        let port = self.star.connect(host, Line::serial(rate_bps));
        let line = LineSettings {
            protocol: LineProtocol::Llp { compresses_headers: equipment.compresses_headers },
            mtu: MTU,
            discipline,
            marks_ecn,
            limits_windows,
            ..LineSettings::llp(address, rate_bps)
        };
        let now = self.star.now();
        let mut rng = Rng::from_seed(self.seed ^ u64::from(address.to_bits()));
        let center = &mut self.star.center;
        let mut cx = Cx { now, rng: &mut rng, meter: &mut center.meter };
        if let Ok(line) = center.router.add_line(line, &mut cx) {
            center.lines.insert(port, line);
        }
        port
    }

    /// Connects a fast host with the address `address`. Returns its port.
    pub(super) fn add_fast_host(
        &mut self,
        address: Ipv4Addr,
        delay: Duration,
        sessions: Vec<Session>,
    ) -> usize {
        let host = new_host(self.seed, fast_link(), address, Costs::default(), sessions);
        let port = self.star.connect(host, Line::path(delay));
        self.star.center.hosts.insert(address, port);
        port
    }
}

/// Creates a host with the address `address` for a network with the seed `seed`.
pub(super) fn new_host(
    seed: u64,
    link: Link,
    address: Ipv4Addr,
    costs: Costs,
    sessions: Vec<Session>,
) -> Host<Sessions> {
    let is_fast = matches!(link, Link::Datagram(_));
    let packets = if is_fast { FAST_HOST_PACKETS } else { super::experiments::PACKETS };
    let settings = Settings { address, prefix_len: 24, packets, ..Settings::default() };
    let seed = Rng::from_seed(seed).next_u64() ^ u64::from(address.to_bits());
    Host::new(link, settings, costs, seed, Sessions(sessions))
}

/// Returns the link of a fast host.
pub(super) fn fast_link() -> Link {
    Link::Datagram(Datagram::with_queue_limit(MTU, FAST_HOST_PACKETS))
}
