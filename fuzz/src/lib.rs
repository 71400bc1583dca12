//! Shared parts of the targets: the bench that provides a [`Cx`](net::Cx), scripts, seeds of
//! the corpus, well-formed datagrams, a TCP peer that tracks the connection, and the exchange of a
//! modem transfer.

pub mod bench;
pub mod corpus;
pub mod datagrams;
pub mod modem;
pub mod peer;
pub mod script;
