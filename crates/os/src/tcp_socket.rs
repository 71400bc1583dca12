//! TCP sockets of a gateway: connections that are opened without waiting, and listeners.
//!
//! A gateway opens a connection with [`connect`], waits until the socket is writable, and then
//! calls [`connect_result`]. All sockets are non-blocking. Each option costs a system call, so an
//! accepted socket inherits the options of its listener, and a connecting socket has only the
//! defaults of the system. A gateway passes on the segments of its guest. It therefore disables
//! Nagle's algorithm ([`crate::socket::set_no_delay`]) of such a socket before data that the
//! algorithm could hold back: the algorithm holds nothing back while no data is outstanding.

use crate::outbound::Outbound;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::task::Poll;

/// Starts to open a connection to `remote` from the source of `outbound`.
///
/// # Errors
///
/// Returns errors that the kernel detects at once: no route, or an address that is not local.
pub fn connect(remote: SocketAddr, outbound: &Outbound) -> io::Result<TcpStream> {
    let socket = open(remote)?;
    outbound.bind_interface(&socket)?;
    if let Some(address) = outbound.address {
        rustix::net::bind(&socket, &SocketAddr::new(address, 0))?;
    }
    match rustix::net::connect(&socket, &remote) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the result of [`connect`], or [`Poll::Pending`] while the connection is being opened.
///
/// # Errors
///
/// Returns the error of the connection: refused, reset, unreachable or timed out.
pub fn connect_result(socket: &TcpStream) -> Poll<io::Result<()>> {
    match rustix::net::getpeername(socket) {
        Ok(_) => return Poll::Ready(Ok(())),
        Err(Errno::NOTCONN) => {}
        Err(error) => return Poll::Ready(Err(error.into())),
    }
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => Poll::Pending,
        Ok(Err(error)) | Err(error) => Poll::Ready(Err(error.into())),
    }
}

/// Options of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Maximum number of connections that the kernel opens in advance.
    pub backlog: u16,
    /// True if a listener at the unspecified IPv6 address accepts IPv4 too, from IPv4-mapped
    /// addresses.
    pub is_dual_stack: bool,
    /// Name of the interface to which the listener is restricted.
    pub interface: Option<String>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 128, is_dual_stack: false, interface: None }
    }
}

/// Opens a listener at `local`; port 0 selects any port. Its connections have no Nagle's algorithm,
/// probes of the peer (keep-alive), and urgent data in line. A link-local address needs the scope ID of
/// its interface. Connections in TIME-WAIT do not block the port.
///
/// # Errors
///
/// Returns EADDRINUSE, EADDRNOTAVAIL, and EACCES for a port that needs a privilege.
pub fn listen(local: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
    let socket = open(local)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if local.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !options.is_dual_stack)?;
    }
    Outbound { address: None, interface: options.interface.clone() }.bind_interface(&socket)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_socket_oobinline(&socket, true)?;
    rustix::net::bind(&socket, &local)?;
    rustix::net::listen(&socket, options.backlog.into())?;
    Ok(socket.into())
}

/// Accepts the next connection; returns [`Poll::Pending`] if none is waiting.
///
/// # Errors
///
/// Returns the error of `accept4(2)`; EMFILE if the limit on descriptors is reached.
pub fn accept(listener: &TcpListener) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(listener, flags) {
            Ok((socket, from)) => {
                let from = from.ok_or(Errno::PROTO)?;
                let from = SocketAddr::try_from(from)?;
                return Poll::Ready(Ok((socket.into(), from)));
            }
            Err(Errno::AGAIN) => return Poll::Pending,
            // accept(2): a connection that has ended before it was accepted.
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Monotonic;
    use crate::readiness::{PollFd, PollFlags, wait};
    use crate::testing::{in_new_network, unwrap_ready, wait_until_readable};
    use std::io::{Read, Write};
    use std::net::IpAddr;

    fn wait_until_writable(socket: &TcpStream) {
        wait(&mut [PollFd::new(socket, PollFlags::OUT)], &Monotonic::start(), None).unwrap();
    }

    fn any_port(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 0)
    }

    #[test]
    fn a_connection_is_opened_and_accepted_without_waiting() {
        for address in ["127.0.0.1", "::1"] {
            let listener = listen(any_port(address), &ListenOptions::default()).unwrap();
            assert!(accept(&listener).is_pending());
            let remote = listener.local_addr().unwrap();
            let mut client = connect(remote, &Outbound::default()).unwrap();
            wait_until_writable(&client);
            unwrap_ready(connect_result(&client)).unwrap();
            wait_until_readable(&listener);
            let (mut server, from) = unwrap_ready(accept(&listener)).unwrap();
            assert_eq!(from, client.local_addr().unwrap());
            assert!(server.nodelay().unwrap());
            assert!(sockopt::socket_keepalive(&server).unwrap());
            assert!(sockopt::socket_oobinline(&server).unwrap());
            client.write_all(b"x").unwrap();
            wait_until_readable(&server);
            assert_eq!(server.read(&mut [0; 2]).unwrap(), 1);
            let error = server.read(&mut [0; 2]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_refused_connection_is_reported() {
        let closed = listen(any_port("127.0.0.1"), &ListenOptions::default()).unwrap();
        let remote = closed.local_addr().unwrap();
        drop(closed);
        let client = connect(remote, &Outbound::default()).unwrap();
        wait_until_writable(&client);
        let error = unwrap_ready(connect_result(&client)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_connection_that_is_not_answered_is_pending() {
        in_new_network(|| {
            let tun = crate::tun::Tun::open(Some("plumb0")).unwrap();
            let interface = crate::interface::Interface::named(tun.name()).unwrap();
            interface.set_address([10, 9, 8, 1].into(), 24).unwrap();
            interface.bring_up().unwrap();
            let remote = "10.9.8.2:80".parse().unwrap();
            let client = connect(remote, &Outbound::default()).unwrap();
            assert!(connect_result(&client).is_pending());
        });
    }

    #[test]
    fn a_connection_has_the_source_and_the_interface_of_its_options() {
        let listener = listen(any_port("127.0.0.1"), &ListenOptions::default()).unwrap();
        let remote = listener.local_addr().unwrap();
        let source: IpAddr = [127, 0, 0, 9].into();
        let outbound = Outbound { address: Some(source), interface: Some("lo".into()) };
        let client = connect(remote, &outbound).unwrap();
        assert_eq!(client.local_addr().unwrap().ip(), source);
        let outbound = Outbound { address: None, interface: Some("plumb-none".into()) };
        assert_eq!(connect(remote, &outbound).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn only_a_dual_stack_listener_accepts_ipv4() {
        for is_dual_stack in [false, true] {
            let options = ListenOptions { is_dual_stack, ..ListenOptions::default() };
            let listener = listen(any_port("::"), &options).unwrap();
            let remote =
                SocketAddr::new([127, 0, 0, 1].into(), listener.local_addr().unwrap().port());
            let client = connect(remote, &Outbound::default()).unwrap();
            wait_until_writable(&client);
            let result = unwrap_ready(connect_result(&client));
            assert_eq!(result.is_ok(), is_dual_stack, "{result:?}");
            if is_dual_stack {
                wait_until_readable(&listener);
                let (_, from) = unwrap_ready(accept(&listener)).unwrap();
                assert_eq!(from.ip().to_canonical(), IpAddr::from([127, 0, 0, 1]));
            }
        }
    }

    #[test]
    fn a_port_in_use_is_reported() {
        let listener = listen(any_port("127.0.0.1"), &ListenOptions::default()).unwrap();
        let local = listener.local_addr().unwrap();
        let error = listen(local, &ListenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
