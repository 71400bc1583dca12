//! The signal routine (TM-233 §5.1): converts descriptor readiness and timers to event flags.
//!
//! The signal routine knows the positions of a ring, but neither their contents nor the purpose of
//! a descriptor. If no event flag is set, the caller waits in this routine and then runs the ring.

use crate::flags::{POSITIONS_MAX, Wake, bit};
use net::Instant;
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Registrations of events for positions.
#[derive(Debug, Default)]
pub struct Signals<'fd> {
    descriptors: Vec<(BorrowedFd<'fd>, PollFlags, usize)>,
    timers: Vec<(Instant, usize)>,
}

impl<'fd> Signals<'fd> {
    /// Wakes `position` when `descriptor` is ready for `wanted`. Returns `false` if the maximum
    /// number of descriptors is already registered.
    pub fn watch(
        &mut self,
        descriptor: &'fd impl AsFd,
        wanted: PollFlags,
        position: usize,
    ) -> bool {
        let has_room = self.descriptors.len() < POSITIONS_MAX;
        if has_room {
            self.descriptors.push((descriptor.as_fd(), wanted, position));
        }
        has_room
    }

    /// Wakes `position` once, at the first wait that ends at or after the time `at`. `None` cancels
    /// the timer. A position has one timer.
    pub fn set_timer(&mut self, position: usize, at: Option<Instant>) {
        self.timers.retain(|(_, other)| *other != position);
        if let Some(at) = at.filter(|_| position < POSITIONS_MAX) {
            self.timers.push((at, position));
        }
    }

    /// Waits until a descriptor is ready, a timer expires or the deadline `until` passes. Then sets
    /// the event flags of the positions concerned. Returns the time and the bits of those
    /// positions.
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
        let ready_positions = ready.map(|(_, (_, _, position))| *position);
        let positions = ready_positions.chain(due.map(|(_, position)| *position));
        let mut woken = 0;
        for position in positions {
            flags.wake(position);
            woken |= bit(position);
        }
        self.timers.retain(|(at, _)| *at > now);
        Ok((now, woken))
    }
}
