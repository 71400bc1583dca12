//! A UDP socket.

use super::{Host, State};
use net::transport::udp::{BindError, SendError, SocketId, Waiting};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::task::Poll;

/// A bound UDP socket. Dropping it closes it.
#[derive(Debug)]
pub struct UdpSocket {
    host: Host,
    id: SocketId,
}

/// Description of received data: one datagram, or several of equal size from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Number of bytes copied.
    pub len: usize,
    /// Length in bytes of each datagram except the last, which may be shorter; equal to `len` for a
    /// single datagram.
    pub segment_size: usize,
    /// Address of the sender.
    pub source: SocketAddr,
}

impl Host {
    /// Binds a UDP socket to `port`, or to a free port if it is 0.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::AddrInUse`] if the port is in use.
    pub fn bind(&self, port: u16) -> io::Result<UdpSocket> {
        UdpSocket::bind(self.clone(), port)
    }
}

impl UdpSocket {
    fn bind(host: Host, port: u16) -> io::Result<Self> {
        let id = host.act(|state| {
            state.check()?;
            let bound = state.layers(|layers, cx| {
                let id = layers.udp.bind(port, cx)?;
                // The socket accepts super-datagrams; `receive` splits them into datagrams.
                layers.udp.set_accepts_super_datagrams(id, true);
                Ok(id)
            });
            bound.map_err(|error| match error {
                BindError::PortInUse => io::ErrorKind::AddrInUse.into(),
                BindError::TooManySockets => io::ErrorKind::AddrNotAvailable.into(),
            })
        });
        id.map(|id| Self { host, id })
    }

