//! Our TCP under the public TCP script runner, in virtual time.
//!
//! # Theory of operation
//!
//! The runner plays a script: system calls, packets for the stack, packets that the stack must
//! send, each with its time. It loads this library and reaches the stack under test by the table
//! of functions that `abi.rs` fills. All time comes from here too, so a script that takes an hour
//! by its own clock runs in a moment, and a busy machine changes nothing.
//!
//! | file | what |
//! |---|---|
//! | `abi.rs` | the C interface, and all unsafe code |
//! | `stage.rs` | time, and the one call that may be blocked in it |
//! | `host.rs` | the engines of `protocols`: all that knows their interface |
//! | `world.rs` | descriptors: which socket, listener or set a number means |
//! | `socket.rs` | a stream socket by the rules of POSIX |
//! | `options.rs`, `tcp_info.rs` | socket options, and what `TCP_INFO` says |
//! | `readiness.rs` | poll and epoll |
//! | `settings.rs` | what the script sets beside its sockets, its dialect, and the policies |
//! | `device.rs` | a device that cuts super-segments |
//! | `dialect.rs` | the order of the options in a SYN, which differs from system to system |
//!
//! With the tuned policies two things are rewritten on their way to the script: the options of SYNs
//! (`dialect.rs`) and PSH (`device.rs`). With the profiles that users get nothing is.
//!
//! Left out: everything but TCP over IPv4 sockets, pipes and splice between two sockets.

#![deny(unsafe_code)]

pub mod abi;
mod device;
mod dialect;
mod host;
mod options;
mod readiness;
mod settings;
mod socket;
mod stage;
mod tcp_info;
#[cfg(test)]
mod testing;
mod world;
