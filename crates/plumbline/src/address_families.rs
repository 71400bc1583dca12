//! Options that restrict the address families of a connection.

use crate::heading;
use carrier::AddressFamilies;

/// Options `-4` and `-6`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct AddressFamilyOptions {
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6", help_heading = heading::CONNECTION)]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', help_heading = heading::CONNECTION)]
    ipv6: bool,
}

impl AddressFamilyOptions {
    /// Returns the address families that the options allow.
    pub(crate) fn families(self) -> AddressFamilies {
        match self {
            Self { ipv4: true, .. } => AddressFamilies::Ipv4,
            Self { ipv6: true, .. } => AddressFamilies::Ipv6,
            _ => AddressFamilies::Both,
        }
    }
}
