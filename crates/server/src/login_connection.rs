//! Connections of the login server: TLS from the first byte, START_TLS after negotiation, or
//! cleartext.
//!
//! When START_TLS is negotiated, the cleartext session ends and its state is discarded, including
//! any data that an attacker has injected into the cleartext. TLS rejects data injected after the
//! START_TLS subnegotiation FOLLOWS. A new session begins inside TLS.

use super::admission::AdmissionRefusal;
use super::client_stream::{self, BufferedStream, ClientStream, Socket};
use super::console::{ConsoleSession, SerialConsole};
use super::listener::ConnectionService;
use super::log::ServeEvent;
use super::log_text::{old_tls_version, without_address};
use super::login_server::LoginServer;
use super::login_session::LoginSession;
use super::metered::{Metered, MeteredStream};
use super::send_queue::SendQueue;
use super::session_backend::SessionBackend;
use super::session_end::SessionEnd;
use super::start_tls_policy::StartTls;
use super::telnet_client::SessionTraffic;
use super::telnet_session::TelnetSession;
use super::userspace_tcp::UserspaceTcp;
use anyhow::{Context, Result, anyhow, bail};
use carrier::TcpConnection;
use net::meter::Account;
use std::cell::RefCell;
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
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// Policy of a listener, which a reload can change.
#[derive(Clone)]
pub(super) struct LoginPolicy {
    /// TLS acceptor, used from the first byte or after START_TLS.
    pub(super) acceptor: Option<TlsAcceptor>,
    /// START_TLS policy; `None` if the listener uses TLS from the first byte.
    pub(super) start_tls: Option<StartTls>,
    /// Serial line served instead of logins.
    pub(super) console: Option<Rc<SerialConsole>>,
}

/// Service of one listener: logins or a console.
pub(super) struct LoginService {
    pub(super) server: Rc<LoginServer>,
    pub(super) policy: Rc<RefCell<LoginPolicy>>,
}

impl ConnectionService for LoginService {
    fn report(&self, event: &ServeEvent<'_>) {
        self.server.log.write(event);
    }

    fn is_closing(&self) -> bool {
        self.server.shutdown.is_requested()
    }

    fn admit(&self, peer: SocketAddr) -> Result<(), AdmissionRefusal> {
        let random_ppm = self.server.engine().rng.below(1_000_000);
        self.server.admission().admit_unauthenticated(peer, random_ppm)?;
        self.server.log.write(&ServeEvent::Connected { from: peer });
        Ok(())
    }

    fn notify_refused(&self, connection: &TcpConnection, refusal: AdmissionRefusal) {
        let start_tls = self.policy.borrow().start_tls;
        if let (Some(_), TcpConnection::Kernel(stream)) = (start_tls, connection) {
            // If the reply does not fit into the send buffer, the client gets none.
            _ = stream.try_write(format!("{refusal}\r\n").as_bytes());
        }
    }

    async fn serve(self: Rc<Self>, connection: TcpConnection, peer: SocketAddr) {
        // The process ends when the notices are dropped, which is after the last line of the session.
        let _until_logged = self.server.shutdown.notice();
        let policy = self.policy.borrow().clone();
        if let Err(error) = serve_connection(&self.server, &policy, connection, peer).await {
            let why = without_address(&format!("{error:#}"));
            self.server.log.write(&ServeEvent::Refused { from: peer, why });
        }
    }

    fn release(&self, peer: SocketAddr) {
        self.server.admission().release_session(peer);
    }
}

