//! Ports for passive data connections.

use os::socket;
use std::ops::RangeInclusive;

/// Ports for passive data connections.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    pub(super) range: RangeInclusive<u16>,
    /// Whether ports outside of `range` may be used too.
    pub(super) is_any: bool,
}

impl Ports {
    /// Uses only the ports of `range`.
    pub(super) const fn only(range: RangeInclusive<u16>) -> Self {
        Self { range, is_any: false }
    }

    /// Returns the number of ports that one source may hold: a quarter of the configured ports.
    pub(super) fn share(&self) -> Option<usize> {
        (!self.is_any).then(|| self.range.len().div_ceil(4))
    }

    /// Uses the kernel's ephemeral ports.
    ///
    /// The ports are tried by number, because the kernel's own choice excludes ports with a
    /// connection in TIME-WAIT: after about ten thousand small files, each choice takes
    /// milliseconds.
    pub(super) fn any() -> Self {
        Self { range: socket::ephemeral_ports().unwrap_or(0..=0), is_any: true }
    }
}
