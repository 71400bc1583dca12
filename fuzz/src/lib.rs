//! What the targets share: the bench that lends a [`Cx`](protocols::Cx), scripts, seeds of the
//! corpus, honest datagrams, and a peer of a TCP that follows what it is told.

pub mod bench;
pub mod corpus;
pub mod datagrams;
pub mod peer;
pub mod script;
