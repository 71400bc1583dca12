//! Listeners for passive data connections.
//!
//! Most clients have connected by the time they name a file, so a listener is registered with the
//! runtime only when the session has to wait. This saves four system calls per file.

use super::Server;
use super::data::Stream;
use super::socket::Socket;
use crate::serve::source::source;
use os::host::{self, Host};
use os::readiness::{self, Registered};
use os::socket;
use rustix::net::{AddressFamily, SocketFlags, SocketType, acceptfrom_with, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::Interest;

/// Length of the kernel's queue: one connection is used, and others must not block it.
const BACKLOG: i32 = 4;

/// Number of ports tried before the kernel chooses one. If so many are taken, few are left.
const ATTEMPTS_MAX: u64 = 64;

/// Delay after a failed accept, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Ports for passive data connections.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    range: RangeInclusive<u16>,
    /// Whether any other port may be used too.
    is_any: bool,
}

impl Ports {
    /// Uses these ports only.
    pub(super) const fn only(range: RangeInclusive<u16>) -> Self {
        Self { range, is_any: false }
    }

    /// Returns the number of ports that one source may hold: a quarter of those configured.
    pub(super) fn share(&self) -> Option<usize> {
        (!self.is_any).then(|| self.range.len().div_ceil(4))
    }

    /// Uses the kernel's ephemeral ports.
    ///
    /// They are tried by number. The kernel's own choice excludes ports with a connection in
    /// TIME-WAIT, and after some ten thousand small files each choice takes milliseconds.
    pub(super) fn any() -> Self {
        Self { range: socket::ephemeral_ports().unwrap_or(0..=0), is_any: true }
    }
}

/// One configured port, counted for its source.
pub(super) struct PortShare {
    server: Rc<Server>,
    source: IpAddr,
}

/// The source holds its maximum number of ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareExceeded;

impl PortShare {
    /// Counts one more port for the source of `address`, up to `share`. Without a limit nothing is
    /// counted.
    pub(super) fn take(
        server: &Rc<Server>,
        address: IpAddr,
        share: Option<usize>,
    ) -> Result<Option<Self>, ShareExceeded> {
        let Some(share) = share else { return Ok(None) };
        let source = source(address);
        let mut held = server.port_shares.borrow_mut();
        let held = held.entry(source).or_default();
        if *held >= share {
            return Err(ShareExceeded);
        }
        *held += 1;
        Ok(Some(Self { server: Rc::clone(server), source }))
    }
}

impl Drop for PortShare {
    fn drop(&mut self) {
        let mut held = self.server.port_shares.borrow_mut();
        if let Some(count) = held.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.source);
            }
        }
    }
}

/// Listener for one data connection.
#[derive(Debug)]
pub(super) enum Listener {
    Idle(TcpListener),
    Watched(Registered<TcpListener>),
    /// Listener of the user-space host.
    Own(host::Listener),
    /// Registration with the runtime failed.
    Broken,
}

impl Listener {
    /// Opens a listener on one of `ports` of this machine or of `host`, starting at a random one.
    /// Returns its address, too.
    pub(super) fn open(
        ports: &Ports,
        ip: IpAddr,
        host: Option<&Host>,
    ) -> Option<(Self, SocketAddr)> {
        if let Some(host) = host.filter(|_| ports.is_any) {
            let listener = host.listen(0).ok()?;
            let at = SocketAddr::new(ip, listener.port());
            return Some((Self::Own(listener), at));
        }
        let (first, last) = (u64::from(*ports.range.start()), u64::from(*ports.range.end()));
        let count = last - first + 1;
        let chance = if count > 1 { os::entropy::seed().ok()? % count } else { 0 };
        let attempts = if ports.is_any { count.min(ATTEMPTS_MAX) } else { count };
        let mut tried = (0..attempts).find_map(|step| {
            let port = u16::try_from(first + (chance + step) % count).ok()?;
            open_at(SocketAddr::new(ip, port), host)
        });
        if tried.is_none() && ports.is_any {
            tried = open_at(SocketAddr::new(ip, 0), host);
        }
        tried
    }

