//! A network interface of the kernel: its addresses, its MTU, and whether it is up.
//!
//! Nearly all operations use the ioctls of netdevice(7), so no other program is needed. The ioctls
//! act in the network namespace of the thread that called [`Interface::named`]. IPv6 operations and
//! [`Interface::set_transmit_queue_len`] use netlink and /proc, and act in the namespace of the
//! calling thread; the two namespaces must be the same.

use crate::netlink::{self, Request as Message};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::{error, fmt, io};

/// One interface, which can be queried and configured.
#[derive(Debug)]
pub struct Interface {
    name: String,
    /// Socket for the ioctls, of any type. Its network namespace determines the interfaces that the
    /// ioctls find.
    socket: OwnedFd,
}

impl Interface {
    /// Finds the interface called `name` in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::Name`] for an invalid name and [`InterfaceError::NoSuchInterface`]
    /// for an unknown one.
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        Request::named(name).map_err(InterfaceError::Name)?;
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(|error| InterfaceError::Other(error.into()))?;
        let found = Self { name: name.into(), socket };
        found.flags()?;
        Ok(found)
    }

    /// Sets the IPv4 address, with a network prefix of `prefix_bits` bits.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NotPermitted`]; [`InterfaceError::Refused`] for a value that the
    /// kernel rejects.
    pub fn set_address(&self, address: Ipv4Addr, prefix_bits: u8) -> Result<(), InterfaceError> {
        if prefix_bits > 32 {
            return Err(InterfaceError::Refused(self.name.clone(), Errno::INVAL.into()));
        }
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_bits)).unwrap_or(0);
        let mut request = self.request()?;
        request.set_address(address);
        self.call::<SIOCSIFADDR>(&mut request)?;
        request.set_address(Ipv4Addr::from_bits(mask));
        self.call::<SIOCSIFNETMASK>(&mut request)
    }

    /// Sets the MTU in bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::set_address`].
    pub fn set_mtu(&self, mtu_bytes: u16) -> Result<(), InterfaceError> {
        let mut request = self.request()?;
        request.set_number(mtu_bytes.into());
        self.call::<SIOCSIFMTU>(&mut request)
    }

    /// Returns the number of packets that wait for transmission before further ones are dropped.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn transmit_queue_len(&self) -> Result<u32, InterfaceError> {
        let mut request = self.request()?;
        self.call::<SIOCGIFTXQLEN>(&mut request)?;
        Ok(u32::try_from(request.number()).unwrap_or(0))
    }

    /// Sets the number of packets that wait for transmission. The queue of a TUN or TAP, from which
    /// the program reads, has this length too.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::set_address`].
    pub fn set_transmit_queue_len(&self, packets: u16) -> Result<(), InterfaceError> {
        // The ioctl needs the privilege in the initial user namespace.
        let mut message = Message::new(RTM_NEWLINK, 0);
        message.push(&[0; 4]);
        message.push(&self.index()?.to_ne_bytes());
        message.push(&[0; 8]);
        message.attribute(IFLA_TXQLEN, &u32::from(packets).to_ne_bytes());
        message.send().map_err(|error| self.error_for(error))
    }

    /// Sets the interface up.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NotPermitted`] without the privilege CAP_NET_ADMIN.
    pub fn bring_up(&self) -> Result<(), InterfaceError> {
        let mut request = self.request()?;
        request.set_flags(self.flags()? | IFF_UP);
        self.call::<SIOCSIFFLAGS>(&mut request)
    }

    /// Returns whether the interface is up (`IFF_UP`).
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn is_up(&self) -> Result<bool, InterfaceError> {
        Ok(self.flags()? & IFF_UP != 0)
    }

    /// Returns whether the interface is operational (`IFF_RUNNING`), which it becomes shortly after
    /// a program has attached to it. Packets sent before that are lost.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn is_running(&self) -> Result<bool, InterfaceError> {
        Ok(self.flags()? & IFF_RUNNING != 0)
    }

    /// Returns the MTU in bytes.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn mtu_bytes(&self) -> Result<u32, InterfaceError> {
        let mut request = self.request()?;
        self.call::<SIOCGIFMTU>(&mut request)?;
        Ok(u32::try_from(request.number()).unwrap_or(0))
    }

    /// Returns the IPv4 address with its prefix length and the peer address, or `None` if the
    /// interface has no IPv4 address.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn address(&self) -> Result<Option<Addressing>, InterfaceError> {
        let Some(address) = self.read_address::<SIOCGIFADDR>()? else { return Ok(None) };
        let mask = self.read_address::<SIOCGIFNETMASK>()?.unwrap_or(Ipv4Addr::BROADCAST);
        let destination = if self.flags()? & IFF_POINTOPOINT == 0 {
            None
        } else {
            self.read_address::<SIOCGIFDSTADDR>()?.filter(|destination| *destination != address)
        };
        let prefix_bits = u8::try_from(mask.to_bits().leading_ones()).unwrap_or(32);
        Ok(Some(Addressing { address, prefix_bits, destination }))
    }

    /// Returns the kernel's index of the interface.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn index(&self) -> Result<u32, InterfaceError> {
        let mut request = self.request()?;
        self.call::<SIOCGIFINDEX>(&mut request)?;
        Ok(u32::try_from(request.number()).unwrap_or(0))
    }

    /// Returns the Ethernet address, or `None` if the interface has none, like a TUN.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::NoSuchInterface`] if the interface has been removed.
    pub fn hardware_address(&self) -> Result<Option<[u8; 6]>, InterfaceError> {
        let mut request = self.request()?;
        self.call::<SIOCGIFHWADDR>(&mut request)?;
        let kind = u16::from_ne_bytes(request.get(0));
        let has_address = kind == ARPHRD_ETHER || kind == ARPHRD_LOOPBACK;
        Ok(has_address.then(|| request.get(2)))
    }

    /// Sets the Ethernet address. The interface must be down.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::set_address`].
    pub fn set_hardware_address(&self, address: [u8; 6]) -> Result<(), InterfaceError> {
        let mut request = self.request()?;
        request.set(0, &ARPHRD_ETHER.to_ne_bytes());
        request.set(2, &address);
        self.call::<SIOCSIFHWADDR>(&mut request)
    }

    /// Adds an IPv6 address with a network prefix of `prefix_bits` bits. The address can be used at
    /// once, because duplicate address detection (RFC 4862 §5.4) is skipped.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::set_address`]; [`InterfaceError::Refused`] with EEXIST if the
    /// interface already has the address.
    pub fn add_address6(&self, address: Ipv6Addr, prefix_bits: u8) -> Result<(), InterfaceError> {
        let mut message = Message::new(RTM_NEWADDR, netlink::CREATE);
        let family = u8::try_from(AddressFamily::INET6.as_raw()).unwrap_or(0);
        message.push(&[family, prefix_bits, IFA_F_NODAD, RT_SCOPE_UNIVERSE]);
        message.push(&self.index()?.to_ne_bytes());
        message.attribute(IFA_LOCAL, &address.octets());
        message.attribute(IFA_ADDRESS, &address.octets());
        message.send().map_err(|error| self.error_for(error))
    }

    /// Returns the IPv6 addresses, each with its prefix length in bits.
    ///
    /// # Errors
    ///
    /// Returns [`InterfaceError::Other`] if /proc cannot be read.
    pub fn addresses6(&self) -> Result<Vec<(Ipv6Addr, u8)>, InterfaceError> {
        match std::fs::read_to_string(ADDRESSES6) {
            Ok(text) => Ok(text.lines().filter_map(|line| address6_of(line, &self.name)).collect()),
            // A kernel without IPv6 does not have the file in /proc.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(InterfaceError::Other(error)),
        }
    }

    fn flags(&self) -> Result<i16, InterfaceError> {
        let mut request = self.request()?;
        self.call::<SIOCGIFFLAGS>(&mut request)?;
        Ok(request.flags())
    }

    fn read_address<const OPCODE: Opcode>(&self) -> Result<Option<Ipv4Addr>, InterfaceError> {
        let mut request = self.request()?;
        request.set_address(Ipv4Addr::UNSPECIFIED);
        match self.call::<OPCODE>(&mut request) {
            Ok(()) => Ok(Some(request.address())),
            Err(InterfaceError::Refused(_, error))
                if error.raw_os_error() == Some(Errno::ADDRNOTAVAIL.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn request(&self) -> Result<Request, InterfaceError> {
        Request::named(&self.name).map_err(InterfaceError::Name)
    }

    fn call<const OPCODE: Opcode>(&self, request: &mut Request) -> Result<(), InterfaceError> {
        // SAFETY: every opcode in this file takes a struct ifreq, and may write into it; `Request`
        // has that layout.
        let result = unsafe { ioctl(&self.socket, Updater::<OPCODE, _>::new(request)) };
        result.map_err(|error| self.error_for(error))
    }

    pub(crate) fn error_for(&self, error: Errno) -> InterfaceError {
        match error {
            Errno::NODEV | Errno::NXIO => InterfaceError::NoSuchInterface(self.name.clone()),
            Errno::PERM | Errno::ACCESS => InterfaceError::NotPermitted(self.name.clone()),
            error => InterfaceError::Refused(self.name.clone(), error.into()),
        }
    }
}

/// Parses a line of /proc/net/if_inet6 about the interface `name`: address, index, prefix, scope
/// and flags in hexadecimal, and the name.
fn address6_of(line: &str, name: &str) -> Option<(Ipv6Addr, u8)> {
    let mut words = line.split_ascii_whitespace();
    let address = words.next()?;
    let prefix_bits = words.nth(1)?;
    if words.nth(2)? != name || address.len() != 32 {
        return None;
    }
    let address = u128::from_str_radix(address, 16).ok()?;
    Some((Ipv6Addr::from_bits(address), u8::from_str_radix(prefix_bits, 16).ok()?))
}

/// IPv4 address, prefix length and peer address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    /// Address of the kernel on the interface.
    pub address: Ipv4Addr,
    /// Length of the network prefix in bits.
    pub prefix_bits: u8,
    /// Address of the peer on a point-to-point link, if one is set.
    pub destination: Option<Ipv4Addr>,
}

impl Addressing {
    /// Returns an address for a station at the other end: the peer address if set, otherwise the
    /// first host address of the network that differs from the kernel's. Returns `None` if the
    /// network has no other host address.
    #[must_use]
    pub fn peer(&self) -> Option<Ipv4Addr> {
        if self.destination.is_some() {
            return self.destination;
        }
        let host_bits = 32_u32.checked_sub(self.prefix_bits.into())?;
        let network = self.address.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0);
        // RFC 3021: a network of two addresses has neither a network nor a broadcast address.
        let first = match host_bits {
            0 => return None,
            1 => network,
            _ => network + 1,
        };
        let own_address = self.address.to_bits();
        Some(Ipv4Addr::from_bits(if first == own_address { first + 1 } else { first }))
    }
}

