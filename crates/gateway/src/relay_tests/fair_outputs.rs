//! Outputs that are slower than the gateway: fairness between guests and between flows, and the
//! delay of a flow beside others.

use super::host_sockets::Remote;
use super::kernel::GUEST;
use super::program::{Ending, Plan};
use super::world::{MTU, Output, World, remote_end, settings};
use crate::relay::Key;
use crate::{Event, OutputRate, RateLimit, Settings, SharedRate, relay::udp_flows};
use net::Instant;
use net::internet::ipv4::{self, Protocol};
use net::time::Duration;
use net::transport::tcp::ConnectionId;
use std::net::{IpAddr, SocketAddr};

const UDP_PORT: u16 = 5000;
/// A remote program that always has data.
const BULK: Plan = Plan { ending: Ending::Stay, ..Plan::sends(1 << 40) };

fn rate(bits_per_s: u64, mtu_bytes: u16) -> OutputRate {
    OutputRate { bits_per_s, mtu_bytes }
}

fn limited(bits_per_s: u64) -> World {
    let output_rate = Some(rate(bits_per_s, MTU));
    let mut world = World::with(1, Settings { output_rate, ..settings() });
    world.output = Output::Limited(RateLimit::new(bits_per_s));
    world
}

/// Opens a connection from which the guest reads without end.
fn download(world: &mut World, number: u32) -> ConnectionId {
    let reads = Plan { ending: Ending::Stay, ..Plan::sends(0) };
    let remote = Remote { capacity: 4096, ..Remote::accepts(BULK) };
    world.open(remote_end(number), reads, remote)
}

/// Opens a UDP flow by a datagram of the guest.
fn open_datagram_flow(world: &mut World, number: u32) -> (Key, SocketAddr) {
    let remote = remote_end(number);
    let IpAddr::V4(destination) = remote.ip() else { panic!("{remote}") };
    let to = ipv4::Header {
        source: GUEST,
        destination,
        protocol: Protocol::Udp,
        time_to_live: 64,
        identification: 0,
        dscp_ecn: 0,
        dont_fragment: false,
    };
    let [s0, s1] = UDP_PORT.to_be_bytes();
    let [d0, d1] = remote.port().to_be_bytes();
    let datagram = [s0, s1, d0, d1, 0, 12, 0, 0, b'd', b'a', b't', b'a'];
    let len = u16::try_from(ipv4::HEADER_LEN + datagram.len()).unwrap();
    world.receive(&[to.emit(len).as_slice(), &datagram].concat());
    world.settle();
    let opened = world.host.other_events.iter().rev().find_map(|event| match event {
        Event::Udp(udp_flows::Event::Bind { flow, .. }) => Some(*flow),
        _ => None,
    });
    (opened.unwrap(), remote)
}

/// Passes a datagram with `len` bytes of data from the remote end of a flow to the gateway.
fn send_datagram(world: &mut World, (flow, remote): (Key, SocketAddr), len: usize) {
    let data = vec![b'd'; len];
    world.guest.datagrams_to_guest(flow, remote, (&data, 0), &mut world.context.cx());
}

fn received(world: &World, connections: &[ConnectionId]) -> Vec<f64> {
    connections.iter().map(|id| world.kernel.counts(*id).1 as f64).collect()
}

/// Returns Jain's index of fairness: 1 if all values are equal, and 1/n if all but one are zero.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    sum * sum / (values.len() as f64 * squares)
}

/// Guests that share a rate.
struct Guests {
    worlds: Vec<World>,
    rate: SharedRate,
    now: Instant,
    /// Times at which datagrams of UDP were transmitted to the last guest.
    sent_at: Vec<Instant>,
}

impl Guests {
    fn new(count: usize, bits_per_s: u64) -> Self {
        let world = |seed| {
            let output_rate = Some(rate(bits_per_s, MTU));
            let mut world = World::with(seed, Settings { output_rate, ..settings() });
            world.output = Output::Shared;
            world
        };
        let worlds = (0..count as u64).map(world).collect();
        let rate = SharedRate::new(bits_per_s);
        Self { worlds, rate, now: Instant::ZERO, sent_at: Vec::new() }
    }

