//! Several stations on one host: the local ports of each station, and the check whether a segment
//! is for this station (see [`crate::station::Misdelivered`]).

use super::{Tcp, listen};
use core::net::SocketAddr;

/// The local ports that this station may use for active opens: every `count`th port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortShare {
    number: u16,
    count: u16,
}

impl PortShare {
    /// All ports, for the only station of a host.
    pub(super) const ALL: Self = Self { number: 0, count: 1 };

    pub(super) fn has(self, port: u16) -> bool {
        port.checked_rem(self.count).is_none_or(|rest| rest == self.number)
    }
}

impl Tcp {
    /// Restricts the local ports of connections opened from now on to every `count`th port. This
    /// station has the number `number` of `count` stations with the same addresses.
    pub fn share_ports(&mut self, number: u16, count: u16) {
        let count = count.max(1);
        self.port_share = PortShare { number: number % count, count };
    }

    /// Returns whether a segment from `remote` to `local` is for this station: for one of its
    /// connections, or for a connection that this station could open.
    #[must_use]
    pub fn wants(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.table.holds((local, remote)) || listen::is_listened_on(&self.listeners, local.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_belongs_to_one_of_three_and_to_no_other() {
        let shares = [0, 1, 2].map(|number| PortShare { number, count: 3 });
        assert!((0..=u16::MAX).all(|port| shares.iter().filter(|s| s.has(port)).count() == 1));
        assert!((0..=u16::MAX).all(|port| PortShare::ALL.has(port)));
    }
}
