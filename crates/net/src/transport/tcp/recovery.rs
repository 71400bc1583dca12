//! Loss recovery: the effect of acknowledgments, SACK blocks and timers on outstanding data, and
//! the amount of data to send next.
//!
//! # Theory of operation
//!
//! Every acknowledgment is processed in the same steps. The flight determines the data that it
//! delivers, and RACK (RFC 8985) determines the data that is lost. The first loss starts a
//! recovery, in which proportional rate reduction (RFC 6937) limits the data to send. Outside of a
//! recovery the congestion window grows. The sender has two queries: the lost data to retransmit
//! ([`Recovery::next_lost`]), and the amount of new data to send ([`Recovery::allowance`]).
//!
//! If the peer has no SACK, a duplicate acknowledgment means that a segment has left the network.
//! The third one means that the first segment is lost (RFC 5681 §3.2), and a partial acknowledgment
//! means that the next one is lost (RFC 6582).
//!
//! No later data can reveal the loss of the last segments of a flight. After two round trips a
//! probe makes the peer answer (`tail_probe.rs`).
//!
//! A recovery that proves spurious is undone (`spurious.rs`).
//!
//! Most of these steps have no effect if nothing is missing and an acknowledgment covers all
//! outstanding data, as with the echo of a keystroke. `plain.rs` skips them.

use super::bbr::BbrSample;
use super::congestion_window::{AckSample, CongestionWindow};
use super::flight::{Delivery, Flight, RateSample};
use super::idle_state::IdleState;
use super::limited_time::Limits;
use super::pacing::{self, Pacing};
use super::phase::Phase;
use super::profile::Congestion;
use super::prr::{Progress, Prr};
use super::rack::{Rack, ReorderingInputs};
use super::sack::Block;
use super::seq::Seq;
use super::status::RecoveryStatus;
use crate::time::{Duration, Instant};

/// Number of duplicate acknowledgments that indicate a loss (RFC 5681 §3.2).
const DUPLICATE_ACKS: u64 = 3;
/// Maximum number of segments in a window that is divided evenly into shortened segments.
const EVEN_SEGMENTS_MAX: u32 = 32;

/// An outstanding tail loss probe (RFC 8985 §7.3).
#[derive(Clone, Copy, Debug)]
struct TailProbe {
    end: u64,
    is_retransmission: bool,
}

/// Evidence that a recovery was spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// Retransmitted bytes that the peer has not reported as duplicates.
    unreported_bytes: u64,
    /// Send time of the first retransmission of this recovery.
    since: Option<Instant>,
}

/// The input from one acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged<'a> {
    pub(super) ack: Seq,
    pub(super) blocks: &'a [Block],
    /// Whether the acknowledgment is a duplicate as defined in RFC 5681 §2.
    pub(super) is_duplicate: bool,
    /// Whether the echoed timestamp precedes the first retransmission of this recovery.
    pub(super) is_ack_of_original: bool,
    pub(super) srtt: Option<Duration>,
}

/// The result of processing an acknowledgment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Round-trip time of data that was never retransmitted.
    pub(super) rtt: Option<Duration>,
    pub(super) began_recovery: bool,
    pub(super) undone: bool,
    pub(super) refused_blocks: u32,
    /// Whether the peer reports duplicate data.
    pub(super) duplicate_bytes: bool,
    pub(super) was_reordered: bool,
    pub(super) has_reneged: bool,
}

impl Outcome {
    /// Returns whether the outcome contains anything to count.
    pub(super) fn is_eventful(&self) -> bool {
        let has_recovery_changed = self.began_recovery || self.undone;
        let has_reports = self.duplicate_bytes || self.was_reordered || self.has_reneged;
        has_recovery_changed || has_reports || self.refused_blocks > 0
    }
}

