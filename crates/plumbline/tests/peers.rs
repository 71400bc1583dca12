//! Tests of `plumb` with real peers: Debian's Telnet servers, kernel sockets, and hosts that do not
//! answer.
//!
//! Each test has its own network namespace with servers at 10.0.0.1 and a TUN on which plumb has
//! 10.0.0.2. The test types on a pseudo-terminal and reads the screen like a user, and waits at
//! most ten seconds for each expected text.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::llp_station::{self, SerialLine};
use login_harness::names::Names;
use login_harness::serial_peer::SerialPeer;
use login_harness::{
    SERVER, Server, TcpStack, TerminalUser, echo_once, in_configured_network, in_new_network,
    listen, listen_to_both, plumb, quiet_network, tcp_urgent,
};
use net::time::Duration;
use net::transport::tcp::CloseReason;
use os::process::Program;
use os::tty::WindowSize;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Logs in, runs commands, checks the status and logs out. This must succeed with every server and
/// TCP implementation.
fn log_in_to_server(server: Server, tcp_stack: TcpStack) {
    let server = server.start();
    let mut user = TerminalUser::log_in(tcp_stack, server.port());
    user.wait_for_text("Connected to 10.0.0.1 port");
    user.wait_for_shell();
    user.type_keys("echo $((6*7))\r");
    user.wait_for_text("\n42\n");
    user.type_keys("stty size\r");
    user.wait_for_text("24 80");
    user.set_window_size(WindowSize { rows: 40, columns: 100 });
    user.type_keys("stty size\r");
    user.wait_for_text("40 100");
    user.type_keys("\x1dstatus\r");
    user.wait_for_text("CPU time of plumb");
    user.wait_for_text(tcp_stack.name());
    user.wait_for_text("Idle:");
    // The session must continue whether or not the server answers.
    user.type_keys("send ayt\r");
    user.type_keys("echo still $((2+2)) here\r");
    user.wait_for_text("still 4 here");
    user.type_keys("\x1dclose\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    user.wait_for_text("Connection closed here after");
    user.assert_sane_terminal();
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_to_inetutils_over_kernel_tcp() {
    in_new_network(|| log_in_to_server(Server::Inetutils, TcpStack::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_to_inetutils_over_userspace_tcp() {
    in_new_network(|| log_in_to_server(Server::Inetutils, TcpStack::Tun));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_to_busybox_over_kernel_tcp() {
    in_new_network(|| log_in_to_server(Server::Busybox, TcpStack::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_to_busybox_over_userspace_tcp() {
    in_new_network(|| log_in_to_server(Server::Busybox, TcpStack::Tun));
}

/// Logs in over an Ethernet segment, runs commands and logs out.
fn log_in_over_ethernet(tcp_stack: &str) {
    let server = Server::Inetutils.start();
    let mut user =
        TerminalUser::with_arguments(&["--via", tcp_stack, SERVER, &server.port().to_string()]);
    user.wait_for_text("Connected to 10.0.0.1 port");
    user.wait_for_shell();
    user.type_keys("echo $((6*7)); seq 1 20000 | tail -c 40000 | cksum\r");
    user.wait_for_text("\n42\n");
    user.type_keys("seq 1 5000; echo do''ne\r");
    user.wait_for_text("done");
    user.type_keys("\x1dstatus\r");
    user.wait_for_text("TCP: plumb's own");
    user.wait_for_text("Idle:");
    user.type_keys("close\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_to_inetutils_over_a_tap() {
    let network: &[&[&str]] = &[
        &["tuntap", "add", "plumb0", "mode", "tap"],
        &["address", "add", "10.0.0.1/24", "dev", "plumb0"],
        &["link", "set", "plumb0", "up"],
    ];
    in_configured_network(network, || log_in_over_ethernet("tap:plumb0?address=10.0.0.2"));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_to_inetutils_over_a_packet_socket() {
    let network: &[&[&str]] = &[
        &["link", "add", "plumb0", "type", "veth", "peer", "name", "far0"],
        &["address", "add", "10.0.0.1/24", "dev", "far0"],
        &["link", "set", "plumb0", "up"],
        &["link", "set", "far0", "up"],
    ];
    in_configured_network(network, || log_in_over_ethernet("packet:plumb0?address=10.0.0.2/24"));
}

/// Commands of `ip` that create a TUN for plumb, on which the kernel has an IPv4 and an IPv6
/// address.
const DUAL_STACK: &[&[&str]] = &[
    &["tuntap", "add", "plumb0", "mode", "tun"],
    &["address", "add", "10.0.0.1/24", "dev", "plumb0"],
    &["address", "add", "2001:db8::1/64", "dev", "plumb0", "nodad"],
    &["link", "set", "plumb0", "up"],
];
const SERVER_V6: &str = "2001:db8::1";
/// Addresses without a host: one in the server's subnet, and one in the quiet subnet.
const SILENT_V6: &str = "2001:db8::9";
const QUIET_V6: &str = "2001:db8:9::9";
const TCP: u8 = 6;
const UDP: u8 = 17;

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_host_with_dead_ipv6_is_reached_by_ipv4_over_kernel_tcp() {
    in_configured_network(DUAL_STACK, || {
        let quiet = quiet_network();
        let names = Names::new("dead", &format!("{QUIET_V6} far\n{SERVER} far\n"), "");
        let server = login_harness::start_inetutils(listen_to_both(), &[]);
        let port = server.port().to_string();
        let mut user = TerminalUser::run(names.plumb(&["login", "far", &port]));
        login_harness::wait_for_unanswered_packet(&quiet, TCP, QUIET_V6.parse().unwrap());
        user.wait_for_text("Connected to far (10.0.0.1) port");
        user.wait_for_shell();
        user.type_keys("echo $((6*7))\r");
        user.wait_for_text("\n42\n");
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_host_with_dead_ipv6_is_reached_by_ipv4_over_userspace_tcp() {
    in_configured_network(DUAL_STACK, || {
        // The reverse of the order of RFC 6724.
        let names = Names::new("mute", &format!("{SERVER} far\n{SILENT_V6} far\n"), "");
        let server = login_harness::start_inetutils(listen_to_both(), &[]);
        let arguments = ["login", "--via", "tun:plumb0", "far", &server.port().to_string()];
        let mut user = TerminalUser::run(names.plumb(&arguments));
        user.wait_for_text("Connected to far (10.0.0.1) port");
        user.wait_for_shell();
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

/// Logs in to a host with IPv4 and IPv6 addresses and logs out; `expected` is the address that
/// plumb must connect to.
fn assert_login_reaches(names: &Names, arguments: &[&str], expected: &str) {
    let server = login_harness::start_inetutils(listen_to_both(), &[]);
    let port = server.port().to_string();
    let mut command = names.plumb(&["login"]);
    command.args(arguments).args(["far", &port]);
    let mut user = TerminalUser::run(command);
    user.wait_for_text(&format!("Connected to far ({expected}) port"));
    user.wait_for_shell();
    user.type_keys("exit\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn the_requested_family_of_a_dual_stack_host_is_used() {
    in_configured_network(DUAL_STACK, || {
        let names = Names::new("both", &format!("{SERVER} far\n{SERVER_V6} far\n"), "");
        for tcp_stack in [TcpStack::Kernel, TcpStack::Tun] {
            let [via, tcp_stack] = tcp_stack.arguments();
            assert_login_reaches(&names, &[via, tcp_stack], SERVER_V6);
            assert_login_reaches(&names, &[via, tcp_stack, "-4"], SERVER);
            assert_login_reaches(&names, &[via, tcp_stack, "-6"], SERVER_V6);
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_user_logs_in_over_userspace_tcp_with_ipv6_only() {
    let network: &[&[&str]] = &[
        &["tuntap", "add", "plumb0", "mode", "tun"],
        &["address", "add", "2001:db8::1/64", "dev", "plumb0", "nodad"],
        &["link", "set", "plumb0", "up"],
    ];
    in_configured_network(network, || {
        let server = login_harness::start_inetutils(listen_to_both(), &[]);
        let port = server.port().to_string();
        let mut user = TerminalUser::with_arguments(&["--via", "tun:plumb0", SERVER_V6, &port]);
        user.wait_for_text("Connected to 2001:db8::1 port");
        user.wait_for_shell();
        user.type_keys("seq 1 5000; echo do''ne\r");
        user.wait_for_text("done");
        user.type_keys("\x1dstatus\r");
        user.wait_for_text("TCP: plumb's own");
        user.type_keys("close\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_local_address_can_be_given_for_each_family() {
    in_configured_network(DUAL_STACK, || {
        let via = "tun:plumb0?address=10.0.0.7&address=2001:db8::7";
        for (server, ours) in [(SERVER, "10.0.0.7"), (SERVER_V6, "2001:db8::7")] {
            let listener = listen_to_both();
            let port = listener.local_addr().unwrap().port().to_string();
            let mut user = TerminalUser::with_arguments(&["--via", via, server, &port]);
            let (_far, client) = listener.accept().unwrap();
            assert_eq!(client.ip().to_canonical().to_string(), ours);
            user.wait_for_text("Connected");
        }
    });
}

/// Runs plumb with a name server that does not answer, and interrupts plumb while it waits.
fn interrupt_during_name_resolution(command: &str) -> std::process::Output {
    let quiet = quiet_network();
    let resolver = "nameserver 10.9.0.2\noptions timeout:30 attempts:5\n";
    let names = Names::new(command, "", resolver);
    let mut plumb = names.plumb(&[command, "far.example"]);
    plumb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = Program::start(&mut plumb).unwrap();
    login_harness::wait_for_unanswered_packet(&quiet, UDP, "10.9.0.2".parse().unwrap());
    program.signal(rustix::process::Signal::INT).unwrap();
    let status = program.wait_for_end(Duration::from_secs(10)).unwrap().unwrap();
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    program.child().stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    program.child().stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    std::process::Output { status, stdout, stderr }
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_measurement_can_be_interrupted_during_name_resolution() {
    in_new_network(|| {
        let output = interrupt_during_name_resolution("measure");
        assert_eq!(output.status.code(), Some(130));
        let messages = String::from_utf8(output.stderr).unwrap();
        assert_eq!(messages, "plumb: error: interrupted before the connection was established\n");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_login_can_be_interrupted_during_name_resolution() {
    in_new_network(|| {
        let output = interrupt_during_name_resolution("login");
        assert_eq!(output.status.signal(), Some(2));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_name_without_an_address_causes_exit_code_1_for_both_commands() {
    in_new_network(|| {
        for command in ["login", "measure"] {
            let names = Names::new("none", "", "");
            for (target, messages) in
                [("10.0.0.1", "10.0.0.1 has no IPv6"), ("far", "cannot resolve 'far'")]
            {
                let output = names.plumb(&[command, "-6", target]).output().unwrap();
                assert_eq!(output.status.code(), Some(1));
                let error = String::from_utf8(output.stderr).unwrap();
                assert!(error.contains(messages), "{error}");
                assert_eq!(error.lines().count(), 1, "{error}");
            }
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn the_server_answers_are_you_there() {
    in_new_network(|| {
        let server = Server::Inetutils.start();
        let mut user = TerminalUser::log_in(TcpStack::Tun, server.port());
        user.wait_for_shell();
        user.type_keys("\x1dsend ayt\r");
        user.wait_for_text("[Yes]");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_control_c_is_sent_to_the_server() {
    in_new_network(|| {
        let server = Server::Inetutils.start();
        let mut user = TerminalUser::log_in(TcpStack::Tun, server.port());
        user.wait_for_shell();
        user.type_keys(
            "stty raw -echo; echo go''ing; dd bs=1 count=1 2>&- | od -An -tu1; stty sane\r",
        );
        user.wait_for_text("going");
        user.type_keys("\x03");
        user.wait_for_text("   3\nready:");
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_shell_that_ends_ends_the_session_with_success() {
    in_new_network(|| {
        let server = Server::Busybox.start();
        let mut user = TerminalUser::log_in(TcpStack::Tun, server.port());
        user.wait_for_shell();
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        user.wait_for_text("Connection closed by the remote host");
        user.assert_sane_terminal();
    });
}

/// Sends a Synch from the server, and then several from the client.
fn test_synch_in_both_directions(tcp_stack: TcpStack) {
    let listener = listen();
    let mut user = TerminalUser::log_in(tcp_stack, listener.local_addr().unwrap().port());
    let (mut remote, _) = listener.accept().unwrap();
    remote.write_all(b"before\r\n").unwrap();
    user.wait_for_text("before");
    tcp_urgent::send(&remote, b"discarded\xff\xf2");
    remote.write_all(b"after").unwrap();
    user.wait_for_text("after");
    assert!(!user.screen().contains("discarded"), "{}", user.screen());
    user.type_keys("\x1dsend synch\r");
    assert_eq!(tcp_urgent::receive(&remote), b"\xff\xf2");
    for (command, code) in [("ip", 0xf4), ("ao", 0xf5), ("abort", 0xee), ("brk", 0xf3)] {
        user.type_keys(&format!("\x1dsend {command}\r"));
        assert_eq!(tcp_urgent::receive(&remote), [0xff, code, 0xff, 0xf2], "{command}");
    }
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_synch_works_in_both_directions_over_kernel_tcp() {
    in_new_network(|| test_synch_in_both_directions(TcpStack::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_synch_works_in_both_directions_over_userspace_tcp() {
    in_new_network(|| test_synch_in_both_directions(TcpStack::Tun));
}

/// Resets the connection from the server in the middle of the session.
fn test_reset_by_server(tcp_stack: TcpStack) {
    let listener = listen();
    let mut user = TerminalUser::log_in(tcp_stack, listener.local_addr().unwrap().port());
    let (remote, _) = listener.accept().unwrap();
    user.wait_for_text("Connected");
    tcp_urgent::reset(remote);
    assert_eq!(user.wait_for_exit().code(), Some(1));
    user.wait_for_text("reset the connection");
    user.assert_sane_terminal();
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_reset_by_the_server_is_an_error_and_restores_the_terminal_over_kernel_tcp() {
    in_new_network(|| test_reset_by_server(TcpStack::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_reset_by_the_server_is_an_error_and_restores_the_terminal_over_userspace_tcp() {
    in_new_network(|| test_reset_by_server(TcpStack::Tun));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_signal_ends_plumb_and_the_terminal_is_restored() {
    in_new_network(|| {
        let listener = listen();
        let mut user =
            TerminalUser::log_in(TcpStack::Kernel, listener.local_addr().unwrap().port());
        let (mut remote, _) = listener.accept().unwrap();
        remote.write_all(b"hello").unwrap();
        user.wait_for_text("hello");
        user.send_signal(rustix::process::Signal::TERM);
        assert_eq!(user.wait_for_exit().signal(), Some(15));
        user.assert_sane_terminal();
    });
}

fn assert_signal_resets_display_modes(signal: rustix::process::Signal) {
    in_new_network(move || {
        let listener = listen();
        let mut user =
            TerminalUser::log_in(TcpStack::Kernel, listener.local_addr().unwrap().port());
        let (mut remote, _) = listener.accept().unwrap();
        remote.write_all(b"\x1b[?1049h\x1b[?1000hhello").unwrap();
        user.wait_for_text("hello");
        user.send_signal(signal);
        assert_eq!(user.wait_for_exit().signal(), Some(signal.as_raw()));
        assert!(user.all_output().ends_with("\x1b[?1000l\x1b[?1049l"), "{:?}", user.all_output());
        user.assert_sane_terminal();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn sigterm_resets_the_modes_that_the_remote_host_has_set() {
    assert_signal_resets_display_modes(rustix::process::Signal::TERM);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn sighup_resets_the_modes_that_the_remote_host_has_set() {
    assert_signal_resets_display_modes(rustix::process::Signal::HUP);
}

#[test]
#[ignore = "takes a pseudo-terminal for a serial line"]
fn a_user_logs_in_over_a_serial_line_with_an_assigned_address() {
    let line = SerialLine::start();
    let mut user = TerminalUser::with_arguments(&["--via", &line.via(), llp_station::HOST]);
    user.wait_for_text("Connected to 10.0.0.6 port 23 via plumb's own TCP/IP on");
    user.type_keys("mumble");
    user.wait_for_text("mumble");
    user.type_keys("\x1dstatus\r");
    user.wait_for_text("Idle:");
    user.wait_for_text("TCP: plumb's own, Established");
    user.wait_for_text("link");
    user.type_keys("close\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    assert_eq!(line.close_reason(), Some(CloseReason::Reset));
}

#[test]
#[ignore = "takes a pseudo-terminal for a serial line"]
fn a_user_logs_in_over_a_serial_line_with_compressed_headers() {
    let line = SerialLine::with_header_compression();
    let mut user = TerminalUser::with_arguments(&["--via", &line.via(), llp_station::HOST]);
    user.wait_for_text("link=llp&vj=1");
    user.type_keys("mumble");
    user.wait_for_text("mumble");
    user.type_keys("\x1dclose\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    assert_eq!(line.close_reason(), Some(CloseReason::Reset));
}

/// Logs in to the inetutils server through slirp, which speaks `protocol` on the line.
fn log_in_through_slirp(protocol: &'static [&'static str], settings: &'static str) {
    in_new_network(move || {
        let server = Server::Inetutils.start();
        let slirp = SerialPeer::slirp(protocol);
        let tcp_stack = slirp.via(settings);
        let port = server.port().to_string();
        let mut user = TerminalUser::with_password("right", &["--via", &tcp_stack, SERVER, &port]);
        user.wait_for_text("Connected to 10.0.0.1 port");
        user.wait_for_shell();
        user.type_keys("echo $((6*7)); seq 1 2000 | tail -c 6000\r");
        user.wait_for_text("\n42\n");
        user.wait_for_text("\n2000\n");
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        user.wait_for_text("Connection closed by the remote host");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_user_logs_in_over_slip_to_slirp() {
    log_in_through_slirp(&["mtu 1500"], "link=slip&address=10.0.2.15");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_user_logs_in_over_slip_with_compressed_headers_to_slirp() {
    log_in_through_slirp(&["compress"], "link=cslip&address=10.0.2.15");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_user_logs_in_over_ppp_with_compressed_headers_to_slirp() {
    log_in_through_slirp(&["ppp"], "link=ppp");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn a_user_logs_in_over_ppp_with_uncompressed_headers_and_a_given_address_to_slirp() {
    log_in_through_slirp(&["ppp"], "link=ppp&vj=0&address=10.0.2.15");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn slirp_accepts_chap_authentication() {
    log_in_through_slirp(&["ppp", "+chap"], "link=ppp&user=guest");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp and telnet server"]
fn slirp_accepts_pap_authentication() {
    log_in_through_slirp(&["ppp", "+pap"], "link=ppp&user=guest");
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's slirp"]
fn slirp_rejects_a_wrong_or_missing_password() {
    in_new_network(|| {
        for (method, settings) in [
            ("+chap", "link=ppp&user=guest"),
            ("+pap", "link=ppp&user=guest"),
            ("+chap", "link=ppp"),
        ] {
            let slirp = SerialPeer::slirp(&["ppp", method]);
            let tcp_stack = slirp.via(settings);
            let mut user = TerminalUser::with_password("wrong", &["--via", &tcp_stack, SERVER]);
            assert_eq!(user.wait_for_exit().code(), Some(4));
            user.wait_for_text("the PPP peer");
            assert!(!user.screen().contains("Connected"), "{}", user.screen());
        }
    });
}

#[test]
#[ignore = "needs root, a kernel with PPP, and Debian's ppp"]
fn a_user_logs_in_over_ppp_to_pppd() {
    in_new_network(|| {
        let pppd = match SerialPeer::pppd() {
            Ok(pppd) => pppd,
            Err(messages)
                if messages.contains("PPP kernel support") || messages.contains("/dev/ppp") =>
            {
                return test_support::not_configured("kernel: PPP", &messages);
            }
            Err(messages) => panic!("pppd does not run: {messages}"),
        };
        let (port, remote) = echo_once();
        let mut user = TerminalUser::with_arguments(&[
            "--via",
            &pppd.via("link=ppp"),
            "10.1.0.1",
            &port.to_string(),
        ]);
        user.wait_for_text("Connected to 10.1.0.1 port");
        user.type_keys("mumble\r");
        user.wait_for_text("mumble");
        user.type_keys("\x1dclose\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        drop(remote);
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_port_without_a_listener_refuses_the_connection() {
    in_new_network(|| {
        for tcp_stack in [TcpStack::Kernel, TcpStack::Tun] {
            let mut user = TerminalUser::log_in(tcp_stack, 9);
            assert_eq!(user.wait_for_exit().code(), Some(1));
            user.wait_for_text("10.0.0.1:9 refuses the connection");
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_silent_host_times_out_after_the_requested_time() {
    in_new_network(|| {
        let _quiet = quiet_network();
        for via in [&["--via", "kernel"][..], &["--via", "tun:plumb0"]] {
            let mut command = plumb();
            command.args(via).args(["--timeout", "1", "10.9.0.2"]);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            let messages = String::from_utf8(output.stderr).unwrap();
            assert!(messages.contains("10.9.0.2:23 did not answer within 1 s"), "{messages}");
            assert_eq!(messages.lines().count(), 1, "{messages}");
        }
    });
}

/// Pipes input through an echo server, and compares the output.
fn pipe_through_echo_server(tcp_stack: TcpStack) {
    let (port, remote) = echo_once();
    let mut command = plumb();
    command.args(tcp_stack.arguments()).args([SERVER, &port.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"one\r\ntwo\r\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    remote.join().unwrap();
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_pipe_is_sent_and_its_answer_awaited_over_kernel_tcp() {
    in_new_network(|| pipe_through_echo_server(TcpStack::Kernel));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_pipe_is_sent_and_its_answer_awaited_over_userspace_tcp() {
    in_new_network(|| pipe_through_echo_server(TcpStack::Tun));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_regular_file_is_sent_completely_in_both_directions() {
    in_new_network(|| {
        let text = "0123456789abcde\n".repeat(20_000);
        let path = std::env::temp_dir().join(format!("plumb-peers-{}", std::process::id()));
        std::fs::write(&path, &text).unwrap();
        for tcp_stack in [TcpStack::Kernel, TcpStack::Tun] {
            let (port, remote) = echo_once();
            let mut command = plumb();
            command.args(tcp_stack.arguments()).args(["--lf", SERVER, &port.to_string()]);
            let output = command.stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
            assert_eq!(output.stdout.len(), text.len(), "{tcp_stack:?}");
            assert!(output.stdout == text.as_bytes());
            assert_eq!(output.status.code(), Some(0));
            remote.join().unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_reader_that_closes_its_pipe_ends_the_session_silently() {
    in_new_network(|| {
        let listener = listen();
        let mut command = plumb();
        command.args([SERVER, &listener.local_addr().unwrap().port().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        let (mut remote, _) = listener.accept().unwrap();
        drop(program.child().stdout.take());
        // A process that another test is starting may keep the other end of the pipe open for a
        // moment.
        let status = login_harness::poll_until_timeout(|| {
            _ = remote.write_all(b"nobody reads this\r\n");
            program.wait_for_end(Duration::from_millis(20)).unwrap()
        });
        let mut messages = String::new();
        program.child().stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert_eq!((status.code(), messages.as_str()), (Some(0), ""));
    });
}
