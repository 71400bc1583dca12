//! Sockets of connections that are to be closed with a reset.
//!
//! The end of a guest resets up to 16,384 connections, and closing them takes about a second.
//! Meanwhile the other guests would wait, so a turn of the event loop closes only some of them.

use net::time::Duration;
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::net::TcpStream;

/// Number of sockets that are closed in a turn. Of a long queue, [`QUEUE_SHARE`] determines a larger
/// number.
const CLOSED_MIN: usize = 64;
/// Part of the queue that is closed in a turn. The queue remains bounded for any number of resets per
/// turn.
const QUEUE_SHARE: usize = 128;

/// The sockets that remain to be closed.
#[derive(Debug, Default)]
pub(crate) struct ResetQueue(VecDeque<TcpStream>);

impl ResetQueue {
    pub(crate) fn push(&mut self, socket: TcpStream) {
        self.0.push_back(socket);
    }

    /// Moves all sockets of `other` into this queue.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes the next sockets.
    pub(crate) fn close_some(&mut self) {
        let count = self.0.len().div_ceil(QUEUE_SHARE).max(CLOSED_MIN);
        for socket in self.0.drain(..count.min(self.0.len())) {
            // Without the option, the remote host would receive a FIN, as after a complete transfer.
            _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
    }
}

impl Drop for ResetQueue {
    fn drop(&mut self) {
        while !self.is_empty() {
            self.close_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;

    #[test]
    fn a_turn_closes_some_sockets_and_the_end_all_of_them_with_a_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut queue = ResetQueue::default();
        let mut remotes = Vec::new();
        for _ in 0..=CLOSED_MIN {
            queue.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            remotes.push(listener.accept().unwrap().0);
        }
        queue.close_some();
        assert_eq!(queue.0.len(), 1);
        drop(queue);
        for mut remote in remotes {
            let error = remote.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
}
