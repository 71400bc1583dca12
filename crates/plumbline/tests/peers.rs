//! `plumb` with real peers: Debian's Telnet servers, kernel sockets, and hosts that do not answer.
//!
//! Each test has its own network, in which it starts what it needs: the servers at 10.0.0.1, and a
//! TUN on which plumb has 10.0.0.2. It types on a pseudo-terminal and reads the screen as a user
//! does: it waits at most ten seconds for text to appear.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::line::{self, Line};
use login_desk::names::Names;
use login_desk::serial_peer::SerialPeer;
use login_desk::{
    Person, SERVER, Server, Way, echo_once, in_network_of, in_new_network, listen, listen_to_both,
    plumb, quiet_network, tcp_urgent,
};
use os::process::Program;
use os::tty::WindowSize;
use protocols::time::Duration;
use protocols::transport::tcp::Ending;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Logs in, works, checks the status and leaves; must succeed with every server and transport.
fn work_at(server: Server, way: Way) {
    let server = server.start();
    let mut person = Person::at(way, server.port());
    person.sees("Connected to 10.0.0.1 port");
    person.has_a_shell();
    person.types("echo $((6*7))\r");
    person.sees("\n42\n");
    person.types("stty size\r");
    person.sees("24 80");
    person.resizes(WindowSize { rows: 40, columns: 100 });
    person.types("stty size\r");
    person.sees("40 100");
    person.types("\x1dstatus\r");
    person.sees("CPU time of plumb");
    person.sees(way.name());
    person.sees("Idle:");
    // The session must continue whether or not the server answers.
    person.types("send ayt\r");
    person.types("echo still $((2+2)) here\r");
    person.sees("still 4 here");
    person.types("\x1dclose\r");
    assert_eq!(person.leaves().code(), Some(0));
    person.sees("Connection closed here after");
    person.has_a_sane_terminal();
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_at_the_server_of_inetutils_over_the_kernel() {
    in_new_network(|| work_at(Server::Inetutils, Way::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_at_the_server_of_inetutils_over_our_own_tcp() {
    in_new_network(|| work_at(Server::Inetutils, Way::Tun));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_at_the_server_of_busybox_over_the_kernel() {
    in_new_network(|| work_at(Server::Busybox, Way::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_at_the_server_of_busybox_over_our_own_tcp() {
    in_new_network(|| work_at(Server::Busybox, Way::Tun));
}

/// Logs in over an Ethernet segment, works and leaves.
fn work_by(way: &str) {
    let server = Server::Inetutils.start();
    let mut person = Person::over(&["--via", way, SERVER, &server.port().to_string()]);
    person.sees("Connected to 10.0.0.1 port");
    person.has_a_shell();
    person.types("echo $((6*7)); seq 1 20000 | tail -c 40000 | cksum\r");
    person.sees("\n42\n");
    person.types("seq 1 5000; echo do''ne\r");
    person.sees("done");
    person.types("\x1dstatus\r");
    person.sees("TCP: plumb's own");
    person.sees("Idle:");
    person.types("close\r");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_at_the_server_of_inetutils_over_a_tap() {
    let network: &[&[&str]] = &[
        &["tuntap", "add", "plumb0", "mode", "tap"],
        &["address", "add", "10.0.0.1/24", "dev", "plumb0"],
        &["link", "set", "plumb0", "up"],
    ];
    in_network_of(network, || work_by("tap:plumb0?address=10.0.0.2"));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_at_the_server_of_inetutils_over_a_packet_socket() {
    let network: &[&[&str]] = &[
        &["link", "add", "plumb0", "type", "veth", "peer", "name", "far0"],
        &["address", "add", "10.0.0.1/24", "dev", "far0"],
        &["link", "set", "plumb0", "up"],
        &["link", "set", "far0", "up"],
    ];
    in_network_of(network, || work_by("packet:plumb0?address=10.0.0.2/24"));
}

/// A network with the kernel at an IPv4 and an IPv6 address, on a TUN for plumb.
const DUAL_STACK: &[&[&str]] = &[
    &["tuntap", "add", "plumb0", "mode", "tun"],
    &["address", "add", "10.0.0.1/24", "dev", "plumb0"],
    &["address", "add", "2001:db8::1/64", "dev", "plumb0", "nodad"],
    &["link", "set", "plumb0", "up"],
];
const SERVER_V6: &str = "2001:db8::1";
/// Addresses without a host: one in the server's network, and one in the quiet network.
const SILENT_V6: &str = "2001:db8::9";
const QUIET_V6: &str = "2001:db8:9::9";
const TCP: u8 = 6;
const UDP: u8 = 17;

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_by_ipv4_over_the_kernel_at_a_host_whose_ipv6_is_dead() {
    in_network_of(DUAL_STACK, || {
        let quiet = quiet_network();
        let names = Names::new("dead", &format!("{QUIET_V6} far\n{SERVER} far\n"), "");
        let server = login_desk::start_inetutils(listen_to_both(), &[]);
        let port = server.port().to_string();
        let mut person = Person::running(names.plumb(&["login", "far", &port]));
        login_desk::is_sent_without_answer(&quiet, TCP, QUIET_V6.parse().unwrap());
        person.sees("Connected to far (10.0.0.1) port");
        person.has_a_shell();
        person.types("echo $((6*7))\r");
        person.sees("\n42\n");
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_by_ipv4_over_our_own_tcp_at_a_host_whose_ipv6_is_dead() {
    in_network_of(DUAL_STACK, || {
        // The reverse of the order of RFC 6724.
        let names = Names::new("mute", &format!("{SERVER} far\n{SILENT_V6} far\n"), "");
        let server = login_desk::start_inetutils(listen_to_both(), &[]);
        let arguments = ["login", "--via", "tun:plumb0", "far", &server.port().to_string()];
        let mut person = Person::running(names.plumb(&arguments));
        person.sees("Connected to far (10.0.0.1) port");
        person.has_a_shell();
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

/// Logs in to a host with both families and leaves; `found` is the expected address.
fn calls(names: &Names, arguments: &[&str], found: &str) {
    let server = login_desk::start_inetutils(listen_to_both(), &[]);
    let port = server.port().to_string();
    let mut command = names.plumb(&["login"]);
    command.args(arguments).args(["far", &port]);
    let mut person = Person::running(command);
    person.sees(&format!("Connected to far ({found}) port"));
    person.has_a_shell();
    person.types("exit\r");
    assert_eq!(person.leaves().code(), Some(0));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn of_a_host_with_both_families_the_one_that_was_asked_for_is_called() {
    in_network_of(DUAL_STACK, || {
        let names = Names::new("both", &format!("{SERVER} far\n{SERVER_V6} far\n"), "");
        for way in [Way::Kernel, Way::Tun] {
            let [via, way] = way.arguments();
            calls(&names, &[via, way], SERVER_V6);
            calls(&names, &[via, way, "-4"], SERVER);
            calls(&names, &[via, way, "-6"], SERVER_V6);
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_person_works_over_our_own_tcp_by_ipv6_alone() {
    let network: &[&[&str]] = &[
        &["tuntap", "add", "plumb0", "mode", "tun"],
        &["address", "add", "2001:db8::1/64", "dev", "plumb0", "nodad"],
        &["link", "set", "plumb0", "up"],
    ];
    in_network_of(network, || {
        let server = login_desk::start_inetutils(listen_to_both(), &[]);
        let port = server.port().to_string();
        let mut person = Person::over(&["--via", "tun:plumb0", SERVER_V6, &port]);
        person.sees("Connected to 2001:db8::1 port");
        person.has_a_shell();
        person.types("seq 1 5000; echo do''ne\r");
        person.sees("done");
        person.types("\x1dstatus\r");
        person.sees("TCP: plumb's own");
        person.types("close\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_address_of_ours_may_be_said_for_each_family() {
    in_network_of(DUAL_STACK, || {
        let via = "tun:plumb0?address=10.0.0.7&address=2001:db8::7";
        for (server, ours) in [(SERVER, "10.0.0.7"), (SERVER_V6, "2001:db8::7")] {
            let listener = listen_to_both();
            let port = listener.local_addr().unwrap().port().to_string();
            let mut person = Person::over(&["--via", via, server, &port]);
            let (_far, caller) = listener.accept().unwrap();
            assert_eq!(caller.ip().to_canonical().to_string(), ours);
            person.sees("Connected");
        }
    });
}

/// Runs plumb with a name server that does not answer, and interrupts it meanwhile.
fn is_interrupted_while_it_asks(command: &str) -> std::process::Output {
    let quiet = quiet_network();
    let resolver = "nameserver 10.9.0.2\noptions timeout:30 attempts:5\n";
    let names = Names::new(command, "", resolver);
    let mut plumb = names.plumb(&[command, "far.example"]);
    plumb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = Program::start(&mut plumb).unwrap();
    login_desk::is_sent_without_answer(&quiet, UDP, "10.9.0.2".parse().unwrap());
    program.signal(rustix::process::Signal::INT).unwrap();
    let status = program.wait_for_end(Duration::from_secs(10)).unwrap().unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    program.child().stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    program.child().stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    std::process::Output { status, stdout, stderr }
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_measurement_can_be_interrupted_while_a_name_is_looked_up() {
    in_new_network(|| {
        let output = is_interrupted_while_it_asks("measure");
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "plumb: interrupted before the connection was established\n");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_login_can_be_interrupted_while_a_name_is_looked_up() {
    in_new_network(|| {
        let output = is_interrupted_while_it_asks("login");
        assert_eq!(output.status.signal(), Some(2));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn what_has_no_address_is_exit_code_1_for_both_commands() {
    in_new_network(|| {
        for command in ["login", "measure"] {
            let names = Names::new("none", "", "");
            for (target, said) in
                [("10.0.0.1", "10.0.0.1 has no IPv6"), ("far", "cannot resolve 'far'")]
            {
                let output = names.plumb(&[command, "-6", target]).output().unwrap();
                assert_eq!(output.status.code(), Some(1));
                let error = String::from_utf8(output.stderr).unwrap();
                assert!(error.contains(said), "{error}");
                assert_eq!(error.lines().count(), 1, "{error}");
            }
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn the_far_side_says_that_it_is_there() {
    in_new_network(|| {
        let server = Server::Inetutils.start();
        let mut person = Person::at(Way::Tun, server.port());
        person.has_a_shell();
        person.types("\x1dsend ayt\r");
        person.sees("[Yes]");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_control_c_goes_to_the_far_side() {
    in_new_network(|| {
        let server = Server::Inetutils.start();
        let mut person = Person::at(Way::Tun, server.port());
        person.has_a_shell();
        person
            .types("stty raw -echo; echo go''ing; dd bs=1 count=1 2>&- | od -An -tu1; stty sane\r");
        person.sees("going");
        person.types("\x03");
        person.sees("   3\nready:");
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_shell_that_ends_ends_the_session_with_success() {
    in_new_network(|| {
        let server = Server::Busybox.start();
        let mut person = Person::at(Way::Tun, server.port());
        person.has_a_shell();
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
        person.sees("Connection closed by the remote host");
        person.has_a_sane_terminal();
    });
}

/// Sends a Synch from the server, and then several from the client.
fn synch_by(way: Way) {
    let listener = listen();
    let mut person = Person::at(way, listener.local_addr().unwrap().port());
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"before\r\n").unwrap();
    person.sees("before");
    tcp_urgent::send(&far, b"discarded\xff\xf2");
    far.write_all(b"after").unwrap();
    person.sees("after");
    assert!(!person.screen().contains("discarded"), "{}", person.screen());
    person.types("\x1dsend synch\r");
    assert_eq!(tcp_urgent::receive(&far), b"\xff\xf2");
    for (command, code) in [("ip", 0xf4), ("ao", 0xf5), ("abort", 0xee), ("brk", 0xf3)] {
        person.types(&format!("\x1dsend {command}\r"));
        assert_eq!(tcp_urgent::receive(&far), [0xff, code, 0xff, 0xf2], "{command}");
    }
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_synch_goes_both_ways_over_the_kernel() {
    in_new_network(|| synch_by(Way::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_synch_goes_both_ways_over_our_own_tcp() {
    in_new_network(|| synch_by(Way::Tun));
}

/// Resets the connection from the server in the middle of the session.
fn reset_by(way: Way) {
    let listener = listen();
    let mut person = Person::at(way, listener.local_addr().unwrap().port());
    let (far, _) = listener.accept().unwrap();
    person.sees("Connected");
    tcp_urgent::reset(far);
    assert_eq!(person.leaves().code(), Some(1));
    person.sees("reset the connection");
    person.has_a_sane_terminal();
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_far_side_that_resets_is_a_failure_and_the_terminal_is_restored_over_the_kernel() {
    in_new_network(|| reset_by(Way::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_far_side_that_resets_is_a_failure_and_the_terminal_is_restored_over_our_own_tcp() {
    in_new_network(|| reset_by(Way::Tun));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_signal_ends_plumb_and_the_terminal_is_restored() {
    in_new_network(|| {
        let listener = listen();
        let mut person = Person::at(Way::Kernel, listener.local_addr().unwrap().port());
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"hello").unwrap();
        person.sees("hello");
        person.is_sent(rustix::process::Signal::TERM);
        assert_eq!(person.leaves().signal(), Some(15));
        person.has_a_sane_terminal();
    });
}

fn the_modes_of_the_display_are_reset_by(signal: rustix::process::Signal) {
    in_new_network(move || {
        let listener = listen();
        let mut person = Person::at(Way::Kernel, listener.local_addr().unwrap().port());
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"\x1b[?1049h\x1b[?1000hhello").unwrap();
        person.sees("hello");
        person.is_sent(signal);
        assert_eq!(person.leaves().signal(), Some(signal.as_raw()));
        assert!(person.written().ends_with("\x1b[?1000l\x1b[?1049l"), "{:?}", person.written());
        person.has_a_sane_terminal();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn sigterm_resets_the_modes_that_the_remote_host_has_set() {
    the_modes_of_the_display_are_reset_by(rustix::process::Signal::TERM);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn sighup_resets_the_modes_that_the_remote_host_has_set() {
    the_modes_of_the_display_are_reset_by(rustix::process::Signal::HUP);
}

#[test]
#[ignore = "takes a pseudo-terminal for a serial line"]
fn a_person_works_over_a_serial_line_whose_other_end_gives_the_address() {
    let line = Line::start();
    let mut person = Person::over(&["--via", &line.via(), line::HOST]);
    person.sees("Connected to 10.0.0.6 port 23 via plumb's own TCP/IP on serial:");
    person.types("mumble");
    person.sees("mumble");
    person.types("\x1dstatus\r");
    person.sees("Idle:");
    person.sees("TCP: plumb's own, Established");
    person.sees("link");
    person.types("close\r");
    assert_eq!(person.leaves().code(), Some(0));
    assert_eq!(line.ending(), Some(Ending::Reset));
}

#[test]
#[ignore = "takes a pseudo-terminal for a serial line"]
fn a_person_works_over_a_serial_line_with_compressed_headers() {
    let line = Line::with_header_compression();
    let mut person = Person::over(&["--via", &line.via(), line::HOST]);
    person.sees("link=llp&vj=1");
    person.types("mumble");
    person.sees("mumble");
    person.types("\x1dclose\r");
    assert_eq!(person.leaves().code(), Some(0));
    assert_eq!(line.ending(), Some(Ending::Reset));
}

/// Logs in to the inetutils server through slirp, which speaks `protocol` on the line.
fn work_through_slirp(protocol: &'static [&'static str], settings: &'static str) {
    in_new_network(move || {
        let server = Server::Inetutils.start();
        let slirp = SerialPeer::slirp(protocol);
        let (way, port) = (slirp.via(settings), server.port().to_string());
        let mut person = Person::with_password("right", &["--via", &way, SERVER, &port]);
        person.sees("Connected to 10.0.0.1 port");
        person.has_a_shell();
        person.types("echo $((6*7)); seq 1 2000 | tail -c 6000\r");
        person.sees("\n42\n");
        person.sees("\n2000\n");
        person.types("exit\r");
        assert_eq!(person.leaves().code(), Some(0));
        person.sees("Connection closed by the remote host");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_person_works_over_slip_to_slirp() {
    work_through_slirp(&["mtu 1500"], "link=slip&address=10.0.2.15");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_person_works_over_slip_with_compressed_headers_to_slirp() {
    work_through_slirp(&["compress"], "link=cslip&address=10.0.2.15");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_person_works_over_ppp_with_compressed_headers_to_slirp() {
    work_through_slirp(&["ppp"], "link=ppp");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_person_works_over_ppp_with_whole_headers_and_an_own_address_to_slirp() {
    work_through_slirp(&["ppp"], "link=ppp&vj=0&address=10.0.2.15");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn slirp_lets_in_who_proves_by_chap_that_it_is_the_guest() {
    work_through_slirp(&["ppp", "+chap"], "link=ppp&user=guest");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn slirp_lets_in_who_says_the_password_of_the_guest_by_pap() {
    work_through_slirp(&["ppp", "+pap"], "link=ppp&user=guest");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp"]
fn slirp_does_not_let_in_who_has_a_wrong_password_or_none() {
    in_new_network(|| {
        for (method, settings) in [
            ("+chap", "link=ppp&user=guest"),
            ("+pap", "link=ppp&user=guest"),
            ("+chap", "link=ppp"),
        ] {
            let slirp = SerialPeer::slirp(&["ppp", method]);
            let way = slirp.via(settings);
            let mut person = Person::with_password("wrong", &["--via", &way, SERVER]);
            assert_eq!(person.leaves().code(), Some(4));
            person.sees("the PPP peer");
            assert!(!person.screen().contains("Connected"), "{}", person.screen());
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with PPP, and Debian's ppp"]
fn a_person_works_over_ppp_to_pppd() {
    in_new_network(|| {
        let pppd = match SerialPeer::pppd() {
            Ok(pppd) => pppd,
            Err(said) if said.contains("PPP kernel support") || said.contains("/dev/ppp") => {
                return test_support::not_configured("kernel: PPP", &said);
            }
            Err(said) => panic!("pppd does not run: {said}"),
        };
        let (port, far) = echo_once();
        let mut person =
            Person::over(&["--via", &pppd.via("link=ppp"), "10.1.0.1", &port.to_string()]);
        person.sees("Connected to 10.1.0.1 port");
        person.types("mumble\r");
        person.sees("mumble");
        person.types("\x1dclose\r");
        assert_eq!(person.leaves().code(), Some(0));
        drop(far);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_port_where_nobody_listens_refuses() {
    in_new_network(|| {
        for way in [Way::Kernel, Way::Tun] {
            let mut person = Person::at(way, 9);
            assert_eq!(person.leaves().code(), Some(1));
            person.sees("10.0.0.1:9 refuses the connection");
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_host_that_is_silent_is_given_up_after_the_time_that_was_asked_for() {
    in_new_network(|| {
        let _quiet = quiet_network();
        for via in [&["--via", "kernel"][..], &["--via", "tun:plumb0"]] {
            let mut command = plumb();
            command.args(via).args(["--timeout", "1", "10.9.0.2"]);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("10.9.0.2:23 did not answer within 1 s"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    });
}

/// Pipes input through an echo server, and compares the output.
fn pipe_through(way: Way) {
    let (port, far) = echo_once();
    let mut command = plumb();
    command.args(way.arguments()).args([SERVER, &port.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"one\r\ntwo\r\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    far.join().unwrap();
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_pipe_is_sent_and_its_answer_awaited_over_the_kernel() {
    in_new_network(|| pipe_through(Way::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_pipe_is_sent_and_its_answer_awaited_over_our_own_tcp() {
    in_new_network(|| pipe_through(Way::Tun));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_regular_file_is_sent_whole_both_ways() {
    in_new_network(|| {
        let text = "0123456789abcde\n".repeat(20_000);
        let path = std::env::temp_dir().join(format!("plumb-peers-{}", std::process::id()));
        std::fs::write(&path, &text).unwrap();
        for way in [Way::Kernel, Way::Tun] {
            let (port, far) = echo_once();
            let mut command = plumb();
            command.args(way.arguments()).args(["--lf", SERVER, &port.to_string()]);
            let output = command.stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
            assert_eq!(output.stdout.len(), text.len(), "{way:?}");
            assert!(output.stdout == text.as_bytes());
            assert_eq!(output.status.code(), Some(0));
            far.join().unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_reader_that_has_seen_enough_ends_the_session_quietly() {
    in_new_network(|| {
        let listener = listen();
        let mut command = plumb();
        command.args([SERVER, &listener.local_addr().unwrap().port().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        drop(program.child().stdout.take());
        // A process that is being started may hold the other end of the pipe for a moment.
        let status = login_desk::within_the_limit(|| {
            _ = far.write_all(b"nobody reads this\r\n");
            program.wait_for_end(Duration::from_millis(20)).unwrap()
        });
        let mut said = String::new();
        program.child().stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    });
}
