//! The host's ping sockets of echo flows.

use crate::poll::{Poll, Slot, Source};
use gateway::Guest;
use gateway::relay::Key;
use net::Cx;
use os::outbound::Outbound;
use os::ping_socket::PingSocket;
use rustix::event::epoll::EventFlags;
use std::net::IpAddr;
use std::task;

/// Length of the longest reply that is passed to a guest, in bytes.
const REPLY_MAX_BYTES: usize = 65_535;
/// Maximum number of replies that are read from a socket in a turn.
const BATCH: usize = 16;

/// The ping sockets of the echo flows of one guest, by the index of the flow.
#[derive(Debug, Default)]
pub(crate) struct EchoSockets {
    sockets: Vec<Option<(Key, PingSocket)>>,
    /// Requests dropped because the host permits no ping sockets, or a socket refused them.
    pub(crate) dropped: u64,
}

impl EchoSockets {
    /// Sends a request from the socket of a flow.
    pub(crate) fn send(
        &mut self,
        (number, flow): (usize, Key),
        destination: IpAddr,
        (message, hop_limit): (&[u8], u8),
        (outbound, poll): (&Outbound, &Poll),
    ) {
        if self.sockets.len() <= flow.index() {
            self.sockets.resize_with(flow.index() + 1, || None);
        }
        let Some(slot) = self.sockets.get_mut(flow.index()) else { return };
        if slot.as_ref().is_none_or(|(known, _)| *known != flow) {
            let opened = PingSocket::open(destination.is_ipv4(), 0, outbound).ok();
            let source = Source::Echo(number, Slot::of(flow));
            *slot = opened
                .filter(|socket| poll.add(socket, source, EventFlags::IN).is_ok())
                .map(|socket| (flow, socket));
        }
        let sent = slot.as_ref().is_some_and(|(_, socket)| {
            // Without the guest's hop limit, the request still reaches its destination.
            _ = socket.set_hop_limit(hop_limit.max(1));
            matches!(socket.send(message, destination), task::Poll::Ready(Ok(())))
        });
        self.dropped += u64::from(!sent);
    }

    /// Passes the replies that a socket has received to the guest.
    pub(crate) fn receive(&self, guest: &mut Guest, slot: Slot, cx: &mut Cx<'_>) {
        let Some(Some((flow, socket))) = self.sockets.get(slot.index) else { return };
        if Slot::of(*flow) != slot {
            return;
        }
        let mut reply = vec![0; REPLY_MAX_BYTES];
        // A pending error would wake the loop again and again.
        while socket.error_report(&mut []).is_some() {}
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
