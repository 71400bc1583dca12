//! SEGMENT ARRIVES (RFC 9293 §3.10.7). Each check of the RFC is one function, and the functions
//! have the order of the RFC.
//!
//! The third check, security and compartment, is left out: it is not used today, and RFC 9293
//! §3.10.7.4 allows the omission. Blind attacks are answered as RFC 5961 specifies. A segment that
//! is acceptable but does not match exactly is answered by a challenge acknowledgment. The number
//! of challenge acknowledgments per connection and second is limited.

use super::connection::Connection;
use super::header::{Flags, Header};
use super::lifecycle::State;
use super::recovery::{Acknowledged, Outcome};
use super::seq::Seq;
use super::status::{CloseReason, Event};
use crate::cx::Cx;
use crate::meter::{Counter, Quantity};
use crate::mutants::{Mutant, is_enabled};
use crate::time::{Duration, Instant};
use core::ops::ControlFlow::{self, Break, Continue};

/// Tick of the timestamp clock.
const TIMESTAMP_TICK: Duration = Duration::from_millis(1);

/// The segment being processed. Data that was already received is removed from its front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) header: Header,
    pub(super) data: &'a [u8],
    /// Whether a router has marked the segment because of congestion (RFC 3168).
    pub(super) is_marked: bool,
    /// Whether the data may stay in its packet until it is read.
    pub(super) may_keep: bool,
    /// Number of bytes by which the connection's buffers may grow.
    pub(super) growth_max: usize,
    /// Whether a buffer would have grown by more than this number.
    pub(super) is_growth_refused: bool,
    /// Data to keep in the packet: its offset, and its length in bytes.
    pub(super) kept: Option<(usize, usize)>,
}

/// The answer that the caller must send after a segment was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    /// Reset the sender of the segment.
    Reset,
}

pub(super) type Check = ControlFlow<Answer>;

impl Arrival<'_> {
    /// Returns a segment without data.
    pub(super) fn of_header(header: Header) -> Self {
        Self {
            header,
            data: &[],
            is_marked: false,
            may_keep: false,
            growth_max: 0,
            is_growth_refused: false,
            kept: None,
        }
    }

    pub(super) fn has(&self, flags: Flags) -> bool {
        self.header.flags.has(flags)
    }

    /// Returns SEG.LEN: the number of data bytes, plus one each for SYN and FIN.
    fn seg_len(&self) -> u32 {
        let data = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        data + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }

    /// Returns the sequence number after the data. If the segment has a FIN, this is the FIN's
    /// sequence number.
    pub(super) fn data_end(&self) -> Seq {
        self.header.seq + u32::try_from(self.data.len()).unwrap_or(u32::MAX)
    }
}

impl Connection {
    /// Processes a segment in any state but LISTEN and CLOSED.
    pub(super) fn segment_arrives(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) -> Answer {
        self.statistics.count_segment_in();
        let checks = if self.state() == State::SynSent {
            self.syn_sent(Arrival { may_keep: false, ..*arrival }, cx)
        } else {
            self.checks(arrival, cx)
        };
        match checks {
            Break(answer) => answer,
            Continue(()) => Answer::Nothing,
        }
    }

    fn checks(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        self.accept_repeated_syn(arrival);
        self.check_timestamp(arrival, cx)?;
        self.check_sequence(arrival, cx)?;
        self.check_reset(arrival, cx)?;
        self.check_syn(arrival, cx)?;
        self.check_ack(arrival, cx)?;
        self.check_time_wait(arrival, cx)?;
        self.activity.received(cx.now);
        self.record_timestamp(arrival, cx.now);
        self.negotiated.record_user_timeout(&arrival.header);
        self.check_urgent(arrival, cx);
        self.process_text(arrival, cx)?;
        self.check_fin(arrival, cx);
        Continue(())
    }

