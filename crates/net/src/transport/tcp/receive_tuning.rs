//! The size of a connection's buffers while it is open: dynamic right-sizing.
//!
//! # Theory of operation
//!
//! A sender may have as many bytes outstanding as the receiver's window allows. If the window is
//! smaller than the capacity of the path, the path is empty for a part of each round trip. A larger
//! window reserves memory without benefit. Neither end knows the right size when the connection
//! opens. RFC 9293 leaves the size of the window to the receiver. RFC 7323 §2.2 only fixes its
//! scale, which the SYN sets for the whole connection. The scale is therefore chosen for the
//! maximum size, and the window is small at first.
//!
//! Once per round trip the receiver counts the bytes that the application has read. The sender may
//! double its rate in the next round trip, so the window needs space for twice this number. If the
//! rate is rising, the window needs additional space, because the window advertised now governs the
//! flight that is acknowledged one round trip later. Unread data is not counted, so a slow reader
//! never gets a larger window, whatever the speed of the sender. No round ends while data is
//! missing: all data behind a hole is read at once when the hole is filled, so the amount does not
//! indicate a rate. The window never decreases before TIME-WAIT, so its right edge does not move left
//! (RFC 9293 §3.8.6, SHLD-14).
//!
//! The round-trip time is the minimum of two measurements: the duration of the handshake, and the
//! age of the peer's timestamp echoes. If neither is available, it is the time in which a whole
//! window arrives. A queue on the path only lengthens these times, so the window does not grow
//! because of a queue that it has filled itself.
//!
//! A round takes at least [`ROUND_MIN`]. Between two programs of one machine, the handshake may take
//! less, but each of them waits for the processor while the other one works. The sender would exhaust
//! a window sized for the handshake time, and wait for an update after every few segments. The minimum
//! is short, because a much larger window does not fit into the caches of the processor.
//!
//! The send buffer is simpler. A sender needs space for its congestion window, which may be
//! outstanding, and the same space again, so that the application has a round trip to provide more
//! data.
//!
//! Buffers use memory only for the data in them. The total growth of all connections of a host has
//! its own limit ([`super::Tcp::set_growth_max`]), so that applications that stop reading cannot
//! exhaust the memory of the host.

use super::arrives::Arrival;
use super::connection::Connection;
use super::profile::{ReceiveWindow, SendLimit};
use super::rack::MinRtt;
use super::seq::Seq;
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;

/// Minimum length of a segment that belongs to bulk data. Shorter segments are typed input, which
/// the window does not limit.
const BULK_LEN: usize = 512;
/// Divisor of the initial window. Measurements start when the quotient has been received.
const QUIET_DIVISOR: usize = 4;

/// Minimum duration of a round: the time of several switches between processes.
const ROUND_MIN: Duration = Duration::from_micros(100);

/// The measurements of a connection. They are allocated when the connection has received enough
/// data to need a larger window.
#[derive(Debug, Default)]
pub(super) struct ConnectionTuning(Option<Box<ReceiveTuning>>);

impl ConnectionTuning {
    /// Ends the measurements.
    pub(super) fn stop(&mut self) {
        self.0 = None;
    }

    /// Returns whether the connection is measured.
    #[cfg(test)]
    pub(super) const fn is_running(&self) -> bool {
        self.0.is_some()
    }
}

/// The measurements of one round.
#[derive(Clone, Copy, Debug)]
struct ReceiveTuning {
    /// Time at which the round began.
    began_at: Instant,
    /// Position up to which data had been read at that time.
    began_up_to: Seq,
    /// Number of bytes read in the previous round.
    bytes_read: u32,
    round_trip: MinRtt,
    /// End of the window whose arrival is measured.
    window_end: Seq,
    /// Start of that measurement.
    window_since: Instant,
}

impl ReceiveTuning {
    /// Returns the state at the start. Data is read up to `up_to`, and the window ends at
    /// `window_end`.
    fn new(up_to: Seq, window_end: Seq, now: Instant) -> Self {
        Self {
            began_at: now,
            began_up_to: up_to,
            bytes_read: 0,
            round_trip: MinRtt::default(),
            window_end,
            window_since: now,
        }
    }

    /// Returns the desired window in bytes if a round has ended. `rtt` is the round-trip time, and
    /// `up_to` is the position up to which data was read.
    fn round(&mut self, up_to: Seq, rtt: Duration, now: Instant) -> Option<u32> {
        let elapsed = now - self.began_at;
        let rtt = rtt.max(ROUND_MIN);
        if elapsed < rtt {
            return None;
        }
        // A round ends only when data arrives. After a pause this may be late.
        let bytes_read =
            u128::from(up_to.since(self.began_up_to)) * rtt.as_nanos() / elapsed.as_nanos();
        let bytes_read = u32::try_from(bytes_read).unwrap_or(u32::MAX);
        let before = core::mem::replace(&mut self.bytes_read, bytes_read);
        self.began_at = now;
        self.began_up_to = up_to;
        let doubled = bytes_read.saturating_mul(2);
        let rise = bytes_read.saturating_sub(before).min(before);
        let rise = u64::from(doubled) * u64::from(rise) / u64::from(before.max(1));
        Some(doubled.saturating_add(u32::try_from(rise).unwrap_or(u32::MAX)))
    }
}

impl Connection {
    /// Returns the number of bytes that both buffers may hold beyond their initial sizes.
    pub(super) fn growth(&self) -> usize {
        let received =
            self.rcv.buffer().window().saturating_sub(self.profile.receive_window.start());
        let sent = match self.profile.send_limit {
            SendLimit::Tuned { start, .. } => self.snd.limit().saturating_sub(start),
            SendLimit::OneSegment | SendLimit::Bytes(_) => 0,
        };
        received + sent
    }