    /// Transmits what the shared rate permits now.
    fn transmit(&mut self) {
        for (number, world) in self.worlds.iter_mut().enumerate() {
            world.advance_to(self.now);
            world.settle();
            if world.guest.has_output() {
                self.rate.add(number);
            }
        }
        while let Some(number) = self.rate.next(self.now) {
            match self.worlds[number].transmit_one() {
                Some(sent) => {
                    self.rate.has_sent(number, sent.len(), self.now);
                    if number + 1 == self.worlds.len() && sent[9] == 17 {
                        self.sent_at.push(self.now);
                    }
                }
                None => self.rate.withdraw(number),
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.transmit();
            let events = self.worlds.iter().filter_map(World::next_at);
            let next = events.chain(self.rate.deadline()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            for world in &mut self.worlds {
                while world.next_at().is_some_and(|at| at <= self.now) {
                    world.process_next(self.now);
                }
            }
        }
        self.now = end;
    }
}

#[test]
fn twenty_guests_with_fifty_flows_each_share_a_rate_and_a_quiet_guest_does_not_wait() {
    let mut guests = Guests::new(20, 10_000_000);
    let mut connections = Vec::new();
    for (number, world) in guests.worlds.iter_mut().take(19).enumerate() {
        // The share does not depend on the number of flows.
        let flows = if number == 0 { 5 } else { 50 };
        connections.push((0..flows).map(|flow| download(world, flow)).collect::<Vec<_>>());
    }
    let flow = open_datagram_flow(&mut guests.worlds[19], 1);
    guests.run_for(Duration::from_secs(3));
    let count = |guests: &Guests| {
        let sums = guests
            .worlds
            .iter()
            .zip(&connections)
            .map(|(world, connections)| received(world, connections).iter().sum::<f64>());
        sums.collect::<Vec<_>>()
    };
    let before = count(&guests);
    let mut waited = Vec::new();
    for _ in 0..200 {
        send_datagram(&mut guests.worlds[19], flow, 20);
        guests.sent_at.clear();
        let sent_at = guests.now;
        guests.run_for(Duration::from_millis(19));
        waited.push(guests.sent_at[0] - sent_at);
    }
    let shares: Vec<f64> = count(&guests).iter().zip(&before).map(|(all, old)| all - old).collect();
    assert!(jain(&shares) >= 0.98, "{} {shares:?}", jain(&shares));
    let seconds = 3.8;
    let used = shares.iter().sum::<f64>() * 8.0 / seconds / 10e6;
    assert!((0.93..=1.0).contains(&used), "{used}");
    // A packet of another guest is on the line, and one guest may be behind its share.
    let most = waited.iter().max().unwrap();
    assert!(*most <= Duration::from_millis(3), "{most:?}");
}

#[test]
fn connections_of_a_guest_share_its_rate() {
    let mut world = limited(1_000_000);
    let connections: Vec<_> = (0..50).map(|flow| download(&mut world, flow)).collect();
    world.run_for(Duration::from_secs(10));
    let before = received(&world, &connections);
    world.run_for(Duration::from_secs(20));
    let after = received(&world, &connections);
    let shares: Vec<f64> = after.iter().zip(&before).map(|(all, old)| all - old).collect();
    assert!(jain(&shares) >= 0.98, "{} {shares:?}", jain(&shares));
    let used = shares.iter().sum::<f64>() * 8.0 / 20.0 / 1e6;
    assert!((0.93..=1.0).contains(&used), "{used}");
    let counters = world.guest.output_counters().unwrap();
    assert_eq!(counters.dropped(), 0);
}

#[test]
fn a_flood_of_datagrams_takes_no_more_than_its_share_of_a_slow_line() {
    let mut world = limited(9600);
    let connection = download(&mut world, 1);
    let flood = open_datagram_flow(&mut world, 2);
    world.run_for(Duration::from_secs(5));
    let before = received(&world, &[connection])[0];
    let sent_before = world.guest.output_counters().unwrap().bytes_out as f64;
    // Five times the rate of the line.
    for _ in 0..1200 {
        send_datagram(&mut world, flood, 572);
        world.run_for(Duration::from_millis(100));
    }
    let tcp = received(&world, &[connection])[0] - before;
    let counters = world.guest.output_counters().unwrap();
    let all = counters.bytes_out as f64 - sent_before;
    assert!((0.45..=0.55).contains(&(tcp / all)), "{tcp} of {all}");
    assert!(counters.dropped() > 0, "{counters:?}");
    // 120 s at 1,200 bytes per second.
    assert!((143_000.0..=145_000.0).contains(&all), "{all}");
}

#[test]
fn a_datagram_does_not_wait_for_the_backlog_of_connections() {
    let mut world = limited(9600);
    for number in 0..10 {
        download(&mut world, number);
    }
    let flow = open_datagram_flow(&mut world, 20);
    world.run_for(Duration::from_secs(20));
    for _ in 0..20 {
        let queued = world.guest.output_counters().unwrap().packets_out;
        send_datagram(&mut world, flow, 20);
        let began = world.now;
        while world.guest.output_counters().unwrap().sojourn_ns.count() == queued {
            assert!(world.process_next(began + Duration::from_secs(5)));
        }
        // The packet on the line when it arrives; then the datagram is the first one.
        assert!(world.now - began <= Duration::from_millis(1_251), "{:?}", world.now - began);
        world.run_for(Duration::from_secs(3));
    }
}

#[test]
fn a_connection_of_a_slow_guest_has_little_data_in_the_gateway() {
    let mut world = limited(9600);
    download(&mut world, 1);
    world.run_for(Duration::from_secs(60));
    let (_, status) = world.guest.tcp_statuses(world.now).next().unwrap();
    let delivered = received_by_guest(&world);
    let in_gateway = status.bytes_to_guest as f64 - delivered;
    assert!(in_gateway <= 4.0 * f64::from(MTU), "{in_gateway}");
}

fn received_by_guest(world: &World) -> f64 {
    world.guest.output_counters().unwrap().bytes_out as f64
}
