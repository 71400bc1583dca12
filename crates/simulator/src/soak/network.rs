//! The network of one run, which applies the faults of the scenario until the calm phase.

use super::packet_injection::{self, IcmpError};
use crate::faults::Faults;
use crate::medium::{Arrival, Medium};
use crate::side::Side;
use net::link::QUEUE_LIMIT;
use net::rng::Rng;
use net::time::{Duration, Instant};
use std::cell::Cell;
use std::rc::Rc;

/// Faults and limits of a network that transmits datagrams or the bytes of a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conditions {
    /// Independent faults of each datagram or byte.
    pub(super) faults: Faults,
    /// Probability that a burst loss begins, in parts per million.
    pub(super) bursts_ppm: u32,
    /// Maximum duration of a burst loss.
    pub(super) burst_max: Duration,
    /// One-way delay.
    pub(super) delay: Duration,
    /// Maximum additional delay; jitter does not reorder datagrams.
    pub(super) jitter: Duration,
    /// Rate of the bottleneck link, in bits per second.
    pub(super) rate_bps: u64,
    /// Queue of the bottleneck link, in bytes.
    pub(super) queue_bytes: usize,
    /// Whether ECN-capable datagrams are marked (CE) while the queue is more than half full.
    pub(super) marks: bool,
    /// Path MTU before and after its change.
    pub(super) mtus: [u16; 2],
    /// Time at which the path MTU changes.
    pub(super) mtu_changes_at: Instant,
    /// Whether routers drop overlong datagrams without an ICMP error.
    pub(super) is_silent: bool,
    /// Probability of a forged ICMP error, in parts per million.
    pub(super) forged_ppm: u32,
    /// Period and downtime of periodic line outages; `None` for no outages.
    pub(super) flaps: Option<[Duration; 2]>,
    /// Start of the calm phase: from this time on no data is lost or damaged.
    pub(super) calm_at: Instant,
    /// Whether the network carries bytes of a serial line instead of datagrams.
    pub(super) is_serial: bool,
}

impl Conditions {
    /// Returns the maximum round-trip time in the calm phase.
    pub(super) fn round_trip_max(&self) -> Duration {
        // A serial line also has the queue of its host, and every byte may be escaped.
        let line_queue = 2 * QUEUE_LIMIT as u64 * u64::from(self.mtus[0]);
        let queue = if self.is_serial { line_queue } else { self.queue_bytes as u64 };
        let waiting = serial_time(queue + u64::from(self.mtus[0]), self.rate_bps);
        (self.delay + self.jitter + self.faults.reordering_delay_max + waiting) * 2
    }
}