/// Returns an address for a station at the other end if the kernel has the IPv6 `address`: the
/// first host address of the network that differs from `address`. Returns `None` if the network has
/// no other host address.
#[must_use]
pub fn peer6(address: Ipv6Addr, prefix_bits: u8) -> Option<Ipv6Addr> {
    let host_bits = 128_u32.checked_sub(prefix_bits.into())?;
    let own_address = address.to_bits();
    let network = own_address & u128::MAX.checked_shl(host_bits).unwrap_or(0);
    // RFC 4291 §2.6.1: the first address of a network is the subnet-router anycast address, except
    // where there are only two addresses (RFC 6164).
    let first = match host_bits {
        0 => return None,
        1 => network,
        _ => network + 1,
    };
    Some(Ipv6Addr::from_bits(if first == own_address { first + 1 } else { first }))
}

/// The kernel's `struct ifreq`: a name, and a value whose type depends on the request.
///
/// The value has the largest size of any architecture; the kernel copies only as many bytes as its
/// own `struct ifreq` has.
#[repr(C, align(8))]
pub(crate) struct Request {
    name: [u8; NAME_LENGTH],
    value: [u8; 24],
}

impl Request {
    /// Creates a request about the interface called `name`.
    pub(crate) fn named(name: &str) -> Result<Self, NameError> {
        let is_invalid = |byte: u8| byte == b'/' || byte == b':' || !byte.is_ascii_graphic();
        if name.is_empty() || name == "." || name == ".." || name.bytes().any(is_invalid) {
            return Err(NameError::Impossible(name.into()));
        }
        let mut request = Self { name: [0; NAME_LENGTH], value: [0; 24] };
        match request.name.get_mut(..name.len()) {
            Some(room) if name.len() < NAME_LENGTH => room.copy_from_slice(name.as_bytes()),
            _ => return Err(NameError::TooLong(name.into())),
        }
        Ok(request)
    }

