//! A port where connections are accepted.

use super::{Accepting, Host, Stream};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A port where we listen; nobody is accepted any more once it is dropped.
#[derive(Debug)]
pub struct Listener {
    host: Host,
    port: u16,
}

impl Listener {
    pub(super) fn bind(host: Host, port: u16) -> io::Result<Self> {
        host.act(|state| {
            state.check()?;
            let profile = state.profile;
            let listening = state.layers(|layers, _| layers.tcp.listen(port, profile));
            listening.map_err(|_| io::Error::from(io::ErrorKind::AddrInUse))?;
            state.listeners.insert(port, Accepting::default());
            Ok::<_, io::Error>(())
        })?;
        Ok(Self { host, port })
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next connection, and returns it with the peer's end.
    ///
    /// # Errors
    ///
    /// If the device has failed.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let stream = poll_fn(|context| self.poll_accept(context)).await?;
        let remote = stream.peer_addr()?;
        Ok((stream, remote))
    }

    fn poll_accept(&self, context: &Context<'_>) -> Poll<io::Result<Stream>> {
        let mut state = self.host.lock();
        state.check()?;
        let accepting = state.listeners.entry(self.port).or_default();
        match accepting.open.pop_front() {
            Some(id) => Poll::Ready(Ok(Stream::of(self.host.clone(), id))),
            None => {
                accepting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
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
