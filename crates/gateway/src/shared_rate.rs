//! A rate that all guests share: deficit round robin of the guests (RFC 8290 §4.1.3), so that the
//! number of flows of a guest does not increase its share.
//!
//! The driver asks for the guest whose turn it is, and reports how many bytes its output has sent. A
//! guest that was idle is served before those that always have output.

use crate::queue::Rounds;
use net::Instant;
use net::time::Duration;
use std::collections::BTreeMap;

/// Time by which the output may be ahead of the rate, because a timer is late: it bounds the burst
/// after a delay of the event loop.
const BURST_TIME: Duration = Duration::from_millis(1);
const NANOS_PER_S: u64 = 1_000_000_000;
const BITS_PER_BYTE: u64 = 8;
/// Rate below which a guest sends at most one packet per round, in bit/s.
const SLOW_BPS: u64 = 100_000_000;
const SLOW_QUANTUM: i64 = 300;
const QUANTUM: i64 = 1514;

/// A rate limit: the time until which the rate is used up.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    bits_per_s: u64,
    used_until: Instant,
}

impl RateLimit {
    /// Returns a limit of `bits_per_s` bits per second.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        Self { bits_per_s: bits_per_s.max(1), used_until: Instant::ZERO }
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub fn bits_per_s(&self) -> u64 {
        self.bits_per_s
    }

    /// Returns whether bytes may be sent now.
    #[must_use]
    pub fn allows(&self, now: Instant) -> bool {
        self.used_until <= now
    }

    /// Returns when bytes may be sent.
    #[must_use]
    pub fn allows_at(&self) -> Instant {
        self.used_until
    }

    /// Counts `bytes` bytes that were sent at `now`.
    pub fn use_up(&mut self, bytes: usize, now: Instant) {
        let nanos = bytes as u64 * BITS_PER_BYTE * NANOS_PER_S / self.bits_per_s;
        let burst = u64::try_from(BURST_TIME.as_nanos()).unwrap_or(0);
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(burst));
        self.used_until = self.used_until.max(earliest) + Duration::from_nanos(nanos);
    }
}

/// A rate and the guests that share it.
#[derive(Debug)]
pub struct SharedRate {
    limit: RateLimit,
    rounds: Rounds<usize>,
    /// The guests in the rounds, with their deficits in bytes.
    deficits: BTreeMap<usize, i64>,
}

impl SharedRate {
    /// Returns a rate without guests.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        let limit = RateLimit::new(bits_per_s);
        Self { limit, rounds: Rounds::default(), deficits: BTreeMap::new() }
    }

    fn quantum(&self) -> i64 {
        if self.limit.bits_per_s < SLOW_BPS { SLOW_QUANTUM } else { QUANTUM }
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub fn bits_per_s(&self) -> u64 {
        self.limit.bits_per_s()
    }

    /// Adds a guest that has output, unless it takes part already.
    pub fn add(&mut self, guest: usize) {
        let quantum = self.quantum();
        self.deficits.entry(guest).or_insert_with(|| {
            self.rounds.add(guest);
            quantum
        });
    }

    /// Returns the guest that may send a packet at `now`. Report the outcome by [`Self::has_sent`]
    /// or [`Self::is_empty`].
    pub fn next(&mut self, now: Instant) -> Option<usize> {
        if !self.limit.allows(now) {
            return None;
        }
        loop {
            let guest = self.rounds.first()?;
            let quantum = self.quantum();
            let Some(deficit) = self.deficits.get_mut(&guest) else {
                self.rounds.remove(guest);
                continue;
            };
            if *deficit > 0 {
                return Some(guest);
            }
            *deficit += quantum;
            self.rounds.end_turn();
        }
    }

    /// Charges a packet of `bytes` bytes to the guest of [`Self::next`].
    pub fn has_sent(&mut self, guest: usize, bytes: usize, now: Instant) {
        self.limit.use_up(bytes, now);
        if let Some(deficit) = self.deficits.get_mut(&guest) {
            *deficit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        }
    }

    /// Processes that the guest of [`Self::next`] cannot send now.
    pub fn is_empty(&mut self, guest: usize) {
        if self.rounds.first_is_removed() {
            self.deficits.remove(&guest);
        }
    }

    /// Removes a guest.
    pub fn remove(&mut self, guest: usize) {
        self.rounds.remove(guest);
        self.deficits.remove(&guest);
    }

    /// Returns when the next guest may send.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (!self.deficits.is_empty()).then(|| self.limit.allows_at())
    }
}