    /// Returns the name, which the kernel may have completed (from `tun%d`, for example).
    pub(crate) fn name(&self) -> String {
        let bytes = self.name.iter().copied().take_while(|byte| *byte != 0);
        bytes.map(char::from).collect()
    }

    /// Sets the value to interface flags.
    pub(crate) fn set_flags(&mut self, flags: i16) {
        self.set(0, &flags.to_ne_bytes());
    }

    fn flags(&self) -> i16 {
        i16::from_ne_bytes(self.get(0))
    }

    fn set_number(&mut self, number: i32) {
        self.set(0, &number.to_ne_bytes());
    }

    fn number(&self) -> i32 {
        i32::from_ne_bytes(self.get(0))
    }

    /// Sets the value to a `struct sockaddr_in`: family, port, address in network byte order.
    fn set_address(&mut self, address: Ipv4Addr) {
        self.value = [0; 24];
        self.set(0, &AddressFamily::INET.as_raw().to_ne_bytes());
        self.set(4, &address.octets());
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.get(4))
    }

    fn set(&mut self, offset: usize, bytes: &[u8]) {
        for (place, byte) in self.value.iter_mut().skip(offset).zip(bytes) {
            *place = *byte;
        }
    }

    fn get<const LENGTH: usize>(&self, offset: usize) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        for (byte, place) in bytes.iter_mut().zip(self.value.iter().skip(offset)) {
            *byte = *place;
        }
        bytes
    }
}

