//! Tests of the records that `plumb serve`, `plumb get` and related commands write for real
//! transfers, and of their evaluation by `plumb stats`.
//!
//! Each test has its own servers at random ports of 127.0.0.1, and its own directory. The
//! subdirectory `there` has the servers' files, `here` the downloads, `user` the client's records,
//! and `server` the servers' records.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use os::process::Program;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use test_support::ProgramLog;

/// The directories of a test.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("plumb-records-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(path);
        for directory_path in ["there", "here"] {
            fs::create_dir_all(path.join(directory_path)).unwrap();
        }
        Self(path)
    }

    fn remote_path(&self, name: &str) -> PathBuf {
        self.0.join("there").join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(words).current_dir(self.0.join("here")).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.0.join("user")).env("HOME", self.0.join("here"));
        command.env_remove("COLUMNS");
        command
    }

    fn plumb(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs plumb, checks that it succeeds, and returns its standard output.
    fn run_ok(&self, words: &[&str]) -> String {
        let output = self.plumb(words);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {messages}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the records in the directory `side`, which is `user` or `server`.
    fn records(&self, side: &str) -> Vec<Value> {
        let journal = self.0.join(side).join("plumb/transfers/journal/00000001.jsonl");
        let text = fs::read_to_string(journal).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(&self, side: &str) -> Value {
        let mut records = self.records(side);
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    fn directory_of(&self, side: &str) -> String {
        self.0.join(side).join("plumb/transfers").display().to_string()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Server {
    program: Program,
    log: ProgramLog,
}

impl Server {
    fn start(directory: &TestDirectory, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["serve", "--writable", "--root"]).arg(directory.remote_path("")).args(words);
        command.env("XDG_STATE_HOME", directory.0.join("server"));
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let log = ProgramLog::read(program.child().stderr.take().unwrap());
        Self { program, log }
    }

    fn ftp(directory: &TestDirectory) -> (Self, String) {
        let server = Self::start(directory, &["--ftp", "--ftp-listen", "127.0.0.1:0"]);
        let address = server.address("serving FTP at ");
        (server, format!("ftp://{address}/"))
    }

    fn tftp(directory: &TestDirectory) -> (Self, String) {
        let server = Self::start(directory, &["--tftp", "--tftp-listen", "127.0.0.1:0"]);
        let address = server.address("serving TFTP at ");
        (server, format!("tftp://{address}/"))
    }

    /// Waits for a line of the server's log that contains `text`, and returns it.
    fn wait_for_log(&self, text: &str) -> String {
        self.log.wait_for(text)
    }

    fn address(&self, text: &str) -> String {
        let line = self.wait_for_log(text);
        line.split(text).nth(1).unwrap().split(", ").next().unwrap().to_owned()
    }

    /// Stops the server, which flushes all records.
    fn end(mut self) {
        self.program.signal(Signal::TERM).unwrap();
        assert!(self.program.child().wait().unwrap().success());
    }
}

/// A raw control connection, without a client program.
struct Control(BufReader<TcpStream>);

impl Control {
    fn logged_in(url: &str) -> Self {
        let address = url.trim_start_matches("ftp://").trim_end_matches('/');
        let mut control = Self(BufReader::new(TcpStream::connect(address).unwrap()));
        control.read_reply();
        control.send("USER ftp");
        control.send("PASS a@b");
        control
    }

    fn read_reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn send(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.read_reply()
    }

    fn passive(&mut self) -> TcpStream {
        let reply = self.send("EPSV");
        let port = reply.split('|').nth(3).unwrap().parse::<u16>().unwrap();
        TcpStream::connect(("127.0.0.1", port)).unwrap()
    }
}

fn number(record: &Value, name: &str) -> u64 {
    record[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {record}"))
}

#[test]
fn a_download_is_fully_recorded_by_client_and_server() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), vec![7; 3_000_000]).unwrap();
    let (server, url) = Server::ftp(&directory);
    let report = directory.run_ok(&["get", "--json", &format!("{url}file")]);
    server.end();
    let user = directory.record("user");
    let server = directory.record("server");
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap(), user);
    for record in [&user, &server] {
        assert_eq!(
            (record["command"].as_str(), record["type"].as_str()),
            (Some("RETR"), Some("I"))
        );
        assert_eq!((record["mode"].as_str(), record["structure"].as_str()), (Some("S"), Some("F")));
        assert_eq!((&record["outcome"], &record["final_reply"]), (&"complete".into(), &226.into()));
        assert_eq!((&record["user"], &record["auth_method"]), (&user["user"], &"anonymous".into()));
        assert_eq!((number(record, "file_bytes"), number(record, "bits")), (3_000_000, 24_000_000));
        assert_eq!((number(record, "wire_bytes"), number(record, "byte_size")), (3_000_000, 8));
        assert_eq!((number(record, "seq"), number(record, "streams")), (1, 1));
        for known in [
            "login_ns",
            "command_to_150_ns",
            "data_connect_ns",
            "first_byte_ns",
            "transfer_ns",
            "total_ns",
            "cpu_ns",
            "rtt_us",
            "snd_mss",
            "cpus",
            "start_unix_ns",
            "start_boot_ns",
            "load1_hundredths",
        ] {
            number(record, known);
        }
        // The last byte may be acknowledged after the reply, for example after a retransmission.
        // The server's record then has no time between the last byte and the reply.
        let has_acknowledgment_after_reply = record["last_byte_to_226_ns"].is_null();
        assert!(!has_acknowledgment_after_reply || record["role"] == "server", "{record}");
        assert_eq!(record["data_style"], "EPSV");
        assert!(record.get("account").is_none() && record.get("rfnms").is_none());
    }
    assert_eq!((&user["role"], &server["role"]), (&"user".into(), &"server".into()));
    assert_eq!((&user["path_requested"], &server["path_real"]), (&"file".into(), &"/file".into()));
    assert_eq!(user["data_local"], server["data_remote"]);
    assert_eq!(user["control_remote"], server["control_local"]);
    let retransmitted_bytes = number(&server, "bytes_retrans");
    assert_eq!(number(&server, "bytes_sent") - retransmitted_bytes, 3_000_000);
    number(&user, "file_write_ns");
    number(&user, "network_wait_ns");
}

#[test]
fn the_record_of_a_tls_upload_has_the_tls_parameters_and_the_disk_time() {
    let directory = TestDirectory::new();
    fs::write(directory.0.join("here/up"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::ftp(&directory);
    let url = url.replace("ftp://", "ftpes://");
    directory.run_ok(&["put", "up", &url]);
    server.end();
    let user = directory.record("user");
    let server = directory.record("server");
    for record in [&user, &server] {
        assert_eq!(
            (&record["command"], &record["tls_version"]),
            (&"STOR".into(), &"TLS 1.2".into())
        );
        assert!(record["tls_cipher"].as_str().unwrap().starts_with("TLS_ECDHE_"));
        assert_eq!(record["tls_resumed"], true);
        assert_eq!(
            (number(record, "file_bytes"), number(record, "wire_bytes")),
            (100_000, 100_000)
        );
        number(record, "data_tls_ns");
        number(record, "control_tls_ns");
        assert!(number(record, "crypto_ns") > 0);
    }
    number(&server, "disk_wait_ns");
    number(&server, "file_write_ns");
    number(&user, "file_read_ns");
}

#[test]
fn words_of_36_bits_are_counted_as_words() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("words"), vec![0x5a; 9_000]).unwrap();
    let (server, url) = Server::ftp(&directory);
    directory.run_ok(&["get", "--type", "L36", "--store", "data8", &format!("{url}words")]);
    server.end();
    for side in ["user", "server"] {
        let record = directory.record(side);
        assert_eq!((&record["type"], number(&record, "byte_size")), (&"L".into(), 36));
        assert_eq!((number(&record, "words_36bit"), number(&record, "bits")), (2_000, 72_000));
    }
    assert_eq!(number(&directory.record("user"), "file_bytes"), 16_000);
    assert_eq!(directory.record("user")["word_format"], "data8");
}

#[test]
fn line_and_record_ends_are_counted() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("text"), "one\ntwo\nthree\n").unwrap();
    let (server, url) = Server::ftp(&directory);
    let url = format!("{url}text");
    directory.run_ok(&["get", "--type", "A", &url, "lines"]);
    directory.run_ok(&["get", "--stru", "R", &url, "records"]);
    directory.run_ok(&["get", "--mode", "B", &url, "blocks"]);
    directory.run_ok(&["put", "--type", "A", "lines", &url.replace("text", "back")]);
    directory.run_ok(&["get", &url, "image"]);
    server.end();
    for side in ["user", "server"] {
        let records = directory.records(side);
        let values_of =
            |name: &str| records.iter().map(|one| one[name].as_u64()).collect::<Vec<_>>();
        assert_eq!(values_of("crlf_conversions"), [Some(3), None, None, Some(3), None], "{side}");
        assert_eq!(values_of("records"), [None, Some(3), None, None, None], "{side}");
        // Only block mode can carry restart markers, and this transfer had none.
        assert_eq!(values_of("restart_markers"), [None, None, Some(0), None, None], "{side}");
    }
}

