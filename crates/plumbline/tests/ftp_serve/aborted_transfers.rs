//! Tests of transfers that are ended by a Synch, by an invalid local file or by the end of the server,
//! and of failed password checks.

use super::ftp_harness::{ControlConnection, Server, TestDirectories, pattern};
use rustix::net::SendFlags;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::thread;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

/// Sends a command after a Synch (RFC 959 §4.1.3: Telnet's IP, and DM as urgent data).
fn send_after_synch(line: &mut ControlConnection, command: &[u8]) {
    let stream = line.0.get_mut();
    rustix::net::send(&*stream, b"\xff\xf4\xff", SendFlags::OOB).unwrap();
    stream.write_all(&[b"\xf2", command, b"\r\n"].concat()).unwrap();
}

#[test]
fn a_synch_aborts_a_transfer_that_the_client_does_not_read() {
    let directories = TestDirectories::new();
    let file = fs::File::create(directories.remote_path("large")).unwrap();
    file.set_len(300 << 20).unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    for _ in 0..5 {
        let mut line = ControlConnection::logged_in(&server);
        line.send("TYPE I");
        let _unread = line.passive();
        assert_eq!(line.send("RETR large"), 150);
        send_after_synch(&mut line, b"ABOR");
        assert_eq!((line.read_reply(), line.read_reply()), (426, 226));
        assert_eq!(line.send("NOOP"), 200);
    }
}

#[test]
fn a_synch_without_a_transfer_is_answered() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    for _ in 0..20 {
        send_after_synch(&mut line, b"NOOP");
        assert_eq!(line.read_reply(), 200);
    }
}

#[test]
fn an_invalid_local_file_keeps_the_remote_one_and_is_not_retried() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("keep"), b"old").unwrap();
    // The last word has more than 36 bits.
    let words = [[0; 4605].as_slice(), &[0, 0, 0, 0, 0x10]].concat();
    fs::write(directories.local_path("bad"), words).unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let url = server.url("127.0.0.1", "keep");
    let output =
        directories.run_client(PLUMB, &["put", "--store", "c36", "--force", "bad", &url], "");
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !messages.contains("attempt"), "{messages}");
    assert_eq!(fs::read(directories.remote_path("keep")).unwrap(), b"old", "{messages}");
}

#[test]
fn parallel_segments_of_a_file_end_without_delay() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), pattern(3_000_000)).unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let url = server.url("127.0.0.1", "file");
    // If plumb waited for the timeout, it would take an hour, and the test would not finish.
    let words = ["get", "--segments", "3", "--timeout", "3600", &url, "came"];
    directories.run_client_ok(PLUMB, &words, "");
    assert!(fs::read(directories.local_path("came")).unwrap() == pattern(3_000_000));
}

fn anonymous_memory_kib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.program.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn password_checks_release_their_memory() {
    let directories = TestDirectories::new();
    let users = directories.local_path("users.toml");
    let hash = directories.run_client_ok(PLUMB, &["serve", "--hash-password"], "secret");
    let root = directories.remote_path("");
    let text = format!("[ann]\npassword = \"{}\"\nroot = \"{}\"\n", hash.trim(), root.display());
    fs::write(&users, text).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--ftp-listen", "127.0.0.1:0", "--ftp-users", users.to_str().unwrap()];
    let server = Server::start(&directories, &words);
    let before_kib = anonymous_memory_kib(&server);
    // Password checks for a single source address would run one after the other.
    let sources = (1..13).map(|host| std::net::Ipv4Addr::new(127, 0, 4, host));
    let mut lines: Vec<ControlConnection> =
        sources.map(|source| ControlConnection::from_address(source, &server)).collect();
    thread::scope(|scope| {
        for line in &mut lines {
            scope
                .spawn(|| assert_eq!((line.send("USER ann"), line.send("PASS guess")), (331, 530)));
        }
    });
    // Each password check uses 19 MiB of memory while it runs.
    let kept_kib = anonymous_memory_kib(&server).saturating_sub(before_kib);
    assert!(kept_kib < 16 * 1024, "{kept_kib} KiB");
}

#[test]
fn a_transfer_cut_by_the_end_of_the_server_is_logged_and_recorded_with_its_size() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("large"), pattern(40_000_000)).unwrap();
    let mut server =
        Server::configured(&directories, "rights = \"writable\"\nstop-grace-s = 0\n", &[]);
    let mut downloading = ControlConnection::logged_in(&server);
    downloading.send("TYPE I");
    let mut unread = downloading.passive();
    assert_eq!(downloading.send("RETR large"), 150);
    unread.read_exact(&mut [0; 6]).unwrap();
    let mut uploading = ControlConnection::logged_in(&server);
    let mut data = uploading.passive();
    assert_eq!(uploading.send("STOR file"), 150);
    data.write_all(b"a part").unwrap();
    server.program.signal(Signal::TERM).unwrap();
    let end = server.program.wait_for_end(net::time::Duration::from_secs(20)).unwrap();
    assert_eq!(end.unwrap().code(), Some(0));
    let line = server.wait_for_log("download of '/large' failed after ");
    assert!(line.ends_with(" bytes: the server stopped"), "{line}");
    let line = server.wait_for_log("upload of '/file' failed");
    assert!(line.ends_with(": the server stopped"), "{line}");
    server.wait_for_log(" s: the server stopped");
    let journal = directories.0.join("state/plumb/transfers/journal/00000001.jsonl");
    let records = fs::read_to_string(journal).unwrap();
    let aborted = records.lines().filter(|record| record.contains("\"aborted-by-user\""));
    assert_eq!(aborted.count(), 2, "{records}");
}
