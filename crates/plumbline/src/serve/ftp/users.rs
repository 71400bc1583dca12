//! Who may come in by FTP: users of a file, each with a root and rights of his own, and anonymous
//! ones.
//!
//! ```toml
//! [ann]
//! password = "$argon2id$v=19$..."   # from `plumb serve --hash-password`
//! root = "/srv/ann"
//! rights = "writable"                # or read-only, the default; more in `rights`
//! quota-bytes = 1000000000
//! bytes-per-second-max = 10000000
//! [ann.folders]
//! "/incoming" = "drop-box"
//! ```

use super::super::register;
use super::rights::{Access, Granted};
use anyhow::{Result, anyhow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The names that anonymous users come by.
const ANONYMOUS: [&[u8]; 2] = [b"anonymous", b"ftp"];

/// A user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Account {
    password: String,
    pub(super) root: PathBuf,
    #[serde(default)]
    rights: Granted,
    #[serde(default)]
    folders: BTreeMap<String, Granted>,
    pub(super) quota_bytes: Option<u64>,
    pub(super) bytes_per_second_max: Option<u64>,
}

/// All users.
pub(super) type Users = register::Register<Account>;

impl register::Account for Account {
    fn password(&self) -> &str {
        &self.password
    }

    fn check(&self, name: &str) -> Result<()> {
        let why = |why| anyhow!("the folders of {}: {why}", name.escape_debug());
        self.access().map(drop).map_err(why)
    }
}

impl Account {
    /// Returns what he may.
    ///
    /// # Errors
    ///
    /// If what is said of a folder makes no sense.
    pub(super) fn access(&self) -> Result<Access, String> {
        Access::new(self.rights, &self.folders)
    }
}

/// Returns whether somebody comes without saying who he is.
pub(super) fn is_anonymous(name: &[u8]) -> bool {
    ANONYMOUS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::application::ftp::server::Rights;

    #[test]
    fn a_user_has_a_root_and_rights_of_his_own() {
        let hash = register::hash(b"secret").unwrap();
        let text = format!("[ann]\npassword = \"{hash}\"\nroot = \"/srv/ann\"\n");
        let users = Users::parse(&text).unwrap();
        let (_, ann) = users.prove(Some("ann"), b"secret").unwrap();
        let access = ann.access().unwrap();
        assert_eq!(ann.root.to_str(), Some("/srv/ann"));
        assert_eq!(access, Access::everywhere(Rights::READ_ONLY));
        assert!(Users::parse(&format!("[ann]\npassword = \"{hash}\"\n")).is_err());
        assert!(Users::parse(&format!("{text}[ann.folders]\nincoming = []\n")).is_err());
    }
}
