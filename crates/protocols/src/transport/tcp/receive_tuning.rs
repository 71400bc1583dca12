//! How large the buffers of a connection are while it is open: dynamic right-sizing.
//!
//! # Theory of operation
//!
//! A sender may have as much outstanding as the receiver's window says, so that a window of less
//! than what the path carries in a round trip leaves the path empty for a part of it; a larger one
//! promises memory for nothing. Neither end can know at the opening what is right. RFC 9293 leaves
//! the size of the window to the receiver, and RFC 7323 §2.2 only its scale, which the SYN settles
//! for the whole connection: it is chosen from the limit, and the window begins small.
//!
//! The receiver looks once in a round trip at how many bytes the application has taken meanwhile.
//! The sender may double its rate in the next round trip, so the window has to have room for twice
//! as many; and if the rate is rising now, for as much again, because what is told now governs the
//! flight that is acknowledged one round trip later. What is not read is not counted, so a slow
//! reader never gets a larger window, however fast the sender is. While something is missing no
//! round ends: all that waits behind a hole is read at once when it is filled, and says nothing
//! about a rate. The window never becomes smaller, so its right edge does not move left (RFC 9293
//! §3.8.6, SHLD-14).
//!
//! The round trip is the least that was seen: that of the handshake, and the time since the peer's
//! echo of our timestamp left here; with neither, the time that a whole window takes to come. A
//! queue on the path makes none of them shorter, so the window does not grow because of a queue
//! that it has filled itself.
//!
//! The send buffer is simpler: what a sender needs is its congestion window, which may be
//! outstanding, and as much again, so that the application has a round trip to give more.
//!
//! Buffers take memory only for what they hold. What all connections of a host may promise beyond
//! their beginnings together has a limit of its own ([`super::Tcp::set_growth_max`]): an
//! application that stops reading must not be what decides about the memory of the host.

use super::arrives::Arrival;
use super::connection::Connection;
use super::profile::{ReceiveWindow, SendLimit};
use super::rack::MinRtt;
use super::seq::Seq;
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;

/// Shorter segments are what a person types, and a window is not what they wait for.
const BULK_LEN: usize = 512;
/// The part of the first window that comes before anything is measured.
const QUIET_SHARE: usize = 4;

/// What is measured of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveTuning {
    /// When the round began, and up to where everything had been read then.
    began_at: Instant,
    began_up_to: Seq,
    /// Bytes that were read in the round before.
    taken: u32,
    round_trip: MinRtt,
    /// Where the window ends whose arrival is timed, and since when.
    window_end: Seq,
    window_since: Instant,
}

impl ReceiveTuning {
    /// Begins with all read up to `up_to`, and with a window that ends at `window_end`.
    fn new(up_to: Seq, window_end: Seq, now: Instant) -> Self {
        Self {
            began_at: now,
            began_up_to: up_to,
            taken: 0,
            round_trip: MinRtt::default(),
            window_end,
            window_since: now,
        }
    }

    /// Returns the window that is wanted, in bytes, if a round trip of `rtt` has ended in which
    /// all up to `up_to` was read.
    fn round(&mut self, up_to: Seq, rtt: Duration, now: Instant) -> Option<u32> {
        let elapsed = now - self.began_at;
        if elapsed < rtt || elapsed.is_zero() {
            return None;
        }
        // Only what comes ends a round, and after a pause that may be late.
        let taken = u128::from(up_to.since(self.began_up_to)) * rtt.as_nanos() / elapsed.as_nanos();
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        let before = core::mem::replace(&mut self.taken, taken);
        (self.began_at, self.began_up_to) = (now, up_to);
        let twice = taken.saturating_mul(2);
        let rise = taken.saturating_sub(before).min(before);
        let rise = u64::from(twice) * u64::from(rise) / u64::from(before.max(1));
        Some(twice.saturating_add(u32::try_from(rise).unwrap_or(u32::MAX)))
    }
}

impl Connection {
    /// Returns how many bytes both buffers may hold beyond what they began with.
    pub(super) fn growth(&self) -> usize {
        let received = self.receive.window().saturating_sub(self.profile.receive_window.start());
        let sent = match self.profile.send_limit {
            SendLimit::Tuned { start, .. } => self.send.limit().saturating_sub(start),
            SendLimit::OneSegment | SendLimit::Bytes(_) => 0,
        };
        received + sent
    }

