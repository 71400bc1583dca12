//! Failures of the host's sockets, as the guest sees them.

use super::{Guest, Relay};
use crate::relay::Key;
use crate::relay::host_errors::{self, FlowError, Quotation};
use net::Cx;
use net::internet::icmp::{ErrorKind, Unreachable};
use net::internet::ipv4::Protocol;
use net::station::Layers;
use std::net::{IpAddr, SocketAddr};

/// Reasons why a socket could not be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The remote host has refused the connection: the guest's SYN is answered by a reset.
    Refused,
    /// The gateway has no descriptor for a socket: the guest's SYN is answered by a reset.
    NoDescriptor,
    /// The remote host cannot be reached: the guest receives an ICMP error.
    Unreachable(Unreachable),
}

impl Guest {
    /// Returns the counters of ICMP errors.
    #[must_use]
    pub fn error_counters(&self) -> host_errors::Counters {
        self.relay.errors.counters()
    }

    /// Reports that the socket of a TCP flow could not be connected.
    pub fn connect_failed(&mut self, flow: Key, failure: ConnectFailure, cx: &mut Cx<'_>) {
        let Self { station, relay, .. } = self;
        let layers = &mut station.layers;
        let is_for_descriptor = failure == ConnectFailure::NoDescriptor;
        let failed = relay.tcp.connect_failed(&mut layers.tcp, flow, is_for_descriptor);
        let Some(open) = failed else { return };
        let ConnectFailure::Unreachable(reason) = failure else {
            return layers.tcp.refuse_deferred(&open, cx);
        };
        let guest = open.remote();
        let remote = open.local();
        let mut header = [0; 8];
        let [s0, s1] = guest.port().to_be_bytes();
        let [d0, d1] = remote.port().to_be_bytes();
        let [n0, n1, n2, n3] = open.sequence_number().to_be_bytes();
        header.copy_from_slice(&[s0, s1, d0, d1, n0, n1, n2, n3]);
        let about = Quotation {
            source: guest.ip(),
            destination: remote.ip(),
            protocol: Protocol::Tcp,
            header: &header,
            payload: &[],
        };
        relay.report(ErrorKind::Unreachable(reason), None, &about, layers, cx);
        self.collect_output(cx);
    }

    /// Reports that a datagram of a UDP flow was not delivered.
    pub fn datagram_failed(&mut self, flow: Key, error: &FlowError<'_>, cx: &mut Cx<'_>) {
        let Some(ends) = self.relay.udp.failed(flow, error.to) else { return };
        self.report_datagram(ends, error, cx);
    }

    /// Reports that a datagram from the socket of a forward was not delivered.
    pub fn forwarded_datagram_failed(
        &mut self,
        forward: u32,
        error: &FlowError<'_>,
        cx: &mut Cx<'_>,
    ) {
        let flow = self.relay.udp.flow_of_client(forward, error.to);
        if let Some(flow) = flow {
            self.datagram_failed(flow, error, cx);
        }
    }

    fn report_datagram(
        &mut self,
        (guest, remote): (SocketAddr, SocketAddr),
        error: &FlowError<'_>,
        cx: &mut Cx<'_>,
    ) {
        let header = host_errors::udp_header(guest.port(), remote.port(), error.payload.len());
        let about = Quotation {
            source: guest.ip(),
            destination: remote.ip(),
            protocol: Protocol::Udp,
            header: &header,
            payload: error.payload,
        };
        self.report(&about, error, cx);
    }

    /// Reports that an echo request was not delivered.
    pub fn echo_failed(&mut self, flow: Key, error: &FlowError<'_>, cx: &mut Cx<'_>) {
        let failed = self.relay.echo.failed(flow, error.to.ip(), error.payload);
        let Some((source, destination, message)) = failed else { return };
        let protocol = if source.is_ipv4() { Protocol::Icmp } else { Protocol::ICMPV6 };
        let about = Quotation { source, destination, protocol, header: &[], payload: &message };
        self.report(&about, error, cx);
    }

    /// Counts an echo request that the host did not send.
    pub fn echo_unsent(&mut self) {
        self.relay.echo.count_unsent();
    }

    fn report(&mut self, about: &Quotation<'_>, error: &FlowError<'_>, cx: &mut Cx<'_>) {
        let kind = host_errors::translate(error.kind, error.to.ip(), about.source);
        // The guest knows the destination by the address that it has used.
        let reporter = error
            .reporter
            .map(|reporter| if reporter == error.to.ip() { about.destination } else { reporter });
        let Self { station, relay, .. } = self;
        relay.report(kind, reporter, about, &mut station.layers, cx);
        self.collect_output(cx);
    }
}

impl Relay {
    /// Sends an ICMP error to the guest: from `reporter`, if the guest can have received one from
    /// it, and otherwise from the gateway.
    pub(super) fn report(
        &mut self,
        kind: ErrorKind,
        reporter: Option<IpAddr>,
        about: &Quotation<'_>,
        layers: &mut Layers,
        cx: &mut Cx<'_>,
    ) {
        let is_v4 = about.source.is_ipv4();
        let is_usable = |reporter: &IpAddr| {
            reporter.is_ipv4() == is_v4 && !reporter.is_loopback() && !reporter.is_unspecified()
        };
        let own = self.gateways.iter().find(|address| address.is_ipv4() == is_v4).copied();
        if let Some(reporter) = reporter.filter(is_usable).or(own) {
            self.errors.send(kind, reporter, about, layers, cx);
        }
    }
}
