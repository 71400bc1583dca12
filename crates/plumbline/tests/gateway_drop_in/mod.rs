//! The host and the guests of tests in which plumb replaces another gateway.

use os::namespace::enter_new_network;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use test_support::{NetworkThread, in_configured_network, not_configured, poll_until_timeout};

pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
/// The address of the interface with the default route, and the gateway of this route.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 20);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// Options that forward no ports.
pub(crate) const NO_PORTS: [&str; 8] = ["-t", "none", "-u", "none", "-T", "none", "-U", "none"];

/// Runs `test` on a host with a default route.
pub(crate) fn on_host(test: impl FnOnce() + Send) {
    let commands: [&[&str]; 8] = [
        &["addr", "add", "10.99.0.1/32", "dev", "lo"],
        &["addr", "add", "10.98.0.1/32", "dev", "lo"],
        &["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"],
        &["addr", "add", "10.77.0.20/24", "dev", "eth0"],
        &["-6", "addr", "add", "2001:db8:77::20/64", "dev", "eth0", "nodad"],
        &["link", "set", "eth0", "up"],
        &["route", "add", "default", "via", "10.77.0.1"],
        &["-6", "route", "add", "default", "via", "fe80::1", "dev", "eth0"],
    ];
    in_configured_network(enter_new_network, &commands, test);
}

/// A guest: a thread in a network namespace of its own, which runs what it is given.
pub(crate) struct Guest {
    pub(crate) namespace: String,
    thread: NetworkThread,
}

impl Guest {
    pub(crate) fn new() -> Self {
        let thread = NetworkThread::start(enter_new_network);
        Self { namespace: thread.namespace().to_owned(), thread }
    }

    /// Runs `work` in the namespace of the guest, and returns its result.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.thread.run(TIMEOUT, work)
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        self.run(move || {
            let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok(stream)
        })
    }

    /// Runs a program in the namespace of the guest, and returns its output.
    pub(crate) fn output(&self, words: &[&str]) -> String {
        let (program, arguments) = words.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments);
        self.run(move || String::from_utf8(command.output().unwrap().stdout).unwrap())
    }
}

/// Returns plumb under the name of another program.
pub(crate) fn named(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg0(name).args(arguments).stdin(Stdio::null());
    command
}

/// Runs plumb to its end, and returns its standard error and exit code.
pub(crate) fn failure(name: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let Output { stderr, status, .. } = named(name, arguments).output().unwrap();
    (String::from_utf8(stderr).unwrap(), status.code())
}

/// A directory that is removed at the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("plumb-drop-in-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// pasta in the background.
pub(crate) struct Pasta {
    pub(crate) id: u32,
    _directory: Directory,
}

impl Pasta {
    /// Starts pasta and waits until its foreground process has exited with code 0.
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let directory = Directory::new(name);
        let file = directory.path("pid");
        // A caller waits for the end of the output too.
        let Output { stderr, status, .. } =
            named("pasta", &["--pid", &file]).args(arguments).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let id = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        Self { id, _directory: directory }
    }

    pub(crate) fn is_running(&self) -> bool {
        is_running(self.id)
    }

    pub(crate) fn wait_for_end(&self) {
        poll_until_timeout(|| (!self.is_running()).then_some(()));
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.id).ok().and_then(rustix::process::Pid::from_raw);
        // Fails if the process has ended already.
        _ = rustix::process::kill_process(id.unwrap(), signal);
    }

    /// Returns the processes that pasta has started.
    pub(crate) fn children(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.id);
        let text = std::fs::read_to_string(path).unwrap();
        text.split_ascii_whitespace().map(|id| id.parse().unwrap()).collect()
    }
}

impl Drop for Pasta {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

/// Returns whether a process exists and has not ended.
pub(crate) fn is_running(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

/// A program in the foreground, which is killed at the end.
pub(crate) struct Foreground(pub(crate) Child);

impl Drop for Foreground {
    fn drop(&mut self) {
        // Fails if the program has ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub(crate) fn listen(address: Ipv4Addr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(crate) fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let (stream, from) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    (stream, from)
}

/// Returns whether pasta can run a command. As root, it first becomes an unprivileged user. On
/// machines with udev, every user may open the device of TUN and TAP.
pub(crate) fn may_run_commands() -> bool {
    let mode = std::fs::metadata("/dev/net/tun").map_or(0, |device| device.mode());
    let may_run = mode & 0o006 == 0o006;
    if !may_run {
        not_configured("/dev/net/tun", "only some users may open it");
    }
    may_run
}

/// Returns a port of loopback at which nothing listens.
pub(crate) fn free_port() -> u16 {
    listen(Ipv4Addr::LOCALHOST).1.port()
}

/// Greets every client of `listener`.
pub(crate) fn greet(listener: TcpListener) {
    use std::io::Write;
    thread::spawn(move || {
        listener.incoming().for_each(|stream| drop(stream.unwrap().write_all(b"hello")));
    });
}

pub(crate) fn read_greeting(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Returns the names in the root directory of a process.
pub(crate) fn root_of(id: u32) -> Vec<String> {
    let root = Path::new("/proc").join(id.to_string()).join("root");
    let names = std::fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