    /// Processes a segment in SYN-SENT (§3.10.7.3).
    fn syn_sent(&mut self, arrival: Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        let header = arrival.header;
        let acknowledges = arrival.has(Flags::ACK);
        if acknowledges && !self.snd.acknowledges_syn(header.ack) {
            cx.meter.count(Counter::TcpAcksUnsent);
            let answer = if arrival.has(Flags::RST) { Answer::Nothing } else { Answer::Reset };
            return Break(answer);
        }
        if arrival.has(Flags::RST) {
            if acknowledges {
                cx.meter.count(Counter::TcpResets);
                self.end(CloseReason::Refused);
            } else {
                cx.meter.count(Counter::TcpResetsIgnored);
            }
            return Break(Answer::Nothing);
        }
        if !arrival.has(Flags::SYN) {
            return Break(Answer::Nothing);
        }
        self.synchronize(&header);
        self.negotiated.set_ts_recent_at(cx.now);
        self.activity.received(cx.now);
        if !acknowledges {
            // Simultaneous open (MUST-10): the SYN is sent again, with an acknowledgment.
            self.lifecycle.receive_syn();
            self.acks.send_now();
            return Continue(());
        }
        self.process_syn_answer(&header);
        self.enter_established(cx);
        self.acks.send_now();
        // The handshake is complete, so data and FIN of the SYN may be processed.
        let mut rest = arrival;
        rest.header.seq = header.seq + 1;
        rest.header.flags = header.flags.without(Flags::SYN);
        self.check_urgent(&rest, cx);
        self.process_text(&mut rest, cx)?;
        self.check_fin(&rest, cx);
        Continue(())
    }

    /// Enters ESTABLISHED: the local SYN is acknowledged.
    fn enter_established(&mut self, cx: &mut Cx<'_>) {
        self.lifecycle.establish(self.snd.is_closing());
        self.timers.retransmitted();
        self.reports.clear_soft_error();
        self.recovery.set_starts_with_one_segment(self.rtt.backoffs() > 1);
        if self.rtt.backoffs() > 0 {
            self.rtt.syn_was_lost();
        }
        self.record_measurement(self.snd.una(), cx);
        // Data sent before the end of the handshake (Fast Open) may be outstanding.
        self.restart_retransmit_timer(cx.now);
        self.activity.received(cx.now);
        self.start_keep_alive_timer();
        if !self.lifecycle.has_early_data() {
            self.reports.push(Event::Established);
        }
    }

    /// Accepts a repeated SYN of the peer in SYN-RECEIVED. In a simultaneous open, the repeated SYN
    /// also carries an acknowledgment. The rest of the segment is then processed as a segment
    /// without SYN (RFC 9293 figure 7).
    fn accept_repeated_syn(&mut self, arrival: &mut Arrival<'_>) {
        let is_repeated = self.state() == State::SynReceived
            && arrival.has(Flags::SYN)
            && !arrival.has(Flags::RST)
            && arrival.header.seq == self.rcv.irs();
        if is_repeated {
            // The window of a SYN is never scaled (RFC 7323 §2.2).
            arrival.header.window >>= self.snd.shift();
            arrival.header.seq = self.rcv.irs() + 1;
            arrival.header.flags = arrival.header.flags.without(Flags::SYN);
            self.acks.send_now();
        }
    }

    /// Checks the timestamp: a segment with an older timestamp is an old duplicate (PAWS, RFC 7323
    /// §5.3).
    fn check_timestamp(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        if !self.negotiated.has_timestamps() || arrival.has(Flags::RST) {
            return Continue(());
        }
        let Some((value, _)) = arrival.header.options.peer_timestamps() else {
            // RFC 7323 §3.2: once timestamps are negotiated, every segment must contain them.
            cx.meter.count(Counter::TcpPawsDropped);
            return Break(Answer::Nothing);
        };
        if self.negotiated.is_old_timestamp(value, cx.now) {
            cx.meter.count(Counter::TcpPawsDropped);
            self.answer_outdated(arrival, cx);
            return Break(Answer::Nothing);
        }
        Continue(())
    }

