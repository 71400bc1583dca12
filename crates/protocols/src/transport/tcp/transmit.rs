//! What to send next: SYN, retransmission, data and FIN, window probe, acknowledgment.
//!
//! Segments are not made where the need for them arises. Whatever arrives, whatever the user asks
//! and whatever times out only changes the state; [`Connection::transmit`] is called at output,
//! after the application has run, and makes as few segments as pay all that is owed (TM-233
//! §3.3). So echo, acknowledgment and window share one segment.

use super::connection::{AckOwed, Connection, State, Timed};
use super::header::{Flags, Header, Options};
use super::seq::Seq;
use crate::cx::Cx;
use crate::meter::{Counter, Quantity};

/// A segment to be sent: its header, and where its data lies in the send buffer.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) header: Header,
    pub(super) offset: u32,
    pub(super) len: u32,
    /// Data bytes of each segment that the device is to make of it; 0 if it is one segment.
    pub(super) segment_size: u16,
}

/// What a segment carries.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seq: Seq,
    len: u32,
    syn: bool,
    fin: bool,
}

impl Plan {
    /// SEG.LEN: the numbers that the segment takes.
    const fn seg_len(self) -> u32 {
        self.len + self.syn as u32 + self.fin as u32
    }
}

impl Connection {
    /// Returns the next segment; call until None. One of `super_segment_max` data bytes at most
    /// may be longer than the peer takes: the device cuts it.
    pub(super) fn transmit(&mut self, super_segment_max: u32, cx: &mut Cx<'_>) -> Option<Outgoing> {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            if let Some(plan) = self.plan_syn() {
                return Some(self.seal_syn(plan, cx));
            }
            if !self.is_open_early() {
                return None;
            }
        }
        if self.must_abort {
            return None;
        }
        let plan = self
            .plan_retransmission()
            .or_else(|| self.plan_data(super_segment_max, cx))
            .or_else(|| self.plan_probe(cx))
            .or_else(|| self.plan_keep_alive(cx))
            .or_else(|| self.plan_acknowledgment());
        plan.map(|plan| self.seal(plan, cx))
    }

    fn plan_syn(&self) -> Option<Plan> {
        let is_due = self.snd_nxt == self.iss || self.ack_owed == AckOwed::Now;
        let len = self.syn_data_len();
        is_due.then_some(Plan { seq: self.iss, len, syn: true, fin: false })
    }

    /// One segment from the first unacknowledged byte on, without going back (RFC 5681 §3.2).
    fn plan_retransmission(&mut self) -> Option<Plan> {
        if !core::mem::take(&mut self.must_retransmit) || self.snd_una == self.snd_max {
            return None;
        }
        let sent = self.snd_max.since(self.snd_una);
        let held = self.send.len();
        let len = sent.min(held).min(self.snd_mss);
        let fin = self.is_closing && len == held && sent > held;
        Some(Plan { seq: self.snd_una, len, syn: false, fin })
    }

    fn plan_data(&mut self, super_segment_max: u32, cx: &mut Cx<'_>) -> Option<Plan> {
        let may_emit = self.state.emits_data() || self.is_open_early();
        if !may_emit || self.snd_nxt == self.snd_end() {
            return None;
        }
        self.restart_after_idle(cx);
        let unsent = self.send.len().saturating_sub(self.snd_nxt.since(self.send_start));
        let window = self.snd_wnd.min(self.congestion.allowance());
        let usable = window.saturating_sub(self.outstanding());
        let len = self.whole_segments(unsent.min(usable), unsent, super_segment_max);
        let fin = self.is_closing && len == unsent && usable > len;
        if (len == 0 && !fin) || !self.is_worth_sending(len, unsent, fin) {
            // With nothing outstanding only the peer's window can be what holds the data back.
            if self.outstanding() == 0 && !self.must_probe {
                self.start_persist_timer(cx.now);
            }
            return None;
        }
        Some(Plan { seq: self.snd_nxt, len, syn: false, fin })
    }

    /// Cuts `len` to what one segment carries, or to whole segments of which the device makes a
    /// super-segment: its short last one would wait or not as if it were alone.
    fn whole_segments(&self, len: u32, unsent: u32, super_segment_max: u32) -> u32 {
        let is_urgent = self.snd_up.is_some_and(|up| up.is_after(self.snd_nxt));
        let segments = if is_urgent { 1 } else { (super_segment_max / self.snd_mss).max(1) };
        let whole = len.min(segments * self.snd_mss);
        let may_end_short = whole == unsent && !self.profile.nagle;
        let is_long = whole > self.snd_mss;
        if is_long && !may_end_short { whole - whole % self.snd_mss } else { whole }
    }

    /// Sender's silly window avoidance (RFC 9293 §3.8.6.2.1) and Nagle (§3.7.4).
    fn is_worth_sending(&self, len: u32, unsent: u32, fin: bool) -> bool {
        // In an early answer the SYN is outstanding, and no small segment.
        let is_first = self.is_open_early() && self.snd_nxt == self.send_start;
        let may_be_small = !self.profile.nagle || self.outstanding() == 0 || is_first;
        let is_urgent = self.snd_up.is_some_and(|up| up.is_after(self.snd_nxt));
        len >= self.snd_mss
            || fin
            || self.snd_nxt.is_before(self.snd_max)
            || (len == unsent && (may_be_small || is_urgent))
            || (len >= self.snd_wnd_max / 2 && may_be_small)
    }

    /// RFC 5681 §4.1: a window that was not used for a timeout says nothing about the network.
    fn restart_after_idle(&mut self, cx: &Cx<'_>) {
        if self.snd_max == self.snd_una && cx.now - self.last_sent_at > self.rtt.rto() {
            self.congestion.restart_after_idle();
        }
    }

    /// One byte, or what the small window takes, or the FIN (RFC 9293 §3.8.6.1, MUST-36).
    fn plan_probe(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        let is_due = core::mem::take(&mut self.must_probe) && self.state.emits_data();
        if !is_due || self.snd_nxt == self.snd_end() || self.outstanding() > 0 {
            return None;
        }
        let unsent = self.send.len().saturating_sub(self.snd_nxt.since(self.send_start));
        let len = unsent.min(self.snd_wnd.max(1)).min(self.snd_mss);
        if self.snd_wnd == 0 {
            cx.meter.count(Counter::TcpWindowProbes);
            self.statistics.window_probes += 1;
            self.timers.persist_backoffs += 1;
            self.timers.probing_since.get_or_insert(cx.now);
            self.start_persist_timer(cx.now);
        }
        Some(Plan { seq: self.snd_nxt, len, syn: false, fin: unsent == 0 })
    }

    /// A segment without data from before the window, which any peer that knows the connection
    /// answers (RFC 9293 §3.8.4, SHLD-12).
    fn plan_keep_alive(&mut self, cx: &mut Cx<'_>) -> Option<Plan> {
        if !core::mem::take(&mut self.must_keep_alive) || self.state == State::Closed {
            return None;
        }
        cx.meter.count(Counter::TcpKeepAlives);
        self.statistics.keep_alive_probes += 1;
        Some(Plan { seq: self.snd_una - 1, len: 0, syn: false, fin: false })
    }

    fn plan_acknowledgment(&self) -> Option<Plan> {
        let is_owed = self.ack_owed == AckOwed::Now && self.state != State::Closed;
        // SND.NXT of the RFC is the highest number sent, also while we go back; but the peer takes
        // none beyond its window, which a probe is, and all else if the window has shrunk.
        let seq = self.snd_max.min(self.snd_una + self.snd_wnd);
        is_owed.then_some(Plan { seq, len: 0, syn: false, fin: false })
    }

    fn seal_syn(&mut self, plan: Plan, cx: &mut Cx<'_>) -> Outgoing {
        let is_answer = self.state == State::SynReceived;
        let has_extension = |offered: bool| self.profile.extensions && (offered || !is_answer);
        let scales = has_extension(self.rcv_shift > 0 || self.snd_shift > 0);
        let stamps = has_extension(self.ts_recent.is_some());
        let options = Options {
            mss: Some(self.receive_mss()),
            window_scale: scales.then_some(self.rcv_shift),
            timestamps: stamps.then(|| (self.timestamp(cx.now), self.ts_recent.unwrap_or(0))),
            user_timeout: self.profile.patience.option(),
            fast_open: self.fast_open_option(),
        };
        let window = u32::try_from(self.profile.receive_window).unwrap_or(u32::MAX).min(0xFFFF);
        let flags = if is_answer { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        let header = Header {
            source_port: self.ends.local.port(),
            destination_port: self.ends.remote.port(),
            seq: plan.seq,
            ack: if is_answer { self.rcv_nxt } else { Seq(0) },
            flags,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            urgent: 0,
            options,
        };
        if is_answer {
            self.ack_owed = AckOwed::Nothing;
            self.last_ack_sent = self.rcv_nxt;
        }
        if plan.len > 0 {
            cx.meter.count(Counter::TcpFastOpensOut);
        }
        self.sent(plan, cx);
        Outgoing { header, offset: 0, len: plan.len, segment_size: 0 }
    }

    fn seal(&mut self, plan: Plan, cx: &mut Cx<'_>) -> Outgoing {
        let window = self.window_to_offer().div_ceil(1 << self.rcv_shift).min(0xFFFF);
        let told = self.rcv_nxt + (window << self.rcv_shift);
        self.rcv_adv = self.rcv_adv.max(told);
        let mut flags = Flags::ACK;
        // Nothing waits behind the last byte that the user gave (RFC 9293 §3.9.1.2).
        if plan.len > 0 && plan.seq + plan.len == self.send_start + self.send.len() {
            flags = flags.with(Flags::PSH);
        }
        if plan.fin {
            flags = flags.with(Flags::FIN);
        }
        let urgent = self.urgent_pointer(plan, cx);
        if urgent > 0 {
            flags = flags.with(Flags::URG);
        }
        let header = Header {
            source_port: self.ends.local.port(),
            destination_port: self.ends.remote.port(),
            seq: plan.seq,
            ack: self.rcv_nxt,
            flags,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            urgent,
            options: self.options_of(plan.len, cx),
        };
        self.count_acknowledgment(plan, cx);
        self.sent(plan, cx);
        let offset = plan.seq.since(self.send_start);
        let is_long = plan.len > self.snd_mss;
        let segment_size = if is_long { u16::try_from(self.snd_mss).unwrap_or(0) } else { 0 };
        Outgoing { header, offset, len: plan.len, segment_size }
    }

    /// The options of a segment with `len` bytes of data; what is not due in every one goes where
    /// it takes no room from the data.
    fn options_of(&mut self, len: u32, cx: &Cx<'_>) -> Options {
        let mut options = self.options(cx.now);
        if self.must_tell_timeout && len + 4 <= self.snd_mss {
            self.must_tell_timeout = false;
            options.user_timeout = self.profile.patience.option();
        }
        options
    }

    /// The offset of the byte behind the urgent data, or 0 (MUST-62).
    fn urgent_pointer(&self, plan: Plan, cx: &mut Cx<'_>) -> u16 {
        let Some(up) = self.snd_up.filter(|up| up.is_after(plan.seq)) else { return 0 };
        cx.meter.count(Counter::TcpUrgentOut);
        u16::try_from(up.since(plan.seq)).unwrap_or(u16::MAX)
    }

    fn count_acknowledgment(&mut self, plan: Plan, cx: &mut Cx<'_>) {
        if plan.seg_len() == 0 {
            cx.meter.count(Counter::TcpPureAcksOut);
            self.statistics.pure_acks_out += 1;
        } else if self.ack_owed != AckOwed::Nothing {
            cx.meter.count(Counter::TcpPiggybackedAcks);
            self.statistics.piggybacked_acks += 1;
        }
        self.ack_owed = if self.duplicate_acks_owed > 0 { AckOwed::Now } else { AckOwed::Nothing };
        self.duplicate_acks_owed = self.duplicate_acks_owed.saturating_sub(1);
        self.unacknowledged = 0;
        self.last_ack_sent = self.rcv_nxt;
    }

    /// Moves the send variables behind the segment and starts what times it.
    fn sent(&mut self, plan: Plan, cx: &mut Cx<'_>) {
        let end = plan.seq + plan.seg_len();
        let is_again = plan.seg_len() > 0 && plan.seq.is_before(self.snd_max);
        self.statistics.segments_out += 1;
        if is_again {
            cx.meter.count(Counter::TcpRetransmissions);
            self.statistics.retransmissions += 1;
            self.timed = None;
        } else if plan.seg_len() > 0 && self.timed.is_none() {
            self.timed = Some(Timed { end, sent_at: cx.now });
        }
        if plan.len > 0 {
            cx.meter.record_value(Quantity::SegmentBytesOut, u64::from(plan.len));
        }
        if plan.seg_len() == 0 {
            return;
        }
        self.last_sent_at = cx.now;
        // What probes a shut window is not counted as sent until it is taken.
        if plan.seq == self.snd_nxt && (plan.syn || self.snd_wnd > 0) {
            self.snd_nxt = end;
        }
        self.snd_nxt = self.snd_nxt.max(self.snd_una);
        self.snd_max = self.snd_max.max(end);
        if self.timers.retransmit.is_none() {
            self.restart_retransmit_timer(cx.now);
        }
    }
}
