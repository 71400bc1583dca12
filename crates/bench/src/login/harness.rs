//! Opens sessions over every path. Each session has its own server process: either the bench
//! accepts the connection and starts the server on it, like inetd, or the server listens itself.

use super::arguments::os_strings;
use super::path::{ClientProgram, Path, ServerProgram};
use super::temporary_directory::TemporaryDirectory;
use crate::driver::{Server, Session};
use crate::telnetd::{Listener, on_server_processor, program, set_environment, shell};
use crate::typing::{Via, plumb};
use anyhow::{Context, Result};
use os::process::Program;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Resources shared by all sessions.
#[derive(Debug)]
pub(super) struct Harness {
    /// The bench's own directory.
    pub(super) directory: TemporaryDirectory,
    listeners: Vec<(ServerProgram, Listener)>,
    pinning: Option<(usize, usize)>,
    has_tun: bool,
}

impl Harness {
    /// Creates a harness with an empty directory.
    pub(super) fn new(pinning: Option<(usize, usize)>) -> Result<Self> {
        let directory = TemporaryDirectory::make()?;
        Ok(Self { directory, listeners: Vec::new(), pinning, has_tun: false })
    }

    /// Creates the resources that `path` needs, and checks that a session can be opened.
    pub(super) fn prepare(&mut self, path: &Path) -> Result<()> {
        if let ClientProgram::Plumb(via @ Via::Tun(_)) = &path.client
            && !self.has_tun
        {
            via.prepare()?;
            self.has_tun = true;
        }
        if !self.listeners.iter().any(|(server, _)| *server == path.server)
            && let Some(service) = path.server.service(&self.directory)?
        {
            self.listeners.push((path.server, Listener::open_for(service, self.pinning)?));
        }
        self.open(path).map(drop)
    }

    pub(super) fn open(&self, path: &Path) -> Result<Session> {
        if let Some((_, listener)) =
            self.listeners.iter().find(|(server, _)| *server == path.server)
        {
            let client = path.client.command(listener.port()?, &self.directory)?;
            return Session::open(client, Some(listener));
        }
        let started = || match path.server {
            ServerProgram::Mosh => self.start_mosh(&path.client),
            server => self.start_plumb(&path.client, server == ServerProgram::PlumbTls),
        };
        let (client, server) = on_server_processor(self.pinning, started)?;
        Session::open_to(client, server)
    }

    /// Starts `plumb serve` at a free port.
    fn start_plumb(&self, client: &ClientProgram, in_tls: bool) -> Result<(Command, Server)> {
        let mut command = Command::new(plumb()?);
        let listen = if in_tls { "--listen-tls" } else { "--listen" };
        command
            .args(["serve", "--json", "--tls", "off", listen, "0.0.0.0:0", "--exec"])
            .arg(shell())
            .arg("-i");
        set_environment(&mut command);
        command.env("XDG_STATE_HOME", &self.directory.path);
        let (program, port) = start_server(command)?;
        Ok((client.command(port, &self.directory)?, Server::Program(program)))
    }

    /// Starts a mosh server, which prints its port and key and detaches.
    fn start_mosh(&self, client: &ClientProgram) -> Result<(Command, Server)> {
        let mut command = Command::new(program("mosh-server", "mosh")?);
        command.args(os_strings(&["new", "-i", "127.0.0.1", "--"])).arg(shell()).arg("-i");
        set_environment(&mut command);
        command.env("LC_ALL", "C.UTF-8").env("MOSH_SERVER_NETWORK_TMOUT", "20");
        let output = command.stdin(Stdio::null()).output()?;
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8(text).ok());
        let printed = printed.into_iter().flatten().collect::<String>();
        let (port, key, id) = read_mosh(&printed)
            .with_context(|| format!("mosh-server printed '{}'", printed.trim()))?;
        let mut client = client.command(port, &self.directory)?;
        client.env("LC_ALL", "C.UTF-8").env("MOSH_KEY", key);
        client.env("MOSH_PREDICTION_DISPLAY", "never");
        Ok((client, Server::Daemon(id)))
    }
}

/// Starts `plumb serve`, and returns it with its port.
pub(crate) fn start_server(mut command: Command) -> Result<(Program, u16)> {
    let mut program = Program::start(command.stdin(Stdio::null()).stderr(Stdio::piped()))?;
    let stderr = program.child().stderr.take().context("plumb serve has no stderr")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut printed = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if let Some(port) = read_port(&line) {
            // The later output of the server is small, and is discarded.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((program, port));
        }
        printed.push_str(&line);
    }
    anyhow::bail!("plumb serve does not listen; it printed '{printed}'")
}

fn read_port(line: &str) -> Option<u16> {
    let event: Value = serde_json::from_str(line).ok()?;
    event.get("at")?.as_str()?.rsplit_once(':')?.1.parse().ok()
}

/// Parses the port, the key and the process id that a mosh server prints.
fn read_mosh(printed: &str) -> Option<(u16, &str, u32)> {
    let (_, connect) = printed.split_once("MOSH CONNECT ")?;
    let mut connect = connect.split_ascii_whitespace();
    let port = connect.next()?.parse().ok()?;
    let key = connect.next()?;
    let (_, id) = printed.split_once("pid = ")?;
    Some((port, key, id.split_once(']')?.0.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_parsed_from_the_first_event_of_a_server() {
        let line = r#"{"event":"listening","at":"0.0.0.0:40123","how":"in cleartext"}"#;
        assert_eq!(read_port(line), Some(40123));
        assert_eq!(read_port(r#"{"event":"certificate","sha256":"ab"}"#), None);
        assert_eq!(read_port("plumb: no"), None);
    }

    #[test]
    fn port_key_and_process_are_parsed_from_the_output_of_mosh_server() {
        let printed =
            "\nMOSH CONNECT 60001 abc==\n\nmosh-server\n[mosh-server detached, pid = 77]\n";
        assert_eq!(read_mosh(printed), Some((60001, "abc==", 77)));
        assert_eq!(read_mosh("mosh-server: no locale"), None);
    }
}
