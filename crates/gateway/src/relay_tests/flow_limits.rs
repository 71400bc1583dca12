//! The limit of a flow: the cause that has limited its rate in the last seconds.

use super::host_sockets::Remote;
use super::program::{Ending, Plan};
use super::world::{MTU, Output, Wire, World, remote_end, settings};
use crate::relay::tcp_flows::Limit;
use crate::{OutputRate, RateLimit, Settings};
use net::time::Duration;

/// A program that always has data, and reads.
const BULK: Plan = Plan { ending: Ending::Stay, ..Plan::sends(1 << 40) };
/// A program that only reads.
const READER: Plan = Plan { ending: Ending::Stay, ..Plan::sends(0) };
/// A program that neither sends nor reads.
const STALLED: Plan = Plan { reads: false, ..READER };

/// Runs until the flow is in its steady state, and returns its limits at the times of 20 samples.
fn limits_of(world: &mut World) -> [Limit; 20] {
    world.run_for(Duration::from_secs(5));
    std::array::from_fn(|_| {
        world.run_for(Duration::from_millis(77));
        world.guest.tcp_statuses(world.now).next().unwrap().1.limit
    })
}

fn slow_output(bits_per_s: u64) -> World {
    let output_rate = Some(OutputRate { bits_per_s, mtu_bytes: MTU });
    let mut world = World::with(1, Settings { output_rate, ..settings() });
    world.output = Output::Limited(RateLimit::new(bits_per_s));
    world
}

#[test]
fn a_guest_that_never_reads_is_the_limit() {
    let mut world = World::new(1);
    world.open(remote_end(1), STALLED, Remote::accepts(BULK));
    assert_eq!(limits_of(&mut world), [Limit::Guest; 20]);
    world.run_for(Duration::from_secs(3600));
    assert_eq!(limits_of(&mut world), [Limit::Guest; 20]);
}

/// The driver reads no less than a few segments, so the send buffer has some space left.
#[test]
fn a_stalled_guest_is_the_limit_if_the_send_buffer_has_too_little_space_for_a_read() {
    let mut world = World::new(1);
    let remote = Remote { read_min: 1 << 14, ..Remote::accepts(BULK) };
    world.open(remote_end(1), STALLED, remote);
    assert_eq!(limits_of(&mut world), [Limit::Guest; 20]);
    let flow = world.guest.tcp_statuses(world.now).next().unwrap().0;
    assert!((1..1 << 14).contains(&world.guest.space(flow)), "{}", world.guest.space(flow));
}

#[test]
fn a_guest_that_reads_slowly_is_the_limit() {
    let mut world = World::new(1);
    let slow_reader = Plan { share: 20_000, period: Duration::from_millis(200), ..READER };
    world.open(remote_end(1), slow_reader, Remote::accepts(BULK));
    assert_eq!(limits_of(&mut world), [Limit::Guest; 20]);
}

#[test]
fn a_host_that_does_not_read_is_the_limit() {
    let mut world = World::new(1);
    world.open(remote_end(1), BULK, Remote { capacity: 1000, ..Remote::accepts(STALLED) });
    assert_eq!(limits_of(&mut world), [Limit::RemoteHost; 20]);
}

#[test]
fn a_flow_without_data_is_idle() {
    let mut world = World::new(1);
    world.open(remote_end(1), READER, Remote::accepts(READER));
    assert_eq!(limits_of(&mut world), [Limit::Application; 20]);
}

#[test]
fn a_flow_whose_remote_host_sends_less_than_the_guest_accepts_is_idle() {
    let mut world = World::new(1);
    let trickle = Plan { share: 20_000, ..BULK };
    world.open(remote_end(1), READER, Remote::accepts(trickle));
    assert_eq!(limits_of(&mut world), [Limit::Application; 20]);
}

#[test]
fn the_queue_of_a_slow_output_is_the_limit_of_its_flows() {
    for bits_per_s in [9600, 2_000_000] {
        let mut world = slow_output(bits_per_s);
        let remote = Remote { read_min: usize::MAX, ..Remote::accepts(BULK) };
        world.open(remote_end(1), READER, remote);
        assert_eq!(limits_of(&mut world), [Limit::Queue; 20], "{bits_per_s} bit/s");
    }
}

/// The socket holds data for 100 ms of each period of 170 ms. At some of the samples, none waits.
#[test]
fn the_queue_is_the_limit_if_the_remote_host_pauses_for_a_shorter_time() {
    let mut world = slow_output(2_000_000);
    // Half of the send buffer, as the driver.
    let read_min = OutputRate { bits_per_s: 2_000_000, mtu_bytes: MTU }.buffer_bytes() / 2;
    let bursts = Plan { share: 3 * read_min, period: Duration::from_millis(170), ..BULK };
    world.open(remote_end(1), READER, Remote { read_min, ..Remote::accepts(bursts) });
    assert_eq!(limits_of(&mut world), [Limit::Queue; 20]);
}

#[test]
fn a_stalled_guest_is_the_limit_at_a_slow_output_too() {
    let mut world = slow_output(2_000_000);
    world.open(remote_end(1), STALLED, Remote::accepts(BULK));
    assert_eq!(limits_of(&mut world), [Limit::Guest; 20]);
}

#[test]
fn a_network_of_the_guest_with_loss_is_the_limit() {
    let mut world = World::new(1);
    let delay = Duration::from_millis(20);
    world.wire = Wire { delay, loss_ppm: 50_000, ..Wire::default() };
    world.open(remote_end(1), READER, Remote::accepts(BULK));
    let limits = limits_of(&mut world);
    assert_eq!(limits, [Limit::Network; 20]);
}
