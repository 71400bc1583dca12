//! Sockets that receive requests.

use super::request::{self, Refusal};
use super::running_transfer::RunningTransfer;
use super::tftp_log::TftpEvent;
use super::tftp_server::TftpServer;
use crate::inherited_sockets;
use crate::listener::{listen_error, with_shared_port};
use crate::log_text::escape_name;
use crate::session_id::SessionId;
use anyhow::{Context, Result};
use net::meter::Counter;
use os::datagram::{DatagramSocket, Inbox, Received};
use os::host::Host;
use os::readiness::{self, Registered};
use protocols::tftp::{Request, RequestError};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;
use tokio::io::Interest;
use transfer::tftp::UdpTransport;

/// Socket that receives requests.
#[derive(Debug)]
pub(crate) enum RequestSocket {
    /// Kernel UDP.
    Kernel(Registered<DatagramSocket>),
    /// User-space UDP.
    Userspace(os::host::UdpSocket),
}

impl RequestSocket {
    /// Opens a kernel socket at `address`, or at its port of `host`. `closing` are open sockets of this
    /// server, with their addresses, which are about to be closed and may use the port.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if the socket cannot be bound.
    pub(crate) fn open(
        host: Option<&Host>,
        address: SocketAddr,
        closing: &[(SocketAddr, Rc<Self>)],
    ) -> Result<Self> {
        if let Some(host) = host {
            return Self::of_host(host, address.port());
        }
        let closing = closing.iter().filter(|(other, _)| other.port() == address.port());
        let kernel = closing.filter_map(|(_, socket)| match &**socket {
            Self::Kernel(socket) => Some(socket.get_ref()),
            Self::Userspace(_) => None,
        });
        let kernel: Vec<_> = kernel.collect();
        with_shared_port(&kernel, || Self::open_kernel(address, !kernel.is_empty()))
    }

    fn open_kernel(address: SocketAddr, shares_port: bool) -> Result<Self> {
        let inherited = inherited_sockets::take_datagram_socket(address);
        let socket = match inherited {
            Ok(Some(socket)) => Ok(socket),
            Ok(None) => DatagramSocket::bind_beside(address, shares_port),
            Err(error) => Err(error),
        };
        let result = socket.and_then(|socket| {
            socket.report_destinations()?;
            readiness::register(socket, Interest::READABLE | Interest::ERROR)
        });
        let socket = result.map_err(|error| listen_error(address, error))?;
        Ok(Self::Kernel(socket))
    }

    /// Opens a socket at `port` of `host`.
    ///
    /// # Errors
    ///
    /// Returns an error if the UDP port is in use.
    fn of_host(host: &Host, port: u16) -> Result<Self> {
        let socket = host.bind(port);
        let failure = || format!("UDP port {port} of plumb's own TCP/IP stack is in use");
        socket.map(Self::Userspace).with_context(failure)
    }

    /// Returns the address or port for the log.
    pub(crate) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Kernel(socket) => {
                let address = socket.get_ref().local_addr();
                address.context("cannot read the address of the socket")?.to_string()
            }
            Self::Userspace(socket) => {
                format!("UDP port {} of plumb's own TCP/IP stack", socket.port())
            }
        })
    }

    /// Processes requests until the socket fails. Returns the error of the socket.
    pub(super) async fn serve(self: Rc<Self>, server: Rc<TftpServer>) -> io::Error {
        match &*self {
            Self::Kernel(socket) => serve_kernel(socket, server).await,
            Self::Userspace(socket) => serve_userspace(socket, server).await,
        }
    }
}

async fn serve_userspace(socket: &os::host::UdpSocket, server: Rc<TftpServer>) -> io::Error {
    let mut room = vec![0; usize::from(u16::MAX)];
    loop {
        let (len, from, is_unicast) = match socket.recv_addressed(&mut room).await {
            Ok(received) => received,
            Err(error) => return error,
        };
        let data = room.get(..len).unwrap_or_default();
        handle_datagram(&server, &Received { from, to: None, is_unicast, data });
    }
}

async fn serve_kernel(socket: &Registered<DatagramSocket>, server: Rc<TftpServer>) -> io::Error {
    let mut inbox = Inbox::default();
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await;
        let mut ready = match ready {
            Ok(ready) => ready,
            Err(error) => return error,
        };
        match socket.get_ref().receive(&mut inbox) {
            Poll::Ready(Ok(true)) => {}
            Poll::Ready(Ok(false)) => ready.clear_ready(),
            pending_or_failed => {
                ready.clear_ready();
                // Nothing is sent from this socket, so only a lack of buffer memory can cause an
                // error.
                while socket.get_ref().datagram_error().is_some() {}
                if pending_or_failed.is_ready() {
                    tokio::task::yield_now().await;
                }
                continue;
            }
        }
        for received in inbox.datagrams() {
            handle_datagram(&server, &received);
        }
    }
}

/// Processes one datagram.
fn handle_datagram(server: &Rc<TftpServer>, received: &Received<'_>) {
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
            let admission_result = server.admission.borrow_mut().admit(from.ip());
            if admission_result.is_err() {
                return server.count(Counter::TftpAdmissionsRefused);
            }
            return decline(server, from, received.to, String::new(), Refusal::Invalid(fault));
        }
    };
    let running = server.transfers.borrow().get(&from).cloned();
    if let Some(running) = running {
        if running.request == received.data {
            // The request is a duplicate, or the answer is still in transit.
            return;
        }
        // The client has started again from the same port.
        running.stop.request();
        server.transfers.borrow_mut().remove(&from);
    }
    let name = escape_name(&request.name);
    if let Err(refusal) = server.admit(from.ip()) {
        // No answer is sent, because the client repeats its request later.
        server.count(Counter::TftpAdmissionsRefused);
        let why = refusal.to_string();
        return server.log.write(&TftpEvent::Declined { from, name, why });
    }
    match request::decide(server, &request) {
        Err(refusal) => decline(server, from, received.to, name, refusal),
        Ok(file) => {
            let running = Rc::new(RunningTransfer::new(received.data));
            server.transfers.borrow_mut().insert(from, Rc::clone(&running));
            let server = Rc::clone(server);
            let local_address = received.to;
            let session = SessionId::next();
            tokio::task::spawn_local(session.scope(async move {
                request::serve(&server, from, local_address, &request, file, &running).await;
                if !running.is_displaced.get() {
                    server.admission.borrow_mut().release(from.ip());
                }
                let mut transfers = server.transfers.borrow_mut();
                if transfers.get(&from).is_some_and(|current| Rc::ptr_eq(current, &running)) {
                    transfers.remove(&from);
                }
            }));
        }
    }
}

/// Counts an admitted request as refused, and sends an error packet from a newly opened port.
fn decline(
    server: &TftpServer,
    from: SocketAddr,
    at: Option<IpAddr>,
    name: String,
    refusal: Refusal,
) {
    server.admission.borrow_mut().revoke_admission(from.ip());
    server.count(refusal.counter());
    let fault = refusal.fault();
    let datagram = fault.emit();
    // The error packet is sent once: a client that does not receive it repeats its request.
    match server.transport(at, from) {
        Ok(UdpTransport::Kernel(socket)) => {
            _ = socket.get_ref().send(&datagram, &[datagram.len()], from);
        }
        Ok(UdpTransport::Userspace(socket)) => _ = socket.try_send_to(&datagram, from),
        Err(_) => {}
    }
    let why = fault.text.to_owned();
    server.log.write(&TftpEvent::Declined { from, name, why });
}
