//! SLIP and PPP implementations of other projects, from Debian, at the other end of a serial line.
//!
//! The program and plumb each have a pseudo-terminal. A relay connects both pseudo-terminals like a
//! null modem.

use super::terminal_relay;
use os::clock::Monotonic;
use os::pty::Pty;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use test_support::peers;

/// A serial line with a program at its other end, killed on drop.
pub(crate) struct SerialPeer {
    device: PathBuf,
    /// Home directory in which the program finds its secrets.
    home: PathBuf,
    /// Dropping this socket ends the relay, and the end of the relay ends the program.
    _held: UnixStream,
}

impl SerialPeer {
    /// Starts slirp, which forwards the line's traffic through the kernel's sockets.
    ///
    /// The binary `slirp` of the same package exits at once on systems whose `select` rejects a
    /// negative timeout.
    pub(crate) fn slirp(settings: &[&str]) -> Self {
        let home = new_home();
        for file in [".pap-secrets", ".chap-secrets"] {
            std::fs::write(home.join(file), "guest * right\n").unwrap();
        }
        let mut command = peers::SLIRP.command();
        command.args(settings).arg("host address 10.0.0.1").env("HOME", &home);
        Self::start(command, home, "SLiRP Ready ...").expect("slirp is ready")
    }

    /// Starts pppd with addresses for both ends, or returns its output if it cannot run here.
    pub(crate) fn pppd() -> Result<Self, String> {
        let mut command = peers::PPPD.command();
        command.args(["nodetach", "local", "noauth", "debug", "logfd", "2"]);
        command.args(["10.1.0.1:10.1.0.2"]);
        Self::start(command, new_home(), "sent [LCP ConfReq")
    }

    /// Starts `command` on a terminal, and connects the terminal to the line once the program has
    /// printed `sign`.
    fn start(command: Command, home: PathBuf, sign: &str) -> Result<Self, String> {
        let program = Pty::open(super::SIZE).unwrap().start(command).unwrap();
        let clock = Monotonic::start();
        let until = clock.now() + super::WAIT_TIMEOUT;
        let mut messages = String::new();
        let mut bytes = [0; 4096];
        while !messages.contains(sign) {
            let mut ready = [PollFd::new(&program, PollFlags::IN)];
            let wake = wait(&mut ready, &clock, Some(until)).unwrap();
            match program.read(&mut bytes).unwrap() {
                Some(0) => return Err(messages),
                Some(count) => messages.push_str(&String::from_utf8_lossy(&bytes[..count])),
                None => assert!(matches!(wake, Wake::Ready(_)), "no '{sign}' in:\n{messages}"),
            }
        }
        let line = Pty::open(super::SIZE).unwrap();
        let device = line.path().to_owned();
        let (held, ended) = UnixStream::pair().unwrap();
        thread::spawn(move || terminal_relay::run(&line, &program, &ended));
        Ok(Self { device, home, _held: held })
    }

    /// Returns the `--via` argument for the line, with further settings.
    pub(crate) fn via(&self, settings: &str) -> String {
        format!("serial:{}?baud=115200&{settings}", self.device.display())
    }
}

impl Drop for SerialPeer {
    fn drop(&mut self) {
        // A directory that is left behind does no harm.
        _ = std::fs::remove_dir_all(&self.home);
    }
}

/// Creates a directory that no other test uses.
fn new_home() -> PathBuf {
    let test = format!("{:?}", thread::current().id());
    let number: String = test.chars().filter(char::is_ascii_digit).collect();
    let name = format!("plumb-serial-peer-{}-{number}", std::process::id());
    let home = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&home).unwrap();
    home
}
