//! Hosts at the ports of one center, such as a packet concentrator.
//!
//! Each port has its own full-duplex line. The center has no processing time: it is an engine that
//! receives the bytes of the ports and returns the bytes for them. A host can be disconnected, like
//! a computer that is switched off: it neither sends nor receives from then on.

use crate::clock::Reading;
use crate::host::{Host, Machine};
use crate::transmission_line::{Line, Unit};
use crate::world::Stuck;
use net::rng::Rng;
use net::station::{Application, Step};
use net::time::Instant;
use std::collections::BTreeMap;
use std::fmt;

/// The engine in the center of a star.
pub trait Center: fmt::Debug {
    /// Receives bytes from the host at a port: one datagram, or bytes of a serial line.
    fn receive(&mut self, port: usize, bytes: &[u8], now: Instant, rng: &mut Rng);

    /// Returns at most `limit` bytes for the host at a port, or one datagram; nothing if there is
    /// no output.
    fn transmit(&mut self, port: usize, limit: usize, now: Instant, rng: &mut Rng) -> Vec<u8>;

    /// Returns when to call [`Self::timeout`].
    fn deadline(&self) -> Option<Instant>;

    /// Processes the timers that are due.
    fn timeout(&mut self, now: Instant, rng: &mut Rng);
}

#[derive(Debug)]
enum Event {
    /// Arrival of bytes at a host.
    AtHost { port: usize, bytes: Vec<u8> },
    /// Arrival of bytes at the center.
    AtCenter { port: usize, bytes: Vec<u8> },
    /// End of the transmission of a host's bytes.
    HostSent { port: usize, count: usize },
    /// End of the transmission of the center's bytes.
    CenterSent { port: usize },
    /// End of a step on the processor of a host.
    Free { port: usize },
    /// Expiry at `at` of a host's timer.
    HostTimer { port: usize, at: Instant },
    /// Expiry at `at` of the center's timer.
    CenterTimer { at: Instant },
}

/// A host and its line.
#[derive(Debug)]
struct Port<A> {
    host: Host<A>,
    line: Line,
    is_connected: bool,
    is_host_sending: bool,
    is_center_sending: bool,
    /// Whether an [`Event::Free`] is scheduled.
    is_computing: bool,
    /// Whether the running step of the host produces output.
    is_making_output: bool,
    /// Expiry time of the current timer; events for any other time are obsolete and ignored.
    timer: Option<Instant>,
}

/// A center and the hosts at its ports, in virtual time.
#[derive(Debug)]
pub struct Star<A, C> {
    /// The center.
    pub center: C,
    ports: Vec<Port<A>>,
    center_timer: Option<Instant>,
    now: Instant,
    seed: u64,
    rng: Rng,
    event_queue: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
}

impl<A: Application, C: Center> Star<A, C> {
    /// Creates a star without hosts.
    #[must_use]
    pub fn new(center: C, seed: u64) -> Self {
        Self {
            center,
            ports: Vec::new(),
            center_timer: None,
            now: Instant::ZERO,
            seed,
            rng: Rng::from_seed(seed),
            event_queue: BTreeMap::new(),
            event_count: 0,
        }
    }

    /// Connects a host to the next port, and returns the number of the port.
    pub fn connect(&mut self, host: Host<A>, line: Line) -> usize {
        self.ports.push(Port {
            host,
            line,
            is_connected: true,
            is_host_sending: false,
            is_center_sending: false,
            is_computing: false,
            is_making_output: false,
            timer: None,
        });
        self.ports.len() - 1
    }

    /// Disconnects the host at a port. Bytes that are in transit to it are lost.
    pub fn disconnect(&mut self, port: usize) {
        if let Some(port) = self.ports.get_mut(port) {
            port.is_connected = false;
        }
    }

    /// Returns the host at a port.
    ///
    /// # Panics
    ///
    /// Panics if no host was connected to the port.
    #[must_use]
    pub fn host(&self, port: usize) -> &Host<A> {
        self.ports.get(port).map(|port| &port.host).expect("a host is connected to the port")
    }

