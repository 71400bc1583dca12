//! The application layer: what a person or a program talks to.

pub mod telnet;
