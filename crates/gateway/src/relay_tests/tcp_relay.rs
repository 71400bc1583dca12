//! TCP flows: data, half-close, reset, refusal, and guests and hosts that stop.

use super::host_sockets::{Answer, CONNECT_TIMEOUT, Remote};
use super::kernel::{GUEST, GUEST_V6, stream_of};
use super::program::{Ending, Plan};
use super::world::{Wire, World, remote_end, settings};
use crate::Settings;
use crate::relay::tcp_flows::{Counters, Limit, Limits, Phase};
use net::time::Duration;
use net::transport::tcp::{CloseReason, OpenError};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Longer than all timers of a flow together.
const DAY: Duration = Duration::from_secs(86_400);
const MEGABYTE: u64 = 1 << 20;

/// Runs the only flow to its end, and checks that both programs got everything.
fn assert_complete(mut world: World, remote: SocketAddr) {
    world.run_for(DAY);
    let counters = world.guest.tcp().counters();
    let (sent, received) = world.kernel.results[&stream_of(remote)].program.counts();
    assert_eq!((counters.bytes_to_host, counters.bytes_to_guest), (sent, received));
    assert_complete_after(world, remote);
}

/// Runs all flows to their end, and checks that both programs of one flow got everything.
fn assert_complete_after(mut world: World, remote: SocketAddr) {
    world.run_for(DAY);
    let stream = stream_of(remote);
    let guest = &world.kernel.results[&stream];
    let host = &world.host.results[&stream];
    assert!(guest.program.is_complete() && host.program.is_complete(), "{guest:?} {host:?}");
    assert_eq!((guest.reason, host.is_reset), (Some(CloseReason::Closed), false));
    let (sent, received) = guest.program.counts();
    assert_eq!(host.program.counts(), (received, sent));
    assert_eq!(sent, guest.program.plan.to_send);
    assert_eq!(received, host.program.plan.to_send);
    world.assert_nothing_is_left();
}

fn run(guest: Plan, host: Remote) {
    let mut world = World::new(1);
    world.open(remote_end(1), guest, host);
    assert_complete(world, remote_end(1));
}

/// Returns a plan with limits, which reads and sends slowly.
fn slow(to_send: u64) -> Plan {
    Plan { share: 7000, ..Plan::sends(to_send) }
}

#[test]
fn a_flow_carries_both_directions_at_once() {
    run(Plan::sends(3 * MEGABYTE), Remote::accepts(Plan::sends(2 * MEGABYTE)));
}

#[test]
fn a_flow_without_data_opens_and_closes() {
    run(Plan::sends(0), Remote::accepts(Plan::sends(0)));
}

#[test]
fn a_flow_carries_data_over_a_link_with_loss_duplication_and_reordering() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        let jitter = Duration::from_millis(3);
        world.wire = Wire { jitter, loss_ppm: 30_000, duplication_ppm: 20_000, ..Wire::default() };
        world.open(remote_end(1), Plan::sends(200_000), Remote::accepts(Plan::sends(300_000)));
        assert_complete(world, remote_end(1));
    }
}

#[test]
fn a_flow_to_an_ipv6_host_carries_data() {
    let remote: SocketAddr = "[2001:db8::7]:80".parse().unwrap();
    let mut world = World::new(1);
    world.open(remote, Plan::sends(100_000), Remote::accepts(Plan::sends(50_000)));
    assert_complete(world, remote);
}

#[test]
fn the_guest_finishes_first_and_then_receives_the_answer() {
    let answer = Plan { ending: Ending::FinishAfterPeer, ..slow(100_000) };
    run(Plan::sends(10_000), Remote::accepts(answer));
}

#[test]
fn the_remote_host_finishes_first_and_then_receives_the_upload() {
    let upload = Plan { ending: Ending::FinishAfterPeer, ..slow(100_000) };
    run(upload, Remote::accepts(Plan::sends(10_000)));
}

/// The guest's connection ends when both FINs are acknowledged. The rest of the data then waits for
/// the socket.
#[test]
fn data_that_waits_for_the_socket_when_both_sides_have_finished_is_delivered() {
    let host = Remote { capacity: 10_000, ..Remote::accepts(slow(0)) };
    run(Plan::sends(200_000), host);
}

