//! The end of a gateway or of a guest, in whatever way: nothing remains.

use super::gateway_harness::{
    ALLOW_HOST, Gateway, HOST, TestFile, accept, command, in_host_network, listen, slirp4netns,
};
use super::raw_machine::{MACHINE, RawMachine, TCP, ip, syn};
use os::pty::Pty;
use os::tty::WindowSize;
use rustix::io::{FdFlags, ioctl_fionread};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use test_support::{peers, poll_until_timeout};

/// A process in a network namespace of its own, which waits for the end of its input.
fn guest_process() -> Child {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "echo ready; exec cat"]);
    let mut guest = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    guest.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    guest
}

/// Lets the programs that this process starts inherit a descriptor.
fn inherit(descriptor: &OwnedFd) -> String {
    rustix::io::fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
    descriptor.as_raw_fd().to_string()
}

fn has_tap(process: u32) -> bool {
    let devices = fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap();
    devices.contains("tap0")
}

#[test]
fn a_killed_gateway_leaves_no_process_no_pipe_no_port_and_no_interface() {
    in_host_network(|| {
        let mut guest = guest_process();
        let [tcp_port, udp_port] = [listen(HOST).1.port(), listen(HOST).1.port()];
        let socket = TestFile::unused("machine");
        let control = TestFile::unused("control");
        let arguments = [
            &format!("qemu:{}", socket.path()),
            "--control",
            control.path(),
            "-p",
            &format!("{HOST}:{tcp_port}:80"),
            "-p",
            &format!("{HOST}:{udp_port}:53/udp"),
        ];
        let start = || {
            let mut command = command(&format!("pid:{}", guest.id()), &arguments);
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            let mut stderr = child.stderr.take().unwrap();
            let mut text = Vec::new();
            // The addresses of the machine are on the last line.
            let has_addresses = |text: &[u8]| text.windows(10).any(|part| part == b"10.0.3.100");
            while !(has_addresses(&text) && text.ends_with(b"\n")) {
                let mut byte = [0];
                poll_until_timeout(|| (ioctl_fionread(&stderr).unwrap() > 0).then_some(()));
                assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{text:?}");
                text.push(byte[0]);
            }
            (child, stderr)
        };
        let (mut gateway, mut stderr) = start();
        assert!(has_tap(guest.id()));
        let mut client = TcpStream::connect((HOST, tcp_port)).unwrap();
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        // The pipe ends when the last process has ended that could write to it.
        assert_eq!(stderr.read(&mut [0]).unwrap(), 0);
        let end = client.read(&mut [0]);
        assert!(is_end(&end), "{end:?}");
        let refused = TcpStream::connect((HOST, tcp_port)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        drop(UdpSocket::bind((HOST, udp_port)).unwrap());
        poll_until_timeout(|| (!has_tap(guest.id())).then_some(()));
        // The next gateway replaces the sockets in the file system.
        let (mut gateway, _stderr) = start();
        assert!(TcpStream::connect((HOST, tcp_port)).is_ok());
        assert!(UnixStream::connect(&control.0).is_ok());
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        guest.kill().unwrap();
        guest.wait().unwrap();
    });
}

/// Returns whether a connection has ended, in order or by a reset.
fn is_end(read: &io::Result<usize>) -> bool {
    match read {
        Ok(len) => *len == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn the_end_of_the_exit_descriptor_ends_slirp4netns_and_closes_its_ready_descriptor() {
    in_host_network(|| {
        let mut guest = guest_process();
        let (exit, exit_writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (ready, ready_writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let socket = TestFile::unused("api");
        let id = guest.id().to_string();
        let [exit_number, ready_number] = [inherit(&exit), inherit(&ready_writer)];
        let arguments = ["-c", "-e", &exit_number, "-r", &ready_number];
        let (mut child, _log) =
            slirp4netns(&[&arguments[..], &["-a", socket.path(), &id, "tap0"]].concat());
        drop((exit, ready_writer));
        let mut text = Vec::new();
        fs::File::from(ready).read_to_end(&mut text).unwrap();
        // The end of the pipe: no process has it any more.
        assert_eq!(text, b"1");
        assert!(socket.0.exists());
        drop(exit_writer);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(!socket.0.exists());
        assert!(!has_tap(guest.id()));
        guest.kill().unwrap();
        guest.wait().unwrap();
    });
}

#[test]
fn slirp4netns_ends_when_its_target_is_killed() {
    in_host_network(|| {
        let mut guest = guest_process();
        let (mut child, log) = slirp4netns(&["-c", &guest.id().to_string(), "tap0"]);
        log.wait_for("Recommended IP");
        guest.kill().unwrap();
        guest.wait().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    });
}

#[test]
fn the_gateway_ends_when_the_path_of_the_namespace_is_removed() {
    in_host_network(|| {
        let path = TestFile::new("netns", b"");
        let gateway = command(&format!("netns:{}", path.path()), &[]);
        let mut namespace = Command::new("unshare");
        let script = "unshare --net=\"$0\" true && exec \"$@\"";
        namespace.args(["--mount", "sh", "-c", script, path.path()]);
        namespace.arg(gateway.get_program()).args(gateway.get_args());
        let mut gateway = Gateway::start_command(namespace);
        fs::remove_file(&path.0).unwrap();
        gateway.log.wait_for("is gone");
        assert_eq!(gateway.wait().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn a_guest_that_is_killed_in_mid_transfer_ends_the_gateway_and_resets_the_connection() {
    in_host_network(|| {
        let (listener, address) = listen(HOST);
        let script = format!(
            "until ip route | grep -q default; do :; done
             exec {} nc {} {} < /dev/zero",
            peers::BUSYBOX.path().display(),
            address.ip(),
            address.port()
        );
        let mut guest =
            Command::new("unshare").args(["--net", "sh", "-c", &script]).spawn().unwrap();
        // The process of unshare is the first one in the namespace.
        let own = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let namespace = format!("/proc/{}/ns/net", guest.id());
        poll_until_timeout(|| (fs::read_link(&namespace).unwrap() != own).then_some(()));
        let mut gateway =
            Gateway::start_command(command(&format!("pid:{}", guest.id()), &ALLOW_HOST));
        let (mut stream, _) = accept(&listener);
        stream.read_exact(&mut [0; 100_000]).unwrap();
        guest.kill().unwrap();
        guest.wait().unwrap();
        gateway.log.wait_for("is gone");
        assert_eq!(gateway.wait().code(), Some(0));
        let end = stream.read_to_end(&mut Vec::new()).map(|_| 0);
        assert!(is_end(&end), "{end:?}");
    });
}

#[test]
fn a_line_that_hangs_up_ends_the_gateway_with_one_sentence() {
    in_host_network(|| {
        let line = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let guest = format!("serial:{}", line.path().display());
        let mut gateway = Gateway::start_command(command(&format!("{guest}?link=slip"), &[]));
        drop(line);
        assert_eq!(gateway.wait().code(), Some(4));
        let message = gateway.log.wait_for("plumb: ");
        assert_eq!(message, format!("plumb: error: {guest} has failed: the line has hung up"));
    });
}

#[test]
fn the_connections_of_a_machine_end_when_it_disconnects() {
    in_host_network(|| {
        let (listener, address) = listen(HOST);
        let mut machine = RawMachine::start(&ALLOW_HOST);
        let source: IpAddr = MACHINE.into();
        let ends = [(source, 50_000), (HOST.into(), address.port())];
        machine.send(&ip(TCP, source, HOST.into(), &syn(ends, &[])));
        let (mut stream, _) = accept(&listener);
        machine.disconnect();
        let end = stream.read(&mut [0]);
        assert!(is_end(&end), "{end:?}");
        // The next machine is served.
        machine.reconnect();
        assert_eq!(machine.responses().len(), 0);
    });
}
