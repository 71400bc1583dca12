//! One guest: its station, and its flows.

use crate::policy::Policy;
use crate::relay::{Key, echo_flows, tcp_flows, udp_flows};
use net::internet::{self, ipv4::Protocol};
use net::link::{self, Link};
use net::packet::Packet;
use net::station::{self, Application, Frame, Layers, Station, Step};
use net::transport::tcp::OpenError;
use net::{Cx, Instant};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of opens that wait for the gateway to look at them.
const DEFERRED_OPENS_MAX: usize = 256;
/// Maximum number of echo flows of a guest, and of new ones per second.
const ECHO_FLOWS_MAX: usize = 256;
const NEW_ECHO_FLOWS_PER_S: u32 = 100;

/// Settings of a guest.
#[derive(Debug)]
pub struct Settings {
    /// The MTU of the guest's device, in bytes.
    pub mtu: u16,
    /// The addresses of the gateway on the guest's network.
    pub addresses: Vec<IpAddr>,
    /// Settings of the station; its offloads are those of the guest's device.
    pub station: station::Settings,
    /// Which destinations the guest may reach.
    pub policy: Policy,
    /// Limits of TCP flows.
    pub tcp: tcp_flows::Limits,
    /// Limits of UDP flows.
    pub udp: udp_flows::Limits,
}

/// A task of the driver with sockets of the host.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// For a TCP flow.
    Tcp(tcp_flows::Event),
    /// For a UDP flow.
    Udp(udp_flows::Event),
    /// For an echo flow.
    Echo(echo_flows::Event),
}

/// The flows of a guest. The station runs them as its application.
#[derive(Debug)]
struct Relay {
    tcp: tcp_flows::Flows,
    udp: udp_flows::Flows,
    echo: echo_flows::Flows,
    policy: Policy,
}

/// One guest of the gateway.
#[derive(Debug)]
pub struct Guest {
    station: Station,
    relay: Relay,
}

impl Guest {
    /// Creates a guest whose device carries datagrams.
    #[must_use]
    pub fn new(settings: Settings, cx: &mut Cx<'_>) -> Self {
        let link = Link::Datagram(link::Datagram::new(settings.mtu.into()));
        let mut station = Station::new(link, settings.station, cx);
        for address in settings.addresses {
            let known = internet::addresses::Address::permanent(address, prefix_len(address));
            // The table has space for the few addresses of a gateway.
            _ = station.internet_mut().add_address(known);
        }
        station.internet_mut().set_transparent(true);
        station.layers.tcp.defer_opens(DEFERRED_OPENS_MAX);
        station.layers.tcp.set_connections_max(settings.tcp.flows.saturating_mul(2));
        let relay = Relay {
            tcp: tcp_flows::Flows::new(settings.tcp),
            udp: udp_flows::Flows::new(settings.udp),
            echo: echo_flows::Flows::new(ECHO_FLOWS_MAX, NEW_ECHO_FLOWS_PER_S),
            policy: settings.policy,
        };
        Self { station, relay }
    }

    /// Allocates an empty packet into which the driver reads a datagram.
    pub fn lend(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.station.lend(cx)
    }

    /// Returns an unused packet.
    pub fn take_back(&mut self, packet: Packet) {
        self.station.take_back(packet);
    }

    /// Processes a datagram from the device.
    pub fn receive_packet(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.station.receive_packet(packet, cx);
        self.relay.receive(&mut self.station.layers, cx);
    }

    /// Processes the consequences of received datagrams and of calls of the driver. Call before
    /// [`Self::event`] and [`Self::transmit_to`].
    pub fn run(&mut self, cx: &mut Cx<'_>) {
        // Calls of the driver can cause events too: a new connection may replace a starved one.
        self.station.step(Step::User, &mut self.relay, cx);
    }

    /// Passes all pending output to a device, as [`Station::transmit_to`] does.
    pub fn transmit_to(
        &mut self,
        device: &mut dyn FnMut(Frame<'_>, &mut Cx<'_>) -> bool,
        cx: &mut Cx<'_>,
    ) {
        self.station.transmit_to(device, cx);
    }

    /// Returns when [`Self::timeout`] has to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let relay = &self.relay;
        let deadlines = [self.station.deadline(), relay.udp.deadline(), relay.echo.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.station.deadline().is_some_and(|deadline| deadline <= cx.now) {
            self.station.step(Step::Timer, &mut self.relay, cx);
        }
        self.relay.udp.timeout(cx.now);
        self.relay.echo.timeout(cx.now);
    }

    /// Returns the next event for the driver.
    pub fn event(&mut self) -> Option<Event> {
        let Relay { tcp, udp, echo, .. } = &mut self.relay;
        let event = tcp.event().map(Event::Tcp);
        let event = event.or_else(|| udp.event().map(Event::Udp));
        event.or_else(|| echo.event().map(Event::Echo))
    }

    /// Returns the TCP flows.
    #[must_use]
    pub fn tcp(&self) -> &tcp_flows::Flows {
        &self.relay.tcp
    }

    /// Returns the UDP flows.
    #[must_use]
    pub fn udp(&self) -> &udp_flows::Flows {
        &self.relay.udp
    }

    /// Returns the UDP flows for modification.
    pub fn udp_mut(&mut self) -> &mut udp_flows::Flows {
        &mut self.relay.udp
    }

    /// Returns the echo flows.
    #[must_use]
    pub fn echo(&self) -> &echo_flows::Flows {
        &self.relay.echo
    }

