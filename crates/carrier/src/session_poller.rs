//! Readiness of the descriptors of one session: the socket or device of its carrier, its local
//! inputs, and its display.
//!
//! The inputs are watched edge-triggered, because a poll of a terminal would wait for the thread
//! that feeds it. An input stays ready until the carrier has read it completely. The display is
//! watched only while it is full, because a terminal reports writability after every key.

use super::StreamSession;
use anyhow::{Context, Result};
use net::time::Instant;
use os::clock::Monotonic;
use os::readiness::{PollFlags, Poller, Wake};
use std::io;
use std::os::fd::BorrowedFd;

/// Index of the socket or device among the watched descriptors. The next indices are the session's
/// inputs, and the last one is its display.
const CARRIER: usize = 0;

pub(super) struct SessionPoller {
    poller: Poller,
    inputs: usize,
    /// Index of the display among the watched descriptors.
    display: Option<usize>,
    is_display_watched: bool,
    /// Events that the device is watched for.
    device_events: PollFlags,
}

impl SessionPoller {
    /// Watches a socket edge-triggered, and the inputs of `session`.
    pub(super) fn for_socket<S: StreamSession>(
        socket: BorrowedFd<'_>,
        session: &S,
    ) -> Result<Self> {
        let mut poller = Poller::new()?;
        let events = PollFlags::IN | PollFlags::OUT | PollFlags::PRI;
        poller.watch(socket, events)?;
        Self::watching(poller, events, session)
    }

    /// Watches a device level-triggered, because the carrier may leave data in the device, and the
    /// inputs of `session`.
    pub(super) fn for_device<S: StreamSession>(
        device: BorrowedFd<'_>,
        session: &S,
    ) -> Result<Self> {
        let mut poller = Poller::new()?;
        poller.watch_level(device, PollFlags::IN).context("cannot watch the device")?;
        Self::watching(poller, PollFlags::IN, session)
    }

    fn watching<S: StreamSession>(
        mut poller: Poller,
        device_events: PollFlags,
        session: &S,
    ) -> Result<Self> {
        let inputs = session.inputs();
        for input in &inputs {
            poller.watch(*input, PollFlags::IN).context("cannot watch an input of the session")?;
        }
        let inputs = inputs.len();
        let display = session.display().map(|_| poller.reserve());
        Ok(Self { poller, inputs, display, is_display_watched: false, device_events })
    }

    /// Returns the cached readiness of the socket or device.
    pub(super) fn ready(&self) -> PollFlags {
        self.poller.ready(CARRIER)
    }

    /// Clears the readiness of the socket for `flags`, until the next event.
    pub(super) fn clear(&mut self, flags: PollFlags) {
        self.poller.clear(CARRIER, flags);
    }

    /// Changes the events that the device is watched for.
    pub(super) fn set_device_events(
        &mut self,
        device: BorrowedFd<'_>,
        events: PollFlags,
    ) -> io::Result<()> {
        if events != self.device_events {
            self.poller.set_events(CARRIER, device, events)?;
            self.device_events = events;
        }
        Ok(())
    }

    /// Returns the number of inputs.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns whether the `index`th input has data that the session accepts now.
    pub(super) fn is_input_ready<S: StreamSession>(&self, index: usize, session: &S) -> bool {
        !self.poller.ready(CARRIER + 1 + index).is_empty() && session.wants_input(index)
    }

    /// Returns whether any input has data that the session accepts now.
    pub(super) fn has_input<S: StreamSession>(&self, session: &S) -> bool {
        (0..self.inputs).any(|index| self.is_input_ready(index, session))
    }

    /// Clears the readiness of the `index`th input, unless the session has left data there.
    pub(super) fn input_taken<S: StreamSession>(&mut self, index: usize, session: &S) {
        if !session.has_more_input(index) {
            self.poller.clear(CARRIER + 1 + index, PollFlags::IN);
        }
    }

    pub(super) fn has_display(&self) -> bool {
        self.display.is_some()
    }

    /// Watches the display while it is full.
    pub(super) fn watch_display<S: StreamSession>(&mut self, session: &S) -> Result<()> {
        let is_full = session.is_display_full();
        if let Some((number, display)) = self.display.zip(session.display()) {
            if is_full && (!self.is_display_watched || self.is_display_ready()) {
                self.poller.watch_once(number, display, PollFlags::OUT)?;
            } else if !is_full && self.is_display_watched {
                self.poller.unwatch(number, display)?;
            }
            self.is_display_watched = is_full;
        }
        Ok(())
    }

    /// Returns whether the display was full and accepts output again.
    pub(super) fn is_display_ready(&self) -> bool {
        self.is_display_watched
            && self.display.is_some_and(|number| !self.poller.ready(number).is_empty())
    }

    /// Waits for an event of any descriptor, which the session may not need now, or until `until`.
    pub(super) fn wait_for_event(
        &mut self,
        clock: &Monotonic,
        until: Option<Instant>,
    ) -> io::Result<Wake> {
        self.poller.wait(clock, until)
    }

    /// Waits until the device, the full display or an input that the session accepts is ready, or
    /// until `until`. The inputs count only if `is_input_wanted`.
    pub(super) fn wait_for_device<S: StreamSession>(
        &mut self,
        clock: &Monotonic,
        until: Option<Instant>,
        session: &S,
        is_input_wanted: bool,
    ) -> Result<()> {
        let has_input = |poller: &Self| is_input_wanted && poller.has_input(session);
        // If an input has unread data, the device is polled without waiting.
        let until = if has_input(self) { Some(Instant::ZERO) } else { until };
        self.clear(PollFlags::all());
        loop {
            let wake = self.wait_for_event(clock, until)?;
            // An event may concern a descriptor that the session does not need now.
            let is_ready = !self.ready().is_empty() || has_input(self) || self.is_display_ready();
            if wake == Wake::Deadline || is_ready {
                return Ok(());
            }
        }
    }
}
