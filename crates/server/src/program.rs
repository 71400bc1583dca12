//! Programs of login sessions, each on a pseudo-terminal.
//!
//! The arguments of a program contain no bytes chosen by a client: `login` asks for the name
//! itself, and the address passed to it is that of the connection. The only environment variable
//! that a client influences is `TERM`, limited to a safe character set (attacks 51 and 57).

use super::users::LoginUserEntry;
use anyhow::{Context, Result};
use os::pty::{Pty, PtyProgram};
use os::tty::WindowSize;
use os::user::User;
use os::utmp::Entry;
use std::net::IpAddr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

/// Possible paths of the system's login program.
const LOGIN: [&str; 2] = ["/bin/login", "/usr/bin/login"];

/// `PATH` of the program.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Maximum length of a terminal name in bytes.
const TERMINAL_LEN: usize = 40;

/// Properties of a client when its program starts.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    /// Terminal name as received.
    pub(super) terminal: Option<String>,
    pub(super) window: WindowSize,
    /// Whether the client has refused the server's ECHO (RFC 857).
    pub(super) is_echo_refused: bool,
}

/// Program on its pseudo-terminal.
#[derive(Debug)]
pub(super) struct RunningProgram {
    pub(super) program: PtyProgram,
    /// utmp and wtmp entry, closed at the end; `None` for a program without a login.
    pub(super) entry: Option<Entry>,
}

/// Returns the path of the system's login program, if there is one.
pub(super) fn login_path() -> Option<&'static Path> {
    LOGIN.iter().map(Path::new).find(|path| path.exists())
}

/// Starts the system's login program for `client`. The login program writes the utmp entry itself.
///
/// # Errors
///
/// Returns an error if the system has no login program or no pseudo-terminal is available.
pub(super) fn start_login(client: &Client) -> Result<RunningProgram> {
    let path = login_path().context("this system has no login program")?;
    let mut command = Command::new(path);
    command.arg("-h").arg(client.address.to_string());
    start(command, client)
}

/// Starts `command_line`, a program and its arguments, as the user that runs the server.
pub(super) fn start_exec(command_line: &[String], client: &Client) -> Result<RunningProgram> {
    let (program, arguments) = command_line.split_first().context("no program to run")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(RunningProgram { entry: None, ..start(command, client)? })
}

/// Starts the program of `account` as its system user, and records the login of `name` in utmp.
///
/// # Errors
///
/// Returns an error if the program or user does not exist, the server cannot switch to the user, or
/// no pseudo-terminal is available.
pub(super) fn start_account(
    name: &str,
    account: &LoginUserEntry,
    client: &Client,
) -> Result<RunningProgram> {
    let system_name = account.runs_as.as_deref();
    let user = system_name.map(find).transpose()?;
    let shell = user.as_ref().map(|user| user.shell().to_owned());
    let mut command = match (&account.exec, shell) {
        (Some(command_line), _) => {
            let (program, arguments) = command_line.split_first().context("no program to run")?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        (None, shell) => login_shell(&shell.unwrap_or_else(|| "/bin/sh".into())),
    };
    command.env_clear();
    if let Some(user) = &user {
        command.env("HOME", user.home()).env("SHELL", user.shell());
        command
            .env("USER", system_name.unwrap_or(name))
            .env("LOGNAME", system_name.unwrap_or(name));
        user.enter(&mut command).context("cannot switch to the user")?;
        command.current_dir(if user.home().is_dir() { user.home() } else { Path::new("/") });
    } else {
        command.env("USER", name).env("LOGNAME", name);
        if let Some(home) = std::env::var_os("HOME") {
            command.env("HOME", home);
        }
    }
    let running = start_on_terminal(command, client, user.as_ref())?;
    // Errors are ignored, because many systems have no utmp or wtmp file.
    _ = running.entry.as_ref().map(|entry| entry.log_in(name));
    Ok(running)
}

fn find(name: &str) -> Result<User> {
    let user = User::named(name).context("cannot read the user database")?;
    user.with_context(|| format!("no user '{}' on this machine", name.escape_debug()))
}

/// Returns the command of a login shell, whose argument 0 begins with `-`.
fn login_shell(path: &Path) -> Command {
    use std::os::unix::process::CommandExt;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut command = Command::new(path);
    command.arg0(format!("-{name}"));
    command
}

fn start(mut command: Command, client: &Client) -> Result<RunningProgram> {
    command.env_clear();
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    start_on_terminal(command, client, None)
}

/// Starts `command` on a new pseudo-terminal, owned by `owner` if given.
fn start_on_terminal(
    mut command: Command,
    client: &Client,
    owner: Option<&User>,
) -> Result<RunningProgram> {
    command.env("PATH", PATH);
    command.env("TERM", terminal_name(client.terminal.as_deref().unwrap_or_default()));
    for name in ["LANG", "LC_ALL", "TZ"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let pty = Pty::open(client.window).context("cannot open a pseudo-terminal")?;
    if client.is_echo_refused {
        pty.set_echo(false).context("cannot turn off the echo of the terminal")?;
    }
    pty.set_packet_mode().context("cannot turn on packet mode of the terminal")?;
    let path = pty.path().to_owned();
    if let Some(owner) = owner.filter(|_| os::user::is_root()) {
        // Without the change of owner, the user's programs could not reopen the terminal by name.
        chown(&path, Some(owner.uid()), None).context("cannot change the owner of the terminal")?;
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program = pty.start(command).with_context(|| format!("cannot start program {name}"))?;
    let entry = Entry::new(&path, program.program().id(), client.address);
    Ok(RunningProgram { program, entry: Some(entry) })
}

/// Returns the terminal name for `TERM`: lowercase, from a character set that is harmless in paths
/// and shells. Returns `dumb` for any other name.
fn terminal_name(reported_name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let has_valid_start = reported_name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if !has_valid_start
        || reported_name.len() > TERMINAL_LEN
        || !reported_name.chars().all(is_allowed)
    {
        return "dumb".to_owned();
    }
    reported_name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsafe_terminal_name_becomes_dumb() {
        assert_eq!(terminal_name("XTERM-256COLOR"), "xterm-256color");
        for wrong in ["", "-f", "../../etc/x", "a b", "a;b", "$(id)", "\x1b[2J", "a/b"] {
            assert_eq!(terminal_name(wrong), "dumb", "{wrong}");
        }
        assert_eq!(terminal_name(&"x".repeat(41)), "dumb");
    }
}
