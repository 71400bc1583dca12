//! What a session waits for besides its control connection.

use super::data::Stream;
use super::passive::Listener;
use protocols::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::time::Duration as StdDuration;

/// Waits for a data connection, for ever where nobody waits for one.
pub(super) async fn accept(listener: Option<&mut Listener>) -> io::Result<(Stream, SocketAddr)> {
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
