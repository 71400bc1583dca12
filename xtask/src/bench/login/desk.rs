//! Opens sessions over every path. The server of a session is started with the connection, as inetd
//! does, or is a program that listens itself.

use super::folder::Folder;
use super::path::{Far, Near, Path, words};
use crate::bench::driver::{Server, Session};
use crate::bench::telnetd::{Listener, on_the_far_processor, program, set_environment, shell};
use crate::bench::typing::{Via, plumb};
use anyhow::{Context, Result};
use os::process::Program;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Resources shared by all sessions.
#[derive(Debug)]
pub(super) struct Desk {
    /// The bench's own directory.
    pub(super) folder: Folder,
    listeners: Vec<(Far, Listener)>,
    pinning: Option<(usize, usize)>,
    has_tun: bool,
}

impl Desk {
    /// Creates an empty directory.
    pub(super) fn new(pinning: Option<(usize, usize)>) -> Result<Self> {
        let folder = Folder::make()?;
        Ok(Self { folder, listeners: Vec::new(), pinning, has_tun: false })
    }

    /// Creates the resources that `path` needs, and checks that a session can be opened.
    pub(super) fn prepare(&mut self, path: &Path) -> Result<()> {
        if let Near::Plumb(via @ Via::Tun(_)) = &path.near
            && !self.has_tun
        {
            via.prepare()?;
            self.has_tun = true;
        }
        if !self.listeners.iter().any(|(far, _)| *far == path.far)
            && let Some(service) = path.far.service(&self.folder)?
        {
            self.listeners.push((path.far, Listener::open_for(service, self.pinning)?));
        }
        self.open(path).map(drop)
    }

    /// Opens a session.
    pub(super) fn open(&self, path: &Path) -> Result<Session> {
        if let Some((_, listener)) = self.listeners.iter().find(|(far, _)| *far == path.far) {
            let client = path.near.command(listener.port()?, &self.folder)?;
            return Session::open(client, Some(listener));
        }
        let started = || match path.far {
            Far::Mosh => self.start_mosh(&path.near),
            far => self.start_plumb(&path.near, far == Far::PlumbTls),
        };
        let (client, server) = on_the_far_processor(self.pinning, started)?;
        Session::open_to(client, server)
    }

    /// Starts `plumb serve` at a free port.
    fn start_plumb(&self, near: &Near, in_tls: bool) -> Result<(Command, Server)> {
        let mut command = Command::new(plumb()?);
        let listen = if in_tls { "--listen-tls" } else { "--listen" };
        command
            .args(["serve", "--json", "--tls", "off", listen, "0.0.0.0:0", "--exec"])
            .arg(shell())
            .arg("-i");
        set_environment(&mut command);
        command.env("XDG_STATE_HOME", &self.folder.path);
        let (program, port) = start_server(command)?;
        Ok((near.command(port, &self.folder)?, Server::Program(program)))
    }

    /// Starts a mosh server, which prints its port and key and detaches.
    fn start_mosh(&self, near: &Near) -> Result<(Command, Server)> {
        let mut command = Command::new(program("mosh-server", "mosh")?);
        command.args(words(&["new", "-i", "127.0.0.1", "--"])).arg(shell()).arg("-i");
        set_environment(&mut command);
        command.env("LC_ALL", "C.UTF-8").env("MOSH_SERVER_NETWORK_TMOUT", "20");
        let output = command.stdin(Stdio::null()).output()?;
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).ok());
        let said = said.into_iter().flatten().collect::<String>();
        let (port, key, id) =
            read_mosh(&said).with_context(|| format!("mosh-server says '{}'", said.trim()))?;
        let mut client = near.command(port, &self.folder)?;
        client.env("LC_ALL", "C.UTF-8").env("MOSH_KEY", key);
        client.env("MOSH_PREDICTION_DISPLAY", "never");
        Ok((client, Server::Daemon(id)))
    }
}

/// Starts `plumb serve`, and returns it with its port.
pub(in crate::bench) fn start_server(mut command: Command) -> Result<(Program, u16)> {
    let mut program = Program::start(command.stdin(Stdio::null()).stderr(Stdio::piped()))?;
    let stderr = program.child().stderr.take().context("plumb serve has no stderr")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if let Some(port) = read_port(&line) {
            // Its later output is small, and is discarded.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((program, port));
        }
        said.push_str(&line);
    }
    anyhow::bail!("plumb serve does not listen; it says '{said}'")
}

fn read_port(line: &str) -> Option<u16> {
    let event: Value = serde_json::from_str(line).ok()?;
    event.get("at")?.as_str()?.rsplit_once(':')?.1.parse().ok()
}

/// Parses the port, the key and the process id that a mosh server prints.
fn read_mosh(said: &str) -> Option<(u16, &str, u32)> {
    let (_, connect) = said.split_once("MOSH CONNECT ")?;
    let mut connect = connect.split_ascii_whitespace();
    let (port, key) = (connect.next()?.parse().ok()?, connect.next()?);
    let (_, id) = said.split_once("pid = ")?;
    Some((port, key, id.split_once(']')?.0.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_stands_in_what_a_server_says_first() {
        let line = r#"{"event":"listening","at":"0.0.0.0:40123","how":"in cleartext"}"#;
        assert_eq!(read_port(line), Some(40123));
        assert_eq!(read_port(r#"{"event":"certificate","sha256":"ab"}"#), None);
        assert_eq!(read_port("plumb: no"), None);
    }

    #[test]
    fn a_server_of_mosh_says_port_key_and_process() {
        let said = "\nMOSH CONNECT 60001 abc==\n\nmosh-server\n[mosh-server detached, pid = 77]\n";
        assert_eq!(read_mosh(said), Some((60001, "abc==", 77)));
        assert_eq!(read_mosh("mosh-server: no locale"), None);
    }
}
