//! Random flows over a day of virtual time, with guests that vanish. The seed determines everything.
//!
//! `PLUMB_LONG=1` runs 1000 seeds with 10,000 flows each, on all processors. `PLUMB_RELAY_SEED` runs
//! one of these seeds.

use super::host_sockets::{Answer, Remote};
use super::kernel::{GUEST, GuestResult, stream_of};
use super::program::{Ending, Plan};
use super::world::{Wire, World, remote_end};
use crate::Event;
use crate::relay::{echo_flows, udp_flows};
use net::Instant;
use net::rng::Rng;
use net::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The time in which flows begin, and the time that remains for them.
const BEGIN_S: u64 = 16 * 3600;
const BEGIN: Duration = Duration::from_secs(BEGIN_S);
const REST: Duration = Duration::from_secs(4 * 3600);
/// Longer than keep-alive probes and all other timers of a flow.
const AFTER_END: Duration = Duration::from_secs(4 * 3600);
/// Minimum number of bytes that a program reads or sends in a period of at most two seconds: the
/// longest transfer ends in the time that remains for it.
const SHARE_MIN: u64 = 50;
const PORT: u16 = 8080;

/// A flow of a run.
#[derive(Clone, Copy, Debug)]
struct DrawnFlow {
    at: Instant,
    is_incoming: bool,
    other_end: SocketAddr,
    guest: Plan,
    host: Remote,
}

impl DrawnFlow {
    fn draw(number: u32, rng: &mut Rng) -> Self {
        let is_incoming = rng.below(5) == 0;
        let source = IpAddr::V4(Ipv4Addr::from_bits(0xC633_0000 + number));
        let answer = match rng.below(10) {
            0 => Answer::Refuses,
            1 if rng.below(3) == 0 => Answer::Never,
            _ => Answer::Accepts,
        };
        Self {
            at: Instant::ZERO + Duration::from_millis(rng.below(BEGIN_S * 1000)),
            is_incoming,
            other_end: if is_incoming {
                SocketAddr::new(source, 40_000)
            } else {
                remote_end(number)
            },
            guest: draw_plan(rng),
            host: Remote {
                read_min: 1,
                answer: if is_incoming { Answer::Accepts } else { answer },
                delay: Duration::from_millis(rng.below(300)),
                plan: draw_plan(rng),
                capacity: 1 << (7 + rng.below(10)),
            },
        }
    }

    /// Returns whether both programs must get everything, unless the guest vanishes.
    fn must_complete(&self) -> bool {
        let endings = [self.guest.ending, self.host.plan.ending];
        let both_end =
            endings.iter().all(|e| matches!(e, Ending::Finish | Ending::FinishAfterPeer));
        let both_wait = endings == [Ending::FinishAfterPeer; 2];
        let both_read = self.guest.reads && self.host.plan.reads;
        both_end && !both_wait && both_read && self.host.answer == Answer::Accepts
    }
}

fn draw_plan(rng: &mut Rng) -> Plan {
    let to_send = match rng.below(20) {
        0 => rng.below(100_000),
        1..4 => 0,
        _ => rng.below(3000),
    };
    let share = match rng.below(3) {
        0 => usize::try_from(to_send / 10 + SHARE_MIN + rng.below(1000)).unwrap(),
        _ => usize::MAX,
    };
    let ending = match rng.below(20) {
        0 => Ending::Reset(rng.below(3000)),
        1 => Ending::Stay,
        2..7 => Ending::FinishAfterPeer,
        _ => Ending::Finish,
    };
    let reads = ending != Ending::Stay || rng.below(2) == 0;
    Plan { to_send, share, reads, period: Duration::from_millis(1 + rng.below(2000)), ending }
}

/// Prints the seed if the test panics.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self(seed) = self;
            eprintln!("repeat: PLUMB_RELAY_SEED={seed} cargo test -p gateway --lib soak");
        }
    }
}

/// Answers the datagrams and echo requests of the guest with the same data.
fn answer_others(world: &mut World) {
    for event in std::mem::take(&mut world.host.other_events) {
        match event {
            Event::Udp(udp_flows::Event::Progress { flow }) => {
                while let Some(outgoing) = world.guest.udp().to_host(flow) {
                    let to = outgoing.destination;
                    let data = outgoing.data.clone();
                    let size = outgoing.size;
                    world.guest.udp_mut().sent(flow);
                    let cx = &mut world.context.cx();
                    world.guest.datagrams_to_guest(flow, to, (&data, size), cx);
                }
            }
            Event::Echo(echo_flows::Event::Send { flow, destination, message, .. }) => {
                let cx = &mut world.context.cx();
                world.guest.echo_to_guest(flow, destination, &message, cx);
            }
            Event::Udp(_) | Event::Echo(_) | Event::Tcp(_) | Event::Dns(_) => {}
        }
    }
    world.settle();
}

/// Lets the guest send a datagram and an echo request.
fn send_others(world: &mut World, number: u32, rng: &mut Rng) {
    let to = remote_end(number);
    let identifier = u16::try_from(rng.below(50)).unwrap();
    let cx = &mut world.kernel.context.cx();
    let layers = &mut world.kernel.station.layers;
    _ = layers.ping(to.ip(), (identifier, 1), 20, cx);
    let port = 1024 + identifier;
    if let Ok(socket) = layers.udp.bind(port, cx) {
        _ = layers.send_to(socket, &vec![1; usize::from(identifier)], to, cx);
        // The answer is dropped by the guest's kernel.
        layers.udp.close(socket, &mut layers.pool);
    }
    world.settle();
}

