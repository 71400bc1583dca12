//! Client that requests the meters of a running plumb.

use super::meter_report::MeterReport;
use super::server::REQUEST;
use super::socket_path;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum accepted length of an answer.
const ANSWER_MAX_BYTES: u64 = 4 << 20;
/// Time limit for an answer; other clients may be served first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the processes of this user that publish their meters, with their sockets; for root also the
/// services.
pub fn running_processes() -> Vec<(u32, PathBuf)> {
    socket_path::sockets(&socket_path::searched_directories())
}

/// Requests the meters of process `pid`.
///
/// # Errors
///
/// Returns an error if the process does not publish meters or does not answer.
pub fn request_process_report(pid: u32) -> Result<MeterReport> {
    let Some((_, path)) = running_processes().into_iter().find(|(number, _)| *number == pid) else {
        bail!("no plumb process {pid} of this user publishes meters: see plumb meters --list");
    };
    request_report(&path)
}

/// Requests the meters at a socket.
///
/// # Errors
///
/// Returns an error if the socket does not answer or the answer is not a report.
pub fn request_report(path: &Path) -> Result<MeterReport> {
    let socket = path.display();
    let mut answer = Vec::new();
    let answer_result = (|| {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(REQUEST)?;
        stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)
    })();
    answer_result.with_context(|| format!("no answer from plumb at {socket}"))?;
    let report: MeterReport = serde_json::from_slice(&answer).with_context(|| {
        format!("invalid answer at {socket}: the process may be another version of plumb")
    })?;
    match report.format {
        MeterReport::FORMAT => Ok(report),
        format => {
            bail!(
                "plumb at {socket} uses format {format}, and this version knows {}",
                MeterReport::FORMAT
            )
        }
    }
}
