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

/// Maximum number of error reports that are removed from a socket at once.
const ERRORS_MAX: usize = 256;

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
                send_all(socket, &outgoing.data, &lens, outgoing.destination);
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
        discard_errors(socket);
        let Progress::Ready(Ok(_)) = socket.receive(inbox) else { return };
        for (from, data, size) in inbox.groups() {
            let size = u16::try_from(size).unwrap_or(u16::MAX);
            guest.datagrams_to_guest(*flow, from, (data, size), cx);
        }
    }
}

/// Sends datagrams. Those that the socket does not accept are dropped. An error of an earlier
/// datagram, which the kernel reports once, costs no datagram.
fn send_all(socket: &DatagramSocket, data: &[u8], lens: &[usize], to: SocketAddr) {
    let mut data = data;
    let mut lens = lens;
    let mut failures = 0;
    while !lens.is_empty() {
        let sent = match socket.send(data, lens, to) {
            Progress::Ready(Ok(sent)) => sent,
            Progress::Ready(Err(_)) if failures == 0 => {
                discard_errors(socket);
                failures += 1;
                continue;
            }
            // The datagram itself is not accepted; the next one may be.
            Progress::Ready(Err(_)) => {
                failures = 0;
                1
            }
            Progress::Pending => return,
        };
        let (done, left) = lens.split_at(sent.min(lens.len()));
        data = data.get(done.iter().sum::<usize>()..).unwrap_or_default();
        lens = left;
    }
}

/// Removes the reports of errors, at most as many as a socket may have had datagrams.
fn discard_errors(socket: &DatagramSocket) {
    for _ in 0..ERRORS_MAX {
        if socket.datagram_error().is_none() {
            return;
        }
    }
}
