//! The port forwards of one guest: which ports of the host lead to which ports of the guest.
//!
//! The table contains no sockets. The driver adds a forward, opens its sockets, and removes the
//! forward again if that fails.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::{error, fmt};

/// Number of a forward, counted from 1 and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForwardId(pub u64);

/// Transport protocol of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A range of ports from 1 to 65,535, of at least one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Addresses of the host at which a forward receives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BindAddress {
    /// Address, which may be unspecified; `None` for all addresses of IPv4 and IPv6.
    pub address: Option<IpAddr>,
    /// Name of the interface to which the sockets are restricted. It is also the scope of a
    /// link-local address.
    pub interface: Option<String>,
}

/// A port forward.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Transport protocol.
    pub transport: Transport,
    /// Addresses of the host.
    pub bind: BindAddress,
    /// Ports of the host.
    pub host_ports: PortRange,
    /// Address of the guest; `None` for the address of its lease, of the same IP version as the
    /// received packet.
    pub guest_address: Option<IpAddr>,
    /// First port of the guest. The others follow in the order of the host's ports.
    pub guest_port: u16,
}

/// Change of the table that the driver carries out with sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardChange {
    /// Open the sockets of the forward.
    Open(ForwardId, Forward),
    /// Close the sockets of the forward. Open connections are kept.
    Close(ForwardId),
}

/// The port forwards of one guest.
#[derive(Debug, Default)]
pub struct ForwardTable {
    forwards: BTreeMap<ForwardId, Forward>,
    last_id: u64,
    /// Forwards that were rejected, for all reasons of [`ForwardError`].
    pub rejected: u64,
}

/// Reason for which a forward is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardError {
    /// The forward with this ID already receives at one of the ports.
    Conflict(ForwardId),
    /// The guest would have ports above 65,535.
    GuestPorts,
    /// The address of the host is a multicast address, which the gateway does not join.
    Multicast(IpAddr),
    /// The table has [`FORWARDS_MAX`] forwards.
    TooMany,
}

/// Maximum number of forwards of one guest. A range counts as one.
pub const FORWARDS_MAX: usize = 4096;

impl PortRange {
    /// Creates a range of the ports `first` to `last`, if it is not empty and has no port 0.
    #[must_use]
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (first > 0 && first <= last).then_some(Self { first, last })
    }

    /// Creates a range of one port, if the port is not 0.
    #[must_use]
    pub fn single(port: u16) -> Option<Self> {
        Self::new(port, port)
    }

    /// Returns the first port.
    #[must_use]
    pub fn first(self) -> u16 {
        self.first
    }

    /// Returns the last port.
    #[must_use]
    pub fn last(self) -> u16 {
        self.last
    }

    /// Returns the ports in ascending order.
    pub fn ports(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }

    /// Returns the distance from the first to the last port.
    #[must_use]
    pub fn span(self) -> u16 {
        self.last - self.first
    }

    /// Returns whether the range has the port.
    #[must_use]
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns whether a port is in both ranges.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl BindAddress {
    /// All addresses of IPv4 and IPv6.
    pub const ALL: Self = Self { address: None, interface: None };

    /// Creates a bind address at all interfaces that have `address`.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self { address: Some(address), interface: None }
    }

    /// Returns whether a packet can be for both.
    fn overlaps(&self, other: &Self) -> bool {
        let is_same_interface = match (&self.interface, &other.interface) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        let is_same_address = match (self.address, other.address) {
            (Some(own), Some(other)) => {
                own.is_ipv4() == other.is_ipv4()
                    && (own == other || own.is_unspecified() || other.is_unspecified())
            }
            _ => true,
        };
        is_same_interface && is_same_address
    }
}

impl Forward {
    /// Returns the port of the guest for a port of the host.
    #[must_use]
    pub fn guest_port_for(&self, host_port: u16) -> Option<u16> {
        let offset = host_port.checked_sub(self.host_ports.first)?;
        let is_in_range = self.host_ports.contains(host_port);
        self.guest_port.checked_add(offset).filter(|_| is_in_range)
    }
}

impl ForwardTable {
    /// Adds a forward.
    ///
    /// # Errors
    ///
    /// Returns [`ForwardError`].
    pub fn add(&mut self, forward: Forward) -> Result<ForwardId, ForwardError> {
        let checked = self.check(&forward);
        if let Err(error) = checked {
            self.rejected += 1;
            return Err(error);
        }
        self.last_id += 1;
        let id = ForwardId(self.last_id);
        self.forwards.insert(id, forward);
        Ok(id)
    }

    fn check(&self, forward: &Forward) -> Result<(), ForwardError> {
        if forward.guest_port_for(forward.host_ports.last).is_none() || forward.guest_port == 0 {
            return Err(ForwardError::GuestPorts);
        }
        let address = forward.bind.address;
        if let Some(address) = address.filter(|address| address.to_canonical().is_multicast()) {
            return Err(ForwardError::Multicast(address));
        }
        let conflict = self.forwards.iter().find(|(_, other)| {
            other.transport == forward.transport
                && other.host_ports.overlaps(forward.host_ports)
                && other.bind.overlaps(&forward.bind)
        });
        match conflict {
            Some((id, _)) => Err(ForwardError::Conflict(*id)),
            None if self.forwards.len() >= FORWARDS_MAX => Err(ForwardError::TooMany),
            None => Ok(()),
        }
    }

