//! Outstanding data: when each part of it was sent, and which parts the peer has reported as
//! received (RFC 6675 §3, RFC 8985 §5).
//!
//! Sent data is recorded in a queue of pieces. A piece is the data that was sent at once, up to 64
//! KiB. The queue only grows at its back and shrinks at its front. Delivered, lost and
//! retransmitted data is stored in separate sets of ranges. A range may begin and end anywhere in a
//! piece. The sets are empty while nothing is lost, so that only the queue is accessed.
//!
//! Losses are detected in the order of transmission. For first transmissions, a position advances
//! through the stream. Retransmissions are in a second queue. Both scans stop at the first part
//! that cannot be classified yet. The cost of an acknowledgment is therefore proportional to the
//! data that it newly acknowledges, and independent of the number of holes (row 24 of the attack
//! table).
//!
//! A peer that has received whole segments cannot report more separate ranges than there are
//! outstanding segments. Additional ranges are ignored and counted, and their data is retransmitted
//! (rows 23 and 25 of the attack table).

use super::ranges::{Range, RangeSet};
use super::sent_segments::Pieces;
use super::seq::Seq;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, VecDeque};

/// Maximum number of pieces recorded individually. Data sent after that is added to the last piece.
/// The pieces take about 10 MiB of memory. With full segments only a window above 100 MiB needs
/// more pieces.
const MAX_PIECES: usize = 1 << 17;
/// Number of ranges that the peer may report in addition to the number of outstanding segments.
/// Retransmissions may divide the data differently.
const RANGES_SLACK: usize = 16;

/// The delivery counters at the time when data was sent (draft-ietf-ccwg-bbr, delivery rate
/// samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverySnapshot {
    /// Time at which the data was sent.
    pub sent_at: Instant,
    /// Bytes delivered before the data was sent.
    delivered: u64,
    /// Time of the last of these deliveries.
    delivered_at: Instant,
    /// Start of the send interval of the rate sample: the send time of the data delivered last when
    /// this data was sent, or after idle of the first data sent.
    first_sent_at: Instant,
    /// Whether the user had no more data to send.
    is_app_limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    range: Range,
    segments: u32,
    snapshot: DeliverySnapshot,
}

#[derive(Clone, Copy, Debug)]
struct Retransmitted {
    end: u64,
    snapshot: DeliverySnapshot,
}

/// The latest transmission that an acknowledgment newly acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestSegment {
    /// The delivery counters at the time of this transmission.
    pub snapshot: DeliverySnapshot,
    /// End of the transmission, as a position in the stream.
    pub end: u64,
    /// Whether it was a retransmission.
    pub is_retransmission: bool,
}

/// The result of processing one acknowledgment with all its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    /// Number of bytes that were newly acknowledged by acknowledgment number.
    pub acked: u64,
    /// Number of bytes that were newly acknowledged, by acknowledgment number or by SACK block.
    pub delivered: u64,
    /// Number of bytes of `delivered` that were acknowledged by SACK block.
    pub sacked: u64,
    /// The latest transmission that the acknowledgment delivers.
    pub newest: Option<NewestSegment>,
    /// Send time of the last delivered byte in stream order; `None` if it was retransmitted.
    pub last_sent_at: Option<Instant>,
    /// Round-trip time of data that was never retransmitted and was acknowledged by acknowledgment
    /// number (Karn).
    pub rtt: Option<Duration>,
    /// Reordering distance in bytes: from the start of the delivered data to the end of the highest
    /// data delivered before it. Retransmitted data does not count.
    pub reordered: Option<u64>,
    /// Whether the acknowledgment number acknowledges retransmitted data.
    pub acked_again: bool,
    /// Number of ranges rejected as implausible.
    pub refused: u32,
}

/// Whether a transmission counts as lost, according to its send time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossVerdict {
    /// Undecided: no data that was sent later has been delivered.
    Open,
    /// The transmission is lost if it is not acknowledged by this time.
    Until(Instant),
    /// The transmission is lost.
    Lost,
}

