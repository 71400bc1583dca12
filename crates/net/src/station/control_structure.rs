//! Control structures, which run the steps of a station (TM-233 chapter 4).
//!
//! [`Scheduler::next`] determines the order of the steps. The order depends only on the layers and
//! is the same for every control structure. A control structure determines only how the processor
//! enters a step: by a procedure call, a task switch, or the poll of a future. All control
//! structures therefore produce the same traffic and differ only in the cost of a switch between
//! steps.

use super::{Application, Scheduler, Station, Step};
use crate::cx::Cx;
use crate::time::Instant;
use core::fmt;

/// A control structure: it runs the steps of one station.
pub trait Control: fmt::Debug {
    /// Returns the next step to run, if any step has work to do.
    fn next(
        &self,
        station: &mut Station,
        application: &dyn Application,
        now: Instant,
    ) -> Option<Step>;

    /// Runs the next step and returns it, or returns `None` if no step has work to do. If this call
    /// runs several steps, it returns the last one.
    fn run_one(
        &mut self,
        station: &mut Station,
        application: &mut dyn Application,
        cx: &mut Cx<'_>,
    ) -> Option<Step>;

    /// Runs until no step has work to do.
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
