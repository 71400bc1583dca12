//! Network namespace with a real Telnet server: the second part of the demonstration.
//!
//! The namespace holds a TUN. The kernel is at one end, with an address and the server; the
//! user-space station is at the other end.

use anyhow::{Context, Result, bail};
use os::interface::Interface;
use os::namespace;
use os::process::Program;
use os::tun::Tun;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Name of the TUN interface.
pub(crate) const INTERFACE: &str = "plumb0";
/// Address of the Telnet server: the kernel's address on the TUN, or the address of the remote
/// station on a serial line.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 23);
const PREFIX_BITS: u8 = 24;

/// Moves the calling thread into a new network namespace and opens a TUN in it.
///
/// Without root this requires a single-threaded process.
///
/// # Errors
///
/// Returns an error with the reason if the machine permits no network namespace or no TUN.
pub(crate) fn enter_network() -> Result<Tun> {
    namespace::enter_new_network()?;
    open_tun()
}

/// Opens the TUN in the entered namespace; the interface is removed when the TUN is closed.
///
/// # Errors
///
/// Returns an error with the reason if the machine permits no TUN.
pub(crate) fn open_tun() -> Result<Tun> {
    let tun = Tun::open(Some(INTERFACE))?;
    let interface = Interface::named(INTERFACE)?;
    interface.set_address(*SERVER.ip(), PREFIX_BITS)?;
    interface.bring_up()?;
    Ok(tun)
}

/// Program that serves Telnet on the socket at its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    /// Name for display.
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// Returns the servers of this machine that can run a shell without a login, the preferred first.
///
/// # Errors
///
/// Returns an error if no such server is installed.
pub(crate) fn daemons() -> Result<Vec<Daemon>> {
    let inetutils = ["telnetd", "inetutils-telnetd"].into_iter().find_map(|program| {
        let program = find(program)?;
        let version = Command::new(&program).arg("--version").stdin(Stdio::null()).output().ok()?;
        String::from_utf8_lossy(&version.stdout).contains("inetutils").then_some(Daemon {
            name: "inetutils telnetd",
            program,
            arguments: &["-h", "-E", "/bin/sh"],
        })
    });
    let busybox = find("busybox").filter(|program| {
        let list = Command::new(program).arg("--list").stdin(Stdio::null()).output();
        list.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).lines().any(|l| l == "telnetd"))
    });
    let busybox = busybox.map(|program| Daemon {
        name: "busybox telnetd",
        program,
        arguments: &["telnetd", "-i", "-l", "/bin/sh"],
    });
    let servers: Vec<_> = inetutils.into_iter().chain(busybox).collect();
    if servers.is_empty() {
        bail!("no Telnet server found: install inetutils-telnetd or busybox");
    }
    Ok(servers)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers are often in directories outside the user's `PATH`.
    let system_directories = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let candidates = std::env::split_paths(&path)
        .chain(system_directories)
        .map(|directory| directory.join(program));
    let is_program = |file: &PathBuf| file.is_absolute() && Path::is_file(file);
    candidates.into_iter().find(is_program)
}

/// Accepts a connection and starts a server process for it. Dropping this value terminates the
/// process.
pub(crate) struct Server {
    programs: Arc<Mutex<Vec<Program>>>,
}

impl Server {
    /// Starts to listen on behalf of `daemon`.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is in use or no thread can be created.
    pub(crate) fn start(daemon: &Daemon) -> Result<Self> {
        let listener =
            TcpListener::bind(SERVER).with_context(|| format!("cannot listen on {SERVER}"))?;
        let programs = Arc::new(Mutex::new(Vec::new()));
        let thread_programs = Arc::clone(&programs);
        let daemon = daemon.clone();
        let builder = thread::Builder::new().name("telnet server".to_owned());
        builder.spawn(move || {
            // Each server accepts one login. Then the port is free for the next server.
            let served = listener.accept().and_then(|(stream, _)| serve(&daemon, stream));
            if let Ok(program) = served {
                thread_programs.lock().unwrap_or_else(PoisonError::into_inner).push(program);
            }
        })?;
        Ok(Self { programs })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn serve(daemon: &Daemon, stream: TcpStream) -> io::Result<Program> {
    let output = stream.try_clone()?;
    let mut command = Command::new(&daemon.program);
    command
        .args(daemon.arguments)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(stream)))
        .stdout(Stdio::from(OwnedFd::from(output)))
        .stderr(Stdio::null());
    Program::start(&mut command)
}
