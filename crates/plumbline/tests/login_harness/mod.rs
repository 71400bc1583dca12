//! Shared parts of the tests with real peers: a network namespace, servers, and a user at a
//! terminal.

pub(crate) mod llp_station;
pub(crate) mod names;
pub(crate) mod relay;
pub(crate) mod serial_peer;
pub(crate) mod serve_process;
pub(crate) mod tcp_urgent;
pub(crate) mod terminal_relay;

use net::Cx;
use net::meter::Meter;
use net::rng::Rng;
use net::time::{Duration, Instant};
use os::clock::Monotonic;
use os::interface::Interface;
use os::process::Program;
use os::pty::{Pty, PtyProgram};
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::tty::WindowSize;
use os::tun::Tun;
use protocols::terminal::Terminal;
use rustix::termios::{LocalModes, tcgetattr};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use test_support::peers;

pub(crate) use test_support::poll_until_timeout;

/// Address of the servers: the kernel's end of the TUN.
pub(crate) const SERVER: &str = "10.0.0.1";
const SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };
/// Number of bytes after which the output buffer of a terminal counts as full, slightly below
/// Linux's limit of 4095 bytes.
const TERMINAL_LEN: u64 = 4000;
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `test` in a new network namespace with a TUN for plumb.
pub(crate) fn in_new_network(test: impl FnOnce() + Send + 'static) {
    in_configured_network(
        &[
            &["tuntap", "add", "plumb0", "mode", "tun"],
            &["address", "add", "10.0.0.1/24", "dev", "plumb0"],
            &["link", "set", "plumb0", "up"],
        ],
        test,
    );
}

/// Runs `test` in a new network namespace, configured by `ip` with these arguments.
pub(crate) fn in_configured_network(
    arguments: &'static [&'static [&'static str]],
    test: impl FnOnce() + Send + 'static,
) {
    test_support::in_configured_network(os::namespace::enter_new_network, arguments, test);
}

/// Creates a TUN with the subnets 10.9.0.0/24 and 2001:db8:9::/64, in which no host answers. The
/// subnets exist until the returned TUN is dropped.
pub(crate) fn quiet_network() -> Tun {
    let tun = Tun::open(Some("quiet0")).unwrap();
    let interface = Interface::named("quiet0").unwrap();
    interface.set_address(Ipv4Addr::new(10, 9, 0, 1), 24).unwrap();
    interface.bring_up().unwrap();
    interface.add_address6(Ipv6Addr::new(0x2001, 0xDB8, 9, 0, 0, 0, 0, 1), 64).unwrap();
    tun
}

/// Waits until a packet of this IP protocol has been sent to `address` in one of the subnets of
/// `quiet`.
pub(crate) fn wait_for_unanswered_packet(quiet: &Tun, protocol: u8, address: IpAddr) {
    let mut packet = [0; 1500];
    poll_until_timeout(|| {
        let count = quiet.read(&mut packet).unwrap()?;
        let packet = &packet[..count];
        let (of, to) = match address {
            IpAddr::V4(_) => (packet.get(9)?, packet.get(16..20)?),
            IpAddr::V6(_) => (packet.get(6)?, packet.get(24..40)?),
        };
        let wanted = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        (*of == protocol && to == wanted).then_some(())
    });
}

/// Listens at a free port of every IPv4 address.
pub(crate) fn listen() -> TcpListener {
    TcpListener::bind("0.0.0.0:0").unwrap()
}

/// Listens at a free port of every address of both families.
pub(crate) fn listen_to_both() -> TcpListener {
    TcpListener::bind("[::]:0").unwrap()
}

/// Starts a server that echoes to one client until the client closes; returns the port.
pub(crate) fn echo_once() -> (u16, JoinHandle<()>) {
    let listener = listen();
    let port = listener.local_addr().unwrap().port();
    let echo = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        loop {
            match client.read(&mut bytes).unwrap() {
                0 => return,
                count => client.write_all(&bytes[..count]).unwrap(),
            }
        }
    });
    (port, echo)
}

/// Returns a command that runs `plumb login`.
pub(crate) fn plumb() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.arg("login").env("TERM", "dumb");
    command
}

