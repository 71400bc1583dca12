//! ECHO-ACKNOWLEDGMENT (private, option 221): how much of what was typed the screen now shows.
//!
//! A user who sees 300 ms late may be shown what the echo will be, if what is shown wrongly is
//! taken back soon. For that he must know whether a key that is not on the screen is still under
//! way or will never be there. TIMING-MARK says that Telnet has read the key, not what the
//! program has made of it. So the server counts the bytes of data that it has handed to the
//! program, and [`SETTLING`] later, by when a program that echoes has echoed, it says
//!
//! ```text
//! IAC SB 221 <count, 8 bytes, the highest first> IAC SE
//! ```
//!
//! Everything behind which this stands in the stream shows the effect of the first `count` bytes
//! of data since the connection began, each counted as RFC 854 decodes it: CR NUL is one byte,
//! CR LF is two, IAC IAC is one. Data that a Synch threw away counts. The server performs the
//! option; nobody else knows it, and a stranger's refusal costs three bytes. The number lies
//! where neither the registry nor anybody known to us has one.

use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;

/// How long a program has to echo, before its silence is believed; ours, and mosh's.
const SETTLING: Duration = Duration::from_millis(50);

/// The most counts that wait for their time; ours. More are told together, a little later.
const WAITING_MAX: usize = 64;

pub(super) fn parse(content: &[u8]) -> Option<u64> {
    content.try_into().ok().map(u64::from_be_bytes)
}

/// What a server has handed on, and what of it is not acknowledged.
#[derive(Debug, Default)]
pub(in crate::application::telnet) struct Acknowledger {
    is_on: bool,
    handed: u64,
    waiting: VecDeque<(Instant, u64)>,
}

impl Acknowledger {
    /// Begins to acknowledge.
    pub(in crate::application::telnet) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Takes note that `count` bytes more are handed to the program now, or thrown away.
    pub(in crate::application::telnet) fn hand(&mut self, count: usize, now: Instant) {
        self.handed += count as u64;
        if self.is_on {
            self.owe(now);
        }
    }

    fn owe(&mut self, now: Instant) {
        let due = now + SETTLING;
        let is_full = self.waiting.len() >= WAITING_MAX;
        match self.waiting.back_mut() {
            Some((last_due, count)) if *last_due == due => *count = self.handed,
            // The one before gives way: what it would have said is part of what this one says.
            Some(last) if is_full => *last = (due, self.handed),
            _ => self.waiting.push_back((due, self.handed)),
        }
    }

    pub(in crate::application::telnet) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Returns the content that acknowledges what is due, if anything is.
    pub(in crate::application::telnet) fn due(&mut self, now: Instant) -> Option<[u8; 8]> {
        let mut count = None;
        while let Some(&(due, handed)) = self.waiting.front()
            && due <= now
        {
            count = Some(handed);
            self.waiting.pop_front();
        }
        count.map(u64::to_be_bytes)
    }

    /// Forgets what is owed: the option has ended.
    pub(in crate::application::telnet) fn end(&mut self) {
        self.is_on = false;
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn what_was_handed_on_is_acknowledged_when_it_had_time_to_be_echoed() {
        let mut acknowledger = Acknowledger::default();
        acknowledger.begin();
        acknowledger.hand(3, at(10));
        acknowledger.hand(4, at(20));
        assert_eq!((acknowledger.deadline(), acknowledger.due(at(59))), (Some(at(60)), None));
        assert_eq!(acknowledger.due(at(60)), Some(3_u64.to_be_bytes()));
        assert_eq!(acknowledger.due(at(200)), Some(7_u64.to_be_bytes()));
        assert_eq!((acknowledger.deadline(), acknowledger.due(at(300))), (None, None));
    }

    #[test]
    fn a_flood_of_keys_has_a_limited_number_of_times() {
        let mut acknowledger = Acknowledger::default();
        acknowledger.begin();
        (0..10_000).for_each(|millis| acknowledger.hand(1, at(millis)));
        assert_eq!(acknowledger.waiting.len(), WAITING_MAX);
        assert_eq!(acknowledger.due(at(20_000)), Some(10_000_u64.to_be_bytes()));
    }
}
