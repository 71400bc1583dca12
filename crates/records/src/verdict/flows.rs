//! A flow: what it waited for.
//!
//! The stalls of a flow (see the module of traffic) are given out one kind of cause after the
//! other, the one with the surest marks first, and what one has taken no other gets. So the gains
//! that are said of a flow never exceed the time that it took.

use super::cause::{Cause, Kind, Whole};
use super::keys::{is_own, round_trip_ns, sum_of};
use super::observation::{Direction, Flow, Observation, Path};
use super::traffic::{Stall, burst_rate_bps, stalls};
use super::{losses, rates, waits};
use crate::figures::duration;
use crate::measurement::Layer;

/// A flow that is being explained.
pub(super) struct View<'a> {
    pub(super) flow: &'a Flow,
    pub(super) whole: Whole,
    pub(super) path: &'a Path,
    /// The round trip of the network, ns.
    pub(super) trip_ns: Option<u64>,
    /// At which half of its bytes come, bit/s.
    pub(super) burst_bps: Option<u64>,
    /// What nothing explains yet.
    pub(super) stalls: Vec<Stall>,
    /// Something was lost in this session, as far as can be told.
    pub(super) has_losses: bool,
}

/// A stall is no shorter than this: what a scheduler does is none.
const LEAST_STALL_NS: u64 = 5_000_000;

impl View<'_> {
    /// Returns a cause of this flow.
    pub(super) fn cause(&self, kind: Kind, gain_ns: u64, subject: &str, advice: String) -> Cause {
        Cause {
            kind,
            of: self.whole,
            gain_ns: gain_ns.min(self.flow.elapsed_ns),
            total_ns: self.flow.elapsed_ns,
            subject: subject.to_owned(),
            advice,
        }
    }

    /// Takes the stalls that `is_meant`, and returns them.
    pub(super) fn take(&mut self, mut is_meant: impl FnMut(&Stall) -> bool) -> Vec<Stall> {
        let (taken, left) = self.stalls.drain(..).partition(|stall| is_meant(stall));
        self.stalls = left;
        taken
    }

    /// Returns the round trip, or nothing where it is not known.
    pub(super) fn trip_or_zero(&self) -> u64 {
        self.trip_ns.unwrap_or(0)
    }
}

/// Returns how long `stalls` are together, ns.
pub(super) fn sum_ns(stalls: &[Stall]) -> u64 {
    stalls.iter().fold(0, |sum, stall| sum.saturating_add(stall.ns))
}

/// Returns what the flows of a session cost.
pub(super) fn causes(observed: &Observation) -> Vec<Cause> {
    let screenful = observed.screenful.iter().map(|flow| (flow, Whole::Screenful));
    let transfers = observed.transfers.iter().map(|flow| (flow, Whole::Transfer));
    let all: Vec<_> = screenful.chain(transfers).collect();
    let has_losses = all.iter().any(|(flow, _)| losses::is_lossy(flow));
    let trip_ns = round_trip_ns(observed);
    let mut found = Vec::new();
    for (flow, whole) in all {
        let burst_bps = burst_rate_bps(&flow.arrivals);
        let least_ns = (trip_ns.unwrap_or(0) / 4).max(LEAST_STALL_NS);
        let stalls = stalls(flow, burst_bps, least_ns);
        let path = &observed.path;
        let view = View { flow, whole, path, trip_ns, burst_bps, stalls, has_losses };
        found.extend(of_flow(view));
    }
    found
}

fn of_flow(mut view: View<'_>) -> Vec<Cause> {
    let mut found = processor(&view);
    found.extend(first_byte(&view));
    // What has the surest marks comes first; the order is explained in the head of the module.
    found.extend(losses::black_hole(&mut view));
    found.extend(waits::zero_window(&mut view));
    found.extend(rates::limiter(&mut view));
    found.extend(waits::delayed_ack(&mut view));
    found.extend(waits::nagle(&mut view));
    found.extend(losses::reordering(&mut view));
    found.extend(losses::loss(&mut view));
    found.extend(waits::small_window(&mut view));
    found.extend(rates::small_packets(&view));
    found.extend(rates::line(&view));
    found
}

/// Returns what this side's processor costs, by what it did.
fn processor(view: &View<'_>) -> Vec<Cause> {
    let layers = &view.flow.layers;
    let terminal_ns = sum_of(layers, |layer| layer == Layer::Terminal);
    let own_ns = sum_of(layers, |layer| is_own(layer) && layer != Layer::Terminal);
    let mut found = vec![
        view.cause(
            Kind::Terminal,
            terminal_ns,
            "Painting on this side's terminal",
            "a faster terminal, or less colour and scrolling, would help".to_owned(),
        ),
        view.cause(
            Kind::OwnProcessor,
            own_ns,
            "This side's own software",
            "look at the split by layer, and at what else runs on this machine".to_owned(),
        ),
    ];
    if let Some(ns) = view.flow.tls_own_ns {
        let advice = "look for a cipher that this processor has instructions for (AES-GCM)";
        found.push(view.cause(Kind::Tls, ns, "TLS on this side's processor", advice.to_owned()));
    }
    found
}

/// Returns what the far host takes until its first byte, beyond the round trip.
fn first_byte(view: &View<'_>) -> Option<Cause> {
    if view.flow.direction == Direction::Outgoing {
        return None;
    }
    let first = view.flow.arrivals.first()?;
    let trip_ns = view.trip_ns?;
    Some(view.cause(
        Kind::FarHost,
        first.at_ns.saturating_sub(trip_ns),
        "The far host",
        format!(
            "so long after the network's round trip of {} comes its first byte: look there at the \
             program and at the load",
            duration(trip_ns)
        ),
    ))
}
