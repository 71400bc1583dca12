//! A station in a ring: one place for each of its steps.
//!
//! # Who wakes whom
//!
//! A layer tells of itself whether its step has something to do: the link of what has arrived, the
//! transports of news for the application and of what they owe, all of them of their timers. After
//! each step, and when the processor comes in from outside, the event flags are set by that, in the
//! process that runs. No step knows of another: what passes between two processes passes inside a
//! layer (TM-233 §4.2.3), and what passes between two layers is a procedure call.
//!
//! A step whose flag is set may find that another has its turn first ([`Scheduler::next`]): all
//! that has arrived is taken before anything is answered. It wakes itself and blocks.
//!
//! # One step at a time
//!
//! In virtual time the processor belongs to the world between two steps. [`StationControl::run_one`]
//! comes back after each, and where that was in the middle of what a step does in a row, the next
//! call goes on there. That is no change of control, and costs none.

use super::{Flags, Futures, Procedures, Ring, SpawnError, Switch, Tasks, Wake};
use protocols::Cx;
use protocols::Instant;
use protocols::meter::Work;
use protocols::station::{Application, Control, Scheduler, Station, Step};
use std::fmt;
use std::mem::transmute;
use std::ptr::NonNull;

/// Which control structure, and with which of its improvements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// What lies at a place of the ring.
    pub kind: Kind,
    /// Whether the user step calls the send step as a procedure if that has the next turn, so that
    /// no other place need run for it (TM-233 §7.1). What a timer sends still has a turn of its own.
    pub sends_in_user: bool,
}

/// What lies at a place of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A procedure.
    Procedures,
    /// A task.
    Tasks(Switch),
    /// A future.
    Futures,
}

impl Structure {
    /// Every kind, without and with sending in the user step.
    pub const ALL: [Self; 8] = [
        Self { kind: Kind::Procedures, sends_in_user: false },
        Self { kind: Kind::Tasks(Switch::ByRing), sends_in_user: false },
        Self { kind: Kind::Tasks(Switch::Direct), sends_in_user: false },
        Self { kind: Kind::Futures, sends_in_user: false },
        Self { kind: Kind::Procedures, sends_in_user: true },
        Self { kind: Kind::Tasks(Switch::ByRing), sends_in_user: true },
        Self { kind: Kind::Tasks(Switch::Direct), sends_in_user: true },
        Self { kind: Kind::Futures, sends_in_user: true },
    ];
}

/// Runs the steps of one station by a ring.
pub struct StationControl {
    structure: Structure,
    scheduler: Scheduler,
    ring: Box<dyn Ring<Lent>>,
    /// The step in whose middle the last call of [`Control::run_one`] came back.
    stopped_in: Option<Step>,
}

/// The steps in the order of their places, which is that of their turns.
const STEPS: [Step; 4] = [Step::Network, Step::Timer, Step::User, Step::Send];

/// What the steps are lent for one call. It never outlives the borrows that it was made from.
struct Lent {
    station: NonNull<Station>,
    application: NonNull<dyn Application>,
    cx: NonNull<Cx<'static>>,
    scheduler: Scheduler,
    sends_in_user: bool,
    /// Whether the processor goes back after each step.
    is_single: bool,
    ran: Option<Step>,
    stopped_in: Option<Step>,
}

impl StationControl {
    /// Makes the ring of `structure`.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`].
    pub fn new(structure: Structure) -> Result<Self, SpawnError> {
        let ring = match structure.kind {
            Kind::Procedures => procedures()?,
            Kind::Tasks(switch) => tasks(switch)?,
            Kind::Futures => futures()?,
        };
        Ok(Self { structure, scheduler: Scheduler::default(), ring, stopped_in: None })
    }

    /// Returns what it was made of.
    #[must_use]
    pub fn structure(&self) -> Structure {
        self.structure
    }

    /// Sets the event flag of a step: an interrupt has something for it.
    pub fn wake(&self, step: Step) {
        self.ring.wake(place(step));
    }

