//! Tests of packet buffer exhaustion, a full link, and connections that end.

use super::*;
use crate::application::Stream;
use crate::cx::OwnedCx;
use crate::link::Datagram;
use crate::transport::tcp::{CloseReason, Profile, State};
use core::net::SocketAddr;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 23;

/// A stream that sends nothing, and closes after the peer has closed.
#[derive(Debug, Default)]
struct Silent {
    peer_has_closed: bool,
}

impl Stream for Silent {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, _data: &[u8], _cx: &mut Cx<'_>) {}

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &[]
    }

    fn sent(&mut self, _count: usize) {}

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.peer_has_closed = true;
    }

    fn is_closing(&self) -> bool {
        self.peer_has_closed
    }
}

/// A station with its scheduler.
struct Host {
    station: Station,
    scheduler: Scheduler,
    application: TcpStreamApp<Silent>,
    context: OwnedCx,
}

impl Host {
    fn new(address: Ipv4Addr, link: Datagram, opening: Opening) -> Self {
        let mut context = OwnedCx::default();
        let settings = Settings { address, prefix_len: 24, packets: 8, ..Settings::default() };
        let station = Station::new(Link::Datagram(link), settings, &mut context.cx());
        let application = TcpStreamApp::new(Silent::default(), opening, Profile::INTERACTIVE);
        Self { station, scheduler: Scheduler::default(), application, context }
    }

    fn listening(link: Datagram) -> Self {
        Self::new(THEIRS, link, Opening::Passive { port: PORT })
    }

    fn connecting(link: Datagram) -> Self {
        let remote = SocketAddr::new(THEIRS.into(), PORT);
        Self::new(OURS, link, Opening::Active { local: OURS.into(), remote })
    }

    fn run(&mut self) {
        self.scheduler.run(&mut self.station, &mut self.application, &mut self.context.cx());
    }

    /// Returns the next datagram for the wire, or an empty vector if no datagram is pending.
    fn transmit(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        self.station.transmit_into(&mut wire, usize::MAX, &mut self.context.cx());
        wire
    }

    fn receive_echo_request(&mut self, sequence: u16) {
        let mut context = OwnedCx::default();
        let mut internet = Internet::new(OURS, 24, 1500);
        let mut pool = Pool::new(1, 1500);
        let request = internet
            .make_echo_request(THEIRS.into(), 1, sequence, 8, &mut pool, &mut context.cx())
            .unwrap()
            .unwrap();
        self.station.receive(request.data(), &mut self.context.cx());
    }
}

/// Runs both hosts and exchanges their datagrams until no datagram is pending.
fn exchange_all(a: &mut Host, b: &mut Host) {
    loop {
        a.run();
        b.run();
        let from_a = a.transmit();
        let from_b = b.transmit();
        if from_a.is_empty() && from_b.is_empty() {
            return;
        }
        b.station.receive(&from_a, &mut b.context.cx());
        a.station.receive(&from_b, &mut a.context.cx());
    }
}

/// Returns the network and send steps that `scheduler` runs after two echo requests have arrived.
fn steps_after_two_requests(scheduler: Scheduler) -> Vec<Step> {
    let mut host = Host { scheduler, ..Host::listening(Datagram::new(1500)) };
    host.run();
    host.receive_echo_request(1);
    host.receive_echo_request(2);
    let mut next = || {
        let station = &mut host.station;
        let application = &mut host.application;
        host.scheduler.run_one(station, application, &mut host.context.cx())
    };
    core::iter::from_fn(&mut next).filter(|step| *step != Step::User).collect()
}

#[test]
fn all_input_is_processed_before_anything_is_answered() {
    let steps = steps_after_two_requests(Scheduler::default());
    assert_eq!(steps, [Step::Network, Step::Network, Step::Send]);
}

#[test]
fn an_early_answer_is_sent_while_one_datagram_is_left() {
    let steps = steps_after_two_requests(Scheduler::answering_early());
    assert_eq!(steps, [Step::Network, Step::Send, Step::Network, Step::Send]);
}

#[test]
fn a_sent_buffer_is_reclaimed_before_anything_else() {
    let mut host = Host::listening(Datagram::new(1500));
    host.receive_echo_request(1);
    host.run();
    assert_eq!(host.station.packets_in_use(), 1);
    assert!(!host.transmit().is_empty());
    assert_eq!(host.station.packets_in_use(), 0);
}

#[test]
fn output_blocked_by_a_full_link_is_sent_when_the_link_has_space() {
    let mut host = Host::listening(Datagram::with_queue_limit(1500, 1));
    // The used queue has space for one packet, so the packets arrive one after the other.
    for sequence in 1..=3 {
        host.receive_echo_request(sequence);
        host.run();
    }
    let mut replies = 0;
    while !host.transmit().is_empty() {
        replies += 1;
        host.run();
    }
    assert_eq!((replies, host.station.packets_in_use()), (3, 0));
    assert_eq!(host.context.counted(Counter::LinkPacketsDropped), 0);
}

