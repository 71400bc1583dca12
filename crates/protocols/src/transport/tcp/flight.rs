//! Outstanding data: when each part was sent, and what the peer reports about it (RFC 6675 §3, RFC
//! 8985 §5).
//!
//! Sent data is recorded in the pieces in which it was sent, up to 64 KiB each, in a queue that
//! only grows at its back and shrinks at its front. Data that the peer has, lost data and
//! retransmitted data are sets of ranges beside the queue. They are empty while nothing is lost, so
//! that only the queue is accessed, and they may cut a piece anywhere.
//!
//! Losses are judged in the order of transmission: the pieces by a mark that moves up the stream,
//! retransmissions by a second queue. Both stop at the first part that cannot be judged yet, so
//! that the cost of an acknowledgment is proportional to what it newly acknowledges, independent of
//! the number of holes (attack row 24).
//!
//! A peer that received whole segments cannot have more separate ranges than there are segments
//! outstanding. Ranges beyond that are ignored and counted, and their data is retransmitted (attack
//! rows 23 and 25).

use super::ranges::{Range, RangeSet};
use super::sent_segments::Pieces;
use super::seq::Seq;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, VecDeque};

/// Maximum number of pieces recorded individually; data sent beyond them is added to the last one.
/// They take about 10 MiB, and no window of less than 100 MiB needs more in full segments.
const MAX_PIECES: usize = 1 << 17;
/// Ranges that the peer may report beyond the number of outstanding segments, because
/// retransmissions are divided differently.
const RANGES_SLACK: usize = 16;

/// The delivery state when a piece was sent (draft-ietf-ccwg-bbr, delivery rate samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was sent.
    pub sent_at: Instant,
    /// Bytes delivered until then, and the time of the last delivery.
    delivered: u64,
    delivered_at: Instant,
    /// The send time of the first piece of the same flight.
    first_sent_at: Instant,
    /// The user had no more data to send.
    is_app_limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    range: Range,
    segments: u32,
    stamp: Stamp,
}

#[derive(Clone, Copy, Debug)]
struct Again {
    end: u64,
    stamp: Stamp,
}

/// The latest transmission that an acknowledgment newly acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The delivery state when it was sent.
    pub stamp: Stamp,
    /// Its end in the stream.
    pub end: u64,
    /// It was a retransmission.
    pub is_again: bool,
}

/// The result of one acknowledgment, with all its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    /// Bytes newly acknowledged by number.
    pub acked: u64,
    /// Bytes that the peer is newly known to have, by number or by block.
    pub delivered: u64,
    /// Those of these bytes that were acknowledged by block.
    pub sacked: u64,
    /// The latest transmission that it delivers.
    pub newest: Option<Newest>,
    /// Send time of the last delivered byte in stream order, if it was sent once.
    pub last_sent_at: Option<Instant>,
    /// Round trip of data that was sent once and acknowledged by number (Karn).
    pub rtt: Option<Duration>,
    /// Distance in bytes, below the highest delivery, of data that was delivered late and was sent
    /// only once.
    pub reordered: Option<u64>,
    /// The bytes acknowledged by number include a retransmission.
    pub acked_again: bool,
    /// Number of ranges rejected as implausible.
    pub refused: u32,
}

/// The judgment on a transmission, by its send time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgment {
    /// Nothing sent later was delivered.
    Open,
    /// It is lost if it is not acknowledged until then.
    Until(Instant),
    /// It is lost.
    Lost,
}

/// The rate at which data was delivered between two acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// The user had no more data to send.
    pub is_app_limited: bool,
    /// Bytes delivered before the sample began.
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
    /// End of the highest delivery.
    highest: u64,
    /// Lost ranges that were not retransmitted.
    lost: RangeSet,
    /// Retransmitted ranges that are not acknowledged yet, by position and by time.
    again: BTreeMap<u64, Again>,
    again_places: u64,
    by_time: VecDeque<(Range, Instant)>,
    /// All ranges that were ever retransmitted.
    repeated: RangeSet,
    /// Everything below was judged lost, or delivered, after its first transmission.
    judged: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Until this number of bytes is delivered, the rate does not reflect the path.
    app_limited_until: u64,
}