#[test]
fn the_restart_markers_of_a_sender_are_counted() {
    let directory = TestDirectory::new();
    let (server, url) = Server::ftp(&directory);
    let mut control = Control::logged_in(&url);
    control.send("TYPE I");
    control.send("MODE B");
    let mut data = control.passive();
    control.send("STOR marked");
    // Two markers, "1" and "2", around a byte; the block with EOF follows the second.
    data.write_all(b"\x10\0\x011\0\0\x01x\x10\0\x012\x40\0\x01y").unwrap();
    drop(data);
    server.wait_for_log("upload of '/marked'");
    server.end();
    assert_eq!(fs::read(directory.remote_path("marked")).unwrap(), b"xy");
    assert_eq!(number(&directory.record("server"), "restart_markers"), 2);
}

#[test]
fn the_record_of_a_download_in_segments_has_the_hash_of_the_file() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::ftp(&directory);
    directory.run_ok(&["get", "--segments", "3", &format!("{url}file")]);
    directory.run_ok(&["get", &format!("{url}file"), "whole"]);
    server.end();
    let records = directory.records("user");
    let sum = Command::new("sha256sum").arg(directory.remote_path("file")).output().unwrap();
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    assert_eq!(records[0]["hash_algorithm"], "SHA-256");
    assert!(sum.starts_with(records[0]["hash"].as_str().unwrap()), "{sum}");
    assert!(records[1].get("hash").is_none());
}

