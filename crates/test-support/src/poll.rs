//! Waiting for a condition that reports no event.

use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Calls `attempt` until `attempt` returns a value.
///
/// # Panics
///
/// Panics after ten seconds.
pub fn poll_until_timeout<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < TIMEOUT, "nothing within ten seconds");
        thread::yield_now();
    }
}
