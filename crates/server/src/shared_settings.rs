//! Settings that apply to several servers.

use super::admission::Rules;
use super::certificate::CertificatePaths;
use super::flags::RootFlags;
use carrier::Route;
use ipnet::IpNet;

/// Settings that apply to several servers.
#[derive(Clone, Debug)]
pub(super) struct SharedSettings<'a> {
    /// Root directory given by flags.
    pub(super) root: &'a RootFlags,
    /// Prefixes given by flags, in addition to those of a table.
    pub(super) allow: &'a [IpNet],
    pub(super) deny: &'a [IpNet],
    /// Route to the clients.
    pub(super) via: &'a Route,
    pub(super) certificate: CertificatePaths,
    /// Whether the server runs as root.
    pub(super) is_root: bool,
}

impl SharedSettings<'_> {
    /// Adds the prefixes given by flags to the rules of a table.
    pub(super) fn extend(&self, mut rules: Rules) -> Rules {
        rules.allow.extend(self.allow);
        rules.deny.extend(self.deny);
        rules
    }
}
