//! A host that takes time to think: a station, its processor and its application.
//!
//! A step runs at the moment when the processor turns to it, and its meter says what it cost. The
//! processor is busy for that long; then what the step has sent is given to the line. A byte that
//! comes or goes meanwhile interrupts it, and the interrupt's cost makes everything later by just
//! as much. So the processor's time is always the sum of what was charged, and what was charged is
//! always the time that has passed.
//!
//! What a step itself notes as the time, by `Meter::busy_until`, is its beginning and what it has
//! cost until then: it does not know of the interrupts that are still to come. What interrupt
//! level answers by itself, as the link's acknowledgment, is on the line without delay; TM-233
//! counts it so.

use crate::clock::Reading;
use crate::world::Side;
use protocols::Cx;
use protocols::chance::Chance;
use protocols::link::Link;
use protocols::meter::{Clock, Costs, Meter, Work};
use protocols::station::{Application, Control, Scheduler, Settings, Station, Step};
use protocols::time::Instant;

/// One host of a world.
#[derive(Debug)]
pub struct Host<A> {
    /// Its layers.
    pub station: Station,
    /// What it has counted, and where its time went.
    pub meter: Meter,
    /// What runs on it.
    pub application: A,
    chance: Chance,
    control: Box<dyn Control>,
}

impl<A: Application> Host<A> {
    /// Makes a host whose work costs what `costs` says, none by default.
    pub fn new(link: Link, settings: Settings, costs: Costs, seed: u64, application: A) -> Self {
        let mut meter = Meter::new(Clock::Virtual(costs));
        let mut chance = Chance::from_seed(seed);
        let mut cx = Cx { now: Instant::ZERO, chance: &mut chance, meter: &mut meter };
        let station = Station::new(link, settings, &mut cx);
        let control = Box::new(Scheduler::default());
        Self { station, meter, application, chance, control }
    }

    /// Has `control` call the steps, in the place of the procedure-based scheduler.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.control = control;
    }

    /// Lets it answer when one datagram is left to take, not only when none is (TM-233 §7.1).
    #[must_use]
    pub fn answering_early(mut self) -> Self {
        self.set_control(Box::new(Scheduler::answering_early()));
        self
    }
}

/// What the world asks of a host, whatever its application is.
pub(crate) trait Machine {
    /// Takes bytes that arrive now, at interrupt level.
    fn interrupt(&mut self, bytes: &[u8], now: Reading);
    /// Returns the next bytes for the line, at most `limit`.
    fn give(&mut self, limit: usize, now: Reading) -> Vec<u8>;
    /// Charges the interrupts of bytes that have gone out.
    fn gone_out(&mut self, count: usize, now: Reading);
    /// Runs the next step and returns it, if one is ready; the processor must be free.
    fn run_step(&mut self, now: Reading) -> Option<Step>;
    /// Opens the line again, as its owner has to where it has come to an end (PPP).
    fn reopen(&mut self, now: Reading);
    /// Returns until when the processor is busy.
    fn busy_until(&self) -> Reading;
    /// Returns when it wants to be called next, if nothing happens before.
    fn deadline(&self) -> Option<Reading>;
}

impl<A: Application> Machine for Host<A> {
    fn interrupt(&mut self, bytes: &[u8], Reading(now): Reading) {
        self.meter.wait_until(now);
        self.meter.work(Work::LineByte, bytes.len());
        let mut cx = Cx { now, chance: &mut self.chance, meter: &mut self.meter };
        self.station.receive(bytes, &mut cx);
    }

    fn give(&mut self, limit: usize, Reading(now): Reading) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut cx = Cx { now, chance: &mut self.chance, meter: &mut self.meter };
        self.station.transmit_into(&mut bytes, limit, &mut cx);
        bytes
    }

    fn gone_out(&mut self, count: usize, Reading(now): Reading) {
        self.meter.wait_until(now);
        self.meter.work(Work::LineByte, count);
    }

    fn run_step(&mut self, Reading(now): Reading) -> Option<Step> {
        let (station, application) = (&mut self.station, &mut self.application);
        // The processor has waited until now only if there is something to do.
        self.control.next(station, application, now)?;
        self.meter.wait_until(now);
        let mut cx = Cx { now, chance: &mut self.chance, meter: &mut self.meter };
        self.control.run_one(station, application, &mut cx)
    }

    fn reopen(&mut self, Reading(now): Reading) {
        let mut cx = Cx { now, chance: &mut self.chance, meter: &mut self.meter };
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

/// The seed of a host, from that of its world.
pub(crate) fn seed_of(seed: u64, side: Side) -> u64 {
    Chance::from_seed(seed).next_u64().wrapping_add(side as u64)
}
