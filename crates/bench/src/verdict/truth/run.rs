//! The inputs and time limits of the bench's own clients.

use super::super::case::Case;
use super::super::service_address::{SERVER, port_of};
use super::super::setup::Setup;
use anyhow::{Context, Result};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Maximum wait for a single event.
pub(super) const LIMIT: Duration = Duration::from_secs(15);
/// Total time after which no further transfer or screen is measured.
pub(super) const MEASUREMENT_TIME_LIMIT: Duration = Duration::from_secs(4);

/// Error: no answer arrived within the time limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoAnswer;

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer for {} s", LIMIT.as_secs())
    }
}

impl std::error::Error for NoAnswer {}

/// Converts the error [`NoAnswer`] to `None`.
pub(super) fn none_if_silent<T>(result: Result<T>) -> Result<Option<T>> {
    let is_silent = |error: &anyhow::Error| {
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let is_of_a_socket =
            matches!(io, Some(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
        error.is::<NoAnswer>() || is_of_a_socket
    };
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_silent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Inputs of a client.
pub(super) struct Run<'a> {
    pub(super) case: &'a Case,
    pub(super) setup: &'a Setup,
    pub(super) started_at: Instant,
    pub(super) is_random: bool,
}

impl Run<'_> {
    /// Connects to the service.
    pub(super) fn connect(&self) -> Result<TcpStream> {
        let address: SocketAddr = format!("{SERVER}:{}", port_of(self.case.service)).parse()?;
        let stream = TcpStream::connect_timeout(&address, LIMIT).context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
