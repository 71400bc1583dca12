//! Who may come in by FTP: users of a file, each with a root and rights of his own, and anonymous
//! ones.
//!
//! ```toml
//! [ann]
//! password = "$argon2id$v=19$..."   # from `plumb serve --hash-password`
//! root = "/srv/ann"
//! rights = "writable"                # or read-only, the default, or write-once
//! quota-bytes = 1000000000
//! bytes-per-second-max = 10000000
//! ```

use super::super::{folder, register};
use protocols::application::ftp::Right;
use protocols::application::ftp::server::Rights;
use serde::Deserialize;
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
    pub(super) rights: folder::Rights,
    pub(super) quota_bytes: Option<u64>,
    pub(super) bytes_per_second_max: Option<u64>,
}

/// All users.
pub(super) type Users = register::Register<Account>;

impl register::Account for Account {
    fn password(&self) -> &str {
        &self.password
    }
}

/// Returns whether somebody comes without saying who he is.
pub(super) fn is_anonymous(name: &[u8]) -> bool {
    ANONYMOUS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns what each of the three words of the configuration stands for.
pub(super) const fn rights_of(rights: folder::Rights) -> Rights {
    match rights {
        folder::Rights::ReadOnly => Rights::READ_ONLY,
        folder::Rights::WriteOnce => {
            Rights::READ_ONLY.with(Right::Write).with(Right::MakeDirectory)
        }
        folder::Rights::Writable => Rights::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_root_and_rights_of_his_own() {
        let hash = register::hash(b"secret").unwrap();
        let text = format!("[ann]\npassword = \"{hash}\"\nroot = \"/srv/ann\"\n");
        let users = Users::parse(&text).unwrap();
        let (_, ann) = users.prove(Some("ann"), b"secret").unwrap();
        assert_eq!((ann.root.to_str(), ann.rights), (Some("/srv/ann"), folder::Rights::ReadOnly));
        assert!(Users::parse(&format!("[ann]\npassword = \"{hash}\"\n")).is_err());
    }
}
