//! Pairs of hosts that share one link, with a router at each end of the link.
//!
//! Each pair has its own paths to the routers, with their own delays and faults. Each direction of
//! the link has one drop-tail queue. The processing of the hosts takes no virtual time, so that
//! only the network and the protocols determine the results.

use crate::clock::Reading;
use crate::faults::Faults;
use crate::host::{Host, Machine};
use crate::side::Side;
use crate::world::Stuck;
use net::rng::Rng;
use net::station::Application;
use net::time::{Duration, Instant};
use std::collections::BTreeMap;

/// Parameters of each direction of the shared link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// Rate in bit/s; `None` for a link without delay and drops.
    pub rate_bps: Option<u64>,
    /// Maximum number of bytes queued for the link, including those in transmission.
    pub queue_bytes: usize,
}

impl Bottleneck {
    /// A link without delay and drops.
    pub const NONE: Self = Self { rate_bps: None, queue_bytes: usize::MAX };
}

/// The unshared part of the path between the two hosts of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Delay from the user to the server, in addition to the delay of the link.
    pub delay_to_server: Duration,
    /// Delay from the server to the user, in addition to the delay of the link.
    pub delay_to_user: Duration,
    /// Faults in each direction, applied after the link.
    pub faults: Faults,
}

/// Two hosts that communicate with each other.
#[derive(Debug)]
pub struct Pair<A, B> {
    /// The host that opens the connection.
    pub user: Host<A>,
    /// The host that accepts the connection.
    pub server: Host<B>,
    path: Path,
    /// Expiry time of each host's current timer; timer events for any other time are obsolete and
    /// ignored.
    timers: [Option<Instant>; 2],
    /// Random number generators for the faults of each direction.
    rngs: [Rng; 2],
}

impl<A: Application, B: Application> Pair<A, B> {
    fn machine(&mut self, side: Side) -> &mut dyn Machine {
        match side {
            Side::User => &mut self.user,
            Side::Server => &mut self.server,
        }
    }
}

/// Queue of one direction of the link.
#[derive(Debug)]
struct Queue {
    bottleneck: Bottleneck,
    /// Time at which all queued bytes are sent.
    free_at: Instant,
    carried: u64,
    dropped: u64,
}

impl Queue {
    fn new(bottleneck: Bottleneck) -> Self {
        Self { bottleneck, free_at: Instant::ZERO, carried: 0, dropped: 0 }
    }

    /// Enqueues a datagram of `len` bytes and returns the time at which its last bit is sent;
    /// `None` if the queue is full and the datagram is dropped.
    fn enqueue(&mut self, len: usize, now: Instant) -> Option<Instant> {
        let sent_at = self.transmission_end(len, now);
        *(if sent_at.is_some() { &mut self.carried } else { &mut self.dropped }) += 1;
        self.free_at = sent_at.unwrap_or(self.free_at);
        sent_at
    }

    fn transmission_end(&self, len: usize, now: Instant) -> Option<Instant> {
        let Some(rate_bps) = self.bottleneck.rate_bps else { return Some(now) };
        let queued_bytes = u128::from(rate_bps) * (self.free_at - now).as_nanos() / 8 / NANOS;
        if queued_bytes + len as u128 > self.bottleneck.queue_bytes as u128 {
            return None;
        }
        let transmission_ns = (len as u128 * 8 * NANOS).checked_div(rate_bps.into())?;
        Some(self.free_at.max(now) + Duration::from_nanos(u64::try_from(transmission_ns).ok()?))
    }
}

const NANOS: u128 = 1_000_000_000;

#[derive(Debug)]
enum Event {
    /// Arrival of a datagram at a host.
    Arrival { pair: usize, to: Side, bytes: Vec<u8> },
    /// Expiry at `at` of a host's timer.
    Timer { pair: usize, host: Side, at: Instant },
}

/// Pairs of hosts, and the link that they share.
#[derive(Debug)]
pub struct Dumbbell<A, B> {
    /// The pairs.
    pub pairs: Vec<Pair<A, B>>,
    /// Queues of the link: toward the servers, and toward the users.
    queues: [Queue; 2],
    now: Instant,
    seed: u64,
    event_queue: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
}

impl<A: Application, B: Application> Dumbbell<A, B> {
    /// Creates the link without any pairs.
    #[must_use]
    pub fn new(bottleneck: Bottleneck, seed: u64) -> Self {
        Self {
            pairs: Vec::new(),
            queues: [Queue::new(bottleneck), Queue::new(bottleneck)],
            now: Instant::ZERO,
            seed,
            event_queue: BTreeMap::new(),
            event_count: 0,
        }
    }

    /// Adds a pair of hosts. The processing costs of the hosts must be zero.
    pub fn add(&mut self, user: Host<A>, server: Host<B>, path: Path) {
        let number = self.pairs.len() as u64;
        let mut rng = Rng::from_seed(self.seed ^ number.rotate_right(16));
        let rngs = [0; 2].map(|_| Rng::from_seed(rng.next_u64()));
        self.pairs.push(Pair { user, server, path, timers: [None; 2], rngs });
    }

