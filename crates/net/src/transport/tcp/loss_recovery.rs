//! The recovery state of a connection: in full while data is outstanding, and reduced on a host
//! with many idle connections.

use super::idle_state::IdleState;
use super::limited_time::Limits;
use super::profile::Congestion;
use super::recovery::Recovery;
use super::seq::Seq;
use super::status::RecoveryStatus;
use alloc::boxed::Box;

/// The recovery state of a connection, and the tail loss probe that is due (RFC 8985 §7.3).
#[derive(Debug, Default)]
pub(super) struct LossRecovery {
    /// Allocated when the first data is sent: a connection that only receives needs none.
    full: Option<Box<Recovery>>,
    /// The reduced recovery state of an idle connection. It replaces `full` if too many connections
    /// have the full state.
    reduced: Option<Box<IdleState>>,
    /// Whether the first flight has only one segment, because the SYN was lost more than once (RFC
    /// 6928 §2).
    starts_with_one_segment: bool,
    /// Whether a tail loss probe is due, because the last segments were not acknowledged in time.
    must_probe_tail: bool,
    /// Whether the segment under construction is a tail loss probe.
    is_tail_probe: bool,
}

/// The parameters of a new recovery state.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveryParameters {
    pub(super) congestion: Congestion,
    pub(super) mss: u32,
    /// The next sequence number.
    pub(super) una: Seq,
    pub(super) has_sack: bool,
}

/// The full or the reduced recovery state of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecoveryForm<'a> {
    /// The full state: data was sent recently.
    Busy(&'a Recovery),
    /// The reduced state: nothing is outstanding.
    IdleState(&'a IdleState),
}

impl LossRecovery {
    /// Returns the full state, or `None` if nothing was sent yet or recently.
    pub(super) fn full(&self) -> Option<&Recovery> {
        self.full.as_deref()
    }

    /// Returns the full state, or `None` if nothing was sent yet or recently.
    pub(super) fn full_mut(&mut self) -> Option<&mut Recovery> {
        self.full.as_deref_mut()
    }

    /// Returns the full state, allocated with `parameters` if needed.
    pub(super) fn get_or_allocate(&mut self, parameters: RecoveryParameters) -> &mut Recovery {
        let Self { full, reduced, starts_with_one_segment, .. } = self;
        full.get_or_insert_with(|| {
            let RecoveryParameters { congestion, mss, una, has_sack } = parameters;
            let mut recovery = Box::new(Recovery::new(congestion, mss, una, has_sack));
            if *starts_with_one_segment {
                recovery.window.syn_was_lost();
            }
            if let Some(reduced) = reduced.take() {
                recovery.resume(&reduced);
            }
            recovery
        })
    }

    /// Returns the state in either form, or `None` if nothing was sent yet.
    pub(super) fn form(&self) -> Option<RecoveryForm<'_>> {
        let busy = self.full.as_deref().map(RecoveryForm::Busy);
        busy.or_else(|| self.reduced.as_deref().map(RecoveryForm::IdleState))
    }

    /// Reduces the state to the part that the next flight needs, if nothing is outstanding. Returns
    /// whether it was reduced.
    pub(super) fn reduce(&mut self) -> bool {
        let idle_state = self.full.as_ref().and_then(|recovery| recovery.idle_state());
        let Some(idle_state) = idle_state else { return false };
        self.reduced = Some(Box::new(idle_state));
        self.full = None;
        true
    }

    /// Sets whether the first flight has only one segment.
    pub(super) fn set_starts_with_one_segment(&mut self, starts_with_one_segment: bool) {
        self.starts_with_one_segment = starts_with_one_segment;
    }

    /// Makes a tail loss probe due.
    pub(super) fn request_tail_probe(&mut self) {
        self.must_probe_tail = true;
    }

    /// Cancels a tail loss probe that is due.
    pub(super) fn cancel_tail_probe(&mut self) {
        self.must_probe_tail = false;
    }

    /// Returns whether a tail loss probe is due.
    pub(super) fn must_probe_tail(&self) -> bool {
        self.must_probe_tail
    }

    pub(super) fn take_tail_probe(&mut self) -> bool {
        core::mem::take(&mut self.must_probe_tail)
    }

    /// Records that the segment under construction is a tail loss probe.
    pub(super) fn begin_tail_probe(&mut self) {
        self.is_tail_probe = true;
    }

    /// Returns whether the completed segment is a tail loss probe.
    pub(super) fn end_tail_probe(&mut self) -> bool {
        core::mem::take(&mut self.is_tail_probe)
    }
}

impl RecoveryForm<'_> {
    pub(super) fn cwnd(self) -> u32 {
        match self {
            Self::Busy(recovery) => recovery.window.cwnd(),
            Self::IdleState(idle_state) => idle_state.window.cwnd,
        }
    }

    pub(super) fn ssthresh(self) -> u32 {
        match self {
            Self::Busy(recovery) => recovery.window.ssthresh(),
            Self::IdleState(idle_state) => idle_state.window.ssthresh,
        }
    }

    pub(super) fn limits(self) -> Limits {
        match self {
            Self::Busy(recovery) => recovery.limits,
            Self::IdleState(idle_state) => idle_state.limits,
        }
    }

    pub(super) fn status(self) -> RecoveryStatus {
        match self {
            Self::Busy(recovery) => recovery.status(),
            Self::IdleState(idle_state) => idle_state.status(),
        }
    }
}
