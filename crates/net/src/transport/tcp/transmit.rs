//! Selection of the next segment: SYN, retransmission, data and FIN, window probe, acknowledgment.
//!
//! Received segments, user calls and timeouts create no segments. They only change the state.
//! [`Connection::transmit`] is called at output, after the application has run. It creates as few
//! segments as possible for everything that is pending (TM-233 §3.3). Echo, acknowledgment and
//! window therefore share one segment.

use super::connection::Connection;
use super::header::{Flags, Header, Options};
use super::lifecycle::State;
use super::limited_time::Limit;
use super::seq::Seq;
use crate::cx::Cx;
use crate::meter::{Counter, Quantity};
use crate::mutants::{Mutant, is_enabled};
use crate::time::{Instant, Stamp};

/// A segment to be sent: its header, and the location of its data in the send buffer.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) header: Header,
    pub(super) offset: u32,
    pub(super) len: u32,
    /// Number of data bytes in each segment into which the device splits this one; 0 if it is not
    /// split.
    pub(super) segment_size: u16,
    /// The ECN bits of its datagram.
    pub(super) ecn: u8,
}

/// The planned content of a segment.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seq: Seq,
    len: u32,
    syn: bool,
    fin: bool,
}

impl Plan {
    /// Returns SEG.LEN: the number of sequence numbers in the segment.
    const fn seg_len(self) -> u32 {
        self.len + self.syn as u32 + self.fin as u32
    }
}

impl Connection {
    /// Returns the next segment; call until `None`. The segment may have up to `super_segment_max`
    /// data bytes, more than the peer's maximum. The device then splits it.
    pub(super) fn transmit(&mut self, super_segment_max: u32, cx: &mut Cx<'_>) -> Option<Outgoing> {
        if matches!(self.state(), State::SynSent | State::SynReceived) {
            if let Some(plan) = self.plan_syn() {
                return Some(self.seal_syn(plan, cx));
            }
            if !self.is_open_early() {
                return None;
            }
        }
        if self.lifecycle.must_abort() || self.state() == State::Closed {
            return None;
        }
        let plan = self
            .plan_retransmission(super_segment_max, cx)
            .or_else(|| self.plan_tail_probe(cx))
            .or_else(|| self.plan_data(super_segment_max, cx))
            .or_else(|| self.plan_probe(cx))
            .or_else(|| self.plan_keep_alive(cx))
            .or_else(|| self.plan_acknowledgment());
        plan.map(|plan| self.seal(self.shorten_to_contiguous(plan), cx))
    }

    /// Returns whether [`Self::transmit`] would return `None`. If so, records the cause that limits
    /// the sender, as [`Self::transmit`] would.
    ///
    /// The answer to a keystroke is one segment. This check is cheaper than the attempt to plan a
    /// second one.
    pub(super) fn has_sent_all(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_at_end = self.state().emits_data() && self.snd.is_at_end();
        let is_probe_due = self.recovery.must_probe_tail()
            || self.timers.must_probe()
            || self.timers.must_keep_alive();
        let has_lost_data = self.recovery.full().is_some_and(|recovery| recovery.has_lost());
        let is_ack_pending = self.acks.is_due();
        if !is_at_end
            || is_probe_due
            || has_lost_data
            || is_ack_pending
            || self.lifecycle.must_abort()
        {
            return false;
        }
        self.record_limit(0, 0, cx.now);
        #[cfg(test)]
        assert!(self.transmit(0, cx).is_none(), "no segment may remain");
        true
    }

    /// Shortens a plan to the data that is contiguous in the send buffer.
    fn shorten_to_contiguous(&self, plan: Plan) -> Plan {
        let len = self.snd.contiguous_len(plan.seq, plan.len);
        if len < plan.len { Plan { len, fin: false, ..plan } } else { plan }
    }

    fn plan_syn(&self) -> Option<Plan> {
        let is_due = self.snd.nxt() == self.snd.iss() || self.acks.is_due();
        let len = self.syn_data_len();
        is_due.then_some(Plan { seq: self.snd.iss(), len, syn: true, fin: false })
    }

