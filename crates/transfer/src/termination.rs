//! Signals that end a command: SIGINT, SIGTERM and SIGHUP.
//!
//! A shell reports a process that a signal has ended as 128 plus the number of the signal. A command
//! that handles the signal, such as a download that saves its partial file, exits with that code too.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Number of the first signal that was received; 0 if none was received.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Receiver of the signals that end a command.
#[derive(Debug)]
pub struct TerminationSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if the command was started with SIGHUP ignored, as by nohup(1).
    hang_up: Option<Signal>,
}

impl TerminationSignals {
    /// Starts to receive the signals. From this call on, they no longer end the process.
    ///
    /// # Errors
    ///
    /// Returns an error if a signal cannot be handled.
    pub fn new() -> io::Result<Self> {
        let hang_up = !os::process::ignores_hang_up();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: hang_up.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn recv(&mut self) -> SignalKind {
        let hang_up = self.hang_up.as_mut();
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            () = received(hang_up) => SignalKind::hangup(),
        };
        record(kind.as_raw_value());
        kind
    }
}

/// Waits for a signal. Without a receiver, it never returns. Cancel safe.
async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Records the number of a signal that a command has received by other means.
pub fn record(signal: i32) {
    // Failure means that a signal was received before.
    _ = FIRST.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

/// Returns the exit code of a command that a signal has ended: 130 for SIGINT, 143 for SIGTERM, 129
/// for SIGHUP; `None` if no signal was received.
pub fn exit_code() -> Option<u8> {
    let number = u8::try_from(FIRST.load(Ordering::Relaxed)).ok().filter(|number| *number > 0);
    number?.checked_add(128)
}
