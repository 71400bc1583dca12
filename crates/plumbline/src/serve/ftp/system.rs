//! Users of this machine: proved by PAM, at home in their own folder, with their own rights.
//!
//! What PAM loads is others' code, which may fork, change signal handlers or the user of its
//! process, or never return. So it runs in a process of its own, which is killed if it takes too long;
//! name and password go through a pipe, and no argument of a program ever holds them. Whoever may
//! come has a session of PAM for as long as he is here, which that process holds open.
//!
//! All files of the user are named with his rights ([`os::file_rights`]). Nobody comes in whose
//! shell is not in `/etc/shells`, who is in `/etc/ftpusers`, or who may do everything, unless that
//! is said.

use anyhow::{Context, Result};
use os::clock::Monotonic;
use os::file_rights::FileRights;
use os::jail::Jail;
use os::pam::{self, PamError};
use os::process::Program;
use os::readiness::{self, PollFd, PollFlags};
use os::user::User;
use protocols::time::Duration;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which rules of PAM hold, if nothing else is said; without a file of this name, those of "other".
pub(super) const SERVICE: &str = "plumb";
/// The most bytes of a claim: service, name, place, password.
const CLAIM_MAX_BYTES: u16 = 8192;
/// How long the modules may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a wait for the modules looks whether its session has ended.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// How long a process that has closed its output may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The exit codes of [`prove`]: nobody has proved anything, the machine has no PAM, and PAM opens no
/// session.
const NOT_PROVED: i32 = 1;
const NO_PAM: i32 = 4;
const NO_SESSION: i32 = 5;
/// What asks for a session.
const OPEN: &[u8] = b"\n";

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
    /// PAM opens no session for him.
    NoSession,
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
            Self::NoSession => "PAM opens no session",
            Self::NoHome => "the home directory cannot be opened with the rights of its user",
        }
    }
}

/// A session that PAM has opened for a user. Dropped, it is closed.
///
/// The process that has opened it holds it open for as long as its standard input is, so that it is
/// closed too if this process ends in any way.
#[derive(Debug)]
pub(super) struct OpenSession {
    program: Option<Program>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let Some(mut program) = self.program.take() else { return };
        drop(program.child().stdin.take());
        // Modules may take their time, and nobody who is served waits for that. Without a thread
        // the process is ended at once.
        _ = std::thread::Builder::new().spawn(move || program.wait_for_end(PATIENCE));
    }
}

impl System {
    /// Authenticates `name`, and returns its home and its session; waits for PAM until `stop` is set,
    /// and then kills the process that asks.
    pub(super) fn admit(
        &self,
        name: &str,
        password: &[u8],
        from: IpAddr,
        stop: &AtomicBool,
    ) -> std::result::Result<(Jail, OpenSession), Refusal> {
        let (name, asked) = self.ask(name, password, from, stop)?;
        let user = User::named(&name).ok().flatten().ok_or(Refusal::NotAdmitted)?;
        let shells = std::fs::read_to_string("/etc/shells").ok();
        let is_shut_out = std::fs::read_to_string("/etc/ftpusers")
            .is_ok_and(|list| words(&list).any(|shut_out| shut_out == name));
        let is_superuser = user.uid() == 0 && !self.has_root;
        if is_superuser || is_shut_out || !is_shell(user.shell(), shells.as_deref()) {
            return Err(Refusal::NotAdmitted);
        }
        // A module of the session may make the home.
        let session = asked.open_session()?;
        let rights = FileRights::of(&user).map_err(|_| Refusal::NoHome)?;
        let jail = Jail::open_as(user.home(), Arc::new(rights)).map_err(|_| Refusal::NoHome)?;
        // What cannot be swept stays; it takes room and nothing else.
        _ = jail.sweep(b"/");
        Ok((jail, session))
    }

    /// Has a process of its own ask PAM, and returns the name that PAM knows him by.
    fn ask<'a>(
        &self,
        name: &str,
        password: &[u8],
        from: IpAddr,
        stop: &'a AtomicBool,
    ) -> std::result::Result<(String, Asked<'a>), Refusal> {
        let from = from.to_canonical().to_string();
        let fields = [self.service.as_bytes(), name.as_bytes(), from.as_bytes(), password];
        if fields.iter().any(|field| field.contains(&0)) {
            return Err(Refusal::NotProved);
        }
        let claim = fields.join(&0);
        let len = u16::try_from(claim.len()).ok().filter(|len| *len <= CLAIM_MAX_BYTES);
        let len = len.ok_or(Refusal::NotProved)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["serve", "--prove-system-user"]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        os::process::isolate(&mut command);
        let mut program = Program::start(&mut command).map_err(|_| Refusal::NoPam)?;
        let pipes = (program.child().stdin.take(), program.child().stdout.take());
        let (Some(mut input), Some(output)) = pipes else { return Err(Refusal::NoPam) };
        let claim = [&len.to_be_bytes(), claim.as_slice()].concat();
        input.write_all(&claim).map_err(|_| Refusal::NoPam)?;
        let mut asked = Asked { program, input, output, stop };
        let name = asked.line()?;
        Ok((name, asked))
    }
}

