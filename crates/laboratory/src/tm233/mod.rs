//! The experiments of TM-233, chapter 6: two personal computers on a serial line.
//!
//! Both run the engines of `protocols` over LLP, and every layer is charged the 1982 costs of table
//! 6-1. One cost, that of the carriage return, is derived from a screenful (table 6-3); no other
//! parameter is fitted to the resulting tables. The tables explain the differences from the thesis.

mod concentrator;
pub mod control;
mod costs;
mod experiments;
mod foreign;
mod overrun;
mod scenario;
mod tables;
#[cfg(test)]
mod truth_tests;
mod workload;

#[cfg(test)]
pub(crate) use costs::ibm_pc;
pub use experiments::{
    Content, Echo, Equipment, Screenful, Transfer, echo, packet_transfer, screenful,
};
pub use scenario::{Buffers, ForeignHost, Interrupt, Prices, Scenario, Timer, Trials};
pub use tables::{DATA_BYTES, OTHER_DATA_BYTES, Results, buffer_bytes, host_bytes, results};
