//! Discrete-event simulation of two hosts and the line between them.

use crate::clock::{LocalClock, Reading};
use crate::host::{Host, Machine};
use crate::medium::{Arrival, Medium};
use crate::side::Side;
use crate::transmission_line::{Line, Unit};
use net::rng::Rng;
use net::station::{Application, Step};
use net::time::Instant;
use std::collections::BTreeMap;
use std::fmt;

/// Error: no event is left, but the run has not reached its end. This is a bug of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Time of the last event.
    pub at: Instant,
    /// The seed of the run.
    pub seed: u64,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no event and no timer is left at {} (seed {})", self.at, self.seed)
    }
}

impl std::error::Error for Stuck {}

#[derive(Debug)]
enum Event {
    /// Arrival of bytes at a host.
    Arrival { to: Side, bytes: Vec<u8> },
    /// End of the transmission of a host's data.
    Sent { from: Side, count: usize },
    /// End of a step on the processor of a host.
    Free { host: Side },
    /// Expiry at `at` of a host's timer.
    Timer { host: Side, at: Instant },
    /// Expiry at `at` of the medium's timer.
    Medium { at: Instant },
}

/// Scheduling state of one host.
#[derive(Debug, Default)]
struct HostState {
    /// Whether the line is transmitting data of the host.
    is_sending: bool,
    /// Whether an [`Event::Free`] is scheduled for the host.
    is_computing: bool,
    /// Whether the running step of the host produces output.
    is_making_output: bool,
    /// Expiry time of the current timer; events for any other time are obsolete and ignored.
    timer: Option<Instant>,
    /// Clock of the host, which may deviate from virtual time.
    clock: LocalClock,
    /// Separate line for the data that the host sends; `None` for the line of the world.
    line: Option<Line>,
}

/// Two hosts and a line in virtual time.
#[derive(Debug)]
pub struct World<A, B> {
    /// The host that opens the connection.
    pub user: Host<A>,
    /// The host that accepts the connection.
    pub server: Host<B>,
    line: Line,
    /// Medium that replaces the delay and the faults of the line.
    medium: Option<Box<dyn Medium>>,
    /// Expiry time of the medium's current timer.
    medium_timer: Option<Instant>,
    now: Instant,
    seed: u64,
    rng: Rng,
    event_queue: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
    host_states: [HostState; 2],
}

impl<A: Application, B: Application> World<A, B> {
    /// Creates a world in which nothing has happened yet.
    pub fn new(user: Host<A>, server: Host<B>, line: Line, seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        let host_states = [HostState::default(), HostState::default()];
        let medium = None;
        let medium_timer = None;
        let now = Instant::ZERO;
        let event_queue = BTreeMap::new();
        let event_count = 0;
        Self {
            user,
            server,
            line,
            medium,
            medium_timer,
            now,
            seed,
            rng,
            event_queue,
            event_count,
            host_states,
        }
    }

    /// Replaces the delay and the faults of the line with `medium`.
    pub fn set_medium(&mut self, medium: Box<dyn Medium>) {
        self.medium = Some(medium);
    }

    /// Sets a separate line for the data that a host sends. Call it before the first event.
    pub fn set_line(&mut self, side: Side, line: Line) {
        self.host_state(side).line = Some(line);
    }

    /// Sets the clock of a host. Call it before the first event.
    pub fn set_clock(&mut self, side: Side, clock: LocalClock) {
        self.host_state(side).clock = clock;
    }

    /// Opens the line of a host again after PPP has terminated it.
    pub(crate) fn reopen(&mut self, side: Side) {
        let time = self.time(side);
        self.machine(side).reopen(time);
        self.run_host(side);
    }

    /// Returns the current virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs until `is_done` returns true.
    ///
    /// # Errors
    ///
    /// Returns an error if no event and no timer is left before `is_done` returns true.
    pub fn drive(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) -> Result<(), Stuck> {
        self.wake();
        while !is_done(self) {
            if !self.process_next_event(None) {
                return Err(Stuck { at: self.now, seed: self.seed });
            }
        }
        Ok(())
    }

    /// Runs until the virtual time `end`; has no effect if `end` is in the past.
    pub fn run_until(&mut self, end: Instant) {
        self.wake();
        while self.process_next_event(Some(end)) {}
        self.now = self.now.max(end);
    }

    /// Runs the steps that have become ready because the caller has changed the state of a host.
    pub fn wake(&mut self) {
        self.run_host(Side::User);
        self.run_host(Side::Server);
    }

    fn process_next_event(&mut self, end: Option<Instant>) -> bool {
        let Some(entry) = self.event_queue.first_entry() else { return false };
        if end.is_some_and(|end| entry.key().0 > end) {
            return false;
        }
        let ((at, _), event) = entry.remove_entry();
        self.now = self.now.max(at);
        self.process_event(event);
        true
    }

