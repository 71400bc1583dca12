//! The TCP/IP of plumbline: links, Internet, transport, and one host over them ([`station`]). The
//! engines do no I/O, read no clock and own no random number generator.
//!
//! A directory is a layer, and a file is a protocol or one section of its RFC. A lower layer never
//! names a higher one. All engines have the same interface. A call that needs the time, random
//! numbers or the meter takes a [`Cx`] as its last argument:
//!
//! ```text
//! receive(input, cx)             processes input from the layer below
//! transmit(cx) -> Option<Out>    the next output for the layer below; call until None
//! deadline() -> Option<Instant>  when to call timeout
//! timeout(cx)                    processes the timers that have expired
//! event() -> Option<Event>       the next event for the layer above; call until None
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod application;
pub mod checksum;
pub mod cx;
pub mod internet;
pub mod link;
pub mod meter;
#[cfg(not(mutants))]
mod mutants;
#[cfg(mutants)]
pub mod mutants;
pub mod packet;
mod probes;
pub mod rng;
pub mod station;
pub mod time;
pub mod transport;

pub use cx::{Cx, OwnedCx};
pub use time::Instant;
