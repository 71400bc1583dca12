//! File of users: a TOML file with one table per user. The key `password` is common to all kinds of
//! servers; each kind of server adds its own keys.
//!
//! ```toml
//! [mike]
//! password = "$argon2id$v=19$..."   # from `plumb serve --hash-password`
//! ```
//!
//! The file belongs to the user that runs the server; a file accessible to others is rejected.

use anyhow::{Context, Result, bail};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use toml_file::TomlFile;

/// Entry of one user.
pub(super) trait UserEntry: Clone + DeserializeOwned {
    /// Returns the password hash as written in the file.
    fn password(&self) -> &str;

    /// Checks the name and the entry for requirements that apply only to this kind of server.
    ///
    /// # Errors
    ///
    /// Returns the reason if the entry is invalid.
    fn check(&self, _name: &str) -> Result<()> {
        Ok(())
    }
}

/// All users of one server.
#[derive(Debug)]
pub(super) struct UserFile<A> {
    accounts: BTreeMap<String, A>,
    /// Hash that is checked for unknown names, so that checking an unknown name takes as long as
    /// checking a known name.
    placeholder_hash: String,
}

impl<A: UserEntry> UserFile<A> {
    /// Reads a file of users.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is accessible to others, or is invalid.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = TomlFile::USERS.read_text(path)?;
        let mode = std::fs::metadata(path)?.permissions().mode();
        if mode & 0o007 != 0 {
            let path_text = path.display();
            bail!("user file {path_text} is accessible to others: run chmod o-rwx {path_text}");
        }
        Self::parse(&text).with_context(|| TomlFile::USERS.invalid(path))
    }

    /// Parses a file of users.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is invalid.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let accounts: BTreeMap<String, A> = toml_file::parse(text)?;
        for (name, account) in &accounts {
            if !is_hash(account.password()) {
                bail!(
                    "the password of {} is not a hash: create one with plumb serve --hash-password",
                    name.escape_debug()
                );
            }
            account.check(name)?;
        }
        Ok(Self { accounts, placeholder_hash: hash(b"placeholder")? })
    }

    /// Returns whether there is a user of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.accounts.contains_key(name)
    }

    /// Returns the accounts with their names, in the order of the names.
    pub(super) fn accounts_by_name(&self) -> impl Iterator<Item = (&str, &A)> {
        self.accounts.iter().map(|(name, account)| (name.as_str(), account))
    }

    /// Returns the entries of all users.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &A> {
        self.accounts.values()
    }

    /// Returns the name and the entry of `name` if the password is correct. Takes tens of
    /// milliseconds whether the user exists or not.
    pub(super) fn authenticate(&self, name: Option<&str>, password: &[u8]) -> Option<(String, A)> {
        let entry = name.and_then(|name| self.accounts.get_key_value(name));
        let text = entry.map_or(self.placeholder_hash.as_str(), |(_, account)| account.password());
        let hash = PasswordHash::new(text).ok()?;
        let is_correct = Argon2::default().verify_password(password, &hash).is_ok();
        entry.filter(|_| is_correct).map(|(name, account)| (name.clone(), account.clone()))
    }
}

/// Returns whether `text` is a complete hash of Argon2 with valid parameters, as
/// [`UserFile::authenticate`] needs it.
fn is_hash(text: &str) -> bool {
    let Ok(hash) = PasswordHash::new(text) else { return false };
    hash.salt.is_some()
        && hash.hash.is_some()
        && Algorithm::new(hash.algorithm.as_str()).is_ok()
        && hash.version.is_none_or(|version| Version::try_from(version).is_ok())
        && Params::try_from(&hash).is_ok()
}

/// Returns the hash of a password in the format of the file.
///
/// # Errors
///
/// Returns an error if the operating system provides no entropy.
pub fn hash(password: &[u8]) -> Result<String> {
    let hash: std::result::Result<PasswordHash, _> = Argon2::default().hash_password(password);
    let hash = hash.map_err(|error| anyhow::anyhow!("cannot hash the password: {error}"))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TestAccount {
        password: String,
        shelf: u8,
    }

    impl UserEntry for TestAccount {
        fn password(&self) -> &str {
            &self.password
        }
    }

    #[test]
    fn only_the_right_password_of_the_right_user_authenticates() {
        let hash = hash(b"kon opelski").unwrap();
        let text = format!("[mike]\npassword = \"{hash}\"\nshelf = 3\n");
        let user_file = UserFile::<TestAccount>::parse(&text).unwrap();
        let (name, account) = user_file.authenticate(Some("mike"), b"kon opelski").unwrap();
        assert_eq!((name.as_str(), account.shelf), ("mike", 3));
        assert!(user_file.authenticate(Some("mike"), b"kon").is_none());
        assert!(user_file.authenticate(Some("mike"), b"").is_none());
        assert!(user_file.authenticate(Some("kim"), b"kon opelski").is_none());
        assert!(user_file.authenticate(Some("kim"), b"placeholder").is_none());
        assert!(user_file.authenticate(None, b"kon opelski").is_none());
    }

    #[test]
    fn a_plaintext_password_and_an_unknown_key_are_rejected() {
        let plaintext = "[mike]\npassword = \"secret\"\nshelf = 3\n";
        assert!(UserFile::<TestAccount>::parse(plaintext).is_err());
        let hash = hash(b"x").unwrap();
        let unknown_key = format!("[mike]\npassword = \"{hash}\"\nshelf = 3\nshell = 1\n");
        assert!(UserFile::<TestAccount>::parse(&unknown_key).is_err());
    }

    #[test]
    fn a_hash_with_which_no_password_can_be_checked_is_rejected() {
        let hash = hash(b"x").unwrap();
        let parse = |hash: &str| {
            UserFile::<TestAccount>::parse(&format!("[mike]\npassword = \"{hash}\"\nshelf = 3\n"))
        };
        assert!(parse(&hash).is_ok());
        let without_output = hash.rsplit_once('$').unwrap().0.to_owned();
        for (what, malformed) in [
            ("memory", hash.replace("m=19456", "m=x")),
            ("too little memory", hash.replace("m=19456", "m=1")),
            ("passes", hash.replace("t=2", "t=0")),
            ("parameter", hash.replace("p=1", "q=1")),
            ("algorithm", hash.replace("argon2id", "argon2x")),
            ("other algorithm", hash.replace("argon2id", "scrypt")),
            ("version", hash.replace("v=19", "v=18")),
            ("salt only", without_output),
        ] {
            assert_ne!(malformed, hash, "{what}");
            let error = parse(&malformed).unwrap_err().to_string();
            assert!(error.starts_with("the password of mike is not a hash"), "{what}: {error}");
        }
    }

    #[test]
    fn a_world_readable_file_is_rejected() {
        let path = std::env::temp_dir().join(format!("plumb-users-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = UserFile::<TestAccount>::read(&path).unwrap_err();
        assert!(error.to_string().contains("chmod o-rwx"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(UserFile::<TestAccount>::read(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
    }
}
