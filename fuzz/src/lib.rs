//! Shared parts of the targets: the bench that provides a [`Cx`](net::Cx), scripts, seeds of
//! the corpus, well-formed datagrams, and a TCP peer that tracks the connection.

pub mod bench;
pub mod corpus;
pub mod datagrams;
pub mod peer;
pub mod script;
