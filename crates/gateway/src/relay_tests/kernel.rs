//! The kernel of a guest: a station, and the programs that use its connections.

use super::program::{Plan, Program};
use net::cx::OwnedCx;
use net::internet::addresses::Address;
use net::link::{self, Link};
use net::station::{Application, Frame, Layers, Settings, Station, Step};
use net::time::Duration;
use net::transport::tcp::{CloseReason, ConnectionId, Event, Profile};
use net::{Cx, Instant};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
pub(super) const GUEST_V6: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 15);

/// The programs run when the world calls them.
struct NoApplication;

impl Application for NoApplication {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _: &mut Layers, _: &mut Cx<'_>) {}
}

/// A program and its connection.
#[derive(Debug)]
struct Running {
    program: Program,
    is_established: bool,
    /// Whether the peer's FIN has arrived; data may still be unread.
    is_peer_closed: bool,
    /// Number of bytes that it may still send or read in this period.
    share: usize,
}

impl Running {
    fn new(program: Program) -> Self {
        let share = program.plan.share;
        Self { program, is_established: false, is_peer_closed: false, share }
    }
}

/// The end of a program.
#[derive(Clone, Debug)]
pub(super) struct GuestResult {
    pub(super) program: Program,
    pub(super) reason: Option<CloseReason>,
}

/// A guest's kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) station: Station,
    pub(super) context: OwnedCx,
    running: BTreeMap<ConnectionId, Running>,
    /// The plans of programs that accept connections, by the remote end.
    pub(super) servers: BTreeMap<SocketAddr, Plan>,
    /// The results by the number of the stream.
    pub(super) results: BTreeMap<u64, GuestResult>,
}

/// Returns the number of the stream with a remote end.
pub(super) fn stream_of(remote: SocketAddr) -> u64 {
    let address = match remote.ip() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => u64::from(v6.segments()[7]) | 1 << 40,
    };
    address << 16 | u64::from(remote.port())
}

impl Kernel {
    pub(super) fn new(seed: u64, mtu: u16) -> Self {
        let mut context = OwnedCx::with_seed(seed);
        let settings = Settings {
            address: GUEST,
            prefix_len: 24,
            packets: 256,
            connections: 65_536,
            ..Settings::default()
        };
        let link = Link::Datagram(link::Datagram::new(mtu.into()));
        let mut station = Station::new(link, settings, &mut context.cx());
        station.internet_mut().add_address(Address::permanent(GUEST_V6.into(), 64)).unwrap();
        let running = BTreeMap::new();
        Self { station, context, running, servers: BTreeMap::new(), results: BTreeMap::new() }
    }

    /// Opens a connection, from the given port if it is not 0.
    pub(super) fn open(&mut self, port: u16, remote: SocketAddr, plan: Plan) -> ConnectionId {
        let profile = Profile { pacing: false, ..Profile::BULK };
        let local = if remote.is_ipv4() { IpAddr::V4(GUEST) } else { GUEST_V6.into() };
        let cx = &mut self.context.cx();
        let tcp = &mut self.station.layers.tcp;
        let opened = match port {
            0 => tcp.open(local, remote, profile, cx),
            port => tcp.open_at(SocketAddr::new(local, port), remote, profile, cx),
        };
        let id = opened.unwrap();
        let program = Program::new(plan, stream_of(remote), true);
        self.running.insert(id, Running::new(program));
        id
    }

    /// Accepts connections to `port`, which run the plans of [`Self::servers`].
    pub(super) fn listen(&mut self, port: u16) {
        self.station.layers.tcp.listen(port, Profile::BULK).unwrap();
    }

    /// Returns whether no program runs.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the counts of the program of a running connection.
    pub(super) fn counts(&self, id: ConnectionId) -> (u64, u64) {
        self.running[&id].program.counts()
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let Some(mut packet) = self.station.lend(&mut self.context.cx()) else { return };
        packet.extend(bytes);
        self.station.receive_packet(packet, &mut self.context.cx());
    }

