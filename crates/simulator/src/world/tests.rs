//! Tests of properties of a world that do not depend on the application.

use super::*;
use crate::faults::Faults;
use crate::host::seed_of;
use net::Cx;
use net::application::Stream;
use net::link::{Link, Llp, Slip};
use net::meter::{Account, Costs, Counter, Meter, Work};
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::Duration;
use net::transport::tcp::Profile;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 23;

/// Sends a file and receives one. Closes after it has sent its own file, either at once or after
/// the peer has closed.
#[derive(Debug, Default)]
struct TestEndpoint {
    file: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    closes_first: bool,
    peer_has_closed: bool,
}

impl Stream for TestEndpoint {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received.extend_from_slice(data);
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.file[self.sent..]
    }

    fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.peer_has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.sent == self.file.len() && (self.closes_first || self.peer_has_closed)
    }
}

type Pair = World<TcpStreamApp<TestEndpoint>, TcpStreamApp<TestEndpoint>>;

/// Returns the costs of the link and of TCP on the IBM Personal Computer of TM-233 (table 6-1).
fn costs() -> Costs {
    Costs::default()
        .with(Work::LineByte, 231_000)
        .with(Work::Segment, 5_000_000)
        .with(Work::SegmentByte, 38_500)
}

/// Returns a file that contains every byte value, so that the link must escape some bytes.
fn file(len: usize) -> Vec<u8> {
    (0..=255).cycle().take(len).collect()
}

fn world(link: fn() -> Link, user_opening: Opening, faults: Faults, seed: u64) -> Pair {
    let host = |address, side, opening, stream| {
        let settings = Settings { address, prefix_len: 24, ..Settings::default() };
        let application = TcpStreamApp::new(stream, opening, Profile::INTERACTIVE);
        Host::new(link(), settings, costs(), seed_of(seed, side), application)
    };
    let user = TestEndpoint { file: file(300), closes_first: true, ..TestEndpoint::default() };
    let server = TestEndpoint { file: file(3_000), ..TestEndpoint::default() };
    World::new(
        host(USER, Side::User, user_opening, user),
        host(SERVER, Side::Server, Opening::Passive { port: PORT }, server),
        Line { faults, ..Line::serial(9_600) },
        seed,
    )
}

fn llp() -> Link {
    Link::Llp(Llp::new(576))
}

fn slip() -> Link {
    Link::Slip(Slip::new(576))
}

const ACTIVE_OPEN: Opening =
    Opening::Active { local: IpAddr::V4(USER), remote: SocketAddr::new(IpAddr::V4(SERVER), PORT) };

/// Faults that damage one full-size packet in eight. With more bit errors, two of them could cancel
/// out in the checksum, and TCP could time out.
const BAD_LINE: Faults = Faults {
    loss_ppm: 100,
    duplication_ppm: 50,
    reordering_ppm: 0,
    reordering_delay_max: Duration::ZERO,
    bit_error_ppm: 10,
};

fn run_to_end(world: &mut Pair) {
    world
        .drive(|world| world.user.application.is_over() && world.server.application.is_over())
        .unwrap();
    // Data that is still on the line arrives.
    world.run_until(world.now() + Duration::from_secs(60));
}

