//! What a session waits for besides its control connection.

use super::passive::Listener;
use protocols::time::Duration;
use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::time::Duration as StdDuration;
use tokio::net::{TcpSocket, TcpStream};

/// Waits for a data connection, for ever where nobody waits for one.
pub(super) async fn accept(
    listener: Option<&mut Listener>,
) -> io::Result<(net::TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Waits for a time, for ever where there is none.
pub(super) async fn elapse(left: Option<Duration>) {
    let Some(left) = left else { return std::future::pending().await };
    let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
    tokio::time::sleep(StdDuration::from_nanos(nanos)).await;
}

/// Connects for data from the address that the control connection has here.
pub(super) async fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}
