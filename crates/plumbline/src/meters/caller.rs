//! Asks a running plumb for its meters.

use super::door::REQUEST;
use super::place;
use super::report::Report;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest answer that is believed.
const ANSWER_MAX_BYTES: u64 = 4 << 20;
/// How long a plumb may take to answer; others may be before us.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the plumbs of this user that show their meters, by the number of the process.
pub(crate) fn running() -> Vec<(u32, PathBuf)> {
    place::sockets(&place::folders())
}

/// Returns the meters of the plumb with this number of a process.
///
/// # Errors
///
/// If there is none that shows them, or it does not answer.
pub(crate) fn ask_process(pid: u32) -> Result<Report> {
    let Some((_, path)) = running().into_iter().find(|(number, _)| *number == pid) else {
        bail!("process {pid} is no plumb of yours that shows its meters: see plumb meters --list");
    };
    ask(&path)
}

/// Returns the meters that are told at a socket.
///
/// # Errors
///
/// If nobody answers, or something else than meters.
pub(crate) fn ask(path: &Path) -> Result<Report> {
    let shown = path.display();
    let mut answer = Vec::new();
    let asked = (|| {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(REQUEST)?;
        stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)
    })();
    asked.with_context(|| format!("the plumb at {shown} does not answer"))?;
    let report: Report = serde_json::from_slice(&answer)
        .with_context(|| format!("what answers at {shown} is no plumb that we understand"))?;
    match report.format {
        Report::FORMAT => Ok(report),
        format => {
            bail!("the plumb at {shown} tells format {format}, and we know {}", Report::FORMAT)
        }
    }
}
