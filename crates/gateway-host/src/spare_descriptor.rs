//! A descriptor that is released to accept a connection if no other one is free.

use crate::socket_errors::lacks_descriptor;
use os::tcp_socket;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::task::Poll;

/// A descriptor in reserve. A listener whose connections cannot be accepted stays readable, so that the
/// event loop would run without a pause.
#[derive(Debug)]
pub(crate) struct SpareDescriptor(Option<OwnedFd>);

impl SpareDescriptor {
    /// Reserves a descriptor, if one is free.
    pub(crate) fn reserve() -> Self {
        Self(eventfd(0, EventfdFlags::CLOEXEC).ok())
    }

    /// Accepts a connection by `accept`. If no descriptor is free, the connection is closed at once.
    pub(crate) fn accept<T>(&mut self, accept: impl Fn() -> io::Result<T>) -> Option<T> {
        match accept() {
            Ok(accepted) => Some(accepted),
            Err(error) => {
                if lacks_descriptor(&error) {
                    self.0 = None;
                    drop(accept());
                    *self = Self::reserve();
                }
                None
            }
        }
    }

    /// As [`Self::accept`], from a TCP listener.
    pub(crate) fn accept_tcp(&mut self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
        let accept = || match tcp_socket::accept(listener) {
            Poll::Ready(accepted) => accepted.map(Some),
            Poll::Pending => Ok(None),
        };
        self.accept(accept).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::cell::Cell;

    #[test]
    fn a_connection_without_a_descriptor_is_closed() {
        let mut spare = SpareDescriptor::reserve();
        let calls = Cell::new(0);
        let closed = Cell::new(false);
        struct Connection<'a>(&'a Cell<bool>);
        impl Drop for Connection<'_> {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let accept = || {
            calls.set(calls.get() + 1);
            if calls.get() == 1 { Err(Errno::MFILE.into()) } else { Ok(Connection(&closed)) }
        };
        assert!(spare.accept(accept).is_none());
        assert!(closed.get() && spare.0.is_some());
        closed.set(false);
        assert!(spare.accept(accept).is_some_and(|connection| !connection.0.get()));
        assert!(spare.accept(|| Err::<(), _>(Errno::AGAIN.into())).is_none());
        assert_eq!(calls.get(), 3);
    }
}
