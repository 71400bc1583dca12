//! Guests in network namespaces, and the shipped program as their gateway.
//!
//! Each test has its own network namespace, which stands for the host: 10.99.0.1 is one of its
//! addresses. A guest is a thread in another namespace.

use os::namespace::enter_new_network;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{NetworkThread, ProgramLog, in_configured_network, poll_until_timeout};

pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub(crate) const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
pub(crate) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// Permits the network of [`HOST`].
pub(crate) const ALLOW_HOST: [&str; 2] = ["--allow", "10.99.0.0/16"];
/// Timeout of a program that a guest runs.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(300);

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

    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.run(move || {
            let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok(stream)
        })
    }

    /// Runs a program in the namespace of the guest, and returns its output.
    pub(crate) fn output(&self, mut command: Command) -> Output {
        command.stdin(Stdio::null());
        self.thread.run(PROGRAM_TIMEOUT, move || command.output().unwrap())
    }

    /// Runs a program in the namespace of the guest, and returns its standard output.
    ///
    /// # Panics
    ///
    /// Panics if the program fails.
    pub(crate) fn stdout(&self, command: Command) -> Vec<u8> {
        let name = format!("{command:?}");
        let output = self.output(command);
        assert!(
            output.status.success(),
            "{name}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }
}

/// A running gateway, which is killed at the end.
pub(crate) struct Gateway {
    pub(crate) child: Child,
    pub(crate) log: ProgramLog,
}

impl Gateway {
    /// Starts a gateway for `guest`, and waits until it is ready.
    pub(crate) fn start(guest: &Guest, arguments: &[&str]) -> Self {
        Self::start_command(command(&format!("netns:{}", guest.namespace), arguments))
    }

    /// Starts a gateway that finds `resolv_conf` at /etc/resolv.conf, and waits until it is ready.
    pub(crate) fn start_with_resolvers(
        guest: &Guest,
        resolv_conf: &TestFile,
        arguments: &[&str],
    ) -> Self {
        let gateway = command(&format!("netns:{}", guest.namespace), arguments);
        Self::start_command(with_mount(resolv_conf, "/etc/resolv.conf", &gateway))
    }

    /// Starts `command`, and waits until it is ready.
    pub(crate) fn start_command(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = ProgramLog::read(child.stderr.take().unwrap());
        log.wait_for("10.0.2.100");
        Self { child, log }
    }

    /// Waits until the gateway ends.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails if the gateway has ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Returns the command of a gateway.
pub(crate) fn command(guest: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg("gateway").arg(guest).args(arguments).stdin(Stdio::null());
    command
}

/// Starts plumb as slirp4netns, and returns it with the log of its standard output.
pub(crate) fn slirp4netns(arguments: &[&str]) -> (Child, ProgramLog) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg0("slirp4netns").args(arguments).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let log = ProgramLog::read(child.stdout.take().unwrap());
    (child, log)
}

/// Returns `command` in a mount namespace of its own, in which `file` is mounted at `path`.
pub(crate) fn with_mount(file: &TestFile, path: &str, command: &Command) -> Command {
    let mut mounted = Command::new("unshare");
    let script = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";
    mounted.args(["--mount", "sh", "-c", script]).arg(&file.0).arg(path);
    mounted.arg(command.get_program()).args(command.get_args());
    mounted
}

/// Waits until the guest has an IPv6 address of the gateway's network.
pub(crate) fn wait_for_ipv6(guest: &Guest) {
    poll_until_timeout(|| {
        let mut command = Command::new("ip");
        command.args(["-6", "-o", "address", "show", "dev", "tap0", "scope", "global"]);
        let text = String::from_utf8(guest.stdout(command)).unwrap();
        (text.contains("fd00:") && !text.contains("tentative")).then_some(())
    });
}

/// Runs `test` in a new network namespace with the addresses of the host.
pub(crate) fn in_host_network(test: impl FnOnce() + Send) {
    let host = format!("{HOST}/32");
    let private = format!("{PRIVATE}/32");
    let addresses: [&[&str]; 2] =
        [&["addr", "add", &host, "dev", "lo"], &["addr", "add", &private, "dev", "lo"]];
    in_configured_network(enter_new_network, &addresses, test);
}

pub(crate) fn listen(address: Ipv4Addr) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(crate) fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    accept_within(TIMEOUT, listener)
}

/// Accepts a connection of a client that may need `limit` to connect and to send.
pub(crate) fn accept_within(limit: Duration, listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let timeout = Timespec::try_from(limit).unwrap();
    let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
    assert_eq!(ready, Ok(1), "no connection within {limit:?}");
    let (stream, from) = listener.accept().unwrap();
    stream.set_read_timeout(Some(limit)).unwrap();
    (stream, from)
}

/// Returns bytes that repeat only after a long period.
pub(crate) fn test_data(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = net::rng::Rng::from_seed(seed);
    std::iter::repeat_with(|| rng.next_u64().to_le_bytes()).flatten().take(len).collect()
}

/// A file or a directory with a name of its own, which is removed at the end.
pub(crate) struct TestFile(pub(crate) PathBuf);

impl TestFile {
    /// Returns a new name, without a file.
    pub(crate) fn unused(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-gateway-{name}-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn new(name: &str, content: &[u8]) -> Self {
        let file = Self::unused(name);
        std::fs::write(&file.0, content).unwrap();
        file
    }

    pub(crate) fn directory(name: &str) -> Self {
        let directory = Self::unused(name);
        std::fs::create_dir_all(&directory.0).unwrap();
        directory
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Returns the path of a file in this directory.
    pub(crate) fn join(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        // A file that is left behind does no harm.
        _ = std::fs::remove_file(&self.0).or_else(|_| std::fs::remove_dir_all(&self.0));
    }
}

/// Receives a datagram, and returns its length and its source.
pub(crate) fn receive_from(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(buffer) {
            // A process that was stopped continues.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received.unwrap(),
        }
    }
}

/// Reads until the end of the stream.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut data = Vec::new();
    stream.read_to_end(&mut data).unwrap();
    data
}