#[test]
fn the_record_of_a_single_file_has_its_waits_and_system_calls() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("large"), vec![7; 3_000_000]).unwrap();
    fs::write(directory.remote_path("small"), "x").unwrap();
    let (server, url) = Server::ftp(&directory);
    directory.run_ok(&["get", &format!("{url}large")]);
    directory.run_ok(&["put", "large", &format!("{url}again")]);
    directory.run_ok(&["get", &format!("{url}small")]);
    let in_tls = url.replace("ftp://", "ftpes://");
    directory.run_ok(&["get", "-f", &format!("{in_tls}large")]);
    server.end();
    let records = directory.records("user");
    for record in &records[..2] {
        for known in ["voluntary_switches", "involuntary_switches", "syscalls", "cpu_ns"] {
            number(record, known);
        }
    }
    // Download: each call moves at most the capacity of a pipe. Upload: the kernel may move
    // everything in one call, and the next one finds the end.
    assert!(number(&records[0], "syscalls") >= 6 && number(&records[1], "syscalls") >= 2);
    // plumb starts no separate thread for a small file, and does not count system calls in TLS.
    for name in ["voluntary_switches", "involuntary_switches"] {
        assert!(records[2].get(name).is_none());
    }
    assert!(records[3].get("syscalls").is_none());
    number(&records[3], "voluntary_switches");
    // The server sends both cleartext files in a thread that many transfers share, and counts the
    // system calls of each transfer.
    let server_records = directory.records("server");
    let record_of = |path: &str, is_plain: bool| {
        let is_wanted = |record: &&Value| {
            record["path_real"] == path && record.get("tls_version").is_none() == is_plain
        };
        server_records.iter().find(is_wanted).unwrap()
    };
    assert!(number(record_of("/large", true), "syscalls") >= 3);
    assert_eq!(number(record_of("/small", true), "syscalls"), 1);
    assert!(record_of("/large", false).get("syscalls").is_none());
    assert!(server_records.iter().all(|record| record.get("voluntary_switches").is_none()));
}

#[test]
fn lines_of_netascii_are_counted() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("text"), "one\ntwo\n").unwrap();
    let (server, url) = Server::tftp(&directory);
    directory.run_ok(&["get", &format!("{url}text;mode=netascii"), "text"]);
    directory.run_ok(&["get", &format!("{url}text"), "octets"]);
    server.end();
    for side in ["user", "server"] {
        let records = directory.records(side);
        assert_eq!(number(&records[0], "crlf_conversions"), 2);
        assert!(records[1].get("crlf_conversions").is_none());
    }
}

