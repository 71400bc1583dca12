//! The memo's proposals, each of which can be switched on.

use serde::Deserialize;

/// The set of proposals in force.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    /// RFNMs are processed at interrupt time.
    pub rfnm_at_interrupt: bool,
    /// The daemon blocks in ring 1.
    pub ring_1_daemon: bool,
    /// The NCP runs in ring 0, for the daemon and for every process.
    pub ring_0_ncp: bool,
    /// The daemon accepts all data that a process writes, and sends it as the allocation permits.
    pub write_force: bool,
    /// A line is converted to canonical form only if it needs the conversion.
    pub canonical_where_needed: bool,
    /// Remote hosts send a line at a time instead of a character at a time.
    pub line_at_a_time: bool,
    /// Remote hosts allocate at least a whole line.
    pub minimum_allocation: bool,
    /// The daemon waits in ring 0 instead of blocking.
    pub wait: bool,
    /// Allocates are processed at interrupt time.
    pub allocate_at_interrupt: bool,
    /// The daemon is eliminated: RFNMs, allocates and data are processed at interrupt time, and the
    /// Answering Service answers the requests of remote hosts.
    #[serde(default)]
    pub daemon_elimination: bool,
}

/// A proposal: its name in tables, and the function that switches it on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal {
    pub(super) name: &'static str,
    pub(super) switch: fn(&mut Switches),
}

/// The proposals in the order of the memo.
pub(super) const PROPOSALS: [Proposal; 10] = [
    Proposal { name: "RFNMs at interrupt", switch: |on| on.rfnm_at_interrupt = true },
    Proposal { name: "daemon in ring 1", switch: |on| on.ring_1_daemon = true },
    Proposal { name: "NCP in ring 0", switch: |on| on.ring_0_ncp = true },
    Proposal { name: "write_force", switch: |on| on.write_force = true },
    Proposal { name: "canonical if needed", switch: |on| on.canonical_where_needed = true },
    Proposal { name: "a line at a time", switch: |on| on.line_at_a_time = true },
    Proposal { name: "minimum allocation", switch: |on| on.minimum_allocation = true },
    Proposal { name: "wait, not block", switch: |on| on.wait = true },
    Proposal { name: "allocates at interrupt", switch: |on| on.allocate_at_interrupt = true },
    Proposal { name: "daemon elimination", switch: |on| on.daemon_elimination = true },
];

impl Switches {
    /// Returns whether any proposal in force processes RFNMs at interrupt time.
    pub(super) const fn processes_rfnms_at_interrupt(self) -> bool {
        self.rfnm_at_interrupt || self.daemon_elimination
    }

    /// Returns whether any proposal in force processes allocates at interrupt time.
    pub(super) const fn processes_allocates_at_interrupt(self) -> bool {
        self.allocate_at_interrupt || self.daemon_elimination
    }

    /// Returns the set with `proposal` switched on.
    pub(super) fn with_proposal(mut self, proposal: &Proposal) -> Self {
        (proposal.switch)(&mut self);
        self
    }
}
