//! Limit on the replies to AYT (Are You There, RFC 854).

use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of replies to AYT per second.
const REPLIES_PER_SECOND: u32 = 4;

/// Limits the replies of a session to [`REPLIES_PER_SECOND`] (attack 58).
#[derive(Debug)]
pub(super) struct AreYouThereLimit {
    replies_left: u32,
    window_start: Instant,
}

impl AreYouThereLimit {
    pub(super) fn new() -> Self {
        Self { replies_left: REPLIES_PER_SECOND, window_start: Instant::now() }
    }

    /// Returns whether a reply may be sent now, and counts it.
    pub(super) fn take_reply(&mut self) -> bool {
        if self.window_start.elapsed() >= Duration::from_secs(1) {
            *self = Self::new();
        }
        let remaining = self.replies_left.checked_sub(1);
        self.replies_left = remaining.unwrap_or(0);
        remaining.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replies_of_each_second_are_limited() {
        let mut limit = AreYouThereLimit::new();
        assert_eq!((0..9).filter(|_| limit.take_reply()).count(), 4);
        limit.window_start -= Duration::from_secs(1);
        assert!(limit.take_reply());
    }
}
