//! Tests of TLS with openssl as the server: over the kernel's TCP, and over plumb's own TCP on a
//! TUN.

use crate::TempDirectory;
use crate::login_harness::{SERVER, TcpStack, TerminalUser, in_new_network, poll_until_timeout};
use net::time::Duration;
use os::process::Program;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// Creates a self-signed certificate for the server with its key, and returns its path.
fn make_certificate(directory: &TempDirectory, name: &str) -> String {
    let key = directory.path("key.pem");
    let certificate = directory.path(name);
    let subject = ["-subj", "/CN=host", "-addext", "subjectAltName=IP:10.0.0.1,IP:::1"];
    let status = test_support::peers::OPENSSL
        .command()
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", &key, "-out", &certificate, "-days", "2"])
        .args(subject)
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    certificate
}

/// Starts a server at port 992 that reverses each line.
fn serve(directory: &TempDirectory, certificate: &str, version: &str) -> Program {
    let mut command = test_support::peers::OPENSSL.command();
    command.args(["s_server", "-accept", "992", "-rev", "-quiet", version]);
    command.args(["-cert", certificate, "-key", &directory.path("key.pem")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = Program::start(&mut command).unwrap();
    poll_until_timeout(|| TcpStream::connect((SERVER, 992)).ok());
    program
}

/// Returns the fingerprint of a certificate as openssl computes it.
fn fingerprint(certificate: &str) -> String {
    let mut command = test_support::peers::OPENSSL.command();
    let output =
        command.args(["x509", "-noout", "-fingerprint", "-sha256", "-in", certificate]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.trim().split_once('=').unwrap().1.to_lowercase()
}

/// Starts a client whose known certificates are stored in `directory`.
fn start_login(directory: &TempDirectory, arguments: &[&str]) -> TerminalUser {
    let mut command = crate::login_harness::plumb();
    command.args(arguments).env("XDG_STATE_HOME", directory.as_path());
    TerminalUser::run(command)
}

fn assert_works(user: &mut TerminalUser) {
    user.type_keys("plumb\r");
    user.wait_for_text("bmulp");
    user.type_keys("\x1dstatus\r");
    user.wait_for_text("Encrypted by TLS 1.");
    user.type_keys("close\r");
    assert_eq!(user.wait_for_exit().code(), Some(0), "{}", user.screen());
    user.assert_sane_terminal();
}

fn connect_and_pin_certificate(tcp_stack: TcpStack, version: &'static str) {
    let directory = TempDirectory::new(&format!("tls-{tcp_stack:?}{version}"));
    let certificate = make_certificate(&directory, "first.pem");
    let mut server = serve(&directory, &certificate, version);
    let to = format!("telnets://{SERVER}");
    let [via, tcp_stack] = tcp_stack.arguments();
    let arguments = [via, tcp_stack, "--no-negotiation", to.as_str()];
    let mut first = start_login(&directory, &arguments);
    let known_hosts = directory.path("plumb/known_hosts");
    first.wait_for_text("known_hosts.");
    assert_works(&mut first);
    let known_hosts_text = std::fs::read_to_string(&known_hosts).unwrap();
    assert_eq!(known_hosts_text, format!("{SERVER}:992 {}\n", fingerprint(&certificate)));
    let mut second = start_login(&directory, &arguments);
    second.wait_for_text("Escape character");
    assert_works(&mut second);
    assert!(!second.screen().contains("known_hosts"));
    server.signal(rustix::process::Signal::KILL).unwrap();
    server.wait_for_end(Duration::from_secs(5)).unwrap();
    let other = make_certificate(&directory, "other.pem");
    let _server = serve(&directory, &other, version);
    let mut third = start_login(&directory, &arguments);
    assert_eq!(third.wait_for_exit().code(), Some(1));
    third.wait_for_text("has changed, and nothing was sent");
    // With --ca plumb trusts certificates of the authority, and ignores the remembered certificate.
    let mut trusted_login = start_login(&directory, &[&["--ca", &other], &arguments[..]].concat());
    trusted_login.wait_for_text("Escape character");
    assert_works(&mut trusted_login);
    let mut untrusted_login =
        start_login(&directory, &[&["--ca", &certificate], &arguments[..]].concat());
    assert_eq!(untrusted_login.wait_for_exit().code(), Some(1));
    untrusted_login.wait_for_text("cannot verify the server's certificate");
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn a_certificate_is_known_from_its_first_use_and_another_one_is_refused() {
    in_new_network(|| connect_and_pin_certificate(TcpStack::Kernel, "-tls1_3"));
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn certificates_are_pinned_over_userspace_tcp_too() {
    in_new_network(|| connect_and_pin_certificate(TcpStack::Tun, "-tls1_3"));
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn certificates_are_pinned_with_tls_1_2_too() {
    in_new_network(|| connect_and_pin_certificate(TcpStack::Kernel, "-tls1_2"));
}

#[test]
fn a_server_without_tls_is_refused() {
    let listener = crate::login_harness::listen();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"login: ").unwrap();
        // plumb may reset the connection, because it does not read past the invalid TLS record.
        _ = client.read_to_end(&mut Vec::new());
    });
    let output = crate::plumb(&["login", &format!("telnets://127.0.0.1:{port}")]);
    crate::assert_error(&output, 1, &["the TLS handshake failed", "check that the server"]);
    server.join().unwrap();
}

#[test]
fn an_empty_ca_file_is_rejected() {
    let to = "telnets://127.0.0.1:1";
    let run = |file| crate::plumb(&["login", "--ca", file, to]);
    crate::assert_error(&run("/dev/null"), 4, &["no certificate"]);
    crate::assert_error(&run("/nowhere/ca.pem"), 4, &["cannot read the certificates"]);
}

#[test]
fn a_server_that_stopped_offering_tls_is_reported() {
    let directory = TempDirectory::new("tls-stripped");
    let listener = crate::login_harness::listen();
    let port = listener.local_addr().unwrap().port();
    std::fs::create_dir(directory.as_path().join("plumb")).unwrap();
    directory.write("plumb/known_hosts", &format!("127.0.0.1:{port} aa:bb\n"));
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        client.write_all(b"\xff\xfe\x2elogin: ").unwrap();
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["login", &format!("telnet://127.0.0.1:{port}")]);
    command.env("XDG_STATE_HOME", directory.as_path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    server.join().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("supported TLS in an earlier session"), "{messages}");
}
