//! The user's configuration: `config.toml` in `$XDG_CONFIG_HOME/plumb`, or in `~/.config/plumb`.
//!
//! ```toml
//! [host.router]
//! target = "rfc2217://console.example.net:7001?baud=9600"   # plumb login router
//!
//! [host."bbs.example.org"]
//! login = ["--encoding", "cp437", "--user", "ann"]          # options of plumb login
//!
//! [host."its.example"]
//! image = "L36"      # meaning of TYPE I on this host; "auto" asks the host by SYST
//! store = "c36"      # format of the host's words in local files
//! ```

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml_file::TomlFile;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configuration {
    #[serde(default)]
    host: BTreeMap<String, HostTable>,
}

/// Table of a host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostTable {
    /// Destination of a login to this name.
    pub(crate) target: Option<String>,
    /// Options of a login, before those of the command line.
    #[serde(default)]
    pub(crate) login: Vec<String>,
    /// Meaning of TYPE I.
    pub(crate) image: Option<String>,
    /// Format of the host's words in local files.
    pub(crate) store: Option<String>,
}

impl Configuration {
    /// Returns the table of `host`, whose case does not matter.
    pub(crate) fn host(&self, host: &str) -> Option<&HostTable> {
        self.host.iter().find(|(name, _)| name.eq_ignore_ascii_case(host)).map(|(_, table)| table)
    }

    /// Returns the names and tables of all hosts.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&String, &HostTable)> {
        self.host.iter()
    }
}

/// Reads the configuration and passes it to `evaluate`. A missing file is an empty configuration.
///
/// # Errors
///
/// Returns an error that names the file if it cannot be read or is invalid, or if `evaluate` fails.
pub(crate) fn evaluate<T>(evaluate: impl FnOnce(&Configuration) -> Result<T>) -> Result<T> {
    let path = path().filter(|path| !matches!(path.try_exists(), Ok(false)));
    let Some(path) = path else { return evaluate(&Configuration::default()) };
    let file = TomlFile::CONFIGURATION.read(&path)?;
    evaluate(&file).with_context(|| TomlFile::CONFIGURATION.invalid(&path))
}

fn path() -> Option<PathBuf> {
    let config_home = std::env::var_os("XDG_CONFIG_HOME").filter(|directory| !directory.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    Some(config_home.map(PathBuf::from).or_else(home)?.join("plumb/config.toml"))
}
