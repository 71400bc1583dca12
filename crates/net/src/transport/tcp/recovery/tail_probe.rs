//! Tail loss probes (RFC 8985 §7): no later data can reveal the loss of the last segments of a
//! flight.

use super::super::seq::Seq;
use super::{Acknowledged, Phase, Recovery, TailProbe};
use crate::time::{Duration, Instant};

/// RFC 8985 §7.2: maximum time by which a peer delays the acknowledgment of a single segment.
const MAX_ACK_DELAY: Duration = Duration::from_millis(200);
/// Minimum timeout of a tail loss probe: the clock tick of common hosts.
const MIN_PROBE_TIMEOUT: Duration = Duration::from_millis(2);

impl Recovery {
    /// RFC 8985 §7.4.2: ends the tail loss probe when it is acknowledged.
    pub(super) fn end_tail_probe(
        &mut self,
        report: &Acknowledged<'_>,
        duplicate_bytes: bool,
        has_advanced: bool,
    ) {
        let Some(probe) = self.tail_probe.filter(|probe| self.flight.una() >= probe.end) else {
            return;
        };
        let both_arrived = duplicate_bytes || (!has_advanced && report.blocks.is_empty());
        if !probe.is_retransmission || both_arrived {
            self.tail_probe = None;
        } else if self.flight.una() > probe.end {
            self.tail_probe = None;
            if self.is_undisturbed() {
                // The probe has repaired a loss. The window is reduced as after any other loss.
                self.window.reduce(self.flight_max.max(self.flight.outstanding()));
                self.begin_reduction(Phase::Reduced);
            }
        }
    }

    /// Starts the probe timer (RFC 8985 §7.2). The probe replaces the timeout at `rto_at`.
    pub(in super::super) fn start_probe_timer(
        &mut self,
        srtt: Option<Duration>,
        rto_at: Option<Instant>,
        now: Instant,
    ) {
        self.probe_at = None;
        let is_open = self.phase == Phase::Open && self.tail_probe.is_none();
        let Some(srtt) = srtt.filter(|_| self.has_blocks && is_open) else { return };
        if self.flight.outstanding() == 0 {
            return;
        }
        let is_single = self.flight.outstanding() <= u64::from(self.window.mss());
        let delay = if is_single { MAX_ACK_DELAY } else { Duration::ZERO };
        let probe_at = now + (2 * srtt + delay).max(MIN_PROBE_TIMEOUT);
        self.probe_at = Some(rto_at.map_or(probe_at, |rto_at| probe_at.min(rto_at)));
    }

    /// Returns the last outstanding segment, which a probe without new data retransmits.
    pub(in super::super) fn tail(&self) -> Option<(Seq, u32)> {
        self.flight.tail(self.window.mss())
    }

    /// Records that a tail loss probe was sent, as a retransmission or with new data.
    pub(in super::super) fn tail_probe_sent(&mut self, is_retransmission: bool) {
        self.tail_probe = Some(TailProbe { end: self.flight.nxt(), is_retransmission });
    }
}