    /// Plans a retransmission. Lost data is sent before new data (RFC 6675 §4), at most a
    /// super-segment at once.
    fn plan_retransmission(&mut self, super_segment_max: u32, cx: &Cx<'_>) -> Option<Plan> {
        if !self.recovery.full()?.has_lost() {
            return None;
        }
        // A device would put the same urgent pointer into every segment of a super-segment.
        let is_single = self.snd.up().is_some();
        let segments = if is_single { 1 } else { (super_segment_max / self.snd.mss()).max(1) };
        let mss = self.data_mss();
        let (seq, len) = self.recovery.full()?.next_lost(segments * mss)?;
        // The peer drops data beyond its window. It does so even if the window has included the
        // data before.
        let window = self.snd.wnd().saturating_sub(seq.since(self.snd.una()));
        let len = len.min(window).min(self.quantum());
        let len = if len > mss { len - len % mss } else { len };
        if len == 0 || !self.is_paced_now(cx.now) {
            return None;
        }
        Some(self.plan_range(seq, len))
    }

    /// Plans a segment with `len` sequence numbers from `seq` on. The last one may be that of the
    /// FIN.
    fn plan_range(&self, seq: Seq, len: u32) -> Plan {
        let buffered_len = self.snd.buffered_from(seq);
        let fin =
            self.snd.is_closing() && len > buffered_len && !is_enabled(Mutant::NeverRetransmitsFin);
        Plan { seq, len: len.min(buffered_len), syn: false, fin }
    }

    /// Plans a tail loss probe (RFC 8985 §7.3): new data if available, and otherwise the last
    /// segment.
    fn plan_tail_probe(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        if !self.recovery.take_tail_probe() || self.snd.outstanding() == 0 {
            return None;
        }
        let unsent = self.snd.unsent();
        let window = self.snd.usable_window();
        let len = unsent.min(self.data_mss());
        let plan = if len > 0 && len <= window && self.state().emits_data() {
            let fin = self.snd.is_closing() && len == unsent && window > len;
            Plan { seq: self.snd.nxt(), len, syn: false, fin }
        } else {
            let (seq, len) = self.recovery.full()?.tail().filter(|_| self.snd.wnd() > 0)?;
            self.plan_range(seq, len.min(self.data_mss()))
        };
        cx.meter.count(Counter::TcpTailProbes);
        self.statistics.count_tail_probe();
        self.recovery.begin_tail_probe();
        Some(plan)
    }

    fn plan_data(&mut self, super_segment_max: u32, cx: &mut Cx<'_>) -> Option<Plan> {
        let stops_at_peer_close =
            is_enabled(Mutant::StopsAtPeerClose) && self.state() == State::CloseWait;
        let may_emit = (self.state().emits_data() && !stops_at_peer_close) || self.is_open_early();
        if !may_emit || self.snd.is_at_end() {
            self.record_limit(0, 0, cx.now);
            return None;
        }
        self.restart_after_idle(cx);
        let unsent = self.snd.unsent();
        let window = self.snd.usable_window();
        let window = if is_enabled(Mutant::IgnoresWindow) { u32::MAX } else { window };
        let usable = window.min(self.recovery().allowance());
        if let Some(len) = self.path_probe_of(unsent.min(usable), cx) {
            return Some(Plan { seq: self.snd.nxt(), len, syn: false, fin: false });
        }
        let len = unsent.min(usable).min(self.quantum());
        let len = self.whole_segments(len, unsent, super_segment_max);
        // A FIN needs no space in the network, so the congestion window does not delay it.
        let fin = self.snd.is_closing() && len == unsent && window > len;
        if (len == 0 && !fin) || !self.is_worth_sending(len, unsent, fin) {
            self.record_limit(unsent, window, cx.now);
            self.divide_rest_evenly(unsent, window);
            // If nothing is outstanding, only the peer's window can delay the data.
            if self.snd.outstanding() == 0 && !self.timers.must_probe() {
                self.start_persist_timer(cx.now);
            }
            return None;
        }
        if !self.is_paced_now(cx.now) {
            return None;
        }
        Some(Plan { seq: self.snd.nxt(), len, syn: false, fin })
    }

