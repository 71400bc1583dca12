//! Waits in the background for programs whose terminal was hung up, and kills those that do not
//! exit.

use os::process::Program;
use os::readiness;
use rustix::process::Signal;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;

/// Time that a program has to exit after its terminal was hung up.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for `program` in the background, kills it after [`EXIT_TIMEOUT`], and collects its exit
/// status.
pub(super) fn reap(mut program: Program) {
    if matches!(program.exit_status(), Ok(Some(_))) {
        return;
    }
    tokio::spawn(async move {
        // The terminal is hung up already. If waiting for the program fails, the program is killed
        // at once.
        if let Ok(end) = program.exit_descriptor() {
            _ = tokio::time::timeout(EXIT_TIMEOUT, wait_for_exit(end)).await;
        }
        if !matches!(program.exit_status(), Ok(Some(_))) {
            _ = program.signal(Signal::KILL);
        }
    });
}

async fn wait_for_exit(end: OwnedFd) -> std::io::Result<()> {
    let end = readiness::register(end, Interest::READABLE)?;
    drop(end.readable().await?);
    Ok(())
}