/// The rate at which data was delivered between two acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Rate in bytes per second.
    pub bytes_per_s: u64,
    /// Whether the user had no more data to send.
    pub is_app_limited: bool,
    /// Value of the delivered bytes at the start of the sample.
    pub delivered_before: u64,
}

/// The outstanding data of a connection.
#[derive(Clone, Debug)]
pub struct Flight {
    una: u64,
    una_seq: Seq,
    nxt: u64,
    pieces: Pieces<Piece>,
    /// Number of segments in the pieces.
    segments: usize,
    sacked: RangeSet,
    /// End of the highest range that was delivered.
    highest: u64,
    /// Lost ranges that were not retransmitted.
    lost: RangeSet,
    /// Retransmitted ranges that are not acknowledged yet, by start position.
    retransmitted: BTreeMap<u64, Retransmitted>,
    retransmitted_bytes: u64,
    /// The same ranges in the order of their retransmission.
    by_time: VecDeque<(Range, Instant)>,
    /// All ranges that were ever retransmitted.
    ever_retransmitted: RangeSet,
    /// Position below which the first transmission of all data is known to be lost or delivered.
    classified_until: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Value of the delivered bytes up to which rate samples count as limited by the user.
    app_limited_until: u64,
}

impl Flight {
    /// Returns an empty flight. `una` is the next sequence number.
    #[must_use]
    pub fn new(una: Seq) -> Self {
        Self {
            una: 0,
            una_seq: una,
            nxt: 0,
            pieces: Pieces::default(),
            segments: 0,
            sacked: RangeSet::default(),
            highest: 0,
            lost: RangeSet::default(),
            retransmitted: BTreeMap::new(),
            retransmitted_bytes: 0,
            by_time: VecDeque::new(),
            ever_retransmitted: RangeSet::default(),
            classified_until: 0,
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            app_limited_until: 0,
        }
    }

    /// Continues the count of delivered bytes of an earlier flight.
    pub(super) fn resume(&mut self, delivered: u64) {
        self.delivered = delivered;
    }

    /// Returns the position of the first unacknowledged sequence number.
    #[must_use]
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Returns the position after all sent data.
    #[must_use]
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Returns the number of bytes sent and not acknowledged by the acknowledgment number.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    /// Returns the estimated number of bytes in the network (RFC 6675 §3, pipe).
    #[must_use]
    pub fn pipe(&self) -> u64 {
        self.outstanding().saturating_sub(self.sacked.position_count() + self.lost.position_count())
    }

    /// Returns the number of bytes that the peer has reported by SACK block.
    #[must_use]
    pub fn sacked(&self) -> u64 {
        self.sacked.position_count()
    }

