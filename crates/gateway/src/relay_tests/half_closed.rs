//! Flows of which one side has finished: those that move data or wait for an answer, and those of
//! guests that are gone.

use super::host_sockets::Remote;
use super::kernel::{GUEST, stream_of};
use super::program::{Ending, Plan};
use super::world::{World, remote_end};
use crate::relay::tcp_flows::Phase;
use net::time::Duration;
use net::transport::tcp::CloseReason;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// A remote program that neither sends nor finishes.
const SILENT: Plan = Plan { ending: Ending::Stay, ..Plan::sends(0) };

fn phases(world: &World) -> Vec<Phase> {
    world.guest.tcp_statuses(world.now).map(|(_, status)| status.phase).collect()
}

/// Lets a guest send a request and finish, such as `nc -N`, and checks that both programs get
/// everything after `time`.
fn assert_served(answer: Plan, time: Duration) {
    let mut world = World::new(1);
    let remote = remote_end(1);
    let answer = Plan { ending: Ending::FinishAfterPeer, ..answer };
    world.open(remote, Plan::sends(300), Remote::accepts(answer));
    world.run_for(SECOND);
    assert_eq!(phases(&world), [Phase::HalfClosed]);
    world.run_for(time);
    let guest = &world.kernel.results[&stream_of(remote)];
    assert_eq!(
        (guest.reason, guest.program.counts().1),
        (Some(CloseReason::Closed), answer.to_send)
    );
    assert!(guest.program.is_complete(), "{guest:?}");
    world.run_for(HOUR);
    world.assert_nothing_is_left();
}

#[test]
fn a_half_closed_flow_that_moves_a_byte_per_minute_is_not_ended() {
    assert_served(Plan { share: 1, period: 60 * SECOND, ..Plan::sends(300) }, 6 * HOUR);
}

/// Longer than the 2 hours and 4 minutes of RFC 5382 REQ-5.
#[test]
fn a_guest_that_waits_three_hours_for_the_answer_to_its_finished_request_gets_it() {
    assert_served(Plan { share: 300, period: 3 * HOUR, ..Plan::sends(10) }, 4 * HOUR);
}

#[test]
fn flows_of_a_guest_that_has_closed_and_forgotten_its_connections_end() {
    /// Fewer than the resets that the guest sends per second.
    const FLOWS: u32 = 10;
    let mut world = World::new(1);
    for number in 0..FLOWS {
        world.open(remote_end(number), Plan::sends(10), Remote::accepts(SILENT));
    }
    world.run_for(SECOND);
    assert_eq!(phases(&world), [Phase::HalfClosed; FLOWS as usize]);
    world.restart_guest();
    // Until the first probe, the flows cost no packet.
    world.run_for(118 * SECOND);
    assert_eq!(phases(&world), [Phase::HalfClosed; FLOWS as usize]);
    world.run_for(3 * SECOND);
    assert_eq!(phases(&world), []);
    assert!(world.host.results.values().all(|result| result.is_reset));
    world.run_for(HOUR);
    world.assert_nothing_is_left();
}

#[test]
fn a_half_closed_flow_of_a_guest_that_does_not_answer_ends_after_four_minutes() {
    let mut world = World::new(1);
    world.open(remote_end(1), Plan::sends(10), Remote::accepts(SILENT));
    world.run_for(SECOND);
    world.has_vanished = true;
    world.run_for(235 * SECOND);
    assert_eq!(phases(&world), [Phase::HalfClosed]);
    world.run_for(10 * SECOND);
    assert_eq!(phases(&world), []);
    assert!(world.host.results[&stream_of(remote_end(1))].is_reset);
    world.restart_guest();
    world.assert_nothing_is_left();
}

/// A client that has closed its connection, and a guest that answers neither the SYN nor, later, the
/// FIN. The figures are those of the documentation.
#[test]
fn a_flow_of_a_closed_client_to_a_guest_that_does_not_answer_ends() {
    for (answers_syn, seconds) in [(false, 170..190), (true, 500..560)] {
        let mut world = World::new(1);
        world.kernel.listen(8080);
        world.has_vanished = !answers_syn;
        let period = 5 * SECOND;
        let closes = Plan { share: 1, period, ..Plan::sends(1) };
        world.kernel.servers.insert(remote_end(1), SILENT);
        world.accept(remote_end(1), (GUEST, 8080).into(), Remote::accepts(closes)).unwrap();
        world.run_for(4 * SECOND);
        world.has_vanished = true;
        world.run_for(seconds.start * SECOND);
        assert_eq!(phases(&world).len(), 1, "{answers_syn}");
        world.run_for((seconds.end - seconds.start) * SECOND);
        assert_eq!(phases(&world), [], "{answers_syn}");
        assert!(world.host.results[&stream_of(remote_end(1))].is_reset);
    }
}

#[test]
fn a_flow_whose_remote_host_has_finished_is_half_closed_until_the_guest_finishes() {
    let mut world = World::new(1);
    let slow = Plan { ending: Ending::FinishAfterPeer, ..Plan::sends(5_000) };
    let slow = Plan { share: 1000, period: SECOND, ..slow };
    world.open(remote_end(1), slow, Remote::accepts(Plan::sends(0)));
    world.run_for(SECOND);
    assert_eq!(phases(&world), [Phase::HalfClosed]);
    world.run_for(HOUR);
    world.assert_nothing_is_left();
}

#[test]
fn a_flow_that_both_sides_have_finished_is_closing_while_data_waits_for_the_socket() {
    let mut world = World::new(1);
    let slow_reader = Plan { share: 1000, period: SECOND, ..Plan::sends(0) };
    let remote = Remote { capacity: 1000, ..Remote::accepts(slow_reader) };
    world.open(remote_end(1), Plan::sends(20_000), remote);
    world.run_for(SECOND);
    assert_eq!(phases(&world), [Phase::Closing]);
    world.run_for(HOUR);
    world.assert_nothing_is_left();
}
