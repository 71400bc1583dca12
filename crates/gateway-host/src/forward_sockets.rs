//! The host's sockets of port forwards.

use crate::forwards::{Forward, ForwardId, Transport};
use crate::poll::{Poll, Source};
use crate::socket_errors::take_reports;
use crate::tcp_sockets::TcpSockets;
use gateway::Guest;
use ipnet::{Ipv4Net, Ipv6Net};
use net::Cx;
use net::time::Duration;
use os::datagram::{DatagramSocket, Group, Inbox};
use os::outbound::Outbound;
use os::tcp_socket::{self, ListenOptions};
use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::task;

/// Maximum number of connections that are accepted from a listener in a turn.
const BATCH: usize = 64;
/// Time after which an idle client of a forwarded port is probed, as the guest is. The kernel of a
/// client that has closed its connection has forgotten it by then, and answers with a reset. The
/// guest's program may never close its side, so that the flow would not end without the probe.
const CLIENT_KEEP_ALIVE_AFTER: Duration = Duration::from_secs(600);

/// The addresses of a guest and of its gateway, for both versions of IP.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuestAddresses {
    /// The guest's IPv4 address.
    pub guest4: Option<Ipv4Addr>,
    /// The guest's IPv6 address.
    pub guest6: Option<Ipv6Addr>,
    /// The gateway's IPv4 address on the guest's network.
    pub gateway4: Option<Ipv4Addr>,
    /// The gateway's IPv6 address on the guest's network.
    pub gateway6: Option<Ipv6Addr>,
    /// The guest's IPv4 network, if the gateway does not answer ARP requests for all its addresses:
    /// the guest cannot answer a client with an address of it.
    pub network4: Option<Ipv4Net>,
    /// The guest's IPv6 network, likewise.
    pub network6: Option<Ipv6Net>,
}

/// The sockets of the forwards of one guest.
#[derive(Debug, Default)]
pub(crate) struct ForwardSockets {
    sockets: Vec<Option<ForwardSocket>>,
    /// No index below this one is free.
    first_free: usize,
    /// Whether TCP connections from a loopback address are left to the program.
    pub(crate) is_diverting: bool,
    /// These connections, each with the port of the guest.
    diverted: Vec<(TcpStream, u16)>,
}

#[derive(Debug)]
struct ForwardSocket {
    forward: ForwardId,
    guest_address: Option<IpAddr>,
    guest_port: u16,
    socket: HostSocket,
}

#[derive(Debug)]
enum HostSocket {
    Tcp(TcpListener),
    Udp(DatagramSocket),
}

impl ForwardSockets {
    /// Opens the sockets of a forward.
    ///
    /// # Errors
    ///
    /// Returns the error of the first socket that could not be opened: `AddrInUse` or
    /// `PermissionDenied`. No socket of the forward is then open.
    pub(crate) fn open(
        &mut self,
        number: usize,
        (id, forward): (ForwardId, &Forward),
        poll: &Poll,
    ) -> io::Result<()> {
        for port in forward.host_ports.ports() {
            if let Err(error) = self.open_port(number, (id, forward), port, poll) {
                self.close(id);
                return Err(error);
            }
        }
        Ok(())
    }

    fn open_port(
        &mut self,
        number: usize,
        (id, forward): (ForwardId, &Forward),
        port: u16,
        poll: &Poll,
    ) -> io::Result<()> {
        let guest_port = forward.guest_port_for(port).ok_or(io::ErrorKind::InvalidInput)?;
        for socket in host_sockets(forward, port)? {
            let index = self.free_index();
            let source = Source::Forward(number, index);
            match &socket {
                HostSocket::Tcp(listener) => poll.add(listener, source, EventFlags::IN)?,
                HostSocket::Udp(socket) => poll.add(socket, source, EventFlags::IN)?,
            }
            let guest_address = forward.guest_address;
            if let Some(slot) = self.sockets.get_mut(index) {
                *slot = Some(ForwardSocket { forward: id, guest_address, guest_port, socket });
            }
        }
        Ok(())
    }

    fn free_index(&mut self) -> usize {
        let above = self.sockets.get(self.first_free..).unwrap_or_default();
        let free = above.iter().position(Option::is_none);
        let index = free.map_or(self.sockets.len(), |offset| self.first_free + offset);
        if free.is_none() {
            self.sockets.push(None);
        }
        self.first_free = index;
        index
    }

