//! Keys that control a replay.

use anyhow::Result;
use net::time::Instant;
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags, Wake};
use rustix::io::Errno;

/// Action requested by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayRequest {
    /// Pause or continue.
    Pause,
    /// Increase the speed.
    Faster,
    /// Decrease the speed.
    Slower,
    /// Show the next event, during a pause.
    Step,
    /// End the replay.
    Quit,
}

/// Waits until `due` for keys from a terminal in raw mode, or indefinitely if `due` is `None`.
///
/// # Errors
///
/// Returns an error if the keyboard cannot be read.
pub(super) fn wait(clock: &Monotonic, due: Option<Instant>) -> Result<Vec<ReplayRequest>> {
    let stdin = rustix::stdio::stdin();
    let mut ready = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
    if readiness::wait(&mut ready, clock, due)? == Wake::Deadline {
        return Ok(Vec::new());
    }
    let mut keys = [0; 64];
    match rustix::io::read(stdin, &mut keys) {
        Ok(0) | Err(Errno::IO) => Ok(vec![ReplayRequest::Quit]),
        Ok(count) => Ok(keys.iter().take(count).filter_map(|key| meaning(*key)).collect()),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn meaning(key: u8) -> Option<ReplayRequest> {
    match key {
        b' ' => Some(ReplayRequest::Pause),
        b'+' | b'=' => Some(ReplayRequest::Faster),
        b'-' => Some(ReplayRequest::Slower),
        b'.' => Some(ReplayRequest::Step),
        // In raw mode ^C and ^D are ordinary keys.
        b'q' | 0x03 | 0x04 => Some(ReplayRequest::Quit),
        _ => None,
    }
}
