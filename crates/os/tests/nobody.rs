//! Tests of network namespaces for an unprivileged user.
//!
//! The ordinary test harness runs a test in a second thread, where the kernel permits no user
//! namespace. Therefore this program is its own harness and runs itself once for each case:
//! directly if it runs as an unprivileged user; as user 65534, from a copy in a world-accessible
//! directory, if it runs as root.

#![expect(clippy::print_stdout, reason = "it is a harness")]

use plumbline_os::interface::Interface;
use plumbline_os::namespace::{Refused, enter_new_network};
use plumbline_os::packet_socket::{self, PacketSocket};
use plumbline_os::tun::{self, Kind, Tun, TunError};
use plumbline_os::veth;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs, process, sync::mpsc, thread};

/// A test case; the error is the reason for which it is not configured on this machine.
type Case = fn() -> Result<(), String>;

const CASES: [(&str, Case); 4] = [
    ("an_unprivileged_user_gets_a_separate_network", an_unprivileged_user_gets_a_separate_network),
    (
        "an_unprivileged_user_has_every_device_in_a_separate_network",
        an_unprivileged_user_has_every_device_in_a_separate_network,
    ),
    (
        "a_process_with_two_threads_is_named_as_the_reason",
        a_process_with_two_threads_is_named_as_the_reason,
    ),
    (
        "an_unprivileged_user_gets_instructions_for_a_tun",
        an_unprivileged_user_gets_instructions_for_a_tun,
    ),
];

/// Enters a new network namespace; this machine may forbid that to unprivileged processes.
fn enter() -> Result<(), String> {
    match enter_new_network() {
        Err(refused @ (Refused::ForbiddenBy { .. } | Refused::NotPermitted)) => {
            Err(refused.to_string())
        }
        entered => {
            entered.expect("a network");
            Ok(())
        }
    }
}

/// Opens a TUN or TAP; on this machine unprivileged processes may have no access to /dev/net/tun.
fn open(name: Option<&str>, options: tun::Options) -> Result<Tun, String> {
    match Tun::open_with(name, options) {
        Err(refused @ (TunError::DeviceNotPermitted | TunError::NoDevice)) => {
            Err(refused.to_string())
        }
        opened => Ok(opened.expect("a device")),
    }
}

fn an_unprivileged_user_gets_a_separate_network() -> Result<(), String> {
    enter()?;
    assert!(rustix::process::geteuid().is_root());
    let loopback = Interface::named("lo").expect("a loopback");
    assert!(loopback.is_up().expect("its flags"));
    assert_eq!(open(Some("plumb0"), tun::Options::default())?.name(), "plumb0");
    Ok(())
}

fn an_unprivileged_user_has_every_device_in_a_separate_network() -> Result<(), String> {
    enter()?;
    veth::make_pair("near", "far", None).expect("a pair").bring_up().expect("up");
    let options = packet_socket::Options { is_offloading: true, is_promiscuous: true };
    let socket = PacketSocket::open("near", options).expect("a packet socket");
    assert!(socket.has_offloads());
    for kind in [Kind::Tun, Kind::Tap] {
        let options = tun::Options { kind, is_offloading: true, ..tun::Options::default() };
        let tun = open(None, options)?;
        assert!(tun.offloads().is_some_and(|offloads| offloads.checksum));
    }
    Ok(())
}

fn a_process_with_two_threads_is_named_as_the_reason() -> Result<(), String> {
    let (end, wait_for_end) = mpsc::channel::<()>();
    let other = thread::spawn(move || wait_for_end.recv());
    let refused = enter_new_network().expect_err("one thread too many");
    assert!(matches!(refused, Refused::Threads(2)), "{refused}");
    drop(end);
    assert!(other.join().is_ok_and(|received| received.is_err()));
    Ok(())
}

fn an_unprivileged_user_gets_instructions_for_a_tun() -> Result<(), String> {
    match Tun::open(Some("plumb0")).expect_err("no permission") {
        refused @ TunError::InterfaceNotPermitted(_, _) => {
            assert!(refused.to_string().contains("ip tuntap add dev plumb0 mode tun"));
        }
        TunError::DeviceNotPermitted | TunError::NoDevice => {}
        refused => panic!("{refused}"),
    }
    Ok(())
}

fn main() -> ExitCode {
    if let Some(wanted) = env::args().nth(1).filter(|_| env::var_os(CASE_VARIABLE).is_some()) {
        let case = CASES.iter().find(|(name, _)| *name == wanted).expect("a case of that name");
        let Err(reason) = case.1() else { return ExitCode::SUCCESS };
        println!("{reason}");
        return ExitCode::from(NOT_CONFIGURED);
    }
    let program = Program::for_nobody();
    let failures = CASES.iter().filter(|(name, _)| !program.passes(name)).count();
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Environment variable that makes this program run one case.
const CASE_VARIABLE: &str = "PLUMB_TEST_AS_NOBODY";
/// Exit code of a case that is not configured; the reason is on stdout.
const NOT_CONFIGURED: u8 = 77;

/// Executable of this program that an unprivileged user may run.
enum Program {
    /// The program itself: it already runs as an unprivileged user.
    Itself,
    /// A copy that any user may execute. Dropping it removes the copy.
    Copy(PathBuf),
}

impl Program {
    fn for_nobody() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::Itself;
        }
        let copy = env::temp_dir().join(format!("plumbline-nobody-{}", process::id()));
        let program = env::current_exe().expect("the path of this program");
        fs::copy(program, &copy).expect("a copy in the directory for temporary files");
        Self::Copy(copy)
    }

    fn command(&self) -> Command {
        match self {
            Self::Itself => Command::new(env::current_exe().expect("the path of this program")),
            Self::Copy(copy) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
                command
            }
        }
    }

    fn passes(&self, case: &str) -> bool {
        let mut command = self.command();
        command.arg(case).env(CASE_VARIABLE, "1").stderr(Stdio::inherit());
        let output = command.output().expect("setpriv of util-linux");
        let is_absent = output.status.code() == Some(NOT_CONFIGURED.into());
        if is_absent {
            let reason = String::from_utf8_lossy(&output.stdout);
            test_support::not_configured("a user without privileges", &format!("{case}: {reason}"));
        }
        let has_passed = output.status.success() || is_absent;
        println!("test {case} ... {}", if has_passed { "ok" } else { "FAILED" });
        has_passed
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Self::Copy(copy) = self {
            let _ = fs::remove_file(copy);
        }
    }
}
