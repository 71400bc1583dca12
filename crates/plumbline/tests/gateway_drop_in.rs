//! plumb in place of pasta, passt and slirp4netns, with the arguments that their callers pass, and
//! the meters of a gateway.
//!
//! Each test has its own network namespace, which stands for the host: its interface eth0 has the
//! default routes.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "gateway_drop_in/mod.rs"]
mod host_and_guest;
#[path = "gateway_drop_in/meters.rs"]
mod meters;

use host_and_guest::{
    ADDRESS, Directory, Foreground, GATEWAY, Guest, HOST, NO_PORTS, OTHER, Pasta, TIMEOUT, accept,
    failure, free_port, greet, is_running, listen, may_run_commands, named, on_host, read_greeting,
    root_of,
};
use os::tun::{Kind, Options, Tun};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use test_support::{ProgramLog, not_configured, poll_until_timeout};

/// Runs a shell command under pasta, and returns its standard output and exit code.
fn run_command(arguments: &[&str], script: &str) -> (String, Option<i32>) {
    let mut command = named("pasta", arguments);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_command_runs_with_the_addresses_of_the_host_and_its_exit_code_is_that_of_pasta() {
    if !may_run_commands() {
        return;
    }
    on_host(|| {
        let arguments = [&["--config-net"][..], &NO_PORTS].concat();
        let script = "id -u; ip -o addr show dev eth0; ip route; ip -6 route; cat /sys/class/net/eth0/mtu; exit 7";
        let (output, code) = run_command(&arguments, script);
        assert_eq!(code, Some(7), "{output}");
        for text in [
            "0\n",
            "10.77.0.20/24",
            "2001:db8:77::20/64",
            "default via 10.77.0.1 dev eth0",
            "default via fe80::1 dev eth0",
        ] {
            assert!(output.contains(text), "{text} is missing: {output}");
        }
        let (_, code) = run_command(&arguments, "sh -c 'kill -9 $$'; exit $?");
        assert_eq!(code, Some(137));
    });
}

#[test]
fn a_host_without_a_default_route_runs_a_command_in_a_local_network() {
    if !may_run_commands() {
        return;
    }
    test_support::in_new_network(os::namespace::enter_new_network, || {
        let arguments = [&["--config-net", "--quiet"][..], &NO_PORTS].concat();
        let (output, code) = run_command(&arguments, "ip -o addr show dev tap0");
        assert!(output.contains("169.254.2.1/16") && code == Some(0), "{output}");
    });
}

#[test]
fn the_gateway_of_the_guest_leads_to_the_loopback_of_the_host_unless_it_is_not_mapped() {
    on_host(|| {
        let (listener, address) = listen(Ipv4Addr::LOCALHOST);
        let to = SocketAddr::new(GATEWAY.into(), address.port());
        let guest = Guest::new();
        let arguments = [&["--config-net", "--netns", &guest.namespace][..], &NO_PORTS].concat();
        let pasta = Pasta::start("mapped", &arguments);
        let _client = guest.connect(to).unwrap();
        assert!(accept(&listener).1.ip().is_loopback());
        drop(pasta);
        let guest = Guest::new();
        let unmapped =
            [&["--config-net", "--no-map-gw", "--netns", &guest.namespace][..], &NO_PORTS].concat();
        let _pasta = Pasta::start("unmapped", &unmapped);
        let (host, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        accept(&host);
        // The router of the host's network does not exist here.
        let connected = guest.run(move || {
            TcpStream::connect_timeout(&to, std::time::Duration::from_millis(300)).is_ok()
        });
        assert!(!connected);
    });
}

/// The arguments of podman 5.
#[test]
fn a_container_of_podman_reaches_the_host_and_pasta_ends_with_its_namespace() {
    on_host(|| {
        let guest = Guest::new();
        let directory = Directory::new("podman");
        let path = directory.path("netns-1");
        symlink(&guest.namespace, &path).unwrap();
        let port = free_port();
        let published = format!("127.0.0.1/{port}-{port}:80-80");
        let arguments = [
            "--config-net",
            "-t",
            &published,
            "--dns-forward",
            "169.254.1.1",
            "--map-guest-addr",
            "169.254.1.2",
            "-u",
            "none",
            "-T",
            "none",
            "-U",
            "none",
            "--no-map-gw",
            "--quiet",
            "--netns",
            &path,
        ];
        let pasta = Pasta::start("podman-pid", &arguments);
        assert_eq!(root_of(pasta.id), ["etc", "run"]);
        // The host has the address of the guest.
        let (listener, address) = listen(ADDRESS);
        let host = SocketAddr::from(([169, 254, 1, 2], address.port()));
        let _client = guest.connect(host).unwrap();
        accept(&listener);
        greet(guest.run(|| TcpListener::bind(("0.0.0.0", 80)).unwrap()));
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(read_greeting(client), "hello");
        assert!(pasta.is_running());
        std::fs::remove_file(&path).unwrap();
        pasta.wait_for_end();
    });
}

/// The arguments of rootlesskit 3.
#[test]
fn a_namespace_of_rootlesskit_has_its_addresses_and_pasta_ends_with_its_process() {
    on_host(|| {
        let mut guest =
            Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let id = guest.id();
        // Until unshare has entered its namespace, it has that of the test.
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let network = format!("/proc/{id}/ns/net");
        poll_until_timeout(|| {
            std::fs::read_link(&network).ok().filter(|network| *network != own).map(drop)
        });
        let process = id.to_string();
        let arguments = [
            "--stderr",
            "--ns-ifname=tap0",
            "--mtu=65520",
            "--config-net",
            "--address=10.0.2.100",
            "--netmask=24",
            "--gateway=10.0.2.2",
            "--dns-forward=10.0.2.3",
            "--no-map-gw",
            "--ipv4-only",
            "--tcp-ports=none",
            "--udp-ports=none",
            "--host-lo-to-ns-lo",
            &process,
        ];
        let pasta = Pasta::start("rootlesskit", &arguments);
        let shown = Command::new("nsenter")
            .args(["--net", "--target", &process, "ip", "-o", "addr", "show", "dev", "tap0"])
            .output()
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("10.0.2.100/24"), "{shown}");
        drop(guest.stdin.take());
        guest.wait().unwrap();
        pasta.wait_for_end();
    });
}

#[test]
fn the_version_and_the_help_exit_with_0_as_rootlesskit_expects() {
    for arguments in [&["--version"][..], &["--host-lo-to-ns-lo", "--version"], &["--help"]] {
        let output = named("pasta", arguments).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("pasta"));
    }
}

