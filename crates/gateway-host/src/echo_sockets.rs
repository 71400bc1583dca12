//! The host's ping sockets of echo flows.

use crate::poll::{Poll, Slot, Source};
use crate::socket_errors::{take_reports, unreachable};
use gateway::Guest;
use gateway::relay::Key;
use gateway::relay::host_errors::FlowError;
use net::Cx;
use net::internet::icmp::{ErrorKind, Unreachable};
use os::outbound::Outbound;
use os::ping_socket::{PingSocket, PingSocketError};
use rustix::event::epoll::EventFlags;
use std::net::{IpAddr, SocketAddr};
use std::task;

/// Length of the longest reply that is passed to a guest, in bytes.
const REPLY_MAX_BYTES: usize = 65_535;
/// Maximum number of replies that are read from a socket in a turn.
const BATCH: usize = 16;

/// The ping sockets of the echo flows of one guest, by the index of the flow.
#[derive(Debug, Default)]
pub(crate) struct EchoSockets {
    sockets: Vec<Option<(Key, PingSocket)>>,
}

impl EchoSockets {
    /// Sends a request from the socket of a flow. A failure is reported to the guest.
    pub(crate) fn send(
        &mut self,
        guest: &mut Guest,
        (number, flow): (usize, Key),
        destination: IpAddr,
        (message, hop_limit): (&[u8], u8),
        (outbound, poll): (&Outbound, &Poll),
        cx: &mut Cx<'_>,
    ) {
        if self.sockets.len() <= flow.index() {
            self.sockets.resize_with(flow.index() + 1, || None);
        }
        let Some(slot) = self.sockets.get_mut(flow.index()) else { return };
        let mut refusal = None;
        if slot.as_ref().is_none_or(|(known, _)| *known != flow) {
            let opened = PingSocket::open(destination.is_ipv4(), 0, outbound);
            if matches!(opened, Err(PingSocketError::NotPermitted)) {
                refusal = Some(Unreachable::Prohibited);
            }
            let source = Source::Echo(number, Slot::of(flow));
            *slot = opened
                .ok()
                .filter(|socket| poll.add(socket, source, EventFlags::IN).is_ok())
                .map(|socket| (flow, socket));
        }
        if let Some((_, socket)) = slot {
            // Without the guest's hop limit, the request still reaches its destination.
            _ = socket.set_hop_limit(hop_limit.max(1));
            match socket.send(message, destination) {
                task::Poll::Ready(Ok(())) => return,
                task::Poll::Ready(Err(error)) => refusal = unreachable(&error),
                task::Poll::Pending => {}
            }
        }
        if let Some(reason) = refusal {
            let to = SocketAddr::new(destination, 0);
            let kind = ErrorKind::Unreachable(reason);
            let error = FlowError { to, kind, reporter: None, payload: message };
            guest.echo_failed(flow, &error, cx);
        }
        guest.echo_unsent();
    }

    /// Passes the replies that a socket has received to the guest.
    pub(crate) fn receive(&self, guest: &mut Guest, slot: Slot, cx: &mut Cx<'_>) {
        let Some(Some((flow, socket))) = self.sockets.get(slot.index) else { return };
        if Slot::of(*flow) != slot {
            return;
        }
        let mut reply = vec![0; REPLY_MAX_BYTES];
        let next = |quoted: &mut [u8]| socket.error_report(quoted);
        take_reports(next, |error| guest.echo_failed(*flow, error, cx));
        for _ in 0..BATCH {
            let task::Poll::Ready(Ok((len, from))) = socket.receive(&mut reply) else { return };
            guest.echo_to_guest(*flow, from, reply.get(..len).unwrap_or_default(), cx);
        }
    }

    /// Closes the socket of a flow.
    pub(crate) fn remove(&mut self, flow: Key) {
        if let Some(slot) = self.sockets.get_mut(flow.index())
            && slot.as_ref().is_some_and(|(known, _)| *known == flow)
        {
            *slot = None;
        }
    }
}