#[test]
fn the_transfers_of_a_session_are_numbered_and_only_the_first_describes_the_machine() {
    let directory = TestDirectory::new();
    for name in ["a", "b", "c"] {
        fs::write(directory.remote_path(name), name).unwrap();
    }
    let (server, url) = Server::ftp(&directory);
    directory.run_ok(&["get", &format!("{url}?"), "."]);
    directory.run_ok(&["ls", &url]);
    directory.run_ok(&["cat", &format!("{url}a")]);
    server.end();
    let records = directory.records("user");
    let commands: Vec<_> =
        records.iter().map(|record| record["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["RETR", "RETR", "RETR", "MLSD", "RETR"]);
    let sequence: Vec<_> = records.iter().map(|record| number(record, "seq")).collect();
    assert_eq!(sequence, [1, 2, 3, 1, 1]);
    assert!(records[..3].iter().all(|record| record["session_id"] == records[0]["session_id"]));
    assert!(records[3]["session_id"] != records[0]["session_id"]);
    let has_machine = |record: &Value| record.get("kernel").is_some();
    let machines: Vec<_> = records.iter().map(has_machine).collect();
    assert_eq!(machines, [true, false, false, true, true]);
    // plumb requested a listing to expand the pattern. The user did not request this listing as a
    // transfer, so only the server records it.
    let server_records = directory.records("server");
    assert_eq!(server_records.iter().filter(|record| record["command"] == "MLSD").count(), 2);
}

#[test]
fn a_transfer_that_fails_is_recorded_with_its_outcome() {
    let directory = TestDirectory::new();
    let (server, url) = Server::ftp(&directory);
    assert!(!directory.plumb(&["get", "--tries", "1", &format!("{url}missing")]).status.success());
    server.end();
    let user = directory.record("user");
    assert_eq!((&user["command"], &user["outcome"]), (&"RETR".into(), &"refused".into()));
    assert!(user["error"].as_str().unwrap().contains("missing"), "{user}");
    assert!(user.get("transfer_ns").is_none());
}

#[test]
fn refused_and_failed_transfers_are_distinguished_and_a_server_chosen_name_is_recorded() {
    let directory = TestDirectory::new();
    let (server, url) = Server::ftp(&directory);
    let mut control = Control::logged_in(&url);
    for command in ["RETR missing", "RETR /", "STOR no/folder/file", "NLST missing"] {
        assert!(control.send(command).starts_with("550 "), "{command}");
    }
    let data = control.passive();
    let reply = control.send("STOU seed");
    drop(data);
    assert!(control.read_reply().starts_with("226 "));
    let chosen_name = reply.trim_end().strip_prefix("150 FILE: ").unwrap().to_owned();
    assert!(directory.remote_path(&chosen_name).exists(), "{reply}");
    control.send("QUIT");
    server.end();
    let records = directory.records("server");
    assert!(records[..4].iter().all(|record| record["outcome"] == "refused"), "{records:?}");
    let stou = &records[4];
    assert_eq!((&stou["command"], &stou["outcome"]), (&"STOU".into(), &"complete".into()));
    assert_eq!(stou["path_real"], format!("/{chosen_name}"));
    assert_eq!(stou["path_requested"], "/seed");
}

#[test]
fn a_file_transferred_by_one_system_call_has_no_transfer_time() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("small"), [7; 4_000]).unwrap();
    fs::write(directory.remote_path("large"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::ftp(&directory);
    let mut control = Control::logged_in(&url);
    control.send("TYPE I");
    for name in ["small", "large"] {
        let mut data = control.passive();
        assert!(control.send(&format!("RETR {name}")).starts_with("150 "));
        let mut received = Vec::new();
        data.read_to_end(&mut received).unwrap();
        assert!(control.read_reply().starts_with("226 "));
    }
    control.send("QUIT");
    server.end();
    let records = directory.records("server");
    let record_of = |path: &str| records.iter().find(|record| record["path_real"] == path).unwrap();
    assert!(record_of("/small").get("transfer_ns").is_none());
    number(record_of("/small"), "total_ns");
    assert!(number(record_of("/large"), "transfer_ns") > 0);
    assert_eq!(number(record_of("/large"), "bytes_acked") / 100_000, 1);
}

#[test]
fn tftp_blocks_and_windows_are_recorded_by_client_and_server() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::tftp(&directory);
    directory.run_ok(&["get", &format!("{url}file")]);
    server.end();
    for side in ["user", "server"] {
        let record = directory.record(side);
        assert_eq!((&record["command"], &record["type"]), (&"TFTP-RRQ".into(), &"I".into()));
        assert_eq!(
            (number(&record, "file_bytes"), &record["outcome"]),
            (100_000, &"complete".into())
        );
        assert_eq!((number(&record, "block_bytes"), number(&record, "window_blocks")), (1428, 16));
        number(&record, "cpu_ns");
        number(&record, "transfer_ns");
    }
}

#[test]
fn no_record_disables_recording() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), "x").unwrap();
    let words = ["--ftp", "--ftp-listen", "127.0.0.1:0", "--no-record"];
    let server = Server::start(&directory, &words);
    let address = server.address("serving FTP at ");
    directory.run_ok(&["get", "--no-record", &format!("ftp://{address}/file")]);
    server.end();
    assert!(directory.records("user").is_empty() && directory.records("server").is_empty());
    let file = directory.0.join("serve.toml");
    fs::write(&file, "record = false\n[ftp]\nlisten = [\"127.0.0.1:0\"]\n").unwrap();
    let server = Server::start(&directory, &["--ftp", "--config", file.to_str().unwrap()]);
    let address = server.address("serving FTP at ");
    directory.run_ok(&["get", "--no-record", "-f", &format!("ftp://{address}/file")]);
    server.end();
    assert!(directory.records("server").is_empty());
}

