//! A station run by a control structure: the ring of the structure has one position for each of the
//! four steps of the station (network, timer, user, send).
//!
//! # Waking the steps
//!
//! A layer reports whether its step has something to do: the link reports arrived packets, the
//! transports report events for the application and pending output, and all of them report due
//! timers. The event flags are set accordingly by the running step after its turn, and on each call
//! from outside. Steps do not know each other: steps communicate inside a layer (TM-233 §4.2.3),
//! and layers communicate by procedure calls.
//!
//! A step whose flag is set may find that another step is to run first ([`Scheduler::next`]),
//! because all arrived packets are processed before any output. It then wakes itself and blocks.
//!
//! # One step at a time
//!
//! In virtual time the simulator controls the processor between two steps.
//! [`StationControl::run_one`] returns after each step. If it returned in the middle of consecutive
//! executions of a step, the next call continues with that step. Such a continuation is not counted
//! as a switch.

use crate::flags::{Flags, Wake};
use crate::futures::Futures;
use crate::procedures::Procedures;
use crate::ring::{Ring, SpawnError};
use crate::tasks::{Switch, Tasks};
use net::Cx;
use net::Instant;
use net::meter::Work;
use net::station::{Application, Control, Scheduler, Station, Step};
use std::fmt;
use std::mem::transmute;
use std::ptr::NonNull;

/// A control structure and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Contents of a position of the ring.
    pub kind: Kind,
    /// True if the user step calls the send step as a procedure whenever the send step would have
    /// the next turn, so that sending needs no switch (TM-233 §7.1). Output caused by a timer is
    /// still sent in a separate turn.
    pub sends_in_user: bool,
}

/// Contents of a position of the ring.
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
    /// All kinds, without and with sending in the user step.
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

/// Runs the steps of one station in the ring of a control structure.
pub struct StationControl {
    structure: Structure,
    scheduler: Scheduler,
    ring: Box<dyn Ring<StepContext>>,
    /// Step that was not finished when the last call of [`StationControl::run_one`] returned.
    stopped_in: Option<Step>,
}

/// The steps in the order of their positions, which is the order of their turns.
const STEPS: [Step; 4] = [Step::Network, Step::Timer, Step::User, Step::Send];

/// References to the station, the application and the context that the steps share during one call.
/// The struct never outlives the borrows from which it was made.
struct StepContext {
    station: NonNull<Station>,
    application: NonNull<dyn Application>,
    cx: NonNull<Cx<'static>>,
    scheduler: Scheduler,
    sends_in_user: bool,
    /// True if control returns to the caller after each step.
    is_single: bool,
    ran: Option<Step>,
    stopped_in: Option<Step>,
}

impl StationControl {
    /// Creates the ring for `structure`.
    ///
    /// # Errors
    ///
    /// Returns [`SpawnError`] if a position cannot be added.
    pub fn new(structure: Structure) -> Result<Self, SpawnError> {
        let ring = match structure.kind {
            Kind::Procedures => procedures()?,
            Kind::Tasks(switch) => tasks(switch)?,
            Kind::Futures => futures()?,
        };
        Ok(Self { structure, scheduler: Scheduler::default(), ring, stopped_in: None })
    }

    /// Returns the control structure.
    #[must_use]
    pub fn structure(&self) -> Structure {
        self.structure
    }

    /// Sets the event flag of a step, on behalf of an interrupt.
    pub fn wake(&self, step: Step) {
        self.ring.wake(position(step));
    }

    fn run_turns(
        &mut self,
        is_single: bool,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step> {
        let sends_in_user = self.structure.sends_in_user;
        wake_all(station, application, cx.now, sends_in_user, &*self.ring);
        let application: NonNull<dyn Application + '_> = NonNull::from(application);
        // SAFETY: only the lifetime of the borrows changes. `context` does not leave this call,
        // during which all three are borrowed, and the ring keeps no reference.
        let application: NonNull<dyn Application> = unsafe { transmute(application) };
        let mut context = StepContext {
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
            while context.ran.is_none() && self.ring.run_one(&mut context).is_some() {}
        } else {
            self.ring.run(&mut context);
        }
        self.scheduler = context.scheduler;
        self.stopped_in = context.stopped_in;
        context.ran
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
        self.run_turns(true, station, application, cx)
    }

    fn run(&mut self, station: &mut Station, application: &mut dyn Application, cx: &mut Cx<'_>) {
        self.run_turns(false, station, application, cx);
    }
}

impl fmt::Debug for StationControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StationControl").field(&self.structure).finish()
    }
}

fn position(step: Step) -> usize {
    STEPS.iter().position(|other| *other == step).unwrap_or(0)
}

/// Sets the event flags of all steps for which a layer reports work.
fn wake_all(
    station: &mut Station,
    application: &dyn Application,
    now: Instant,
    sends_in_user: bool,
    flags: &(impl Wake + ?Sized),
) {
    let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
    if station.has_input() {
        flags.wake(position(Step::Network));
    }
    if is_due(station.deadline()) {
        flags.wake(position(Step::Timer));
    }
    let has_user =
        station.has_events() || application.wants_to_run() || is_due(application.deadline());
    if has_user {
        flags.wake(position(Step::User));
    }
    // The user step sends this output itself; waking the send step would be useless.
    if station.has_output() && !(has_user && sends_in_user) {
        flags.wake(position(Step::Send));
    }
}

/// Executes one turn of a step, in any control structure.
fn turn(own: Step, context: &mut StepContext, flags: &(impl Wake + ?Sized)) {
    let StepContext { scheduler, sends_in_user, is_single, ran, stopped_in, .. } = context;
    // SAFETY: all three were made from borrows that last until the ring has returned to
    // `run_turns`. Only one position of the ring runs at a time with exclusive access to `context`,
    // and this function does not block.
    let (station, application, cx) =
        unsafe { (context.station.as_mut(), context.application.as_mut(), context.cx.as_mut()) };
    let mut next = scheduler.next(station, application, cx.now);
    // A step that continues after an interruption is not counted as a switch. A turn that only
    // finds that the interrupted step is next is not counted either.
    let is_continued = stopped_in.is_some() && *stopped_in == next;
    if !is_continued {
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

fn procedures() -> Result<Box<dyn Ring<StepContext>>, SpawnError> {
    let mut ring = Procedures::<StepContext>::default();
    for _ in STEPS {
        ring.add(|context, position, flags: &Flags| {
            if let Some(step) = STEPS.get(position) {
                turn(*step, context, flags);
            }
        })?;
    }
    Ok(Box::new(ring))
}

fn tasks(switch: Switch) -> Result<Box<dyn Ring<StepContext>>, SpawnError> {
    let mut ring = Tasks::<StepContext>::new(switch);
    for step in STEPS {
        ring.spawn(move |task| {
            let flags = task.flags().clone();
            loop {
                turn(step, task.value(), &flags);
                task.block();
            }
        })?;
    }
    Ok(Box::new(ring))
}

fn futures() -> Result<Box<dyn Ring<StepContext>>, SpawnError> {
    let mut ring = Futures::<StepContext>::default();
    for step in STEPS {
        ring.spawn(|mut handle| async move {
            let flags = handle.flags();
            loop {
                handle.with(|context| turn(step, context, &flags));
                handle.block().await;
            }
        })?;
    }
    Ok(Box::new(ring))
}
