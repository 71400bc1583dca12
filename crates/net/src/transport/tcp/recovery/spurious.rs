//! Detection of spurious recoveries, which are undone.
//!
//! A recovery proves spurious by a timestamp echo (RFC 3522), by a report of duplicates for all
//! retransmitted data (RFC 3708), or, after a timeout, by an acknowledgment of data that was sent
//! only once (RFC 5682).

use super::super::flight::Delivery;
use super::super::sack::Block;
use super::super::seq::Seq;
use super::{Acknowledged, Phase, Recovery};
use crate::time::Instant;

impl Recovery {
    /// Returns the send time of the first retransmission of this recovery.
    pub(in super::super) fn first_retransmission_at(&self) -> Option<Instant> {
        self.undo.and_then(|undo| undo.since)
    }

    /// Returns the number of bytes reported as duplicates. RFC 2883 §4.1: the first block is below
    /// the acknowledgment number, or within the second block.
    pub(super) fn duplicate_bytes(&self, report: &Acknowledged<'_>) -> Option<u64> {
        let (start, end) = *report.blocks.first()?;
        let is_within = |block: &Block| !start.is_before(block.0) && !end.is_after(block.1);
        let is_duplicate = !end.is_after(report.ack) || report.blocks.get(1).is_some_and(is_within);
        (is_duplicate && start.is_before(end)).then(|| u64::from(end.since(start)))
    }

    pub(super) fn take_duplicate_report(&mut self, len: u64, ack: Seq) {
        if let Some(undo) = &mut self.undo {
            undo.unreported_bytes = undo.unreported_bytes.saturating_sub(len);
        }
        let probe_end =
            self.tail_probe.filter(|probe| probe.is_retransmission).map(|probe| probe.end);
        let is_of_probe = probe_end.is_some_and(|end| self.flight.seq(end) == ack);
        // Duplicates that the network has created do not indicate reordering.
        let is_ours = self.undo.is_some_and(|undo| undo.since.is_some());
        if is_ours && !is_of_probe {
            self.rack.on_spurious_retransmission(self.flight.una(), self.flight.nxt());
        }
    }

    /// Ends a spurious recovery.
    pub(super) fn undo_if_spurious(
        &mut self,
        report: &Acknowledged<'_>,
        delivery: &Delivery,
        has_advanced: bool,
        recovery_point: u64,
    ) -> bool {
        let Some(undo) = self.undo else { return false };
        let all_reported_duplicate = undo.since.is_some() && undo.unreported_bytes == 0;
        let is_echo = has_advanced
            && report.is_ack_of_original
            && undo.since.is_some()
            && !self.is_undisturbed();
        // RFC 5682 §3.1: only the first segment was retransmitted, but others are acknowledged.
        let is_of_data_sent_once = self.phase == Phase::Loss
            && self.has_blocks
            && delivery
                .newest
                .is_some_and(|newest| !newest.is_retransmission && newest.end <= recovery_point);
        let is_spurious = match self.phase {
            Phase::Loss => all_reported_duplicate || is_echo || is_of_data_sent_once,
            _ => all_reported_duplicate || (is_echo && self.flight.retransmitted() == 0),
        };
        if is_spurious {
            self.window.undo();
            self.flight.clear_lost();
            self.leave();
        }
        is_spurious
    }

    /// Undoes the response to a loss that is no sign of congestion (RFC 8899 §3). The lost data is
    /// still retransmitted. Does nothing without SACK.
    pub(in super::super) fn forgive(&mut self) {
        if self.has_blocks {
            self.window.undo();
            self.leave();
        }
    }

    pub(super) fn leave(&mut self) {
        self.phase = Phase::Open;
        self.prr = None;
        self.undo = None;
    }
}
