//! Users of our own: names with the hashes of their passwords, and what each runs.
//!
//! The file is TOML and belongs to who serves; it may not be readable by everybody:
//!
//! ```toml
//! [mike]
//! password = "$argon2id$v=19$..."   # from `plumb serve --hash-password`
//! runs-as = "mike"                   # the user of this machine; needs root
//! exec = ["/usr/bin/menu"]           # instead of the login shell
//! ```

use super::dialogue::{Claim, name_in};
use anyhow::{Context, Result, bail};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Account {
    password: String,
    /// The user of this machine that the program runs as; whoever serves, if it is not said.
    pub(super) runs_as: Option<String>,
    /// The program; the login shell, if it is not said.
    pub(super) exec: Option<Vec<String>>,
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
            if name_in(name.as_bytes()).is_none() {
                bail!("'{}' is not a name", name.escape_debug());
            }
            if PasswordHash::new(&account.password).is_err() {
                bail!(
                    "the password of {name} is not a hash: \
                     make one with plumb serve --hash-password"
                );
            }
            if account.exec.as_ref().is_some_and(Vec::is_empty) {
                bail!("exec of {name} is empty");
            }
        }
        Ok(Self { accounts, nobodys: hash(b"nobody has this one")? })
    }

    /// Returns the name and the account of who has proved to be the one he says; takes some tens
    /// of milliseconds, whether there is such a user or not.
    pub(super) fn prove(&self, claim: &Claim) -> Option<(String, Account)> {
        let known = claim.name.as_ref().and_then(|name| self.accounts.get_key_value(name));
        let text = known.map_or(self.nobodys.as_str(), |(_, account)| account.password.as_str());
        let hash = PasswordHash::new(text).ok()?;
        let is_proved = Argon2::default().verify_password(&claim.password, &hash).is_ok();
        known.filter(|_| is_proved).map(|(name, account)| (name.clone(), account.clone()))
    }
}

/// Returns the hash of a password, as the users' file has it.
///
/// # Errors
///
/// If the operating system gives no entropy.
pub(super) fn hash(password: &[u8]) -> Result<String> {
    let hash: std::result::Result<PasswordHash, _> = Argon2::default().hash_password(password);
    let hash = hash.map_err(|error| anyhow::anyhow!("the password cannot be hashed: {error}"))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(password: &[u8]) -> Users {
        let hash = hash(password).unwrap();
        Users::parse(&format!("[mike]\npassword = \"{hash}\"\nexec = [\"true\"]\n")).unwrap()
    }

    fn claim(name: &str, password: &[u8]) -> Claim {
        Claim { name: Some(name.to_owned()), password: password.to_vec() }
    }

    #[test]
    fn only_the_right_password_of_the_right_user_proves() {
        let users = users(b"kon opelski");
        let (name, account) = users.prove(&claim("mike", b"kon opelski")).unwrap();
        assert_eq!((name.as_str(), account.exec), ("mike", Some(vec!["true".to_owned()])));
        assert!(users.prove(&claim("mike", b"kon")).is_none());
        assert!(users.prove(&claim("mike", b"")).is_none());
        assert!(users.prove(&claim("kim", b"kon opelski")).is_none());
        assert!(users.prove(&claim("kim", b"nobody has this one")).is_none());
        let nobody = Claim { name: None, password: b"kon opelski".to_vec() };
        assert!(users.prove(&nobody).is_none());
    }

    #[test]
    fn a_file_with_a_plain_password_or_a_bad_name_is_refused() {
        assert!(Users::parse("[mike]\npassword = \"secret\"\n").is_err());
        let hash = hash(b"x").unwrap();
        assert!(Users::parse(&format!("[\"-f\"]\npassword = \"{hash}\"\n")).is_err());
        assert!(Users::parse(&format!("[a]\npassword = \"{hash}\"\nexec = []\n")).is_err());
        assert!(Users::parse(&format!("[a]\npassword = \"{hash}\"\nshell = 1\n")).is_err());
    }

    #[test]
    fn a_file_that_everybody_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("plumb-users-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Users::read(&path).unwrap_err().to_string().contains("chmod o-rwx"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Users::read(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
    }
}
