//! The guest's kernel, the link to the gateway, the gateway, and the host's sockets, in virtual
//! time.

use super::host_sockets::{HostSockets, Remote, SocketEvent};
use super::kernel::Kernel;
use super::program::Plan;
use crate::dns;
use crate::policy::{self, Policy, Rule};
use crate::relay::{Key, tcp_flows, udp_flows};
use crate::{Guest, Medium, RateLimit, Settings};
use net::cx::OwnedCx;
use net::rng::Rng;
use net::station;
use net::time::Duration;
use net::transport::tcp::{ConnectionId, OpenError};
use net::{Cx, Instant};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub(super) const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2);
pub(super) const MTU: u16 = 1500;
/// Maximum number of rounds at one instant. More mean that a timer does not advance.
const ROUNDS_MAX: usize = 100_000;

/// The link between the guest and the gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) delay: Duration,
    /// Maximum additional delay, by which datagrams overtake each other.
    pub(super) jitter: Duration,
    pub(super) loss_ppm: u32,
    pub(super) duplication_ppm: u32,
}

impl Default for Wire {
    fn default() -> Self {
        let jitter = Duration::ZERO;
        Self { delay: Duration::from_micros(100), jitter, loss_ppm: 0, duplication_ppm: 0 }
    }
}

/// The rate of the link to the guest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Output {
    Unlimited,
    Limited(RateLimit),
    /// The test calls [`World::transmit_one`].
    Shared,
}

#[derive(Debug)]
enum Scheduled {
    ToGateway(Vec<u8>),
    ToGuest(Vec<u8>),
    Socket(SocketEvent),
    Program(ConnectionId),
}

/// Everything on both sides of the gateway.
#[derive(Debug)]
pub(super) struct World {
    pub(super) kernel: Kernel,
    pub(super) guest: Guest,
    pub(super) context: OwnedCx,
    pub(super) host: HostSockets,
    pub(super) wire: Wire,
    pub(super) output: Output,
    /// Whether the guest has vanished: nothing reaches it, and nothing comes from it.
    pub(super) has_vanished: bool,
    scheduled: BTreeMap<(Instant, u64), Scheduled>,
    count: u64,
    pub(super) now: Instant,
    rng: Rng,
    /// The largest number of packets in use.
    pub(super) packets_max: usize,
}

/// Returns the settings of a guest without limits that a test reaches.
pub(super) fn settings() -> Settings {
    Settings {
        medium: Medium::Datagrams(MTU),
        leases: vec![(Ipv4Addr::UNSPECIFIED.into(), 0), (Ipv6Addr::UNSPECIFIED.into(), 0)],
        dns_addresses: Vec::new(),
        dns: dns::Settings::default(),
        addresses: vec![GATEWAY.into(), GATEWAY_V6.into()],
        station: station::Settings { packets: 256, ..station::Settings::default() },
        policy: permissive_policy(),
        tcp: tcp_flows::Limits::default(),
        udp: udp_flows::Limits::default(),
        output_rate: None,
    }
}

/// Returns a policy that also permits the addresses of documentation.
fn permissive_policy() -> Policy {
    let prefixes = ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"];
    let rules = prefixes.map(|prefix| Rule::new(prefix.parse().unwrap(), true));
    Policy::new(policy::Settings { rules: rules.to_vec(), ..policy::Settings::default() })
}

