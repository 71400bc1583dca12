//! Every engine of plumbline, and nothing else: no I/O, no clock, no chance of its own.
//!
//! A folder is a layer and a file is a protocol, or one heading of its RFC. A lower layer never
//! names a higher one. All engines have the same face, and every call that needs them takes a
//! [`Cx`] last, which lends now, chance and the meter:
//!
//! ```text
//! receive(input, cx)             something came from below
//! transmit(cx) -> Option<Out>    the next thing for below; call until None
//! deadline() -> Option<Instant>  when to call timeout
//! timeout(cx)                    time has passed
//! event() -> Option<Event>       the next news for above; call until None
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod application;
pub mod chance;
pub mod checksum;
pub mod cx;
pub mod internet;
pub mod link;
pub mod meter;
pub mod packet;
#[cfg(not(planted))]
mod planted;
#[cfg(planted)]
pub mod planted;
mod probes;
pub mod station;
pub mod terminal;
pub mod time;
pub mod transport;

pub use cx::Cx;
pub use time::Instant;
