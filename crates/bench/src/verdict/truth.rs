//! The ground truth: the waiting times of a user, measured by the bench's own clients over the
//! kernel's TCP. No value comes from `plumb`.

mod ftp;
mod run;
mod telnet_client;
mod tftp;
mod times;

pub(super) use times::{Time, Truth, median};

use super::case::Case;
use super::resolver;
use super::service::Service;
use super::setup::Setup;
use anyhow::Result;
use run::{LIMIT, Run};
use std::time::{Duration, Instant};

impl Truth {
    /// Uses the service like a user, in the network namespace of the calling thread, and measures
    /// the waiting times. `is_random` is `true` for a cause that affects packets or replies at
    /// random; the results are then means instead of medians.
    pub(super) fn measure(case: &Case, setup: &Setup, is_random: bool) -> Result<Self> {
        let mut truth = Self::default();
        let started_at = Instant::now();
        if case.by_name {
            let timeout = setup.second.query_timeout_s.map_or(LIMIT, Duration::from_secs);
            resolver::resolve_server(timeout)?;
        }
        let run = Run { case, setup, started_at, is_random };
        match case.service {
            Service::Login | Service::LoginOwnTcp => telnet_client::measure(&run, &mut truth)?,
            Service::FtpGet | Service::FtpPut => ftp::measure(&run, &mut truth)?,
            Service::TftpGet => tftp::measure(&run, &mut truth)?,
        }
        Ok(truth)
    }
}
