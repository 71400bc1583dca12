//! Two hosts, the line between them, and what happens next.

use crate::clock::{LocalClock, Reading};
use crate::host::{Host, Machine};
use crate::line::{Line, Unit};
use crate::medium::{Arrival, Medium};
use protocols::chance::Chance;
use protocols::station::{Application, Step};
use protocols::time::Instant;
use std::collections::BTreeMap;
use std::fmt;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The one that opens the connection.
    User,
    /// The one that waits for it.
    Server,
}

impl Side {
    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::User => Self::Server,
            Self::Server => Self::User,
        }
    }
}

/// Nothing more can happen, and what was waited for has not: a fault of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// When the last thing happened.
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
enum Happening {
    /// Bytes reach a host.
    Arrival { to: Side, bytes: Vec<u8> },
    /// The line has taken the last bit of what a host sends.
    Sent { from: Side, count: usize },
    /// The processor of a host has finished a step.
    Free { host: Side },
    /// A timer of a host may be due, which was set for `at`.
    Timer { host: Side, at: Instant },
    /// The medium may have something to do, which was planned for `at`.
    Medium { at: Instant },
}

/// What the world knows of one host beside the host itself.
#[derive(Debug, Default)]
struct Place {
    /// The line carries something from it.
    is_sending: bool,
    /// A [`Happening::Free`] is on its way.
    is_computing: bool,
    /// The step that computes makes what is to be sent.
    is_making_output: bool,
    /// The [`Happening::Timer`] that counts; one for any other time comes to nothing.
    timer: Option<Instant>,
    /// What the host takes for the time.
    clock: LocalClock,
    /// What it sends on, if that is not the line of the world.
    line: Option<Line>,
}

/// Two hosts and a line in virtual time.
#[derive(Debug)]
pub struct World<A, B> {
    /// The host that opens the connection.
    pub user: Host<A>,
    /// The host that waits for it.
    pub server: Host<B>,
    line: Line,
    /// What is behind the line, in place of its delay and its faults.
    medium: Option<Box<dyn Medium>>,
    /// The [`Happening::Medium`] that counts.
    medium_timer: Option<Instant>,
    now: Instant,
    seed: u64,
    chance: Chance,
    agenda: BTreeMap<(Instant, u64), Happening>,
    happened: u64,
    places: [Place; 2],
}

impl<A: Application, B: Application> World<A, B> {
    /// Makes a world in which nothing has happened yet.
    pub fn new(user: Host<A>, server: Host<B>, line: Line, seed: u64) -> Self {
        let chance = Chance::from_seed(seed);
        let places = [Place::default(), Place::default()];
        let (medium, medium_timer, now) = (None, None, Instant::ZERO);
        let (agenda, happened) = (BTreeMap::new(), 0);
        Self {
            user,
            server,
            line,
            medium,
            medium_timer,
            now,
            seed,
            chance,
            agenda,
            happened,
            places,
        }
    }

    /// Puts `medium` in the place of the delay and the faults of the line.
    pub fn set_medium(&mut self, medium: Box<dyn Medium>) {
        self.medium = Some(medium);
    }

    /// Gives a host a line of its own to send on; before anything has happened.
    pub fn set_line(&mut self, side: Side, line: Line) {
        self.place(side).line = Some(line);
    }

    /// Gives a host a clock of its own; before anything has happened.
    pub fn set_clock(&mut self, side: Side, clock: LocalClock) {
        self.place(side).clock = clock;
    }