#[test]
fn an_unwritable_journal_is_reported_once_and_the_transfer_succeeds() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), "x").unwrap();
    // A file has the name of the directory for records.
    fs::create_dir_all(directory.0.join("user")).unwrap();
    fs::write(directory.0.join("user/plumb"), "").unwrap();
    let (server, url) = Server::ftp(&directory);
    let output = directory.plumb(&["get", "-q", &format!("{url}file")]);
    server.end();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && messages.lines().count() == 1, "{messages}");
    assert!(messages.contains("cannot record transfers in"), "{messages}");
    assert_eq!(fs::read(directory.0.join("here/file")).unwrap(), b"x");
}

#[test]
fn stats_print_the_recorded_transfers_in_every_format() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), vec![7; 500_000]).unwrap();
    let (server, url) = Server::ftp(&directory);
    directory.run_ok(&["get", &format!("{url}file")]);
    directory.run_ok(&["put", "file", &format!("{url}copy")]);
    server.end();
    for side in ["user", "server"] {
        let directory_path = directory.directory_of(side);
        let json = directory.run_ok(&["stats", "--folder", &directory_path, "list", "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["list"]["rows"].as_array().map(Vec::len).unwrap_or_default(), 2, "{json}");
        let csv = directory.run_ok(&["stats", "--folder", &directory_path, "--csv", "list"]);
        assert_eq!(csv.lines().count(), 3, "{csv}");
        assert!(csv.contains("RETR") && csv.contains("STOR"), "{csv}");
        let log = directory.run_ok(&["stats", "--folder", &directory_path, "--xferlog"]);
        let words: Vec<_> = log.lines().next().unwrap().split_whitespace().collect();
        assert_eq!((words.len(), words[7]), (18, "500000"), "{log}");
        assert!(log.lines().all(|line| line.ends_with(" c")), "{log}");
    }
}

#[test]
fn stats_print_one_line_per_transfer_in_a_pipe() {
    let directory = TestDirectory::new();
    let name = "a-long-name-".repeat(20);
    fs::write(directory.remote_path(&name), "x").unwrap();
    let (server, url) = Server::ftp(&directory);
    directory.run_ok(&["get", "-q", &format!("{url}{name}")]);
    server.end();
    let text = directory.run_ok(&["stats", "--folder", &directory.directory_of("user"), "list"]);
    // The title, the headings, a rule and the transfer.
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[3].contains("FTP get") && lines[3].ends_with(&name), "{text}");
}

// attack row 92
#[test]
fn a_name_with_a_newline_forges_no_record() {
    let directory = TestDirectory::new();
    let forged = "a\u{85}\n{\"schema\":1,\"record_id\":\"00000000000000000000000000000001\"}";
    let (server, url) = Server::tftp(&directory);
    let address = url.trim_start_matches("tftp://").trim_end_matches('/').to_owned();
    let request = [b"\0\x01", forged.as_bytes(), b"\0octet\0"].concat();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    fs::write(
        directory.remote_path("").join(Path::new(std::ffi::OsStr::from_bytes(forged.as_bytes()))),
        "x",
    )
    .unwrap();
    socket.send_to(&request, address).unwrap();
    let mut answer = [0; 600];
    let (len, from) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(&answer[..len], b"\0\x03\0\x01x");
    socket.send_to(b"\0\x04\0\x01", from).unwrap();
    server.wait_for_log("download of 'a");
    server.end();
    let record = directory.record("server");
    assert_eq!(record["command"], "TFTP-RRQ");
    let log =
        directory.run_ok(&["stats", "--folder", &directory.directory_of("server"), "--xferlog"]);
    assert_eq!((log.lines().count(), log.split_whitespace().count()), (1, 18), "{log}");
}

