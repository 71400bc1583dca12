//! The procedure-based scheduler (TM-233 §4.2.2): steps with event flags, run to completion.
//!
//! The scheduler checks the steps in a fixed order and runs the first whose event flag is set. It
//! does not depend on the content of the steps. The driver calls [`Scheduler::run_one`] or
//! [`Scheduler::run`]: a driver with virtual time charges the cost of each step before the next
//! call of `run_one`; a driver with file descriptors calls `run` and then waits for events.
//!
//! Timers are processed after input, because the input may contain the acknowledgment that stops a
//! timer. A driver with an endless stream of input must therefore deliver the input in pieces and
//! run the station to completion after each piece.

use super::{Application, Station, Step};
use crate::cx::Cx;
use crate::meter::Work;
use crate::time::Instant;

/// Determines the order in which the steps of one station run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scheduler {
    /// Whether the application has run because of a keystroke, so that its output is sent
    /// immediately.
    must_send_keystroke: bool,
    /// Whether a keystroke is pending and has already waited for one network step.
    keystroke_has_waited: bool,
    /// Whether output is sent before the last queued datagram is processed, instead of after it.
    answers_early: bool,
}

impl Scheduler {
    /// Returns a scheduler that sends answers while one datagram is still queued (TM-233 §7.1), so
    /// that the peer receives a window update before the previous window is used up.
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
        if (self.must_send_keystroke || self.is_early_answer_due(station)) && station.has_output() {
            Some(Step::Send)
        } else if self.answers_early && station.has_events() {
            // The application processes received data before the next datagram, so that the answer
            // can be sent while one datagram is left.
            Some(Step::User)
        } else if station.has_input()
            && !(wants_to_run && (self.keystroke_has_waited || station.has_events()))
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

    fn is_early_answer_due(&self, station: &mut Station) -> bool {
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

    /// Runs `step`, which [`Self::next`] has returned. Unlike [`Self::run_one`], does not count a
    /// switch between steps.
    pub fn step(
        &mut self,
        step: Step,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) {
        let runs_for_keystroke = application.wants_to_run();
        self.must_send_keystroke = step == Step::User && runs_for_keystroke;
        self.keystroke_has_waited = step == Step::Network && runs_for_keystroke;
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
