//! Reasons why a routed gateway cannot start or had to end.

use crate::program_error::ProgramError;
use gateway::router::AddLineError;
use os::interface::InterfaceError;
use os::serial::SerialError;
use os::tun::TunError;
use std::net::IpAddr;
use std::{error, fmt, io};

/// Reasons why a routed gateway cannot start or had to end.
#[derive(Debug)]
pub enum RoutedError {
    /// The guest is not a serial line.
    NotALine(String),
    /// The guest has no IPv4 address.
    NoAddress(String),
    /// The router has two addresses of one version.
    TwoRouterAddresses,
    /// A guest has an IPv6 prefix, but the router has no IPv6 address.
    NoRouterAddress6(String),
    /// The address or the prefix of a guest cannot be used.
    Line(String, AddLineError),
    /// The address of a guest or of the router is an address of this host.
    OwnAddress(IpAddr),
    /// There is a route to exactly this address already.
    RouteExists(IpAddr),
    /// IPv6 forwarding is off.
    NoForwarding6,
    /// A setting below /proc/sys/net cannot be changed.
    Setting(String, io::Error),
    /// The user may not create a TUN.
    NotPermitted,
    /// The TUN cannot be opened.
    Tun(TunError),
    /// The TUN or the interface of the local network cannot be configured.
    Interface(InterfaceError),
    /// A serial line cannot be opened.
    Serial(SerialError),
    /// Any other error.
    Program(ProgramError),
}

impl RoutedError {
    /// Returns whether the arguments are the cause, and not the state of this host.
    #[must_use]
    pub const fn is_caused_by_arguments(&self) -> bool {
        matches!(
            self,
            Self::NotALine(_)
                | Self::NoAddress(_)
                | Self::TwoRouterAddresses
                | Self::NoRouterAddress6(_)
                | Self::Line(..)
        )
    }
}

impl From<InterfaceError> for RoutedError {
    fn from(error: InterfaceError) -> Self {
        Self::Interface(error)
    }
}

impl fmt::Display for RoutedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALine(guest) => write!(
                f,
                "{guest} is not a serial line: --routed carries serial lines only; start another \
                 gateway without --routed for it"
            ),
            Self::NoAddress(guest) => {
                write!(f, "{guest} has no address: add address=192.0.2.10 to it")
            }
            Self::TwoRouterAddresses => f.write_str(
                "the router has one address of each version: give --router-address once",
            ),
            Self::NoRouterAddress6(guest) => write!(
                f,
                "{guest} has an IPv6 prefix, but the router has no IPv6 address: give one by \
                 --router-address"
            ),
            Self::Line(guest, AddLineError::AddressInUse) => write!(
                f,
                "{guest} has the address or a part of the prefix of another guest or of the router"
            ),
            Self::Line(guest, error) => write!(f, "{guest}: {error}"),
            Self::OwnAddress(address) => write!(
                f,
                "{address} is an address of this host: give the guest or the router its own one"
            ),
            Self::RouteExists(address) => write!(
                f,
                "there is a route to {address} already: another gateway may have this address"
            ),
            Self::NoForwarding6 => f.write_str(
                "this host does not forward IPv6: run 'sysctl net.ipv6.conf.all.forwarding=1', \
                 after which it accepts router advertisements only at interfaces with accept_ra=2",
            ),
            Self::Setting(setting, error) => {
                write!(f, "cannot change /proc/sys/net/{setting}: {error}")
            }
            Self::NotPermitted => {
                f.write_str("no permission to create a TUN and its routes: run as root")
            }
            Self::Tun(error) => error.fmt(f),
            Self::Interface(error) => error.fmt(f),
            Self::Serial(error) => error.fmt(f),
            Self::Program(error) => error.fmt(f),
        }
    }
}

impl error::Error for RoutedError {}