/// The sender's side of loss recovery and congestion control.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    pub(super) flight: Flight,
    pub(super) window: CongestionWindow,
    pub(super) pacing: Pacing,
    pub(super) limits: Limits,
    rack: Rack,
    phase: Phase,
    /// Whether the peer supports SACK.
    has_blocks: bool,
    /// The position at which the recovery ends.
    recovery_point: u64,
    prr: Option<Prr>,
    undo: Option<Undo>,
    /// Number of duplicate acknowledgments of a peer without SACK.
    duplicates: u64,
    /// Without SACK: position up to which duplicate acknowledgments answer retransmissions.
    retransmitted_up_to: Option<u64>,
    tail_probe: Option<TailProbe>,
    /// Time at which to check again whether reordered data is lost.
    reordering_at: Option<Instant>,
    /// Time at which to send a tail loss probe.
    probe_at: Option<Instant>,
    /// Maximum number of bytes outstanding in this round (RFC 7661 §4.1).
    flight_max: u64,
    flight_round: u64,
    is_window_limited: bool,
    rate: Option<RateSample>,
    reordering_max: u64,
    even: EvenSegments,
}

/// A segment length that divides the maximum of outstanding bytes evenly.
#[derive(Clone, Copy, Debug, Default)]
struct EvenSegments {
    /// Maximum number of outstanding bytes from which `len` was computed.
    outstanding_max: u32,
    /// Data bytes of each segment.
    len: u32,
}

impl Recovery {
    /// Returns a state with nothing outstanding. `una` is the next sequence number. `has_blocks` is
    /// true if SACK is negotiated.
    pub(super) fn new(congestion: Congestion, mss: u32, una: Seq, has_blocks: bool) -> Self {
        Self {
            flight: Flight::new(una),
            window: CongestionWindow::new(congestion, mss, una.0),
            pacing: Pacing::default(),
            limits: Limits::default(),
            rack: Rack::default(),
            phase: Phase::Open,
            has_blocks,
            recovery_point: 0,
            prr: None,
            undo: None,
            duplicates: 0,
            retransmitted_up_to: None,
            tail_probe: None,
            reordering_at: None,
            probe_at: None,
            flight_max: 0,
            flight_round: 0,
            is_window_limited: false,
            rate: None,
            reordering_max: 0,
            even: EvenSegments::default(),
        }
    }

    /// Sets a segment length of at most `mss` that divides `outstanding_max` evenly. Does nothing
    /// unless `outstanding_max` is a few segments.
    pub(super) fn divide_evenly(&mut self, outstanding_max: u32, mss: u32) {
        let count = outstanding_max.div_ceil(mss.max(1));
        if (2..=EVEN_SEGMENTS_MAX).contains(&count) {
            self.even = EvenSegments { outstanding_max, len: outstanding_max / count };
        }
    }

    /// Returns the data length of a segment, if up to `outstanding_max` bytes may be outstanding.
    pub(super) fn even_len(&self, outstanding_max: u32, mss: u32) -> u32 {
        let is_valid =
            self.even.outstanding_max == outstanding_max && self.window.cwnd() >= outstanding_max;
        if is_valid { self.even.len.clamp(mss / 2, mss).max(1) } else { mss }
    }

