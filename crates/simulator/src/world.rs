//! Two hosts, the line between them, and what happens next.

use crate::host::{Host, Machine};
use crate::line::{Line, Unit};
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
}

/// Two hosts and a line in virtual time.
#[derive(Debug)]
pub struct World<A, B> {
    /// The host that opens the connection.
    pub user: Host<A>,
    /// The host that waits for it.
    pub server: Host<B>,
    line: Line,
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
        let (now, agenda) = (Instant::ZERO, BTreeMap::new());
        Self { user, server, line, now, seed, chance, agenda, happened: 0, places }
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
                self.machine(to).interrupt(&bytes, now);
                self.turn(to);
            }
            Happening::Sent { from, count } => {
                self.place(from).is_sending = false;
                self.machine(from).gone_out(count, now);
                self.turn(from);
            }
            Happening::Free { host } => {
                // Interrupts may have made the end of the step later.
                let busy_until = self.machine(host).busy_until();
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
        let now = self.now;
        // An interrupt that is not over yet holds the step up.
        if self.machine(side).busy_until() <= now {
            let Some(step) = self.machine(side).run_step(now) else {
                return self.set_timer(side);
            };
            self.place(side).is_making_output = step == Step::Send;
        }
        let at = self.machine(side).busy_until().max(now);
        self.place(side).is_computing = true;
        self.plan(at, Happening::Free { host: side });
    }

    fn set_timer(&mut self, side: Side) {
        let Some(deadline) = self.machine(side).deadline() else { return };
        let deadline = deadline.max(self.now);
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
        let now = self.now;
        let limit = match self.line.unit {
            Unit::Byte { .. } => 1,
            Unit::Datagram => usize::MAX,
        };
        let bytes = self.machine(side).give(limit, now);
        if bytes.is_empty() {
            return;
        }
        let sent_at = now + self.line.serial_time(bytes.len());
        self.place(side).is_sending = true;
        self.plan(sent_at, Happening::Sent { from: side, count: bytes.len() });
        for (late, bytes) in self.line.faults.befall(bytes, &mut self.chance) {
            let at = sent_at + self.line.delay + late;
            self.plan(at, Happening::Arrival { to: side.other(), bytes });
        }
    }

    fn plan(&mut self, at: Instant, happening: Happening) {
        self.happened += 1;
        self.agenda.insert((at, self.happened), happening);
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
