//! Length of the send queue of a connection, by which a session finds out whether a client that reads
//! slowly still accepts output: the kernel accepts more output only in large steps.

use super::metered::MeteredStream;
use os::{host, socket};
use std::os::fd::AsFd;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Stream with a send queue.
pub(super) trait SendQueue {
    /// Returns the number of bytes in the send queue of the connection that the client has not
    /// acknowledged; 0 if it is unknown.
    fn send_queue_len(&self) -> usize;
}

/// Returns the length of the send queue of a kernel socket.
pub(super) fn socket_queue_len(socket: &impl AsFd) -> usize {
    socket::unacknowledged_len(socket).unwrap_or(0)
}

impl SendQueue for TcpStream {
    fn send_queue_len(&self) -> usize {
        socket_queue_len(self)
    }
}

impl SendQueue for host::Stream {
    fn send_queue_len(&self) -> usize {
        let queue_len = self.status().map_or(0, |status| status.send_queue);
        usize::try_from(queue_len).unwrap_or(usize::MAX)
    }
}

impl<S: SendQueue, M> SendQueue for MeteredStream<S, M> {
    fn send_queue_len(&self) -> usize {
        self.inner().send_queue_len()
    }
}

impl<S: SendQueue> SendQueue for TlsStream<S> {
    fn send_queue_len(&self) -> usize {
        self.get_ref().0.send_queue_len()
    }
}
