//! Listeners of the login server: a kernel socket or a port of the user-space host, each in
//! cleartext or in TLS.

use super::accept::{AcceptedStream, ListenerOptions, serve_connection};
use super::log::ServeEvent;
use super::login_server::LoginServer;
use anyhow::Result;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// Length of the kernel's queue of connections that are not accepted yet (the backlog of
/// `listen(2)`).
const BACKLOG: u32 = 1024;
/// Delay after a failed accept, for example for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Listening TCP socket of the kernel or of the user-space host.
#[derive(Debug)]
pub(super) enum ServerListener {
    /// Kernel TCP.
    Kernel(TcpListener),
    /// User-space TCP.
    Userspace(os::host::Listener),
}

impl ServerListener {
    /// Opens a kernel listener at `address`.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if the socket cannot be bound.
    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        let result = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
        result.map(Self::Kernel).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "ports below 1024 need root",
                io::ErrorKind::AddrInUse => "the port is used by another program",
                io::ErrorKind::AddrNotAvailable => "not an address of this machine",
                _ => "system error",
            };
            anyhow::Error::new(error).context(format!("cannot listen on {address}: {why}"))
        })
    }

    /// Returns the address or port for display.
    pub(super) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Kernel(listener) => listener.local_addr()?.to_string(),
            Self::Userspace(listener) => {
                format!("port {} of plumb's own TCP/IP stack", listener.port())
            }
        })
    }

    async fn accept(&self) -> io::Result<(AcceptedStream, SocketAddr)> {
        match self {
            Self::Kernel(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((AcceptedStream::Kernel(stream), peer))
            }
            Self::Userspace(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((AcceptedStream::Userspace(stream), peer))
            }
        }
    }

    /// Accepts connections until the listener fails. Returns the error; only a listener of the
    /// user-space host fails.
    pub(super) async fn run(self, options: ListenerOptions, server: Rc<LoginServer>) -> io::Error {
        loop {
            let (stream, peer) = match (self.accept().await, &self) {
                (Ok(accepted), _) => accepted,
                // The user-space host has ended with its device.
                (Err(error), Self::Userspace(_)) => return error,
                (Err(_), Self::Kernel(_)) => {
                    // No descriptors are left, or the client closed before the connection was
                    // accepted.
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let random_ppm = server.engine().rng.below(1_000_000);
            let result = server.admission().admit_unauthenticated(peer, random_ppm);
            if let Err(refusal) = result {
                let why = refusal.to_string();
                server.log.write(&ServeEvent::Refused { from: peer, why });
                if let (Some(_), AcceptedStream::Kernel(stream)) = (options.start_tls, &stream) {
                    // One attempt without blocking: a refused client gets no more of the server's
                    // time.
                    _ = stream.try_write(format!("{refusal}\r\n").as_bytes());
                }
                continue;
            }
            server.log.write(&ServeEvent::Connected { from: peer });
            let options = options.clone();
            let server = Rc::clone(&server);
            tokio::task::spawn_local(async move {
                let result = serve_connection(stream, peer, &options, &server).await;
                if let Err(error) = result {
                    server
                        .log
                        .write(&ServeEvent::Refused { from: peer, why: format!("{error:#}") });
                }
                server.admission().release_session(peer);
            });
        }
    }
}