    /// Reduces both buffers to their initial sizes, except for data that is not read yet. The
    /// connection will neither send nor receive data.
    pub(super) fn return_growth(&mut self) {
        let unread = self.rcv.buffer().readable();
        if let ReceiveWindow::Tuned { start, .. } = self.profile.receive_window {
            self.rcv.set_window(start.max(unread).min(self.rcv.buffer().window()));
        }
        if let SendLimit::Tuned { start, .. } = self.profile.send_limit {
            self.snd.set_limit(start.min(self.snd.limit()));
        }
    }

    /// Increases the window when data is received, according to the amount that the application
    /// reads per round trip.
    pub(super) fn tune_receive_window(&mut self, arrival: &mut Arrival<'_>, cx: &mut Cx<'_>) {
        let ReceiveWindow::Tuned { start, limit } = self.profile.receive_window else { return };
        let limit = limit.min(self.rcv.wnd_limit() as usize);
        let window = self.rcv.buffer().window();
        let is_quiet = self.statistics.values().bytes_in < (start / QUIET_DIVISOR) as u64;
        let is_bulk = arrival.data.len() >= BULK_LEN && !is_quiet;
        if window >= limit || self.rcv.buffer().has_early() || (!is_bulk && self.tuning.0.is_none())
        {
            return;
        }
        let now = cx.now;
        let up_to = self.rcv.read_up_to();
        let edge = self.rcv.adv();
        let new_tuning = || Box::new(ReceiveTuning::new(up_to, edge, now));
        let mut tuning = self.tuning.0.take().unwrap_or_else(new_tuning);
        let rtt = self.receiver_rtt(&mut tuning, arrival, now);
        let desired_window = rtt.and_then(|rtt| tuning.round(up_to, rtt, now));
        self.tuning.0 = Some(tuning);
        let Some(desired_window) = desired_window.map(|bytes| (bytes as usize).min(limit)) else {
            return;
        };
        if desired_window > window {
            let desired_window = desired_window.min(window.saturating_add(arrival.growth_max));
            self.grow_receive_window(desired_window, arrival, cx);
        }
    }

    fn grow_receive_window(
        &mut self,
        desired_window: usize,
        arrival: &mut Arrival<'_>,
        cx: &mut Cx<'_>,
    ) {
        if desired_window <= self.rcv.buffer().window() {
            arrival.is_growth_refused = true;
            return cx.meter.count(Counter::TcpGrowthRefused);
        }
        cx.meter.count(Counter::TcpReceiveWindowsGrown);
        self.rcv.set_window(desired_window);
    }

    /// Returns the minimum round trip known to the receiver.
    fn receiver_rtt(
        &self,
        tuning: &mut ReceiveTuning,
        arrival: &Arrival<'_>,
        now: Instant,
    ) -> Option<Duration> {
        let own_rtt = self.rtt.srtt();
        if let Some(echo) = self.rtt_by_echo(arrival, now) {
            tuning.round_trip.record(echo, now);
        } else if own_rtt.is_none() && !self.rcv.nxt().is_before(tuning.window_end) {
            tuning.round_trip.record(now - tuning.window_since, now);
            tuning.window_end = self.rcv.adv();
            tuning.window_since = now;
        }
        own_rtt.into_iter().chain(tuning.round_trip.get()).min()
    }

    /// Increases the send buffer with the congestion window after an acknowledgment, if the user
    /// fills the buffer. `buffered_len` is the number of bytes in the buffer before the
    /// acknowledgment.
    pub(super) fn tune_send_limit(
        &mut self,
        buffered_len: u32,
        arrival: &mut Arrival<'_>,
        cx: &mut Cx<'_>,
    ) {
        let SendLimit::Tuned { limit, .. } = self.profile.send_limit else { return };
        let Some(recovery) = self.recovery.full() else { return };
        let now = self.snd.limit();
        let desired_window = (recovery.window.cwnd() as usize).saturating_mul(2).min(limit);
        if desired_window <= now || (buffered_len as usize) < now / 2 {
            return;
        }
        let desired_window = desired_window.min(now.saturating_add(arrival.growth_max));
        if desired_window <= now {
            arrival.is_growth_refused = true;
            return cx.meter.count(Counter::TcpGrowthRefused);
        }
        cx.meter.count(Counter::TcpSendBuffersGrown);
        self.snd.set_limit(desired_window);
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
    fn a_steady_reader_gets_a_window_of_two_round_trips() {
        let mut tuning = tuning();
        assert_eq!(tuning.round(Seq(10_000), RTT, at(100)), Some(20_000));
        assert_eq!(tuning.round(Seq(20_000), RTT, at(200)), Some(20_000));
    }

    #[test]
    fn a_shorter_round_trip_counts_as_the_minimum_of_a_round() {
        let mut tuning = tuning();
        let after = |micros| Instant::ZERO + Duration::from_micros(micros);
        let rtt = Duration::from_micros(20);
        assert_eq!(tuning.round(Seq(5_000), rtt, after(99)), None);
        assert_eq!(tuning.round(Seq(10_000), rtt, after(200)), Some(10_000));
    }

    #[test]
    fn a_doubling_rate_gets_a_window_for_two_doublings() {
        let mut tuning = tuning();
        tuning.round(Seq(10_000), RTT, at(100));
        assert_eq!(tuning.round(Seq(30_000), RTT, at(200)), Some(80_000));
        assert_eq!(tuning.round(Seq(130_000), RTT, at(300)), Some(400_000), "no more than two");
    }

    #[test]
    fn bytes_read_in_a_longer_time_are_scaled_to_a_round_trip() {
        assert_eq!(tuning().round(Seq(40_000), RTT, at(400)), Some(20_000));
    }
}
