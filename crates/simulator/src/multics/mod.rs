//! What a message costs on Multics (*Multics ARPA Network Implementation Status*, which has no date), and what
//! each of the memo's proposals would save.
//!
//! The messages are those of sessions between two stations of ours in virtual time: who types, a
//! character or a line at a time, and what is answered. A model of the memo's Network Daemon and of
//! its server process then takes them: every RFNM, every allocate and every message that comes
//! wakes the daemon, which wakes the process, and each of these has the price that the memo gives.
//! The scenario says which proposals are in force from the
//! beginning, a switch for each; the tables turn on the others, alone and one after another. The NCP here is its accounting
//! alone: messages, RFNMs and allocations, no protocol.
//!
//! What the memo does not say is a figure of the scenario: how long RFNMs and allocates take, how
//! much a foreign host allocates, what is done at interrupt time. What it expects is printed beside
//! what comes out.

mod daemon;
mod login;
mod people;
mod scenario;
mod stream;
mod switches;
mod tables;

pub use scenario::{Costs, Network, Scenario, Session};
pub use switches::Switches;
pub use tables::tables;