    /// First: check sequence number.
    fn check_sequence(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        let seq = arrival.header.seq;
        let len = arrival.seg_len();
        if self.rcv.is_acceptable(seq, len) {
            return Continue(());
        }
        cx.meter.count(Counter::TcpOutsideWindow);
        let is_last = arrival.has(Flags::FIN) && arrival.header.seq + len == self.rcv.nxt();
        if arrival.has(Flags::RST) {
            cx.meter.count(Counter::TcpResetsIgnored);
        } else if self.state() == State::TimeWait && is_last {
            // The peer repeats its FIN, because the acknowledgment was lost.
            self.acks.send_now();
            self.enter_time_wait(cx.now);
        } else if len > 0 && !arrival.has(Flags::SYN) {
            // The peer repeats the last acknowledged segment, because the acknowledgment was lost.
            // The new timestamp is echoed. Otherwise the peer would measure the time since its
            // first transmission.
            if arrival.header.seq + len == self.acks.last_sent() && self.is_plausible(arrival) {
                self.record_timestamp(arrival, cx.now);
            }
            self.negotiated
                .add_duplicate_block(arrival.header.seq, arrival.data_end().min(self.rcv.nxt()));
            self.acks.send_now();
        } else {
            // The rate limit of challenges prevents an endless exchange of acknowledgments between
            // two ends with contradictory states.
            self.challenge(cx);
        }
        Break(Answer::Nothing)
    }

    fn is_plausible(&self, arrival: &Arrival<'_>) -> bool {
        arrival.has(Flags::ACK) && self.snd.is_plausible_ack(arrival.header.ack)
    }

    /// Records the timestamp to echo. RFC 7323 §4.3: only a segment that contains the last
    /// acknowledged sequence number sets it.
    fn record_timestamp(&mut self, arrival: &Arrival<'_>, now: Instant) {
        if let Some((value, _)) = arrival.header.options.peer_timestamps()
            && !arrival.header.seq.is_after(self.acks.last_sent())
        {
            self.negotiated.record_timestamp(value, now);
        }
    }

    /// Second: check the RST bit (RFC 5961 §3; RFC 1337 in TIME-WAIT).
    fn check_reset(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        if !arrival.has(Flags::RST) {
            return Continue(());
        }
        if self.state() == State::TimeWait || is_enabled(Mutant::IgnoresReset) {
            cx.meter.count(Counter::TcpResetsIgnored);
        } else if arrival.header.seq != self.rcv.nxt() {
            cx.meter.count(Counter::TcpResetsIgnored);
            self.challenge(cx);
        } else {
            cx.meter.count(Counter::TcpResets);
            let is_opening = self.state() == State::SynReceived && !self.lifecycle.is_passive();
            self.end(if is_opening { CloseReason::Refused } else { CloseReason::Reset });
        }
        Break(Answer::Nothing)
    }

    /// Fourth: check the SYN bit (RFC 5961 §4).
    fn check_syn(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        if !arrival.has(Flags::SYN) {
            return Continue(());
        }
        self.challenge(cx);
        Break(Answer::Nothing)
    }

