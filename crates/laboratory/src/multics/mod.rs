//! Cost of a message on Multics (*Multics ARPA Network Implementation Status*, undated), and the
//! savings of each of the memo's proposals.
//!
//! The messages are those of sessions between two simulated stations in virtual time: users type a
//! character or a line at a time, and programs answer. A model of the memo's Network Daemon and of
//! its server processes then processes the messages. Every RFNM, every allocate and every received
//! message wakes the daemon, which wakes the process. Each of these operations has the cost that
//! the memo states. A switch of the scenario puts a proposal in force in all tables; some tables
//! add the other proposals, individually and cumulatively. Only the accounting of the NCP is
//! modeled: messages, RFNMs and allocations, without the protocol.
//!
//! Values that the memo does not state are parameters of the scenario: the delays of RFNMs and
//! allocates, the allocation of a remote host, the work at interrupt time. The tables show the
//! memo's expectations next to the results.

mod daemon;
mod login;
mod session_messages;
mod session_scenario;
mod switches;
mod tables;
mod workload;

pub use session_scenario::{Costs, Network, Scenario, Session};
pub use switches::Switches;
pub(crate) use tables::tables;
