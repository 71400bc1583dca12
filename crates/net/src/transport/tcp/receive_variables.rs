//! The receive sequence variables of a connection (RFC 9293 §3.3.1), with the RFC's names, and the
//! received data.

use super::receive_buffer::ReceiveBuffer;
use super::seq::Seq;
use crate::meter::Meter;
use crate::packet::Packet;
use alloc::vec::Vec;

/// The receive sequence variables and the receive buffer.
#[derive(Debug)]
pub(super) struct ReceiveVariables {
    irs: Seq,
    nxt: Seq,
    /// Right edge of the window advertised to the peer.
    adv: Seq,
    up: Option<Seq>,
    /// Rcv.Wind.Shift of RFC 7323 §2.3.
    shift: u8,
    /// Whether `nxt` is after the peer's FIN.
    is_closed: bool,
    /// Length of the longest data that arrived at once, in bytes: a super-segment of the peer's
    /// device.
    longest: u16,
    /// Sequence number of the peer's FIN, if it arrived before all the data.
    fin: Option<Seq>,
    buffer: ReceiveBuffer,
}

impl ReceiveVariables {
    /// Returns the variables before the peer's SYN. The buffer holds at most `window` bytes.
    pub(super) fn new(window: usize, shift: u8) -> Self {
        Self {
            irs: Seq(0),
            nxt: Seq(0),
            adv: Seq(0),
            up: None,
            shift,
            is_closed: false,
            longest: 0,
            fin: None,
            buffer: ReceiveBuffer::new(window, shift),
        }
    }

    /// Processes the sequence number of the peer's SYN.
    pub(super) fn synchronize(&mut self, irs: Seq) {
        self.irs = irs;
        self.nxt = irs + 1;
        let window = u32::try_from(self.buffer.window()).unwrap_or(u32::MAX);
        self.adv = self.nxt + window.min(0xFFFF);
    }

    pub(super) fn irs(&self) -> Seq {
        self.irs
    }

    pub(super) fn nxt(&self) -> Seq {
        self.nxt
    }

    /// Returns the right edge of the window advertised to the peer.
    pub(super) fn adv(&self) -> Seq {
        self.adv
    }

    pub(super) fn shift(&self) -> u8 {
        self.shift
    }

    /// Returns the received data.
    pub(super) fn buffer(&self) -> &ReceiveBuffer {
        &self.buffer
    }

    /// Returns the unused part of the window that was last advertised to the peer.
    pub(super) fn wnd(&self) -> u32 {
        if self.adv.is_after(self.nxt) { self.adv.since(self.nxt) } else { 0 }
    }

    /// Returns whether a segment with `len` sequence numbers from `seq` on is acceptable (RFC 9293
    /// §3.10.7.4).
    pub(super) fn is_acceptable(&self, seq: Seq, len: u32) -> bool {
        match (len, self.wnd()) {
            // MUST-66: if the window is zero, the control bits of a segment are still processed.
            (_, 0) => seq == self.nxt,
            (0, window) => seq.is_in_window(self.nxt, window),
            (len, window) => {
                seq.is_in_window(self.nxt, window)
                    || (seq + (len - 1)).is_in_window(self.nxt, window)
            }
        }
    }

    /// Records that the peer does not scale windows.
    pub(super) fn disable_scaling(&mut self) {
        self.shift = 0;
    }

    /// Returns the largest window that the window field can express.
    pub(super) fn wnd_limit(&self) -> u32 {
        0xFFFF << self.shift
    }

    /// Returns the maximum window, and the difference between its free part and the advertised
    /// window.
    ///
    /// The free part is a whole number of the peer's super-segments of more than `mss` bytes. The
    /// rest would be a short segment in every window, which costs both ends as much as a long one.
    pub(super) fn window_growth(&self, mss: u32) -> (u32, u32) {
        let capacity = u32::try_from(self.buffer.window()).unwrap_or(u32::MAX);
        // The window field cannot express more. The excess would always look like growth.
        let capacity = capacity.min(self.wnd_limit());
        let unread = u32::try_from(self.buffer.readable()).unwrap_or(u32::MAX);
        let free = capacity.saturating_sub(unread);
        let len = u32::from(self.longest);
        let rest = if len > mss && free > len { free % len } else { 0 };
        (capacity, (free - rest).saturating_sub(self.wnd()))
    }