    /// Returns whether the listener is not registered with the runtime yet.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle(_))
    }

    /// Accepts a connection that is already waiting.
    pub(super) fn try_accept(&self) -> Option<(Stream, SocketAddr)> {
        let (stream, from) = match self {
            Self::Idle(socket) => accept(socket).ok()?,
            Self::Watched(socket) => accept(socket.get_ref()).ok()?,
            // Listeners of the user-space host are only awaited.
            Self::Own(_) | Self::Broken => return None,
        };
        Some((Stream::Fresh(stream), from))
    }

    /// Waits for a connection. It is not registered with the runtime, so that a small file moves at
    /// once. Cancel safe.
    pub(super) async fn accept(&mut self) -> io::Result<(Stream, SocketAddr)> {
        if let Self::Own(listener) = self {
            let (stream, from) = listener.accept().await?;
            return Ok((Stream::Watched(Socket::Own(stream)), from));
        }
        if let Self::Idle(_) = self
            && let Self::Idle(socket) = std::mem::replace(self, Self::Broken)
        {
            *self = Self::Watched(readiness::register(socket, Interest::READABLE)?);
        }
        let Self::Watched(socket) = self else { return std::future::pending().await };
        loop {
            let mut ready = socket.readable().await?;
            match accept(socket.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() != io::ErrorKind::ConnectionAborted => {
                    // Usually no descriptors are left. The connection stays queued and is accepted
                    // later.
                    tokio::time::sleep(PAUSE).await;
                    return Err(error);
                }
                accepted => {
                    return accepted.map(|(stream, from)| (Stream::Fresh(stream), from));
                }
            }
        }
    }
}

/// Listens at `at`, on `host` if it is given.
fn open_at(at: SocketAddr, host: Option<&Host>) -> Option<(Listener, SocketAddr)> {
    let Some(host) = host else {
        return listen(at).map(|(socket, at)| (Listener::Idle(socket), at));
    };
    host.listen(at.port()).ok().map(|listener| (Listener::Own(listener), at))
}

fn listen(at: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
    // Allows reuse of a port whose last connection is in TIME-WAIT (RFC 9293 §3.6.1).
    sockopt::set_socket_reuseaddr(&socket, true).ok()?;
    rustix::net::bind(&socket, &at).ok()?;
    rustix::net::listen(&socket, BACKLOG).ok()?;
    let socket = TcpListener::from(socket);
    // Only a port chosen by the kernel has to be queried.
    let at = if at.port() == 0 { socket.local_addr().ok()? } else { at };
    Some((socket, at))
}

fn accept(socket: &impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, from) = acceptfrom_with(socket, flags)?;
    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
    Ok((stream.into(), from.ok_or(io::ErrorKind::InvalidData)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_port_whose_last_connection_is_in_time_wait_is_used_again() {
        let (first, at) = Listener::open(&Ports::any(), HERE, None).unwrap();
        let near = TcpStream::connect(at).unwrap();
        let (far, _) = first.try_accept().unwrap();
        // The end that closes first enters TIME-WAIT.
        drop((first, far));
        drop(near);
        let again = Listener::open(&Ports::only(at.port()..=at.port()), HERE, None).unwrap();
        assert_eq!(again.1, at);
    }

    #[tokio::test]
    async fn who_is_waited_for_is_let_in_and_the_next_one_too() {
        let (mut listener, at) = Listener::open(&Ports::any(), HERE, None).unwrap();
        for _ in 0..2 {
            let far = std::thread::spawn(move || TcpStream::connect(at).unwrap());
            let (_near, from) = listener.accept().await.unwrap();
            assert_eq!(from, far.join().unwrap().local_addr().unwrap());
        }
        assert!(!listener.is_idle() && listener.try_accept().is_none());
    }

    #[test]
    fn of_a_range_only_its_own_ports_are_taken_and_then_none() {
        let port = Listener::open(&Ports::any(), HERE, None).unwrap().1.port();
        let only = Ports::only(port..=port);
        let _first = Listener::open(&only, HERE, None).unwrap();
        assert!(Listener::open(&only, HERE, None).is_none());
    }

    #[test]
    fn where_the_ports_that_are_tried_are_taken_any_other_will_do() {
        let (_first, at) = Listener::open(&Ports::any(), HERE, None).unwrap();
        let taken = Ports { range: at.port()..=at.port(), is_any: true };
        assert!(Listener::open(&taken, HERE, None).is_some());
    }
}
