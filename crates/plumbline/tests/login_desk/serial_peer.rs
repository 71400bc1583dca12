//! Programs of Debian at the other end of a serial line: SLIP and PPP that are not ours.
//!
//! The program has a pseudo-terminal of its own, plumb has another, and what is written to one is
//! written to the other: a null modem.

use os::clock::Monotonic;
use os::pty::{Pty, PtyProgram};
use os::readiness::{PollFd, PollFlags, Wake, wait};
use protocols::time::Duration;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use test_support::peers;

/// A line with a program at its other end, until it is dropped.
pub(crate) struct SerialPeer {
    device: PathBuf,
    /// Where the program finds its secrets.
    home: PathBuf,
    /// Dropped, it ends the relay and with it the program.
    _held: UnixStream,
}

impl SerialPeer {
    /// Starts slirp, which connects what comes on the line by the kernel's sockets.
    ///
    /// The package's other program, slirp itself, ends at once on a system whose `select` refuses
    /// a negative time.
    pub(crate) fn slirp(settings: &[&str]) -> Self {
        let home = new_home();
        for file in [".pap-secrets", ".chap-secrets"] {
            std::fs::write(home.join(file), "guest * right\n").unwrap();
        }
        let mut command = peers::SLIRP.command();
        command.args(settings).arg("host address 10.0.0.1").env("HOME", &home);
        Self::start(command, home, "SLiRP Ready ...").expect("slirp is ready")
    }

    /// Starts pppd with addresses for both ends, or says why it does not run here.
    pub(crate) fn pppd() -> Result<Self, String> {
        let mut command = peers::PPPD.command();
        command.args(["nodetach", "local", "noauth", "debug", "logfd", "2"]);
        command.args(["10.1.0.1:10.1.0.2"]);
        Self::start(command, new_home(), "sent [LCP ConfReq")
    }

    /// Starts `command` on a terminal, and joins the line to it once it has said `sign`.
    fn start(command: Command, home: PathBuf, sign: &str) -> Result<Self, String> {
        let program = Pty::open(super::SIZE).unwrap().start(command).unwrap();
        let clock = Monotonic::start();
        let until = clock.now() + super::LIMIT;
        let (mut said, mut bytes) = (String::new(), [0; 4096]);
        while !said.contains(sign) {
            let mut ready = [PollFd::new(&program, PollFlags::IN)];
            let wake = wait(&mut ready, &clock, Some(until)).unwrap();
            match program.read(&mut bytes).unwrap() {
                Some(0) => return Err(said),
                Some(count) => said.push_str(&String::from_utf8_lossy(&bytes[..count])),
                None => assert!(matches!(wake, Wake::Ready(_)), "no '{sign}' in:\n{said}"),
            }
        }
        let line = Pty::open(super::SIZE).unwrap();
        let device = line.path().to_owned();
        let (held, ended) = UnixStream::pair().unwrap();
        thread::spawn(move || relay(&line, &program, &ended));
        Ok(Self { device, home, _held: held })
    }

    /// Returns the way to it, with further settings.
    pub(crate) fn via(&self, settings: &str) -> String {
        format!("serial:{}?baud=115200&{settings}", self.device.display())
    }
}

impl Drop for SerialPeer {
    fn drop(&mut self) {
        // A folder that stays is in nobody's way.
        _ = std::fs::remove_dir_all(&self.home);
    }
}

/// Makes a folder that no other test has.
fn new_home() -> PathBuf {
    let test = format!("{:?}", thread::current().id());
    let number: String = test.chars().filter(char::is_ascii_digit).collect();
    let name = format!("plumb-serial-peer-{}-{number}", std::process::id());
    let home = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&home).unwrap();
    home
}

/// Carries bytes both ways until the other end of `ended` is gone.
fn relay(line: &Pty, program: &PtyProgram, ended: &UnixStream) {
    let (clock, mut bytes) = (Monotonic::start(), [0; 4096]);
    let limit = clock.now() + Duration::from_secs(60);
    loop {
        let mut ready = [
            PollFd::new(ended, PollFlags::IN),
            PollFd::new(line, PollFlags::IN),
            PollFd::new(program, PollFlags::IN),
        ];
        let wake = wait(&mut ready, &clock, Some(limit)).unwrap();
        let [is_over, ..] = ready.map(|descriptor| !descriptor.revents().is_empty());
        if is_over || !matches!(wake, Wake::Ready(_)) {
            return;
        }
        if let Some(count) = line.read(&mut bytes).unwrap() {
            write_all(&bytes[..count], |rest| program.write(rest).unwrap());
        }
        match program.read(&mut bytes).unwrap() {
            Some(0) => return,
            Some(count) => write_all(&bytes[..count], |rest| line.write(rest).unwrap()),
            None => {}
        }
    }
}

/// Writes all of `bytes`; a terminal that is full for long has nobody who reads it.
fn write_all(bytes: &[u8], mut write: impl FnMut(&[u8]) -> Option<usize>) {
    let mut rest = bytes;
    super::within_the_limit(|| {
        rest = &rest[write(rest).unwrap_or(0)..];
        rest.is_empty().then_some(())
    });
}
