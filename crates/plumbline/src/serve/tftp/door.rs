//! Where requests come in.

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

/// A place where requests come in.
#[derive(Debug)]
pub(super) enum Door {
    /// Of the kernel's UDP.
    Kernel(Registered<DatagramSocket>),
    /// Of our own.
    Own(os::host::UdpSocket),
}

impl Door {
    /// Opens a door at `place` of this machine.
    ///
    /// # Errors
    ///
    /// If nobody can listen there, in a sentence that says why.
    pub(super) fn open(place: SocketAddr) -> Result<Self> {
        let bound = DatagramSocket::bind(place).and_then(|socket| {
            socket.tell_destinations()?;
            readiness::register(socket, Interest::READABLE | Interest::ERROR)
        });
        let socket = bound.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "ports below 1024 need root",
                io::ErrorKind::AddrInUse => "somebody listens there already",
                io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
                _ => "the kernel refuses",
            };
            anyhow::Error::new(error).context(format!("nobody can listen at {place}: {why}"))
        })?;
        Ok(Self::Kernel(socket))
    }

    /// Opens a door at `port` of `host`.
    ///
    /// # Errors
    ///
    /// If the port is taken.
    pub(super) fn of_host(host: &Host, port: u16) -> Result<Self> {
        let socket = host.bind(port);
        socket.map(Self::Own).with_context(|| format!("our UDP port {port} is taken"))
    }

    /// Returns where it is, for the log.
    pub(super) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Kernel(socket) => {
                let at = socket.get_ref().local_addr().context("the socket has no address")?;
                at.to_string()
            }
            Self::Own(socket) => format!("port {} of our own UDP/IP", socket.port()),
        })
    }

    /// Takes every request, for as long as any can come; returns why none can any longer.
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
                // Nothing is sent from here, so an error is of the socket's memory at most.
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

/// Takes one datagram.
fn take(server: &Rc<Server>, received: &Received<'_>) {
    // RFC 1123 §4.2.3.5.
    if !received.is_unicast {
        return;
    }
    let from = received.from;
    let request = match Request::parse(received.data) {
        Ok(request) => request,
        // What is no request is never answered: two servers could go on for ever.
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
            // It has come twice, or the answer is on its way.
            return;
        }
        // The far side has begun anew from the same port.
        running.stop.want();
        server.transfers.borrow_mut().remove(&from);
    }
    let name = request.name.escape_ascii().to_string();
    if let Err(refusal) = server.enter(from.ip()) {
        // In silence: who may come later asks again.
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

/// Says no, from a port of its own.
fn decline(server: &Server, from: SocketAddr, at: Option<IpAddr>, name: String, fault: Fault) {
    let datagram = fault.emit();
    // Once: who has not heard it asks again.
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
