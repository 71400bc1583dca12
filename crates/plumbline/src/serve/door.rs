//! Where people come in: a listening socket of the kernel's, or a port of a host of our own, each in
//! cleartext or in TLS.

use super::Shop;
use super::log::Event;
use super::session::Session;
use super::wire::{self, Buffered, Socket, Wire};
use anyhow::{Context, Result};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How long the exchange of keys may take.
const HANDSHAKE: Duration = Duration::from_secs(15);
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

/// Somebody who has come.
enum Arrival {
    Kernel(TcpStream),
    Own(os::host::Stream),
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
    pub(super) async fn attend(self, acceptor: Option<TlsAcceptor>, shop: Rc<Shop>) -> io::Error {
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
            let entered = shop.admission().enter(peer.ip());
            if let Err(refusal) = entered {
                let why = refusal.to_string();
                shop.log.say(&Event::Refused { from: peer, why });
                if let (None, Arrival::Kernel(stream)) = (&acceptor, &arrival) {
                    // One try: who is refused has no claim on our time.
                    _ = stream.try_write(format!("{refusal}\r\n").as_bytes());
                }
                continue;
            }
            shop.log.say(&Event::Connected { from: peer });
            let (acceptor, shop) = (acceptor.clone(), Rc::clone(&shop));
            tokio::task::spawn_local(async move {
                let received = receive(arrival, peer, acceptor, &shop).await;
                if let Err(error) = received {
                    shop.log.say(&Event::Refused { from: peer, why: format!("{error:#}") });
                }
                shop.admission().leave(peer.ip());
            });
        }
    }
}

async fn receive(
    arrival: Arrival,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    shop: &Rc<Shop>,
) -> Result<()> {
    match (arrival, acceptor) {
        (Arrival::Kernel(stream), None) => {
            let stream = stream.into_std()?;
            let executor = shop.executor.as_ref().context("nobody serves cleartext")?;
            let served = executor.run(move |shop| async move {
                serve(Socket::new(stream, &shop.waiter)?, peer, &shop).await
            });
            served.await.context("the session has come to no end")?
        }
        (Arrival::Kernel(stream), Some(acceptor)) => {
            wire::prepare(&stream)?;
            serve(Buffered::new(handshake(stream, &acceptor).await?), peer, shop).await
        }
        (Arrival::Own(stream), None) => serve(Buffered::new(stream), peer, shop).await,
        (Arrival::Own(stream), Some(acceptor)) => {
            serve(Buffered::new(handshake(stream, &acceptor).await?), peer, shop).await
        }
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    acceptor: &TlsAcceptor,
) -> Result<tokio_rustls::server::TlsStream<S>> {
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
    stream.context("the exchange of keys takes too long")?.context("this is no TLS")
}

/// Runs one session, and says how it ended.
async fn serve<W: Wire>(wire: W, peer: SocketAddr, shop: &Rc<Shop>) -> Result<()> {
    let begun = std::time::Instant::now();
    let mut session = Session::new(wire, peer, Rc::clone(shop));
    let ending = session.run().await?;
    shop.log.say(&Event::Ended {
        from: peer,
        why: ending.sentence().to_owned(),
        seconds: begun.elapsed().as_secs(),
        bytes_in: session.traffic.bytes_in,
        bytes_out: session.traffic.bytes_out,
    });
    Ok(())
}
