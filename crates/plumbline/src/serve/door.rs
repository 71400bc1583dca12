//! Where people come in: a listening socket of the kernel's, or a port of a host of our own, each in
//! cleartext or in TLS.

use super::Shop;
use super::entrance::{Arrival, Entrance, receive};
use super::log::Event;
use anyhow::Result;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// How many connections the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;
/// How long an accept that fails for want of something waits for it.
const PAUSE: Duration = Duration::from_millis(100);

/// A place where people come in.
#[derive(Debug)]
pub(super) enum Door {
    /// Of the kernel's TCP.
    Kernel(TcpListener),
    /// Of our own.
    Own(os::host::Listener),
}

impl Door {
    /// Opens a door at `place` of this machine.
    ///
    /// # Errors
    ///
    /// If nobody can listen there, in a sentence that says why.
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
                io::ErrorKind::AddrInUse => "somebody listens there already",
                io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
                _ => "the kernel refuses",
            };
            anyhow::Error::new(error).context(format!("nobody can listen at {place}: {why}"))
        })
    }

    /// Returns where it is, for people.
    pub(super) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Kernel(listener) => listener.local_addr()?.to_string(),
            Self::Own(listener) => format!("port {} of our own TCP/IP", listener.port()),
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

    /// Takes everybody who comes, for as long as anybody can; returns why nobody can any longer.
    pub(super) async fn attend(self, entrance: Entrance, shop: Rc<Shop>) -> io::Error {
        loop {
            let (arrival, peer) = match (self.accept().await, &self) {
                (Ok(accepted), _) => accepted,
                // Our own host has ended with its device.
                (Err(error), Self::Own(_)) => return error,
                (Err(_), Self::Kernel(_)) => {
                    // No descriptors are left, or somebody has gone before he was let in.
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
                    // One try: who is refused has no claim on our time.
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
