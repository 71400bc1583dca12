//! Keep-alive (RFC 9293 §3.8.4): off unless the user enables it.
//!
//! A probe is sent when nothing was received for the idle time and no data is outstanding.
//! Outstanding data needs no probe, because it is retransmitted. The probe is a segment without
//! data whose sequence number the peer has already acknowledged. Any peer that still has the
//! connection answers it. Because an acknowledgment may be lost, the connection is given up only
//! after several unanswered probes (MUST-29).
//!
//! Received segments do not change the timer. When it expires, it is set again for the idle time
//! after the last received segment.

use crate::time::{Duration, Instant};

/// The schedule of keep-alive probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe (MUST-27).
    pub idle: Duration,
    /// Time to wait for the answer to each probe.
    pub interval: Duration,
    /// Number of unanswered probes after which the connection is given up; at least two.
    pub probes: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl KeepAlive {
    /// The default schedule: two hours (MUST-28), then nine probes 75 seconds apart, as in the BSDs
    /// and Linux.
    pub const DEFAULT: Self =
        Self { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), probes: 9 };
}

/// The action when the timer of a connection has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No action before this time.
    Wait(Instant),
    /// Send a probe, and check again at this time.
    Probe(Instant),
    /// Give up: the peer is gone.
    GiveUp,
}

/// Returns the action after `unanswered` probes without an answer. The last probe was sent at
/// `probed_at`, and the last segment was received at `last_received_at`.
pub(super) fn decide(
    policy: &KeepAlive,
    last_received_at: Instant,
    probed_at: Instant,
    unanswered: u32,
    now: Instant,
) -> Verdict {
    let due = match unanswered {
        0 => last_received_at + policy.idle,
        _ => probed_at + policy.interval,
    };
    if due > now {
        return Verdict::Wait(due);
    }
    if unanswered >= policy.probes.max(2) {
        return Verdict::GiveUp;
    }
    Verdict::Probe(now + policy.interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Instant = |secs| Instant::from_nanos(secs * 1_000_000_000);
    const POLICY: KeepAlive =
        KeepAlive { idle: Duration::from_secs(100), interval: Duration::from_secs(10), probes: 3 };

    #[test]
    fn the_first_probe_waits_for_the_idle_time() {
        let verdict_after = |now| decide(&POLICY, AT(50), AT(0), 0, AT(now));
        assert_eq!(verdict_after(149), Verdict::Wait(AT(150)));
        assert_eq!(verdict_after(150), Verdict::Probe(AT(160)));
    }

    #[test]
    fn the_peer_is_given_up_when_the_last_probe_has_waited_too() {
        let verdict_after = |unanswered, now| decide(&POLICY, AT(50), AT(170), unanswered, AT(now));
        assert_eq!(verdict_after(2, 180), Verdict::Probe(AT(190)));
        assert_eq!(verdict_after(3, 179), Verdict::Wait(AT(180)));
        assert_eq!(verdict_after(3, 180), Verdict::GiveUp);
    }

    // req RFC9293:MUST-29
    #[test]
    fn one_unanswered_probe_never_ends_a_connection() {
        for probes in [0, 1] {
            let policy = KeepAlive { probes, ..POLICY };
            let verdict_after = decide(&policy, AT(0), AT(100), 1, AT(110));
            assert_eq!(verdict_after, Verdict::Probe(AT(120)));
        }
    }

    // req RFC9293:MUST-28
    #[test]
    fn the_idle_time_is_two_hours_unless_set() {
        assert_eq!(KeepAlive::default().idle, Duration::from_secs(2 * 3600));
    }
}
