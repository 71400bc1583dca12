//! Termination signals (SIGINT, SIGTERM, SIGHUP), which interrupt a measurement.

use anyhow::{Context, Result};
use measure::Interrupts;
use std::thread;
use transfer::termination::{TerminationSignals, exit_code};

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
    let mut signals = TerminationSignals::new()?;
    drop(guard);
    let wait = async move {
        loop {
            signals.recv().await;
            if !interrupter.interrupt() {
                std::process::exit(exit_code().unwrap_or_default().into());
            }
        }
    };
    let builder = thread::Builder::new().name("interrupts".to_owned());
    builder.spawn(move || runtime.block_on(wait)).context("cannot start a thread")?;
    Ok(interrupts)
}