    /// Returns the data length of a segment that probes the path, if one is due.
    fn path_probe_of(&mut self, usable: u32, cx: &mut Cx<'_>) -> Option<u32> {
        let has_search =
            self.path.has_search() && self.snd.up().is_none() && self.state().emits_data();
        if !has_search || self.snd.nxt() != self.snd.max() || !self.is_paced_now(cx.now) {
            return None;
        }
        self.path_probe(usable, cx)
    }

    /// Returns the number of bytes that may be sent together.
    fn quantum(&self) -> u32 {
        let pacing = self.recovery.full().map(|recovery| &recovery.pacing);
        let quantum = pacing.map_or(u64::MAX, |pacing| pacing.quantum(self.snd.mss()));
        u32::try_from(quantum).unwrap_or(u32::MAX)
    }

    /// Returns whether pacing allows data to be sent now. If not, starts its timer.
    fn is_paced_now(&mut self, now: Instant) -> bool {
        let Some(recovery) = self.recovery.full_mut() else { return true };
        let next_at = recovery.pacing.next_at(now);
        self.timers.set_pace(next_at);
        if next_at.is_some() {
            recovery.limits.set(Limit::Pacing, now);
            recovery.record_limit(true);
        }
        next_at.is_none()
    }

    /// Records the limit of the sender. `unsent` bytes wait, and `window` bytes of the peer's
    /// window are free.
    fn record_limit(&mut self, unsent: u32, window: u32, now: Instant) {
        let limit = match (unsent > 0, self.snd.outstanding() > 0) {
            (false, false) => Limit::Idle,
            (false, true) if self.snd.is_full() => Limit::SendBuffer,
            (false, true) => Limit::Application,
            (true, _) => self.limit_of(unsent.min(self.data_mss()), window),
        };
        let Some(recovery) = self.recovery.full_mut() else { return };
        recovery.limits.set(limit, now);
        recovery.record_limit(limit == Limit::CongestionWindow);
        if matches!(limit, Limit::Idle | Limit::Application) {
            recovery.flight.app_limited();
        }
    }

    /// Returns the limit that prevents sending `next` more bytes. `window` bytes of the peer's
    /// window are free.
    fn limit_of(&self, next: u32, window: u32) -> Limit {
        let allowance = self.recovery.full().map_or(u32::MAX, |recovery| recovery.allowance());
        match () {
            () if window < next => Limit::PeerWindow,
            () if allowance < next => Limit::CongestionWindow,
            () => Limit::Application,
        }
    }

    /// Divides the data evenly into shorter segments if less than a segment of the peer's window is
    /// free, or if less than a segment of a full send buffer is unsent. `window` is the free part
    /// of the peer's window, and `unsent` is the number of unsent bytes.
    fn divide_rest_evenly(&mut self, unsent: u32, window: u32) {
        let mss = self.data_mss();
        let max_outstanding = self.snd.outstanding_max();
        let is_rest_of_window = window > 0 && window < mss && unsent > window;
        let is_rest_of_buffer = unsent > 0 && unsent < mss && self.snd.is_full();
        let is_short_rest = (is_rest_of_window || is_rest_of_buffer) && self.snd.outstanding() > 0;
        let full = self.snd.mss();
        if let Some(recovery) = self.recovery.full_mut().filter(|_| is_short_rest) {
            recovery.divide_evenly(max_outstanding, full);
        }
    }

    /// Limits `len` to one segment, or to a number of full segments for a super-segment. A short
    /// last segment is sent separately.
    fn whole_segments(&self, len: u32, unsent: u32, super_segment_max: u32) -> u32 {
        let mss = self.data_mss();
        if len <= mss {
            return len;
        }
        let is_urgent = self.snd.up().is_some_and(|up| up.is_after(self.snd.nxt()));
        // A device would report the reduced window in every segment of a super-segment.
        let is_single = is_urgent || self.negotiated.must_send_cwr();
        let segments = if is_single { 1 } else { (super_segment_max / self.snd.mss()).max(1) };
        let full_len = len.min(segments * mss);
        let may_end_short = full_len == unsent && !self.profile.nagle;
        let is_long = full_len > mss;
        if is_long && !may_end_short { full_len - full_len % mss } else { full_len }
    }

