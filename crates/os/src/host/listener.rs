//! A port on which connections are accepted.

use super::{AcceptQueue, Host, State, Stream};
use net::Cx;
use net::transport::tcp::{Profile, Tcp};
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

/// A listening port. Once it is dropped, no further connections are accepted.
#[derive(Debug)]
pub struct Listener {
    host: Host,
    port: u16,
}

impl Host {
    /// Listens on `port` of every address, or on a free port if it is 0.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AddrInUse`] if the port is in use.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        Listener::bind(self.clone(), port)
    }
}

impl Listener {
    fn bind(host: Host, port: u16) -> io::Result<Self> {
        let port = host.act(|state| {
            state.check()?;
            let profile = host.profile.as_deref().copied().unwrap_or(state.profile);
            let port = state.layers(|layers, cx| listen(&mut layers.tcp, port, profile, cx));
            let port = port.ok_or(io::ErrorKind::AddrInUse)?;
            state.listeners.insert(port, AcceptQueue::default());
            Ok::<_, io::Error>(port)
        });
        let port = port?;
        Ok(Self { host, port })
    }

    /// Returns the port number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next connection, and returns it with the peer's address. Several tasks may
    /// wait.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has failed.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let notifier =
            self.host.shared.lock().listeners.entry(self.port).or_default().waiting.notifier();
        let attempt = |state: &mut State| {
            state.check()?;
            let accept_queue = state.listeners.entry(self.port).or_default();
            match accept_queue.open.pop_front() {
                Some(id) => Poll::Ready(Ok(Stream::of(self.host.clone(), id))),
                None => accept_queue.waiting.wait(),
            }
        };
        let stream = self.host.poll_until_ready(notifier, attempt).await?;
        let remote = stream.peer_addr()?;
        Ok((stream, remote))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.host.act(|state| {
            let waiting = state.listeners.remove(&self.port).unwrap_or_default().open;
            for id in &waiting {
                state.connections.remove(id);
            }
            state.layers(|layers, _| {
                layers.tcp.stop_listening(self.port);
                waiting.into_iter().for_each(|id| layers.tcp.release(id));
            });
        });
    }
}

/// Listens on `port`, or on a free dynamic port if it is 0. Returns the port.
fn listen(tcp: &mut Tcp, port: u16, profile: Profile, cx: &mut Cx<'_>) -> Option<u16> {
    if port != 0 {
        return tcp.listen(port, profile).ok().map(|()| port);
    }
    (0..TRIES).find_map(|_| {
        let port = u16::try_from(cx.rng.below(DYNAMIC_PORTS)).ok()? + FIRST_DYNAMIC_PORT;
        tcp.listen(port, profile).ok().map(|()| port)
    })
}

/// Dynamic ports (RFC 6335 §6).
const FIRST_DYNAMIC_PORT: u16 = 49_152;
const DYNAMIC_PORTS: u64 = 16_384;
/// Number of random ports tried; one of them is free unless nearly all ports are in use.
const TRIES: usize = 256;
