//! The Telnet servers of the bench, started for each connection as by inetd.
//!
//! A server gets the connection as its standard input and output, and runs a shell instead of
//! login(1): no password is needed, and nothing listens outside the bench's own network namespace.

use anyhow::{Context, Result, bail};
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::{schedule, socket};
use std::env;
use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Telnet server from Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// GNU inetutils.
    Inetutils,
    /// busybox.
    Busybox,
}

impl Kind {
    /// Both servers, in the order of the report.
    pub(super) const ALL: [Self; 2] = [Self::Inetutils, Self::Busybox];

    /// Returns the name, for a heading.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inetutils => "inetutils telnetd",
            Self::Busybox => "busybox telnetd",
        }
    }

    /// Returns the command that starts the server with `shell` as its login program.
    pub(super) fn service(self, shell: &Path) -> Result<Service> {
        let program = match self {
            Self::Inetutils => program("telnetd", "inetutils-telnetd")?,
            Self::Busybox => program("busybox", "busybox-static")?,
        };
        Ok(self.service_of(program, shell))
    }

    /// Returns the command that starts `program` with `shell` as its login program.
    fn service_of(self, program: PathBuf, shell: &Path) -> Service {
        let words: &[&str] = match self {
            Self::Inetutils => &["-h", "-E"],
            Self::Busybox => &["telnetd", "-i", "-f", "/dev/null", "-l"],
        };
        let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        arguments.push(shell.into());
        Service { name: self.name().to_owned(), program, arguments }
    }
}

/// Command that starts a server with a connection, as in a line of inetd.conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    /// Name for errors.
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Service {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        set_environment(&mut command);
        command
    }
}

/// Runs `start` with the calling thread on the first processor of `pinning`, so that started
/// processes run there; then moves the thread to the second processor.
pub(super) fn on_server_processor<T>(
    pinning: Option<(usize, usize)>,
    start: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some((server_processor, client_processor)) = pinning else { return start() };
    schedule::pin_to(server_processor)?;
    let started = start();
    schedule::pin_to(client_processor)?;
    started
}

/// Sets an environment for `command` that is the same on every machine.
pub(super) fn set_environment(command: &mut Command) {
    command.env_clear().env("PATH", search_path()).env("TERM", "vt100").env("HOME", "/");
    command.current_dir("/");
}

/// Finds a program; the error names the package that contains it.
pub(super) fn program(name: &str, package: &str) -> Result<PathBuf> {
    let path = search_path();
    let mut candidates = path.split(':').map(|directory| Path::new(directory).join(name));
    let program_path = candidates.find(|place| place.is_file());
    program_path
        .with_context(|| format!("there is no {name}: install it (apt-get install {package})"))
}

/// Returns the path of a shell that leaves the echo to the kernel.
pub(super) fn shell() -> PathBuf {
    program("dash", "dash").unwrap_or_else(|_| PathBuf::from("/bin/sh"))
}

/// Returns PATH with the system directories, because servers are often only in root's PATH.
fn search_path() -> String {
    format!("{}:/usr/local/sbin:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default())
}

/// Accepts connections, and starts a server for each.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    service: Service,
    /// Processor of the servers, and processor to which the thread returns after it starts a
    /// server.
    pinning: Option<(usize, usize)>,
}

impl Listener {
    /// Listens at all addresses of the calling thread's network namespace, at a free port.
    ///
    /// With `pinning` the servers run on the first processor of the pair, and the calling thread on
    /// the second.
    pub(super) fn open(kind: Kind, pinning: Option<(usize, usize)>) -> Result<Self> {
        Self::open_for(kind.service(&shell())?, pinning)
    }

    /// Like [`Self::open`], for any server.
    pub(super) fn open_for(service: Service, pinning: Option<(usize, usize)>) -> Result<Self> {
        let socket = TcpListener::bind("0.0.0.0:0").context("cannot listen")?;
        Ok(Self { socket, service, pinning })
    }

    /// Returns the port of the listener.
    pub(super) fn port(&self) -> Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Returns the congestion control of the server's connections.
    pub(super) fn congestion_control(&self) -> Option<String> {
        socket::congestion_control(&self.socket).ok()
    }

    /// Waits at most `limit` for a connection, and starts its server.
    pub(super) fn answer(&self, limit: Duration) -> Result<Program> {
        let clock = Monotonic::start();
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        if wait(&mut descriptors, &clock, Some(clock.now() + limit))? == Wake::Deadline {
            bail!("no connection within {} s", limit.as_secs());
        }
        let (connection, _) = self.socket.accept()?;
        on_server_processor(self.pinning, || self.start(connection))
    }

    fn start(&self, connection: TcpStream) -> Result<Program> {
        let connection = OwnedFd::from(connection);
        let mut command = self.service.command();
        command.stdin(connection.try_clone()?).stdout(connection.try_clone()?);
        command.stderr(Stdio::null());
        Program::start(&mut command).with_context(|| format!("cannot start {}", self.service.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = program("no-such-telnetd", "the-package").unwrap_err().to_string();
        assert!(error.contains("no-such-telnetd") && error.contains("the-package"), "{error}");
    }

    #[test]
    fn a_server_runs_the_configured_shell() {
        let service = Kind::Busybox.service_of(PathBuf::from("busybox"), Path::new("/bin/own"));
        assert_eq!(service.command().get_args().last().unwrap(), "/bin/own");
    }

    #[test]
    fn a_missing_connection_is_an_error_after_the_limit() {
        let service = Kind::Inetutils.service_of(PathBuf::from("telnetd"), Path::new("/bin/sh"));
        let listener = Listener::open_for(service, None).unwrap();
        let error = listener.answer(Duration::from_millis(1)).unwrap_err().to_string();
        assert_eq!(error, "no connection within 0 s");
    }
}
