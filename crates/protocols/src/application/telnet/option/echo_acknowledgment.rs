//! ECHO-ACKNOWLEDGMENT (private, option 221): how much of the user's input the displayed output
//! reflects.
//!
//! On a path with a round trip of 300 ms, a client may display a predicted echo if wrong
//! predictions are soon removed. To remove them, the client must know whether a character that is
//! not on the screen is still in flight or will never be echoed. TIMING-MARK reports that Telnet
//! has read the character, not how the program has processed it. The server therefore counts the
//! bytes of data that it has passed to the program, and [`SETTLING`] later, by which time a program
//! that echoes has echoed, it sends
//!
//! ```text
//! IAC SB 221 <count, 8 bytes, most significant first> IAC SE
//! ```
//!
//! All output before this message reflects the first `count` bytes of data since the connection
//! began, each counted as decoded by RFC 854: CR NUL is one byte, CR LF is two, IAC IAC is one.
//! Data that a Synch discarded counts. The server performs the option. Other implementations do not
//! know it, and their refusal costs three bytes. Neither the registry nor any known implementation
//! uses this number.

use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;

/// Time that a program has to echo before its silence is final (our choice, and mosh's).
const SETTLING: Duration = Duration::from_millis(50);

/// Maximum number of pending counts (our choice). Further counts are merged and sent a little
/// later.
const WAITING_MAX: usize = 64;

pub(super) fn parse(content: &[u8]) -> Option<u64> {
    content.try_into().ok().map(u64::from_be_bytes)
}

/// Amount of data that a server has passed to the program, and the part of this data that is not
/// acknowledged.
#[derive(Debug, Default)]
pub(in crate::application::telnet) struct Acknowledger {
    is_on: bool,
    handed: u64,
    waiting: VecDeque<(Instant, u64)>,
}

impl Acknowledger {
    /// Starts to acknowledge.
    pub(in crate::application::telnet) fn begin(&mut self) {
        self.is_on = true;
    }

    /// Records that `count` more bytes were passed to the program at `now`, or discarded.
    pub(in crate::application::telnet) fn hand(&mut self, count: usize, now: Instant) {
        self.handed += count as u64;
        if self.is_on {
            self.schedule(now);
        }
    }

    fn schedule(&mut self, now: Instant) {
        let due = now + SETTLING;
        let is_full = self.waiting.len() >= WAITING_MAX;
        match self.waiting.back_mut() {
            Some((last_due, count)) if *last_due == due => *count = self.handed,
            // The new count replaces the previous one, which it includes.
            Some(last) if is_full => *last = (due, self.handed),
            _ => self.waiting.push_back((due, self.handed)),
        }
    }

    pub(in crate::application::telnet) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Returns the content of the acknowledgment that is due, if any.
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

    /// Discards pending acknowledgments when the option is disabled.
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
