//! Tests of `plumb meters` with the servers whose meters it displays.
//!
//! Each test has its own server at a random port of 127.0.0.1, which runs `cat` on a terminal, and
//! its own directory for the sockets.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::{RawClient, unique};
use login_harness::{TerminalUser, poll_until_timeout};
use os::process::Program;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory for the sockets.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        let directory = unique("meters");
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(words).env("XDG_RUNTIME_DIR", &self.0).env("XDG_STATE_HOME", &self.0);
        command
    }

    fn meters(&self, words: &[&str]) -> Output {
        self.command(&[&["meters"], words].concat()).stdin(Stdio::null()).output().unwrap()
    }

    fn report(&self, server: &Server) -> Value {
        let output = self.meters(&[&server.id(), "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn socket(&self, server: &Server) -> PathBuf {
        self.0.join("plumb").join(format!("{}.sock", server.id()))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Server {
    program: Program,
    address: SocketAddr,
}

impl Server {
    /// Starts a login server.
    fn start(directory: &TestDirectory, more: &[&str]) -> Self {
        let words = ["--listen", "127.0.0.1:0", "--tls", "off"];
        Self::start_with(directory, &[&words, more, &["--exec", "cat"]].concat())
    }

    fn start_with(directory: &TestDirectory, words: &[&str]) -> Self {
        let mut command = directory.command(&[&["serve", "--json"], words].concat());
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let mut lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let event: Value = serde_json::from_str(&line).ok()?;
            event["at"].as_str()?.parse().ok()
        });
        // Drains the server's further output, so that the server never blocks.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { program, address: address.unwrap() }
    }

    fn id(&self) -> String {
        self.program.id().to_string()
    }

    /// Opens a session, and types a first line, which starts its program.
    fn open_session(&self) -> RawClient {
        let mut client = RawClient::connect_to(self.address);
        type_line(&mut client, "begin");
        client
    }
}

/// Types a line, and waits for both the echo and the output of `cat`.
fn type_line(client: &mut RawClient, text: &str) {
    client.send(format!("{text}\r\n").as_bytes());
    client.wait_for(text.as_bytes());
    client.wait_for(text.as_bytes());
}

fn primitive<'a>(report: &'a Value, name: &str) -> &'a Value {
    let primitives = report["all"]["primitives"].as_array().unwrap();
    primitives.iter().find(|one| one["name"] == name).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_meters_of_a_running_session_match_its_activity() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let mut client = server.open_session();
    let before = directory.report(&server);
    for count in 0..150 {
        type_line(&mut client, &format!("line {count}"));
    }
    let after = directory.report(&server);
    let increase = |of: &dyn Fn(&Value) -> u64| of(&after) - of(&before);
    assert_eq!(increase(&|report| number(&report["all"]["transactions"])), 150);
    // The server reads each line once and echoes it at least once.
    assert!(increase(&|report| number(&primitive(report, "Telnet")["visits"])) >= 300);
    assert!(increase(&|report| number(&primitive(report, "system calls")["visits"])) >= 450);
    assert!(increase(&|report| number(&report["all"]["wakeups"])) >= 300);
    let hundred = &after["all"]["last_hundred"];
    assert_eq!(number(&hundred["transactions"]), 100);
    assert!(number(&hundred["wakeups"]) >= 200, "{hundred}");
    assert_eq!(after["pid"], server.program.id());
}

#[test]
fn the_accounts_of_a_report_add_up_to_its_total() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let _caller = server.open_session();
    let report = directory.report(&server);
    let primitives = report["all"]["primitives"].as_array().unwrap();
    let sum: u64 = primitives.iter().map(|one| number(&one["ns"])).sum();
    // Each value is rounded to a nanosecond separately.
    assert!(number(&report["all"]["total_ns"]).abs_diff(sum) <= 16, "{report}");
    let shares = primitives.iter().filter_map(|one| one["share"].as_f64());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{report}");
    assert!(primitive(&report, "wait")["share"].is_null());
}

#[test]
fn an_ended_session_stays_in_the_sum() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let mut client = server.open_session();
    type_line(&mut client, "one more");
    drop(client);
    let _other = server.open_session();
    let report = directory.report(&server);
    assert_eq!(number(&report["all"]["transactions"]), 1);
    let names: Vec<_> =
        report["groups"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["logins"]);
}

// attack row 115
#[test]
fn a_meter_client_that_never_reads_does_not_block_sessions() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let mut client = server.open_session();
    let idle_client: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(directory.socket(&server)).unwrap();
            stream.write_all(b"meters 1\n").unwrap();
            stream
        })
        .collect();
    type_line(&mut client, "still here");
    assert_eq!(number(&directory.report(&server)["all"]["transactions"]), 1);
    drop(idle_client);
}

#[test]
fn a_server_removes_its_socket_at_exit() {
    let directory = TestDirectory::new();
    let mut server = Server::start(&directory, &[]);
    assert!(directory.socket(&server).exists());
    server.program.signal(Signal::TERM).unwrap();
    server.program.wait_for_end(std::time::Duration::from_secs(10)).unwrap();
    assert!(!directory.socket(&server).exists());
}

