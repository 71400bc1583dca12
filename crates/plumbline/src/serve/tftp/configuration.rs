//! What the TFTP server is to do: from the file, and from flags, which beat the file.

use super::super::admission::Rules;
use super::super::folder::{Folder, Rights};
use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use os::jail::Jail;
use protocols::application::tftp::SERVER_PORT;
use protocols::time::Duration;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// What is added to the port where only root may have the usual one.
const HIGH: u16 = 6900;
const TRANSFERS_MAX: usize = 256;
const TRANSFERS_PER_SOURCE_MAX: usize = 32;
const PATIENCE_S: u64 = 25;

/// The arguments of the command that are for TFTP.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(in super::super) struct Arguments {
    /// Serve files by TFTP
    #[arg(long, group = "files")]
    tftp: bool,
    /// Serve TFTP at this address and port; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tftp")]
    tftp_listen: Vec<SocketAddr>,
}

impl Arguments {
    /// Returns whether TFTP is asked for.
    pub(in super::super) fn is_asked(&self) -> bool {
        self.tftp
    }
}

/// The table `[tftp]` of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(in super::super) struct Table {
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

/// What the server is to do, with nothing left open.
#[derive(Clone, Debug)]
pub(in super::super) struct Settings {
    pub(super) root: PathBuf,
    pub(super) rights: Rights,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) rules: Rules,
    pub(super) transfers_max: u64,
    pub(super) file_max_bytes: u64,
    pub(super) patience: Duration,
}

impl Settings {
    /// Looks whether the root can be served.
    ///
    /// # Errors
    ///
    /// If it is no folder, or may not be read.
    pub(in super::super) fn look_at_root(&self) -> Result<()> {
        let root = self.root.display();
        let opened = Jail::open(&self.root);
        opened.map(drop).with_context(|| format!("the root {root} cannot be served"))
    }

    /// Puts file and flags together; `None` if neither asks for TFTP.
    ///
    /// # Errors
    ///
    /// If no folder is named, or nobody could come.
    pub(in super::super) fn complete(
        table: Option<Table>,
        arguments: &Arguments,
        folder: &Folder,
        (allow, deny): (&[IpNet], &[IpNet]),
        is_root: bool,
    ) -> Result<Option<Self>> {
        if table.is_none() && !arguments.tftp {
            return Ok(None);
        }
        let mut table = table.unwrap_or_default();
        table.allow.extend(allow);
        table.deny.extend(deny);
        let root = folder.root().cloned().or(table.root);
        let root = root.context("say which folder TFTP serves: --root FOLDER")?;
        let said = folder.rights();
        let said_places = Some(&arguments.tftp_listen).filter(|places| !places.is_empty());
        let listen = said_places.cloned().or(table.listen);
        let listen = listen.unwrap_or_else(|| default_places(is_root));
        if listen.is_empty() {
            bail!("the TFTP server listens nowhere: give it an address");
        }
        let transfers_max = table.transfers_max.unwrap_or(TRANSFERS_MAX);
        Ok(Some(Self {
            root,
            rights: said.or(table.rights).unwrap_or_default(),
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
            patience: Duration::from_secs(table.timeout_s.unwrap_or(PATIENCE_S).max(1)),
        }))
    }
}

/// Returns where a server listens that was told nothing: nobody proves who he is, so at loopback.
fn default_places(is_root: bool) -> Vec<SocketAddr> {
    let port = SERVER_PORT + if is_root { 0 } else { HIGH };
    vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
}

/// `[::]` stands for every address of both families, as everywhere; a socket here has one.
fn both_families(place: SocketAddr) -> Vec<SocketAddr> {
    match place {
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            vec![place, (Ipv4Addr::UNSPECIFIED, place.port()).into()]
        }
        _ => vec![place],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str, flags: &[&str]) -> Result<Option<Settings>> {
        complete_as(Some(text), flags, false)
    }

    fn complete_as(text: Option<&str>, flags: &[&str], is_root: bool) -> Result<Option<Settings>> {
        #[derive(clap::Parser)]
        #[command(group = clap::ArgGroup::new("files").multiple(true))]
        struct Command {
            #[command(flatten)]
            folder: Folder,
            #[command(flatten)]
            tftp: Arguments,
        }
        let words = std::iter::once(&"serve").chain(flags);
        let Command { folder, tftp } = clap::Parser::try_parse_from(words)?;
        let table = text.map(toml::from_str).transpose()?;
        Settings::complete(table, &tftp, &folder, (&[], &[]), is_root)
    }

    #[test]
    fn without_a_word_files_are_read_at_loopback_alone() {
        let flags = ["--tftp", "--root", "/srv"];
        let settings = complete_as(None, &flags, true).unwrap().unwrap();
        assert!(settings.listen.iter().all(|at| at.ip().is_loopback() && at.port() == 69));
        assert_eq!(settings.rights, Rights::ReadOnly);
        let settings = complete_as(None, &flags, false).unwrap().unwrap();
        assert_eq!(settings.listen[0].port(), 6969);
    }

    #[test]
    fn nobody_who_does_not_ask_gets_a_server() {
        assert!(complete_as(None, &[], false).unwrap().is_none());
    }

    #[test]
    fn a_flag_beats_the_file_and_any_address_is_of_both_families() {
        let text = "root = \"/srv\"\nrights = \"writable\"\nlisten = [\"[::]:69\"]\n";
        let settings = complete(text, &[]).unwrap().unwrap();
        assert_eq!((settings.rights, settings.listen.len()), (Rights::Writable, 2));
        let settings = complete(text, &["--tftp", "--write-once"]).unwrap().unwrap();
        assert_eq!(settings.rights, Rights::WriteOnce);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(complete("", &[]).is_err());
        assert!(complete("root = \"/srv\"\nlisten = []\n", &[]).is_err());
        assert!(complete("roots = \"/srv\"\n", &[]).is_err());
    }
}
