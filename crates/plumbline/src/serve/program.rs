//! What a session runs at its terminal.
//!
//! No byte that a client chose ever stands among a program's arguments: `login` asks for the name
//! itself, and the address it is told of comes from the kernel. Of the environment a client can
//! choose the name of its terminal alone, from letters and digits (attacks 51 and 57).

use super::users::Account;
use anyhow::{Context, Result};
use os::pty::{Pty, PtyProgram};
use os::tty::WindowSize;
use os::user::User;
use os::utmp::Entry;
use std::net::IpAddr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

/// Where the program that asks for name and password may be.
const LOGIN: [&str; 2] = ["/bin/login", "/usr/bin/login"];

/// The path that a program finds others by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The longest name of a terminal.
const TERMINAL_LEN: usize = 40;

/// What is known of a client when its program starts.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    /// The name of its terminal, as it came.
    pub(super) terminal: Option<String>,
    pub(super) window: WindowSize,
    /// Whether the client has refused our echo (RFC 857).
    pub(super) is_echo_refused: bool,
}

/// A program at its terminal.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) program: PtyProgram,
    /// What `who` and `last` are told at the end; a program without a login is no login.
    pub(super) entry: Option<Entry>,
}

/// Returns the program that asks for name and password, where the system has it.
pub(super) fn login_path() -> Option<&'static Path> {
    LOGIN.iter().map(Path::new).find(|path| path.exists())
}

/// Starts the system's login for `client`; it writes who has logged in itself.
///
/// # Errors
///
/// If there is none, or no terminal.
pub(super) fn start_login(client: &Client) -> Result<Running> {
    let path = login_path().context("this system has no login program")?;
    let mut command = Command::new(path);
    command.arg("-h").arg(client.address.to_string());
    start(command, client)
}

/// Starts `words`, a program with its arguments, as whoever serves.
///
/// # Errors
///
/// If there is no such program, or no terminal.
pub(super) fn start_exec(words: &[String], client: &Client) -> Result<Running> {
    let (program, arguments) = words.split_first().context("there is no program to run")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(Running { entry: None, ..start(command, client)? })
}

/// Starts what `account` runs, as the user that it runs as, and writes down that `name` is here.
///
/// # Errors
///
/// If there is no such program or user, if the user may not be entered, or no terminal is left.
pub(super) fn start_account(name: &str, account: &Account, client: &Client) -> Result<Running> {
    let own = account.runs_as.as_deref();
    let user = own.map(find).transpose()?;
    let shell = user.as_ref().map(|user| user.shell().to_owned());
    let mut command = match (&account.exec, shell) {
        (Some(words), _) => {
            let (program, arguments) = words.split_first().context("there is no program")?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        (None, shell) => login_shell(&shell.unwrap_or_else(|| "/bin/sh".into())),
    };
    command.env_clear();
    if let Some(user) = &user {
        command.env("HOME", user.home()).env("SHELL", user.shell());
        command.env("USER", own.unwrap_or(name)).env("LOGNAME", own.unwrap_or(name));
        user.enter(&mut command).context("the user cannot be entered")?;
        command.current_dir(if user.home().is_dir() { user.home() } else { Path::new("/") });
    } else {
        command.env("USER", name).env("LOGNAME", name);
        if let Some(home) = std::env::var_os("HOME") {
            command.env("HOME", home);
        }
    }
    let running = start_in(command, client, user.as_ref())?;
    // Many machines keep no such record.
    _ = running.entry.as_ref().map(|entry| entry.log_in(name));
    Ok(running)
}

fn find(name: &str) -> Result<User> {
    let user = User::named(name).context("the users of this machine cannot be read")?;
    user.with_context(|| format!("there is no user '{}' on this machine", name.escape_debug()))
}

/// Returns the command that starts a shell as a login does: its name begins with `-`.
fn login_shell(path: &Path) -> Command {
    use std::os::unix::process::CommandExt;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut command = Command::new(path);
    command.arg0(format!("-{name}"));
    command
}

fn start(mut command: Command, client: &Client) -> Result<Running> {
    command.env_clear();
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    start_in(command, client, None)
}

/// Starts `command` at a terminal of its own, which belongs to `owner` if there is one.
fn start_in(mut command: Command, client: &Client, owner: Option<&User>) -> Result<Running> {
    command.env("PATH", PATH);
    command.env("TERM", terminal_name(client.terminal.as_deref().unwrap_or_default()));
    for name in ["LANG", "LC_ALL", "TZ"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let pty = Pty::open(client.window).context("there is no terminal left")?;
    if client.is_echo_refused {
        pty.set_echo(false).context("the terminal's echo cannot be switched off")?;
    }
    pty.set_packet_mode().context("the terminal has no packet mode")?;
    let path = pty.path().to_owned();
    if let Some(owner) = owner.filter(|_| os::user::is_root()) {
        // Else the user's programs could not open it again by its name.
        chown(&path, Some(owner.uid()), None).context("the terminal cannot change its owner")?;
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program =
        pty.start(command).with_context(|| format!("the program {name} cannot be started"))?;
    let entry = Entry::new(&path, program.program().id(), client.address);
    Ok(Running { program, entry: Some(entry) })
}

/// Returns the name of a terminal as a program may have it: in lower case, with nothing in it
/// that a path or a shell would take for more than a name.
fn terminal_name(told: &str) -> String {
    let is_named = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let begins = told.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if !begins || told.len() > TERMINAL_LEN || !told.chars().all(is_named) {
        return "dumb".to_owned();
    }
    told.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_a_plain_name_or_is_dumb() {
        assert_eq!(terminal_name("XTERM-256COLOR"), "xterm-256color");
        for wrong in ["", "-f", "../../etc/x", "a b", "a;b", "$(id)", "\x1b[2J", "a/b"] {
            assert_eq!(terminal_name(wrong), "dumb", "{wrong}");
        }
        assert_eq!(terminal_name(&"x".repeat(41)), "dumb");
    }
}
