//! System users: authenticated by PAM, in their home directories, with their own file permissions.
//!
//! PAM modules are third-party code that may fork, change signal handlers or the user of the
//! process, or never return. PAM therefore runs in a separate process, which is killed if it takes
//! too long. Name and password are passed through a pipe and never as program arguments. A
//! logged-in user has a PAM session, which that process holds open.
//!
//! All file accesses of the user have the user's permissions ([`os::fs_credentials`]). By default
//! the server rejects users whose shell is not in `/etc/shells`, users in `/etc/ftpusers`, and
//! root.

use anyhow::{Context, Result};
use net::time::Duration;
use os::beneath::RootDir;
use os::clock::Monotonic;
use os::fs_credentials::FsCredentials;
use os::pam::{self, PamError};
use os::process::Program;
use os::readiness::{self, PollFd, PollFlags};
use os::user::User;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Default PAM service name. PAM uses the rules of "other" if there is no file of this name.
pub(super) const SERVICE: &str = "plumb";
/// Maximum size in bytes of a claim: the PAM service, user name, client address and password.
const CLAIM_MAX_BYTES: u16 = 8192;
/// Time limit for the PAM modules.
const PAM_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which a wait for PAM checks whether the session has ended.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Time for the PAM process to exit after closing its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Exit codes of [`authenticate_claim`]: authentication failed, PAM is missing, PAM could not open
/// a session.
const NOT_AUTHENTICATED: i32 = 1;
const NO_PAM: i32 = 4;
const NO_SESSION: i32 = 5;
/// Message to the PAM process: request to open a PAM session.
const OPEN: &[u8] = b"\n";

/// Settings for system users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SystemUserSettings {
    pub(super) service: String,
    pub(super) allows_root: bool,
}

/// Reason for refusing a system user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemUserRefusal {
    /// Wrong name or password. The client gets no more detail.
    NotAuthenticated,
    /// The login failed, and the server does not run as root. PAM can then only check the password
    /// of the server's own user.
    NotRoot,
    /// PAM is missing or does not answer.
    NoPam,
    /// The user is authenticated but may not use FTP.
    NotAllowed,
    /// PAM could not open a session.
    NoSession,
    /// The home directory cannot be opened.
    NoHome,
}

impl SystemUserRefusal {
    /// Describes the reason for the log.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::NotAuthenticated => "wrong password",
            Self::NotRoot => "system users need root, and the server does not run as root",
            Self::NoPam => "PAM is not available or does not answer",
            Self::NotAllowed => "user may not use FTP: check the shell and /etc/ftpusers",
            Self::NoSession => "PAM cannot open a session",
            Self::NoHome => "cannot open the home directory with the rights of the user",
        }
    }
}

/// PAM session of a user, closed on drop.
///
/// A separate process holds the PAM session open as long as the standard input of that process is
/// open. The session is therefore also closed if this process ends in any way.
#[derive(Debug)]
pub(super) struct OpenSession {
    program: Option<Program>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let Some(mut program) = self.program.take() else { return };
        drop(program.child().stdin.take());
        // PAM modules may be slow, and the server must not wait for them. If no thread can be
        // started, the process is killed at once.
        _ = std::thread::Builder::new().spawn(move || program.wait_for_end(PAM_TIMEOUT));
    }
}

impl SystemUserSettings {
    /// Authenticates `name`. Returns its home directory and PAM session. Waits for PAM until `stop`
    /// is set, which kills the PAM process.
    pub(super) fn authenticate(
        &self,
        name: &str,
        password: &[u8],
        from: IpAddr,
        stop: &AtomicBool,
    ) -> std::result::Result<(RootDir, OpenSession), SystemUserRefusal> {
        let (name, process) = self.start_pam(name, password, from, stop)?;
        let user = User::named(&name).ok().flatten().ok_or(SystemUserRefusal::NotAllowed)?;
        let shells = std::fs::read_to_string("/etc/shells").ok();
        let is_denied = std::fs::read_to_string("/etc/ftpusers")
            .is_ok_and(|list| entries(&list).any(|denied| denied == name));
        let is_denied_root = user.uid() == 0 && !self.allows_root;
        if is_denied_root || is_denied || !is_shell(user.shell(), shells.as_deref()) {
            return Err(SystemUserRefusal::NotAllowed);
        }
        // A PAM session module may create the home directory.
        let session = process.open_session()?;
        let rights = FsCredentials::of(&user).map_err(|_| SystemUserRefusal::NoHome)?;
        let root_dir = RootDir::open_as(user.home(), Arc::new(rights))
            .map_err(|_| SystemUserRefusal::NoHome)?;
        // Temporary files that cannot be removed only use disk space, so errors are ignored.
        _ = root_dir.sweep(b"/");
        Ok((root_dir, session))
    }

