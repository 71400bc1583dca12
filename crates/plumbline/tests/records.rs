//! The records of real transfers by `plumb serve`, `plumb get` and related commands, and their
//! evaluation by `plumb stats`.
//!
//! Each test has its own servers at random ports of 127.0.0.1, and its own directory: `there` for
//! the servers' files, `here` for downloads, and one directory of records for each side.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::within_the_limit;
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
use std::sync::{Arc, Mutex};
use std::thread;

/// The directories of a test.
struct Desk(PathBuf);

impl Desk {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("plumb-records-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(path);
        for folder in ["there", "here"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        Self(path)
    }

    fn there(&self, name: &str) -> PathBuf {
        self.0.join("there").join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(words).current_dir(self.0.join("here")).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.0.join("user")).env("HOME", self.0.join("here"));
        command
    }

    fn plumb(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs plumb, checks that it succeeds, and returns its standard output.
    fn done(&self, words: &[&str]) -> String {
        let output = self.plumb(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the records of a side, `user` or `server`.
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

    fn folder_of(&self, side: &str) -> String {
        self.0.join(side).join("plumb/transfers").display().to_string()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Server {
    program: Program,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(desk: &Desk, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["serve", "--writable", "--root"]).arg(desk.there("")).args(words);
        command.env("XDG_STATE_HOME", desk.0.join("server"));
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line));
        });
        Self { program, said }
    }

    fn ftp(desk: &Desk) -> (Self, String) {
        let server = Self::start(desk, &["--ftp", "--ftp-listen", "127.0.0.1:0"]);
        let place = server.place("serving FTP at ");
        (server, format!("ftp://{place}/"))
    }

    fn tftp(desk: &Desk) -> (Self, String) {
        let server = Self::start(desk, &["--tftp", "--tftp-listen", "127.0.0.1:0"]);
        let place = server.place("serving TFTP at ");
        (server, format!("tftp://{place}/"))
    }

    /// Waits for a line of the server's log that contains `text`, and returns it.
    fn says(&self, text: &str) -> String {
        within_the_limit(|| {
            self.said.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
        })
    }

    fn place(&self, text: &str) -> String {
        let line = self.says(text);
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
        let place = url.trim_start_matches("ftp://").trim_end_matches('/');
        let mut control = Self(BufReader::new(TcpStream::connect(place).unwrap()));
        control.hears();
        control.says("USER ftp");
        control.says("PASS a@b");
        control
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn says(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.hears()
    }

    fn passive(&mut self) -> TcpStream {
        let told = self.says("EPSV");
        let port = told.split('|').nth(3).unwrap().parse::<u16>().unwrap();
        TcpStream::connect(("127.0.0.1", port)).unwrap()
    }
}

fn number(record: &Value, name: &str) -> u64 {
    record[name].as_u64().unwrap_or_else(|| panic!("{name} is no number in {record}"))
}

#[test]
fn a_download_leaves_a_record_on_either_side_with_all_that_can_be_known() {
    let desk = Desk::new();
    fs::write(desk.there("file"), vec![7; 3_000_000]).unwrap();
    let (server, url) = Server::ftp(&desk);
    let told = desk.done(&["get", "--json", &format!("{url}file")]);
    server.end();
    let (user, server) = (desk.record("user"), desk.record("server"));
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), user);
    for record in [&user, &server] {
        assert_eq!(
            (record["command"].as_str(), record["type"].as_str()),
            (Some("RETR"), Some("I"))
        );
        assert_eq!((record["mode"].as_str(), record["stru"].as_str()), (Some("S"), Some("F")));
        assert_eq!((&record["outcome"], &record["reply_final"]), (&"complete".into(), &226.into()));
        assert_eq!((&record["user"], &record["auth_method"]), (&user["user"], &"anonymous".into()));
        assert_eq!((number(record, "file_bytes"), number(record, "bits")), (3_000_000, 24_000_000));
        assert_eq!((number(record, "wire_bytes"), number(record, "byte_size")), (3_000_000, 8));
        assert_eq!((number(record, "seq"), number(record, "streams")), (1, 1));
        for known in [
            "ns_login",
            "ns_cmd_to_150",
            "ns_data_connect",
            "ns_first_byte",
            "ns_transfer",
            "ns_total",
            "cpu_ns",
            "rtt_us",
            "snd_mss",
            "ncpu",
            "t_start_unix_ns",
            "t_start_boot_ns",
            "load1_hundredths",
        ] {
            number(record, known);
        }
        // The last byte may arrive after the reply, for example after a retransmission. The server
        // then has no time between the two.
        let is_behind_reply = record["ns_last_byte_to_226"].is_null();
        assert!(!is_behind_reply || record["role"] == "server", "{record}");
        assert_eq!(record["data_style"], "EPSV");
        assert!(record.get("account").is_none() && record.get("rfnms").is_none());
    }
    assert_eq!((&user["role"], &server["role"]), (&"user".into(), &"server".into()));
    assert_eq!((&user["path_requested"], &server["path_real"]), (&"file".into(), &"/file".into()));
    assert_eq!(user["data_local"], server["data_remote"]);
    assert_eq!(user["control_remote"], server["control_local"]);
    let again = number(&server, "bytes_retrans");
    assert_eq!(number(&server, "bytes_sent") - again, 3_000_000);
    number(&user, "ns_write_file");
    number(&user, "ns_wait_net");
}

