//! Listeners for passive data connections.
//!
//! Most clients have already connected when they send the name of a file, so a listener is
//! registered with the runtime only when the session has to wait. This saves four system calls per
//! file.

use super::data::Stream;
use super::ftp_server::FtpServer;
use super::passive_ports::Ports;
use crate::source::source;
use carrier::TcpConnection;
use os::host::{self, Host};
use os::readiness::{self, Registered, would_block_as_pending};
use rustix::net::{AddressFamily, SocketFlags, SocketType, acceptfrom_with, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::Interest;

/// Length of the kernel's queue of connections that are not accepted yet. The session uses one
/// connection. The queue is longer, so that a few connections from other hosts do not fill it.
const BACKLOG: i32 = 4;

/// Number of ports tried before the kernel chooses the port. If that many ports are in use, few
/// ports are free.
const ATTEMPTS_MAX: u64 = 64;

/// Delay after a failed accept, for example for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// One configured port, counted for the source that holds the port.
pub(super) struct PortShare {
    server: Rc<FtpServer>,
    source: IpAddr,
}

/// The source holds its maximum number of ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareExceeded;

impl PortShare {
    /// Counts one more port for the source of `address`, up to `share`. If `share` is `None`,
    /// nothing is counted.
    pub(super) fn take(
        server: &Rc<FtpServer>,
        address: IpAddr,
        share: Option<usize>,
    ) -> Result<Option<Self>, ShareExceeded> {
        let Some(share) = share else { return Ok(None) };
        let source = source(address);
        let mut port_count = server.port_shares.borrow_mut();
        let port_count = port_count.entry(source).or_default();
        if *port_count >= share {
            return Err(ShareExceeded);
        }
        *port_count += 1;
        Ok(Some(Self { server: Rc::clone(server), source }))
    }
}

impl Drop for PortShare {
    fn drop(&mut self) {
        let mut port_shares = self.server.port_shares.borrow_mut();
        if let Some(count) = port_shares.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                port_shares.remove(&self.source);
            }
        }
    }
}

/// Listener for one data connection.
#[derive(Debug)]
pub(super) enum PassiveListener {
    Idle(TcpListener),
    Registered(Registered<TcpListener>),
    /// Listener of the user-space host.
    Userspace(host::Listener),
    /// Registration with the runtime failed.
    Broken,
}

impl PassiveListener {
    /// Opens a listener on one of `ports` of this machine or of `host`, starting at a random port.
    /// Also returns the address of the listener.
    pub(super) fn open(
        ports: &Ports,
        ip: IpAddr,
        host: Option<&Host>,
    ) -> Option<(Self, SocketAddr)> {
        if let Some(host) = host.filter(|_| ports.is_any) {
            let listener = host.listen(0).ok()?;
            let address = SocketAddr::new(ip, listener.port());
            return Some((Self::Userspace(listener), address));
        }
        let first = u64::from(*ports.range.start());
        let last = u64::from(*ports.range.end());
        let count = last - first + 1;
        let rng = if count > 1 { os::entropy::seed().ok()? % count } else { 0 };
        let attempts = if ports.is_any { count.min(ATTEMPTS_MAX) } else { count };
        let mut listener_and_address = (0..attempts).find_map(|step| {
            let port = u16::try_from(first + (rng + step) % count).ok()?;
            open_at(SocketAddr::new(ip, port), host)
        });
        if listener_and_address.is_none() && ports.is_any {
            listener_and_address = open_at(SocketAddr::new(ip, 0), host);
        }
        listener_and_address
    }