    /// Opens the line of a host again where it has come to an end (PPP).
    pub fn reopen(&mut self, side: Side) {
        let time = self.time(side);
        self.machine(side).reopen(time);
        self.turn(side);
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs until `is_done`.
    ///
    /// # Errors
    ///
    /// If no event and no timer is left before that.
    pub fn drive(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) -> Result<(), Stuck> {
        self.wake();
        while !is_done(self) {
            if !self.next(None) {
                return Err(Stuck { at: self.now, seed: self.seed });
            }
        }
        Ok(())
    }

    /// Runs until `end`; if that is past, nothing happens.
    pub fn run_until(&mut self, end: Instant) {
        self.wake();
        while self.next(Some(end)) {}
        self.now = self.now.max(end);
    }

    /// Lets both hosts look at what was changed from outside.
    pub fn wake(&mut self) {
        self.turn(Side::User);
        self.turn(Side::Server);
    }

    fn next(&mut self, end: Option<Instant>) -> bool {
        let Some(entry) = self.agenda.first_entry() else { return false };
        if end.is_some_and(|end| entry.key().0 > end) {
            return false;
        }
        let ((at, _), happening) = entry.remove_entry();
        self.now = self.now.max(at);
        self.happen(happening);
        true
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        match happening {
            Happening::Arrival { to, bytes } => {
                let time = self.time(to);
                self.machine(to).interrupt(&bytes, time);
                self.turn(to);
            }
            Happening::Sent { from, count } => {
                self.place(from).is_sending = false;
                let time = self.time(from);
                self.machine(from).gone_out(count, time);
                self.turn(from);
            }
            Happening::Free { host } => {
                // Interrupts may have made the end of the step later.
                let busy_until = self.busy_until(host);
                if busy_until > now {
                    return self.plan(busy_until, Happening::Free { host });
                }
                let place = self.place(host);
                (place.is_computing, place.is_making_output) = (false, false);
                self.turn(host);
            }
            Happening::Timer { host, at } => {
                // One that was overtaken by an earlier deadline would only breed.
                if self.place(host).timer.take_if(|timer| *timer == at).is_some() {
                    self.turn(host);
                }
            }
            Happening::Medium { at } => {
                if self.medium_timer.take_if(|timer| *timer == at).is_some() {
                    self.run_medium();
                }
            }
        }
    }

    /// Gives the line what is ready, and then the processor its next step: what that step sends
    /// is ready when it has ended, not before.
    fn turn(&mut self, side: Side) {
        self.transmit(side);
        self.compute(side);
    }

    /// Lets the processor of `side` turn to its next step, if it is free.
    fn compute(&mut self, side: Side) {
        if self.place(side).is_computing {
            return;
        }
        // An interrupt that is not over yet holds the step up.
        if self.busy_until(side) <= self.now {
            let time = self.time(side);
            let Some(step) = self.machine(side).run_step(time) else {
                return self.set_timer(side);
            };
            self.place(side).is_making_output = step == Step::Send;
        }
        let at = self.busy_until(side).max(self.now);
        self.place(side).is_computing = true;
        self.plan(at, Happening::Free { host: side });
    }

    fn run_medium(&mut self) {
        let Some(medium) = &mut self.medium else { return };
        let arrivals = medium.timeout(self.now, &mut self.chance);
        self.arrive(arrivals);
    }

    /// Plans what the medium lets arrive, and when it is called next.
    fn arrive(&mut self, arrivals: Vec<Arrival>) {
        for Arrival { to, at, bytes } in arrivals {
            self.plan(at, Happening::Arrival { to, bytes });
        }
        let Some(at) = self.medium.as_ref().and_then(|medium| medium.deadline()) else { return };
        let at = at.max(self.now);
        if self.medium_timer.is_none_or(|planned| at < planned) {
            self.medium_timer = Some(at);
            self.plan(at, Happening::Medium { at });
        }
    }

    fn set_timer(&mut self, side: Side) {
        let Some(deadline) = self.machine(side).deadline() else { return };
        let deadline = self.place(side).clock.when(deadline).max(self.now);
        if self.place(side).timer.is_none_or(|planned| deadline < planned) {
            self.place(side).timer = Some(deadline);
            self.plan(deadline, Happening::Timer { host: side, at: deadline });
        }
    }

    /// Gives the line what `side` has for it, if the line is free.
    ///
    /// Nothing leaves while the step that makes it computes. An acknowledgment of the link waits
    /// for that step too, which interrupt level would not; all other steps let it pass.
    fn transmit(&mut self, side: Side) {
        let place = self.place(side);
        if place.is_sending || place.is_making_output {
            return;
        }
        let (now, time) = (self.now, self.time(side));
        let line = self.place(side).line.unwrap_or(self.line);
        let limit = match line.unit {
            Unit::Byte { .. } => 1,
            Unit::Datagram => usize::MAX,
        };
        let bytes = self.machine(side).give(limit, time);
        if bytes.is_empty() {
            return;
        }
        let sent_at = now + line.serial_time(bytes.len());
        self.place(side).is_sending = true;
        self.plan(sent_at, Happening::Sent { from: side, count: bytes.len() });
        if let Some(medium) = &mut self.medium {
            let arrivals = medium.carry(side, sent_at, bytes, &mut self.chance);
            return self.arrive(arrivals);
        }
        for (late, bytes) in line.faults.befall(bytes, &mut self.chance) {
            let at = sent_at + line.delay + late;
            self.plan(at, Happening::Arrival { to: side.other(), bytes });
        }
    }

    fn plan(&mut self, at: Instant, happening: Happening) {
        self.happened += 1;
        self.agenda.insert((at, self.happened), happening);
    }

    /// Returns what the clock of a host reads now.
    fn time(&mut self, side: Side) -> Reading {
        let now = self.now;
        self.place(side).clock.reading(now)
    }

    /// Returns until when the processor of a host is busy, in the time of the world.
    fn busy_until(&mut self, side: Side) -> Instant {
        let reading = self.machine(side).busy_until();
        self.place(side).clock.when(reading)
    }

    fn machine(&mut self, side: Side) -> &mut dyn Machine {
        match side {
            Side::User => &mut self.user,
            Side::Server => &mut self.server,
        }
    }

    fn place(&mut self, side: Side) -> &mut Place {
        let [user, server] = &mut self.places;
        match side {
            Side::User => user,
            Side::Server => server,
        }
    }
}

#[cfg(test)]
mod tests;