/// Serves a connection to its end.
///
/// # Errors
///
/// Returns an error if the connection, its TLS handshake or the session fails.
async fn serve_connection(
    server: &Rc<LoginServer>,
    policy: &LoginPolicy,
    connection: TcpConnection,
    peer: SocketAddr,
) -> Result<()> {
    let console = policy.console.as_ref();
    match (connection, policy.start_tls) {
        (TcpConnection::Kernel(stream), None) => {
            client_stream::prepare(&stream)?;
            run_in_tls(server, policy, stream, peer).await
        }
        (TcpConnection::Userspace(stream), None) => run_in_tls(server, policy, stream, peer).await,
        (TcpConnection::Kernel(stream), Some(start_tls)) => {
            let stream = Socket::new(stream.into_std()?)?;
            let upgrade = run_session(stream, peer, start_tls, console, server).await?;
            let Some((stream, rest)) = upgrade else { return Ok(()) };
            let stream = TcpStream::from_std(stream.into_stream())?;
            run_in_tls(server, policy, PrefixedStream { rest, stream }, peer).await
        }
        (TcpConnection::Userspace(stream), Some(start_tls)) => {
            let stream = UserspaceTcp::new(stream);
            let upgrade = run_session(stream, peer, start_tls, console, server).await?;
            let Some((stream, rest)) = upgrade else { return Ok(()) };
            let stream = PrefixedStream { rest, stream: stream.into_stream() };
            run_in_tls(server, policy, stream, peer).await
        }
    }
}

async fn run_in_tls<S: AsyncRead + AsyncWrite + SendQueue + Unpin>(
    server: &Rc<LoginServer>,
    policy: &LoginPolicy,
    stream: S,
    peer: SocketAddr,
) -> Result<()> {
    let acceptor = policy.acceptor.as_ref().context("no TLS certificate")?;
    let stream = MeteredStream::new(stream, Rc::clone(server), Account::Interrupt);
    let handshake = server.charge_future(Account::Encryption, acceptor.accept(stream));
    let mut shutdown = server.shutdown.notice();
    let stream = tokio::select! {
        stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => stream,
        () = shutdown.requested() => bail!("the server stopped"),
    };
    let stream = stream.context("TLS handshake timed out")?;
    let stream = stream.map_err(|error| match old_tls_version(&error) {
        Some(reason) => anyhow!(reason),
        None => error.into(),
    });
    let stream = stream.context("TLS handshake failed")?;
    let stream =
        BufferedStream::new(MeteredStream::new(stream, Rc::clone(server), Account::Encryption));
    // START_TLS is off inside TLS, so no stream is returned.
    run_session(stream, peer, StartTls::Off, policy.console.as_ref(), server).await.map(drop)
}

/// Runs one session and logs its end. If the session is to continue in TLS, returns the client's
/// stream and the bytes that were read after the end of the cleartext session.
async fn run_session<W: ClientStream>(
    stream: W,
    peer: SocketAddr,
    start_tls: StartTls,
    console: Option<&Rc<SerialConsole>>,
    server: &Rc<LoginServer>,
) -> Result<Option<(W, Vec<u8>)>> {
    let started_at = std::time::Instant::now();
    let server = Rc::clone(server);
    let log = server.log;
    let (ending, traffic, stream_and_rest) = match console {
        None => {
            run_backend(TelnetSession::new(stream, peer, server, start_tls, LoginSession::new()))
                .await?
        }
        Some(console) => {
            // A console requires no login.
            server.admission().mark_authenticated(peer);
            let backend = ConsoleSession::new(Rc::clone(console));
            run_backend(TelnetSession::new(stream, peer, server, start_tls, backend)).await?
        }
    };
    if ending == SessionEnd::StartsTls {
        return Ok(Some(stream_and_rest));
    }
    log.write(&ServeEvent::Ended {
        from: peer,
        why: ending.description().to_owned(),
        seconds: started_at.elapsed().as_secs(),
        bytes_in: traffic.bytes_in,
        bytes_out: traffic.bytes_out,
    });
    Ok(None)
}

/// Runs a session. Returns its end, the bytes carried, and the client's stream with the bytes that
/// were read after the end of the cleartext session.
async fn run_backend<W: ClientStream, B: SessionBackend>(
    mut session: TelnetSession<W, B>,
) -> Result<(SessionEnd, SessionTraffic, (W, Vec<u8>))> {
    let server = session.server();
    let ending = server.charge_future(Account::Application, session.run()).await?;
    Ok((ending, session.traffic(), session.into_stream()))
}

/// Stream that first returns the bytes in `rest`, which were already read, and then reads from the
/// underlying stream.
#[derive(Debug)]
struct PrefixedStream<S> {
    rest: Vec<u8>,
    stream: S,
}

impl<S: SendQueue> SendQueue for PrefixedStream<S> {
    fn send_queue_len(&self) -> usize {
        self.stream.send_queue_len()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
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