    /// Fifth: check the ACK field.
    fn check_ack(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        if !arrival.has(Flags::ACK) {
            return Break(Answer::Nothing);
        }
        let ack = arrival.header.ack;
        if self.state() == State::SynReceived {
            if !self.snd.acknowledges_syn(ack) {
                cx.meter.count(Counter::TcpAcksUnsent);
                return Break(Answer::Reset);
            }
            self.snd.acknowledge_syn_received();
            self.acks.cancel();
            self.update_window(arrival);
            self.enter_established(cx);
            if ack == self.snd.una() {
                return Continue(());
            }
        }
        if ack.is_after(self.snd.max()) {
            cx.meter.count(Counter::TcpAcksUnsent);
            self.challenge(cx);
            return Break(Answer::Nothing);
        }
        if self.snd.is_too_old(ack) {
            cx.meter.count(Counter::TcpAcksTooOld);
            self.challenge(cx);
            return Break(Answer::Nothing);
        }
        let is_duplicate = self.is_duplicate(arrival);
        if is_duplicate {
            cx.meter.count(Counter::TcpDuplicateAcks);
            self.statistics.count_duplicate_ack();
        }
        let is_more = is_enabled(Mutant::ComparesWithoutWrap) && ack.0 <= self.snd.una().0;
        let has_advanced = ack.is_after(self.snd.una()) && !is_more;
        let buffered_len = self.snd.buffered_len();
        if has_advanced {
            let count = ack.since(self.snd.una());
            self.process_acknowledgment(ack);
            self.path_acknowledged(ack, count, cx.now);
        }
        if is_enabled(Mutant::AcknowledgesAcknowledgments) {
            self.acks.send_now();
        }
        self.recover(arrival, is_duplicate, has_advanced, cx);
        if has_advanced {
            self.tune_send_limit(buffered_len, arrival, cx);
        }
        self.update_window_if_newer(arrival);
        self.closing_acknowledged(cx)
    }

    fn process_acknowledgment(&mut self, ack: Seq) {
        let data = self.snd.acknowledge(ack);
        self.statistics.count_bytes_acknowledged(data);
        self.reports.clear_soft_error();
        self.timers.retransmitted();
        if data > 0 {
            self.reports.push(Event::Writable);
        }
    }

    /// Applies the acknowledgment number and the SACK blocks to the outstanding data (RFC 6675, RFC
    /// 8985).
    fn recover(
        &mut self,
        arrival: &Arrival<'_>,
        is_duplicate: bool,
        has_advanced: bool,
        cx: &mut Cx<'_>,
    ) {
        let options = &arrival.header.options;
        let blocks = if self.negotiated.has_sack() { options.sack.as_slice() } else { &[] };
        if !has_advanced && !is_duplicate && blocks.is_empty() {
            return self.process_ece(arrival, cx);
        }
        let report = Acknowledged {
            ack: arrival.header.ack,
            blocks,
            is_duplicate,
            is_ack_of_original: self.is_ack_of_original(arrival),
            srtt: self.rtt.srtt(),
        };
        let Some(recovery) = self.recovery.full_mut() else { return };
        let outcome = recovery.acknowledged(&report, cx.now);
        self.measure(&outcome, arrival, has_advanced, cx);
        if outcome.is_eventful() {
            self.count_outcome(&outcome, cx);
            self.forgive_lost_probe(outcome.began_recovery);
        }
        self.process_ece(arrival, cx);
        if has_advanced {
            self.recovery.cancel_tail_probe();
            self.restart_retransmit_timer(cx.now);
        }
        let Some(recovery) = self.recovery.full_mut() else { return };
        recovery.start_probe_timer(self.rtt.srtt(), self.timers.retransmit(), cx.now);
        if self.profile.pacing {
            recovery.set_pace(self.rtt.srtt());
        }
    }

    /// Undoes a recovery if only a path MTU probe was lost, because such a loss is no sign of
    /// congestion (RFC 4821 §7.6.1).
    pub(super) fn forgive_lost_probe(&mut self, began_recovery: bool) {
        if began_recovery
            && self.only_probe_is_lost()
            && let Some(recovery) = self.recovery.full_mut()
        {
            recovery.forgive();
        }
    }

    fn count_outcome(&mut self, outcome: &Outcome, cx: &mut Cx<'_>) {
        if outcome.began_recovery {
            cx.meter.count(Counter::TcpFastRetransmits);
            self.statistics.count_fast_retransmit();
        }
        if outcome.undone {
            cx.meter.count(Counter::TcpRecoveriesUndone);
            self.statistics.count_undone();
        }
        if outcome.duplicate_bytes {
            cx.meter.count(Counter::TcpDuplicateReports);
            self.statistics.count_duplicate_report();
        }
        if outcome.was_reordered {
            cx.meter.count(Counter::TcpReordered);
        }
        if outcome.has_reneged {
            cx.meter.count(Counter::TcpReneged);
        }
        if outcome.refused_blocks > 0 {
            cx.meter.add(Counter::TcpBlocksRefused, u64::from(outcome.refused_blocks));
        }
    }