#[test]
fn a_meter_client_removes_the_socket_of_a_killed_server() {
    let directory = TestDirectory::new();
    let mut server = Server::start(&directory, &[]);
    server.program.signal(Signal::KILL).unwrap();
    server.program.wait_for_end(std::time::Duration::from_secs(10)).unwrap();
    assert!(directory.socket(&server).exists());
    let output = directory.meters(&[&server.id()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(!directory.socket(&server).exists());
}

#[test]
fn several_running_servers_are_listed_and_one_must_be_selected() {
    let directory = TestDirectory::new();
    let configuration = directory.0.join("second.toml");
    fs::write(&configuration, "[login]\nexec = [\"cat\"]\n").unwrap();
    let configuration = configuration.to_str().unwrap();
    let servers = [
        Server::start(&directory, &[]),
        Server::start_with(&directory, &["--config", configuration, "--listen", "127.0.0.1:0"]),
    ];
    let output = directory.meters(&[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    // Root also sees the services of other users, so the example may be another process.
    let selects_one = "select one by its process ID, such as plumb meters ";
    assert!(message.contains(selects_one), "{message}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains(&servers[1].id())).unwrap();
    assert!(line.contains(&format!("serve --config {configuration}")), "{text}");
    let for_a_program = directory.meters(&["--json"]);
    assert_eq!((for_a_program.status.code(), for_a_program.stdout.len()), (Some(2), 0));
    let list = directory.meters(&["--list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let pids: Vec<_> = list.as_array().unwrap().iter().map(|one| one["pid"].clone()).collect();
    for server in &servers {
        assert!(pids.contains(&server.program.id().into()), "{list}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&server.id()));
    }
}

#[test]
fn refused_tftp_requests_are_counted_by_reason() {
    let directory = TestDirectory::new();
    let root = directory.0.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "").unwrap();
    let words = ["--tftp", "--tftp-listen", "127.0.0.1:0", "--deny", "127.0.0.2/32", "--root"];
    let words = [&words[..], &[root.to_str().unwrap()]].concat();
    let counters = |rights: &[&str], requests: &[(&[u8], u8)]| {
        let server = Server::start_with(&directory, &[&words, rights].concat());
        let denied = UdpSocket::bind("127.0.0.2:0").unwrap();
        denied.send_to(b"\0\x01file\0octet\0", server.address).unwrap();
        for (request, code) in requests {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
            client.send_to(request, server.address).unwrap();
            let mut answer = [0; 512];
            client.recv(&mut answer).unwrap();
            assert_eq!(answer[..4], [0, 5, 0, *code], "{}", request.escape_ascii());
        }
        let report = directory.report(&server);
        let counters = report["all"]["counters"].as_object().unwrap().clone();
        let refused = counters.into_iter().filter_map(|(name, count)| {
            Some((name.strip_prefix("TFTP requests refused, ")?.to_owned(), number(&count)))
        });
        refused.collect::<BTreeMap<_, _>>()
    };
    let expected = |reasons: &[(&str, u64)]| {
        let denied = ("address or number of transfers".to_owned(), 1);
        let reasons = reasons.iter().map(|(reason, count)| ((*reason).to_owned(), *count));
        reasons.chain([denied]).collect::<BTreeMap<_, _>>()
    };
    let requests: &[(&[u8], u8)] = &[
        (b"\0\x01missing\0octet\0", 1),
        (b"\0\x01../file\0octet\0", 2),
        (b"\0\x02new\0octet\0tsize\0999999999999999999\0", 3),
        (b"\0\x01file\0mail\0", 7),
        (b"\0\x01file\0words\0", 4),
        (b"\0\x02file\0octet\0", 6),
    ];
    let reasons = [
        ("file not found", 1),
        ("no permission", 1),
        ("not enough space", 1),
        ("invalid", 2),
        ("file exists", 1),
    ];
    assert_eq!(counters(&["--write-once"], requests), expected(&reasons));
    let requests: &[(&[u8], u8)] = &[(b"\0\x02new\0octet\0", 2)];
    assert_eq!(counters(&[], requests), expected(&[("uploads disabled", 1)]));
}

#[test]
fn no_meters_socket_disables_the_meters() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &["--no-meters-socket"]);
    assert!(!directory.socket(&server).exists());
    assert_eq!(directory.meters(&[&server.id()]).status.code(), Some(3));
}

#[test]
fn a_pipe_gets_the_table_once() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let _caller = server.open_session();
    let output = directory.meters(&[&server.id()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("plumb serve, process {},", server.id())), "{text}");
    assert!(text.contains("\nsystem calls ") && text.contains("\nwait "), "{text}");
}

#[test]
fn a_user_watches_the_meters_and_quits() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let mut client = server.open_session();
    let mut command = directory.command(&["meters", &server.id(), "--every", "50ms"]);
    command.env("TERM", "xterm");
    let mut user = TerminalUser::run(command);
    user.wait_for_text("no transaction yet");
    type_line(&mut client, "hello");
    user.wait_for_text("1 transactions:");
    user.type_keys("q");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    assert!(is_quiet(&directory.socket(&server)));
}

/// Returns whether a socket sends nothing to a client that has sent no request.
fn is_quiet(socket: &Path) -> bool {
    use std::io::Read;
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut answer = Vec::new();
    poll_until_timeout(|| stream.read_to_end(&mut answer).ok());
    answer.is_empty()
}

#[test]
fn each_ftp_command_is_a_transaction_and_a_sent_file_is_charged_to_system_calls() {
    let directory = TestDirectory::new();
    fs::write(directory.0.join("file"), [b'x'; 100_000]).unwrap();
    let root = directory.0.to_str().unwrap();
    let server =
        Server::start_with(&directory, &["--ftp", "--root", root, "--ftp-listen", "127.0.0.1:0"]);
    let url = format!("ftp://{}/file", server.address);
    let output = directory.command(&["get", "--no-record", &url, "-"]).output().unwrap();
    assert_eq!(output.stdout.len(), 100_000, "{output:?}");
    let report = directory.report(&server);
    assert_eq!(report["groups"][0]["name"], "FTP");
    // Transactions for at least USER, EPSV and RETR. The file itself may take a single system call.
    assert!(number(&report["all"]["transactions"]) >= 3, "{report}");
    assert!(number(&primitive(&report, "application")["visits"]) >= 3);
    assert!(number(&primitive(&report, "system calls")["visits"]) >= 1);
}

#[test]
fn tls_is_charged_separately_from_the_system_calls_below_it() {
    let directory = TestDirectory::new();
    fs::write(directory.0.join("file"), [b'x'; 100_000]).unwrap();
    let root = directory.0.to_str().unwrap();
    let server =
        Server::start_with(&directory, &["--ftp", "--root", root, "--ftp-listen", "127.0.0.1:0"]);
    let download = |scheme: &str| {
        let url = format!("{scheme}://{}/file", server.address);
        let output = directory.command(&["get", "--no-record", &url, "-"]).output().unwrap();
        assert_eq!(output.stdout.len(), 100_000, "{output:?}");
    };
    download("ftp");
    let plaintext_report = directory.report(&server);
    let names = |report: &Value| -> Vec<String> {
        let primitives = report["all"]["primitives"].as_array().unwrap();
        primitives.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!names(&plaintext_report).contains(&"encryption".to_owned()), "{plaintext_report}");
    download("ftpes");
    let tls_report = directory.report(&server);
    // Visits for the TLS handshake and for each command after the handshake.
    assert!(number(&primitive(&tls_report, "encryption")["visits"]) >= 5, "{tls_report}");
    assert!(number(&primitive(&tls_report, "encryption")["ns"]) > 0);
    download("ftpes");
    let second_report = directory.report(&server);
    assert!(number(&primitive(&second_report, "files")["visits"]) >= 1, "{second_report}");
    let calls = |report: &Value| number(&primitive(report, "system calls")["visits"]);
    assert!(calls(&tls_report) > calls(&plaintext_report));
}

/// Returns the report of a login to `server` after a line was typed and echoed.
fn report_of_login(directory: &TestDirectory, server: &Server, words: &[&str]) -> Value {
    let port = server.address.port().to_string();
    let mut command = directory.command(&[&["login"], words].concat());
    command.env("TERM", "xterm");
    let mut user = TerminalUser::run(command);
    user.wait_for_text("Connected to");
    user.type_keys("hello\r");
    user.wait_for_text("hello\nhello\n");
    let list = directory.meters(&["--list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let login = list.as_array().unwrap().iter().find(|one| {
        let command = one["command"].as_str().unwrap();
        command.starts_with("login ") && command.contains(&port)
    });
    let pid = login.unwrap_or_else(|| panic!("{list}"))["pid"].to_string();
    let output = directory.meters(&[&pid, "--json"]);
    user.type_keys("\x1dq\r");
    user.wait_for_exit();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_login_client_has_meters_too() {
    let directory = TestDirectory::new();
    let server = Server::start(&directory, &[]);
    let port = server.address.port().to_string();
    let report = report_of_login(&directory, &server, &["127.0.0.1", &port]);
    // All typed keys may arrive in one read.
    assert!(number(&report["all"]["transactions"]) >= 1, "{report}");
    assert!(number(&primitive(&report, "terminal")["visits"]) >= 1);
    let primitives = report["all"]["primitives"].as_array().unwrap();
    assert!(primitives.iter().all(|one| one["name"] != "encryption"), "{report}");
}

#[test]
fn the_tls_of_a_login_is_charged_to_encryption() {
    let directory = TestDirectory::new();
    let server = Server::start_with(&directory, &["--listen-tls", "127.0.0.1:0", "--exec", "cat"]);
    let url = format!("telnets://{}", server.address);
    let report = report_of_login(&directory, &server, &[&url]);
    let encryption = primitive(&report, "encryption");
    // The TLS handshake alone takes more visits than five, and each keystroke is encrypted in both
    // directions.
    assert!(number(&encryption["visits"]) >= 5, "{report}");
    assert!(encryption["share"].as_f64().unwrap() > 0.0, "{report}");
}
