//! Futures that a session awaits besides its control connection.

use super::data::Stream;
use super::passive::PassiveListener;
use net::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::time::Duration as StdDuration;

/// Waits for a data connection; indefinitely without a listener.
pub(super) async fn accept(
    listener: Option<&mut PassiveListener>,
) -> io::Result<(Stream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Waits for a duration; indefinitely if it is `None`.
pub(super) async fn elapse(duration: Option<Duration>) {
    let Some(duration) = duration else { return std::future::pending().await };
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    tokio::time::sleep(StdDuration::from_nanos(nanos)).await;
}
