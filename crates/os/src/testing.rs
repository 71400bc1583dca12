//! What the tests of this crate share: a network of their own, and a program of their own.

use crate::clock::Monotonic;
use crate::readiness::{PollFd, PollFlags, Wake, wait};
use protocols::time::Duration;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

/// Runs `test` in a network namespace of its own, or says why it cannot.
#[cfg(target_os = "linux")]
pub(crate) fn in_new_network(test: impl FnOnce() + Send + 'static) {
    // Root's namespace belongs to the thread, so that tests may run side by side.
    let name = thread::current().name().map(str::to_owned);
    let run = thread::spawn(move || match crate::namespace::enter_new_network() {
        Ok(()) => test(),
        Err(refused) => eprintln!("skipped {}: {refused}", name.unwrap_or_default()),
    });
    if let Err(panic) = run.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Waits until `descriptor` can be read; fails after ten seconds.
pub(crate) fn readable(descriptor: &impl AsFd) {
    let clock = Monotonic::start();
    let until = clock.now() + Duration::from_secs(10);
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    let wake = wait(&mut descriptors, &clock, Some(until)).unwrap();
    assert_eq!(wake, Wake::Ready(1), "nothing to read for ten seconds");
}

/// Returns a command that runs the ignored test `name` of this program in one thread.
pub(crate) fn this_program(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", name, "--nocapture", "--test-threads=1"]);
    command
}
