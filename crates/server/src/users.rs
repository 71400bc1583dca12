//! User file of the login server: the program of each user and the system user that runs it.
//!
//! ```toml
//! [mike]
//! password = "$argon2id$v=19$..."   # from `plumb serve --hash-password`
//! runs-as = "mike"                   # the user of this machine; needs root
//! exec = ["/usr/bin/menu"]           # instead of the login shell
//! ```
//!
//! An entry without `runs-as` needs `exec`: a shell that runs as the user of the server could read the
//! server's keys and user files, and as root everything.

use super::login_prompt::parse_name;
use super::user_file;
use anyhow::{Result, bail};
use serde::Deserialize;

/// Entry of one user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LoginUserEntry {
    password: String,
    /// System user that runs the program; the user that runs the server by default. Required without
    /// [`Self::exec`].
    pub(super) runs_as: Option<String>,
    /// Program and arguments; the login shell by default.
    pub(super) exec: Option<Vec<String>>,
}

/// All users of the login server.
pub(super) type Users = user_file::UserFile<LoginUserEntry>;

impl user_file::UserEntry for LoginUserEntry {
    fn password(&self) -> &str {
        &self.password
    }

    fn check(&self, name: &str) -> Result<()> {
        if parse_name(name.as_bytes()).is_none() {
            bail!("'{}' is not a valid user name", name.escape_debug());
        }
        if self.exec.as_ref().is_some_and(Vec::is_empty) {
            bail!("exec of {name} is empty: name a program");
        }
        if self.exec.is_none() && self.runs_as.is_none() {
            bail!(
                "{name} needs runs-as, a user of this machine, or exec, a program: a shell must not \
                 run as the user of the server"
            );
        }
        Ok(())
    }
}

/// Checks that the server may switch to the system users of all entries.
///
/// # Errors
///
/// Returns an error if the server does not run as root and an entry has `runs-as`.
pub(super) fn check_rights(users: &Users, is_root: bool) -> Result<()> {
    match users.accounts().find_map(|account| account.runs_as.as_ref()) {
        Some(name) if !is_root => bail!(
            "runs-as = {name:?} needs root: start the server as root; exec without runs-as is only for \
             programs that give no shell"
        ),
        _ => Ok(()),
    }
}

/// Returns the names of the accounts whose programs run as the user of the server.
pub(super) fn with_programs_of_the_server(users: &Users) -> Vec<String> {
    let accounts = users.accounts_by_name();
    let is_of_server =
        |account: &LoginUserEntry| account.exec.is_some() && account.runs_as.is_none();
    accounts.filter(|(_, account)| is_of_server(account)).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_with_a_bad_name_or_an_empty_program_is_refused() {
        let hash = user_file::hash(b"x").unwrap();
        assert!(Users::parse(&format!("[a]\npassword = \"{hash}\"\nexec = [\"true\"]\n")).is_ok());
        let exec = "exec = [\"true\"]";
        assert!(Users::parse(&format!("[\"-f\"]\npassword = \"{hash}\"\n{exec}\n")).is_err());
        assert!(Users::parse(&format!("[a]\npassword = \"{hash}\"\nexec = []\n")).is_err());
    }

    #[test]
    fn an_account_whose_shell_would_run_as_the_user_of_the_server_is_refused() {
        let hash = user_file::hash(b"x").unwrap();
        let parse = |rest: &str| Users::parse(&format!("[a]\npassword = \"{hash}\"\n{rest}\n"));
        assert!(parse("").unwrap_err().to_string().contains("a needs runs-as"));
        assert!(parse("runs-as = \"daemon\"").is_ok());
    }

    #[test]
    fn only_root_may_switch_to_another_user() {
        let hash = user_file::hash(b"x").unwrap();
        let parse = |rest: &str| Users::parse(&format!("[a]\npassword = \"{hash}\"\n{rest}\n"));
        let users = parse("runs-as = \"daemon\"").unwrap();
        assert!(check_rights(&users, true).is_ok());
        let error = check_rights(&users, false).unwrap_err().to_string();
        assert!(error.starts_with("runs-as = \"daemon\" needs root"), "{error}");
        let with_exec = parse("exec = [\"true\"]").unwrap();
        assert!(check_rights(&with_exec, false).is_ok());
        assert_eq!(with_programs_of_the_server(&with_exec), ["a"]);
        assert_eq!(with_programs_of_the_server(&users), [""; 0]);
    }
}
