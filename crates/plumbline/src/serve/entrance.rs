//! Dispatch of accepted connections: TLS from the first byte, START_TLS after negotiation, or
//! cleartext.
//!
//! A cleartext session that agrees on START_TLS ends there with all its state. An attacker that
//! injects data into the cleartext part reaches only a session that is discarded, and data injected
//! after FOLLOWS is read by TLS, which rejects it. A new session begins inside TLS.

use super::LoginServer;
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

/// Time limit of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// START_TLS policy of a listener in cleartext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StartTls {
    /// START_TLS is not offered.
    #[default]
    Off,
    /// Clients that support START_TLS use it.
    Offered,
    /// Clients that do not support START_TLS are rejected.
    Required,
}

/// Options of a listener.
#[derive(Clone)]
pub(super) struct Entrance {
    /// For TLS from the first byte or after START_TLS.
    pub(super) acceptor: Option<TlsAcceptor>,
    /// `None` if the listener uses TLS from the first byte.
    pub(super) start_tls: Option<StartTls>,
    /// Serial line served instead of logins.
    pub(super) console: Option<Rc<Console>>,
}

/// Accepted connection.
pub(super) enum Arrival {
    Kernel(TcpStream),
    Own(os::host::Stream),
}

/// Serves a connection to its end.
///
/// # Errors
///
/// Returns an error if the connection fails or there is nothing to serve.
pub(super) async fn receive(
    arrival: Arrival,
    peer: SocketAddr,
    entrance: &Entrance,
    shop: &Rc<LoginServer>,
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
    shop: &Rc<LoginServer>,
) -> Result<()> {
    let acceptor = entrance.acceptor.as_ref().context("no TLS certificate")?;
    let stream = Charged::new(stream, Rc::clone(shop), Account::Interrupt);
    let accepted = shop.charge_work(Account::Encryption, acceptor.accept(stream));
    let stream = tokio::time::timeout(HANDSHAKE, accepted).await;
    let stream = stream.context("TLS handshake timed out")?;
    let stream = stream.context("TLS handshake failed")?;
    let wire = Buffered::new(Charged::new(stream, Rc::clone(shop), Account::Encryption));
    // START_TLS is off inside TLS, so no stream is returned.
    hold(wire, peer, StartTls::Off, entrance.console.as_ref(), shop).await.map(drop)
}

/// Runs one session on a socket like [`hold`]; logins run on the executor.
async fn hold_socket(
    stream: std::net::TcpStream,
    peer: SocketAddr,
    start_tls: StartTls,
    entrance: &Entrance,
    shop: &Rc<LoginServer>,
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
    held.await.context("the session was aborted")?
}

/// Runs one session and logs its end. If it continues in TLS, returns its stream and the bytes read
/// beyond its end.
async fn hold<W: Wire>(
    wire: W,
    peer: SocketAddr,
    start_tls: StartTls,
    console: Option<&Rc<Console>>,
    shop: &Rc<LoginServer>,
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

/// Stream with bytes that were already read from it.
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