#[test]
fn loopback_ports_of_both_sides_lead_to_the_other_one() {
    on_host(|| {
        let guest = Guest::new();
        let listener = guest.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let of_guest = listener.local_addr().unwrap().port();
        greet(listener);
        let (listener, address) = listen(Ipv4Addr::LOCALHOST);
        greet(listener);
        let port = free_port();
        let inbound = format!("{port}:{of_guest}");
        let outbound = format!("8085:{}", address.port());
        let arguments = ["-u", "none", "-U", "none", "--netns", &guest.namespace];
        let ports = ["-t", &inbound, "-T", &outbound, "--config-net", "--host-lo-to-ns-lo"];
        let _pasta = Pasta::start("loopback", &[&ports[..], &arguments].concat());
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(read_greeting(client), "hello");
        let client = guest.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, 8085))).unwrap();
        assert_eq!(read_greeting(client), "hello");
    });
}

#[test]
fn a_port_is_forwarded_while_a_program_of_the_guest_listens() {
    on_host(|| {
        let guest = Guest::new();
        let arguments = ["-t", "auto", "-u", "none", "-T", "none", "-U", "none", "--config-net"];
        let arguments = [&arguments[..], &["--netns", &guest.namespace]].concat();
        let _pasta = Pasta::start("auto", &arguments);
        let port = free_port();
        greet(guest.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap()));
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok();
        assert_eq!(read_greeting(poll_until_timeout(connect)), "hello");
    });
}

#[test]
fn a_killed_gateway_leaves_no_process_and_no_port() {
    on_host(|| {
        let guest = Guest::new();
        let port = free_port();
        let inbound = port.to_string();
        let arguments = ["-t", &inbound, "-u", "none", "-T", "8085", "-U", "none"];
        let arguments = [&arguments[..], &["--netns", &guest.namespace]].concat();
        let pasta = Pasta::start("killed", &arguments);
        let children = pasta.children();
        assert_eq!(children.len(), 1, "the process that opens sockets in the namespace");
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err());
        pasta.signal(Signal::KILL);
        pasta.wait_for_end();
        children.into_iter().for_each(|child| {
            poll_until_timeout(|| (!is_running(child)).then_some(()));
        });
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        guest.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 8085)).map(drop).unwrap());
    });
}