    /// Returns the minimum round-trip time of the last minutes, if it was measured.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.rack.learned.min_rtt.get()
    }

    /// Returns the state to keep while nothing is outstanding, or `None` if data is outstanding.
    pub(super) fn idle_state(&self) -> Option<IdleState> {
        let has_nothing_outstanding = self.flight.outstanding() == 0 && self.limits.is_idle();
        // If the phase is open, no reduction is in progress.
        let is_open = self.phase == Phase::Open && self.undo.is_none();
        let has_timer = self.tail_probe.is_some() || self.deadline().is_some();
        let has_duplicates = self.duplicates > 0 || self.retransmitted_up_to.is_some();
        if !has_nothing_outstanding
            || !is_open
            || has_timer
            || has_duplicates
            || self.window.has_model()
        {
            return None;
        }
        Some(IdleState {
            window: self.window.idle_state(),
            limits: self.limits,
            learned: self.rack.learned,
            delivered: self.flight.delivered(),
            rate: self.rate,
            reordering_max: self.reordering_max,
        })
    }

    /// Restores the state returned by [`Self::idle_state`].
    pub(super) fn resume(&mut self, idle_state: &IdleState) {
        self.window.resume(idle_state.window);
        self.flight.resume(idle_state.delivered);
        self.rack = Rack::from_learned(idle_state.learned);
        self.limits = idle_state.limits;
        self.rate = idle_state.rate;
        self.reordering_max = idle_state.reordering_max;
    }

    /// STATUS: returns the state of the recovery.
    pub(super) fn status(&self) -> RecoveryStatus {
        let flight = &self.flight;
        RecoveryStatus {
            phase: self.phase,
            outstanding: flight.outstanding(),
            sacked: flight.sacked(),
            lost: flight.lost() + flight.retransmitted(),
            retransmitted: flight.retransmitted(),
            delivered: flight.delivered(),
            delivery_rate: self.rate.map(|rate| rate.bytes_per_s),
            is_rate_app_limited: self.rate.is_some_and(|rate| rate.is_app_limited),
            pacing_rate: self.pacing.rate(),
            min_rtt: self.rack.learned.min_rtt.get(),
            reordering: self.reordering_max,
            limited: self.limits.times(),
        }
    }

    /// Returns the estimated number of bytes in the network.
    pub(super) fn pipe(&self) -> u64 {
        self.flight.pipe().saturating_sub(self.bytes_left_by_duplicates())
    }

    /// Returns the number of bytes that have left the network according to duplicate
    /// acknowledgments. The first segment is missing and never counts.
    fn bytes_left_by_duplicates(&self) -> u64 {
        if self.duplicates == 0 {
            return 0;
        }
        let mss = u64::from(self.window.mss());
        let (count, end) = match self.phase {
            // RFC 3042: the first two duplicates allow new data. The third starts a recovery.
            Phase::Open | Phase::Disorder => {
                (self.duplicates.min(DUPLICATE_ACKS - 1), self.flight.nxt())
            }
            // The limit prevents forged duplicates from allowing more data than was outstanding
            // when the recovery began.
            Phase::Reduced | Phase::Recovery => (self.duplicates, self.recovery_point),
            Phase::Loss => (0, self.recovery_point),
        };
        let limit = end.saturating_sub(self.flight.una()).saturating_sub(mss);
        (count * mss).min(limit)
    }

    /// Returns the number of bytes of new data that may be sent.
    pub(super) fn allowance(&self) -> u32 {
        let room = u64::from(self.window.cwnd()).saturating_sub(self.pipe());
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// Returns the lost bytes to retransmit now, at most `max` bytes.
    pub(super) fn next_lost(&self, max: u32) -> Option<(Seq, u32)> {
        let mss = self.window.mss();
        let pipe = self.pipe();
        let cwnd = u64::from(self.window.cwnd());
        let (seq, len) = self.flight.next_lost(mss)?;
        if pipe > 0 && pipe + u64::from(len) > cwnd {
            return None;
        }
        let room = u32::try_from(cwnd.saturating_sub(pipe)).unwrap_or(u32::MAX);
        let full_len = (room.min(max) / mss).max(1) * mss;
        self.flight.next_lost(full_len.min(max)).or(Some((seq, len)))
    }

    /// Records that new data was sent.
    pub(super) fn sent(&mut self, len: u32, now: Instant) {
        let mss = self.window.mss();
        self.flight.sent(len, len.div_ceil(mss), now);
        self.record_output_bytes(len, now);
    }

    /// Records a retransmission.
    pub(super) fn sent_again(&mut self, seq: Seq, len: u32, now: Instant) {
        self.flight.sent_again(seq, len, now);
        if let Some(undo) = &mut self.undo {
            undo.unreported_bytes += u64::from(len);
            undo.since.get_or_insert(now);
        }
        self.record_output_bytes(len, now);
    }

    fn record_output_bytes(&mut self, len: u32, now: Instant) {
        if let Some(prr) = &mut self.prr {
            prr.sent(len);
        }
        self.pacing.sent(len, self.window.mss(), now);
    }

    /// Records whether the window limits the sender, at the end of an output.
    pub(super) fn record_limit(&mut self, is_window_limited: bool) {
        let pipe = self.pipe();
        let is_new_round = self.flight.una() >= self.flight_round;
        let is_first = is_window_limited && !self.is_window_limited;
        if is_new_round || is_first || pipe > self.flight_max {
            self.flight_max = pipe;
            self.flight_round = self.flight.nxt();
            self.is_window_limited = is_window_limited;
        }
    }

    /// Returns whether the window limits the sender (RFC 7661 §4.3). In slow start, a flight of
    /// more than half of the window suffices, because the window doubles in each round trip.
    fn is_limited(&self) -> bool {
        let is_half = u64::from(self.window.cwnd()) < 2 * self.flight_max;
        self.is_window_limited || (self.window.is_slow_start() && is_half)
    }

    /// Returns whether lost data waits for retransmission.
    pub(super) fn has_lost(&self) -> bool {
        self.flight.lost() > 0
    }

    /// Processes an acknowledgment of sent data.
    pub(super) fn acknowledged(&mut self, report: &Acknowledged<'_>, now: Instant) -> Outcome {
        if self.is_plain(report) {
            return self.acknowledged_plainly(report, now);
        }
        self.acknowledged_in_steps(report, now)
    }

    fn acknowledged_in_steps(&mut self, report: &Acknowledged<'_>, now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        let mut delivery = Delivery::default();
        let una_before = self.flight.una();
        let duplicate_len = self.duplicate_bytes(report);
        let phase = self.phase;
        let recovery_point = self.recovery_point;
        self.flight.acknowledge(report.ack, &mut delivery, now);
        for block in report.blocks.iter().skip(usize::from(duplicate_len.is_some())) {
            self.flight.sack(*block, &mut delivery, now);
        }
        self.flight.end_sack_blocks();
        self.count_duplicates(report, &mut delivery);
        self.record_times_and_reordering(&delivery, report, &mut outcome, now);
        if let Some(len) = duplicate_len {
            outcome.duplicate_bytes = true;
            self.take_duplicate_report(len, report.ack);
        }
        let has_advanced = self.flight.una() > una_before;
        self.end_tail_probe(report, duplicate_len.is_some(), has_advanced);
        outcome.undone = self.undo_if_spurious(report, &delivery, has_advanced, recovery_point);
        self.end_recovery();
        outcome.has_reneged = has_advanced && self.flight.has_reneged();
        let lost = self.find_losses(report, has_advanced, now);
        outcome.began_recovery = self.begin_recovery_after_loss(lost);
        if self.window.has_model() {
            self.observe(&delivery, now);
        } else if self.prr.is_some() {
            let is_safe = has_advanced && lost == 0;
            if delivery.delivered > 0 || outcome.began_recovery {
                self.reduce_window(delivery.delivered, is_safe);
            }
            if !self.has_blocks && lost > 0 {
                // RFC 6582 §3.2 step 3: a partial acknowledgment retransmits the next hole.
                let min_window = self.pipe() + u64::from(self.window.mss());
                let min_window = u32::try_from(min_window).unwrap_or(u32::MAX);
                self.window.set_cwnd(self.window.cwnd().max(min_window));
            }
        } else if !matches!(phase, Phase::Reduced | Phase::Recovery) && !outcome.undone {
            self.grow_window(&delivery, report.srtt, now);
        }
        outcome.refused_blocks = delivery.refused;
        outcome
    }

    fn count_duplicates(&mut self, report: &Acknowledged<'_>, delivery: &mut Delivery) {
        if self.has_blocks {
            return;
        }
        let mss = u64::from(self.window.mss());
        if report.is_duplicate && self.phase != Phase::Loss {
            let left = self.bytes_left_by_duplicates();
            self.duplicates = self.duplicates.saturating_add(1).min(u64::from(u32::MAX));
            delivery.delivered += self.bytes_left_by_duplicates() - left;
        } else if delivery.acked > 0 {
            // One of the segments was missing, and the duplicates have already counted the others.
            let counted_duplicates = (delivery.acked.div_ceil(mss) - 1).min(self.duplicates);
            self.duplicates -= counted_duplicates;
            delivery.delivered = delivery.delivered.saturating_sub(counted_duplicates * mss);
        }
    }

    fn record_times_and_reordering(
        &mut self,
        delivery: &Delivery,
        report: &Acknowledged<'_>,
        outcome: &mut Outcome,
        now: Instant,
    ) {
        outcome.rtt = delivery.rtt;
        if let Some(extent) = delivery.reordered {
            outcome.was_reordered = true;
            self.reordering_max = self.reordering_max.max(extent);
            self.rack.reordered();
        }
        let Some(newest) = delivery.newest else { return };
        self.rack.delivered(&newest, report.is_ack_of_original, now);
        if let Some(sent_at) = delivery.last_sent_at {
            self.rack.record_rtt(now - sent_at);
        }
        if outcome.rtt.is_none() && !newest.is_retransmission && self.has_blocks {
            outcome.rtt = Some(now - newest.snapshot.sent_at);
        }
        self.rate = self.flight.rate(&newest).or(self.rate);
    }

    fn is_undisturbed(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Disorder)
    }

    fn end_recovery(&mut self) {
        let is_over = self.flight.una() >= self.recovery_point;
        match self.phase {
            Phase::Open | Phase::Disorder => {
                let is_missing = self.flight.sacked() > 0 || self.duplicates > 0;
                self.phase = if is_missing { Phase::Disorder } else { Phase::Open };
            }
            Phase::Reduced | Phase::Recovery if is_over => {
                self.window.finish_reduction();
                self.finish();
            }
            Phase::Loss if is_over => self.finish(),
            _ => {}
        }
    }

    fn finish(&mut self) {
        if self.phase != Phase::Reduced {
            self.rack.recovered();
        }
        self.retransmitted_up_to = (!self.has_blocks).then_some(self.recovery_point);
        self.duplicates = 0;
        self.phase = Phase::Open;
        // `undo` remains, because the report of duplicates may still arrive.
        self.prr = None;
    }

    /// Detects losses, and returns the number of bytes newly detected as lost.
    fn find_losses(&mut self, report: &Acknowledged<'_>, has_advanced: bool, now: Instant) -> u64 {
        if self.has_blocks {
            return self.apply_rack(report.srtt, now);
        }
        let mss = self.window.mss();
        if self.retransmitted_up_to.is_some_and(|end| self.flight.una() > end) {
            self.retransmitted_up_to = None;
        }
        match self.phase {
            Phase::Recovery if has_advanced => self.flight.mark_first_lost(mss),
            Phase::Open | Phase::Disorder | Phase::Reduced
                if self.duplicates >= DUPLICATE_ACKS && self.retransmitted_up_to.is_none() =>
            {
                self.flight.mark_first_lost(mss)
            }
            _ => 0,
        }
    }

    fn apply_rack(&mut self, srtt: Option<Duration>, now: Instant) -> u64 {
        let mss = u64::from(self.window.mss());
        let window = self.rack.reordering_window(ReorderingInputs {
            srtt: srtt.unwrap_or_default(),
            is_recovering: matches!(self.phase, Phase::Recovery | Phase::Loss),
            sacked_segments: self.flight.sacked().div_ceil(mss),
        });
        let rack = &self.rack;
        let classify = |sent_at, end| rack.classify(sent_at, end, window, now);
        let (lost, until) = self.flight.classify(classify);
        self.reordering_at = until;
        lost
    }

    fn begin_recovery_after_loss(&mut self, lost: u64) -> bool {
        if lost == 0 || matches!(self.phase, Phase::Recovery | Phase::Loss) {
            return false;
        }
        // A congestion mark may have lowered the threshold in this round already.
        if self.phase != Phase::Reduced {
            self.window.reduce(self.flight.outstanding());
        }
        self.undo = Some(Undo { unreported_bytes: 0, since: None });
        self.tail_probe = None;
        self.probe_at = None;
        self.begin_reduction(Phase::Recovery);
        true
    }

    fn begin_reduction(&mut self, phase: Phase) {
        self.phase = phase;
        self.recovery_point = self.flight.nxt();
        if self.window.has_model() {
            self.window.conserve(self.pipe(), self.flight.delivered());
        } else {
            self.prr = Some(Prr::new(self.flight.outstanding(), self.window.ssthresh()));
        }
    }

    /// Sets the window by proportional rate reduction.
    fn reduce_window(&mut self, delivered: u64, is_safe: bool) {
        let pipe = self.pipe();
        let mss = self.window.mss();
        if let Some(prr) = &mut self.prr {
            self.window.set_cwnd(prr.window(Progress { delivered, pipe, is_safe, mss }));
        }
    }

    /// Updates the model, which sets the window and the pacing rate.
    fn observe(&mut self, delivery: &Delivery, now: Instant) {
        let newest = delivery.newest.filter(|newest| !newest.is_retransmission);
        let rate = self.window.observe(BbrSample {
            rate: self.rate.filter(|_| delivery.newest.is_some()),
            rtt: newest.map(|newest| now - newest.snapshot.sent_at),
            delivered: self.flight.delivered(),
            newly_delivered: delivery.delivered,
            pipe: self.pipe(),
            cwnd: 0,
            mss: 0,
            now,
        });
        let is_rtt_long = self.rack.learned.min_rtt.get().is_some_and(|rtt| rtt >= pacing::MIN_RTT);
        if let Some(rate) = rate.filter(|_| is_rtt_long) {
            self.pacing.set(rate);
        }
    }

    fn grow_window(&mut self, delivery: &Delivery, srtt: Option<Duration>, now: Instant) {
        // After a timeout the window may also grow if data above a hole is delivered.
        if delivery.acked == 0 && self.phase != Phase::Loss {
            return;
        }
        if !self.is_limited() {
            return self.window.not_limited(now);
        }
        self.window.grow(AckSample {
            bytes: delivery.delivered,
            una: self.flight.una(),
            nxt: self.flight.nxt(),
            rtt: delivery.rtt,
            srtt: srtt.unwrap_or_default(),
            now,
        });
    }

    /// Sets the pacing rate from the window.
    pub(super) fn set_pace(&mut self, srtt: Option<Duration>) {
        if self.window.has_model() {
            return;
        }
        self.pacing.set_from_window(self.window.cwnd(), srtt, self.window.is_slow_start());
    }

    /// Responds to a congestion mark of the network (RFC 3168 §6.1.2). Reduces the window, at most
    /// once per round trip, and returns whether it was reduced.
    pub(super) fn process_mark(&mut self) -> bool {
        let is_answered = self.window.has_model() || self.flight.una() <= self.recovery_point;
        if !self.is_undisturbed() || is_answered {
            return false;
        }
        self.window.reduce(self.flight_max.max(self.flight.outstanding()));
        self.begin_reduction(Phase::Reduced);
        true
    }

    /// Responds to a retransmission timeout. `is_first` is true for the first one for this data.
    pub(super) fn timed_out(&mut self, is_first: bool) {
        let has_reneged = self.flight.has_reneged();
        let is_new = self.is_undisturbed() || self.flight.una() >= self.recovery_point;
        if is_first && (is_new || self.phase == Phase::Reduced) {
            self.window.reduce(self.flight.outstanding());
            self.undo = Some(Undo { unreported_bytes: 0, since: None });
        } else if has_reneged {
            self.undo = None;
        }
        if has_reneged {
            self.flight.forget_blocks();
        }
        self.window.timed_out();
        self.flight.mark_all_lost();
        self.phase = Phase::Loss;
        self.recovery_point = self.flight.nxt();
        self.prr = None;
        self.duplicates = 0;
        self.tail_probe = None;
        self.probe_at = None;
        self.reordering_at = None;
    }

    /// Returns whether nothing is missing.
    pub(super) fn has_nothing_missing(&self) -> bool {
        self.phase == Phase::Open && self.flight.lost() == 0
    }

    /// Discards the outstanding data, because the peer has shrunk its window below that data.
    pub(super) fn forget_flight(&mut self) {
        self.flight.forget_all();
        self.leave();
        self.duplicates = 0;
        self.tail_probe = None;
        self.probe_at = None;
        self.reordering_at = None;
    }

    /// Returns when [`Self::timeout`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.reordering_at.into_iter().chain(self.probe_at).min()
    }

    /// Processes the timers that are due. Returns whether to send a tail loss probe, and whether a
    /// recovery has begun.
    pub(super) fn timeout(&mut self, srtt: Option<Duration>, now: Instant) -> (bool, bool) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut began = false;
        if is_due(self.reordering_at) {
            self.reordering_at = None;
            let lost = self.apply_rack(srtt, now);
            began = self.begin_recovery_after_loss(lost);
            if lost > 0 {
                self.reduce_window(0, false);
            }
        }
        let is_probe_due = is_due(self.probe_at);
        if is_probe_due {
            self.probe_at = None;
        }
        (is_probe_due && self.phase == Phase::Open, began)
    }
}

mod plain;
mod spurious;
mod tail_probe;
#[cfg(test)]
mod tests;
