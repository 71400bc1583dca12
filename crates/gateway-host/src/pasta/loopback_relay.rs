//! TCP connections between the loopback addresses of the host and those of a namespace (`-T`,
//! `--host-lo-to-ns-lo`).
//!
//! These connections do not pass the device of the guest: both ends are sockets of this process, one
//! of them opened in the namespace. The relay has an epoll instance of its own, which is ready while
//! [`LoopbackRelay::run`] has work.

use crate::spare_descriptor::SpareDescriptor;
use os::namespace_sockets::{NamespaceSockets, loopback};
use os::outbound::Outbound;
use os::readiness::would_block_as_pending;
use os::tcp_socket;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Poll;

/// Maximum number of connections; one more is closed.
const CONNECTIONS_MAX: usize = 4096;
/// Maximum number of events of one call of [`LoopbackRelay::run`].
const EVENTS_MAX: usize = 64;
/// Bytes that one direction of a connection copies in a turn, and maximum number that it holds.
const BUFFER_LEN: usize = 1 << 17;
/// Bit of the data of an event that marks a listener.
const LISTENER: u64 = 1 << 63;

/// Relayed connections and the listeners in the namespace.
#[derive(Debug)]
pub(super) struct LoopbackRelay {
    epoll: OwnedFd,
    sockets: NamespaceSockets,
    /// The listeners in the namespace by their port, with the port of the host.
    listeners: BTreeMap<u16, (u16, Vec<TcpListener>)>,
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
    spare: SpareDescriptor,
}

/// Two sockets. The first one is the accepted one.
#[derive(Debug)]
struct Connection {
    ends: [TcpStream; 2],
    /// Data of each end that the other one has not accepted.
    waiting: [Vec<u8>; 2],
    has_ended: [bool; 2],
    is_shut_down: [bool; 2],
    is_connected: bool,
    /// The registered events of each end.
    registered: [EventFlags; 2],
}