#[test]
fn data_that_waits_for_the_socket_longer_than_time_wait_is_delivered() {
    let plan = Plan { share: 1000, period: Duration::from_secs(1), ..Plan::sends(0) };
    let late = Plan { to_send: 200_000, share: 100_000, ..Plan::sends(0) };
    run(late, Remote { capacity: 1000, ..Remote::accepts(plan) });
}

#[test]
fn data_for_a_guest_that_reads_slowly_is_delivered_after_the_flow_has_ended() {
    run(slow(0), Remote::accepts(Plan::sends(300_000)));
}

#[test]
fn a_port_that_is_used_again_during_time_wait_gets_a_new_flow_and_the_old_data_is_delivered() {
    let mut world = World::new(1);
    let remote = remote_end(1);
    let slow_reader = Plan { share: 1000, period: Duration::from_secs(1), ..Plan::sends(0) };
    let host = Remote { capacity: 1000, ..Remote::accepts(slow_reader) };
    world.host.remotes.insert(remote, host);
    // The remote host finishes first, so that the gateway's connection is in TIME-WAIT.
    world.kernel.open(
        5000,
        remote,
        Plan { ending: Ending::FinishAfterPeer, ..Plan::sends(20_000) },
    );
    world.settle();
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.kernel.results[&stream_of(remote)].reason, Some(CloseReason::Closed));
    assert_eq!(world.guest.tcp().len(), 1, "the remote host still reads");

    world.host.remotes.insert(remote, Remote::accepts(Plan::sends(77)));
    world.kernel.open(5000, remote, Plan::sends(99));
    world.settle();
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.host.connects, 2);
    assert_eq!(world.host.results[&stream_of(remote)].program.counts(), (77, 99));

    world.run_for(DAY);
    assert_eq!(world.kernel.results[&stream_of(remote)].program.counts(), (99, 77));
    assert_eq!(world.host.results[&stream_of(remote)].program.counts(), (0, 20_000));
    world.assert_nothing_is_left();
}

#[test]
fn data_that_waits_for_the_socket_is_delivered_if_the_connection_in_time_wait_is_evicted() {
    let mut world = limited(Limits { flows: 2, ..Limits::default() });
    let plan = Plan { share: 1000, period: Duration::from_secs(1), ..Plan::sends(0) };
    let upload = Plan { ending: Ending::FinishAfterPeer, ..Plan::sends(20_000) };
    world.open(remote_end(1), upload, Remote { capacity: 1000, ..Remote::accepts(plan) });
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.guest.connections().count(), 1);
    // The limit of connections is twice that of flows.
    for number in 2..8 {
        let last = Plan { ending: Ending::FinishAfterPeer, ..Plan::sends(1) };
        world.open(remote_end(number), last, Remote::accepts(Plan::sends(1)));
        world.run_for(Duration::from_millis(100));
    }
    // Four connections, and the evicted one, which exists until its flow ends.
    assert_eq!(world.guest.connections().count(), 5);
    assert_eq!(world.kernel.results.len(), 7);
    assert_complete_after(world, remote_end(1));
}

#[test]
fn a_reset_of_the_guest_resets_the_socket() {
    let mut world = World::new(1);
    let plan = Plan { ending: Ending::Reset(1000), ..Plan::sends(1000) };
    let endless = Plan { ending: Ending::Stay, ..Plan::sends(10) };
    world.open(remote_end(1), plan, Remote::accepts(endless));
    world.run_for(Duration::from_secs(1));
    assert!(world.host.results[&stream_of(remote_end(1))].is_reset);
    world.run_for(DAY);
    world.assert_nothing_is_left();
}

#[test]
fn a_reset_of_the_remote_host_resets_the_guest() {
    let mut world = World::new(1);
    let plan = Plan { ending: Ending::Reset(10), ..Plan::sends(0) };
    let endless = Plan { ending: Ending::Stay, ..Plan::sends(10) };
    world.open(remote_end(1), endless, Remote::accepts(plan));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.kernel.results[&stream_of(remote_end(1))].reason, Some(CloseReason::Reset));
    world.run_for(DAY);
    world.assert_nothing_is_left();
}

