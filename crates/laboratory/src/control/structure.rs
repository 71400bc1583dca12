//! Names of the compared control structures.

use crate::tm233::control::{PROCEDURE_NS, TASK_NS};
use control::{Kind, SpawnError, StationControl, Structure, Switch};
use net::station::{Control, Scheduler};

/// A control structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlStructure {
    /// The scheduler of plumb's commands, which checks the protocol steps in their natural order.
    Scheduler,
    /// A ring of tasks or procedures.
    Ring(Structure),
}

impl ControlStructure {
    /// Name of the structure that the thesis measured.
    pub(super) const TASKING: &str = "tasking";

    /// Returns all structures. The scheduler is the first, because the others are compared with it.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rings = Structure::ALL.into_iter().map(Self::Ring);
        std::iter::once(Self::Scheduler).chain(rings).collect()
    }

    /// Returns the name in `--json` and in the tables.
    pub(super) fn name(self) -> &'static str {
        let Self::Ring(Structure { kind, sends_in_user }) = self else {
            return "scheduler, natural order";
        };
        match (kind, sends_in_user) {
            (Kind::Procedures, false) => "ring of procedures",
            (Kind::Procedures, true) => "ring of procedures, user sends",
            (Kind::Tasks(Switch::ByRing), false) => Self::TASKING,
            (Kind::Tasks(Switch::ByRing), true) => "tasking, user sends",
            (Kind::Tasks(Switch::Direct), false) => "tasking, one-call switch",
            (Kind::Tasks(Switch::Direct), true) => "tasking, one-call, user sends",
            (Kind::Futures, false) => "futures",
            (Kind::Futures, true) => "futures, user sends",
        }
    }

    /// Returns whether each protocol step is a task with its own stack.
    pub(super) const fn is_tasking(self) -> bool {
        matches!(self, Self::Ring(Structure { kind: Kind::Tasks(_), .. }))
    }

    /// Returns the cost of a change of control in 1982, in nanoseconds, if the thesis states it.
    pub(super) fn switch_ns_of_1982(self) -> Option<u64> {
        match self {
            Self::Scheduler | Self::Ring(Structure { kind: Kind::Procedures, .. }) => {
                Some(PROCEDURE_NS)
            }
            Self::Ring(Structure { kind: Kind::Tasks(Switch::ByRing), .. }) => Some(TASK_NS),
            Self::Ring(_) => None,
        }
    }

    /// Creates the structure for one station.
    pub(super) fn create(self) -> Result<Box<dyn Control>, SpawnError> {
        Ok(match self {
            Self::Scheduler => Box::new(Scheduler::default()),
            Self::Ring(structure) => Box::new(StationControl::new(structure)?),
        })
    }
}