    /// Returns the current virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time of the next event, for a driver that runs the star in real time.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.event_queue.keys().next().map(|(at, _)| *at)
    }

    /// Runs until `is_done` returns true.
    ///
    /// # Errors
    ///
    /// Returns an error if no event and no timer is left before `is_done` returns true.
    pub fn drive(&mut self, mut is_done: impl FnMut(&Self) -> bool) -> Result<(), Stuck> {
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

    /// Runs the steps that are ready at the start, or because the caller has changed the state of
    /// the center.
    fn wake(&mut self) {
        for port in 0..self.ports.len() {
            self.run_host(port);
        }
        self.run_center();
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
            Event::AtHost { port, bytes } => {
                if let Some(state) = self.connected(port) {
                    state.host.interrupt(&bytes, Reading(now));
                    self.run_host(port);
                }
            }
            Event::AtCenter { port, bytes } => {
                self.center.receive(port, &bytes, now, &mut self.rng);
                self.run_center();
            }
            Event::HostSent { port, count } => {
                if let Some(state) = self.connected(port) {
                    state.is_host_sending = false;
                    state.host.on_sent(count, Reading(now));
                    self.run_host(port);
                }
            }
            Event::CenterSent { port } => {
                if let Some(state) = self.ports.get_mut(port) {
                    state.is_center_sending = false;
                }
                self.run_center();
            }
            Event::Free { port } => self.end_step(port),
            Event::HostTimer { port, at } => {
                let timer = self.connected(port).map(|state| &mut state.timer);
                if timer.and_then(|timer| timer.take_if(|timer| *timer == at)).is_some() {
                    self.run_host(port);
                }
            }
            Event::CenterTimer { at } => {
                if self.center_timer.take_if(|timer| *timer == at).is_some() {
                    self.center.timeout(now, &mut self.rng);
                    self.run_center();
                }
            }
        }
    }

    fn connected(&mut self, port: usize) -> Option<&mut Port<A>> {
        self.ports.get_mut(port).filter(|state| state.is_connected)
    }

    fn end_step(&mut self, port: usize) {
        let now = self.now;
        let Some(state) = self.connected(port) else { return };
        // Interrupts may have postponed the end of the step.
        let Reading(busy_until) = state.host.busy_until();
        if busy_until > now {
            return self.schedule(busy_until, Event::Free { port });
        }
        state.is_computing = false;
        state.is_making_output = false;
        self.run_host(port);
    }

    /// Passes available output of a host to its line, and then runs its next step. The output of a
    /// step is available only after the step has ended.
    fn run_host(&mut self, port: usize) {
        self.transmit_from_host(port);
        let now = self.now;
        let Some(state) = self.connected(port) else { return };
        if state.is_computing {
            return;
        }
        // An interrupt that is still in progress delays the step.
        if state.host.busy_until() <= Reading(now) {
            let Some(step) = state.host.run_step(Reading(now)) else {
                return self.set_host_timer(port);
            };
            state.is_making_output = step == Step::Send;
        }
        state.is_computing = true;
        let Reading(busy_until) = state.host.busy_until();
        self.schedule(busy_until.max(now), Event::Free { port });
    }

    fn transmit_from_host(&mut self, port: usize) {
        let now = self.now;
        let Some(state) = self.connected(port) else { return };
        if state.is_host_sending || state.is_making_output {
            return;
        }
        let line = state.line;
        let bytes = state.host.next_output(limit_of(line), Reading(now));
        if bytes.is_empty() {
            return;
        }
        state.is_host_sending = true;
        let sent_at = now + line.serial_time(bytes.len());
        self.schedule(sent_at, Event::HostSent { port, count: bytes.len() });
        for (late, bytes) in line.faults.apply(bytes, &mut self.rng) {
            self.schedule(sent_at + line.delay + late, Event::AtCenter { port, bytes });
        }
    }

    /// Passes output of the center to every line that is idle.
    fn run_center(&mut self) {
        let now = self.now;
        for port in 0..self.ports.len() {
            let Some(state) = self.ports.get_mut(port) else { continue };
            if state.is_center_sending {
                continue;
            }
            let line = state.line;
            let bytes = self.center.transmit(port, limit_of(line), now, &mut self.rng);
            if bytes.is_empty() {
                continue;
            }
            state.is_center_sending = true;
            let sent_at = now + line.serial_time(bytes.len());
            self.schedule(sent_at, Event::CenterSent { port });
            for (late, bytes) in line.faults.apply(bytes, &mut self.rng) {
                self.schedule(sent_at + line.delay + late, Event::AtHost { port, bytes });
            }
        }
        let Some(deadline) = self.center.deadline() else { return };
        let at = deadline.max(now);
        if self.center_timer.is_none_or(|scheduled| at < scheduled) {
            self.center_timer = Some(at);
            self.schedule(at, Event::CenterTimer { at });
        }
    }

    fn set_host_timer(&mut self, port: usize) {
        let now = self.now;
        let Some(state) = self.ports.get_mut(port) else { return };
        let Some(Reading(deadline)) = state.host.deadline() else { return };
        let at = deadline.max(now);
        if state.timer.is_none_or(|scheduled| at < scheduled) {
            state.timer = Some(at);
            self.schedule(at, Event::HostTimer { port, at });
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.event_queue.insert((at, self.event_count), event);
    }
}

/// Returns the number of bytes that a line transmits as one unit.
const fn limit_of(line: Line) -> usize {
    match line.unit {
        Unit::Byte { .. } => 1,
        Unit::Datagram => usize::MAX,
    }
}
