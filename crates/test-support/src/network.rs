//! Network namespaces for tests, as root and as any other user.
//!
//! As root, the thread of the test enters a new network namespace. For other users the kernel
//! permits this only in a single-threaded process, which a test program never is. In that case the
//! test program starts a new process of itself that runs only this test, as root of a new user
//! namespace.

use crate::poll::poll_until_timeout;
use std::fmt::Display;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::{env, panic, thread};

/// Environment variable that is set if the test program runs a single test in a user namespace.
const IN_USER_NAMESPACE: &str = "PLUMB_TEST_IN_USER_NAMESPACE";

/// Runs `test` in a thread that `enter` has moved into a new network namespace.
///
/// # Panics
///
/// Panics if the test panics, or if this machine permits neither a network namespace nor a user
/// namespace.
pub fn in_new_network<E: Display>(
    enter: impl FnOnce() -> Result<(), E> + Send,
    test: impl FnOnce() + Send,
) {
    let name = thread::current().name().unwrap_or_default().to_owned();
    let thread_name = name.clone();
    let work = move || match enter().map_err(|refused| refused.to_string()) {
        Ok(()) => test(),
        Err(refused) if env::var_os(IN_USER_NAMESPACE).is_some() => panic!("{refused}"),
        Err(refused) => run_as_own_root(&name, &refused),
    };
    let thread_result = thread::scope(|scope| {
        // The thread gets the name of the test, for messages and reports.
        let thread = thread::Builder::new().name(thread_name).spawn_scoped(scope, work);
        thread.unwrap_or_else(|error| panic!("cannot start a thread: {error}")).join()
    });
    if let Err(reason) = thread_result {
        panic::resume_unwind(reason);
    }
}

/// Like [`in_new_network`], in a network that iproute2's `ip` configures with each of
/// `arguments`.
///
/// # Panics
///
/// Panics as [`in_new_network`], or if `ip` fails.
pub fn in_configured_network<E: Display>(
    enter: impl FnOnce() -> Result<(), E> + Send,
    arguments: &[&[&str]],
    test: impl FnOnce() + Send,
) {
    in_new_network(enter, || {
        arguments.iter().for_each(|arguments| ip(arguments));
        test();
    });
}

/// Runs iproute2's `ip` in the network namespace of this thread.
///
/// # Panics
///
/// Panics if `ip` cannot be started or fails.
pub fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status();
    let status = status.unwrap_or_else(|error| panic!("cannot start ip: {error}"));
    assert!(status.success(), "ip {arguments:?}");
}

/// Adds an address to the loopback interface of the network namespace of this thread, and waits until
/// the kernel delivers datagrams to it: the kernel adds the route to an IPv6 address later.
///
/// # Panics
///
/// Panics if `ip` fails, or after ten seconds.
pub fn add_loopback_address(address: &str) {
    ip(&["address", "add", address, "dev", "lo"]);
    poll_until_timeout(|| {
        let socket = UdpSocket::bind((address, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        socket.send_to(b"x", socket.local_addr().ok()?).ok()?;
        socket.recv(&mut [0]).ok()
    });
}

/// Runs the test `name` in a new process, as root of a new user namespace with a new network
/// namespace.
fn run_as_own_root(name: &str, refused: &str) {
    let program = env::current_exe().unwrap_or_else(|error| panic!("{refused}; {error}"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net"]).arg(program);
    // Two threads, because libtest otherwise runs the test in the main thread, without its name.
    command.args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads=2"]);
    command.env(IN_USER_NAMESPACE, "1").stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{refused}; unshare: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("test result: ok. 1 passed"),
        "in a user namespace, because of: {refused}\n{stdout}{stderr}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_thread_in_the_new_network_has_the_name_of_the_test() {
        let name = thread::current().name().map(str::to_owned);
        let has_run = AtomicBool::new(false);
        let enter = || Ok::<(), String>(());
        in_new_network(enter, || {
            assert_eq!(thread::current().name().map(str::to_owned), name);
            has_run.store(true, Ordering::Relaxed);
        });
        assert!(has_run.into_inner());
    }

    #[test]
    fn a_test_without_permission_is_rerun_as_root_of_a_user_namespace() {
        let enter = || match env::var_os(IN_USER_NAMESPACE) {
            Some(_) => Ok(()),
            None => Err("refused"),
        };
        in_new_network(enter, || assert!(env::var_os(IN_USER_NAMESPACE).is_some()));
    }

    #[test]
    fn without_namespaces_the_test_fails_with_the_reason() {
        let attempt = || in_new_network(|| Err("no way in"), || {});
        if env::var_os(IN_USER_NAMESPACE).is_some() {
            return attempt();
        }
        let failed = panic::catch_unwind(attempt);
        let reason = failed.err().and_then(|reason| reason.downcast::<String>().ok());
        assert!(reason.is_some_and(|reason| reason.contains("no way in")));
    }
}
