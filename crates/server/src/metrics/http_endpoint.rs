//! HTTP endpoint of the metrics, with the exchange of the crate `open-metrics`.
//!
//! A request that is too long or too slow is closed without a response. When all connections are in
//! use, the oldest is closed, so silent connections delay no scrape.

use crate::certificate::host_name;
use crate::listener::{ConnectionService, ServerListener};
use crate::log::{Log, ServeEvent};
use carrier::TcpConnection;
use open_metrics::exchange::{self, CONNECTIONS_MAX, EXCHANGE_TIMEOUT, REQUEST_MAX_BYTES};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Time limit for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Address of the endpoint, and the host names that requests may use.
#[derive(Clone, Debug)]
pub(in super::super) struct EndpointSettings {
    pub(in super::super) at: SocketAddr,
    pub(in super::super) hosts: Vec<String>,
}

/// Returns the names of this machine and the configured names.
pub(in super::super) fn accepted_hosts<'a>(
    configured: impl Iterator<Item = &'a String>,
) -> Vec<String> {
    exchange::accepted_hosts(&host_name(), configured)
}

/// Accepts requests until the listener fails, with the metrics that `text` returns. `hosts` are the
/// accepted host names, which a reload can change.
pub(in super::super) async fn serve(
    listener: Rc<ServerListener>,
    hosts: Rc<RefCell<Vec<String>>>,
    text: impl Fn() -> String + 'static,
    log: Log,
) {
    // A kernel listener does not fail.
    _ = listener.run(Rc::new(MetricsService { hosts, text, log })).await;
}

/// Service of the endpoint.
struct MetricsService<T> {
    hosts: Rc<RefCell<Vec<String>>>,
    /// Returns the current metrics.
    text: T,
    log: Log,
}

impl<T: Fn() -> String + 'static> ConnectionService for MetricsService<T> {
    fn report(&self, event: &ServeEvent<'_>) {
        self.log.write(event);
    }

    fn connections_max(&self) -> Option<usize> {
        Some(CONNECTIONS_MAX)
    }

    async fn serve(self: Rc<Self>, connection: TcpConnection, _peer: SocketAddr) {
        let hosts = self.hosts.borrow().clone();
        // A client that is gone or too slow gets no response.
        _ = timeout(EXCHANGE_TIMEOUT, answer(connection, &hosts, &self.text)).await;
    }
}

async fn answer(
    mut stream: TcpConnection,
    hosts: &[String],
    text: &impl Fn() -> String,
) -> io::Result<()> {
    let Some(request) = timeout(REQUEST_TIMEOUT, request(&mut stream)).await?? else {
        return Ok(());
    };
    stream.write_all(&exchange::response(&request, hosts, text)).await?;
    stream.shutdown().await
}

/// Reads a request to the end of its header. Returns `None` if the connection ends before the end
/// of the header, or if the header is too long.
async fn request(stream: &mut TcpConnection) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::with_capacity(1024);
    while !exchange::is_complete(&request) {
        if request.len() >= REQUEST_MAX_BYTES || stream.read_buf(&mut request).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(request))
}
