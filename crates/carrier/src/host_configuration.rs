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
//! A host is saved by appending its table, so that comments and the order of the file remain. A
//! table is changed or removed by the user only.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use toml_file::TomlFile;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    #[serde(default)]
    host: BTreeMap<String, HostTable>,
}

/// Table of a host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// Destination of a login to this name.
    pub target: Option<String>,
    /// Options of a login, before those of the command line.
    #[serde(default)]
    pub login: Vec<String>,
    /// Meaning of TYPE I.
    pub image: Option<String>,
    /// Format of the host's words in local files.
    pub store: Option<String>,
}

impl Configuration {
    /// Returns the table of `host`, whose case does not matter.
    #[must_use]
    pub fn host(&self, host: &str) -> Option<&HostTable> {
        self.host.iter().find(|(name, _)| name.eq_ignore_ascii_case(host)).map(|(_, table)| table)
    }

    /// Returns the names and tables of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = (&String, &HostTable)> {
        self.host.iter()
    }

    /// Returns a line with the name, the destination and the options of each host of a login.
    fn list(&self) -> String {
        let hosts =
            self.host.iter().filter(|(_, table)| table.target.is_some() || !table.login.is_empty());
        let mut text = String::new();
        for (name, table) in hosts {
            let target = table.target.as_deref().unwrap_or(name);
            let options = table.login.join(" ");
            // Writing to a string does not fail.
            _ = writeln!(text, "{}", format!("{name}  {target}  {options}").trim_end());
        }
        text
    }

    /// Returns the saved name that is most similar to `name`, if there is one.
    fn nearest(&self, name: &str) -> Option<&str> {
        let saved = self.host.iter().filter(|(_, table)| table.target.is_some());
        toml_file::nearest(name, saved.map(|(name, _)| name.as_str()))
    }

    /// Returns the table of a new host as text.
    fn table(&self, name: &str, target: &str, options: &[String]) -> Result<String> {
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        if name.is_empty() || !name.chars().all(|letter| is_bare(letter) || letter == '.') {
            bail!("'{}' is not a name: use letters, digits, -, _ and .", name.escape_debug());
        }
        if self.host(name).is_some() {
            bail!("there is a [host.{name}] already: change or remove it there");
        }
        let key = if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() };
        let mut text = format!("\n[host.{key}]\ntarget = {}\n", quoted(target)?);
        if !options.is_empty() {
            let options: Result<Vec<_>> = options.iter().map(|option| quoted(option)).collect();
            text.push_str(&format!("login = [{}]\n", options?.join(", ")));
        }
        Ok(text)
    }
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> Result<String> {
    if text.contains(char::is_control) {
        bail!("'{}' contains a control character", text.escape_debug());
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

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

/// Appends the table of a host, and returns the path of the file.
///
/// # Errors
///
/// Returns an error if the name is invalid or in use, or if the file cannot be read or written.
pub fn save_host(name: &str, target: &str, options: &[String]) -> Result<PathBuf> {
    let path = path().context("cannot save a host: HOME is not set")?;
    let context = || format!("cannot save '{}' in {}", name.escape_debug(), path.display());
    let file: Configuration = match path.try_exists() {
        Ok(false) => Configuration::default(),
        _ => TomlFile::CONFIGURATION.read(&path)?,
    };
    let table = file.table(name, target, options).with_context(context)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(context)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(table.as_bytes())).with_context(context)?;
    Ok(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Vec<String> {
        ["--encoding=cp437", "--log=a \"b\" \\"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_saved_host_is_read_again() {
        let mut text =
            String::from("# my hosts\n[host.router]\ntarget = \"serial:/dev/ttyUSB0\"\n");
        for name in ["bbs", "bbs.example.org"] {
            let file: Configuration = toml_file::parse(&text).unwrap();
            text.push_str(&file.table(name, "ann@bbs.example.org", &options()).unwrap());
        }
        let file: Configuration = toml_file::parse(&text).unwrap();
        for name in ["BBS", "bbs.example.org"] {
            let table = file.host(name).unwrap();
            assert_eq!(table.target.as_deref(), Some("ann@bbs.example.org"));
            assert_eq!(table.login, options());
        }
        let list = file.list();
        let line = "bbs  ann@bbs.example.org  --encoding=cp437 --log=a \"b\" \\\n";
        assert!(list.starts_with(line), "{list}");
        assert!(list.ends_with("router  serial:/dev/ttyUSB0\n"), "{list}");
    }

    #[test]
    fn a_name_that_is_in_use_or_invalid_is_rejected() {
        let file: Configuration = toml_file::parse("[host.bbs]\nstore = \"c36\"\n").unwrap();
        let error = |name: &str| file.table(name, "host", &[]).unwrap_err().to_string();
        assert_eq!(error("BBS"), "there is a [host.BBS] already: change or remove it there");
        for name in ["", "a b", "a]\n[x", "\u{fc}"] {
            assert!(error(name).contains("is not a name"), "{name}");
        }
        assert!(file.table("new", "a\nb", &[]).is_err());
    }

    #[test]
    fn a_similar_saved_name_is_found() {
        let text = "[host.router]\ntarget = \"r\"\n[host.its]\nstore = \"c36\"\n";
        let file: Configuration = toml_file::parse(text).unwrap();
        assert_eq!(file.nearest("ruoter"), Some("router"));
        assert_eq!((file.nearest("it"), file.nearest("example.org")), (None, None));
    }
}