/// Reason for which a name is not a valid interface name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is longer than the kernel's limit.
    TooLong(String),
    /// The name is empty, `.` or `..`, or has an invalid character.
    Impossible(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(name) => write!(
                f,
                "the interface name '{name}' has {} characters: at most {} are allowed",
                name.len(),
                NAME_LENGTH - 1
            ),
            Self::Impossible(name) => {
                write!(f, "'{name}' is not a valid interface name: use letters and digits")
            }
        }
    }
}

impl error::Error for NameError {}

/// Error of querying or configuring an interface.
#[derive(Debug)]
pub enum InterfaceError {
    /// The name is not a valid interface name.
    Name(NameError),
    /// No interface has the name.
    NoSuchInterface(String),
    /// The operation needs network administrator privileges (`CAP_NET_ADMIN`).
    NotPermitted(String),
    /// The kernel rejected a setting of the interface with this name.
    Refused(String, io::Error),
    /// Any other error.
    Other(io::Error),
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::NoSuchInterface(name) => {
                write!(f, "there is no interface {name}: 'ip link' lists the interfaces")
            }
            Self::NotPermitted(name) => write!(
                f,
                "no permission to set up the interface {name}: run as root, or let root set \
                 its address and bring it up"
            ),
            Self::Refused(name, error) => {
                write!(f, "the kernel rejects the setting for the interface {name}: {error}")
            }
            Self::Other(error) => write!(f, "cannot query the interfaces: {error}"),
        }
    }
}

impl error::Error for InterfaceError {}

