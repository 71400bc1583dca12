//! A thread that stops when its owner is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Owner's handle; dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub(super) struct Stop {
    flag: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Thread's view of the stop flag; the thread must check it at least twenty times per second.
#[derive(Clone, Debug)]
pub(super) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Stop {
    /// Starts a thread that runs `work`.
    pub(super) fn start(work: impl FnOnce(&Flag) + Send + 'static) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Flag(Arc::clone(&flag));
        Self { flag, thread: Some(thread::spawn(move || work(&seen))) }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            _ = thread.join();
        }
    }
}