    /// Returns the port number.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.host.shared.lock().layers(|layers, _| layers.udp.port(self.id));
        port.unwrap_or(0)
    }

    /// Sends one datagram; waits until there is space for it. Returns its length.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::try_send_to`].
    pub async fn send_to(&self, data: &[u8], destination: SocketAddr) -> io::Result<usize> {
        let notifier = self.host.shared.lock().senders.notifier();
        let attempt = |state: &mut State| match self.send(state, data, destination) {
            Poll::Pending => state.senders.wait(),
            sent => sent,
        };
        self.host.poll_until_ready(notifier, attempt).await
    }

    /// Sends one datagram without waiting. Returns its length, or [`Poll::Pending`] if there is no
    /// space now; no task is woken when there is.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` for a destination to which nothing can be sent or for too much data,
    /// and the error of a device that has failed.
    pub fn try_send_to(&self, data: &[u8], destination: SocketAddr) -> Poll<io::Result<usize>> {
        self.host.act(|state| self.send(state, data, destination))
    }

    fn send(
        &self,
        state: &mut State,
        data: &[u8],
        destination: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        state.check()?;
        let sent = state.layers(|layers, cx| layers.send_to(self.id, data, destination, cx));
        sent.map_ok(|()| data.len()).map_err(refusal)
    }

    /// Sends `data` in datagrams of `size` bytes; the last one may be shorter. Waits until there is
    /// space for the first datagram.
    ///
    /// Returns the number of bytes sent. It is less than the length of `data` if there is no space
    /// for all datagrams. A device that segments datagrams gets many of them as one packet, which
    /// costs less.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::try_send_segments_to`].
    pub async fn send_segments_to(
        &self,
        data: &[u8],
        size: NonZeroU16,
        destination: SocketAddr,
    ) -> io::Result<usize> {
        let notifier = self.host.shared.lock().senders.notifier();
        let attempt = |state: &mut State| match self.send_segments(state, data, size, destination) {
            Poll::Pending => state.senders.wait(),
            sent => sent,
        };
        self.host.poll_until_ready(notifier, attempt).await
    }

    /// Sends datagrams like [`Self::send_segments_to`], but without waiting; [`Poll::Pending`] if
    /// there is no space for the first datagram.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::try_send_to`]; then nothing was sent.
    pub fn try_send_segments_to(
        &self,
        data: &[u8],
        size: NonZeroU16,
        destination: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.host.act(|state| self.send_segments(state, data, size, destination))
    }

    fn send_segments(
        &self,
        state: &mut State,
        data: &[u8],
        size: NonZeroU16,
        destination: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        state.check()?;
        let sent =
            state.layers(|layers, cx| layers.send_segments(self.id, data, size, destination, cx));
        sent.map_err(refusal)
    }

    /// Waits for a datagram, copies it to `buffer`, and returns its length and its source. Bytes
    /// that do not fit are discarded. Several tasks may wait.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has failed.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let take = |waiting: Waiting<'_>| (copy_into(buffer, waiting.first()), waiting.source, 1);
        let (count, source, _) = self.receive(take).await?;
        Ok((count, source))
    }

    /// Waits for a datagram like [`Self::recv_from`], and also returns whether the destination was
    /// a unicast address of this host, not a multicast or broadcast address.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has failed.
    pub async fn recv_addressed(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, bool)> {
        let take = |waiting: Waiting<'_>| {
            let received = (copy_into(buffer, waiting.first()), waiting.destination);
            (received, waiting.source, 1)
        };
        let ((count, destination), source, _) = self.receive(take).await?;
        let is_ours = self.host.shared.lock().layers(|layers, _| {
            let addresses = layers.internet.addresses().as_slice();
            addresses.iter().any(|ours| ours.address == destination)
        });
        Ok((count, source, is_ours))
    }

    /// Waits for datagrams of one source that arrived as one packet, and copies those that fit in
    /// `buffer`. Bytes of the first datagram that do not fit are discarded; the other datagrams
    /// stay queued. Several tasks may wait.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has failed.
    pub async fn recv_segments_from(&self, buffer: &mut [u8]) -> io::Result<Segments> {
        let take = |waiting: Waiting<'_>| {
            let Waiting { source, data, segment_size, .. } = waiting;
            let size = usize::from(segment_size);
            let fitting = buffer.len().min(data.len()).checked_div(size).unwrap_or(0);
            // The last datagram may be shorter.
            let is_all = data.len() <= buffer.len();
            let (part, count) = match fitting {
                0 => (waiting.first(), 1),
                _ if is_all => (data, data.len().div_ceil(size)),
                fitting => (data.get(..fitting * size).unwrap_or_default(), fitting),
            };
            let len = copy_into(buffer, part);
            let segment_size = if count > 1 { size } else { len };
            (Segments { len, segment_size, source }, source, count)
        };
        Ok(self.receive(take).await?.0)
    }

    /// Waits until the socket has datagrams, and calls `take` with them. The last element of the
    /// result of `take` is the number of datagrams to remove.
    async fn receive<R>(
        &self,
        mut take: impl FnMut(Waiting<'_>) -> (R, SocketAddr, usize),
    ) -> io::Result<(R, SocketAddr, usize)> {
        let notifier = self.host.shared.lock().datagrams.entry(self.id).or_default().notifier();
        let attempt = |state: &mut State| {
            let received = state.layers(|layers, _| {
                let received_datagrams = take(layers.udp.waiting(self.id)?);
                layers.udp.drop_first(self.id, received_datagrams.2, &mut layers.pool);
                Some(received_datagrams)
            });
            if let Some(received) = received {
                return Poll::Ready(Ok(received));
            }
            state.check()?;
            state.datagrams.entry(self.id).or_default().wait()
        };
        self.host.poll_until_ready(notifier, attempt).await
    }
}

/// Copies as much of `data` as fits in `buffer`, and returns the number of bytes.
fn copy_into(buffer: &mut [u8], data: &[u8]) -> usize {
    let count = data.len().min(buffer.len());
    buffer.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    count
}

fn refusal(_: SendError) -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.host.act(|state| {
            state.datagrams.remove(&self.id);
            state.layers(|layers, _| layers.udp.close(self.id, &mut layers.pool));
        });
    }
}
