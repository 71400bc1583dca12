//! A flow under analysis, and its stalls that have no cause yet.

use super::cause::{Cause, Operation};
use super::flow::Flow;
use super::observation::Path;
use super::traffic::Stall;

/// A flow under analysis.
pub(super) struct View<'a> {
    pub(super) flow: &'a Flow,
    pub(super) operation: Operation,
    /// The only rule that applies to the flow; `None` if all rules apply.
    pub(super) only: Option<Rule>,
    pub(super) path: &'a Path,
    /// Round-trip time of the network, ns.
    pub(super) trip_ns: Option<u64>,
    /// Rate that half of the bytes reach or exceed, bit/s.
    pub(super) burst_bps: Option<u64>,
    /// Bytes of a window, if the flow arrives in windows of one round trip each.
    pub(super) window_bytes: Option<u64>,
    /// Stalls without a cause so far.
    pub(super) stalls: Vec<Stall>,
    /// Time that has a cause already, ns.
    pub(super) explained_ns: u64,
    /// True if packets were lost in this session, as far as this can be observed.
    pub(super) has_losses: bool,
    /// True if packets were also lost while keys were typed one at a time, when no queue can have
    /// been full.
    pub(super) has_losses_while_typing: bool,
    /// Average cost of lost packets for this flow, from the whole session, if known, ns.
    pub(super) expected_loss_ns: Option<u64>,
    /// True if data of the local host was overtaken by later data.
    pub(super) has_reordering: bool,
    /// Time of the first byte in a second measurement of the same operation, ns.
    pub(super) other_first_ns: Option<u64>,
    /// Time of the local software for a key and its echo, ns.
    pub(super) own_ns: u64,
    /// Data bytes of the packets that pass the path, if the session has a path MTU black hole.
    pub(super) black_hole_segment_bytes: Option<u64>,
}

/// The only rule that is applied to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Tests whether long packets vanish.
    BlackHole,
    /// Tests whether the flow arrives in windows of one round trip each.
    Windows,
}

impl View<'_> {
    /// Returns the stalls for which `is_included` is true.
    pub(super) fn select(&self, is_included: impl Fn(&Stall) -> bool) -> Vec<Stall> {
        self.stalls.iter().filter(|stall| is_included(stall)).copied().collect()
    }

    /// Assigns `stalls` to `cause` if the cause stands out, and returns the cause. No other cause
    /// can get these stalls afterwards.
    pub(super) fn assign_stalls(&mut self, cause: Cause, stalls: &[Stall]) -> Option<Cause> {
        if !cause.stands_out() {
            return None;
        }
        self.stalls.retain(|stall| stalls.iter().all(|selected| selected.index != stall.index));
        self.explained_ns = self.explained_ns.saturating_add(cause.cost_ns);
        Some(cause)
    }

    /// Returns the round-trip time, or 0 if it is unknown.
    pub(super) fn trip_or_zero(&self) -> u64 {
        self.trip_ns.unwrap_or(0)
    }
}
