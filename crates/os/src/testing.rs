//! Helpers shared by the tests of this crate: network namespaces, readiness, and child processes.

use crate::batch::Batch;
use crate::clock::Monotonic;
use crate::device::Device;
use crate::readiness::{PollFd, PollFlags, Wake, wait};
use net::time::Duration;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::process::Command;
use std::task::Poll;
use test_support::not_configured;

/// Runs `test` in a new network namespace; panics if the machine permits no new namespace.
#[cfg(target_os = "linux")]
pub(crate) fn in_new_network(test: impl FnOnce() + Send) {
    test_support::in_new_network(crate::namespace::enter_new_network, test);
}

/// Returns whether the kernel permits an io_uring to the user of this process. If it does not, the
/// test is reported as not configured.
#[cfg(target_os = "linux")]
pub(crate) fn has_ring(batch: &Batch) -> bool {
    match batch.ring_error() {
        None => assert!(batch.has_ring()),
        Some(refused @ (Errno::NOSYS | Errno::PERM)) => {
            not_configured("kernel: io_uring", &refused.to_string());
        }
        Some(refused) => panic!("{refused}"),
    }
    batch.has_ring()
}

/// Returns whether the device segments UDP datagrams. If it does not (a TUN before Linux 6.2), the
/// test is reported as not configured.
#[cfg(target_os = "linux")]
pub(crate) fn segments_datagrams(device: &Device) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    if !device.has_uso() {
        assert!(version < (6, 2), "Linux {release} segments datagrams for a TUN");
        not_configured("kernel: TUN_F_USO4", &format!("Linux {release} is older than 6.2"));
    }
    device.has_uso()
}

/// Returns the result of an operation; panics if it is pending.
pub(crate) fn unwrap_ready<T>(outcome: Poll<T>) -> T {
    match outcome {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the operation is pending"),
    }
}

/// Waits until `descriptor` is readable; panics after ten seconds.
pub(crate) fn wait_until_readable(descriptor: &impl AsFd) {
    let clock = Monotonic::start();
    let until = clock.now() + Duration::from_secs(10);
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    let wake = wait(&mut descriptors, &clock, Some(until)).unwrap();
    assert_eq!(wake, Wake::Ready(1), "nothing to read for ten seconds");
}

/// Returns a command that runs the ignored test `name` of this program in a single thread.
pub(crate) fn this_program(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", name, "--nocapture", "--test-threads=1"]);
    command
}
