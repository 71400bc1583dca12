//! Credentials for the login: from the URL, the arguments, `.netrc`, or a prompt on the terminal.
//!
//! A password is read from the terminal without echo. A password in the arguments is visible to all
//! users of the machine while the program runs; `PLUMB_FTP_PASSWORD` and `.netrc` are not.

use anyhow::{Context, Result, bail};
use protocols::ftp::{Name, Secret};
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use transfer::escaped;
use transfer::ftp::FtpCredentials;
use transfer::url::{Login, Url};

/// Maximum number of bytes read from `.netrc`.
const NETRC_MAX_BYTES: u64 = 1 << 20;
const PASSWORD_MAX_BYTES: usize = 512;

/// Entry of `.netrc` for a host.
#[derive(Clone, Default, PartialEq, Eq)]
struct NetrcEntry {
    login: Option<String>,
    password: Option<String>,
    account: Option<String>,
}

/// Determines the credentials for the host of `url`.
///
/// # Errors
///
/// Returns an error if there is no password and no terminal for a password prompt, if `.netrc`
/// cannot be used, or if a name or password is invalid.
pub(crate) fn credentials(url: &Url, login: Option<&Login>) -> Result<FtpCredentials> {
    let login = if url.login.user.is_some() { &url.login } else { login.unwrap_or(&url.login) };
    let user = login.user.clone();
    let requested_user = user.as_ref().map(|user| String::from_utf8_lossy(user).into_owned());
    let entry = netrc_path()
        .map_or(Ok(None), |path| from_file(&path, &url.target.host, requested_user.as_deref()))?;
    let entry = entry.unwrap_or_default();
    let user = user.or_else(|| entry.login.clone().map(String::into_bytes));
    let is_anonymous = user.as_ref().is_none_or(|user| user == b"anonymous" || user == b"ftp");
    let user = user.unwrap_or_else(|| b"anonymous".to_vec());
    let from_environment = || std::env::var("PLUMB_FTP_PASSWORD").ok().map(String::into_bytes);
    let password = login.password.clone().or_else(from_environment);
    let password = password.or_else(|| entry.password.clone().map(String::into_bytes));
    let password = match password {
        Some(password) => password,
        None if is_anonymous => b"plumb@".to_vec(),
        None => ask_for_password(&user, &url.target.host)?,
    };
    let invalid_credentials =
        "the user name is empty, or the user name or password has a line break";
    Ok(FtpCredentials {
        user: Name::new(user).ok().context(invalid_credentials)?,
        password: Secret::new(password).ok().context(invalid_credentials)?,
        account: entry.account.and_then(|account| Secret::new(account).ok()),
    })
}

fn netrc_path() -> Option<PathBuf> {
    match std::env::var_os("NETRC") {
        Some(path) => Some(path.into()),
        None => std::env::var_os("HOME").map(|home| Path::new(&home).join(".netrc")),
    }
}

fn from_file(path: &Path, host: &str, user: Option<&str>) -> Result<Option<NetrcEntry>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mode = file.metadata()?.mode();
    let mut text = String::new();
    if file.take(NETRC_MAX_BYTES).read_to_string(&mut text).is_err() {
        bail!("{} is not a text file", path.display());
    }
    let entry = find(&text, host, user);
    let has_secret = entry.as_ref().is_some_and(|entry| entry.password.is_some());
    if has_secret && mode & 0o077 != 0 {
        bail!("{} is readable by other users: run chmod 600 on the file", path.display());
    }
    Ok(entry)
}

