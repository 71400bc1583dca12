//! The signal routine (TM-233 §5.1): converts descriptor readiness and timers to event flags.
//!
//! The signal routine knows the positions of a ring, but neither their contents nor the purpose of
//! a descriptor. The caller waits here when no event flag is set, and then runs the ring.

use super::flags::{PLACES_MAX, Wake, bit};
use crate::clock::Monotonic;
use crate::readiness::{self, PollFd, PollFlags};
use protocols::Instant;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Registrations of events for positions.
#[derive(Debug, Default)]
pub struct Signals<'fd> {
    descriptors: Vec<(BorrowedFd<'fd>, PollFlags, usize)>,
    timers: Vec<(Instant, usize)>,
}

impl<'fd> Signals<'fd> {
    /// Wakes `place` when `descriptor` is ready for `wanted`. Returns `false` if the maximum number
    /// of descriptors is already registered.
    pub fn watch(&mut self, descriptor: &'fd impl AsFd, wanted: PollFlags, place: usize) -> bool {
        let has_room = self.descriptors.len() < PLACES_MAX;
        if has_room {
            self.descriptors.push((descriptor.as_fd(), wanted, place));
        }
        has_room
    }

    /// Wakes `place` once, at `at` or at the first wait after it; `None` cancels that. A position
    /// has one timer.
    pub fn set_timer(&mut self, place: usize, at: Option<Instant>) {
        self.timers.retain(|(_, other)| *other != place);
        if let Some(at) = at.filter(|_| place < PLACES_MAX) {
            self.timers.push((at, place));
        }
    }

    /// Waits until a descriptor is ready, a timer expires or `until`, and sets the event flags of
    /// the positions concerned. Returns the time and the bits of those positions.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`readiness::wait`].
    pub fn wait(
        &mut self,
        flags: &(impl Wake + ?Sized),
        clock: &Monotonic,
        until: Option<Instant>,
    ) -> io::Result<(Instant, u64)> {
        let earliest = self.timers.iter().map(|(at, _)| *at).chain(until).min();
        let mut descriptors: Vec<_> = self
            .descriptors
            .iter()
            .map(|(descriptor, wanted, _)| PollFd::new(descriptor, *wanted))
            .collect();
        readiness::wait(&mut descriptors, clock, earliest)?;
        let now = clock.now();
        let ready = descriptors.iter().zip(&self.descriptors);
        let ready = ready.filter(|(polled, _)| !polled.revents().is_empty());
        let due = self.timers.iter().filter(|(at, _)| *at <= now);
        let places = ready.map(|(_, (_, _, place))| *place).chain(due.map(|(_, place)| *place));
        let mut woken = 0;
        for place in places {
            flags.wake(place);
            woken |= bit(place);
        }
        self.timers.retain(|(at, _)| *at > now);
        Ok((now, woken))
    }
}
