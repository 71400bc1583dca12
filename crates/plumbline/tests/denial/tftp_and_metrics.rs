//! Attacks on TFTP and on the metrics endpoint. Other tests check the descriptors and limits that
//! programs inherit from a server, jumps of the clock, and the limit on passive ports.

use super::login_harness::poll_until_timeout;
use super::login_harness::serve_process::{RawClient, ServeProcess};
use super::*;
use std::io::ErrorKind;
use std::net::UdpSocket;
use test_support::ProgramLog;

/// Starts a TFTP server at a free port of 127.0.0.1; `limits` go into its table `[tftp]`.
fn tftp_server(directories: &TestDirectories, limits: &str) -> (Program, u16) {
    let configuration = directories.local_path("serve.toml");
    let root = directories.remote_path("");
    let text = format!("[tftp]\nroot = \"{}\"\nlisten = [\"127.0.0.1:0\"]\n", root.display());
    fs::write(&configuration, text + limits).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["serve", "--config"]).arg(configuration);
    command.env("XDG_STATE_HOME", directories.local_path("state")).stderr(Stdio::piped());
    let mut program = Program::start(&mut command).unwrap();
    let log = ProgramLog::read(program.child().stderr.take().unwrap());
    let line = log.wait_for("serving TFTP at ");
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap();
    (program, port.parse().unwrap())
}

/// Sends one read request from `source`, and no other packet.
fn request_once(source: Ipv4Addr, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((source, 0)).unwrap();
    socket.send_to(b"\0\x01file\0octet\0", (Ipv4Addr::LOCALHOST, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn receives_block(socket: &UdpSocket, block: u8) -> SocketAddrV4 {
    let mut bytes = [0; 600];
    loop {
        let (len, from) = socket.recv_from(&mut bytes).unwrap();
        let std::net::SocketAddr::V4(from) = from else { panic!("{from}") };
        if bytes[..len.min(4)] == [0, 3, 0, block] {
            return from;
        }
    }
}

// attack row 121
#[test]
fn unanswered_requests_free_their_slots_for_new_requests() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), ftp_harness::pattern(2_000)).unwrap();
    let (_server, port) =
        tftp_server(&directories, "transfers-max = 8\ntransfers-per-source-max = 4\n");
    // A client that acknowledges keeps its transfer slot.
    let honest = request_once(OTHER, port);
    let transfer = receives_block(&honest, 1);
    honest.send_to(&[0, 4, 0, 1], transfer).unwrap();
    receives_block(&honest, 2);
    let mut silent = Vec::new();
    for number in 0..60 {
        let forged = request_once(Ipv4Addr::new(127, 0, 1, number % 10), port);
        receives_block(&forged, 1);
        silent.push(forged);
    }
    honest.send_to(&[0, 4, 0, 2], transfer).unwrap();
    receives_block(&honest, 3);
}

// attack row 121
#[test]
fn a_request_that_is_not_answered_takes_no_memory_of_a_transfer() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), ftp_harness::pattern(2_000_000)).unwrap();
    let limits = "transfers-max = 200\ntransfers-per-source-max = 200\n";
    let (server, port) = tftp_server(&directories, limits);
    receives_block(&request_once(OTHER, port), 1);
    let before = resident_kib(&server);
    let silent: Vec<_> = (0..200).map(|_| request_once(ATTACKER, port)).collect();
    silent.iter().for_each(|socket| _ = receives_block(socket, 1));
    let added_kib = resident_kib(&server).saturating_sub(before);
    assert!(added_kib < 200 * 100, "{added_kib} KiB");
}

