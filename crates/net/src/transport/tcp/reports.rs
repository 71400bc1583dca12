//! The reports of a connection: events and errors for the user, and a suspect route for the layer
//! below.

use super::status::{CloseReason, Event};
use crate::internet::icmp::ErrorKind;

/// The reports of a connection that were not collected yet, and the reasons for its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reports {
    /// One bit per [`Event`] that was not reported yet.
    pending_events: u8,
    /// Whether the layer below should try another route, because R1 timeouts have expired
    /// (MUST-20).
    suspects_route: bool,
    /// The last ICMP error about a segment. An acknowledgment clears it.
    soft_error: Option<ErrorKind>,
    close_reason: Option<CloseReason>,
}

impl Reports {
    /// Queues an event for the user.
    pub(super) fn push(&mut self, event: Event) {
        self.pending_events |= event.bit();
    }

    /// Returns whether an event is queued.
    pub(super) const fn has_events(&self) -> bool {
        self.pending_events != 0
    }

    /// Removes and returns the next event for the user.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = *Event::ORDER.iter().find(|event| self.pending_events & event.bit() != 0)?;
        self.pending_events &= !event.bit();
        Some(event)
    }

    /// Reports the end of the connection. The first reason counts.
    pub(super) fn end(&mut self, close_reason: CloseReason) {
        self.close_reason.get_or_insert(close_reason);
        self.push(Event::Closed);
    }

    /// Replaces the reason for the end of the connection.
    pub(super) const fn replace_close_reason(&mut self, close_reason: CloseReason) {
        self.close_reason = Some(close_reason);
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub(super) const fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Records an ICMP error that does not end the connection.
    pub(super) const fn record_soft_error(&mut self, kind: ErrorKind) {
        self.soft_error = Some(kind);
    }

    /// Forgets the last ICMP error, because the peer has answered.
    pub(super) const fn clear_soft_error(&mut self) {
        self.soft_error = None;
    }

    /// Returns the last ICMP error since the last acknowledgment.
    pub(super) const fn soft_error(&self) -> Option<ErrorKind> {
        self.soft_error
    }

    /// Reports that R1 timeouts have expired, to the user (SHLD-9) and to the layer below
    /// (MUST-20).
    pub(super) fn suspect_route(&mut self) {
        self.push(Event::Unresponsive);
        self.suspects_route = true;
    }

    /// Removes the report for the layer below, and returns whether there was one.
    pub(super) const fn take_suspicion(&mut self) -> bool {
        core::mem::replace(&mut self.suspects_route, false)
    }
}
