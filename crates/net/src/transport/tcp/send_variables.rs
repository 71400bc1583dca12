//! The send sequence variables of a connection (RFC 9293 §3.3.1), with the RFC's names, and the
//! data to send.
//!
//! The sequence numbers advance in one of three events: the peer acknowledges data, a segment is
//! sent, or a timeout makes the sender start again at SND.UNA.

use super::send_buffer::SendBuffer;
use super::seq::Seq;
use alloc::sync::Arc;

/// The send sequence variables and the send buffer.
#[derive(Debug)]
pub(super) struct SendVariables {
    iss: Seq,
    una: Seq,
    nxt: Seq,
    /// The highest sequence number ever sent. It is after `nxt` if a window probe was sent.
    max: Seq,
    wnd: u32,
    wnd_max: u32,
    wl1: Seq,
    wl2: Seq,
    up: Option<Seq>,
    mss: u32,
    /// Snd.Wind.Shift of RFC 7323 §2.3.
    shift: u8,
    /// Whether the user has closed the connection: a FIN follows the last byte.
    is_closing: bool,
    /// Sequence number of the first byte in the buffer.
    start: Seq,
    buffer: SendBuffer,
}

impl SendVariables {
    /// Returns the variables before the SYN. The buffer holds at most `limit` bytes.
    pub(super) fn new(iss: Seq, mss: u32, limit: usize) -> Self {
        Self {
            iss,
            una: iss,
            nxt: iss,
            max: iss,
            wnd: 0,
            wnd_max: 0,
            wl1: Seq(0),
            wl2: Seq(0),
            up: None,
            mss,
            shift: 0,
            is_closing: false,
            start: iss + 1,
            buffer: SendBuffer::new(limit),
        }
    }

    /// Sets the initial sequence number to `iss`.
    pub(super) fn begin_at(&mut self, iss: Seq) {
        self.iss = iss;
        self.start = iss + 1;
        self.una = iss;
        self.nxt = iss;
        self.max = iss;
    }

    /// Records that the local SYN was sent without this connection, in the answer with a SYN
    /// cookie.
    pub(super) fn syn_was_sent(&mut self) {
        self.nxt = self.iss + 1;
        self.max = self.iss + 1;
    }

    pub(super) fn iss(&self) -> Seq {
        self.iss
    }

    pub(super) fn una(&self) -> Seq {
        self.una
    }

    pub(super) fn nxt(&self) -> Seq {
        self.nxt
    }

    /// Returns the highest sequence number ever sent.
    pub(super) fn max(&self) -> Seq {
        self.max
    }

    pub(super) fn wnd(&self) -> u32 {
        self.wnd
    }

    /// Returns the largest window that the peer has advertised.
    pub(super) fn wnd_max(&self) -> u32 {
        self.wnd_max
    }

    pub(super) fn up(&self) -> Option<Seq> {
        self.up
    }

    pub(super) fn mss(&self) -> u32 {
        self.mss
    }

    /// Returns the sequence number of the first byte in the buffer.
    pub(super) fn start(&self) -> Seq {
        self.start
    }

    /// Returns whether the user has closed the connection: a FIN follows the last byte.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns the sequence number after all the data of the user, including its FIN.
    pub(super) fn end(&self) -> Seq {
        self.start + self.buffer.len() + u32::from(self.is_closing)
    }

    /// Returns the number of sent but unacknowledged sequence numbers.
    pub(super) fn outstanding(&self) -> u32 {
        self.nxt.since(self.una)
    }

    /// Returns the maximum number of outstanding bytes that both buffers allow.
    pub(super) fn outstanding_max(&self) -> u32 {
        self.wnd_max.min(u32::try_from(self.buffer.limit()).unwrap_or(u32::MAX))
    }

    /// Returns the number of bytes in the buffer that were never sent, or are sent again.
    pub(super) fn unsent(&self) -> u32 {
        self.buffered_from(self.nxt)
    }

