//! Timer of the go-ahead (RFC 854) for a client that refuses SUPPRESS-GO-AHEAD (RFC 858).
//!
//! A program does not announce that it waits for input; output followed by silence counts as
//! waiting.

use std::time::Duration;
use tokio::time::Instant;

/// Silence after output that counts as waiting for input. Our choice.
const GO_AHEAD_DELAY: Duration = Duration::from_millis(50);

/// Timer of the next go-ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GoAhead {
    /// Whether the client has refused to suppress go-aheads.
    is_wanted: bool,
    due: Option<Instant>,
}

impl GoAhead {
    /// Sets whether the client wants go-aheads. The first go-ahead is due [`GO_AHEAD_DELAY`] after
    /// `now`, because output may have been sent before.
    pub(super) fn set_wanted(&mut self, is_wanted: bool, now: Instant) {
        self.is_wanted = is_wanted;
        self.due = is_wanted.then(|| now + GO_AHEAD_DELAY);
    }

    /// Restarts the timer after output to the client.
    pub(super) fn on_output(&mut self) {
        if self.is_wanted {
            self.due = Some(Instant::now() + GO_AHEAD_DELAY);
        }
    }

    /// Returns the time at which the go-ahead is due if no further output is sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether the go-ahead is due. A go-ahead that is due is cleared.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_ahead_is_due_once_after_the_last_output_if_wanted() {
        let mut go_ahead = GoAhead::default();
        go_ahead.on_output();
        assert_eq!(go_ahead.due(), None);
        let started_at = Instant::now();
        go_ahead.set_wanted(true, started_at);
        assert!(!go_ahead.take_due(started_at));
        go_ahead.on_output();
        let due = go_ahead.due().unwrap();
        assert!(due >= started_at + GO_AHEAD_DELAY);
        assert!(go_ahead.take_due(due) && !go_ahead.take_due(due));
        go_ahead.set_wanted(false, due);
        assert_eq!(go_ahead.due(), None);
    }
}
