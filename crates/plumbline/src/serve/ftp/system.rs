//! Users of this machine: proved by PAM, at home in their own folder, with their own rights.
//!
//! What PAM loads is others' code, which may fork, change signal handlers or the user of its
//! process, or never return. So it runs in a process of its own, which ends with the answer and is
//! killed if it takes too long; name and password go through a pipe, and no argument of a program
//! ever holds them.
//!
//! All files of the user are named with his rights ([`os::file_rights`]). Nobody comes in whose
//! shell is not in `/etc/shells`, who is in `/etc/ftpusers`, or who may do everything, unless that
//! is said.

use anyhow::{Context, Result};
use os::file_rights::FileRights;
use os::jail::Jail;
use os::pam::{self, PamError};
use os::process::Program;
use os::user::User;
use protocols::time::Duration;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Which rules of PAM hold, if nothing else is said; without a file of this name, those of "other".
pub(super) const SERVICE: &str = "plumb";
/// The most bytes of a claim: service, name, place, password.
const CLAIM_MAX_BYTES: u64 = 8192;
/// How long the modules may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The exit code of [`prove`] where the machine has no PAM.
const NO_PAM: i32 = 4;

/// Which users of this machine may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct System {
    pub(super) service: String,
    pub(super) has_root: bool,
}

/// Why a user of this machine is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What he says is wrong; nobody is told more.
    NotProved,
    /// This machine has no PAM, or it does not answer.
    NoPam,
    /// He is proved, and may not come by FTP.
    NotAdmitted,
    /// His home cannot be served.
    NoHome,
}

impl Refusal {
    /// Returns the reason as a log has it.
    pub(super) const fn why(self) -> &'static str {
        match self {
            Self::NotProved => "the password is wrong",
            Self::NoPam => "PAM is not there or does not answer",
            Self::NotAdmitted => "this user may not come by FTP: see shell and /etc/ftpusers",
            Self::NoHome => "the home directory cannot be opened with the rights of its user",
        }
    }
}

impl System {
    /// Returns the home of whoever proves to be `name`; waits for PAM.
    pub(super) fn admit(
        &self,
        name: &str,
        password: &[u8],
        from: IpAddr,
    ) -> std::result::Result<Jail, Refusal> {
        let name = self.ask(name, password, from)?;
        let user = User::named(&name).ok().flatten().ok_or(Refusal::NotAdmitted)?;
        let shells = std::fs::read_to_string("/etc/shells").ok();
        let is_shut_out = std::fs::read_to_string("/etc/ftpusers")
            .is_ok_and(|list| words(&list).any(|shut_out| shut_out == name));
        let is_superuser = user.uid() == 0 && !self.has_root;
        if is_superuser || is_shut_out || !is_shell(user.shell(), shells.as_deref()) {
            return Err(Refusal::NotAdmitted);
        }
        let rights = FileRights::of(&user).map_err(|_| Refusal::NoHome)?;
        let jail = Jail::open_as(user.home(), Arc::new(rights)).map_err(|_| Refusal::NoHome)?;
        // What cannot be swept stays; it takes room and nothing else.
        _ = jail.sweep(b"/");
        Ok(jail)
    }

    /// Has a process of its own ask PAM, and returns the name that PAM knows him by.
    fn ask(
        &self,
        name: &str,
        password: &[u8],
        from: IpAddr,
    ) -> std::result::Result<String, Refusal> {
        let from = from.to_canonical().to_string();
        let fields = [self.service.as_bytes(), name.as_bytes(), from.as_bytes(), password];
        if fields.iter().any(|field| field.contains(&0)) {
            return Err(Refusal::NotProved);
        }
        let mut command = Command::new("/proc/self/exe");
        command.args(["serve", "--prove-system-user"]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = Program::start(&mut command).map_err(|_| Refusal::NoPam)?;
        let pipes = (program.child().stdin.take(), program.child().stdout.take());
        let (Some(mut claim), Some(answer)) = pipes else { return Err(Refusal::NoPam) };
        claim.write_all(&fields.join(&0)).map_err(|_| Refusal::NoPam)?;
        drop(claim);
        let ended = program.wait_for_end(PATIENCE).ok().flatten().ok_or(Refusal::NoPam)?;
        if !ended.success() {
            let has_pam = ended.code() != Some(NO_PAM);
            return Err(if has_pam { Refusal::NotProved } else { Refusal::NoPam });
        }
        let mut name = String::new();
        answer.take(CLAIM_MAX_BYTES).read_to_string(&mut name).map_err(|_| Refusal::NoPam)?;
        Ok(name)
    }
}

/// Asks PAM about the claim on the standard input, writes the name it gives to the standard output,
/// and returns the exit code.
///
/// # Errors
///
/// If there is no claim.
pub(in super::super) fn prove() -> Result<i32> {
    let mut claim = Vec::new();
    std::io::stdin().lock().take(CLAIM_MAX_BYTES).read_to_end(&mut claim)?;
    let mut fields = claim.splitn(4, |&byte| byte == 0);
    let mut field = || fields.next().context("the claim is not whole");
    let (service, user) = (field()?.to_vec(), field()?.to_vec());
    let (host, password) = (field()?.to_vec(), field()?.to_vec());
    let (service, user) = (String::from_utf8(service)?, String::from_utf8(user)?);
    let host = String::from_utf8(host)?;
    let claim = pam::Claim { service: &service, user: &user, password: &password, host: &host };
    Ok(match pam::authenticate(claim) {
        Ok(name) => {
            std::io::stdout().lock().write_all(name.as_bytes())?;
            0
        }
        Err(PamError::Refused) => 1,
        Err(PamError::Missing) => NO_PAM,
    })
}

/// Returns the lines of a list of the system's, without comments.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

/// Returns whether `shell` is in the list; where there is none, the two of old are.
fn is_shell(shell: &Path, list: Option<&str>) -> bool {
    let list = list.unwrap_or("/bin/sh\n/bin/csh\n");
    words(list).any(|known| Path::new(known) == shell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_one_of_the_list_and_comments_are_none() {
        let list = Some("# shells\n/bin/sh\n\n/bin/bash # the usual one\n#/bin/zsh\n");
        assert!(is_shell(Path::new("/bin/bash"), list) && is_shell(Path::new("/bin/sh"), list));
        for other in ["/usr/sbin/nologin", "/bin/false", "/bin/zsh", "", "# shells"] {
            assert!(!is_shell(Path::new(other), list), "{other}");
        }
        assert!(is_shell(Path::new("/bin/sh"), None) && !is_shell(Path::new("/bin/bash"), None));
    }

    #[test]
    fn a_claim_that_would_be_another_claim_is_refused() {
        let system = System { service: SERVICE.to_owned(), has_root: false };
        let from = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(system.ask("ann", b"a\0b", from), Err(Refusal::NotProved));
        assert_eq!(system.ask("a\0nn", b"b", from), Err(Refusal::NotProved));
    }
}