    /// Returns the usable window: the part of the peer's window that is not outstanding.
    pub(super) fn usable_window(&self) -> u32 {
        self.wnd.saturating_sub(self.outstanding())
    }

    /// Returns whether SND.NXT is after all the data of the user, including its FIN.
    pub(super) fn is_at_end(&self) -> bool {
        self.nxt == self.end()
    }

    /// Returns whether the peer has acknowledged the local FIN.
    pub(super) fn fin_is_acknowledged(&self) -> bool {
        self.is_closing && self.una == self.end()
    }

    /// Returns whether everything ever sent is acknowledged.
    pub(super) fn is_all_acknowledged(&self) -> bool {
        self.una == self.max
    }

    /// Returns the sequence number for a segment without data: the end of the sent data, but at
    /// most the right edge of the peer's window. The peer rejects sequence numbers beyond that
    /// edge. The sent data may extend beyond the edge after a window probe, or if the window has
    /// shrunk.
    pub(super) fn acceptable_seq(&self) -> Seq {
        // A SYN is sent before there is a window.
        let edge = (self.una + self.wnd).max(self.start);
        self.max.min(edge)
    }

    /// Returns whether `seq` is the number of a sent but unacknowledged byte or control bit.
    pub(super) fn is_in_flight(&self, seq: Seq) -> bool {
        seq.is_in_window(self.una, self.max.since(self.una))
    }

    /// Returns whether `ack` acknowledges the local SYN, and possibly data after it.
    pub(super) fn acknowledges_syn(&self, ack: Seq) -> bool {
        ack.is_after(self.iss) && !ack.is_after(self.max)
    }

    /// Returns whether `ack` is in the range that a legitimate peer may send (RFC 5961 §5).
    pub(super) fn is_plausible_ack(&self, ack: Seq) -> bool {
        let oldest = self.una - self.wnd_max;
        !ack.is_before(oldest) && !ack.is_after(self.max)
    }

    /// Returns whether `ack` is older than any that a legitimate peer may send (RFC 5961 §5).
    pub(super) fn is_too_old(&self, ack: Seq) -> bool {
        self.una.since(ack) > self.wnd_max && ack.is_before(self.una)
    }

    /// Processes the acknowledgment of the local SYN in SYN-SENT, and of data on it. Returns the
    /// number of acknowledged data bytes.
    pub(super) fn acknowledge_syn_sent(&mut self, ack: Seq) -> u32 {
        let data = self.remove_acknowledged(ack);
        self.una = ack;
        self.nxt = ack;
        data
    }

    /// Processes the acknowledgment of the local SYN in SYN-RECEIVED, without that of data after
    /// it.
    pub(super) fn acknowledge_syn_received(&mut self) {
        self.una = self.iss + 1;
        self.nxt = self.nxt.max(self.una);
    }

    /// Processes a new acknowledgment number. Returns the number of acknowledged data bytes.
    pub(super) fn acknowledge(&mut self, ack: Seq) -> u32 {
        let data = self.remove_acknowledged(ack);
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.up = self.up.filter(|up| up.is_after(ack));
        data
    }

    fn remove_acknowledged(&mut self, ack: Seq) -> u32 {
        let data = ack.since(self.start).min(self.buffer.len());
        self.buffer.acknowledge(data);
        self.start = self.start + data;
        data
    }

    /// Sets Snd.Wind.Shift, which the SYN of the peer has announced.
    pub(super) fn set_shift(&mut self, shift: u8) {
        self.shift = shift;
    }

    pub(super) fn shift(&self) -> u8 {
        self.shift
    }

    /// Returns the window in bytes that the window field of a segment expresses.
    pub(super) fn window_of(&self, field: u16) -> u32 {
        u32::from(field) << self.shift
    }