/// A process that asks PAM.
struct Asked<'a> {
    program: Program,
    input: ChildStdin,
    output: ChildStdout,
    /// Set when the answer is no longer needed.
    stop: &'a AtomicBool,
}

impl Asked<'_> {
    /// Waits for a line of what the process says.
    fn line(&mut self) -> std::result::Result<String, Refusal> {
        let clock = Monotonic::start();
        let until = clock.now() + PATIENCE;
        let mut line = Vec::new();
        while line.len() < usize::from(CLAIM_MAX_BYTES)
            && clock.now() < until
            && !self.stop.load(Ordering::Relaxed)
        {
            let mut pipe = [PollFd::new(&self.output, PollFlags::IN)];
            let look_again = until.min(clock.now() + STOP_INTERVAL);
            readiness::wait(&mut pipe, &clock, Some(look_again)).map_err(|_| Refusal::NoPam)?;
            if pipe.iter().all(|pipe| pipe.revents().is_empty()) {
                continue;
            }
            let mut byte = [0];
            match self.output.read(&mut byte) {
                Ok(0) => return Err(self.refusal()),
                Ok(_) if byte == *b"\n" => {
                    return String::from_utf8(line).map_err(|_| Refusal::NoPam);
                }
                Ok(_) => line.extend(byte),
                Err(_) => return Err(Refusal::NoPam),
            }
        }
        Err(Refusal::NoPam)
    }

    /// Returns why the process has ended.
    fn refusal(&mut self) -> Refusal {
        let ended = self.program.wait_for_end(EXIT_TIMEOUT).ok().flatten();
        match ended.and_then(|ended| ended.code()) {
            Some(NOT_PROVED) => Refusal::NotProved,
            Some(NO_SESSION) => Refusal::NoSession,
            _ => Refusal::NoPam,
        }
    }

    /// Has it open the session.
    fn open_session(mut self) -> std::result::Result<OpenSession, Refusal> {
        self.input.write_all(OPEN).map_err(|_| Refusal::NoPam)?;
        self.line()?;
        let Self { mut program, input, output: _, stop: _ } = self;
        program.child().stdin = Some(input);
        Ok(OpenSession { program: Some(program) })
    }
}

/// Asks PAM about the claim on the standard input, and says the name it gives on the standard output;
/// asked for it, opens a session, says so by a line, and closes it at the end of the input. Returns
/// the exit code.
///
/// # Errors
///
/// If there is no claim, or nobody hears.
pub(in super::super) fn prove() -> Result<i32> {
    let mut input = std::io::stdin().lock();
    let mut len = [0; 2];
    input.read_exact(&mut len)?;
    let mut claim = vec![0; usize::from(u16::from_be_bytes(len).min(CLAIM_MAX_BYTES))];
    input.read_exact(&mut claim)?;
    let mut fields = claim.splitn(4, |&byte| byte == 0);
    let mut field = || fields.next().context("the claim is not whole");
    let (service, user) = (field()?.to_vec(), field()?.to_vec());
    let (host, password) = (field()?.to_vec(), field()?.to_vec());
    let (service, user) = (String::from_utf8(service)?, String::from_utf8(user)?);
    let host = String::from_utf8(host)?;
    let claim = pam::Claim { service: &service, user: &user, password: &password, host: &host };
    // The server may be killed while a module hangs. Its thread that has started this process waits
    // until the session is open.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut proved = match pam::authenticate(claim) {
        Ok(proved) => proved,
        Err(PamError::Refused) => return Ok(NOT_PROVED),
        Err(PamError::Missing) => return Ok(NO_PAM),
    };
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{}\n", proved.name()).as_bytes())?;
    output.flush()?;
    if input.read(&mut [0])? == 0 {
        return Ok(0);
    }
    // Whoever ends the server by a signal to its group would leave the session open.
    os::process::ignore_ends();
    if proved.open_session().is_err() {
        return Ok(NO_SESSION);
    }
    set_parent_process_death_signal(None)?;
    // If nobody hears it, nobody holds the input either.
    _ = output.write_all(b"\n").and_then(|()| output.flush());
    while matches!(input.read(&mut [0]), Ok(1)) {}
    Ok(0)
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
        let stop = AtomicBool::new(false);
        let refusal = |name, password| system.ask(name, password, from, &stop).err();
        assert_eq!(refusal("ann", b"a\0b"), Some(Refusal::NotProved));
        assert_eq!(refusal("a\0nn", b"b"), Some(Refusal::NotProved));
        assert_eq!(refusal("ann", &[b'a'; 9_000]), Some(Refusal::NotProved));
    }
}