#[test]
fn a_refused_connect_refuses_the_guest() {
    let mut world = World::new(1);
    let host = Remote { answer: Answer::Refuses, ..Remote::accepts(Plan::sends(0)) };
    world.open(remote_end(1), Plan::sends(10), host);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.kernel.results[&stream_of(remote_end(1))].reason, Some(CloseReason::Refused));
    let counters = Counters { outgoing: 1, failed: 1, ..Counters::default() };
    assert_eq!(world.guest.tcp().counters(), counters);
    world.assert_nothing_is_left();
}

#[test]
fn a_connect_without_a_descriptor_refuses_the_guest_and_is_counted_for_itself() {
    let mut world = World::new(1);
    let host = Remote { answer: Answer::HasNoDescriptor, ..Remote::accepts(Plan::sends(0)) };
    world.open(remote_end(1), Plan::sends(10), host);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.kernel.results[&stream_of(remote_end(1))].reason, Some(CloseReason::Refused));
    let counters = Counters { outgoing: 1, no_descriptor: 1, ..Counters::default() };
    assert_eq!(world.guest.tcp().counters(), counters);
    world.assert_nothing_is_left();
}

#[test]
fn the_guest_gets_no_answer_while_the_remote_host_does_not_answer() {
    let mut world = World::new(1);
    let host = Remote { answer: Answer::Never, ..Remote::accepts(Plan::sends(0)) };
    world.open(remote_end(1), Plan::sends(10), host);
    world.run_for(CONNECT_TIMEOUT - Duration::from_secs(1));
    assert_eq!(world.guest.tcp_statuses(world.now).next().unwrap().1.phase, Phase::Connecting);
    assert_eq!(world.guest.tcp_statuses(world.now).next().unwrap().1.limit, Limit::Opening);
    // The guest's retransmissions cause no further connects.
    assert_eq!((world.host.connects, world.guest.tcp().len()), (1, 1));
    world.run_for(DAY);
    assert!(world.kernel.is_idle());
    world.assert_nothing_is_left();
}

#[test]
fn the_flows_of_a_guest_that_has_vanished_end() {
    let mut world = World::new(1);
    let stay = Plan { ending: Ending::Stay, ..Plan::sends(1000) };
    for number in 0..50 {
        world.open(remote_end(number), stay, Remote::accepts(stay));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.guest.tcp().len(), 50);
    world.has_vanished = true;
    world.restart_guest();
    world.run_for(Duration::from_secs(3600));
    assert!(world.host.results.values().all(|result| result.is_reset));
    world.assert_nothing_is_left();
}

#[test]
fn the_flows_of_a_guest_that_is_gone_are_reset_at_once() {
    let mut world = World::new(1);
    let stay = Plan { ending: Ending::Stay, ..Plan::sends(1000) };
    world.open(remote_end(1), stay, Remote::accepts(stay));
    let silent = Remote { answer: Answer::Never, ..Remote::accepts(stay) };
    world.open(remote_end(2), stay, silent);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.guest.tcp().len(), 2);
    world.has_vanished = true;
    world.restart_guest();
    world.guest.end_flows(&mut world.context.cx());
    world.settle();
    assert!(world.host.results[&stream_of(remote_end(1))].is_reset);
    world.assert_nothing_is_left();
}

#[test]
fn a_restarted_guest_resets_its_old_flows_when_the_remote_host_sends() {
    let mut world = World::new(1);
    let trickle = Plan { share: 1, period: Duration::from_secs(1), ..Plan::sends(1000) };
    let stay = Plan { ending: Ending::Stay, ..Plan::sends(0) };
    world.open(remote_end(1), stay, Remote::accepts(trickle));
    world.run_for(Duration::from_secs(3));
    world.restart_guest();
    world.run_for(Duration::from_secs(5));
    assert!(world.host.results[&stream_of(remote_end(1))].is_reset);
    world.assert_nothing_is_left();
}

