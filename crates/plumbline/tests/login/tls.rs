//! TLS with openssl as the server: over the kernel's TCP, and over plumb's own TCP on a TUN.

use crate::Folder;
use crate::login_desk::{Person, SERVER, Way, in_new_network, within_the_limit};
use os::process::Program;
use protocols::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// Creates a self-signed certificate for the server with its key, and returns its path.
fn make_certificate(folder: &Folder, name: &str) -> String {
    let (key, certificate) = (folder.path("key.pem"), folder.path(name));
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
fn serve(folder: &Folder, certificate: &str, version: &str) -> Program {
    let mut command = test_support::peers::OPENSSL.command();
    command.args(["s_server", "-accept", "992", "-rev", "-quiet", version]);
    command.args(["-cert", certificate, "-key", &folder.path("key.pem")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = Program::start(&mut command).unwrap();
    within_the_limit(|| TcpStream::connect((SERVER, 992)).ok());
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

/// Starts a client whose known certificates are stored in `folder`.
fn person(folder: &Folder, arguments: &[&str]) -> Person {
    let mut command = crate::login_desk::plumb();
    command.args(arguments).env("XDG_STATE_HOME", folder.as_path());
    Person::running(command)
}

fn works(person: &mut Person) {
    person.types("plumb\r");
    person.sees("bmulp");
    person.types("\x1dstatus\r");
    person.sees("Encrypted by TLS 1.");
    person.types("close\r");
    assert_eq!(person.leaves().code(), Some(0), "{}", person.screen());
    person.has_a_sane_terminal();
}

fn meets_a_server(way: Way, version: &'static str) {
    let folder = Folder::new(&format!("tls-{way:?}{version}"));
    let certificate = make_certificate(&folder, "first.pem");
    let mut server = serve(&folder, &certificate, version);
    let to = format!("telnets://{SERVER}");
    let [via, way] = way.arguments();
    let arguments = [via, way, "--no-negotiation", to.as_str()];
    let mut first = person(&folder, &arguments);
    let known = folder.path("plumb/known_hosts");
    first.sees("known_hosts.");
    works(&mut first);
    let pinned = std::fs::read_to_string(&known).unwrap();
    assert_eq!(pinned, format!("{SERVER}:992 {}\n", fingerprint(&certificate)));
    let mut second = person(&folder, &arguments);
    second.sees("Escape character");
    works(&mut second);
    assert!(!second.screen().contains("known_hosts"));
    server.signal(rustix::process::Signal::KILL).unwrap();
    server.wait_for_end(Duration::from_secs(5)).unwrap();
    let other = make_certificate(&folder, "other.pem");
    let _server = serve(&folder, &other, version);
    let mut third = person(&folder, &arguments);
    assert_eq!(third.leaves().code(), Some(1));
    third.sees("has changed, and nothing was sent");
    // With --ca the authority decides, not the remembered certificate.
    let mut vouched = person(&folder, &[&["--ca", &other], &arguments[..]].concat());
    vouched.sees("Escape character");
    works(&mut vouched);
    let mut unvouched = person(&folder, &[&["--ca", &certificate], &arguments[..]].concat());
    assert_eq!(unvouched.leaves().code(), Some(1));
    unvouched.sees("certificate does not verify against");
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn a_certificate_is_known_from_its_first_use_and_another_one_is_refused() {
    in_new_network(|| meets_a_server(Way::Kernel, "-tls1_3"));
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn it_is_so_over_our_own_tcp_too() {
    in_new_network(|| meets_a_server(Way::Tun, "-tls1_3"));
}

#[test]
#[ignore = "needs root or a user namespace, and openssl"]
fn it_is_so_with_the_version_before_too() {
    in_new_network(|| meets_a_server(Way::Kernel, "-tls1_2"));
}

#[test]
fn a_server_without_tls_is_refused() {
    let listener = crate::login_desk::listen();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        caller.write_all(b"login: ").unwrap();
        // plumb may reset the connection, because it does not read past the invalid TLS record.
        _ = caller.read_to_end(&mut Vec::new());
    });
    let output = crate::plumb(&["login", &format!("telnets://127.0.0.1:{port}")]);
    crate::refused(&output, 1, &["the TLS handshake failed", "check that the server"]);
    server.join().unwrap();
}

#[test]
fn a_file_of_authorities_that_has_none_is_refused() {
    let to = "telnets://127.0.0.1:1";
    let run = |file| crate::plumb(&["login", "--ca", file, to]);
    crate::refused(&run("/dev/null"), 4, &["no certificate"]);
    crate::refused(&run("/nowhere/ca.pem"), 4, &["cannot read the certificates"]);
}

#[test]
fn a_server_that_had_tls_and_refuses_it_now_is_told() {
    let folder = Folder::new("tls-stripped");
    let listener = crate::login_desk::listen();
    let port = listener.local_addr().unwrap().port();
    std::fs::create_dir(folder.as_path().join("plumb")).unwrap();
    folder.write("plumb/known_hosts", &format!("127.0.0.1:{port} aa:bb\n"));
    let server = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        caller.read_exact(&mut [0; 3]).unwrap();
        caller.write_all(b"\xff\xfe\x2elogin: ").unwrap();
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["login", &format!("telnet://127.0.0.1:{port}")]);
    command.env("XDG_STATE_HOME", folder.as_path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    server.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("supported TLS in an earlier session"), "{said}");
}
