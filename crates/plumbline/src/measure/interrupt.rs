//! Ctrl-C, and the request to end, as a descriptor that becomes readable.

use anyhow::{Context, Result};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// Watches for signals that ask this program to end.
#[derive(Debug)]
pub(crate) struct Interrupts {
    notice: UnixStream,
    is_interrupted: Arc<AtomicBool>,
}

/// What a shell says of a program that Ctrl-C has ended.
const ENDED_BY_INTERRUPT: i32 = 130;

impl Interrupts {
    /// Begins to watch, in a thread of its own. A second signal ends the program at once.
    ///
    /// # Errors
    ///
    /// If there are no descriptors or threads left.
    pub(crate) fn watch() -> Result<Self> {
        let (notice, mut teller) = UnixStream::pair().context("no descriptors are left")?;
        notice.set_nonblocking(true)?;
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_interrupted);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        drop(entered);
        let wait = async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
                if flag.swap(true, Ordering::SeqCst) {
                    std::process::exit(ENDED_BY_INTERRUPT);
                }
                // Where nobody listens any more, the flag is enough.
                _ = teller.write_all(b"!");
            }
        };
        let named = thread::Builder::new().name("interrupts".to_owned());
        named.spawn(move || runtime.block_on(wait)).context("no threads are left")?;
        Ok(Self { notice, is_interrupted })
    }

    /// Returns a descriptor that becomes readable, and stays so.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub(crate) fn descriptor(&self) -> Result<UnixStream> {
        self.notice.try_clone().context("no descriptors are left")
    }

    /// Returns whether the program has been asked to end.
    pub(crate) fn has_come(&self) -> bool {
        self.is_interrupted.load(Ordering::SeqCst)
    }
}