#[test]
fn a_remote_host_that_does_not_read_stops_the_guest_at_its_window() {
    let mut world = World::new(1);
    let stubborn = Plan { reads: false, ending: Ending::Stay, ..Plan::sends(0) };
    let host = Remote { capacity: 1000, ..Remote::accepts(stubborn) };
    let id = world.open(remote_end(1), Plan::sends(100 * MEGABYTE), host);
    world.run_for(Duration::from_secs(600));
    let (sent, _) = world.kernel.counts(id);
    // The window of the gateway and the guest's send buffer.
    assert!(sent < 4 * MEGABYTE, "{sent}");
    let status = world.guest.tcp_statuses(world.now).next().unwrap().1;
    assert_eq!((status.limit, status.bytes_to_host), (Limit::RemoteHost, 1000));
    assert!(world.packets_max < 256, "{}", world.packets_max);
}

#[test]
fn a_guest_that_does_not_read_stops_the_remote_host() {
    let mut world = World::new(1);
    let stubborn = Plan { reads: false, ending: Ending::Stay, ..Plan::sends(0) };
    world.open(remote_end(1), stubborn, Remote::accepts(Plan::sends(100 * MEGABYTE)));
    world.run_for(Duration::from_secs(600));
    let (flow, status) = world.guest.tcp_statuses(world.now).next().unwrap();
    assert_eq!(status.limit, Limit::Guest);
    assert!(world.host.counts(flow).0 < 4 * MEGABYTE, "{status:?}");
}

fn client(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, number)), 40_000)
}

#[test]
fn an_incoming_flow_carries_data_and_the_guest_sees_the_client() {
    let mut world = World::new(1);
    world.kernel.listen(8080);
    world.kernel.servers.insert(client(1), Plan::sends(30_000));
    world.accept(client(1), (GUEST, 8080).into(), Remote::accepts(Plan::sends(20_000))).unwrap();
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.guest.tcp().counters().incoming, 1);
    assert_complete(world, client(1));
}

#[test]
fn an_incoming_flow_to_an_ipv6_guest_carries_data() {
    let mut world = World::new(1);
    world.kernel.listen(8080);
    let source: SocketAddr = "[2001:db8::9]:4000".parse().unwrap();
    world.kernel.servers.insert(source, Plan::sends(3000));
    world.accept(source, (GUEST_V6, 8080).into(), Remote::accepts(Plan::sends(2000))).unwrap();
    assert_complete(world, source);
}

/// A client that sends its request and finishes at once, such as `nc -N`.
#[test]
fn a_client_that_finishes_before_the_guest_has_answered_is_served() {
    let mut world = World::new(1);
    world.kernel.listen(8080);
    let answer = Plan { ending: Ending::FinishAfterPeer, ..Plan::sends(5000) };
    world.kernel.servers.insert(client(1), answer);
    world.wire.delay = Duration::from_millis(200);
    world.accept(client(1), (GUEST, 8080).into(), Remote::accepts(Plan::sends(300))).unwrap();
    assert_complete(world, client(1));
}

#[test]
fn an_incoming_flow_that_the_guest_refuses_resets_the_client() {
    let mut world = World::new(1);
    world.accept(client(1), (GUEST, 8080).into(), Remote::accepts(Plan::sends(0))).unwrap();
    world.run_for(Duration::from_secs(1));
    assert!(world.host.results[&stream_of(client(1))].is_reset);
    world.assert_nothing_is_left();
}

#[test]
fn an_incoming_flow_to_a_vanished_guest_ends() {
    let mut world = World::new(1);
    world.has_vanished = true;
    world.accept(client(1), (GUEST, 8080).into(), Remote::accepts(Plan::sends(0))).unwrap();
    world.run_for(DAY);
    assert!(world.host.results[&stream_of(client(1))].is_reset);
    world.assert_nothing_is_left();
}

#[test]
fn two_clients_with_one_source_reach_the_guest_from_different_ports() {
    let mut world = World::new(1);
    world.kernel.listen(8080);
    let guest = (GUEST, 8080).into();
    let stay = Remote::accepts(Plan { ending: Ending::Stay, ..Plan::sends(0) });
    let flows = [0, 1].map(|_| world.accept(client(1), guest, stay).unwrap());
    world.run_for(Duration::from_secs(1));
    assert_ne!(flows[0], flows[1]);
    let phases: Vec<_> =
        world.guest.tcp_statuses(world.now).map(|(_, status)| status.phase).collect();
    // The program of the guest finishes at once.
    assert_eq!(phases, [Phase::HalfClosed; 2]);
    let ends: Vec<_> =
        world.guest.tcp_statuses(world.now).map(|(_, status)| status.remote).collect();
    assert_eq!((ends[0], ends[1].ip()), (client(1), client(1).ip()));
    assert_ne!(ends[0].port(), ends[1].port());
}