/// Returns remote end number `number`.
pub(super) fn remote_end(number: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0xC000_0200 + number)), 80)
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::with(seed, settings())
    }

    pub(super) fn with(seed: u64, settings: Settings) -> Self {
        let mut context = OwnedCx::with_seed(seed);
        let guest = Guest::new(settings, &mut context.cx());
        Self {
            kernel: Kernel::new(seed ^ 1 << 40, MTU),
            guest,
            context,
            host: HostSockets::default(),
            wire: Wire::default(),
            output: Output::Unlimited,
            has_vanished: false,
            scheduled: BTreeMap::new(),
            count: 0,
            now: Instant::ZERO,
            rng: Rng::from_seed(seed ^ 1 << 41),
            packets_max: 0,
        }
    }

    /// Lets a program of the guest connect to `remote`.
    pub(super) fn open(&mut self, remote: SocketAddr, plan: Plan, host: Remote) -> ConnectionId {
        self.host.remotes.insert(remote, host);
        let id = self.kernel.open(0, remote, plan);
        self.settle();
        id
    }

    /// Accepts a connection of `source` for a port of the guest.
    pub(super) fn accept(
        &mut self,
        source: SocketAddr,
        guest: SocketAddr,
        remote: Remote,
    ) -> Result<Key, OpenError> {
        let flow = self.guest.accept(source, guest, &mut self.context.cx())?;
        self.host.accepted(flow, source, remote);
        let later = self.host.progress(&mut self.guest, flow, &mut self.context);
        self.schedule_sockets(later);
        self.settle();
        Ok(flow)
    }

    /// Replaces the guest's kernel by one that knows no connection.
    pub(super) fn restart_guest(&mut self) {
        self.kernel = Kernel::new(self.rng.next_u64(), MTU);
        self.kernel.context.now = self.now;
    }

    fn schedule(&mut self, at: Instant, event: Scheduled) {
        self.count += 1;
        self.scheduled.insert((at, self.count), event);
    }

    fn schedule_sockets(&mut self, later: impl IntoIterator<Item = (Duration, SocketEvent)>) {
        for (delay, event) in later {
            self.schedule(self.now + delay, Scheduled::Socket(event));
        }
    }

    /// Passes a datagram to the link.
    fn carry(&mut self, bytes: &[u8], is_to_guest: bool) {
        if self.has_vanished || self.rng.random_bool(self.wire.loss_ppm) {
            return;
        }
        let copies = if self.rng.random_bool(self.wire.duplication_ppm) { 2 } else { 1 };
        for _ in 0..copies {
            let jitter = u64::try_from(self.wire.jitter.as_nanos()).unwrap();
            let jitter = Duration::from_nanos(self.rng.below(jitter.max(1)));
            let at = self.now + self.wire.delay + jitter;
            let bytes = bytes.to_vec();
            let to = if is_to_guest { Scheduled::ToGuest } else { Scheduled::ToGateway };
            self.schedule(at, to(bytes));
        }
    }

    /// Runs everything that can run now. Returns whether anything ran.
    fn settle_once(&mut self) -> bool {
        self.guest.run(&mut self.context.cx());
        let later = self.host.drive(&mut self.guest, &mut self.context);
        self.schedule_sockets(later);
        let has_sent = self.transmit();
        for (id, period) in self.kernel.run() {
            self.schedule(self.now + period, Scheduled::Program(id));
        }
        let from_guest = self.kernel.output();
        let has_sent = has_sent || !from_guest.is_empty();
        from_guest.iter().for_each(|bytes| self.carry(bytes, false));
        self.packets_max = self.packets_max.max(self.guest.packets_in_use());
        has_sent
    }

    /// Transmits what the link to the guest accepts. Returns whether anything was sent.
    fn transmit(&mut self) -> bool {
        match self.output {
            Output::Unlimited => {
                let mut sent = Vec::new();
                let mut device = |frame: station::Frame<'_>, _: &mut Cx<'_>| {
                    sent.push([frame.packet.data(), frame.tail[0], frame.tail[1]].concat());
                    true
                };
                self.guest.transmit_to(&mut device, &mut self.context.cx());
                sent.iter().for_each(|bytes| self.carry(bytes, true));
                !sent.is_empty()
            }
            Output::Limited(mut limit) => {
                let mut has_sent = false;
                while limit.allows(self.now)
                    && let Some(sent) = self.transmit_one()
                {
                    limit.use_up(sent.len(), self.now);
                    has_sent = true;
                }
                self.output = Output::Limited(limit);
                has_sent
            }
            Output::Shared => false,
        }
    }

    /// Transmits one datagram to the guest, and returns it.
    pub(super) fn transmit_one(&mut self) -> Option<Vec<u8>> {
        let mut sent = Vec::new();
        let mut device = |frame: station::Frame<'_>, _: &mut Cx<'_>| {
            sent.extend_from_slice(frame.packet.data());
            true
        };
        self.guest.transmit_one(&mut device, &mut self.context.cx())?;
        self.carry(&sent, true);
        Some(sent)
    }

    /// Advances the clocks to `now`.
    pub(super) fn advance_to(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.context.now = self.now;
        self.kernel.context.now = self.now;
    }

    pub(super) fn settle(&mut self) {
        let mut rounds = 0;
        while self.settle_once() {
            rounds += 1;
            assert!(rounds < ROUNDS_MAX, "output at {} does not end", self.now);
        }
    }

    /// Returns the time of the next event.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let scheduled = self.scheduled.first_key_value().map(|((at, _), _)| *at);
        let limit = match self.output {
            Output::Limited(limit) if self.guest.has_output() => Some(limit.allows_at()),
            Output::Limited(_) | Output::Unlimited | Output::Shared => None,
        };
        let timers = [scheduled, self.guest.deadline(), self.kernel.deadline(), limit];
        timers.into_iter().flatten().min()
    }

    /// Processes the next event, unless it is after `end`.
    pub(super) fn process_next(&mut self, end: Instant) -> bool {
        let Some(at) = self.next_at().filter(|at| *at <= end) else { return false };
        self.now = self.now.max(at);
        self.context.now = self.now;
        self.kernel.context.now = self.now;
        while let Some(entry) = self.scheduled.first_entry().filter(|e| e.key().0 <= self.now) {
            let event = entry.remove();
            self.process(event);
        }
        if self.guest.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.guest.timeout(&mut self.context.cx());
        }
        self.kernel.timeout();
        self.settle();
        true
    }

    fn process(&mut self, event: Scheduled) {
        match event {
            Scheduled::ToGateway(bytes) => self.receive(&bytes),
            Scheduled::ToGuest(bytes) => self.kernel.receive(&bytes),
            Scheduled::Socket(event) => {
                let later = self.host.process(event, &mut self.guest, &mut self.context);
                self.schedule_sockets(later);
            }
            Scheduled::Program(id) => {
                if let Some((id, period)) = self.kernel.resume(id) {
                    self.schedule(self.now + period, Scheduled::Program(id));
                }
            }
        }
    }

    /// Passes a datagram of the guest to the gateway.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let Some(mut packet) = self.guest.lend(&mut self.context.cx()) else { return };
        packet.extend(bytes);
        self.guest.receive_packet(packet, &mut self.context.cx());
    }

    /// Runs for `time`.
    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        let mut rounds = 0;
        let mut before = self.now;
        while self.process_next(end) {
            rounds = if self.now == before { rounds + 1 } else { 0 };
            before = self.now;
            assert!(rounds < ROUNDS_MAX, "a timer at {before} does not advance");
        }
        self.now = self.now.max(end);
        self.context.now = self.now;
        self.kernel.context.now = self.now;
    }

    /// Checks that nothing is left of all flows.
    pub(super) fn assert_nothing_is_left(&mut self) {
        self.settle();
        let flows: Vec<_> = self.guest.tcp_statuses(self.now).collect();
        assert!(self.guest.tcp().is_empty(), "TCP flows: {flows:?}");
        assert!(self.guest.udp().is_empty(), "{} UDP flows", self.guest.udp().len());
        assert!(self.host.is_idle(), "{:?}", self.host);
        assert_eq!(self.guest.packets_in_use(), 0, "packets");
        assert_eq!(self.guest.event(), None);
        assert_eq!(self.guest.deadline(), None, "timer");
        assert_eq!(self.guest.connections().count(), 0);
    }
}
