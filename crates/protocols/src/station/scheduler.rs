//! The procedure-based scheduler (TM-233 §4.2.2): steps with event flags, run to their end.
//!
//! The scheduler checks the steps in a fixed order and runs the first whose event flag is set. It
//! does not depend on the content of the steps; each step has run to its end when it returns. The
//! owner of the processor calls [`Scheduler::run_one`]: with virtual time, the driver charges the
//! cost of the step before the next call; a driver on descriptors calls [`Scheduler::run`] and then
//! waits.
//!
//! Timers come after input, because the input may hold the acknowledgment that a timer waits for. A
//! driver with an endless stream of input must therefore deliver it in pieces and let the station
//! run to its end after each.

use super::{Application, Station, Step};
use crate::cx::Cx;
use crate::meter::Work;
use crate::time::Instant;

/// The scheduler of the steps of one station.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduler {
    /// The application has run because of a keystroke, so its output is sent immediately.
    has_struck: bool,
    /// A keystroke is pending and has already waited for one network step.
    has_waited: bool,
    /// Output is sent as soon as only one datagram is left to process. Otherwise it is sent when no
    /// datagram is left.
    answers_early: bool,
}

impl Scheduler {
    /// Returns a scheduler that sends answers when one datagram is left to process (TM-233 §7.1),
    /// so that the peer learns of a new window before it has used up the previous window.
    #[must_use]
    pub fn answering_early() -> Self {
        Self { answers_early: true, ..Self::default() }
    }

    /// Returns the next step to run, if any event flag is set.
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
        } else if self.answers_early && station.has_events() {
            // The application processes received data before the next datagram, so that the answer
            // can be sent while one datagram is left.
            Some(Step::User)
        } else if station.has_input()
            && !(wants_to_run && (self.has_waited || station.has_events()))
        {
            // All pending input is processed and delivered before anything is answered. The
            // exception is a keystroke, which must not wait for a whole screenful of output. A
            // keystroke waits for one datagram only, and its segment carries the acknowledgment of
            // that datagram (TM-233 §3.3 and §5.6).
            Some(Step::Network)
        } else if is_due(station.deadline()) {
            Some(Step::Timer)
        } else if wants_to_run || station.has_events() {
            Some(Step::User)
        } else {
            station.has_output().then_some(Step::Send)
        }
    }

    fn is_early(&self, station: &mut Station) -> bool {
        self.answers_early && !station.has_events() && station.has_last_input()
    }

    /// Runs the next step and returns it, or returns `None` if no event flag is set.
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

    /// Runs `step`, which [`Self::next`] has returned, without counting a change of control.
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

    /// Runs until no event flag is set.
    pub fn run(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) {
        while self.run_one(station, application, cx).is_some() {}
    }
}
