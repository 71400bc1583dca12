//! Echoes that are much later than the others.
//!
//! A late echo is due to a lost packet or a pausing program. TCP distinguishes these two causes. If
//! the program pauses, its host still acknowledges the keys: in the whole session nothing is
//! retransmitted, and no data arrives out of order.

use super::cause::{Cause, CauseKind, Operation};
use super::losses::{TIMER_NS, confirmed_losses, has_losses, lateness_ns};
use super::observation::Observation;
use crate::format::duration;
use crate::statistics;

/// Late echoes are reported if there are at least as many as all echoes divided by this number;
/// fewer may be coincidence.
const MIN_LATE_DIVISOR: usize = 200;

/// Returns whether some echoes were late, as with packet loss.
pub(super) fn has_late_echoes(observed: &Observation) -> bool {
    let Some(echo) = &observed.echo else { return false };
    let net_ns = echo.without_own_wait_ns();
    let median_ns = statistics::median(&net_ns);
    median_ns.is_some_and(|median_ns| {
        late_echoes(observed, &net_ns, median_ns)
            .is_some_and(|cause| cause.kind != CauseKind::Pauses)
    })
}

/// Minimum number of late echoes without a retransmission that exclude coincidence.
const MIN_LATE_ECHOES: usize = 3;

/// Returns the average cost of late echoes: due to lost packets or, if none was lost in the
/// session, due to a pausing program.
pub(super) fn late_echoes(observed: &Observation, net_ns: &[u64], median_ns: u64) -> Option<Cause> {
    let echo = observed.echo.as_ref()?;
    // Typed keys alternate with keys that erase them, so a regular pause may affect only one of the
    // two kinds. For example, a pause at every tenth answer may delay none of the typed keys.
    let mut all = lateness_ns(net_ns);
    all.extend(lateness_ns(&echo.erasures_ns));
    let late: Vec<u64> = all.iter().copied().filter(|ns| *ns > 0).collect();
    // A single late echo may be coincidence, so it counts only if TCP retransmitted a segment
    // between the first echo and the last.
    let is_lossy = confirmed_losses(&echo.counts).is_some_and(|lost| lost > 0);
    let min_late = if is_lossy { 1 } else { 2 };
    if late.len() < min_late || late.len() * MIN_LATE_DIVISOR < all.len() {
        return None;
    }
    let late_sum_ns = late.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let gain_ns = late_sum_ns / u64::try_from(all.len()).unwrap_or(u64::MAX).max(1);
    let samples = all.len();
    let longest_late = duration(late.iter().max().map_or(0, |ns| median_ns.saturating_add(*ns)));
    // An echo carries the acknowledgment of its key, so the loss of an echo causes a retransmission
    // of the key.
    let is_never_retransmitted =
        confirmed_losses(&echo.counts) == Some(0) && late.len() >= MIN_LATE_ECHOES;
    let has_losses = has_losses(observed).is_none_or(|lossy| lossy);
    let Late { kind, subject, advice } = match has_losses && !is_never_retransmitted {
        false => late_by_pauses(),
        true => late_by_loss(&late),
    };
    Some(Cause {
        kind,
        operation: Operation::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: median_ns.saturating_add(gain_ns),
        subject: subject.to_owned(),
        advice: format!("{} of {samples} echoes took up to {longest_late}, {advice}", late.len()),
    })
}

/// The reason why echoes were late.
struct Late {
    kind: CauseKind,
    subject: &'static str,
    advice: &'static str,
}

fn late_by_loss(late: &[u64]) -> Late {
    let typical = statistics::median(late).unwrap_or(0);
    Late {
        kind: if typical >= TIMER_NS { CauseKind::RetransmissionTimeouts } else { CauseKind::Loss },
        subject: "Occasional packet loss",
        advice: "until a timeout retransmitted a segment. Find the link that drops packets; with \
                 tail loss probes (RFC 8985) on both hosts a repair takes two round trips",
    }
}

const fn late_by_pauses() -> Late {
    Late {
        kind: CauseKind::Pauses,
        subject: "Occasional pausing of the remote program",
        advice: "although the remote TCP acknowledged the keys and none was retransmitted. Check \
                 the load and swapping there, and what the program waits for",
    }
}