/// A run, and the results of guests that were restarted.
struct Run {
    world: World,
    rng: Rng,
    /// The times at which the guest vanishes and returns.
    absences: Vec<(Instant, Instant)>,
    results: BTreeMap<u64, GuestResult>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut world = World::new(seed);
        world.wire = Wire {
            delay: Duration::from_micros(10 + rng.below(30_000)),
            jitter: Duration::from_micros(rng.below(3) * rng.below(3000)),
            loss_ppm: u32::try_from(rng.below(2) * rng.below(20_000)).unwrap(),
            duplication_ppm: u32::try_from(rng.below(2) * rng.below(10_000)).unwrap(),
        };
        let absences = (0..rng.below(2) * rng.below(4)).map(|_| {
            let from = Instant::ZERO + Duration::from_millis(rng.below(BEGIN_S * 1000));
            (from, from + Duration::from_secs(rng.below(7200)))
        });
        let absences = absences.collect();
        Self { world, rng, absences, results: BTreeMap::new() }
    }

    /// Advances to `at`. The guest vanishes and returns meanwhile.
    fn advance(&mut self, at: Instant) {
        let ends = self.absences.iter().flat_map(|(from, to)| [*from, *to]);
        let mut stops: Vec<Instant> = ends.filter(|end| *end < at).collect();
        stops.push(at);
        stops.sort_unstable();
        for stop in stops {
            if stop > self.world.now {
                self.world.run_for(stop - self.world.now);
            }
            let is_absent = |(from, to): &(Instant, Instant)| *from <= stop && stop < *to;
            let has_vanished = self.absences.iter().any(is_absent);
            if self.world.has_vanished && !has_vanished && self.rng.below(2) == 0 {
                self.restart();
            }
            self.world.has_vanished = has_vanished;
            answer_others(&mut self.world);
        }
    }

    fn restart(&mut self) {
        self.results.append(&mut self.world.kernel.results);
        let servers = std::mem::take(&mut self.world.kernel.servers);
        self.world.restart_guest();
        self.world.kernel.servers = servers;
        self.world.kernel.listen(PORT);
    }

    fn begin(&mut self, flow: &DrawnFlow) {
        if flow.is_incoming {
            self.world.kernel.servers.insert(flow.other_end, flow.guest);
            let guest = SocketAddr::new(GUEST.into(), PORT);
            self.world.accept(flow.other_end, guest, flow.host).unwrap();
        } else {
            self.world.open(flow.other_end, flow.guest, flow.host);
        }
    }

    /// Checks the results of all flows.
    fn check(&self, flows: &[DrawnFlow]) {
        for flow in flows {
            let stream = stream_of(flow.other_end);
            let guest = self.results.get(&stream);
            let host = self.world.host.results.get(&stream);
            let both = guest.zip(host);
            let is_complete = |(g, h): &(&GuestResult, &super::host_sockets::HostResult)| {
                g.program.is_complete() && h.program.is_complete()
            };
            if let Some((guest, host)) = both.filter(is_complete) {
                let (sent, received) = guest.program.counts();
                assert_eq!(host.program.counts(), (received, sent), "{flow:?}");
                assert_eq!((sent, received), (flow.guest.to_send, flow.host.plan.to_send));
            } else {
                let is_undisturbed = self.absences.is_empty() && flow.must_complete();
                assert!(!is_undisturbed, "{flow:?}\n{guest:?}\n{host:?}");
            }
        }
        let failed = flows.iter().filter(|flow| flow.host.answer != Answer::Accepts).count();
        let counters = self.world.guest.tcp().counters();
        // A SYN that is duplicated, or retransmitted because a reset was lost, opens another flow.
        let has_faults = self.world.wire.loss_ppm + self.world.wire.duplication_ppm > 0;
        if self.absences.is_empty() && !has_faults {
            assert_eq!(counters.outgoing + counters.incoming, flows.len() as u64);
            assert_eq!(counters.failed, failed as u64);
        }
    }
}

fn run(seed: u64, count: u32) {
    let _repeat = Repeat(seed);
    let mut run = Run::new(seed);
    run.world.kernel.listen(PORT);
    let mut flows: Vec<_> = (0..count).map(|n| DrawnFlow::draw(n, &mut run.rng)).collect();
    flows.sort_by_key(|flow| flow.at);
    for (flow, number) in flows.iter().zip(0..) {
        run.advance(flow.at);
        run.begin(flow);
        if run.rng.below(10) == 0 {
            let mut rng = Rng::from_seed(seed ^ u64::from(number));
            send_others(&mut run.world, number, &mut rng);
        }
    }
    run.advance(Instant::ZERO + BEGIN + REST);
    run.restart();
    run.world.has_vanished = true;
    run.world.run_for(AFTER_END);
    run.world.host.other_events.clear();
    run.world.assert_nothing_is_left();
    run.check(&flows);
}

#[test]
fn soak_random_flows_leave_nothing_behind_and_lose_no_byte() {
    if let Some(seed) = std::env::var("PLUMB_RELAY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return run(seed, flows_of(seed, true));
    }
    let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
    let seeds = if is_long { 1000 } else { 20 };
    let next_seed = AtomicU64::new(0);
    let run_seeds = || {
        loop {
            let seed = next_seed.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            run(seed, flows_of(seed, is_long));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(run_seeds)));
}

/// Returns the number of flows of a seed. The first seeds are those of a short run.
fn flows_of(seed: u64, is_long: bool) -> u32 {
    if is_long && seed >= 20 { 10_000 } else { 100 }
}
