//! `plumb meters` and the servers whose meters it displays.
//!
//! Each test has its own server at a random port of 127.0.0.1, which runs `cat` on a terminal, and
//! its own directory for the sockets.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::served::{Caller, unique};
use login_desk::{Person, within_the_limit};
use os::process::Program;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory for the sockets.
struct Desk(PathBuf);

impl Desk {
    fn new() -> Self {
        let folder = unique("meters");
        fs::create_dir(&folder).unwrap();
        Self(folder)
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

impl Drop for Desk {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Server {
    program: Program,
    at: SocketAddr,
}

impl Server {
    /// Starts a login server.
    fn start(desk: &Desk, more: &[&str]) -> Self {
        let words = ["--listen", "127.0.0.1:0", "--tls", "off"];
        Self::start_with(desk, &[&words, more, &["--exec", "cat"]].concat())
    }

    fn start_with(desk: &Desk, words: &[&str]) -> Self {
        let mut command = desk.command(&[&["serve", "--json"], words].concat());
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let mut lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
        let at = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let event: Value = serde_json::from_str(&line).ok()?;
            event["at"].as_str()?.parse().ok()
        });
        // Drains the server's further output, so that the server never blocks.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { program, at: at.unwrap() }
    }

    fn id(&self) -> String {
        self.program.id().to_string()
    }

    /// Opens a session, and types a first line, which starts its program.
    fn session(&self) -> Caller {
        let mut caller = Caller::at(self.at);
        line(&mut caller, "begin");
        caller
    }
}

/// Types a line, and waits for both the echo and the output of `cat`.
fn line(caller: &mut Caller, text: &str) {
    caller.says(format!("{text}\r\n").as_bytes());
    caller.hears(text.as_bytes());
    caller.hears(text.as_bytes());
}

fn primitive<'a>(report: &'a Value, name: &str) -> &'a Value {
    let primitives = report["all"]["primitives"].as_array().unwrap();
    primitives.iter().find(|one| one["name"] == name).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn what_a_session_did_is_what_its_meters_say_while_it_runs() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let mut caller = server.session();
    let before = desk.report(&server);
    for count in 0..150 {
        line(&mut caller, &format!("line {count}"));
    }
    let after = desk.report(&server);
    let grown = |of: &dyn Fn(&Value) -> u64| of(&after) - of(&before);
    assert_eq!(grown(&|report| number(&report["all"]["transactions"])), 150);
    // Each line is read once and echoed at least once.
    assert!(grown(&|report| number(&primitive(report, "Telnet")["visits"])) >= 300);
    assert!(grown(&|report| number(&primitive(report, "system calls")["visits"])) >= 450);
    assert!(grown(&|report| number(&report["all"]["wakeups"])) >= 300);
    let hundred = &after["all"]["last_hundred"];
    assert_eq!(number(&hundred["transactions"]), 100);
    assert!(number(&hundred["wakeups"]) >= 200, "{hundred}");
    assert_eq!(after["pid"], server.program.id());
}

#[test]
fn the_accounts_of_a_report_add_up_to_its_total() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let _caller = server.session();
    let report = desk.report(&server);
    let primitives = report["all"]["primitives"].as_array().unwrap();
    let sum: u64 = primitives.iter().map(|one| number(&one["ns"])).sum();
    // Each value is rounded to a nanosecond separately.
    assert!(number(&report["all"]["total_ns"]).abs_diff(sum) <= 16, "{report}");
    let shares = primitives.iter().filter_map(|one| one["share"].as_f64());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{report}");
    assert!(primitive(&report, "wait")["share"].is_null());
}

#[test]
fn a_session_that_is_over_stays_in_the_sum() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let mut caller = server.session();
    line(&mut caller, "one more");
    drop(caller);
    let _other = server.session();
    let report = desk.report(&server);
    assert_eq!(number(&report["all"]["transactions"]), 1);
    let names: Vec<_> =
        report["groups"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["logins", "logins in cleartext"]);
}

