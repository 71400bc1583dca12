//! Termination signals (SIGINT, SIGTERM, SIGHUP) as a descriptor that becomes readable.

use anyhow::{Context, Result};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// Watches for signals that ask the process to terminate.
#[derive(Debug)]
pub(crate) struct Interrupts {
    signaled: UnixStream,
    is_interrupted: Arc<AtomicBool>,
}

/// Exit status that a shell reports for a process terminated by SIGINT.
const EXIT_BY_SIGINT: i32 = 130;

impl Interrupts {
    /// Starts to watch in a separate thread. A second signal terminates the process at once.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors or threads are left.
    pub(crate) fn watch() -> Result<Self> {
        let (signaled, mut writer) = UnixStream::pair().context("no file descriptors are left")?;
        signaled.set_nonblocking(true)?;
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_interrupted);
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
                if flag.swap(true, Ordering::SeqCst) {
                    std::process::exit(EXIT_BY_SIGINT);
                }
                // Ignored: if no descriptor is left to wake, [`Interrupts::is_interrupted`] still
                // reports the signal.
                _ = writer.write_all(b"!");
            }
        };
        let builder = thread::Builder::new().name("interrupts".to_owned());
        builder.spawn(move || runtime.block_on(wait)).context("cannot start a thread")?;
        Ok(Self { signaled, is_interrupted })
    }

    /// Returns a descriptor that becomes readable after a signal and stays readable.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub(crate) fn descriptor(&self) -> Result<UnixStream> {
        self.signaled.try_clone().context("no file descriptors are left")
    }

    /// Returns whether a termination signal was received.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::SeqCst)
    }
}
