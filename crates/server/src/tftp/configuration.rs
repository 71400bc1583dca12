//! Configuration of the TFTP server: the configuration file, overridden by command-line flags.

use super::super::admission::Rules;
use super::super::flags::{RootFlags, TftpFlags};
use super::super::root::Rights;
use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use net::time::Duration;
use os::beneath::RootDir;
use protocols::tftp::SERVER_PORT;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Offset added to the default port numbers when the server does not run as root.
const UNPRIVILEGED_PORT_OFFSET: u16 = 6900;
const TRANSFERS_MAX: usize = 256;
const TRANSFERS_PER_SOURCE_MAX: usize = 32;
const TIMEOUT_DEFAULT_S: u64 = 25;

/// Table `[tftp]` of the configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(in super::super) struct TftpTable {
    root: Option<PathBuf>,
    rights: Option<Rights>,
    listen: Option<Vec<SocketAddr>>,
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
    transfers_max: Option<usize>,
    transfers_per_source_max: Option<usize>,
    file_max_bytes: Option<u64>,
    timeout_s: Option<u64>,
}

/// Configuration with all defaults applied.
#[derive(Clone, Debug)]
pub(in super::super) struct TftpSettings {
    pub(super) root: PathBuf,
    pub(super) rights: Rights,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) rules: Rules,
    pub(super) transfers_max: u64,
    pub(super) file_max_bytes: u64,
    pub(super) timeout: Duration,
}

impl TftpSettings {
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

    /// Merges the configuration file and the command-line flags. Returns `None` if neither requests
    /// TFTP.
    ///
    /// # Errors
    ///
    /// Returns an error if no root or no listen address is given.
    pub(in super::super) fn complete(
        table: Option<TftpTable>,
        flags: &TftpFlags,
        root_flags: &RootFlags,
        (allow, deny): (&[IpNet], &[IpNet]),
        is_root: bool,
    ) -> Result<Option<Self>> {
        if table.is_none() && !flags.is_requested {
            return Ok(None);
        }
        let mut table = table.unwrap_or_default();
        table.allow.extend(allow);
        table.deny.extend(deny);
        let root = root_flags.root.clone().or(table.root);
        let root = root.context("no directory to serve by TFTP: use --root DIRECTORY")?;
        let rights = root_flags.rights;
        let listen = Some(&flags.listen).filter(|listen| !listen.is_empty());
        let listen = listen.cloned().or(table.listen);
        let listen = listen.unwrap_or_else(|| default_addresses(is_root));
        if listen.is_empty() {
            bail!("no address for the TFTP server: set listen");
        }
        let transfers_max = table.transfers_max.unwrap_or(TRANSFERS_MAX);
        Ok(Some(Self {
            root,
            rights: rights.or(table.rights).unwrap_or_default(),
            listen: listen.into_iter().flat_map(both_families).collect(),
            rules: Rules {
                allow: table.allow,
                deny: table.deny,
                sessions_max: transfers_max,
                sessions_per_source_max: table
                    .transfers_per_source_max
                    .unwrap_or(TRANSFERS_PER_SOURCE_MAX),
            },
            transfers_max: u64::try_from(transfers_max).unwrap_or(u64::MAX),
            file_max_bytes: table.file_max_bytes.unwrap_or(u64::MAX),
            timeout: Duration::from_secs(table.timeout_s.unwrap_or(TIMEOUT_DEFAULT_S).max(1)),
        }))
    }
}

/// Returns the default listen addresses: loopback only, because TFTP has no authentication.
fn default_addresses(is_root: bool) -> Vec<SocketAddr> {
    let port = SERVER_PORT + if is_root { 0 } else { UNPRIVILEGED_PORT_OFFSET };
    vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
}

/// Expands `[::]` to the wildcard addresses of both families, because each request socket has only
/// one address family.
fn both_families(address: SocketAddr) -> Vec<SocketAddr> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            vec![address, (Ipv4Addr::UNSPECIFIED, address.port()).into()]
        }
        _ => vec![address],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str, root: &RootFlags) -> Result<Option<TftpSettings>> {
        complete_as(Some(text), root, false)
    }

    fn complete_as(
        text: Option<&str>,
        root: &RootFlags,
        is_root: bool,
    ) -> Result<Option<TftpSettings>> {
        let flags = TftpFlags { is_requested: root.root.is_some(), ..TftpFlags::default() };
        let table = text.map(toml::from_str).transpose()?;
        TftpSettings::complete(table, &flags, root, (&[], &[]), is_root)
    }

    #[test]
    fn by_default_files_are_read_only_and_served_on_loopback() {
        let flags = RootFlags { root: Some("/srv".into()), rights: None };
        let settings = complete_as(None, &flags, true).unwrap().unwrap();
        assert!(settings.listen.iter().all(|at| at.ip().is_loopback() && at.port() == 69));
        assert_eq!(settings.rights, Rights::ReadOnly);
        let settings = complete_as(None, &flags, false).unwrap().unwrap();
        assert_eq!(settings.listen[0].port(), 6969);
    }

    #[test]
    fn without_a_request_there_is_no_server() {
        assert!(complete_as(None, &RootFlags::default(), false).unwrap().is_none());
    }

    #[test]
    fn a_flag_overrides_the_file_and_the_wildcard_address_covers_both_families() {
        let text = "root = \"/srv\"\nrights = \"writable\"\nlisten = [\"[::]:69\"]\n";
        let settings = complete(text, &RootFlags::default()).unwrap().unwrap();
        assert_eq!((settings.rights, settings.listen.len()), (Rights::Writable, 2));
        let write_once = RootFlags { rights: Some(Rights::WriteOnce), ..RootFlags::default() };
        let settings = complete(text, &write_once).unwrap().unwrap();
        assert_eq!(settings.rights, Rights::WriteOnce);
    }

    #[test]
    fn an_invalid_configuration_is_rejected() {
        assert!(complete("", &RootFlags::default()).is_err());
        assert!(complete("root = \"/srv\"\nlisten = []\n", &RootFlags::default()).is_err());
        assert!(complete("roots = \"/srv\"\n", &RootFlags::default()).is_err());
    }
}
