//! Client that requests the meters of a running plumb.

use super::report::Report;
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
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the processes of this user that publish their meters, with their sockets.
pub(crate) fn running() -> Vec<(u32, PathBuf)> {
    socket_path::sockets(&socket_path::folders())
}

/// Requests the meters of process `pid`.
///
/// # Errors
///
/// Returns an error if the process does not publish meters or does not answer.
pub(crate) fn ask_process(pid: u32) -> Result<Report> {
    let Some((_, path)) = running().into_iter().find(|(number, _)| *number == pid) else {
        bail!("no plumb process {pid} of this user publishes meters: see plumb meters --list");
    };
    ask(&path)
}

/// Requests the meters at a socket.
///
/// # Errors
///
/// Returns an error if the socket does not answer or the answer is not a report.
pub(crate) fn ask(path: &Path) -> Result<Report> {
    let shown = path.display();
    let mut answer = Vec::new();
    let asked = (|| {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(REQUEST)?;
        stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)
    })();
    asked.with_context(|| format!("no answer from plumb at {shown}"))?;
    let report: Report = serde_json::from_slice(&answer).with_context(|| {
        format!("invalid answer at {shown}: it may be another version of plumb")
    })?;
    match report.format {
        Report::FORMAT => Ok(report),
        format => {
            bail!(
                "plumb at {shown} uses format {format}, and this version knows {}",
                Report::FORMAT
            )
        }
    }
}
