//! Tests of the rules for logins, at the boundaries of their conditions.

mod echoes;
mod login_steps;
mod losses;
mod ranking;
mod rates;
mod round_trip_waits;
mod traffic;
mod unexplained;

use super::cause::{Cause, CauseKind, Operation};
use super::flow::{Arrival, Flow};
use super::flow_view::View;
use super::observation::{Echoes, Observation, Path};
use super::traffic::stalls;

pub(super) const MS: u64 = 1_000_000;

pub(super) fn arrivals(of: &[(u64, u64)]) -> Vec<Arrival> {
    of.iter().map(|&(at_ns, bytes)| Arrival { at_ns, bytes }).collect()
}

/// Returns an incoming flow of `of` (time, bytes), which ends with its last arrival.
pub(super) fn flow(of: &[(u64, u64)]) -> Flow {
    let arrivals = arrivals(of);
    Flow {
        bytes: arrivals.iter().map(|arrival| arrival.bytes).sum(),
        elapsed_ns: arrivals.last().map_or(0, |last| last.at_ns),
        arrivals,
        ..Flow::default()
    }
}

/// Returns an incoming flow whose first piece of `bytes` arrives at `first_ns`, and each further
/// piece one of `gaps` later.
pub(super) fn spaced(first_ns: u64, bytes: u64, gaps: &[u64]) -> Flow {
    let mut at_ns = first_ns;
    let mut pieces = vec![(at_ns, bytes)];
    for gap in gaps {
        at_ns += gap;
        pieces.push((at_ns, bytes));
    }
    flow(&pieces)
}

/// Returns a view of a screenful, in which each gap between arrivals is a stall.
pub(super) fn view<'a>(flow: &'a Flow, path: &'a Path, trip_ns: u64) -> View<'a> {
    View {
        flow,
        operation: Operation::Screenful,
        only: None,
        path,
        trip_ns: Some(trip_ns),
        burst_bps: None,
        window_bytes: None,
        stalls: stalls(flow, None, 1),
        explained_ns: 0,
        has_losses: false,
        has_losses_while_typing: false,
        expected_loss_ns: None,
        has_reordering: false,
        other_first_ns: None,
        own_ns: 0,
        black_hole_segment_bytes: None,
    }
}

pub(super) fn path_with_mss(mss_bytes: u64) -> Path {
    Path { mss_bytes: Some(mss_bytes), ..Path::default() }
}

/// Returns a session of 40 echoes of `echo_ns` over a path of `trip_ns` with segments of 1,000
/// bytes.
pub(super) fn session(echo_ns: u64, trip_ns: u64) -> Observation {
    Observation {
        echo: Some(Echoes { samples_ns: vec![echo_ns; 40], ..Echoes::default() }),
        path: Path { min_rtt_ns: Some(trip_ns), ..path_with_mss(1_000) },
        ..Observation::default()
    }
}

pub(super) fn kind_and_cost(cause: Option<Cause>) -> Option<(CauseKind, u64)> {
    cause.map(|cause| (cause.kind, cause.cost_ns))
}

/// Returns kind, operation, cost, gain and total of each cause, and its sentence in lines of at
/// most 88 columns.
pub(super) fn described(causes: &[Cause]) -> String {
    let text = |cause: &Cause| {
        let Cause { kind, operation, cost_ns, gain_ns, total_ns, .. } = cause;
        let [kind, operation] = [kind.name(), operation.name()];
        let mut text =
            format!("{kind} of {operation}: {cost_ns} ns, {gain_ns} ns of {total_ns} ns");
        let mut column = 0;
        for word in cause.sentence().split(' ') {
            let length = word.chars().count();
            let begins_line = column == 0 || column + 1 + length > 88;
            text.push_str(if begins_line { "\n  " } else { " " });
            column = if begins_line { length } else { column + 1 + length };
            text.push_str(word);
        }
        text
    };
    causes.iter().map(text).collect::<Vec<_>>().join("\n")
}
