//! Who calls the next step: the face that every control structure has (TM-233 chapter 4).
//!
//! Which step has its turn is a question of manners between the layers, and the same whoever
//! calls: [`Scheduler::next`]. How the processor comes there is the control structure's: a
//! procedure that is called, a task that is switched to, a future that is polled. So all of them
//! give the same traffic, and only what a change of control costs tells them apart.

use super::{Application, Scheduler, Station, Step};
use crate::cx::Cx;
use crate::time::Instant;
use core::fmt;

/// A control structure: it runs the steps of one station.
pub trait Control: fmt::Debug {
    /// Returns the step whose turn it is, if something is to be done.
    fn next(
        &self,
        station: &mut Station,
        application: &dyn Application,
        now: Instant,
    ) -> Option<Step>;

    /// Runs the step whose turn it is, and returns it; None if nothing is ready. Who runs one step
    /// as a part of another returns the last.
    fn run_one(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step>;

    /// Runs until nothing is ready.
    fn run(&mut self, station: &mut Station, application: &mut dyn Application, cx: &mut Cx<'_>) {
        while self.run_one(station, application, cx).is_some() {}
    }
}

impl Control for Scheduler {
    fn next(
        &self,
        station: &mut Station,
        application: &dyn Application,
        now: Instant,
    ) -> Option<Step> {
        Self::next(self, station, application, now)
    }

    fn run_one(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step> {
        Self::run_one(self, station, application, cx)
    }
}
