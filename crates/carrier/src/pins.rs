//! Certificates that servers presented at first use, as SHA-256 fingerprints.
//!
//! The file has one line for each server: `host:port fingerprint`. Lines that begin with `#` and
//! malformed lines are ignored.

use anyhow::{Context, Result};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum number of bytes read from the file. Our choice.
const FILE_MAX_BYTES: u64 = 4 << 20;

/// The file of known certificates.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    path: PathBuf,
}

impl Pins {
    /// Returns the file of the current user.
    pub(crate) fn of_user() -> Self {
        Self { path: os::state_directory::state_directory().join("known_hosts") }
    }

    #[cfg(test)]
    pub(super) fn from_path(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the known fingerprint of `server`, which is `host:port`.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system. A missing file is not an error.
    pub(crate) fn find(&self, server: &str) -> io::Result<Option<String>> {
        Ok(find(&self.text()?, server).map(str::to_owned))
    }

    /// Appends `fingerprint` as the known certificate of `server`.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub(crate) fn add(&self, server: &str, fingerprint: &str) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        // A single write, so that concurrent logins do not mix their lines.
        file.write_all(format!("{server} {fingerprint}\n").as_bytes())
    }
}

impl Pins {
    /// Returns the lines of the file that satisfy `is_selected`, as server and fingerprint.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system. A missing file is not an error.
    fn list(&self, is_selected: impl Fn(&str) -> bool) -> io::Result<Vec<(String, String)>> {
        let text = self.text()?;
        let pins = text.lines().filter_map(pin).filter(|(server, _)| is_selected(server));
        Ok(pins.map(|(server, pin)| (server.to_owned(), pin.to_owned())).collect())
    }

    /// Removes the certificates of `host`, which may end with a port. Returns the removed ones. The
    /// file is replaced as a whole, so that an interrupted removal loses nothing.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    fn remove(&self, host: &str) -> io::Result<Vec<(String, String)>> {
        let text = self.text()?;
        let is_removed = |line: &str| pin(line).is_some_and(|(server, _)| is_of(server, host));
        let removed = self.list(|server| is_of(server, host))?;
        if !removed.is_empty() {
            let kept = text.lines().filter(|line| !is_removed(line));
            let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
            let new_path = self.path.with_extension("new");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new_path)?;
            file.write_all(kept.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new_path, &self.path)?;
        }
        Ok(removed)
    }

    fn text(&self) -> io::Result<String> {
        let mut text = String::new();
        match fs::File::open(&self.path) {
            Ok(file) => _ = file.take(FILE_MAX_BYTES).read_to_string(&mut text)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(text)
    }
}

/// Returns the saved certificates as server and SHA-256: those of `host`, which may end with a
/// port, or all.
///
/// # Errors
///
/// Returns an error that names the file if it cannot be read.
pub fn saved_certificates(host: Option<&str>) -> Result<Vec<(String, String)>> {
    let pins = Pins::of_user();
    let saved = pins.list(|server| host.is_none_or(|host| is_of(server, host)));
    saved.with_context(|| format!("cannot read {}", pins.path.display()))
}

/// Removes the saved certificates of `host`, which may end with a port. Returns the removed ones, as
/// server and SHA-256.
///
/// # Errors
///
/// Returns an error that names the file if it cannot be read or replaced.
pub fn remove_certificates(host: &str) -> Result<Vec<(String, String)>> {
    let pins = Pins::of_user();
    pins.remove(host).with_context(|| format!("cannot change {}", pins.path.display()))
}

/// Returns whether `server`, which is `host:port`, is at `host`, which may end with a port.
fn is_of(server: &str, host: &str) -> bool {
    let name = server.rsplit_once(':').map_or(server, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    [server, name, address].iter().any(|form| form.eq_ignore_ascii_case(host))
}

/// Parses a line into server and fingerprint.
fn pin(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split_whitespace();
    let server = fields.next().filter(|server| !server.starts_with('#'))?;
    fields.next().map(|fingerprint| (server, fingerprint))
}

fn find<'a>(text: &'a str, server: &str) -> Option<&'a str> {
    let mut pins = text.lines().filter_map(pin);
    pins.find(|(known, _)| known.eq_ignore_ascii_case(server)).map(|(_, fingerprint)| fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pins(name: &str) -> Pins {
        let directory =
            std::env::temp_dir().join(format!("plumb-pins-{name}-{}", std::process::id()));
        Pins { path: directory.join("state/known_hosts") }
    }

    #[test]
    fn only_an_added_server_is_found() {
        let pins = pins("added");
        assert_eq!(pins.find("host:992").unwrap(), None);
        pins.add("host:992", "aa:bb").unwrap();
        pins.add("[2001:db8::1]:992", "cc:dd").unwrap();
        assert_eq!(pins.find("HOST:992").unwrap().as_deref(), Some("aa:bb"));
        assert_eq!(pins.find("[2001:db8::1]:992").unwrap().as_deref(), Some("cc:dd"));
        assert_eq!(pins.find("host:993").unwrap(), None);
        fs::remove_dir_all(pins.path.parent().unwrap().parent().unwrap()).unwrap();
    }

    #[test]
    fn a_removal_keeps_the_certificates_of_other_hosts_and_all_comments() {
        let pins = pins("removed");
        for server in ["host:992", "HOST:21", "host2:992", "[2001:db8::1]:992"] {
            pins.add(server, "aa:bb").unwrap();
        }
        let mut file = OpenOptions::new().append(true).open(&pins.path).unwrap();
        file.write_all(b"# comment\n").unwrap();
        let servers = |pins: Vec<(String, String)>| -> Vec<String> {
            pins.into_iter().map(|(server, _)| server).collect()
        };
        assert_eq!(servers(pins.remove("host:992").unwrap()), ["host:992"]);
        assert_eq!(servers(pins.remove("host").unwrap()), ["HOST:21"]);
        assert_eq!(servers(pins.remove("2001:db8::1").unwrap()), ["[2001:db8::1]:992"]);
        assert_eq!(pins.remove("host").unwrap(), []);
        assert_eq!(fs::read_to_string(&pins.path).unwrap(), "host2:992 aa:bb\n# comment\n");
        fs::remove_dir_all(pins.path.parent().unwrap().parent().unwrap()).unwrap();
    }

    #[test]
    fn a_directory_in_place_of_the_pin_file_is_an_error() {
        let pins = Pins { path: std::env::temp_dir() };
        assert!(pins.find("host:992").is_err());
        assert!(pins.add("host:992", "aa").is_err());
    }

    proptest! {
        #[test]
        fn the_first_pin_of_a_server_is_found_among_any_lines(
            before in "(x( [0-9a-f:]{0,9})?\n){0,3}", after in ".*",
            server in "[a-w:0-9]{1,8}", fingerprint in "[0-9a-f:]{1,20}",
        ) {
            let text = format!("{before}{server} {fingerprint}\n{after}");
            prop_assert_eq!(find(&text, &server), Some(fingerprint.as_str()));
        }
    }
}
