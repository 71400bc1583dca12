//! Tests of denial of service against the running servers. Each test runs an attack that succeeded
//! against an earlier version.
//!
//! No test depends on elapsed time. The work of a server is measured as processor time, relative to
//! the processor time of one password check. Progress is measured by the order of replies. Time
//! limits are ten times the documented values.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "denial/files.rs"]
mod files;
#[expect(dead_code, reason = "each crate of tests uses its part of it")]
mod ftp_harness;
#[expect(dead_code, reason = "each crate of tests uses its part of it")]
mod login_harness;
#[path = "denial/logins.rs"]
mod logins;
#[path = "denial/tftp_and_metrics.rs"]
mod tftp_and_metrics;

use ftp_harness::{Server, TestDirectories};
use net::time::Duration;
use os::process::Program;
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

/// Time limit for a server to exit after SIGTERM: ten times the documented two seconds.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Local addresses that serve as sources of connections.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Sixty local addresses, for attacks that per-source limits would otherwise stop.
fn many_sources() -> impl Iterator<Item = Ipv4Addr> {
    (1..61).map(|host| Ipv4Addr::new(127, 0, 1, host))
}

/// Connects from `source`, with a read timeout of one minute.
fn connect(source: Ipv4Addr, port: u16) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(source, 0)).unwrap();
    rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Closes a connection with a reset.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// An FTP control connection from a given source address, without a client program.
struct Control(BufReader<TcpStream>);

impl Control {
    fn new(source: Ipv4Addr, server: &Server) -> Self {
        Self(BufReader::new(connect(source, server.port)))
    }

    /// Sends commands without waiting for their replies.
    fn send_without_waiting(&mut self, commands: &str) {
        self.0.get_mut().write_all(commands.replace('\n', "\r\n").as_bytes()).unwrap();
    }

    /// Returns the code of the next reply, or 0 if the server has closed the connection.
    fn read_reply_code(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return 0;
            }
            if line.get(3..4) == Some(" ") {
                return line[..3].parse().unwrap();
            }
        }
    }

    fn send_and_read(&mut self, command: &str) -> u16 {
        self.send_without_waiting(&format!("{command}\n"));
        self.read_reply_code()
    }

    /// Logs in, and returns the replies to greeting, USER and PASS.
    fn log_in(&mut self, user: &str, password: &str) -> [u16; 3] {
        let greeting = self.read_reply_code();
        [
            greeting,
            self.send_and_read(&format!("USER {user}")),
            self.send_and_read(&format!("PASS {password}")),
        ]
    }

    /// Opens a data connection.
    fn passive(&mut self) -> TcpStream {
        self.send_without_waiting("EPSV\n");
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let port = line.split('|').nth(3).unwrap().parse().unwrap();
        connect(ATTACKER, port)
    }

    fn reset(self) {
        reset(self.0.into_inner());
    }
}

const WELCOME: [u16; 3] = [220, 331, 230];

/// Starts an FTP server with the user ann and anonymous users; `lines` go into its table `[ftp]`.
fn ftp_server(directories: &TestDirectories, lines: &str) -> Server {
    let users =
        directories.users_file(&format!("root = \"{}\"", directories.remote_path("").display()));
    let configuration = directories.local_path("serve.toml");
    fs::write(&configuration, format!("[ftp]\nanonymous = true\n{lines}")).unwrap();
    let configuration = configuration.to_str().unwrap();
    let words = ["--config", configuration, "--ftp-users", &users, "--ftp-listen", "127.0.0.1:0"];
    Server::start(directories, &words)
}

/// Returns the processor time that a program has used so far, in clock ticks.
fn processor_ticks(program: &Program) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Returns the resident memory of a program, in KiB.
fn resident_kib(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn thread_count(program: &Program) -> usize {
    fs::read_dir(format!("/proc/{}/task", program.id())).unwrap().count()
}

/// Sends SIGTERM to a server and checks that it exits within [`END_TIMEOUT`].
fn assert_exits(program: &mut Program) {
    program.signal(Signal::TERM).unwrap();
    let status = program.wait_for_end(END_TIMEOUT).unwrap();
    assert_eq!(status.expect("the server ends").code(), Some(0));
}

/// Reads from a connection until the peer closes it.
fn read_to_end_of_stream(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    bytes
}