#[test]
fn a_segment_queued_outside_of_the_steps_is_sent_by_the_next_step() {
    let mut host = Host::listening(Datagram::new(1500));
    host.run();
    for port in [1, 2] {
        let remote = SocketAddr::new(OURS.into(), port);
        let cx = &mut host.context.cx();
        let tcp = &mut host.station.layers.tcp;
        tcp.open(THEIRS.into(), remote, Profile::INTERACTIVE, cx).unwrap();
        host.run();
        assert!(!host.transmit().is_empty());
    }
}

#[test]
fn a_datagram_too_long_for_the_link_does_not_block_later_datagrams() {
    let mut host = Host::connecting(Datagram::new(50));
    host.run();
    assert_eq!(host.context.counted(Counter::LinkPacketsTooLong), 1);
    assert_eq!((host.station.packets_in_use(), host.station.has_output()), (0, false));
}

#[test]
fn an_ended_connection_is_released_and_its_final_state_is_stored() {
    let mut user = Host::connecting(Datagram::new(1500));
    let mut idle_application = Host::listening(Datagram::new(1500));
    idle_application.application.set_opening(Opening::Passive { port: PORT + 1 });
    exchange_all(&mut user, &mut idle_application);
    assert_eq!(user.application.close_reason(), Some(CloseReason::Refused));
    let status = user.application.status(&user.station.layers).unwrap();
    assert_eq!((status.state, status.close_reason), (State::Closed, Some(CloseReason::Refused)));
    assert_eq!(user.station.layers.tcp.status(user.application.connection.unwrap()).ok(), None);
}

#[test]
fn an_aborted_connection_is_closed_immediately_and_resets_the_peer() {
    let mut user = Host::connecting(Datagram::new(1500));
    let mut server = Host::listening(Datagram::new(1500));
    exchange_all(&mut user, &mut server);
    assert!(user.application.is_open() && server.application.is_open());
    user.application.abort_unless_closed(&mut user.station.layers, &mut user.context.cx());
    assert_eq!(user.application.close_reason(), Some(CloseReason::Aborted));
    exchange_all(&mut user, &mut server);
    assert_eq!(server.application.close_reason(), Some(CloseReason::Reset));
}

#[test]
fn a_second_connection_is_refused() {
    let mut user = Host::connecting(Datagram::new(1500));
    let mut server = Host::listening(Datagram::new(1500));
    exchange_all(&mut user, &mut server);
    let mut second = Host::connecting(Datagram::new(1500));
    second.context = OwnedCx::with_seed(2);
    exchange_all(&mut second, &mut server);
    assert_eq!(second.application.close_reason(), Some(CloseReason::Refused));
    assert_eq!(server.application.close_reason(), None);
}

#[test]
fn the_opening_does_not_change_after_the_connection_was_opened() {
    let mut user = Host::connecting(Datagram::new(1500));
    let mut server = Host::listening(Datagram::new(1500));
    exchange_all(&mut user, &mut server);
    user.application.set_opening(Opening::Passive { port: PORT });
    assert!(!user.application.wants_to_run());
}

// req RFC9293:MUST-44
#[test]
fn an_open_without_a_local_address_uses_the_source_address_of_the_route() {
    let remote = SocketAddr::new(THEIRS.into(), PORT);
    let opening = Opening::Active { local: Ipv4Addr::UNSPECIFIED.into(), remote };
    let mut host = Host::new(OURS, Datagram::new(1500), opening);
    host.run();
    let syn = host.transmit();
    let source = syn.get(12..16).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    assert_eq!(source.map(Ipv4Addr::from), Some(OURS));
}

/// An application that does nothing: the test calls the layers itself.
struct IdleApplication;

impl Application for IdleApplication {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut Layers, _cx: &mut Cx<'_>) {}
}

#[test]
fn a_connection_of_a_station_to_itself_loses_no_data() {
    let mut context = OwnedCx::default();
    let settings = Settings { address: THEIRS, prefix_len: 24, packets: 64, ..Settings::default() };
    let link = Link::Datagram(Datagram::new(1500));
    let mut station = Station::new(link, settings, &mut context.cx());
    let mut scheduler = Scheduler::default();
    station.layers.tcp.listen(PORT, Profile::BULK).unwrap();
    let addresses = (THEIRS.into(), SocketAddr::new(THEIRS.into(), PORT));
    let user = station
        .layers
        .tcp
        .open(addresses.0, addresses.1, Profile::BULK, &mut context.cx())
        .unwrap();
    let data = [7; 200_000];
    let mut server = None;
    let mut received = 0;
    station.layers.tcp.send(user, &data).unwrap();
    while received < data.len() {
        scheduler.run(&mut station, &mut IdleApplication, &mut context.cx());
        while let Some((id, _)) = station.layers.tcp.event() {
            server = server.or(Some(id).filter(|id| *id != user));
        }
        let Some(server) = server else { continue };
        let count = station.layers.tcp.received(server).unwrap().len();
        station.layers.tcp.consume(server, count).unwrap();
        received += count;
        if count == 0 {
            context.now = station.deadline().expect("something is still to happen");
        }
    }
    let status = station.layers.tcp.status(user).unwrap();
    assert_eq!(status.statistics.retransmissions, 0);
    assert_eq!(context.counted(Counter::IpOutputDropped), 0);
}