// attack row 115
#[test]
fn one_who_asks_and_never_reads_does_not_hold_the_sessions() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let mut caller = server.session();
    let deaf: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(desk.socket(&server)).unwrap();
            stream.write_all(b"meters 1\n").unwrap();
            stream
        })
        .collect();
    line(&mut caller, "still here");
    assert_eq!(number(&desk.report(&server)["all"]["transactions"]), 1);
    drop(deaf);
}

#[test]
fn a_server_that_ends_takes_its_socket_along() {
    let desk = Desk::new();
    let mut server = Server::start(&desk, &[]);
    assert!(desk.socket(&server).exists());
    server.program.signal(Signal::TERM).unwrap();
    server.program.wait_for_end(std::time::Duration::from_secs(10)).unwrap();
    assert!(!desk.socket(&server).exists());
}

#[test]
fn the_socket_of_a_server_that_was_killed_is_swept_away_by_who_looks() {
    let desk = Desk::new();
    let mut server = Server::start(&desk, &[]);
    server.program.signal(Signal::KILL).unwrap();
    server.program.wait_for_end(std::time::Duration::from_secs(10)).unwrap();
    assert!(desk.socket(&server).exists());
    let output = desk.meters(&[&server.id()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(!desk.socket(&server).exists());
}

#[test]
fn where_several_run_they_are_listed_and_one_must_be_named() {
    let desk = Desk::new();
    let servers = [Server::start(&desk, &[]), Server::start(&desk, &[])];
    let output = desk.meters(&[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let for_a_program = desk.meters(&["--json"]);
    assert_eq!((for_a_program.status.code(), for_a_program.stdout.len()), (Some(2), 0));
    let listed = desk.meters(&["--list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let pids: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["pid"].clone()).collect();
    for server in &servers {
        assert!(pids.contains(&server.program.id().into()), "{listed}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&server.id()));
    }
}

#[test]
fn a_server_that_is_told_so_shows_no_meters() {
    let desk = Desk::new();
    let server = Server::start(&desk, &["--no-meters-socket"]);
    assert!(!desk.socket(&server).exists());
    assert_eq!(desk.meters(&[&server.id()]).status.code(), Some(3));
}

#[test]
fn a_pipe_gets_the_table_once() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let _caller = server.session();
    let output = desk.meters(&[&server.id()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("plumb serve, process {},", server.id())), "{text}");
    assert!(text.contains("\nsystem calls ") && text.contains("\nwait "), "{text}");
}

#[test]
fn a_person_watches_the_meters_and_leaves() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let mut caller = server.session();
    let mut command = desk.command(&["meters", &server.id(), "--every", "50ms"]);
    command.env("TERM", "xterm");
    let mut person = Person::running(command);
    person.sees("no transaction yet");
    line(&mut caller, "hello");
    person.sees("1 transactions:");
    person.types("q");
    assert_eq!(person.leaves().code(), Some(0));
    assert!(is_quiet(&desk.socket(&server)));
}

/// Returns whether a socket sends nothing to a client that has sent no request.
fn is_quiet(socket: &Path) -> bool {
    use std::io::Read;
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut answer = Vec::new();
    within_the_limit(|| stream.read_to_end(&mut answer).ok());
    answer.is_empty()
}

#[test]
fn each_command_of_ftp_is_a_transaction_and_a_file_that_is_sent_is_system_calls() {
    let desk = Desk::new();
    fs::write(desk.0.join("file"), [b'x'; 100_000]).unwrap();
    let root = desk.0.to_str().unwrap();
    let server =
        Server::start_with(&desk, &["--ftp", "--root", root, "--ftp-listen", "127.0.0.1:0"]);
    let url = format!("ftp://{}/file", server.at);
    let got = desk.command(&["get", "--no-record", &url, "-"]).output().unwrap();
    assert_eq!(got.stdout.len(), 100_000, "{got:?}");
    let report = desk.report(&server);
    assert_eq!(report["groups"][0]["name"], "FTP");
    // At least USER, EPSV and RETR, and the file, which may take a single call.
    assert!(number(&report["all"]["transactions"]) >= 3, "{report}");
    assert!(number(&primitive(&report, "application")["visits"]) >= 3);
    assert!(number(&primitive(&report, "system calls")["visits"]) >= 1);
}

#[test]
fn what_tls_takes_is_told_apart_from_the_system_calls_below_it() {
    let desk = Desk::new();
    fs::write(desk.0.join("file"), [b'x'; 100_000]).unwrap();
    let root = desk.0.to_str().unwrap();
    let server =
        Server::start_with(&desk, &["--ftp", "--root", root, "--ftp-listen", "127.0.0.1:0"]);
    let get = |scheme: &str| {
        let url = format!("{scheme}://{}/file", server.at);
        let got = desk.command(&["get", "--no-record", &url, "-"]).output().unwrap();
        assert_eq!(got.stdout.len(), 100_000, "{got:?}");
    };
    get("ftp");
    let clear = desk.report(&server);
    let names = |report: &Value| -> Vec<String> {
        let primitives = report["all"]["primitives"].as_array().unwrap();
        primitives.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!names(&clear).contains(&"encryption".to_owned()), "{clear}");
    get("ftpes");
    let secured = desk.report(&server);
    // The handshake, and each command after it.
    assert!(number(&primitive(&secured, "encryption")["visits"]) >= 5, "{secured}");
    assert!(number(&primitive(&secured, "encryption")["ns"]) > 0);
    get("ftpes");
    let again = desk.report(&server);
    assert!(number(&primitive(&again, "files")["visits"]) >= 1, "{again}");
    let calls = |report: &Value| number(&primitive(report, "system calls")["visits"]);
    assert!(calls(&secured) > calls(&clear));
}

/// Returns the report of a login to `server` after a line was typed and echoed.
fn report_of_login(desk: &Desk, server: &Server, words: &[&str]) -> Value {
    let port = server.at.port().to_string();
    let mut command = desk.command(&[&["login"], words].concat());
    command.env("TERM", "xterm");
    let mut person = Person::running(command);
    person.sees("Connected to");
    person.types("hello\r");
    person.sees("hello\nhello\n");
    let listed = desk.meters(&["--list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let login = listed.as_array().unwrap().iter().find(|one| {
        let command = one["command"].as_str().unwrap();
        command.starts_with("login ") && command.contains(&port)
    });
    let pid = login.unwrap_or_else(|| panic!("{listed}"))["pid"].to_string();
    let output = desk.meters(&[&pid, "--json"]);
    person.types("\x1dq\r");
    person.leaves();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_person_who_is_logged_in_has_meters_too() {
    let desk = Desk::new();
    let server = Server::start(&desk, &[]);
    let port = server.at.port().to_string();
    let report = report_of_login(&desk, &server, &["127.0.0.1", &port]);
    // The typed keys may arrive in one piece.
    assert!(number(&report["all"]["transactions"]) >= 1, "{report}");
    assert!(number(&primitive(&report, "terminal")["visits"]) >= 1);
    let primitives = report["all"]["primitives"].as_array().unwrap();
    assert!(primitives.iter().all(|one| one["name"] != "encryption"), "{report}");
}

#[test]
fn what_tls_takes_of_a_login_is_charged_to_encryption() {
    let desk = Desk::new();
    let server = Server::start_with(&desk, &["--listen-tls", "127.0.0.1:0", "--exec", "cat"]);
    let url = format!("telnets://{}", server.at);
    let report = report_of_login(&desk, &server, &[&url]);
    let encryption = primitive(&report, "encryption");
    // The handshake alone takes more visits than this, and each keystroke is encrypted in both
    // directions.
    assert!(number(&encryption["visits"]) >= 5, "{report}");
    assert!(encryption["share"].as_f64().unwrap() > 0.0, "{report}");
}
