//! ECHO-ACKNOWLEDGMENT (private, option 221): how much of the user's input the displayed output
//! reflects.
//!
//! On a path with a round-trip time of 300 ms, a client may display a predicted echo if wrong
//! predictions are soon removed. To remove them, the client must know whether a character that is
//! not on the screen is still in flight or will never be echoed. TIMING-MARK reports that Telnet
//! has read the character, not that the program has processed it. The server therefore counts the
//! bytes of data that it has passed to the program. After [`ECHO_DELAY`], in which a program that
//! echoes has echoed these bytes, the server sends the count:
//!
//! ```text
//! IAC SB 221 <count, 8 bytes, most significant first> IAC SE
//! ```
//!
//! All output before this message reflects the first `count` bytes of data since the connection
//! began, counted as decoded by RFC 854: CR NUL is one byte, CR LF is two, IAC IAC is one. Data
//! that a Synch discarded is counted. The server performs the option. Other implementations do not
//! know it, and their refusal costs three bytes. Neither the registry nor any known implementation
//! uses this option code.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::collections::VecDeque;
use alloc::format;
use net::time::{Duration, Instant};

/// Time in which a program must echo. After this time the program is assumed not to echo (our
/// choice; mosh uses the same value).
const ECHO_DELAY: Duration = Duration::from_millis(50);

/// Maximum number of counts that wait to be sent (our choice). Further counts are merged and sent
/// slightly later.
const PENDING_MAX: usize = 64;

impl OptionCode {
    /// ECHO-ACKNOWLEDGMENT, private to plumbline, with an otherwise unused number.
    pub const ECHO_ACKNOWLEDGMENT: Self = Self(221);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 8,
    describe: |content| Some(format!("{} bytes", parse(content)?)),
    ..Definition::new(OptionCode::ECHO_ACKNOWLEDGMENT, Role::Server)
};

/// Number of data bytes that a server has passed to the program, and the counts that are not
/// acknowledged yet.
#[derive(Debug, Default)]
pub(in crate::telnet) struct EchoAcknowledgment {
    is_on: bool,
    passed_bytes: u64,
    pending: VecDeque<(Instant, u64)>,
}

impl Handler for EchoAcknowledgment {
    fn from_settings(_settings: Settings<'_>) -> Self {
        Self::default()
    }

    fn on_enabled(&mut self, side: Side, _context: &mut Context<'_, '_>) {
        if side == Side::Local {
            self.begin();
        }
    }

    fn on_disabled(&mut self, _side: Side, _context: &mut Context<'_, '_>) {
        self.end();
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let count = parse(content).ok_or(Invalid)?;
        // More bytes than were sent cannot have been echoed.
        if !context.row.is_enabled(Side::Remote) || count > context.output.data_position() {
            return Err(Invalid);
        }
        Ok(Some(Event::EchoAcknowledged(count)))
    }
}

impl EchoAcknowledgment {
    /// Starts to send acknowledgments.
    fn begin(&mut self) {
        self.is_on = true;
    }

    /// Records that `count` more bytes were passed to the program at `now`, or discarded.
    pub(in crate::telnet) fn record_passed(&mut self, count: usize, now: Instant) {
        self.passed_bytes += count as u64;
        if self.is_on {
            self.schedule(now);
        }
    }

    fn schedule(&mut self, now: Instant) {
        let due = now + ECHO_DELAY;
        let is_full = self.pending.len() >= PENDING_MAX;
        match self.pending.back_mut() {
            Some((last_due, count)) if *last_due == due => *count = self.passed_bytes,
            // The new count includes the previous one and replaces it.
            Some(last) if is_full => *last = (due, self.passed_bytes),
            _ => self.pending.push_back((due, self.passed_bytes)),
        }
    }

    pub(in crate::telnet) fn deadline(&self) -> Option<Instant> {
        self.pending.front().map(|(due, _)| *due)
    }

    /// Returns the content of the acknowledgment that is due, if any.
    pub(in crate::telnet) fn take_due(&mut self, now: Instant) -> Option<[u8; 8]> {
        let mut count = None;
        while let Some(&(due, passed_bytes)) = self.pending.front()
            && due <= now
        {
            count = Some(passed_bytes);
            self.pending.pop_front();
        }
        count.map(u64::to_be_bytes)
    }

    /// Stops sending acknowledgments, and discards the pending ones.
    fn end(&mut self) {
        self.is_on = false;
        self.pending.clear();
    }
}

fn parse(content: &[u8]) -> Option<u64> {
    content.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_millis(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn data_passed_to_the_program_is_acknowledged_after_the_echo_delay() {
        let mut option = EchoAcknowledgment::default();
        option.begin();
        option.record_passed(3, at_millis(10));
        option.record_passed(4, at_millis(20));
        assert_eq!(
            (option.deadline(), option.take_due(at_millis(59))),
            (Some(at_millis(60)), None)
        );
        assert_eq!(option.take_due(at_millis(60)), Some(3_u64.to_be_bytes()));
        assert_eq!(option.take_due(at_millis(200)), Some(7_u64.to_be_bytes()));
        assert_eq!((option.deadline(), option.take_due(at_millis(300))), (None, None));
    }

    #[test]
    fn a_flood_of_keys_has_a_limited_number_of_deadlines() {
        let mut option = EchoAcknowledgment::default();
        option.begin();
        (0..10_000).for_each(|millis| option.record_passed(1, at_millis(millis)));
        assert_eq!(option.pending.len(), PENDING_MAX);
        assert_eq!(option.take_due(at_millis(20_000)), Some(10_000_u64.to_be_bytes()));
    }

    #[test]
    fn an_acknowledgment_is_not_sent_after_the_end_of_the_option() {
        let mut option = EchoAcknowledgment::default();
        option.begin();
        option.record_passed(3, at_millis(10));
        option.end();
        assert_eq!((option.deadline(), option.take_due(at_millis(100))), (None, None));
    }
}
