//! A UDP socket.

use super::{Host, State};
use protocols::station::SendError;
use protocols::transport::udp::{BindError, SocketId};
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

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
        let port = self.host.shared.lock().layers(|layers, _| layers.udp.port(self.id));
        port.unwrap_or(0)
    }

    /// Sends one datagram, and waits until there is room for it. Returns its length.
    ///
    /// # Errors
    ///
    /// As [`Self::try_send_to`], but for `WouldBlock`.
    pub async fn send_to(&self, data: &[u8], destination: SocketAddr) -> io::Result<usize> {
        let call = self.host.shared.lock().senders.call();
        let attempt = |state: &mut State| match self.send(state, data, destination) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.senders.wait(),
            sent => Poll::Ready(sent),
        };
        self.host.attend_to(call, attempt).await
    }

    /// Sends one datagram without waiting. Returns its length.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if there is no room now, `InvalidInput` for a destination to
    /// which nothing can be sent or for too much data, and that of a device that has failed.
    pub fn try_send_to(&self, data: &[u8], destination: SocketAddr) -> io::Result<usize> {
        self.host.act(|state| self.send(state, data, destination))
    }

    fn send(&self, state: &mut State, data: &[u8], destination: SocketAddr) -> io::Result<usize> {
        state.check()?;
        let sent = state.layers(|layers, cx| layers.send_to(self.id, data, destination, cx));
        match sent {
            Ok(()) => Ok(data.len()),
            Err(SendError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(SendError::Refused(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Waits for a datagram, copies it to `buffer`, and returns its length and its source. What
    /// does not fit is cut off. Several tasks may wait.
    ///
    /// # Errors
    ///
    /// If the device has failed.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let call = self.host.shared.lock().datagrams.entry(self.id).or_default().call();
        let attempt = |state: &mut State| {
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
            state.datagrams.entry(self.id).or_default().wait()
        };
        self.host.attend_to(call, attempt).await
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
