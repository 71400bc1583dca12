//! The causes that limit a sender, and the total duration of each: the times of `TCP_INFO`.

use crate::time::{Duration, Instant};

/// The cause that limits the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Limit {
    /// Nothing is outstanding or waits to be sent.
    #[default]
    Idle,
    /// The user has provided no more data: all of it is outstanding.
    Application,
    /// The congestion window is full.
    CongestionWindow,
    /// The peer's window is full.
    PeerWindow,
    /// The send buffer is full, and all its data is outstanding.
    SendBuffer,
    /// Data waits for its pacing time.
    Pacing,
    /// No packet was free for the device.
    Device,
}

/// Total duration of each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTimes {
    /// Time during which data was outstanding or waited to be sent.
    pub busy: Duration,
    /// Time during which the congestion window was full.
    pub congestion_window: Duration,
    /// Time during which the peer's window was full.
    pub peer_window: Duration,
    /// Time during which the send buffer was full and all its data was outstanding.
    pub send_buffer: Duration,
    /// Time during which data waited for its pacing time.
    pub pacing: Duration,
    /// Time during which data waited because the device had not returned a packet.
    pub device: Duration,
}

/// Measures how long each cause limits the sender of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    limit: Limit,
    since: Instant,
    /// Time in nanoseconds, because every output adds to it.
    busy: u64,
    congestion_window: u64,
    peer_window: u64,
    send_buffer: u64,
    pacing: u64,
    device: u64,
}

impl Limits {
    /// Records the limit that applies to the sender from this output on.
    pub(super) fn set(&mut self, limit: Limit, now: Instant) {
        let time = now.as_nanos().saturating_sub(self.since.as_nanos());
        match self.limit {
            Limit::Idle | Limit::Application => {}
            Limit::CongestionWindow => self.congestion_window += time,
            Limit::PeerWindow => self.peer_window += time,
            Limit::SendBuffer => self.send_buffer += time,
            Limit::Pacing => self.pacing += time,
            Limit::Device => self.device += time,
        }
        if self.limit != Limit::Idle {
            self.busy += time;
        }
        self.limit = limit;
        self.since = now;
    }

    /// Returns whether nothing is outstanding or waits to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.limit == Limit::Idle
    }

    /// Returns the time up to `now` during which the peer's window was full.
    pub(super) fn peer_window_time(&self, now: Instant) -> Duration {
        let since_output = now.as_nanos().saturating_sub(self.since.as_nanos());
        let is_full = self.limit == Limit::PeerWindow;
        Duration::from_nanos(self.peer_window + if is_full { since_output } else { 0 })
    }

    /// Returns the durations up to the last output.
    pub(super) fn times(&self) -> LimitTimes {
        LimitTimes {
            busy: Duration::from_nanos(self.busy),
            congestion_window: Duration::from_nanos(self.congestion_window),
            peer_window: Duration::from_nanos(self.peer_window),
            send_buffer: Duration::from_nanos(self.send_buffer),
            pacing: Duration::from_nanos(self.pacing),
            device: Duration::from_nanos(self.device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_is_charged_to_the_limit_of_the_sender() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut limits = Limits::default();
        limits.set(Limit::CongestionWindow, at(10));
        limits.set(Limit::PeerWindow, at(11));
        limits.set(Limit::PeerWindow, at(12));
        assert_eq!(limits.peer_window_time(at(13)), Duration::from_secs(2));
        limits.set(Limit::Idle, at(14));
        assert_eq!(limits.peer_window_time(at(20)), Duration::from_secs(3));
        let times = limits.times();
        assert_eq!(times.busy, Duration::from_secs(4));
        assert_eq!(times.congestion_window, Duration::from_secs(1));
        assert_eq!(times.peer_window, Duration::from_secs(3));
    }
}