    /// Removes a forward and returns it, if there is one with this ID.
    pub fn remove(&mut self, id: ForwardId) -> Option<Forward> {
        self.forwards.remove(&id)
    }

    /// Returns the forwards in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (ForwardId, &Forward)> {
        self.forwards.iter().map(|(id, forward)| (*id, forward))
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(ForwardId(id)) => write!(
                f,
                "forward {id} already receives at one of the ports: remove it first, or use \
                 other ports"
            ),
            Self::GuestPorts => f.write_str("the ports of the guest must be 1 to 65535"),
            Self::Multicast(address) => {
                write!(f, "{address} is a multicast address: use an address of the host")
            }
            Self::TooMany => write!(f, "more than {FORWARDS_MAX} forwards"),
        }
    }
}

impl error::Error for ForwardError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(bind: &str, ports: (u16, u16), guest_port: u16) -> Forward {
        let bind = match bind {
            "all" => BindAddress::ALL,
            address => match address.split_once('%') {
                Some((address, interface)) => BindAddress {
                    address: Some(address.parse().unwrap()),
                    interface: Some(interface.into()),
                },
                None => BindAddress::at(address.parse().unwrap()),
            },
        };
        let host_ports = PortRange::new(ports.0, ports.1).unwrap();
        let transport = Transport::Tcp;
        Forward { transport, bind, host_ports, guest_address: None, guest_port }
    }

    #[test]
    fn forwards_conflict_if_a_packet_can_be_for_both() {
        let cases = [
            ("all", (80, 80), "all", (80, 80), true),
            ("all", (80, 90), "::", (90, 95), true),
            ("all", (80, 89), "::", (90, 95), false),
            ("0.0.0.0", (80, 80), "::", (80, 80), false),
            ("0.0.0.0", (80, 80), "127.0.0.1", (80, 80), true),
            ("127.0.0.1", (80, 80), "127.0.0.2", (80, 80), false),
            ("0.0.0.0%eth0", (80, 80), "0.0.0.0%eth1", (80, 80), false),
            ("0.0.0.0%eth0", (80, 80), "0.0.0.0", (80, 80), true),
        ];
        for (first, first_ports, second, second_ports, is_conflict) in cases {
            let mut table = ForwardTable::default();
            let id = table.add(forward(first, first_ports, 1)).unwrap();
            let added = table.add(forward(second, second_ports, 1));
            let expected =
                if is_conflict { Err(ForwardError::Conflict(id)) } else { Ok(ForwardId(2)) };
            assert_eq!(added, expected, "{first} {second}");
            assert_eq!(table.rejected, u64::from(is_conflict));
        }
    }

    #[test]
    fn another_protocol_does_not_conflict() {
        let mut table = ForwardTable::default();
        table.add(forward("all", (80, 80), 80)).unwrap();
        let udp = Forward { transport: Transport::Udp, ..forward("all", (80, 80), 80) };
        table.add(udp).unwrap();
    }

    #[test]
    fn an_id_is_not_reused() {
        let mut table = ForwardTable::default();
        let first = table.add(forward("all", (80, 80), 80)).unwrap();
        assert_eq!(first, ForwardId(1));
        assert_eq!(table.remove(first), Some(forward("all", (80, 80), 80)));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.add(forward("all", (80, 80), 80)), Ok(ForwardId(2)));
    }

    #[test]
    fn the_port_of_the_guest_has_the_offset_of_the_port_of_the_host() {
        let wide = forward("0.0.0.0", (8000, 8010), 80);
        let ports = [7999, 8000, 8003, 8010, 8011].map(|port| wide.guest_port_for(port));
        assert_eq!(ports, [None, Some(80), Some(83), Some(90), None]);
    }

    #[test]
    fn ports_of_the_guest_above_the_last_port_are_rejected() {
        let mut table = ForwardTable::default();
        assert_eq!(table.add(forward("all", (1, 10), 65_530)), Err(ForwardError::GuestPorts));
        assert_eq!(table.add(forward("all", (1, 1), 0)), Err(ForwardError::GuestPorts));
        table.add(forward("all", (1, 6), 65_530)).unwrap();
        assert_eq!(PortRange::new(0, 5), None);
        assert_eq!(PortRange::new(6, 5), None);
    }

    #[test]
    fn a_forward_at_a_multicast_address_is_rejected() {
        let mut table = ForwardTable::default();
        for address in ["224.0.0.251", "ff02::fb", "::ffff:224.0.0.251"] {
            let error = ForwardError::Multicast(address.parse().unwrap());
            assert_eq!(table.add(forward(address, (5353, 5353), 5353)), Err(error));
        }
        assert_eq!(table.rejected, 3);
    }

    #[test]
    fn the_number_of_forwards_is_limited() {
        let mut table = ForwardTable::default();
        for port in 1..=u16::try_from(FORWARDS_MAX).unwrap() {
            table.add(forward("all", (port, port), port)).unwrap();
        }
        assert_eq!(table.add(forward("all", (9999, 9999), 1)), Err(ForwardError::TooMany));
    }
}