#[test]
fn a_command_ends_when_the_gateway_is_killed() {
    if !may_run_commands() {
        return;
    }
    on_host(|| {
        let arguments = [&["--config-net"][..], &NO_PORTS].concat();
        let mut command = named("pasta", &arguments);
        command.args(["--", "sh", "-c", "echo ready; exec cat"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut gateway = Foreground(child);
        let mut stdout = gateway.0.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 6]).unwrap();
        gateway.0.kill().unwrap();
        // The command closes its output.
        let (end, has_ended) = channel();
        thread::spawn(move || end.send(stdout.read_to_end(&mut Vec::new()).unwrap()).unwrap());
        assert_eq!(has_ended.recv_timeout(TIMEOUT), Ok(0));
    });
}

#[test]
fn a_termination_signal_ends_pasta_with_code_0() {
    on_host(|| {
        let guest = Guest::new();
        let arguments = ["--foreground", "--log-file", "/dev/null", "--netns", &guest.namespace];
        let directory = Directory::new("term");
        let file = directory.path("pid");
        let mut command = named("pasta", &[&arguments[..], &NO_PORTS, &["--pid", &file]].concat());
        let mut gateway = Foreground(command.spawn().unwrap());
        poll_until_timeout(|| std::fs::read_to_string(&file).ok().filter(|id| !id.is_empty()));
        let id = rustix::process::Pid::from_child(&gateway.0);
        rustix::process::kill_process(id, Signal::TERM).unwrap();
        assert_eq!(gateway.0.wait().unwrap().code(), Some(0));
    });
}

#[test]
fn each_failure_of_pasta_is_one_sentence_and_exit_code_1() {
    on_host(|| {
        let guest = Guest::new();
        let (_listener, address) = listen(Ipv4Addr::LOCALHOST);
        let port = format!("127.0.0.1/{}", address.port());
        let namespace = ["--netns", &guest.namespace];
        let expected = format!("Failed to bind any port for '-t {}', exiting\n", address.port());
        for (arguments, text) in [
            ([&["-t", &port][..], &namespace].concat(), expected.as_str()),
            (vec!["4194305"], "there is no process 4194305\n"),
            (vec!["--netns", "/nonexistent"], "there is no namespace /nonexistent: no such file\n"),
            ([&["-i", "none0"][..], &namespace].concat(), "there is no interface none0\n"),
            (vec!["--runas", "no such user", "1"], "Invalid --runas option: no such user\n"),
            ([&["-U", "53"][..], &namespace].concat(), "UDP ports of the namespace are not"),
            ([&["--pid", "/nonexistent/pid"][..], &namespace].concat(), "cannot open /nonexistent"),
        ] {
            for foreground in [&[][..], &["-f"]] {
                let (message, code) = failure("pasta", &[foreground, &arguments].concat());
                assert!(message.starts_with(text), "{arguments:?}: {message}");
                assert_eq!((message.lines().count(), code), (1, Some(1)), "{message}");
            }
        }
    });
}

