//! Reports of early and duplicate data in the next acknowledgment: the first SACK block (RFC 2018
//! §4), and the block of a duplicate (RFC 2883 §4).
//!
//! A duplicate is also reported if its segment is dropped for an old timestamp (RFC 7323 §5.3).

use super::arrives::Arrival;
use super::connection::Connection;
use super::header::Flags;
use super::sack::Block;
use crate::cx::Cx;
use crate::meter::Counter;
use crate::mutants::{Mutant, is_enabled};

impl Connection {
    /// Acknowledges a segment with an old timestamp (RFC 7323 §5.3). If all or part of its data was
    /// already received, the acknowledgment reports the first such part as a duplicate (RFC 2883
    /// §4). On a path that reorders segments, the sender thereby learns that its retransmission was
    /// unnecessary.
    pub(super) fn answer_outdated(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        let duplicate = self.duplicate_in(arrival).filter(|_| !arrival.has(Flags::SYN));
        let Some((start, end)) = duplicate else { return self.challenge(cx) };
        self.negotiated.add_duplicate_block(start, end);
        self.acks.send_now();
    }

    /// Returns the first contiguous part of the segment's data that is a duplicate.
    fn duplicate_in(&self, arrival: &Arrival<'_>) -> Option<Block> {
        let seq = arrival.header.seq;
        let end = arrival.data_end();
        if seq == end {
            return None;
        }
        if seq.is_before(self.rcv.nxt()) {
            return Some((seq, end.min(self.rcv.nxt())));
        }
        self.early_duplicate(seq.since(self.rcv.nxt()) as usize, arrival.data.len())
    }

    /// Makes the block that contains this segment the first one in the report (RFC 2018 §4).
    pub(super) fn record_blocks(&mut self, offset: usize, len: usize) {
        if !self.negotiated.has_sack() {
            return;
        }
        if offset > 0
            && len > 0
            && let Some((start, end)) = self.rcv.buffer().early_around(offset)
        {
            let seq = |offset: usize| self.rcv.nxt() + u32::try_from(offset).unwrap_or(0);
            self.negotiated.add_block((seq(start), seq(end)));
        }
        self.negotiated.advance_blocks(self.rcv.nxt());
    }

    /// Returns the first part of the `len` bytes at `offset` that was already received above a
    /// hole.
    pub(super) fn early_duplicate(&self, offset: usize, len: usize) -> Option<Block> {
        let (start, end) = self.rcv.buffer().early_within(offset, len)?;
        let seq = |offset: usize| self.rcv.nxt() + u32::try_from(offset).unwrap_or(0);
        Some((seq(start), seq(end)))
    }

    /// Removes the data below RCV.NXT from a segment. Returns whether there was such data. The
    /// removed data is then the only duplicate to report, because RFC 2883 §4 reports only the
    /// first contiguous duplicate of a segment.
    pub(super) fn cut_off_old(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) -> bool {
        if !arrival.header.seq.is_before(self.rcv.nxt()) {
            return false;
        }
        let old_len = self.rcv.nxt().since(arrival.header.seq) as usize;
        let old_len = old_len.min(arrival.data.len());
        cx.meter.add(Counter::TcpDuplicateBytes, old_len as u64);
        let end = arrival.header.seq + u32::try_from(old_len).unwrap_or(0);
        self.negotiated.add_duplicate_block(arrival.header.seq, end);
        let kept_from = if is_enabled(Mutant::DeliversDuplicates) { 0 } else { old_len };
        arrival.data = arrival.data.get(kept_from..).unwrap_or_default();
        arrival.header.seq = self.rcv.nxt();
        old_len > 0
    }
}
