//! Meters of a running process: published on a socket, and read by other processes.
//!
//! A long-running command has a [`MeterRegistry`] with the counter blocks of its meters and a
//! [`MeterServer`] that serves them: a socket in a directory that only its user may enter. The
//! working threads write the counter blocks all the time, and the thread of the server reads them
//! on request. A request does not stop, wake or query any working thread.

mod client;
mod meter_report;
mod registry;
mod server;
mod socket_path;

pub use client::{request_process_report, request_report, running_processes};
pub use meter_report::{Figures, Group, MeterReport, Primitive, Readings, RecentWindow, Spread};
pub use registry::{MeterRegistry, Registration};
pub use server::MeterServer;

use std::sync::Arc;
use std::time::Duration;

/// Minimum run time for publishing meters; a shorter run ends before a user could read them.
const PUBLISH_AFTER: Duration = Duration::from_secs(1);

/// Serves the meters of `registry` once the run has lasted a second, until the future is
/// dropped.
pub async fn serve_long_run(registry: Arc<MeterRegistry>) {
    tokio::time::sleep(PUBLISH_AFTER).await;
    // Ignored: the command runs without published meters.
    let _server = MeterServer::open(&registry);
    std::future::pending::<()>().await;
}