    fn process_event(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Arrival { to, bytes } => {
                let time = self.time(to);
                self.machine(to).interrupt(&bytes, time);
                self.run_host(to);
            }
            Event::Sent { from, count } => {
                self.host_state(from).is_sending = false;
                let time = self.time(from);
                self.machine(from).on_sent(count, time);
                self.run_host(from);
            }
            Event::Free { host } => {
                // Interrupts may have postponed the end of the step.
                let busy_until = self.busy_until(host);
                if busy_until > now {
                    return self.schedule(busy_until, Event::Free { host });
                }
                let host_state = self.host_state(host);
                host_state.is_computing = false;
                host_state.is_making_output = false;
                self.run_host(host);
            }
            Event::Timer { host, at } => {
                // An event superseded by an earlier deadline must not schedule another one.
                if self.host_state(host).timer.take_if(|timer| *timer == at).is_some() {
                    self.run_host(host);
                }
            }
            Event::Medium { at } => {
                if self.medium_timer.take_if(|timer| *timer == at).is_some() {
                    self.run_medium();
                }
            }
        }
    }

    /// Passes available output to the line, and then runs the next step. The output of a step is
    /// available only after the step has ended.
    fn run_host(&mut self, side: Side) {
        self.transmit(side);
        self.run_next_step(side);
    }

    /// Runs the next step of `side` if its processor is free.
    fn run_next_step(&mut self, side: Side) {
        if self.host_state(side).is_computing {
            return;
        }
        // An interrupt that is still in progress delays the step.
        if self.busy_until(side) <= self.now {
            let time = self.time(side);
            let Some(step) = self.machine(side).run_step(time) else {
                return self.set_timer(side);
            };
            self.host_state(side).is_making_output = step == Step::Send;
        }
        let at = self.busy_until(side).max(self.now);
        self.host_state(side).is_computing = true;
        self.schedule(at, Event::Free { host: side });
    }

    fn run_medium(&mut self) {
        let Some(medium) = &mut self.medium else { return };
        let arrivals = medium.timeout(self.now, &mut self.rng);
        self.schedule_arrivals(arrivals);
    }

    /// Schedules arrivals reported by the medium, and the medium's next timer.
    fn schedule_arrivals(&mut self, arrivals: Vec<Arrival>) {
        for Arrival { to, at, bytes } in arrivals {
            self.schedule(at, Event::Arrival { to, bytes });
        }
        let Some(at) = self.medium.as_ref().and_then(|medium| medium.deadline()) else { return };
        let at = at.max(self.now);
        if self.medium_timer.is_none_or(|scheduled| at < scheduled) {
            self.medium_timer = Some(at);
            self.schedule(at, Event::Medium { at });
        }
    }

    fn set_timer(&mut self, side: Side) {
        let Some(deadline) = self.machine(side).deadline() else { return };
        let deadline = self.host_state(side).clock.time_of(deadline).max(self.now);
        if self.host_state(side).timer.is_none_or(|scheduled| deadline < scheduled) {
            self.host_state(side).timer = Some(deadline);
            self.schedule(deadline, Event::Timer { host: side, at: deadline });
        }
    }

    /// Passes the next output of `side` to the line, if the line is free.
    ///
    /// Nothing is sent during a step that produces output. An acknowledgment of the link, which the
    /// interrupt level would normally send at once, also waits for the end of such a step.
    fn transmit(&mut self, side: Side) {
        let host_state = self.host_state(side);
        if host_state.is_sending || host_state.is_making_output {
            return;
        }
        let now = self.now;
        let time = self.time(side);
        let line = self.host_state(side).line.unwrap_or(self.line);
        let limit = match line.unit {
            Unit::Byte { .. } => 1,
            Unit::Datagram => usize::MAX,
        };
        let bytes = self.machine(side).next_output(limit, time);
        if bytes.is_empty() {
            return;
        }
        let sent_at = now + line.serial_time(bytes.len());
        self.host_state(side).is_sending = true;
        self.schedule(sent_at, Event::Sent { from: side, count: bytes.len() });
        if let Some(medium) = &mut self.medium {
            let arrivals = medium.carry(side, sent_at, bytes, &mut self.rng);
            return self.schedule_arrivals(arrivals);
        }
        for (late, bytes) in line.faults.apply(bytes, &mut self.rng) {
            let at = sent_at + line.delay + late;
            self.schedule(at, Event::Arrival { to: side.other(), bytes });
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.event_queue.insert((at, self.event_count), event);
    }

    /// Returns the reading of a host's clock.
    fn time(&mut self, side: Side) -> Reading {
        let now = self.now;
        self.host_state(side).clock.reading(now)
    }

    /// Returns the world time until which the processor of a host is busy.
    fn busy_until(&mut self, side: Side) -> Instant {
        let reading = self.machine(side).busy_until();
        self.host_state(side).clock.time_of(reading)
    }

    fn machine(&mut self, side: Side) -> &mut dyn Machine {
        match side {
            Side::User => &mut self.user,
            Side::Server => &mut self.server,
        }
    }

    fn host_state(&mut self, side: Side) -> &mut HostState {
        let [user, server] = &mut self.host_states;
        match side {
            Side::User => user,
            Side::Server => server,
        }
    }
}

#[cfg(test)]
mod tests;