    /// Data has come: lets the window grow with what the application takes in a round trip.
    pub(super) fn tune_receive_window(&mut self, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        let ReceiveWindow::Tuned { start, limit } = self.profile.receive_window else { return };
        let limit = limit.min(0xFFFF << self.rcv_shift);
        let window = self.receive.window();
        let is_quiet = self.statistics.bytes_in < (start / QUIET_SHARE) as u64;
        let is_bulk = arrival.data.len() >= BULK_LEN && !is_quiet;
        if window >= limit || self.receive.has_early() || (!is_bulk && self.tuning.is_none()) {
            return;
        }
        let (now, up_to, edge) = (cx.now, self.read_up_to(), self.rcv_adv);
        let begin = || Box::new(ReceiveTuning::new(up_to, edge, now));
        let mut tuning = self.tuning.take().unwrap_or_else(begin);
        let rtt = self.receivers_rtt(&mut tuning, arrival, now);
        let wanted = rtt.and_then(|rtt| tuning.round(up_to, rtt, now));
        self.tuning = Some(tuning);
        let Some(wanted) = wanted.map(|wanted| (wanted as usize).min(limit)) else { return };
        if wanted > window {
            let wanted = wanted.min(window.saturating_add(arrival.growth_max));
            self.grow_receive_window(wanted, cx);
        }
    }

    fn grow_receive_window(&mut self, wanted: usize, cx: &mut Cx<'_>) {
        if wanted <= self.receive.window() {
            return cx.meter.count(Counter::TcpGrowthRefused);
        }
        cx.meter.count(Counter::TcpReceiveWindowsGrown);
        self.receive.set_window(wanted, self.rcv_shift);
    }

    /// Returns the least round trip that is known to the receiver.
    fn receivers_rtt(
        &self,
        tuning: &mut ReceiveTuning,
        arrival: &Arrival<'_>,
        now: Instant,
    ) -> Option<Duration> {
        let own = self.rtt.srtt();
        if let Some(echo) = self.rtt_by_echo(arrival, now) {
            tuning.round_trip.measured(echo, now);
        } else if own.is_none() && !self.rcv_nxt.is_before(tuning.window_end) {
            tuning.round_trip.measured(now - tuning.window_since, now);
            (tuning.window_end, tuning.window_since) = (self.rcv_adv, now);
        }
        own.into_iter().chain(tuning.round_trip.get()).min()
    }

    /// An acknowledgment has come while `held` bytes were in the send buffer: lets it grow with the
    /// congestion window, if the user has use for that.
    pub(super) fn tune_send_limit(&mut self, held: u32, growth_max: usize, cx: &mut Cx<'_>) {
        let SendLimit::Tuned { limit, .. } = self.profile.send_limit else { return };
        let Some(recovery) = &self.recovery else { return };
        let now = self.send.limit();
        let wanted = (recovery.window.cwnd() as usize).saturating_mul(2).min(limit);
        if wanted <= now || (held as usize) < now / 2 {
            return;
        }
        let wanted = wanted.min(now.saturating_add(growth_max));
        if wanted <= now {
            return cx.meter.count(Counter::TcpGrowthRefused);
        }
        cx.meter.count(Counter::TcpSendBuffersGrown);
        self.send.set_limit(wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn tuning() -> ReceiveTuning {
        ReceiveTuning::new(Seq(0), Seq(60_000), at(0))
    }

    #[test]
    fn no_round_ends_before_a_round_trip_has() {
        assert_eq!(tuning().round(Seq(50_000), RTT, at(99)), None);
    }

    #[test]
    fn a_steady_reader_gets_twice_of_what_it_takes_in_a_round_trip() {
        let mut tuning = tuning();
        assert_eq!(tuning.round(Seq(10_000), RTT, at(100)), Some(20_000));
        assert_eq!(tuning.round(Seq(20_000), RTT, at(200)), Some(20_000));
    }

    #[test]
    fn a_rate_that_doubles_gets_room_for_two_doublings() {
        let mut tuning = tuning();
        tuning.round(Seq(10_000), RTT, at(100));
        assert_eq!(tuning.round(Seq(30_000), RTT, at(200)), Some(80_000));
        assert_eq!(tuning.round(Seq(130_000), RTT, at(300)), Some(400_000), "no more than two");
    }

    #[test]
    fn what_was_taken_in_a_longer_time_counts_for_a_round_trip_of_it() {
        assert_eq!(tuning().round(Seq(40_000), RTT, at(400)), Some(20_000));
    }
}
