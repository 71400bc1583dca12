//! Sees to the end of programs that were hung up on, without anybody waiting for it.

use os::process::Program;
use os::readiness;
use rustix::process::Signal;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;

/// How long a program that was hung up on may take to put its house in order.
const GRACE: Duration = Duration::from_secs(10);

/// Takes `program`: it is waited for in the background, then killed, and leaves no zombie.
pub(super) fn reap(mut program: Program) {
    if matches!(program.has_ended(), Ok(Some(_))) {
        return;
    }
    tokio::spawn(async move {
        // It was hung up on already; one that cannot be waited for is killed at once.
        if let Ok(end) = program.end() {
            _ = tokio::time::timeout(GRACE, ended(end)).await;
        }
        if !matches!(program.has_ended(), Ok(Some(_))) {
            _ = program.signal(Signal::KILL);
        }
    });
}

async fn ended(end: OwnedFd) -> std::io::Result<()> {
    let end = readiness::register(end, Interest::READABLE)?;
    drop(end.readable().await?);
    Ok(())
}
