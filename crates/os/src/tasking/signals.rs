//! The signal routine (TM-233 §5.1): from descriptors and times to event flags.
//!
//! It knows places of a ring, and neither who is there nor what a descriptor is for. Whoever owns
//! the processor waits here when no event flag is set, and then runs the ring.

use super::flags::{PLACES_MAX, Wake, bit};
use crate::clock::Monotonic;
use crate::readiness::{self, PollFd, PollFlags};
use protocols::Instant;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Which event concerns which place.
#[derive(Debug, Default)]
pub struct Signals<'fd> {
    descriptors: Vec<(BorrowedFd<'fd>, PollFlags, usize)>,
    timers: Vec<(Instant, usize)>,
}

impl<'fd> Signals<'fd> {
    /// Has the place `place` woken when `descriptor` is ready for `wanted`; false if there are as
    /// many descriptors as there may be already.
    pub fn watch(&mut self, descriptor: &'fd impl AsFd, wanted: PollFlags, place: usize) -> bool {
        let has_room = self.descriptors.len() < PLACES_MAX;
        if has_room {
            self.descriptors.push((descriptor.as_fd(), wanted, place));
        }
        has_room
    }

    /// Has the place `place` woken once, at `at` or as soon after it as somebody waits; None takes
    /// that back. A place has one such time.
    pub fn set_timer(&mut self, place: usize, at: Option<Instant>) {
        self.timers.retain(|(_, other)| *other != place);
        if let Some(at) = at.filter(|_| place < PLACES_MAX) {
            self.timers.push((at, place));
        }
    }

    /// Waits until a descriptor is ready, a time has come or `until`, sets the event flags that this
    /// concerns, and returns the time and the bits of their places.
    ///
    /// # Errors
    ///
    /// As [`readiness::wait`].
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