    /// Returns whether the echoed timestamp is older than the first retransmission (RFC 3522 §3.2).
    fn is_ack_of_original(&self, arrival: &Arrival<'_>) -> bool {
        let first = self.recovery.full().and_then(|recovery| recovery.first_retransmission_at());
        let first = first.filter(|_| self.negotiated.has_timestamps());
        let echo = arrival.header.options.peer_timestamps().map(|(_, echo)| echo);
        first.zip(echo).is_some_and(|(at, echo)| echo.is_before(self.negotiated.timestamp(at)))
    }

    /// Processes ECE: the peer has received a segment with a congestion mark (RFC 3168 §6.1.2).
    fn process_ece(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        let is_echo = self.negotiated.has_ecn() && arrival.has(Flags::ECE);
        if is_echo && self.recovery.full_mut().is_some_and(|recovery| recovery.process_mark()) {
            cx.meter.count(Counter::TcpMarkReductions);
            self.statistics.count_ecn_reduction();
            self.negotiated.window_was_reduced();
        }
    }

    /// Processes the congestion mark of a segment. The mark is echoed until the peer reports a
    /// reduced window (CWR, RFC 3168 §6.1.3).
    fn process_congestion_mark(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        if !self.negotiated.has_ecn() {
            return;
        }
        self.negotiated.record_mark(arrival.has(Flags::CWR), arrival.is_marked);
        if arrival.is_marked {
            cx.meter.count(Counter::TcpMarksIn);
            self.statistics.count_ecn_mark();
        }
    }

    fn record_measurement(&mut self, ack: Seq, cx: &mut Cx<'_>) {
        if let Some(rtt) = self.rtt.syn_acknowledged(ack, cx.now) {
            cx.meter.record(Quantity::RoundTrip, rtt);
        }
    }

    /// Records the round-trip time that an acknowledgment measures. If acknowledgments were lost,
    /// the echoed timestamp is more accurate. After a timeout only the echoed timestamp shows which
    /// transmission was acknowledged (RFC 7323 §4.1).
    fn measure(
        &mut self,
        outcome: &Outcome,
        arrival: &Arrival<'_>,
        has_advanced: bool,
        cx: &mut Cx<'_>,
    ) {
        let echo = self.rtt_by_echo(arrival, cx.now).filter(|_| has_advanced);
        let sample = match (outcome.rtt, echo) {
            _ if outcome.duplicate_bytes => match self.rtt_since_repetition(cx.now) {
                Some(rtt) if has_advanced => rtt,
                _ => return,
            },
            (Some(rtt), Some(echo)) => rtt.min(echo + TIMESTAMP_TICK),
            (Some(rtt), None) => rtt,
            (None, Some(echo)) if self.rtt.backoffs() > 0 => echo.max(TIMESTAMP_TICK),
            (None, _) => return,
        };
        self.rtt.measured(sample);
        cx.meter.record(Quantity::RoundTrip, sample);
    }

    /// Returns the time since the last transmission, for an acknowledgment that reports a
    /// duplicate.
    ///
    /// The peer already had all the acknowledged data, and an earlier acknowledgment was lost. The
    /// time since the first transmission would include the timeout. With frequent losses, each such
    /// measurement would lengthen the next timeout. Returns `None` if the acknowledgment is too
    /// early to be the answer to the last transmission.
    fn rtt_since_repetition(&self, now: Instant) -> Option<Duration> {
        let min_rtt = self.recovery.full().and_then(|recovery| recovery.min_rtt())?;
        Some(now - self.activity.last_sent_at())
            .filter(|rtt| *rtt >= min_rtt && self.rtt.backoffs() > 0)
    }

