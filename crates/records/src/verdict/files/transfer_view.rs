//! A transfer by FTP under analysis.

use super::observed::{FileSession, FileTransfer};
use super::path_impairment::path_impairment;
use super::reply_delays::{self, Steps};
use super::shape::TransferShape;
use crate::prediction::Model;
use crate::verdict::Direction;
use crate::verdict::cause::{Cause, CauseKind, Operation};
use crate::verdict::traffic::serial_ns;

/// A transfer under analysis.
pub(super) struct View<'a> {
    pub(super) session: &'a FileSession,
    pub(super) transfer: &'a FileTransfer,
    pub(super) trip: u64,
    pub(super) shape: TransferShape,
    pub(super) steps: Steps,
    /// True if packets of the session were lost.
    pub(super) is_lossy: bool,
    /// True if packets of the session were reordered.
    pub(super) is_disordered: bool,
}

impl<'a> View<'a> {
    /// Prepares `transfer` of `session` over a path of `trip` ns.
    pub(super) fn of(session: &'a FileSession, transfer: &'a FileTransfer, trip: u64) -> Self {
        let shape = TransferShape::of(transfer, trip);
        let steps = reply_delays::steps(transfer, trip, first_line_ns(transfer, &shape));
        let path_impairment = path_impairment(session, trip);
        let is_lossy = path_impairment == Some(CauseKind::Loss);
        let is_disordered = path_impairment == Some(CauseKind::Reordering);
        Self { session, transfer, trip, shape, steps, is_lossy, is_disordered }
    }

    /// Makes a cause with the cost `cost_ns` and the gain `gain_ns`.
    pub(super) fn cause(
        &self,
        kind: CauseKind,
        (cost_ns, gain_ns): (u64, u64),
        subject: &str,
        advice: String,
    ) -> Cause {
        let total_ns = self.transfer.total_ns;
        let cost_ns = cost_ns.min(total_ns);
        Cause {
            kind,
            operation: Operation::Transfer,
            cost_ns,
            gain_ns: gain_ns.min(cost_ns),
            total_ns,
            subject: subject.to_owned(),
            advice,
        }
    }

    /// Returns the time of the data beyond slow start and the slowest link, ns.
    pub(super) fn excess_ns(&self) -> u64 {
        self.shape.span_ns.saturating_sub(self.shape.min_ns(self.trip))
    }

    /// Returns the time of the data without the link: the round trips of slow start, ns.
    pub(super) fn slow_start_ns(&self) -> u64 {
        Model::slow_start_only(self.trip, self.shape.mss.max(1)).flow_ns(self.shape.bytes)
    }

    /// Returns the time saved if only slow start delayed the data, ns. The rate of the link is
    /// ignored: it may be the cause, and the acknowledgments of a window do not show it.
    pub(super) fn beyond_slow_start_ns(&self) -> u64 {
        self.shape.span_ns.saturating_sub(self.slow_start_ns())
    }

    /// Returns the command that starts the transfer.
    pub(super) fn verb(&self) -> &'static str {
        match self.transfer.direction {
            Direction::Incoming => "RETR",
            Direction::Outgoing => "STOR",
        }
    }
}

fn first_line_ns(transfer: &FileTransfer, shape: &TransferShape) -> u64 {
    let first = transfer.arrivals.first().map_or(0, |first| first.bytes.min(shape.mss));
    shape.line_bps.map_or(0, |rate| serial_ns(first, rate))
}
