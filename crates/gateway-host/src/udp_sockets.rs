//! The host's sockets of UDP flows.

use crate::forward_sockets::ForwardSockets;
use crate::poll::{Poll, Slot, Source};
use crate::socket_errors::{QUOTED_MAX, take_reports, unreachable};
use gateway::Guest;
use gateway::relay::Key;
use gateway::relay::host_errors::FlowError;
use gateway::relay::udp_flows::Marks;
use net::Cx;
use net::internet::icmp::ErrorKind;
use os::datagram::{DatagramSocket, Group, Inbox};
use os::outbound::Outbound;
use rustix::event::epoll::EventFlags;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::Poll as Progress;

/// Time to live of a new socket.
const HOP_LIMIT: u8 = 64;
/// Length from which on a datagram may exceed a path MTU, in bytes: every path carries 1,280 bytes
/// with headers. Below it, no system call is made for the flag.
const SHORT_LEN: usize = 1200;

/// The sockets of the UDP flows of one guest, by the index of the flow.
#[derive(Debug, Default)]
pub(crate) struct UdpSockets {
    sockets: Vec<Option<UdpSocket>>,
    /// Whether the kernel may fragment all datagrams, see
    /// [`crate::port::GuestSettings::fragments_datagrams`].
    fragments_datagrams: bool,
}

#[derive(Debug)]
struct UdpSocket {
    flow: Key,
    socket: DatagramSocket,
    hop_limit: u8,
    /// Whether fragments are forbidden; `None` for the kernel's default.
    forbids_fragments: Option<bool>,
}

/// The failure of a datagram, until it is reported to the guest.
struct Failure {
    to: SocketAddr,
    kind: ErrorKind,
    reporter: Option<IpAddr>,
    payload: Vec<u8>,
}

impl UdpSockets {
    pub(crate) fn new(fragments_datagrams: bool) -> Self {
        Self { fragments_datagrams, ..Self::default() }
    }

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
            let hop_limit = HOP_LIMIT;
            *slot = Some(UdpSocket { flow, socket, hop_limit, forbids_fragments: None });
        }
        Ok(())
    }

    /// Closes the socket of a flow.
    pub(crate) fn remove(&mut self, flow: Key) {
        if let Some(slot) = self.sockets.get_mut(flow.index())
            && slot.as_ref().is_some_and(|known| known.flow == flow)
        {
            *slot = None;
        }
    }

    /// Sends the datagrams that wait for the socket of a flow. Datagrams that the socket does not
    /// accept are dropped, as by a router, counted, and reported to the guest.
    pub(crate) fn send(
        &mut self,
        guest: &mut Guest,
        flow: Key,
        forwards: &ForwardSockets,
        cx: &mut Cx<'_>,
    ) {
        let fragments_datagrams = self.fragments_datagrams;
        let mut own = match guest.udp().forward(flow) {
            Some(_) => None,
            None => self.sockets.get_mut(flow.index()).and_then(Option::as_mut),
        };
        let forward = guest.udp().forward(flow);
        while let Some(outgoing) = guest.udp().to_host(flow) {
            let size = usize::from(outgoing.size).max(1);
            let lens: Vec<usize> = outgoing.data.chunks(size).map(<[u8]>::len).collect();
            let lens = if lens.is_empty() { vec![0] } else { lens };
            if let Some(own) = &mut own {
                own.set_hop_limit(outgoing.marks);
                // By default, the kernel sets DF in what fits the path MTU, and fragments the rest.
                if !fragments_datagrams {
                    own.forbid_fragments(outgoing.marks, size);
                }
            }
            let socket = match forward {
                Some(forward) => forwards.datagram_socket(forward),
                None => own.as_ref().map(|own| &own.socket),
            };
            let mut failures = Vec::new();
            let destination = outgoing.destination;
            let ends = (guest.udp().local_address(flow), destination);
            let unsent = match socket {
                Some(socket) => send_all(socket, &outgoing.data, &lens, ends, &mut failures),
                None => lens.len(),
            };
            guest.udp_mut().sent(flow);
            guest.udp_mut().count_unsent(unsent as u64);
            for Failure { to, kind, reporter, payload } in &failures {
                let error = FlowError { to: *to, kind: *kind, reporter: *reporter, payload };
                match forward.filter(|_| *to != destination) {
                    Some(forward) => guest.forwarded_datagram_failed(forward, &error, cx),
                    None => guest.datagram_failed(flow, &error, cx),
                }
            }
        }
    }

    /// Passes the datagrams that a socket has received to the guest, and the errors that are
    /// reported to it.
    pub(crate) fn receive(
        &self,
        guest: &mut Guest,
        (slot, flags): (Slot, EventFlags),
        inbox: &mut Inbox,
        cx: &mut Cx<'_>,
    ) {
        let Some(Some(UdpSocket { flow, socket, .. })) = self.sockets.get(slot.index) else {
            return;
        };
        if Slot::of(*flow) != slot {
            return;
        }
        if flags.contains(EventFlags::ERR) {
            let next = |quoted: &mut [u8]| socket.error_report(quoted);
            take_reports(next, |error| guest.datagram_failed(*flow, error, cx));
        }
        let Progress::Ready(Ok(_)) = socket.receive(inbox) else { return };
        for Group { from, data, segment, .. } in inbox.groups() {
            let size = u16::try_from(segment).unwrap_or(u16::MAX);
            guest.datagrams_to_guest(*flow, from, (data, size), cx);
        }
    }
}

impl UdpSocket {
    /// Sets the hop limit of the next datagrams. Without it, they are sent nevertheless.
    fn set_hop_limit(&mut self, marks: Marks) {
        let hop_limit = marks.hop_limit.max(1);
        if self.hop_limit != hop_limit && self.socket.set_hop_limit(hop_limit).is_ok() {
            self.hop_limit = hop_limit;
        }
    }

