//! Sockets that the service manager has bound (socket activation).
//!
//! The configuration remains the list of addresses: a listener at an address of the configuration
//! takes the inherited socket of that address, if there is one, and binds its own otherwise. So a
//! server without privileges can serve ports below 1024.

use os::datagram::DatagramSocket;
use os::service_manager::{self, InheritedSocket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;

/// Inherited sockets that no listener has taken. They belong to the process, as its descriptors do.
static SOCKETS: Mutex<Vec<InheritedSocket>> = Mutex::new(Vec::new());

/// Takes the sockets from the service manager.
///
/// # Errors
///
/// Returns an error if an inherited descriptor is not a socket of a supported kind.
pub(super) fn receive() -> io::Result<()> {
    sockets().extend(service_manager::inherited_sockets()?);
    Ok(())
}

/// Returns the listening socket that is bound to `address`, if it is inherited.
///
/// # Errors
///
/// Returns an error if the socket cannot be used.
pub(super) fn take_listener(address: SocketAddr) -> io::Result<Option<TcpListener>> {
    let Some(socket) = take(address, true) else { return Ok(None) };
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).map(Some)
}

/// Returns the UDP socket that is bound to `address`, if it is inherited.
///
/// # Errors
///
/// Returns an error if the socket cannot be used.
pub(super) fn take_datagram_socket(address: SocketAddr) -> io::Result<Option<DatagramSocket>> {
    take(address, false).map(DatagramSocket::from_bound).transpose()
}

/// Closes the sockets that no listener has taken. Returns their addresses.
pub(super) fn close_unused() -> Vec<SocketAddr> {
    sockets().drain(..).map(|inherited| inherited.address).collect()
}

fn take(address: SocketAddr, is_listener: bool) -> Option<OwnedFd> {
    let mut sockets = sockets();
    let is_wanted = |inherited: &InheritedSocket| {
        inherited.address == address && inherited.is_listener == is_listener
    };
    let at = sockets.iter().position(is_wanted)?;
    Some(sockets.swap_remove(at).socket)
}

fn sockets() -> MutexGuard<'static, Vec<InheritedSocket>> {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_is_taken_once_by_the_listener_of_its_address_and_kind() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = udp.local_addr().unwrap();
        let inherited = InheritedSocket { address, is_listener: false, socket: udp.into() };
        sockets().push(inherited);
        assert!(take(address, true).is_none());
        assert!(take(SocketAddr::from(([127, 0, 0, 2], address.port())), false).is_none());
        let socket = take_datagram_socket(address).unwrap().unwrap();
        assert_eq!(socket.local_addr().unwrap(), address);
        assert!(take(address, false).is_none());
    }
}