    /// Closes the sockets of a forward.
    pub(crate) fn close(&mut self, id: ForwardId) {
        for (index, slot) in self.sockets.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|socket| socket.forward == id) {
                *slot = None;
                self.first_free = self.first_free.min(index);
            }
        }
    }

    /// Passes what a socket has received to the guest. Returns an error if connections could not be
    /// accepted, for example because no descriptor is free.
    pub(crate) fn receive(
        &mut self,
        (number, index): (usize, usize),
        (guest, tcp): (&mut Guest, &mut TcpSockets),
        addresses: &GuestAddresses,
        (inbox, poll): (&mut Inbox, &Poll),
        cx: &mut Cx<'_>,
    ) -> io::Result<()> {
        let Some(Some(forward)) = self.sockets.get(index) else { return Ok(()) };
        match &forward.socket {
            HostSocket::Tcp(listener) => {
                for _ in 0..BATCH {
                    let task::Poll::Ready(accepted) = tcp_socket::accept(listener) else {
                        return Ok(());
                    };
                    let (stream, from) = accepted?;
                    if self.is_diverting && from.ip().to_canonical().is_loopback() {
                        self.diverted.push((stream, forward.guest_port));
                        continue;
                    }
                    let Some((source, to)) = addresses.ends(from, forward.guest()) else {
                        continue;
                    };
                    // The socket of a connection that the guest cannot accept is closed.
                    let Ok(flow) = guest.accept(source, to, cx) else { continue };
                    if tcp.insert_accepted(guest, (number, flow), stream, poll).is_err() {
                        guest.host_reset(flow, cx);
                    }
                }
            }
            HostSocket::Udp(socket) => {
                let key = u32::try_from(index).unwrap_or(u32::MAX);
                let next = |quoted: &mut [u8]| socket.error_report(quoted);
                take_reports(next, |error| guest.forwarded_datagram_failed(key, error, cx));
                let task::Poll::Ready(Ok(_)) = socket.receive(inbox) else { return Ok(()) };
                for Group { from, local, data, segment } in inbox.groups() {
                    let Some((source, to)) = addresses.ends(from, forward.guest()) else {
                        continue;
                    };
                    let ends = (from, source);
                    let flow = guest.udp_mut().forwarded((key, local), ends, to, cx);
                    let size = u16::try_from(segment).unwrap_or(u16::MAX);
                    if let Some(flow) = flow {
                        guest.datagrams_to_guest(flow, from, (data, size), cx);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the connections that are left to the program.
    pub(crate) fn take_diverted(&mut self) -> Vec<(TcpStream, u16)> {
        std::mem::take(&mut self.diverted)
    }

    /// Sets whether connections are accepted. Otherwise they wait in the kernel.
    pub(crate) fn accept_connections(&self, number: usize, is_accepting: bool, poll: &Poll) {
        let flags = if is_accepting { EventFlags::IN } else { EventFlags::empty() };
        for (index, slot) in self.sockets.iter().enumerate() {
            if let Some(ForwardSocket { socket: HostSocket::Tcp(listener), .. }) = slot {
                // Cannot fail: the listener is registered as long as it is open.
                _ = poll.modify(listener, Source::Forward(number, index), flags);
            }
        }
    }

    /// Returns the UDP socket with this index.
    pub(crate) fn datagram_socket(&self, index: u32) -> Option<&DatagramSocket> {
        let socket = self.sockets.get(usize::try_from(index).ok()?)?.as_ref()?;
        match &socket.socket {
            HostSocket::Udp(socket) => Some(socket),
            HostSocket::Tcp(_) => None,
        }
    }
}

impl ForwardSocket {
    /// Returns the address and the port of the guest to which the socket leads.
    const fn guest(&self) -> (Option<IpAddr>, u16) {
        (self.guest_address, self.guest_port)
    }
}

impl GuestAddresses {
    /// Returns the ends of a flow to the guest: the source that the guest sees, and the guest. The
    /// source is that of the client, unless the guest could not answer it: an address of the
    /// loopback network, of another version of IP, of the guest itself, or of the network of the
    /// guest becomes the address of the gateway. In that network, an address is also that of the
    /// DNS forwarder or a broadcast address.
    fn ends(
        &self,
        client: SocketAddr,
        (guest_address, guest_port): (Option<IpAddr>, u16),
    ) -> Option<(SocketAddr, SocketAddr)> {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let of_client = match client.ip() {
            IpAddr::V4(_) => self.guest4.map(IpAddr::from),
            IpAddr::V6(_) => self.guest6.map(IpAddr::from),
        };
        let any = self.guest4.map(IpAddr::from).or(self.guest6.map(IpAddr::from));
        let guest = guest_address.or(of_client).or(any)?;
        let gateway = match guest {
            IpAddr::V4(_) => self.gateway4.map(IpAddr::from),
            IpAddr::V6(_) => self.gateway6.map(IpAddr::from),
        };
        let is_local = match client.ip() {
            IpAddr::V4(v4) => {
                let is_neighbor = self.network4.is_some_and(|network| network.contains(&v4));
                v4.is_loopback() || v4.is_unspecified() || v4.is_link_local() || is_neighbor
            }
            IpAddr::V6(v6) => {
                let is_neighbor = self.network6.is_some_and(|network| network.contains(&v6));
                v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local() || is_neighbor
            }
        };
        let is_usable = !is_local && client.is_ipv4() == guest.is_ipv4() && client.ip() != guest;
        let source = if is_usable { client.ip() } else { gateway? };
        let guest = SocketAddr::new(guest, guest_port);
        Some((SocketAddr::new(source, client.port()), guest))
    }
}

/// Opens a listener whose connections inherit the time of the probes.
fn listen(local: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
    let listener = tcp_socket::listen(local, options)?;
    sockopt::set_tcp_keepidle(&listener, CLIENT_KEEP_ALIVE_AFTER)?;
    Ok(listener)
}

/// Opens the sockets of one port of a forward: one, or one for each version of IP.
fn host_sockets(forward: &Forward, port: u16) -> io::Result<Vec<HostSocket>> {
    let both = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let addresses = forward.bind.address.map_or(both.to_vec(), |address| vec![address]);
    let mut sockets = Vec::with_capacity(addresses.len());
    for address in addresses {
        let local = SocketAddr::new(address, port);
        let opened = match forward.transport {
            Transport::Tcp => {
                let interface = forward.bind.interface.clone();
                let options = ListenOptions { interface, ..ListenOptions::default() };
                listen(local, &options).map(HostSocket::Tcp)
            }
            Transport::Udp => {
                let interface = forward.bind.interface.clone();
                let outbound = Outbound { address: None, interface };
                let socket = DatagramSocket::bind_to(local, &outbound);
                socket.and_then(reporting_destinations).map(HostSocket::Udp)
            }
        };
        match opened {
            Ok(socket) => sockets.push(socket),
            // A host without IPv6 still forwards IPv4.
            Err(error)
                if forward.bind.address.is_none()
                    && matches!(
                        error.kind(),
                        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
                    ) => {}
            Err(error) => return Err(error),
        }
    }
    if sockets.is_empty() { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok(sockets) }
}

/// Enables answers from the address of the host to which a client has sent, if the socket is bound to
/// all addresses.
fn reporting_destinations(socket: DatagramSocket) -> io::Result<DatagramSocket> {
    if socket.local_addr()?.ip().is_unspecified() {
        socket.report_destinations()?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwards::{BindAddress, PortRange};

    #[test]
    fn a_port_is_bound_to_its_interface() {
        for transport in [Transport::Tcp, Transport::Udp] {
            let open = |interface: &str| {
                let address = Some(Ipv4Addr::LOCALHOST.into());
                let bind = BindAddress { address, interface: Some(interface.to_owned()) };
                let host_ports = PortRange::single(5400).unwrap();
                let forward =
                    Forward { transport, bind, host_ports, guest_address: None, guest_port: 53 };
                host_sockets(&forward, 0).map(|sockets| sockets.len())
            };
            assert_eq!(open("lo").unwrap(), 1);
            let error = open("none0").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NODEV.raw_os_error()));
        }
    }

    const DUAL_STACK: GuestAddresses = GuestAddresses {
        guest4: Some(Ipv4Addr::new(10, 0, 2, 100)),
        guest6: Some(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 0x100)),
        gateway4: Some(Ipv4Addr::new(10, 0, 2, 2)),
        gateway6: Some(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2)),
        network4: None,
        network6: None,
    };

    fn source(addresses: &GuestAddresses, client: &str) -> String {
        let client = SocketAddr::new(client.parse().unwrap(), 4000);
        let (source, guest) = addresses.ends(client, (None, 80)).unwrap();
        assert_eq!((source.port(), guest.port()), (4000, 80));
        source.ip().to_string()
    }

    #[test]
    fn a_client_in_the_network_of_the_guest_has_the_address_of_the_gateway() {
        let addresses = GuestAddresses {
            network4: Some("10.0.2.100/24".parse().unwrap()),
            network6: Some("fd00::/64".parse().unwrap()),
            ..DUAL_STACK
        };
        // The DNS forwarder, a broadcast address, the guest and loopback are among them.
        for client in ["10.0.2.15", "::ffff:10.0.2.15", "10.0.2.3", "10.0.2.255", "127.0.0.1"] {
            assert_eq!(source(&addresses, client), "10.0.2.2", "{client}");
        }
        for client in ["fd00::15", "fd00::3", "fd00::100", "::1"] {
            assert_eq!(source(&addresses, client), "fd00::2", "{client}");
        }
        for client in ["10.0.3.15", "192.0.2.1", "fd00:0:0:1::15", "2001:db8::1"] {
            assert_eq!(source(&addresses, client), client);
        }
    }

    #[test]
    fn a_guest_in_the_network_of_the_host_answers_its_neighbors() {
        for client in ["10.0.2.15", "fd00::15"] {
            assert_eq!(source(&DUAL_STACK, client), client);
        }
    }

    #[test]
    fn a_client_of_a_forwarded_port_is_probed_after_ten_minutes() {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into(), &ListenOptions::default()).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let task::Poll::Ready(Ok((accepted, _))) = tcp_socket::accept(&listener) else {
            panic!("no connection");
        };
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), Duration::from_secs(600));
    }
}
