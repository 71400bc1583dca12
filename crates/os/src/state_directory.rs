//! Location of plumb's persistent state, such as its own certificates, the certificates of known
//! servers and the transfer records.
//!
//! The state of each user, including root, is below the user's home directory, so that a command of
//! root never writes to the state of a service. A service has a state directory of its own, which
//! the service manager creates ([`service_state_directory`]).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Returns the directory for persistent state of this user: `$XDG_STATE_HOME/plumb`, or
/// `~/.local/state/plumb`.
#[must_use]
pub fn state_directory() -> PathBuf {
    state_directory_in(std::env::var_os("XDG_STATE_HOME"), std::env::home_dir())
}

fn state_directory_in(state_home: Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    if let Some(directory) = state_home.filter(|directory| !directory.is_empty()) {
        return PathBuf::from(directory).join("plumb");
    }
    let home = home.filter(|home| !home.as_os_str().is_empty());
    // A user without a home directory cannot write there, as intended.
    home.unwrap_or_else(|| "/nonexistent".into()).join(".local/state/plumb")
}

/// Returns the state directory that the service manager has created for this service, if any: the
/// first one of `STATE_DIRECTORY` (`StateDirectory=` in `systemd.exec(5)`).
#[must_use]
pub fn service_state_directory() -> Option<PathBuf> {
    first_directory(std::env::var_os("STATE_DIRECTORY")?)
}

/// Returns the runtime directory that the service manager has created for this service, if any: the
/// first one of `RUNTIME_DIRECTORY` (`RuntimeDirectory=` in `systemd.exec(5)`).
#[must_use]
pub fn service_runtime_directory() -> Option<PathBuf> {
    first_directory(std::env::var_os("RUNTIME_DIRECTORY")?)
}

/// Returns the first absolute path of a list that is separated by colons.
fn first_directory(list: OsString) -> Option<PathBuf> {
    let list = list.into_vec();
    let first = list.split(|byte| *byte == b':').next()?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(first));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_every_user_is_below_xdg_state_home_or_the_home_directory() {
        let directory = |state_home: Option<&str>, home: Option<&str>| {
            state_directory_in(state_home.map(OsString::from), home.map(PathBuf::from))
        };
        assert_eq!(directory(Some("/state"), Some("/srv/ann")), PathBuf::from("/state/plumb"));
        let below_home = PathBuf::from("/srv/ann/.local/state/plumb");
        assert_eq!(directory(None, Some("/srv/ann")), below_home);
        assert_eq!(directory(Some(""), Some("/srv/ann")), below_home);
        let without_home = PathBuf::from("/nonexistent/.local/state/plumb");
        assert_eq!(directory(None, None), without_home);
        assert_eq!(directory(None, Some("")), without_home);
    }

    #[test]
    fn a_service_uses_the_first_directory_of_its_service_manager() {
        let first = |list: &str| first_directory(list.into());
        assert_eq!(first("/var/lib/plumb"), Some("/var/lib/plumb".into()));
        assert_eq!(first("/var/lib/plumb:/var/lib/other"), Some("/var/lib/plumb".into()));
        assert_eq!(first(""), None);
        assert_eq!(first("relative"), None);
    }
}
