//! The congestion control of a namespace, which its sockets have unless they select another one.
//!
//! The gateways select none, and neither do the clients and servers of the bench, so that all sockets
//! of a measurement have the same one. A socket that selects CUBIC after it was accepted with BBR
//! keeps BBR's pacing: each segment then starts a timer, which costs more than the segment on a
//! virtual machine.

use anyhow::{Context, Result};
use std::fs;

const PATH: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The default of most kernels, and one without pacing that every namespace permits.
const PREFERENCE: [&str; 2] = ["cubic", "reno"];

/// Selects the congestion control of the calling thread's network namespace. It stays that of the
/// kernel if /proc is read-only, and the report has its name.
pub(super) fn select() {
    _ = PREFERENCE.into_iter().find(|name| fs::write(PATH, name).is_ok());
}

/// Returns the congestion control of the calling thread's network namespace.
pub(super) fn current() -> Result<String> {
    let text = fs::read_to_string(PATH).with_context(|| format!("cannot read {PATH}"))?;
    Ok(text.trim().to_owned())
}