    /// Sets the window of the peer's SYN, which is never scaled (RFC 7323 §2.2).
    pub(super) fn set_syn_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.wnd_max = 0;
        self.set_window(window, seq, ack);
    }

    /// Returns whether the window of the segment with `seq` and `ack` is newer than SND.WND (RFC
    /// 9293 §3.10.7.4).
    pub(super) fn is_window_newer(&self, seq: Seq, ack: Seq) -> bool {
        let is_newer = self.wl1.is_before(seq) || (self.wl1 == seq && !ack.is_before(self.wl2));
        is_newer && !ack.is_before(self.una)
    }

    /// Sets SND.WND, SND.WL1 and SND.WL2.
    pub(super) fn set_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.wnd = window;
        self.wnd_max = self.wnd_max.max(window);
        self.wl1 = seq;
        self.wl2 = ack;
    }

    /// Sets the maximum number of data bytes in a segment.
    pub(super) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// Records that sequence numbers up to `end` were sent.
    pub(super) fn sent_up_to(&mut self, end: Seq) {
        self.max = self.max.max(end);
    }

    /// Sets SND.NXT after a segment.
    pub(super) fn set_nxt(&mut self, nxt: Seq) {
        self.nxt = nxt;
    }

    /// Sets SND.NXT to SND.UNA: everything outstanding is sent again.
    pub(super) fn return_to_una(&mut self) {
        self.nxt = self.una;
    }

    /// Queues as much of `data` as there is space for, and returns the number of queued bytes. No
    /// data follows the FIN.
    pub(super) fn put(&mut self, data: &[u8]) -> usize {
        if self.is_closing { 0 } else { self.buffer.put(data) }
    }

    /// Like [`Self::put`], for the bytes of `data` from `start` on, without a copy.
    pub(super) fn share(&mut self, data: &Arc<[u8]>, start: usize) -> usize {
        if self.is_closing { 0 } else { self.buffer.share(data, start) }
    }

    /// Makes all queued data urgent.
    pub(super) fn set_urgent(&mut self) {
        self.up = Some(self.start + self.buffer.len());
    }

    /// Queues a FIN after the data.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns the number of bytes in the buffer.
    pub(super) fn buffered_len(&self) -> u32 {
        self.buffer.len()
    }

    /// Returns the number of bytes in the buffer from `seq` on.
    pub(super) fn buffered_from(&self, seq: Seq) -> u32 {
        self.buffer.len().saturating_sub(self.offset_of(seq))
    }

    /// Returns whether `seq` is the sequence number after the last byte in the buffer.
    pub(super) fn is_end_of_data(&self, seq: Seq) -> bool {
        seq == self.start + self.buffer.len()
    }

    /// Returns the position of `seq` in the buffer.
    pub(super) fn offset_of(&self, seq: Seq) -> u32 {
        seq.since(self.start)
    }

    /// Returns how many of the `len` bytes from `seq` on are contiguous in the buffer.
    pub(super) fn contiguous_len(&self, seq: Seq, len: u32) -> u32 {
        self.buffer.contiguous_len(self.offset_of(seq), len)
    }

    /// Returns `len` bytes of the buffer from `offset` on as two slices.
    pub(super) fn range(&self, offset: u32, len: u32) -> [&[u8]; 2] {
        self.buffer.range(offset, len)
    }

    /// Returns the maximum number of bytes in the buffer.
    pub(super) fn limit(&self) -> usize {
        self.buffer.limit()
    }

    /// Sets the maximum number of bytes in the buffer.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.buffer.set_limit(limit);
    }

    /// Returns the number of bytes that the user may still add.
    pub(super) fn free_space(&self) -> usize {
        if self.is_closing { 0 } else { self.buffer.free_space() }
    }

    /// Returns whether the buffer has no space for another byte.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.free_space() == 0
    }

    /// Releases the memory that the buffer does not need.
    pub(super) fn shrink(&mut self) {
        self.buffer.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syn_of_a_cookie_counts_as_sent() {
        let mut variables = SendVariables::new(Seq(7), 1000, 1000);
        variables.syn_was_sent();
        assert_eq!([variables.una, variables.nxt, variables.max], [Seq(7), Seq(8), Seq(8)]);
    }
}