    /// Returns the number of lost bytes that wait for retransmission.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.position_count()
    }

    /// Returns the number of retransmitted bytes that are not delivered.
    #[must_use]
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted_bytes
    }

    /// Returns the number of bytes delivered since the connection began.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the sequence number at a position.
    #[must_use]
    pub fn seq(&self, position: u64) -> Seq {
        // The outstanding data is shorter than half the sequence number space.
        let low = |position: u64| u32::try_from(position & 0xFFFF_FFFF).unwrap_or(0);
        Seq(self.una_seq.0.wrapping_add(low(position)).wrapping_sub(low(self.una)))
    }

    /// Returns the position of a sequence number that is not before the first unacknowledged one.
    fn position_of(&self, seq: Seq) -> Option<u64> {
        (!seq.is_before(self.una_seq)).then(|| self.una + u64::from(seq.since(self.una_seq)))
    }

    /// Records that `len` bytes were sent for the first time, in `segments` segments.
    pub fn sent(&mut self, len: u32, segments: u32, now: Instant) {
        let range = Range::new(self.nxt, self.nxt + u64::from(len));
        let snapshot = self.snapshot(now);
        self.nxt = range.end;
        self.segments += segments as usize;
        if self.pieces.len() >= MAX_PIECES
            && let Some(last) = self.pieces.back_mut()
        {
            last.range.end = range.end;
            last.segments += segments;
            last.snapshot = snapshot;
            return;
        }
        self.pieces.push_back(Piece { range, segments, snapshot });
    }

    fn snapshot(&mut self, now: Instant) -> DeliverySnapshot {
        if self.pipe() == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        DeliverySnapshot {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.delivered < self.app_limited_until,
        }
    }

    /// Records that the user has no more data to send.
    pub fn app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.pipe()).max(1);
    }

    /// Returns the first lost bytes that wait for retransmission, at most `max` bytes.
    #[must_use]
    pub fn next_lost(&self, max: u32) -> Option<(Seq, u32)> {
        let range = self.lost.first()?;
        let len = u32::try_from(range.len()).unwrap_or(u32::MAX).min(max);
        Some((self.seq(range.start), len))
    }

    /// Records that `len` bytes from `seq` on were retransmitted.
    pub fn sent_again(&mut self, seq: Seq, len: u32, now: Instant) {
        let Some(start) = self.position_of(seq) else { return };
        let range = Range::new(start, (start + u64::from(len)).min(self.nxt));
        if range.is_empty() {
            return;
        }
        let snapshot = self.snapshot(now);
        self.lost.remove(range);
        self.remove_retransmitted(range, |_, _| ());
        self.retransmitted.insert(range.start, Retransmitted { end: range.end, snapshot });
        self.retransmitted_bytes += range.len();
        self.by_time.push_back((range, now));
        self.ever_retransmitted.insert(range);
    }

    /// Returns the last `max` outstanding bytes, for a tail loss probe (RFC 8985 §7.3). Returns
    /// `None` if the peer has received them.
    #[must_use]
    pub fn tail(&self, max: u32) -> Option<(Seq, u32)> {
        let last = self.pieces.back()?.range;
        let start = last.start.max(last.end.saturating_sub(u64::from(max))).max(self.una);
        let len = u32::try_from(last.end.saturating_sub(start)).ok().filter(|len| *len > 0)?;
        (!self.sacked.contains(last.end - 1)).then(|| (self.seq(start), len))
    }

    /// Processes an acknowledgment number. The caller has checked that it acknowledges sent data.
    pub fn acknowledge(&mut self, ack: Seq, delivery: &mut Delivery, now: Instant) {
        let Some(position) = self.position_of(ack).filter(|position| *position > self.una) else {
            return;
        };
        let range = Range::new(self.una, position);
        delivery.acked += range.len();
        delivery.acked_again |= self.ever_retransmitted.overlaps(range);
        let oldest = self.pieces.front().map(|piece| piece.snapshot);
        let mut rest = range;
        let mut newly_delivered = 0;
        while let Some(gap) = self.sacked.first_gap(rest) {
            newly_delivered += gap.len();
            self.record_delivered(gap, delivery);
            rest.start = gap.end;
        }
        // If parts of the data were reported earlier, it has waited at the peer for missing data.
        // Its round trip is therefore not measured.
        if newly_delivered == range.len() && !delivery.acked_again {
            delivery.rtt = oldest.map(|snapshot| now - snapshot.sent_at);
        }
        self.una = position;
        self.una_seq = ack;
        self.nxt = self.nxt.max(position);
        self.count_delivered(newly_delivered, delivery, now);
        while let Some(piece) = self.pieces.front().filter(|piece| piece.range.end <= position) {
            self.segments -= piece.segments as usize;
            self.pieces.pop_front();
        }
        while self.by_time.front().is_some_and(|(range, _)| range.end <= position) {
            self.by_time.pop_front();
        }
        self.sacked.remove_below(position);
        self.lost.remove_below(position);
        self.ever_retransmitted.remove_below(position);
        self.classified_until = self.classified_until.max(position);
        self.highest = self.highest.max(position);
    }

    /// Returns whether `ack` acknowledges all outstanding data, and none of that data was reported
    /// by SACK block, lost or retransmitted.
    #[must_use]
    pub fn is_plain_acknowledgment(&self, ack: Seq) -> bool {
        let is_undisturbed = self.sacked.position_count() == 0 && self.lost.position_count() == 0;
        let is_new = self.ever_retransmitted.position_count() == 0 && self.retransmitted_bytes == 0;
        let is_in_order = self.highest <= self.una && self.by_time.is_empty();
        let has_pieces = self.pieces.front().is_some() && self.nxt > self.una;
        let is_plain = is_undisturbed && is_new && is_in_order && has_pieces;
        is_plain && ack == self.seq(self.nxt)
    }

    /// Processes an acknowledgment for which [`Self::is_plain_acknowledgment`] is true. The result
    /// is the same as that of [`Self::acknowledge`].
    pub fn acknowledge_all(&mut self, now: Instant) -> Delivery {
        let mut delivery = Delivery::default();
        let (Some(oldest), Some(last)) = (self.pieces.front(), self.pieces.back()) else {
            return delivery;
        };
        let snapshot = last.snapshot;
        delivery.newest = Some(NewestSegment { snapshot, end: self.nxt, is_retransmission: false });
        delivery.last_sent_at = Some(snapshot.sent_at);
        delivery.rtt = Some(now - oldest.snapshot.sent_at);
        delivery.acked = self.outstanding();
        self.una_seq = self.seq(self.nxt);
        self.una = self.nxt;
        self.count_delivered(delivery.acked, &mut delivery, now);
        self.segments = 0;
        self.pieces.clear();
        self.classified_until = self.nxt;
        self.highest = self.nxt;
        delivery
    }

    /// Processes a SACK block: the peer has received the sequence numbers from `start` up to `end`.
    /// Parts outside the outstanding data are ignored.
    pub fn sack(&mut self, (start, end): (Seq, Seq), delivery: &mut Delivery, now: Instant) {
        let (Some(start), Some(end)) = (self.position_of(start), self.position_of(end)) else {
            return;
        };
        let block = Range::new(start, end);
        if block.is_empty() || end > self.nxt || self.sacked.covers(block) {
            return;
        }
        let is_new_range = !self.sacked.overlaps(Range::new(start.saturating_sub(1), end + 1));
        if is_new_range && self.sacked.ranges() >= self.segments + RANGES_SLACK {
            delivery.refused += 1;
            return;
        }
        let mut rest = block;
        let mut newly_delivered = 0;
        while let Some(gap) = self.sacked.first_gap(rest) {
            newly_delivered += gap.len();
            self.record_delivered(gap, delivery);
            rest.start = gap.end;
        }
        self.lost.remove(block);
        self.sacked.insert(block);
        delivery.sacked += newly_delivered;
        self.count_delivered(newly_delivered, delivery, now);
    }

    /// Ends the processing of the SACK blocks of one acknowledgment. Data below the highest block
    /// counts as reordered if it is delivered later.
    pub fn end_sack_blocks(&mut self) {
        self.highest = self.sacked.last().map_or(self.highest, |last| self.highest.max(last.end));
    }

    fn count_delivered(&mut self, newly_delivered: u64, delivery: &mut Delivery, now: Instant) {
        if newly_delivered > 0 {
            delivery.delivered += newly_delivered;
            self.delivered += newly_delivered;
            self.delivered_at = now;
        }
    }

    /// Records that this acknowledgment delivers the range `gap`.
    fn record_delivered(&mut self, gap: Range, delivery: &mut Delivery) {
        let mut newest = delivery.newest;
        let mut consider = |snapshot: DeliverySnapshot, end: u64, is_retransmission: bool| {
            let candidate = NewestSegment { snapshot, end, is_retransmission };
            if newest.is_none_or(|newest| is_later(&candidate, &newest)) {
                newest = Some(candidate);
            }
        };
        self.remove_retransmitted(gap, |range, snapshot| consider(snapshot, range.end, true));
        let last = gap.end - 1;
        delivery.last_sent_at = None;
        if !self.ever_retransmitted.contains(last)
            && let Some(piece) = self.piece_at(last)
        {
            consider(piece.snapshot, gap.end, false);
            delivery.last_sent_at = Some(piece.snapshot.sent_at);
        }
        delivery.newest = newest;
        let overtaken = Range::new(gap.start, gap.end.min(self.highest));
        if !overtaken.is_empty() && !self.ever_retransmitted.covers(overtaken) {
            let extent = self.highest - gap.start;
            delivery.reordered = delivery.reordered.max(Some(extent));
        }
    }

    fn piece_at(&self, position: u64) -> Option<Piece> {
        self.pieces.first_from(|piece| piece.range.end <= position).copied()
    }

    /// Removes the overlap with `range` from the retransmitted data, and calls `visit` for each
    /// removed part.
    fn remove_retransmitted(
        &mut self,
        range: Range,
        mut visit: impl FnMut(Range, DeliverySnapshot),
    ) {
        if self.retransmitted.is_empty() {
            return;
        }
        while let Some((start, found)) = self.retransmitted.range(..range.end).next_back() {
            let retransmitted_range = Range::new(*start, found.end);
            let snapshot = found.snapshot;
            let part = retransmitted_range.intersection(range);
            if part.is_empty() {
                break;
            }
            self.retransmitted.remove(&retransmitted_range.start);
            self.retransmitted_bytes -= part.len();
            for rest in [
                Range::new(retransmitted_range.start, part.start),
                Range::new(part.end, retransmitted_range.end),
            ] {
                if !rest.is_empty() {
                    self.retransmitted
                        .insert(rest.start, Retransmitted { end: rest.end, snapshot });
                }
            }
            visit(part, snapshot);
        }
    }

    /// Calls `classify` for outstanding data with its send time and its end, and records the lost
    /// parts. Returns the number of bytes newly lost, and the time of the next classification.
    pub fn classify(
        &mut self,
        classify: impl Fn(Instant, u64) -> LossVerdict,
    ) -> (u64, Option<Instant>) {
        let before = self.lost.position_count();
        let first_deadline = self.classify_first_transmissions(&classify);
        let retransmission_deadline = self.classify_retransmissions(&classify);
        let until = first_deadline.into_iter().chain(retransmission_deadline).min();
        (self.lost.position_count() - before, until)
    }

    fn classify_first_transmissions(
        &mut self,
        classify: &impl Fn(Instant, u64) -> LossVerdict,
    ) -> Option<Instant> {
        while self.classified_until < self.nxt {
            let Some(piece) = self.piece_at(self.classified_until) else { break };
            let rest = Range::new(self.classified_until, piece.range.end);
            let Some(hole) = self.sacked.first_gap(rest) else {
                self.classified_until =
                    self.sacked.next_after(self.classified_until).map_or(rest.end, |r| r.end);
                continue;
            };
            match classify(piece.snapshot.sent_at, hole.end) {
                LossVerdict::Open => return None,
                LossVerdict::Until(at) => return Some(at),
                LossVerdict::Lost => self.mark_lost(hole),
            }
            self.classified_until = hole.end;
        }
        None
    }

    fn classify_retransmissions(
        &mut self,
        classify: &impl Fn(Instant, u64) -> LossVerdict,
    ) -> Option<Instant> {
        while let Some((range, sent_at)) = self.by_time.front().copied() {
            let Some(part) = self.next_retransmitted_part(range, sent_at) else {
                self.by_time.pop_front();
                continue;
            };
            // The scan continues at this part, so that earlier parts are not examined again.
            if let Some((front, _)) = self.by_time.front_mut() {
                front.start = part.start;
            }
            match classify(sent_at, part.end) {
                LossVerdict::Open => return None,
                LossVerdict::Until(at) => return Some(at),
                LossVerdict::Lost => {
                    self.remove_retransmitted(part, |_, _| ());
                    self.lost.insert(part);
                }
            }
        }
        None
    }

    /// Returns the first part of `range` that was last sent at `sent_at`.
    fn next_retransmitted_part(&self, range: Range, sent_at: Instant) -> Option<Range> {
        let mut parts = self.retransmitted.range(range.start..range.end);
        let (start, again) = parts.find(|(_, again)| again.snapshot.sent_at == sent_at)?;
        Some(Range::new(*start, again.end))
    }

    /// Records that those parts of `range` are lost that were never retransmitted.
    fn mark_lost(&mut self, range: Range) {
        let mut rest = range;
        // Parts that were already retransmitted, for example by a probe, are classified by their
        // retransmission.
        while let Some(gap) = self.ever_retransmitted.first_gap(rest) {
            self.lost.insert(gap);
            rest.start = gap.end;
        }
    }

    /// Marks the first `max` unacknowledged bytes as lost. Without SACK no other loss can be
    /// inferred. Returns the number of bytes newly marked.
    pub fn mark_first_lost(&mut self, max: u32) -> u64 {
        let Some(front) = self.pieces.front() else { return 0 };
        let end = (self.una + u64::from(max)).min(front.range.end);
        let range = Range::new(self.una, end);
        let before = self.lost.position_count();
        self.remove_retransmitted(range, |_, _| ());
        self.lost.insert(range);
        self.lost.position_count() - before
    }

    /// Marks all outstanding data as lost, except the data that the peer has reported by SACK block
    /// (RFC 6298 (5.4)).
    pub fn mark_all_lost(&mut self) {
        self.retransmitted.clear();
        self.retransmitted_bytes = 0;
        self.by_time.clear();
        let mut rest = Range::new(self.una, self.nxt);
        while let Some(gap) = self.sacked.first_gap(rest) {
            self.lost.insert(gap);
            rest.start = gap.end;
        }
        self.classified_until = self.nxt;
    }

    /// Clears the lost ranges. Their data was only delayed, and counts as outstanding again.
    pub fn clear_lost(&mut self) {
        self.lost.clear();
        self.classified_until = self.una;
    }

    /// Returns whether the peer has reneged: it requests data that it has reported as received (RFC
    /// 2018 §8, row 40 of the attack table).
    #[must_use]
    pub fn has_reneged(&self) -> bool {
        self.sacked.first().is_some_and(|first| first.start == self.una)
    }

    /// Discards all blocks that the peer has reported.
    pub fn forget_blocks(&mut self) {
        self.sacked.clear();
        self.classified_until = self.una;
    }

    /// Discards all outstanding data, as if it had never been sent.
    pub fn forget_all(&mut self) {
        self.nxt = self.una;
        self.segments = 0;
        self.pieces.clear();
        self.sacked.clear();
        self.lost.clear();
        self.retransmitted.clear();
        self.retransmitted_bytes = 0;
        self.by_time.clear();
        self.ever_retransmitted.clear();
        self.classified_until = self.una;
        self.highest = self.una;
    }

    /// Returns the delivery rate since `newest` was sent, and starts the next sample.
    pub fn rate(&mut self, newest: &NewestSegment) -> Option<RateSample> {
        let snapshot = newest.snapshot;
        self.first_sent_at = self.first_sent_at.max(snapshot.sent_at);
        let send_elapsed = snapshot.sent_at - snapshot.first_sent_at;
        let ack_elapsed = self.delivered_at - snapshot.delivered_at;
        let nanos = u64::try_from(send_elapsed.max(ack_elapsed).as_nanos()).unwrap_or(u64::MAX);
        let bytes = self.delivered - snapshot.delivered;
        let bytes_per_s = bytes.saturating_mul(1_000_000_000).checked_div(nanos)?;
        let is_app_limited = snapshot.is_app_limited;
        let delivered_before = snapshot.delivered;
        Some(RateSample { bytes_per_s, is_app_limited, delivered_before })
    }
}

/// Returns whether `one` was sent after `other`: RACK_sent_after (RFC 8985 §6.2 step 2).
fn is_later(one: &NewestSegment, other: &NewestSegment) -> bool {
    (one.snapshot.sent_at, one.end) > (other.snapshot.sent_at, other.end)
}

#[cfg(test)]
mod tests;