    /// Returns the time since the peer's echoed timestamp was sent, in whole ticks. The result is
    /// limited to the longest plausible time, because the echo may be forged.
    pub(super) fn rtt_by_echo(&self, arrival: &Arrival<'_>, now: Instant) -> Option<Duration> {
        self.negotiated.ts_recent()?;
        let (_, echo) = arrival.header.options.peer_timestamps()?;
        let millis = self.negotiated.timestamp(now).since(echo);
        (millis < 120_000).then(|| Duration::from_millis(u64::from(millis)))
    }

    /// Returns whether the acknowledgment is a duplicate as defined in RFC 5681 §2.
    fn is_duplicate(&self, arrival: &Arrival<'_>) -> bool {
        let window = self.snd.window_of(arrival.header.window);
        arrival.header.ack == self.snd.una()
            && self.snd.outstanding() > 0
            && arrival.seg_len() == 0
            && window == self.snd.wnd()
            && window > 0
    }

    fn update_window_if_newer(&mut self, arrival: &Arrival<'_>) {
        if self.snd.is_window_newer(arrival.header.seq, arrival.header.ack) {
            self.update_window(arrival);
        }
    }

    fn update_window(&mut self, arrival: &Arrival<'_>) {
        let window = self.snd.window_of(arrival.header.window);
        self.snd.set_window(window, arrival.header.seq, arrival.header.ack);
        if window > 0 {
            self.timers.window_opened();
        }
    }

    /// Changes the state after the acknowledgment of the local FIN.
    fn closing_acknowledged(&mut self, cx: &mut Cx<'_>) -> Check {
        if !self.snd.fin_is_acknowledged() {
            return Continue(());
        }
        match self.state() {
            State::FinWait1 => {
                self.lifecycle.acknowledge_fin();
                self.limit_released(cx.now);
            }
            State::Closing => self.enter_time_wait(cx.now),
            State::LastAck => {
                self.end(CloseReason::Closed);
                return Break(Answer::Nothing);
            }
            _ => {}
        }
        Continue(())
    }

    /// Answers a segment in TIME-WAIT. A peer that continues to send gets an acknowledgment with
    /// the current sequence numbers.
    fn check_time_wait(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        let continues_sending = arrival.seg_len() > 0 || arrival.header.seq != self.rcv.nxt();
        if self.state() != State::TimeWait || !continues_sending {
            return Continue(());
        }
        self.challenge(cx);
        Break(Answer::Nothing)
    }

    /// Sixth: check the URG bit. The pointer is the offset of the byte after the urgent data (RFC
    /// 6093), so a pointer of zero marks nothing as urgent (row 35 of the attack table).
    fn check_urgent(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        let is_set = arrival.has(Flags::URG) && arrival.header.urgent > 0;
        if !is_set || !self.state().expects_data() {
            return;
        }
        let up = arrival.header.seq + u32::from(arrival.header.urgent);
        if self.rcv.set_urgent(up) {
            cx.meter.count(Counter::TcpUrgentIn);
            self.reports.push(Event::Urgent);
        }
    }