#[test]
fn a_transfer_aborted_by_the_client_is_recorded_by_the_server() {
    let directory = TestDirectory::new();
    let (server, url) = Server::ftp(&directory);
    let mut control = Control::logged_in(&url);
    control.send("TYPE I");
    let mut data = control.passive();
    control.send("STOR broken");
    data.write_all(b"half").unwrap();
    control.send("ABOR");
    server.wait_for_log("aborted by the client");
    server.end();
    let record = directory.record("server");
    assert_eq!(
        (&record["command"], &record["outcome"]),
        (&"STOR".into(), &"aborted-by-user".into())
    );
    assert!(!directory.remote_path("broken").exists());
}

/// Requests the metrics with `request`, and returns the whole response.
fn scrape(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";

fn with_metrics(directory: &TestDirectory) -> (Server, String, String) {
    let words = ["--ftp", "--ftp-listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let server = Server::start(directory, &words);
    let address =
        server.address("serving metrics at http://").trim_end_matches("/metrics").to_owned();
    let url = format!("ftp://{}/", server.address("serving FTP at "));
    (server, url, address)
}

#[test]
fn the_metrics_count_transfers_bytes_sessions_and_logins() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), vec![7; 300_000]).unwrap();
    let (server, url, address) = with_metrics(&directory);
    directory.run_ok(&["get", &format!("{url}file")]);
    directory.run_ok(&["get", "-f", &format!("{url}file")]);
    assert!(!directory.plumb(&["get", "--tries", "1", &format!("{url}missing")]).status.success());
    let text = scrape(&address, SCRAPE);
    server.end();
    for wanted in [
        "HTTP/1.1 200 OK\r\n",
        "plumb_transfers_total{command=\"RETR\",outcome=\"complete\"} 2\n",
        "plumb_bytes_total{direction=\"out\"} 600000\n",
        "plumb_sessions_total{protocol=\"ftp\"} 3\n",
        "plumb_logins_total{protocol=\"ftp\",result=\"accepted\"} 3\n",
        "plumb_transfer_duration_seconds_count ",
    ] {
        assert!(text.contains(wanted), "{wanted} {text}");
    }
}

#[test]
fn a_scrape_that_is_too_long_is_closed_and_others_are_answered() {
    let directory = TestDirectory::new();
    let (server, _, address) = with_metrics(&directory);
    let mut stream = TcpStream::connect(&address).unwrap();
    // The server may close the connection before all bytes are written.
    _ = stream.write_all(&[b'a'; 20_000]);
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
    assert!(scrape(&address, SCRAPE).starts_with("HTTP/1.1 200 "));
    assert!(
        scrape(&address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 ")
    );
    server.end();
}

#[test]
#[ignore = "needs prometheus_client"]
fn the_parser_of_prometheus_reads_the_metrics() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), vec![7; 300_000]).unwrap();
    let (server, url, address) = with_metrics(&directory);
    directory.run_ok(&["get", &format!("{url}file")]);
    let program = "
import sys, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
text = urllib.request.urlopen('http://' + sys.argv[1] + '/metrics').read().decode()
for family in families(text):
    print(family.name, family.type, len(family.samples))
";
    let output = test_support::peers::PROMETHEUS_CLIENT
        .command()
        .args(["-c", program, &address])
        .output()
        .unwrap();
    server.end();
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(messages.contains("plumb_transfers counter 1\n"), "{messages}");
    assert!(messages.contains("plumb_transfer_duration_seconds histogram 10\n"), "{messages}");
}

#[test]
fn a_download_to_a_pipe_is_written_into_it() {
    let directory = TestDirectory::new();
    fs::write(directory.remote_path("file"), "content").unwrap();
    let pipe = directory.0.join("here/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let (server, url) = Server::ftp(&directory);
    let read = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    directory.run_ok(&["get", "--force", &format!("{url}file"), "pipe"]);
    assert_eq!(read.join().unwrap(), b"content");
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    server.end();
}