    /// Returns whether the listener is not registered with the runtime yet.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle(_))
    }

    /// Accepts a connection that is already waiting.
    pub(super) fn try_accept(&self) -> Option<(Stream, SocketAddr)> {
        let accepted = match self {
            Self::Idle(socket) => accept(socket),
            Self::Registered(socket) => accept(socket.get_ref()),
            // Listeners of the user-space host are only awaited.
            Self::Userspace(_) | Self::Broken => return None,
        };
        let Poll::Ready(Ok((stream, from))) = accepted else { return None };
        Some((Stream::Unregistered(stream), from))
    }

    /// Waits for a connection. The accepted connection is not registered with the runtime, so that
    /// a small file is transferred at once. Cancel safe.
    pub(super) async fn accept(&mut self) -> io::Result<(Stream, SocketAddr)> {
        if let Self::Userspace(listener) = self {
            let (stream, from) = listener.accept().await?;
            return Ok((Stream::Registered(TcpConnection::Userspace(stream)), from));
        }
        if let Self::Idle(_) = self
            && let Self::Idle(socket) = std::mem::replace(self, Self::Broken)
        {
            *self = Self::Registered(readiness::register(socket, Interest::READABLE)?);
        }
        let Self::Registered(socket) = self else { return std::future::pending().await };
        loop {
            let mut ready = socket.readable().await?;
            match accept(socket.get_ref()) {
                Poll::Pending => ready.clear_ready(),
                Poll::Ready(Err(error)) if error.kind() != io::ErrorKind::ConnectionAborted => {
                    // Usually no descriptors are left. The connection stays queued and is accepted
                    // later.
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    return Err(error);
                }
                Poll::Ready(accepted) => {
                    return accepted.map(|(stream, from)| (Stream::Unregistered(stream), from));
                }
            }
        }
    }
}

/// Listens at `at`, on `host` if it is given.
fn open_at(at: SocketAddr, host: Option<&Host>) -> Option<(PassiveListener, SocketAddr)> {
    let Some(host) = host else {
        return listen(at).map(|(socket, at)| (PassiveListener::Idle(socket), at));
    };
    host.listen(at.port()).ok().map(|listener| (PassiveListener::Userspace(listener), at))
}

fn listen(address: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
    // Allows reuse of a port whose last connection is in TIME-WAIT (RFC 9293 §3.6.1).
    sockopt::set_socket_reuseaddr(&socket, true).ok()?;
    rustix::net::bind(&socket, &address).ok()?;
    rustix::net::listen(&socket, BACKLOG).ok()?;
    let socket = TcpListener::from(socket);
    // Only a port chosen by the kernel has to be queried.
    let address = if address.port() == 0 { socket.local_addr().ok()? } else { address };
    Some((socket, address))
}

fn accept(socket: &impl AsFd) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, from) = ready!(would_block_as_pending(acceptfrom_with(socket, flags)))?;
    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
    Poll::Ready(Ok((stream.into(), from.ok_or(io::ErrorKind::InvalidData)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_port_whose_last_connection_is_in_time_wait_is_used_again() {
        let (first, at) = PassiveListener::open(&Ports::any(), LOOPBACK, None).unwrap();
        let client = TcpStream::connect(at).unwrap();
        let (server, _) = first.try_accept().unwrap();
        // The end that closes first enters TIME-WAIT.
        drop((first, server));
        drop(client);
        let second =
            PassiveListener::open(&Ports::only(at.port()..=at.port()), LOOPBACK, None).unwrap();
        assert_eq!(second.1, at);
    }

    #[tokio::test]
    async fn a_listener_accepts_one_connection_after_another() {
        let (mut listener, at) = PassiveListener::open(&Ports::any(), LOOPBACK, None).unwrap();
        for _ in 0..2 {
            let client = std::thread::spawn(move || TcpStream::connect(at).unwrap());
            let (_server, from) = listener.accept().await.unwrap();
            assert_eq!(from, client.join().unwrap().local_addr().unwrap());
        }
        assert!(!listener.is_idle() && listener.try_accept().is_none());
    }

    #[test]
    fn only_ports_of_the_configured_range_are_used() {
        let port = PassiveListener::open(&Ports::any(), LOOPBACK, None).unwrap().1.port();
        let only = Ports::only(port..=port);
        let _first = PassiveListener::open(&only, LOOPBACK, None).unwrap();
        assert!(PassiveListener::open(&only, LOOPBACK, None).is_none());
    }

    #[test]
    fn without_a_configured_range_any_free_port_is_used() {
        let (_first, at) = PassiveListener::open(&Ports::any(), LOOPBACK, None).unwrap();
        let ports = Ports { range: at.port()..=at.port(), is_any: true };
        assert!(PassiveListener::open(&ports, LOOPBACK, None).is_some());
    }
}