    /// Seventh: process the segment text.
    pub(super) fn process_text(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) -> Check {
        let is_expected = self.state().expects_data() || self.is_open_early();
        if arrival.data.is_empty() || !is_expected {
            return Continue(());
        }
        let whole_len = arrival.data.len();
        cx.meter.record_value(Quantity::SegmentBytesIn, whole_len as u64);
        self.process_congestion_mark(arrival, cx);
        let has_old_data = self.cut_off_old(arrival, cx);
        if self.lifecycle.is_released() && !arrival.data.is_empty() {
            // SHLD-3: the data will not be read, so the connection is reset to notify the peer.
            cx.meter.count(Counter::TcpDataAfterClose);
            self.end(CloseReason::Reset);
            return Break(Answer::Reset);
        }
        let offset = arrival.header.seq.since(self.rcv.nxt()) as usize;
        let len = arrival.data.len();
        let window = (self.rcv.wnd() as usize).saturating_sub(offset);
        let in_window = arrival.data.get(..window.min(len)).unwrap_or_default();
        let early = self.early_duplicate(offset, in_window.len()).filter(|_| !has_old_data);
        if let Some((start, end)) = early {
            self.negotiated.add_duplicate_block(start, end);
        }
        let had_early = self.rcv.buffer().has_early();
        self.rcv.record_len(whole_len);
        // Data before a FIN is copied. Data in a kept packet would become readable only after
        // `check_fin`.
        let is_last = arrival.has(Flags::FIN) || self.rcv.has_early_fin();
        let may_keep = arrival.may_keep && !is_last;
        let newly_readable = if may_keep && self.rcv.buffer().would_keep(offset, in_window.len()) {
            arrival.kept = Some((whole_len - len, in_window.len()));
            in_window.len()
        } else {
            self.rcv.put(offset, in_window, cx.meter)
        };
        if offset > 0 {
            cx.meter.count(Counter::TcpOutOfOrder);
            self.statistics.count_out_of_order();
            // With SACK a single answer with all blocks is enough.
            if !self.negotiated.has_sack() {
                self.acks.add_duplicate();
            }
        }
        self.rcv.advance(newly_readable);
        self.statistics.count_bytes_in(newly_readable);
        if newly_readable > 0 {
            self.reports.push(Event::Readable);
        }
        self.tune_receive_window(arrival, cx);
        self.record_blocks(offset, in_window.len());
        // RFC 5681 §4.2: a segment that opens a hole, or fills all or part of one, is acknowledged
        // immediately.
        let needs_immediate_ack = offset > 0 || newly_readable != len || had_early;
        let interval = self.acknowledgment_interval_bytes(len);
        let policy = self.profile.acknowledgment;
        self.acks.schedule(len, interval, needs_immediate_ack, policy, cx.now);
        Continue(())
    }

    /// Returns the number of bytes after which an acknowledgment is due: at least every second full
    /// segment is acknowledged (SHLD-18). The last segment had `len` bytes.
    ///
    /// A full segment has the length of the peer's segments, if that is at least half of the local
    /// maximum. If the window has only a few segments, each segment is acknowledged. A segment that
    /// waits for a second one would otherwise occupy a large part of the window.
    fn acknowledgment_interval_bytes(&self, len: usize) -> u32 {
        let mss = u32::from(self.receive_mss()).min(self.snd.mss());
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        if self.has_small_window() { (mss / 2).max(1) } else { 2 * len.clamp(mss / 2, mss) }
    }

    /// Eighth: check the FIN bit. If a FIN arrives before all the data, its position is stored.
    fn check_fin(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        if arrival.has(Flags::FIN) && self.state().expects_data() {
            // A legitimate peer never changes the position of its FIN. The position of a forged FIN
            // is replaced here.
            self.rcv.set_fin(arrival.data_end());
            self.acks.send_now();
        }
        if is_enabled(Mutant::AcceptsFinBeforeMissingData) && self.rcv.has_early_fin() {
            self.rcv.set_fin(self.rcv.nxt());
        }
        if !self.rcv.is_fin_next() {
            return;
        }
        match self.state() {
            State::Established => self.lifecycle.receive_fin(),
            State::FinWait1 if is_enabled(Mutant::TreatsFinAsAck) => self.enter_time_wait(cx.now),
            State::FinWait1 => self.lifecycle.receive_fin(),
            State::FinWait2 if is_enabled(Mutant::SkipsTimeWait) => self.end(CloseReason::Closed),
            State::FinWait2 => self.enter_time_wait(cx.now),
            _ => return,
        }
        self.rcv.accept_fin();
        self.reports.push(Event::PeerClosed);
    }

    /// Answers a suspicious segment with a challenge acknowledgment (RFC 5961). A legitimate peer
    /// answers it correctly.
    pub(super) fn challenge(&mut self, cx: &mut Cx<'_>) {
        let is_allowed = self.acks.challenge(cx.now);
        cx.meter.count(if is_allowed {
            Counter::TcpChallengeAcks
        } else {
            Counter::TcpChallengeAcksSuppressed
        });
    }
}
