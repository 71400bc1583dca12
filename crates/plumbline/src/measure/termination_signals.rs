//! Termination signals (SIGINT, SIGTERM, SIGHUP), which interrupt a measurement.

use anyhow::{Context, Result};
use measure::Interrupts;
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// Exit status that a shell reports for a process terminated by SIGINT.
const EXIT_BY_SIGINT: i32 = 130;

/// Starts to watch for the signals in a separate thread, and returns the interrupts that they
/// cause. A second signal terminates the process at once.
///
/// # Errors
///
/// Returns an error if no descriptors or threads are left.
pub(crate) fn interrupts_by_signals() -> Result<Interrupts> {
    let interrupts = Interrupts::new()?;
    let interrupter = interrupts.interrupter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    drop(guard);
    let wait = async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            if !interrupter.interrupt() {
                std::process::exit(EXIT_BY_SIGINT);
            }
        }
    };
    let builder = thread::Builder::new().name("interrupts".to_owned());
    builder.spawn(move || runtime.block_on(wait)).context("cannot start a thread")?;
    Ok(interrupts)
}
