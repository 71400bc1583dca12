//! Namespaces as a user who may nothing.
//!
//! The ordinary harness runs a test in a second thread, where the kernel grants no user
//! namespace. So this program is its own harness: root copies it to where anyone may run it,
//! and runs the copy as user 65534, once for each case.

use os::interface::Interface;
use os::namespace::{Refused, enter_new_network};
use os::packet_socket::{self, PacketSocket};
use os::tun::{self, Kind, Tun, TunError};
use os::veth;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, fs, io, process, sync::mpsc, thread};

const CASES: [(&str, fn()); 4] = [
    (
        "a_user_who_may_nothing_gets_a_network_of_their_own",
        a_user_who_may_nothing_gets_a_network_of_their_own,
    ),
    (
        "a_user_who_may_nothing_has_every_device_in_a_network_of_their_own",
        a_user_who_may_nothing_has_every_device_in_a_network_of_their_own,
    ),
    (
        "a_user_whose_process_has_two_threads_is_told_so",
        a_user_whose_process_has_two_threads_is_told_so,
    ),
    (
        "a_user_who_may_nothing_is_told_how_to_get_a_tun",
        a_user_who_may_nothing_is_told_how_to_get_a_tun,
    ),
];

fn a_user_who_may_nothing_gets_a_network_of_their_own() {
    match enter_new_network() {
        Ok(()) => {}
        Err(refused @ (Refused::ForbiddenBy { .. } | Refused::NotPermitted)) => {
            return eprintln!("skipped: {refused}");
        }
        Err(refused) => panic!("{refused}"),
    }
    assert!(rustix::process::geteuid().is_root());
    let loopback = Interface::named("lo").expect("a loopback");
    assert!(loopback.is_up().expect("its flags"));
    match Tun::open(Some("plumb0")) {
        Ok(tun) => assert_eq!(tun.name(), "plumb0"),
        Err(refused) => eprintln!("without a TUN: {refused}"),
    }
}

fn a_user_who_may_nothing_has_every_device_in_a_network_of_their_own() {
    if let Err(refused) = enter_new_network() {
        return eprintln!("skipped: {refused}");
    }
    for kind in [Kind::Tun, Kind::Tap] {
        let options = tun::Options { kind, is_offloading: true, ..tun::Options::default() };
        match Tun::open_with(None, options) {
            Ok(tun) => assert!(tun.offloads().is_some_and(|offloads| offloads.checksum)),
            Err(refused) => eprintln!("without a {kind}: {refused}"),
        }
    }
    match veth::make_pair("near", "far", None) {
        Ok(near) => near.bring_up().expect("up"),
        Err(refused) => return eprintln!("without a pair: {refused}"),
    }
    let options = packet_socket::Options { is_offloading: true, is_promiscuous: true };
    let socket = PacketSocket::open("near", options).expect("a packet socket");
    assert!(socket.has_offloads());
}

fn a_user_whose_process_has_two_threads_is_told_so() {
    let (end, wait_for_end) = mpsc::channel::<()>();
    let other = thread::spawn(move || wait_for_end.recv());
    let refused = enter_new_network().expect_err("one thread too many");
    assert!(matches!(refused, Refused::Threads(2)), "{refused}");
    drop(end);
    assert!(other.join().is_ok_and(|received| received.is_err()));
}

fn a_user_who_may_nothing_is_told_how_to_get_a_tun() {
    match Tun::open(Some("plumb0")).expect_err("no permission") {
        refused @ TunError::InterfaceNotPermitted(_, _) => {
            assert!(refused.to_string().contains("ip tuntap add dev plumb0 mode tun"));
        }
        TunError::DeviceNotPermitted | TunError::NoDevice => {}
        refused => panic!("{refused}"),
    }
}

fn main() -> ExitCode {
    if let Some(wanted) = env::args().nth(1).filter(|_| env::var_os(AS_NOBODY).is_some()) {
        let case = CASES.iter().find(|(name, _)| *name == wanted);
        case.expect("a case of that name").1();
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return ExitCode::SUCCESS;
    }
    let copy = match Copy::of_this_program() {
        Ok(copy) => copy,
        Err(error) => {
            eprintln!("skipped: cannot copy this program to the temporary folder: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let is_success = CASES.iter().all(|(name, _)| copy.runs_as_nobody(name));
    if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const AS_NOBODY: &str = "PLUMBLINE_TEST_AS_NOBODY";

/// A copy of this program that goes when it is dropped.
struct Copy(PathBuf);

impl Copy {
    fn of_this_program() -> io::Result<Self> {
        let copy = Self(env::temp_dir().join(format!("plumbline-nobody-{}", process::id())));
        fs::copy(env::current_exe()?, &copy.0)?;
        Ok(copy)
    }

    fn runs_as_nobody(&self, case: &str) -> bool {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&self.0);
        match command.arg(case).env(AS_NOBODY, "1").status() {
            Ok(status) => {
                eprintln!("test {case} ... {}", if status.success() { "ok" } else { "FAILED" });
                status.success()
            }
            Err(error) => {
                eprintln!("skipped {case}: cannot run setpriv: {error}");
                true
            }
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
