//! Each reason why a gateway cannot start is one sentence, with the exit code 4, or 2 if the
//! arguments contradict each other.

use super::gateway_harness::{Gateway, Guest, HOST, TestFile, command, in_host_network, listen};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

const WRONG_ARGUMENTS: i32 = 2;
const THIS_MACHINE: i32 = 4;

/// Runs a gateway that this machine cannot start, and returns its message.
fn failure(command: Command) -> String {
    failure_with_code(command, THIS_MACHINE)
}

fn failure_with_code(mut command: Command, code: i32) -> String {
    let Output { stderr, status, stdout } = command.output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{message}");
    assert!(message.starts_with("plumb: ") && message.ends_with('\n'), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(stdout.is_empty());
    message
}

/// Returns `command` without the privileges of root.
fn without_privileges(command: &Command) -> Command {
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    unprivileged.arg(command.get_program()).args(command.get_args());
    unprivileged
}

#[test]
fn a_namespace_without_permission_is_refused() {
    in_host_network(|| {
        let guest = Guest::new();
        let of_path = command(&format!("netns:{}", guest.namespace), &[]);
        let message = failure(without_privileges(&of_path));
        assert!(message.contains("no permission to open /proc/"), "{message}");
        let of_process = command("pid:1", &[]);
        let message = failure(without_privileges(&of_process));
        assert!(message.contains("no permission to open /proc/1/ns/net"), "{message}");
        // A path that may be opened, but whose namespace may not be entered.
        let path = TestFile::new("netns", b"");
        let gateway = without_privileges(&command(&format!("netns:{}", path.path()), &[]));
        let mut namespace = Command::new("unshare");
        let script = "unshare --net=\"$0\" true && exec \"$@\"";
        namespace.args(["--mount", "sh", "-c", script, path.path()]);
        namespace.arg(gateway.get_program()).args(gateway.get_args());
        let message = failure(namespace);
        assert!(message.contains("permission"), "{message}");
    });
}

#[test]
fn a_file_that_is_no_namespace_is_refused() {
    in_host_network(|| {
        let file = TestFile::new("file", b"data");
        let message = failure(command(&format!("netns:{}", file.path()), &[]));
        assert!(message.contains("namespace"), "{message}");
    });
}

#[test]
fn the_lack_of_inotify_instances_is_named() {
    in_host_network(|| {
        let file = TestFile::new("watched", b"");
        let gateway = command(&format!("netns:{}", file.path()), &[]);
        let mut namespace = Command::new("unshare");
        let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
        namespace.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
        namespace.arg(gateway.get_program()).args(gateway.get_args());
        let message = failure(namespace);
        assert!(message.contains("no inotify instance is free"), "{message}");
    });
}

#[test]
fn a_port_in_use_is_refused_by_its_number_for_each_protocol_and_address() {
    in_host_network(|| {
        let guest = Guest::new();
        let namespace = format!("netns:{}", guest.namespace);
        let (_tcp, address) = listen(HOST);
        let udp = std::net::UdpSocket::bind((HOST, 0)).unwrap();
        let tcp6 = TcpListener::bind("[::1]:0").unwrap();
        let [udp_address, tcp6_address] = [udp.local_addr().unwrap(), tcp6.local_addr().unwrap()];
        let ports = [
            (format!("{address}:80"), address),
            (format!("{udp_address}:53/udp"), udp_address),
            (format!("{tcp6_address}:80"), tcp6_address),
        ];
        for (publish, address) in ports {
            let message = failure(command(&namespace, &["-p", &publish]));
            let expected = format!("port {} at {}: ", address.port(), address.ip());
            assert!(message.contains(&expected) && message.contains("in use"), "{message}");
        }
        let message = failure(command(&namespace, &["-p", "192.0.2.1:8080:80"]));
        assert!(message.contains("port 8080 at 192.0.2.1: "), "{message}");
    });
}

#[test]
fn an_interface_in_use_is_refused_by_its_name() {
    in_host_network(|| {
        let guest = Guest::new();
        let _first = Gateway::start(&guest, &[]);
        let message = failure(command(&format!("netns:{}", guest.namespace), &[]));
        assert!(message.contains("tap0"), "{message}");
    });
}

#[test]
fn two_guests_with_one_address_are_refused() {
    in_host_network(|| {
        let [one, other] = [TestFile::unused("one"), TestFile::unused("other")];
        let guest = format!("qemu:{}?address=10.7.0.9", one.path());
        let same = format!("qemu:{}?address=10.7.0.9", other.path());
        let message = failure_with_code(command(&guest, &[&same]), WRONG_ARGUMENTS);
        assert!(message.contains("two guests have the address 10.7.0.9"), "{message}");
        assert!(!one.0.exists() && !other.0.exists());
    });
}

#[test]
fn a_serial_device_that_does_not_exist_or_is_none_is_refused() {
    in_host_network(|| {
        let message = failure(command("serial:/dev/plumb-none?link=slip", &[]));
        assert!(message.contains("/dev/plumb-none"), "{message}");
        let message = failure(command("serial:/dev/null?link=slip", &[]));
        assert!(message.contains("/dev/null"), "{message}");
    });
}

#[test]
fn a_socket_in_a_directory_that_does_not_exist_is_refused() {
    in_host_network(|| {
        let message = failure(command("qemu:/nonexistent/machine", &[]));
        assert!(
            message.contains("/nonexistent/machine: the directory does not exist"),
            "{message}"
        );
        let socket = TestFile::unused("machine");
        let arguments = ["--control", "/nonexistent/control"];
        let message = failure(command(&format!("qemu:{}", socket.path()), &arguments));
        assert!(message.contains("/nonexistent/control"), "{message}");
        // A gateway that could not start leaves no socket behind.
        assert!(!socket.0.exists());
    });
}

#[test]
fn slirp4netns_reports_a_descriptor_that_is_not_open() {
    in_host_network(|| {
        let guest = Guest::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.arg0("slirp4netns").args(["-c", "-r", "99", "--netns-type=path"]);
        command.arg(&guest.namespace).arg("tap0").stdin(Stdio::null());
        let Output { stderr, status, .. } = command.output().unwrap();
        let message = String::from_utf8(stderr).unwrap();
        assert_eq!((message.lines().count(), status.code()), (1, Some(1)), "{message}");
        assert!(message.contains("descriptor 99 is not open"), "{message}");
    });
}
