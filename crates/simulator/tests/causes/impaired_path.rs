//! The path between the two hosts, with at most one defect.

use net::rng::Rng;
use net::time::{Duration, Instant};
use simulator::Side;
use simulator::medium::{Arrival, Medium};

/// Parameters of a path in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSettings {
    /// One-way delay without queueing.
    pub(crate) delay: Duration,
    /// Rate of the bottleneck link, in bit/s.
    pub(crate) rate_bps: u64,
    /// Queue of the bottleneck link in bytes; packets that do not fit are dropped.
    pub(crate) queue_bytes: u64,
    /// Packet loss, in parts per million.
    pub(crate) loss_ppm: u32,
    /// Proportion of packets that are delayed so that later packets overtake them, in parts per
    /// million.
    pub(crate) reordering_ppm: u32,
    /// Additional delay of reordered packets.
    pub(crate) reordering_delay: Duration,
    /// Maximum length in bytes of a packet that passes a black hole; longer packets are dropped
    /// silently. `None` for no black hole.
    pub(crate) hole_bytes: Option<usize>,
    /// Turnaround time of a half-duplex path; `None` for a full-duplex path.
    pub(crate) turnaround: Option<Duration>,
    /// Token bucket for traffic to the client: its size in bytes, and its fill rate in bit/s.
    pub(crate) bucket: Option<(u64, u64)>,
}

impl PathSettings {
    /// Creates a path without a defect: 10 Mbit/s and a queue of 20 ms.
    pub(crate) const fn healthy(round_trip: Duration) -> Self {
        Self {
            delay: Duration::from_nanos(round_trip.as_nanos() as u64 / 2),
            rate_bps: 10_000_000,
            queue_bytes: 25_000,
            loss_ppm: 0,
            reordering_ppm: 0,
            reordering_delay: Duration::ZERO,
            hole_bytes: None,
            turnaround: None,
            bucket: None,
        }
    }
}

/// The simulated path with the state of its queues.
#[derive(Debug)]
pub(crate) struct ImpairedPath {
    path: PathSettings,
    /// Times at which the bottleneck link becomes idle: toward the server, and toward the user.
    free_at: [Instant; 2],
    /// The side that sent last, for a half-duplex path.
    last_sender: Side,
    /// Number of tokens in the bucket at the time `filled_at`, in millionths of a byte.
    tokens: u128,
    filled_at: Instant,
    /// Arrival time of the last packet that was not delayed, per direction.
    last_arrival_at: [Instant; 2],
}

const MILLION: u128 = 1_000_000;

impl ImpairedPath {
    pub(crate) fn new(path: PathSettings) -> Self {
        let tokens = path.bucket.map_or(0, |(bytes, _)| u128::from(bytes) * MILLION);
        Self {
            path,
            free_at: [Instant::ZERO; 2],
            last_sender: Side::User,
            tokens,
            filled_at: Instant::ZERO,
            last_arrival_at: [Instant::ZERO; 2],
        }
    }

    fn transmission_time(&self, bytes: usize) -> Duration {
        Duration::from_nanos(bytes as u64 * 8_000_000_000 / self.path.rate_bps)
    }

    /// Returns the time at which the bottleneck link has sent the last bit of a packet of `bytes`
    /// bytes, or `None` if the queue is full.
    fn enqueue(&mut self, from: Side, bytes: usize, now: Instant) -> Option<Instant> {
        let transmission_time = self.transmission_time(bytes);
        let is_half_duplex = self.path.turnaround.is_some();
        let at = if is_half_duplex { 0 } else { from as usize };
        let queueing_delay = self.free_at[at] - now;
        let bits = queueing_delay.as_nanos() * u128::from(self.path.rate_bps) / 1_000_000_000;
        if bits / 8 + bytes as u128 > u128::from(self.path.queue_bytes.max(bytes as u64)) {
            return None;
        }
        let mut start = self.free_at[at].max(now);
        if let Some(turnaround) = self.path.turnaround.filter(|_| self.last_sender != from) {
            start = start + turnaround;
            self.last_sender = from;
        }
        self.free_at[at] = start + transmission_time;
        Some(self.free_at[at])
    }

    /// Returns the time at which enough tokens are available for a packet, or `None` if it would
    /// wait longer than [`BUCKET_WAIT`].
    fn time_with_tokens(&mut self, bytes: usize, at: Instant) -> Option<Instant> {
        let Some((size, rate_bps)) = self.path.bucket else { return Some(at) };
        let now = at.max(self.filled_at);
        let new_tokens = (now - self.filled_at).as_nanos() * u128::from(rate_bps) / 8_000;
        self.tokens = (self.tokens + new_tokens).min(u128::from(size) * MILLION);
        self.filled_at = now;
        let needed = bytes as u128 * MILLION;
        let missing = needed.saturating_sub(self.tokens);
        let wait = missing * 8_000 / u128::from(rate_bps);
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap());
        if now + wait - at > BUCKET_WAIT {
            return None;
        }
        self.tokens = (self.tokens + missing).saturating_sub(needed);
        self.filled_at = now + wait;
        Some(now + wait)
    }
}

/// Maximum time that a packet waits for its tokens.
const BUCKET_WAIT: Duration = Duration::from_millis(30);

impl Medium for ImpairedPath {
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        rng: &mut Rng,
    ) -> Vec<Arrival> {
        if self.path.hole_bytes.is_some_and(|longest| bytes.len() > longest) {
            return Vec::new();
        }
        let Some(left_at) = self.enqueue(from, bytes.len(), sent_at) else { return Vec::new() };
        let passed_at = match from {
            Side::User => Some(left_at),
            Side::Server => self.time_with_tokens(bytes.len(), left_at),
        };
        let Some(passed_at) = passed_at else { return Vec::new() };
        if rng.random_bool(self.path.loss_ppm) {
            return Vec::new();
        }
        let undelayed_arrival =
            (passed_at + self.path.delay).max(self.last_arrival_at[from as usize]);
        if rng.random_bool(self.path.reordering_ppm) {
            return vec![Arrival {
                to: from.other(),
                at: undelayed_arrival + self.path.reordering_delay,
                bytes,
            }];
        }
        self.last_arrival_at[from as usize] = undelayed_arrival;
        vec![Arrival { to: from.other(), at: undelayed_arrival, bytes }]
    }
}
