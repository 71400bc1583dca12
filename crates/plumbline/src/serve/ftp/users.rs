//! Who may come in by FTP: users of a file, each with a root and rights of his own, and anonymous
//! ones.
//!
//! The file is TOML and may not be readable by everybody:
//!
//! ```toml
//! [ann]
//! password = "$argon2id$v=19$..."   # from `plumb serve --hash-password`
//! root = "/srv/ann"
//! rights = "writable"                # or read-only, the default, or write-once
//! quota-bytes = 1000000000
//! bytes-per-second-max = 10000000
//! ```

use super::super::{tftp, users};
use anyhow::{Context, Result, bail};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordVerifier};
use protocols::application::ftp::Right;
use protocols::application::ftp::server::Rights;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The names that anonymous users come by.
const ANONYMOUS: [&[u8]; 2] = [b"anonymous", b"ftp"];

/// A user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Account {
    password: String,
    pub(super) root: PathBuf,
    #[serde(default)]
    pub(super) rights: tftp::Rights,
    pub(super) quota_bytes: Option<u64>,
    pub(super) bytes_per_second_max: Option<u64>,
}

/// All users.
#[derive(Debug)]
pub(super) struct Users {
    accounts: BTreeMap<String, Account>,
    /// The hash that a name which nobody has is compared with, so that it takes as long.
    nobodys: String,
}

impl Users {
    /// Reads the users' file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, can be read by everybody, or makes no sense.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the users' file {name} cannot be read"))?;
        let mode = std::fs::metadata(path)?.permissions().mode();
        if mode & 0o007 != 0 {
            bail!("the users' file {name} is open to everybody: chmod o-rwx {name}");
        }
        Self::parse(&text).with_context(|| format!("the users' file {name} makes no sense"))
    }

    fn parse(text: &str) -> Result<Self> {
        let accounts: BTreeMap<String, Account> = toml::from_str(text)?;
        for (name, account) in &accounts {
            if PasswordHash::new(&account.password).is_err() {
                bail!(
                    "the password of {} is not a hash: \
                     make one with plumb serve --hash-password",
                    name.escape_debug()
                );
            }
        }
        Ok(Self { accounts, nobodys: users::hash(b"nobody has this one")? })
    }

    /// Returns the account of who has proved to be `name`; takes some tens of milliseconds, whether
    /// there is such a user or not.
    pub(super) fn prove(&self, name: &[u8], password: &[u8]) -> Option<Account> {
        let known = std::str::from_utf8(name).ok().and_then(|name| self.accounts.get(name));
        let text = known.map_or(self.nobodys.as_str(), |account| account.password.as_str());
        let hash = PasswordHash::new(text).ok()?;
        let is_proved = Argon2::default().verify_password(password, &hash).is_ok();
        known.filter(|_| is_proved).cloned()
    }
}

/// Returns whether somebody comes without saying who he is.
pub(super) fn is_anonymous(name: &[u8]) -> bool {
    ANONYMOUS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns what each of the three words of the configuration stands for.
pub(super) const fn rights_of(rights: tftp::Rights) -> Rights {
    match rights {
        tftp::Rights::ReadOnly => Rights::READ_ONLY,
        tftp::Rights::WriteOnce => Rights::READ_ONLY.with(Right::Write).with(Right::MakeDirectory),
        tftp::Rights::Writable => Rights::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_proves_himself_by_his_password_alone() {
        let text = format!(
            "[ann]\npassword = \"{}\"\nroot = \"/srv/ann\"\nrights = \"writable\"\n",
            users::hash(b"secret").unwrap()
        );
        let users = Users::parse(&text).unwrap();
        assert_eq!(users.prove(b"ann", b"secret").unwrap().root, Path::new("/srv/ann"));
        assert!(users.prove(b"ann", b"Secret").is_none());
        assert!(users.prove(b"bob", b"nobody has this one").is_none());
    }

    #[test]
    fn a_password_in_clear_is_refused() {
        assert!(Users::parse("[ann]\npassword = \"secret\"\nroot = \"/srv\"\n").is_err());
    }
}
