//! Tests with a child process in new namespaces.

use super::*;
use proptest::prelude::*;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use test_support::{is_root_of_the_machine, poll_until_timeout};

/// A process in new namespaces, which ends when it is dropped.
struct Guest {
    child: Child,
    has_user_namespace: bool,
}

impl Guest {
    /// Starts `unshare` with `options`; `commands` of a shell are run in the namespaces first.
    fn start(options: &[&str], commands: &str) -> Self {
        let script = format!("{commands}\necho; exec cat");
        let mut command = Command::new("unshare");
        command.args(options).args(["sh", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self { child, has_user_namespace: options.contains(&"--user") }
    }

    fn namespaces(&self) -> TargetNamespaces {
        TargetNamespaces::of_process(self.child.id()).unwrap()
    }

    /// Runs `ip` in the namespaces, and returns its output.
    fn ip(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.child.id().to_string(), "-n"]);
        if self.has_user_namespace {
            command.args(["-U", "--preserve-credentials"]);
        }
        let output = command.arg("ip").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

const USER_AND_NETWORK: &[&str] = &["--user", "--map-root-user", "--net"];
const TAP: Options = Options {
    kind: Kind::Tap,
    is_offloading: true,
    has_single_datagrams: false,
    has_many_queues: false,
};

fn setup() -> TunSetup {
    TunSetup {
        hardware_address: Some([0x52, 0x55, 10, 0, 2, 100]),
        mtu_bytes: Some(65_520),
        addresses: vec![("10.0.2.100".parse().unwrap(), 24), ("fd00::100".parse().unwrap(), 64)],
        gateways: vec!["10.0.2.2".parse().unwrap(), "fe80::2".parse().unwrap()],
    }
}

fn own_network() -> std::path::PathBuf {
    std::fs::read_link("/proc/thread-self/ns/net").unwrap()
}

#[test]
fn a_tap_is_opened_and_configured_in_the_namespaces_of_a_process() {
    let own_network = own_network();
    let guest = Guest::start(USER_AND_NETWORK, "");
    let opened = open(&guest.namespaces(), "tap0", TAP, Some(&setup())).unwrap();
    assert_eq!((opened.tun.name(), opened.tun.kind()), ("tap0", Kind::Tap));
    assert!(opened.tun.offloads().is_some_and(|offloads| offloads.checksum && offloads.tcp));
    assert_eq!(opened.hardware_address, setup().hardware_address);
    let link = guest.ip(&["-o", "link", "show", "tap0"]);
    assert!(link.contains("mtu 65520") && link.contains("52:55:0a:00:02:64"), "{link}");
    assert!(guest.ip(&["-o", "addr", "show", "tap0"]).contains("inet 10.0.2.100/24"));
    assert!(guest.ip(&["-6", "-o", "addr", "show", "tap0"]).contains("inet6 fd00::100/64"));
    let link_local = guest.ip(&["-6", "-o", "addr", "show", "tap0", "scope", "link"]);
    assert!(link_local.contains("inet6 fe80::"), "{link_local}");
    assert!(guest.ip(&["-6", "-o", "addr", "show", "tap0", "tentative"]).is_empty());
    assert!(guest.ip(&["route"]).contains("default via 10.0.2.2 dev tap0"));
    assert!(guest.ip(&["-6", "route"]).contains("default via fe80::2 dev tap0"));
    assert!(guest.ip(&["-o", "link", "show", "lo"]).contains("UP"));
    // The kernel of the guest sends router solicitations or neighbor discovery at once.
    crate::testing::wait_until_readable(&opened.tun);
    let mut packet = vec![0; 70_000];
    let received = opened.tun.receive(&mut packet).unwrap().unwrap();
    assert_eq!(packet[received.range()][6..12], setup().hardware_address.unwrap());
    assert_eq!(self::own_network(), own_network);
}

/// A process with 1,000 connections ends, and each sends several segments before the program runs.
#[test]
fn thousands_of_segments_of_the_guest_wait_for_the_program() {
    const SEGMENTS: usize = 3000;
    let guest = Guest::start(USER_AND_NETWORK, "");
    let opened = open(&guest.namespaces(), "tap0", TAP, Some(&setup())).unwrap();
    let target = guest.namespaces();
    let sender = std::thread::spawn(move || {
        move_into_link_name_space(target.network(), Some(LinkNameSpaceType::Network)).unwrap();
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_broadcast(true).unwrap();
        for _ in 0..SEGMENTS {
            // Unlike an address of the network, the broadcast address needs no ARP.
            socket.send_to(b"segment", "10.0.2.255:9").unwrap();
        }
    });
    sender.join().unwrap();
    let mut packet = vec![0; 70_000];
    let mut segments = 0;
    while let Some(received) = opened.tun.receive(&mut packet).unwrap() {
        segments += usize::from(packet[received.range()].ends_with(b"segment"));
    }
    assert_eq!(segments, SEGMENTS);
}

#[test]
fn the_queue_of_a_persistent_tap_keeps_the_length_that_its_owner_has_set() {
    let commands = "ip tuntap add name tap0 mode tap && ip link set tap0 txqueuelen 70 up";
    let guest = Guest::start(USER_AND_NETWORK, commands);
    open(&guest.namespaces(), "tap0", TAP, None).unwrap();
    assert!(guest.ip(&["-o", "link", "show", "tap0"]).contains("qlen 70"));
}

#[test]
fn a_tun_without_a_setup_is_only_opened() {
    let guest = Guest::start(USER_AND_NETWORK, "");
    let options = Options { kind: Kind::Tun, is_offloading: false, ..TAP };
    let opened = open(&guest.namespaces(), "tun%d", options, None).unwrap();
    assert_eq!((opened.tun.name(), opened.tun.kind()), ("tun0", Kind::Tun));
    assert!(opened.tun.offloads().is_none() && opened.hardware_address.is_none());
    assert!(guest.ip(&["-o", "link", "show", "tun0"]).contains("state DOWN"));
    assert!(guest.ip(&["-o", "link", "show", "lo"]).contains("state DOWN"));
}

#[test]
fn a_persistent_tap_of_the_guest_is_attached_to() {
    let guest = Guest::start(
        USER_AND_NETWORK,
        "ip tuntap add name tap0 mode tap && ip link set tap0 up address 02:00:00:00:00:07",
    );
    let opened = open(&guest.namespaces(), "tap0", TAP, None).unwrap();
    assert_eq!(opened.hardware_address, Some([2, 0, 0, 0, 0, 7]));
    assert!(opened.tun.offloads().is_some());
    let second = open(&guest.namespaces(), "tap0", TAP, None).unwrap_err();
    assert!(matches!(second, GuestTunError::Busy(ref name) if name == "tap0"), "{second}");
    drop(opened);
    // The child of another test may hold a copy of the descriptor until it exits.
    let has_no_carrier = || guest.ip(&["-o", "link", "show", "tap0"]).contains("NO-CARRIER");
    poll_until_timeout(|| has_no_carrier().then_some(()));
}

#[test]
fn a_namespace_is_opened_by_its_path() {
    if !is_root_of_the_machine() {
        return;
    }
    let guest = Guest::start(&["--net"], "");
    let path = format!("/proc/{}/ns/net", guest.child.id());
    let target = TargetNamespaces::at_path(Path::new(&path)).unwrap();
    let opened = open(&target, "tap0", TAP, None).unwrap();
    assert_eq!(opened.tun.name(), "tap0");
    assert!(guest.ip(&["-o", "link"]).contains("tap0"));
}

#[test]
fn each_failure_has_its_error() {
    let guest = Guest::start(USER_AND_NETWORK, "");
    let target = guest.namespaces();
    let long_name = open(&target, "abcdefghijklmnop", TAP, None).unwrap_err();
    assert!(matches!(long_name, GuestTunError::Name(NameError::TooLong(_))), "{long_name}");
    let other = open(&target, "lo", TAP, None).unwrap_err();
    assert!(matches!(other, GuestTunError::Different(_)), "{other}");
    let setup = TunSetup { mtu_bytes: Some(1), ..TunSetup::default() };
    let refused = open(&target, "tap0", TAP, Some(&setup)).unwrap_err();
    assert!(matches!(refused, GuestTunError::Configuration(..)), "{refused}");
    let file = TargetNamespaces::at_path(Path::new("/dev/null")).unwrap();
    let no_namespace = open(&file, "tap0", TAP, None).unwrap_err();
    assert!(matches!(no_namespace, GuestTunError::NotANamespace), "{no_namespace}");
}

#[test]
fn an_ordinary_user_may_not_enter_the_namespace_of_root() {
    if !is_root_of_the_machine() {
        return;
    }
    let guest = Guest::start(&["--net"], "");
    let id = guest.child.id();
    let program = crate::testing::this_program("tun_in_namespace::tests::child_is_not_permitted");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(program.get_program()).args(program.get_args());
    // A descriptor that root has opened: the user may not open the file.
    let script = format!("exec \"$@\" 7</proc/{id}/ns/net");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "run as a child process by another test"]
fn child_is_not_permitted() {
    let target = TargetNamespaces::at_path(Path::new("/proc/self/fd/7")).unwrap();
    let error = open(&target, "tap0", TAP, None).unwrap_err();
    assert!(matches!(error, GuestTunError::NamespaceNotPermitted(None)), "{error}");
}

#[test]
fn no_child_is_left() {
    // A child has the name of the thread that forks, which distinguishes it from those of other tests.
    const THREAD_NAME: &str = "no-child-left";
    let guest = Guest::start(USER_AND_NETWORK, "");
    let target = guest.namespaces();
    let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned());
    let run = move || {
        let opened = open(&target, "tap0", TAP, None).unwrap();
        open(&target, "tap0", TAP, None).unwrap_err();
        opened
    };
    let opened = thread.spawn(run).unwrap().join().unwrap();
    let own = std::process::id().to_string();
    let children = Command::new("ps").args(["--ppid", &own, "-o", "stat=,comm="]).output().unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    assert!(!children.contains(THREAD_NAME), "{children}");
    drop(opened);
}

proptest! {
    #[test]
    fn a_reply_is_decoded_to_what_was_encoded(
        name in "[a-z0-9]{1,15}", bits in proptest::option::of(0..16_u8),
        hardware_address: Option<[u8; 6]>, user_error: i32, number: i32, step in 0..5_usize,
    ) {
        let bit = |bits: u8, at: u8| bits >> at & 1 == 1;
        let offloads = bits.map(|bits| Offloads {
            checksum: bit(bits, 0), tcp: bit(bits, 1), ecn: bit(bits, 2), udp: bit(bits, 3),
        });
        let outcome = match Step::ALL.get(step) {
            Some(step) => Outcome::Failed(*step, number),
            None => Outcome::Opened(OpenedTun { name: name.clone(), offloads, hardware_address }),
        };
        let bytes = encode(&Reply { outcome, user_error });
        let reply = decode(&bytes).unwrap();
        prop_assert_eq!(reply.user_error, user_error);
        match reply.outcome {
            Outcome::Failed(failed, code) => {
                prop_assert_eq!((Some(&failed), code), (Step::ALL.get(step), number));
            }
            Outcome::Opened(opened) => {
                prop_assert_eq!(opened.name, name);
                prop_assert_eq!(opened.offloads, offloads);
                prop_assert_eq!(opened.hardware_address, hardware_address);
            }
        }
    }

    #[test]
    fn a_reply_of_any_bytes_is_decoded_or_rejected(bytes: Vec<u8>) {
        let has_failed = bytes.first().is_some_and(|step| (1..=4).contains(step));
        let length_min = if has_failed { 9 } else { REPLY_LEN };
        prop_assert_eq!(decode(&bytes).is_some(), bytes.len() >= length_min);
    }
}
