//! The host's sockets of UDP flows.

use crate::forward_sockets::ForwardSockets;
use crate::poll::{Poll, Slot, Source};
use gateway::Guest;
use gateway::relay::Key;
use net::Cx;
use os::datagram::{DatagramSocket, Inbox};
use os::outbound::Outbound;
use rustix::event::epoll::EventFlags;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::Poll as Progress;

/// The sockets of the UDP flows of one guest, by the index of the flow.
#[derive(Debug, Default)]
pub(crate) struct UdpSockets {
    sockets: Vec<Option<(Key, DatagramSocket)>>,
}

impl UdpSockets {
    /// Opens the socket of a flow.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DatagramSocket::bind`].
    pub(crate) fn bind(
        &mut self,
        (number, flow): (usize, Key),
        is_v4: bool,
        (outbound, poll): (&Outbound, &Poll),
    ) -> io::Result<()> {
        let any = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = outbound.address.unwrap_or(any);
        let socket = DatagramSocket::bind_to(SocketAddr::new(local, 0), outbound)?;
        poll.add(&socket, Source::Udp(number, Slot::of(flow)), EventFlags::IN)?;
        if self.sockets.len() <= flow.index() {
            self.sockets.resize_with(flow.index() + 1, || None);
        }
        if let Some(slot) = self.sockets.get_mut(flow.index()) {
            *slot = Some((flow, socket));
        }
        Ok(())
    }

    /// Closes the socket of a flow.
    pub(crate) fn remove(&mut self, flow: Key) {
        if let Some(slot) = self.sockets.get_mut(flow.index())
            && slot.as_ref().is_some_and(|(known, _)| *known == flow)
        {
            *slot = None;
        }
    }

    /// Sends the datagrams that wait for the socket of a flow. Datagrams that the socket does not
    /// accept are dropped, as by a router.
    pub(crate) fn send(&self, guest: &mut Guest, flow: Key, forwards: &ForwardSockets) {
        let socket = match guest.udp().forward(flow) {
            Some(forward) => forwards.datagram_socket(forward),
            None => self.sockets.get(flow.index()).and_then(Option::as_ref).map(|(_, own)| own),
        };
        while let Some(outgoing) = guest.udp().to_host(flow) {
            let size = usize::from(outgoing.size).max(1);
            let lens: Vec<usize> = outgoing.data.chunks(size).map(<[u8]>::len).collect();
            let lens = if lens.is_empty() { vec![0] } else { lens };
            if let Some(socket) = socket {
                _ = socket.send(&outgoing.data, &lens, outgoing.destination);
            }
            guest.udp_mut().sent(flow);
        }
    }

    /// Passes the datagrams that a socket has received to the guest.
    pub(crate) fn receive(
        &self,
        guest: &mut Guest,
        slot: Slot,
        inbox: &mut Inbox,
        cx: &mut Cx<'_>,
    ) {
        let Some(Some((flow, socket))) = self.sockets.get(slot.index) else { return };
        if Slot::of(*flow) != slot {
            return;
        }
        while socket.datagram_error().is_some() {}
        let Progress::Ready(Ok(_)) = socket.receive(inbox) else { return };
        for (from, data, size) in inbox.groups() {
            let size = u16::try_from(size).unwrap_or(u16::MAX);
            guest.datagrams_to_guest(*flow, from, (data, size), cx);
        }
    }
}