/// Starts an FTP server with metrics, and returns the port of the metrics.
fn with_metrics(directories: &TestDirectories) -> (Server, u16) {
    let words = ["--ftp-listen", "127.0.0.1:0", "--metrics", "0"];
    let server = Server::start(directories, &words);
    let line = server.wait_for_log("serving metrics at http://127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap();
    (server, port.parse().unwrap())
}

fn scrape(port: u16, host: &str) -> String {
    let mut stream = connect(OTHER, port);
    stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    String::from_utf8(read_to_end_of_stream(&mut stream)).unwrap()
}

// attack row 122
#[test]
fn silent_connections_delay_no_scrape() {
    let directories = TestDirectories::new();
    let (mut server, port) = with_metrics(&directories);
    // If the machine delays the test by a second, the connections time out, and the test tries
    // again.
    let is_open = |silent: &TcpStream| {
        silent.set_nonblocking(true).unwrap();
        silent.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let is_served_first = (0..10).any(|_| {
        let silent: Vec<_> = (0..40).map(|_| connect(ATTACKER, port)).collect();
        assert!(scrape(port, "127.0.0.1").starts_with("HTTP/1.1 200 "));
        // The scrape does not wait for the newest connections, and the server closes the oldest
        // ones.
        let open = silent.iter().filter(|silent| is_open(silent)).count();
        assert!(open <= 16, "{open}");
        is_open(&silent[28])
    });
    assert!(is_served_first);
    assert_exits(&mut server.program);
}

// attack row 108
#[test]
fn dns_rebinding_does_not_expose_the_metrics() {
    let directories = TestDirectories::new();
    let (server, port) = with_metrics(&directories);
    for host in ["attacker.example", "127.0.0.1.attacker.example", "attacker.example:9559"] {
        let answer = scrape(port, host);
        assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("plumb_"), "{answer}");
    }
    assert!(scrape(port, "localhost").contains("plumb_sessions_open"));
    drop(server);
}

// attack row 123
#[test]
fn a_program_of_a_session_inherits_no_descriptor_and_no_limit_of_the_server() {
    // The shell that starts the server leaves descriptor 9 open; the server did not open it.
    let script = "exec 9</dev/null; ulimit -S -n 64; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_plumb"), "serve", "--tls", "off"]);
    command.args(["--listen", "127.0.0.1:0", "--exec", "sh", "-c"]);
    command.arg("echo fds: $(ls /proc/$$/fd | tr '\\n' ' '), limit: $(ulimit -n).");
    let server = ServeProcess::run(command);
    let line = server.wait_for_log("listening on 127.0.0.1:");
    let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap();
    let mut client = RawClient::from_stream(connect(OTHER, port.parse().unwrap()));
    client.send(b"\r\n");
    client.wait_for(b", limit: 64.");
    let messages = String::from_utf8_lossy(&client.received).into_owned();
    let fds = messages.split("fds: ").nth(1).unwrap().split(',').next().unwrap();
    // The shell of the session opens descriptors of its own, so only 9 is checked.
    assert!(!fds.split_whitespace().any(|fd| fd == "9"), "{messages}");
    poll_until_timeout(|| server.has_logged("disconnected").then_some(()));
}

/// An LD_PRELOAD library that shifts the wall clock by the seconds in `CLOCK_OFFSET_FILE`.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    FILE *file = id == CLOCK_REALTIME ? fopen(getenv("CLOCK_OFFSET_FILE"), "r") : NULL;
    long offset = 0;
    if (file) { if (fscanf(file, "%ld", &offset) == 1) now->tv_sec += offset; fclose(file); }
    return result;
}
"#;

#[test]
#[ignore = "needs a C compiler"]
fn jumps_of_the_clock_end_no_session_and_no_server() {
    let directories = TestDirectories::new();
    fs::write(directories.local_path("clock.c"), CLOCK).unwrap();
    directories.run_client_ok("cc", &["-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"], "");
    fs::write(directories.local_path("offset"), "0").unwrap();
    let preload = format!("LD_PRELOAD={}", directories.local_path("clock.so").display());
    let file = format!("CLOCK_OFFSET_FILE={}", directories.local_path("offset").display());
    let words = ["--writable", "--ftp-listen", "127.0.0.1:0"];
    let mut server = Server::start_by(&directories, &["env", &preload, &file], &words);
    let mut old_session = ftp_harness::ControlConnection::logged_in(&server);
    // Offsets: one day, twenty years, and a time before 1970.
    for (number, offset) in ["86400", "630720000", "-3153600000", "0"].iter().enumerate() {
        fs::write(directories.local_path("offset"), offset).unwrap();
        assert_eq!(old_session.send("NOOP"), 200, "{offset}");
        assert_eq!(old_session.store(&format!("STOR file{number}"), b"whole"), 226, "{offset}");
        assert_eq!(old_session.retrieve(&format!("RETR file{number}")).unwrap(), b"whole");
        assert!(!old_session.retrieve("LIST").unwrap().is_empty());
        assert_eq!(
            ftp_harness::ControlConnection::logged_in(&server).send("QUIT"),
            221,
            "{offset}"
        );
    }
    assert_exits(&mut server.program);
}

// attack row 147
#[test]
fn one_source_holds_at_most_a_quarter_of_the_passive_ports() {
    let directories = TestDirectories::new();
    let server = ftp_server(&directories, "passive-ports = [47300, 47307]\n");
    let passive = |source| {
        let mut control = Control::new(source, &server);
        assert_eq!(control.log_in("ftp", "a@b"), WELCOME);
        let reply = control.send_and_read("EPSV");
        (control, reply)
    };
    let attackers: Vec<_> = (0..8).map(|_| passive(ATTACKER)).collect();
    let held_ports = attackers.iter().filter(|(_, reply)| *reply == 229).count();
    assert_eq!(held_ports, 2);
    assert_eq!(passive(OTHER).1, 229);
    drop(attackers);
    // The ports of ended sessions become free again.
    poll_until_timeout(|| (passive(ATTACKER).1 == 229).then_some(()));
}

// attack row 117
#[test]
fn a_missing_handshake_does_not_delay_shutdown() {
    let directories = TestDirectories::new();
    let mut server = ftp_server(&directories, "stop-grace-s = 60\n");
    let mut silent = Control::new(ATTACKER, &server);
    assert_eq!((silent.read_reply_code(), silent.send_and_read("AUTH TLS")), (220, 234));
    server.program.signal(Signal::TERM).unwrap();
    // The handshake timeout itself is 15 s.
    let status = server.program.wait_for_end(Duration::from_secs(10)).unwrap();
    assert_eq!(status.expect("the server ends").code(), Some(0));
}
