//! A network of our own with a real Telnet server in it: the second part of the demonstration.
//!
//! The network is a namespace that holds a TUN. The kernel has its one end, with an address and
//! the server; our station is at the other end.

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

/// The interface of the demonstration.
pub(crate) const INTERFACE: &str = "plumb0";
/// Where the Telnet server is: the kernel's address on it, or the far station's on a line.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 23);
const PREFIX_BITS: u8 = 24;

/// Moves this thread into a network of its own that holds a TUN, and opens that.
///
/// Without root that needs a process of a single thread.
///
/// # Errors
///
/// Why the machine does not allow it.
pub(crate) fn enter_network() -> Result<Tun> {
    namespace::enter_new_network()?;
    open_tun()
}

/// Opens the TUN of the network that was entered; it goes when it is closed.
///
/// # Errors
///
/// Why the machine does not allow it.
pub(crate) fn open_tun() -> Result<Tun> {
    let tun = Tun::open(Some(INTERFACE))?;
    let interface = Interface::named(INTERFACE)?;
    interface.set_address(*SERVER.ip(), PREFIX_BITS)?;
    interface.bring_up()?;
    Ok(tun)
}

/// A program that serves Telnet to the socket that is its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    /// What people call it.
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// Returns the servers of this machine that can run a shell without a login, the best first.
///
/// # Errors
///
/// If there is none.
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
    let found: Vec<_> = inetutils.into_iter().chain(busybox).collect();
    if found.is_empty() {
        bail!("there is no Telnet server: install inetutils-telnetd or busybox");
    }
    Ok(found)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers are where the PATH of a user does not always lead.
    let more = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let candidates = std::env::split_paths(&path).chain(more).map(|folder| folder.join(program));
    let is_program = |file: &PathBuf| file.is_absolute() && Path::is_file(file);
    candidates.into_iter().find(is_program)
}

/// Takes connections and starts a server for each. Dropped, it ends all of them.
pub(crate) struct Server {
    programs: Arc<Mutex<Vec<Program>>>,
}

impl Server {
    /// Begins to take connections for `daemon`.
    ///
    /// # Errors
    ///
    /// If the port is not free, or no thread is left.
    pub(crate) fn start(daemon: &Daemon) -> Result<Self> {
        let listener = TcpListener::bind(SERVER)
            .with_context(|| format!("the port {SERVER} cannot be listened at"))?;
        let programs = Arc::new(Mutex::new(Vec::new()));
        let (kept, daemon) = (Arc::clone(&programs), daemon.clone());
        let named = thread::Builder::new().name("telnet server".to_owned());
        named.spawn(move || {
            // One login is shown, and the port is free again for another server.
            let served = listener.accept().and_then(|(stream, _)| serve(&daemon, stream));
            if let Ok(program) = served {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(program);
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
