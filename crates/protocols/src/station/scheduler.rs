//! The procedure-based scheduler (TM-233 §4.2.2): steps with event flags, run to their end.
//!
//! It looks at the steps in their natural order and runs the first whose event flag is set. It
//! knows nothing of what the steps do; each has run to its end when it returns. Whoever owns the
//! processor calls [`Scheduler::run_one`]: virtual time charges what the step cost before it calls
//! again, a driver on descriptors calls [`Scheduler::run`] and then waits.
//!
//! Timers come after what has arrived, because it may hold the acknowledgment that a timer waits
//! for. So whoever gives the station bytes without end must give them in pieces and let it run to
//! its end between two of them.

use super::{Application, Station, Step};
use crate::cx::Cx;
use crate::meter::Work;
use crate::time::Instant;

/// Picks the steps of one station.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduler {
    /// The application has run because the user has struck a key: what he typed leaves now.
    has_struck: bool,
    /// The user has struck a key, and has waited for a step of the network since.
    has_waited: bool,
    /// What is owed leaves when one datagram is left to take, not only when none is.
    answers_early: bool,
}

impl Scheduler {
    /// Returns a scheduler that answers when one datagram is left to take (TM-233 §7.1), so that
    /// the other end hears of a new window before all of the old one is used.
    #[must_use]
    pub fn answering_early() -> Self {
        Self { answers_early: true, ..Self::default() }
    }

    /// Returns the step whose turn it is, if any event flag is set.
    pub fn next(
        &self,
        station: &mut Station,
        application: &dyn Application,
        now: Instant,
    ) -> Option<Step> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        let wants_to_run = application.wants_to_run() || is_due(application.deadline());
        if (self.has_struck || self.is_early(station)) && station.has_output() {
            Some(Step::Send)
        } else if self.answers_early && station.has_news() {
            // What has come is shown before more is taken, so that one is ever left.
            Some(Step::User)
        } else if station.has_input() && !(wants_to_run && (self.has_waited || station.has_news()))
        {
            // All that has arrived is taken, and shown, before anything is answered, unless the
            // user has struck a key: he shall not wait for a screenful, but he waits for one
            // datagram, whose acknowledgment his key takes along (TM-233 §3.3 and §5.6).
            Some(Step::Network)
        } else if is_due(station.deadline()) {
            Some(Step::Timer)
        } else if wants_to_run || station.has_news() {
            Some(Step::User)
        } else {
            station.has_output().then_some(Step::Send)
        }
    }

    fn is_early(&self, station: &mut Station) -> bool {
        self.answers_early && !station.has_news() && station.has_last_input()
    }

    /// Runs the step whose turn it is, and returns it; None if nothing is ready.
    pub fn run_one(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step> {
        let step = self.next(station, application, cx.now)?;
        cx.meter.work(Work::Switch, 1);
        self.step(step, station, application, cx);
        Some(step)
    }

    /// Runs `step`, which [`Self::next`] has named, without a change of control of its own.
    pub fn step(
        &mut self,
        step: Step,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) {
        let is_struck = application.wants_to_run();
        self.has_struck = step == Step::User && is_struck;
        self.has_waited = step == Step::Network && is_struck;
        station.step(step, application, cx);
    }

    /// Runs until nothing is ready.
    pub fn run(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) {
        while self.run_one(station, application, cx).is_some() {}
    }
}