    /// Returns whether silly window avoidance (RFC 9293 §3.8.6.2.1) and Nagle's algorithm (§3.7.4)
    /// allow a segment now.
    fn is_worth_sending(&self, len: u32, unsent: u32, fin: bool) -> bool {
        // In the answer to a SYN with early data, only the local SYN is outstanding. It does not
        // count as a small segment.
        let is_first_early_data = self.is_open_early() && self.snd.nxt() == self.snd.start();
        let may_be_small =
            !self.profile.nagle || self.snd.outstanding() == 0 || is_first_early_data;
        let is_urgent = self.snd.up().is_some_and(|up| up.is_after(self.snd.nxt()));
        (len == unsent && may_be_small)
            || len >= self.data_mss()
            || fin
            || self.snd.nxt().is_before(self.snd.max())
            || (len == unsent && is_urgent)
            || (len >= self.snd.wnd_max() / 2 && may_be_small)
    }

    /// Limits the window after an idle time of one timeout, because it no longer reflects the state
    /// of the network (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, cx: &Cx<'_>) {
        if self.snd.is_all_acknowledged() && cx.now - self.activity.last_sent_at() > self.rtt.rto()
        {
            self.recovery().window.restart_after_idle();
        }
    }

    /// Plans a window probe (RFC 9293 §3.8.6.1, MUST-36): one byte, the data that a small window
    /// allows, or the FIN.
    fn plan_probe(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        let is_due = self.timers.take_probe() && self.state().emits_data();
        if !is_due || self.snd.is_at_end() || self.snd.outstanding() > 0 {
            return None;
        }
        let unsent = self.snd.unsent();
        let len = unsent.min(self.snd.wnd().max(1)).min(self.data_mss());
        if self.snd.wnd() == 0 {
            cx.meter.count(Counter::TcpWindowProbes);
            self.statistics.count_window_probe();
            self.timers.probe_sent(cx.now);
            self.start_persist_timer(cx.now);
        }
        Some(Plan { seq: self.snd.nxt(), len, syn: false, fin: unsent == 0 })
    }

    /// Plans a keep-alive probe: a segment without data whose sequence number is before the peer's
    /// window. Any peer that has the connection answers it (RFC 9293 §3.8.4, SHLD-12).
    fn plan_keep_alive(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        if !self.timers.take_keep_alive() {
            return None;
        }
        cx.meter.count(Counter::TcpKeepAlives);
        self.statistics.count_keep_alive_probe();
        Some(Plan { seq: self.snd.una() - 1, len: 0, syn: false, fin: false })
    }

    fn plan_acknowledgment(&self) -> Option<Plan> {
        let is_ack_pending = self.acks.is_due();
        is_ack_pending.then(|| Plan {
            seq: self.snd.acceptable_seq(),
            len: 0,
            syn: false,
            fin: false,
        })
    }

    fn seal_syn(&mut self, plan: Plan, cx: &mut Cx<'_>) -> Outgoing {
        let is_answer = self.state() == State::SynReceived;
        let has_extension = |offered: bool| self.profile.extensions && (offered || !is_answer);
        let scales = has_extension(self.rcv.shift() > 0 || self.snd.shift() > 0);
        let stamps = self.profile.timestamps && has_extension(self.negotiated.has_timestamps());
        let stamped = || {
            let no_timestamp = Stamp::new(0);
            let recent = self.negotiated.ts_recent().unwrap_or(no_timestamp);
            Options::with_timestamps(self.negotiated.timestamp(cx.now), recent)
        };
        let stamped = stamps.then(stamped).unwrap_or_default();
        let fast_open = self.fast_open_option();
        // A long cookie leaves no space for the user timeout option, which is then sent later.
        let user_timeout = self.profile.user_timeout.option().filter(|_| fast_open.is_none());
        if self.profile.user_timeout.is_shared && user_timeout.is_none() {
            self.negotiated.set_must_send_user_timeout(true);
        }
        let options = Options {
            mss: Some(self.receive_mss()),
            window_scale: scales.then_some(self.rcv.shift()),
            sack_permitted: has_extension(self.negotiated.has_sack()),
            user_timeout,
            fast_open,
            ..stamped
        };
        let window = u32::try_from(self.rcv.buffer().window()).unwrap_or(u32::MAX).min(0xFFFF);
        let flags = self.syn_flags(is_answer);
        let header = Header {
            source_port: self.ends.local().port(),
            destination_port: self.ends.remote().port(),
            seq: plan.seq,
            ack: if is_answer { self.rcv.nxt() } else { Seq(0) },
            flags,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            urgent: 0,
            options,
        };
        if is_answer {
            self.acks.syn_sent(self.rcv.nxt());
        }
        if plan.len > 0 {
            cx.meter.count(Counter::TcpFastOpensOut);
        }
        self.sent(plan, cx);
        Outgoing { header, offset: 0, len: plan.len, segment_size: 0, ecn: 0 }
    }

    /// Returns the flags of a SYN (RFC 3168 §6.1.1). A retransmitted SYN does not offer ECN,
    /// because some middleboxes drop the offer.
    fn syn_flags(&self, is_answer: bool) -> Flags {
        let offers_ecn = self.profile.ecn && self.rtt.backoffs() == 0;
        match (is_answer, self.negotiated.has_ecn() && offers_ecn) {
            (true, true) => Flags::SYN.with(Flags::ACK).with(Flags::ECE),
            (true, false) => Flags::SYN.with(Flags::ACK),
            (false, _) if offers_ecn => Flags::SYN.with(Flags::ECE).with(Flags::CWR),
            (false, _) => Flags::SYN,
        }
    }

    fn seal(&mut self, plan: Plan, cx: &mut Cx<'_>) -> Outgoing {
        let window = self.rcv.window_field(self.window_to_offer());
        self.rcv.advertise(window);
        // RFC 3168 §6.1.6: a window probe MUST NOT be ECN-capable, because its loss is not
        // detected.
        let is_probe = self.snd.wnd() == 0;
        let is_new = plan.len > 0 && !is_probe && !plan.seq.is_before(self.snd.max());
        let urgent = self.urgent_pointer(plan, cx);
        let flags = self.flags(plan, urgent, is_new);
        let is_probe = is_new && self.is_path_probe(plan.seq);
        let mss = self.data_mss();
        let sack = self.negotiated.take_blocks(self.snd.mss());
        let header = Header {
            source_port: self.ends.local().port(),
            destination_port: self.ends.remote().port(),
            seq: plan.seq,
            ack: self.rcv.nxt() + self.acknowledged_hole(),
            flags,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            urgent,
            options: Options { sack, ..self.options_of(plan.len, !sack.as_slice().is_empty(), cx) },
        };
        self.count_acknowledgment(plan, cx);
        self.sent(plan, cx);
        let is_shifted = is_enabled(Mutant::RetransmitsShiftedData) && !is_new && plan.len > 0;
        let offset = self.snd.offset_of(plan.seq) + u32::from(is_shifted);
        let is_long = plan.len > mss && !is_probe;
        let segment_size = if is_long { u16::try_from(mss).unwrap_or(0) } else { 0 };
        // RFC 3168 §6.1.5: retransmissions and segments without data must not be ECN-capable.
        let ecn = if self.negotiated.has_ecn() && is_new { ECN_CAPABLE } else { 0 };
        Outgoing { header, offset, len: plan.len, segment_size, ecn }
    }

    fn acknowledged_hole(&self) -> u32 {
        u32::from(is_enabled(Mutant::AcknowledgesMissingByte) && self.rcv.buffer().has_early())
    }

    fn flags(&mut self, plan: Plan, urgent: u16, is_new: bool) -> Flags {
        let mut flags = Flags::ACK;
        // PSH marks the last byte that the user has provided (RFC 9293 §3.9.1.2).
        if plan.len > 0 && self.snd.is_end_of_data(plan.seq + plan.len) {
            flags = flags.with(Flags::PSH);
        }
        if plan.fin {
            flags = flags.with(Flags::FIN);
        }
        if urgent > 0 {
            flags = flags.with(Flags::URG);
        }
        if self.negotiated.echoes_marks() {
            flags = flags.with(Flags::ECE);
        }
        if is_new && self.negotiated.take_cwr() {
            flags = flags.with(Flags::CWR);
        }
        flags
    }

    /// Returns the options of a segment with `len` bytes of data. Options that not every segment
    /// needs are sent in segments where they take no space from the data.
    fn options_of(&mut self, len: u32, has_blocks: bool, cx: &Cx<'_>) -> Options {
        let mut options = self.negotiated.timestamps_option(cx.now);
        if self.negotiated.must_send_user_timeout() && !has_blocks && len + 4 <= self.snd.mss() {
            self.negotiated.set_must_send_user_timeout(false);
            options.user_timeout = self.profile.user_timeout.option();
        }
        options
    }

    /// Returns the offset of the byte after the urgent data, or 0 if there is none (MUST-62).
    fn urgent_pointer(&self, plan: Plan, cx: &mut Cx<'_>) -> u16 {
        let Some(up) = self.snd.up().filter(|up| up.is_after(plan.seq)) else { return 0 };
        cx.meter.count(Counter::TcpUrgentOut);
        u16::try_from(up.since(plan.seq)).unwrap_or(u16::MAX)
    }

    fn count_acknowledgment(&mut self, plan: Plan, cx: &mut Cx<'_>) {
        if plan.seg_len() == 0 {
            cx.meter.count(Counter::TcpPureAcksOut);
            self.statistics.count_pure_ack_out();
        } else if self.acks.is_pending() {
            cx.meter.count(Counter::TcpPiggybackedAcks);
            self.statistics.count_piggybacked_ack();
        }
        self.acks.sent(self.rcv.nxt());
    }

    /// Advances the send variables after a segment, and starts its timers.
    fn sent(&mut self, plan: Plan, cx: &mut Cx<'_>) {
        let len = plan.seg_len();
        let end = plan.seq + plan.seg_len();
        let is_retransmission = len > 0 && plan.seq.is_before(self.snd.max());
        self.statistics.count_segment_out();
        if is_retransmission {
            let segments = u64::from(len.div_ceil(self.snd.mss()));
            cx.meter.add(Counter::TcpRetransmissions, segments);
            self.statistics.count_retransmissions(segments);
            self.path_sent_again(plan.seq, end, cx.now);
            self.rtt.drop_syn();
        } else if plan.syn {
            self.rtt.syn_was_sent(end, cx.now);
        }
        if plan.len > 0 {
            cx.meter.record_value(Quantity::SegmentBytesOut, u64::from(plan.len));
        }
        if len == 0 {
            return;
        }
        self.activity.sent(cx.now);
        let was_held_up = self.timers.replace_held_up(false);
        self.snd.sent_up_to(end);
        let is_first_unacknowledged = plan.seq == self.snd.una();
        if plan.syn {
            // After a retransmitted SYN, early data may be outstanding.
            self.snd.set_nxt(if self.is_open_early() { self.snd.nxt().max(end) } else { end });
        } else if plan.seq != self.snd.nxt() {
            self.recovery().sent_again(plan.seq, len, cx.now);
        } else if self.snd.wnd() > 0 {
            // Data in a window probe is not counted as sent until it is acknowledged.
            self.recovery().sent(len, cx.now);
            self.snd.set_nxt(end);
        }
        let restarts_timer = (is_retransmission || was_held_up) && is_first_unacknowledged;
        if self.timers.retransmit().is_none() || plan.syn || restarts_timer {
            self.restart_retransmit_timer(cx.now);
        }
        if self.recovery.end_tail_probe() {
            self.recovery().tail_probe_sent(is_retransmission);
        }
        if let Some(recovery) = self.recovery.full_mut() {
            recovery.start_probe_timer(self.rtt.srtt(), self.timers.retransmit(), cx.now);
        }
    }
}

/// ECT(0) of RFC 3168 §5.
const ECN_CAPABLE: u8 = 0b10;