fn trace(world: &Pair) -> (Instant, String, String) {
    let trace = |meter: &Meter| format!("{meter:?}");
    (world.now(), trace(&world.user.meter), trace(&world.server.meter))
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_nanosecond_on_a_bad_line() {
    let run = |seed| {
        let mut world = world(llp, ACTIVE_OPEN, BAD_LINE, seed);
        run_to_end(&mut world);
        trace(&world)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn the_result_of_a_run_does_not_depend_on_the_number_of_calls() {
    let end = Instant::ZERO + Duration::from_secs(8);
    let mut uninterrupted = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    uninterrupted.run_until(end);
    let mut interrupted = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    while interrupted.now() < end {
        interrupted
            .run_until(interrupted.now() + Duration::from_micros(700).min(end - interrupted.now()));
    }
    assert_eq!(trace(&uninterrupted), trace(&interrupted));
}

fn assert_files_cross_a_bad_line(link: fn() -> Link) {
    for seed in 0..20 {
        let mut world = world(link, ACTIVE_OPEN, BAD_LINE, seed);
        run_to_end(&mut world);
        let user = &world.user;
        let server = &world.server;
        assert!(user.application.stream.received == file(3_000), "seed {seed}");
        assert!(server.application.stream.received == file(300), "seed {seed}");
        let packet_counts = (user.station.packets_in_use(), server.station.packets_in_use());
        assert_eq!(packet_counts, (0, 0), "seed {seed}");
        for meter in [&user.meter, &server.meter] {
            assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total(), "seed {seed}");
            assert!(meter.charged(Account::TcpFixed) > 0);
        }
    }
}

#[test]
fn files_arrive_complete_over_a_bad_line_with_llp_and_leak_no_packet() {
    assert_files_cross_a_bad_line(llp);
}

#[test]
fn files_arrive_complete_over_a_bad_line_with_slip_and_leak_no_packet() {
    assert_files_cross_a_bad_line(slip);
}

#[test]
fn the_accounts_of_a_host_add_up_to_the_time_of_its_world() {
    let mut world = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    world.run_until(Instant::ZERO + Duration::from_secs(3));
    let now = world.now();
    let meter = &mut world.user.meter;
    meter.wait_until(now);
    assert_eq!(meter.accounts().iter().sum::<u64>(), meter.busy_until().as_nanos());
    assert!(meter.busy_until() >= now && meter.busy_until() - now < Duration::from_secs(1));
}

#[test]
fn two_hosts_waiting_for_each_other_are_reported_as_stuck() {
    let passive_open = Opening::Passive { port: PORT };
    let mut world = world(llp, passive_open, Faults::default(), 42);
    let stuck = world.drive(|world| world.user.application.is_open()).unwrap_err();
    assert_eq!(stuck, Stuck { at: Instant::ZERO, seed: 42 });
    assert_eq!(stuck.to_string(), "no event and no timer is left at 0.000000000 s (seed 42)");
}

#[test]
fn a_finished_world_is_stuck_if_a_condition_is_not_met() {
    let mut world = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    run_to_end(&mut world);
    assert!(world.drive(|_| false).is_err());
}

#[test]
fn a_timer_superseded_by_an_earlier_one_has_no_effect() {
    let mut world = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    // The SYN is on the line. The user's link and TCP wait for an answer, which takes 50 ms.
    world.run_until(Instant::from_nanos(6_000_000));
    for millis in 7..27 {
        let at = Instant::from_nanos(millis * 1_000_000);
        world.schedule(at, Event::Timer { host: Side::User, at });
    }
    world.run_until(Instant::from_nanos(30_000_000));
    let is_timer = |h: &&Event| matches!(h, Event::Timer { host: Side::User, .. });
    assert!(world.event_queue.values().filter(is_timer).count() <= 2);
}

#[test]
fn time_is_monotonic() {
    let mut world = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    world.run_until(Instant::from_nanos(2_000_000_000));
    world.run_until(Instant::from_nanos(1_000_000_000));
    assert_eq!(world.now(), Instant::from_nanos(2_000_000_000));
}

#[test]
fn output_is_on_the_line_only_after_its_step_has_ended() {
    let mut world = world(llp, ACTIVE_OPEN, Faults::default(), 1);
    // The user's first step opens the connection. The second step takes 5 ms and generates the SYN.
    for millis in 1..=4 {
        world.run_until(Instant::from_nanos(millis * 1_000_000));
    }
    assert_eq!(world.user.meter.counted(Counter::LlpRequestsOut), 0);
    world.run_until(Instant::from_nanos(5_000_000));
    assert_eq!(world.user.meter.counted(Counter::LlpRequestsOut), 1);
}
