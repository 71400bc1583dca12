//! Reads and pauses that end soon after the case.

use super::super::stop::Flag;
use std::thread;
use std::time::Duration;

/// Timeout of a read, after which a thread checks the stop flag.
pub(super) const READ_TIMEOUT: Duration = Duration::from_millis(100);

/// Sleeps, but returns early if the case ends.
pub(super) fn sleep(ms: u64, stop: &Flag) {
    let step = Duration::from_millis(50);
    let mut left = Duration::from_millis(ms);
    while !left.is_zero() && !stop.is_set() {
        let now = left.min(step);
        thread::sleep(now);
        left -= now;
    }
}

/// Returns whether a read has timed out.
pub(super) fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
