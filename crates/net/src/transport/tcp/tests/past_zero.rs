//! Row 47 of the attack table: all scripts again, with initial sequence numbers of both sides
//! shortly before 2^32.
#![expect(clippy::duplicate_mod, reason = "the same scripts, with other numbers")]

use super::*;

type Script = ScriptAt<0xFFFF_FF00>;

#[path = "acknowledgment.rs"]
mod acknowledgment;
#[path = "addresses.rs"]
mod addresses;
#[path = "attacks.rs"]
mod attacks;
#[path = "closing.rs"]
mod closing;
#[path = "congestion.rs"]
mod congestion;
#[path = "connection_lists.rs"]
mod connection_lists;
#[path = "deferred_open.rs"]
mod deferred_open;
#[path = "ecn.rs"]
mod ecn;
#[path = "fast_open.rs"]
mod fast_open;
#[path = "giving_up.rs"]
mod giving_up;
#[path = "headers.rs"]
mod headers;
#[path = "icmp_error.rs"]
mod icmp_error;
#[path = "keep_alive.rs"]
mod keep_alive;
#[path = "memory_pressure.rs"]
mod memory_pressure;
#[path = "opening.rs"]
mod opening;
#[path = "options.rs"]
mod options;
#[path = "reordering.rs"]
mod reordering;
#[path = "resets.rs"]
mod resets;
#[path = "retransmission.rs"]
mod retransmission;
#[path = "sack.rs"]
mod sack;
#[path = "states.rs"]
mod states;
#[path = "syn_flood.rs"]
mod syn_flood;
#[path = "time_wait.rs"]
mod time_wait;
#[path = "transfer.rs"]
mod transfer;
#[path = "urgent.rs"]
mod urgent;
#[path = "windows.rs"]
mod windows;