#[test]
fn a_command_that_does_not_exist_is_one_sentence_and_exit_code_1() {
    if !may_run_commands() {
        return;
    }
    on_host(|| {
        let (message, code) = failure("pasta", &[&NO_PORTS[..], &["--", "/nonexistent"]].concat());
        assert!(message.starts_with("cannot run /nonexistent") && code == Some(1), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    });
}

#[test]
fn the_packets_of_a_guest_are_written_in_the_format_of_libpcap() {
    on_host(|| {
        let guest = Guest::new();
        let directory = Directory::new("pcap");
        let file = directory.path("guest.pcap");
        let arguments = ["--config-net", "--pcap", &file, "--netns", &guest.namespace];
        let _pasta = Pasta::start("pcap-pid", &[&arguments[..], &NO_PORTS].concat());
        let (listener, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        accept(&listener);
        // The port of the host is in the SYN. A packet is written after it was processed.
        let port = address.port().to_be_bytes();
        let bytes = poll_until_timeout(|| {
            let bytes = std::fs::read(&file).unwrap();
            bytes.windows(2).any(|word| word == port).then_some(bytes)
        });
        assert!(bytes.starts_with(&[0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0]));
    });
}

/// Returns the TCP segments of a port in a file as tcpdump prints them.
fn tcpdump(file: &str, port: &str) -> String {
    let mut command = Command::new("tcpdump");
    // In a user namespace, tcpdump cannot change to another user.
    let output = command.args(["-Z", "root", "-nr", file, "tcp", "port", port]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs tcpdump"]
fn tcpdump_reads_the_packets_of_a_guest() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        not_configured("tcpdump", "it is not installed");
        return;
    }
    on_host(|| {
        let guest = Guest::new();
        let directory = Directory::new("tcpdump");
        let file = directory.path("guest.pcap");
        let arguments = ["--config-net", "--pcap", &file, "--netns", &guest.namespace];
        let _pasta = Pasta::start("tcpdump-pid", &[&arguments[..], &NO_PORTS].concat());
        let (listener, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        accept(&listener);
        let port = address.port().to_string();
        let text = poll_until_timeout(|| {
            let text = tcpdump(&file, &port);
            text.contains("Flags [S.]").then_some(text)
        });
        assert!(text.contains(&format!("> 10.99.0.1.{port}: Flags [S]")), "{text}");
    });
}

/// A virtual machine: a guest whose TAP is connected to a socket with QEMU's framing.
fn machine(path: &str) -> (Guest, Arc<UnixStream>) {
    let guest = Guest::new();
    let stream = Arc::new(poll_until_timeout(|| UnixStream::connect(path).ok()));
    let options = Options { kind: Kind::Tap, ..Options::default() };
    let tap = Arc::new(guest.run(move || Tun::open_with(Some("eth0"), options).unwrap()));
    tap.set_blocking(true).unwrap();
    let frames = (Arc::clone(&tap), Arc::clone(&stream));
    thread::spawn(move || {
        let (tap, stream) = frames;
        let mut frame = vec![0; 65_536];
        while let Ok(len) = rustix::io::read(&*tap, &mut frame) {
            let header = u32::try_from(len).unwrap().to_be_bytes();
            let frame = frame.get(..len).unwrap();
            if (&*stream).write_all(&[&header, frame].concat()).is_err() {
                return;
            }
        }
    });
    let socket = Arc::clone(&stream);
    thread::spawn(move || {
        let mut header = [0; 4];
        while (&*socket).read_exact(&mut header).is_ok() {
            let mut frame = vec![0; usize::try_from(u32::from_be_bytes(header)).unwrap()];
            (&*socket).read_exact(&mut frame).unwrap();
            // Fails while the interface is down.
            _ = rustix::io::write(&*tap, &frame);
        }
    });
    (guest, stream)
}

#[test]
fn a_virtual_machine_reaches_the_host_by_passt_which_ends_when_it_disconnects() {
    on_host(|| {
        let directory = Directory::new("passt");
        let path = directory.path("vm.socket");
        let port = free_port();
        let published = format!("127.0.0.1/{port}:80");
        let arguments = ["-f", "-1", "-s", &path, "-t", &published, "-u", "none"];
        let child = named("passt", &arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut passt = Foreground(child);
        ProgramLog::read(passt.0.stderr.take().unwrap()).wait_for("vm.socket");
        let (guest, stream) = machine(&path);
        for words in [
            &["ip", "link", "set", "eth0", "up"][..],
            &["ip", "addr", "add", "10.77.0.20/24", "dev", "eth0"],
            &["ip", "route", "add", "default", "via", "10.77.0.1"],
        ] {
            guest.output(words);
        }
        let (listener, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        accept(&listener);
        greet(guest.run(|| TcpListener::bind(("0.0.0.0", 80)).unwrap()));
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(read_greeting(client), "hello");
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(passt.0.wait().unwrap().code(), Some(0));
    });
}

#[test]
#[ignore = "needs busybox"]
fn a_virtual_machine_gets_the_address_of_the_host_by_dhcp() {
    if Command::new("busybox").arg("true").output().is_err() {
        not_configured("busybox", "it is not installed");
        return;
    }
    on_host(|| {
        let directory = Directory::new("dhcp");
        let path = directory.path("vm.socket");
        let arguments = ["-f", "-1", "-s", &path, "-D", "192.0.2.53", "-t", "none", "-u", "none"];
        let _passt = Foreground(named("passt", &arguments).spawn().unwrap());
        let (guest, _stream) = machine(&path);
        guest.output(&["ip", "link", "set", "eth0", "up"]);
        let script = directory.path("script");
        std::fs::write(&script, "#!/bin/sh\nenv\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        let client = ["busybox", "udhcpc", "-n", "-q", "-i", "eth0", "-O", "mtu", "-s", &script];
        let lease = guest.output(&client);
        for text in ["ip=10.77.0.20", "router=10.77.0.1", "dns=192.0.2.53", "mtu=65520"] {
            assert!(lease.contains(text), "{text} is missing: {lease}");
        }
    });
}

#[test]
fn a_machine_may_be_passed_as_a_descriptor() {
    on_host(|| {
        let (own, passed) = UnixStream::pair().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 5<&0 </dev/null"]);
        // The name is the last component of a link to the program.
        let directory = Directory::new("descriptor");
        let link = directory.path("passt");
        symlink(env!("CARGO_BIN_EXE_plumb"), &link).unwrap();
        command.args([&link, "--fd", "5", "-f", "-t", "none", "-u", "none"]);
        command.stdin(std::os::fd::OwnedFd::from(passed));
        let mut passt = Foreground(command.spawn().unwrap());
        // passt sends router advertisements.
        own.set_read_timeout(Some(TIMEOUT)).unwrap();
        (&own).read_exact(&mut [0; 4]).unwrap();
        drop((own, command));
        assert_eq!(passt.0.wait().unwrap().code(), Some(0));
    });
}

/// Starts slirp4netns for a guest, and waits until it is ready.
fn slirp4netns(guest: &Guest, arguments: &[&str]) -> Foreground {
    let target = ["--netns-type=path", &guest.namespace, "tap0"];
    let mut command = named("slirp4netns", &[&["-c"], arguments, &target].concat());
    let mut gateway = Foreground(command.stdout(Stdio::piped()).spawn().unwrap());
    ProgramLog::read(gateway.0.stdout.take().unwrap()).wait_for("Recommended IP");
    gateway
}

#[test]
fn the_sandbox_of_slirp4netns_has_only_two_directories_and_the_guest_reaches_the_host() {
    on_host(|| {
        let guest = Guest::new();
        let directory = Directory::new("sandbox");
        let api = directory.path("api");
        let arguments = ["--enable-sandbox", "--enable-seccomp", "--api-socket", &api];
        let gateway = slirp4netns(&guest, &arguments);
        assert_eq!(root_of(gateway.0.id()), ["etc", "run"]);
        let (listener, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        accept(&listener);
        let port = free_port();
        let request = format!(
            r#"{{"execute":"add_hostfwd","arguments":{{"proto":"tcp","host_addr":"127.0.0.1","host_port":{port},"guest_port":80}}}}"#
        );
        let mut client = UnixStream::connect(&api).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, r#"{"return":{"id":1}}"#);
    });
}

#[test]
fn an_outbound_interface_of_slirp4netns_that_does_not_exist_is_refused() {
    on_host(|| {
        let guest = Guest::new();
        let target = ["--netns-type=path", &guest.namespace, "tap0"];
        for (option, text) in [
            ("--outbound-addr=nosuch0", "outbound-addr has to be valid ipv4 address or interface"),
            (
                "--outbound-addr6=nosuch0",
                "outbound-addr6 has to be valid ipv6 address or interface",
            ),
        ] {
            let (message, code) = failure("slirp4netns", &[&["-c", option], &target[..]].concat());
            assert!(message.contains(text) && code == Some(1), "{message}{code:?}");
        }
    });
}

#[test]
fn a_port_that_one_version_of_ip_uses_is_forwarded_for_the_other_one() {
    on_host(|| {
        let guest = Guest::new();
        let (_listener, address) = listen(Ipv4Addr::UNSPECIFIED);
        let port = address.port().to_string();
        let served = guest.run(|| TcpListener::bind("[::]:0").unwrap());
        let target = format!("{port}:{}", served.local_addr().unwrap().port());
        greet(served);
        let no_ports = ["-u", "none", "-T", "none", "-U", "none"];
        let arguments = ["--config-net", "-t", &target, "--netns", &guest.namespace];
        let _pasta = Pasta::start("one-version", &[&arguments[..], &no_ports].concat());
        let client = TcpStream::connect(("::1", address.port())).unwrap();
        assert_eq!(read_greeting(client), "hello");
    });
}

#[test]
fn the_outbound_address_of_slirp4netns_is_the_source_of_connections() {
    on_host(|| {
        let guest = Guest::new();
        let _gateway = slirp4netns(&guest, &["--outbound-addr=10.98.0.1"]);
        let (listener, address) = listen(HOST);
        let _client = guest.connect(address).unwrap();
        assert_eq!(accept(&listener).1.ip(), OTHER);
        let server = std::net::UdpSocket::bind((HOST, 0)).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let to = server.local_addr().unwrap();
        guest.run(move || {
            let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).unwrap();
            socket.send_to(b"question", to).unwrap();
        });
        assert_eq!(server.recv_from(&mut [0; 8]).unwrap().1.ip(), OTHER);
    });
}

#[test]
fn a_guest_of_pasta_reaches_no_metadata_service() {
    on_host(|| {
        let guest = Guest::new();
        let arguments = ["--config-net", "--netns", &guest.namespace];
        let _pasta = Pasta::start("metadata", &[&arguments[..], &NO_PORTS].concat());
        let error = guest.connect(SocketAddr::from(([169, 254, 169, 254], 80))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}
