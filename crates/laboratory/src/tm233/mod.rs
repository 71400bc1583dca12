//! The experiments of TM-233, chapter 6: two personal computers on a serial line.
//!
//! Both run the engines of `protocols` over LLP, and every layer is charged the 1982 costs of table
//! 6-1. One cost, that of the carriage return, is derived from a screenful (table 6-3); no other
//! parameter is fitted to the resulting tables. The tables explain the differences from the thesis.

mod code_size;
mod concentrator;
pub(crate) mod control;
mod costs;
mod experiments;
mod foreign;
pub mod live;
mod overrun;
mod routed_experiments;
mod routed_network;
mod scenario;
mod sessions;
mod tables;
#[cfg(test)]
mod truth_tests;
mod workload;

pub use code_size::code_size_table;
pub use experiments::{Content, Screenful, Transfer, echo, packet_transfer, screenful};
pub use scenario::{Buffers, ForeignHost, Interrupt, Prices, RouterTests, Scenario, Timer, Trials};
pub use tables::data_table;
pub(crate) use tables::{Results, results};