    /// Starts a process that calls PAM. Returns the name by which PAM knows the user.
    fn start_pam<'a>(
        &self,
        name: &str,
        password: &[u8],
        from: IpAddr,
        stop: &'a AtomicBool,
    ) -> std::result::Result<(String, PamProcess<'a>), SystemUserRefusal> {
        let from = from.to_canonical().to_string();
        let fields = [self.service.as_bytes(), name.as_bytes(), from.as_bytes(), password];
        if fields.iter().any(|field| field.contains(&0)) {
            return Err(SystemUserRefusal::NotAuthenticated);
        }
        let claim = fields.join(&0);
        let len = u16::try_from(claim.len()).ok().filter(|len| *len <= CLAIM_MAX_BYTES);
        let len = len.ok_or(SystemUserRefusal::NotAuthenticated)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["serve", "--prove-system-user"]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        os::process::isolate(&mut command);
        let mut program = Program::start(&mut command).map_err(|_| SystemUserRefusal::NoPam)?;
        let pipes = (program.child().stdin.take(), program.child().stdout.take());
        let (Some(mut input), Some(output)) = pipes else { return Err(SystemUserRefusal::NoPam) };
        let claim = [&len.to_be_bytes(), claim.as_slice()].concat();
        input.write_all(&claim).map_err(|_| SystemUserRefusal::NoPam)?;
        let mut process = PamProcess { program, input, output, stop };
        let name = process.read_line()?;
        Ok((name, process))
    }
}

/// Process that calls PAM.
struct PamProcess<'a> {
    program: Program,
    input: ChildStdin,
    output: ChildStdout,
    /// Set when the answer of PAM is no longer needed.
    stop: &'a AtomicBool,
}

impl PamProcess<'_> {
    /// Waits for a line of output of the PAM process.
    fn read_line(&mut self) -> std::result::Result<String, SystemUserRefusal> {
        let clock = Monotonic::start();
        let until = clock.now() + PAM_TIMEOUT;
        let mut line = Vec::new();
        while line.len() < usize::from(CLAIM_MAX_BYTES)
            && clock.now() < until
            && !self.stop.load(Ordering::Relaxed)
        {
            let mut pipe = [PollFd::new(&self.output, PollFlags::IN)];
            let wake_at = until.min(clock.now() + STOP_INTERVAL);
            readiness::wait(&mut pipe, &clock, Some(wake_at))
                .map_err(|_| SystemUserRefusal::NoPam)?;
            if pipe.iter().all(|pipe| pipe.revents().is_empty()) {
                continue;
            }
            let mut byte = [0];
            match self.output.read(&mut byte) {
                Ok(0) => return Err(self.refusal()),
                Ok(_) if byte == *b"\n" => {
                    return String::from_utf8(line).map_err(|_| SystemUserRefusal::NoPam);
                }
                Ok(_) => line.extend(byte),
                Err(_) => return Err(SystemUserRefusal::NoPam),
            }
        }
        Err(SystemUserRefusal::NoPam)
    }

    /// Returns the reason for the end of the PAM process.
    fn refusal(&mut self) -> SystemUserRefusal {
        let status = self.program.wait_for_end(EXIT_TIMEOUT).ok().flatten();
        match status.and_then(|status| status.code()) {
            Some(NOT_AUTHENTICATED) => SystemUserRefusal::NotAuthenticated,
            Some(NO_SESSION) => SystemUserRefusal::NoSession,
            _ => SystemUserRefusal::NoPam,
        }
    }

    /// Requests the PAM session.
    fn open_session(mut self) -> std::result::Result<OpenSession, SystemUserRefusal> {
        self.input.write_all(OPEN).map_err(|_| SystemUserRefusal::NoPam)?;
        self.read_line()?;
        let Self { mut program, input, output: _, stop: _ } = self;
        program.child().stdin = Some(input);
        Ok(OpenSession { program: Some(program) })
    }
}