impl Flight {
    /// Returns an empty flight; `una` is the next sequence number.
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
            again: BTreeMap::new(),
            again_places: 0,
            by_time: VecDeque::new(),
            repeated: RangeSet::default(),
            judged: 0,
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            app_limited_until: 0,
        }
    }

    /// Continues the byte count of an earlier flight.
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

    /// Returns the number of bytes outstanding and not acknowledged by number.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    /// Returns the estimated number of bytes in the network (RFC 6675 §3, pipe).
    #[must_use]
    pub fn pipe(&self) -> u64 {
        self.outstanding().saturating_sub(self.sacked.places() + self.lost.places())
    }

    /// Returns the number of bytes beyond the acknowledgment that the peer has.
    #[must_use]
    pub fn sacked(&self) -> u64 {
        self.sacked.places()
    }

    /// Returns the number of lost bytes that wait for retransmission.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.places()
    }

    /// Returns the number of retransmitted bytes that are not delivered.
    #[must_use]
    pub fn again(&self) -> u64 {
        self.again_places
    }

    /// Returns the number of bytes delivered since the connection began.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the sequence number at a position.
    #[must_use]
    pub fn seq(&self, place: u64) -> Seq {
        // Outstanding data is less than half the sequence number space.
        let low = |place: u64| u32::try_from(place & 0xFFFF_FFFF).unwrap_or(0);
        Seq(self.una_seq.0.wrapping_add(low(place)).wrapping_sub(low(self.una)))
    }

    /// Returns the position of a sequence number that is not before the first unacknowledged one.
    fn place(&self, seq: Seq) -> Option<u64> {
        (!seq.is_before(self.una_seq)).then(|| self.una + u64::from(seq.since(self.una_seq)))
    }

    /// Records that `len` bytes were sent for the first time, in `segments` segments.
    pub fn sent(&mut self, len: u32, segments: u32, now: Instant) {
        let range = Range::new(self.nxt, self.nxt + u64::from(len));
        let stamp = self.stamp(now);
        self.nxt = range.end;
        self.segments += segments as usize;
        if self.pieces.len() >= MAX_PIECES
            && let Some(last) = self.pieces.back_mut()
        {
            last.range.end = range.end;
            last.segments += segments;
            last.stamp = stamp;
            return;
        }
        self.pieces.push_back(Piece { range, segments, stamp });
    }

    fn stamp(&mut self, now: Instant) -> Stamp {
        if self.pipe() == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Stamp {
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

    /// Returns the first lost bytes, at most `max`, that wait for retransmission.
    #[must_use]
    pub fn next_lost(&self, max: u32) -> Option<(Seq, u32)> {
        let range = self.lost.first()?;
        let len = u32::try_from(range.len()).unwrap_or(u32::MAX).min(max);
        Some((self.seq(range.start), len))
    }

    /// Records that `len` bytes from `seq` on were retransmitted.
    pub fn sent_again(&mut self, seq: Seq, len: u32, now: Instant) {
        let Some(start) = self.place(seq) else { return };
        let range = Range::new(start, (start + u64::from(len)).min(self.nxt));
        if range.is_empty() {
            return;
        }
        let stamp = self.stamp(now);
        self.lost.remove(range);
        self.take_again(range, |_, _| ());
        self.again.insert(range.start, Again { end: range.end, stamp });
        self.again_places += range.len();
        self.by_time.push_back((range, now));
        self.repeated.insert(range);
    }

    /// Returns the last `max` outstanding bytes, unless the peer has them: the data that a tail
    /// loss probe retransmits (RFC 8985 §7.3).
    #[must_use]
    pub fn tail(&self, max: u32) -> Option<(Seq, u32)> {
        let last = self.pieces.back()?.range;
        let start = last.start.max(last.end.saturating_sub(u64::from(max))).max(self.una);
        let len = u32::try_from(last.end.saturating_sub(start)).ok().filter(|len| *len > 0)?;
        (!self.sacked.has(last.end - 1)).then(|| (self.seq(start), len))
    }

    /// Processes an acknowledgment by number, which the caller has checked to be of sent data.
    pub fn acknowledge(&mut self, ack: Seq, delivery: &mut Delivery, now: Instant) {
        let Some(place) = self.place(ack).filter(|place| *place > self.una) else { return };
        let range = Range::new(self.una, place);
        delivery.acked += range.len();
        delivery.acked_again |= self.repeated.meets(range);
        let oldest = self.pieces.front().map(|piece| piece.stamp);
        let mut rest = range;
        let mut news = 0;
        while let Some(gap) = self.sacked.first_gap(rest) {
            news += gap.len();
            self.note_delivered(gap, delivery);
            rest.start = gap.end;
        }
        // Data after ranges that the peer reported earlier waited for longer than a round trip.
        if news == range.len() && !delivery.acked_again {
            delivery.rtt = oldest.map(|stamp| now - stamp.sent_at);
        }
        (self.una, self.una_seq) = (place, ack);
        self.nxt = self.nxt.max(place);
        self.count_delivered(news, delivery, now);
        while let Some(piece) = self.pieces.front().filter(|piece| piece.range.end <= place) {
            self.segments -= piece.segments as usize;
            self.pieces.pop_front();
        }
        while self.by_time.front().is_some_and(|(range, _)| range.end <= place) {
            self.by_time.pop_front();
        }
        self.sacked.remove_below(place);
        self.lost.remove_below(place);
        self.repeated.remove_below(place);
        self.judged = self.judged.max(place);
        self.highest = self.highest.max(place);
    }

    /// Returns whether `ack` acknowledges everything outstanding, of which nothing was reported by
    /// block, lost or retransmitted.
    #[must_use]
    pub fn is_all(&self, ack: Seq) -> bool {
        let is_undisturbed = self.sacked.places() == 0 && self.lost.places() == 0;
        let is_new = self.repeated.places() == 0 && self.again_places == 0;
        let is_in_order = self.highest <= self.una && self.by_time.is_empty();
        let has_pieces = self.pieces.front().is_some() && self.nxt > self.una;
        let is_plain = is_undisturbed && is_new && is_in_order && has_pieces;
        is_plain && ack == self.seq(self.nxt)
    }

    /// Processes the acknowledgment for which [`Self::is_all`] holds, with the same result as
    /// [`Self::acknowledge`].
    pub fn acknowledge_all(&mut self, now: Instant) -> Delivery {
        let mut delivery = Delivery::default();
        let (Some(oldest), Some(last)) = (self.pieces.front(), self.pieces.back()) else {
            return delivery;
        };
        let stamp = last.stamp;
        delivery.newest = Some(Newest { stamp, end: self.nxt, is_again: false });
        delivery.last_sent_at = Some(stamp.sent_at);
        delivery.rtt = Some(now - oldest.stamp.sent_at);
        delivery.acked = self.outstanding();
        (self.una_seq, self.una) = (self.seq(self.nxt), self.nxt);
        self.count_delivered(delivery.acked, &mut delivery, now);
        self.segments = 0;
        self.pieces.clear();
        (self.judged, self.highest) = (self.nxt, self.nxt);
        delivery
    }

    /// Processes a block: the peer has the numbers from `start` to `end`. Parts outside the
    /// outstanding data are ignored.
    pub fn sack(&mut self, (start, end): (Seq, Seq), delivery: &mut Delivery, now: Instant) {
        let (Some(start), Some(end)) = (self.place(start), self.place(end)) else { return };
        let block = Range::new(start, end);
        if block.is_empty() || end > self.nxt || self.sacked.covers(block) {
            return;
        }
        let is_new_range = !self.sacked.meets(Range::new(start.saturating_sub(1), end + 1));
        if is_new_range && self.sacked.ranges() >= self.segments + RANGES_SLACK {
            delivery.refused += 1;
            return;
        }
        let mut rest = block;
        let mut news = 0;
        while let Some(gap) = self.sacked.first_gap(rest) {
            news += gap.len();
            self.note_delivered(gap, delivery);
            rest.start = gap.end;
        }
        self.lost.remove(block);
        self.sacked.insert(block);
        delivery.sacked += news;
        self.count_delivered(news, delivery, now);
    }

    /// Ends the processing of the blocks of one acknowledgment: data below the highest of them that
    /// a later acknowledgment delivers was reordered.
    pub fn blocks_taken(&mut self) {
        self.highest = self.sacked.last().map_or(self.highest, |last| self.highest.max(last.end));
    }

    fn count_delivered(&mut self, news: u64, delivery: &mut Delivery, now: Instant) {
        if news > 0 {
            delivery.delivered += news;
            self.delivered += news;
            self.delivered_at = now;
        }
    }

    /// Records the delivery of `gap` by this acknowledgment.
    fn note_delivered(&mut self, gap: Range, delivery: &mut Delivery) {
        let mut newest = delivery.newest;
        let mut consider = |stamp: Stamp, end: u64, is_again: bool| {
            let candidate = Newest { stamp, end, is_again };
            if newest.is_none_or(|newest| is_later(&candidate, &newest)) {
                newest = Some(candidate);
            }
        };
        self.take_again(gap, |range, stamp| consider(stamp, range.end, true));
        let last = gap.end - 1;
        delivery.last_sent_at = None;
        if !self.repeated.has(last)
            && let Some(piece) = self.piece_at(last)
        {
            consider(piece.stamp, gap.end, false);
            delivery.last_sent_at = Some(piece.stamp.sent_at);
        }
        delivery.newest = newest;
        let overtaken = Range::new(gap.start, gap.end.min(self.highest));
        if !overtaken.is_empty() && !self.repeated.covers(overtaken) {
            let extent = self.highest - gap.start;
            delivery.reordered = delivery.reordered.max(Some(extent));
        }
    }

    fn piece_at(&self, place: u64) -> Option<Piece> {
        self.pieces.first_not(|piece| piece.range.end <= place).copied()
    }

    /// Removes the overlap with `range` from the retransmitted data, and passes each part to
    /// `show`.
    fn take_again(&mut self, range: Range, mut show: impl FnMut(Range, Stamp)) {
        if self.again.is_empty() {
            return;
        }
        while let Some((start, found)) = self.again.range(..range.end).next_back() {
            let (whole, stamp) = (Range::new(*start, found.end), found.stamp);
            let part = whole.and(range);
            if part.is_empty() {
                break;
            }
            self.again.remove(&whole.start);
            self.again_places -= part.len();
            for rest in [Range::new(whole.start, part.start), Range::new(part.end, whole.end)] {
                if !rest.is_empty() {
                    self.again.insert(rest.start, Again { end: rest.end, stamp });
                }
            }
            show(part, stamp);
        }
    }

    /// Applies `judge` to outstanding data, by send time and end, and records the lost parts.
    /// Returns the number of bytes lost, and the time of the next judgment.
    pub fn judge(&mut self, judge: impl Fn(Instant, u64) -> Judgment) -> (u64, Option<Instant>) {
        let before = self.lost.places();
        let first = self.judge_first_sendings(&judge);
        let again = self.judge_again(&judge);
        let until = first.into_iter().chain(again).min();
        (self.lost.places() - before, until)
    }

    fn judge_first_sendings(
        &mut self,
        judge: &impl Fn(Instant, u64) -> Judgment,
    ) -> Option<Instant> {
        while self.judged < self.nxt {
            let Some(piece) = self.piece_at(self.judged) else { break };
            let rest = Range::new(self.judged, piece.range.end);
            let Some(hole) = self.sacked.first_gap(rest) else {
                self.judged = self.sacked.next_after(self.judged).map_or(rest.end, |r| r.end);
                continue;
            };
            match judge(piece.stamp.sent_at, hole.end) {
                Judgment::Open => return None,
                Judgment::Until(at) => return Some(at),
                Judgment::Lost => self.lose(hole),
            }
            self.judged = hole.end;
        }
        None
    }

    fn judge_again(&mut self, judge: &impl Fn(Instant, u64) -> Judgment) -> Option<Instant> {
        while let Some((range, sent_at)) = self.by_time.front().copied() {
            let Some(part) = self.next_again(range, sent_at) else {
                self.by_time.pop_front();
                continue;
            };
            // Parts already passed over are not examined again.
            if let Some((front, _)) = self.by_time.front_mut() {
                front.start = part.start;
            }
            match judge(sent_at, part.end) {
                Judgment::Open => return None,
                Judgment::Until(at) => return Some(at),
                Judgment::Lost => {
                    self.take_again(part, |_, _| ());
                    self.lost.insert(part);
                }
            }
        }
        None
    }

    /// Returns the first part of `range` that was last sent at `sent_at`.
    fn next_again(&self, range: Range, sent_at: Instant) -> Option<Range> {
        let mut parts = self.again.range(range.start..range.end);
        let (start, again) = parts.find(|(_, again)| again.stamp.sent_at == sent_at)?;
        Some(Range::new(*start, again.end))
    }

    /// Records that the parts of `range` that were sent once are lost.
    fn lose(&mut self, range: Range) {
        let mut rest = range;
        // Parts retransmitted meanwhile, as a probe, are judged by their second transmission.
        while let Some(gap) = self.repeated.first_gap(rest) {
            self.lost.insert(gap);
            rest.start = gap.end;
        }
    }

    /// Marks the first `max` unacknowledged bytes as lost, which is all that can be inferred with a
    /// peer without SACK. Returns the number of bytes newly marked.
    pub fn lose_first(&mut self, max: u32) -> u64 {
        let Some(front) = self.pieces.front() else { return 0 };
        let end = (self.una + u64::from(max)).min(front.range.end);
        let range = Range::new(self.una, end);
        let before = self.lost.places();
        self.take_again(range, |_, _| ());
        self.lost.insert(range);
        self.lost.places() - before
    }

    /// Marks everything as lost that the peer has not reported (RFC 6298 (5.4)).
    pub fn lose_all(&mut self) {
        self.again.clear();
        self.again_places = 0;
        self.by_time.clear();
        let mut rest = Range::new(self.una, self.nxt);
        while let Some(gap) = self.sacked.first_gap(rest) {
            self.lost.insert(gap);
            rest.start = gap.end;
        }
        self.judged = self.nxt;
    }

    /// Clears the lost ranges: their data was only late and counts as outstanding again.
    pub fn find_lost(&mut self) {
        self.lost.clear();
        self.judged = self.una;
    }

    /// Returns whether the peer has reneged: its acknowledgment requests the first byte of a block
    /// that it reported (RFC 2018 §8, attack row 40).
    #[must_use]
    pub fn has_reneged(&self) -> bool {
        self.sacked.first().is_some_and(|first| first.start == self.una)
    }

    /// Discards all blocks reported by the peer.
    pub fn forget_blocks(&mut self) {
        self.sacked.clear();
        self.judged = self.una;
    }

    /// Discards all outstanding data, as if it had never been sent.
    pub fn forget_all(&mut self) {
        self.nxt = self.una;
        self.segments = 0;
        self.pieces.clear();
        self.sacked.clear();
        self.lost.clear();
        self.again.clear();
        self.again_places = 0;
        self.by_time.clear();
        self.repeated.clear();
        (self.judged, self.highest) = (self.una, self.una);
    }

    /// Returns the delivery rate since `newest` was sent, and begins the next sample.
    pub fn rate(&mut self, newest: &Newest) -> Option<RateSample> {
        let stamp = newest.stamp;
        self.first_sent_at = self.first_sent_at.max(stamp.sent_at);
        let sending = stamp.sent_at - stamp.first_sent_at;
        let acknowledging = self.delivered_at - stamp.delivered_at;
        let nanos = u64::try_from(sending.max(acknowledging).as_nanos()).unwrap_or(u64::MAX);
        let bytes = self.delivered - stamp.delivered;
        let bytes_per_s = bytes.saturating_mul(1_000_000_000).checked_div(nanos)?;
        let (is_app_limited, delivered_before) = (stamp.is_app_limited, stamp.delivered);
        Some(RateSample { bytes_per_s, is_app_limited, delivered_before })
    }
}

/// Returns RACK_sent_after (RFC 8985 §6.2 step 2).
fn is_later(one: &Newest, other: &Newest) -> bool {
    (one.stamp.sent_at, one.end) > (other.stamp.sent_at, other.end)
}

#[cfg(test)]
mod tests;