impl LoopbackRelay {
    /// Creates a relay that opens sockets by `sockets`.
    pub(super) fn new(sockets: NamespaceSockets) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            sockets,
            listeners: BTreeMap::new(),
            connections: Vec::new(),
            buffer: vec![0; BUFFER_LEN],
            spare: SpareDescriptor::reserve(),
        })
    }

    /// Returns the process that opens sockets in the namespace.
    pub(super) fn sockets(&self) -> &NamespaceSockets {
        &self.sockets
    }

    /// Returns the ports of the namespace that lead to the host.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.listeners.keys().copied()
    }

    /// Listens at `port` of the namespace's loopback addresses, which leads to `host_port`.
    ///
    /// # Errors
    ///
    /// Returns the error of IPv4 if neither version of IP can be used.
    pub(super) fn listen(&mut self, port: u16, host_port: u16) -> io::Result<()> {
        let mut listeners = Vec::new();
        let mut failure = None;
        for is_ipv4 in [true, false] {
            match self.sockets.listen(loopback(is_ipv4, port)) {
                Ok(listener) => {
                    let data = EventData::new_u64(LISTENER | u64::from(port));
                    epoll::add(&self.epoll, &listener, data, EventFlags::IN)?;
                    listeners.push(listener);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if listeners.is_empty() {
            return Err(failure.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
        }
        self.listeners.insert(port, (host_port, listeners));
        Ok(())
    }

    /// Closes the listeners at `port` of the namespace. Open connections remain.
    pub(super) fn close(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Connects an accepted connection of the host to `port` of the namespace's loopback address.
    pub(super) fn connect_to_guest(&mut self, accepted: TcpStream, port: u16) {
        let is_ipv4 = accepted.local_addr().is_ok_and(|local| local.ip().to_canonical().is_ipv4());
        let Ok(socket) = self.sockets.tcp_socket(is_ipv4) else { return };
        match rustix::net::connect(&socket, &loopback(is_ipv4, port)) {
            Ok(()) | Err(Errno::INPROGRESS) => self.insert(accepted, socket),
            // The accepted connection is closed.
            Err(_) => {}
        }
    }

    fn connect_to_host(&mut self, accepted: TcpStream, local: SocketAddr, port: u16) {
        let remote = loopback(local.is_ipv4(), port);
        if let Ok(socket) = tcp_socket::connect(remote, &Outbound::default()) {
            self.insert(accepted, socket);
        }
    }

    fn insert(&mut self, accepted: TcpStream, connecting: TcpStream) {
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or(self.connections.len());
        if index >= CONNECTIONS_MAX {
            return;
        }
        let mut connection = Connection {
            ends: [accepted, connecting],
            waiting: [Vec::new(), Vec::new()],
            has_ended: [false; 2],
            is_shut_down: [false; 2],
            is_connected: false,
            registered: [EventFlags::empty(); 2],
        };
        if connection.register(&self.epoll, index).is_err() {
            return;
        }
        if free.is_none() {
            self.connections.push(None);
        }
        if let Some(slot) = self.connections.get_mut(index) {
            *slot = Some(connection);
        }
    }

    /// Processes the events that have occurred.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            let data = event.data;
            let number = data.u64();
            if number & LISTENER != 0 {
                self.accept(u16::try_from(number & !LISTENER).unwrap_or(0));
                continue;
            }
            let index = usize::try_from(number / 2).unwrap_or(usize::MAX);
            let Some(slot) = self.connections.get_mut(index) else { continue };
            let Some(connection) = slot else { continue };
            let is_open = connection.copy(&mut self.buffer).unwrap_or(false);
            if !is_open || connection.update(&self.epoll, index).is_err() {
                *slot = None;
            }
        }
        Ok(())
    }

    fn accept(&mut self, port: u16) {
        let Some((host_port, listeners)) = self.listeners.get(&port) else { return };
        let host_port = *host_port;
        let mut accepted = Vec::new();
        for listener in listeners {
            if let Some((stream, _)) = self.spare.accept_tcp(listener)
                && let Ok(local) = listener.local_addr()
            {
                accepted.push((stream, local));
            }
        }
        for (stream, local) in accepted {
            self.connect_to_host(stream, local, host_port);
        }
    }
}

impl AsFd for LoopbackRelay {
    /// Returns a descriptor that is readable while [`LoopbackRelay::run`] has work.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Connection {
    fn events(&self, end: usize) -> EventFlags {
        let other = 1 - end;
        let mut flags = EventFlags::empty();
        let at = |flags: &[bool; 2], end: usize| flags.get(end).copied().unwrap_or(true);
        let waits = |end: usize| self.waiting.get(end).is_some_and(|data| !data.is_empty());
        if self.is_connected && !at(&self.has_ended, end) && !waits(end) {
            flags |= EventFlags::IN;
        }
        if waits(other) || !self.is_connected && end == 1 {
            flags |= EventFlags::OUT;
        }
        // The kernel always reports the end of a connection. Without other events, once is enough.
        if flags.is_empty() { EventFlags::ET } else { flags }
    }

    fn register(&mut self, epoll: &OwnedFd, index: usize) -> io::Result<()> {
        let flags = [self.events(0), self.events(1)];
        for (end, (socket, flags)) in self.ends.iter().zip(flags).enumerate() {
            let data = EventData::new_u64((index * 2 + end) as u64);
            epoll::add(epoll, socket, data, flags)?;
        }
        self.registered = flags;
        Ok(())
    }

    fn update(&mut self, epoll: &OwnedFd, index: usize) -> io::Result<()> {
        let flags = [self.events(0), self.events(1)];
        let changes = self.ends.iter().zip(flags).zip(self.registered).enumerate();
        for (end, ((socket, flags), registered)) in changes {
            if flags != registered {
                let data = EventData::new_u64((index * 2 + end) as u64);
                epoll::modify(epoll, socket, data, flags)?;
            }
        }
        self.registered = flags;
        Ok(())
    }

    /// Copies in both directions. Returns whether the connection is still open.
    fn copy(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let [first, second] = &mut self.ends;
        if !self.is_connected {
            match tcp_socket::connect_result(second) {
                Poll::Pending => return Ok(true),
                Poll::Ready(connected) => connected?,
            }
            self.is_connected = true;
        }
        let [first_waiting, second_waiting] = &mut self.waiting;
        let [first_ended, second_ended] = &mut self.has_ended;
        let [first_shut, second_shut] = &mut self.is_shut_down;
        copy_one((first, second), first_waiting, (first_ended, second_shut), buffer)?;
        copy_one((second, first), second_waiting, (second_ended, first_shut), buffer)?;
        Ok(!(*first_shut && *second_shut))
    }
}

/// Copies from one end to the other, and passes the end of the data on.
fn copy_one(
    (from, to): (&mut TcpStream, &mut TcpStream),
    waiting: &mut Vec<u8>,
    (has_ended, is_shut_down): (&mut bool, &mut bool),
    buffer: &mut [u8],
) -> io::Result<()> {
    if waiting.is_empty() && !*has_ended {
        match would_block_as_pending(from.read(buffer)) {
            Poll::Pending => {}
            Poll::Ready(Ok(0)) => *has_ended = true,
            Poll::Ready(Ok(len)) => {
                waiting.extend_from_slice(buffer.get(..len).unwrap_or_default());
            }
            Poll::Ready(Err(error)) => return Err(error),
        }
    }
    if !waiting.is_empty()
        && let Poll::Ready(written) = would_block_as_pending(to.write(waiting))
    {
        waiting.drain(..written?);
    }
    if *has_ended && waiting.is_empty() && !*is_shut_down {
        *is_shut_down = true;
        to.shutdown(Shutdown::Write)?;
    }
    Ok(())
}
