//! User file of the FTP server, with a root and rights for each user, and the names of anonymous
//! users.
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

use super::super::user_file;
use super::rights::{Access, ConfiguredRights};
use anyhow::{Result, anyhow};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Login names of anonymous users.
pub(super) const ANONYMOUS: &[&[u8]] = &[b"anonymous", b"ftp"];

/// Entry of one user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FtpUserEntry {
    password: String,
    pub(super) root: PathBuf,
    #[serde(default)]
    rights: ConfiguredRights,
    #[serde(default)]
    folders: BTreeMap<String, ConfiguredRights>,
    pub(super) quota_bytes: Option<u64>,
    pub(super) bytes_per_second_max: Option<u64>,
}

/// All users of the FTP server.
pub(super) type Users = user_file::UserFile<FtpUserEntry>;

impl user_file::UserEntry for FtpUserEntry {
    fn password(&self) -> &str {
        &self.password
    }

    fn check(&self, name: &str) -> Result<()> {
        let to_error = |reason| anyhow!("folders of user {}: {reason}", name.escape_debug());
        self.access().map(drop).map_err(to_error)
    }
}

impl FtpUserEntry {
    /// Returns the rights of the user.
    ///
    /// # Errors
    ///
    /// Returns an error if the rights of a directory are invalid.
    pub(super) fn access(&self) -> Result<Access, String> {
        Access::new(self.rights, &self.folders)
    }
}

/// Returns whether `name` is a login name of anonymous users.
pub(super) fn is_anonymous(name: &[u8]) -> bool {
    ANONYMOUS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::ftp::server::Rights;

    #[test]
    fn each_user_has_a_separate_root_and_rights() {
        let hash = user_file::hash(b"secret").unwrap();
        let text = format!("[ann]\npassword = \"{hash}\"\nroot = \"/srv/ann\"\n");
        let users = Users::parse(&text).unwrap();
        let (_, ann) = users.authenticate(Some("ann"), b"secret").unwrap();
        let access = ann.access().unwrap();
        assert_eq!(ann.root.to_str(), Some("/srv/ann"));
        assert_eq!(access, Access::everywhere(Rights::READ_ONLY));
        assert!(Users::parse(&format!("[ann]\npassword = \"{hash}\"\n")).is_err());
        assert!(Users::parse(&format!("{text}[ann.folders]\nincoming = []\n")).is_err());
    }
}
