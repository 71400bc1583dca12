//! The memory that a guest can make the gateway hold: the sizes of the buffers of its flows.

use super::host_sockets::Remote;
use super::kernel::stream_of;
use super::program::{Ending, Plan};
use super::world::{Wire, World, remote_end, settings};
use crate::Settings;
use crate::relay::tcp_flows::Limits;
use net::time::Duration;
use net::transport::tcp::Status;

const SECOND: Duration = Duration::from_secs(1);
/// A delay with which a flow needs large buffers, because it is fast.
const DELAY: Duration = Duration::from_millis(20);
const START: usize = 1 << 18;
const GROWTH: usize = 1 << 20;
/// A program that only reads.
const READER: Plan = Plan { ending: Ending::Stay, ..Plan::sends(0) };

/// Returns a world in which the buffers of all flows may grow by `growth_bytes`.
fn world(growth_bytes: usize) -> World {
    let tcp = Limits { growth_bytes, ..Limits::default() };
    let mut world = World::with(1, Settings { tcp, ..settings() });
    world.wire = Wire { delay: DELAY, ..Wire::default() };
    world
}

fn sum(world: &World, value: impl Fn(&Status) -> usize) -> usize {
    world.guest.connections().map(|status| value(&status)).sum()
}

fn send_queue(status: &Status) -> usize {
    status.send_queue as usize
}

fn buffers(status: &Status) -> usize {
    status.send_buffer + status.receive_buffer
}

/// Checks that the programs of both ends have received everything, and that nothing is left.
fn assert_all_complete(world: &mut World, flows: u32) {
    assert_eq!(world.kernel.results.len(), flows as usize);
    for number in 0..flows {
        let guest = &world.kernel.results[&stream_of(remote_end(number))];
        let host = &world.host.results[&stream_of(remote_end(number))];
        assert!(guest.program.is_complete(), "{guest:?}");
        assert!(host.program.is_complete(), "{host:?}");
    }
    world.run_for(3600 * SECOND);
    world.assert_nothing_is_left();
}

#[test]
fn a_guest_that_stops_acknowledging_makes_the_gateway_hold_no_more_than_the_limit() {
    const FLOWS: u32 = 8;
    const LEN: u64 = 5 << 20;
    let mut world = world(GROWTH);
    let download = Plan { ending: Ending::Finish, ..Plan::sends(LEN) };
    let reader = Plan { ending: Ending::FinishAfterPeer, ..READER };
    for number in 0..FLOWS {
        world.open(remote_end(number), reader, Remote::accepts(download));
    }
    world.run_for(Duration::from_millis(500));
    world.has_vanished = true;
    world.run_for(3 * SECOND);
    let held = sum(&world, send_queue);
    let limit = FLOWS as usize * START + GROWTH;
    // The buffers have grown, but the growth of one flow cannot exceed that of all.
    assert!((limit - GROWTH / 2..=limit).contains(&held), "{held} of {limit}");
    assert!(world.guest.limited_buffers() > 0);
    world.has_vanished = false;
    world.run_for(600 * SECOND);
    assert_all_complete(&mut world, FLOWS);
}

#[test]
fn hosts_that_stop_reading_let_the_guest_fill_no_more_than_the_limit() {
    const FLOWS: u32 = 8;
    const LEN: u64 = 12 << 20;
    let mut world = world(GROWTH);
    // The socket accepts data at full speed, and then nothing until the next period.
    let pauses = Plan { share: 4 << 20, period: 20 * SECOND, ..Plan::sends(0) };
    let pauses = Plan { ending: Ending::FinishAfterPeer, ..pauses };
    for number in 0..FLOWS {
        let remote = Remote { capacity: 4 << 20, ..Remote::accepts(pauses) };
        world.open(remote_end(number), Plan::sends(LEN), remote);
    }
    world.run_for(15 * SECOND);
    let held = sum(&world, |status| status.receive_queue);
    // A window is rounded up by at most an eighth.
    let limit = (FLOWS as usize * START + GROWTH) / 8 * 9;
    assert!((FLOWS as usize * START + GROWTH / 2..=limit).contains(&held), "{held} of {limit}");
    assert!(world.guest.limited_buffers() > 0);
    world.run_for(600 * SECOND);
    assert_all_complete(&mut world, FLOWS);
}

#[test]
fn the_buffers_of_a_single_flow_grow_to_their_maximum() {
    for is_download in [true, false] {
        let mut world = world(Limits::default().growth_bytes);
        let bulk = Plan { ending: Ending::Stay, ..Plan::sends(1 << 40) };
        let (guest, host) = if is_download { (READER, bulk) } else { (bulk, READER) };
        let remote = Remote { capacity: 8 << 20, ..Remote::accepts(host) };
        world.open(remote_end(1), guest, remote);
        world.run_for(Duration::from_millis(1200));
        let sizes = world
            .guest
            .connections()
            .next()
            .map(|status| if is_download { status.send_buffer } else { status.receive_buffer });
        assert_eq!((sizes, world.guest.limited_buffers()), (Some(4 << 20), 0), "{is_download}");
    }
}

/// More flows than share the initial memory, so that the last ones have the minimum.
#[test]
fn many_flows_have_small_buffers_and_make_progress() {
    const FLOWS: u32 = 2500;
    const LEN: u64 = 30_000;
    let mut world = world(0);
    let answer = Plan { ending: Ending::Stay, ..Plan::sends(LEN) };
    for number in 0..FLOWS {
        let remote = Remote { read_min: usize::MAX, ..Remote::accepts(answer) };
        world.open(remote_end(number), READER, remote);
        // Fewer opens than the gateway accepts at once.
        world.run_for(Duration::from_micros(200));
    }
    world.run_for(5 * SECOND);
    // 16 MiB * (1 + ln 2048) and 8 KiB for each of the others, in each direction.
    let limit = 2 * (16 << 20) * 87 / 10 + 2 * (452 << 13);
    let permitted = sum(&world, buffers);
    assert!(permitted <= limit, "{permitted} of {limit}");
    let smallest = world.guest.connections().map(|status| status.send_buffer).min();
    assert_eq!(smallest, Some(1 << 13));
    // Flows that connect at the same time count too.
    let small = world.guest.tcp().counters().small_buffers;
    assert!((2500 - 64..2500 - 50).contains(&small), "{small}");
    let received = world.guest.tcp().counters().bytes_to_guest;
    assert_eq!((received, sum(&world, send_queue)), (u64::from(FLOWS) * LEN, 0));
}

#[test]
fn connections_that_have_ended_leave_the_buffers_of_others_large() {
    const FLOWS: u32 = 500;
    let mut world = world(Limits::default().growth_bytes);
    let answer = Plan { ending: Ending::Finish, ..Plan::sends(10) };
    let reader = Plan { ending: Ending::FinishAfterPeer, ..READER };
    for number in 0..FLOWS {
        world.open(remote_end(number), reader, Remote::accepts(answer));
        world.run_for(Duration::from_millis(10));
    }
    world.run_for(SECOND);
    // The gateway has sent the first FIN of each, and is in TIME-WAIT.
    assert_eq!((world.guest.tcp().len(), world.guest.connections().count()), (0, FLOWS as usize));
    let small = world.guest.limited_buffers();
    world.open(remote_end(FLOWS), READER, Remote::accepts(READER));
    world.run_for(SECOND);
    let largest = world.guest.connections().map(|status| status.send_buffer).max();
    assert_eq!((largest, world.guest.limited_buffers()), (Some(START), small));
}