/// TCP implementation below the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TcpStack {
    Kernel,
    Tun,
}

impl TcpStack {
    pub(crate) fn arguments(self) -> [&'static str; 2] {
        match self {
            Self::Kernel => ["--via", "kernel"],
            Self::Tun => ["--via", "tun:plumb0"],
        }
    }

    /// Returns the name of this TCP implementation in the client's status output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "TCP: kernel",
            Self::Tun => "TCP: plumb's own",
        }
    }
}

/// A Telnet server from Debian.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Server {
    Inetutils,
    /// inetutils telnetd with line editing by the client (RFC 1184 LINEMODE).
    InetutilsLinemode,
    Busybox,
}

/// A running server and its port.
#[derive(Debug)]
pub(crate) struct Running {
    port: u16,
    /// The server's process; `None` until it has started.
    _program: Arc<Mutex<Option<Program>>>,
}

impl Running {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Server {
    /// Starts a server that gives a shell to each client.
    pub(crate) fn start(self) -> Running {
        match self {
            Self::Inetutils => start_inetutils(listen(), &[]),
            Self::InetutilsLinemode => start_inetutils(listen(), &["--linemode"]),
            Self::Busybox => start_busybox("/bin/sh"),
        }
    }
}

/// Starts a server that runs `program` for each client.
pub(crate) fn start_busybox(program: &str) -> Running {
    let mut command = peers::BUSYBOX.command();
    command.args(["telnetd", "-F", "-p", "2324", "-l", program]);
    let program = Program::start(&mut command).unwrap();
    poll_until_timeout(|| TcpStream::connect((SERVER, 2324)).ok());
    Running { port: 2324, _program: Arc::new(Mutex::new(Some(program))) }
}

/// Accepts one client, and starts the inetutils server on that connection, as inetd does. The
/// server is killed when the result is dropped, because a client on plumb's own TCP may end without
/// closing the connection.
pub(crate) fn start_inetutils(
    listener: TcpListener,
    arguments: &'static [&'static str],
) -> Running {
    let port = listener.local_addr().unwrap().port();
    let mut command = peers::INETUTILS_TELNETD.command();
    let program = Arc::new(Mutex::new(None));
    let thread_program = Arc::clone(&program);
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let socket = OwnedFd::from(client);
        command.args(["-h", "-E", "/bin/sh"]).args(arguments);
        command.stdin(Stdio::from(socket.try_clone().unwrap()));
        command.stdout(Stdio::from(socket)).stderr(Stdio::null());
        *thread_program.lock().unwrap() = Some(Program::start(&mut command).unwrap());
    });
    Running { port, _program: program }
}

/// A user at a terminal that runs `plumb login`.
pub(crate) struct TerminalUser {
    pty: PtyProgram,
    terminal: Terminal,
    /// All output so far, including lines that have scrolled off the screen.
    written: String,
    rng: Rng,
    meter: Meter,
}

impl TerminalUser {
    /// Starts `plumb login` to this port of the server.
    pub(crate) fn log_in(tcp_stack: TcpStack, port: u16) -> Self {
        let [via, tcp_stack] = tcp_stack.arguments();
        Self::with_arguments(&[via, tcp_stack, SERVER, &port.to_string()])
    }