/// Finds the first `.netrc` entry for the host and, if `user` is given, for that user.
fn find(text: &str, host: &str, user: Option<&str>) -> Option<NetrcEntry> {
    let mut default_entry: Option<NetrcEntry> = None;
    let matches_user = |entry: &NetrcEntry| match (user, entry.login.as_deref()) {
        (Some(user), Some(login)) => user == login,
        _ => true,
    };
    let mut is_macro = false;
    for line in text.lines() {
        // A macro ends at an empty line.
        is_macro = is_macro && !line.trim().is_empty();
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        while let Some(word) = words.next().filter(|_| !is_macro) {
            match word {
                "machine" | "default" => {
                    if default_entry.as_ref().is_some_and(matches_user) {
                        return default_entry;
                    }
                    let is_host = word == "default"
                        || words.next().is_some_and(|name| name.eq_ignore_ascii_case(host));
                    default_entry = is_host.then(NetrcEntry::default);
                }
                "macdef" => is_macro = true,
                _ => {
                    let value = words.next().map(str::to_owned);
                    let Some(entry) = &mut default_entry else { continue };
                    match word {
                        "login" => entry.login = value,
                        "password" => entry.password = value,
                        "account" => entry.account = value,
                        _ => {}
                    }
                }
            }
        }
    }
    default_entry.filter(|entry| matches_user(entry))
}

/// A terminal whose echo is off. Dropping the value restores the terminal modes.
struct EchoOff<'a>(&'a File, Termios);

impl Drop for EchoOff<'_> {
    fn drop(&mut self) {
        // Ignored: restoring the modes fails only if the terminal no longer exists.
        _ = termios::tcsetattr(self.0, OptionalActions::Flush, &self.1);
    }
}

/// Asks for the password on the terminal.
fn ask_for_password(user: &[u8], host: &str) -> Result<Vec<u8>> {
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    let Ok(terminal) = terminal else {
        bail!(
            "no password for {} at {host}, and no terminal for a prompt: put it into ~/.netrc or \
             into the environment variable PLUMB_FTP_PASSWORD",
            escaped(user)
        );
    };
    let original_modes = termios::tcgetattr(&terminal)?;
    let mut modes_without_echo = original_modes.clone();
    modes_without_echo.local_modes.remove(LocalModes::ECHO);
    termios::tcsetattr(&terminal, OptionalActions::Flush, &modes_without_echo)?;
    let _guard = EchoOff(&terminal, original_modes);
    let mut terminal = &terminal;
    terminal.write_all(format!("Password for {} at {host}: ", escaped(user)).as_bytes())?;
    let mut password = Vec::new();
    let mut byte = [0];
    while terminal.read(&mut byte)? == 1 && byte != *b"\n" && password.len() < PASSWORD_MAX_BYTES {
        password.extend_from_slice(&byte);
    }
    terminal.write_all(b"\n")?;
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "# hosts\nmachine a.example login me password one\n\
        machine b.example\n  login you\n  password two\n  account x\nmacdef init\n machine c\n\n\
        machine b.example login other password three\ndefault login anonymous password guest\n";

    fn password(host: &str, user: Option<&str>) -> Option<String> {
        find(FILE, host, user).and_then(|entry| entry.password)
    }

    #[test]
    fn the_first_entry_for_the_host_and_user_is_used() {
        assert_eq!(password("a.example", None).as_deref(), Some("one"));
        assert_eq!(password("B.example", None).as_deref(), Some("two"));
        assert_eq!(password("b.example", Some("other")).as_deref(), Some("three"));
    }

    #[test]
    fn the_default_entry_is_used_for_other_hosts_and_macros_are_skipped() {
        assert_eq!(password("c", None).as_deref(), Some("guest"));
        assert_eq!(password("c", Some("me")), None);
    }

    proptest! {
        #[test]
        fn a_printed_entry_is_found_before_any_other_entries(
            host in "[a-z]{1,9}", values in ["[!\"$-~][!-~]{0,9}", "[!\"$-~][!-~]{0,9}"],
            after in "[ -~\n]{0,200}",
        ) {
            let [login, secret] = values;
            let entry = format!("machine {host} login {login}\n  password {secret}");
            let text = format!("machine -\nlogin x\n{entry}\nmachine -\n{after}");
            let found = find(&text, &host, Some(&login)).unwrap();
            prop_assert_eq!((found.login, found.password), (Some(login), Some(secret)));
        }
    }
}