    /// Sets whether the next datagrams of `size` bytes may be fragmented.
    fn forbid_fragments(&mut self, marks: Marks, size: usize) {
        let forbids = marks.forbids_fragments;
        if size > SHORT_LEN
            && self.forbids_fragments != Some(forbids)
            && self.socket.forbid_fragments(forbids).is_ok()
        {
            self.forbids_fragments = Some(forbids);
        }
    }
}

/// Sends datagrams, from the address `source` of the host if it is given, and returns the number of
/// those that the socket has not accepted. They are dropped; the errors that the guest has to know
/// are added to `failed`. An error of an earlier datagram, which the kernel reports once, costs no
/// datagram.
fn send_all(
    socket: &DatagramSocket,
    data: &[u8],
    lens: &[usize],
    (source, to): (Option<IpAddr>, SocketAddr),
    failed: &mut Vec<Failure>,
) -> usize {
    let mut data = data;
    let mut lens = lens;
    let mut has_failed = false;
    let mut unsent = 0;
    while !lens.is_empty() {
        let sent = match socket.send_from(source, data, lens, to) {
            Progress::Ready(Ok(sent)) => sent,
            Progress::Ready(Err(error)) => {
                let len = lens.first().copied().unwrap_or(0).min(QUOTED_MAX);
                let payload = data.get(..len).unwrap_or_default();
                let is_too_long = take_failures(socket, (to, payload), failed);
                if !is_too_long && !std::mem::replace(&mut has_failed, true) {
                    continue;
                }
                // The datagram itself is not accepted; the next one may be.
                has_failed = false;
                unsent += 1;
                let reason = unreachable(&error).filter(|_| !is_too_long);
                failed.extend(reason.map(|reason| {
                    let kind = ErrorKind::Unreachable(reason);
                    Failure { to, kind, reporter: None, payload: payload.to_vec() }
                }));
                1
            }
            Progress::Pending => return unsent + lens.len(),
        };
        let (done, left) = lens.split_at(sent.min(lens.len()));
        data = data.get(done.iter().sum::<usize>()..).unwrap_or_default();
        lens = left;
    }
    unsent
}

/// Adds the error reports of a socket to `failed`. Returns whether one of them says that the
/// datagram to `to`, which the socket has just rejected, exceeds the path MTU. The kernel makes this
/// report itself: without the port if the version is IPv4, and without the payload. It makes two if
/// it has rejected the datagram before, after others of the same system call.
fn take_failures(
    socket: &DatagramSocket,
    (to, payload): (SocketAddr, &[u8]),
    failed: &mut Vec<Failure>,
) -> bool {
    let mut too_long = None;
    let next = |quoted: &mut [u8]| socket.error_report(quoted);
    take_reports(next, |error| {
        let is_path_mtu = matches!(error.kind, ErrorKind::FragmentationNeeded { .. });
        if is_path_mtu && error.reporter.is_none() && error.to.ip() == to.ip() {
            too_long = Some(Failure::of(&FlowError { to, payload, ..*error }));
        } else {
            failed.push(Failure::of(error));
        }
    });
    let is_too_long = too_long.is_some();
    failed.extend(too_long);
    is_too_long
}

impl Failure {
    fn of(error: &FlowError<'_>) -> Self {
        let FlowError { to, kind, reporter, payload } = *error;
        Self { to, kind, reporter, payload: payload.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::internet::icmp::Unreachable;
    use os::namespace::enter_new_network;
    use test_support::{in_new_network, ip};

    /// Returns the destination, the error and the length of the payload of each failure.
    fn failures_of(failed: &[Failure]) -> Vec<(SocketAddr, ErrorKind, usize)> {
        failed.iter().map(|failure| (failure.to, failure.kind, failure.payload.len())).collect()
    }

    #[test]
    fn datagrams_above_the_path_mtu_are_counted_and_cost_no_other_datagram() {
        in_new_network(enter_new_network, || {
            ip(&["link", "set", "lo", "mtu", "1400", "up"]);
            for any in ["127.0.0.1:0", "[::1]:0"] {
                let receiver = DatagramSocket::bind(any.parse().unwrap()).unwrap();
                let to = receiver.local_addr().unwrap();
                let socket = DatagramSocket::bind(any.parse().unwrap()).unwrap();
                socket.forbid_fragments(true).unwrap();
                let lens = [2000, 2000, 100, 1500, 1300];
                let mut failed = Vec::new();
                let unsent = send_all(&socket, &[7; 6900], &lens, (None, to), &mut failed);
                assert_eq!(unsent, 3);
                let kind = ErrorKind::FragmentationNeeded { next_hop_mtu: Some(1400) };
                assert_eq!(failures_of(&failed), [(to, kind, QUOTED_MAX); 3]);
                let mut inbox = Inbox::default();
                assert!(matches!(receiver.receive(&mut inbox), Progress::Ready(Ok(_))));
                let received: Vec<_> = inbox.datagrams().map(|one| one.data.len()).collect();
                assert_eq!(received, [100, 1300]);
                assert!(socket.error_report(&mut []).is_none());
            }
        });
    }

    #[test]
    fn a_datagram_without_a_route_is_counted_and_reported() {
        in_new_network(enter_new_network, || {
            let socket = DatagramSocket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
            let to = "192.0.2.1:9".parse().unwrap();
            let mut failed = Vec::new();
            assert_eq!(send_all(&socket, b"datadata", &[4, 4], (None, to), &mut failed), 2);
            let kind = ErrorKind::Unreachable(Unreachable::Network);
            assert_eq!(failures_of(&failed), [(to, kind, 4); 2]);
        });
    }
}