    /// Starts `plumb login` with these arguments.
    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        let mut command = plumb();
        command.args(arguments);
        Self::run(command)
    }

    /// Starts `plumb login` with these arguments and a password for PPP.
    pub(crate) fn with_password(password: &str, arguments: &[&str]) -> Self {
        let mut command = plumb();
        command.args(arguments).env("PLUMB_PPP_PASSWORD", password);
        Self::run(command)
    }

    /// Starts a command that runs `plumb login`.
    pub(crate) fn run(command: Command) -> Self {
        Self {
            pty: Pty::open(SIZE).unwrap().start(command).unwrap(),
            terminal: Terminal::new(SIZE.columns, SIZE.rows),
            written: String::new(),
            rng: Rng::from_seed(1),
            meter: Meter::off(),
        }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        assert_eq!(self.pty.write(keys.as_bytes()).unwrap(), Some(keys.len()));
    }

    /// Waits until the terminal's output buffer is full, without reading from it.
    pub(crate) fn wait_for_full_display(&mut self) {
        let unread_bytes = || rustix::io::ioctl_fionread(&self.pty).unwrap();
        poll_until_timeout(|| (unread_bytes() >= TERMINAL_LEN).then_some(()));
    }

    pub(crate) fn set_window_size(&mut self, size: WindowSize) {
        self.terminal.resize(size.columns, size.rows);
        self.pty.resize(size).unwrap();
    }

    pub(crate) fn send_signal(&mut self, signal: rustix::process::Signal) {
        self.pty.program().signal(signal).unwrap();
    }

    /// Waits for the shell's prompt, and changes the prompt to a text that no command contains.
    pub(crate) fn wait_for_shell(&mut self) {
        self.wait_for_text("# ");
        self.type_keys("PS1=rea''dy:\r");
        self.wait_for_text("ready:");
    }

    /// Waits until `text` has been written. Lines on the screen end with `\n`.
    pub(crate) fn wait_for_text(&mut self, text: &str) {
        self.wait_for_text_within(text, WAIT_TIMEOUT);
    }

    /// Waits until `text` has been written, for at most this time.
    pub(crate) fn wait_for_text_within(&mut self, text: &str, timeout: Duration) {
        let clock = Monotonic::start();
        let until = clock.now() + timeout;
        while !self.has_seen(text) {
            let mut ready = [PollFd::new(&self.pty, PollFlags::IN)];
            let wake = wait(&mut ready, &clock, Some(until)).unwrap();
            assert!(matches!(wake, Wake::Ready(_)), "no '{text}' on:\n{}", self.screen());
            assert!(self.read(), "plumb has gone, and no '{text}' on:\n{}", self.screen());
        }
    }

    fn has_seen(&self, text: &str) -> bool {
        self.screen().contains(text) || self.written.contains(text)
    }

    /// Reads once; returns whether the program still has the terminal open.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.pty.read(&mut bytes).unwrap() {
            Some(0) => return false,
            Some(count) => {
                let now = Instant::ZERO;
                let rng = &mut self.rng;
                let meter = &mut self.meter;
                self.terminal.receive(&bytes[..count], &mut Cx { now, rng, meter });
                self.written.push_str(&String::from_utf8_lossy(&bytes[..count]).replace('\r', ""));
            }
            None => {}
        }
        true
    }

    /// Reads output for this time.
    pub(crate) fn read_for(&mut self, time: Duration) {
        let clock = Monotonic::start();
        let until = clock.now() + time;
        loop {
            let mut ready = [PollFd::new(&self.pty, PollFlags::IN)];
            let wake = wait(&mut ready, &clock, Some(until)).unwrap();
            if !matches!(wake, Wake::Ready(_)) || !self.read() {
                return;
            }
        }
    }

    pub(crate) fn screen(&self) -> String {
        self.terminal.text()
    }

    /// Returns the emulated terminal in its current modes.
    pub(crate) fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Waits until plumb has ended, and reads its output.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let status = self.pty.program().wait_for_end(WAIT_TIMEOUT).unwrap();
        let status = status.unwrap_or_else(|| panic!("plumb still runs:\n{}", self.screen()));
        while self.has_unread() && self.read() {}
        status
    }

    /// Reads the display until plumb has ended.
    pub(crate) fn read_until_exit(&mut self) -> ExitStatus {
        poll_until_timeout(|| (!self.read()).then_some(()));
        self.wait_for_exit()
    }

    /// Returns all output so far.
    pub(crate) fn all_output(&self) -> &str {
        &self.written
    }

    fn has_unread(&self) -> bool {
        let clock = Monotonic::start();
        let mut ready = [PollFd::new(&self.pty, PollFlags::IN)];
        matches!(wait(&mut ready, &clock, Some(clock.now())), Ok(Wake::Ready(_)))
    }

    /// Checks that the terminal edits lines, echoes and handles ^C as before.
    pub(crate) fn assert_sane_terminal(&self) {
        let modes = tcgetattr(&self.pty).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
    }
}