    pub(super) fn timeout(&mut self) {
        if self.deadline().is_some_and(|deadline| deadline <= self.context.now) {
            self.station.step(Step::Timer, &mut NoApplication, &mut self.context.cx());
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.station.deadline()
    }

    /// Returns all datagrams that are ready to be sent.
    pub(super) fn output(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        let mut device = |frame: Frame<'_>, _: &mut Cx<'_>| {
            sent.push([frame.packet.data(), frame.tail[0], frame.tail[1]].concat());
            true
        };
        self.station.transmit_to(&mut device, &mut self.context.cx());
        sent
    }

    /// Runs the programs whose connections have events. Returns those that wait for their next
    /// period.
    pub(super) fn run(&mut self) -> Vec<(ConnectionId, Duration)> {
        let mut paused = Vec::new();
        while let Some((id, event)) = self.station.layers.tcp.event() {
            if event == Event::Established && !self.running.contains_key(&id) {
                let remote = self.station.layers.tcp.status(id).unwrap().remote;
                let plan = self.servers.get(&remote).copied().unwrap_or(Plan::sends(0));
                let program = Program::new(plan, stream_of(remote), true);
                self.running.insert(id, Running::new(program));
            }
            let Some(running) = self.running.get_mut(&id) else { continue };
            match event {
                Event::Established => running.is_established = true,
                Event::PeerClosed => running.is_peer_closed = true,
                Event::Closed => {
                    self.finish(id);
                    continue;
                }
                _ => {}
            }
            paused.extend(self.advance(id));
        }
        paused
    }

    /// Begins the next period of a program.
    pub(super) fn resume(&mut self, id: ConnectionId) -> Option<(ConnectionId, Duration)> {
        let running = self.running.get_mut(&id)?;
        running.share = running.program.plan.share;
        self.advance(id)
    }

    fn finish(&mut self, id: ConnectionId) {
        let tcp = &mut self.station.layers.tcp;
        let mut running = self.running.remove(&id).unwrap();
        let status = tcp.status(id).unwrap();
        if status.close_reason == Some(CloseReason::Closed) && running.program.plan.reads {
            while let Ok(data @ [_, ..]) = tcp.received(id) {
                let data = data.to_vec();
                running.program.receive(&data);
                tcp.consume(id, data.len()).unwrap();
            }
            running.program.has_peer_finished = running.is_peer_closed;
        }
        tcp.release(id);
        let result = GuestResult { program: running.program, reason: status.close_reason };
        self.results.insert(stream_of(status.remote), result);
    }

    fn advance(&mut self, id: ConnectionId) -> Option<(ConnectionId, Duration)> {
        let tcp = &mut self.station.layers.tcp;
        let running = self.running.get_mut(&id)?;
        if !running.is_established {
            return None;
        }
        let program = &mut running.program;
        let mut is_paused = false;
        while program.plan.reads {
            let data = tcp.received(id).unwrap_or_default();
            let data = data[..data.len().min(running.share)].to_vec();
            if data.is_empty() {
                is_paused |= !tcp.received(id).unwrap_or_default().is_empty();
                break;
            }
            program.receive(&data);
            tcp.consume(id, data.len()).unwrap();
            running.share -= if program.plan.share == usize::MAX { 0 } else { data.len() };
        }
        loop {
            let space = tcp.send_space(id).min(running.share);
            let data = program.next_bytes(space);
            if data.is_empty() {
                is_paused |= tcp.send_space(id) > 0 && !program.next_bytes(1).is_empty();
                break;
            }
            assert_eq!(tcp.send(id, &data), Ok(data.len()));
            program.has_sent(data.len());
            running.share -= if program.plan.share == usize::MAX { 0 } else { data.len() };
        }
        program.has_peer_finished |= running.is_peer_closed && tcp.received(id).unwrap().is_empty();
        if program.resets() {
            tcp.abort(id, &mut self.context.cx()).unwrap();
        } else if program.finishes() {
            program.has_finished = true;
            tcp.close(id).unwrap();
        }
        is_paused.then_some((id, program.plan.period))
    }
}