fn serial_time(len: u64, rate_bps: u64) -> Duration {
    let nanos = u128::from(len) * 8_000_000_000 / u128::from(rate_bps.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Values that the network records during a run, for the checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Observations {
    /// Initial sequence number of each side, as soon as the network has received its SYN.
    pub(super) isns: Rc<Cell<[Option<u32>; 2]>>,
    /// Number of genuine ICMP errors, whose sender has really received the reported datagram.
    pub(super) reported_errors: Rc<Cell<u64>>,
    /// Size and digest of the data sent by both sides.
    pub(super) traffic: Rc<Cell<Traffic>>,
}

/// Size and digest of all data sent in a run, including the times of sending, for comparison with
/// another run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes sent in both directions.
    pub bytes: u64,
    /// Digest of the senders, the data and the times.
    pub digest: u64,
}

impl Traffic {
    fn with_data(mut self, from: Side, sent_at: Instant, bytes: &[u8]) -> Self {
        self.bytes += bytes.len() as u64;
        let head = sent_at.as_nanos() << 1 | from as u64;
        for byte in head.to_le_bytes().iter().chain(bytes) {
            // FNV-1a.
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self
    }
}

/// State of one direction of the network.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// End of the current burst loss.
    burst_until: Instant,
    /// Time at which the queue of the bottleneck link is empty.
    free_at: Instant,
    /// Arrival time of the last datagram that was not reordered.
    last_arrival_at: Instant,
}

/// The network between the two hosts.
#[derive(Debug)]
pub(super) struct Network {
    conditions: Conditions,
    directions: [Direction; 2],
    observations: Observations,
}

impl Network {
    pub(super) fn new(conditions: Conditions, observations: Observations) -> Self {
        Self { conditions, directions: [Direction::default(); 2], observations }
    }

    fn direction(&mut self, from: Side) -> &mut Direction {
        let [to_server, to_user] = &mut self.directions;
        match from {
            Side::User => to_server,
            Side::Server => to_user,
        }
    }

    fn record_isn(&self, from: Side, datagram: &[u8]) {
        let mut isns = self.observations.isns.get();
        let own = isns.get_mut(from as usize);
        if let (Some(own @ None), Some(isn)) = (own, packet_injection::isn(datagram)) {
            *own = Some(isn);
            self.observations.isns.set(isns);
        }
    }

    /// Returns whether all data sent now is lost, because of a line outage or a burst loss.
    fn is_down(&mut self, from: Side, now: Instant, rng: &mut Rng) -> bool {
        let Conditions { bursts_ppm, burst_max, flaps, .. } = self.conditions;
        if let Some([period, down]) = flaps {
            let time_in_period =
                now.as_nanos() % u64::try_from(period.as_nanos()).unwrap_or(1).max(1);
            if u128::from(time_in_period) < down.as_nanos() {
                return true;
            }
        }
        let direction = self.direction(from);
        if now >= direction.burst_until && rng.random_bool(bursts_ppm) {
            direction.burst_until = now + random_part_of(burst_max, rng);
        }
        now < direction.burst_until
    }

    fn mtu(&self, now: Instant) -> u16 {
        let [before, after] = self.conditions.mtus;
        if now < self.conditions.mtu_changes_at { before } else { after }
    }

    /// Returns the time at which the bottleneck link has sent the last bit of a datagram, or `None`
    /// if the datagram is dropped.
    fn enqueue(&mut self, from: Side, now: Instant, bytes: &mut [u8]) -> Option<Instant> {
        let Conditions { rate_bps, queue_bytes, marks, .. } = self.conditions;
        let direction = self.direction(from);
        let waiting = direction.free_at - now;
        let room = serial_time(queue_bytes as u64, rate_bps);
        if waiting > room {
            return None;
        }
        if marks && waiting > room / 2 {
            packet_injection::mark(bytes);
        }
        direction.free_at = direction.free_at.max(now) + serial_time(bytes.len() as u64, rate_bps);
        Some(direction.free_at)
    }

    fn forged_error(&self, datagram: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
        if !rng.random_bool(self.conditions.forged_ppm) {
            return None;
        }
        match rng.below(4) {
            0 => packet_injection::error(datagram, IcmpError::TooBig(68), true),
            1 => packet_injection::error(datagram, IcmpError::NoPort, true),
            // An on-path sender, which has seen the datagram, may report an error that does not end
            // the connection.
            2 => self.reported_error(datagram, IcmpError::NoRoute),
            _ => packet_injection::error(datagram, IcmpError::NoRoute, true),
        }
    }

    /// Returns an ICMP error from an on-path sender that has received the datagram.
    fn reported_error(&self, datagram: &[u8], icmp_error: IcmpError) -> Option<Vec<u8>> {
        let reported_errors = &self.observations.reported_errors;
        reported_errors.set(reported_errors.get() + 1);
        packet_injection::error(datagram, icmp_error, false)
    }

    fn deliver(
        &mut self,
        from: Side,
        left_link_at: Instant,
        bytes: Vec<u8>,
        rng: &mut Rng,
    ) -> Vec<Arrival> {
        let Conditions { faults, delay, jitter, calm_at, .. } = self.conditions;
        let is_calm = left_link_at >= calm_at;
        let (faults, jitter) =
            if is_calm { (Faults::default(), Duration::ZERO) } else { (faults, jitter) };
        let arrives_at = (left_link_at + delay + random_part_of(jitter, rng))
            .max(self.direction(from).last_arrival_at);
        self.direction(from).last_arrival_at = arrives_at;
        let copies = faults.apply(bytes, rng).into_iter();
        copies
            .map(|(late, bytes)| Arrival { to: from.other(), at: arrives_at + late, bytes })
            .collect()
    }
}

fn random_part_of(longest: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.below(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)))
}

impl Medium for Network {
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        rng: &mut Rng,
    ) -> Vec<Arrival> {
        let is_calm = sent_at >= self.conditions.calm_at;
        self.observations
            .traffic
            .set(self.observations.traffic.get().with_data(from, sent_at, &bytes));
        if !self.conditions.is_serial {
            self.record_isn(from, &bytes);
        }
        if !is_calm && self.is_down(from, sent_at, rng) {
            return Vec::new();
        }
        if self.conditions.is_serial {
            return self.deliver(from, sent_at, bytes, rng);
        }
        let reply_arrival =
            |bytes| Arrival { to: from, at: sent_at + self.conditions.delay, bytes };
        let mtu = self.mtu(sent_at);
        let pieces = match (bytes.len() > usize::from(mtu))
            .then(|| packet_injection::split_into_fragments(&bytes, mtu))
        {
            None => vec![bytes],
            Some(Some(pieces)) => pieces,
            Some(None) if self.conditions.is_silent => return Vec::new(),
            Some(None) => {
                let error = self.reported_error(&bytes, IcmpError::TooBig(mtu));
                return error.map(reply_arrival).into_iter().collect();
            }
        };
        let forged_error =
            pieces.first().filter(|_| !is_calm).and_then(|first| self.forged_error(first, rng));
        let mut arrivals: Vec<Arrival> = forged_error.map(reply_arrival).into_iter().collect();
        for mut bytes in pieces {
            if let Some(left_link_at) = self.enqueue(from, sent_at, &mut bytes) {
                arrivals.extend(self.deliver(from, left_link_at, bytes, rng));
            }
        }
        arrivals
    }
}
