//! TFTP transfers over UDP, of the kernel or of the user-space host.
//!
//! A [`Transfer`] moves one file in either direction and either role. A client's transfer goes to
//! the first address of a host that answers ([`run`]). A server's transfer is started in `serve`.

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
