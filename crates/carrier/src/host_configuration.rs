//! The user's configuration of remote hosts: `config.toml` in `$XDG_CONFIG_HOME/plumb`, or in
//! `~/.config/plumb`.
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
//!
//! A host is saved by appending its table, so that comments and the order of the file remain
//! (`host_table`).

use super::host_table::with_host;
use anyhow::{Context, Result, bail};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toml_file::TomlFile;

pub use super::host_table::{Configuration, HostTable};

/// Reads the configuration and passes it to `evaluate`. A missing file is an empty configuration.
///
/// # Errors
///
/// Returns an error that names the file if it cannot be read or is invalid, or if `evaluate` fails.
pub fn evaluate<T>(evaluate: impl FnOnce(&Configuration) -> Result<T>) -> Result<T> {
    let path = path().filter(|path| !matches!(path.try_exists(), Ok(false)));
    let Some(path) = path else { return evaluate(&Configuration::default()) };
    let file = TomlFile::CONFIGURATION.read(&path)?;
    evaluate(&file).with_context(|| TomlFile::CONFIGURATION.invalid(&path))
}

/// Saves a host, and returns the path of the file. The table of a saved host is replaced if
/// `replaces` is set.
///
/// # Errors
///
/// Returns an error if the name is invalid or in use, or if the file cannot be read or written.
pub fn save_host(
    name: &str,
    target: &str,
    options: &[String],
    replaces: bool,
) -> Result<PathBuf, HostError> {
    let host = HostTable {
        target: Some(target.to_owned()),
        login: options.to_vec(),
        ..HostTable::default()
    };
    edit(|text| {
        let file: Configuration = toml_file::parse(text)?;
        if !replaces && file.host(name).is_some() {
            bail!("there is a [host.{name}] already: replace it with --replace");
        }
        with_host(text, name, &host)
    })
    .map_err(|error| error.context(format!("cannot save '{}'", name.escape_debug())))
}

/// Removes a saved host, and returns the path of the file. Settings of the host for file transfers
/// are kept.
///
/// # Errors
///
/// Returns an error if no host of this name is saved, or if the file cannot be read or written.
pub fn remove_host(name: &str) -> Result<PathBuf, HostError> {
    edit(|text| {
        let file: Configuration = toml_file::parse(text)?;
        if !file.host(name).is_some_and(HostTable::is_login) {
            bail!("no host of this name is saved: list the saved hosts with --list");
        }
        with_host(text, name, &HostTable::default())
    })
    .map_err(|error| error.context(format!("cannot remove '{}'", name.escape_debug())))
}

/// Reason why a host was not saved or removed.
#[derive(Debug)]
pub enum HostError {
    /// The name or the content of the file does not permit it.
    Request(anyhow::Error),
    /// The file cannot be read or written.
    File(anyhow::Error),
}

impl HostError {
    fn context(self, text: String) -> Self {
        match self {
            Self::Request(error) => Self::Request(error.context(text)),
            Self::File(error) => Self::File(error.context(text)),
        }
    }
}

/// Replaces the text of the file by the result of `change`, and returns the path of the file.
fn edit(change: impl FnOnce(&str) -> Result<String>) -> Result<PathBuf, HostError> {
    let path = path().context("HOME is not set").map_err(HostError::File)?;
    // A link to the file remains.
    let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let context = || TomlFile::CONFIGURATION.invalid(&path);
    let text = match real.try_exists() {
        Ok(false) => String::new(),
        _ => TomlFile::CONFIGURATION.read_text(&real).map_err(HostError::File)?,
    };
    // The errors of `change` are then about the host only.
    toml_file::parse::<Configuration>(&text).with_context(context).map_err(HostError::Request)?;
    let text = change(&text).map_err(HostError::Request)?;
    let written = || format!("cannot write {}", path.display());
    write(&real, &text).with_context(written).map_err(HostError::File)?;
    Ok(path)
}

/// Writes `text` to a new file with the mode of the previous one, which it replaces.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mode = fs::metadata(path).map_or(0o600, |metadata| metadata.mode() & 0o777);
    let new = path.with_extension(format!("toml.{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        // An error means that the file does not exist.
        _ = fs::remove_file(new);
    }
    renamed
}

/// Returns the saved hosts, one per line: name, destination and options.
///
/// # Errors
///
/// Returns an error if the configuration cannot be read or is invalid.
pub fn list_hosts() -> Result<String> {
    evaluate(|file| Ok(file.list()))
}

/// Returns the end of an error message about an unknown host `name`: the saved host that is most
/// similar to it, and the file. `None` if no name is similar.
#[must_use]
pub fn misspelling_hint(name: &str) -> Option<String> {
    let path = path()?;
    let nearest = evaluate(|file| Ok(file.nearest(name).map(str::to_owned))).ok()??;
    Some(format!("; did you mean '{nearest}', which is saved in {}?", path.display()))
}

fn path() -> Option<PathBuf> {
    let config_home = std::env::var_os("XDG_CONFIG_HOME").filter(|directory| !directory.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    Some(config_home.map(PathBuf::from).or_else(home)?.join("plumb/config.toml"))
}