const NAME_LENGTH: usize = 16;
// <linux/sockios.h>; the numbers are the same on all architectures.
const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCSIFFLAGS: Opcode = 0x8914;
const SIOCGIFADDR: Opcode = 0x8915;
const SIOCSIFADDR: Opcode = 0x8916;
const SIOCGIFDSTADDR: Opcode = 0x8917;
const SIOCGIFNETMASK: Opcode = 0x891b;
const SIOCSIFNETMASK: Opcode = 0x891c;
const SIOCGIFMTU: Opcode = 0x8921;
const SIOCSIFMTU: Opcode = 0x8922;
const SIOCSIFHWADDR: Opcode = 0x8924;
const SIOCGIFHWADDR: Opcode = 0x8927;
const SIOCGIFINDEX: Opcode = 0x8933;
const SIOCGIFTXQLEN: Opcode = 0x8942;
// <linux/if_arp.h>
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
// <linux/rtnetlink.h>, <linux/if_link.h>, <linux/if_addr.h>
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const IFLA_TXQLEN: u16 = 13;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 0x02;
const RT_SCOPE_UNIVERSE: u8 = 0;
/// IPv6 addresses in the calling thread's network namespace, which may differ from the process's.
const ADDRESSES6: &str = "/proc/thread-self/net/if_inet6";
// <net/if.h>
const IFF_UP: i16 = 0x0001;
const IFF_RUNNING: i16 = 0x0040;
const IFF_POINTOPOINT: i16 = 0x0010;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_new_network;
    use crate::tun::Tun;
    use proptest::prelude::*;

    fn network(address: [u8; 4], prefix_bits: u8) -> Addressing {
        Addressing { address: address.into(), prefix_bits, destination: None }
    }

    proptest! {
        #[test]
        fn any_name_is_accepted_unchanged_or_rejected(name in ".{0,20}") {
            if let Ok(request) = Request::named(&name) {
                prop_assert_eq!(request.name(), name);
            }
        }

        #[test]
        fn a_printed_ipv6_address_is_parsed_back(
            bits: u128, index: u8, prefix_bits: u8, scope: u8, flags: u8, name in "[a-z0-9]{1,15}"
        ) {
            let [prefix, rest] = [prefix_bits, scope].map(|number| format!("{number:02x}"));
            let line = format!("{bits:032x} {index:02x} {prefix} {rest} {flags:02x} {name:>8}");
            let expected = (Ipv6Addr::from_bits(bits), prefix_bits);
            prop_assert_eq!(address6_of(&line, &name), Some(expected));
            prop_assert_eq!(address6_of(&line, "other-name"), None);
        }

        #[test]
        fn a_peer_is_another_host_of_the_same_network(
            address in 0x0100_0000..u32::MAX, prefix_bits in 1..32_u8
        ) {
            let peer = network(address.to_be_bytes(), prefix_bits).peer().unwrap().to_bits();
            prop_assert_ne!(peer, address);
            prop_assert_eq!(peer >> (32 - prefix_bits), address >> (32 - prefix_bits));
        }
    }

    #[test]
    fn the_settings_of_an_interface_are_read_back() {
        in_new_network(|| {
            let tun = Tun::open(Some("plumb0")).unwrap();
            let interface = Interface::named(tun.name()).unwrap();
            assert_eq!(interface.address().unwrap(), None);
            assert!(!interface.is_up().unwrap());
            interface.set_address([10, 9, 8, 1].into(), 30).unwrap();
            interface.set_mtu(1234).unwrap();
            interface.set_transmit_queue_len(77).unwrap();
            interface.bring_up().unwrap();
            assert_eq!(interface.address().unwrap(), Some(network([10, 9, 8, 1], 30)));
            assert_eq!(interface.mtu_bytes().unwrap(), 1234);
            assert_eq!(interface.transmit_queue_len().unwrap(), 77);
            assert!(interface.is_up().unwrap());
        });
    }

    #[test]
    fn an_ipv6_address_that_is_added_is_read_back_and_can_be_used_at_once() {
        in_new_network(|| {
            let tun = Tun::open(Some("plumb0")).unwrap();
            let interface = Interface::named(tun.name()).unwrap();
            interface.bring_up().unwrap();
            let address: Ipv6Addr = "fd00::1".parse().unwrap();
            interface.add_address6(address, 64).unwrap();
            assert!(interface.addresses6().unwrap().contains(&(address, 64)));
            std::net::UdpSocket::bind((address, 0)).unwrap();
            let error = interface.add_address6(address, 64).unwrap_err();
            assert!(matches!(error, InterfaceError::Refused(_, _)), "{error}");
        });
    }

    #[test]
    fn a_tun_has_no_hardware_address() {
        in_new_network(|| {
            let tun = Tun::open(Some("plumb0")).unwrap();
            let interface = Interface::named(tun.name()).unwrap();
            assert_eq!(interface.hardware_address().unwrap(), None);
            let loopback = Interface::named("lo").unwrap();
            assert_eq!(loopback.index().unwrap(), 1);
        });
    }

    #[test]
    fn an_mtu_that_the_device_does_not_support_is_rejected() {
        in_new_network(|| {
            let tun = Tun::open(Some("plumb0")).unwrap();
            let error = Interface::named(tun.name()).unwrap().set_mtu(1).unwrap_err();
            assert!(matches!(error, InterfaceError::Refused(_, _)));
        });
    }

    #[test]
    fn the_error_names_an_interface_that_does_not_exist() {
        let error = Interface::named("plumbnone").unwrap_err();
        assert!(matches!(error, InterfaceError::NoSuchInterface(_)));
        assert!(error.to_string().contains("plumbnone"));
    }

    #[test]
    fn the_peer_is_the_first_host_that_is_not_the_kernel() {
        assert_eq!(network([10, 0, 0, 1], 24).peer(), Some([10, 0, 0, 2].into()));
        assert_eq!(network([10, 0, 0, 9], 24).peer(), Some([10, 0, 0, 1].into()));
        assert_eq!(network([10, 0, 0, 1], 31).peer(), Some([10, 0, 0, 0].into()));
        assert_eq!(network([10, 0, 0, 1], 32).peer(), None);
    }

    #[test]
    fn the_ipv6_peer_is_the_first_host_that_is_neither_the_kernel_nor_all_routers() {
        let peer = |address: &str, bits| peer6(address.parse().unwrap(), bits);
        let some_address = |address: &str| Some(address.parse::<Ipv6Addr>().unwrap());
        assert_eq!(peer("2001:db8::1", 64), some_address("2001:db8::2"));
        assert_eq!(peer("2001:db8::9:1", 64), some_address("2001:db8::1"));
        assert_eq!(peer("2001:db8::", 127), some_address("2001:db8::1"));
        assert_eq!(peer("2001:db8::1", 127), some_address("2001:db8::"));
        assert_eq!(peer("2001:db8::1", 128), None);
    }

    #[test]
    fn a_configured_destination_address_is_the_peer() {
        let destination = Some([10, 0, 0, 77].into());
        let link = Addressing { destination, ..network([10, 0, 0, 1], 32) };
        assert_eq!(link.peer(), destination);
    }
}