    fn turns(
        &mut self,
        is_single: bool,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step> {
        let sends_in_user = self.structure.sends_in_user;
        wake_all(station, application, cx.now, sends_in_user, &*self.ring);
        let application: NonNull<dyn Application + '_> = NonNull::from(application);
        // SAFETY: only the lifetime of what is borrowed changes. `lent` does not leave this call,
        // during which all three are borrowed, and the ring keeps nothing of it.
        let application: NonNull<dyn Application> = unsafe { transmute(application) };
        let mut lent = Lent {
            station: NonNull::from(station),
            application,
            cx: NonNull::from(cx).cast(),
            scheduler: self.scheduler,
            sends_in_user,
            is_single,
            ran: None,
            stopped_in: self.stopped_in,
        };
        if is_single {
            while lent.ran.is_none() && self.ring.run_one(&mut lent).is_some() {}
        } else {
            self.ring.run(&mut lent);
        }
        (self.scheduler, self.stopped_in) = (lent.scheduler, lent.stopped_in);
        lent.ran
    }
}

impl Control for StationControl {
    fn next(
        &self,
        station: &mut Station,
        application: &dyn Application,
        now: Instant,
    ) -> Option<Step> {
        self.scheduler.next(station, application, now)
    }

    fn run_one(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step> {
        self.turns(true, station, application, cx)
    }

    fn run(&mut self, station: &mut Station, application: &mut dyn Application, cx: &mut Cx<'_>) {
        self.turns(false, station, application, cx);
    }
}

impl fmt::Debug for StationControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StationControl").field(&self.structure).finish()
    }
}

fn place(step: Step) -> usize {
    STEPS.iter().position(|other| *other == step).unwrap_or(0)
}

/// Sets the event flags of all steps that have something to do, as their layers say.
fn wake_all(
    station: &mut Station,
    application: &dyn Application,
    now: Instant,
    sends_in_user: bool,
    flags: &(impl Wake + ?Sized),
) {
    let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
    if station.has_input() {
        flags.wake(place(Step::Network));
    }
    if is_due(station.deadline()) {
        flags.wake(place(Step::Timer));
    }
    let has_user =
        station.has_news() || application.wants_to_run() || is_due(application.deadline());
    if has_user {
        flags.wake(place(Step::User));
    }
    // What the user step is going to send by itself would wake the send step in vain.
    if station.has_output() && !(has_user && sends_in_user) {
        flags.wake(place(Step::Send));
    }
}

/// What every step does with its turn, in whatever it runs.
fn turn(own: Step, lent: &mut Lent, flags: &(impl Wake + ?Sized)) {
    let Lent { scheduler, sends_in_user, is_single, ran, stopped_in, .. } = lent;
    // SAFETY: all three were made from borrows that last until the ring has come back to
    // `turns`. Only one place of the ring has its turn, it has `lent` for itself, and this
    // function does not block.
    let (station, application, cx) =
        unsafe { (lent.station.as_mut(), lent.application.as_mut(), lent.cx.as_mut()) };
    let mut next = scheduler.next(station, application, cx.now);
    // Who goes on where he stopped was not left, and who looks in meanwhile has no turn.
    let goes_on = stopped_in.is_some() && *stopped_in == next;
    if !goes_on {
        cx.meter.work(Work::Switch, 1);
    }
    if next == Some(own) {
        *stopped_in = None;
        while next == Some(own) {
            scheduler.step(own, station, application, cx);
            *ran = Some(own);
            next = scheduler.next(station, application, cx.now);
            if own == Step::User && *sends_in_user && next == Some(Step::Send) {
                scheduler.step(Step::Send, station, application, cx);
                *ran = Some(Step::Send);
                next = scheduler.next(station, application, cx.now);
            }
            if *is_single {
                *stopped_in = next.filter(|next| *next == own);
                break;
            }
        }
    }
    wake_all(station, application, cx.now, *sends_in_user, flags);
}

fn procedures() -> Result<Box<dyn Ring<Lent>>, SpawnError> {
    let mut ring = Procedures::<Lent>::default();
    for _ in STEPS {
        ring.add(|lent, place, flags: &Flags| {
            if let Some(step) = STEPS.get(place) {
                turn(*step, lent, flags);
            }
        })?;
    }
    Ok(Box::new(ring))
}

fn tasks(switch: Switch) -> Result<Box<dyn Ring<Lent>>, SpawnError> {
    let mut ring = Tasks::<Lent>::new(switch);
    for step in STEPS {
        ring.spawn(move |task| {
            let flags = task.flags().clone();
            loop {
                turn(step, task.lent(), &flags);
                task.block();
            }
        })?;
    }
    Ok(Box::new(ring))
}

fn futures() -> Result<Box<dyn Ring<Lent>>, SpawnError> {
    let mut ring = Futures::<Lent>::default();
    for step in STEPS {
        ring.spawn(|mut loan| async move {
            let flags = loan.flags();
            loop {
                loan.with(|lent| turn(step, lent, &flags));
                loan.block().await;
            }
        })?;
    }
    Ok(Box::new(ring))
}
