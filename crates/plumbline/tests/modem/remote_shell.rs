//! A shell of a remote host behind plain TCP or a serial line, which can damage bytes.

use crate::login_harness::{poll_until_timeout, terminal_relay};
use os::pty::{Pty, PtyProgram};
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::tty::WindowSize;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };

/// Damage of the line: the byte `first` of a direction is changed, and then one byte per interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    ToUser { first: usize, interval: usize },
    ToHost { first: usize, interval: usize },
}

/// A shell whose prompt is `ready:`, killed on drop.
pub(crate) struct RemoteShell {
    pub(crate) destination: String,
    faults: Arc<AtomicUsize>,
    /// Dropping this socket ends the relay, and the end of the relay ends the shell.
    _held: UnixStream,
}

/// Starts `program`, a shell.
fn shell(program: &str) -> PtyProgram {
    let mut command = Command::new("/bin/sh");
    // The first line starts the shell: until plumb has opened the line, the line echoes its output.
    command.args(["-c", &format!("read line; exec {program}")]);
    command.env("PS1", "ready:").env("TERM", "dumb").env_remove("ENV");
    // In the locale C, the line editor of bash reads the eighth bit as the meta key.
    command.env("LC_ALL", "C.UTF-8");
    Pty::open(SIZE).unwrap().start(command).unwrap()
}

impl RemoteShell {
    /// Starts a shell behind a serial line.
    pub(crate) fn over_serial_line() -> Self {
        let program = shell("sh");
        let line = Pty::open(SIZE).unwrap();
        let destination = format!("serial:{}?baud=115200", line.path().display());
        let (held, ended) = UnixStream::pair().unwrap();
        thread::spawn(move || terminal_relay::run(&line, &program, &ended));
        Self { destination, faults: Arc::default(), _held: held }
    }

    /// Starts a shell that serves one client on plain TCP.
    pub(crate) fn over_tcp(fault: Fault) -> Self {
        Self::start("sh", fault)
    }

    /// Starts `program`, a shell, which serves one client on plain TCP.
    pub(crate) fn running(program: &str) -> Self {
        Self::start(program, Fault::None)
    }

    fn start(program: &str, fault: Fault) -> Self {
        let program = program.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let destination = format!("tcp://{}", listener.local_addr().unwrap());
        let (held, ended) = UnixStream::pair().unwrap();
        let faults = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&faults);
        thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            client.set_nonblocking(true).unwrap();
            relay(client, &shell(&program), &ended, fault, &counted);
        });
        Self { destination, faults, _held: held }
    }

    /// Returns the number of damaged bytes.
    pub(crate) fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }
}

/// Relays bytes in both directions until one end closes.
fn relay(
    mut client: TcpStream,
    program: &PtyProgram,
    ended: &UnixStream,
    fault: Fault,
    faults: &AtomicUsize,
) {
    let clock = os::clock::Monotonic::start();
    let limit = clock.now() + net::time::Duration::from_secs(60);
    let mut bytes = [0; 4096];
    let mut next = match fault {
        Fault::None => usize::MAX,
        Fault::ToUser { first, .. } | Fault::ToHost { first, .. } => first,
    };
    let mut damage = |bytes: &mut [u8], interval: usize| {
        if let Some(byte) = bytes.get_mut(next) {
            *byte ^= 0x04;
            faults.fetch_add(1, Ordering::Relaxed);
            next += interval;
        }
        next = next.saturating_sub(bytes.len());
    };
    loop {
        let mut ready = [
            PollFd::new(ended, PollFlags::IN),
            PollFd::new(&client, PollFlags::IN),
            PollFd::new(program, PollFlags::IN),
        ];
        let wake = wait(&mut ready, &clock, Some(limit)).unwrap();
        let [is_over, ..] = ready.map(|descriptor| !descriptor.revents().is_empty());
        if is_over || !matches!(wake, Wake::Ready(_)) {
            return;
        }
        match client.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => {
                if let Fault::ToHost { interval, .. } = fault {
                    damage(&mut bytes[..count], interval);
                }
                let output = write_to_program(program, &bytes[..count]);
                write_all(&output, |rest| client.write(rest).ok());
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        match program.read(&mut bytes).unwrap() {
            Some(0) => return,
            Some(count) => {
                if let Fault::ToUser { interval, .. } = fault {
                    damage(&mut bytes[..count], interval);
                }
                write_all(&bytes[..count], |rest| client.write(rest).ok());
            }
            None => {}
        }
    }
}

/// Writes all of `bytes`; returns the output of the program in this time, without which it may not read.
fn write_to_program(program: &PtyProgram, bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    write_all(bytes, |rest| {
        let written = program.write(rest).unwrap();
        let mut buffer = [0; 4096];
        if written.is_none()
            && let Some(count) = program.read(&mut buffer).unwrap()
        {
            output.extend_from_slice(&buffer[..count]);
        }
        written
    });
    output
}

fn write_all(bytes: &[u8], mut write: impl FnMut(&[u8]) -> Option<usize>) {
    let mut rest = bytes;
    poll_until_timeout(|| {
        rest = &rest[write(rest).unwrap_or(0)..];
        rest.is_empty().then_some(())
    });
}
