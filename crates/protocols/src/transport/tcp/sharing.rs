//! Several stations that are one host together: which local ports each may take, and whether a
//! segment is for one of its own (see [`crate::station::Stray`]).

use super::{Tcp, listen};
use core::net::SocketAddr;

/// Which of the ports that an active open may take are ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    number: u16,
    count: u16,
}

impl Share {
    /// All ports are ours.
    pub(super) const ALL: Self = Self { number: 0, count: 1 };

    pub(super) fn has(self, port: u16) -> bool {
        port.checked_rem(self.count).is_none_or(|rest| rest == self.number)
    }
}

impl Tcp {
    /// Opens connections only from every `count`th local port from now on, as the `number`th of
    /// `count` stations with the same addresses.
    pub fn share_ports(&mut self, number: u16, count: u16) {
        let count = count.max(1);
        self.share = Share { number: number % count, count };
    }

    /// Returns whether a segment from `remote` to `local` is for a connection of ours, or for one
    /// that could be opened here.
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
        let shares = [0, 1, 2].map(|number| Share { number, count: 3 });
        assert!((0..=u16::MAX).all(|port| shares.iter().filter(|s| s.has(port)).count() == 1));
        assert!((0..=u16::MAX).all(|port| Share::ALL.has(port)));
    }
}
