//! From a connection to what is served on it: TLS at once, or START_TLS on the way, or neither.
//!
//! A session in clear that agrees on START_TLS ends there, with everything that it was told: who
//! can put words into the clear part puts them into a session that is thrown away, and what he
//! puts behind the FOLLOWS is read by TLS, which refuses it. Another session begins inside.

use super::Shop;
use super::charged::{Charged, Metered};
use super::console::{Console, Visit};
use super::ending::Ending;
use super::log::Event;
use super::own::Own;
use super::session::Session;
use super::wire::{self, Buffered, Socket, Wire};
use anyhow::{Context, Result};
use protocols::meter::Account;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// How long the exchange of keys may take.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// Whether a session that begins in clear goes on in TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StartTls {
    /// It is not offered.
    #[default]
    Off,
    /// Whoever can does.
    Offered,
    /// Whoever cannot is sent away.
    Required,
}

/// How those who come by a door are served.
#[derive(Clone)]
pub(super) struct Entrance {
    /// For TLS from the first byte, or from START_TLS.
    pub(super) acceptor: Option<TlsAcceptor>,
    /// None where all is TLS.
    pub(super) start_tls: Option<StartTls>,
    /// A serial line instead of a login.
    pub(super) console: Option<Rc<Console>>,
}

/// Somebody who has come.
pub(super) enum Arrival {
    Kernel(TcpStream),
    Own(os::host::Stream),
}

/// Serves somebody to the end, and says how it was.
///
/// # Errors
///
/// If the connection fails, or there is nothing to serve.
pub(super) async fn receive(
    arrival: Arrival,
    peer: SocketAddr,
    entrance: &Entrance,
    shop: &Rc<Shop>,
) -> Result<()> {
    match (arrival, entrance.start_tls) {
        (Arrival::Kernel(stream), None) => {
            wire::prepare(&stream)?;
            in_tls(stream, peer, entrance, shop).await
        }
        (Arrival::Own(stream), None) => in_tls(stream, peer, entrance, shop).await,
        (Arrival::Kernel(stream), Some(how)) => {
            let held = hold_socket(stream.into_std()?, peer, how, entrance, shop).await?;
            let Some((stream, rest)) = held else { return Ok(()) };
            let stream = TcpStream::from_std(stream)?;
            in_tls(Resumed { rest, stream }, peer, entrance, shop).await
        }
        (Arrival::Own(stream), Some(how)) => {
            let wire = Own::new(stream);
            let console = entrance.console.as_ref();
            let Some((wire, rest)) = hold(wire, peer, how, console, shop).await? else {
                return Ok(());
            };
            in_tls(Resumed { rest, stream: wire.into_stream() }, peer, entrance, shop).await
        }
    }
}

async fn in_tls<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: SocketAddr,
    entrance: &Entrance,
    shop: &Rc<Shop>,
) -> Result<()> {
    let acceptor = entrance.acceptor.as_ref().context("there is no certificate")?;
    let stream = Charged::new(stream, Rc::clone(shop), Account::Interrupt);
    let accepted = shop.charge_work(Account::Encryption, acceptor.accept(stream));
    let stream = tokio::time::timeout(HANDSHAKE, accepted).await;
    let stream = stream.context("the exchange of keys takes too long")?;
    let stream = stream.context("this is no TLS")?;
    let wire = Buffered::new(Charged::new(stream, Rc::clone(shop), Account::Encryption));
    // START_TLS is off inside of TLS, so that nothing is left over.
    hold(wire, peer, StartTls::Off, entrance.console.as_ref(), shop).await.map(drop)
}

/// Holds one session on a socket as [`hold`] does: a login where the executor polls it.
async fn hold_socket(
    stream: std::net::TcpStream,
    peer: SocketAddr,
    start_tls: StartTls,
    entrance: &Entrance,
    shop: &Rc<Shop>,
) -> Result<Option<(std::net::TcpStream, Vec<u8>)>> {
    let to_stream = |(wire, rest): (Socket, Vec<u8>)| (wire.into_stream(), rest);
    let console = entrance.console.as_ref();
    let Some(executor) = shop.executor.as_ref().filter(|_| console.is_none()) else {
        let wire = Socket::new(stream, &shop.waiter)?;
        return Ok(hold(wire, peer, start_tls, console, shop).await?.map(to_stream));
    };
    let held = executor.run(move |shop| async move {
        let wire = Socket::new(stream, &shop.waiter)?;
        Ok(hold(wire, peer, start_tls, None, &shop).await?.map(to_stream))
    });
    held.await.context("the session has come to no end")?
}

/// Holds one session, and says how it ended. One that is to go on in TLS is returned as its way,
/// with what was read of it too much.
async fn hold<W: Wire>(
    wire: W,
    peer: SocketAddr,
    start_tls: StartTls,
    console: Option<&Rc<Console>>,
    shop: &Rc<Shop>,
) -> Result<Option<(W, Vec<u8>)>> {
    let begun = std::time::Instant::now();
    let shop = Rc::clone(shop);
    let log = shop.log;
    let (ending, traffic, left) = match console {
        None => {
            let mut session = Session::new(wire, peer, shop, start_tls);
            let ending = session.run().await?;
            (ending, session.traffic, session.into_wire())
        }
        Some(console) => {
            let mut visit = Visit::new(wire, peer, shop, Rc::clone(console), start_tls);
            let ending = visit.run().await?;
            (ending, visit.traffic, visit.into_wire())
        }
    };
    if ending == Ending::StartsTls {
        return Ok(Some(left));
    }
    log.say(&Event::Ended {
        from: peer,
        why: ending.sentence().to_owned(),
        seconds: begun.elapsed().as_secs(),
        bytes_in: traffic.bytes_in,
        bytes_out: traffic.bytes_out,
    });
    Ok(None)
}

/// A stream of which something was read already.
#[derive(Debug)]
struct Resumed<S> {
    rest: Vec<u8>,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Resumed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(self.rest.get(..count).unwrap_or_default());
        self.rest.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Resumed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