#[test]
fn an_upload_in_tls_tells_what_was_agreed_and_how_long_the_disk_took() {
    let desk = Desk::new();
    fs::write(desk.0.join("here/up"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::ftp(&desk);
    let url = url.replace("ftp://", "ftpes://");
    desk.done(&["put", "up", &url]);
    server.end();
    let (user, server) = (desk.record("user"), desk.record("server"));
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
        number(record, "ns_data_tls");
        number(record, "ns_ctl_tls");
        assert!(number(record, "ns_crypto") > 0);
    }
    number(&server, "ns_wait_disk");
    number(&server, "ns_write_file");
    number(&user, "ns_read_file");
}

#[test]
fn words_of_36_bits_are_counted_as_words() {
    let desk = Desk::new();
    fs::write(desk.there("words"), vec![0x5a; 9_000]).unwrap();
    let (server, url) = Server::ftp(&desk);
    desk.done(&["get", "--type", "L36", "--store", "data8", &format!("{url}words")]);
    server.end();
    for side in ["user", "server"] {
        let record = desk.record(side);
        assert_eq!((&record["type"], number(&record, "byte_size")), (&"L".into(), 36));
        assert_eq!((number(&record, "words36"), number(&record, "bits")), (2_000, 72_000));
    }
    assert_eq!(number(&desk.record("user"), "file_bytes"), 16_000);
    assert_eq!(desk.record("user")["word_format"], "data8");
}

#[test]
fn ends_of_lines_and_records_are_counted_where_there_are_any() {
    let desk = Desk::new();
    fs::write(desk.there("text"), "one\ntwo\nthree\n").unwrap();
    let (server, url) = Server::ftp(&desk);
    let url = format!("{url}text");
    desk.done(&["get", "--type", "A", &url, "lines"]);
    desk.done(&["get", "--stru", "R", &url, "records"]);
    desk.done(&["get", "--mode", "B", &url, "blocks"]);
    desk.done(&["put", "--type", "A", "lines", &url.replace("text", "back")]);
    desk.done(&["get", &url, "image"]);
    server.end();
    for side in ["user", "server"] {
        let records = desk.records(side);
        let of = |name: &str| records.iter().map(|one| one[name].as_u64()).collect::<Vec<_>>();
        assert_eq!(of("crlf_conversions"), [Some(3), None, None, Some(3), None], "{side}");
        assert_eq!(of("records"), [None, Some(3), None, None, None], "{side}");
        // Block mode can carry restart markers; this transfer had none.
        assert_eq!(of("restart_markers"), [None, None, Some(0), None, None], "{side}");
    }
}

#[test]
fn the_restart_markers_of_a_sender_are_counted() {
    let desk = Desk::new();
    let (server, url) = Server::ftp(&desk);
    let mut control = Control::logged_in(&url);
    control.says("TYPE I");
    control.says("MODE B");
    let mut data = control.passive();
    control.says("STOR marked");
    // Two markers, "1" and "2", around a byte; the block with EOF follows the second.
    data.write_all(b"\x10\0\x011\0\0\x01x\x10\0\x012\x40\0\x01y").unwrap();
    drop(data);
    server.says("upload of '/marked'");
    server.end();
    assert_eq!(fs::read(desk.there("marked")).unwrap(), b"xy");
    assert_eq!(number(&desk.record("server"), "restart_markers"), 2);
}

#[test]
fn a_file_of_pieces_has_the_hash_by_which_it_was_compared() {
    let desk = Desk::new();
    fs::write(desk.there("file"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::ftp(&desk);
    desk.done(&["get", "--segments", "3", &format!("{url}file")]);
    desk.done(&["get", &format!("{url}file"), "whole"]);
    server.end();
    let records = desk.records("user");
    let sum = Command::new("sha256sum").arg(desk.there("file")).output().unwrap();
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    assert_eq!(records[0]["hash_alg"], "SHA-256");
    assert!(sum.starts_with(records[0]["hash"].as_str().unwrap()), "{sum}");
    assert!(records[1].get("hash").is_none());
}

#[test]
fn a_thread_that_moves_one_file_tells_how_often_it_waited_and_called_the_kernel() {
    let desk = Desk::new();
    fs::write(desk.there("large"), vec![7; 3_000_000]).unwrap();
    fs::write(desk.there("small"), "x").unwrap();
    let (server, url) = Server::ftp(&desk);
    desk.done(&["get", &format!("{url}large")]);
    desk.done(&["put", "large", &format!("{url}again")]);
    desk.done(&["get", &format!("{url}small")]);
    let in_tls = url.replace("ftp://", "ftpes://");
    desk.done(&["get", "-f", &format!("{in_tls}large")]);
    server.end();
    let records = desk.records("user");
    for record in &records[..2] {
        for known in ["vol_switches", "invol_switches", "syscalls", "cpu_ns"] {
            number(record, known);
        }
    }
    // Download: each call moves at most the capacity of a pipe. Upload: the kernel may move
    // everything in one call, and the next one finds the end.
    assert!(number(&records[0], "syscalls") >= 6 && number(&records[1], "syscalls") >= 2);
    // A small file has no thread of its own, and system calls are not counted in TLS.
    for name in ["vol_switches", "invol_switches"] {
        assert!(records[2].get(name).is_none());
    }
    assert!(records[3].get("syscalls").is_none());
    number(&records[3], "vol_switches");
    // The server sends both cleartext files with system calls of its own, in a thread shared by
    // many.
    let served = desk.records("server");
    let of = |path: &str, is_plain: bool| {
        let is_it =
            |one: &&Value| one["path_real"] == path && one.get("tls_version").is_none() == is_plain;
        served.iter().find(is_it).unwrap()
    };
    assert!(number(of("/large", true), "syscalls") >= 3);
    assert_eq!(number(of("/small", true), "syscalls"), 1);
    assert!(of("/large", false).get("syscalls").is_none());
    assert!(served.iter().all(|record| record.get("vol_switches").is_none()));
}

#[test]
fn lines_of_netascii_are_counted() {
    let desk = Desk::new();
    fs::write(desk.there("text"), "one\ntwo\n").unwrap();
    let (server, url) = Server::tftp(&desk);
    desk.done(&["get", &format!("{url}text;mode=netascii"), "text"]);
    desk.done(&["get", &format!("{url}text"), "octets"]);
    server.end();
    for side in ["user", "server"] {
        let records = desk.records(side);
        assert_eq!(number(&records[0], "crlf_conversions"), 2);
        assert!(records[1].get("crlf_conversions").is_none());
    }
}

#[test]
fn the_transfers_of_a_session_are_numbered_and_the_machine_stands_in_the_first_alone() {
    let desk = Desk::new();
    for name in ["a", "b", "c"] {
        fs::write(desk.there(name), name).unwrap();
    }
    let (server, url) = Server::ftp(&desk);
    desk.done(&["get", &format!("{url}?"), "."]);
    desk.done(&["ls", &url]);
    desk.done(&["cat", &format!("{url}a")]);
    server.end();
    let records = desk.records("user");
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
    // The pattern required a listing. It was not requested as a transfer, so only the server
    // records it.
    let served = desk.records("server");
    assert_eq!(served.iter().filter(|record| record["command"] == "MLSD").count(), 2);
}

#[test]
fn a_transfer_that_fails_is_recorded_with_its_outcome() {
    let desk = Desk::new();
    let (server, url) = Server::ftp(&desk);
    assert!(!desk.plumb(&["get", "--tries", "1", &format!("{url}missing")]).status.success());
    server.end();
    let user = desk.record("user");
    assert_eq!((&user["command"], &user["outcome"]), (&"RETR".into(), &"refused".into()));
    assert!(user["error"].as_str().unwrap().contains("missing"), "{user}");
    assert!(user.get("ns_transfer").is_none());
}

#[test]
fn what_a_server_refuses_is_told_from_what_breaks_and_a_chosen_name_is_recorded() {
    let desk = Desk::new();
    let (server, url) = Server::ftp(&desk);
    let mut control = Control::logged_in(&url);
    for command in ["RETR missing", "RETR /", "STOR no/folder/file", "NLST missing"] {
        assert!(control.says(command).starts_with("550 "), "{command}");
    }
    let data = control.passive();
    let told = control.says("STOU seed");
    drop(data);
    assert!(control.hears().starts_with("226 "));
    let chosen = told.trim_end().strip_prefix("150 FILE: ").unwrap().to_owned();
    assert!(desk.there(&chosen).exists(), "{told}");
    control.says("QUIT");
    server.end();
    let records = desk.records("server");
    assert!(records[..4].iter().all(|record| record["outcome"] == "refused"), "{records:?}");
    let stou = &records[4];
    assert_eq!((&stou["command"], &stou["outcome"]), (&"STOU".into(), &"complete".into()));
    assert_eq!(stou["path_real"], format!("/{chosen}"));
    assert_eq!(stou["path_requested"], "/seed");
}

#[test]
fn a_file_that_the_kernel_took_or_gave_by_one_call_has_no_time_on_its_way() {
    let desk = Desk::new();
    fs::write(desk.there("small"), [7; 4_000]).unwrap();
    fs::write(desk.there("large"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::ftp(&desk);
    let mut control = Control::logged_in(&url);
    control.says("TYPE I");
    for name in ["small", "large"] {
        let mut data = control.passive();
        assert!(control.says(&format!("RETR {name}")).starts_with("150 "));
        let mut got = Vec::new();
        data.read_to_end(&mut got).unwrap();
        assert!(control.hears().starts_with("226 "));
    }
    control.says("QUIT");
    server.end();
    let records = desk.records("server");
    let of = |path: &str| records.iter().find(|record| record["path_real"] == path).unwrap();
    assert!(of("/small").get("ns_transfer").is_none());
    number(of("/small"), "ns_total");
    assert!(number(of("/large"), "ns_transfer") > 0);
    assert_eq!(number(of("/large"), "bytes_acked") / 100_000, 1);
}

#[test]
fn tftp_leaves_its_blocks_and_windows_on_either_side() {
    let desk = Desk::new();
    fs::write(desk.there("file"), vec![7; 100_000]).unwrap();
    let (server, url) = Server::tftp(&desk);
    desk.done(&["get", &format!("{url}file")]);
    server.end();
    for side in ["user", "server"] {
        let record = desk.record(side);
        assert_eq!((&record["command"], &record["type"]), (&"TFTP-RRQ".into(), &"I".into()));
        assert_eq!(
            (number(&record, "file_bytes"), &record["outcome"]),
            (100_000, &"complete".into())
        );
        assert_eq!((number(&record, "block_bytes"), number(&record, "window_blocks")), (1428, 16));
        number(&record, "cpu_ns");
        number(&record, "ns_transfer");
    }
}

#[test]
fn nobody_who_wants_no_record_leaves_one() {
    let desk = Desk::new();
    fs::write(desk.there("file"), "x").unwrap();
    let words = ["--ftp", "--ftp-listen", "127.0.0.1:0", "--no-record"];
    let server = Server::start(&desk, &words);
    let place = server.place("serving FTP at ");
    desk.done(&["get", "--no-record", &format!("ftp://{place}/file")]);
    server.end();
    assert!(desk.records("user").is_empty() && desk.records("server").is_empty());
    let file = desk.0.join("serve.toml");
    fs::write(&file, "record = false\n[ftp]\nlisten = [\"127.0.0.1:0\"]\n").unwrap();
    let server = Server::start(&desk, &["--ftp", "--config", file.to_str().unwrap()]);
    let place = server.place("serving FTP at ");
    desk.done(&["get", "--no-record", "-f", &format!("ftp://{place}/file")]);
    server.end();
    assert!(desk.records("server").is_empty());
}

#[test]
fn a_journal_that_cannot_be_written_is_one_sentence_and_the_file_comes() {
    let desk = Desk::new();
    fs::write(desk.there("file"), "x").unwrap();
    // A file in the place of the directory.
    fs::create_dir_all(desk.0.join("user")).unwrap();
    fs::write(desk.0.join("user/plumb"), "").unwrap();
    let (server, url) = Server::ftp(&desk);
    let output = desk.plumb(&["get", "-q", &format!("{url}file")]);
    server.end();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("cannot record transfers in"), "{said}");
    assert_eq!(fs::read(desk.0.join("here/file")).unwrap(), b"x");
}

#[test]
fn stats_show_the_transfers_that_were_made_in_every_form() {
    let desk = Desk::new();
    fs::write(desk.there("file"), vec![7; 500_000]).unwrap();
    let (server, url) = Server::ftp(&desk);
    desk.done(&["get", &format!("{url}file")]);
    desk.done(&["put", "file", &format!("{url}copy")]);
    server.end();
    for side in ["user", "server"] {
        let folder = desk.folder_of(side);
        let json = desk.done(&["stats", "--folder", &folder, "list", "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["list"]["rows"].as_array().map(Vec::len).unwrap_or_default(), 2, "{json}");
        let csv = desk.done(&["stats", "--folder", &folder, "--csv", "list"]);
        assert_eq!(csv.lines().count(), 3, "{csv}");
        assert!(csv.contains("RETR") && csv.contains("STOR"), "{csv}");
        let log = desk.done(&["stats", "--folder", &folder, "--xferlog"]);
        let words: Vec<_> = log.lines().next().unwrap().split_whitespace().collect();
        assert_eq!((words.len(), words[7]), (18, "500000"), "{log}");
        assert!(log.lines().all(|line| line.ends_with(" c")), "{log}");
    }
}

// attack row 92
#[test]
fn a_name_with_a_newline_forges_no_record() {
    let desk = Desk::new();
    let forged = "a\u{85}\n{\"schema\":1,\"record_id\":\"00000000000000000000000000000001\"}";
    let (server, url) = Server::tftp(&desk);
    let place = url.trim_start_matches("tftp://").trim_end_matches('/').to_owned();
    let request = [b"\0\x01", forged.as_bytes(), b"\0octet\0"].concat();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    fs::write(desk.there("").join(Path::new(std::ffi::OsStr::from_bytes(forged.as_bytes()))), "x")
        .unwrap();
    socket.send_to(&request, place).unwrap();
    let mut answer = [0; 600];
    let (len, from) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(&answer[..len], b"\0\x03\0\x01x");
    socket.send_to(b"\0\x04\0\x01", from).unwrap();
    server.says("download of 'a");
    server.end();
    let record = desk.record("server");
    assert_eq!(record["command"], "TFTP-RRQ");
    let log = desk.done(&["stats", "--folder", &desk.folder_of("server"), "--xferlog"]);
    assert_eq!((log.lines().count(), log.split_whitespace().count()), (1, 18), "{log}");
}

#[test]
fn what_a_user_aborts_is_recorded_by_the_server() {
    let desk = Desk::new();
    let (server, url) = Server::ftp(&desk);
    let mut control = Control::logged_in(&url);
    control.says("TYPE I");
    let mut data = control.passive();
    control.says("STOR broken");
    data.write_all(b"half").unwrap();
    control.says("ABOR");
    server.says("aborted by the client");
    server.end();
    let record = desk.record("server");
    assert_eq!(
        (&record["command"], &record["outcome"]),
        (&"STOR".into(), &"aborted-by-user".into())
    );
    assert!(!desk.there("broken").exists());
}

/// Requests the metrics with `request`, and returns the whole response.
fn scrape(place: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";

fn with_metrics(desk: &Desk) -> (Server, String, String) {
    let words = ["--ftp", "--ftp-listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let server = Server::start(desk, &words);
    let place = server.place("serving metrics at http://").trim_end_matches("/metrics").to_owned();
    let url = format!("ftp://{}/", server.place("serving FTP at "));
    (server, url, place)
}

#[test]
fn the_metrics_count_transfers_bytes_sessions_and_logins() {
    let desk = Desk::new();
    fs::write(desk.there("file"), vec![7; 300_000]).unwrap();
    let (server, url, place) = with_metrics(&desk);
    desk.done(&["get", &format!("{url}file")]);
    desk.done(&["get", "-f", &format!("{url}file")]);
    assert!(!desk.plumb(&["get", "--tries", "1", &format!("{url}missing")]).status.success());
    let text = scrape(&place, SCRAPE);
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
    let desk = Desk::new();
    let (server, _, place) = with_metrics(&desk);
    let mut stream = TcpStream::connect(&place).unwrap();
    // The server may close the connection before all is written.
    _ = stream.write_all(&[b'a'; 20_000]);
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
    assert!(scrape(&place, SCRAPE).starts_with("HTTP/1.1 200 "));
    assert!(
        scrape(&place, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 ")
    );
    server.end();
}

#[test]
#[ignore = "needs prometheus_client"]
fn the_parser_of_prometheus_reads_the_metrics() {
    let desk = Desk::new();
    fs::write(desk.there("file"), vec![7; 300_000]).unwrap();
    let (server, url, place) = with_metrics(&desk);
    desk.done(&["get", &format!("{url}file")]);
    let program = "
import sys, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
text = urllib.request.urlopen('http://' + sys.argv[1] + '/metrics').read().decode()
for family in families(text):
    print(family.name, family.type, len(family.samples))
";
    let output = test_support::peers::PROMETHEUS_CLIENT
        .command()
        .args(["-c", program, &place])
        .output()
        .unwrap();
    server.end();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("plumb_transfers counter 1\n"), "{said}");
    assert!(said.contains("plumb_transfer_duration_seconds histogram 10\n"), "{said}");
}

#[test]
fn a_file_that_goes_to_a_pipe_is_written_into_it_and_the_pipe_stays() {
    let desk = Desk::new();
    fs::write(desk.there("file"), "content").unwrap();
    let pipe = desk.0.join("here/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let (server, url) = Server::ftp(&desk);
    let read = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    desk.done(&["get", "--force", &format!("{url}file"), "pipe"]);
    assert_eq!(read.join().unwrap(), b"content");
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    server.end();
}
