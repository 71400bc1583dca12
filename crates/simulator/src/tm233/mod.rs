//! The laboratory of TM-233, chapter 6: two personal computers on a serial line.
//!
//! Our own engines run on both, over LLP, and every layer charges what table 6-1 says that its
//! work cost in 1982. One price is that of a screenful (table 6-3), the carriage return's; nothing
//! else is fitted to the tables that come out. What differs is printed with its reason.

pub mod control;
mod costs;
mod experiments;
mod foreign;
mod overrun;
mod people;
mod scenario;
mod tables;
#[cfg(test)]
mod truth_tests;

pub use costs::ibm_pc;
pub use experiments::{
    Content, Echo, Equipment, Screenful, Transfer, echo, echo_by, maximum_transfer,
    maximum_transfer_by, packet_transfer, packet_transfer_by, screenful, screenful_by,
};
pub use scenario::{Buffers, ForeignHost, Interrupt, Prices, Scenario, Timer, Trials};
pub use tables::{DATA_BYTES, OTHER_DATA_BYTES, Results, buffer_bytes, host_bytes, results};
