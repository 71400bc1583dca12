//! The experiments of four papers (TM-233, RFC 573, RFC 594, and a memo on Multics), repeated with
//! the engines of plumbline. Their tables compare the values of the papers with the results.
//!
//! This crate uses only the public API of `net`, `protocols` and `simulator`. It prints nothing.

mod limits;
pub mod multics;
pub mod picture;
pub mod rfc573;
pub mod rfc594;
mod sample;
pub mod table;
pub mod tm233;

pub use limits::OutOfRange;
