//! Listeners of the login server: a kernel socket or a port of the user-space host, each in
//! cleartext or in TLS.

use super::LoginServer;
use super::entrance::{Arrival, Entrance, receive};
use super::log::Event;
use anyhow::Result;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// Length of the kernel's queue of connections that are not accepted yet.
const BACKLOG: u32 = 1024;
/// Delay after a failed accept, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener.
#[derive(Debug)]
pub(super) enum Door {
    /// Kernel TCP.
    Kernel(TcpListener),
    /// User-space TCP.
    Own(os::host::Listener),
}

impl Door {
    /// Opens a kernel listener at `place`.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if the socket cannot be bound.
    pub(super) fn open(place: SocketAddr) -> Result<Self> {
        let socket = match place {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        let bound = socket.bind(place).and_then(|()| socket.listen(BACKLOG));
        bound.map(Self::Kernel).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "ports below 1024 need root",
                io::ErrorKind::AddrInUse => "the port is used by another program",
                io::ErrorKind::AddrNotAvailable => "not an address of this machine",
                _ => "system error",
            };
            anyhow::Error::new(error).context(format!("cannot listen on {place}: {why}"))
        })
    }

    /// Returns the address or port for display.
    pub(super) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Kernel(listener) => listener.local_addr()?.to_string(),
            Self::Own(listener) => format!("port {} of plumb's own TCP/IP stack", listener.port()),
        })
    }

    async fn accept(&self) -> io::Result<(Arrival, SocketAddr)> {
        match self {
            Self::Kernel(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Arrival::Kernel(stream), peer))
            }
            Self::Own(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Arrival::Own(stream), peer))
            }
        }
    }

    /// Accepts connections until the listener fails. Returns the error; only a listener of the
    /// user-space host fails.
    pub(super) async fn attend(self, entrance: Entrance, shop: Rc<LoginServer>) -> io::Error {
        loop {
            let (arrival, peer) = match (self.accept().await, &self) {
                (Ok(accepted), _) => accepted,
                // The user-space host has ended with its device.
                (Err(error), Self::Own(_)) => return error,
                (Err(_), Self::Kernel(_)) => {
                    // No descriptors are left, or the client closed before the connection was
                    // accepted.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let random_ppm = shop.bench().chance.below(1_000_000);
            let entered = shop.admission().enter_unproved(peer, random_ppm);
            if let Err(refusal) = entered {
                let why = refusal.to_string();
                shop.log.say(&Event::Refused { from: peer, why });
                if let (Some(_), Arrival::Kernel(stream)) = (entrance.start_tls, &arrival) {
                    // One attempt without blocking: a refused client gets no more of the server's
                    // time.
                    _ = stream.try_write(format!("{refusal}\r\n").as_bytes());
                }
                continue;
            }
            shop.log.say(&Event::Connected { from: peer });
            let (entrance, shop) = (entrance.clone(), Rc::clone(&shop));
            tokio::task::spawn_local(async move {
                let received = receive(arrival, peer, &entrance, &shop).await;
                if let Err(error) = received {
                    shop.log.say(&Event::Refused { from: peer, why: format!("{error:#}") });
                }
                shop.admission().leave_session(peer);
            });
        }
    }
}
