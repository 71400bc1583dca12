//! TFTP on this machine: the engine's transfers over UDP, the kernel's or our own.
//!
//! A [`Transfer`] moves one file in either direction and either role. A user's
//! transfer goes to the first of a host's addresses that answers ([`run`]); a server's is begun in
//! `serve`.

mod facts;
mod outbox;
pub(crate) mod probe;
mod transfer;
mod trouble;
mod user;
mod wire;

pub(crate) use transfer::{Facts, Stop, Terms, Transfer, Work};
pub(crate) use trouble::{Trouble, is_full};
pub(crate) use user::{Errand, Order, Report, run};
pub(crate) use wire::Wire;
