//! Relay between the terminal of a program and a serial line, like a null modem.

use net::time::Duration;
use os::clock::Monotonic;
use os::pty::{Pty, PtyProgram};
use os::readiness::{PollFd, PollFlags, Wake, wait};
use std::os::unix::net::UnixStream;

/// Relays bytes in both directions for at most a minute, until the other end of `ended` is closed.
pub(crate) fn run(line: &Pty, program: &PtyProgram, ended: &UnixStream) {
    let clock = Monotonic::start();
    let mut bytes = [0; 4096];
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

/// Writes all of `bytes`; gives up on a terminal that stays full because nothing reads it.
fn write_all(bytes: &[u8], mut write: impl FnMut(&[u8]) -> Option<usize>) {
    let mut rest = bytes;
    super::poll_until_timeout(|| {
        rest = &rest[write(rest).unwrap_or(0)..];
        rest.is_empty().then_some(())
    });
}