    /// Records that `len` bytes of data arrived at once.
    pub(super) fn record_len(&mut self, len: usize) {
        self.longest = self.longest.max(u16::try_from(len).unwrap_or(u16::MAX));
    }

    /// Returns the window field for a window of `offer` bytes. It is rounded up, so that the right
    /// edge does not move left. It is rounded down if the buffer has no space for the rounding
    /// errors of many small segments.
    pub(super) fn window_field(&self, offer: u32) -> u32 {
        let up = offer.div_ceil(1 << self.shift);
        let is_rounding_up_safe = (up << self.shift) as usize <= self.buffer.free_space();
        if is_rounding_up_safe { up.min(0xFFFF) } else { (offer >> self.shift).min(0xFFFF) }
    }

    /// Records that the window field `field` is sent to the peer.
    pub(super) fn advertise(&mut self, field: u32) {
        self.adv = self.adv.max(self.nxt + (field << self.shift));
    }

    /// Sets the size of the buffer.
    pub(super) fn set_window(&mut self, window: usize) {
        self.buffer.set_window(window, self.shift);
    }

    /// Stores data that begins `offset` bytes after RCV.NXT. Returns the number of bytes that have
    /// become readable.
    pub(super) fn put(&mut self, offset: usize, data: &[u8], meter: &mut Meter) -> usize {
        self.buffer.put(offset, data, meter)
    }

    /// Stores a packet whose data is the next to read.
    pub(super) fn keep(&mut self, packet: Packet) {
        self.buffer.keep(packet);
    }

    /// Advances RCV.NXT by `count` bytes that have become readable.
    pub(super) fn advance(&mut self, count: usize) {
        self.nxt = self.nxt + u32::try_from(count).unwrap_or(0);
    }

    /// Removes `count` bytes that the user has read, and moves their packets to `spent`.
    pub(super) fn consume(&mut self, count: usize, spent: &mut Vec<Packet>) {
        self.buffer.consume(count, spent);
        self.forget_read_urgent();
    }

    /// Moves all packets to `spent`.
    pub(super) fn clear(&mut self, spent: &mut Vec<Packet>) {
        self.buffer.clear(spent);
    }

    /// Releases the memory that the buffer does not need.
    pub(super) fn shrink(&mut self) {
        self.buffer.shrink();
    }

    /// Returns the sequence number of the next unread byte.
    pub(super) fn read_up_to(&self) -> Seq {
        let unread = u32::try_from(self.buffer.readable()).unwrap_or(0);
        self.nxt - unread - u32::from(self.is_closed)
    }

    /// Moves the urgent pointer to `up`. Returns false if it does not move forward.
    pub(super) fn set_urgent(&mut self, up: Seq) -> bool {
        let is_new = up.is_after(self.nxt) && self.up.is_none_or(|old| up.is_after(old));
        if is_new {
            self.up = Some(up);
        }
        is_new
    }

    /// Returns the number of bytes from the next unread byte to the end of the urgent data.
    pub(super) fn urgent_ahead(&self) -> Option<usize> {
        self.up.map(|up| up.since(self.read_up_to()) as usize)
    }

    /// Clears the urgent pointer once all urgent data is read.
    fn forget_read_urgent(&mut self) {
        self.up = self.up.filter(|up| up.is_after(self.read_up_to()));
    }

    /// Returns whether a FIN has arrived before all the data.
    pub(super) fn has_early_fin(&self) -> bool {
        self.fin.is_some()
    }

    /// Sets the sequence number of the peer's FIN.
    pub(super) fn set_fin(&mut self, fin: Seq) {
        self.fin = Some(fin);
    }

    /// Returns whether the peer's FIN follows the received data.
    pub(super) fn is_fin_next(&self) -> bool {
        self.fin == Some(self.nxt)
    }

    /// Advances RCV.NXT over the peer's FIN.
    pub(super) fn accept_fin(&mut self) {
        // No data follows the FIN, so no byte after it can be urgent.
        self.up = self.up.map(|up| up.min(self.nxt));
        // A FIN takes no space in the buffer, so the window stays the same.
        self.nxt = self.nxt + 1;
        self.adv = self.adv + 1;
        self.fin = None;
        self.is_closed = true;
        self.forget_read_urgent();
    }

    /// Sets the state after `count` bytes that the peer has not sent.
    #[cfg(test)]
    pub(super) fn skip(&mut self, count: u32) {
        self.nxt = self.nxt + count;
        self.adv = self.adv + count;
    }
}
