//! Configuration of the TFTP server: the configuration file, overridden by command-line flags.

use super::super::address_text;
use super::super::admission::Rules;
use super::super::flags::TftpFlags;
use super::super::listen_addresses::ListenAddresses;
use super::super::root::{Rights, write_warning};
use super::super::shared_settings::SharedSettings;
use anyhow::{Context, Result};
use ipnet::IpNet;
use net::time::Duration;
use os::beneath::RootDir;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

const TRANSFERS_MAX: usize = 256;
const TRANSFERS_PER_SOURCE_MAX: usize = 32;
const TIMEOUT_DEFAULT_S: u64 = 25;

/// Table `[tftp]` of the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(in super::super) struct TftpTable {
    root: Option<PathBuf>,
    rights: Option<Rights>,
    #[serde(deserialize_with = "address_text::optional_list")]
    listen: Option<Vec<SocketAddr>>,
    #[serde(deserialize_with = "address_text::networks")]
    allow: Vec<IpNet>,
    #[serde(deserialize_with = "address_text::networks")]
    deny: Vec<IpNet>,
    transfers_max: Option<usize>,
    transfers_per_source_max: Option<usize>,
    file_max_bytes: Option<u64>,
    timeout_s: Option<u64>,
}

impl TftpTable {
    /// Returns this table with the flags and all defaults.
    ///
    /// # Errors
    ///
    /// Returns the error of [`TftpSettings::complete`].
    pub(in super::super) fn effective(
        self,
        flags: &TftpFlags,
        shared: &SharedSettings<'_>,
    ) -> Result<Self> {
        let settings = TftpSettings::complete(self, flags, shared)?;
        Ok(Self {
            root: Some(settings.root),
            rights: Some(settings.rights),
            listen: Some(settings.listen),
            allow: settings.rules.allow,
            deny: settings.rules.deny,
            transfers_max: Some(settings.rules.sessions_max),
            transfers_per_source_max: Some(settings.rules.sessions_per_source_max),
            file_max_bytes: Some(settings.file_max_bytes).filter(|max| *max < u64::MAX),
            timeout_s: Some(settings.timeout.as_secs()),
        })
    }
}

/// Configuration with all defaults applied.
#[derive(Clone, Debug)]
pub(in super::super) struct TftpSettings {
    pub(super) root: PathBuf,
    pub(super) rights: Rights,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) rules: Rules,
    pub(super) file_max_bytes: u64,
    pub(super) timeout: Duration,
}

impl TftpSettings {
    /// Returns the rules of admission control.
    #[cfg(test)]
    pub(in super::super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the listen addresses.
    pub(in super::super) fn addresses(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// Returns a warning if the server cannot write its root although clients may.
    pub(in super::super) fn unwritable_root(&self) -> Option<String> {
        let is_writable = self.rights != Rights::ReadOnly;
        is_writable.then(|| write_warning(&self.root)).flatten()
    }

    /// Checks that the root can be served.
    ///
    /// # Errors
    ///
    /// Returns an error if the root is not a directory or not readable.
    pub(in super::super) fn check_root(&self) -> Result<()> {
        let root = self.root.display();
        let root_dir = RootDir::open(&self.root);
        root_dir.map(drop).with_context(|| format!("cannot open root directory {root}"))
    }

    /// Merges the flags and the table of the configuration file, and applies defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if no root or no listen address is given.
    pub(in super::super) fn complete(
        table: TftpTable,
        flags: &TftpFlags,
        shared: &SharedSettings<'_>,
    ) -> Result<Self> {
        let root = shared.root.root.clone().or(table.root);
        let root = root.context("no directory to serve by TFTP: use --root DIRECTORY")?;
        let addresses = ListenAddresses::given((&flags.listen, &[]), (table.listen, None));
        let addresses = addresses.unwrap_or_else(|| ListenAddresses::tftp(shared.is_root));
        addresses.check("TFTP", "listen")?;
        let transfers_max = table.transfers_max.unwrap_or(TRANSFERS_MAX);
        Ok(Self {
            root,
            rights: shared.root.rights.or(table.rights).unwrap_or_default(),
            listen: both_families(&addresses.listen),
            rules: shared.extend(Rules {
                allow: table.allow,
                deny: table.deny,
                sessions_max: transfers_max,
                sessions_per_source_max: table
                    .transfers_per_source_max
                    .unwrap_or(TRANSFERS_PER_SOURCE_MAX),
            }),
            file_max_bytes: table.file_max_bytes.unwrap_or(u64::MAX),
            timeout: Duration::from_secs(table.timeout_s.unwrap_or(TIMEOUT_DEFAULT_S).max(1)),
        })
    }
}

/// Expands `[::]` to the wildcard addresses of both families, because each request socket has only
/// one address family. The result has each address once.
fn both_families(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut expanded = Vec::new();
    for address in addresses {
        let is_wildcard = address.is_ipv6() && address.ip().is_unspecified();
        let ipv4 = is_wildcard.then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into());
        for address in std::iter::once(*address).chain(ipv4) {
            if !expanded.contains(&address) {
                expanded.push(address);
            }
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::CertificatePaths;
    use crate::flags::RootFlags;

    fn complete(text: &str, root: &RootFlags) -> Result<TftpSettings> {
        complete_as(text, root, false)
    }

    fn complete_as(text: &str, root: &RootFlags, is_root: bool) -> Result<TftpSettings> {
        let shared = SharedSettings {
            root,
            allow: &[],
            deny: &[],
            via: &carrier::Route::Kernel,
            certificate: CertificatePaths::configured(None, "/nonexistent".as_ref()),
            is_root,
        };
        TftpSettings::complete(toml::from_str(text)?, &TftpFlags::default(), &shared)
    }

    #[test]
    fn by_default_files_are_read_only_and_served_on_loopback() {
        let flags = RootFlags { root: Some("/srv".into()), rights: None };
        let settings = complete_as("", &flags, true).unwrap();
        assert!(settings.listen.iter().all(|at| at.ip().is_loopback() && at.port() == 69));
        assert_eq!(settings.rights, Rights::ReadOnly);
        let settings = complete_as("", &flags, false).unwrap();
        assert_eq!(settings.listen[0].port(), 6969);
    }

    #[test]
    fn a_flag_overrides_the_file_and_the_wildcard_address_covers_both_families() {
        let text = "root = \"/srv\"\nrights = \"writable\"\nlisten = [\"[::]:69\"]\n";
        let settings = complete(text, &RootFlags::default()).unwrap();
        assert_eq!((settings.rights, settings.listen.len()), (Rights::Writable, 2));
        let write_once = RootFlags { rights: Some(Rights::WriteOnce), ..RootFlags::default() };
        let settings = complete(text, &write_once).unwrap();
        assert_eq!(settings.rights, Rights::WriteOnce);
    }

    #[test]
    fn an_invalid_configuration_is_rejected() {
        assert!(complete("", &RootFlags::default()).is_err());
        assert!(complete("root = \"/srv\"\nlisten = []\n", &RootFlags::default()).is_err());
        assert!(complete("roots = \"/srv\"\n", &RootFlags::default()).is_err());
    }
}
