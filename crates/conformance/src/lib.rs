//! The TCP of `protocols` as the stack under test of the public TCP script runner, in virtual time.
//!
//! # Theory of operation
//!
//! The runner executes a script: system calls, packets to inject, and packets expected from the
//! stack, each with its time. It loads this library and calls the stack under test through the
//! table of functions that `abi.rs` fills. All time comes from this library too. Therefore a script
//! that takes an hour of virtual time runs in a moment, and the load of the machine does not affect
//! it.
//!
//! | file | content |
//! |---|---|
//! | `abi.rs` | the C interface, and all unsafe code |
//! | `scheduler.rs` | virtual time, and the blocked system call, of which there is at most one |
//! | `host_under_test.rs` | the host under test: all uses of the engines of `protocols` |
//! | `world.rs` | descriptors: the sockets, epoll sets and pipes that they refer to |
//! | `socket.rs` | a stream socket with POSIX semantics |
//! | `options.rs`, `socket_options.rs` | socket options, and the calls that set and get them |
//! | `tcp_info.rs` | the value of `TCP_INFO` |
//! | `readiness.rs` | poll |
//! | `interests.rs`, `epoll_wait.rs` | epoll sets |
//! | `attempt.rs`, `errno.rs` | results of a call that may have to wait, and errors |
//! | `script_settings.rs` | settings of a script outside its sockets, target system, policies |
//! | `device.rs` | a device that segments super-segments |
//! | `option_order.rs` | the order of the options in a SYN, which differs between systems |
//!
//! With the tuned policies two properties of sent packets are rewritten for the script: the options
//! of SYNs (`option_order.rs`) and PSH (`device.rs`). With the fixed profiles (`profile=library`,
//! `files` or `logins`) nothing is rewritten.
//!
//! Only TCP over IPv4 sockets, pipes, and splice between two sockets are implemented.

#![deny(unsafe_code)]

pub mod abi;
mod attempt;
mod device;
mod epoll_wait;
mod errno;
mod host_under_test;
mod interests;
mod option_order;
mod options;
mod readiness;
mod scheduler;
mod script_settings;
mod socket;
mod socket_options;
mod tcp_info;
#[cfg(test)]
mod test_peer;
mod world;