#[test]
fn a_flow_to_an_address_of_the_gateway_is_not_accepted() {
    let mut world = World::new(1);
    let own = (super::world::GATEWAY, 80).into();
    let result = world.accept(client(1), own, Remote::accepts(Plan::sends(0)));
    assert_eq!(result, Err(OpenError::BadRemote));
    world.assert_nothing_is_left();
}

fn limited(limits: Limits) -> World {
    World::with(1, Settings { tcp: limits, ..settings() })
}

#[test]
fn opens_above_the_limit_of_flows_are_refused() {
    let mut world = limited(Limits { flows: 3, ..Limits::default() });
    let stay = Plan { ending: Ending::Stay, ..Plan::sends(0) };
    for number in 0..5 {
        world.open(remote_end(number), stay, Remote::accepts(stay));
    }
    world.run_for(Duration::from_secs(1));
    let refused = world.kernel.results.values().map(|result| result.reason);
    assert_eq!(refused.collect::<Vec<_>>(), [Some(CloseReason::Refused); 2]);
    let counters = world.guest.tcp().counters();
    assert_eq!((counters.outgoing, counters.over_limit, world.guest.tcp().len()), (3, 2, 3));
    let more = world.accept(client(1), (GUEST, 8080).into(), Remote::accepts(stay));
    assert_eq!(more, Err(OpenError::TooMany));
    assert_eq!(world.guest.tcp().counters().over_limit, 3);
}

#[test]
fn flows_to_forwarded_ports_use_at_most_half_of_the_table() {
    let mut world = limited(Limits { flows: 5, ..Limits::default() });
    world.kernel.listen(8080);
    let stay = Plan { ending: Ending::Stay, ..Plan::sends(0) };
    let mut results = Vec::new();
    for number in 0..4 {
        world.kernel.servers.insert(client(number), stay);
        let result = world.accept(client(number), (GUEST, 8080).into(), Remote::accepts(stay));
        results.push(result.is_ok());
    }
    assert_eq!(results, [true, true, false, false]);
    for number in 0..3 {
        world.open(remote_end(number), stay, Remote::accepts(stay));
    }
    world.run_for(Duration::from_secs(1));
    let counters = world.guest.tcp().counters();
    assert_eq!((counters.incoming, counters.outgoing, counters.over_limit), (2, 3, 2));
    // The place of a flow that has ended is free again.
    world.restart_guest();
    world.run_for(DAY);
    assert!(world.guest.tcp().is_empty());
    let more = world.accept(client(9), (GUEST, 8080).into(), Remote::accepts(stay));
    assert!(more.is_ok());
}

#[test]
fn opens_above_the_rate_are_delayed_by_the_retransmission_of_the_guest() {
    let mut world = limited(Limits { new_per_s: 2, ..Limits::default() });
    for number in 0..10 {
        world.open(remote_end(number), Plan::sends(1), Remote::accepts(Plan::sends(1)));
    }
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.host.connects, 4);
    assert!(world.guest.tcp().counters().over_rate >= 6);
    world.run_for(DAY);
    assert_eq!(world.host.connects, 10);
    assert_eq!(world.kernel.results.len(), 10);
    world.assert_nothing_is_left();
}

/// The SYN of the second attempt has another sequence number, because the first program has ended.
#[test]
fn a_guest_that_retries_from_the_same_port_during_the_connect_is_connected() {
    let mut world = World::new(1);
    let host = Remote { delay: Duration::from_secs(5), ..Remote::accepts(Plan::sends(5)) };
    world.host.remotes.insert(remote_end(1), host);
    world.kernel.open(5000, remote_end(1), Plan::sends(5));
    world.settle();
    world.run_for(Duration::from_secs(1));
    world.restart_guest();
    world.run_for(Duration::from_secs(1));
    world.kernel.open(5000, remote_end(1), Plan::sends(5));
    world.settle();
    assert_complete(world, remote_end(1));
}