    /// Returns the current virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the numbers of datagrams that the link has transmitted and dropped, in both
    /// directions together.
    #[must_use]
    pub(crate) fn carried_and_dropped(&self) -> (u64, u64) {
        let sum = |count: fn(&Queue) -> u64| self.queues.iter().map(count).sum();
        (sum(|queue| queue.carried), sum(|queue| queue.dropped))
    }

    /// Runs until `is_done` returns true.
    ///
    /// # Errors
    ///
    /// Returns an error if no event and no timer is left before `is_done` returns true.
    pub fn drive(&mut self, mut is_done: impl FnMut(&Self) -> bool) -> Result<(), Stuck> {
        for pair in 0..self.pairs.len() {
            self.run(pair, Side::User);
            self.run(pair, Side::Server);
        }
        while !is_done(self) {
            let Some(((at, _), event)) = self.event_queue.pop_first() else {
                return Err(Stuck { at: self.now, seed: self.seed });
            };
            self.now = self.now.max(at);
            self.process_event(event);
        }
        Ok(())
    }

    fn process_event(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Arrival { pair, to, bytes } => {
                let Some(pair_state) = self.pairs.get_mut(pair) else { return };
                pair_state.machine(to).interrupt(&bytes, Reading(now));
                self.run(pair, to);
            }
            Event::Timer { pair, host, at } => {
                let pair_state = self.pairs.get_mut(pair);
                let timer =
                    pair_state.and_then(|pair_state| pair_state.timers.get_mut(host as usize));
                if timer.and_then(|timer| timer.take_if(|timer| *timer == at)).is_some() {
                    self.run(pair, host);
                }
            }
        }
    }

    /// Runs all pending work of a host at the current time, and sends its output.
    fn run(&mut self, pair: usize, side: Side) {
        let now = self.now;
        while let Some(pair_state) = self.pairs.get_mut(pair) {
            let machine = pair_state.machine(side);
            let bytes = machine.next_output(usize::MAX, Reading(now));
            if !bytes.is_empty() {
                machine.on_sent(bytes.len(), Reading(now));
                self.carry(pair, side, bytes);
            } else if machine.run_step(Reading(now)).is_none() {
                break;
            }
        }
        self.set_timer(pair, side);
    }

    fn carry(&mut self, pair: usize, from: Side, bytes: Vec<u8>) {
        let now = self.now;
        let (Some(queue), Some(pair_state)) =
            (self.queues.get_mut(from as usize), self.pairs.get_mut(pair))
        else {
            return;
        };
        let Some(left_link_at) = queue.enqueue(bytes.len(), now) else { return };
        let Some(rng) = pair_state.rngs.get_mut(from as usize) else { return };
        let delay = if from == Side::User {
            pair_state.path.delay_to_server
        } else {
            pair_state.path.delay_to_user
        };
        for (late, bytes) in pair_state.path.faults.apply(bytes, rng) {
            let at = left_link_at + delay + late;
            self.schedule(at, Event::Arrival { pair, to: from.other(), bytes });
        }
    }

    fn set_timer(&mut self, pair: usize, side: Side) {
        let now = self.now;
        let Some(pair_state) = self.pairs.get_mut(pair) else { return };
        // The clocks of these hosts show the time of the world.
        let Some(Reading(deadline)) = pair_state.machine(side).deadline() else { return };
        let deadline = deadline.max(now);
        let Some(timer) = pair_state.timers.get_mut(side as usize) else { return };
        if timer.is_none_or(|scheduled| deadline < scheduled) {
            *timer = Some(deadline);
            self.schedule(deadline, Event::Timer { pair, host: side, at: deadline });
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.event_queue.insert((at, self.event_count), event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_transmits_datagrams_sequentially() {
        // At 1 Mbit/s, 1,250 bytes take 10 ms.
        let mut queue = Queue::new(Bottleneck { rate_bps: Some(1_000_000), queue_bytes: 10_000 });
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(queue.enqueue(1_250, at(0)), Some(at(10)));
        assert_eq!(queue.enqueue(1_250, at(5)), Some(at(20)));
        assert_eq!(queue.enqueue(1_250, at(100)), Some(at(110)));
    }

    #[test]
    fn a_datagram_that_exceeds_the_queue_is_dropped_and_counted() {
        let mut queue = Queue::new(Bottleneck { rate_bps: Some(1_000_000), queue_bytes: 2_500 });
        let accepted_count = (0..3).filter_map(|_| queue.enqueue(1_250, Instant::ZERO)).count();
        assert_eq!((accepted_count, queue.carried, queue.dropped), (2, 2, 1));
    }

    #[test]
    fn a_link_without_effect_takes_no_time_and_drops_nothing() {
        let mut queue = Queue::new(Bottleneck::NONE);
        assert!((0..1_000).all(|_| queue.enqueue(65_535, Instant::ZERO) == Some(Instant::ZERO)));
    }
}
