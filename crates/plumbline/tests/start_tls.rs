//! Tests of START_TLS, echo acknowledgments and urgent data with `plumb serve`.
//!
//! Each test has its own network namespace, in which the server listens at 10.0.0.1, or at 10.0.0.2
//! on plumb's own TCP/IP.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::{PORT, RawClient, ServeProcess, unique};
use login_harness::{SERVER, TerminalUser, in_new_network, listen, plumb, poll_until_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

/// Address of plumb on the TUN.
const OURS: &str = "10.0.0.2";
/// Options of `plumb serve` that run a shell with a fixed prompt.
const SHELL: &[&str] = &["--exec", "env", "PS1=ready:", "/bin/sh"];
/// IAC WILL START_TLS, IAC SB START_TLS FOLLOWS IAC SE.
const WILL_FOLLOW: &[u8] = b"\xff\xfb\x2e\xff\xfa\x2e\x01\xff\xf0";

/// Starts a server with the START_TLS `policy`.
fn serve(policy: &str, arguments: &[&str]) -> ServeProcess {
    let address = format!("{SERVER}:{PORT}");
    ServeProcess::start_with(&[&["--listen", &address, "--tls", policy], arguments].concat())
}

/// Starts a client with an empty, temporary store of known certificates.
fn start_login(arguments: &[&str]) -> TerminalUser {
    let mut command = plumb();
    command.args(arguments).env("XDG_STATE_HOME", unique("known"));
    TerminalUser::run(command)
}

fn assert_works_in_tls(user: &mut TerminalUser) {
    user.wait_for_text("known_hosts.");
    user.wait_for_text("ready:");
    user.type_keys("echo $((6*7))\r");
    user.wait_for_text("\n42\n");
    user.type_keys("\x1dstatus\r");
    user.wait_for_text("Encrypted by TLS 1.");
    user.type_keys("close\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn on_public_addresses_start_tls_is_offered_by_default() {
    in_new_network(|| {
        let address = format!("{SERVER}:{PORT}");
        let _server = ServeProcess::start_with(&[&["--listen", &address], SHELL].concat());
        assert_works_in_tls(&mut start_login(&[SERVER, PORT]));
        let mut user = start_login(&["--tls", "never", SERVER, PORT]);
        user.wait_for_text("ready:");
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn start_tls_works_over_userspace_tcp() {
    in_new_network(|| {
        let listen_options = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--tls", "required"];
        let _server = ServeProcess::start_with(&[&listen_options, SHELL].concat());
        assert_works_in_tls(&mut start_login(&[OURS, PORT]));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_cleartext_client_is_notified_that_tls_is_required_and_nothing_runs() {
    in_new_network(|| {
        let marker_file = unique("ran");
        let touch = format!("touch {}; cat", marker_file.display());
        let server = serve("required", &["--exec", "/bin/sh", "-c", &touch]);
        let mut client = RawClient::new();
        client.send(
            b"\xff\xfc\x2e\xff\xfe\x01\xff\xfe\x03\xff\xfc\x18\xff\xfc\x1f\xff\xfe\xddls\r\n",
        );
        client.wait_for(b"This server requires TLS");
        client.read_to_end_of_stream();
        server.wait_for_log("TLS is required, but the client did not start it");
        assert!(!marker_file.exists());
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_client_that_agrees_to_tls_and_does_not_start_it_is_disconnected() {
    in_new_network(|| {
        let server = serve("offered", SHELL);
        let mut client = RawClient::new();
        client.send(b"\xff\xfb\x2eid\r\n");
        client.wait_for(b"\xff\xfa\x2e\x01\xff\xf0");
        client.read_to_end_of_stream();
        server.wait_for_log("TLS is required, but the client did not start it");
        assert!(!String::from_utf8_lossy(&client.received).contains("uid="));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn cleartext_after_the_last_telnet_command_fails_the_tls_handshake() {
    in_new_network(|| {
        let server = serve("offered", SHELL);
        let mut client = RawClient::new();
        client.send(&[WILL_FOLLOW, b"id\r\nid\r\nid\r\n"].concat());
        client.read_to_end_of_stream();
        server.wait_for_log("TLS handshake failed");
        assert!(!String::from_utf8_lossy(&client.received).contains("ready:"));
    });
}

/// Starts a man in the middle, which relays a connection and inserts `words` before the client's
/// first bytes. Returns the port of this relay.
fn insert_into_connection(words: &'static [u8]) -> u16 {
    let listener = listen();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect((SERVER, 2323)).unwrap();
        let from = server.try_clone().unwrap();
        let to = client.try_clone().unwrap();
        let reverse_direction = thread::spawn(move || relay_direction(from, to, &[]));
        relay_direction(client, server, words);
        reverse_direction.join().unwrap();
    });
    port
}

fn relay_direction(mut from: TcpStream, mut to: TcpStream, first: &[u8]) {
    let mut bytes = [0; 4096];
    let mut first = first.to_vec();
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        first.extend_from_slice(&bytes[..count]);
        if to.write_all(&first).is_err() {
            break;
        }
        first.clear();
    }
    // Ignored: the shutdown fails if the peer has already closed.
    _ = to.shutdown(Shutdown::Write);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn data_injected_before_tls_is_discarded() {
    in_new_network(|| {
        let _server = serve("required", SHELL);
        let port = insert_into_connection(b"\xff\xfb\x2eecho in''jected\r\n").to_string();
        let mut user = start_login(&[SERVER, &port]);
        assert_works_in_tls(&mut user);
        assert!(!user.screen().contains("injected"));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_echo_acknowledgment_follows_the_echoed_output() {
    in_new_network(|| {
        let _server = serve("off", SHELL);
        let mut client = RawClient::new();
        // DO ECHO-ACKNOWLEDGMENT.
        client.send(b"\xff\xfd\xdd\r\n");
        client.wait_for(b"ready:");
        client.send(b"xyz");
        client.wait_for(b"xyz");
        // The acknowledged count of five: the two bytes of the first line, and three keystrokes.
        client.wait_for(b"\xff\xfa\xdd\0\0\0\0\0\0\0\x05\xff\xf0");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn echo_acknowledgments_are_sent_only_if_negotiated() {
    in_new_network(|| {
        let _server = serve("off", SHELL);
        let mut client = RawClient::new();
        client.send(b"\xff\xfe\xdd\r\n");
        client.wait_for(b"ready:");
        client.send(b"sleep 0.2; echo do''ne\r\n");
        client.wait_for(b"done");
        assert!(!client.received.windows(3).any(|window| window == b"\xff\xfa\xdd"));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_synch_over_userspace_tcp_discards_earlier_input() {
    in_new_network(|| {
        let listen_options = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--tls", "off"];
        let _server = ServeProcess::start_with(&[&listen_options, SHELL].concat());
        let mut client = RawClient::connect_to((OURS, 2323));
        client.send(b"\r\n");
        client.wait_for(b"ready:");
        let junk = b"echo ju''nk\r\n\xff\xf2";
        assert_eq!(send(&client.stream, junk, SendFlags::OOB), Ok(junk.len()));
        client.send(b"echo al''ive\r\n");
        client.wait_for(b"alive");
        assert!(!String::from_utf8_lossy(&client.received).contains("junk"));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_server_on_userspace_tcp_answers_abort_output_with_urgent_data() {
    in_new_network(|| {
        let listen_options = ["--via", "tun:plumb0", "--listen", "[::]:2323", "--tls", "off"];
        let _server = ServeProcess::start_with(&[&listen_options, SHELL].concat());
        let mut client = RawClient::connect_to((OURS, 2323));
        client.send(b"\r\n");
        client.wait_for(b"ready:");
        client.send(b"\xff\xf5");
        let mut urgent_byte = [0; 1];
        poll_until_timeout(|| recv(&client.stream, &mut urgent_byte, RecvFlags::OOB).ok());
        // The urgent byte is DM (data mark).
        assert_eq!(urgent_byte, [0xF2]);
        client.send(b"echo al''ive\r\n");
        client.wait_for(b"alive");
    });
}

/// Returns the processor time of a process so far, in hundredths of a second.
fn processor_ticks(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_session_with_an_expired_timer_does_not_spin() {
    in_new_network(|| {
        let mut server = serve("off", SHELL);
        let mut client = RawClient::new();
        // The client answers no option, so that the negotiation timer expires.
        client.wait_for(b"ready:");
        client.send(b"\xff\xfd\xddx");
        client.wait_for(b"\xff\xfa\xdd\0\0\0\0\0\0\0\x01\xff\xf0");
        let id = server.program.child().id();
        let before = processor_ticks(id);
        // No more data arrives: the server is idle during this time.
        client.stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        assert!(client.stream.read(&mut [0; 64]).is_err());
        // A busy loop would use all available time: 200 hundredths on an idle processor.
        assert!(processor_ticks(id) - before < 20);
    });
}
