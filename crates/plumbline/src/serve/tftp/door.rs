//! Sockets that receive requests.

use super::log::Event;
use super::request::{self, Decision};
use super::{Running, Server};
use crate::files::tftp::Wire;
use anyhow::{Context, Result};
use os::datagram::{DatagramSocket, Inbox, Received};
use os::host::Host;
use os::readiness::{self, Registered};
use protocols::application::tftp::{Fault, Request, RequestError};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use tokio::io::Interest;

/// Socket that receives requests.
#[derive(Debug)]
pub(super) enum Door {
    /// Kernel UDP.
    Kernel(Registered<DatagramSocket>),
    /// User-space UDP.
    Own(os::host::UdpSocket),
}

impl Door {
    /// Opens a kernel socket at `place`.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if the socket cannot be bound.
    pub(super) fn open(place: SocketAddr) -> Result<Self> {
        let bound = DatagramSocket::bind(place).and_then(|socket| {
            socket.tell_destinations()?;
            readiness::register(socket, Interest::READABLE | Interest::ERROR)
        });
        let socket = bound.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "ports below 1024 need root",
                io::ErrorKind::AddrInUse => "the port is used by another program",
                io::ErrorKind::AddrNotAvailable => "not an address of this machine",
                _ => "system error",
            };
            anyhow::Error::new(error).context(format!("cannot listen on {place}: {why}"))
        })?;
        Ok(Self::Kernel(socket))
    }

    /// Opens a socket at `port` of `host`.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is in use.
    pub(super) fn of_host(host: &Host, port: u16) -> Result<Self> {
        let socket = host.bind(port);
        let failure = || format!("UDP port {port} of plumb's own TCP/IP stack is in use");
        socket.map(Self::Own).with_context(failure)
    }

    /// Returns the address or port for the log.
    pub(super) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Kernel(socket) => {
                let at = socket.get_ref().local_addr();
                at.context("cannot read the address of the socket")?.to_string()
            }
            Self::Own(socket) => format!("UDP port {} of plumb's own TCP/IP stack", socket.port()),
        })
    }

    /// Processes requests until the socket fails. Returns its error.
    pub(super) async fn attend(self, server: Rc<Server>) -> io::Error {
        match self {
            Self::Kernel(socket) => attend_kernel(socket, server).await,
            Self::Own(socket) => attend_own(socket, server).await,
        }
    }
}

async fn attend_own(socket: os::host::UdpSocket, server: Rc<Server>) -> io::Error {
    let mut room = vec![0; usize::from(u16::MAX)];
    loop {
        let (len, from, is_unicast) = match socket.recv_addressed(&mut room).await {
            Ok(received) => received,
            Err(error) => return error,
        };
        let data = room.get(..len).unwrap_or_default();
        take(&server, &Received { from, to: None, is_unicast, data });
    }
}

async fn attend_kernel(socket: Registered<DatagramSocket>, server: Rc<Server>) -> io::Error {
    let mut inbox = Inbox::default();
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await;
        let mut ready = match ready {
            Ok(ready) => ready,
            Err(error) => return error,
        };
        match socket.get_ref().receive(&mut inbox) {
            Ok(true) => {}
            Ok(false) => ready.clear_ready(),
            Err(error) => {
                ready.clear_ready();
                // Nothing is sent from this socket, so at most its buffer memory can cause an
                // error.
                while socket.get_ref().bounce().is_some() {}
                if error.kind() != io::ErrorKind::WouldBlock {
                    tokio::task::yield_now().await;
                }
                continue;
            }
        }
        for received in inbox.datagrams() {
            take(&server, &received);
        }
    }
}

/// Processes one datagram.
fn take(server: &Rc<Server>, received: &Received<'_>) {
    // RFC 1123 §4.2.3.5.
    if !received.is_unicast {
        return;
    }
    let from = received.from;
    let request = match Request::parse(received.data) {
        Ok(request) => request,
        // Other packets are never answered: two servers could answer each other indefinitely.
        Err(RequestError::NoRequest) => return,
        Err(RequestError::Refused(fault)) => {
            let request = server.admission.borrow_mut().enter(from.ip());
            if request.is_ok() {
                server.admission.borrow_mut().turn_away(from.ip());
                decline(server, from, received.to, String::new(), fault);
            }
            return;
        }
    };
    let running = server.transfers.borrow().get(&from).cloned();
    if let Some(running) = running {
        if running.request == received.data {
            // A duplicate, or the answer is still in transit.
            return;
        }
        // The client has started again from the same port.
        running.stop.want();
        server.transfers.borrow_mut().remove(&from);
    }
    let name = request.name.escape_ascii().to_string();
    if let Err(refusal) = server.enter(from.ip()) {
        // Silently: the client repeats its request later.
        let why = refusal.to_string();
        return server.log.say(&Event::Declined { from, name, why });
    }
    match request::decide(server, &request) {
        Decision::Decline(fault) => {
            server.admission.borrow_mut().turn_away(from.ip());
            decline(server, from, received.to, name, fault);
        }
        Decision::Serve(file) => {
            let running = Rc::new(Running::new(received.data));
            server.transfers.borrow_mut().insert(from, Rc::clone(&running));
            let (server, at) = (Rc::clone(server), received.to);
            tokio::task::spawn_local(async move {
                request::serve(&server, from, at, &request, file, &running).await;
                if !running.has_lost_place.get() {
                    server.admission.borrow_mut().leave(from.ip());
                }
                let mut transfers = server.transfers.borrow_mut();
                if transfers.get(&from).is_some_and(|there| Rc::ptr_eq(there, &running)) {
                    transfers.remove(&from);
                }
            });
        }
    }
}

/// Sends an error packet from a port of its own.
fn decline(server: &Server, from: SocketAddr, at: Option<IpAddr>, name: String, fault: Fault) {
    let datagram = fault.emit();
    // Sent once: a client that does not receive it repeats its request.
    match server.wire(at, from) {
        Ok(Wire::Kernel(socket)) => {
            _ = socket.get_ref().send(&datagram, &[datagram.len()], from);
        }
        Ok(Wire::Own(socket)) => _ = socket.try_send_to(&datagram, from),
        Err(_) => {}
    }
    let why = fault.text.to_owned();
    server.log.say(&Event::Declined { from, name, why });
}
