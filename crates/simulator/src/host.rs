//! A host with processing time: a station, its processor and its application.
//!
//! A step (one unit of work of the station) starts when the processor is free, and the meter
//! reports the cost of the step. The processor is busy for that time; then the output of the step
//! is passed to the line. A byte received or sent in the meantime interrupts the processor, and the
//! cost of the interrupt delays everything that follows by the same amount. The elapsed time of the
//! processor therefore always equals the sum of the charges.
//!
//! `Meter::busy_until`, the current time from the viewpoint of a step, is the start of the step
//! plus its cost so far: it does not include later interrupts. Output of the interrupt level
//! itself, such as the link's acknowledgment, is sent without delay, as in TM-233.

use crate::clock::Reading;
use crate::side::Side;
use net::Cx;
use net::link::Link;
use net::meter::{Clock, Costs, Meter, Work};
use net::rng::Rng;
use net::station::{Application, Control, Scheduler, Settings, Station, Step};
use net::time::Instant;

/// One host of a world.
#[derive(Debug)]
pub struct Host<A> {
    /// The protocol layers of the host.
    pub station: Station,
    /// Counters of the host, and the CPU time charged to each account.
    pub meter: Meter,
    /// Application that runs on the host.
    pub application: A,
    rng: Rng,
    control: Box<dyn Control>,
}

impl<A: Application> Host<A> {
    /// Creates a host with the processing costs `costs`, which are zero by default.
    pub fn new(link: Link, settings: Settings, costs: Costs, seed: u64, application: A) -> Self {
        let mut meter = Meter::new(Clock::Virtual(costs));
        let mut rng = Rng::from_seed(seed);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
        let station = Station::new(link, settings, &mut cx);
        let control = Box::new(Scheduler::default());
        Self { station, meter, application, rng, control }
    }

    /// Replaces the procedure-based scheduler with `control`.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.control = control;
    }

    /// Makes the host send acknowledgments while one received datagram is still queued, not only
    /// when the queue is empty (TM-233 §7.1).
    #[must_use]
    pub fn answering_early(mut self) -> Self {
        self.set_control(Box::new(Scheduler::answering_early()));
        self
    }
}

/// Operations of a host that do not depend on the type of its application.
pub(crate) trait Machine {
    /// Receives bytes that arrive now, at interrupt level.
    fn interrupt(&mut self, bytes: &[u8], now: Reading);
    /// Returns at most `limit` bytes of output for the line.
    fn next_output(&mut self, limit: usize, now: Reading) -> Vec<u8>;
    /// Charges the interrupts of `count` bytes that the line has sent.
    fn on_sent(&mut self, count: usize, now: Reading);
    /// Runs the next step and returns it, or returns `None` if no step is ready. The processor must
    /// be free.
    fn run_step(&mut self, now: Reading) -> Option<Step>;
    /// Opens the line again after PPP has terminated it, which PPP does not do by itself.
    fn reopen(&mut self, now: Reading);
    /// Returns the time until which the processor is busy.
    fn busy_until(&self) -> Reading;
    /// Returns the time of the next [`Self::run_step`] if no data arrives before.
    fn deadline(&self) -> Option<Reading>;
}

impl<A: Application> Machine for Host<A> {
    fn interrupt(&mut self, bytes: &[u8], Reading(now): Reading) {
        self.meter.wait_until(now);
        self.meter.work(Work::LineByte, bytes.len());
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.station.receive(bytes, &mut cx);
    }

    fn next_output(&mut self, limit: usize, Reading(now): Reading) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.station.transmit_into(&mut bytes, limit, &mut cx);
        bytes
    }

    fn on_sent(&mut self, count: usize, Reading(now): Reading) {
        self.meter.wait_until(now);
        self.meter.work(Work::LineByte, count);
    }

    fn run_step(&mut self, Reading(now): Reading) -> Option<Step> {
        let station = &mut self.station;
        let application = &mut self.application;
        // The processor is charged as waiting until now only if a step is ready.
        self.control.next(station, application, now)?;
        self.meter.wait_until(now);
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.control.run_one(station, application, &mut cx)
    }

    fn reopen(&mut self, Reading(now): Reading) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        if let Link::Ppp(ppp) = self.station.link_mut() {
            ppp.open(&mut cx);
        }
    }

    fn busy_until(&self) -> Reading {
        Reading(self.meter.busy_until())
    }

    fn deadline(&self) -> Option<Reading> {
        let deadlines = [self.station.deadline(), self.application.deadline()];
        deadlines.into_iter().flatten().min().map(Reading)
    }
}

/// Returns the seed of a host, derived from the seed of its world.
#[must_use]
pub fn seed_of(seed: u64, side: Side) -> u64 {
    Rng::from_seed(seed).next_u64().wrapping_add(side as u64)
}