/// Child process: authenticates the claim on standard input with PAM, and writes the user's name to
/// standard output. On request it opens a session, confirms that with an empty line, and closes the
/// session at the end of its input. Returns the exit code.
///
/// # Errors
///
/// Returns an error if the claim is incomplete, or if standard output cannot be written.
pub fn authenticate_claim() -> Result<i32> {
    let mut input = std::io::stdin().lock();
    let mut len = [0; 2];
    input.read_exact(&mut len)?;
    let mut claim = vec![0; usize::from(u16::from_be_bytes(len).min(CLAIM_MAX_BYTES))];
    input.read_exact(&mut claim)?;
    let mut fields = claim.splitn(4, |&byte| byte == 0);
    let mut field = || fields.next().context("the claim on standard input is incomplete");
    let service = field()?.to_vec();
    let user = field()?.to_vec();
    let host = field()?.to_vec();
    let password = field()?.to_vec();
    let service = String::from_utf8(service)?;
    let user = String::from_utf8(user)?;
    let host = String::from_utf8(host)?;
    let claim =
        pam::LoginCredentials { service: &service, user: &user, password: &password, host: &host };
    // The server may be killed while a PAM module hangs. The kernel sends the signal when the
    // server thread that started this process ends; that thread waits until the session is open.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut authenticated = match pam::authenticate(claim) {
        Ok(authenticated) => authenticated,
        Err(PamError::Refused) => return Ok(NOT_AUTHENTICATED),
        Err(PamError::Missing) => return Ok(NO_PAM),
    };
    let mut output = std::io::stdout().lock();
    output.write_all(format!("{}\n", authenticated.name()).as_bytes())?;
    output.flush()?;
    if input.read(&mut [0])? == 0 {
        return Ok(0);
    }
    // A signal to the server's process group would otherwise end this process and leave the
    // session open.
    os::process::ignore_termination_signals();
    if authenticated.open_session().is_err() {
        return Ok(NO_SESSION);
    }
    set_parent_process_death_signal(None)?;
    // If the output is closed, the input is closed too and ends the loop below.
    _ = output.write_all(b"\n").and_then(|()| output.flush());
    while matches!(input.read(&mut [0]), Ok(1)) {}
    Ok(0)
}

/// Returns the entries of a system file with one entry per line, without comments.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

/// Returns whether `shell` is in `list`; without a list, the two traditional shells are allowed.
fn is_shell(shell: &Path, list: Option<&str>) -> bool {
    let list = list.unwrap_or("/bin/sh\n/bin/csh\n");
    entries(list).any(|known| Path::new(known) == shell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_shells_are_accepted_and_comments_are_ignored() {
        let list = Some("# shells\n/bin/sh\n\n/bin/bash # the usual one\n#/bin/zsh\n");
        assert!(is_shell(Path::new("/bin/bash"), list) && is_shell(Path::new("/bin/sh"), list));
        for other in ["/usr/sbin/nologin", "/bin/false", "/bin/zsh", "", "# shells"] {
            assert!(!is_shell(Path::new(other), list), "{other}");
        }
        assert!(is_shell(Path::new("/bin/sh"), None) && !is_shell(Path::new("/bin/bash"), None));
    }

    #[test]
    fn a_claim_with_embedded_nul_or_excess_length_is_refused() {
        let system = SystemUserSettings { service: SERVICE.to_owned(), allows_root: false };
        let from = IpAddr::from([192, 0, 2, 1]);
        let stop = AtomicBool::new(false);
        let refusal = |name, password| system.start_pam(name, password, from, &stop).err();
        assert_eq!(refusal("ann", b"a\0b"), Some(SystemUserRefusal::NotAuthenticated));
        assert_eq!(refusal("a\0nn", b"b"), Some(SystemUserRefusal::NotAuthenticated));
        assert_eq!(refusal("ann", &[b'a'; 9_000]), Some(SystemUserRefusal::NotAuthenticated));
    }
}