    /// Returns the states of the TCP flows.
    pub fn tcp_statuses(&self) -> impl Iterator<Item = (Key, tcp_flows::Status)> + '_ {
        self.relay.tcp.statuses(&self.station.layers.tcp)
    }

    /// Opens a TCP flow to the guest; see [`tcp_flows::Flows::accept`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tcp_flows::Flows::accept`]. An address of the gateway is
    /// [`OpenError::BadRemote`].
    pub fn accept(
        &mut self,
        source: SocketAddr,
        guest: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Result<Key, OpenError> {
        if self.has_address(guest.ip()) {
            return Err(OpenError::BadRemote);
        }
        self.relay.tcp.accept(&mut self.station.layers.tcp, source, guest, cx)
    }

    /// Reports that the socket of a TCP flow is connected.
    pub fn connected(&mut self, flow: Key, cx: &mut Cx<'_>) {
        self.relay.tcp.connected(&mut self.station.layers.tcp, flow, cx);
    }

    /// Reports that the socket of a TCP flow could not be connected.
    pub fn connect_failed(&mut self, flow: Key, cx: &mut Cx<'_>) {
        self.relay.tcp.connect_failed(&mut self.station.layers.tcp, flow, cx);
    }

    /// Returns the next data of the guest for the socket of a TCP flow.
    #[must_use]
    pub fn to_host(&self, flow: Key) -> &[u8] {
        self.relay.tcp.to_host(&self.station.layers.tcp, flow)
    }

    /// Removes data that the socket of a TCP flow has accepted.
    pub fn accepted(&mut self, flow: Key, count: usize) {
        self.relay.tcp.accepted(&mut self.station.layers.tcp, flow, count);
    }

    /// Returns whether the socket of a TCP flow must be shut down for writing now.
    #[must_use]
    pub fn must_shut_down(&self, flow: Key) -> bool {
        self.relay.tcp.must_shut_down(&self.station.layers.tcp, flow)
    }

    /// Reports that the socket of a TCP flow is shut down for writing.
    pub fn shut_down(&mut self, flow: Key) {
        self.relay.tcp.shut_down(&mut self.station.layers.tcp, flow);
    }

    /// Returns the number of bytes that [`Self::to_guest`] accepts now.
    #[must_use]
    pub fn space(&self, flow: Key) -> usize {
        self.relay.tcp.space(&self.station.layers.tcp, flow)
    }

    /// Queues data from the socket of a TCP flow for the guest, and returns the number of accepted
    /// bytes.
    pub fn to_guest(&mut self, flow: Key, data: &[u8]) -> usize {
        self.relay.tcp.to_guest(&mut self.station.layers.tcp, flow, data)
    }

    /// Reports that the remote host of a TCP flow has finished.
    pub fn host_finished(&mut self, flow: Key) {
        self.relay.tcp.host_finished(&mut self.station.layers.tcp, flow);
    }

    /// Reports that the socket of a TCP flow has failed.
    pub fn host_reset(&mut self, flow: Key, cx: &mut Cx<'_>) {
        self.relay.tcp.host_reset(&mut self.station.layers.tcp, flow, cx);
    }

    /// Sends datagrams of `size` bytes that the socket of a UDP flow has received from `source` to
    /// the guest. Returns false if the guest's queue is full, and the datagrams are dropped.
    pub fn datagrams_to_guest(
        &mut self,
        flow: Key,
        source: SocketAddr,
        (data, size): (&[u8], u16),
        cx: &mut Cx<'_>,
    ) -> bool {
        let Some(ends) = self.relay.udp.from_host(flow, source, data.len()) else { return true };
        // A forward to an address of the gateway itself has no guest.
        if self.has_address(ends.1.ip()) {
            return true;
        }
        let sent = self.station.layers.send_between(ends, data, size, cx);
        !sent.is_pending()
    }

    /// Sends a reply that the socket of an echo flow has received from `source` to the guest.
    pub fn echo_to_guest(&mut self, flow: Key, source: IpAddr, message: &[u8], cx: &mut Cx<'_>) {
        let Some(reply) = self.relay.echo.from_host(flow, source, message) else { return };
        let is_v4 = reply.destination.is_ipv4();
        let protocol = if is_v4 { Protocol::Icmp } else { Protocol::ICMPV6 };
        let header = internet::Header {
            source: reply.source,
            ..internet::Header::to(reply.destination, protocol)
        };
        let layers = &mut self.station.layers;
        let Some(mut packet) = layers.pool.take(cx.meter) else { return };
        echo_flows::write_reply(&reply, &mut packet);
        layers.send_packet(packet, header, cx);
    }

    /// Returns whether `address` is an address of the gateway.
    fn has_address(&self, address: IpAddr) -> bool {
        self.station.layers.internet.addresses().contains(address)
    }

    /// Returns the number of packet buffers in use.
    #[must_use]
    pub fn packets_in_use(&self) -> usize {
        self.station.packets_in_use()
    }

    /// Returns the number of TCP connections in any state.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.station.layers.tcp.statuses().count()
    }
}

impl Relay {
    /// Processes received datagrams of other protocols than TCP.
    fn receive(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        while let Some(datagram) = layers.receive_raw() {
            match datagram.header.protocol {
                Protocol::Udp => {
                    let Layers { udp, pool, .. } = &mut *layers;
                    let Some(relayed) = udp.parse_relayed(datagram, pool, cx) else { continue };
                    self.udp.receive(&relayed, &self.policy, cx);
                    layers.pool.put(relayed.packet);
                }
                Protocol::Icmp | Protocol::ICMPV6 => {
                    self.echo.receive(&datagram, &self.policy, cx);
                    layers.pool.put(datagram.packet);
                }
                Protocol::Tcp | Protocol::Other(_) => layers.pool.put(datagram.packet),
            }
        }
    }
}

impl Application for Relay {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        self.receive(layers, cx);
        self.tcp.run(&mut layers.tcp, &self.policy, cx);
    }
}

fn prefix_len(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
