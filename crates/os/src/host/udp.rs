//! A UDP socket.

use super::Host;
use protocols::station::SendError;
use protocols::transport::udp::{BindError, SocketId};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A bound UDP socket; it is closed when it is dropped.
#[derive(Debug)]
pub struct UdpSocket {
    host: Host,
    id: SocketId,
}

impl UdpSocket {
    pub(super) fn bind(host: Host, port: u16) -> io::Result<Self> {
        let id = host.act(|state| {
            state.check()?;
            let bound = state.layers(|layers, cx| layers.udp.bind(port, cx));
            bound.map_err(|error| match error {
                BindError::PortInUse => io::ErrorKind::AddrInUse.into(),
                BindError::TooManySockets => io::ErrorKind::AddrNotAvailable.into(),
            })
        });
        id.map(|id| Self { host, id })
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.host.lock().layers(|layers, _| layers.udp.port(self.id));
        port.unwrap_or(0)
    }

    /// Sends one datagram. It does not wait: a datagram that finds no room is refused.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if there is no room now, `InvalidInput` for a destination to
    /// which nothing can be sent or for too much data, and that of a device that has failed.
    pub fn send_to(&self, data: &[u8], destination: SocketAddr) -> io::Result<usize> {
        let sent = self.host.act(|state| {
            state.check()?;
            let sent = state.layers(|layers, cx| layers.send_to(self.id, data, destination, cx));
            sent.map_err(|error| match error {
                SendError::WouldBlock => io::ErrorKind::WouldBlock.into(),
                SendError::Refused(_) => io::Error::from(io::ErrorKind::InvalidInput),
            })
        });
        sent.map(|()| data.len())
    }

    /// Waits for a datagram, copies it to `buffer`, and returns its length and its source. What
    /// does not fit is cut off.
    ///
    /// # Errors
    ///
    /// If the device has failed.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|context| self.poll_recv(context, buffer)).await
    }

    fn poll_recv(
        &self,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut state = self.host.lock();
        let received = state.layers(|layers, _| {
            let (source, packet) = layers.udp.receive_from(self.id)?;
            let count = packet.len().min(buffer.len());
            let parts = buffer.get_mut(..count).zip(packet.data().get(..count));
            if let Some((to, from)) = parts {
                to.copy_from_slice(from);
            }
            layers.pool.put(packet);
            Some((count, source))
        });
        if let Some(received) = received {
            return Poll::Ready(Ok(received));
        }
        state.check()?;
        state.datagrams.insert(self.id, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.host.act(|state| {
            state.datagrams.remove(&self.id);
            state.layers(|layers, _| layers.udp.close(self.id, &mut layers.pool));
        });
    }
}
